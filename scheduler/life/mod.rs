//! A task's life: how it is spawned, joined, and ends.
//!
//! | file | contents |
//! | --- | --- |
//! | `spawn` | a record, its place in the tree and in a queue |
//! | `fork`, `fork_frame` | the second half of a `join` |
//! | `in_place` | a task that its joiner starts itself |
//! | `external` | a task with an outcome that comes from outside |
//! | `complete` | the end of a task, and of its parents |
//! | `live_node` | a node that has not ended, as a type |
//! | `scope_frame`, `root` | nodes that are no tasks; `scope` opens and ends scopes |
//! | `ending` | the end of a runtime, as its workers see it |
//! | `rundown` | a gate that closes, and detects the last party to leave |

pub(crate) mod complete;
mod ending;
pub(crate) mod external;
pub(crate) mod fork;
pub(crate) mod fork_frame;
pub(crate) mod in_place;
pub(crate) mod live_node;
pub(crate) mod root;
pub(crate) mod rundown;
pub(crate) mod scope;
pub(crate) mod scope_frame;
pub(crate) mod spawn;
