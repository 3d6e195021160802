//! Guarded and interrupted readers and writers.
//!
//! Both adaptors pass calls on to the value by the same functions, which differ in what the stop
//! does: `poll_read_value` and `poll_write_value` of an [`Interrupt`] look at it, those of a
//! [`Guarded`] do not. `pinned` gives access to the value regardless of the stop.

mod blocking;
#[cfg(feature = "futures-io")]
mod futures;
#[cfg(all(feature = "tokio", not(loom)))]
mod tokio;

use super::{Guarded, Interrupt};

/// Implements asynchronous traits for an adaptor. They have the same names in futures-io and in
/// tokio, and differ in what they read into, in the name of the close, and in methods of their own.
#[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
macro_rules! adapt {
    (
        $adaptor:ident,
        $(#[$read:meta])*
        AsyncRead { $($poll_read:ident($buf:ty) -> $bytes:ty),+ }
        $(#[$buf_read:meta])*
        AsyncBufRead
        $(#[$write:meta])*
        AsyncWrite { $close:ident $(, $is_vectored:ident)? }
    ) => {
        $(#[$read])*
        impl<T: AsyncRead> AsyncRead for $adaptor<T> {
            $(
                #[inline]
                fn $poll_read(
                    self: Pin<&mut Self>,
                    cx: &mut Context<'_>,
                    buf: $buf,
                ) -> Poll<Result<$bytes>> {
                    self.poll_read_value(cx, |value, cx| value.$poll_read(cx, buf))
                }
            )+
        }

        $(#[$buf_read])*
        impl<T: AsyncBufRead> AsyncBufRead for $adaptor<T> {
            #[inline]
            fn poll_fill_buf(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<Result<&[u8]>> {
                self.poll_read_value(cx, |value, cx| value.poll_fill_buf(cx))
            }

            fn consume(self: Pin<&mut Self>, amount: usize) {
                self.pinned().consume(amount);
            }
        }

        $(#[$write])*
        impl<T: AsyncWrite> AsyncWrite for $adaptor<T> {
            #[inline]
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<Result<usize>> {
                self.poll_write_value(cx, |value, cx| value.poll_write(cx, buf))
            }

            #[inline]
            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<Result<usize>> {
                self.poll_write_value(cx, |value, cx| value.poll_write_vectored(cx, bufs))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                self.pinned().poll_flush(cx)
            }

            fn $close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                self.pinned().$close(cx)
            }

            $(
                fn $is_vectored(&self) -> bool {
                    self.value.$is_vectored()
                }
            )?
        }
    };
}

#[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
use adapt;
