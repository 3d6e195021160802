//! A semaphore: permits for tasks, threads and futures.

use super::after;
use super::called::EnterCalled;
use super::errors::WaitError;
use super::future::future;
use super::raw_semaphore::{CLOSED, RawSemaphore};
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::Waitable;
use crate::shim::const_fn;
use std::mem;
use std::panic::Location;
use std::time::{Duration, Instant};

/// A counting semaphore, for tasks, threads and futures.
///
/// A running task may take a free permit ahead of the waiters. After half a millisecond, or a few
/// thousand passes, permits are kept for the first waiter, in order of arrival. A waiter that asks
/// for several permits at once is not passed at all while it is the first: until it has all of
/// them, no other caller gets any. A [`Permit`] gives its permits back when it is dropped, wherever
/// that happens.
///
/// [`close`](Semaphore::close) turns away all waiters and all later callers.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let downloads = cygnet::sync::Semaphore::new(2);
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| {
///                 let _permit = downloads.acquire().unwrap();
///                 // at most two tasks are here at a time
///             });
///         }
///     });
/// });
/// assert_eq!(downloads.available_permits(), 2);
/// ```
pub struct Semaphore {
    raw: RawSemaphore,
}

impl Semaphore {
    /// The greatest number of permits that a semaphore can have.
    pub const MAX_PERMITS: usize = RawSemaphore::MOST;

    const_fn! {
        /// Creates a semaphore with `permits` free permits.
        ///
        /// # Panics
        /// If `permits` is greater than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
        pub const fn new(permits: usize) -> Semaphore {
            assert!(
                permits <= RawSemaphore::MOST,
                "cygnet: a Semaphore was made with more than MAX_PERMITS permits"
            );
            Semaphore { raw: RawSemaphore::new(permits) }
        }
    }

    /// Returns the number of free permits at this moment. Costs a load.
    pub fn available_permits(&self) -> usize {
        self.raw.free()
    }

    /// Acquires one permit, waiting if necessary.
    ///
    /// Suspends if no permit is free, or if a waiter must not be passed any more. Otherwise costs
    /// one locked instruction.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the semaphore is closed. [`WaitError::Cancelled`] if the calling
    /// task is cancelled, even if a permit is free.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn acquire(&self) -> Result<Permit<'_>, WaitError> {
        self.take(1, None)
    }

    /// Acquires `permits` permits at once, waiting if necessary.
    ///
    /// Waits for ever if there are never enough: a semaphore does not know how many may be added.
    ///
    /// # Errors
    /// Same as [`acquire`](Semaphore::acquire).
    ///
    /// # Panics
    /// Same as [`acquire`](Semaphore::acquire), and if `permits` is greater than
    /// [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[track_caller]
    pub fn acquire_many(&self, permits: usize) -> Result<Permit<'_>, WaitError> {
        self.take(permits, None)
    }

    /// Acquires `permits` permits at once, waiting for at most `time`.
    ///
    /// ```
    /// use cygnet::sync::{Semaphore, WaitError};
    ///
    /// let time = std::time::Duration::from_millis(1);
    /// assert_eq!(Semaphore::new(1).acquire_timeout(2, time).err(), Some(WaitError::TimedOut));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` passes first. Otherwise same as
    /// [`acquire`](Semaphore::acquire).
    ///
    /// # Panics
    /// Same as [`acquire_many`](Semaphore::acquire_many).
    #[track_caller]
    pub fn acquire_timeout(&self, permits: usize, time: Duration) -> Result<Permit<'_>, WaitError> {
        self.take(permits, after(time))
    }

    #[track_caller]
    fn take(&self, permits: usize, until: Option<Instant>) -> Result<Permit<'_>, WaitError> {
        check(permits);
        let at_once = || match permits {
            1 => self.raw.take_one(),
            _ => self.raw.try_take(permits as u64),
        };
        if is_cancelled() || !at_once() {
            let answer = self.raw.wait(permits as u64, until).map_err(WaitError::of)?;
            if answer == CLOSED {
                return Err(WaitError::Closed);
            }
        }
        Ok(Permit { semaphore: self, permits })
    }

    /// Acquires one permit if one is free, ahead of the waiters. Fails if the semaphore is closed,
    /// or if a waiter must not be passed any more.
    ///
    /// Does not suspend, and ignores cancellation.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// Acquires `permits` permits at once, under the rules of
    /// [`try_acquire`](Semaphore::try_acquire).
    ///
    /// # Panics
    /// If `permits` is greater than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[track_caller]
    pub fn try_acquire_many(&self, permits: usize) -> Option<Permit<'_>> {
        check(permits);
        self.raw.try_take(permits as u64).then(|| Permit { semaphore: self, permits })
    }

    /// Acquires `permits` permits as a future, on any executor. The future asks for them at its
    /// first poll.
    ///
    /// # Panics
    /// If `permits` is greater than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[track_caller]
    pub fn acquire_async(&self, permits: usize) -> SemaphoreAcquire<'_> {
        check(permits);
        let wait = EnterCalled::new(&self.raw, permits as u64, Location::caller());
        SemaphoreAcquire { wait, semaphore: self, permits }
    }

    /// Adds permits, and serves the waiters.
    ///
    /// Does not suspend.
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS). No permit is added
    /// then.
    #[track_caller]
    pub fn add_permits(&self, permits: usize) {
        assert!(
            self.raw.release(permits),
            "cygnet: adding permits would exceed MAX_PERMITS of the Semaphore"
        );
    }

    /// Closes the semaphore: waiters and later callers get [`WaitError::Closed`]. Permits that were
    /// acquired before stay valid.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.raw.close();
    }

    /// Returns `true` if the semaphore is closed. Costs a load.
    pub fn is_closed(&self) -> bool {
        self.raw.is_closed()
    }
}

#[track_caller]
fn check(permits: usize) {
    assert!(
        permits <= RawSemaphore::MOST,
        "cygnet: more than MAX_PERMITS permits were asked for at once"
    );
}

debug! {
    impl Semaphore as this {
        available: this.available_permits(),
        closed: this.is_closed(),
        waiting: this.raw.state().locations(),
    }
}

/// Permits of a [`Semaphore`], given back when this is dropped.
#[must_use = "the permits are given back when this is dropped"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl Permit<'_> {
    /// Returns the number of permits.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Consumes the permits without giving them back: the semaphore has that many fewer from now
    /// on.
    pub fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // If permits were added meanwhile, up to the maximum, there is no room for these. They are
        // lost then.
        let _ = self.semaphore.raw.release(self.permits);
    }
}

debug! { impl Permit<'_> as this (this.permits) }

future! {
    /// The future of [`Semaphore::acquire_async`].
    pub struct SemaphoreAcquire<'a> {
        wait: EnterCalled<'a, RawSemaphore>,
        semaphore: &'a Semaphore,
        permits: usize,
    }
    /// The only error is [`WaitError::Closed`].
    type Output = Result<Permit<'a>, WaitError>;
    |this, answer| match answer {
        CLOSED => Err(WaitError::Closed),
        _ => Ok(Permit { semaphore: this.semaphore, permits: this.permits }),
    }
}
