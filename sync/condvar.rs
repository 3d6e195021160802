//! A condition variable for [`Mutex`](super::Mutex).

use super::after;
use super::errors::WaitError;
use super::mutex::{AsyncMutexGuard, MutexGuard};
use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::waiters::{
    Turns, WaitFuture, WaitList, WaitMode, WaitNode, Waitable, Wake, Wakes, enter_and,
};
use crate::shim::{Mutex, MutexGuard as Lock, const_fn};
use std::future::poll_fn;
use std::mem;
use std::panic::Location;
use std::pin::pin;
use std::time::{Duration, Instant};

/// A condition variable, for use with a [`Mutex`](super::Mutex).
///
/// A wait unlocks the mutex, waits for a notification, and locks the mutex again before it returns,
/// whatever its result. Notifications go to the longest waiters. There are no spurious wake-ups,
/// but the condition may have become false again when the mutex is locked. Check it and wait again,
/// as [`wait_while`](Condvar::wait_while) does.
///
/// A waiter that is cancelled after [`notify_one`](Condvar::notify_one) has chosen it passes the
/// notification on to the next.
///
/// ```
/// use cygnet::sync::{Condvar, Mutex};
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let (queue, more) = (Mutex::new(Vec::new()), Condvar::new());
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         s.spawn(|| {
///             let mut queue = queue.lock().unwrap();
///             more.wait_while(&mut queue, |queue| queue.is_empty()).unwrap();
///             assert_eq!(queue.pop(), Some("job"));
///         });
///         queue.lock().unwrap().push("job");
///         more.notify_one();
///     });
/// });
/// ```
pub struct Condvar {
    queue: Mutex<Turns>,
}

/// The answers of a grant: to the one waiter that is notified, or to all that were present.
const ONE: u32 = 0;
const ALL: u32 = 1;

impl Condvar {
    const_fn! {
        /// Creates a condition variable without waiters.
        pub const fn new() -> Condvar {
            Condvar { queue: Mutex::new(Turns::new()) }
        }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    ///
    /// Suspends.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled. The guard holds the mutex in this case too:
    /// locking it again is not cut short.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), and on a worker's thread between tasks.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), Cancelled> {
        self.wait_until(guard, None).map_err(|_| Cancelled::here())
    }

    /// Waits while `so` returns `true`. Calls `so` with the mutex locked, and for the first time
    /// before any wait.
    ///
    /// # Errors
    /// Same as [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// Same as [`wait`](Condvar::wait), and if `so` panics.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut so: impl FnMut(&mut T) -> bool,
    ) -> Result<(), Cancelled> {
        while so(guard) {
            self.wait(guard)?;
        }
        Ok(())
    }

    /// Unlocks the mutex, waits for a notification for at most `time`, and locks the mutex again.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` passes first. [`WaitError::Cancelled`] in the cases in
    /// which [`wait`](Condvar::wait) fails. The mutex is locked again in any case, however long
    /// that takes.
    ///
    /// # Panics
    /// Same as [`wait`](Condvar::wait).
    #[track_caller]
    pub fn wait_timeout<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Duration,
    ) -> Result<(), WaitError> {
        self.wait_until(guard, after(time)).map_err(WaitError::of)
    }

    #[track_caller]
    fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        until: Option<Instant>,
    ) -> Result<(), Interruption> {
        let (mutex, holder) = guard.parts();
        let mut unlocked = false;
        let mut unlock = || {
            unlocked = true;
            // SAFETY: the guard holds the mutex. It is borrowed exclusively, so it is not used
            // before the mutex is locked again.
            unsafe { mutex.unlock(holder) };
        };
        let result = enter_and(self, 0, WaitMode::Until(until), Some(&mut unlock));
        if unlocked && !mutex.try_lock(holder) {
            let locked = mutex.lock(holder, WaitMode::Structured, false);
            debug_assert!(locked.is_ok(), "a structured wait was cut short");
        }
        result.map(|_| ())
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again, as a future on any
    /// executor.
    ///
    /// # Cancellation
    /// If the future is dropped, the mutex is left unlocked. A notification that the future has
    /// received alone is passed on to the next waiter.
    #[track_caller]
    pub fn wait_async<'a, T: ?Sized>(
        &self,
        guard: AsyncMutexGuard<'a, T>,
    ) -> impl Future<Output = AsyncMutexGuard<'a, T>> {
        // Not an `async fn`: reports name the line of the caller.
        let location = Location::caller();
        async move {
            let mutex = guard.mutex();
            let mut guard = Some(guard);
            let answer = {
                let mut entering = pin!(WaitFuture::new(self, 0, location));
                poll_fn(|cx| {
                    let polled = entering.as_mut().poll(cx);
                    // The node has entered the queue, so the mutex can be unlocked.
                    drop(guard.take());
                    polled
                })
                .await
            };
            let notified = Notified { condvar: self, answer };
            let guard = mutex.lock_at(location).await;
            mem::forget(notified);
            guard
        }
    }

    /// Notifies the longest waiter that is not notified yet. Returns `true` if there was one.
    ///
    /// Does not suspend.
    pub fn notify_one(&self) -> bool {
        let wake = self.state().grant_one(ONE);
        let any = wake.is_some();
        wake.into_iter().for_each(Wake::deliver);
        any
    }

    /// Notifies all present waiters.
    ///
    /// Does not suspend.
    pub fn notify_all(&self) {
        Turns::end(self, self.state(), ALL, ALL);
    }

    /// Passes on a notification that its waiter did not use.
    fn pass_on(&self, answer: u32) {
        if answer == ONE {
            self.notify_one();
        }
    }
}

/// A notification that a future has received and not returned yet. Dropping this passes it on.
struct Notified<'a> {
    condvar: &'a Condvar,
    answer: u32,
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.condvar.pass_on(self.answer);
    }
}

impl Waitable for Condvar {
    type State = Turns;
    const WHAT: &'static str = "a condition variable";

    fn state(&self) -> Lock<'_, Turns> {
        self.queue.lock()
    }

    fn waiters(turns: &mut Turns) -> &mut WaitList {
        &mut turns.waiters
    }

    fn try_enter(&self, turns: &mut Turns, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        turns.mark(node);
        None
    }

    fn give_back(&self, node: &WaitNode) {
        self.pass_on(node.answer());
    }
}

default! { impl Condvar }

debug! { impl Condvar as this { waiting: this.state().waiters.locations() } }
