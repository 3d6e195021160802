//! Channels: values that go from many to many.

mod errors;
mod futures;
#[cfg(all(test, loom))]
mod models;
mod queue;
mod ring;
mod shared;
#[cfg(feature = "futures")]
pub(super) mod streams;

pub use errors::{SendError, TryRecvError, TrySendError};
pub use futures::{RecvFuture, SendFuture};

use super::after;
use super::errors::WaitError;
use crate::runtime::suspend::is_cancelled;
use crate::scheduler::check_in::count_value;
use crate::scheduler::waiters::enter;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crossbeam_utils::Backoff;
use shared::{CLOSED, Receiving, Sending, Shared, Tried};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A channel with room for so many values: who sends waits while it is full.
///
/// Values come out in the order in which they were put in. Those who wait, at either end, have their turn in the order of
/// coming; with its turn a task or thread is sure of a value, or of a place, and takes or puts one when it runs: others
/// may have done so between.
///
/// Without room (0) who sends waits for one who receives, and their meeting stands: from then on both have done it. There
/// [`try_recv`](Receiver::try_recv) finds only what such a meeting has left. A sender whose receiver gives up before they have
/// met waits again, behind the others.
///
/// For stages that compute and pass values on, [`pipeline()`](crate::pipeline()) balances better: a task for each stage
/// stays on the worker where it has started.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let (sender, receiver) = cygnet::sync::bounded(2);
/// let sum = rt.block_on(|| {
///     let task = cygnet::spawn(move || {
///         for i in 0..10 {
///             sender.send(i).unwrap();
///         }
///     });
///     let sum: i32 = receiver.iter().sum(); // until all senders are gone
///     task.join().unwrap();
///     sum
/// });
/// assert_eq!(sum, 45);
/// ```
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared::new(capacity));
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

/// A channel with room for all: who sends never waits.
///
/// What is not received stays in memory.
///
/// ```
/// let (sender, receiver) = cygnet::sync::unbounded();
/// (0..3).for_each(|i| sender.send(i).unwrap());
/// drop(sender);
/// assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

/// The end of a channel where values are sent. It may be cloned; with the last one the channel is closed.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The end of a channel where values are received, each of them once. It may be cloned; with the last one the channel is
/// closed, and what lies there is dropped.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Sends a value, and waits until there is room for it.
    ///
    /// Suspends, if there is none. Over a channel that is not [`unbounded`] it also gives way now and then to other tasks
    /// that are ready, if the calling task has sent and received for 20 us without a wait.
    ///
    /// # Errors
    /// With the value: [`WaitError::Closed`] if the channel is closed, [`WaitError::Cancelled`] if the calling task is
    /// cancelled, also if there is room.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_until(value, None)
    }

    /// As [`send`](Sender::send), but waits no longer than `time`.
    ///
    /// ```
    /// use cygnet::sync::{WaitError, bounded};
    ///
    /// let (sender, _receiver) = bounded(1);
    /// sender.send("first").unwrap();
    /// let refused = sender.send_timeout("second", std::time::Duration::from_millis(1)).unwrap_err();
    /// assert_eq!((refused.reason(), refused.clone().into_inner()), (&WaitError::TimedOut, "second"));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `send`.
    ///
    /// # Panics
    /// As `send`.
    #[track_caller]
    pub fn send_timeout(&self, value: T, time: Duration) -> Result<(), SendError<T>> {
        self.send_until(value, after(time))
    }

    #[inline]
    #[track_caller]
    fn send_until(&self, value: T, until: Option<Instant>) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        if !is_cancelled() && matches!(self.shared.try_put(&mut value), Tried::Done(())) {
            if self.shared.capacity() != usize::MAX {
                count_value();
            }
            return Ok(());
        }
        self.wait_and_send(value, until)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_and_send(
        &self,
        mut value: Option<T>,
        until: Option<Instant>,
    ) -> Result<(), SendError<T>> {
        if soon(|| matches!(self.shared.try_put(&mut value), Tried::Done(()))) {
            return Ok(());
        }
        let why = loop {
            match enter(&Sending(&self.shared), 0, until) {
                Ok(CLOSED) => break WaitError::Closed,
                Ok(_) => match self.shared.put_by_permit(&mut value) {
                    Tried::Done(()) => return Ok(()),
                    Tried::Closed => break WaitError::Closed,
                    Tried::Later | Tried::Behind => {}
                },
                Err(short) => break WaitError::of(short),
            }
        };
        Err(SendError::new(value.expect("it was not put"), why))
    }

    /// Sends a value if there is room for it now.
    ///
    /// Does not suspend, and does not ask whether the task is cancelled.
    ///
    /// # Errors
    /// With the value, if there is no room or the channel is closed.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut value = Some(value);
        let tried = self.shared.put_now(&mut value);
        let left = move || value.expect("it was not put");
        match tried {
            Tried::Done(()) => Ok(()),
            Tried::Later | Tried::Behind => Err(TrySendError::Full(left())),
            Tried::Closed => Err(TrySendError::Closed(left())),
        }
    }

    /// As [`send`](Sender::send), as a future for any executor. It begins when it is polled first; dropped before it is ready, it has
    /// sent nothing.
    #[track_caller]
    pub fn send_async(&self, value: T) -> SendFuture<'_, T> {
        SendFuture::new(&self.shared, value)
    }
}

impl<T> Receiver<T> {
    /// Receives a value, and waits for it.
    ///
    /// Suspends, if there is none. It also gives way now and then to other tasks that are ready, if the calling task has
    /// sent and received for 20 us without a wait.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the channel is closed and everything has been received; [`WaitError::Cancelled`] if the calling
    /// task is cancelled, also if there is a value: it stays there.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> Result<T, WaitError> {
        self.recv_until(None)
    }

    /// As [`recv`](Receiver::recv), but waits no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `recv`.
    ///
    /// # Panics
    /// As `recv`.
    #[track_caller]
    pub fn recv_timeout(&self, time: Duration) -> Result<T, WaitError> {
        self.recv_until(after(time))
    }

    #[inline]
    #[track_caller]
    fn recv_until(&self, until: Option<Instant>) -> Result<T, WaitError> {
        if !is_cancelled()
            && let Tried::Done(value) = self.shared.try_take()
        {
            count_value();
            return Ok(value);
        }
        self.wait_and_receive(until)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_and_receive(&self, until: Option<Instant>) -> Result<T, WaitError> {
        let mut taken = None;
        let take = || {
            if let Tried::Done(value) = self.shared.try_take() {
                taken = Some(value);
            }
            taken.is_some()
        };
        if soon(take) {
            return Ok(taken.expect("it was taken"));
        }
        match enter(&Receiving(&self.shared), 0, until) {
            Ok(CLOSED) => Err(WaitError::Closed),
            Ok(_) => Ok(self.shared.take_by_permit()),
            Err(short) => Err(WaitError::of(short)),
        }
    }

    /// Receives a value if there is one now.
    ///
    /// Does not suspend, and does not ask whether the task is cancelled.
    ///
    /// # Errors
    /// If there is none.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.shared.take_now() {
            Tried::Done(value) => Ok(value),
            Tried::Later | Tried::Behind => Err(TryRecvError::Empty),
            Tried::Closed => Err(TryRecvError::Closed),
        }
    }

    /// A value, if there is one that nobody waits for.
    #[inline]
    pub(in crate::runtime) fn take_free(&self) -> Option<T> {
        match self.shared.try_take() {
            Tried::Done(value) => Some(value),
            _ => None,
        }
    }

    /// As [`recv`](Receiver::recv), as a future for any executor. Dropped before it is ready, it has received nothing. One that
    /// is forgotten (`mem::forget`) keeps the turn that it may have had: a value that nobody takes, and that hides the
    /// end of a closed channel from the other receivers.
    #[track_caller]
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture::new(&self.shared)
    }

    /// Receives until the channel is closed and empty, or the calling task is cancelled. Each step suspends as
    /// [`recv`](Receiver::recv) does.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// Receives what is there now. Does not suspend.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }
}

/// Whether it is so soon, for a plain thread: to put it to sleep and to wake it costs more than to look a few times.
fn soon(mut so: impl FnMut() -> bool) -> bool {
    if Worker::current().is_some() {
        return false;
    }
    let backoff = Backoff::new();
    while !backoff.is_completed() {
        backoff.snooze();
        if so() {
            return true;
        }
    }
    false
}

macro_rules! end {
    ($end:ident, $count:ident, $close:ident) => {
        impl<T> $end<T> {
            /// Closes the channel: nothing can be sent any more, and what lies there can still be received.
            ///
            /// Does not suspend.
            pub fn close(&self) {
                self.shared.close();
            }

            /// Whether the channel is closed.
            pub fn is_closed(&self) -> bool {
                self.shared.is_closed()
            }

            /// How many values lie there.
            pub fn len(&self) -> usize {
                self.shared.len()
            }

            /// Whether no value lies there.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// How many values there is room for; nothing if for all.
            pub fn capacity(&self) -> Option<usize> {
                Some(self.shared.capacity()).filter(|&capacity| capacity != usize::MAX)
            }
        }

        // Values are moved in and out; nobody sees one that lies there.
        impl<T> UnwindSafe for $end<T> {}
        impl<T> RefUnwindSafe for $end<T> {}

        impl<T> Clone for $end<T> {
            fn clone(&self) -> $end<T> {
                self.shared.$count.fetch_add(1, Ordering::Relaxed);
                $end { shared: Arc::clone(&self.shared) }
            }
        }

        impl<T> Drop for $end<T> {
            fn drop(&mut self) {
                // The others have done what they did before theirs.
                // PROOF(channel.last): split
                if self.shared.$count.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.shared.$close();
                }
            }
        }

        impl<T> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (senders, receivers) = self.shared.places();
                f.debug_struct(stringify!($end))
                    .field("len", &self.len())
                    .field("capacity", &self.capacity())
                    .field("closed", &self.is_closed())
                    .field("sending", &senders)
                    .field("receiving", &receivers)
                    .finish()
            }
        }
    };
}

end!(Sender, senders, close);
end!(Receiver, receivers, close_and_empty);
