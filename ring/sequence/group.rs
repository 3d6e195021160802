use super::arithmetic::Sequence;
use super::awaited::{Awaited, Numbers, Options, wait_async, wait_until};
use super::barrier::SequenceBarrier;
use super::common::{options, waits};
use super::raw_group::RawGroup;
use crate::shim::Arc;
use crate::shim::time::{Duration, Instant};
use crate::sync::{WaitError, after};
use std::panic::Location;

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
#[derive(Clone)]
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

    fn change_options(self, to: impl FnOnce(Options) -> Options) -> Self {
        SequenceBarrierGroup::with(self.members(), to(self.raw.options))
    }

    pub(super) fn with(
        members: impl IntoIterator<Item = SequenceBarrier<S>>,
        options: Options,
    ) -> SequenceBarrierGroup<S> {
        let members: Box<[_]> = members.into_iter().collect();
        assert!(!members.is_empty(), "cygnet: a group of barriers needs at least one member");
        SequenceBarrierGroup { raw: RawGroup::new(members, options) }
    }

    /// Returns `true` if there is no other handle.
    pub(super) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.raw) == 1
    }

    pub(super) fn members(&self) -> impl Iterator<Item = SequenceBarrier<S>> + '_ {
        self.raw.members.iter().cloned()
    }

    pub(super) fn raw(&self) -> &RawGroup<S> {
        &self.raw
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

waits! { SequenceBarrierGroup }
options! {
    SequenceBarrierGroup:
    /// A group that closes also closes its members.
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

debug! {
    impl<S: Sequence> SequenceBarrierGroup<S> as this {
        last_published:
            this.raw.members.iter().map(SequenceBarrier::last_published).collect::<Vec<_>>(),
        closed: this.is_closed(),
        waiting: this.raw.locations(),
    }
}
