use super::arithmetic::Sequence;
use super::awaited::{Awaited, Awaiting, PUBLISHED};
use super::raw_barrier::RawBarrier;
use super::raw_group::RawGroup;
use super::raw_multi::Reads;
use crate::sync::WaitError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A wait for a sequence number, as a future. Returned by
/// [`SequenceBarrier::wait_async`](super::SequenceBarrier::wait_async) and the `wait_async` of the
/// other types.
#[must_use = "futures do nothing unless they are polled"]
pub struct SequenceWait<'a, S: Sequence = usize> {
    of: Of<'a, S>,
}

enum Of<'a, S: Sequence> {
    Barrier(Awaiting<&'a RawBarrier<S>>),
    Group(Awaiting<&'a RawGroup<S>>),
    Multi(Awaiting<Reads<'a, S>>, S),
}

impl<'a, S: Sequence> SequenceWait<'a, S> {
    pub(super) fn of_barrier(awaiting: Awaiting<&'a RawBarrier<S>>) -> SequenceWait<'a, S> {
        SequenceWait { of: Of::Barrier(awaiting) }
    }

    pub(super) fn of_group(awaiting: Awaiting<&'a RawGroup<S>>) -> SequenceWait<'a, S> {
        SequenceWait { of: Of::Group(awaiting) }
    }

    pub(super) fn of_multi(awaiting: Awaiting<Reads<'a, S>>, target: S) -> SequenceWait<'a, S> {
        SequenceWait { of: Of::Multi(awaiting, target) }
    }
}

impl<S: Sequence> Future for SequenceWait<'_, S> {
    /// The same as for
    /// [`SequenceBarrier::wait_until_published`](super::SequenceBarrier::wait_until_published), but
    /// never `Cancelled`: to cancel the wait, drop the future.
    type Output = Result<S, WaitError>;

    /// # Panics
    /// If polled after completion.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<S, WaitError>> {
        // SAFETY: the fields are only pinned in turn, and never moved.
        match unsafe { &mut self.get_unchecked_mut().of } {
            Of::Barrier(awaiting) => {
                let source = awaiting.source();
                poll(awaiting, cx, || source.published())
            }
            Of::Group(awaiting) => {
                let source = awaiting.source();
                poll(awaiting, cx, || source.published())
            }
            Of::Multi(awaiting, target) => {
                let source = awaiting.source();
                poll(awaiting, cx, || source.0.published_from(*target))
            }
        }
    }
}

/// Returns the last published number when the answer is there.
fn poll<W: Awaited + Copy, S>(
    awaiting: &mut Awaiting<W>,
    cx: &mut Context<'_>,
    published: impl FnOnce() -> S,
) -> Poll<Result<S, WaitError>> {
    // SAFETY: `awaiting` is a part of the pinned future, and is never moved.
    let polled = unsafe { Pin::new_unchecked(awaiting) }.poll(cx);
    polled.map(|answer| if answer == PUBLISHED { Ok(published()) } else { Err(WaitError::Closed) })
}

impl<S: Sequence> fmt::Debug for SequenceWait<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceWait").finish_non_exhaustive()
    }
}
