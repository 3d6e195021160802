//! Graceful shutdown, statement by statement: docs/shutdown.md has the table.

mod collecting;
mod corrected;
mod dropping;
mod everywhere;
#[cfg(feature = "futures-io")]
mod io_futures;
mod io_std;
#[cfg(feature = "tokio")]
mod io_tokio;
mod large;
mod lifetime;
mod model;
mod operations;
mod ours;
mod racing;
mod random;
mod reentrant;
mod sets;
mod states;
mod tasks;
mod tree;
mod wrappers;

use crate::common;
use cygnet::shutdown::{ShutdownCompletion, ShutdownState, Swansong};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Counts its calls, and unparks the thread that has made it.
struct Wakes {
    thread: common::thread::Thread,
    count: AtomicUsize,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::Release);
        self.thread.unpark();
    }
}

impl Wakes {
    fn waker() -> (Arc<Wakes>, Waker) {
        let thread = common::thread::current();
        let wakes = Arc::new(Wakes { thread, count: AtomicUsize::new(0) });
        (Arc::clone(&wakes), Waker::from(wakes))
    }

    fn get(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

/// The smallest executor: a thread that polls one future and parks in between.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (_, waker) = Wakes::waker();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => common::thread::park(),
        }
    }
}

/// What a future says at once.
fn now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A future with a waker of its own, which counts.
struct Watched<F> {
    future: F,
    wakes: Arc<Wakes>,
    waker: Waker,
}

impl<F: Future + Unpin> Watched<F> {
    fn new(future: F) -> Watched<F> {
        let (wakes, waker) = Wakes::waker();
        Watched { future, wakes, waker }
    }

    fn poll(&mut self) -> Option<F::Output> {
        match Pin::new(&mut self.future).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.wakes.get() > 0
    }
}

/// Shows a behaviour with a root, with a child of a root that runs, and with one whose parent has no handle.
fn of_each_kind(show: impl Fn(Swansong)) {
    show(Swansong::new());
    let root = Swansong::new();
    show(root.child());
    show(root.child().child());
    assert_eq!((root.state(), root.guard_count()), (ShutdownState::Running, 0));
}

/// The completion of a Swansong that is not stopped by this.
fn completion_of(swansong: &Swansong) -> ShutdownCompletion {
    swansong.clone().into_future()
}

/// Whether it has been stopped.
fn is_stopped(swansong: &Swansong) -> bool {
    !swansong.state().is_running()
}

/// Lets threads begin together.
struct Start(AtomicUsize);

impl Start {
    fn of(threads: usize) -> Start {
        Start(AtomicUsize::new(threads))
    }

    fn wait(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        let mut turns = 0u32;
        while self.0.load(Ordering::Acquire) > 0 {
            turns += 1;
            // With fewer cores than threads, the others need this one.
            if turns.is_multiple_of(64) {
                common::thread::yield_now();
            }
            common::spin_loop();
        }
    }
}

/// The document and the tests name each other.
#[test]
fn the_document_names_all_of_them_and_no_other() {
    macro_rules! sources {
        ($($file:literal)*) => { [$(($file, include_str!($file))),*] };
    }
    let sources = sources![
        "collecting.rs" "corrected.rs" "dropping.rs" "everywhere.rs" "io_futures.rs" "io_std.rs" "io_tokio.rs"
        "large.rs" "lifetime.rs" "operations.rs" "ours.rs" "racing.rs" "random.rs" "reentrant.rs" "sets.rs" "states.rs" "tasks.rs"
        "tree.rs" "wrappers.rs"
    ];
    let mut tests = std::collections::BTreeSet::new();
    for (file, source) in sources {
        let after = source.split("#[test]\n").skip(1);
        let names = after.map(|rest| rest.split_once("fn ").unwrap().1.split('(').next().unwrap());
        tests.extend(names.map(|name| (file, name)));
    }
    let document = include_str!("../../../docs/shutdown.md");
    let mut named = Vec::new();
    for row in document.lines().filter(|line| line.starts_with("| ")) {
        // A row: what is said, the test, its file, what is different here.
        let cells: Vec<_> = row.split(" | ").collect();
        if let Some(name) = cells.get(1).and_then(|cell| cell.strip_prefix('`')) {
            let file = cells[2].trim_start_matches('[').split(']').next().unwrap();
            named.push((file, name.trim_end_matches('`')));
        }
    }
    let rows = named.len();
    assert_eq!(named.into_iter().collect::<std::collections::BTreeSet<_>>(), tests);
    assert_eq!(rows, tests.len(), "a test is named twice");
    for section in ["s2_", "s3_1_", "s3_2_", "s3_3_", "s3_4_", "s3_5_"] {
        assert!(tests.iter().any(|(_, name)| name.starts_with(section)), "{section}");
    }
    for section in 1..=9 {
        let section = format!("s5_{section}_");
        assert!(tests.iter().any(|(_, name)| name.starts_with(&section)), "{section}");
    }
}
