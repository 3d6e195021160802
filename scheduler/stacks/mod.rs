//! What happens when there is no stack to be had.
//!
//! | | |
//! | --- | --- |
//! | `exhaustion`, `ledger` | who waits for a stack, lends one and gives it back |
//! | `deadlock` | who has to fail, if all wait for each other |

pub(crate) mod deadlock;
pub(crate) mod exhaustion;
pub(crate) mod ledger;
