//! What the workers count.

use crate::scheduler::shared::Shared;
use crate::scheduler::worker::Counters;
use crate::shim::atomic::Ordering;

/// What one worker has counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Tasks started.
    pub tasks: u64,
    /// Of these, tasks called in place by the one that joined them.
    pub in_place: u64,
    /// Tasks spawned.
    pub spawned: u64,
    /// Times that it took work from another worker.
    pub steals: u64,
    /// Waits that had to wait.
    pub parks: u64,
    /// Switches from one coroutine to another.
    pub switches: u64,
    /// Times that it lay down to sleep.
    pub sleeps: u64,
    /// Attempts to take work from a busy worker by force.
    pub rescues: u64,
    /// Started, unfinished coroutines at this moment.
    pub coroutines: u64,
}

impl WorkerMetrics {
    fn read(counters: &Counters, coroutines: u32) -> WorkerMetrics {
        WorkerMetrics {
            tasks: counters.tasks.get(),
            in_place: counters.in_place.get(),
            spawned: counters.spawned.get(),
            steals: counters.steals.get(),
            parks: counters.parks.get(),
            switches: counters.switches.get(),
            sleeps: counters.sleeps.get(),
            rescues: counters.rescues.get(),
            coroutines: coroutines.into(),
        }
    }
}

/// What a runtime has counted. The numbers of a running runtime are of slightly different moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// By worker.
    pub workers: Vec<WorkerMetrics>,
    /// Tasks spawned from outside.
    pub injected: u64,
    /// Stacks that exist, in use or warm.
    pub stacks: usize,
    /// The most stacks that ever existed at a time.
    pub stacks_high_water: usize,
}

impl Metrics {
    pub(crate) fn read(shared: &Shared) -> Metrics {
        let stacks = shared.stacks.counters();
        Metrics {
            workers: shared
                .remotes()
                .map(|r| WorkerMetrics::read(&r.counters, r.live.load(Ordering::Relaxed)))
                .collect(),
            injected: shared.injected.load(Ordering::Relaxed),
            stacks: stacks.live,
            stacks_high_water: stacks.high_water,
        }
    }

    /// Tasks started by all workers.
    pub fn tasks(&self) -> u64 {
        self.workers.iter().map(|w| w.tasks).sum()
    }

    /// Steals of all workers.
    pub fn steals(&self) -> u64 {
        self.workers.iter().map(|w| w.steals).sum()
    }

    /// A sentence for those who wait for a runtime's end.
    pub(crate) fn unfinished(&self) -> String {
        let started: u64 = self.workers.iter().map(|w| w.coroutines).sum();
        format!("{started} coroutines have been started and have not ended")
    }
}
