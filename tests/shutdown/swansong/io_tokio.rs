//! Reading and writing by the traits of tokio.

use super::{Wakes, of_each_kind};
use crate::common::{watchdog, within};
use cygnet::shutdown::ShutdownState::Complete;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf, duplex,
};

/// Runs a future on a runtime of tokio's, within the watchdog's time.
fn on_tokio<F: Future<Output: Send>>(future: impl FnOnce() -> F + Send) -> F::Output {
    watchdog::within_seconds(60, || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(future())
    })
}

#[test]
fn s3_2_a_guarded_tokio_stream_passes_through() {
    crate::common::real!("a foreign executor with threads of its own");
    on_tokio(|| async {
        let swansong = cygnet::shutdown::Swansong::new();
        let (here, there) = duplex(16);
        let (mut here, mut there) =
            (swansong.guarded(BufReader::new(here)), swansong.guarded(there));
        swansong.shut_down();
        there.write_all(b"one\ntwo\n").await.unwrap();
        there.flush().await.unwrap();
        let mut line = String::new();
        here.read_line(&mut line).await.unwrap();
        assert_eq!(line, "one\n");
        let mut rest = [0; 4];
        here.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"two\n");
        assert_eq!(there.is_write_vectored(), there.into_inner().is_write_vectored());
        assert_eq!(here.read(&mut rest).await.unwrap(), 0);
        here.shutdown().await.unwrap();
        assert_eq!(swansong.guard_count(), 1);
    });
}

#[test]
fn s3_2_an_interrupted_tokio_stream_reads_its_end_and_writes_nothing_after_the_stop() {
    crate::common::real!("a foreign executor with threads of its own");
    on_tokio(|| async {
        let swansong = cygnet::shutdown::Swansong::new();
        let (here, mut there) = duplex(16);
        let mut here = swansong.interrupt(here);
        there.write_all(b"abcdef").await.unwrap();
        let mut two = [0; 2];
        here.read_exact(&mut two).await.unwrap();
        here.write_all(b"answer").await.unwrap();
        swansong.shut_down();
        assert_eq!(here.read(&mut two).await.unwrap(), 0);
        assert_eq!(here.write(b"more").await.unwrap(), 0);
        assert_eq!(here.write_vectored(&[std::io::IoSlice::new(b"more")]).await.unwrap(), 0);
        assert_eq!(here.write_all(b"more").await.unwrap_err().kind(), ErrorKind::WriteZero);
        // What has been written can be brought to its end.
        here.flush().await.unwrap();
        here.shutdown().await.unwrap();
        let mut answer = String::new();
        there.read_to_string(&mut answer).await.unwrap();
        assert_eq!((&answer[..], &two), ("answer", b"ab"));
        // What was not read is there still.
        let mut rest = [0; 4];
        here.into_inner().read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"cdef");
    });
}

#[test]
fn corrected_tokio_calls_that_wait_are_woken_by_the_stop() {
    of_each_kind(|swansong| {
        let ((reader, _to), (mut full, _from)) = (duplex(1), duplex(1));
        let (reads, waker) = Wakes::waker();
        let mut read = Context::from_waker(&waker);
        let (writes, waker) = Wakes::waker();
        let mut write = Context::from_waker(&waker);
        assert!(Pin::new(&mut full).poll_write(&mut write, b"a").is_ready());
        let (mut reader, mut writer) = (swansong.interrupt(reader), swansong.interrupt(full));
        let (mut reader, mut writer) = (Pin::new(&mut reader), Pin::new(&mut writer));
        let mut buffer = [0; 2];
        let mut buffer = ReadBuf::new(&mut buffer);
        assert!(reader.as_mut().poll_read(&mut read, &mut buffer).is_pending());
        assert!(writer.as_mut().poll_write(&mut write, b"b").is_pending());
        assert_eq!((reads.get(), writes.get()), (0, 0));
        swansong.shut_down();
        assert_eq!((reads.get(), writes.get()), (1, 1));
        assert!(matches!(reader.poll_read(&mut read, &mut buffer), Poll::Ready(Ok(()))));
        assert!(matches!(writer.poll_write(&mut write, b"b"), Poll::Ready(Ok(0))));
        assert!(buffer.filled().is_empty());
    });
}

/// A connection that says nothing, on a real executor: its reader ends with the stop, and so does the whole.
#[test]
fn an_idle_tokio_connection_ends_at_the_stop() {
    crate::common::real!("a foreign executor with threads of its own");
    within(|| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let server = cygnet::shutdown::Swansong::new();
            let (mut connections, mut clients) = (Vec::new(), Vec::new());
            let idle = Arc::new(AtomicUsize::new(0));
            for _ in 0..10 {
                let (here, there) = duplex(16);
                let mut here = server.child().interrupt(here).guarded();
                let idle = idle.clone();
                clients.push(there);
                connections.push(tokio::spawn(async move {
                    let mut asked = Vec::new();
                    let mut reads = pin!(here.read_to_end(&mut asked));
                    let counted = poll_fn(|cx| {
                        let polled = reads.as_mut().poll(cx);
                        idle.fetch_add(usize::from(polled.is_pending()), Ordering::Release);
                        polled
                    });
                    counted.await.unwrap();
                    asked
                }));
            }
            while idle.load(Ordering::Acquire) < 10 {
                tokio::task::yield_now().await;
            }
            clients[3].write_all(b"half of a reque").await.unwrap();
            server.shut_down().await;
            assert_eq!(server.state(), Complete);
            for connection in connections {
                assert!(connection.await.unwrap().len() <= 15);
            }
            drop(clients);
        });
    });
}
