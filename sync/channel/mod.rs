//! Multi-producer, multi-consumer channels.

mod end;
mod errors;
mod futures;
mod line;
#[cfg(all(test, loom))]
mod models;
mod overflow;
mod rendezvous;
mod ring;
mod state;
#[cfg(feature = "futures")]
pub(super) mod streams;
mod word;

pub use errors::{SendError, TryRecvError, TrySendError};
pub use futures::{RecvFuture, SendFuture};

use super::after;
use super::errors::WaitError;
use crate::runtime::is_cancelled;
use crate::scheduler::run_loop::check_in::count_value;
use crate::scheduler::wait::waiters::{WaitMode, WaitNode, enter_node};
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::{may_spin, spin_loop};
use crossbeam_utils::Backoff;
use errors::Refused;
use line::{Passed, Receivers, Senders, Side};
use state::Channel;
use state::waiting::InLine;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a task looks before it waits, and the turns of the pause before each look. The pause
/// is long because each look takes the positions from the callers that move values.
const LOOKS: u32 = 4;
const PAUSE: u32 = 512;

/// Creates a channel with room for `capacity` values. A sender waits while the channel is full.
///
/// Values come out in the order in which they were put in. A sender or receiver that waits is woken
/// when there is a place or a value for it, and puts or takes its value when it runs. Until then,
/// other callers may take that place or value; the waiter then waits again, ahead of all others. No
/// waiter is passed for long: one that was woken and found nothing is next after half a
/// millisecond, and the first in line is next after a few thousand values. So a channel is not
/// slowed down to the pace at which sleeping tasks wake up.
///
/// Without room (capacity 0), a sender waits until it meets a receiver. The meeting is final: from
/// then on, the value counts as sent and received. [`try_recv`](Receiver::try_recv) takes the value
/// of a task or thread that waits to send. If a receiving future is dropped before a sender that it
/// has woken runs, the sender waits again, behind the others.
///
/// For stages that compute and pass values on, [`pipeline()`](crate::pipeline()) balances better: a
/// task for each stage stays on the worker where it has started.
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
    let channel = Arc::new(Channel::new(capacity));
    (Sender { channel: Arc::clone(&channel) }, Receiver { channel })
}

/// Creates a channel with unlimited room: sending never waits.
///
/// Values that are not received stay in memory.
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

/// The sending end of a channel. It may be cloned; dropping the last clone closes the channel.
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

/// The receiving end of a channel, where each value is received once. It may be cloned; dropping
/// the last clone closes the channel, and drops the values in it.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    /// Sends a value, waiting for room.
    ///
    /// Suspends if there is no room. On a channel that is not [`unbounded`], it also yields now and
    /// then to other ready tasks, if the calling task has sent and received for 20 us without a
    /// wait.
    ///
    /// # Errors
    /// Returns the value, with the reason: [`WaitError::Closed`] if the channel is closed;
    /// [`WaitError::Cancelled`] if the calling task is cancelled, even if there is room.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_until(value, None)
    }

    /// Like [`send`](Sender::send), but waits for `time` at most.
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
    /// [`WaitError::TimedOut`] if `time` has passed, and the errors of `send`.
    ///
    /// # Panics
    /// Like `send`.
    #[track_caller]
    pub fn send_timeout(&self, value: T, time: Duration) -> Result<(), SendError<T>> {
        self.send_until(value, after(time))
    }

    #[inline]
    #[track_caller]
    fn send_until(&self, value: T, until: Option<Instant>) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        // Before the place is taken: this may yield, and other tasks may then have the place.
        let is_limited = self.channel.capacity() != usize::MAX;
        let is_cancelled = if is_limited { count_value() } else { is_cancelled() };
        if !is_cancelled && self.channel.try_put(&mut value).is_ok() {
            return Ok(());
        }
        let sent = wait::<_, Senders>(&self.channel, &mut value, until);
        sent.map_err(|why| SendError::new(value.expect("an unsent value is kept"), why))
    }

    /// Sends a value if there is room for it now.
    ///
    /// Does not suspend, and does not check for cancellation.
    ///
    /// # Errors
    /// Returns the value if there is no room, or if the channel is closed.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut value = Some(value);
        self.channel.move_now::<Senders>(&mut value).map_err(|refused| {
            let value = value.expect("an unsent value is kept");
            match refused {
                Refused::Closed => TrySendError::Closed(value),
                _ => TrySendError::Full(value),
            }
        })
    }

    /// Like [`send`](Sender::send), as a future for any executor. It does nothing before it is
    /// first polled. If it is dropped before it is ready, it has sent nothing.
    #[track_caller]
    pub fn send_async(&self, value: T) -> SendFuture<'_, T> {
        SendFuture::new(&self.channel, value)
    }
}

impl<T> Receiver<T> {
    /// Receives a value, waiting for one.
    ///
    /// Suspends if there is none. It also yields now and then to other ready tasks, if the calling
    /// task has sent and received for 20 us without a wait.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the channel is closed and everything has been received;
    /// [`WaitError::Cancelled`] if the calling task is cancelled, even if there is a value, which
    /// then stays in the channel. A value that a sender has given to the waiting task before the
    /// cancel is received.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> Result<T, WaitError> {
        self.recv_until(None)
    }

    /// Like [`recv`](Receiver::recv), but waits for `time` at most.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` has passed, and the errors of `recv`.
    ///
    /// # Panics
    /// Like `recv`.
    #[track_caller]
    pub fn recv_timeout(&self, time: Duration) -> Result<T, WaitError> {
        self.recv_until(after(time))
    }

    #[inline]
    #[track_caller]
    fn recv_until(&self, until: Option<Instant>) -> Result<T, WaitError> {
        // Before the value is taken: this may yield, and other tasks may then have the value.
        let is_cancelled = count_value();
        if !is_cancelled && let Ok(value) = self.channel.try_take() {
            return Ok(value);
        }
        let mut value = None;
        wait::<_, Receivers>(&self.channel, &mut value, until)?;
        Ok(value.expect("a successful wait has taken a value"))
    }

    /// Receives a value if there is one now.
    ///
    /// Does not suspend, and does not check for cancellation.
    ///
    /// # Errors
    /// If there is none.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut value = None;
        match self.channel.move_now::<Receivers>(&mut value) {
            Err(Refused::Closed) => Err(TryRecvError::Closed),
            _ => value.ok_or(TryRecvError::Empty),
        }
    }

    /// Takes a value if there is one that no waiter must have first.
    #[inline]
    pub(crate) fn take_free(&self) -> Option<T> {
        self.channel.try_take().ok()
    }

    /// Like [`recv`](Receiver::recv), as a future for any executor. If it is dropped before it is
    /// ready, it has received nothing. If it is forgotten (`mem::forget`), it keeps the value that
    /// may have been set aside for it: that value is never received, and hides the end of a closed
    /// channel from the other receivers.
    #[track_caller]
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture::new(&self.channel)
    }

    /// Receives until the channel is closed and empty, or the calling task is cancelled. Each step
    /// suspends like [`recv`](Receiver::recv).
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// Receives the values that are there now. Does not suspend.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }
}

/// Slow path of `send` and `recv`: moves a value out of the cell or into it, and waits in the line
/// of the side if necessary.
#[cold]
#[inline(never)]
#[track_caller]
fn wait<T, S: Side>(
    channel: &Channel<T>,
    cell: &mut Option<T>,
    until: Option<Instant>,
) -> Result<(), WaitError> {
    if soon(channel.many::<S>(), || !is_cancelled() && channel.try_move::<S>(cell).is_ok()) {
        return Ok(());
    }
    let source = InLine::<_, S>::new(channel);
    let node = pin!(WaitNode::new(0, Location::caller()));
    let cell: *mut Option<T> = cell;
    node.cell.set(cell.cast());
    let mut passed = Passed::default();
    loop {
        let answer = enter_node(&source, node.as_ref(), WaitMode::Until(until), None);
        // SAFETY: the node is in no list, so that this call alone uses the cell.
        let cell = unsafe { &mut *cell };
        match channel.move_after::<S>(answer.map_err(WaitError::of)?, cell) {
            Ok(()) => return Ok(()),
            Err(Refused::Closed) => return Err(WaitError::Closed),
            Err(_) => passed.again(&node),
        }
    }
}

/// Calls `so` a few times before the caller waits, since to suspend and wake it costs more. Returns
/// whether `so` has returned `true`. A task does this only if `many` callers use the end, so that
/// its state changes soon, and if the task's worker has nothing else to do.
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
    ($end:ident, $count:ident, $side:ident, $close:ident) => {
        impl<T> $end<T> {
            /// Closes the channel: sending fails from now on, and the values in it can still be
            /// received.
            ///
            /// Does not suspend.
            pub fn close(&self) {
                self.channel.close();
            }

            /// Returns whether the channel is closed.
            pub fn is_closed(&self) -> bool {
                self.channel.is_closed()
            }

            /// Returns the number of values in the channel.
            pub fn len(&self) -> usize {
                self.channel.len()
            }

            /// Returns whether the channel is empty.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns the capacity of the channel, or `None` if it is unlimited.
            pub fn capacity(&self) -> Option<usize> {
                Some(self.channel.capacity()).filter(|&capacity| capacity != usize::MAX)
            }
        }

        // A value is moved in and out, and cannot be seen while it is in the channel.
        unwind_safe! { impl<T> $end<T> }

        impl<T> Clone for $end<T> {
            fn clone(&self) -> $end<T> {
                self.channel.$count.fetch_add(1, Ordering::Relaxed);
                self.channel.with_line::<$side, _>(|line, _, _| line.is_cloned());
                $end { channel: Arc::clone(&self.channel) }
            }
        }

        impl<T> Drop for $end<T> {
            fn drop(&mut self) {
                // The last handle sees everything that was done through the others.
                // MUTANT(channel.last): split
                if self.channel.$count.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.channel.$close();
                }
            }
        }

        debug! {
            impl<T> $end<T> as this {
                len: this.len(),
                capacity: this.capacity(),
                closed: this.is_closed(),
                sending: this.channel.locations().0,
                receiving: this.channel.locations().1,
            }
        }
    };
}

end!(Sender, senders, Senders, close);
end!(Receiver, receivers, Receivers, close_and_empty);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::errors::Refused;
    use super::line::{PASSES, Receivers, Senders};
    use super::state::Channel;
    use super::{Sender, TryRecvError, bounded, unbounded};
    use crate::{Runtime, cancel_handle, spawn};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Waker};

    /// Each value is taken before its sender looks for waiters.
    #[test]
    fn a_waiter_is_passed_a_bounded_number_of_times() {
        for clones in [false, true] {
            let (to, from) = bounded(4);
            let _clones = clones.then(|| from.clone());
            let mut cx = Context::from_waker(Waker::noop());
            let mut waits = pin!(from.recv_async());
            assert!(waits.as_mut().poll(&mut cx).is_pending());
            let ring = to.channel.ring.as_ref().expect("a channel with room has a ring");
            let mut passed = 0;
            let value = loop {
                assert!(ring.try_put(&mut Some(passed)).is_ok());
                if from.try_recv().is_ok() {
                    passed += 1;
                }
                if ring.calls::<Receivers>() {
                    to.channel.serve::<Receivers>();
                }
                if let Poll::Ready(value) = waits.as_mut().poll(&mut cx) {
                    break value;
                }
                assert!(passed <= 2 * PASSES, "the waiter is passed for ever");
            };
            assert!(value.is_ok() && passed >= PASSES);
        }
    }

    /// Receivers have claimed all values of the ring, and not taken them yet.
    /// Promises all values of the ring, and puts others beyond it. Returns how many are promised.
    fn promise_all(to: &Sender<usize>, mut send: impl FnMut()) -> usize {
        let ring = to.channel.ring.as_ref().expect("a channel with room has a ring");
        let mut claimed = 0;
        while to.len() == ring.len() {
            send();
            claimed += usize::from(ring.claim::<Receivers>());
        }
        assert_eq!(ring.len(), claimed, "not all values of the ring are claimed");
        claimed
    }

    /// Takes a promised value.
    fn take_promised(channel: &Channel<usize>) -> Option<usize> {
        let mut value = None;
        assert_eq!(channel.by_permit::<Receivers>(&mut value), Ok(()));
        value
    }

    #[test]
    fn promises_keep_nobody_from_the_values_beyond_the_ring() {
        let (to, from) = unbounded();
        let mut cx = Context::from_waker(Waker::noop());
        let mut waits = pin!(from.recv_async());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        let mut numbers = 0..;
        let mut send = || to.send(numbers.next().expect("numbers do not end")).unwrap();
        let claimed = promise_all(&to, &mut send); // The first value calls the future.
        send();
        send();
        assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(Ok(0)));
        assert_eq!(from.try_recv(), Ok(1));
        assert_eq!(from.recv(), Ok(2));
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty), "the rest is promised");
        let mut waits = pin!(from.recv_async());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        send();
        assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(Ok(3)));
        send();
        assert_eq!(pin!(from.recv_async()).poll(&mut cx), Poll::Ready(Ok(4)), "at the first poll");
        to.close();
        assert_eq!(from.try_recv(), Err(TryRecvError::Empty), "the end comes after the values");
        (5..5 + claimed).for_each(|i| assert_eq!(take_promised(&to.channel), Some(i)));
        assert_eq!(from.try_recv(), Err(TryRecvError::Closed));
    }

    #[test]
    fn a_receiver_that_may_not_be_passed_is_next_beyond_the_ring() {
        let (to, from) = unbounded();
        let _shared = from.clone();
        let mut cx = Context::from_waker(Waker::noop());
        let mut waits = [Box::pin(from.recv_async()), Box::pin(from.recv_async())];
        let send = || to.send(0).unwrap();
        // The first is called, and does not come. The second does not find more than one value.
        assert!(waits[0].as_mut().poll(&mut cx).is_pending());
        let claimed = promise_all(&to, send);
        assert!(waits[1].as_mut().poll(&mut cx).is_pending());
        let passes = (0..2 * PASSES).take_while(|_| from.try_recv().is_ok()).map(|_| send());
        assert!((1..2 * PASSES).contains(&(passes.count() as i64)), "nobody may pass for ever");
        take_promised(&to.channel);
        assert_eq!(waits[1].as_mut().poll(&mut cx), Poll::Ready(Ok(0)), "the first freed place");
        (1..claimed).for_each(|_| assert_eq!(take_promised(&to.channel), Some(0)));
    }

    #[test]
    fn a_try_finds_the_end_behind_a_void_slot() {
        let (to, from) = bounded(2);
        let ring = to.channel.ring.as_ref().expect("a channel with room has a ring");
        to.send(0).unwrap();
        assert!(ring.claim::<Receivers>() && ring.claim::<Senders>());
        to.close();
        // A sender comes too late. The promise keeps it from freeing its slot.
        assert_eq!(to.channel.by_permit::<Senders>(&mut Some(1)), Err(Refused::Closed));
        to.channel.take_back::<Receivers>();
        assert_eq!(from.try_recv(), Ok(0));
        ring.contend();
        assert_eq!(from.try_recv(), Err(TryRecvError::Closed));
    }

    #[test]
    fn a_cancelled_task_is_turned_away_from_a_contended_channel() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let (to, from) = bounded(2);
        to.send(1).unwrap();
        to.channel.ring.as_ref().expect("a channel with room has a ring").contend();
        let turned_away = Arc::new(AtomicBool::new(false));
        let refused = Arc::clone(&turned_away);
        rt.block_on(|| {
            let task = spawn(move || {
                cancel_handle().cancel("enough");
                let (sent, received) = (to.send(2), from.recv());
                refused.store(sent.is_err() && received.is_err(), Ordering::Relaxed);
            });
            drop(task.join());
        });
        assert!(turned_away.load(Ordering::Relaxed));
    }
}
