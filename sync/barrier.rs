//! A barrier: a number of parties wait for each other.

use super::after;
use super::errors::WaitError;
use super::future::future;
use crate::scheduler::wait::waiters::{WaitFuture, WaitList, WaitNode, Waitable, Wakes, enter};
use crate::shim::{Mutex, MutexGuard, const_fn};
use std::panic::Location;
use std::time::{Duration, Instant};

/// A reusable barrier, at which a fixed number of callers wait for each other.
///
/// The last caller to arrive releases the others, and is the [leader](BarrierPassed::is_leader). A
/// caller that is cancelled while it waits has not arrived, and another must arrive in its place.
/// Once the barrier is open, all its waiters pass, even if they are cancelled.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let barrier = cygnet::sync::Barrier::new(3);
/// let leaders = std::sync::atomic::AtomicUsize::new(0);
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         for _ in 0..3 {
///             s.spawn(|| {
///                 if barrier.wait().unwrap().is_leader() {
///                     leaders.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///                 }
///             });
///         }
///     });
/// });
/// assert_eq!(leaders.into_inner(), 1);
/// ```
pub struct Barrier {
    count: usize,
    queue: Mutex<WaitList>,
}

/// The answers of a grant.
const FOLLOWER: u32 = 0;
const LEADER: u32 = 1;

impl Barrier {
    const_fn! {
        /// Creates a barrier for `count` callers. With 0, as with 1, no caller ever waits.
        pub const fn new(count: usize) -> Barrier {
            Barrier { count, queue: Mutex::new(WaitList::new()) }
        }
    }

    /// Waits for the other callers.
    ///
    /// Suspends, unless the caller is the last to arrive.
    ///
    /// # Errors
    /// [`WaitError::Cancelled`] if the calling task is cancelled. The caller has not arrived then.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn wait(&self) -> Result<BarrierPassed, WaitError> {
        self.wait_until(None)
    }

    /// Waits for the other callers, for at most `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if `time` passes first. Otherwise same as [`wait`](Barrier::wait).
    /// The caller has not arrived then.
    ///
    /// # Panics
    /// Same as [`wait`](Barrier::wait).
    #[track_caller]
    pub fn wait_timeout(&self, time: Duration) -> Result<BarrierPassed, WaitError> {
        self.wait_until(after(time))
    }

    #[track_caller]
    fn wait_until(&self, until: Option<Instant>) -> Result<BarrierPassed, WaitError> {
        let answer = enter(self, 0, until);
        answer.map(BarrierPassed).map_err(WaitError::of)
    }

    /// Waits for the other callers, as a future on any executor. The future arrives at its first
    /// poll. If it is dropped before the barrier opens, it has not arrived.
    #[track_caller]
    pub fn wait_async(&self) -> BarrierWait<'_> {
        BarrierWait { wait: WaitFuture::new(self, 0, Location::caller()) }
    }
}

impl Waitable for Barrier {
    type State = WaitList;
    const WHAT: &'static str = "a barrier";

    /// Other callers have already passed, because this one arrived.
    fn stands(&self, _: &WaitNode) -> bool {
        true
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock()
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, queue: &mut WaitList, _: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        if queue.len() + 1 < self.count {
            return None;
        }
        queue.grant_all(FOLLOWER, wakes);
        Some(LEADER)
    }

    fn give_back(&self, _: &WaitNode) {}
}

debug! { impl Barrier as this { count: this.count, waiting: this.state().locations() } }

/// The result of passing a [`Barrier`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BarrierPassed(u32);

impl BarrierPassed {
    /// Returns `true` if the caller arrived last, and so opened the barrier. Each opening has one
    /// leader.
    pub fn is_leader(&self) -> bool {
        self.0 == LEADER
    }
}

debug! { impl BarrierPassed as this { is_leader: this.is_leader() } }

future! {
    /// The future of [`Barrier::wait_async`].
    pub struct BarrierWait<'a> {
        wait: WaitFuture<&'a Barrier>,
    }
    type Output = BarrierPassed;
    |this, answer| BarrierPassed(answer)
}
