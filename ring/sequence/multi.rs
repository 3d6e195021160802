use super::arithmetic::{Sequence, SequenceRange};
use super::awaited::{CLOSED, Options, wait_as_future, wait_async, wait_at, wait_until};
use super::barrier::SequenceBarrier;
use super::claims::{Claims, Request};
use super::common::{claims, options};
use super::count::Count;
use super::errors::TryClaimError;
use super::group::SequenceBarrierGroup;
use super::raw_multi::{RawMulti, Reads, Room};
use super::single::assert_size;
use super::strategy::WaitStrategy;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::WaitNode;
use crate::shim::Arc;
use crate::shim::time::{Duration, Instant};
use crate::sync::{WaitError, after};
use std::ops::Range;
use std::panic::Location;
use std::pin::pin;

/// Hands out the slots of a ring to any number of producers, and tells readers what they have
/// published. Handles are cheap to clone and refer to the same sequencer.
///
/// A producer [claims](MultiProducerSequencer::claim_one) numbers, writes their items, and
/// [publishes](MultiClaim::publish) them. It waits until the readers have left the slots, which
/// they announce by publishing in the barriers with which the sequencer was created. Readers
/// [wait](MultiProducerSequencer::wait_until_published) for numbers, which become readable in
/// order, whatever the order in which they are published.
///
/// Producers that wait for room are handed numbers in FIFO order, as soon as there is room. (A
/// producer that [spins](WaitStrategy::Spin), also [before it parks](WaitStrategy::SpinThenPark),
/// is not in the queue.) A producer that was handed numbers and does not run yet owns a claim
/// already: readers wait for it, and other producers claim later numbers.
///
/// **Cancellation is total.** A claim that is dropped unpublished is given back. The newest claim
/// is *rolled back*, and its numbers are the next ones to be claimed. An older claim is published
/// as *skipped*, and readers [step over](MultiProducerSequencer::is_skipped) it. A wait for room
/// that is cancelled, times out or is dropped as a future owns no number; if it was handed numbers
/// just then, it gives them back in the same way.
///
/// A claim that is forgotten ([`mem::forget`](std::mem::forget)) is not given back. Readers wait
/// for it for ever, even after a [`close`](MultiProducerSequencer::close), and so do producers, a
/// ring's size later. The same goes for a future that is forgotten after it was handed its numbers.
///
/// **The end.** [`finish`](MultiProducerSequencer::finish) and
/// [`close`](MultiProducerSequencer::close) refuse later claims at once. Readers are told when the
/// last claim in hand is published or given back.
///
/// ```
/// use cygnet::ring::sequence::{MultiProducerSequencer, SequenceBarrier};
///
/// let read = SequenceBarrier::<u64>::new();
/// let ring = MultiProducerSequencer::new(&read, 8);
/// let first = ring.claim_one().unwrap();
/// let more = ring.claim(3).unwrap();
/// assert_eq!((first.range().start(), more.range().len()), (0, 3));
/// more.publish();
/// assert_eq!(ring.last_published_after(u64::MAX), u64::MAX); // none: 0 comes first
/// first.publish();
/// assert_eq!(ring.wait_until_published(0, u64::MAX), Ok(3));
/// read.publish(3); // their slots are free
/// ```
#[derive(Clone)]
pub struct MultiProducerSequencer<S: Sequence = usize> {
    raw: Arc<RawMulti<S>>,
}

impl<S: Sequence> MultiProducerSequencer<S> {
    /// Creates a sequencer for a ring of `size` slots, the readers of which publish in `read`. Its
    /// first number is the one after the last number published there.
    ///
    /// # Panics
    /// If the size is not a power of two, or larger than the [largest](Sequence::LARGEST_RING), or
    /// than 2^30.
    #[must_use]
    pub fn new(read: impl Into<SequenceBarrierGroup<S>>, size: usize) -> MultiProducerSequencer<S> {
        assert_size::<S>(size);
        let readers = read.into().members().collect();
        MultiProducerSequencer { raw: RawMulti::new(readers, size, Options::default()) }
    }

    /// Creates a sequencer before its readers are known.
    #[track_caller]
    pub(crate) fn without_readers(size: usize, strategy: WaitStrategy) -> Self {
        assert_size::<S>(size);
        let options = Options { strategy, ..Options::default() };
        let raw = RawMulti::without_readers(S::INITIAL.next(), size, options);
        MultiProducerSequencer { raw }
    }

    /// Sets the readers of the last stage, and those of the stages before. Called once, before the
    /// first claim.
    pub(crate) fn set_readers(
        &self,
        read: SequenceBarrierGroup<S>,
        before: Vec<SequenceBarrier<S>>,
    ) {
        self.raw.set_readers(read.members().collect(), before.into());
    }

    #[track_caller]
    fn change_options(self, to: impl FnOnce(Options) -> Options) -> Self {
        assert!(
            Arc::strong_count(&self.raw) == 1 && self.raw.claims.next() == 0,
            "cygnet: set the options of a sequencer before it is cloned or used"
        );
        let readers = self.raw.claims.readers().into();
        let raw = RawMulti::new(readers, self.size(), to(self.raw.options));
        // The new sequencer sees closed readers for itself, but not that the old sequencer was
        // finished.
        if self.is_closed() {
            raw.finish();
        }
        MultiProducerSequencer { raw }
    }

    /// The number of slots of the ring.
    #[must_use]
    pub fn size(&self) -> usize {
        self.raw.stamps.size()
    }

    /// Claims the next numbers like [`claim`](MultiProducerSequencer::claim) if there is room now
    /// and no other producer waits for it, even in a cancelled task.
    ///
    /// Does not suspend.
    ///
    /// # Errors
    /// [`TryClaimError::Full`] if there is not enough room now, or other producers wait for it;
    /// [`TryClaimError::Closed`] if the sequencer is closed.
    ///
    /// # Panics
    /// If the count is an empty range.
    pub fn try_claim(&self, count: impl Into<Count>) -> Result<MultiClaim<'_, S>, TryClaimError> {
        let request = Request::capped(count.into(), self.size());
        match self.raw.claims.claim_at_once(request) {
            Some(indexes) => Ok(self.token(indexes)),
            None if self.is_closed() => Err(TryClaimError::Closed),
            None => Err(TryClaimError::Full),
        }
    }

    /// Does the same as [`claim`](MultiProducerSequencer::claim), as a future for any executor. A
    /// future that is dropped gives back the numbers that it was handed.
    ///
    /// The future may be handed its numbers before it is polled again. Poll it or drop it, as
    /// readers wait for them.
    ///
    /// # Errors
    /// [`WaitError::Closed`].
    ///
    /// # Panics
    /// If the count is an empty range.
    pub async fn claim_async(
        &self,
        count: impl Into<Count>,
    ) -> Result<MultiClaim<'_, S>, WaitError> {
        let count = count.into();
        if let Ok(claim) = self.try_claim(count) {
            return Ok(claim);
        }
        let token = Request::capped(count, self.size()).to_token();
        match wait_as_future(&Room(&self.raw), token, Location::caller()).await {
            (CLOSED, _) => Err(WaitError::Closed),
            (answer, token) => Ok(self.handed_over(token, answer)),
        }
    }

    /// Claims the next number if there is room, no producer waits, and the calling task is not
    /// cancelled.
    #[inline(always)]
    pub(crate) fn one_at_once(&self) -> Option<MultiClaim<'_, S>> {
        if is_cancelled() {
            return None;
        }
        let indexes = self.raw.claims.try_claim(Request { least: 1, most: 1 })?;
        Some(self.token(indexes))
    }

    #[track_caller]
    #[inline(always)]
    pub(crate) fn claim_by(
        &self,
        count: Count,
        until: Option<Instant>,
    ) -> Result<MultiClaim<'_, S>, WaitError> {
        let count = Request::capped(count, self.size());
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
        count: Request,
        until: Option<Instant>,
    ) -> Result<MultiClaim<'_, S>, WaitError> {
        let node = pin!(WaitNode::new(count.to_token(), Location::caller()));
        let mut claimed = None;
        let look = || {
            claimed = self.raw.claims.claim_at_once(count);
            if claimed.is_some() { Some(0) } else { self.is_closed().then_some(CLOSED) }
        };
        let answer = wait_at(&Room(&self.raw), node.as_ref(), until, None, look)?;
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

    /// Returns `true` if a number could be claimed now.
    #[must_use]
    pub fn any_available(&self) -> bool {
        self.raw.claims.has_room()
    }

    /// Returns the last number before the first unpublished one. The caller must know that all
    /// numbers up to `known` are published, as a reader does of the numbers that it has read. If
    /// nothing is published, the result is the number before the first one.
    ///
    /// Costs a load for each number after `known`.
    #[must_use]
    #[inline]
    pub fn last_published_after(&self, known: S) -> S {
        self.raw.published_from(known)
    }

    /// Returns the last number before the first unpublished one, for a caller without knowledge:
    /// looks at all slots.
    #[must_use]
    pub fn last_published(&self) -> S {
        let frontier = self.raw.frontier(self.raw.claims.next());
        self.raw.claims.number(frontier.wrapping_sub(1))
    }

    /// Returns `true` if a producer has given the number back, so that it has no item. A reader may
    /// ask this of a number that is published, until the reader publishes it as read.
    #[must_use]
    #[inline]
    pub fn is_skipped(&self, sequence: S) -> bool {
        self.raw.stamps.is_skipped(self.raw.index_after(sequence).wrapping_sub(1))
    }

    /// Returns `true` if no producer has given back a published number from `number` on. The caller
    /// has seen these numbers published.
    #[inline]
    pub(crate) fn has_no_skips_from(&self, number: S) -> bool {
        self.raw.stamps.has_no_skips_from(self.raw.index_after(number).wrapping_sub(1))
    }

    /// Waits until all numbers up to `target` are published, and returns the last one that is. The
    /// caller must know that all numbers up to `known` are published.
    ///
    /// Suspends unless they are published.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if they are not published and nothing more [will
    /// be](MultiProducerSequencer::is_finished); [`WaitError::Cancelled`] if the calling task is
    /// cancelled, even if they are published.
    ///
    /// # Panics
    /// As [`claim_one`](MultiProducerSequencer::claim_one).
    #[track_caller]
    #[inline]
    pub fn wait_until_published(&self, target: S, known: S) -> Result<S, WaitError> {
        wait_until(&Reads(&self.raw, known), target, None)
    }

    /// Does the same as [`wait_until_published`](MultiProducerSequencer::wait_until_published), but
    /// waits no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when the time is over, and the errors of `wait_until_published`.
    ///
    /// # Panics
    /// As [`claim_one`](MultiProducerSequencer::claim_one).
    #[track_caller]
    pub fn wait_timeout(&self, target: S, known: S, time: Duration) -> Result<S, WaitError> {
        wait_until(&Reads(&self.raw, known), target, after(time))
    }

    /// Does the same as [`wait_until_published`](MultiProducerSequencer::wait_until_published), but
    /// waits no longer than until `moment`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when the moment has come, and the errors of `wait_until_published`.
    ///
    /// # Panics
    /// As [`claim_one`](MultiProducerSequencer::claim_one).
    #[track_caller]
    pub fn wait_deadline(&self, target: S, known: S, moment: Instant) -> Result<S, WaitError> {
        wait_until(&Reads(&self.raw, known), target, Some(moment))
    }

    /// Does the same as [`wait_until_published`](MultiProducerSequencer::wait_until_published), as
    /// a future for any executor. The wait begins with the first poll.
    #[track_caller]
    pub fn wait_async(&self, target: S) -> impl Future<Output = Result<S, WaitError>> {
        let location = Location::caller();
        // Nothing before `target` has to be known: it is published when the wait has its answer.
        async move { wait_async(&Reads(&self.raw, target), target, location).await }
    }

    /// The sequencer for a reader that has read all numbers before `next`.
    #[inline(always)]
    pub(super) fn reads_from(&self, next: S) -> Reads<'_, S> {
        Reads(&self.raw, next.offset(-1))
    }

    /// Refuses every later claim, and ends the claims that wait for room. Claims in hand may still
    /// be published, and are read.
    ///
    /// Readers get [`Closed`](WaitError::Closed) when every claimed number is published or given
    /// back, and not before, so they miss none.
    ///
    /// Does not suspend.
    pub fn finish(&self) {
        self.raw.finish();
    }

    /// Does the same as [`finish`](MultiProducerSequencer::finish), and gives up the claims that
    /// were forgotten. The caller knows that no claim is in hand.
    pub(crate) fn finish_without_claims(&self) {
        self.raw.finish_without_claims();
    }

    /// Does the same as [`finish`](MultiProducerSequencer::finish), and closes the barriers with
    /// which the sequencer was created: waits for the progress of the readers end at once. Closing
    /// again has no effect.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.raw.close();
    }

    /// Returns `true` if later claims are refused: the sequencer is closed or finished, or a reader
    /// has ended. Costs a load.
    ///
    /// Claims in hand may still be published: see
    /// [`is_finished`](MultiProducerSequencer::is_finished).
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.raw.claims.is_ended()
    }

    /// Returns `true` if nothing more will be published: the sequencer is closed or finished, and
    /// every claimed number is published or given back.
    ///
    /// A polling reader calls this first, and then
    /// [`last_published_after`](MultiProducerSequencer::last_published_after): if this was `true`,
    /// that result is final. Looks at all slots at most.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.is_finished()
    }
}

claims! { MultiProducerSequencer, MultiClaim, () }
options! {
    MultiProducerSequencer:
    /// # Panics
    /// If the sequencer has been cloned, or numbers have been claimed.
}

debug! {
    impl<S: Sequence> MultiProducerSequencer<S> as this {
        size: this.size(),
        next: this.raw.claims.number(this.raw.claims.next()),
        last_published: this.last_published(),
        closed: this.is_closed(),
        waiting_for_room: this.raw.claims.waiters.lock().locations(),
        waiting_to_read: this.raw.stamps.reading.lock().waiters.locations(),
    }
}

/// Claimed numbers of a [`MultiProducerSequencer`]. A claim that is dropped [gives them
/// back](MultiProducerSequencer).
#[must_use = "a claim that is dropped is given back"]
pub struct MultiClaim<'a, S: Sequence = usize> {
    raw: &'a RawMulti<S>,
    indexes: Range<u64>,
}

impl<S: Sequence> MultiClaim<'_, S> {
    /// The claimed numbers.
    #[must_use]
    #[inline]
    pub fn range(&self) -> SequenceRange<S> {
        let len = self.indexes.end - self.indexes.start;
        SequenceRange::of_ring(self.raw.claims.number(self.indexes.start), len as usize)
    }

    /// Publishes all numbers of the claim.
    ///
    /// Returns `false` if it comes too late: a reader has ended, which has closed the sequencer.
    /// The other readers read the numbers all the same. Returns `true` after a
    /// [`close`](MultiProducerSequencer::close) or a [`finish`](MultiProducerSequencer::finish), as
    /// readers wait for the claims that were in hand then.
    ///
    /// Does not suspend. Costs a store for each number, and a load to see what readers wait for. If
    /// they wait for one of these numbers, it costs a lock acquisition too, and a wake-up for each
    /// reader that has got its number.
    #[inline]
    pub fn publish(mut self) -> bool {
        let indexes = std::mem::take(&mut self.indexes);
        self.raw.publish(indexes)
    }

    /// Publishes the first `count` numbers and gives back the rest. Returns the same as
    /// [`publish`](MultiClaim::publish).
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

unwind_safe! { impl<S: Sequence> MultiClaim<'_, S> }
