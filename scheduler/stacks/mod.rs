//! Stack exhaustion: what happens when there is no stack to be had.
//!
//! | | |
//! | --- | --- |
//! | `exhaustion`, `ledger` | starving workers: how tasks wait for, lend and give back stacks |
//! | `deadlock` | detects that all tasks wait for stacks, and picks the task that must fail |

pub(crate) mod deadlock;
pub(crate) mod exhaustion;
pub(crate) mod ledger;
