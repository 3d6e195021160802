//! Channels: values that go from many to many.

mod end;
mod errors;
mod futures;
mod line;
#[cfg(all(test, loom))]
mod models;
mod queue;
mod ring;
mod shared;
#[cfg(feature = "futures")]
pub(super) mod streams;
mod word;

pub use errors::{SendError, TryRecvError, TrySendError};
pub use futures::{RecvFuture, SendFuture};

use super::after;
use super::errors::WaitError;
use crate::runtime::is_cancelled;
use crate::scheduler::run_loop::check_in::count_value;
use crate::scheduler::wait::waiters::{Manner, WaitNode, Waitable, enter_node};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::{may_spin, spin_loop};
use crossbeam_utils::Backoff;
use line::Passed;
use shared::{Receiving, Sending, Shared, Tried};
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a task looks again before it waits, and the turns of the pause before each look. It is long, because
/// each look takes the positions from those who move values.
const LOOKS: u32 = 4;
const PAUSE: u32 = 512;

/// A channel with room for so many values: who sends waits while it is full.
///
/// Values come out in the order in which they were put in. A task or thread that waits, at either end, is woken
/// when there is a value or a place for it, and takes or puts its value when it runs. Others that run may have that value or
/// place before it does so; then it waits again, in front of all others. Nobody is passed for long: one that was woken
/// in vain is next after half a millisecond, and so is the first in line after a few thousand values. So a channel is not slowed down to the
/// pace at which sleeping tasks are woken.
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
        // Before the place is taken: if others have their turn now, they may have it.
        if self.shared.capacity() != usize::MAX {
            count_value();
        }
        if !is_cancelled() && matches!(self.shared.try_put(&mut value), Tried::Done(())) {
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
        if !is_cancelled()
            && soon(self.shared.many_send(), || {
                matches!(self.shared.try_put(&mut value), Tried::Done(()))
            })
        {
            return Ok(());
        }
        let put = |answer| self.shared.put_after(answer, &mut value);
        wait(&Sending(&self.shared), until, put)
            .map_err(|why| SendError::new(value.expect("it was not put"), why))
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
            Tried::Later | Tried::Behind | Tried::Missed => Err(TrySendError::Full(left())),
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
        // Before the value is taken: if others have their turn now, they may have it.
        count_value();
        if !is_cancelled()
            && let Tried::Done(value) = self.shared.try_take()
        {
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
        if !is_cancelled() && soon(self.shared.many_receive(), take) {
            return Ok(taken.expect("it was taken"));
        }
        wait(&Receiving(&self.shared), until, |answer| self.shared.take_after(answer))
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
            Tried::Later | Tried::Behind | Tried::Missed => Err(TryRecvError::Empty),
            Tried::Closed => Err(TryRecvError::Closed),
        }
    }

    /// A value, if there is one that nobody waits for.
    #[inline]
    pub(crate) fn take_free(&self) -> Option<T> {
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

/// Waits in a line until `then` makes something of an answer.
#[track_caller]
fn wait<V>(
    source: &impl Waitable,
    until: Option<Instant>,
    mut then: impl FnMut(u32) -> Tried<V>,
) -> Result<V, WaitError> {
    let node = pin!(WaitNode::new(0, Location::caller()));
    let mut passed = Passed::default();
    loop {
        let answer = enter_node(source, node.as_ref(), Manner::Until(until), None);
        match then(answer.map_err(WaitError::of)?) {
            Tried::Done(value) => return Ok(value),
            Tried::Closed => return Err(WaitError::Closed),
            Tried::Later | Tried::Behind | Tried::Missed => passed.again(&node),
        }
    }
}

/// Looks a few times before the caller waits: to put it to sleep and to wake it costs more. A task does so only
/// where `many` come at once, so that things change soon, and its worker has nothing else to do.
fn soon(many: bool, mut so: impl FnMut() -> bool) -> bool {
    let Some(worker) = Worker::current() else {
        let backoff = Backoff::new();
        while !backoff.is_completed() {
            backoff.snooze();
            if so() {
                return true;
            }
        }
        return false;
    };
    let idle = || !worker.has_ready() && !worker.has_fresh() && may_spin();
    if !many || !idle() {
        return false;
    }
    (0..LOOKS).any(|_| {
        (0..PAUSE).for_each(|_| spin_loop());
        so()
    })
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
                self.shared.lock().ends.$count.is_cloned();
                $end { shared: Arc::clone(&self.shared) }
            }
        }

        impl<T> Drop for $end<T> {
            fn drop(&mut self) {
                // The others have done what they did before theirs.
                // MUTANT(channel.last): split
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::bounded;
    use super::line::PASSES;
    use super::shared::Tried;
    use crate::{Runtime, cancel_handle, spawn};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Waker};

    /// Each value is taken before its sender looks whether somebody waits.
    #[test]
    fn one_that_waits_is_not_passed_for_ever_by_those_who_are_quick() {
        for clones in [false, true] {
            let (to, from) = bounded(4);
            let _clones = clones.then(|| from.clone());
            let mut cx = Context::from_waker(Waker::noop());
            let mut waits = pin!(from.recv_async());
            assert!(waits.as_mut().poll(&mut cx).is_pending());
            let ring = to.shared.ring.as_ref().expect("it has room");
            let mut passed = 0;
            let value = loop {
                assert!(matches!(ring.try_put(&mut Some(passed)), Tried::Done(())));
                if from.try_recv().is_ok() {
                    passed += 1;
                }
                if ring.calls_receivers() {
                    to.shared.serve_receivers();
                }
                if let Poll::Ready(value) = waits.as_mut().poll(&mut cx) {
                    break value;
                }
                assert!(passed <= 2 * PASSES, "it is passed for ever");
            };
            assert!(value.is_ok() && passed >= PASSES);
        }
    }

    #[test]
    fn a_cancelled_task_is_turned_away_also_where_many_come_at_once() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let (to, from) = bounded(2);
        to.send(1).unwrap();
        to.shared.ring.as_ref().expect("it has room").contend();
        let turned_away = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&turned_away);
        rt.block_on(|| {
            let task = spawn(move || {
                cancel_handle().cancel("enough");
                let (sent, received) = (to.send(2), from.recv());
                told.store(sent.is_err() && received.is_err(), Ordering::Relaxed);
            });
            drop(task.join());
        });
        assert!(turned_away.load(Ordering::Relaxed));
    }
}
