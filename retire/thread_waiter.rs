//! The wait word of a plain thread.
//!
//! The same protocol as for tasks (see [`super::wait`]); to put a thread back to work is to unpark
//! it. Each thread that ever waits has one, in thread-local storage.

use crate::retire::wait::{Publish, WaitKind, WaitWord};
use std::sync::Arc;
use std::thread::Thread;
#[cfg(not(loom))]
use {
    crate::shim::time::{Duration, now},
    std::hint::spin_loop,
};

/// How long a thread spins before it sleeps, and before it lets others have the processor at each turn.
#[cfg(not(loom))]
const SPIN: Duration = Duration::from_micros(20);
#[cfg(not(loom))]
const POLITE: Duration = Duration::from_micros(2);

#[repr(align(8))]
pub(crate) struct ThreadWaiter {
    word: WaitWord,
    thread: Thread,
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
        Arc::new(ThreadWaiter { word: WaitWord::new(), thread: std::thread::current() })
    }

    /// Waits for the grant. For the thread that the waiter belongs to.
    pub(crate) fn wait(&self) {
        self.spin();
        if self.word.publish(WaitKind::Structured) == Publish::Parked {
            while self.word.is_parked() {
                // May return early; the word decides.
                std::thread::park();
            }
        }
    }

    /// Looks out for the grant for a while: what a worker does at once is over before the thread could
    /// be put to sleep and woken again, each of which takes longer.
    #[cfg(not(loom))]
    fn spin(&self) {
        let start = now();
        while !self.word.is_notified() {
            let time = start.elapsed();
            if time >= SPIN {
                return;
            }
            if time >= POLITE { std::thread::yield_now() } else { spin_loop() }
        }
    }

    #[cfg(loom)]
    fn spin(&self) {}

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
