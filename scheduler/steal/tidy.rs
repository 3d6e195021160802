//! Memory that a worker gives back on its way to rest.

use crate::scheduler::worker::Worker;
use crate::shim::time::{Duration, Instant, now};

/// An idle worker keeps memory warm that has been in use within this time.
const KEEP: Duration = Duration::from_millis(10);

/// How often a worker has needed memory that it keeps in a pool.
#[derive(Clone, Copy, Default)]
struct Usage {
    stacks: u64,
    records: u64,
}

impl Usage {
    fn of(worker: &Worker) -> Usage {
        let counters = worker.counters();
        Usage {
            stacks: worker.memory.stacks.borrow().takes(),
            records: counters.spawned.get() + counters.dispatched.get(),
        }
    }
}

/// What a worker remembers of the memory that it has given back.
#[derive(Default)]
pub(super) struct Tidiness {
    /// When memory was last given back, and how much the worker had used by then.
    last: Option<(Instant, Usage)>,
}

impl Tidiness {
    /// Whether memory may have to be given back now.
    pub(super) fn is_due(&self) -> bool {
        self.last.is_none_or(|(last, _)| now() - last >= KEEP)
    }

    /// Gives back memory that a sleeping worker should not keep. Memory that it has used since the
    /// last call stays: a worker that waits for another one for a moment needs it again, and a
    /// burst of tasks is often followed by the next. Returns when to come again for the memory that
    /// stays, if any does.
    pub(super) fn tidy(&mut self, worker: &Worker) -> Option<Duration> {
        worker.dismiss_spare();
        worker.housekeeping();
        let exceeds = || {
            worker.memory.records.exceeds_bound()
                || worker.remote.private.exceeds_bound()
                || worker.memory.stacks.borrow().exceeds_bound()
        };
        let (time, usage) = (now(), Usage::of(worker));
        let mut before = Usage::default();
        if let Some((last, used)) = self.last {
            if time - last < KEEP {
                return exceeds().then(|| KEEP - (time - last));
            }
            before = used;
        }
        worker.memory.records.trim((usage.records - before.records) as usize);
        worker.remote.private.trim();
        let (shared, used) = (worker.shared(), usage.stacks.wrapping_sub(before.stacks) as usize);
        while worker.memory.stacks.borrow_mut().trim(&shared.stacks, used) {
            if worker.has_ready() || worker.has_fresh() {
                // The next call goes on with it, even if another worker was faster.
                return Some(KEEP);
            }
        }
        self.last = Some((time, usage));
        exceeds().then_some(KEEP)
    }
}
