//! A mutex for tasks, threads and futures.

use super::after;
use super::called::{Calling, EnterCalled};
use super::errors::WaitError;
use super::future::future;
use super::guard::guard;
use super::holder::Holder;
use super::passing::gives_way;
use super::raw_mutex::RawMutex;
use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::waiters::WaitMode;
use crate::shim::const_fn;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::{Duration, Instant};

/// A mutex for tasks, threads and futures.
///
/// A task that waits for the mutex leaves its worker to others; a plain thread blocks;
/// [`lock_async`](Mutex::lock_async) returns a future. A cancelled waiter leaves the queue. If an
/// unlock has already woken it, the wake-up goes to the next waiter.
///
/// **Order.** An unlock wakes the longest waiter. Until that waiter runs, any running task may lock
/// the mutex first; otherwise a contended mutex would stand still during each wake-up. A waiter
/// that was passed returns to the front of the queue. Once it has waited for half a millisecond, an
/// unlock makes it the holder. [`Mutex::fifo`] creates a mutex without passing.
///
/// A guard may be held over any wait. A [`MutexGuard`] stays with the task or thread that locked
/// the mutex; an [`AsyncMutexGuard`], the guard of a future, may be sent elsewhere.
///
/// **No poisoning.** A panic that unwinds through a guard unlocks the mutex. The panic is not lost:
/// it is reported to the join of the task, or to the scope that owns the task. If the next holder
/// must know about the panic, record that in the value.
///
/// A mutex takes 48 bytes beside the value. Without contention, a lock and its unlock cost two
/// locked instructions together.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let sum = cygnet::sync::Mutex::new(0);
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         for i in 1..=100 {
///             let sum = &sum;
///             s.spawn(move || *sum.lock().unwrap() += i);
///         }
///     });
/// });
/// assert_eq!(sum.into_inner(), 5_050);
/// ```
#[repr(C)] // see `RawMutex`
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: moving the mutex to another thread moves the value there, and `T: Send`.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: a shared mutex gives the value to one holder at a time, on any thread, and `T: Send`.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// Creates an unlocked mutex.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(false), value: UnsafeCell::new(value) }
        }
    }

    const_fn! {
        /// Creates an unlocked fair (FIFO) mutex.
        ///
        /// An unlock makes the longest waiter the holder before that waiter runs, so there is no
        /// barging. The mutex stands still until the new holder runs, and under contention each
        /// caller waits for all callers before it. Use it where the order is worth that time.
        pub const fn fifo(value: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(true), value: UnsafeCell::new(value) }
        }
    }

    /// Consumes the mutex and returns the value, even if a forgotten guard left it locked.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, waiting if it is locked.
    ///
    /// Suspends if the mutex is locked. Also lets other tasks of this worker run first if a waiter
    /// has been passed for half a millisecond, or a thousand times, and may be one of them.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled, even if the mutex is free, or if the caller
    /// would have to wait while its thread is panicking. A plain thread never gets an error.
    ///
    /// # Panics
    /// If the caller already holds the mutex and would wait for itself. If it would have to wait
    /// inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, Cancelled> {
        let (holder, cancelled) = Holder::current();
        if !cancelled && self.raw.try_lock(holder) {
            return Ok(MutexGuard::new(self, holder));
        }
        match self.wait(holder, cancelled, None) {
            Ok(guard) => Ok(guard),
            Err(_) => Err(Cancelled::here()),
        }
    }

    /// Locks the mutex if it is free.
    ///
    /// Does not suspend, and ignores cancellation.
    ///
    /// ```
    /// let mutex = cygnet::sync::Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_none());
    /// drop(guard);
    /// assert_eq!(*mutex.try_lock().unwrap(), 1);
    /// ```
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let (holder, _) = Holder::current();
        let locked = self.raw.try_lock(holder) || self.raw.try_pass(holder);
        locked.then(|| MutexGuard::new(self, holder))
    }

    /// Locks the mutex, waiting for at most `time`.
    ///
    /// ```
    /// use cygnet::sync::{Mutex, WaitError};
    ///
    /// let mutex = Mutex::new(());
    /// let guard = mutex.try_lock();
    /// let other = std::thread::scope(|s| {
    ///     s.spawn(|| mutex.lock_timeout(std::time::Duration::from_millis(1)).err()).join()
    /// });
    /// assert_eq!(other.unwrap(), Some(WaitError::TimedOut));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` passes first. [`WaitError::Cancelled`] in the cases in
    /// which [`lock`](Mutex::lock) fails.
    ///
    /// # Panics
    /// Same as [`lock`](Mutex::lock).
    #[track_caller]
    pub fn lock_timeout(&self, time: Duration) -> Result<MutexGuard<'_, T>, WaitError> {
        let (holder, cancelled) = Holder::current();
        if !cancelled && self.raw.try_lock(holder) {
            return Ok(MutexGuard::new(self, holder));
        }
        self.wait(holder, cancelled, after(time)).map_err(WaitError::of)
    }

    #[cold]
    #[track_caller]
    fn wait(
        &self,
        holder: Holder,
        cancelled: bool,
        until: Option<Instant>,
    ) -> Result<MutexGuard<'_, T>, Interruption> {
        assert!(
            !(self.raw.holder() == Some(holder) && Holder::caller_may_be_told()),
            "cygnet: {holder:?} would wait for itself: it already holds this Mutex, and must drop its guard first"
        );
        let hogs = self.hogs();
        if cancelled || hogs || !self.raw.spin(holder) {
            self.raw.lock(holder, WaitMode::Until(until), hogs)?;
        }
        Ok(MutexGuard::new(self, holder))
    }

    /// Returns `true` if the calling task should queue up although the mutex is free: other tasks
    /// are ready on its worker, and a called waiter may be one of them.
    fn hogs(&self) -> bool {
        self.raw.is_hogged() && gives_way()
    }

    /// Locks the mutex as a future, on any executor. The guard may be sent to another thread.
    ///
    /// The future enters the queue at its first poll.
    ///
    /// # Cancellation
    /// The cancellation of a task does not reach the future. Dropping it ends the wait.
    ///
    /// ```
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// #         if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut cx) { return value; }
    /// #     }
    /// # }
    /// let mutex = cygnet::sync::Mutex::new(1);
    /// block_on(async { *mutex.lock_async().await += 1 });
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    #[track_caller]
    pub fn lock_async(&self) -> MutexLock<'_, T> {
        self.lock_at(Location::caller())
    }

    /// Locks the mutex as a future of the caller at `location`.
    pub(super) fn lock_at(&self, location: &'static Location<'static>) -> MutexLock<'_, T> {
        let wait = EnterCalled::new(&self.raw, Holder::FUTURE.number(), location);
        MutexLock { wait, mutex: self }
    }

    /// Returns a mutable reference to the value. No locking is needed, as the mutex is borrowed
    /// exclusively.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns `true` if the mutex is locked at this moment.
    pub fn is_locked(&self) -> bool {
        self.raw.holder().is_some()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

/// Shows the value if the mutex is free, otherwise its holder, and in either case the waiters.
impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Copied out first: the formatter may be foreign code, which must not run under the queue's
        // lock.
        let waiting = self.raw.waiting();
        let mut f = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => f.field("value", &&*guard),
            None => match self.raw.holder() {
                Some(holder) => f.field("locked_by", &holder),
                None => f.field("locked_by", &format_args!("somebody, a moment ago")),
            },
        };
        f.field("waiting", &waiting).finish()
    }
}

/// A guard of a locked [`Mutex`], which is unlocked when the guard is dropped. It stays with the
/// task or thread that locked the mutex.
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    holder: Holder,
    /// Makes the guard `!Send`.
    _here: PhantomData<*const ()>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Returns the mutex and its holder.
    pub(super) fn parts(&self) -> (&'a RawMutex, Holder) {
        (&self.lock.raw, self.holder)
    }

    #[inline(always)]
    fn new(lock: &'a Mutex<T>, holder: Holder) -> MutexGuard<'a, T> {
        MutexGuard { lock, holder, _here: PhantomData }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `holder` locked the mutex before it made this guard, and still holds it.
        unsafe { self.lock.raw.unlock(self.holder) };
    }
}

/// The guard of a [`Mutex`] that a future has locked. The guard itself is the holder, so it may be
/// sent to other threads.
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct AsyncMutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
}

impl<'a, T: ?Sized> AsyncMutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.lock
    }
}

impl<T: ?Sized> Drop for AsyncMutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: a future locked the mutex before it made this guard, and nothing has unlocked it
        // since.
        unsafe { self.lock.raw.unlock(Holder::FUTURE) };
    }
}

guard!(exclusive MutexGuard);
guard!(exclusive AsyncMutexGuard);

future! {
    /// The future of [`Mutex::lock_async`].
    pub struct MutexLock<'a, T: ?Sized> {
        wait: EnterCalled<'a, RawMutex>,
        mutex: &'a Mutex<T>,
    }
    type Output = AsyncMutexGuard<'a, T>;
    |this, _| AsyncMutexGuard { lock: this.mutex }
}
