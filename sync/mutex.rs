use super::after;
use super::errors::WaitError;
use super::holder::Holder;
use super::passing::gives_way;
use super::raw_mutex::{Locking, RawMutex};
use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Short;
use crate::scheduler::wait::waiters::Manner;
use crate::shim::const_fn;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A value that one task, thread or future at a time may use.
///
/// A task that waits for it leaves its worker to others; a plain thread blocks; [`lock_async`](Mutex::lock_async) is a
/// future. A waiter that is cancelled leaves the queue. If an unlock has woken it already, the wake-up
/// goes to the next waiter.
///
/// **Order.** An unlock wakes the task that has waited longest. Until that task runs, any running task
/// may lock the mutex first; otherwise a contended mutex would stand still during each wake-up. A
/// waiter that was passed returns to the front of the queue. Once it has waited for half a
/// millisecond, an unlock makes it the holder. [`Mutex::fifo`] makes a mutex without passing.
///
/// A guard may be held over any wait. It stays with the task or thread that has locked; the one of a future
/// ([`AsyncMutexGuard`]) goes where it is sent.
///
/// **No poisoning.** A panic while it is locked unlocks it on its way. It is not lost: whoever joins the task sees it, or
/// the scope that owns it. What must be seen by the next one that locks, keep in the value.
///
/// 48 bytes beside the value. Locking and unlocking cost two locked instructions if nobody else is there.
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

// SAFETY: the value is given out to one at a time, on any thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// A mutex that nobody has locked.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(false), value: UnsafeCell::new(value) }
        }
    }

    const_fn! {
        /// A fair (first in, first out) mutex, unlocked. An unlock makes the longest waiter the holder
        /// before that waiter runs, so no other caller can come in between.
        ///
        /// The mutex stands still until the new holder runs. Under contention all callers then wait for
        /// each other. Use it where the order is worth that time.
        pub const fn fifo(value: T) -> Mutex<T> {
            Mutex { raw: RawMutex::new(true), value: UnsafeCell::new(value) }
        }
    }

    /// The value. Nobody can have locked it: a guard would borrow it. One that was forgotten does not count.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it, and waits for that if need be.
    ///
    /// Suspends if the mutex is locked. Also lets other tasks of this worker run, if a waiter has been
    /// passed for half a millisecond, or a thousand times, and may be one of them.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled, also if nobody has locked it; and if it would have to wait while its
    /// thread is panicking. A plain thread gets none.
    ///
    /// # Panics
    /// If the caller has locked it already and would wait for itself. If it would have to wait inside
    /// [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
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

    /// Locks it if that is possible now.
    ///
    /// Does not suspend, and does not ask whether the task is cancelled.
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

    /// As [`lock`](Mutex::lock), but waits no longer than `time`.
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
    /// [`WaitError::TimedOut`] if the time is over, and [`WaitError::Cancelled`] as `lock` says.
    ///
    /// # Panics
    /// As `lock`.
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
    ) -> Result<MutexGuard<'_, T>, Short> {
        assert!(
            !(self.raw.holder() == Some(holder) && Holder::caller_may_be_told()),
            "cygnet: a Mutex is locked by {holder:?}, which has locked it already and would wait for itself"
        );
        let hogs = self.hogs();
        if cancelled || hogs || !self.raw.spin(holder) {
            self.raw.lock(holder, Manner::Until(until), hogs)?;
        }
        Ok(MutexGuard::new(self, holder))
    }

    /// Whether the calling task is to queue up although the mutex is free: others wait for its worker, perhaps a
    /// waiter that has been called.
    fn hogs(&self) -> bool {
        self.raw.is_hogged() && gives_way()
    }

    /// Locks it as a future, for any executor. The guard may be sent to another thread.
    ///
    /// It is not a task that waits, so nobody cancels it but by dropping it. It enters the queue when it is polled first.
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
        MutexLock { mutex: self, locking: Locking::new(&self.raw, Location::caller()) }
    }

    /// The value, which nobody else can use meanwhile.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Whether somebody has locked it at this moment.
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

/// The value if it is free, else who has locked it; and where others wait for it.
impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The writer may be foreign code, which must not run under the lock of the queue.
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

/// The use of a [`Mutex`]'s value, until it is dropped. It belongs to the task or thread that has locked.
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    holder: Holder,
    /// Not `Send`.
    _here: PhantomData<*const ()>,
}

// SAFETY: it gives out shared references to the value, and nothing else of it by a shared reference.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// What it is a guard of, and for whom.
    pub(super) fn parts(&self) -> (&'a RawMutex, Holder) {
        (&self.mutex.raw, self.holder)
    }

    #[inline(always)]
    fn new(mutex: &'a Mutex<T>, holder: Holder) -> MutexGuard<'a, T> {
        MutexGuard { mutex, holder, _here: PhantomData }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made by whoever has locked it.
        unsafe { self.mutex.raw.unlock(self.holder) };
    }
}

/// As [`MutexGuard`], of a future: it is itself what holds the mutex, and may be sent to other threads.
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct AsyncMutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
}

// SAFETY: as that of `MutexGuard`.
unsafe impl<T: ?Sized + Sync> Sync for AsyncMutexGuard<'_, T> {}

impl<'a, T: ?Sized> AsyncMutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Drop for AsyncMutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: made by whoever has locked it.
        unsafe { self.mutex.raw.unlock(Holder::FUTURE) };
    }
}

macro_rules! guard {
    ($guard:ident) => {
        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: the mutex is locked by this guard.
                unsafe { &*self.mutex.value.get() }
            }
        }

        impl<T: ?Sized> DerefMut for $guard<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: as above.
                unsafe { &mut *self.mutex.value.get() }
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

guard!(MutexGuard);
guard!(AsyncMutexGuard);

/// The future of [`Mutex::lock_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct MutexLock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    locking: Locking<'a>,
}

impl<'a, T: ?Sized> Future for MutexLock<'a, T> {
    type Output = AsyncMutexGuard<'a, T>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AsyncMutexGuard<'a, T>> {
        let mutex = self.mutex;
        // SAFETY: pinned with the whole.
        let locking = unsafe { self.map_unchecked_mut(|this| &mut this.locking) };
        locking.poll(cx).map(|()| AsyncMutexGuard { mutex })
    }
}

impl<T: ?Sized> fmt::Debug for MutexLock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexLock").finish_non_exhaustive()
    }
}
