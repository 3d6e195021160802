//! The items of a ring, one at a time.

use super::reader::{Reader, Stage};
use crate::shim::time::{Duration, Instant};
use crate::sync::{TryRecvError, WaitError, after};

macro_rules! receives {
    (
        $name:ident<$Bound:ident> by $take:path, $items:ident:
        $(#[$recv:meta])*
    ) => {
        impl<T: $Bound> $name<T> {
            $(#[$recv])*
            ///
            /// Suspends unless there is an item.
            ///
            /// # Errors
            /// As [`next_batch`](Self::next_batch).
            ///
            /// # Panics
            /// As [`next_batch`](Self::next_batch).
            #[track_caller]
            pub fn recv(&mut self) -> Result<T, WaitError> {
                loop {
                    if let Some(item) = self.next_batch(1)?.$items().next() {
                        return Ok($take(item));
                    }
                }
            }

            /// Does the same as [`recv`](Self::recv), but waits no longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the time is over, and the errors of `recv`.
            ///
            /// # Panics
            /// As [`recv`](Self::recv).
            #[track_caller]
            pub fn recv_timeout(&mut self, time: Duration) -> Result<T, WaitError> {
                self.recv_by(after(time))
            }

            /// Does the same as [`recv`](Self::recv), but waits no longer than until `moment`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the moment has come, and the errors of `recv`.
            ///
            /// # Panics
            /// As [`recv`](Self::recv).
            #[track_caller]
            pub fn recv_deadline(&mut self, moment: Instant) -> Result<T, WaitError> {
                self.recv_by(Some(moment))
            }

            #[track_caller]
            fn recv_by(&mut self, until: Option<Instant>) -> Result<T, WaitError> {
                loop {
                    if let Some(item) = self.next_batch_by(1, until)?.$items().next() {
                        return Ok($take(item));
                    }
                }
            }

            /// Does the same as [`recv`](Self::recv), as a future for any executor. A future that
            /// is dropped before it is ready has received nothing.
            ///
            /// The stop of a shutdown ends the wait of a future that is [interrupted](
            /// crate::shutdown::Swansong::interrupt):
            ///
            /// ```
            /// let swansong = cygnet::shutdown::Swansong::new();
            /// let mut ring = cygnet::ring::single_producer(8, u32::default);
            /// let (mut stage, mut producer) = (ring.stage(), ring.producer());
            /// producer.send(1).unwrap();
            /// assert_eq!(cygnet::wait(swansong.interrupt(stage.recv_async()))?, Some(Ok(1)));
            /// swansong.shut_down();
            /// assert_eq!(cygnet::wait(swansong.interrupt(stage.recv_async()))?, None);
            /// # Ok::<(), cygnet::Cancelled>(())
            /// ```
            ///
            /// # Errors
            /// [`WaitError::Closed`].
            pub async fn recv_async(&mut self) -> Result<T, WaitError> {
                loop {
                    if let Some(item) = self.next_batch_async(1).await?.$items().next() {
                        return Ok($take(item));
                    }
                }
            }

            /// Does the same as [`recv`](Self::recv) if there is an item now, even in a cancelled
            /// task.
            ///
            /// Does not suspend.
            ///
            /// # Errors
            /// [`TryRecvError::Empty`] if there is none now; [`TryRecvError::Closed`] after the
            /// last item.
            pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
                loop {
                    if let Some(item) = self.try_next_batch(1)?.$items().next() {
                        return Ok($take(item));
                    }
                }
            }

            /// Receives until the end of the ring, or until the calling task is cancelled. Each
            /// step suspends like [`recv`](Self::recv).
            ///
            /// ```
            /// let mut ring = cygnet::ring::single_producer(8, u32::default);
            /// let (mut stage, mut producer) = (ring.stage(), ring.producer());
            /// (0..5).for_each(|item| producer.send(item).unwrap());
            /// drop(producer);
            /// assert_eq!(stage.iter().sum::<u32>(), 10);
            /// ```
            pub fn iter(&mut self) -> impl Iterator<Item = T> {
                std::iter::from_fn(|| self.recv().ok())
            }

            /// Receives the items that are there now. Does not suspend.
            pub fn try_iter(&mut self) -> impl Iterator<Item = T> {
                std::iter::from_fn(|| self.try_recv().ok())
            }
        }
    };
}

receives! {
    Stage<Default> by std::mem::take, iter_mut:
    /// Receives the next item, waiting for one: takes it out of the ring, and leaves a default item
    /// in its place.
}
receives! {
    Reader<Clone> by T::clone, iter:
    /// Receives a clone of the next item, waiting for one.
}
