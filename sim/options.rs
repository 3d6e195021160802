//! Options of a simulation.

use crate::shim::{Bug, FAULTS, Fault};
use std::ops::Range;

/// Options of [`check`](super::check): a thousand seeds, unless set otherwise.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(super) seeds: Range<u64>,
    pub(super) preemptions: Option<usize>,
    pub(super) most_runs: usize,
    pub(super) most_steps: u64,
    pub(super) faults: Faults,
    pub(super) bug: Option<Bug>,
}

default! { impl Options }

impl Options {
    /// The defaults: a thousand seeds, at most a million steps each, and no faults.
    pub fn new() -> Options {
        Options {
            seeds: 0..1_000,
            preemptions: None,
            most_runs: 10_000,
            most_steps: 1_000_000,
            faults: Faults::default(),
            bug: None,
        }
    }

    /// Adds systematic runs after the random ones: each schedule with at most `preemptions`
    /// preemptions, up to `most_runs` runs.
    ///
    /// A preemption leaves a thread that could go on. Schedules with fewer choices come first. This
    /// is for small programs: of a thousand steps there are some thousand runs with one preemption,
    /// and a million with two.
    pub fn preemptions(self, preemptions: usize, most_runs: usize) -> Options {
        Options { preemptions: Some(preemptions), most_runs, ..self }
    }
}

setters! {
    impl Options;

    /// Sets the seeds of the random runs, one run per seed.
    pub fn seeds(seeds: Range<u64>) => seeds;

    /// Fails a run that takes more steps than this, because it seems not to end.
    pub fn most_steps(most_steps: u64) => most_steps;

    /// Sets the faults of each run.
    pub fn faults(faults: Faults) => faults;

    /// Plants a fault in the library, for tests of the simulation, which must find it.
    #[doc(hidden)]
    pub fn bug(bug: Bug) => Some(bug);
}

/// Faults, and how often each happens: a share of the times that it could happen. There are none by
/// default.
#[derive(Clone, Default, Debug)]
#[must_use]
pub struct Faults {
    pub(super) rates: [u16; FAULTS],
}

macro_rules! faults {
    ($($(#[$attribute:meta])* $name:ident: $fault:ident;)*) => {$(
        $(#[$attribute])*
        ///
        /// # Panics
        /// If the share is not between 0 and 1.
        pub fn $name(mut self, share: f64) -> Faults {
            assert!((0.0..=1.0).contains(&share), "cygnet: fault rate {share} is not in 0..=1");
            self.rates[Fault::$fault as usize] = (share * f64::from(u16::MAX)) as u16;
            self
        }
    )*};
}

impl Faults {
    /// No faults.
    pub fn new() -> Faults {
        Faults::default()
    }

    faults! {
        /// A thief finds nothing, although there is something to steal.
        steal: Steal;
        /// A parked thread wakes up without having been unparked.
        spurious_unpark: SpuriousUnpark;
        /// A woken thread goes on late, by up to a millisecond.
        late_wake: LateWake;
        /// A thread, whether a worker or not, stalls at a step for up to ten milliseconds.
        stall: Stall;
        /// There is no memory for a stack.
        stack: Stack;
        /// The allocator has no memory for the records of a task. The library frees memory that it
        /// keeps for later and asks again; the second request succeeds.
        allocation: Allocation;
        /// The system refuses a thread for blocking calls: [`blocking`](crate::blocking) waits for
        /// another thread, or makes the call itself.
        thread: Thread;
        /// The clock jumps forward at a step, by up to a second.
        clock: Clock;
    }
}
