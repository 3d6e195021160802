use super::after;
use super::errors::WaitError;
use super::holder::Holder;
use super::raw_rwlock::{Locking, READ, RawRwLock, WRITE};
use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Short;
use crate::scheduler::wait::waiters::Waitable;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::const_fn;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A value that many may read, or one may write, at a time.
///
/// A task that runs may enter ahead of those that wait, as with a [`Mutex`](super::Mutex): readers
/// ahead of a writer, too. Nobody is passed for long. After half a millisecond, or some thousand
/// passes, the lock is handed over to the first one in the queue, in the order of coming, and until
/// then nobody else enters. Readers that stand next to each other in the queue are called together.
///
/// A task that reads already must not wait to read once more: a writer between the two may have
/// become the next one, and then it waits for the task, and the task for it. All else is as with a
/// mutex: the guards, cancellation, and that there is no poisoning.
///
/// Reading costs two locked instructions on one word, which readers on other processors use too.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let prices = cygnet::sync::RwLock::new(vec![1, 2, 3]);
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         s.spawn(|| assert!(prices.read().unwrap().len() >= 3));
///         s.spawn(|| prices.write().unwrap().push(4));
///     });
/// });
/// assert_eq!(prices.into_inner(), [1, 2, 3, 4]);
/// ```
#[repr(C)] // see `RawRwLock`
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    /// Who writes; 0 if nobody does, or it has not said so yet.
    writer: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is given out to one writer at a time, on any thread.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: and to many readers at a time.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_fn! {
        /// A lock that nobody is inside of.
        pub const fn new(value: T) -> RwLock<T> {
            RwLock {
                raw: RawRwLock::new(),
                writer: AtomicU64::new(0),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// The value. Nobody can be inside: a guard would borrow it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Enters to read, and waits for that if need be.
    ///
    /// Suspends if somebody writes, or waits and is not to be passed any more.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled, also if nobody is inside; and if it would have to wait while its
    /// thread is panicking. A plain thread gets none.
    ///
    /// # Panics
    /// If the caller writes, and would wait for itself. If it would have to wait inside
    /// [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> Result<RwLockReadGuard<'_, T>, Cancelled> {
        match self.enter(READ, None) {
            Ok(_) => Ok(RwLockReadGuard::new(self)),
            Err(_) => Err(Cancelled::here()),
        }
    }

    /// Enters to write, and waits for that if need be.
    ///
    /// Suspends if somebody is inside, or waits and is not to be passed any more.
    ///
    /// # Errors
    /// As [`read`](RwLock::read).
    ///
    /// # Panics
    /// As `read`.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> Result<RwLockWriteGuard<'_, T>, Cancelled> {
        match self.enter(WRITE, None) {
            Ok(holder) => Ok(self.write_guard(holder)),
            Err(_) => Err(Cancelled::here()),
        }
    }

    /// As [`read`](RwLock::read), but waits no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and [`WaitError::Cancelled`] as `read` says.
    ///
    /// # Panics
    /// As `read`.
    #[track_caller]
    pub fn read_timeout(&self, time: Duration) -> Result<RwLockReadGuard<'_, T>, WaitError> {
        self.enter(READ, after(time)).map_err(WaitError::of)?;
        Ok(RwLockReadGuard::new(self))
    }

    /// As [`write`](RwLock::write), but waits no longer than `time`.
    ///
    /// ```
    /// use cygnet::sync::{RwLock, WaitError};
    ///
    /// let lock = RwLock::new(1);
    /// let reads = lock.read().unwrap();
    /// let late = lock.write_timeout(std::time::Duration::from_millis(1));
    /// assert_eq!(late.err(), Some(WaitError::TimedOut));
    /// assert_eq!(*reads, 1);
    /// ```
    ///
    /// # Errors
    /// As [`read_timeout`](RwLock::read_timeout).
    ///
    /// # Panics
    /// As `read`.
    #[track_caller]
    pub fn write_timeout(&self, time: Duration) -> Result<RwLockWriteGuard<'_, T>, WaitError> {
        let holder = self.enter(WRITE, after(time)).map_err(WaitError::of)?;
        Ok(self.write_guard(holder))
    }

    /// Enters to read if that is possible now, ahead of those who wait. Does not suspend, and does
    /// not ask whether the task is cancelled.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.raw.try_lock(READ).then(|| RwLockReadGuard::new(self))
    }

    /// Enters to write if that is possible now, ahead of those who wait. Does not suspend, and does
    /// not ask whether the task is cancelled.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.raw.try_lock(WRITE).then(|| self.write_guard(Holder::current().0))
    }

    #[inline(always)]
    #[track_caller]
    fn enter(&self, what: u64, until: Option<Instant>) -> Result<Holder, Short> {
        let (holder, cancelled) = Holder::current();
        let at_once = || match what {
            READ => self.raw.read(),
            _ => self.raw.write(),
        };
        if cancelled || !at_once() && !self.raw.spin(what) {
            self.wait(holder, what, until)?;
        }
        Ok(holder)
    }

    #[cold]
    #[track_caller]
    fn wait(&self, holder: Holder, what: u64, until: Option<Instant>) -> Result<(), Short> {
        let writes =
            self.raw.readers().is_none() && self.writer.load(Ordering::Relaxed) == holder.number();
        assert!(
            !(writes && Holder::caller_may_be_told()),
            "cygnet: {holder:?} writes in an RwLock already, and would wait for itself"
        );
        self.raw.lock(what, until)
    }

    fn write_guard(&self, holder: Holder) -> RwLockWriteGuard<'_, T> {
        self.writer.store(holder.number(), Ordering::Relaxed);
        RwLockWriteGuard::new(self)
    }

    /// Enters to read as a future, for any executor; the guard may be sent to another thread.
    #[track_caller]
    pub fn read_async(&self) -> RwLockRead<'_, T> {
        RwLockRead { lock: self, locking: Locking::new(&self.raw, READ, Location::caller()) }
    }

    /// Enters to write as a future, for any executor; the guard may be sent to another thread.
    #[track_caller]
    pub fn write_async(&self) -> RwLockWrite<'_, T> {
        RwLockWrite { lock: self, locking: Locking::new(&self.raw, WRITE, Location::caller()) }
    }

    /// The value, which nobody else can use meanwhile.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

/// The value if it can be read, else who writes; and where others wait.
impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.raw.state().places();
        let mut f = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => f.field("value", &&*guard),
            None => match self.raw.readers() {
                Some(readers) => f.field("readers", &readers),
                None => {
                    let writer = Holder::from_number(self.writer.load(Ordering::Relaxed));
                    f.field("writer", &writer)
                }
            },
        };
        f.field("waiting", &waiting).finish()
    }
}

macro_rules! guard {
    ($guard:ident, $what:expr, $send:ty, $about:literal) => {
        #[doc = $about]
        #[must_use = "the lock is left when this is dropped"]
        pub struct $guard<'a, T: ?Sized> {
            lock: &'a RwLock<T>,
            _send: PhantomData<$send>,
        }

        // SAFETY: it gives out shared references to the value, and nothing else of it by a shared reference.
        unsafe impl<T: ?Sized + Sync> Sync for $guard<'_, T> {}

        impl<'a, T: ?Sized> $guard<'a, T> {
            #[inline(always)]
            fn new(lock: &'a RwLock<T>) -> $guard<'a, T> {
                $guard { lock, _send: PhantomData }
            }
        }

        impl<T: ?Sized> Drop for $guard<'_, T> {
            #[inline]
            fn drop(&mut self) {
                if $what == WRITE {
                    self.lock.writer.store(0, Ordering::Relaxed);
                }
                // SAFETY: made by whoever has entered as that.
                unsafe { self.lock.raw.unlock($what) };
            }
        }

        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: nobody writes but this guard.
                unsafe { &*self.lock.value.get() }
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

macro_rules! writes {
    ($guard:ident, $reader:ident) => {
        impl<T: ?Sized> DerefMut for $guard<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: nobody else is inside.
                unsafe { &mut *self.lock.value.get() }
            }
        }

        impl<'a, T: ?Sized> $guard<'a, T> {
            /// Goes on to read, with nobody in between; others may read from now on, too.
            pub fn downgrade(this: Self) -> $reader<'a, T> {
                let lock = this.lock;
                mem::forget(this);
                lock.writer.store(0, Ordering::Relaxed);
                // SAFETY: the guard was inside to write.
                unsafe { lock.raw.downgrade() };
                $reader::new(lock)
            }
        }
    };
}

// Where nothing else keeps it from that, a guard is Send.
guard!(
    RwLockReadGuard,
    READ,
    *const (),
    "A reader's use of the value of an [`RwLock`], until it is dropped. It belongs to the task or thread that has entered."
);
guard!(
    RwLockWriteGuard,
    WRITE,
    *const (),
    "A writer's use of the value of an [`RwLock`], until it is dropped. It belongs to the task or thread that has entered."
);
guard!(
    AsyncRwLockReadGuard,
    READ,
    (),
    "As [`RwLockReadGuard`], of a future: it may be sent to other threads."
);
guard!(
    AsyncRwLockWriteGuard,
    WRITE,
    (),
    "As [`RwLockWriteGuard`], of a future: it may be sent to other threads."
);
writes!(RwLockWriteGuard, RwLockReadGuard);
writes!(AsyncRwLockWriteGuard, AsyncRwLockReadGuard);

macro_rules! future {
    ($future:ident, $guard:ident, $about:literal, $entered:expr) => {
        #[doc = $about]
        #[must_use = "futures do nothing unless they are polled"]
        pub struct $future<'a, T: ?Sized> {
            lock: &'a RwLock<T>,
            locking: Locking<'a>,
        }

        impl<'a, T: ?Sized> Future for $future<'a, T> {
            type Output = $guard<'a, T>;

            /// # Panics
            /// If polled after it was ready.
            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<$guard<'a, T>> {
                let lock = self.lock;
                // SAFETY: pinned with the whole.
                let locking = unsafe { self.map_unchecked_mut(|this| &mut this.locking) };
                locking.poll(cx).map(|_| {
                    $entered(lock);
                    $guard::new(lock)
                })
            }
        }

        impl<T: ?Sized> fmt::Debug for $future<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($future)).finish_non_exhaustive()
            }
        }
    };
}

future!(RwLockRead, AsyncRwLockReadGuard, "The future of [`RwLock::read_async`].", |_| ());
future!(
    RwLockWrite,
    AsyncRwLockWriteGuard,
    "The future of [`RwLock::write_async`].",
    |lock: &RwLock<T>| lock.writer.store(Holder::FUTURE.number(), Ordering::Relaxed)
);
