//! A task as the other layers see it: its record, its words, its place in the tree, its outcome.
//!
//! | module | |
//! | --- | --- |
//! | `record` | the task record: references, access to the fields, phases, the claim |
//! | `reference` | references to a record, as types |
//! | `cell` | the typed part of a record: the closure, later the outcome |
//! | `outcome` | the outcome of a task, and payloads of panics |
//! | `words` | the wait word, the join word, the tree word; each begins with its protocol |
//! | `children` | the lists of children, and the walk of a cancel |
//! | `cold` | data that most nodes never have |
//! | `cause` | the reasons of a cancel |
//! | `attachment` | a value that a layer above attaches to a node or a runtime |
//! | `thread_waiter` | the waiter of a plain thread |
//! | `models` | loom models |

pub(crate) mod attachment;
pub(crate) mod cause;
pub(crate) mod cell;
pub(crate) mod children;
pub(crate) mod cold;
#[cfg(all(test, loom))]
pub(crate) mod models;
pub(crate) mod outcome;
pub(crate) mod record;
pub(crate) mod reference;
pub(crate) mod thread_waiter;
pub(crate) mod words;
