//! How a test is simulated.

use crate::scheduler::simulation::FaultRates;
use crate::shim::Bug;
use std::ops::Range;

/// How [`check`](super::check) runs a test: with a thousand seeds, unless it is told otherwise.
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
    /// A thousand seeds, a million steps each at most, without faults.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Runs at random, one for each seed.
    #[must_use]
    pub fn seeds(self, seeds: Range<u64>) -> Options {
        Options { seeds, ..self }
    }

    /// After those at random: each run in which threads are left at most `preemptions` times although they could go on, beginning with those with the fewest, until there have been
    /// `most_runs`. Small programs have few: of a thousand steps there are some thousand runs with one preemption, and a million with two.
    #[must_use]
    pub fn preemptions(self, preemptions: usize, most_runs: usize) -> Options {
        Options { preemptions: Some(preemptions), most_runs, ..self }
    }

    /// A run with more steps has failed: it seems not to come to an end.
    #[must_use]
    pub fn most_steps(self, most_steps: u64) -> Options {
        Options { most_steps, ..self }
    }

    /// What goes wrong in each run.
    #[must_use]
    pub fn faults(self, faults: Faults) -> Options {
        Options { faults, ..self }
    }

    /// The library has this mistake. For tests of the simulation, which has to find it.
    #[doc(hidden)]
    #[must_use]
    pub fn bug(self, bug: Bug) -> Options {
        Options { bug: Some(bug), ..self }
    }
}

/// What goes wrong, and how often: shares of the times that it could. Nothing, unless it is asked for.
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
            assert!((0.0..=1.0).contains(&share), "cygnet: {share} is no share");
            self.rates.$name = (share * f64::from(u16::MAX)) as u16;
            self
        }
    )*};
}

impl Faults {
    /// None.
    #[must_use]
    pub fn new() -> Faults {
        Faults::default()
    }

    faults! {
        /// A thief finds nothing, where there is something.
        steal;
        /// A thread goes on that was parked, though nobody has unparked it.
        spurious_unpark;
        /// A thread that is woken goes on late, by up to a millisecond.
        late_wake;
        /// A thread, a worker or another one, stands still for up to ten milliseconds, at a step.
        stall;
        /// There is no memory for a stack.
        stack;
        /// The allocator has no memory for what is kept of a task. The library gives back what it has kept for later, and asks once more; the second
        /// time there is some.
        allocation;
        /// The system refuses a thread for calls that block: [`blocking`](crate::blocking) waits for another one, or makes the call itself.
        thread;
        /// The clock jumps, by up to a second, at a step.
        clock;
    }
}
