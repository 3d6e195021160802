use super::after;
use super::errors::WaitError;
use super::raw_semaphore::{Acquiring, RawSemaphore};
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::Waitable;
use crate::shim::const_fn;
use std::fmt;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A number of permits: so many may do something at a time.
///
/// A task that runs may take a free permit ahead of those that wait. Nobody is passed for long:
/// after half a millisecond, or some thousand passes, permits are kept for the first one in the
/// queue, in the order of coming. One that asks for several at once is not passed at all while it
/// is the first: as long as it waits for the last of them, nobody else gets any. A [`Permit`] gives
/// them back when it is dropped, wherever that is.
///
/// [`close`](Semaphore::close) turns away who waits, and who comes.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let downloads = cygnet::sync::Semaphore::new(2);
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| {
///                 let _permit = downloads.acquire().unwrap();
///                 // .. with one other at most
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
    /// So many permits there may be at most.
    pub const MAX_PERMITS: usize = RawSemaphore::MOST;

    const_fn! {
        /// A semaphore with so many permits.
        ///
        /// # Panics
        /// If they are more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
        pub const fn new(permits: usize) -> Semaphore {
            assert!(permits <= RawSemaphore::MOST, "cygnet: a Semaphore cannot have so many permits");
            Semaphore { raw: RawSemaphore::new(permits) }
        }
    }

    /// How many are free at this moment. A load.
    pub fn available_permits(&self) -> usize {
        self.raw.free()
    }

    /// Waits for one permit.
    ///
    /// Suspends, unless there is one and nobody waits who is not to be passed. Costs a locked
    /// instruction then.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the semaphore is closed; [`WaitError::Cancelled`] if the calling task is cancelled, also if
    /// there is one.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    pub fn acquire(&self) -> Result<Permit<'_>, WaitError> {
        self.take(1, None)
    }

    /// As [`acquire`](Semaphore::acquire), for several at once.
    ///
    /// It waits for ever, if so many are never there: a semaphore does not know how many may be added.
    ///
    /// # Errors
    /// As `acquire`.
    ///
    /// # Panics
    /// As `acquire`, and for more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[track_caller]
    pub fn acquire_many(&self, permits: usize) -> Result<Permit<'_>, WaitError> {
        self.take(permits, None)
    }

    /// As [`acquire_many`](Semaphore::acquire_many), but waits no longer than `time`.
    ///
    /// ```
    /// use cygnet::sync::{Semaphore, WaitError};
    ///
    /// let time = std::time::Duration::from_millis(1);
    /// assert_eq!(Semaphore::new(1).acquire_timeout(2, time).err(), Some(WaitError::TimedOut));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `acquire`.
    ///
    /// # Panics
    /// As `acquire_many`.
    #[track_caller]
    pub fn acquire_timeout(&self, permits: usize, time: Duration) -> Result<Permit<'_>, WaitError> {
        self.take(permits, after(time))
    }

    #[track_caller]
    fn take(&self, permits: usize, until: Option<Instant>) -> Result<Permit<'_>, WaitError> {
        check(permits);
        let at_once = || match permits {
            1 => self.raw.acquire_one(),
            _ => self.raw.try_acquire(permits),
        };
        if is_cancelled() || !at_once() {
            let got = self.raw.acquire(permits, until).map_err(WaitError::of)?;
            if !got {
                return Err(WaitError::Closed);
            }
        }
        Ok(Permit { semaphore: self, permits })
    }

    /// Takes one permit if there is one, ahead of those who wait, unless they are not to be passed.
    ///
    /// Does not suspend, and does not ask whether the task is cancelled.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// As [`try_acquire`](Semaphore::try_acquire), for several at once.
    ///
    /// # Panics
    /// For more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[track_caller]
    pub fn try_acquire_many(&self, permits: usize) -> Option<Permit<'_>> {
        check(permits);
        self.raw.try_acquire(permits).then(|| Permit { semaphore: self, permits })
    }

    /// As [`acquire_many`](Semaphore::acquire_many), as a future for any executor. It asks when it is polled first.
    ///
    /// # Panics
    /// For more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[track_caller]
    pub fn acquire_async(&self, permits: usize) -> SemaphoreAcquire<'_> {
        check(permits);
        let acquiring = Acquiring::new(&self.raw, permits, Location::caller());
        SemaphoreAcquire { semaphore: self, permits, acquiring }
    }

    /// Adds permits, and serves those who wait.
    ///
    /// Does not suspend.
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS); then none is added.
    #[track_caller]
    pub fn add_permits(&self, permits: usize) {
        assert!(self.raw.release(permits), "cygnet: a Semaphore cannot have so many permits");
    }

    /// Gives out no permits any more: who waits, and who comes, is turned away with [`WaitError::Closed`]. Permits that are
    /// out stay valid.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.raw.close();
    }

    /// Whether it is closed. A load.
    pub fn is_closed(&self) -> bool {
        self.raw.is_closed()
    }
}

#[track_caller]
fn check(permits: usize) {
    assert!(permits <= RawSemaphore::MOST, "cygnet: a Semaphore never has so many permits");
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.raw.state().places();
        f.debug_struct("Semaphore")
            .field("available", &self.available_permits())
            .field("closed", &self.is_closed())
            .field("waiting", &waiting)
            .finish()
    }
}

/// Permits of a [`Semaphore`], given back when this is dropped.
#[must_use = "the permits are given back when this is dropped"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl Permit<'_> {
    /// How many they are.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Never gives them back: the semaphore has so many less from now on.
    pub fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // There was room for them. Where so many were added meanwhile that there is none, they stay away.
        let _ = self.semaphore.raw.release(self.permits);
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.permits).finish()
    }
}

/// The future of [`Semaphore::acquire_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct SemaphoreAcquire<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
    acquiring: Acquiring<'a>,
}

impl<'a> Future for SemaphoreAcquire<'a> {
    /// [`WaitError::Closed`] is the only error.
    type Output = Result<Permit<'a>, WaitError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Permit<'a>, WaitError>> {
        let (semaphore, permits) = (self.semaphore, self.permits);
        // SAFETY: pinned with the whole.
        let acquiring = unsafe { self.map_unchecked_mut(|this| &mut this.acquiring) };
        acquiring.poll(cx).map(|got| match got {
            true => Ok(Permit { semaphore, permits }),
            false => Err(WaitError::Closed),
        })
    }
}

impl fmt::Debug for SemaphoreAcquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphoreAcquire").field("permits", &self.permits).finish_non_exhaustive()
    }
}
