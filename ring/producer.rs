use super::batch::{Claim, WriteBatch};
use super::items::Items;
use crate::ring::sequence::{MultiProducerSequencer, SingleProducerSequencer};
use crate::shim::Arc;
use crate::shim::time::Duration;
use crate::sync::{SendError, WaitError};
use std::fmt;

/// The one who writes a ring. From [`RingBuilder::producer`](super::RingBuilder). When it goes the readers are told of the end.
pub struct Producer<T> {
    items: Arc<Items<T>>,
    sequencer: SingleProducerSequencer<u64>,
}

/// One of many who write a ring; clones are others. From [`RingBuilder::producer`](super::RingBuilder). When the last one goes the readers
/// are told of the end.
pub struct MultiProducer<T> {
    items: Arc<Items<T>>,
    sequencer: Arc<Last>,
}

/// The sequencer of all who write a ring.
struct Last(MultiProducerSequencer<u64>);

impl Drop for Last {
    fn drop(&mut self) {
        // A batch borrows a producer, and this was the last one.
        self.0.finish_without_claims();
    }
}

impl<T> Producer<T> {
    pub(super) fn new(
        items: Arc<Items<T>>,
        sequencer: SingleProducerSequencer<u64>,
    ) -> Producer<T> {
        Producer { items, sequencer }
    }
}

impl<T> MultiProducer<T> {
    pub(super) fn new(
        items: Arc<Items<T>>,
        sequencer: MultiProducerSequencer<u64>,
    ) -> MultiProducer<T> {
        MultiProducer { items, sequencer: Arc::new(Last(sequencer)) }
    }
}

macro_rules! produces {
    ($name:ident, $kind:ident, $self:ident, ($($mutability:tt)*), ($($path:tt)*)) => {
        impl<T> $name<T> {
            /// Claims as many items as there is room for, but no more than `count`, when there is room for one.
            ///
            /// Suspends, unless there is.
            ///
            /// # Errors
            /// [`WaitError::Closed`] if the ring is closed, or a reader has gone; [`WaitError::Cancelled`] if the calling task is cancelled, also if there
            /// is room.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks.
            #[track_caller]
            #[inline]
            pub fn claim(& $($mutability)* $self, count: usize) -> Result<WriteBatch<'_, T>, WaitError> {
                $self $($path)*.claim_up_to(count).map(|claim| batch(&$self.items, Claim::$kind(claim)))
            }

            /// Claims so many items, or all that the ring has if these are fewer, when there is room for all of them.
            ///
            /// # Errors
            /// As [`claim`](Self::claim).
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            #[inline]
            pub fn claim_exactly(& $($mutability)* $self, count: usize) -> Result<WriteBatch<'_, T>, WaitError> {
                $self $($path)*.claim_exactly(count).map(|claim| batch(&$self.items, Claim::$kind(claim)))
            }

            /// As [`claim`](Self::claim), but waits no longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] if the time is over, and those of `claim`.
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            pub fn claim_timeout(
                & $($mutability)* $self,
                count: usize,
                time: Duration,
            ) -> Result<WriteBatch<'_, T>, WaitError> {
                let claim = $self $($path)*.claim_timeout(count, time)?;
                Ok(batch(&$self.items, Claim::$kind(claim)))
            }

            /// As [`claim`](Self::claim), as a future for any executor. One that is dropped has claimed nothing.
            ///
            /// # Errors
            /// [`WaitError::Closed`].
            pub async fn claim_async(
                & $($mutability)* $self,
                count: usize,
            ) -> Result<WriteBatch<'_, T>, WaitError> {
                let claim = $self $($path)*.claim_async(count).await?;
                Ok(batch(&$self.items, Claim::$kind(claim)))
            }

            /// As [`claim`](Self::claim), if that need not wait.
            #[must_use]
            pub fn try_claim(& $($mutability)* $self, count: usize) -> Option<WriteBatch<'_, T>> {
                $self $($path)*.try_claim(count).map(|claim| batch(&$self.items, Claim::$kind(claim)))
            }

            /// Writes one item over what is there, and publishes it.
            ///
            /// A value that was sent is read, unless a reader goes before it has come to it: as with [`WriteBatch::publish`], but a value
            /// that is sent while a reader goes is not given back.
            ///
            /// Suspends, unless there is room.
            ///
            /// # Errors
            /// With the value, as [`claim`](Self::claim).
            ///
            /// # Panics
            /// As there.
            #[track_caller]
            #[inline]
            pub fn send(& $($mutability)* $self, value: T) -> Result<(), SendError<T>> {
                // Apart from the other case: that it is one is known to the compiler, and so the rest becomes short.
                if let Some(claim) = $self $($path)*.one_at_once() {
                    let number = claim.range().start();
                    // SAFETY: claimed, and nobody else's until the claim goes.
                    unsafe { *$self.items.claimed(number) = value };
                    claim.publish();
                    return Ok(());
                }
                $self.wait_and_send(value)
            }

            #[cold]
            #[inline(never)]
            #[track_caller]
            fn wait_and_send(& $($mutability)* $self, value: T) -> Result<(), SendError<T>> {
                match $self $($path)*.claim_one() {
                    Ok(claim) => {
                        let number = claim.range().start();
                        // SAFETY: as above.
                        unsafe { *$self.items.claimed(number) = value };
                        claim.publish();
                        Ok(())
                    }
                    Err(why) => Err(SendError::new(value, why)),
                }
            }

            /// Refuses all who write, from now on. Readers read what is published, and what is claimed already and published later, and are then told of the
            /// [end](super#the-end).
            ///
            /// Does not suspend.
            pub fn close(&$self) {
                $self $($path)*.close();
            }

            /// Whether it is closed, or a reader has gone before the end. A load.
            #[must_use]
            pub fn is_closed(&$self) -> bool {
                $self $($path)*.is_closed()
            }

            /// How many items the ring has.
            #[must_use]
            pub fn size(&self) -> usize {
                self.items.size()
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&$self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("sequencer", &$self $($path)*).finish()
            }
        }
    };
}

fn batch<'a, T>(items: &'a Items<T>, claim: Claim<'a>) -> WriteBatch<'a, T> {
    WriteBatch::new(items, claim)
}

produces! { Producer, Single, self, (mut), (.sequencer) }
produces! { MultiProducer, Multi, self, (), (.sequencer.0) }

impl<T> Clone for MultiProducer<T> {
    fn clone(&self) -> MultiProducer<T> {
        MultiProducer { items: Arc::clone(&self.items), sequencer: Arc::clone(&self.sequencer) }
    }
}
