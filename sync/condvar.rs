use super::after;
use super::errors::WaitError;
use super::mutex::{AsyncMutexGuard, MutexGuard};
use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Short;
use crate::scheduler::wait::waiters::{
    Entering, Manner, Turns, WaitList, WaitNode, Waitable, Wake, Wakes, enter_and,
};
use crate::shim::{Mutex, MutexGuard as Lock, const_fn};
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::panic::Location;
use std::pin::pin;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Waits for something to become so that a [`Mutex`](super::Mutex) guards.
///
/// A wait unlocks the mutex, waits to be notified, and locks it again before it returns, however it ends. Notifications go to those
/// who have waited longest. Nobody is woken without one; but what it was for may be gone again when the
/// mutex is locked, so look, and wait again: [`wait_while`](Condvar::wait_while).
///
/// Who is cancelled after it was notified passes that on to the next.
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
    raw: RawCondvar,
}

struct RawCondvar {
    queue: Mutex<Turns>,
}

/// What a node is told: that it alone is notified, or with all who were there.
const ONE: u32 = 0;
const ALL: u32 = 1;

impl Condvar {
    const_fn! {
        /// One for which nobody waits.
        pub const fn new() -> Condvar {
            Condvar { raw: RawCondvar { queue: Mutex::new(Turns::new()) } }
        }
    }

    /// Unlocks the mutex, waits to be notified, and locks it again.
    ///
    /// Suspends.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled. The mutex is locked again in this case, too; that wait is not cut short.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), and on a worker's thread between tasks.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), Cancelled> {
        self.wait_until(guard, None).map_err(|_| Cancelled::here())
    }

    /// Waits as long as `so` says that it is so. It is asked with the mutex locked, first before any wait.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// As `wait`, and with the panic of `so`.
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

    /// As [`wait`](Condvar::wait), but to be notified within `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and [`WaitError::Cancelled`] as `wait` says. The mutex is locked again in
    /// any case, however long that takes.
    ///
    /// # Panics
    /// As `wait`.
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
    ) -> Result<(), Short> {
        let (mutex, holder) = guard.parts();
        let mut unlocked = false;
        let mut unlock = || {
            unlocked = true;
            // SAFETY: the guard holds it, is borrowed, and is not used before it does so again.
            unsafe { mutex.unlock(holder) };
        };
        let result = enter_and(&self.raw, 0, Manner::Until(until), Some(&mut unlock));
        if unlocked && !mutex.try_lock(holder) {
            let locked = mutex.lock(holder, Manner::Structured, false);
            debug_assert!(locked.is_ok(), "a structured wait was cut short");
        }
        result.map(|_| ())
    }

    /// The same as a future, for any executor.
    ///
    /// If it is dropped the mutex stays unlocked, or is unlocked, and a notification is passed on to the next.
    pub async fn wait_async<'a, T: ?Sized>(
        &self,
        guard: AsyncMutexGuard<'a, T>,
    ) -> AsyncMutexGuard<'a, T> {
        let mutex = guard.mutex();
        let mut guard = Some(guard);
        let answer = {
            let mut entering = pin!(Entering::new(&self.raw, 0, Location::caller()));
            poll_fn(|cx| {
                let polled = entering.as_mut().poll(cx);
                // It has entered the queue.
                drop(guard.take());
                polled
            })
            .await
        };
        let notified = Notified { raw: &self.raw, answer };
        let guard = mutex.lock_async().await;
        mem::forget(notified);
        guard
    }

    /// Notifies the one that has waited longest and is not notified yet, if there is one; whether there was.
    ///
    /// Does not suspend.
    pub fn notify_one(&self) -> bool {
        self.raw.notify_one()
    }

    /// Notifies all who wait at this moment.
    ///
    /// Does not suspend.
    pub fn notify_all(&self) {
        Turns::end(&self.raw, self.raw.state(), ALL, ALL);
    }
}

impl RawCondvar {
    fn notify_one(&self) -> bool {
        let wake = self.state().grant_one(ONE);
        let any = wake.is_some();
        wake.into_iter().for_each(Wake::deliver);
        any
    }

    /// Passes on what one was told that did not go on with it.
    fn pass_on(&self, answer: u32) {
        if answer == ONE {
            self.notify_one();
        }
    }
}

/// A notification that its future has been told of, and has not returned yet.
struct Notified<'a> {
    raw: &'a RawCondvar,
    answer: u32,
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.raw.pass_on(self.answer);
    }
}

impl Waitable for RawCondvar {
    type State = Turns;

    fn what(&self) -> &'static str {
        "a condition variable"
    }

    fn state(&self) -> Lock<'_, Turns> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.raw.state().waiters.places();
        f.debug_struct("Condvar").field("waiting", &waiting).finish()
    }
}
