use super::batch::{Batch, BatchMut};
use super::errors::TryNextError;
use super::items::Items;
use crate::ring::sequence::{
    MultiProducerSequencer, SequenceBarrier, SequenceBarrierGroup, SequenceRange,
};
use crate::runtime::is_cancelled;
use crate::shim::time::{Duration, Instant};
use crate::shim::{Arc, spin_loop};
use crate::sync::{WaitError, after};
use std::fmt;

/// With so many at once it does not matter what a look costs.
const MANY: u64 = 32;
/// Turns, at the most, that are left to who writes: a microsecond.
const LONGEST: u64 = 64;

/// What a stage waits for.
#[derive(Clone)]
pub(super) enum Source {
    /// The one producer, or the stage before.
    Barriers(SequenceBarrierGroup<u64>),
    /// Many producers.
    Stamps(MultiProducerSequencer<u64>),
}

impl Source {
    #[track_caller]
    #[inline]
    fn wait_until(&self, next: u64, until: Option<Instant>) -> Result<u64, WaitError> {
        match self {
            Source::Barriers(group) => group.wait_until(next, until),
            Source::Stamps(sequencer) => sequencer.wait_until(next, next.wrapping_sub(1), until),
        }
    }

    async fn wait_async(&self, next: u64) -> Result<u64, WaitError> {
        match self {
            Source::Barriers(group) => group.wait_async(next).await,
            Source::Stamps(sequencer) => sequencer.wait_async(next).await,
        }
    }

    /// What a wait would come to at this moment, if it is decided.
    fn try_until(&self, next: u64) -> Option<Result<u64, WaitError>> {
        match self {
            Source::Barriers(group) => group.try_until(next),
            Source::Stamps(sequencer) => sequencer.try_until(next, next.wrapping_sub(1)),
        }
    }

    /// The last number that can be read.
    #[inline(always)]
    fn last(&self, next: u64) -> u64 {
        match self {
            Source::Barriers(group) => group.last_published(),
            Source::Stamps(sequencer) => sequencer.last_published_after(next.wrapping_sub(1)),
        }
    }
}

/// Where one who reads is.
pub(super) struct Cursor<T> {
    pub(super) items: Arc<Items<T>>,
    source: Source,
    /// What it has given back, for those who come after it.
    position: SequenceBarrier<u64>,
    /// The first number that it has not given back.
    next: u64,
    /// The first one of which it does not know that it can be read.
    end: u64,
    /// How many there were when it looked last.
    found: u64,
    /// It was told of the end, and has passed that on to those who come after it: nothing is read any more.
    ended: bool,
}

impl<T> Cursor<T> {
    pub(super) fn new(
        items: Arc<Items<T>>,
        source: Source,
        position: SequenceBarrier<u64>,
    ) -> Cursor<T> {
        Cursor { items, source, position, next: 0, end: 0, found: 0, ended: false }
    }

    /// Waits until there is something to read: up to so many numbers.
    #[track_caller]
    #[inline(always)]
    fn wait(
        &mut self,
        most: usize,
        until: Option<Instant>,
    ) -> Result<SequenceRange<u64>, WaitError> {
        if self.next == self.end {
            self.let_them_write();
            self.look();
        }
        if self.next == self.end || is_cancelled() {
            self.wait_for_more(until)?;
        }
        Ok(self.known(most))
    }

    /// Looks how far it can read.
    #[inline(always)]
    fn look(&mut self) {
        if !self.ended {
            self.end = self.source.last(self.next).wrapping_add(1);
            self.found = self.end.wrapping_sub(self.next);
        }
    }

    /// Some came at the last look, but not many: more are being written at this moment. Who then looks again at once takes the cache lines away from who
    /// writes, for each few items, also those that are written next, which the processor fetches ahead: each item takes ten times as long. So it
    /// waits, longer the more came: where one comes now and then, not at all. It does so also where it would park at once: with four producers a message
    /// took three times as long without (105 ns and 32), as it parked for each few items.
    #[inline(always)]
    fn let_them_write(&self) {
        if self.found.wrapping_sub(2) < MANY - 2 {
            (0..(self.found * 2).min(LONGEST)).for_each(|_| spin_loop());
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_for_more(&mut self, until: Option<Instant>) -> Result<(), WaitError> {
        // What a cancelled one has seen it has not read.
        self.end = self.next;
        if self.ended && !is_cancelled() {
            return Err(WaitError::Closed);
        }
        let waited = self.source.wait_until(self.next, until);
        // A blocking call of a cancelled task is not turned away, and may find what a single writer published while this one was told of the end.
        self.learn(if self.ended { waited.and(Err(WaitError::Closed)) } else { waited })
    }

    async fn wait_async(&mut self, most: usize) -> Result<SequenceRange<u64>, WaitError> {
        if self.ended {
            return Err(WaitError::Closed);
        }
        if self.next == self.end {
            let waited = self.source.wait_async(self.next).await;
            self.learn(waited)?;
        }
        Ok(self.known(most))
    }

    #[inline(always)]
    fn learn(&mut self, waited: Result<u64, WaitError>) -> Result<(), WaitError> {
        match waited {
            Ok(last) => {
                self.end = last.wrapping_add(1);
                self.found = self.end.wrapping_sub(self.next);
            }
            Err(why) => {
                if why == WaitError::Closed {
                    self.ended = true;
                    // Nor does anything come for those after it.
                    self.position.finish();
                }
                return Err(why);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn known(&self, most: usize) -> SequenceRange<u64> {
        let len = self.end.wrapping_sub(self.next) as usize;
        SequenceRange::of_ring(self.next, len.min(most.max(1)))
    }

    /// What there is without a wait.
    #[inline(always)]
    fn try_wait(&mut self, most: usize) -> Result<SequenceRange<u64>, TryNextError> {
        if self.next == self.end {
            self.look();
        }
        if self.next == self.end {
            self.try_for_more()?;
        }
        Ok(self.known(most))
    }

    /// Nothing was there: now there is something, or nothing yet, or it is the end.
    #[inline(never)]
    fn try_for_more(&mut self) -> Result<(), TryNextError> {
        if self.ended {
            return Err(TryNextError::Closed);
        }
        let answer = self.source.try_until(self.next).ok_or(TryNextError::Empty)?;
        self.learn(answer).map_err(|_| TryNextError::Closed)
    }

    /// Gives back what was read.
    #[inline(always)]
    pub(super) fn give_back(&mut self, numbers: SequenceRange<u64>) {
        debug_assert!(numbers.start() == self.next, "in order");
        self.next = numbers.end();
        self.position.publish(self.next.wrapping_sub(1));
    }

    /// Waits for one item, passes over those that were given up, and gives it back when `f` has had it.
    #[track_caller]
    fn with_next<R>(
        &mut self,
        until: Option<Instant>,
        f: impl FnOnce(*mut T) -> R,
    ) -> Result<R, WaitError> {
        loop {
            let number = self.wait(1, until)?;
            if let Some(item) = self.items.item(number.start()) {
                let result = f(item);
                self.give_back(number);
                return Ok(result);
            }
            self.give_back(number);
        }
    }

    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("next", &self.next)
            .field("known", &self.end)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        self.position.finish();
    }
}

/// The one reader of a stage, which may change what it reads: the stages after it see that. From [`RingBuilder::stage`](super::RingBuilder::stage).
///
/// One that is dropped before the end ends the ring: see [the module](super#the-end).
pub struct Stage<T> {
    cursor: Cursor<T>,
}

/// One of several readers of a stage, each of which sees all items. From [`RingBuilder::readers`](super::RingBuilder::readers).
///
/// One that is dropped before the end ends the ring: see [the module](super#the-end).
pub struct Reader<T> {
    cursor: Cursor<T>,
}

macro_rules! reads {
    ($name:ident, $batch:ident) => {
        impl<T> $name<T> {
            pub(super) fn new(cursor: Cursor<T>) -> $name<T> {
                $name { cursor }
            }

            /// Waits until there is something to read, and takes all that it knows of. That is one number at least, and mostly as many items as
            /// numbers; but a number that a producer has given back, or has published without an item, has none, and a batch of such numbers alone
            /// is empty.
            ///
            /// A reader looks how far it can read when it has read what it found at the last look. So a batch may be shorter than what is there: when a batch of
            /// [a part](Self::next_batch_up_to) came before it, this is the rest of what was found then, and what was published since comes with the next one.
            ///
            /// Suspends, unless there is. Costs a load for each who comes before then, or one for each item, with many producers.
            ///
            /// # Errors
            /// [`WaitError::Closed`] after the last one: nothing comes any more, and it is the answer from then on; [`WaitError::Cancelled`] if the calling task is cancelled, also if there is something.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
            // Inlined: what it returns is written and read again in parts of different sizes, at which processors stall.
            #[track_caller]
            #[inline(always)]
            pub fn next_batch(&mut self) -> Result<$batch<'_, T>, WaitError> {
                self.next_batch_up_to(usize::MAX)
            }

            /// The same, but no more than `most` numbers at once; one at least.
            ///
            /// # Errors
            /// As [`next_batch`](Self::next_batch).
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            #[inline(always)]
            pub fn next_batch_up_to(&mut self, most: usize) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait(most, None)?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// As [`next_batch`](Self::next_batch), but waits no longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] if the time is over, and those of `next_batch`.
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            pub fn next_batch_timeout(
                &mut self,
                time: Duration,
            ) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait(usize::MAX, after(time))?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// As [`next_batch`](Self::next_batch), as a future for any executor. One that is dropped has read nothing.
            ///
            /// # Errors
            /// [`WaitError::Closed`].
            pub async fn next_batch_async(&mut self) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait_async(usize::MAX).await?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// As [`next_batch`](Self::next_batch), if that need not wait. Also in a task that is cancelled.
            ///
            /// Does not suspend.
            ///
            /// # Errors
            /// [`TryNextError::Empty`] if there is nothing at this moment; [`TryNextError::Closed`] after the last one.
            #[inline(always)]
            pub fn try_next_batch(&mut self) -> Result<$batch<'_, T>, TryNextError> {
                let numbers = self.cursor.try_wait(usize::MAX)?;
                Ok($batch::new(&mut self.cursor, numbers))
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.cursor.debug(stringify!($name), f)
            }
        }
    };
}

reads! { Stage, BatchMut }
reads! { Reader, Batch }

impl<T: Default> Stage<T> {
    /// Waits for the next item, and takes it out of the ring, where a default one takes its place.
    ///
    /// Suspends, unless there is one.
    ///
    /// # Errors
    /// As [`next_batch`](Stage::next_batch).
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, WaitError> {
        // SAFETY: the item is this one's until it is given back, and nobody else's.
        self.cursor.with_next(None, |item| std::mem::take(unsafe { &mut *item }))
    }
}

impl<T: Clone> Reader<T> {
    /// Waits for the next item, and clones it.
    ///
    /// Suspends, unless there is one.
    ///
    /// # Errors
    /// As [`next_batch`](Reader::next_batch).
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, WaitError> {
        // SAFETY: until it is given back the item is shared with others who read.
        self.cursor.with_next(None, |item| unsafe { &*item }.clone())
    }
}
