//! Cygnet beside a real async runtime, with real I/O on the loopback interface: tasks that call
//! async code, and async code that has cygnet compute for it.

// ThreadSanitizer reports a race inside of tokio: it does not see the order that the kernel keeps
// between a descriptor's registration and its events.
#![cfg(not(cygnet_tsan))]

mod common;

use common::prelude::*;
use cygnet::sync::{Mutex, Semaphore};
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};

fn tokio_runtime() -> tokio::runtime::Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Answers each line with its length.
async fn measure_lines(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let (from, mut to) = stream.into_split();
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                to.write_all(format!("{}\n", line.len()).as_bytes()).await.unwrap();
            }
        });
    }
}

async fn ask(address: SocketAddr, line: String) -> std::io::Result<usize> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.write_all(line.as_bytes()).await?;
    stream.write_all(b"\n").await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    Ok(answer.trim().parse().unwrap())
}

#[test]
fn a_task_calls_an_async_client_from_deep_inside() {
    /// Not async, and called at any depth.
    fn length_of(line: &str, address: SocketAddr, handle: &Handle) -> usize {
        let asked = ask(address, line.to_owned());
        wait_in(|| handle.enter(), asked).unwrap().unwrap()
    }
    with_each(|rt| {
        let theirs = tokio_runtime();
        let listener = theirs.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let server = theirs.spawn(measure_lines(listener));
        let sum: usize = scope_on(rt, |s| {
            let tasks: Vec<_> = (0..20)
                .map(|i| {
                    let handle = theirs.handle();
                    s.spawn(move || {
                        let line = "x".repeat(i);
                        // Polled here, and by a task of tokio, which is waited for.
                        let here = length_of(&line, address, handle);
                        let there = wait(handle.spawn(ask(address, line))).unwrap();
                        assert_eq!(here, there.unwrap().unwrap());
                        here
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum()
        });
        assert_eq!(sum, 19 * 20 / 2);
        server.abort();
    });
}

/// How many jobs have begun, and how many were cancelled after that.
#[derive(Default)]
struct Jobs {
    begun: AtomicUsize,
    cancelled: AtomicUsize,
}

/// Computes until it is cancelled, or for `steps` steps.
fn compute(steps: u64, jobs: &Jobs) -> u64 {
    jobs.begun.fetch_add(1, Ordering::Release);
    let mut sum = 0u64;
    for step in 0..steps {
        if cygnet::checkpoint().is_err() {
            jobs.cancelled.fetch_add(1, Ordering::Release);
            break;
        }
        sum = sum.wrapping_mul(31).wrapping_add(step);
    }
    sum
}

/// Reads a number, has that many steps computed, and answers; if the client goes the job is
/// dropped, and so cancelled.
async fn serve(listener: TcpListener, compute_on: cygnet::Handle, jobs: Arc<Jobs>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let (compute_on, jobs) = (compute_on.clone(), Arc::clone(&jobs));
        tokio::spawn(async move {
            let steps = stream.read_u64().await.unwrap();
            let job = compute_on.spawn(move || compute(steps, &jobs)).unwrap();
            let mut end = [0];
            tokio::select! {
                sum = job => stream.write_u64(sum.unwrap()).await.unwrap(),
                _ = stream.read(&mut end) => {}
            }
        });
    }
}

#[test]
fn an_async_server_computes_in_tasks_and_a_client_that_goes_cancels_its_job() {
    within(|| {
        let (ours, theirs) = (runtime(2), tokio_runtime());
        let jobs = Arc::new(Jobs::default());
        let listener = theirs.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let expected = ours.block_on(|| compute(1_000, &Jobs::default()));
        theirs.spawn(serve(listener, ours.handle(), Arc::clone(&jobs)));
        theirs.block_on(async {
            let ask = |steps: u64| async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_u64(steps).await.unwrap();
                stream
            };
            // Two clients ask for endless jobs, and go.
            let endless = [ask(u64::MAX).await, ask(u64::MAX).await];
            while jobs.begun.load(Ordering::Acquire) < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(endless);
            for _ in 0..10 {
                assert_eq!(ask(1_000).await.read_u64().await.unwrap(), expected);
            }
        });
        eventually("both have been cancelled", || jobs.cancelled.load(Ordering::Acquire) == 2);
        theirs.shutdown_background();
    });
}

#[test]
fn tokio_tasks_cygnet_tasks_and_threads_share_primitives() {
    with_each(|rt| {
        let theirs = tokio_runtime();
        let shared = Arc::new((Mutex::new(0), Semaphore::new(2), Event::new()));
        let count = 200;
        let visit_async = |shared: Arc<(Mutex<i32>, Semaphore, Event)>| async move {
            shared.2.wait_async().await.unwrap();
            for _ in 0..count {
                let _permit = shared.1.acquire_async(1).await.unwrap();
                *shared.0.lock_async().await += 1;
            }
        };
        let asynchronous = [(); 4].map(|()| theirs.spawn(visit_async(shared.clone())));
        let ours = shared.clone();
        let visit = move || {
            ours.2.wait().unwrap();
            for _ in 0..count {
                let _permit = ours.1.acquire().unwrap();
                *ours.0.lock().unwrap() += 1;
            }
        };
        let tasks = [(); 4].map(|()| rt.spawn(visit.clone()));
        let thread = std::thread::spawn(visit);
        shared.2.set();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        thread.join().unwrap();
        asynchronous.into_iter().for_each(|task| theirs.block_on(task).unwrap());
        assert_eq!(*shared.0.lock().unwrap(), 9 * count);
        assert_eq!(shared.1.available_permits(), 2);
    });
}

#[test]
fn tokio_tasks_wait_by_the_clock_of_cygnet() {
    with_each(|rt| {
        let (handle, short, long) =
            (rt.handle(), Duration::from_millis(1), Duration::from_secs(3600));
        // This runtime of tokio has no clock of its own.
        let theirs = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        theirs.block_on(async {
            let mut ticks = handle.interval(short);
            let first = ticks.tick_async().await.unwrap();
            assert_eq!(ticks.tick_async().await, Ok(first + short));
            let late = handle.timeout_async(short, std::future::pending::<()>());
            assert_eq!(tokio::spawn(late).await.unwrap(), Err(TimeoutError::Elapsed));
            tokio::select! {
                _ = handle.sleep_async(long) => panic!("an hour has passed"),
                slept = tokio::spawn(handle.sleep_async(short)) => slept.unwrap().unwrap(),
            }
        });
        assert_eq!(rt.metrics().timers(), 0);
    });
}
