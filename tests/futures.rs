//! A task as a future: polled by any executor, joined or dropped between polls, woken by its end.

mod common;

use common::{eventually, text, with_each, with_each_and_many};
use cygnet::park;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

mod executor {
    //! The smallest executor: a thread that polls one future and parks in between.

    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    pub(super) struct Unpark {
        thread: std::thread::Thread,
        pub(super) wakes: AtomicUsize,
    }

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            self.thread.unpark();
        }
    }

    pub(super) fn waker() -> (Arc<Unpark>, Waker) {
        let unpark =
            Arc::new(Unpark { thread: std::thread::current(), wakes: AtomicUsize::new(0) });
        (unpark.clone(), Waker::from(unpark))
    }

    pub(super) fn run<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        let (_, waker) = waker();
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

#[test]
fn a_task_is_a_future_for_any_executor() {
    with_each_and_many(|rt| {
        let all = async {
            let tasks: Vec<_> = (0..100u64).map(|i| rt.spawn(move || i)).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            let boom: Result<(), _> = rt.spawn(|| panic!("awaited")).await;
            (sum, text(&*boom.unwrap_err().into_panic().unwrap()).to_owned())
        };
        assert_eq!(executor::run(all), (4_950, "awaited".to_owned()));
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken_once_and_the_earlier_ones_are_not() {
    use std::pin::Pin;
    use std::task::Context;
    with_each(|rt| {
        let (open, gate) = channel::<()>();
        let mut task = rt.spawn(move || cygnet::blocking(move || gate.recv().unwrap()));
        let (first, first_waker) = executor::waker();
        let (last, last_waker) = executor::waker();
        for waker in [&first_waker, &last_waker] {
            assert!(Pin::new(&mut task).poll(&mut Context::from_waker(waker)).is_pending());
        }
        open.send(()).unwrap();
        eventually("it is woken", || last.wakes.load(Ordering::Relaxed) == 1);
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&last_waker)).is_ready());
        assert_eq!(first.wakes.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_task_that_was_polled_can_still_be_joined_and_dropped() {
    use std::pin::Pin;
    use std::task::Context;
    with_each(|rt| {
        let (_, waker) = executor::waker();
        let mut cx = Context::from_waker(&waker);
        let (open, gate) = channel::<()>();
        let mut joined = rt.spawn(move || cygnet::blocking(move || gate.recv().unwrap()));
        assert!(Pin::new(&mut joined).poll(&mut cx).is_pending());
        open.send(()).unwrap();
        joined.join().unwrap();

        let before = common::parks(rt);
        let (told, outcome) = channel();
        let mut dropped = rt.spawn(move || told.send(park().is_err()).unwrap());
        eventually("it is parked", || {
            assert!(Pin::new(&mut dropped).poll(&mut cx).is_pending());
            common::parks(rt) > before
        });
        drop(dropped);
        assert!(outcome.recv().unwrap());
    });
}
