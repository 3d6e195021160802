//! The traits of tokio.

use super::{Guarded, Interrupt, adapt};
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

adapt! {
    Guarded,
    /// With the feature `tokio`.
    AsyncRead { poll_read(&mut ReadBuf<'_>) -> () }
    /// With the feature `tokio`.
    AsyncBufRead
    /// With the feature `tokio`.
    AsyncWrite { poll_shutdown, is_write_vectored }
}

adapt! {
    Interrupt,
    /// With the feature `tokio`. After the stop there is nothing to read, and a waiting read is
    /// woken.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    /// use tokio::io::AsyncReadExt;
    ///
    /// let swansong = Swansong::new();
    /// let mut reader = swansong.interrupt(&b"some bytes"[..]);
    /// cygnet::wait(async {
    ///     let mut buf = [0; 4];
    ///     assert_eq!(reader.read(&mut buf).await?, 4);
    ///     swansong.shut_down();
    ///     assert_eq!(reader.read(&mut buf).await?, 0);
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    AsyncRead { poll_read(&mut ReadBuf<'_>) -> () }
    /// With the feature `tokio`. After the stop the buffer is empty, even if the value has buffered
    /// bytes, and a waiting read is woken.
    AsyncBufRead
    /// With the feature `tokio`. After the stop nothing is written, and a waiting write is woken.
    /// Flushing and shutting down are passed on even then.
    AsyncWrite { poll_shutdown, is_write_vectored }
}
