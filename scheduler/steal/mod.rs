//! A worker without work: its search for some, and its sleep.
//!
//! | | |
//! | --- | --- |
//! | `search` | over the other workers' queues, with requests to those whose tasks are private |
//! | `loot` | what a thief remembers of its last victim |
//! | `idle` | sleep, and who wakes whom |

pub(crate) mod idle;
pub(crate) mod loot;
pub(crate) mod search;
