use super::arithmetic::Sequence;
use super::awaited::{Awaited, Awaiting, Options, PUBLISHED, wait_for};
use super::barrier::SequenceBarrier;
use super::raw_group::RawGroup;
use super::strategy::WaitStrategy;
use super::wait::SequenceWait;
use crate::runtime::is_cancelled;
use crate::shim::Arc;
use crate::shim::time::{Duration, Instant};
use crate::sync::WaitError;
use crate::sync::after;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A group of [barriers](SequenceBarrier), with the progress of the slowest member. Handles are
/// cheap to clone and refer to the same group.
///
/// A number counts as published when all members have published it. A member that is
/// [closed](SequenceBarrier::close) ends all waits for the group. A member that has
/// [finished](SequenceBarrier::finish) ends the waits for numbers that it has not published. Waits
/// for another member alone are not affected.
///
/// A wait needs no task, whatever the number of members, and takes one place in one list.
/// **Cancellation is total**, as for a barrier.
///
/// ```
/// use cygnet::ring::sequence::{SequenceBarrier, SequenceBarrierGroup};
///
/// let [fast, slow] = [SequenceBarrier::<u32>::new(), SequenceBarrier::new()];
/// let both = SequenceBarrierGroup::new([fast.clone(), slow.clone()]);
/// fast.publish(9);
/// slow.publish(3);
/// assert_eq!(both.last_published(), 3);
/// assert_eq!(both.wait_until_published(2), Ok(3));
/// ```
pub struct SequenceBarrierGroup<S: Sequence = usize> {
    raw: Arc<RawGroup<S>>,
}

impl<S: Sequence> SequenceBarrierGroup<S> {
    /// Creates a group of barriers.
    ///
    /// # Panics
    /// If there are no members.
    #[must_use]
    pub fn new(members: impl IntoIterator<Item = SequenceBarrier<S>>) -> SequenceBarrierGroup<S> {
        SequenceBarrierGroup::with(members, Options::default())
    }

    /// Sets another [`WaitStrategy`] for waits for the group.
    #[must_use]
    pub fn with_strategy(self, strategy: WaitStrategy) -> SequenceBarrierGroup<S> {
        SequenceBarrierGroup::with(self.members(), Options { strategy, ..self.raw.options })
    }

    /// Makes the group close, with all its members, when a wait is cancelled, times out, or is
    /// dropped as a pending future.
    #[must_use]
    pub fn terminal(self) -> SequenceBarrierGroup<S> {
        SequenceBarrierGroup::with(self.members(), Options { terminal: true, ..self.raw.options })
    }

    pub(super) fn with(
        members: impl IntoIterator<Item = SequenceBarrier<S>>,
        options: Options,
    ) -> SequenceBarrierGroup<S> {
        let members: Box<[_]> = members.into_iter().collect();
        assert!(!members.is_empty(), "cygnet: a group of barriers needs at least one member");
        SequenceBarrierGroup { raw: RawGroup::new(members, options) }
    }

    pub(super) fn options(&self) -> Options {
        self.raw.options
    }

    /// Returns `true` if there is no other handle.
    pub(super) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.raw) == 1
    }

    pub(super) fn members(&self) -> impl Iterator<Item = SequenceBarrier<S>> + '_ {
        self.raw.members.iter().cloned()
    }

    /// The last number that all members have published. Costs a load for each member.
    #[must_use]
    #[inline]
    pub fn last_published(&self) -> S {
        self.raw.published()
    }

    /// Waits until all members have published `target`, and returns the last number that they all
    /// have published.
    ///
    /// Suspends unless they have published it, and costs a load for each member if they have.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if they have not published it, and a member is closed or has finished
    /// before it; [`WaitError::Cancelled`] if the calling task is cancelled, even if they have.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    #[inline]
    pub fn wait_until_published(&self, target: S) -> Result<S, WaitError> {
        self.wait_until(target, None)
    }

    /// Does the same as [`wait_until_published`](SequenceBarrierGroup::wait_until_published), but
    /// waits no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when the time is over, and the errors of `wait_until_published`.
    ///
    /// # Panics
    /// As [`wait_until_published`](SequenceBarrierGroup::wait_until_published).
    #[track_caller]
    pub fn wait_timeout(&self, target: S, time: Duration) -> Result<S, WaitError> {
        self.wait_until(target, after(time))
    }

    #[track_caller]
    #[inline]
    pub(crate) fn wait_until(&self, target: S, until: Option<Instant>) -> Result<S, WaitError> {
        let last = self.raw.published();
        if !last.precedes(target) && !is_cancelled() {
            return Ok(last);
        }
        match wait_for(&*self.raw, target.to_word(), until, || self.raw.answer(target))? {
            PUBLISHED => Ok(self.raw.published()),
            _ => Err(WaitError::Closed),
        }
    }

    /// Does the same without waiting: returns `None` if the number may still come.
    pub(crate) fn try_until(&self, target: S) -> Option<Result<S, WaitError>> {
        self.raw.answer(target).map(|answer| match answer {
            PUBLISHED => Ok(self.raw.published()),
            _ => Err(WaitError::Closed),
        })
    }

    /// Does the same as [`wait_until_published`](SequenceBarrierGroup::wait_until_published), as a
    /// future for any executor. The wait begins with the first poll.
    #[track_caller]
    pub fn wait_async(&self, target: S) -> SequenceWait<'_, S> {
        SequenceWait::of_group(Awaiting::new(&*self.raw, target.to_word()))
    }

    /// Closes all members.
    pub fn close(&self) {
        self.raw.close();
    }

    /// Returns `true` if a member is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.raw.members.iter().any(SequenceBarrier::is_closed)
    }
}

impl<S: Sequence> Clone for SequenceBarrierGroup<S> {
    fn clone(&self) -> SequenceBarrierGroup<S> {
        SequenceBarrierGroup { raw: Arc::clone(&self.raw) }
    }
}

impl<S: Sequence> From<SequenceBarrier<S>> for SequenceBarrierGroup<S> {
    fn from(only: SequenceBarrier<S>) -> SequenceBarrierGroup<S> {
        SequenceBarrierGroup::new([only])
    }
}

impl<S: Sequence> From<&SequenceBarrier<S>> for SequenceBarrierGroup<S> {
    fn from(only: &SequenceBarrier<S>) -> SequenceBarrierGroup<S> {
        SequenceBarrierGroup::new([only.clone()])
    }
}

impl<S: Sequence> UnwindSafe for SequenceBarrierGroup<S> {}
impl<S: Sequence> RefUnwindSafe for SequenceBarrierGroup<S> {}

impl<S: Sequence> fmt::Debug for SequenceBarrierGroup<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let published: Vec<_> =
            self.raw.members.iter().map(SequenceBarrier::last_published).collect();
        f.debug_struct("SequenceBarrierGroup")
            .field("last_published", &published)
            .field("closed", &self.is_closed())
            .field("waiting", &self.raw.places())
            .finish()
    }
}
