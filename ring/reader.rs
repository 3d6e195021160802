use super::batch::{Batch, BatchMut};
use super::cursor::Cursor;
use crate::ring::sequence::{Count, WaitStrategy};
use crate::shim::time::{Duration, Instant};
use crate::sync::{TryRecvError, WaitError, after};

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
            /// Sets another [`WaitStrategy`] than that of the ring, for the waits of this reader
            /// alone. Waits as futures park.
            ///
            /// Does not suspend. What a publish costs depends on the strategy of the ring, and not
            /// on those of its readers: if the ring's waiters do not [park](WaitStrategy::Park) at
            /// once, publishing is cheaper, and it is a wait that parks which pays for that.
            ///
            /// ```
            /// use cygnet::ring::sequence::WaitStrategy;
            ///
            /// let mut ring = cygnet::ring::single_producer(8, u32::default);
            /// let mut hot = ring.stage().with_strategy(WaitStrategy::Spin);
            /// let mut log = ring.stage().with_strategy(WaitStrategy::Park);
            /// let mut producer = ring.producer();
            /// producer.send(1).unwrap();
            /// assert_eq!(hot.next_batch(..).unwrap().len(), 1);
            /// assert_eq!(log.recv(), Ok(1));
            /// ```
            #[must_use]
            pub fn with_strategy(mut self, strategy: WaitStrategy) -> Self {
                self.cursor.strategy = strategy;
                self
            }

            /// Takes the next items as a batch, waiting until there are enough: `..` takes
            /// everything that the reader knows to be readable, at least one, `8` takes exactly 8,
            /// and `..=8` up to 8 (see [`Count`]).
            ///
            /// A count of more than the whole ring stands for the whole ring, and 0 for 1. If fewer
            /// than enough are left at the [end](super#the-end), the batch has all that are left.
            /// (If the end comes from the drop of another reader, more may follow.)
            ///
            /// The count is one of numbers. A batch usually has an item for each number. A number
            /// that a producer has given back, or has published without an item, has no item, and a
            /// batch of such numbers alone is empty.
            ///
            /// A reader looks for more only when what it found at its last look is not enough.
            /// After a batch of limited size, the next batch of `..` is therefore the rest of what
            /// that look found; numbers published since come with the batch after it.
            ///
            /// A reader that waits for several items leaves those that are there unread, and a
            /// producer that waits for several leaves room unused. They never wait for each other
            /// if the ring is large enough: add the largest count that a producer waits for and,
            /// for each stage, the largest that one of its readers waits for. The sum must not
            /// exceed the size of the ring, and no producer may have a batch in hand while it waits.
            ///
            /// Suspends unless there is enough to read. Otherwise it costs one load per reader of
            /// the stage before. In the first stage it costs one load with a single producer, and
            /// one per item with several. While a reader of the first stage is parked for several
            /// items, each item that comes costs one of several producers a lock acquisition, and a
            /// [`membarrier`](crate#platforms) unless the ring's strategy is to park.
            ///
            /// # Errors
            /// [`WaitError::Closed`] after the last item, from then on; [`WaitError::Cancelled`] if
            /// the calling task is cancelled, even if there is enough to read.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's
            /// thread between tasks. If the count is an empty range.
            // Inlined: the result is written and read back in parts of different sizes, which
            // stalls the processor.
            #[track_caller]
            #[inline(always)]
            pub fn next_batch(
                &mut self,
                count: impl Into<Count>,
            ) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait(count.into(), None)?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// Does the same as [`next_batch`](Self::next_batch), but waits no longer than `time`.
            /// When the time is over it takes nothing, even if there are some items.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the time is over, and the errors of `next_batch`.
            ///
            /// # Panics
            /// As [`next_batch`](Self::next_batch).
            #[track_caller]
            pub fn next_batch_timeout(
                &mut self,
                count: impl Into<Count>,
                time: Duration,
            ) -> Result<$batch<'_, T>, WaitError> {
                self.next_batch_by(count, after(time))
            }

            /// Does the same as [`next_batch_timeout`](Self::next_batch_timeout), but waits no
            /// longer than until `moment`.
            ///
            /// ```
            /// use cygnet::sync::WaitError;
            /// use std::time::{Duration, Instant};
            ///
            /// let mut ring = cygnet::ring::single_producer(8, u32::default);
            /// let (mut stage, mut producer) = (ring.stage(), ring.producer());
            /// (0..6).for_each(|item| producer.send(item).unwrap());
            ///
            /// // Four at a time, and what has come when the time is over.
            /// let end = Instant::now() + Duration::from_millis(2);
            /// assert_eq!(stage.next_batch_deadline(4, end).unwrap().len(), 4);
            /// assert_eq!(stage.next_batch_deadline(4, end).unwrap_err(), WaitError::TimedOut);
            /// assert_eq!(stage.try_next_batch(..).unwrap().len(), 2);
            /// ```
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the moment has come, and the errors of `next_batch`.
            ///
            /// # Panics
            /// As [`next_batch`](Self::next_batch).
            #[track_caller]
            pub fn next_batch_deadline(
                &mut self,
                count: impl Into<Count>,
                moment: Instant,
            ) -> Result<$batch<'_, T>, WaitError> {
                self.next_batch_by(count, Some(moment))
            }

            #[track_caller]
            pub(super) fn next_batch_by(
                &mut self,
                count: impl Into<Count>,
                until: Option<Instant>,
            ) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait(count.into(), until)?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// Does the same as [`next_batch`](Self::next_batch), as a future for any executor. A
            /// future that is dropped has read nothing.
            ///
            /// # Errors
            /// [`WaitError::Closed`].
            ///
            /// # Panics
            /// If the count is an empty range, when it is polled.
            pub async fn next_batch_async(
                &mut self,
                count: impl Into<Count>,
            ) -> Result<$batch<'_, T>, WaitError> {
                let numbers = self.cursor.wait_async(count.into()).await?;
                Ok($batch::new(&mut self.cursor, numbers))
            }

            /// Does the same as [`next_batch`](Self::next_batch) if there is enough to read now,
            /// even in a cancelled task.
            ///
            /// Does not suspend.
            ///
            /// # Errors
            /// [`TryRecvError::Empty`] if there is not enough to read now; [`TryRecvError::Closed`]
            /// after the last item.
            ///
            /// # Panics
            /// If the count is an empty range.
            #[inline(always)]
            pub fn try_next_batch(
                &mut self,
                count: impl Into<Count>,
            ) -> Result<$batch<'_, T>, TryRecvError> {
                let numbers = self.cursor.try_wait(count.into())?;
                Ok($batch::new(&mut self.cursor, numbers))
            }
        }

        debug! { impl<T> $name<T> as this { next: this.cursor.next, known: this.cursor.end, .. } }
    };
}

reads! { Stage, BatchMut }
reads! { Reader, Batch }
