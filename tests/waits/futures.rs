//! A task as a future: polled by any executor, joined or dropped between polls, woken by its end.

use crate::common::Mutex;
use crate::common::mpsc::{Sender, channel};
use crate::common::rerun::alone;
use crate::common::{
    self, eventually, panic_of, parks, scaled, scaled_in_debug, text, with, with_each,
    with_each_and_many,
};
use cygnet::sync::Event;
use cygnet::{Runtime, Task, TaskId, park, scope, spawn, spawn_migratable, unparker, yield_now};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

mod executor {
    //! The smallest executor: a thread that polls one future and parks in between.

    use crate::common::thread;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    pub(super) struct Unpark {
        thread: thread::Thread,
        pub(super) wakes: AtomicUsize,
    }

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            self.thread.unpark();
        }
    }

    pub(super) fn waker() -> (Arc<Unpark>, Waker) {
        let unpark = Arc::new(Unpark { thread: thread::current(), wakes: AtomicUsize::new(0) });
        (unpark.clone(), Waker::from(unpark))
    }

    pub(super) fn run<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        let (_, waker) = waker();
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
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
    with_each(|rt| {
        let (_, waker) = executor::waker();
        let mut cx = Context::from_waker(&waker);
        let (open, gate) = channel::<()>();
        let mut joined = rt.spawn(move || cygnet::blocking(move || gate.recv().unwrap()));
        assert!(Pin::new(&mut joined).poll(&mut cx).is_pending());
        open.send(()).unwrap();
        joined.join().unwrap();

        let before = parks(rt);
        let (told, outcome) = channel();
        let mut dropped = rt.spawn(move || told.send(park().is_err()).unwrap());
        eventually("it is parked", || {
            assert!(Pin::new(&mut dropped).poll(&mut cx).is_pending());
            parks(rt) > before
        });
        drop(dropped);
        assert!(outcome.recv().unwrap());
    });
}

/// What a waker finds where it is called.
struct Asks(Mutex<Option<(Option<TaskId>, String)>>);

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        let said = panic_of(|| spawn(|| ()).detach());
        *self.0.lock().unwrap() = Some((cygnet::current_id(), said));
    }
}

#[test]
fn a_waker_is_called_in_the_name_of_no_task() {
    with_each(|rt| {
        // A task that waits while the other ends on the same worker: it must not be taken for the caller.
        let (tell, told) = channel();
        let bystander = rt.spawn(move || {
            tell.send(unparker()).unwrap();
            park().unwrap();
        });
        let unparker = told.recv().unwrap();
        eventually("it is parked", || parks(rt) == 1);
        for waits in [false, true] {
            let open = Arc::new(AtomicBool::new(false));
            let mut task = rt.spawn({
                let open = open.clone();
                move || {
                    while !open.load(Ordering::Acquire) {
                        if waits {
                            yield_now().unwrap();
                        }
                        common::thread::yield_now();
                    }
                }
            });
            let asks = Arc::new(Asks(Mutex::new(None)));
            let waker = Waker::from(asks.clone());
            assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
            open.store(true, Ordering::Release);
            eventually("the waker is called", || asks.0.lock().unwrap().is_some());
            let (id, said) = asks.0.lock().unwrap().take().unwrap();
            assert_eq!(id, None, "the bystander is {:?}", bystander.id());
            assert!(said.contains("outside a task"), "{said}");
            task.join().unwrap();
        }
        unparker.unpark();
        bystander.join().unwrap();
    });
}

/// Nor in that of the task which calls it.
#[test]
fn a_waker_that_a_task_calls_is_not_called_in_its_name() {
    let nobody = |asks: &Asks| {
        let (id, said) = asks.0.lock().unwrap().take().expect("it is called");
        assert!(id.is_none() && said.contains("outside a task"), "{id:?}: {said}");
    };
    with_each(|rt| {
        rt.block_on(|| {
            let asks = Arc::new(Asks(Mutex::new(None)));
            let waker = Waker::from(asks.clone());
            let mut context = Context::from_waker(&waker);
            // By the end of a task, which is called in place or has been by another worker.
            let (task, pending) = scope(|_| {
                let mut task = spawn(|| ());
                let pending = Pin::new(&mut task).poll(&mut context).is_pending();
                (task, pending)
            });
            if pending {
                nobody(&asks);
                task.join().unwrap();
            }
            // By a primitive, and by a cancel.
            let event = Event::new();
            let mut waits = Box::pin(event.wait_async());
            assert!(waits.as_mut().poll(&mut context).is_pending());
            event.set();
            nobody(&asks);
            let handle = cygnet::cancel_handle();
            let mut watched = handle.cancelled_async();
            assert!(Pin::new(&mut watched).poll(&mut context).is_pending());
            handle.cancel("enough");
            nobody(&asks);
            assert!(cygnet::current_id().is_some(), "and the task is itself again");
        });
    });
}

#[test]
fn the_waker_of_a_poll_is_dropped_when_its_task_is_joined_in_place() {
    with_each(|rt| {
        let (counted, waker) = executor::waker();
        rt.block_on(|| {
            let mut task = spawn(|| 1);
            match Pin::new(&mut task).poll(&mut Context::from_waker(&waker)) {
                // With one worker nobody else can have started it.
                Poll::Pending => assert_eq!(task.join().unwrap(), 1),
                Poll::Ready(value) => assert_eq!((value.unwrap(), rt.workers() > 1), (1, true)),
            }
        });
        drop(waker);
        // One that was called may be dropped a moment later than what it has announced.
        eventually("nobody holds the waker", || Arc::strong_count(&counted) == 1);
    });
}

/// Panics when it is woken and when it is dropped.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("the wake of a waker");
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        // After a wake it is dropped by the unwinding of that panic.
        if !std::thread::panicking() {
            panic!("the drop of a waker");
        }
    }
}

#[test]
fn a_waker_that_panics_when_it_is_woken_or_dropped_harms_nobody() {
    with_each(|rt| {
        // A started task that ends when told, polled once with the only reference to such a waker.
        let polled = || {
            let (open, gate) = channel::<()>();
            let before = parks(rt);
            let mut task = rt.spawn(move || cygnet::blocking(move || gate.recv().is_ok()));
            eventually("it waits", || parks(rt) > before);
            {
                // Leaves the registered clone as the last.
                let waker = std::mem::ManuallyDrop::new(Waker::from(Arc::new(Bomb)));
                let mut cx = Context::from_waker(&waker);
                assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
                // SAFETY: a reference is given up that nobody uses after this.
                unsafe { Arc::decrement_strong_count(waker.data().cast::<Bomb>()) };
            }
            (open, task)
        };
        let end_of = |(open, task): (Sender<()>, Task<bool>)| {
            open.send(()).unwrap();
            assert!(task.join().unwrap());
        };
        // Woken, by the end.
        let (open, task) = polled();
        open.send(()).unwrap();
        eventually("it has ended", || task.is_finished());
        assert!(task.join().unwrap());
        // Replaced by a poll with another.
        let (open, mut task) = polled();
        let (counted, waker) = executor::waker();
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
        open.send(()).unwrap();
        eventually("the other is woken", || counted.wakes.load(Ordering::Relaxed) == 1);
        assert!(task.join().unwrap());
        // Replaced by a join, of a thread and of a task.
        end_of(polled());
        let (open, task) = polled();
        let before = parks(rt);
        let joining = rt.spawn(move || task.join().unwrap());
        eventually("it waits", || parks(rt) > before);
        open.send(()).unwrap();
        assert!(joining.join().unwrap());
        // Dropped with the handle.
        let (open, task) = polled();
        task.detach();
        open.send(()).unwrap();
    });
}

/// A waker that ends one task and waits for another when it is dropped.
struct Waits {
    open: Sender<()>,
    other: Mutex<Option<Task<u64>>>,
    opened: Arc<AtomicBool>,
    waited: Arc<Mutex<Option<String>>>,
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Waits {
    fn drop(&mut self) {
        let other = self.other.get_mut().unwrap().take().unwrap();
        self.open.send(()).unwrap();
        self.opened.store(true, Ordering::Release);
        let waited = match std::panic::catch_unwind(|| other.join()) {
            Ok(Ok(7)) | Err(_) => "for the other's end, or refused".to_owned(),
            Ok(outcome) => format!("{outcome:?}, before the other's end"),
        };
        *self.waited.lock().unwrap() = Some(waited);
    }
}

/// Joins a task, by `join`, that was polled before with a waker which, when it is dropped for that, ends
/// the task and waits for the end of another.
fn join_that_drops_a_waker_that_waits(rt: &Runtime, joiners: u64, join: fn(&Runtime, Task<bool>)) {
    for _ in 0..scaled(20) {
        let gated = || {
            let (open, gate) = channel::<()>();
            (open, rt.spawn(move || cygnet::blocking(move || gate.recv().is_ok())))
        };
        let before = parks(rt);
        let ((open, mut task), (open_other, gate)) = (gated(), channel::<()>());
        let other = rt.spawn(move || {
            cygnet::blocking(move || gate.recv().unwrap());
            7
        });
        eventually("both wait", || parks(rt) == before + 2);
        let (opened, waited) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let waker = Waker::from(Arc::new(Waits {
            open,
            other: Mutex::new(Some(other)),
            opened: opened.clone(),
            waited: waited.clone(),
        }));
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        common::thread::scope(|threads| {
            threads.spawn(|| join(rt, task));
            eventually("the task has ended while its waker waits", || {
                let left: u64 = rt.metrics().workers.iter().map(|w| w.coroutines).sum();
                opened.load(Ordering::Acquire) && left == 1 + joiners
                    || waited.lock().unwrap().is_some()
            });
            open_other.send(()).unwrap();
        });
        let waited = waited.lock().unwrap().take();
        assert_eq!(waited.as_deref(), Some("for the other's end, or refused"));
    }
}

#[test]
fn the_end_of_a_task_that_a_task_joins_does_not_end_a_wait_of_an_earlier_waker_s_destructor() {
    common::real!("a process of its own");
    alone(
        "futures::the_end_of_a_task_that_a_task_joins_does_not_end_a_wait_of_an_earlier_waker_s_destructor",
        || {
            with_each(|rt| {
                join_that_drops_a_waker_that_waits(rt, 1, |rt, task| {
                    assert!(rt.spawn(move || task.join().unwrap()).join().unwrap());
                });
            });
        },
    );
}

#[test]
fn the_end_of_a_task_that_a_thread_joins_does_not_end_a_wait_of_an_earlier_waker_s_destructor() {
    common::real!("a process of its own");
    alone(
        "futures::the_end_of_a_task_that_a_thread_joins_does_not_end_a_wait_of_an_earlier_waker_s_destructor",
        || {
            with_each(|rt| {
                join_that_drops_a_waker_that_waits(rt, 0, |_, task| assert!(task.join().unwrap()));
            });
        },
    );
}

/// A waker whose destructor waits, so that a migratable task may go on elsewhere.
struct Moves;

impl Wake for Moves {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Moves {
    fn drop(&mut self) {
        for _ in 0..20 {
            let me = unparker();
            spawn(move || me.unpark()).detach();
            let _ = park();
        }
    }
}

#[test]
fn a_migratable_task_may_move_while_its_join_in_place_drops_an_earlier_waker() {
    common::real!("a process of its own");
    fn poll_and_join(n: u64) -> u64 {
        let mut task = spawn(move || vec![n; 4]);
        let waker = Waker::from(Arc::new(Moves));
        let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
        drop(waker);
        match polled {
            Poll::Ready(numbers) => numbers.unwrap()[3],
            Poll::Pending => task.join().unwrap()[3],
        }
    }
    let name = "futures::a_migratable_task_may_move_while_its_join_in_place_drops_an_earlier_waker";
    alone(name, || {
        with(&[2, 3, 8], |rt| {
            for _ in 0..scaled_in_debug(500) {
                rt.block_on(|| {
                    let body = || (0..10).map(poll_and_join).sum::<u64>();
                    // SAFETY: it holds handles and numbers over its suspensions.
                    let tasks: Vec<_> =
                        (0..50).map(|_| unsafe { spawn_migratable(body) }).collect();
                    tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), 45));
                });
            }
        });
    });
}
