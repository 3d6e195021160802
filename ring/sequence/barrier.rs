use super::arithmetic::Sequence;
use super::awaited::{Awaited, Awaiting, Options, PUBLISHED, wait_for};
use super::raw_barrier::{End, RawBarrier};
use super::spinning::Learned;
use super::strategy::WaitStrategy;
use super::wait::SequenceWait;
use crate::runtime::is_cancelled;
use crate::shim::Arc;
use crate::shim::time::{Duration, Instant};
use crate::sync::WaitError;
use crate::sync::after;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

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

    /// Sets another [`WaitStrategy`]. If waiters [park](WaitStrategy::Park) at once, a publish
    /// costs a fence (some 20 cycles), so that a wait costs no more than that.
    ///
    /// # Panics
    /// If the barrier has been cloned, or is a member of a group or a sequencer.
    #[must_use]
    #[track_caller]
    pub fn with_strategy(self, strategy: WaitStrategy) -> SequenceBarrier<S> {
        let options = self.raw.options;
        self.with_options(Options { strategy, ..options })
    }

    /// Makes the barrier close for all when a wait is cancelled, times out, or is dropped as a
    /// pending future. For programs that have no other way to tell the others to stop.
    ///
    /// # Panics
    /// As [`with_strategy`](SequenceBarrier::with_strategy).
    #[must_use]
    #[track_caller]
    pub fn terminal(self) -> SequenceBarrier<S> {
        let options = self.raw.options;
        self.with_options(Options { terminal: true, ..options })
    }

    #[track_caller]
    pub(super) fn with_options(mut self, options: Options) -> SequenceBarrier<S> {
        let raw = Arc::get_mut(&mut self.raw);
        raw.expect("cygnet: set the options of a barrier before it is cloned or used in a group")
            .set_options(options);
        self
    }

    pub(super) fn raw(&self) -> &RawBarrier<S> {
        &self.raw
    }

    /// The last published number. Costs a load.
    #[must_use]
    #[inline]
    pub fn last_published(&self) -> S {
        self.raw.published()
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

    /// Waits until `target` is published, and returns the last published number.
    ///
    /// Suspends unless it is published, and costs a load if it is.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if it is not published and will not be; [`WaitError::Cancelled`] if
    /// the calling task is cancelled, even if it is published.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    #[inline]
    pub fn wait_until_published(&self, target: S) -> Result<S, WaitError> {
        self.wait_until(target, None)
    }

    /// Does the same as [`wait_until_published`](SequenceBarrier::wait_until_published), but waits
    /// no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when the time is over, and the errors of `wait_until_published`.
    ///
    /// # Panics
    /// As [`wait_until_published`](SequenceBarrier::wait_until_published).
    #[track_caller]
    pub fn wait_timeout(&self, target: S, time: Duration) -> Result<S, WaitError> {
        self.wait_until(target, after(time))
    }

    #[track_caller]
    #[inline]
    fn wait_until(&self, target: S, until: Option<Instant>) -> Result<S, WaitError> {
        let last = self.raw.published();
        if !last.precedes(target) && !is_cancelled() {
            return Ok(last);
        }
        match wait_for(&*self.raw, target.to_word(), until, || self.raw.answer(target))? {
            PUBLISHED => Ok(self.raw.published()),
            _ => Err(WaitError::Closed),
        }
    }

    /// Does the same as [`wait_until_published`](SequenceBarrier::wait_until_published), as a
    /// future for any executor. The wait begins with the first poll.
    #[track_caller]
    pub fn wait_async(&self, target: S) -> SequenceWait<'_, S> {
        SequenceWait::of_barrier(Awaiting::new(&*self.raw, target.to_word()))
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

impl<S: Sequence> Awaited for RawBarrier<S> {
    fn options(&self) -> Options {
        self.options
    }

    fn learned(&self) -> &Learned {
        &self.learned
    }

    fn close(&self) {
        self.end(End::Closed);
    }
}

impl<S: Sequence> Clone for SequenceBarrier<S> {
    fn clone(&self) -> SequenceBarrier<S> {
        SequenceBarrier { raw: Arc::clone(&self.raw) }
    }
}

impl<S: Sequence> Default for SequenceBarrier<S> {
    fn default() -> SequenceBarrier<S> {
        SequenceBarrier::new()
    }
}

impl<S: Sequence> UnwindSafe for SequenceBarrier<S> {}
impl<S: Sequence> RefUnwindSafe for SequenceBarrier<S> {}

impl<S: Sequence> fmt::Debug for SequenceBarrier<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceBarrier")
            .field("last_published", &self.last_published())
            .field("finished", &self.is_finished())
            .field("closed", &self.is_closed())
            .field("waiting", &self.raw.places())
            .finish()
    }
}
