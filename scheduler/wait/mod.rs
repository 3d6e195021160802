//! How a task waits.
//!
//! | module | contents |
//! | --- | --- |
//! | `park`, `resume` | suspending a task; queueing a woken task at its home worker |
//! | `end` | waits for the end of a task |
//! | `interrupted` | why a wait was cut short |
//! | `waiters` | the wait list of a primitive, for tasks, threads and futures |
//! | `waker` | wakers for tasks that poll futures |
//! | `watching` | hooks that are hung on a task or scope by means of a handle |
//! | `no_suspend` | sections in which a task must not suspend |
//! | `blocking_wait` | structured waits during unwinding or in `no_suspend` |
//! | `isolation`, `isolations` | waits during which a worker runs only descendants |

pub(crate) mod blocking_wait;
pub(crate) mod end;
pub(crate) mod interrupted;
pub(crate) mod isolation;
pub(crate) mod isolations;
pub(crate) mod no_suspend;
pub(crate) mod park;
pub(crate) mod resume;
pub(crate) mod waiters;
pub(crate) mod waker;
pub(crate) mod watching;
