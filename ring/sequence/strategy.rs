use super::spinning::{Learned, Spinning};
use crate::runtime::{is_cancelled, yield_now};
use crate::scheduler::wait::interrupted::Short;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::worker::Worker;
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{spin_loop, thread};

/// What who waits for a sequence does until it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Leaves the processor at once: a task to other tasks, a thread to other threads. Nothing is used while nothing happens. (A reader of a
    /// [ring](crate::ring) that has just found a few items leaves those who write a microsecond at the most before it looks again.)
    Park,
    /// Looks again and again for a few microseconds, and then parks. For what comes soon, mostly.
    #[default]
    SpinThenPark,
    /// Looks again and again until it is there: the shortest time between the two, and a processor for each who waits. A task
    /// yields to others of its worker now and then, a thread to others of its processor.
    ///
    /// Where more wait in this way than there are processors, the one that makes progress has none. A waiter parks then, after it has looked in vain for some
    /// microseconds, and after less of them the next time. (Tasks on a single worker do not: they yield to each other.)
    ///
    /// Producers that spin for room are in no queue: who finds it first has it, and who wants much at once may be passed by those who want little, for
    /// as long as these go on. Who parks is served before them.
    ///
    /// Waits that are [futures](super::SequenceBarrier::wait_async) park.
    Spin,
}

/// Turns before others have their turn: other tasks of the worker, who may be those that it waits for, and other threads.
const POLITE_TASK: u32 = 8;
/// See [`POLITE_TASK`].
const POLITE_THREAD: u32 = 128;
/// For so long a task that [spins](WaitStrategy::Spin) hopes that what it waits for runs elsewhere, or will be taken there.
const HOPE: Duration = Duration::from_micros(100);
/// Turns before it parks.
const PATIENT: u32 = 256;

impl WaitStrategy {
    /// Looks until there is an answer, or it is time to park: then there is none. `spinning` is kept until the wait is over.
    ///
    /// # Errors
    /// As for a wait that parks. A plain thread is never cancelled.
    pub(super) fn spin<R>(
        self,
        learned: &Learned,
        spinning: &mut Spinning,
        until: Option<Instant>,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>, Short> {
        let worker = Worker::current();
        let between_tasks = worker.is_some_and(|worker| worker.task().is_none());
        let may_wait = !is_forbidden() && !between_tasks && !crate::shim::panicking();
        let patience = match self {
            WaitStrategy::Park => return Ok(None),
            // Who may not wait is told so by parking; and a model has no time to wait.
            _ if !may_wait || cfg!(loom) => return Ok(look()),
            WaitStrategy::SpinThenPark => Some(PATIENT),
            WaitStrategy::Spin => None,
        };
        let polite = if worker.is_some() { POLITE_TASK } else { POLITE_THREAD };
        // For what runs elsewhere, or will: somebody may come and take it, which a yield would prevent.
        let mut hope = match worker {
            Some(worker)
                if patience.is_none()
                    && worker.shared().config.workers > 1
                    && !learned.is_near() =>
            {
                now().checked_add(HOPE)
            }
            _ => None,
        };
        let workers = worker.map(|worker| worker.shared().config.workers);
        let budget = learned.budget();
        let mut turn = 0_u32;
        while patience.is_none_or(|patience| turn < patience) {
            if let Some(answer) = look() {
                if turn > 0 {
                    learned.found(false);
                }
                return Ok(Some(answer));
            }
            spin_loop();
            turn = turn.wrapping_add(1);
            if !turn.is_multiple_of(polite) {
                continue;
            }
            if patience.is_none() && turn >= budget && spinning.is_one_too_many(workers) {
                learned.in_vain();
                break;
            }
            let now = if until.or(hope).is_some() { Some(now()) } else { None };
            if until.is_some_and(|until| now >= Some(until)) {
                // As who parks. However short its time, those that it waits for have theirs.
                give_way(worker.is_some());
                return look().map(Some).ok_or(Short::TimedOut);
            }
            if worker.is_some() && is_cancelled() {
                return Err(Short::Cancelled);
            }
            if hope.is_some_and(|hope| now < Some(hope)) {
                continue;
            }
            hope = None;
            give_way(worker.is_some());
            if worker.is_some()
                && let Some(answer) = look()
            {
                learned.found(true);
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }
}

/// Lets others have the processor, if there are any. A task may be cancelled afterwards.
fn give_way(is_task: bool) {
    if is_task {
        let _ = yield_now();
    } else {
        thread::yield_now();
    }
}
