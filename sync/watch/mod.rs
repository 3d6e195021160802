//! Watches: the last value, and the wait for the next one.

mod futures;
#[cfg(all(test, loom))]
mod models;
mod state;

pub use futures::WatchChanged;

use super::after;
use super::channel::TryRecvError;
use super::errors::WaitError;
use super::holder::Holder;
use crate::retire::chain::Pin;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::enter;
use crate::shim::time::now;
use state::{Changing, NOTHING, Numbered, Shared};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A value that changes, and is watched: a configuration, a state, a progress.
///
/// Receivers look at the last value at any time, and wait for one that they have not seen. One that is slow misses those in
/// between, and sees the latest.
///
/// Who looks gets a snapshot, an [`Arc`]: no lock is held meanwhile, so it may be kept for as long as one likes, over any
/// wait, and holds up nobody. It stays as it is when the next value comes.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let (sender, mut receiver) = cygnet::sync::watch(0);
/// let seen = rt.block_on(|| {
///     cygnet::scope(|s| {
///         s.spawn(move || (1..=3).for_each(|i| sender.send(i)));
///         *receiver.wait_for(|value| *value >= 2).unwrap() // perhaps it misses the 2
///     })
/// });
/// assert!(seen == 2 || seen == 3);
/// ```
pub fn watch<T>(initial: T) -> (WatchSender<T>, WatchReceiver<T>) {
    let shared = Arc::new(Shared::new(initial, Holder::current().0));
    let receiver = WatchReceiver { seen: shared.version(), shared: Arc::clone(&shared) };
    (WatchSender { shared }, receiver)
}

/// The end of a [`watch()`] where values are sent. It may be cloned; with the last one the channel is closed.
pub struct WatchSender<T> {
    shared: Arc<Shared<T>>,
}

/// The end of a [`watch()`] where values are seen. Its clones have seen what it has seen.
pub struct WatchReceiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the last value that it has seen.
    seen: u64,
}

impl<T> WatchSender<T> {
    /// Puts a value in the place of the last one, whether somebody watches or not.
    ///
    /// Does not suspend, and does not ask whether the task is cancelled. Costs an allocation, a lock, and a wake-up for each who
    /// waits. The value before is dropped by this call, unless somebody holds a snapshot of it.
    pub fn send(&self, value: T) {
        let writer = Holder::current().0;
        let sent = self.shared.replace(Arc::new(value), None, writer);
        debug_assert!(sent.is_ok(), "in the place of any other one");
    }

    /// Changes a copy of the last value, and sends that.
    ///
    /// If another sender comes in between, `f` is called again, with a copy of what that one has sent; so nothing that was
    /// sent gets lost. If it panics, nothing is sent.
    ///
    /// Does not suspend, but as `f` and `clone` do, which run without a lock. Costs what `clone` and [`send`](WatchSender::send)
    /// do.
    ///
    /// ```
    /// let (sender, receiver) = cygnet::sync::watch(vec![1]);
    /// sender.send_modify(|values| values.push(2));
    /// assert_eq!(receiver.get(), [1, 2]);
    /// ```
    ///
    /// # Panics
    /// With the panic of `f`. If `f` itself sends to the same channel: it would be called for ever. A bare coroutine cannot be suspended by `f`.
    pub fn send_modify(&self, mut f: impl FnMut(&mut T))
    where
        T: Clone,
    {
        self.send_if_modified(|value| {
            f(value);
            true
        });
    }

    /// As [`send_modify`](WatchSender::send_modify), if `f` says that the value has changed; whether it was sent. If not, the
    /// copy is dropped, and with it whatever `f` has done to it.
    ///
    /// ```
    /// let (sender, receiver) = cygnet::sync::watch(5);
    /// let at_most = |limit| move |value: &mut i32| *value > limit && { *value = limit; true };
    /// assert!(!sender.send_if_modified(at_most(7)));
    /// assert!(!receiver.has_changed());
    /// assert!(sender.send_if_modified(at_most(3)));
    /// assert_eq!((receiver.has_changed(), receiver.get()), (true, 3));
    /// ```
    ///
    /// # Panics
    /// As `send_modify`.
    pub fn send_if_modified(&self, mut f: impl FnMut(&mut T) -> bool) -> bool
    where
        T: Clone,
    {
        // Were a bare coroutine suspended in `f`, the caller could send meanwhile, and would be taken for `f`.
        let _pin = Pin::innermost();
        let me = Holder::current().0;
        loop {
            let (latest, version) = self.shared.latest();
            let mut value = T::clone(&latest);
            drop(latest);
            if !f(&mut value) {
                return false;
            }
            match self.shared.replace(Arc::new(value), Some(version), me) {
                Ok(()) => return true,
                // Nobody else does anything in the name of the caller.
                Err(outrun) => assert!(
                    outrun.by != me,
                    "cygnet: what was to modify the value of a watch has sent to it itself, and would do so for ever"
                ),
            }
        }
    }

    /// A receiver that has seen the last value.
    pub fn subscribe(&self) -> WatchReceiver<T> {
        self.shared.add_receiver();
        WatchReceiver { seen: self.shared.version(), shared: Arc::clone(&self.shared) }
    }

    /// How many receivers there are.
    pub fn receivers(&self) -> usize {
        self.shared.receivers()
    }
}

impl<T> WatchReceiver<T> {
    /// Marks the last value as seen, and gives a snapshot of it.
    ///
    /// Does not suspend. Costs a lock.
    pub fn see(&mut self) -> Arc<T> {
        let (value, version) = self.shared.latest();
        self.seen = version;
        value
    }

    /// Whether there is a value that has not been seen. A load.
    pub fn has_changed(&self) -> bool {
        self.shared.version() > self.seen
    }

    /// Waits for a value that has not been seen, and marks it as seen.
    ///
    /// Suspends, if there is none. Costs a lock, if there is.
    ///
    /// ```
    /// use cygnet::sync::{WaitError, watch};
    ///
    /// let (sender, mut receiver) = watch("first");
    /// sender.send("second");
    /// sender.send("third");
    /// drop(sender);
    /// assert_eq!(*receiver.changed().unwrap(), "third");
    /// assert_eq!(receiver.changed(), Err(WaitError::Closed));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::Closed`] if there is none and all senders are gone; [`WaitError::Cancelled`] if the calling task is
    /// cancelled, also if there is one: it stays unseen.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    pub fn changed(&mut self) -> Result<Arc<T>, WaitError> {
        self.changed_until(None)
    }

    /// As [`changed`](WatchReceiver::changed), but waits no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `changed`.
    ///
    /// # Panics
    /// As `changed`.
    #[track_caller]
    pub fn changed_timeout(&mut self, time: Duration) -> Result<Arc<T>, WaitError> {
        self.changed_until(after(time))
    }

    #[track_caller]
    fn changed_until(&mut self, until: Option<Instant>) -> Result<Arc<T>, WaitError> {
        let (value, version) = self.newer(self.seen, until)?;
        self.seen = version;
        Ok(value)
    }

    /// Waits for a value that is newer than what was seen.
    #[track_caller]
    fn newer(&self, seen: u64, until: Option<Instant>) -> Result<Numbered<T>, WaitError> {
        let tried = if is_cancelled() { Err(TryRecvError::Empty) } else { self.shared.newer(seen) };
        match tried {
            Ok(newer) => return Ok(newer),
            Err(TryRecvError::Closed) => return Err(WaitError::Closed),
            Err(TryRecvError::Empty) => {}
        }
        enter(&Changing { shared: &self.shared, seen }, 0, until).map_err(WaitError::of)?;
        self.shared.newer(seen).map_err(|_| WaitError::Closed)
    }

    /// As [`changed`](WatchReceiver::changed), as a future for any executor. Dropped before it is ready, it has seen nothing.
    #[track_caller]
    pub fn changed_async(&mut self) -> WatchChanged<'_, T> {
        WatchChanged::new(&self.shared, &mut self.seen)
    }

    /// Waits until `so` says yes to the last value, which may have been seen before, and marks it as seen.
    ///
    /// `so` is called without a lock, for the value that is there and for later ones, of which it may miss some.
    ///
    /// Suspends, unless it says yes to the first one.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if it has said no to the last value, and all senders are gone; [`WaitError::Cancelled`] if the calling
    /// task is cancelled, before `so` is called again. What was seen before the call stays the same then.
    ///
    /// # Panics
    /// With the panic of `so`, and as [`changed`](WatchReceiver::changed).
    #[track_caller]
    pub fn wait_for(&mut self, so: impl FnMut(&T) -> bool) -> Result<Arc<T>, WaitError> {
        self.wait_for_until(so, None)
    }

    /// As [`wait_for`](WatchReceiver::wait_for), but waits no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `wait_for`.
    ///
    /// # Panics
    /// As `wait_for`.
    #[track_caller]
    pub fn wait_for_timeout(
        &mut self,
        so: impl FnMut(&T) -> bool,
        time: Duration,
    ) -> Result<Arc<T>, WaitError> {
        self.wait_for_until(so, after(time))
    }

    #[track_caller]
    fn wait_for_until(
        &mut self,
        mut so: impl FnMut(&T) -> bool,
        until: Option<Instant>,
    ) -> Result<Arc<T>, WaitError> {
        let mut judged = NOTHING;
        loop {
            let (value, version) = self.newer(judged, until)?;
            if so(&value) {
                self.seen = version;
                return Ok(value);
            }
            // Where each look finds another value, no wait would come to its end.
            if until.is_some_and(|until| now() >= until) {
                return Err(WaitError::TimedOut);
            }
            judged = version;
        }
    }

    /// As [`wait_for`](WatchReceiver::wait_for), as a future for any executor; [`WaitError::Closed`] is its only error.
    #[track_caller]
    pub fn wait_for_async(
        &mut self,
        so: impl FnMut(&T) -> bool,
    ) -> impl Future<Output = Result<Arc<T>, WaitError>> {
        futures::wait_for(&self.shared, &mut self.seen, Location::caller(), so)
    }
}

macro_rules! end {
    ($end:ident) => {
        impl<T> $end<T> {
            /// A snapshot of the last value. For a receiver it does not count as seen.
            ///
            /// Does not suspend. Costs a lock.
            pub fn latest(&self) -> Arc<T> {
                self.shared.latest().0
            }

            /// Calls `f` with the last value. No lock is held meanwhile.
            pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
                f(&self.latest())
            }

            /// A copy of the last value.
            pub fn get(&self) -> T
            where
                T: Clone,
            {
                self.with(T::clone)
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($end))
                    .field("value", &self.latest())
                    .field("closed", &self.shared.is_closed())
                    .field("waiting", &self.shared.places())
                    .finish()
            }
        }
    };
}

end!(WatchSender);
end!(WatchReceiver);

impl<T> WatchReceiver<T> {
    /// Whether all senders are gone: the last value stays the last one.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

impl<T> Clone for WatchSender<T> {
    fn clone(&self) -> WatchSender<T> {
        self.shared.add_sender();
        WatchSender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Clone for WatchReceiver<T> {
    fn clone(&self) -> WatchReceiver<T> {
        self.shared.add_receiver();
        WatchReceiver { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for WatchSender<T> {
    fn drop(&mut self) {
        self.shared.drop_sender();
    }
}

impl<T> Drop for WatchReceiver<T> {
    fn drop(&mut self) {
        self.shared.drop_receiver();
    }
}
