//! Oneshots: one value that goes from one to one.

#[cfg(all(test, loom))]
mod models;
mod state;

use super::after;
use super::channel::TryRecvError;
use super::errors::WaitError;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{Entering, enter};
use crate::task::outcome::{drop_all, resume_in_destructor};
use state::{Closing, Receiving, Shared};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A channel for one value: an answer, mostly.
///
/// Sending never waits. Both ends share one allocation, and that is all there is.
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

/// The end of a [`oneshot()`] where the value is sent. Dropped without having sent one, it closes the channel.
pub struct OneshotSender<T> {
    shared: Arc<Shared<T>>,
    /// A value was sent.
    used: bool,
}

/// The end of a [`oneshot()`] where the value is received. Dropped, it closes the channel, and drops a value that lies there.
pub struct OneshotReceiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> OneshotSender<T> {
    /// Sends the value.
    ///
    /// Does not suspend, and does not ask whether the task is cancelled. Costs a lock, and a wake-up if somebody waits.
    ///
    /// # Errors
    /// `value`, if the receiver is gone or has [closed](OneshotReceiver::close) the channel.
    pub fn send(mut self, value: T) -> Result<(), T> {
        let sent = self.shared.send(value);
        // Neither is there anything to be closed if it was refused.
        self.used = true;
        sent
    }

    /// Whether the receiver is gone, or has closed the channel: nobody wants the value any more. A load.
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

    /// Waits until the receiver is gone, or has closed the channel.
    ///
    /// Suspends, unless it is so.
    ///
    /// # Errors
    /// [`WaitError::Cancelled`] if the calling task is cancelled, also if it is so.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    pub fn closed(&self) -> Result<(), WaitError> {
        self.closed_until(None)
    }

    /// As [`closed`](OneshotSender::closed), but waits no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `closed`.
    ///
    /// # Panics
    /// As `closed`.
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

    /// As [`closed`](OneshotSender::closed), as a future for any executor. It begins when it is polled first.
    #[track_caller]
    pub fn closed_async(&self) -> OneshotClosed<'_, T> {
        OneshotClosed { entering: Entering::new(Closing(&self.shared), 0, Location::caller()) }
    }
}

impl<T> OneshotReceiver<T> {
    /// Receives the value, and waits for it.
    ///
    /// Suspends, if it has not been sent. Costs a lock, if it has.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if there will be none: the sender is gone without, the channel was closed before, or it has been
    /// received. [`WaitError::Cancelled`] if the calling task is cancelled, also if the value is there: it stays, and may be
    /// received by a later call.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, WaitError> {
        self.recv_until(None)
    }

    /// As [`recv`](OneshotReceiver::recv), but waits no longer than `time`. It may be called again after that.
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
    /// [`WaitError::TimedOut`] if the time is over, and those of `recv`.
    ///
    /// # Panics
    /// As `recv`.
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
    /// Does not suspend, and does not ask whether the task is cancelled.
    ///
    /// # Errors
    /// If it is not, or will not be any more.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.shared.take()
    }

    /// As [`recv`](OneshotReceiver::recv), as a future for any executor. Dropped before it is ready, it has received nothing.
    #[track_caller]
    pub fn recv_async(&mut self) -> OneshotRecv<'_, T> {
        let shared = &*self.shared;
        OneshotRecv { shared, entering: Entering::new(Receiving(shared), 0, Location::caller()) }
    }

    /// Closes the channel: what was sent can still be received, and sending fails.
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
        // Nobody else will. It is dropped without the lock, after who waits has been woken.
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
    entering: Entering<Receiving<'a, T>>,
}

impl<T> Future for OneshotRecv<'_, T> {
    /// [`WaitError::Closed`] is the only error.
    type Output = Result<T, WaitError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, WaitError>> {
        let shared = self.shared;
        // SAFETY: pinned with the whole.
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
    entering: Entering<Closing<'a, T>>,
}

impl<T> Future for OneshotClosed<'_, T> {
    type Output = ();

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: pinned with the whole.
        let entering = unsafe { self.map_unchecked_mut(|this| &mut this.entering) };
        entering.poll(cx).map(|_| ())
    }
}

impl<T> fmt::Debug for OneshotClosed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotClosed").finish_non_exhaustive()
    }
}
