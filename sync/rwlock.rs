//! A reader-writer lock for tasks, threads and futures.

use super::after;
use super::called::EnterCalled;
use super::errors::WaitError;
use super::future::future;
use super::guard::guard;
use super::holder::Holder;
use super::raw_rwlock::{READ, RawRwLock, WRITE};
use crate::runtime::Cancelled;
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::waiters::Waitable;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::const_fn;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::{Duration, Instant};
use std::{fmt, mem};

/// A reader-writer lock for tasks, threads and futures: many readers or one writer.
///
/// A running task may enter ahead of the waiters, as with a [`Mutex`](super::Mutex). Readers also
/// pass a waiting writer. After half a millisecond, or a few thousand passes, the lock is handed
/// over to the first waiter, in order of arrival, and until then no other caller enters. Readers
/// next to each other in the queue are woken together.
///
/// A task must not wait to read while it holds a read guard. If a writer has become the next waiter
/// meanwhile, the task and the writer wait for each other. Guards and cancellation work as with a
/// mutex, and there is no poisoning.
///
/// A read lock and its unlock cost two locked instructions together, on one word that all readers
/// share.
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
#[repr(C)] // see `Counted`
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    /// The writer's number; 0 if there is no writer, or if it has not stored its number yet.
    writer: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: moving the lock to another thread moves the value there, and `T: Send`.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: a shared lock gives the value to one writer at a time, which `T: Send` allows, or to many
// readers at a time, which `T: Sync` allows.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_fn! {
        /// Creates an unlocked lock.
        pub const fn new(value: T) -> RwLock<T> {
            RwLock {
                raw: RawRwLock::new(),
                writer: AtomicU64::new(0),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Consumes the lock and returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading, waiting if necessary.
    ///
    /// Suspends if a writer is inside, or if a waiter must not be passed any more.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled, even if the lock is free, or if the caller
    /// would have to wait while its thread is panicking. A plain thread never gets an error.
    ///
    /// # Panics
    /// If the caller is the writer, and would wait for itself. If it would have to wait inside
    /// [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> Result<RwLockReadGuard<'_, T>, Cancelled> {
        match self.enter(READ, None) {
            Ok(_) => Ok(RwLockReadGuard::new(self)),
            Err(_) => Err(Cancelled::here()),
        }
    }

    /// Locks for writing, waiting if necessary.
    ///
    /// Suspends if a reader or a writer is inside, or if a waiter must not be passed any more.
    ///
    /// # Errors
    /// Same as [`read`](RwLock::read).
    ///
    /// # Panics
    /// Same as [`read`](RwLock::read).
    #[inline]
    #[track_caller]
    pub fn write(&self) -> Result<RwLockWriteGuard<'_, T>, Cancelled> {
        match self.enter(WRITE, None) {
            Ok(holder) => Ok(self.write_guard(holder)),
            Err(_) => Err(Cancelled::here()),
        }
    }

    /// Locks for reading, waiting for at most `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` passes first. [`WaitError::Cancelled`] in the cases in
    /// which [`read`](RwLock::read) fails.
    ///
    /// # Panics
    /// Same as [`read`](RwLock::read).
    #[track_caller]
    pub fn read_timeout(&self, time: Duration) -> Result<RwLockReadGuard<'_, T>, WaitError> {
        self.enter(READ, after(time)).map_err(WaitError::of)?;
        Ok(RwLockReadGuard::new(self))
    }

    /// Locks for writing, waiting for at most `time`.
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
    /// Same as [`read_timeout`](RwLock::read_timeout).
    ///
    /// # Panics
    /// Same as [`read`](RwLock::read).
    #[track_caller]
    pub fn write_timeout(&self, time: Duration) -> Result<RwLockWriteGuard<'_, T>, WaitError> {
        let holder = self.enter(WRITE, after(time)).map_err(WaitError::of)?;
        Ok(self.write_guard(holder))
    }

    /// Locks for reading if that is possible now, ahead of the waiters. Fails if a writer is
    /// inside, or if a waiter must not be passed any more.
    ///
    /// Does not suspend, and ignores cancellation.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.raw.try_take(READ).then(|| RwLockReadGuard::new(self))
    }

    /// Locks for writing if that is possible now, ahead of the waiters. Fails if a reader or a
    /// writer is inside, or if a waiter must not be passed any more.
    ///
    /// Does not suspend, and ignores cancellation.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.raw.try_take(WRITE).then(|| self.write_guard(Holder::current().0))
    }

    #[inline(always)]
    #[track_caller]
    fn enter(&self, what: u64, until: Option<Instant>) -> Result<Holder, Interruption> {
        let (holder, cancelled) = Holder::current();
        let at_once = || match what {
            READ => self.raw.take_one(),
            _ => self.raw.write(),
        };
        if cancelled || !at_once() && !self.raw.spin(what) {
            self.wait(holder, what, until)?;
        }
        Ok(holder)
    }

    #[cold]
    #[track_caller]
    fn wait(&self, holder: Holder, what: u64, until: Option<Instant>) -> Result<(), Interruption> {
        let writes =
            self.raw.readers().is_none() && self.writer.load(Ordering::Relaxed) == holder.number();
        assert!(
            !(writes && Holder::caller_may_be_told()),
            "cygnet: {holder:?} would wait for itself: it already writes in this RwLock, and must drop its guard first"
        );
        self.raw.wait(what, until).map(|_| ())
    }

    fn write_guard(&self, holder: Holder) -> RwLockWriteGuard<'_, T> {
        self.writer.store(holder.number(), Ordering::Relaxed);
        RwLockWriteGuard::new(self)
    }

    /// Locks for reading as a future, on any executor. The guard may be sent to another thread.
    #[track_caller]
    pub fn read_async(&self) -> RwLockRead<'_, T> {
        RwLockRead { wait: EnterCalled::new(&self.raw, READ, Location::caller()), lock: self }
    }

    /// Locks for writing as a future, on any executor. The guard may be sent to another thread.
    #[track_caller]
    pub fn write_async(&self) -> RwLockWrite<'_, T> {
        RwLockWrite { wait: EnterCalled::new(&self.raw, WRITE, Location::caller()), lock: self }
    }

    /// Returns a mutable reference to the value. No locking is needed, as the lock is borrowed
    /// exclusively.
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

/// Shows the value if it can be read, otherwise the readers or the writer, and in either case where
/// callers wait.
impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.raw.state().locations();
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

macro_rules! side {
    ($(#[$about:meta])* $how:ident $guard:ident, $what:expr, $send:ty) => {
        $(#[$about])*
        #[must_use = "the lock is left when this is dropped"]
        pub struct $guard<'a, T: ?Sized> {
            lock: &'a RwLock<T>,
            _send: PhantomData<$send>,
        }

        guard!($how $guard);

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
                // SAFETY: the lock was entered as `$what` before this guard was made, and not left
                // since.
                unsafe { self.lock.raw.unlock($what) };
            }
        }
    };
}

macro_rules! writes {
    ($guard:ident, $reader:ident) => {
        impl<'a, T: ?Sized> $guard<'a, T> {
            /// Turns the write guard into a read guard without unlocking, so that no writer comes
            /// in between. Other readers may enter from now on.
            pub fn downgrade(this: Self) -> $reader<'a, T> {
                let lock = this.lock;
                mem::forget(this);
                lock.writer.store(0, Ordering::Relaxed);
                // SAFETY: the forgotten guard had entered as a writer.
                unsafe { lock.raw.downgrade() };
                $reader::new(lock)
            }
        }
    };
}

// A guard is `Send` unless its marker type prevents it.
side! {
    /// A guard for reading an [`RwLock`]. It stays with the task or thread that locked.
    shared RwLockReadGuard, READ, *const ()
}
side! {
    /// A guard for writing an [`RwLock`]. It stays with the task or thread that locked.
    exclusive RwLockWriteGuard, WRITE, *const ()
}
side! {
    /// A future's guard for reading an [`RwLock`]. It may be sent to other threads.
    shared AsyncRwLockReadGuard, READ, ()
}
side! {
    /// A future's guard for writing an [`RwLock`]. It may be sent to other threads.
    exclusive AsyncRwLockWriteGuard, WRITE, ()
}
writes!(RwLockWriteGuard, RwLockReadGuard);
writes!(AsyncRwLockWriteGuard, AsyncRwLockReadGuard);

future! {
    /// The future of [`RwLock::read_async`].
    pub struct RwLockRead<'a, T: ?Sized> {
        wait: EnterCalled<'a, RawRwLock>,
        lock: &'a RwLock<T>,
    }
    type Output = AsyncRwLockReadGuard<'a, T>;
    |this, _| AsyncRwLockReadGuard::new(this.lock)
}

future! {
    /// The future of [`RwLock::write_async`].
    pub struct RwLockWrite<'a, T: ?Sized> {
        wait: EnterCalled<'a, RawRwLock>,
        lock: &'a RwLock<T>,
    }
    type Output = AsyncRwLockWriteGuard<'a, T>;
    |this, _| {
        this.lock.writer.store(Holder::FUTURE.number(), Ordering::Relaxed);
        AsyncRwLockWriteGuard::new(this.lock)
    }
}
