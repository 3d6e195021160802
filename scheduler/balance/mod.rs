//! Which worker starts a task, where it matters.
//!
//! | | |
//! | --- | --- |
//! | `spread`, `standing_back` | a worker that has too many tasks stands back from new ones |
//! | `census`, `crowd` | even shares of the tasks that wait before they compute |
//! | `habits` | which tasks do so: statistics for each spawn place |
//! | `state` | the state that a worker keeps for all this |

pub(crate) mod census;
pub(crate) mod crowd;
pub(crate) mod habits;
pub(crate) mod spread;
pub(crate) mod standing_back;
pub(crate) mod state;
