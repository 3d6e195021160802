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

/// How far one has got, to be waited for by others: a number that only grows. Handles are cheap to clone, and are handles to the same.
///
/// Who writes a ring's items publishes the last one that can be read; who reads them publishes the last one that it does not need any more.
/// One at a time publishes; any number of tasks, threads and futures wait, each for the number that it needs.
///
/// **Cancellation is total**: a wait that is cancelled, or times out, or is dropped as a future, is as if it had never been made, and
/// all others go on. Who wants one such to close the whole says so by [`terminal`](SequenceBarrier::terminal).
///
/// There are two ends. [`finish`](SequenceBarrier::finish) says that no more will be published: what was published is waited for as before.
/// [`close`](SequenceBarrier::close) ends all waits, those of [groups](super::SequenceBarrierGroup) too. In both cases a wait for a number that **is
/// published already is answered** with the last one that is, and any other one with [`WaitError::Closed`].
///
/// What was done before a `publish` is seen by those who find it published.
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
    /// One of which nothing is published: [`last_published`](SequenceBarrier::last_published) is the number before zero.
    #[must_use]
    pub fn new() -> SequenceBarrier<S> {
        SequenceBarrier::starting_after(S::INITIAL)
    }

    /// The same, but the numbers up to this one count as published.
    #[must_use]
    pub fn starting_after(last: S) -> SequenceBarrier<S> {
        SequenceBarrier { raw: Arc::new(RawBarrier::new(last)) }
    }

    /// With another [`WaitStrategy`]. Where who waits [parks](WaitStrategy::Park) at once, to publish costs a fence (some 20 cycles), so that to wait costs
    /// no more than that.
    ///
    /// # Panics
    /// If it has been cloned, or is a member of something.
    #[must_use]
    #[track_caller]
    pub fn with_strategy(self, strategy: WaitStrategy) -> SequenceBarrier<S> {
        let options = self.raw.options;
        self.with_options(Options { strategy, ..options })
    }

    /// One that a wait which is cancelled or times out closes for all, as where nothing else can be told to stop.
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

    /// The last number that is published. A load.
    #[must_use]
    #[inline]
    pub fn last_published(&self) -> S {
        self.raw.published()
    }

    /// Publishes all numbers up to this one. False, and nothing is done, if it does not come after the last one that is published:
    /// nothing is taken back.
    ///
    /// For one at a time. Does not suspend. Costs a store, and a load of what others wait for (and a fence: see
    /// [`with_strategy`](SequenceBarrier::with_strategy)); a lock and a wake-up for each whose number has come.
    #[inline]
    pub fn publish(&self, sequence: S) -> bool {
        self.raw.publish(sequence)
    }

    /// Waits until this number is published: the last one that is.
    ///
    /// Suspends, unless it is. Costs a load then.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if it is not published, and will not be; [`WaitError::Cancelled`] if the calling task is cancelled, also if it is.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    #[inline]
    pub fn wait_until_published(&self, target: S) -> Result<S, WaitError> {
        self.wait_until(target, None)
    }

    /// As [`wait_until_published`](SequenceBarrier::wait_until_published), but no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `wait_until_published`.
    ///
    /// # Panics
    /// As there.
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

    /// The same wait as a future, for any executor. It begins when it is polled first.
    #[track_caller]
    pub fn wait_async(&self, target: S) -> SequenceWait<'_, S> {
        SequenceWait::of_barrier(Awaiting::new(&*self.raw, target.to_word()))
    }

    /// Says that no more will be published. Who waits for more is told, and also later.
    ///
    /// Does not suspend.
    pub fn finish(&self) {
        self.raw.end(End::Finished);
    }

    /// Ends all waits, here and in groups that this is a member of. Twice is once.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.raw.end(End::Closed);
    }

    /// Whether it is [finished](SequenceBarrier::finish), or closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.ended() != End::Open
    }

    /// Whether it is closed. A load.
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
