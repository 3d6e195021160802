//! A task's life: how it is spawned, joined, and ends.
//!
//! | | |
//! | --- | --- |
//! | `spawn` | a record, its place in the tree and in a queue |
//! | `fork`, `fork_frame` | the second half of a join |
//! | `in_place` | a task that its joiner runs on its own stack |
//! | `external` | a task whose outcome comes from outside |
//! | `complete` | the end of a task, and of its parents |
//! | `scope_frame`, `root` | the nodes of the tree that are no tasks; `scope` opens and ends scopes |
//! | `ending` | the end of a runtime, as its workers see it |
//! | `rundown` | a door that closes, and learns who was the last to leave |

pub(crate) mod complete;
mod ending;
pub(crate) mod external;
pub(crate) mod fork;
pub(crate) mod fork_frame;
pub(crate) mod in_place;
pub(crate) mod root;
pub(crate) mod rundown;
pub(crate) mod scope;
pub(crate) mod scope_frame;
pub(crate) mod spawn;
