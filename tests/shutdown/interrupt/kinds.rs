//! One call of each kind, in one form, so that tests show each behaviour of all kinds.

use super::values::Value;
use crate::common::prelude::*;
use cygnet::shutdown::{Guarded, Interrupt};

/// The result of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Given {
    /// The result of the value.
    Value,
    /// The end after a stop.
    End,
}

/// A call of an interrupted value, and the same call of a guarded value.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) of_interrupt: fn(Pin<&mut Interrupt<Value>>, &mut Context<'_>) -> Poll<Given>,
    pub(crate) of_guarded: fn(Pin<&mut Guarded<Value>>, &mut Context<'_>) -> Poll<Given>,
}

macro_rules! kind {
    ($name:expr, |$value:ident, $cx:ident| $call:expr, $given:expr, $guarded:expr) => {
        Kind {
            name: $name,
            of_interrupt: |$value, $cx| $call.map($given),
            of_guarded: |$value, $cx| $call.map($guarded),
        }
    };
    ($name:expr, |$value:ident, $cx:ident| $call:expr, $given:expr) => {
        kind!($name, |$value, $cx| $call, $given, $given)
    };
}

pub(crate) fn kinds() -> Vec<Kind> {
    #[allow(unused_mut)] // by features
    let mut kinds = vec![kind!(
        "future",
        |value, cx| value.poll(cx),
        |output| match output {
            Some(7) => Given::Value,
            None => Given::End,
            other => panic!("{other:?}"),
        },
        |output| {
            assert_eq!(output, 7);
            Given::Value
        }
    )];
    #[cfg(feature = "futures")]
    kinds.push(kind!("stream", |value, cx| futures_core::Stream::poll_next(value, cx), |item| {
        match item {
            Some(7) => Given::Value,
            None => Given::End,
            other => panic!("{other:?}"),
        }
    }));
    #[cfg(feature = "futures-io")]
    kinds.extend(of_futures::kinds());
    #[cfg(feature = "tokio")]
    kinds.extend(of_tokio::kinds());
    kinds
}

#[cfg(any(feature = "futures-io", feature = "tokio"))]
fn read(bytes: &[u8]) -> Given {
    match bytes {
        super::values::BYTES => Given::Value,
        [] => Given::End,
        other => panic!("{other:?}"),
    }
}

#[cfg(any(feature = "futures-io", feature = "tokio"))]
fn written(result: std::io::Result<usize>, in_time: usize) -> Given {
    match result.unwrap() {
        0 => Given::End,
        count if count == in_time => Given::Value,
        other => panic!("{other}"),
    }
}

/// The calls that the traits of futures-io and of tokio have in common.
#[cfg(any(feature = "futures-io", feature = "tokio"))]
macro_rules! buffer_and_write {
    ($library:literal) => {
        [
            kind!(
                concat!("buffered read of ", $library),
                |value, cx| value.poll_fill_buf(cx),
                |bytes| read(bytes.unwrap())
            ),
            kind!(
                concat!("write of ", $library),
                |value, cx| value.poll_write(cx, b"."),
                |result| written(result, 5)
            ),
            kind!(
                concat!("vectored write of ", $library),
                |value, cx| value.poll_write_vectored(cx, &[IoSlice::new(b".")]),
                |result| written(result, 6)
            ),
        ]
    };
}

#[cfg(feature = "futures-io")]
mod of_futures {
    use super::{Kind, read, written};
    use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite, IoSlice, IoSliceMut};

    pub(super) fn kinds() -> Vec<Kind> {
        let mut kinds = vec![
            kind!(
                "read of futures-io",
                |value, cx| {
                    let mut buf = [0; 8];
                    value.poll_read(cx, &mut buf).map(|count| (count.unwrap(), buf))
                },
                |(count, buf)| read(&buf[..count])
            ),
            kind!(
                "vectored read of futures-io",
                |value, cx| {
                    let mut buf = [0; 8];
                    let bufs = &mut [IoSliceMut::new(&mut []), IoSliceMut::new(&mut buf)];
                    value.poll_read_vectored(cx, bufs).map(|count| (count.unwrap(), buf))
                },
                |(count, buf)| read(&buf[..count])
            ),
        ];
        kinds.extend(buffer_and_write!("futures-io"));
        kinds
    }
}

#[cfg(feature = "tokio")]
mod of_tokio {
    use super::{Kind, read, written};
    use std::io::IoSlice;
    use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

    pub(super) fn kinds() -> Vec<Kind> {
        let mut kinds = vec![kind!(
            "read of tokio",
            |value, cx| {
                let mut buf = [0; 8];
                let mut buf = ReadBuf::new(&mut buf);
                let polled = value.poll_read(cx, &mut buf);
                assert!(polled.is_ready() || buf.filled().is_empty());
                polled.map(|result| result.map(|()| buf.filled().to_vec()))
            },
            |bytes| read(&bytes.unwrap())
        )];
        kinds.extend(buffer_and_write!("tokio"));
        kinds
    }
}
