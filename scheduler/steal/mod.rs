//! A worker without work: its search for some, and its sleep.
//!
//! | | |
//! | --- | --- |
//! | `search` | over the other workers' queues, with requests to those whose tasks are private |
//! | `loot`, `back` | what a thief remembers of its last victim, to which it goes back |
//! | `idle` | sleep, and who wakes whom |

mod back;
pub(crate) mod idle;
pub(crate) mod loot;
pub(crate) mod search;
