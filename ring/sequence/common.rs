//! Methods that several types have, written once.

/// The setters of a type's [`Options`](super::awaited::Options), by its `change_options`, and its
/// behaviour when a panic is caught: its locks are never held while foreign code runs.
macro_rules! options {
    ($name:ident: $(#[$panics:meta])*) => {
        impl<S: Sequence> $name<S> {
            /// Sets another [`WaitStrategy`](super::WaitStrategy).
            ///
            $(#[$panics])*
            #[must_use]
            #[track_caller]
            pub fn with_strategy(self, strategy: super::WaitStrategy) -> Self {
                self.change_options(|options| Options { strategy, ..options })
            }

            /// Closes the object for all when a wait or a claim is cancelled, times out, or is
            /// dropped as a pending future. For programs that have no other way to tell the others
            /// to stop.
            ///
            $(#[$panics])*
            #[must_use]
            #[track_caller]
            pub fn terminal(self) -> Self {
                self.change_options(|options| Options { terminal: true, ..options })
            }
        }

        unwind_safe! { impl<S: Sequence> $name<S> }
    };
}

/// The waits for a number of a barrier or of a group of barriers.
macro_rules! waits {
    ($name:ident) => {
        impl<S: Sequence> $name<S> {
            /// The last published number: in a group, the last one that all members have published.
            /// Costs a load for each barrier.
            #[must_use]
            #[inline]
            pub fn last_published(&self) -> S {
                self.raw.published()
            }

            /// Waits until `target` is published, in a group by all members, and returns the last
            /// published number.
            ///
            /// Suspends unless it is published, and costs as
            /// [`last_published`](Self::last_published) if it is.
            ///
            /// # Errors
            /// [`WaitError::Closed`] if it is not published and will not be: the barrier, or a
            /// member of the group, is closed or has finished. [`WaitError::Cancelled`] if the
            /// calling task is cancelled, even if it is published.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's
            /// thread between tasks.
            #[track_caller]
            #[inline]
            pub fn wait_until_published(&self, target: S) -> Result<S, WaitError> {
                wait_until(&*self.raw, target, None)
            }

            /// Does the same as [`wait_until_published`](Self::wait_until_published), but waits no
            /// longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the time is over, and the errors of
            /// `wait_until_published`.
            ///
            /// # Panics
            /// As [`wait_until_published`](Self::wait_until_published).
            #[track_caller]
            pub fn wait_timeout(&self, target: S, time: Duration) -> Result<S, WaitError> {
                wait_until(&*self.raw, target, after(time))
            }

            /// Does the same as [`wait_until_published`](Self::wait_until_published), but waits no
            /// longer than until `moment`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the moment has come, and the errors of
            /// `wait_until_published`.
            ///
            /// # Panics
            /// As [`wait_until_published`](Self::wait_until_published).
            #[track_caller]
            pub fn wait_deadline(&self, target: S, moment: Instant) -> Result<S, WaitError> {
                wait_until(&*self.raw, target, Some(moment))
            }

            /// Does the same as [`wait_until_published`](Self::wait_until_published), as a future
            /// for any executor. The wait begins with the first poll. The future is never
            /// `Cancelled`: to cancel the wait, drop it.
            #[track_caller]
            pub fn wait_async(&self, target: S) -> impl Future<Output = Result<S, WaitError>> {
                wait_async(&*self.raw, target, Location::caller())
            }
        }
    };
}

/// The claims of a sequencer, by its `claim_by(count, until)`.
macro_rules! claims {
    ($name:ident, $claim:ident, ($($mutability:tt)*)) => {
        impl<S: Sequence> $name<S> {
            /// Claims the next number, waiting for room.
            ///
            /// Suspends unless there is room and no other producer waits for it. If there is, it
            /// costs some loads, and with several producers a compare-and-swap. Waiting producers
            /// are served in FIFO order.
            ///
            /// # Errors
            /// [`WaitError::Closed`] if the sequencer is closed; [`WaitError::Cancelled`] if the
            /// calling task is cancelled, even if there is room.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's
            /// thread between tasks.
            #[track_caller]
            #[inline]
            pub fn claim_one(& $($mutability)* self) -> Result<$claim<'_, S>, WaitError> {
                self.claim_by(Count::from(1), None)
            }

            /// Claims the next numbers, waiting for room: `8` claims exactly 8, and `..=8` up to 8,
            /// but at least one (see [`Count`]). A count of more than the whole ring claims the
            /// whole ring. A count of 0 gives an empty claim at once.
            ///
            /// Suspends, costs and fails as [`claim_one`](Self::claim_one).
            ///
            /// # Panics
            /// As `claim_one`, and if the count is an empty range.
            #[track_caller]
            #[inline]
            pub fn claim(
                & $($mutability)* self,
                count: impl Into<Count>,
            ) -> Result<$claim<'_, S>, WaitError> {
                self.claim_by(count.into(), None)
            }

            /// Does the same as [`claim`](Self::claim), but waits no longer than `time`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the time is over, and the errors of `claim`.
            ///
            /// # Panics
            /// As `claim`.
            #[track_caller]
            pub fn claim_timeout(
                & $($mutability)* self,
                count: impl Into<Count>,
                time: Duration,
            ) -> Result<$claim<'_, S>, WaitError> {
                self.claim_by(count.into(), after(time))
            }

            /// Does the same as [`claim`](Self::claim), but waits no longer than until `moment`.
            ///
            /// # Errors
            /// [`WaitError::TimedOut`] when the moment has come, and the errors of `claim`.
            ///
            /// # Panics
            /// As `claim`.
            #[track_caller]
            pub fn claim_deadline(
                & $($mutability)* self,
                count: impl Into<Count>,
                moment: Instant,
            ) -> Result<$claim<'_, S>, WaitError> {
                self.claim_by(count.into(), Some(moment))
            }
        }

        debug! { impl<S: Sequence> $claim<'_, S> as this (this.range()) }
    };
}

pub(super) use {claims, options, waits};
