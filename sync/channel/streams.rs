//! The ends of a channel as a `Stream` and a `Sink`.
//!
//! Each owns its end of the channel, and asks for one item after another with the node that it was
//! made with. So an item costs no allocation, and no field borrows from another. Values and places
//! are governed by permits (see `shared`). A stream holds no value between two polls. A sink holds
//! one at most, and only if a channel without room has lost the receiver of that value.

use super::futures::Asking;
use super::shared::{Receiving, Sending, State, Tried};
use super::{Receiver, Sender};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::MutexGuard;
use futures_core::Stream;
use futures_sink::Sink;
use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl<T> Waitable for Receiver<T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "a value of a channel"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        Receiving::waiters(state)
    }

    fn try_enter(&self, state: &mut State<T>, node: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        Receiving(&self.shared).try_enter(state, node, wakes)
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        Receiving(&self.shared).comes_back(node)
    }

    fn left(&self, state: &mut State<T>, wakes: &mut Wakes) {
        Receiving(&self.shared).left(state, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        Receiving(&self.shared).give_back(node);
    }
}

impl<T> Waitable for Sender<T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "room in a channel"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.shared.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        Sending::waiters(state)
    }

    fn try_enter(&self, state: &mut State<T>, node: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        Sending(&self.shared).try_enter(state, node, wakes)
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        Sending(&self.shared).comes_back(node)
    }

    fn left(&self, state: &mut State<T>, wakes: &mut Wakes) {
        Sending(&self.shared).left(state, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        Sending(&self.shared).give_back(node);
    }
}

impl<T> Receiver<T> {
    /// Turns the receiver into a `Stream` for any executor. The stream ends when the channel is
    /// closed and everything has been received. A stream that is dropped has received only what it
    /// has yielded. Clone the receiver to keep one.
    ///
    /// A stream that was polled and is not ready waits in the line of the receivers until it is
    /// polled again or dropped, even if nothing polls it any more: a receiver behind it may then be
    /// told of a value late.
    ///
    /// Requires the feature `futures`. Does not suspend, and does not allocate.
    ///
    /// ```
    /// use futures_core::Stream;
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    ///
    /// let (sender, receiver) = cygnet::sync::unbounded();
    /// (0..3).for_each(|i| sender.send(i).unwrap());
    /// drop(sender);
    /// let mut stream = pin!(receiver.into_stream());
    /// let mut received = Vec::new();
    /// while let Some(i) = cygnet::wait(poll_fn(|cx| stream.as_mut().poll_next(cx)))? {
    ///     received.push(i);
    /// }
    /// assert_eq!(received, [0, 1, 2]);
    /// # Ok::<(), cygnet::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn into_stream(self) -> RecvStream<T> {
        RecvStream { asking: Asking::new(self, Location::caller()) }
    }
}

impl<T> Sender<T> {
    /// Turns the sender into a `Sink` for any executor. Closing the sink (`poll_close`) drops this
    /// sender; dropping the last sender closes the channel. Clone the sender to keep one.
    ///
    /// `start_send` puts the value into the channel, where it can be received without a flush.
    /// There is one exception: if a channel without room has lost the receiver of the value, the
    /// sink keeps the value until another receiver comes, and drops it if the sink itself is
    /// dropped. A sink that was found ready holds a place for its next value until it is closed or
    /// dropped.
    ///
    /// Requires the feature `futures`. Does not suspend, and does not allocate.
    ///
    /// ```
    /// use futures_sink::Sink;
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    ///
    /// let (sender, receiver) = cygnet::sync::bounded(1);
    /// let mut sink = pin!(sender.into_sink());
    /// cygnet::wait(poll_fn(|cx| sink.as_mut().poll_ready(cx)))?.unwrap();
    /// sink.as_mut().start_send("sent").unwrap();
    /// cygnet::wait(poll_fn(|cx| sink.as_mut().poll_close(cx)))?.unwrap();
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), ["sent"]);
    /// # Ok::<(), cygnet::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn into_sink(self) -> SendSink<T> {
        let asking = Asking::new(self, Location::caller());
        SendSink { value: None, permit: false, asking: Some(asking) }
    }
}

/// The stream of [`Receiver::into_stream`].
#[must_use = "streams do nothing unless they are polled"]
pub struct RecvStream<T> {
    asking: Asking<Receiver<T>>,
}

impl<T> Stream for RecvStream<T> {
    type Item = T;

    /// May be polled after the end, and then returns `None` again.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // SAFETY: `asking` is pinned together with `self`.
        let asking = unsafe { self.map_unchecked_mut(|this| &mut this.asking) };
        let take = |from: &Receiver<T>, answer| from.shared.take_after(answer);
        asking.poll(cx, |from| from.shared.receivers_are_hogged(), take)
    }
}

impl<T> fmt::Debug for RecvStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").field("receiver", self.asking.source()).finish()
    }
}

/// The sink of [`Sender::into_sink`].
#[must_use = "sinks do nothing unless they are polled"]
pub struct SendSink<T> {
    /// A value that was accepted, and is not in the channel yet.
    value: Option<T>,
    /// A place is reserved for a value.
    permit: bool,
    /// `None` once the sink is closed.
    asking: Option<Asking<Sender<T>>>,
}

type Pinned<'a, T> = Pin<&'a mut Option<Asking<Sender<T>>>>;

impl<T> SendSink<T> {
    /// Returns the fields, the last of which is pinned.
    fn parts(self: Pin<&mut Self>) -> (&mut Option<T>, &mut bool, Pinned<'_, T>) {
        // SAFETY: `asking` is the only pinned field, and is handed out pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `asking` is pinned together with `self`.
        let asking = unsafe { Pin::new_unchecked(&mut this.asking) };
        (&mut this.value, &mut this.permit, asking)
    }

    /// Waits for a place. Returns `false` if the channel or the sink is closed.
    fn poll_place(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let (_, permit, mut asking) = self.parts();
        let Some(asking) = asking.as_mut().as_pin_mut() else { return Poll::Ready(false) };
        if !*permit {
            let reserve = |to: &Sender<T>, answer| to.shared.reserve_after(answer);
            let got = ready!(asking.poll(cx, |to| to.shared.senders_are_hogged(), reserve));
            *permit = got.is_some();
        }
        Poll::Ready(*permit)
    }

    /// Puts the held value into the reserved place. Returns `false` if the channel or the sink is
    /// closed.
    fn put(self: Pin<&mut Self>) -> bool {
        let (value, permit, asking) = self.parts();
        let Some(asking) = asking.as_ref().get_ref() else { return false };
        *permit = false;
        !matches!(asking.source().shared.put_by_permit(value), Tried::Closed)
    }

    fn refused(self: Pin<&mut Self>) -> SinkError<T> {
        SinkError { value: self.parts().0.take() }
    }
}

impl<T> Sink<T> for SendSink<T> {
    type Error = SinkError<T>;

    /// # Errors
    /// If the channel or the sink is closed. A sink that has a place is ready even so, and
    /// `start_send` returns the error.
    fn poll_ready(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError<T>>> {
        ready!(self.as_mut().poll_flush(cx))?;
        match ready!(self.as_mut().poll_place(cx)) {
            true => Poll::Ready(Ok(())),
            false => Poll::Ready(Err(self.refused())),
        }
    }

    /// # Errors
    /// Returns the value if the channel is closed.
    ///
    /// # Panics
    /// If the sink was not found ready since the last value: call `poll_ready` first.
    fn start_send(mut self: Pin<&mut Self>, item: T) -> Result<(), SinkError<T>> {
        assert!(
            self.permit,
            "cygnet: a sink that is not ready was given a value: call poll_ready first"
        );
        *self.as_mut().parts().0 = Some(item);
        if self.as_mut().put() { Ok(()) } else { Err(self.refused()) }
    }

    /// # Errors
    /// Returns the value that the sink still holds, if the channel is closed.
    fn poll_flush(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError<T>>> {
        while self.value.is_some() {
            if !ready!(self.as_mut().poll_place(cx)) || !self.as_mut().put() {
                return Poll::Ready(Err(self.refused()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// # Errors
    /// Like `poll_flush`. The sink is closed even so.
    fn poll_close(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError<T>>> {
        let flushed = ready!(self.as_mut().poll_flush(cx));
        self.as_mut().give_back();
        self.parts().2.set(None);
        Poll::Ready(flushed)
    }
}

impl<T> SendSink<T> {
    /// Gives back a reserved place.
    fn give_back(self: Pin<&mut Self>) {
        let (_, permit, asking) = self.parts();
        if std::mem::take(permit)
            && let Some(asking) = asking.as_ref().get_ref()
        {
            asking.source().shared.give_back_place();
        }
    }
}

impl<T> Drop for SendSink<T> {
    fn drop(&mut self) {
        // SAFETY: the sink is being dropped, so it is not moved any more.
        unsafe { Pin::new_unchecked(self) }.give_back();
    }
}

impl<T> fmt::Debug for SendSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sender = self.asking.as_ref().map(Asking::source);
        f.debug_struct("SendSink")
            .field("sender", &sender)
            .field("holds_value", &self.value.is_some())
            .finish()
    }
}

/// The error of a [`SendSink`]: the channel or the sink is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SinkError<T> {
    value: Option<T>,
}

impl<T> SinkError<T> {
    /// Returns the value that was not sent, if there was one.
    pub fn into_inner(self) -> Option<T> {
        self.value
    }
}

impl<T> fmt::Debug for SinkError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SinkError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing can be sent: the channel or the sink is closed")
    }
}

impl<T> Error for SinkError<T> {}
