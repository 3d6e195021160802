//! A task's life: how it is spawned, joined, and ends.
//!
//! | | |
//! | --- | --- |
//! | `spawn` | a record, its place in the tree and in a queue |
//! | `fork` | the second half of a join |
//! | `in_place` | a task that its joiner runs on its own stack |
//! | `external` | a task whose outcome comes from outside |
//! | `complete` | the end of a task, and of its parents |
//! | `scope`, `root` | the nodes of the tree that are no tasks |
//! | `rundown` | the end of a runtime waits for calls into it |

pub(crate) mod complete;
pub(crate) mod external;
pub(crate) mod fork;
pub(crate) mod in_place;
pub(crate) mod root;
pub(crate) mod rundown;
pub(crate) mod scope;
pub(crate) mod spawn;
