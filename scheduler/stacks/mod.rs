//! Stack exhaustion: what happens when there is no stack to be had.
//!
//! | | |
//! | --- | --- |
//! | `exhaustion` | starving workers: how tasks wait for stacks, exceed the limit, or fail |
//! | `awaited` | finds the waits for the end of a fresh task |
//! | `ledger` | the starving workers and the stacks beyond the limit |

pub(crate) mod awaited;
pub(crate) mod exhaustion;
pub(crate) mod ledger;
