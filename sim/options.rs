//! Options of a simulation.

use crate::scheduler::simulation::FaultRates;
use crate::shim::Bug;
use std::ops::Range;

/// Options of [`check`](super::check): a thousand seeds, unless set otherwise.
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) seeds: Range<u64>,
    pub(super) preemptions: Option<usize>,
    pub(super) most_runs: usize,
    pub(super) most_steps: u64,
    pub(super) faults: Faults,
    pub(super) bug: Option<Bug>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seeds: 0..1_000,
            preemptions: None,
            most_runs: 10_000,
            most_steps: 1_000_000,
            faults: Faults::default(),
            bug: None,
        }
    }
}

impl Options {
    /// The defaults: a thousand seeds, at most a million steps each, and no faults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets the seeds of the random runs, one run per seed.
    #[must_use]
    pub fn seeds(self, seeds: Range<u64>) -> Options {
        Options { seeds, ..self }
    }

    /// Adds systematic runs after the random ones: each schedule with at most `preemptions`
    /// preemptions, up to `most_runs` runs.
    ///
    /// A preemption leaves a thread that could go on. Schedules with fewer choices come first. This
    /// is for small programs: of a thousand steps there are some thousand runs with one preemption,
    /// and a million with two.
    #[must_use]
    pub fn preemptions(self, preemptions: usize, most_runs: usize) -> Options {
        Options { preemptions: Some(preemptions), most_runs, ..self }
    }

    /// Fails a run that takes more steps than this, because it seems not to end.
    #[must_use]
    pub fn most_steps(self, most_steps: u64) -> Options {
        Options { most_steps, ..self }
    }

    /// Sets the faults of each run.
    #[must_use]
    pub fn faults(self, faults: Faults) -> Options {
        Options { faults, ..self }
    }

    /// Plants a fault in the library, for tests of the simulation, which must find it.
    #[doc(hidden)]
    #[must_use]
    pub fn bug(self, bug: Bug) -> Options {
        Options { bug: Some(bug), ..self }
    }
}

/// Faults, and how often each happens: a share of the times that it could happen. There are none by
/// default.
#[derive(Clone, Default, Debug)]
pub struct Faults {
    pub(super) rates: FaultRates,
}

macro_rules! faults {
    ($($(#[$attribute:meta])* $name:ident;)*) => {$(
        $(#[$attribute])*
        ///
        /// # Panics
        /// If the share is not between 0 and 1.
        #[must_use]
        pub fn $name(mut self, share: f64) -> Faults {
            assert!((0.0..=1.0).contains(&share), "cygnet: fault rate {share} is not in 0..=1");
            self.rates.$name = (share * f64::from(u16::MAX)) as u16;
            self
        }
    )*};
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn new() -> Faults {
        Faults::default()
    }

    faults! {
        /// A thief finds nothing, although there is something to steal.
        steal;
        /// A parked thread wakes up without having been unparked.
        spurious_unpark;
        /// A woken thread goes on late, by up to a millisecond.
        late_wake;
        /// A thread, whether a worker or not, stalls at a step for up to ten milliseconds.
        stall;
        /// There is no memory for a stack.
        stack;
        /// The allocator has no memory for the records of a task. The library frees memory that it
        /// keeps for later and asks again; the second request succeeds.
        allocation;
        /// The system refuses a thread for blocking calls: [`blocking`](crate::blocking) waits for
        /// another thread, or makes the call itself.
        thread;
        /// The clock jumps forward at a step, by up to a second.
        clock;
    }
}
