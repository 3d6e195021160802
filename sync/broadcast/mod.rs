//! Broadcasts: channels where each receiver gets each value.

#[cfg(all(test, loom))]
mod models;
mod state;

use super::after;
use super::channel::TryRecvError;
use super::errors::WaitError;
use super::future::future;
use super::slot::{Cursor, Slot, SlotWait, receive, receive_called, wait};
use crate::scheduler::wait::waiters::WaitFuture;
use crate::task::outcome::resume_in_destructor;
use state::{Ring, RingCursor};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Creates a channel where each receiver gets a copy of each value that is sent after the receiver
/// was made.
///
/// Sending never waits. The channel keeps the values that some receiver has not received,
/// `capacity` at most (0 is the same as 1). When it is full, a new value drives out the oldest one.
/// A receiver that was too slow is [told so](WaitError::Lagged), once, and goes on with the oldest
/// value that is there. Memory is allocated as needed; with `usize::MAX`, no value is ever driven
/// out.
///
/// Copies are made by `clone`, on the receiver's side and without a lock. The last receiver of a
/// value gets the value itself. As several receivers may copy a value at the same moment, a channel
/// that is shared by threads requires `T: Send + Sync`.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let (sender, mut one) = cygnet::sync::broadcast(16);
/// let mut other = sender.subscribe();
/// let received = rt.block_on(|| {
///     cygnet::scope(|s| {
///         s.spawn(move || {
///             sender.send("first").unwrap();
///             sender.send("second").unwrap();
///         });
///         let task = s.spawn(move || [one.recv().unwrap(), one.recv().unwrap()]);
///         [task.join().unwrap(), [other.recv().unwrap(), other.recv().unwrap()]]
///     })
/// });
/// assert_eq!(received, [["first", "second"]; 2]);
/// ```
pub fn broadcast<T: Clone>(capacity: usize) -> (BroadcastSender<T>, BroadcastReceiver<T>) {
    let slot = Arc::new(Slot::new(Ring::new(capacity.max(1)), 0));
    let receiver = BroadcastReceiver { slot: Arc::clone(&slot), cursor: RingCursor::first() };
    (BroadcastSender { slot }, receiver)
}

/// The sending end of a [`broadcast()`]. It may be cloned; dropping the last clone closes the
/// channel.
pub struct BroadcastSender<T> {
    slot: Arc<Slot<Ring<T>>>,
}

/// The receiving end of a [`broadcast()`]. A clone goes on from the same position, with a copy of
/// each value that is there.
///
/// Dropping a receiver drops the values that no other receiver will receive. A forgotten receiver
/// keeps up to `capacity` values in memory.
pub struct BroadcastReceiver<T> {
    slot: Arc<Slot<Ring<T>>>,
    cursor: RingCursor<T>,
}

impl<T> BroadcastSender<T> {
    /// Sends a value to all receivers, and returns how many there are.
    ///
    /// Does not suspend, and does not check for cancellation. Costs an allocation, a lock
    /// acquisition, and a wake-up for each waiter. A value that is driven out is dropped by this
    /// call, unless a receiver is about to copy it.
    ///
    /// # Errors
    /// Returns `value` if there is no receiver.
    pub fn send(&self, value: T) -> Result<usize, T> {
        self.slot.send(Arc::new(value)).map_err(|value| {
            let value = Arc::into_inner(value);
            value.expect("a refused value has no other owner")
        })
    }

    /// Creates a receiver of the values that are sent from now on.
    pub fn subscribe(&self) -> BroadcastReceiver<T> {
        let cursor = self.slot.add_receiver();
        BroadcastReceiver { slot: Arc::clone(&self.slot), cursor }
    }

    /// Returns the number of receivers.
    pub fn receivers(&self) -> usize {
        self.slot.receivers()
    }

    /// Returns how many values are kept for receivers that have not received them; at least 1.
    pub fn capacity(&self) -> usize {
        self.slot.capacity()
    }
}

impl<T: Clone> BroadcastReceiver<T> {
    /// Receives the next value, waiting for it.
    ///
    /// Suspends if there is none. Costs a lock acquisition and a `clone` if there is one. If
    /// `clone` panics, the next call receives the same value. If the destructor of the original
    /// panics, that panic is discarded.
    ///
    /// # Errors
    /// [`WaitError::Lagged`], with their number, if values were driven out before they were
    /// received; [`WaitError::Closed`] if everything has been received and all senders are gone;
    /// [`WaitError::Cancelled`] if the calling task is cancelled, even if there is a value, which
    /// then stays in the channel.
    ///
    /// ```
    /// use cygnet::sync::{WaitError, broadcast};
    ///
    /// let (sender, mut receiver) = broadcast(2);
    /// (0..5).for_each(|i| assert_eq!(sender.send(i), Ok(1)));
    /// drop(sender);
    /// assert_eq!(receiver.recv(), Err(WaitError::Lagged(3)));
    /// assert_eq!((receiver.recv(), receiver.recv()), (Ok(3), Ok(4)));
    /// assert_eq!(receiver.recv(), Err(WaitError::Closed));
    /// ```
    ///
    /// # Panics
    /// With the panic of `clone`. If it would have to wait inside
    /// [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, WaitError> {
        receive(&self.slot, &mut self.cursor, None)
    }

    /// Like [`recv`](BroadcastReceiver::recv), but waits for `time` at most.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` has passed, and the errors of `recv`.
    ///
    /// # Panics
    /// Like `recv`.
    #[track_caller]
    pub fn recv_timeout(&mut self, time: Duration) -> Result<T, WaitError> {
        receive(&self.slot, &mut self.cursor, after(time))
    }

    /// Receives the next value if it is there now.
    ///
    /// Does not suspend, and does not check for cancellation.
    ///
    /// # Errors
    /// [`TryRecvError::Lagged`], with their number, if values were driven out before they were
    /// received; [`TryRecvError::Empty`] if there is none, and [`TryRecvError::Closed`] if none
    /// will come.
    ///
    /// # Panics
    /// With the panic of `clone`.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.cursor.next(&self.slot)
    }

    /// Like [`recv`](BroadcastReceiver::recv), as a future for any executor. If it is dropped
    /// before it is ready, it has received nothing.
    #[track_caller]
    pub fn recv_async(&mut self) -> BroadcastRecv<'_, T> {
        let wait = wait(&self.slot, &self.cursor, Location::caller());
        BroadcastRecv { wait, slot: &self.slot, cursor: &mut self.cursor }
    }
}

impl<T> BroadcastReceiver<T> {
    /// Returns how many values are there for this receiver.
    pub fn len(&self) -> usize {
        self.cursor.len(&self.slot)
    }

    /// Returns whether no value is there for this receiver.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether all senders are gone.
    pub fn is_closed(&self) -> bool {
        self.slot.is_closed()
    }
}

impl<T> Clone for BroadcastSender<T> {
    fn clone(&self) -> BroadcastSender<T> {
        self.slot.add_sender();
        BroadcastSender { slot: Arc::clone(&self.slot) }
    }
}

impl<T> Clone for BroadcastReceiver<T> {
    /// Costs a few instructions for each value that is there.
    fn clone(&self) -> BroadcastReceiver<T> {
        let cursor = self.slot.add_receiver_at(&self.cursor);
        BroadcastReceiver { slot: Arc::clone(&self.slot), cursor }
    }
}

impl<T> Drop for BroadcastSender<T> {
    fn drop(&mut self) {
        self.slot.drop_sender();
    }
}

impl<T> Drop for BroadcastReceiver<T> {
    fn drop(&mut self) {
        if let Some(payload) = self.slot.drop_receiver(&mut self.cursor) {
            resume_in_destructor(payload);
        }
    }
}

debug! {
    impl<T> BroadcastSender<T> as this {
        receivers: this.receivers(),
        capacity: this.capacity(),
        receiving: this.slot.locations(),
    }
}

debug! {
    impl<T> BroadcastReceiver<T> as this {
        len: this.len(),
        capacity: this.slot.capacity(),
        closed: this.is_closed(),
        receiving: this.slot.locations(),
    }
}

future! {
    /// The future of [`BroadcastReceiver::recv_async`].
    pub struct BroadcastRecv<'a, T> {
        wait: WaitFuture<SlotWait<'a, Ring<T>>>,
        slot: &'a Slot<Ring<T>>,
        cursor: &'a mut RingCursor<T>,
    }
    /// The only errors are [`WaitError::Lagged`] and [`WaitError::Closed`]. Polling panics with the
    /// panic of `clone`.
    type Output = Result<T, WaitError> where T: Clone;
    |this, _| receive_called(this.slot, this.cursor)
}
