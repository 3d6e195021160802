use super::cursor::Cursor;
use super::items::Items;
use super::producer::{Last, MultiProducer, Producer};
use super::producers::{Many, One};
use super::reader::{Reader, Stage};
use crate::ring::sequence::{
    MultiProducerSequencer, SequenceBarrier, SequenceBarrierGroup, SingleProducerSequencer, Source,
    WaitStrategy, assert_size,
};
use crate::shim::Arc;
use std::marker::PhantomData;

/// A builder of a ring: first its stages, in order, and then its producer.
pub struct RingBuilder<T, P> {
    items: Arc<Items<T>>,
    /// The source of the next stage.
    source: Source,
    strategy: WaitStrategy,
    /// The readers of the stages before the last one.
    before: Vec<SequenceBarrier<u64>>,
    /// The readers of the last stage.
    last: Vec<SequenceBarrier<u64>>,
    /// With a single producer, what it publishes.
    written: Option<SequenceBarrier<u64>>,
    _producers: PhantomData<fn() -> P>,
}

/// A ring for a single producer, with `size` items created by `make`. Waiters [spin, and then
/// park](WaitStrategy::SpinThenPark).
///
/// # Panics
/// If the size is not a power of two, or larger than 2^30.
#[must_use]
#[track_caller]
pub fn single_producer<T: Send>(size: usize, make: impl FnMut() -> T) -> RingBuilder<T, One> {
    single_producer_with(size, WaitStrategy::default(), make)
}

/// A ring for a single producer, with another [`WaitStrategy`] than [`single_producer`]. A reader
/// may have [one of its own](Stage::with_strategy).
///
/// # Panics
/// As [`single_producer`].
#[must_use]
#[track_caller]
pub fn single_producer_with<T: Send>(
    size: usize,
    strategy: WaitStrategy,
    make: impl FnMut() -> T,
) -> RingBuilder<T, One> {
    assert_size::<u64>(size);
    let written = SequenceBarrier::new().with_strategy(strategy);
    let published = SequenceBarrierGroup::new([written.clone()]).with_strategy(strategy);
    let items = Items::new(size, make, None);
    RingBuilder::new(items, Source::Barriers(published), strategy, Some(written))
}

/// A ring for several concurrent producers, with `size` items created by `make`. Waiters [spin, and
/// then park](WaitStrategy::SpinThenPark).
///
/// # Panics
/// As [`single_producer`].
#[must_use]
#[track_caller]
pub fn multi_producer<T: Send>(size: usize, make: impl FnMut() -> T) -> RingBuilder<T, Many> {
    multi_producer_with(size, WaitStrategy::default(), make)
}

/// A ring for several concurrent producers, with another [`WaitStrategy`] than [`multi_producer`].
/// A reader may have [one of its own](Stage::with_strategy).
///
/// # Panics
/// As [`single_producer`].
#[must_use]
#[track_caller]
pub fn multi_producer_with<T: Send>(
    size: usize,
    strategy: WaitStrategy,
    make: impl FnMut() -> T,
) -> RingBuilder<T, Many> {
    let sequencer = MultiProducerSequencer::without_readers(size, strategy);
    let items = Items::new(size, make, Some(sequencer.clone()));
    RingBuilder::new(items, Source::Stamps(sequencer), strategy, None)
}

impl<T: Send, P> RingBuilder<T, P> {
    fn new(
        items: Items<T>,
        source: Source,
        strategy: WaitStrategy,
        written: Option<SequenceBarrier<u64>>,
    ) -> RingBuilder<T, P> {
        let (before, last) = (Vec::new(), Vec::new());
        let items = Arc::new(items);
        RingBuilder { items, source, strategy, before, last, written, _producers: PhantomData }
    }

    /// Adds a stage of one reader, which may change the items.
    ///
    /// The reader waits with the ring's strategy, unless it is given [another
    /// one](Stage::with_strategy).
    pub fn stage(&mut self) -> Stage<T> {
        let [cursor] = self.array_of_cursors();
        Stage { cursor }
    }

    /// Adds a stage of `N` readers, each of which sees every item.
    ///
    /// The readers wait with the ring's strategy, unless they are given [another
    /// one](Reader::with_strategy).
    ///
    /// # Panics
    /// If `N` is zero.
    #[track_caller]
    pub fn readers<const N: usize>(&mut self) -> [Reader<T>; N]
    where
        T: Sync,
    {
        self.array_of_cursors().map(|cursor| Reader { cursor })
    }

    /// Adds a stage of `count` readers like [`readers`](RingBuilder::readers), in a `Vec`: for a
    /// count that is not known at compile time.
    ///
    /// ```
    /// let shards = 3;
    /// let mut ring = cygnet::ring::single_producer(8, u32::default);
    /// let readers = ring.readers_vec(shards);
    /// let mut producer = ring.producer();
    /// producer.send(7).unwrap();
    /// for mut reader in readers {
    ///     assert_eq!(reader.recv(), Ok(7));
    /// }
    /// ```
    ///
    /// # Panics
    /// If `count` is zero.
    #[track_caller]
    pub fn readers_vec(&mut self, count: usize) -> Vec<Reader<T>>
    where
        T: Sync,
    {
        self.cursors(count).into_iter().map(|cursor| Reader { cursor }).collect()
    }

    #[track_caller]
    fn array_of_cursors<const N: usize>(&mut self) -> [Cursor<T>; N] {
        let Ok(cursors) = self.cursors(N).try_into() else { unreachable!("there are N cursors") };
        cursors
    }

    #[track_caller]
    fn cursors(&mut self, count: usize) -> Vec<Cursor<T>> {
        assert!(count > 0, "cygnet: a stage needs at least one reader");
        let strategy = self.strategy;
        // First: a count that no memory has room for is a panic, after which the ring is as before.
        let last = (0..count).map(|_| SequenceBarrier::new().with_strategy(strategy)).collect();
        self.before.append(&mut self.last);
        self.last = last;
        let group = SequenceBarrierGroup::new(self.last.clone()).with_strategy(strategy);
        let source = std::mem::replace(&mut self.source, Source::Barriers(group));
        let cursor = |position: &SequenceBarrier<u64>| {
            Cursor::new(Arc::clone(&self.items), source.clone(), position.clone(), strategy)
        };
        self.last.iter().map(cursor).collect()
    }

    /// The positions of the readers of the last stage.
    #[track_caller]
    fn readers_of_last_stage(&mut self) -> SequenceBarrierGroup<u64> {
        assert!(!self.last.is_empty(), "cygnet: a ring needs at least one stage");
        SequenceBarrierGroup::new(std::mem::take(&mut self.last))
    }
}

impl<T: Send> RingBuilder<T, One> {
    /// Finishes the ring and returns its producer.
    ///
    /// # Panics
    /// If there is no stage.
    #[must_use]
    #[track_caller]
    pub fn producer(mut self) -> Producer<T> {
        let read = self.readers_of_last_stage();
        let written = self.written.take().expect("a builder makes one producer");
        let (size, before) = (self.items.size(), std::mem::take(&mut self.before));
        let sequencer = SingleProducerSequencer::with_written(written, &read, before, size);
        Producer { items: Arc::clone(&self.items), sequencer }
    }
}

impl<T: Send> RingBuilder<T, Many> {
    /// Finishes the ring and returns its first producer; clone it to get others.
    ///
    /// # Panics
    /// If there is no stage.
    #[must_use]
    #[track_caller]
    pub fn producer(mut self) -> MultiProducer<T> {
        let read = self.readers_of_last_stage();
        let sequencer =
            self.items.skips.as_ref().expect("several producers have a sequencer").clone();
        sequencer.set_readers(read, std::mem::take(&mut self.before));
        let (items, sequencer) = (Arc::clone(&self.items), Arc::new(Last(sequencer)));
        MultiProducer { items, sequencer }
    }
}

/// Ends the ring if it was dropped without a producer: nothing will ever be written.
impl<T, P> Drop for RingBuilder<T, P> {
    fn drop(&mut self) {
        let built = self.last.is_empty();
        match (&self.written, &self.items.skips) {
            (Some(written), _) => written.finish(),
            (None, Some(sequencer)) if !built => sequencer.finish(),
            _ => {}
        }
    }
}

debug! {
    impl<T, P> RingBuilder<T, P> as this { size: this.items.size(), strategy: this.strategy, .. }
}
