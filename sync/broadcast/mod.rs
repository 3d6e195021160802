//! Broadcasts: channels where each receiver gets each value.

mod errors;
#[cfg(all(test, loom))]
mod models;
mod state;

pub use errors::{BroadcastRecvError, BroadcastTryRecvError};

use super::after;
use super::errors::WaitError;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{WaitFuture, enter};
use crate::task::outcome::resume_in_destructor;
use state::{Following, Place, Shared};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Creates a channel where each receiver gets a copy of each value that is sent after the receiver
/// was made.
///
/// Sending never waits. The channel keeps the values that some receiver has not received,
/// `capacity` at most (0 is the same as 1). When it is full, a new value drives out the oldest one.
/// A receiver that was too slow is [told so](BroadcastRecvError::Lagged), once, and goes on with
/// the oldest value that is there. Memory is allocated as needed; with `usize::MAX`, no value is
/// ever driven out.
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
    let shared = Arc::new(Shared::new(capacity.max(1)));
    let receiver = BroadcastReceiver { shared: Arc::clone(&shared), place: Place::first() };
    (BroadcastSender { shared }, receiver)
}

/// The sending end of a [`broadcast()`]. It may be cloned; dropping the last clone closes the
/// channel.
pub struct BroadcastSender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving end of a [`broadcast()`]. A clone goes on from the same position, with a copy of
/// each value that is there.
///
/// Dropping a receiver drops the values that no other receiver will receive. A forgotten receiver
/// keeps up to `capacity` values in memory.
pub struct BroadcastReceiver<T> {
    shared: Arc<Shared<T>>,
    place: Place<T>,
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
        self.shared.send(Arc::new(value)).map_err(|value| {
            let value = Arc::into_inner(value);
            value.expect("a refused value has no other owner")
        })
    }

    /// Creates a receiver of the values that are sent from now on.
    pub fn subscribe(&self) -> BroadcastReceiver<T> {
        let place = self.shared.add_receiver();
        BroadcastReceiver { shared: Arc::clone(&self.shared), place }
    }

    /// Returns the number of receivers.
    pub fn receivers(&self) -> usize {
        self.shared.receivers()
    }

    /// Returns how many values are kept for receivers that have not received them; at least 1.
    pub fn capacity(&self) -> usize {
        self.shared.capacity()
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
    /// [`Lagged`](BroadcastRecvError::Lagged), with their number, if values were driven out before
    /// they were received; [`Closed`](BroadcastRecvError::Closed) if everything has been received
    /// and all senders are gone; [`Cancelled`](BroadcastRecvError::Cancelled) if the calling task
    /// is cancelled, even if there is a value, which then stays in the channel.
    ///
    /// ```
    /// use cygnet::sync::{BroadcastRecvError, broadcast};
    ///
    /// let (sender, mut receiver) = broadcast(2);
    /// (0..5).for_each(|i| assert_eq!(sender.send(i), Ok(1)));
    /// drop(sender);
    /// assert_eq!(receiver.recv(), Err(BroadcastRecvError::Lagged(3)));
    /// assert_eq!((receiver.recv(), receiver.recv()), (Ok(3), Ok(4)));
    /// assert_eq!(receiver.recv(), Err(BroadcastRecvError::Closed));
    /// ```
    ///
    /// # Panics
    /// With the panic of `clone`. If it would have to wait inside
    /// [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, BroadcastRecvError> {
        self.recv_until(None)
    }

    /// Like [`recv`](BroadcastReceiver::recv), but waits for `time` at most.
    ///
    /// # Errors
    /// [`TimedOut`](BroadcastRecvError::TimedOut) if `time` has passed, and the errors of `recv`.
    ///
    /// # Panics
    /// Like `recv`.
    #[track_caller]
    pub fn recv_timeout(&mut self, time: Duration) -> Result<T, BroadcastRecvError> {
        self.recv_until(after(time))
    }

    #[track_caller]
    fn recv_until(&mut self, until: Option<Instant>) -> Result<T, BroadcastRecvError> {
        let mut may_look = !is_cancelled();
        loop {
            if may_look && let Some(result) = look(&self.shared, &mut self.place) {
                return result;
            }
            enter(&Following::new(&self.shared, &self.place), 0, until).map_err(WaitError::of)?;
            may_look = true;
        }
    }

    /// Receives the next value if it is there now.
    ///
    /// Does not suspend, and does not check for cancellation.
    ///
    /// # Errors
    /// If there is none, or if values were driven out before they were received.
    ///
    /// # Panics
    /// With the panic of `clone`.
    pub fn try_recv(&mut self) -> Result<T, BroadcastTryRecvError> {
        self.place.next(&self.shared)
    }

    /// Like [`recv`](BroadcastReceiver::recv), as a future for any executor. If it is dropped
    /// before it is ready, it has received nothing.
    #[track_caller]
    pub fn recv_async(&mut self) -> BroadcastRecv<'_, T> {
        let shared = &*self.shared;
        let entering = WaitFuture::new(Following::new(shared, &self.place), 0, Location::caller());
        BroadcastRecv { shared, place: &mut self.place, entering }
    }
}

impl<T> BroadcastReceiver<T> {
    /// Returns how many values are there for this receiver.
    pub fn len(&self) -> usize {
        self.place.len(&self.shared)
    }

    /// Returns whether no value is there for this receiver.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether all senders are gone.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

/// Receives the next value. Returns `None` if the receiver has to wait for it.
fn look<T: Clone>(
    shared: &Shared<T>,
    place: &mut Place<T>,
) -> Option<Result<T, BroadcastRecvError>> {
    match place.next(shared) {
        Ok(value) => Some(Ok(value)),
        Err(error) => BroadcastRecvError::of(error).map(Err),
    }
}

impl<T> Clone for BroadcastSender<T> {
    fn clone(&self) -> BroadcastSender<T> {
        self.shared.add_sender();
        BroadcastSender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Clone for BroadcastReceiver<T> {
    /// Costs a few instructions for each value that is there.
    fn clone(&self) -> BroadcastReceiver<T> {
        let place = self.shared.add_receiver_at(&self.place);
        BroadcastReceiver { shared: Arc::clone(&self.shared), place }
    }
}

impl<T> Drop for BroadcastSender<T> {
    fn drop(&mut self) {
        self.shared.drop_sender();
    }
}

impl<T> Drop for BroadcastReceiver<T> {
    fn drop(&mut self) {
        if let Some(payload) = self.shared.drop_receiver(&mut self.place) {
            resume_in_destructor(payload);
        }
    }
}

impl<T> fmt::Debug for BroadcastSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastSender")
            .field("receivers", &self.receivers())
            .field("capacity", &self.capacity())
            .field("receiving", &self.shared.places())
            .finish()
    }
}

impl<T> fmt::Debug for BroadcastReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastReceiver")
            .field("len", &self.len())
            .field("capacity", &self.shared.capacity())
            .field("closed", &self.is_closed())
            .field("receiving", &self.shared.places())
            .finish()
    }
}

/// The future of [`BroadcastReceiver::recv_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct BroadcastRecv<'a, T> {
    shared: &'a Shared<T>,
    place: &'a mut Place<T>,
    entering: WaitFuture<Following<'a, T>>,
}

impl<T: Clone> Future for BroadcastRecv<'_, T> {
    /// The only errors are [`Lagged`](BroadcastRecvError::Lagged) and
    /// [`Closed`](BroadcastRecvError::Closed).
    type Output = Result<T, BroadcastRecvError>;

    /// # Panics
    /// With the panic of `clone`, and if polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, BroadcastRecvError>> {
        // SAFETY: `entering` is the only pinned field, and nothing moves it.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `entering` is pinned together with `self`.
        let entering = unsafe { Pin::new_unchecked(&mut this.entering) };
        ready!(entering.poll(cx));
        let result = look(this.shared, this.place);
        Poll::Ready(result.expect("a called receiver finds a value or an end"))
    }
}

impl<T> fmt::Debug for BroadcastRecv<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastRecv").finish_non_exhaustive()
    }
}
