use super::arithmetic::{Sequence, SequenceRange};
use super::awaited::Options;
use super::barrier::SequenceBarrier;
use super::group::SequenceBarrierGroup;
use super::raw_barrier::Watcher;
use super::strategy::WaitStrategy;
use crate::runtime::is_cancelled;
use crate::shim::Arc;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::time::{Duration, Instant};
use crate::sync::WaitError;
use crate::sync::after;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Weak;

/// Hands the places of a ring out to one producer, and tells readers what it has published.
///
/// The producer [claims](SingleProducerSequencer::claim_one) numbers, writes the items of these, and [publishes](SingleClaim::publish) them. It waits
/// until those who read have left the places: they publish so in the barriers with which the sequencer was made. Who reads waits for the
/// [`published`](SingleProducerSequencer::published) numbers.
///
/// **Cancellation is total**: a claim that is cancelled, times out or is dropped as a future is as if it had never been made. So is one that is had,
/// and dropped before it is published, or forgotten: its numbers are the next ones that are claimed.
///
/// The producer is whoever has the sequencer, and has one claim at a time. That costs it no locked instruction. When it goes readers are told that
/// [no more](SequenceBarrier::finish) will be published.
///
/// **The end.** A claim borrows the sequencer, so the producer itself can neither close nor drop it with a claim in hand. Only others can: a reader that ends, or
/// whoever closes the [`published`](SingleProducerSequencer::published) numbers. Readers are told at once then, and a [publish](SingleClaim::publish) that comes after that is refused,
/// and says so. (With many producers, readers are told when the last claim has ended: see [`MultiProducerSequencer`](super::MultiProducerSequencer).)
///
/// ```
/// use cygnet::ring::sequence::{SequenceBarrier, SingleProducerSequencer};
///
/// let read = SequenceBarrier::<u64>::new();
/// let mut ring = SingleProducerSequencer::new(&read, 8);
/// let written = ring.published().clone();
///
/// let claim = ring.claim_up_to(3).unwrap();
/// assert_eq!(claim.range().into_iter().collect::<Vec<_>>(), [0, 1, 2]);
/// claim.publish();
/// drop(ring.claim_one().unwrap()); // changed its mind
/// assert_eq!(ring.claim_one().unwrap().range().start(), 3);
///
/// assert_eq!(written.wait_until_published(0), Ok(2));
/// read.publish(2); // their places are free
/// ```
pub struct SingleProducerSequencer<S: Sequence = usize> {
    written: SequenceBarrier<S>,
    published: SequenceBarrierGroup<S>,
    read: SequenceBarrierGroup<S>,
    size: usize,
    first: S,
    next: S,
    /// The last number for which somebody has seen room.
    room: S,
    _ends: Arc<Ends<S>>,
}

/// Closes the one side when the other is closed, or when one who reads has ended.
struct Ends<S: Sequence> {
    written: SequenceBarrier<S>,
    read: SequenceBarrierGroup<S>,
    /// Those who read before these: without one of them nothing comes to these any more.
    before: Vec<SequenceBarrier<S>>,
    /// They are being closed. Who closes one of them is told of it, too: once is enough, however many they are.
    over: AtomicBool,
    /// This one.
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
        ends.watched().for_each(|barrier| barrier.raw().watch(ends.watcher.clone()));
        // They may have ended before.
        ends.progress();
        ends
    }

    fn watched(&self) -> impl Iterator<Item = SequenceBarrier<S>> + '_ {
        self.barriers().chain(self.before.iter().cloned())
    }

    /// What ends together.
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
        // By each of several that end at once, before it goes on: the producer is refused from then on, whoever closes the others.
        self.written.close();
        if !self.over.swap(true, Ordering::Relaxed) {
            self.barriers().for_each(|barrier| barrier.close());
        }
    }
}

impl<S: Sequence> Drop for Ends<S> {
    fn drop(&mut self) {
        self.watched().for_each(|barrier| barrier.raw().forget(&self.watcher));
    }
}

/// # Panics
/// If that is no size for a ring.
#[track_caller]
pub(crate) fn assert_size<S: Sequence>(size: usize) {
    let largest = S::LARGEST_RING.min(1 << 30);
    assert!(
        size.is_power_of_two() && size <= largest,
        "cygnet: a ring of {} has a power of two of places, {largest} at most, and not {size}",
        std::any::type_name::<S>(),
    );
}

impl<S: Sequence> SingleProducerSequencer<S> {
    /// For a ring of so many places, whose items are read by those who publish in `read`. Its first number is the one after what is published
    /// there.
    ///
    /// # Panics
    /// If the size is not a power of two, or larger than the [largest](Sequence::LARGEST_RING), or than 2^30.
    #[must_use]
    #[track_caller]
    pub fn new(
        read: impl Into<SequenceBarrierGroup<S>>,
        size: usize,
    ) -> SingleProducerSequencer<S> {
        SingleProducerSequencer::with(read.into(), size, Options::default())
    }

    /// With another [`WaitStrategy`] for both sides.
    ///
    /// # Panics
    /// If it has been used.
    #[must_use]
    pub fn with_strategy(self, strategy: WaitStrategy) -> SingleProducerSequencer<S> {
        self.changed(|options| Options { strategy, ..options })
    }

    /// One that a wait or a claim which is cancelled or times out closes.
    ///
    /// # Panics
    /// As [`with_strategy`](SingleProducerSequencer::with_strategy).
    #[must_use]
    pub fn terminal(self) -> SingleProducerSequencer<S> {
        self.changed(|options| Options { terminal: true, ..options })
    }

    fn changed(self, options: impl FnOnce(Options) -> Options) -> SingleProducerSequencer<S> {
        assert!(
            self.published.is_unique() && self.next == self.first,
            "cygnet: options are set before a sequencer is used"
        );
        let options = options(self.read.options());
        SingleProducerSequencer::with(self.read.clone(), self.size, options)
    }

    #[track_caller]
    fn with(
        read: SequenceBarrierGroup<S>,
        size: usize,
        options: Options,
    ) -> SingleProducerSequencer<S> {
        assert_size::<S>(size);
        let written = SequenceBarrier::starting_after(read.last_published()).with_options(options);
        SingleProducerSequencer::publishing_in(written, &read, Vec::new(), size, options)
    }

    /// One that publishes in a barrier that others know already, with those who read before the readers that make room.
    pub(crate) fn with_written(
        written: SequenceBarrier<S>,
        read: &SequenceBarrierGroup<S>,
        before: Vec<SequenceBarrier<S>>,
        size: usize,
        strategy: WaitStrategy,
    ) -> SingleProducerSequencer<S> {
        let options = Options { strategy, ..Options::default() };
        SingleProducerSequencer::publishing_in(written, read, before, size, options)
    }

    fn publishing_in(
        written: SequenceBarrier<S>,
        read: &SequenceBarrierGroup<S>,
        before: Vec<SequenceBarrier<S>>,
        size: usize,
        options: Options,
    ) -> SingleProducerSequencer<S> {
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

    /// What has been published, to be waited for by those who read.
    #[must_use]
    pub fn published(&self) -> &SequenceBarrierGroup<S> {
        &self.published
    }

    /// How many places the ring has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The last number that is published.
    #[must_use]
    pub fn last_published(&self) -> S {
        self.written.last_published()
    }

    /// Claims the next number, when there is room for it.
    ///
    /// Suspends, unless there is. Costs some loads then.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if it is closed; [`WaitError::Cancelled`] if the calling task is cancelled, also if there is room.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
    #[track_caller]
    #[inline]
    pub fn claim_one(&mut self) -> Result<SingleClaim<'_, S>, WaitError> {
        self.claim(1, 1, None)
    }

    /// Claims as many as there is room for, but no more than `count`, when there is room for one. None at once, if that is 0.
    ///
    /// Suspends, and fails, as [`claim_one`](SingleProducerSequencer::claim_one).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    #[inline]
    pub fn claim_up_to(&mut self, count: usize) -> Result<SingleClaim<'_, S>, WaitError> {
        self.claim(1, count, None)
    }

    /// Claims so many, or all that the ring has if these are fewer, when there is room for all of them.
    ///
    /// Suspends, and fails, as [`claim_one`](SingleProducerSequencer::claim_one).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    #[inline]
    pub fn claim_exactly(&mut self, count: usize) -> Result<SingleClaim<'_, S>, WaitError> {
        self.claim(count, count, None)
    }

    /// As [`claim_up_to`](SingleProducerSequencer::claim_up_to), but no longer than `time`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] if the time is over, and those of `claim_one`.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn claim_timeout(
        &mut self,
        count: usize,
        time: Duration,
    ) -> Result<SingleClaim<'_, S>, WaitError> {
        self.claim(1, count, after(time))
    }

    /// As [`claim_up_to`](SingleProducerSequencer::claim_up_to), if that need not wait.
    #[must_use]
    pub fn try_claim(&mut self, count: usize) -> Option<SingleClaim<'_, S>> {
        let count = self.available(count, usize::from(count > 0))?;
        if self.is_closed() { None } else { Some(self.token(count)) }
    }

    /// As [`claim_up_to`](SingleProducerSequencer::claim_up_to), as a future for any executor. One that is dropped has claimed nothing.
    ///
    /// # Errors
    /// [`WaitError::Closed`].
    pub async fn claim_async(&mut self, count: usize) -> Result<SingleClaim<'_, S>, WaitError> {
        if !self.any_available() && count > 0 {
            let room = self.read.wait_async(self.must_be_read(1)).await;
            self.learn(room)?;
        }
        self.try_claim(count).ok_or(WaitError::Closed)
    }

    /// The next number, if there is known to be room for it, and nothing else to be done before.
    #[inline(always)]
    pub(crate) fn one_at_once(&mut self) -> Option<SingleClaim<'_, S>> {
        if self.room.precedes(self.next) || self.is_closed() || is_cancelled() {
            return None;
        }
        Some(self.token(1))
    }

    #[track_caller]
    #[inline(always)]
    fn claim(
        &mut self,
        least: usize,
        most: usize,
        until: Option<Instant>,
    ) -> Result<SingleClaim<'_, S>, WaitError> {
        let least = least.min(most).min(self.size);
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
        let room = self.read.wait_until(self.must_be_read(least), until);
        self.learn(room)?;
        if self.is_closed() {
            return Err(WaitError::Closed);
        }
        let count = self.available(most, least).expect("it has been waited for");
        Ok(self.token(count))
    }

    /// Who is refused finds it closed, though whoever has ended may not have come to that yet.
    fn learn(&self, room: Result<S, WaitError>) -> Result<(), WaitError> {
        if room == Err(WaitError::Closed) {
            self.close();
        }
        room.map(|_| ())
    }

    /// The last number that must have been read before so many can be claimed.
    fn must_be_read(&self, count: usize) -> S {
        self.next.offset(count.cast_signed() - 1 - self.size.cast_signed())
    }

    /// How many can be claimed at once, of those that are asked for; none if these are fewer than `least`.
    #[inline(always)]
    fn available(&mut self, most: usize, least: usize) -> Option<usize> {
        let mut room = self.room.difference(self.next) + 1;
        if room < most.cast_signed() {
            room = self.look_for_room();
        }
        let count = room.max(0).unsigned_abs().min(most);
        (count >= least).then_some(count)
    }

    /// How many can be claimed at once, in all.
    #[inline(never)]
    fn look_for_room(&mut self) -> isize {
        // No further than a ring's size: who reads may have published what was never claimed.
        let (read, last) = (self.read.last_published(), self.next.offset(-1));
        let read = if last.precedes(read) { last } else { read };
        self.room = read.offset(self.size.cast_signed());
        self.room.difference(self.next) + 1
    }

    /// Whether a number could be claimed at this moment.
    #[must_use]
    pub fn any_available(&self) -> bool {
        !self.read.last_published().precedes(self.must_be_read(1)) && !self.is_closed()
    }

    #[inline(always)]
    fn token(&mut self, count: usize) -> SingleClaim<'_, S> {
        let range = SequenceRange::of_ring(self.next, count);
        SingleClaim { sequencer: self, range }
    }

    /// Closes both sides: all waits and claims end, and later ones do not begin. What is published already is read as before. Twice is once.
    ///
    /// Does not suspend.
    pub fn close(&self) {
        self.written.close();
    }

    /// Whether it is closed, or one of those who read has ended. A load.
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

impl<S: Sequence> UnwindSafe for SingleProducerSequencer<S> {}
impl<S: Sequence> RefUnwindSafe for SingleProducerSequencer<S> {}

impl<S: Sequence> fmt::Debug for SingleProducerSequencer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleProducerSequencer")
            .field("size", &self.size)
            .field("next", &self.next)
            .field("published", &self.published)
            .field("read", &self.read)
            .finish()
    }
}

/// Numbers that have been claimed, from a [`SingleProducerSequencer`]. Dropped they are given back: see there.
#[must_use = "a claim that is dropped is given back"]
pub struct SingleClaim<'a, S: Sequence = usize> {
    sequencer: &'a mut SingleProducerSequencer<S>,
    range: SequenceRange<S>,
}

impl<S: Sequence> SingleClaim<'_, S> {
    /// The numbers.
    #[must_use]
    #[inline]
    pub fn range(&self) -> SequenceRange<S> {
        self.range
    }

    /// Publishes all of them.
    ///
    /// Returns `false`, and publishes nothing, if that comes too late: a reader has ended, or others have closed the
    /// [`published`](SingleProducerSequencer::published) numbers, and readers may have been told so. An end that comes at the same moment may be missed.
    ///
    /// Does not suspend. Costs as [`SequenceBarrier::publish`].
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

    /// Publishes the first so many, and gives back the others. Returns as [`publish`](SingleClaim::publish) does.
    pub fn publish_first(mut self, count: usize) -> bool {
        self.range = self.range.take(count);
        self.publish()
    }
}

impl<S: Sequence> fmt::Debug for SingleClaim<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SingleClaim").field(&self.range).finish()
    }
}
