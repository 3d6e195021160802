use super::arithmetic::{Sequence, SequenceRange};
use super::awaited::{Awaited, Options, wait_until};
use super::barrier::SequenceBarrier;
use super::common::{claims, options};
use super::count::Count;
use super::errors::TryClaimError;
use super::group::SequenceBarrierGroup;
use super::raw_barrier::Watcher;
use crate::runtime::is_cancelled;
use crate::shim::Arc;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::time::{Duration, Instant};
use crate::sync::{WaitError, after};
use std::sync::Weak;

/// Hands out the slots of a ring to one producer, and tells readers what it has published.
///
/// The producer [claims](SingleProducerSequencer::claim_one) numbers, writes their items, and
/// [publishes](SingleClaim::publish) them. It waits until the readers have left the slots, which
/// they announce by publishing in the barriers with which the sequencer was created. Readers wait
/// for the [`published`](SingleProducerSequencer::published) numbers.
///
/// **Cancellation is total**: a claim that is cancelled, times out or is dropped as a future has no
/// effect. Neither has a claim that is dropped or forgotten before it is published: its numbers are
/// the next ones to be claimed.
///
/// The owner of the sequencer is the producer, and has one claim at a time. Claiming and publishing
/// therefore need no locked instruction. Dropping the sequencer tells readers that [no
/// more](SequenceBarrier::finish) will be published.
///
/// **The end.** A claim borrows the sequencer, so the producer itself can neither close nor drop it
/// with a claim in hand. Only others can end it then: a reader that ends, or a close of the
/// [`published`](SingleProducerSequencer::published) numbers. Readers are told at once, and a later
/// [publish](SingleClaim::publish) is refused and returns `false`. (With several producers, readers
/// are told when the last claim has ended: see
/// [`MultiProducerSequencer`](super::MultiProducerSequencer).)
///
/// ```
/// use cygnet::ring::sequence::{SequenceBarrier, SingleProducerSequencer};
///
/// let read = SequenceBarrier::<u64>::new();
/// let mut ring = SingleProducerSequencer::new(&read, 8);
/// let written = ring.published().clone();
///
/// let claim = ring.claim(3).unwrap();
/// assert_eq!(claim.range().into_iter().collect::<Vec<_>>(), [0, 1, 2]);
/// claim.publish();
/// drop(ring.claim_one().unwrap()); // given back
/// assert_eq!(ring.claim_one().unwrap().range().start(), 3);
///
/// assert_eq!(written.wait_until_published(0), Ok(2));
/// read.publish(2); // their slots are free
/// ```
pub struct SingleProducerSequencer<S: Sequence = usize> {
    written: SequenceBarrier<S>,
    published: SequenceBarrierGroup<S>,
    read: SequenceBarrierGroup<S>,
    size: usize,
    first: S,
    next: S,
    /// The last number for which room has been seen.
    room: S,
    _ends: Arc<Ends<S>>,
}

/// Closes the readers and the producer together: when either side is closed, or a reader has ended.
struct Ends<S: Sequence> {
    written: SequenceBarrier<S>,
    read: SequenceBarrierGroup<S>,
    /// The readers of earlier stages. If one of them ends, nothing reaches the readers in `read`.
    before: Vec<SequenceBarrier<S>>,
    /// The barriers are being closed. Each of them calls this watcher when it closes, and closing
    /// all of them once is enough.
    over: AtomicBool,
    /// This watcher.
    watcher: Weak<dyn Watcher>,
}

impl<S: Sequence> Ends<S> {
    fn new(
        written: &SequenceBarrier<S>,
        read: &SequenceBarrierGroup<S>,
        before: Vec<SequenceBarrier<S>>,
    ) -> Arc<Ends<S>> {
        let ends = Arc::new_cyclic(|this: &Weak<Ends<S>>| Ends {
            written: written.clone(),
            read: read.clone(),
            before,
            over: AtomicBool::new(false),
            watcher: this.clone(),
        });
        let watched = ends.barriers().chain(ends.before.iter().cloned());
        watched.for_each(|barrier| barrier.raw().watch(ends.watcher.clone()));
        // The barriers may have ended before they were watched.
        ends.progress();
        ends
    }

    /// The barriers that end together.
    fn barriers(&self) -> impl Iterator<Item = SequenceBarrier<S>> + '_ {
        self.read.members().chain([self.written.clone()])
    }
}

impl<S: Sequence> Watcher for Ends<S> {
    fn progress(&self) {
        let mut readers = self.read.members().chain(self.before.iter().cloned());
        let over = self.written.is_closed() || readers.any(|reader| reader.is_finished());
        if !over {
            return;
        }
        // Every call of this watcher that finds an end closes `written` before it returns. So the
        // producer is refused from then on, whichever of several concurrent calls closes the rest.
        self.written.close();
        if !self.over.swap(true, Ordering::Relaxed) {
            self.barriers().for_each(|barrier| barrier.close());
        }
    }
}

/// # Panics
/// If `size` is not valid for a ring of `S`.
#[track_caller]
pub(crate) fn assert_size<S: Sequence>(size: usize) {
    let largest = S::LARGEST_RING.min(1 << 30);
    assert!(
        size.is_power_of_two() && size <= largest,
        "cygnet: the size of a ring of {} must be a power of two and at most {largest}, not {size}",
        std::any::type_name::<S>(),
    );
}

impl<S: Sequence> SingleProducerSequencer<S> {
    /// Creates a sequencer for a ring of `size` slots, the readers of which publish in `read`. Its
    /// first number is the one after the last number published there.
    ///
    /// # Panics
    /// If the size is not a power of two, or larger than the [largest](Sequence::LARGEST_RING), or
    /// than 2^30.
    #[must_use]
    #[track_caller]
    pub fn new(read: impl Into<SequenceBarrierGroup<S>>, size: usize) -> Self {
        SingleProducerSequencer::with(read.into(), size, Options::default())
    }

    #[track_caller]
    fn change_options(self, to: impl FnOnce(Options) -> Options) -> Self {
        assert!(
            self.published.is_unique() && self.next == self.first,
            "cygnet: set the options of a sequencer before it is used"
        );
        let options = to(self.read.raw().options);
        SingleProducerSequencer::with(self.read.clone(), self.size, options)
    }

    #[track_caller]
    fn with(read: SequenceBarrierGroup<S>, size: usize, options: Options) -> Self {
        assert_size::<S>(size);
        let written =
            SequenceBarrier::starting_after(read.last_published()).change_options(|_| options);
        SingleProducerSequencer::with_written(written, &read, Vec::new(), size)
    }

    /// Creates a sequencer that publishes in a barrier which others may already know, with the
    /// options of that barrier. `before` are the readers of the stages before those in `read`.
    pub(crate) fn with_written(
        written: SequenceBarrier<S>,
        read: &SequenceBarrierGroup<S>,
        before: Vec<SequenceBarrier<S>>,
        size: usize,
    ) -> SingleProducerSequencer<S> {
        let (options, _) = written.raw().manner();
        let read = SequenceBarrierGroup::with(read.members(), options);
        let last = written.last_published();
        let published = SequenceBarrierGroup::with([written.clone()], options);
        let ends = Ends::new(&written, &read, before);
        let room = last.offset(size.cast_signed());
        SingleProducerSequencer {
            written,
            published,
            read,
            size,
            first: last.next(),
            next: last.next(),
            room,
            _ends: ends,
        }
    }

    /// The group in which readers wait for published numbers.
    #[must_use]
    pub fn published(&self) -> &SequenceBarrierGroup<S> {
        &self.published
    }

    /// The number of slots of the ring.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The last published number.
    #[must_use]
    pub fn last_published(&self) -> S {
        self.written.last_published()
    }

    /// Claims the next numbers like [`claim`](SingleProducerSequencer::claim) if there is room now,
    /// even in a cancelled task.
    ///
    /// Does not suspend.
    ///
    /// # Errors
    /// [`TryClaimError::Full`] if there is not enough room now, [`TryClaimError::Closed`] if the
    /// sequencer is closed.
    ///
    /// # Panics
    /// If the count is an empty range.
    pub fn try_claim(
        &mut self,
        count: impl Into<Count>,
    ) -> Result<SingleClaim<'_, S>, TryClaimError> {
        let (least, most) = self.capped(count.into());
        let available = self.available(most, least);
        if self.is_closed() {
            return Err(TryClaimError::Closed);
        }
        available.map(|count| self.token(count)).ok_or(TryClaimError::Full)
    }

    /// Does the same as [`claim`](SingleProducerSequencer::claim), as a future for any executor. A
    /// future that is dropped has claimed nothing.
    ///
    /// # Errors
    /// [`WaitError::Closed`].
    ///
    /// # Panics
    /// If the count is an empty range.
    pub async fn claim_async(
        &mut self,
        count: impl Into<Count>,
    ) -> Result<SingleClaim<'_, S>, WaitError> {
        let count = count.into();
        let (least, most) = self.capped(count);
        if self.available(most, least).is_none() {
            let room = self.read.wait_async(self.must_be_read(least)).await;
            self.learn(room)?;
        }
        self.try_claim(count).map_err(|_| WaitError::Closed)
    }

    /// The least and the largest count of numbers to claim.
    #[inline(always)]
    fn capped(&self, count: Count) -> (usize, usize) {
        (count.least().min(self.size), count.most())
    }

    /// Claims the next number if room for it is already known, the sequencer is open, and the
    /// calling task is not cancelled.
    #[inline(always)]
    pub(crate) fn one_at_once(&mut self) -> Option<SingleClaim<'_, S>> {
        if self.room.precedes(self.next) || self.is_closed() || is_cancelled() {
            return None;
        }
        Some(self.token(1))
    }

    #[track_caller]
    #[inline(always)]
    pub(crate) fn claim_by(
        &mut self,
        count: Count,
        until: Option<Instant>,
    ) -> Result<SingleClaim<'_, S>, WaitError> {
        let (least, most) = self.capped(count);
        if let Some(count) = self.available(most, least)
            && !self.is_closed()
            && !is_cancelled()
        {
            return Ok(self.token(count));
        }
        self.wait_and_claim(least, most, until)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_and_claim(
        &mut self,
        least: usize,
        most: usize,
        until: Option<Instant>,
    ) -> Result<SingleClaim<'_, S>, WaitError> {
        let room = wait_until(self.read.raw(), self.must_be_read(least), until);
        self.learn(room)?;
        if self.is_closed() {
            return Err(WaitError::Closed);
        }
        let count = self.available(most, least).expect("the wait has made room");
        Ok(self.token(count))
    }

    /// Closes the sequencer if the wait for room was refused. The thread that has ended a reader
    /// may not have closed it yet, and a refused producer must find it closed.
    fn learn(&self, room: Result<S, WaitError>) -> Result<(), WaitError> {
        if room == Err(WaitError::Closed) {
            self.close();
        }
        room.map(|_| ())
    }

    /// The last number that must have been read before `count` numbers can be claimed.
    fn must_be_read(&self, count: usize) -> S {
        self.next.offset(count.cast_signed() - 1 - self.size.cast_signed())
    }

    /// Returns how many of `most` numbers can be claimed now, or `None` if that is fewer than
    /// `least`.
    #[inline(always)]
    fn available(&mut self, most: usize, least: usize) -> Option<usize> {
        let mut room = (self.room.difference(self.next) + 1).max(0).unsigned_abs();
        if room < most {
            room = self.look_for_room();
        }
        let count = room.min(most);
        (count >= least).then_some(count)
    }

    /// Loads the progress of the readers, and returns how many numbers can be claimed now.
    #[inline(never)]
    fn look_for_room(&mut self) -> usize {
        // Room ends a ring's size after `next`, even if readers have published numbers that were
        // never claimed.
        let (read, last) = (self.read.last_published(), self.next.offset(-1));
        let read = if last.precedes(read) { last } else { read };
        self.room = read.offset(self.size.cast_signed());
        (self.room.difference(self.next) + 1).max(0).unsigned_abs()
    }

    /// Returns `true` if a number could be claimed now.
    #[must_use]
    pub fn any_available(&self) -> bool {
        !self.read.last_published().precedes(self.must_be_read(1)) && !self.is_closed()
    }

    #[inline(always)]
    fn token(&mut self, count: usize) -> SingleClaim<'_, S> {
        let range = SequenceRange::of_ring(self.next, count);
        SingleClaim { sequencer: self, range }
    }

    /// Closes both sides: ends all waits and claims, and refuses later ones. Numbers that are
    /// already published are read as before. Closing again has no effect.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.written.close();
    }

    /// Returns `true` if the sequencer is closed, or a reader has ended. Costs a load.
    #[must_use]
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.written.is_closed()
    }
}

impl<S: Sequence> Drop for SingleProducerSequencer<S> {
    fn drop(&mut self) {
        self.written.finish();
    }
}

claims! { SingleProducerSequencer, SingleClaim, (mut) }
options! {
    SingleProducerSequencer:
    /// # Panics
    /// If something has been published, or the group of [`published`](Self::published) has been
    /// cloned.
}

debug! {
    impl<S: Sequence> SingleProducerSequencer<S> as this {
        size: this.size,
        next: this.next,
        published: this.published,
        read: this.read,
    }
}

/// Claimed numbers of a [`SingleProducerSequencer`]. A claim that is dropped gives them back.
#[must_use = "a claim that is dropped is given back"]
pub struct SingleClaim<'a, S: Sequence = usize> {
    sequencer: &'a mut SingleProducerSequencer<S>,
    range: SequenceRange<S>,
}

impl<S: Sequence> SingleClaim<'_, S> {
    /// The claimed numbers.
    #[must_use]
    #[inline]
    pub fn range(&self) -> SequenceRange<S> {
        self.range
    }

    /// Publishes all numbers of the claim.
    ///
    /// Returns `false`, and publishes nothing, if it comes too late: a reader has ended, or the
    /// [`published`](SingleProducerSequencer::published) numbers were closed, and readers may have
    /// been told. An end that comes at the same moment may be missed.
    ///
    /// Does not suspend. Costs as much as [`SequenceBarrier::publish`].
    #[inline]
    pub fn publish(self) -> bool {
        if self.sequencer.is_closed() {
            return false;
        }
        if let Some(last) = self.range.last() {
            self.sequencer.next = self.range.end();
            self.sequencer.written.publish(last);
        }
        true
    }

    /// Publishes the first `count` numbers and gives back the rest. Returns the same as
    /// [`publish`](SingleClaim::publish).
    pub fn publish_first(mut self, count: usize) -> bool {
        self.range = self.range.take(count);
        self.publish()
    }
}
