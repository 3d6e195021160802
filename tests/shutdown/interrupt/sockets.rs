//! Connections of a real async runtime, on the loopback interface.

// The sanitizer sees races inside of tokio: see tests/tokio.rs.
#![cfg(not(cygnet_tsan))]

use super::stop;
use crate::common::prelude::*;
use crate::on_tokio;
use cygnet::shutdown::Swansong;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::net::{TcpListener, TcpStream};

#[test]
fn a_connection_that_is_idle_ends_with_the_stop() {
    on_tokio(|| async {
        let swansong = Swansong::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).await.unwrap();
            // Then the client is idle until the server hangs up.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            (answer, rest)
        });
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = swansong.interrupt(stream).guarded();
        let (seen, mut seen_by) = cygnet::sync::oneshot();
        let served = tokio::spawn(async move {
            let mut buf = [0; 5];
            stream.read_exact(&mut buf).await.unwrap();
            stream.write_all(&buf).await.unwrap();
            seen.send(()).unwrap();
            let end = stream.read(&mut buf).await.unwrap();
            stream.shutdown().await.unwrap();
            end
        });
        seen_by.recv_async().await.unwrap();
        stop(&swansong);
        assert_eq!(served.await.unwrap(), 0);
        assert_eq!(client.await.unwrap(), (*b"hello", vec![]));
        assert_eq!(swansong.guard_count(), 0);
    });
}

#[test]
fn both_halves_of_a_connection_are_woken() {
    on_tokio(|| async {
        let swansong = Swansong::new();
        let (ours, theirs) = duplex(4);
        let (mut reader, mut writer) = split(swansong.interrupt(ours));
        // The other end neither writes nor reads.
        writer.write_all(b"full").await.unwrap();
        let reads = tokio::spawn(async move { reader.read(&mut [0; 4]).await.unwrap() });
        let writes = tokio::spawn(async move { writer.write(b"more").await.unwrap() });
        tokio::task::yield_now().await;
        stop(&swansong);
        assert_eq!((reads.await.unwrap(), writes.await.unwrap()), (0, 0));
        drop(theirs);
    });
}

#[test]
fn a_task_that_reads_is_woken_by_the_stop() {
    crate::common::real!("tokio's pipe calls a waker under a lock of std's");
    with_each(|rt| {
        let swansong = Swansong::new();
        let (ours, mut theirs) = duplex(4);
        let mut ours = swansong.interrupt(ours);
        let task = rt.spawn(move || {
            let mut buf = [0; 4];
            let mut sum = 0;
            loop {
                match cygnet::wait(ours.read(&mut buf)).unwrap().unwrap() {
                    0 => break sum,
                    read => sum += read,
                }
            }
        });
        cygnet::wait(theirs.write_all(b"0123456789")).unwrap().unwrap();
        // Up to four bytes may be in the pipe.
        stop(&swansong);
        let sum = task.join().unwrap();
        assert!((6..=10).contains(&sum), "{sum}");
    });
}
