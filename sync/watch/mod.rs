//! Watches: channels that keep only the last value.
//!
//! The value is the content of a [slot](super::slot).
//!
//! # Versions
//!
//! Values are numbered from 1, by the slot's count. A receiver has the number of the last value
//! that it has **seen**, and waits until there is a greater one. So it sees only the latest value,
//! however many there were, and each value at most once. The number is written by the call that
//! returns the value.
//!
//! # Snapshots
//!
//! A value lies in an [`Arc`], which is replaced under the lock and handed out as it is. No lock is
//! held while a caller looks at a value, however long that takes, and no foreign code (the closures
//! of users, the destructor and the `clone` of a value) runs under one. A modification is made to a
//! copy, which replaces the value unless another one has come meanwhile. In that case the
//! modification is repeated with the new value.

#[cfg(all(test, loom))]
mod models;

use super::after;
use super::channel::TryRecvError;
use super::errors::WaitError;
use super::future::future;
use super::holder::Holder;
use super::slot::{Cursor, Slot, SlotWait, receive, receive_called, wait};
use crate::retire::nesting::Pin;
use crate::scheduler::wait::waiters::WaitFuture;
use crate::shim::time::now;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of a receiver that has seen nothing.
const NOTHING: u64 = 0;

struct Latest<T> {
    value: Arc<T>,
    /// The holder that has sent the value.
    writer: Holder,
}

impl<T> Slot<Latest<T>> {
    fn of(value: T, writer: Holder) -> Slot<Latest<T>> {
        Slot::new(Latest { value: Arc::new(value), writer }, NOTHING + 1)
    }

    /// Returns the last value, and its number.
    fn latest(&self) -> (Arc<T>, u64) {
        let state = self.state.lock();
        (Arc::clone(&state.content.value), self.sent())
    }

    /// Replaces the value. If `from` is given, replaces only the value with that number. Returns
    /// the holder that has sent a newer one otherwise.
    fn replace(&self, value: Arc<T>, from: Option<u64>, writer: Holder) -> Result<(), Holder> {
        let mut state = self.state.lock();
        // MUTANT(watched.outrun): false
        if from.is_some_and(|from| from != self.sent()) {
            let by = state.content.writer;
            drop(state);
            return Err(by);
        }
        let before = std::mem::replace(&mut state.content, Latest { value, writer });
        self.count_sent(state);
        // This may be the last reference, so it is dropped without the lock.
        drop(before);
        Ok(())
    }
}

/// The number of the last value that a receiver has seen.
impl<T> Cursor<Latest<T>> for u64 {
    type Value = Arc<T>;

    const WHAT: &'static str = "a change of a watched value";

    fn passed(&self) -> u64 {
        *self
    }

    fn next(&mut self, slot: &Slot<Latest<T>>) -> Result<Arc<T>, TryRecvError> {
        let state = slot.state.lock();
        if slot.sent() > *self {
            *self = slot.sent();
            return Ok(Arc::clone(&state.content.value));
        }
        Err(if state.senders == 0 { TryRecvError::Closed } else { TryRecvError::Empty })
    }
}

/// Creates a channel for a value that changes and is watched: a configuration, a state, a progress.
///
/// Receivers look at the last value at any time, and wait for one that they have not seen. A slow
/// receiver misses the values in between, and sees the latest.
///
/// A look returns a snapshot, an [`Arc`]. No lock is held meanwhile, so a snapshot may be kept for
/// as long as needed, across any wait, and delays no other caller. It does not change when the next
/// value comes.
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
    let slot = Arc::new(Slot::of(initial, Holder::current().0));
    let receiver = WatchReceiver { seen: slot.sent(), slot: Arc::clone(&slot) };
    (WatchSender { slot }, receiver)
}

/// The sending end of a [`watch()`]. It may be cloned; dropping the last clone closes the channel.
pub struct WatchSender<T> {
    slot: Arc<Slot<Latest<T>>>,
}

/// The receiving end of a [`watch()`]. A clone has seen what the original has seen.
pub struct WatchReceiver<T> {
    slot: Arc<Slot<Latest<T>>>,
    /// The number of the last value that this receiver has seen.
    seen: u64,
}

impl<T> WatchSender<T> {
    /// Replaces the last value, even if there is no receiver.
    ///
    /// Does not suspend, and does not check for cancellation. Costs an allocation, a lock
    /// acquisition, and a wake-up for each waiter. The previous value is dropped by this call,
    /// unless there is a snapshot of it.
    pub fn send(&self, value: T) {
        let writer = Holder::current().0;
        let sent = self.slot.replace(Arc::new(value), None, writer);
        debug_assert!(sent.is_ok(), "an unconditional send was refused");
    }

    /// Changes a copy of the last value, and sends the copy.
    ///
    /// If another sender comes in between, `f` is called again with a copy of the newer value, so
    /// no sent value gets lost. If `f` panics, nothing is sent.
    ///
    /// Does not suspend, unless `f` or `clone` does; they run without a lock. Costs as much as
    /// `clone` and [`send`](WatchSender::send).
    ///
    /// ```
    /// let (sender, receiver) = cygnet::sync::watch(vec![1]);
    /// sender.send_modify(|values| values.push(2));
    /// assert_eq!(receiver.get(), [1, 2]);
    /// ```
    ///
    /// # Panics
    /// With the panic of `f`. If `f` itself sends to the same channel, because it would then be
    /// called again for ever. Inside `f`, a bare coroutine cannot be suspended.
    pub fn send_modify(&self, mut f: impl FnMut(&mut T))
    where
        T: Clone,
    {
        self.send_if_modified(|value| {
            f(value);
            true
        });
    }

    /// Like [`send_modify`](WatchSender::send_modify), but sends the copy only if `f` returns
    /// `true`. Returns whether it was sent. Otherwise the copy is dropped, with all changes that
    /// `f` has made.
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
    /// Like `send_modify`.
    pub fn send_if_modified(&self, mut f: impl FnMut(&mut T) -> bool) -> bool
    where
        T: Clone,
    {
        // If a bare coroutine were suspended in `f`, its caller could send meanwhile, and would be
        // taken for `f`.
        let _pin = Pin::innermost();
        let me = Holder::current().0;
        loop {
            let (latest, version) = self.slot.latest();
            let mut value = T::clone(&latest);
            drop(latest);
            if !f(&mut value) {
                return false;
            }
            match self.slot.replace(Arc::new(value), Some(version), me) {
                Ok(()) => return true,
                // No other code runs in the name of the caller, so `f` has sent.
                Err(by) => assert!(
                    by != me,
                    "cygnet: the closure of send_modify or send_if_modified has sent to its own \
                     watch: change the value through the argument instead"
                ),
            }
        }
    }

    /// Creates a receiver that has seen the last value.
    pub fn subscribe(&self) -> WatchReceiver<T> {
        self.slot.state.lock().receivers += 1;
        WatchReceiver { seen: self.slot.sent(), slot: Arc::clone(&self.slot) }
    }

    /// Returns the number of receivers.
    pub fn receivers(&self) -> usize {
        self.slot.receivers()
    }
}

impl<T> WatchReceiver<T> {
    /// Returns a snapshot of the last value, and marks the value as seen.
    ///
    /// Does not suspend. Costs a lock acquisition.
    pub fn see(&mut self) -> Arc<T> {
        let (value, number) = self.slot.latest();
        self.seen = number;
        value
    }

    /// Returns whether there is a value that has not been seen. Costs a load.
    pub fn has_changed(&self) -> bool {
        self.slot.sent() > self.seen
    }

    /// Waits for a value that has not been seen, and marks it as seen.
    ///
    /// Suspends if there is none. Costs a lock acquisition if there is one.
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
    /// [`WaitError::Closed`] if there is none and all senders are gone; [`WaitError::Cancelled`] if
    /// the calling task is cancelled, even if there is one, which then stays unseen.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn changed(&mut self) -> Result<Arc<T>, WaitError> {
        receive(&self.slot, &mut self.seen, None)
    }

    /// Like [`changed`](WatchReceiver::changed), but waits for `time` at most.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` has passed, and the errors of `changed`.
    ///
    /// # Panics
    /// Like `changed`.
    #[track_caller]
    pub fn changed_timeout(&mut self, time: Duration) -> Result<Arc<T>, WaitError> {
        receive(&self.slot, &mut self.seen, after(time))
    }

    /// Like [`changed`](WatchReceiver::changed), as a future for any executor. If it is dropped
    /// before it is ready, it has seen nothing.
    #[track_caller]
    pub fn changed_async(&mut self) -> WatchChanged<'_, T> {
        changed(&self.slot, &mut self.seen, Location::caller())
    }

    /// Waits until `so` returns `true` for the last value, and marks that value as seen.
    ///
    /// `so` is called without a lock: first for the present value, even if it has been seen, and
    /// then for later ones, some of which it may miss. Suspends, unless `so` accepts the present
    /// value.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if `so` has refused the last value and all senders are gone;
    /// [`WaitError::Cancelled`] if the calling task is cancelled, which is checked before each call
    /// of `so`. After an error, the receiver has seen the same as before the call.
    ///
    /// # Panics
    /// With the panic of `so`, and like [`changed`](WatchReceiver::changed).
    #[track_caller]
    pub fn wait_for(&mut self, so: impl FnMut(&T) -> bool) -> Result<Arc<T>, WaitError> {
        self.wait_for_until(so, None)
    }

    /// Like [`wait_for`](WatchReceiver::wait_for), but waits for `time` at most.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` has passed, and the errors of `wait_for`.
    ///
    /// # Panics
    /// Like `wait_for`.
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
            let value = receive(&*self.slot, &mut judged, until)?;
            if so(&value) {
                self.seen = judged;
                return Ok(value);
            }
            // If each look finds a new value, no wait begins that could time out.
            if until.is_some_and(|until| now() >= until) {
                return Err(WaitError::TimedOut);
            }
        }
    }

    /// Like [`wait_for`](WatchReceiver::wait_for), as a future for any executor. Its only error is
    /// [`WaitError::Closed`].
    #[track_caller]
    pub fn wait_for_async(
        &mut self,
        mut so: impl FnMut(&T) -> bool,
    ) -> impl Future<Output = Result<Arc<T>, WaitError>> {
        let location = Location::caller();
        async move {
            let mut judged = NOTHING;
            loop {
                let value = changed(&self.slot, &mut judged, location).await?;
                if so(&value) {
                    self.seen = judged;
                    return Ok(value);
                }
            }
        }
    }
}

fn changed<'a, T>(
    slot: &'a Slot<Latest<T>>,
    seen: &'a mut u64,
    location: &'static Location<'static>,
) -> WatchChanged<'a, T> {
    WatchChanged { wait: wait(slot, seen, location), slot, seen }
}

macro_rules! end {
    ($end:ident) => {
        impl<T> $end<T> {
            /// Returns a snapshot of the last value. This does not mark the value as seen.
            ///
            /// Does not suspend. Costs a lock acquisition.
            pub fn latest(&self) -> Arc<T> {
                self.slot.latest().0
            }

            /// Calls `f` with the last value. No lock is held meanwhile.
            pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
                f(&self.latest())
            }

            /// Returns a copy of the last value.
            pub fn get(&self) -> T
            where
                T: Clone,
            {
                self.with(T::clone)
            }
        }

        debug! {
            impl<T: fmt::Debug> $end<T> as this {
                value: this.latest(),
                closed: this.slot.is_closed(),
                waiting: this.slot.locations(),
            }
        }
    };
}

end!(WatchSender);
end!(WatchReceiver);

impl<T> WatchReceiver<T> {
    /// Returns whether all senders are gone. The last value stays available then.
    pub fn is_closed(&self) -> bool {
        self.slot.is_closed()
    }
}

impl<T> Clone for WatchSender<T> {
    fn clone(&self) -> WatchSender<T> {
        self.slot.add_sender();
        WatchSender { slot: Arc::clone(&self.slot) }
    }
}

impl<T> Clone for WatchReceiver<T> {
    fn clone(&self) -> WatchReceiver<T> {
        self.slot.state.lock().receivers += 1;
        WatchReceiver { slot: Arc::clone(&self.slot), seen: self.seen }
    }
}

impl<T> Drop for WatchSender<T> {
    fn drop(&mut self) {
        self.slot.drop_sender();
    }
}

impl<T> Drop for WatchReceiver<T> {
    fn drop(&mut self) {
        self.slot.state.lock().receivers -= 1;
    }
}

future! {
    /// The future of [`WatchReceiver::changed_async`].
    pub struct WatchChanged<'a, T> {
        wait: WaitFuture<SlotWait<'a, Latest<T>>>,
        slot: &'a Slot<Latest<T>>,
        seen: &'a mut u64,
    }
    /// The only error is [`WaitError::Closed`].
    type Output = Result<Arc<T>, WaitError>;
    |this, _| receive_called(this.slot, this.seen)
}
