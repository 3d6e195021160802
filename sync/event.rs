use super::after;
use super::errors::WaitError;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{
    Entering, Turns, WaitList, WaitNode, Waitable, Wakes, enter,
};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{Mutex, MutexGuard, const_fn};
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What the event is; also the answer to those who wait.
const UNSET: u32 = 0;
pub(super) const SET: u32 = 1;
const CLOSED: u32 = 2;

/// Something that happens: set, or not yet set, or closed. Any number of tasks, threads and futures wait for it.
///
/// A wait returns when it is set, at once if it is so already. It stays set until it is [reset](Event::reset), and a
/// set goes to all that wait at that moment, whatever comes after it.
///
/// [`close`](Event::close) says that it will not be set any more, and ends all waits with [`WaitError::Closed`]. What has
/// been set before stays so, for ever.
///
/// What was done before a `set` is seen by those whose wait it ends.
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
    raw: RawEvent,
}

/// The state is changed under the lock of the queue, and read without: one that finds it unset takes the lock, and
/// looks again before it enters the queue.
pub(super) struct RawEvent {
    state: AtomicU32,
    queue: Mutex<Turns>,
}

impl Event {
    const_fn! {
        /// An event that is not set.
        pub const fn new() -> Event {
            Event { raw: RawEvent::new() }
        }
    }

    /// Sets it, and wakes all who wait. Nothing happens if it is closed.
    ///
    /// Does not suspend. Costs a lock, and a wake-up for each who waits.
    pub fn set(&self) {
        self.raw.open(SET);
    }

    /// Says that it will not be set any more: all waits end, and later ones do not begin. If it is set it stays so.
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
        self.raw.open(CLOSED);
    }

    /// Makes it unset again, if it is set and not closed; whether it was. Those whose wait a `set` has ended are not concerned, also if they
    /// have not gone on yet.
    ///
    /// Does not suspend.
    pub fn reset(&self) -> bool {
        self.raw.reset()
    }

    /// Whether it is set. A load.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.raw.state.load(Ordering::Acquire) & SET != 0
    }

    /// Whether it is closed. A load.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.raw.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Waits until it is set.
    ///
    /// Suspends, unless it is.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if it is closed, and was not set before; [`WaitError::Cancelled`] if the calling task is
    /// cancelled, also if it is set.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    pub fn wait(&self) -> Result<(), WaitError> {
        self.wait_until(None)
    }

    /// As [`wait`](Event::wait), but no longer than `time`.
    ///
    /// ```
    /// use cygnet::sync::{Event, WaitError};
    ///
    /// let time = std::time::Duration::from_millis(1);
    /// assert_eq!(Event::new().wait_timeout(time), Err(WaitError::TimedOut));
    /// ```
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `wait`.
    ///
    /// # Panics
    /// As `wait`.
    #[track_caller]
    pub fn wait_timeout(&self, time: Duration) -> Result<(), WaitError> {
        self.wait_until(after(time))
    }

    #[track_caller]
    fn wait_until(&self, until: Option<Instant>) -> Result<(), WaitError> {
        let answer = match self.raw.answer() {
            Some(answer) if !is_cancelled() => answer,
            _ => enter(&self.raw, 0, until).map_err(WaitError::of)?,
        };
        outcome(answer)
    }

    /// The same wait as a future, for any executor. It begins when it is polled first.
    #[track_caller]
    pub fn wait_async(&self) -> EventWait<'_> {
        EventWait { entering: Entering::new(&self.raw, 0, Location::caller()) }
    }
}

fn outcome(answer: u32) -> Result<(), WaitError> {
    if answer & SET != 0 { Ok(()) } else { Err(WaitError::Closed) }
}

impl RawEvent {
    const_fn! {
        pub(super) const fn new() -> RawEvent {
            RawEvent { state: AtomicU32::new(UNSET), queue: Mutex::new(Turns::new()) }
        }
    }

    /// What a wait comes to at this moment, if it does not have to wait.
    #[inline]
    pub(super) fn answer(&self) -> Option<u32> {
        // MUTANT(event.answer): relaxed
        let state = self.state.load(Ordering::Acquire);
        (state != UNSET).then_some(state)
    }

    /// Adds to the state, and ends the waits of all who are there.
    pub(super) fn open(&self, what: u32) {
        let queue = self.state();
        let state = self.state.load(Ordering::Relaxed);
        if state & CLOSED != 0 {
            return;
        }
        // Also if nothing changes: what was done before this call is seen by those who find it set from now on.
        // MUTANT(event.open): relaxed
        self.state.store(state | what, Ordering::Release);
        // Whatever comes after it, those who are there have been reached. A turn that has ended before was by a set.
        Turns::end(self, queue, state | what, SET);
    }

    pub(super) fn reset(&self) -> bool {
        let _queue = self.state();
        let before = self.state.load(Ordering::Relaxed);
        if before == SET {
            self.state.store(UNSET, Ordering::Relaxed);
        }
        before == SET
    }
}

impl Waitable for RawEvent {
    type State = Turns;

    fn what(&self) -> &'static str {
        "an event"
    }

    fn state(&self) -> MutexGuard<'_, Turns> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(turns: &mut Turns) -> &mut WaitList {
        &mut turns.waiters
    }

    fn try_enter(&self, turns: &mut Turns, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        turns.mark(node);
        // MUTANT(event.enter.look): with None
        self.answer()
    }

    /// Nothing was taken.
    fn give_back(&self, _: &WaitNode) {}
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.raw.state().waiters.places();
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .field("closed", &self.is_closed())
            .field("waiting", &waiting)
            .finish()
    }
}

/// The future of [`Event::wait_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct EventWait<'a> {
    entering: Entering<&'a RawEvent>,
}

impl Future for EventWait<'_> {
    /// As [`Event::wait`]; it is not a task that waits, so nobody cancels it but by dropping it.
    type Output = Result<(), WaitError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), WaitError>> {
        // SAFETY: pinned with the whole.
        let entering = unsafe { self.map_unchecked_mut(|this| &mut this.entering) };
        entering.poll(cx).map(outcome)
    }
}

impl fmt::Debug for EventWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWait").finish_non_exhaustive()
    }
}
