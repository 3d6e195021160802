use super::errors::SendError;
use super::line::Passed;
use super::shared::{Receiving, Sending, Shared, Tried};
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::wait::waiters::{WaitFuture, Waitable};
use crate::sync::WaitError;
use std::fmt;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A wait in a line of a channel, as a future that can be used again.
pub(super) struct Asking<W: Waitable> {
    entering: WaitFuture<W>,
    /// The present wait has begun.
    is_asking: bool,
    passed: Passed,
}

impl<W: Waitable> Asking<W> {
    pub(super) fn new(source: W, place: &'static Location<'static>) -> Asking<W> {
        Asking {
            entering: WaitFuture::new(source, 0, place),
            is_asking: false,
            passed: Passed::default(),
        }
    }

    /// Returns the primitive that is waited for.
    #[cfg(feature = "futures")]
    pub(super) fn source(&self) -> &W {
        self.entering.source()
    }

    /// Waits until `then` turns an answer into a value. Ready with `None` if the channel is closed.
    /// A new wait first returns `Pending` once if `hogged` says so, which lets others of the
    /// executor run. After it has been ready, it may be polled again, for the next value.
    pub(super) fn poll<V>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        hogged: impl FnOnce(&W) -> bool,
        mut then: impl FnMut(&W, u32) -> Tried<V>,
    ) -> Poll<Option<V>> {
        // SAFETY: `entering` is the only pinned field, and nothing moves it.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `entering` is pinned together with `self`.
        let mut entering = unsafe { Pin::new_unchecked(&mut this.entering) };
        if !mem::replace(&mut this.is_asking, true) && hogged(entering.source()) && !is_forbidden()
        {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let answer = ready!(entering.as_mut().poll(cx));
            let tried = then(entering.source(), answer);
            if let Tried::Later | Tried::Behind | Tried::Missed = tried {
                this.passed.again(entering.node());
            }
            entering.as_mut().renew();
            let value = match tried {
                Tried::Done(value) => Some(value),
                Tried::Closed => None,
                Tried::Later | Tried::Behind | Tried::Missed => continue,
            };
            this.is_asking = false;
            this.passed = Passed::default();
            entering.node().forget();
            return Poll::Ready(value);
        }
    }
}

/// The future of [`Sender::send_async`](super::Sender::send_async).
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    value: Option<T>,
    asking: Asking<Sending<'a, T>>,
}

impl<'a, T> SendFuture<'a, T> {
    #[track_caller]
    pub(super) fn new(shared: &'a Shared<T>, value: T) -> SendFuture<'a, T> {
        SendFuture { value: Some(value), asking: Asking::new(Sending(shared), Location::caller()) }
    }
}

impl<T> Future for SendFuture<'_, T> {
    /// The only reason of an error is [`WaitError::Closed`].
    type Output = Result<(), SendError<T>>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        // SAFETY: `asking` is the only pinned field, and nothing moves it.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.value.is_some(), "cygnet: a future was polled after its end");
        // SAFETY: `asking` is pinned together with `self`.
        let asking = unsafe { Pin::new_unchecked(&mut this.asking) };
        let put = |to: &Sending<'_, T>, answer| to.0.put_after(answer, &mut this.value);
        let put = ready!(asking.poll(cx, |to| to.0.senders_are_hogged(), put));
        Poll::Ready(put.ok_or_else(|| {
            SendError::new(this.value.take().expect("an unsent value is kept"), WaitError::Closed)
        }))
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
    asking: Asking<Receiving<'a, T>>,
    is_over: bool,
}

impl<'a, T> RecvFuture<'a, T> {
    #[track_caller]
    pub(super) fn new(shared: &'a Shared<T>) -> RecvFuture<'a, T> {
        let asking = Asking::new(Receiving(shared), Location::caller());
        RecvFuture { asking, is_over: false }
    }
}

impl<T> Future for RecvFuture<'_, T> {
    /// The only error is [`WaitError::Closed`].
    type Output = Result<T, WaitError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, WaitError>> {
        // SAFETY: `asking` is the only pinned field, and nothing moves it.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(!this.is_over, "cygnet: a future was polled after its end");
        // SAFETY: `asking` is pinned together with `self`.
        let asking = unsafe { Pin::new_unchecked(&mut this.asking) };
        let take = |from: &Receiving<'_, T>, answer| from.0.take_after(answer);
        let value = ready!(asking.poll(cx, |from| from.0.receivers_are_hogged(), take));
        this.is_over = true;
        Poll::Ready(value.ok_or(WaitError::Closed))
    }
}

impl<T> fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFuture").finish_non_exhaustive()
    }
}
