//! Simulation: runs a program on one thread, where a seed decides which thread runs, to find rare
//! failures and to repeat them.
//!
//! [`check`] runs a test many times, each time with another order of events, until a run fails: it
//! panics, deadlocks, or seems not to end. The report says what happened, and by which seed. With
//! that seed in the environment variable `CYGNET_SIM_SEED`, the very same run is repeated, in this
//! process or in another one, and the report then adds the test's own lines to the library's. (This
//! needs line numbers in the program. A release build has them with `debug = "line-tables-only"` in
//! its profile.)
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
//! Everything that the library does: the workers of each [`Runtime`](crate::Runtime) that the test
//! makes, its threads for blocking calls, its locks and its timers. The simulation runs the same
//! code as a real program. Workers are *virtual threads* of the one OS thread that calls [`check`].
//! The simulation may switch to another virtual thread at each access to an atomic or a lock inside
//! the library, and at each call of the library that waits or yields. It interrupts the test's own
//! code nowhere else.
//!
//! The clock is virtual, and [`now`] reads it. A sleep of a year takes no real time. The test's own
//! code takes no virtual time, with two exceptions: [`compute`], and the items of a long loop of
//! [`par`](crate::par), except for the first and the last items. The seed says how long such items
//! take.
//!
//! # What is not simulated
//!
//! * *Threads that the test starts itself.* Start them by [`thread`], which makes virtual ones. If
//!   a real thread calls an object of the simulation, for instance to wake a waiter or to unlock,
//!   it panics there.
//! * *Waits outside the library.* A lock of `std` that is held over a suspension, or any other call
//!   that waits for another virtual thread, blocks the one OS thread and so the whole simulation.
//!   After ten seconds without a step, a watchdog prints where this happened, and aborts the
//!   process.
//! * *Thread-locals of the test.* All virtual threads share them. The library's thread-locals are
//!   kept apart, and so is whether a thread is panicking.
//! * *Real time and real randomness.* A program that uses them (`Instant::now`, the order of a
//!   `HashMap`) runs differently each time, and a seed does not repeat a run.
//! * *Weak memory.* Accesses are seen in the order in which they happen.
//! * *The machine.* A [`Runtime`](crate::Runtime) gets four workers unless it is told otherwise,
//!   and none is bound to a core. So a seed means the same on each machine. It does not mean the
//!   same for another build of the program: a build with debug assertions takes other steps than
//!   one without.
//! * *Runtimes and values from outside the run*, such as a `static` runtime. Everything that is
//!   made in a run must end in it. A thread of a real runtime that wakes a virtual thread panics.
//! * *Values that a failed run leaves.* Its stacks are leaked, with all values on them.

mod calls;
mod explore;
mod machine;
mod options;
mod report;
pub mod thread;
mod watchdog;

#[doc(hidden)]
pub use crate::shim::Bug;

pub use crate::scheduler::simulation::{LostTime, Measured, Reason, Run, ThreadTimes};
pub use explore::{check, explore, run};
pub use machine::Machine;
pub use options::{Faults, Options};
pub use report::{Explored, Failed};

use std::time::{Duration, Instant};

/// Returns the current time. Inside a simulation this is the virtual clock, to which all instants
/// that are passed to the library refer; elsewhere it is [`Instant::now`].
#[must_use]
pub fn now() -> Instant {
    crate::shim::time::now()
}

/// Computes for `time`.
///
/// In a simulation this advances the virtual clock, and other threads may run. On a [`Machine`] the
/// calling thread's core is busy for this time. Outside a simulation the call spins for this time,
/// so the same program can be measured on a real machine.
///
/// # Panics
/// If `time` exceeds a year.
#[track_caller]
pub fn compute(time: Duration) {
    const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
    assert!(time <= YEAR, "cygnet: sim::compute({time:?}): a computation must not exceed a year");
    crate::shim::time::compute(time);
}
