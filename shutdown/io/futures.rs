//! The traits of futures-io.

use super::{Guarded, Interrupt, adapt};
use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite, IoSlice, IoSliceMut, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

adapt! {
    Guarded,
    /// With the feature `futures-io`.
    AsyncRead { poll_read(&mut [u8]) -> usize, poll_read_vectored(&mut [IoSliceMut<'_>]) -> usize }
    /// With the feature `futures-io`.
    AsyncBufRead
    /// With the feature `futures-io`.
    AsyncWrite { poll_close }
}

adapt! {
    Interrupt,
    /// With the feature `futures-io`. After the stop there is nothing to read, and a waiting read
    /// is woken.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    /// use futures_io::AsyncRead;
    /// use std::future::poll_fn;
    /// use std::pin::Pin;
    ///
    /// let swansong = Swansong::new();
    /// let mut reader = swansong.interrupt(&b"some bytes"[..]);
    /// let mut buf = [0; 4];
    /// let mut read = || cygnet::wait(poll_fn(|cx| Pin::new(&mut reader).poll_read(cx, &mut buf)));
    /// assert_eq!(read()??, 4);
    /// swansong.shut_down();
    /// assert_eq!(read()??, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    AsyncRead { poll_read(&mut [u8]) -> usize, poll_read_vectored(&mut [IoSliceMut<'_>]) -> usize }
    /// With the feature `futures-io`. After the stop the buffer is empty, even if the value has
    /// buffered bytes, and a waiting read is woken.
    AsyncBufRead
    /// With the feature `futures-io`. After the stop nothing is written, and a waiting write is
    /// woken. Flushing and closing are passed on even then.
    AsyncWrite { poll_close }
}
