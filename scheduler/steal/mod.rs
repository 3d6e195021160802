//! A worker without work: its search for work, and its sleep.
//!
//! | | |
//! | --- | --- |
//! | `search` | searches the queues of the other workers, and requests private work |
//! | `stand_by` | how a worker waits that may not search |
//! | `tidy` | memory that a worker gives back on its way to rest |
//! | `topology` | which processors are near each other |
//! | `neighbours` | which workers are near each other |
//! | `loot` | the last loot of a thief, and its victim |
//! | `back` | a thief goes back to its victim without a search |
//! | `idle` | sleep and wake-ups |

mod back;
pub(crate) mod idle;
pub(crate) mod loot;
pub(crate) mod neighbours;
pub(crate) mod search;
mod stand_by;
mod tidy;
mod topology;
