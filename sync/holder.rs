//! Holders of locks: a number for each task and each plain thread, and one for all futures.

use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::ids::fetch_ids;
use std::cell::Cell;
use std::fmt;

/// A task, a plain thread, or any future. The number is never 0, and its two lowest bits are free
/// for flags.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder(u64);

/// Set in the number of a plain thread: the third-lowest bit.
const THREAD: u64 = 4;

impl Holder {
    /// The holder number of all futures. They need not be told apart, as the guard that a future
    /// gets is itself the holder.
    pub(super) const FUTURE: Holder = Holder(!3);

    /// Returns the caller, and whether it is cancelled.
    #[inline(always)]
    pub(super) fn current() -> (Holder, bool) {
        if let Some(worker) = Worker::current()
            && let Some(task) = worker.task()
        {
            return (Holder(task.id() << 3), is_cancelled(worker.running_node()));
        }
        (Holder::thread(), false)
    }

    #[inline(never)]
    fn thread() -> Holder {
        crate::shim::thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        NUMBER.with(|number| {
            if number.get() == 0 {
                // Task ids are taken from the same counter.
                number.set(fetch_ids(1));
            }
            Holder(number.get() << 3 | THREAD)
        })
    }

    /// Returns `true` if a caller that holds the lock, and would wait for itself, is told so by a
    /// panic. A caller that unwinds on a worker's thread gets `Cancelled` instead, as from any
    /// other wait: a second panic would abort the process. A plain thread panics even then, as it
    /// would otherwise wait for ever.
    pub(super) fn caller_may_be_told() -> bool {
        !crate::shim::panicking() || Worker::current().is_none()
    }

    pub(super) fn number(self) -> u64 {
        self.0
    }

    pub(super) fn from_number(number: u64) -> Holder {
        Holder(number)
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Holder::FUTURE => f.write_str("a future"),
            Holder(number) if number & THREAD != 0 => write!(f, "thread {}", number >> 3),
            Holder(number) => write!(f, "task {}", number >> 3),
        }
    }
}
