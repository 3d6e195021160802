use super::errors::{Refused, SendError, Tried};
use super::line::{Passed, Receivers, Senders, Side};
use super::state::Channel;
use super::state::waiting::{Handle, InLine};
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::wait::waiters::WaitFuture;
use crate::sync::WaitError;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A wait in a line of a channel, as a future that can be used again.
pub(super) struct Asking<H: Handle, S: Side> {
    entering: WaitFuture<InLine<H, S>>,
    /// The present wait has begun.
    is_asking: bool,
    passed: Passed,
}

impl<H: Handle, S: Side> Asking<H, S> {
    pub(super) fn new(handle: H, location: &'static Location<'static>) -> Asking<H, S> {
        Asking {
            entering: WaitFuture::new(InLine::new(handle), 0, location),
            is_asking: false,
            passed: Passed::default(),
        }
    }

    #[cfg(feature = "futures")]
    pub(super) fn handle(&self) -> &H {
        &self.entering.source().0
    }

    /// Waits until `then` succeeds with an answer. Ready with `false` if the channel is closed.
    /// A new wait first returns `Pending` once if the line is hogged, which lets others of the
    /// executor run. After it has been ready, it may be polled again, for the next value.
    pub(super) fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut then: impl FnMut(&Channel<H::Value>, u32) -> Tried<()>,
    ) -> Poll<bool> {
        // SAFETY: `entering` is the only pinned field, and nothing moves it.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `entering` is pinned together with `self`.
        let mut entering = unsafe { Pin::new_unchecked(&mut this.entering) };
        let is_asking = mem::replace(&mut this.is_asking, true);
        if !is_asking && entering.source().0.channel().is_hogged::<S>() && !is_forbidden() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let answer = ready!(entering.as_mut().poll(cx));
            let tried = then(entering.source().0.channel(), answer);
            if !matches!(tried, Ok(()) | Err(Refused::Closed)) {
                this.passed.again(entering.node());
                entering.as_mut().renew();
                continue;
            }
            entering.as_mut().renew();
            this.is_asking = false;
            this.passed = Passed::default();
            entering.node().forget();
            return Poll::Ready(tried.is_ok());
        }
    }
}

/// The future of [`Sender::send_async`](super::Sender::send_async).
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    value: Option<T>,
    asking: Asking<&'a Channel<T>, Senders>,
}

impl<'a, T> SendFuture<'a, T> {
    #[track_caller]
    pub(super) fn new(channel: &'a Channel<T>, value: T) -> SendFuture<'a, T> {
        SendFuture { value: Some(value), asking: Asking::new(channel, Location::caller()) }
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
        let value = &mut this.value;
        ready!(asking.poll(cx, |to, answer| to.move_after::<Senders>(answer, value)));
        Poll::Ready(match this.value.take() {
            None => Ok(()),
            Some(unsent) => Err(SendError::new(unsent, WaitError::Closed)),
        })
    }
}

debug! { impl<T> SendFuture<'_, T> { .. } }

/// The future of [`Receiver::recv_async`](super::Receiver::recv_async).
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'a, T> {
    asking: Asking<&'a Channel<T>, Receivers>,
    is_over: bool,
}

impl<'a, T> RecvFuture<'a, T> {
    #[track_caller]
    pub(super) fn new(channel: &'a Channel<T>) -> RecvFuture<'a, T> {
        RecvFuture { asking: Asking::new(channel, Location::caller()), is_over: false }
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
        let mut value = None;
        ready!(asking.poll(cx, |from, answer| from.move_after::<Receivers>(answer, &mut value)));
        this.is_over = true;
        Poll::Ready(value.ok_or(WaitError::Closed))
    }
}

debug! { impl<T> RecvFuture<'_, T> { .. } }
