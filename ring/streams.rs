//! Readers as streams.

use super::reader::{Reader, Stage};
use futures_core::Stream;
use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A stream whose items are received by futures, one after the other. The future owns the reader,
/// and returns it together with the item.
struct Receiving<R, F> {
    receive: fn(R) -> F,
    state: State<R, F>,
}

enum State<R, F> {
    Idle(R),
    Waiting(F),
    /// The reader is being moved into the next future.
    Gone,
}

impl<R, F, T> Stream for Receiving<R, F>
where
    R: Unpin,
    F: Future<Output = (R, Option<T>)>,
{
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // SAFETY: the only pinned part is the future in `Waiting`. It is never moved: it is polled
        // in place, and dropped in place when `state` is overwritten.
        let this = unsafe { self.get_unchecked_mut() };
        if let State::Idle(_) = this.state
            && let State::Idle(reader) = replace(&mut this.state, State::Gone)
        {
            this.state = State::Waiting((this.receive)(reader));
        }
        let State::Waiting(future) = &mut this.state else { return Poll::Ready(None) };
        // SAFETY: the future is pinned together with `self`.
        let (reader, item) = ready!(unsafe { Pin::new_unchecked(future) }.poll(cx));
        this.state = State::Idle(reader);
        Poll::Ready(item)
    }
}

macro_rules! streams {
    ($name:ident<$Bound:ident>: $(#[$into_stream:meta])*) => {
        impl<T: $Bound> $name<T> {
            $(#[$into_stream])*
            ///
            /// The stream ends with the ring, and may be polled after its end. A stream that is
            /// dropped has received only what it has yielded, and ends the ring as a dropped reader
            /// does. So does a panic of `T` while an item is received, after which the stream must
            /// not be polled. To end the stream with a shutdown,
            /// [interrupt](crate::shutdown::Swansong::interrupt) it.
            ///
            /// Requires the feature `futures`. Does not suspend, and does not allocate.
            ///
            /// ```
            /// use futures_core::Stream;
            /// use std::future::poll_fn;
            /// use std::pin::pin;
            ///
            /// let mut ring = cygnet::ring::single_producer(8, u32::default);
            /// let (stage, mut producer) = (ring.stage(), ring.producer());
            /// (0..3).for_each(|item| producer.send(item).unwrap());
            /// drop(producer);
            /// let mut stream = pin!(stage.into_stream());
            /// let mut received = Vec::new();
            /// while let Some(item) = cygnet::wait(poll_fn(|cx| stream.as_mut().poll_next(cx)))? {
            ///     received.push(item);
            /// }
            /// assert_eq!(received, [0, 1, 2]);
            /// # Ok::<(), cygnet::Cancelled>(())
            /// ```
            pub fn into_stream(self) -> impl Stream<Item = T> {
                async fn receive<T: $Bound>(mut reader: $name<T>) -> ($name<T>, Option<T>) {
                    let item = reader.recv_async().await.ok();
                    (reader, item)
                }
                Receiving { receive, state: State::Idle(self) }
            }
        }
    };
}

streams! {
    Stage<Default>:
    /// Turns the stage into a `Stream` of its items, taken as [`recv`](Self::recv) does, for any
    /// executor.
}
streams! {
    Reader<Clone>:
    /// Turns the reader into a `Stream` of clones of the items, for any executor.
}
