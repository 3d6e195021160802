//! How a task waits.
//!
//! | | |
//! | --- | --- |
//! | `park`, `resume` | one task leaves its stack; it is woken, and goes to the queue of its home |
//! | `interrupted` | why a wait was cut short |
//! | `waiters` | the list of those who wait for a primitive: tasks, threads and futures |
//! | `waker`, `watching` | tasks that poll futures; futures that wait for the end of a task |
//! | `blocking_wait` | a wait where no other task may run: in an unwinding, or in a section of `no_suspend` |
//! | `isolate`, `isolations` | a wait during which nothing but descendants may run |

pub(crate) mod blocking_wait;
pub(crate) mod interrupted;
pub(crate) mod isolation;
pub(crate) mod isolations;
pub(crate) mod no_suspend;
pub(crate) mod park;
pub(crate) mod resume;
pub(crate) mod waiters;
pub(crate) mod waker;
pub(crate) mod watching;
