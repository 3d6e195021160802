//! The wait word of a plain thread.
//!
//! The same protocol as for tasks (see [`crate::task::words::wait`]); to put a thread back to work is to unpark
//! it. Each thread that ever waits has one, in thread-local storage.

use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::time::{Duration, Instant, now};
use crate::shim::unmodelled::thread::{self, Thread};
use crate::shim::{spin_until, thread_local};
use crate::task::words::wait::{Publish, WaitKind, WaitWord};
use std::sync::Arc;
use std::task::Wake;

/// How long a thread spins before it sleeps: what a worker does at once is over by then.
const SPIN: Duration = Duration::from_micros(20);

#[repr(align(8))]
pub(crate) struct ThreadWaiter {
    word: WaitWord,
    thread: Thread,
    /// The thread polls a future. Its own; atomic, as the rest is shared.
    polls: AtomicBool,
}

impl ThreadWaiter {
    /// The waiter of this thread.
    ///
    /// During the destruction of thread-locals the thread's own may be gone; a fresh one serves.
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

    /// Waits for the grant. For the thread that the waiter belongs to.
    pub(crate) fn wait(&self) {
        let granted = self.wait_until(None);
        debug_assert!(granted, "a wait without a limit has timed out");
    }

    /// The same, until a time at most; false if the grant has not come by then.
    pub(crate) fn wait_until(&self, until: Option<Instant>) -> bool {
        let left = || until.map(|until| until.saturating_duration_since(now()));
        spin_until(left().map_or(SPIN, |left| left.min(SPIN)), || self.word.is_notified());
        if self.word.publish(WaitKind::Grant) == Publish::Parked {
            // Parking may return early; the word decides.
            while self.word.is_parked() {
                match left() {
                    None => thread::park(),
                    // Nobody else cuts the wait of a thread: if this does not, the grant has come.
                    Some(Duration::ZERO) => return !self.word.interrupt(),
                    Some(left) => thread::park_timeout(left),
                }
            }
        }
        true
    }

    /// Waits for a call of the waker that this is. For the thread that it belongs to.
    pub(crate) fn wait_for_wake(&self) {
        if self.word.publish(WaitKind::Wake) == Publish::Parked {
            while self.word.is_parked() {
                thread::park();
            }
        }
    }

    /// Calls `f`, which polls a future by this waker. One that does so in the middle of another one's poll may use up a call
    /// that was meant for the outer one: that is polled again. For the thread that it belongs to.
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
    /// The thread may go on, and its waiter may be freed, as soon as the word has changed; the
    /// handle is therefore copied out first.
    pub(crate) fn grant(waiter: *const ThreadWaiter) {
        // SAFETY: the waiter is registered with what the caller finished, and may not leave its
        // wait (nor be freed) before this grant has arrived.
        let thread = unsafe { (*waiter).thread.clone() };
        // SAFETY: as above; this is the store after which it is not touched any more.
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
