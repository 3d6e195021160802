//! Channels for one value, from one sender to one receiver.

#[cfg(all(test, loom))]
mod models;
mod state;

use super::after;
use super::channel::TryRecvError;
use super::errors::WaitError;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{WaitFuture, enter};
use crate::task::outcome::{drop_all, resume_in_destructor};
use state::{Closing, Receiving, Shared};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
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
    let shared = Arc::new(Shared::new());
    (OneshotSender { shared: Arc::clone(&shared), used: false }, OneshotReceiver { shared })
}

/// The sending end of a [`oneshot()`]. If it is dropped without having sent a value, the channel is
/// closed.
pub struct OneshotSender<T> {
    shared: Arc<Shared<T>>,
    /// `send` was called, so the drop need not close the channel.
    used: bool,
}

/// The receiving end of a [`oneshot()`]. Dropping it closes the channel, and drops a value in it.
pub struct OneshotReceiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> OneshotSender<T> {
    /// Sends the value.
    ///
    /// Does not suspend, and does not check for cancellation. Costs a lock acquisition, and a
    /// wake-up if the receiver waits.
    ///
    /// # Errors
    /// Returns `value` if the receiver is gone or has [closed](OneshotReceiver::close) the channel.
    pub fn send(mut self, value: T) -> Result<(), T> {
        let sent = self.shared.send(value);
        // A refused value leaves nothing to close, either.
        self.used = true;
        sent
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
        self.shared.is_unwanted()
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
            enter(&Closing(&self.shared), 0, until).map_err(WaitError::of)?;
        }
        Ok(())
    }

    /// Like [`closed`](OneshotSender::closed), as a future for any executor. It does nothing before
    /// it is first polled.
    #[track_caller]
    pub fn closed_async(&self) -> OneshotClosed<'_, T> {
        OneshotClosed { entering: WaitFuture::new(Closing(&self.shared), 0, Location::caller()) }
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
        self.recv_until(None)
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
        self.recv_until(after(time))
    }

    #[track_caller]
    fn recv_until(&mut self, until: Option<Instant>) -> Result<T, WaitError> {
        let tried = if is_cancelled() { Err(TryRecvError::Empty) } else { self.shared.take() };
        match tried {
            Ok(value) => return Ok(value),
            Err(TryRecvError::Closed) => return Err(WaitError::Closed),
            Err(TryRecvError::Empty) => {}
        }
        enter(&Receiving(&self.shared), 0, until).map_err(WaitError::of)?;
        self.shared.take().map_err(|_| WaitError::Closed)
    }

    /// Receives the value if it is there now.
    ///
    /// Does not suspend, and does not check for cancellation.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if it is not there yet, [`TryRecvError::Closed`] if it will not
    /// come.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.shared.take()
    }

    /// Like [`recv`](OneshotReceiver::recv), as a future for any executor. If it is dropped before
    /// it is ready, it has received nothing.
    #[track_caller]
    pub fn recv_async(&mut self) -> OneshotRecv<'_, T> {
        let shared = &*self.shared;
        OneshotRecv { shared, entering: WaitFuture::new(Receiving(shared), 0, Location::caller()) }
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
        self.shared.close();
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        if !self.used {
            self.shared.drop_sender();
        }
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        self.shared.close();
        // No later call can receive the value. It is dropped without the lock, after the waiters
        // have been woken.
        if let Some(payload) = drop_all(self.shared.take()) {
            resume_in_destructor(payload);
        }
    }
}

fn debug<T>(name: &str, shared: &Shared<T>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (senders, receivers) = shared.places();
    f.debug_struct(name)
        .field("sent", &shared.has_value())
        .field("closed", &shared.is_unwanted())
        .field("receiving", &receivers)
        .field("waiting_for_close", &senders)
        .finish()
}

impl<T> fmt::Debug for OneshotSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("OneshotSender", &self.shared, f)
    }
}

impl<T> fmt::Debug for OneshotReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("OneshotReceiver", &self.shared, f)
    }
}

/// The future of [`OneshotReceiver::recv_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct OneshotRecv<'a, T> {
    shared: &'a Shared<T>,
    entering: WaitFuture<Receiving<'a, T>>,
}

impl<T> Future for OneshotRecv<'_, T> {
    /// The only error is [`WaitError::Closed`].
    type Output = Result<T, WaitError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, WaitError>> {
        let shared = self.shared;
        // SAFETY: `entering` is pinned together with `self`.
        let entering = unsafe { self.map_unchecked_mut(|this| &mut this.entering) };
        entering.poll(cx).map(|_| shared.take().map_err(|_| WaitError::Closed))
    }
}

impl<T> fmt::Debug for OneshotRecv<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotRecv").finish_non_exhaustive()
    }
}

/// The future of [`OneshotSender::closed_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct OneshotClosed<'a, T> {
    entering: WaitFuture<Closing<'a, T>>,
}

impl<T> Future for OneshotClosed<'_, T> {
    type Output = ();

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `entering` is pinned together with `self`.
        let entering = unsafe { self.map_unchecked_mut(|this| &mut this.entering) };
        entering.poll(cx).map(|_| ())
    }
}

impl<T> fmt::Debug for OneshotClosed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotClosed").finish_non_exhaustive()
    }
}
