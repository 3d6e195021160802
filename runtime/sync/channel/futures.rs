use super::errors::SendError;
use super::shared::{CLOSED, Receiving, Sending, Shared, Tried};
use crate::runtime::sync::WaitError;
use crate::scheduler::waiters::Entering;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The future of [`Sender::send_async`](super::Sender::send_async).
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    shared: &'a Shared<T>,
    place: &'static Location<'static>,
    value: Option<T>,
    entering: Entering<Sending<'a, T>>,
}

impl<'a, T> SendFuture<'a, T> {
    #[track_caller]
    pub(super) fn new(shared: &'a Shared<T>, value: T) -> SendFuture<'a, T> {
        let place = Location::caller();
        let entering = Entering::new(Sending(shared), 0, place);
        SendFuture { shared, place, value: Some(value), entering }
    }
}

impl<T> Future for SendFuture<'_, T> {
    /// [`WaitError::Closed`] is the only reason of an error.
    type Output = Result<(), SendError<T>>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        // SAFETY: of all fields only `entering` is pinned, and is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        loop {
            // SAFETY: pinned with the whole.
            let mut entering = unsafe { Pin::new_unchecked(&mut this.entering) };
            let tried = match ready!(entering.as_mut().poll(cx)) {
                CLOSED => Tried::Closed,
                _ => this.shared.put_by_permit(&mut this.value),
            };
            match tried {
                Tried::Done(()) => return Poll::Ready(Ok(())),
                Tried::Closed => {
                    let value = this.value.take().expect("it was not put");
                    return Poll::Ready(Err(SendError::new(value, WaitError::Closed)));
                }
                Tried::Later | Tried::Behind => {
                    entering.set(Entering::new(Sending(this.shared), 0, this.place));
                }
            }
        }
    }
}

impl<T> fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").finish_non_exhaustive()
    }
}

/// The future of [`Receiver::recv_async`](super::Receiver::recv_async).
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'a, T> {
    shared: &'a Shared<T>,
    entering: Entering<Receiving<'a, T>>,
}

impl<'a, T> RecvFuture<'a, T> {
    #[track_caller]
    pub(super) fn new(shared: &'a Shared<T>) -> RecvFuture<'a, T> {
        RecvFuture { shared, entering: Entering::new(Receiving(shared), 0, Location::caller()) }
    }
}

impl<T> Future for RecvFuture<'_, T> {
    /// [`WaitError::Closed`] is the only error.
    type Output = Result<T, WaitError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, WaitError>> {
        let shared = self.shared;
        // SAFETY: pinned with the whole.
        let entering = unsafe { self.map_unchecked_mut(|this| &mut this.entering) };
        entering.poll(cx).map(|answer| match answer {
            CLOSED => Err(WaitError::Closed),
            _ => Ok(shared.take_by_permit()),
        })
    }
}

impl<T> fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFuture").finish_non_exhaustive()
    }
}
