use super::{Interrupt, poll_until_stop};
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

/// With the feature `tokio`. After the stop there is nothing to read, and a waiting read is woken.
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
impl<T: AsyncRead> AsyncRead for Interrupt<T> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let (value, stop) = self.parts();
        let read = poll_until_stop(stop, cx, |cx| value.poll_read(cx, buf));
        read.map(|read| read.unwrap_or(Ok(())))
    }
}

/// With the feature `tokio`. After the stop the buffer is empty, even if the value has buffered
/// bytes, and a waiting read is woken.
impl<T: AsyncBufRead> AsyncBufRead for Interrupt<T> {
    #[inline]
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<&[u8]>> {
        let (value, stop) = self.parts();
        let filled = poll_until_stop(stop, cx, |cx| value.poll_fill_buf(cx));
        filled.map(|filled| filled.unwrap_or(Ok(&[])))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.parts().0.consume(amount);
    }
}

/// With the feature `tokio`. After the stop nothing is written, and a waiting write is woken.
/// Flushing and shutting down are passed on even then.
impl<T: AsyncWrite> AsyncWrite for Interrupt<T> {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        self.poll_write_until_stop(cx, |value, cx| value.poll_write(cx, buf))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.poll_write_until_stop(cx, |value, cx| value.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.value.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.parts().0.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.parts().0.poll_shutdown(cx)
    }
}
