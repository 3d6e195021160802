//! Programs on one thread, where a seed decides who runs: to find what goes wrong once in a million times, and to see it again.
//!
//! [`check`] runs a test many times, each time with another order of events, until it fails: it panics, somebody waits for ever, or it does not come to
//! an end. It then says what has happened, and by which seed; with that in the environment variable `CYGNET_SIM_SEED` the very same run
//! comes again, in this process or in another one, and the report then has the test's own lines beside the library's. (Those need line
//! numbers in the program, which a release has with `debug = "line-tables-only"` in its profile.)
//!
//! ```should_panic
//! use cygnet::sim;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::sync::Arc;
//!
//! sim::check(&sim::Options::new(), || {
//!     let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
//!     let visits = Arc::new(AtomicU32::new(0));
//!     let visit = || {
//!         let visits = Arc::clone(&visits);
//!         cygnet::spawn(move || {
//!             let before = visits.load(Ordering::Relaxed);
//!             cygnet::yield_now().unwrap();
//!             visits.store(before + 1, Ordering::Relaxed);
//!         })
//!     };
//!     rt.block_on(|| [visit(), visit()].map(|visit| visit.join().unwrap()));
//!     assert_eq!(visits.load(Ordering::Relaxed), 2, "a visit was not counted");
//! });
//! ```
//!
//! # What is simulated
//!
//! All that the library does: the workers of each [`Runtime`](crate::Runtime) that the test makes, its threads for blocking calls, its locks and its
//! timers, in the very code that runs elsewhere. Workers are *virtual threads* of the one OS thread that calls [`check`]. Another one may go on at each access to
//! an atomic or a lock inside the library, and at each call of it that waits or gives way; the test's own code is interrupted nowhere else. The clock is virtual: a sleep of a year takes no
//! time, and of what the test computes only the items of a long loop of [`par`](crate::par) do, all but the first and the last ones, each as much as the seed says. [`now`] reads it.
//!
//! # What is not
//!
//! * *Threads that the test starts itself.* Start them by [`thread`], which makes virtual ones. What a real one calls of the simulation's objects panics there: a
//!   wake-up, an unlock.
//! * *Waits that are not the library's.* A lock of `std`'s that is held over a suspension, or any other call that waits for another virtual thread, blocks the
//!   one OS thread, and so all. After ten seconds without a step a watchdog says so, and where, and ends the process.
//! * *Thread-locals of the test.* All virtual threads share them. Those of the library are kept apart, and so is whether a
//!   thread is panicking.
//! * *Real time and real randomness.* A program that asks for them (`Instant::now`, the order of a `HashMap`) runs differently each time, and a seed does
//!   not bring the same run again.
//! * *Weak memory.* Accesses are seen in the order in which they happen.
//! * *The machine.* A [`Runtime`](crate::Runtime) that is not told how many workers it has gets four, and none is bound to a core. So a seed means the same on each
//!   machine; not for another build of the program, though: one with debug assertions takes other steps than one without.
//! * *Runtimes and values from outside of the run*, such as a `static` runtime. What is made in a run has to end in it; a thread of a real runtime that wakes a
//!   virtual one panics.
//! * *Values that a failed run has left.* Its stacks are leaked, with all that lies on them.

mod calls;
mod explore;
mod machine;
mod options;
mod report;
pub mod thread;
mod watchdog;

#[doc(hidden)]
pub use crate::shim::Bug;
pub use explore::{check, explore, run};
pub use machine::{LostTime, Machine, Measured, ThreadTimes};
pub use options::{Faults, Options};
pub use report::{Explored, Failed, Reason, Run};

use std::time::{Duration, Instant};

/// The present: virtual inside a simulation, where all instants that the library is told are on that clock; elsewhere [`Instant::now`].
#[must_use]
pub fn now() -> Instant {
    crate::shim::time::now()
}

/// Computes for `time`.
///
/// In a simulation this advances the virtual clock, and other threads may run. On a [`Machine`] the
/// calling thread's core is busy for so long. Outside a simulation it spins for so long, so the same
/// program can be measured on a real machine.
///
/// # Panics
/// If `time` exceeds a year.
#[track_caller]
pub fn compute(time: Duration) {
    const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
    assert!(time <= YEAR, "cygnet: sim::compute({time:?}): a computation must not exceed a year");
    crate::shim::time::compute(time);
}
