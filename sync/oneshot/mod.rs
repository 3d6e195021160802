//! Channels for one value, from one sender to one receiver.
//!
//! The channel ends once: by a send, or when one of the two ends closes it or goes. The receiver
//! waits for the end to find the value, the sender to learn that the value is unwanted. The sender
//! is used up by `send`, so for a sender a channel that has ended is one that accepts no value. How
//! the two share one word: [`shared`].

#[cfg(all(test, loom))]
mod models;
mod shared;

use super::after;
use super::channel::TryRecvError;
use super::errors::WaitError;
use super::future::future;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{WaitFuture, enter};
use crate::task::outcome::{drop_all, resume_in_destructor};
use shared::{EndOf, Shared};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::NonNull;
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
    let shared = NonNull::from(Box::leak(Box::new(Shared::new())));
    (OneshotSender { shared }, OneshotReceiver { shared, has_received: false })
}

/// The sending end of a [`oneshot()`]. If it is dropped without having sent a value, the channel is
/// closed.
pub struct OneshotSender<T> {
    shared: NonNull<Shared<T>>,
}

/// The receiving end of a [`oneshot()`]. Dropping it closes the channel, and drops a value in it.
pub struct OneshotReceiver<T> {
    shared: NonNull<Shared<T>>,
    has_received: bool,
}

// SAFETY: the ends share the memory by the protocol of `shared`, and `T: Send` lets the value move.
unsafe impl<T: Send> Send for OneshotSender<T> {}
// SAFETY: a shared reference to a sender reads the word, or enters the list, which has a lock.
unsafe impl<T: Send> Sync for OneshotSender<T> {}
// SAFETY: the receiver alone takes the value, by the same protocol, and `T: Send` lets it move.
unsafe impl<T: Send> Send for OneshotReceiver<T> {}
// SAFETY: a shared reference to a receiver reads the word, or locks the list.
unsafe impl<T: Send> Sync for OneshotReceiver<T> {}

// A value is moved in and out, and cannot be seen while it is in the channel.
unwind_safe! { impl<T> OneshotSender<T> }
unwind_safe! { impl<T> OneshotReceiver<T> }

impl<T> OneshotSender<T> {
    /// Sends the value.
    ///
    /// Does not suspend, and does not check for cancellation. Costs an atomic update, and a wake-up
    /// if the receiver waits.
    ///
    /// # Errors
    /// Returns `value` if the receiver is gone or has [closed](OneshotReceiver::close) the channel.
    pub fn send(self, value: T) -> Result<(), T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the memory is the channel's own, and this is the last use of this end.
        let sent = unsafe { Shared::sender_goes(this.shared, Some(value)) };
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
        self.shared().has_ended()
    }

    /// A sender that has sent is gone.
    fn has_value(&self) -> bool {
        false
    }

    fn shared(&self) -> &Shared<T> {
        // SAFETY: the memory is there until both ends are gone.
        unsafe { self.shared.as_ref() }
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
            enter(&EndOf::for_sender(self.shared()), 0, until).map_err(WaitError::of)?;
        }
        Ok(())
    }

    /// Like [`closed`](OneshotSender::closed), as a future for any executor. It does nothing before
    /// it is first polled.
    #[track_caller]
    pub fn closed_async(&self) -> OneshotClosed<'_, T> {
        let end = EndOf::for_sender(self.shared());
        OneshotClosed { wait: WaitFuture::new(end, 0, Location::caller()) }
    }
}

impl<T> OneshotReceiver<T> {
    /// Receives the value, waiting for it.
    ///
    /// Suspends if the value has not been sent.
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
        if is_cancelled() || self.is_open() {
            enter(&EndOf::for_receiver(self.shared()), 0, until).map_err(WaitError::of)?;
        }
        self.try_recv().map_err(|_| WaitError::Closed)
    }

    fn is_open(&self) -> bool {
        !self.has_received && !self.shared().has_ended()
    }

    fn has_value(&self) -> bool {
        !self.has_received && self.shared().has_value()
    }

    fn shared(&self) -> &Shared<T> {
        // SAFETY: the memory is there until both ends are gone.
        unsafe { self.shared.as_ref() }
    }

    /// Receives the value if it is there now.
    ///
    /// Does not suspend, and does not check for cancellation.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if it is not there yet, [`TryRecvError::Closed`] if it will not
    /// come.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let value = self.shared().take()?;
        self.has_received = true;
        Ok(value)
    }

    /// Like [`recv`](OneshotReceiver::recv), as a future for any executor. If it is dropped before
    /// it is ready, it has received nothing.
    #[track_caller]
    pub fn recv_async(&mut self) -> OneshotRecv<'_, T> {
        // SAFETY: the memory is there until both ends are gone, and the future borrows this one.
        let shared = unsafe { self.shared.as_ref() };
        let end = EndOf::for_receiver(shared);
        OneshotRecv { wait: WaitFuture::new(end, 0, Location::caller()), receiver: self }
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
        self.shared().close();
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        // SAFETY: the memory is the channel's own, and this is the last use of this end.
        let _ = unsafe { Shared::sender_goes(self.shared, None) };
    }
}

impl<T> Drop for OneshotReceiver<T> {
    fn drop(&mut self) {
        // SAFETY: the memory is the channel's own, and this is the last use of this end.
        let value = unsafe { Shared::receiver_goes(self.shared) };
        if let Some(payload) = drop_all(value) {
            resume_in_destructor(payload);
        }
    }
}

macro_rules! debug_ends {
    ($($end:ident),*) => {$(
        debug! {
            impl<T> $end<T> as this {
                sent: this.has_value(),
                closed: this.shared().has_ended(),
                waiting: this.shared().locations(),
            }
        }
    )*};
}

debug_ends!(OneshotSender, OneshotReceiver);

future! {
    /// The future of [`OneshotReceiver::recv_async`].
    pub struct OneshotRecv<'a, T> {
        wait: WaitFuture<EndOf<'a, T>>,
        receiver: &'a mut OneshotReceiver<T>,
    }
    /// The only error is [`WaitError::Closed`].
    type Output = Result<T, WaitError>;
    |this, _| this.receiver.try_recv().map_err(|_| WaitError::Closed)
}

future! {
    /// The future of [`OneshotSender::closed_async`].
    pub struct OneshotClosed<'a, T> {
        wait: WaitFuture<EndOf<'a, T>>,
    }
    type Output = ();
    |this, _| ()
}
