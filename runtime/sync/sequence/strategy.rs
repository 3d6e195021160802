use crate::runtime::suspend::{is_cancelled, yield_now};
use crate::scheduler::no_suspend::is_forbidden;
use crate::scheduler::wait::Short;
use crate::scheduler::worker::Worker;
use crate::shim::time::{Instant, now};
use crate::shim::{spin_loop, thread};

/// What who waits for a sequence does until it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WaitStrategy {
    /// Leaves the processor at once: a task to other tasks, a thread to other threads. Nothing is used while nothing happens.
    Park,
    /// Looks again and again for a few microseconds, and then parks. For what comes soon, mostly.
    #[default]
    SpinThenPark,
    /// Looks again and again until it is there: the shortest time between the two, and a processor for each who waits. A task
    /// yields to others of its worker now and then, a thread to others of its processor.
    ///
    /// Waits that are [futures](super::SequenceBarrier::wait_async) park.
    Spin,
}

/// Turns before others have their turn: other tasks of the worker, who may be those that it waits for, and other threads.
const POLITE_TASK: u32 = 8;
/// See [`POLITE_TASK`].
const POLITE_THREAD: u32 = 128;
/// Turns before it parks.
const PATIENT: u32 = 256;

impl WaitStrategy {
    /// Looks until there is an answer, or it is time to park: then there is none.
    ///
    /// # Errors
    /// As for a wait that parks. A plain thread is never cancelled.
    pub(super) fn spin<R>(
        self,
        until: Option<Instant>,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>, Short> {
        let patience = match self {
            WaitStrategy::Park => return Ok(None),
            // Who may not wait is told so by parking; and a model has no time to wait.
            _ if is_forbidden() || std::thread::panicking() || cfg!(loom) => return Ok(look()),
            WaitStrategy::SpinThenPark => Some(PATIENT),
            WaitStrategy::Spin => None,
        };
        let is_task = Worker::current().and_then(Worker::task).is_some();
        let polite = if is_task { POLITE_TASK } else { POLITE_THREAD };
        let mut turn = 0_u32;
        while patience.is_none_or(|patience| turn < patience) {
            if let Some(answer) = look() {
                return Ok(Some(answer));
            }
            spin_loop();
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(polite) {
                if until.is_some_and(|until| now() >= until) {
                    return Err(Short::TimedOut);
                }
                give_way();
                if is_task && is_cancelled() {
                    return Err(Short::Cancelled);
                }
            }
        }
        Ok(None)
    }
}

/// Lets others have the processor, if there are any. A task may be cancelled afterwards.
fn give_way() {
    if Worker::current().and_then(Worker::task).is_none() {
        thread::yield_now();
    } else if !is_forbidden() {
        // Who is cancelled finds that by itself.
        let _ = yield_now();
    }
}
