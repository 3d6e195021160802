//! The wait word of a plain thread.
//!
//! The same protocol as for tasks (see [`super::wait`]); to put a thread back to work is to unpark
//! it. Each thread that ever waits has one, in thread-local storage.

use crate::retire::wait::{Publish, WaitKind, WaitWord};
use crate::shim::spin_until;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

/// How long a thread spins before it sleeps: what a worker does at once is over by then.
const SPIN: Duration = Duration::from_micros(20);

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
        spin_until(SPIN, || self.word.is_notified());
        if self.word.publish(WaitKind::Structured) == Publish::Parked {
            while self.word.is_parked() {
                // May return early; the word decides.
                std::thread::park();
            }
        }
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
