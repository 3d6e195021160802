use super::batch::{Claim, WriteBatch};
use super::items::Items;
use crate::ring::sequence::{
    Count, MultiProducerSequencer, SingleProducerSequencer, TryClaimError,
};
use crate::shim::Arc;
use crate::shim::time::{Duration, Instant};
use crate::sync::{SendError, TrySendError, WaitError, after};

/// The only producer of a ring, created by [`RingBuilder::producer`](super::RingBuilder). Dropping
/// it ends the ring for the readers.
pub struct Producer<T> {
    pub(super) items: Arc<Items<T>>,
    pub(super) sequencer: SingleProducerSequencer<u64>,
}

/// One of several producers of a ring, created by [`RingBuilder::producer`](super::RingBuilder);
/// clone it to get another. Dropping the last one ends the ring for the readers.
pub struct MultiProducer<T> {
    pub(super) items: Arc<Items<T>>,
    pub(super) sequencer: Arc<Last>,
}

/// The sequencer of all producers of a ring.
pub(super) struct Last(pub(super) MultiProducerSequencer<u64>);

impl Drop for Last {
    fn drop(&mut self) {
        // No claim is in hand: a batch borrows a producer, and this was the last one.
        self.0.finish_without_claims();
    }
}

macro_rules! produces {
    ($name:ident, $kind:ident, $self:ident, ($($mutability:tt)*), ($($path:tt)*)) => {
        impl<T> $name<T> {
            /// Claims the next items, waiting for room: `8` claims exactly 8, and `..=8` up to 8,
            /// but at least one (see [`Count`]). A count of more than the whole ring claims the
            /// whole ring. A count of 0 gives an empty batch at once.
            ///
            /// Suspends unless there is room.
            ///
            /// # Errors
            /// [`WaitError::Closed`] if the ring is closed or a reader was dropped;
            /// [`WaitError::Cancelled`] if the calling task is cancelled, even if there is room.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's
            /// thread between tasks. If the count is an empty range.
            #[track_caller]
            #[inline]
            pub fn claim(
                & $($mutability)* $self,
                count: impl Into<Count>,
            ) -> Result<WriteBatch<'_, T>, WaitError> {
                let claim = $self $($path)*.claim(count)?;
                Ok(WriteBatch::new(&$self.items, Claim::$kind(claim)))
            }

            /// Does the same as [`claim`](Self::claim), but waits no longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the time is over, and the errors of `claim`.
            ///
            /// # Panics
            /// As [`claim`](Self::claim).
            #[track_caller]
            pub fn claim_timeout(
                & $($mutability)* $self,
                count: impl Into<Count>,
                time: Duration,
            ) -> Result<WriteBatch<'_, T>, WaitError> {
                let claim = $self $($path)*.claim_timeout(count, time)?;
                Ok(WriteBatch::new(&$self.items, Claim::$kind(claim)))
            }

            /// Does the same as [`claim`](Self::claim), but waits no longer than until `moment`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the moment has come, and the errors of `claim`.
            ///
            /// # Panics
            /// As [`claim`](Self::claim).
            #[track_caller]
            pub fn claim_deadline(
                & $($mutability)* $self,
                count: impl Into<Count>,
                moment: Instant,
            ) -> Result<WriteBatch<'_, T>, WaitError> {
                let claim = $self $($path)*.claim_deadline(count, moment)?;
                Ok(WriteBatch::new(&$self.items, Claim::$kind(claim)))
            }

            /// Does the same as [`claim`](Self::claim), as a future for any executor. A future that
            /// is dropped has claimed nothing.
            ///
            /// # Errors
            /// [`WaitError::Closed`].
            ///
            /// # Panics
            /// If the count is an empty range, when it is polled.
            pub async fn claim_async(
                & $($mutability)* $self,
                count: impl Into<Count>,
            ) -> Result<WriteBatch<'_, T>, WaitError> {
                let claim = $self $($path)*.claim_async(count).await?;
                Ok(WriteBatch::new(&$self.items, Claim::$kind(claim)))
            }

            /// Does the same as [`claim`](Self::claim) if there is room now, even in a cancelled
            /// task.
            ///
            /// Does not suspend.
            ///
            /// # Errors
            /// [`TryClaimError::Full`] if there is not enough room now, or other producers wait for
            /// it; [`TryClaimError::Closed`] if the ring is closed or a reader was dropped.
            ///
            /// # Panics
            /// If the count is an empty range.
            pub fn try_claim(
                & $($mutability)* $self,
                count: impl Into<Count>,
            ) -> Result<WriteBatch<'_, T>, TryClaimError> {
                let claim = $self $($path)*.try_claim(count)?;
                Ok(WriteBatch::new(&$self.items, Claim::$kind(claim)))
            }

            /// Sends a value: waits for room, overwrites one item with the value, and publishes it.
            ///
            /// Readers read the value unless a reader is dropped before reaching it. A
            /// value sent while a reader is being dropped may be lost, as with
            /// [`WriteBatch::publish`], and `send` does not return it.
            ///
            /// Suspends unless there is room.
            ///
            /// # Errors
            /// Those of [`claim`](Self::claim), together with the value.
            ///
            /// # Panics
            /// As [`claim`](Self::claim).
            #[track_caller]
            #[inline]
            pub fn send(& $($mutability)* $self, value: T) -> Result<(), SendError<T>> {
                // A path of its own: the compiler knows that the claim has one number, which
                // shortens the rest.
                if let Some(claim) = $self $($path)*.one_at_once() {
                    WriteBatch::new(&$self.items, Claim::$kind(claim)).send(value);
                    return Ok(());
                }
                $self.send_by(value, None)
            }

            /// Does the same as [`send`](Self::send), but waits no longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the time is over, and the errors of `send`, together
            /// with the value.
            ///
            /// # Panics
            /// As [`claim`](Self::claim).
            #[track_caller]
            pub fn send_timeout(
                & $($mutability)* $self,
                value: T,
                time: Duration,
            ) -> Result<(), SendError<T>> {
                $self.send_by(value, after(time))
            }

            /// Does the same as [`send`](Self::send), but waits no longer than until `moment`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the moment has come, and the errors of `send`, together
            /// with the value.
            ///
            /// # Panics
            /// As [`claim`](Self::claim).
            #[track_caller]
            pub fn send_deadline(
                & $($mutability)* $self,
                value: T,
                moment: Instant,
            ) -> Result<(), SendError<T>> {
                $self.send_by(value, Some(moment))
            }

            /// Does the same as [`send`](Self::send), as a future for any executor. A future that
            /// is dropped before it is ready has sent nothing.
            ///
            /// # Errors
            /// [`WaitError::Closed`], together with the value.
            pub async fn send_async(& $($mutability)* $self, value: T) -> Result<(), SendError<T>> {
                match $self.claim_async(1).await {
                    Ok(batch) => batch.send(value),
                    Err(why) => return Err(SendError::new(value, why)),
                }
                Ok(())
            }

            /// Does the same as [`send`](Self::send) if there is room now, even in a cancelled
            /// task.
            ///
            /// Does not suspend.
            ///
            /// # Errors
            /// Returns the value if there is no room, if other producers wait for it, or if the
            /// ring is closed or a reader was dropped.
            pub fn try_send(& $($mutability)* $self, value: T) -> Result<(), TrySendError<T>> {
                match $self.try_claim(1) {
                    Ok(batch) => batch.send(value),
                    Err(TryClaimError::Full) => return Err(TrySendError::Full(value)),
                    Err(TryClaimError::Closed) => return Err(TrySendError::Closed(value)),
                }
                Ok(())
            }

            /// Sends without the shorter path of [`send`](Self::send).
            #[cold]
            #[inline(never)]
            #[track_caller]
            fn send_by(
                & $($mutability)* $self,
                value: T,
                until: Option<Instant>,
            ) -> Result<(), SendError<T>> {
                match $self $($path)*.claim_by(Count::from(1), until) {
                    Ok(claim) => WriteBatch::new(&$self.items, Claim::$kind(claim)).send(value),
                    Err(why) => return Err(SendError::new(value, why)),
                }
                Ok(())
            }

            /// Refuses all later claims. Readers read everything that is published, and everything
            /// that is already claimed and published later, and then get to the
            /// [end](super#the-end).
            ///
            /// Does not suspend.
            pub fn close(&$self) {
                $self $($path)*.close();
            }

            /// Returns `true` if the ring is closed, or a reader was dropped before the end. Costs
            /// a load.
            #[must_use]
            pub fn is_closed(&$self) -> bool {
                $self $($path)*.is_closed()
            }

            /// The number of items of the ring.
            #[must_use]
            pub fn size(&self) -> usize {
                self.items.size()
            }
        }

        debug! { impl<T> $name<T> as this { sequencer: this $($path)* } }
    };
}

produces! { Producer, Single, self, (mut), (.sequencer) }
produces! { MultiProducer, Multi, self, (), (.sequencer.0) }

impl<T> Clone for MultiProducer<T> {
    fn clone(&self) -> MultiProducer<T> {
        MultiProducer { items: Arc::clone(&self.items), sequencer: Arc::clone(&self.sequencer) }
    }
}
