use super::arithmetic::Sequence;
use super::awaited::{Numbers, Options, wait_async, wait_until};
use super::common::{options, waits};
use super::raw_barrier::{End, RawBarrier};
use crate::shim::Arc;
use crate::shim::time::{Duration, Instant};
use crate::sync::{WaitError, after};
use std::panic::Location;

/// The progress of one party, to be waited for by others: a number that only grows. Handles are
/// cheap to clone and refer to the same barrier.
///
/// A producer publishes the last number that can be read. A reader publishes the last number that
/// it no longer needs. One party at a time publishes; any number of tasks, threads and futures
/// wait, each for its own number.
///
/// **Cancellation is total**: a wait that is cancelled, times out or is dropped as a future has no
/// effect, and all others go on. With [`terminal`](SequenceBarrier::terminal) such a wait closes
/// the barrier.
///
/// There are two ends. [`finish`](SequenceBarrier::finish) means that no more will be published;
/// published numbers can be waited for as before. [`close`](SequenceBarrier::close) ends all waits,
/// and those of [groups](super::SequenceBarrierGroup) too. In both cases a wait for a number that
/// **is published already is answered** with the last published number, and any other wait with
/// [`WaitError::Closed`].
///
/// Everything done before a `publish` is visible to waiters that find the number published.
///
/// ```
/// use cygnet::ring::sequence::SequenceBarrier;
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let written = SequenceBarrier::<u64>::new();
/// rt.block_on(|| {
///     let reader = cygnet::spawn({
///         let written = written.clone();
///         move || written.wait_until_published(2)
///     });
///     written.publish(0);
///     written.publish(4);
///     assert_eq!(reader.join().unwrap(), Ok(4)); // the last one that is published
/// });
/// ```
#[derive(Clone)]
pub struct SequenceBarrier<S: Sequence = usize> {
    raw: Arc<RawBarrier<S>>,
}

impl<S: Sequence> SequenceBarrier<S> {
    /// Creates a barrier with nothing published:
    /// [`last_published`](SequenceBarrier::last_published) is the number before zero.
    #[must_use]
    pub fn new() -> SequenceBarrier<S> {
        SequenceBarrier::starting_after(S::INITIAL)
    }

    /// Creates a barrier in which the numbers up to `last` count as published.
    #[must_use]
    pub fn starting_after(last: S) -> SequenceBarrier<S> {
        SequenceBarrier { raw: Arc::new(RawBarrier::new(last)) }
    }

    #[track_caller]
    pub(super) fn change_options(mut self, to: impl FnOnce(Options) -> Options) -> Self {
        let raw = Arc::get_mut(&mut self.raw);
        raw.expect("cygnet: set the options of a barrier before it is cloned or used in a group")
            .change_options(to);
        self
    }

    pub(super) fn raw(&self) -> &RawBarrier<S> {
        &self.raw
    }

    /// Publishes all numbers up to `sequence`. Returns `false`, and does nothing, if `sequence` is
    /// not after the last published number: a publish cannot be undone.
    ///
    /// To be called by one party at a time. Does not suspend. Costs a store, and a load to see what
    /// is waited for (and a fence: see [`with_strategy`](SequenceBarrier::with_strategy)). If the
    /// number is waited for, it costs a lock acquisition too, and a wake-up for each waiter that
    /// has got its number.
    #[inline]
    pub fn publish(&self, sequence: S) -> bool {
        self.raw.publish(sequence)
    }

    /// Declares that no more will be published. Present and later waits for unpublished numbers end
    /// with [`WaitError::Closed`].
    ///
    /// Does not suspend.
    pub fn finish(&self) {
        self.raw.end(End::Finished);
    }

    /// Ends all waits, for this barrier and for groups with this member. Closing again has no
    /// effect.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.raw.end(End::Closed);
    }

    /// Returns `true` if the barrier is [finished](SequenceBarrier::finish) or closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.ended() != End::Open
    }

    /// Returns `true` if the barrier is closed. Costs a load.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.raw.ended() == End::Closed
    }
}

waits! { SequenceBarrier }
options! {
    SequenceBarrier:
    /// If waiters [park](super::WaitStrategy::Park) at once, a publish costs a fence (some 20
    /// cycles), so that a wait costs no more than that.
    ///
    /// # Panics
    /// If the barrier has been cloned, or is a member of a group or a sequencer.
}

default! { impl<S: Sequence> SequenceBarrier<S> }

debug! {
    impl<S: Sequence> SequenceBarrier<S> as this {
        last_published: this.last_published(),
        finished: this.is_finished(),
        closed: this.is_closed(),
        waiting: this.raw.locations(),
    }
}
