//! The waiter of a plain thread: a wait word, and the handle to unpark the thread.
//!
//! The protocol is the same as for tasks (see [`crate::task::words::wait`]); a woken thread is
//! unparked instead of queued. Each thread makes its waiter at its first wait, and keeps it in
//! thread-local storage.

use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::time::{Duration, Instant, now};
use crate::shim::unmodelled::thread::{self, Thread};
use crate::shim::{spin_until, thread_local};
use crate::task::words::wait::{Publish, WaitKind, WaitWord};
use std::sync::Arc;
use std::task::Wake;

/// How long a thread spins before it sleeps: long enough for a worker that acts at once.
const SPIN: Duration = Duration::from_micros(20);

#[repr(align(8))]
pub(crate) struct ThreadWaiter {
    word: WaitWord,
    thread: Thread,
    /// The thread polls a future. Used only by the thread; atomic because the waiter is shared.
    polls: AtomicBool,
}

impl ThreadWaiter {
    /// Returns the waiter of the current thread.
    ///
    /// If the thread's own waiter is gone, while thread-locals are destroyed, returns a fresh one.
    pub(crate) fn current() -> Arc<ThreadWaiter> {
        thread_local! {
            static WAITER: Arc<ThreadWaiter> = ThreadWaiter::new();
        }
        WAITER.try_with(Arc::clone).unwrap_or_else(|_| ThreadWaiter::new())
    }

    fn new() -> Arc<ThreadWaiter> {
        Arc::new(ThreadWaiter {
            word: WaitWord::new(),
            thread: thread::current(),
            polls: AtomicBool::new(false),
        })
    }

    /// Waits for the grant. Called by the waiter's own thread.
    pub(crate) fn wait(&self) {
        let granted = self.wait_until(None);
        debug_assert!(granted, "a wait without a limit has timed out");
    }

    /// Waits for the grant, or until `until`. Returns `false` if the grant has not come by then.
    /// Called by the waiter's own thread.
    pub(crate) fn wait_until(&self, until: Option<Instant>) -> bool {
        let left = || until.map(|until| until.saturating_duration_since(now()));
        spin_until(left().map_or(SPIN, |left| left.min(SPIN)), || self.word.is_notified());
        if self.word.publish(WaitKind::Grant) == Publish::Parked {
            // Parking may return early; the word decides.
            while self.word.is_parked() {
                match left() {
                    None => thread::park(),
                    // Only the thread itself interrupts its wait. If this call does not, the grant
                    // has come.
                    Some(Duration::ZERO) => return !self.word.interrupt(),
                    Some(left) => thread::park_timeout(left),
                }
            }
        }
        true
    }

    /// Waits until this waiter is woken as a waker. Called by the waiter's own thread.
    pub(crate) fn wait_for_wake(&self) {
        if self.word.publish(WaitKind::Wake) == Publish::Parked {
            while self.word.is_parked() {
                thread::park();
            }
        }
    }

    /// Calls `f`, which polls a future with this waker. If this happens inside the poll of an outer
    /// future, the inner one may use up a wake-up that was meant for the outer one. So the outer
    /// future is polled again. Called by the waiter's own thread.
    pub(crate) fn polling<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Polls<'a>(&'a ThreadWaiter, bool);
        impl Drop for Polls<'_> {
            fn drop(&mut self) {
                self.0.polls.store(self.1, Ordering::Relaxed);
                if self.1 {
                    let wakes = self.0.word.wake();
                    debug_assert!(!wakes, "the thread runs");
                }
            }
        }
        let outer = self.polls.load(Ordering::Relaxed);
        self.polls.store(true, Ordering::Relaxed);
        let _polls = Polls(self, outer);
        f()
    }

    /// Delivers the grant.
    ///
    /// The thread may return, and its waiter may be freed, as soon as the word has changed. So the
    /// thread handle is cloned first.
    pub(crate) fn grant(waiter: *const ThreadWaiter) {
        // SAFETY: the waiter is registered for this grant, so it does not leave its wait, and is
        // not freed, before the grant has arrived.
        let thread = unsafe { (*waiter).thread.clone() };
        // SAFETY: the grant has not arrived before this store, and the waiter is not used after it.
        if unsafe { (*waiter).word.grant() } {
            thread.unpark();
        }
    }
}

impl Wake for ThreadWaiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.word.wake() {
            self.thread.unpark();
        }
    }
}
