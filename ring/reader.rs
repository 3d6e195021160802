use super::batch::{Batch, BatchMut};
use super::items::Items;
use crate::ring::sequence::{SequenceBarrier, SequenceRange, Source};
use crate::runtime::is_cancelled;
use crate::shim::time::{Duration, Instant};
use crate::shim::{Arc, spin_loop};
use crate::sync::{TryRecvError, WaitError, after};

/// From this number of items per look on, the cost of a look does not matter.
const MANY: u64 = 32;
/// The longest pause before a look, in turns: a microsecond.
const LONGEST: u64 = 64;

/// The position of a reader.
pub(super) struct Cursor<T> {
    pub(super) items: Arc<Items<T>>,
    source: Source,
    /// The last number that the reader has given back, for the next stage or the producers.
    position: SequenceBarrier<u64>,
    /// The first number that the reader has not given back.
    next: u64,
    /// The first number that is not known to be readable.
    end: u64,
    /// The count of readable numbers at the last look.
    found: u64,
    /// The reader was told of the end, and has passed that on to the next stage: it reads nothing
    /// more.
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

    /// Waits until there is something to read, and returns at most `most` numbers.
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

    /// Looks how far the reader can read.
    #[inline(always)]
    fn look(&mut self) {
        if !self.ended {
            self.end = self.source.last(self.next).wrapping_add(1);
            self.found = self.end.wrapping_sub(self.next);
        }
    }

    /// Pauses before a look if the last look found a few items, as more are being written right
    /// now.
    ///
    /// A reader that looks again at once takes cache lines away from the producers for every few
    /// items, also the lines that are written next, because the processor prefetches them; each
    /// item then takes ten times as long. The pause grows with the number of items found, and there
    /// is none where single items arrive now and then. It also helps a reader that would park at
    /// once: without it, a message through a ring of four producers took three times as long (105
    /// ns instead of 32), because the reader parked after every few items.
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
        // A cancelled reader has read nothing: it forgets the numbers that it has seen.
        self.end = self.next;
        if self.ended && !is_cancelled() {
            return Err(WaitError::Closed);
        }
        let waited = self.source.wait_until(self.next, until);
        // A wait in a blocking call is not refused when its task is cancelled. It may find numbers
        // that a single producer has published while this reader was told of the end.
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
        let last = waited.inspect_err(|why| {
            if *why == WaitError::Closed {
                self.ended = true;
                self.position.finish();
            }
        })?;
        self.end = last.wrapping_add(1);
        self.found = self.end.wrapping_sub(self.next);
        Ok(())
    }

    #[inline(always)]
    fn known(&self, most: usize) -> SequenceRange<u64> {
        let len = self.end.wrapping_sub(self.next) as usize;
        SequenceRange::of_ring(self.next, len.min(most.max(1)))
    }

    /// Returns what can be read without waiting.
    #[inline(always)]
    fn try_wait(&mut self, most: usize) -> Result<SequenceRange<u64>, TryRecvError> {
        if self.next == self.end {
            self.look();
        }
        if self.next == self.end {
            self.try_for_more()?;
        }
        Ok(self.known(most))
    }

    /// Looks again after a look that found nothing: there are new numbers, none yet, or it is the
    /// end.
    #[inline(never)]
    fn try_for_more(&mut self) -> Result<(), TryRecvError> {
        if self.ended {
            return Err(TryRecvError::Closed);
        }
        let answer = self.source.try_until(self.next).ok_or(TryRecvError::Empty)?;
        self.learn(answer).map_err(|_| TryRecvError::Closed)
    }

    /// Gives back numbers that were read.
    #[inline(always)]
    pub(super) fn give_back(&mut self, numbers: SequenceRange<u64>) {
        debug_assert!(numbers.start() == self.next, "batches are given back in order");
        self.next = numbers.end();
        self.position.publish(self.next.wrapping_sub(1));
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        self.position.finish();
    }
}

/// The only reader of a stage, which may change items: later stages see the changes. Created by
/// [`RingBuilder::stage`](super::RingBuilder::stage).
///
/// Dropping it before the end ends the ring: see [the module](super#the-end).
pub struct Stage<T> {
    pub(super) cursor: Cursor<T>,
}

/// One of several readers of a stage, each of which sees every item. Created by
/// [`RingBuilder::readers`](super::RingBuilder::readers).
///
/// Dropping it before the end ends the ring: see [the module](super#the-end).
pub struct Reader<T> {
    pub(super) cursor: Cursor<T>,
}

macro_rules! reads {
    ($name:ident, $batch:ident) => {
        impl<T> $name<T> {
            /// Takes everything that the reader knows to be readable, waiting until there is
            /// something.
            ///
            /// A batch has at least one number, and usually an item for each number. A number that
            /// a producer has given back, or has published without an item, has no item, and a
            /// batch of such numbers alone is empty.
            ///
            /// A reader looks for more only when it has read everything that it found at its last
            /// look. After a batch of [limited size](Self::next_batch_up_to), the next batch is
            /// therefore the rest of what that look found; numbers published since come with the
            /// batch after it.
            ///
            /// Suspends unless there is something to read. Otherwise it costs one load per reader
            /// of the stage before. In the first stage it costs one load with a single producer,
            /// and one per item with several.
            ///
            /// # Errors
            /// [`WaitError::Closed`] after the last item, from then on; [`WaitError::Cancelled`] if
            /// the calling task is cancelled, even if there is something to read.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's
            /// thread between tasks.
            // Inlined: the result is written and read back in parts of different sizes, which
            // stalls the processor.
            #[track_caller]
            #[inline(always)]
            pub fn next_batch(&mut self) -> Result<$batch<'_, T>, WaitError> {
                self.next_batch_up_to(usize::MAX)
            }

            /// Takes at most `most` numbers (at least one), like [`next_batch`](Self::next_batch)
            /// otherwise.
            ///
            /// # Errors
            /// As [`next_batch`](Self::next_batch).
            ///
            /// # Panics
            /// As [`next_batch`](Self::next_batch).
            #[track_caller]
            #[inline(always)]
            pub fn next_batch_up_to(&mut self, most: usize) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait(most, None)?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// Does the same as [`next_batch`](Self::next_batch), but waits no longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the time is over, and the errors of `next_batch`.
            ///
            /// # Panics
            /// As [`next_batch`](Self::next_batch).
            #[track_caller]
            pub fn next_batch_timeout(
                &mut self,
                time: Duration,
            ) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait(usize::MAX, after(time))?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// Does the same as [`next_batch`](Self::next_batch), as a future for any executor. A
            /// future that is dropped has read nothing.
            ///
            /// # Errors
            /// [`WaitError::Closed`].
            pub async fn next_batch_async(&mut self) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait_async(usize::MAX).await?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// Takes what is readable without waiting, even in a cancelled task.
            ///
            /// Does not suspend.
            ///
            /// # Errors
            /// [`TryRecvError::Empty`] if there is nothing to read now; [`TryRecvError::Closed`]
            /// after the last item.
            #[inline(always)]
            pub fn try_next_batch(&mut self) -> Result<$batch<'_, T>, TryRecvError> {
                let numbers = self.cursor.try_wait(usize::MAX)?;
                Ok($batch::new(&mut self.cursor, numbers))
            }
        }

        debug! { impl<T> $name<T> as this { next: this.cursor.next, known: this.cursor.end, .. } }
    };
}

reads! { Stage, BatchMut }
reads! { Reader, Batch }

impl<T: Default> Stage<T> {
    /// Waits for the next item and takes it out of the ring, leaving a default item in its place.
    ///
    /// Suspends unless there is an item.
    ///
    /// # Errors
    /// As [`next_batch`](Stage::next_batch).
    ///
    /// # Panics
    /// As [`next_batch`](Stage::next_batch).
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, WaitError> {
        loop {
            if let Some(item) = self.next_batch_up_to(1)?.iter_mut().next() {
                return Ok(std::mem::take(item));
            }
        }
    }
}

impl<T: Clone> Reader<T> {
    /// Waits for the next item and clones it.
    ///
    /// Suspends unless there is an item.
    ///
    /// # Errors
    /// As [`next_batch`](Reader::next_batch).
    ///
    /// # Panics
    /// As [`next_batch`](Reader::next_batch).
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, WaitError> {
        loop {
            if let Some(item) = self.next_batch_up_to(1)?.iter().next() {
                return Ok(item.clone());
            }
        }
    }
}
