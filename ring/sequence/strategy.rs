use super::spinning::{Learned, Spinning};
use crate::runtime::{is_cancelled, yield_now};
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::worker::Worker;
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{spin_loop, thread};

/// How a consumer waits for a sequence number, or a producer for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Parks at once: a task leaves its worker to other tasks, and a thread its processor to other
    /// threads. A wait uses no processor time. (A reader of a [ring](crate::ring) that has just
    /// found a few items first leaves the producers a microsecond at most before it looks again.)
    Park,
    /// Spins for a few microseconds, and then parks. For waits that are mostly short.
    #[default]
    SpinThenPark,
    /// Spins until the number has come. This has the shortest latency, and costs a processor for
    /// each waiter. A task yields to other tasks of its worker now and then, and a thread to other
    /// threads.
    ///
    /// If there are as many such waiters as processors, the party that makes progress may have
    /// none. A waiter then parks after it has looked for some microseconds without success, and
    /// sooner the next time. (Tasks on a single worker do not park: they yield to each other.)
    ///
    /// Producers that spin for room are in no queue. The first one to find room takes it, and a
    /// producer that wants much at once may be passed by others that want little, for as long as
    /// these go on. Parked producers are served before spinning ones.
    ///
    /// Waits as [futures](super::SequenceBarrier::wait_async) park.
    Spin,
}

/// Turns of a task before it lets others run: other tasks of the worker, one of which it may be
/// waiting for, and other threads.
const POLITE_TASK: u32 = 8;
/// Turns of a plain thread before it lets other threads run.
const POLITE_THREAD: u32 = 128;
/// How long a task that [spins](WaitStrategy::Spin) does not yield, because the task that it waits
/// for may run on another worker or be stolen by one.
const HOPE: Duration = Duration::from_micros(100);
/// Turns of [`WaitStrategy::SpinThenPark`] before it parks.
const PATIENT: u32 = 256;

impl WaitStrategy {
    /// Calls `look` until it returns an answer, or returns `None` when it is time to park. The
    /// caller keeps `spinning` until the wait is over.
    ///
    /// # Errors
    /// As for a wait that parks. A plain thread is never cancelled.
    pub(super) fn spin<R>(
        self,
        learned: &Learned,
        spinning: &mut Spinning,
        until: Option<Instant>,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>, Interruption> {
        let worker = Worker::current();
        let between_tasks = worker.is_some_and(|worker| worker.task().is_none());
        let may_wait = !is_forbidden() && !between_tasks && !crate::shim::panicking();
        let patience = match self {
            WaitStrategy::Park => return Ok(None),
            // A waiter that may not wait fails when it tries to park. A model does not spin.
            _ if !may_wait || cfg!(loom) => return Ok(look()),
            WaitStrategy::SpinThenPark => Some(PATIENT),
            WaitStrategy::Spin => None,
        };
        let polite = if worker.is_some() { POLITE_TASK } else { POLITE_THREAD };
        // The awaited task may run elsewhere, or may yet be stolen; a yield could start it on this
        // worker and prevent that.
        let workers = worker.map(|worker| worker.shared().config.workers);
        let is_far = patience.is_none() && workers > Some(1) && !learned.is_near();
        let mut hope = if is_far { now().checked_add(HOPE) } else { None };
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
                // A parked waiter gives way, too: others get to run however short the timeout is.
                give_way(worker.is_some());
                return look().map(Some).ok_or(Interruption::TimedOut);
            }
            if worker.is_some() && is_cancelled() {
                return Err(Interruption::Cancelled);
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

/// Lets other tasks or threads run, if there are any. A task may be cancelled afterwards.
fn give_way(is_task: bool) {
    if is_task {
        let _ = yield_now();
    } else {
        thread::yield_now();
    }
}
