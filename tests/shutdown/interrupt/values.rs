//! A value that is a future, a stream, a reader and a writer, with answers that the test chooses.

use super::stop;
use crate::common::prelude::*;
use cygnet::shutdown::Swansong;
use std::fmt;
#[cfg(any(feature = "futures-io", feature = "tokio"))]
use std::io::Result;
use std::marker::PhantomPinned;

/// The action of a value when it is polled.
#[derive(Clone)]
pub(crate) enum Answer {
    Wait,
    Ready,
    Panic,
    /// Stops, and waits.
    StopAndWait(Swansong),
    /// Stops, and is ready.
    StopAndReady(Swansong),
}

/// Must be pinned, and panics if it is moved between polls.
pub(crate) struct Value {
    control: Control,
    /// The place of the first poll.
    at: usize,
    _pinned: PhantomPinned,
}

/// Chooses the action of the value, and counts its polls.
#[derive(Clone)]
pub(crate) struct Control(Arc<(Mutex<Answer>, AtomicUsize)>);

impl Control {
    pub(crate) fn set(&self, answer: Answer) {
        *self.0.0.lock().unwrap() = answer;
    }

    pub(crate) fn polls(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

#[cfg(any(feature = "futures-io", feature = "tokio"))]
pub(crate) const BYTES: &[u8] = b"bytes";

impl Value {
    pub(crate) fn new(answer: Answer) -> (Value, Control) {
        let control = Control(Arc::new((Mutex::new(answer), AtomicUsize::new(0))));
        (Value { control: control.clone(), at: 0, _pinned: PhantomPinned }, control)
    }

    fn answer(self: Pin<&mut Self>) -> Poll<()> {
        let here = std::ptr::from_ref(&*self).addr();
        // SAFETY: nothing is moved out of `this`.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.at == 0 || this.at == here, "it has been moved after it was pinned");
        this.at = here;
        this.control.0.1.fetch_add(1, Ordering::SeqCst);
        let answer = this.control.0.0.lock().unwrap().clone();
        match answer {
            Answer::Wait => Poll::Pending,
            Answer::Ready => Poll::Ready(()),
            Answer::Panic => panic!("the value's panic"),
            Answer::StopAndWait(swansong) => {
                stop(&swansong);
                Poll::Pending
            }
            Answer::StopAndReady(swansong) => {
                stop(&swansong);
                Poll::Ready(())
            }
        }
    }

    #[cfg(feature = "futures-io")]
    fn bytes(self: Pin<&mut Self>, to: &mut [u8]) -> Poll<Result<usize>> {
        self.answer().map(|()| {
            to[..BYTES.len()].copy_from_slice(BYTES);
            Ok(BYTES.len())
        })
    }

    #[cfg(any(feature = "futures-io", feature = "tokio"))]
    fn written(self: Pin<&mut Self>) -> Poll<Result<usize>> {
        self.answer().map(|()| Ok(BYTES.len()))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value")
    }
}

impl Future for Value {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        self.answer().map(|()| 7)
    }
}

#[cfg(feature = "futures")]
impl futures_core::Stream for Value {
    type Item = u32;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
        self.answer().map(|()| Some(7))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (3, Some(5))
    }
}

/// The calls that the traits of futures-io and of tokio have in common.
#[cfg(any(feature = "futures-io", feature = "tokio"))]
macro_rules! buffer_and_write {
    ($poll_close:ident $(, $more:item)?) => {
        impl AsyncBufRead for Value {
            fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<&[u8]>> {
                self.answer().map(|()| Ok(BYTES))
            }

            fn consume(self: Pin<&mut Self>, _: usize) {
                let _ = self.answer();
            }
        }

        impl AsyncWrite for Value {
            fn poll_write(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &[u8],
            ) -> Poll<Result<usize>> {
                self.written()
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                from: &[IoSlice<'_>],
            ) -> Poll<Result<usize>> {
                self.written().map_ok(|written| written + from.len())
            }

            $($more)?

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
                self.answer().map(Ok)
            }

            fn $poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
                self.answer().map(Ok)
            }
        }
    };
}

#[cfg(feature = "futures-io")]
mod of_futures {
    use super::{BYTES, Value};
    use crate::common::prelude::*;
    use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite, IoSlice, IoSliceMut, Result};

    impl AsyncRead for Value {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            to: &mut [u8],
        ) -> Poll<Result<usize>> {
            self.bytes(to)
        }

        fn poll_read_vectored(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            to: &mut [IoSliceMut<'_>],
        ) -> Poll<Result<usize>> {
            // Into the last buffer, unlike the default method.
            self.bytes(to.last_mut().unwrap())
        }
    }

    buffer_and_write!(poll_close);
}

#[cfg(feature = "tokio")]
mod of_tokio {
    use super::{BYTES, Value};
    use crate::common::prelude::*;
    use std::io::{IoSlice, Result};
    use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

    impl AsyncRead for Value {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            to: &mut ReadBuf<'_>,
        ) -> Poll<Result<()>> {
            self.answer().map(|()| {
                to.put_slice(BYTES);
                Ok(())
            })
        }
    }

    buffer_and_write!(
        poll_shutdown,
        fn is_write_vectored(&self) -> bool {
            true
        }
    );
}
