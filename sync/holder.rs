//! Who holds a lock: a number for each task and each plain thread, and one for all futures.

use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::life::scope_frame::task_of;
use crate::scheduler::worker::{Worker, fetch_ids};
use std::cell::Cell;
use std::fmt;

/// A task, a plain thread, or some future. Never 0, and the two lowest bits are free for others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder(u64);

/// The third bit.
const THREAD: u64 = 4;

impl Holder {
    /// Futures are not told apart: a guard that they get is itself the holder.
    pub(super) const FUTURE: Holder = Holder(!3);

    /// The caller; and whether it is cancelled.
    #[inline(always)]
    pub(super) fn current() -> (Holder, bool) {
        if let Some(worker) = Worker::current()
            && let node = worker.node.get()
            && let Some(task) = task_of(node)
        {
            // SAFETY: that of the running task, or of a scope on its stack.
            let cancelled = is_cancelled(unsafe { &*node });
            // SAFETY: the running task.
            return (Holder(unsafe { task.as_ref() }.id() << 3), cancelled);
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
                // Those of tasks come from there, too.
                number.set(fetch_ids(1));
            }
            Holder(number.get() << 3 | THREAD)
        })
    }

    /// Whether the caller, who holds the lock and would wait for itself, is told so by a panic. Who unwinds on a worker's thread is turned
    /// away as from any other wait: a second panic would end the process. A plain thread would wait for ever.
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
