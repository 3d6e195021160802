//! The ends of a channel as a `Stream` and a `Sink`.
//!
//! Each owns its end of the channel, and asks for one item after another with the node that it was
//! made with. So an item costs no allocation, and no field borrows from another. Values and places
//! are governed by permits (see `state`). A stream holds no value between two polls. A sink holds
//! one at most, and only if a channel without room has lost the receiver of that value.

use super::errors::Refused;
use super::futures::Asking;
use super::line::{Receivers, Senders};
use super::state::Channel;
use super::state::waiting::Handle;
use super::{Receiver, Sender};
use futures_core::Stream;
use futures_sink::Sink;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl<T> Handle for Receiver<T> {
    type Value = T;

    fn channel(&self) -> &Channel<T> {
        &self.channel
    }
}

impl<T> Handle for Sender<T> {
    type Value = T;

    fn channel(&self) -> &Channel<T> {
        &self.channel
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
    asking: Asking<Receiver<T>, Receivers>,
}

impl<T> Stream for RecvStream<T> {
    type Item = T;

    /// May be polled after the end, and then returns `None` again.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // SAFETY: `asking` is pinned together with `self`.
        let asking = unsafe { self.map_unchecked_mut(|this| &mut this.asking) };
        let mut value = None;
        ready!(asking.poll(cx, |from, answer| from.move_after::<Receivers>(answer, &mut value)));
        Poll::Ready(value)
    }
}

debug! { impl<T> RecvStream<T> as this { receiver: this.asking.handle() } }

/// The sink of [`Sender::into_sink`].
#[must_use = "sinks do nothing unless they are polled"]
pub struct SendSink<T> {
    /// A value that was accepted, and is not in the channel yet.
    value: Option<T>,
    /// A place is reserved for a value.
    permit: bool,
    /// `None` once the sink is closed.
    asking: Option<Asking<Sender<T>, Senders>>,
}

type Pinned<'a, T> = Pin<&'a mut Option<Asking<Sender<T>, Senders>>>;

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
            *permit = ready!(asking.poll(cx, Channel::reserve_after));
        }
        Poll::Ready(*permit)
    }

    /// Puts the held value into the reserved place. Returns `false` if the channel or the sink is
    /// closed.
    fn put(self: Pin<&mut Self>) -> bool {
        let (value, permit, asking) = self.parts();
        let Some(asking) = asking.as_ref().get_ref() else { return false };
        *permit = false;
        asking.handle().channel.by_permit::<Senders>(value) != Err(Refused::Closed)
    }

    fn refused(self: Pin<&mut Self>) -> SinkError<T> {
        SinkError { value: self.parts().0.take() }
    }
}

type Polled<T> = Poll<Result<(), SinkError<T>>>;

impl<T> Sink<T> for SendSink<T> {
    type Error = SinkError<T>;

    /// # Errors
    /// If the channel or the sink is closed. A sink that has a place is ready even so, and
    /// `start_send` returns the error.
    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<T> {
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
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<T> {
        while self.value.is_some() {
            if !ready!(self.as_mut().poll_place(cx)) || !self.as_mut().put() {
                return Poll::Ready(Err(self.refused()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// # Errors
    /// Like `poll_flush`. The sink is closed even so.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<T> {
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
            asking.handle().channel.take_back::<Senders>();
        }
    }
}

impl<T> Drop for SendSink<T> {
    fn drop(&mut self) {
        // SAFETY: the sink is being dropped, so it is not moved any more.
        unsafe { Pin::new_unchecked(self) }.give_back();
    }
}

debug! {
    impl<T> SendSink<T> as this {
        sender: this.asking.as_ref().map(Asking::handle),
        holds_value: this.value.is_some(),
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

debug! { impl<T> SinkError<T> { .. } }

error! {
    impl<T> SinkError<T>: |_, f| {
        f.write_str("nothing can be sent: the channel or the sink is closed")
    }
}
