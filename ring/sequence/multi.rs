use super::arithmetic::{Sequence, SequenceRange};
use super::awaited::{Awaiting, CLOSED, Options, PUBLISHED, wait_at, wait_for};
use super::barrier::SequenceBarrier;
use super::claims::{Claims, Count};
use super::group::SequenceBarrierGroup;
use super::raw_multi::{RawMulti, Reads, Room};
use super::single::assert_size;
use super::strategy::WaitStrategy;
use super::wait::SequenceWait;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::WaitNode;
use crate::shim::Arc;
use crate::shim::time::{Duration, Instant};
use crate::sync::WaitError;
use crate::sync::after;
use std::fmt;
use std::ops::Range;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::pin;

/// Hands the places of a ring out to any number of producers, and tells readers what they have published. Handles are cheap to clone,
/// and are handles to the same.
///
/// A producer [claims](MultiProducerSequencer::claim_one) numbers, writes the items of these, and [publishes](MultiClaim::publish) them. It waits
/// until those who read have left the places: they publish so in the barriers with which the sequencer was made. Who reads
/// [waits](MultiProducerSequencer::wait_until_published) for numbers, which come in order whatever the order in which they are published.
///
/// Producers that wait for room are handed their numbers in the order in which they came, as soon as there is room (but for those that
/// [spin](WaitStrategy::Spin), or still do [before they park](WaitStrategy::SpinThenPark): they are in no queue). A producer that was handed its numbers and does not run yet owns a claim already: readers wait
/// for it, and other producers claim what comes after it.
///
/// **Cancellation is total.** A claim that is not published is given back when it is dropped: the newest is *rolled back*, and its
/// numbers are the next ones that are claimed; an older one is published as *skipped*, and readers [step over](MultiProducerSequencer::is_skipped) it.
/// A wait for room that is cancelled, times out or is dropped as a future has no number; if it was handed one just then, it gives that back in the
/// same way.
///
/// A claim that is forgotten ([`mem::forget`](std::mem::forget)) is not given back: readers wait for it for ever, also after a
/// [`close`](MultiProducerSequencer::close), and so do producers, a ring's size
/// later. The same goes for a future that is forgotten after it was handed its numbers.
///
/// **The end**: [`finish`](MultiProducerSequencer::finish) and [`close`](MultiProducerSequencer::close) refuse later claims at once. Readers are told when the last claim in hand
/// is published or given back.
///
/// ```
/// use cygnet::ring::sequence::{MultiProducerSequencer, SequenceBarrier};
///
/// let read = SequenceBarrier::<u64>::new();
/// let ring = MultiProducerSequencer::new(&read, 8);
/// let first = ring.claim_one().unwrap();
/// let more = ring.claim_up_to(3).unwrap();
/// assert_eq!((first.range().start(), more.range().len()), (0, 3));
/// more.publish();
/// assert_eq!(ring.last_published_after(u64::MAX), u64::MAX); // nothing: 0 comes first
/// first.publish();
/// assert_eq!(ring.wait_until_published(0, u64::MAX), Ok(3));
/// read.publish(3); // their places are free
/// ```
pub struct MultiProducerSequencer<S: Sequence = usize> {
    raw: Arc<RawMulti<S>>,
}

impl<S: Sequence> MultiProducerSequencer<S> {
    /// For a ring of so many places, whose items are read by those who publish in `read`. Its first number is the one after what is published
    /// there.
    ///
    /// # Panics
    /// If the size is not a power of two, or larger than the [largest](Sequence::LARGEST_RING), or than 2^30.
    #[must_use]
    pub fn new(read: impl Into<SequenceBarrierGroup<S>>, size: usize) -> MultiProducerSequencer<S> {
        assert_size::<S>(size);
        let readers = read.into().members().collect();
        MultiProducerSequencer { raw: RawMulti::new(readers, size, Options::default()) }
    }

    /// Before it is known who reads.
    #[track_caller]
    pub(crate) fn without_readers(
        size: usize,
        strategy: WaitStrategy,
    ) -> MultiProducerSequencer<S> {
        assert_size::<S>(size);
        let options = Options { strategy, ..Options::default() };
        let raw = RawMulti::without_readers(S::INITIAL.next(), size, options);
        MultiProducerSequencer { raw }
    }

    /// Says who reads last, and who before them. Once, before anybody claims.
    pub(crate) fn set_readers(
        &self,
        read: SequenceBarrierGroup<S>,
        before: Vec<SequenceBarrier<S>>,
    ) {
        self.raw.set_readers(read.members().collect(), before.into());
    }

    /// With another [`WaitStrategy`] for both sides.
    ///
    /// # Panics
    /// If it has been cloned.
    #[must_use]
    pub fn with_strategy(self, strategy: WaitStrategy) -> MultiProducerSequencer<S> {
        self.with(|options| Options { strategy, ..options })
    }

    /// One that a wait or a claim which is cancelled or times out closes.
    ///
    /// # Panics
    /// As [`with_strategy`](MultiProducerSequencer::with_strategy).
    #[must_use]
    pub fn terminal(self) -> MultiProducerSequencer<S> {
        self.with(|options| Options { terminal: true, ..options })
    }

    fn with(self, options: impl FnOnce(Options) -> Options) -> MultiProducerSequencer<S> {
        assert!(
            Arc::strong_count(&self.raw) == 1 && self.raw.claims.next() == 0,
            "cygnet: options are set before a sequencer is used"
        );
        let readers = self.raw.claims.readers().into();
        let options = options(self.raw.options);
        let raw = RawMulti::new(readers, self.size(), options);
        // The new one learns from those who read that it is closed, but nobody tells it that it has finished.
        if self.is_closed() {
            raw.finish();
        }
        MultiProducerSequencer { raw }
    }

    /// How many places the ring has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.raw.stamps.size()
    }

    /// Claims the next number, when there is room for it.
    ///
    /// Suspends, unless there is room and nobody waits for it. Costs a compare-and-swap then. Producers that wait are served in the order of coming.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if it is closed; [`WaitError::Cancelled`] if the calling task is cancelled, also if there is room.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    #[inline]
    pub fn claim_one(&self) -> Result<MultiClaim<'_, S>, WaitError> {
        self.claim(Count { least: 1, most: 1 }, None)
    }

    /// Claims as many as there is room for, but no more than `count`, when there is room for one. None at once, if that is 0.
    ///
    /// Suspends, and fails, as [`claim_one`](MultiProducerSequencer::claim_one).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    #[inline]
    pub fn claim_up_to(&self, count: usize) -> Result<MultiClaim<'_, S>, WaitError> {
        self.claim(Count::capped(count.min(1), count, self.size()), None)
    }

    /// Claims so many, or all that the ring has if these are fewer, when there is room for all of them.
    ///
    /// Suspends, and fails, as [`claim_one`](MultiProducerSequencer::claim_one).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    #[inline]
    pub fn claim_exactly(&self, count: usize) -> Result<MultiClaim<'_, S>, WaitError> {
        self.claim(Count::capped(count, count, self.size()), None)
    }

    /// As [`claim_up_to`](MultiProducerSequencer::claim_up_to), but no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `claim_one`.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn claim_timeout(
        &self,
        count: usize,
        time: Duration,
    ) -> Result<MultiClaim<'_, S>, WaitError> {
        self.claim(Count::capped(count.min(1), count, self.size()), after(time))
    }

    /// As [`claim_up_to`](MultiProducerSequencer::claim_up_to), if that need not wait.
    #[must_use]
    pub fn try_claim(&self, count: usize) -> Option<MultiClaim<'_, S>> {
        let count = Count::capped(count.min(1), count, self.size());
        self.raw.claims.claim_at_once(count).map(|indexes| self.token(indexes))
    }

    /// As [`claim_up_to`](MultiProducerSequencer::claim_up_to), as a future for any executor. One that is dropped gives back what it was handed.
    ///
    /// The numbers may be handed to the future before it is polled again: poll it or drop it, as readers wait for them.
    ///
    /// # Errors
    /// [`WaitError::Closed`].
    pub async fn claim_async(&self, count: usize) -> Result<MultiClaim<'_, S>, WaitError> {
        if let Some(claim) = self.try_claim(count) {
            return Ok(claim);
        }
        let count = Count::capped(count.min(1), count, self.size());
        let mut awaiting = pin!(Awaiting::new(Room(&self.raw), count.to_token()));
        match std::future::poll_fn(|cx| awaiting.as_mut().poll(cx)).await {
            CLOSED => Err(WaitError::Closed),
            answer => Ok(self.handed_over(awaiting.token(), answer)),
        }
    }

    /// The next number, if there is room for it and nobody waits.
    #[inline(always)]
    pub(crate) fn one_at_once(&self) -> Option<MultiClaim<'_, S>> {
        if is_cancelled() {
            return None;
        }
        let indexes = self.raw.claims.try_claim(Count { least: 1, most: 1 })?;
        Some(self.token(indexes))
    }

    #[track_caller]
    #[inline(always)]
    fn claim(&self, count: Count, until: Option<Instant>) -> Result<MultiClaim<'_, S>, WaitError> {
        if !is_cancelled()
            && let Some(indexes) = self.raw.claims.try_claim(count)
        {
            return Ok(self.token(indexes));
        }
        self.wait_and_claim(count, until)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_and_claim(
        &self,
        count: Count,
        until: Option<Instant>,
    ) -> Result<MultiClaim<'_, S>, WaitError> {
        let node = pin!(WaitNode::new(count.to_token(), Location::caller()));
        let mut claimed = None;
        let look = || {
            claimed = self.raw.claims.claim_at_once(count);
            if claimed.is_some() { Some(0) } else { self.is_closed().then_some(CLOSED) }
        };
        let answer = wait_at(Room(&self.raw), node.as_ref(), until, look)?;
        match (claimed, answer) {
            (Some(indexes), _) => Ok(self.token(indexes)),
            (None, CLOSED) => Err(WaitError::Closed),
            (None, answer) => Ok(self.handed_over(node.token.get(), answer)),
        }
    }

    fn handed_over(&self, token: u64, answer: u32) -> MultiClaim<'_, S> {
        self.token(Claims::<S>::handed_over(token, answer))
    }

    #[inline(always)]
    fn token(&self, indexes: Range<u64>) -> MultiClaim<'_, S> {
        MultiClaim { raw: &self.raw, indexes }
    }

    /// Whether a number could be claimed at this moment.
    #[must_use]
    pub fn any_available(&self) -> bool {
        self.raw.claims.has_room()
    }

    /// The last number before the first that is not published, for who knows that all up to `known` are: a reader, of what it has read. The number before
    /// the first one of all, if there is none.
    ///
    /// Costs a load for each number after `known`.
    #[must_use]
    #[inline]
    pub fn last_published_after(&self, known: S) -> S {
        self.raw.published_from(known)
    }

    /// The same for who knows nothing: it looks at all places.
    #[must_use]
    pub fn last_published(&self) -> S {
        let frontier = self.raw.frontier(self.raw.claims.next());
        self.raw.claims.number(frontier.wrapping_sub(1))
    }

    /// Whether the number was given up by who had claimed it, so that there is no item. For who reads: of numbers that are published,
    /// and not yet read.
    #[must_use]
    #[inline]
    pub fn is_skipped(&self, sequence: S) -> bool {
        self.raw.stamps.is_skipped(self.raw.index_after(sequence).wrapping_sub(1))
    }

    /// Whether none of the numbers from there on that are published was given up. For who has seen them.
    #[inline]
    pub(crate) fn has_no_skips_from(&self, number: S) -> bool {
        self.raw.stamps.has_no_skips_from(self.raw.index_after(number).wrapping_sub(1))
    }

    /// Waits until `target` and all before it are published, for who knows that all up to `known` are: the last one that is.
    ///
    /// Suspends, unless they are.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if they are not published, and nothing more [will be](MultiProducerSequencer::is_finished); [`WaitError::Cancelled`] if the calling task is
    /// cancelled, also if they are.
    ///
    /// # Panics
    /// As [`claim_one`](MultiProducerSequencer::claim_one).
    #[track_caller]
    #[inline]
    pub fn wait_until_published(&self, target: S, known: S) -> Result<S, WaitError> {
        self.wait_until(target, known, None)
    }

    /// As [`wait_until_published`](MultiProducerSequencer::wait_until_published), but no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `wait_until_published`.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn wait_timeout(&self, target: S, known: S, time: Duration) -> Result<S, WaitError> {
        self.wait_until(target, known, after(time))
    }

    /// The same wait as a future, for any executor. It begins when it is polled first.
    #[track_caller]
    pub fn wait_async(&self, target: S) -> SequenceWait<'_, S> {
        let wanted = self.raw.index_after(target);
        SequenceWait::of_multi(Awaiting::new(Reads(&self.raw), wanted), target)
    }

    #[track_caller]
    #[inline]
    pub(crate) fn wait_until(
        &self,
        target: S,
        known: S,
        until: Option<Instant>,
    ) -> Result<S, WaitError> {
        let last = self.raw.published_from(known);
        if !last.precedes(target) && !is_cancelled() {
            return Ok(last);
        }
        let (wanted, from) = (self.raw.index_after(target), self.raw.index_after(known));
        let look = || self.raw.answer(wanted, from);
        match wait_for(Reads(&self.raw), wanted, until, look)? {
            PUBLISHED => Ok(self.raw.published_from(known)),
            _ => Err(WaitError::Closed),
        }
    }

    /// The same as [`wait_until_published`](MultiProducerSequencer::wait_until_published) without a wait: `None` if the number may still come.
    pub(crate) fn try_until(&self, target: S, known: S) -> Option<Result<S, WaitError>> {
        let (wanted, from) = (self.raw.index_after(target), self.raw.index_after(known));
        self.raw.answer(wanted, from).map(|answer| match answer {
            PUBLISHED => Ok(self.raw.published_from(known)),
            _ => Err(WaitError::Closed),
        })
    }

    /// Refuses every later claim, and ends the claims that wait for room. Claims in hand may still be published, and are read.
    ///
    /// Readers are told [`Closed`](WaitError::Closed) when every number that was claimed is published or given back, and not before: so they have all of them.
    ///
    /// Does not suspend.
    pub fn finish(&self) {
        self.raw.finish();
    }

    /// As [`finish`](MultiProducerSequencer::finish) for a caller that knows that no claim is in hand: what was claimed and not published was forgotten, and is given up.
    pub(crate) fn finish_without_claims(&self) {
        self.raw.finish_without_claims();
    }

    /// The same as [`finish`](MultiProducerSequencer::finish), and closes the barriers with which the sequencer was made: waits for what the readers publish there end
    /// at once. Twice is once.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.raw.close();
    }

    /// Returns `true` if later claims are refused: it is closed or finished, or one of those who read has ended. A load.
    ///
    /// Claims in hand may still be published: see [`is_finished`](MultiProducerSequencer::is_finished).
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.raw.is_closed()
    }

    /// Returns `true` if nothing more will be published: it is closed or finished, and every number that was claimed is published or given back.
    ///
    /// A reader that polls asks for this first, and then for [what is published](MultiProducerSequencer::last_published_after): that is all then.
    /// Looks at all places, at the most.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.is_finished()
    }
}

impl<S: Sequence> Clone for MultiProducerSequencer<S> {
    fn clone(&self) -> MultiProducerSequencer<S> {
        MultiProducerSequencer { raw: Arc::clone(&self.raw) }
    }
}

impl<S: Sequence> UnwindSafe for MultiProducerSequencer<S> {}
impl<S: Sequence> RefUnwindSafe for MultiProducerSequencer<S> {}

impl<S: Sequence> fmt::Debug for MultiProducerSequencer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it is written to is foreign code, and runs without a lock.
        let for_room = self.raw.claims.lock().places();
        let to_read = self.raw.stamps.lock().waiters.places();
        f.debug_struct("MultiProducerSequencer")
            .field("size", &self.size())
            .field("next", &self.raw.claims.number(self.raw.claims.next()))
            .field("last_published", &self.last_published())
            .field("closed", &self.is_closed())
            .field("waiting_for_room", &for_room)
            .field("waiting_to_read", &to_read)
            .finish()
    }
}

/// Numbers that have been claimed, from a [`MultiProducerSequencer`]. Dropped they are given back: see there.
#[must_use = "a claim that is dropped is given back"]
pub struct MultiClaim<'a, S: Sequence = usize> {
    raw: &'a RawMulti<S>,
    indexes: Range<u64>,
}

impl<S: Sequence> MultiClaim<'_, S> {
    /// The numbers.
    #[must_use]
    #[inline]
    pub fn range(&self) -> SequenceRange<S> {
        let len = self.indexes.end - self.indexes.start;
        SequenceRange::of_ring(self.raw.claims.number(self.indexes.start), len as usize)
    }

    /// Publishes all of them.
    ///
    /// Returns `false` if that comes too late: one of those who read has ended, and has closed the sequencer by that. The others read the numbers all the same.
    /// Returns `true` after a [`close`](MultiProducerSequencer::close) or a [`finish`](MultiProducerSequencer::finish): readers wait for the claims that are in hand then.
    ///
    /// Does not suspend. Costs a store for each, and a load of what others wait for; a lock and a wake-up for each whose number has come.
    #[inline]
    pub fn publish(mut self) -> bool {
        let indexes = std::mem::take(&mut self.indexes);
        self.raw.publish(indexes)
    }

    /// Publishes the first so many, and gives back the others. Returns as [`publish`](MultiClaim::publish) does.
    pub fn publish_first(mut self, count: usize) -> bool {
        let middle = self.indexes.end.min(self.indexes.start.saturating_add(count as u64));
        let in_time = self.raw.publish(self.indexes.start..middle);
        self.indexes.start = middle;
        in_time
    }
}

impl<S: Sequence> Drop for MultiClaim<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if !self.indexes.is_empty() {
            self.raw.give_up(self.indexes.clone());
        }
    }
}

impl<S: Sequence> UnwindSafe for MultiClaim<'_, S> {}
impl<S: Sequence> RefUnwindSafe for MultiClaim<'_, S> {}

impl<S: Sequence> fmt::Debug for MultiClaim<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiClaim").field(&self.range()).finish()
    }
}
