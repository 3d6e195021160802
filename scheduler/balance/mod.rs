//! Which worker starts a task, where it matters.
//!
//! | | |
//! | --- | --- |
//! | `spread` | a worker that has too many tasks stands back from new ones |
//! | `crowd` | even shares of the tasks that wait before they compute |
//! | `habits` | which tasks do: what is remembered of each place of the source that spawns |

pub(crate) mod crowd;
pub(crate) mod habits;
pub(crate) mod spread;
