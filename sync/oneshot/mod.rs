//! Channels for one value, from one sender to one receiver.
//!
//! The value is the content of a [slot](super::slot), which counts one value at most.
//!
//! ```text
//!  OPEN --send------------------------> ENDED, with the value --recv--> ENDED, without
//!   |                                                                     ^
//!   +-- the sender goes, or the receiver closes the channel or goes ------+
//! ```
//!
//! The channel leaves OPEN once, under the lock, and then calls all waiters: the receiver, which
//! waits for the value, or the sender, which waits until the value is unwanted. The sender is used
//! up by `send`, so for a sender an ENDED channel is one that accepts no value. No other receiver
//! can come between a call and the receiver's look, because a receiver waits through an exclusive
//! reference. The value is moved in and out under the lock, and dropped outside.

#[cfg(all(test, loom))]
mod models;

use super::after;
use super::channel::TryRecvError;
use super::errors::WaitError;
use super::future::future;
use super::slot::{Cursor, Slot, SlotWait, receive, receive_called, wait};
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{WaitFuture, enter};
use crate::task::outcome::{drop_all, resume_in_destructor};
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Creates a channel for one value, such as the answer to a request.
///
/// Sending never waits. The two ends share one allocation, which is the only one.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let (sender, mut receiver) = cygnet::sync::oneshot();
/// let answer = rt.block_on(|| {
///     cygnet::scope(|s| {
///         s.spawn(|| sender.send(6 * 7).unwrap());
///         receiver.recv()
///     })
/// });
/// assert_eq!(answer, Ok(42));
/// ```
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let slot = Arc::new(Slot::new(None, 0));
    (OneshotSender { slot: Arc::clone(&slot) }, OneshotReceiver { slot })
}

/// The sending end of a [`oneshot()`]. If it is dropped without having sent a value, the channel is
/// closed.
pub struct OneshotSender<T> {
    slot: Arc<Slot<Option<T>>>,
}

/// The receiving end of a [`oneshot()`]. Dropping it closes the channel, and drops a value in it.
pub struct OneshotReceiver<T> {
    slot: Arc<Slot<Option<T>>>,
}

impl<T> Slot<Option<T>> {
    /// Leaves OPEN, with this value if any. Returns the value if the channel is not OPEN.
    fn finish(&self, value: Option<T>) -> Result<(), Option<T>> {
        let mut state = self.state.lock();
        if self.has_ended() {
            return Err(value);
        }
        state.content = value;
        self.count_sent(state);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.sent() > 0
    }

    /// Takes the value if it is there.
    fn take(&self) -> Result<T, TryRecvError> {
        let mut state = self.state.lock();
        let value = state.content.take();
        value.ok_or(if self.has_ended() { TryRecvError::Closed } else { TryRecvError::Empty })
    }

    /// The channel as its sender waits for its end.
    fn ending(&self) -> SlotWait<'_, Option<T>> {
        SlotWait { slot: self, passed: 0, what: "the end of a oneshot's receiver" }
    }
}

/// The cursor of the receiver.
struct Only;

impl<T> Cursor<Option<T>> for Only {
    type Value = T;

    const WHAT: &'static str = "the value of a oneshot";

    fn passed(&self) -> u64 {
        0
    }

    fn next(&mut self, slot: &Slot<Option<T>>) -> Result<T, TryRecvError> {
        slot.take()
    }
}

impl<T> OneshotSender<T> {
    /// Sends the value.
    ///
    /// Does not suspend, and does not check for cancellation. Costs a lock acquisition, and a
    /// wake-up if the receiver waits.
    ///
    /// # Errors
    /// Returns `value` if the receiver is gone or has [closed](OneshotReceiver::close) the channel.
    pub fn send(self, value: T) -> Result<(), T> {
        let sent = self.slot.finish(Some(value));
        sent.map_err(|refused| refused.expect("a refused value is returned"))
    }

    /// Returns whether the receiver is gone or has closed the channel, so that the value is
    /// unwanted. Costs a load.
    ///
    /// ```
    /// let (sender, receiver) = cygnet::sync::oneshot::<u32>();
    /// assert!(!sender.is_closed());
    /// drop(receiver);
    /// assert!(sender.is_closed()); // time to stop computing it
    /// assert_eq!(sender.send(1), Err(1));
    /// ```
    pub fn is_closed(&self) -> bool {
        self.slot.has_ended()
    }

    /// Waits until the receiver is gone or has closed the channel.
    ///
    /// Suspends, unless that has happened already.
    ///
    /// # Errors
    /// [`WaitError::Cancelled`] if the calling task is cancelled, even if the channel is closed.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn closed(&self) -> Result<(), WaitError> {
        self.closed_until(None)
    }

    /// Like [`closed`](OneshotSender::closed), but waits for `time` at most.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` has passed, and the errors of `closed`.
    ///
    /// # Panics
    /// Like `closed`.
    #[track_caller]
    pub fn closed_timeout(&self, time: Duration) -> Result<(), WaitError> {
        self.closed_until(after(time))
    }

    #[track_caller]
    fn closed_until(&self, until: Option<Instant>) -> Result<(), WaitError> {
        if is_cancelled() || !self.is_closed() {
            enter(&self.slot.ending(), 0, until).map_err(WaitError::of)?;
        }
        Ok(())
    }

    /// Like [`closed`](OneshotSender::closed), as a future for any executor. It does nothing before
    /// it is first polled.
    #[track_caller]
    pub fn closed_async(&self) -> OneshotClosed<'_, T> {
        OneshotClosed { wait: WaitFuture::new(self.slot.ending(), 0, Location::caller()) }
    }
}

impl<T> OneshotReceiver<T> {
    /// Receives the value, waiting for it.
    ///
    /// Suspends if the value has not been sent. Costs a lock acquisition if it has.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if no value will come: the sender was dropped without sending one, the
    /// channel was closed first, or the value has been received already. [`WaitError::Cancelled`]
    /// if the calling task is cancelled, even if the value is there; a later call may still receive
    /// it.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, WaitError> {
        receive(&self.slot, &mut Only, None)
    }

    /// Like [`recv`](OneshotReceiver::recv), but waits for `time` at most. It may be called again
    /// after a timeout.
    ///
    /// ```
    /// use cygnet::sync::{WaitError, oneshot};
    ///
    /// let (sender, mut receiver) = oneshot();
    /// let time = std::time::Duration::from_millis(1);
    /// assert_eq!(receiver.recv_timeout(time), Err(WaitError::TimedOut));
    /// sender.send("late").unwrap();
    /// assert_eq!(receiver.recv_timeout(time), Ok("late"));
    /// assert_eq!(receiver.recv_timeout(time), Err(WaitError::Closed));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` has passed, and the errors of `recv`.
    ///
    /// # Panics
    /// Like `recv`.
    #[track_caller]
    pub fn recv_timeout(&mut self, time: Duration) -> Result<T, WaitError> {
        receive(&self.slot, &mut Only, after(time))
    }

    /// Receives the value if it is there now.
    ///
    /// Does not suspend, and does not check for cancellation.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if it is not there yet, [`TryRecvError::Closed`] if it will not
    /// come.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.slot.take()
    }

    /// Like [`recv`](OneshotReceiver::recv), as a future for any executor. If it is dropped before
    /// it is ready, it has received nothing.
    #[track_caller]
    pub fn recv_async(&mut self) -> OneshotRecv<'_, T> {
        OneshotRecv { wait: wait(&self.slot, &Only, Location::caller()), slot: &self.slot }
    }

    /// Closes the channel: sending fails from now on, and a value that was sent can still be
    /// received.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// let (sender, mut receiver) = cygnet::sync::oneshot();
    /// receiver.close();
    /// assert_eq!(sender.send(1), Err(1));
    /// assert!(receiver.recv().is_err());
    /// ```
    pub fn close(&mut self) {
        let _ = self.slot.finish(None);
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        if !self.is_closed() {
            let _ = self.slot.finish(None);
        }
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        self.close();
        // No later call can receive the value. It is dropped without the lock, after the waiters
        // have been woken.
        if let Some(payload) = drop_all(self.slot.take()) {
            resume_in_destructor(payload);
        }
    }
}

macro_rules! debug_ends {
    ($($end:ident),*) => {$(
        debug! {
            impl<T> $end<T> as this {
                sent: this.slot.state.lock().content.is_some(),
                closed: this.slot.has_ended(),
                waiting: this.slot.locations(),
            }
        }
    )*};
}

debug_ends!(OneshotSender, OneshotReceiver);

future! {
    /// The future of [`OneshotReceiver::recv_async`].
    pub struct OneshotRecv<'a, T> {
        wait: WaitFuture<SlotWait<'a, Option<T>>>,
        slot: &'a Slot<Option<T>>,
    }
    /// The only error is [`WaitError::Closed`].
    type Output = Result<T, WaitError>;
    |this, _| receive_called(this.slot, &mut Only)
}

future! {
    /// The future of [`OneshotSender::closed_async`].
    pub struct OneshotClosed<'a, T> {
        wait: WaitFuture<SlotWait<'a, Option<T>>>,
    }
    type Output = ();
    |this, _| ()
}
