//! Reading and writing by the traits of futures-io.

use super::{Wakes, of_each_kind};
use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
use std::io::{IoSlice, IoSliceMut, Result};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What was written can be read. Without room, or with nothing to read, it waits for ever.
#[derive(Default)]
struct Loop {
    bytes: Vec<u8>,
    room: usize,
    flushes: usize,
    closes: usize,
}

fn looped(room: usize) -> Loop {
    Loop { room, ..Loop::default() }
}

impl AsyncRead for Loop {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut [u8],
    ) -> Poll<Result<usize>> {
        if self.bytes.is_empty() {
            return Poll::Pending;
        }
        let n = to.len().min(self.bytes.len());
        to[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes.drain(..n);
        Poll::Ready(Ok(n))
    }
}

impl AsyncBufRead for Loop {
    fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<&[u8]>> {
        if self.bytes.is_empty() { Poll::Pending } else { Poll::Ready(Ok(&self.get_mut().bytes)) }
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        self.bytes.drain(..n);
    }
}

impl AsyncWrite for Loop {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<Result<usize>> {
        let n = from.len().min(self.room);
        if n == 0 {
            return Poll::Pending;
        }
        self.bytes.extend(&from[..n]);
        self.room -= n;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.closes += 1;
        Poll::Ready(Ok(()))
    }
}

/// What a call says at once.
#[track_caller]
fn ready<T>(call: impl FnOnce(&mut Context<'_>) -> Poll<Result<T>>) -> T {
    match call(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.unwrap(),
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn s3_2_a_guarded_futures_io_stream_passes_through() {
    of_each_kind(|swansong| {
        let mut both = swansong.guarded(looped(10));
        swansong.shut_down();
        let mut both = Pin::new(&mut both);
        let mut two = [0; 2];
        assert_eq!(ready(|cx| both.as_mut().poll_write(cx, b"abc")), 3);
        let parts = [IoSlice::new(b""), IoSlice::new(b"d")];
        assert_eq!(ready(|cx| both.as_mut().poll_write_vectored(cx, &parts)), 1);
        assert_eq!(ready(|cx| both.as_mut().poll_read(cx, &mut two)), 2);
        let filled = ready(|cx| both.as_mut().poll_fill_buf(cx).map_ok(<[u8]>::to_vec));
        assert_eq!((two, &filled[..]), (*b"ab", &b"cd"[..]));
        both.as_mut().consume(1);
        let mut parts = [IoSliceMut::new(&mut two)];
        assert_eq!(ready(|cx| both.as_mut().poll_read_vectored(cx, &mut parts)), 1);
        ready(|cx| both.as_mut().poll_flush(cx));
        ready(|cx| both.as_mut().poll_close(cx));
        assert_eq!((both.flushes, both.closes, swansong.guard_count()), (1, 1, 1));
    });
}

#[test]
fn s3_2_an_interrupted_futures_io_stream_reads_its_end_and_writes_nothing_after_the_stop() {
    of_each_kind(|swansong| {
        let mut both = swansong.interrupt(looped(10));
        let mut both = Pin::new(&mut both);
        let mut two = [0; 2];
        assert_eq!(ready(|cx| both.as_mut().poll_write(cx, b"abcd")), 4);
        assert_eq!(ready(|cx| both.as_mut().poll_read(cx, &mut two)), 2);
        swansong.shut_down();
        assert_eq!(ready(|cx| both.as_mut().poll_read(cx, &mut two)), 0);
        let mut parts = [IoSliceMut::new(&mut two)];
        assert_eq!(ready(|cx| both.as_mut().poll_read_vectored(cx, &mut parts)), 0);
        assert_eq!(ready(|cx| both.as_mut().poll_write(cx, b"e")), 0);
        assert_eq!(ready(|cx| both.as_mut().poll_write_vectored(cx, &[IoSlice::new(b"e")])), 0);
        assert_eq!((two, &both.bytes[..]), (*b"ab", &b"cd"[..]), "what was left stays");
        // What has been written can be brought to its end.
        ready(|cx| both.as_mut().poll_flush(cx));
        ready(|cx| both.as_mut().poll_close(cx));
        assert_eq!((both.flushes, both.closes), (1, 1));
    });
}

#[test]
fn corrected_futures_io_calls_that_wait_are_woken_by_the_stop() {
    of_each_kind(|swansong| {
        let (mut reader, mut writer) =
            (swansong.interrupt(looped(0)), swansong.interrupt(looped(0)));
        let (mut reader, mut writer) = (Pin::new(&mut reader), Pin::new(&mut writer));
        let (reads, waker) = Wakes::waker();
        let mut read = Context::from_waker(&waker);
        let (writes, waker) = Wakes::waker();
        let mut write = Context::from_waker(&waker);
        let mut buffer = [0; 2];
        assert!(reader.as_mut().poll_read(&mut read, &mut buffer).is_pending());
        assert!(writer.as_mut().poll_write(&mut write, b"a").is_pending());
        assert_eq!((reads.get(), writes.get()), (0, 0));
        swansong.shut_down();
        assert_eq!((reads.get(), writes.get()), (1, 1));
        assert!(matches!(reader.poll_read(&mut read, &mut buffer), Poll::Ready(Ok(0))));
        assert!(matches!(writer.poll_write(&mut write, b"a"), Poll::Ready(Ok(0))));
        assert_eq!((reads.get(), writes.get()), (1, 1));
    });
}
