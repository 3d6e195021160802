//! An event, which is set or not, and which many wait for.

use super::after;
use super::errors::WaitError;
use super::future::future;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{
    Turns, WaitFuture, WaitList, WaitNode, Waitable, Wakes, enter,
};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{Mutex, MutexGuard, const_fn};
use std::panic::Location;
use std::time::{Duration, Instant};

/// The state of an event, which is also the answer to its waiters.
const UNSET: u32 = 0;
pub(super) const SET: u32 = 1;
const CLOSED: u32 = 2;

/// An event that any number of tasks, threads and futures can wait for: unset, set or closed.
///
/// A wait returns when the event is set, or at once if it is set already. The event stays set until
/// it is [reset](Event::reset). A `set` releases all callers that wait at that moment, whatever
/// follows.
///
/// [`close`](Event::close) ends all waits with [`WaitError::Closed`], unless the event is set. A
/// closed event cannot be set or reset: if it was set before, it stays set for ever.
///
/// Everything done before a `set` is visible to the callers whose wait it ends.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let ready = cygnet::sync::Event::new();
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         s.spawn(|| ready.wait().unwrap());
///         s.spawn(|| ready.wait().unwrap());
///         ready.set();
///     });
/// });
/// assert!(ready.is_set());
/// ```
pub struct Event {
    /// Changed under the queue's lock, and read without it. A caller that finds the event unset
    /// takes the lock, and looks again before it enters the queue.
    state: AtomicU32,
    queue: Mutex<Turns>,
}

impl Event {
    const_fn! {
        /// Creates an unset event.
        pub const fn new() -> Event {
            Event { state: AtomicU32::new(UNSET), queue: Mutex::new(Turns::new()) }
        }
    }

    /// Sets the event, and wakes all waiters. Does nothing if the event is closed.
    ///
    /// Does not suspend. Costs a lock, and a wake-up for each waiter.
    pub fn set(&self) {
        self.end_waits(SET);
    }

    /// Closes the event: all waits end, and later ones return at once. If the event is set, it
    /// stays set.
    ///
    /// Does not suspend.
    ///
    /// ```
    /// use cygnet::sync::{Event, WaitError};
    ///
    /// let event = Event::new();
    /// event.close();
    /// event.set();
    /// assert_eq!(event.wait(), Err(WaitError::Closed));
    /// ```
    pub fn close(&self) {
        self.end_waits(CLOSED);
    }

    /// Resets the event if it is set and not closed, and returns `true` if so. Waiters already
    /// released by `set` still return.
    ///
    /// Does not suspend.
    pub fn reset(&self) -> bool {
        let _queue = self.state();
        let before = self.state.load(Ordering::Relaxed);
        if before == SET {
            self.state.store(UNSET, Ordering::Relaxed);
        }
        before == SET
    }

    /// Returns `true` if the event is set. Costs a load.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) & SET != 0
    }

    /// Returns `true` if the event is closed. Costs a load.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Waits until the event is set.
    ///
    /// Suspends if the event is neither set nor closed.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the event is closed and was not set before.
    /// [`WaitError::Cancelled`] if the calling task is cancelled, even if the event is set.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn wait(&self) -> Result<(), WaitError> {
        self.wait_until(None)
    }

    /// Waits until the event is set, for at most `time`.
    ///
    /// ```
    /// use cygnet::sync::{Event, WaitError};
    ///
    /// let time = std::time::Duration::from_millis(1);
    /// assert_eq!(Event::new().wait_timeout(time), Err(WaitError::TimedOut));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` passes first. Otherwise same as [`wait`](Event::wait).
    ///
    /// # Panics
    /// Same as [`wait`](Event::wait).
    #[track_caller]
    pub fn wait_timeout(&self, time: Duration) -> Result<(), WaitError> {
        self.wait_until(after(time))
    }

    #[track_caller]
    fn wait_until(&self, until: Option<Instant>) -> Result<(), WaitError> {
        let answer = match self.answer() {
            Some(answer) if !is_cancelled() => answer,
            _ => enter(self, 0, until).map_err(WaitError::of)?,
        };
        outcome(answer)
    }

    /// Waits until the event is set, as a future on any executor. The wait begins at the first
    /// poll.
    #[track_caller]
    pub fn wait_async(&self) -> EventWait<'_> {
        EventWait { wait: WaitFuture::new(self, 0, Location::caller()) }
    }

    /// Returns the answer to a wait that begins now, or `None` if it has to wait.
    #[inline]
    pub(super) fn answer(&self) -> Option<u32> {
        // MUTANT(event.answer): relaxed
        let state = self.state.load(Ordering::Acquire);
        (state != UNSET).then_some(state)
    }

    /// Adds `what` to the state, and ends the waits of all present waiters.
    pub(super) fn end_waits(&self, what: u32) {
        let queue = self.state();
        let state = self.state.load(Ordering::Relaxed);
        if state & CLOSED != 0 {
            return;
        }
        // Stored even if nothing changes: a caller that finds the event set from now on must see
        // what was done before this call.
        // MUTANT(event.end): relaxed
        self.state.store(state | what, Ordering::Release);
        // All present waiters are released, whatever follows. Waiters of an earlier turn were
        // released by a `set`.
        Turns::end(self, queue, state | what, SET);
    }
}

fn outcome(answer: u32) -> Result<(), WaitError> {
    if answer & SET != 0 { Ok(()) } else { Err(WaitError::Closed) }
}

impl Waitable for Event {
    type State = Turns;
    const WHAT: &'static str = "an event";

    fn state(&self) -> MutexGuard<'_, Turns> {
        self.queue.lock()
    }

    fn waiters(turns: &mut Turns) -> &mut WaitList {
        &mut turns.waiters
    }

    fn try_enter(&self, turns: &mut Turns, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        turns.mark(node);
        // MUTANT(event.enter.look): with None
        self.answer()
    }

    /// A grant takes nothing, so there is nothing to give back.
    fn give_back(&self, _: &WaitNode) {}
}

default! { impl Event }

debug! {
    impl Event as this {
        set: this.is_set(),
        closed: this.is_closed(),
        waiting: this.state().waiters.locations(),
    }
}

future! {
    /// The future of [`Event::wait_async`].
    pub struct EventWait<'a> {
        wait: WaitFuture<&'a Event>,
    }
    /// The result of [`Event::wait`], but never [`WaitError::Cancelled`]: the cancellation of a
    /// task does not reach the future. Dropping it ends the wait.
    type Output = Result<(), WaitError>;
    |this, answer| outcome(answer)
}
