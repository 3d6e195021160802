//! A task as a future: polled by any executor, joined or dropped between polls, woken by its end.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;
use crate::{Counting, poll};

/// A task that ends when told.
fn gated(rt: &Runtime) -> (Sender<()>, Task<bool>) {
    let (open, gate) = channel::<()>();
    (open, rt.spawn(move || blocking(move || gate.recv().is_ok())))
}

fn polled<T>(task: &mut Task<T>, waker: &Waker) {
    assert!(poll(Pin::new(task), waker).is_pending());
}

/// T37.
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
        assert_eq!(block_on(all), (4_950, "awaited".to_owned()));
    });
}

#[test]
fn the_waker_of_the_last_poll_is_woken_once_and_the_earlier_ones_are_not() {
    with_each(|rt| {
        let (open, mut task) = gated(rt);
        let (first, first_waker) = Counting::waker();
        let (last, last_waker) = Counting::waker();
        polled(&mut task, &first_waker);
        polled(&mut task, &last_waker);
        open.send(()).unwrap();
        eventually("it is woken", || last.wakes() == 1);
        assert!(poll(Pin::new(&mut task), &last_waker).is_ready());
        assert_eq!(first.wakes(), 0);
    });
}

#[test]
fn a_task_that_was_polled_can_still_be_joined_and_dropped() {
    with_each(|rt| {
        let (_, waker) = Counting::waker();
        let (open, mut joined) = gated(rt);
        polled(&mut joined, &waker);
        open.send(()).unwrap();
        assert!(joined.join().unwrap());

        let before = parks(rt);
        let (told, outcome) = channel();
        let mut dropped = rt.spawn(move || told.send(park().is_err()).unwrap());
        eventually("it is parked", || {
            polled(&mut dropped, &waker);
            parks(rt) > before
        });
        drop(dropped);
        assert!(outcome.recv().unwrap());
    });
}

/// The current task, and what a call of `spawn` says, when a waker is called.
type Asked = Arc<Mutex<Option<(Option<TaskId>, String)>>>;

fn asks() -> (Asked, Waker) {
    let asked = Asked::default();
    let told = asked.clone();
    let ask = move || {
        let said = panic_of(|| spawn(|| ()).detach());
        *told.lock().unwrap() = Some((current_id(), said));
    };
    (asked, calling(ask))
}

fn assert_called_outside_tasks(asked: &Asked) {
    let (id, said) = asked.lock().unwrap().take().expect("it is called");
    assert!(id.is_none() && said.contains("outside a task"), "{id:?}: {said}");
}

#[test]
fn a_waker_is_called_in_the_name_of_no_task() {
    with_each(|rt| {
        // A task that waits while the other ends on the same worker must not be taken for the
        // caller.
        let (bystander, unparker) = sleeper(rt);
        for waits in [false, true] {
            let open = Flag::new();
            let mut task = rt.spawn(move || {
                while !open.get() {
                    if waits {
                        yield_now().unwrap();
                    }
                    common::thread::yield_now();
                }
            });
            let (asked, waker) = asks();
            polled(&mut task, &waker);
            open.set();
            eventually("the waker is called", || asked.lock().unwrap().is_some());
            assert_called_outside_tasks(&asked);
            task.join().unwrap();
        }
        unparker.unpark();
        assert!(bystander.join().unwrap());
    });
}

#[test]
fn a_waker_that_a_task_calls_is_not_called_in_its_name() {
    in_task(|_| {
        let (asked, waker) = asks();
        // By the end of a task, which is called in place or has been by another worker.
        let (task, pending) = scope(|_| {
            let mut task = spawn(|| ());
            let pending = poll(Pin::new(&mut task), &waker).is_pending();
            (task, pending)
        });
        if pending {
            assert_called_outside_tasks(&asked);
            task.join().unwrap();
        }
        // By a primitive, and by a cancel.
        let event = Event::new();
        let mut waits = Box::pin(event.wait_async());
        assert!(poll(waits.as_mut(), &waker).is_pending());
        event.set();
        assert_called_outside_tasks(&asked);
        let handle = cygnet::cancel_handle();
        let mut watched = handle.cancelled_async();
        assert!(poll(pin!(&mut watched), &waker).is_pending());
        handle.cancel("enough");
        assert_called_outside_tasks(&asked);
        assert!(cygnet::current_id().is_some(), "and the task is itself again");
    });
}

#[test]
fn the_waker_of_a_poll_is_dropped_when_its_task_is_joined_in_place() {
    with_each(|rt| {
        let (counted, waker) = Counting::waker();
        rt.block_on(|| {
            let mut task = spawn(|| 1);
            match poll(Pin::new(&mut task), &waker) {
                // With one worker no other can have started it.
                Poll::Pending => assert_eq!(task.join().unwrap(), 1),
                Poll::Ready(value) => assert_eq!((value.unwrap(), rt.workers() > 1), (1, true)),
            }
        });
        drop(waker);
        // A waker that was called may be dropped a moment later than what it has announced.
        eventually("the waker is dropped", || Arc::strong_count(&counted) == 1);
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
fn a_waker_that_panics_when_it_is_woken_or_dropped_does_no_harm() {
    with_each(|rt| {
        // A started task that ends when told, polled once with the only reference to such a waker.
        let armed = || {
            let (open, mut task) = parking(rt, 1, || gated(rt));
            // Leaves the registered clone as the last.
            let waker = std::mem::ManuallyDrop::new(Waker::from(Arc::new(Bomb)));
            polled(&mut task, &waker);
            // SAFETY: gives up the reference of `waker`, which is not used or dropped after this.
            unsafe { Arc::decrement_strong_count(waker.data().cast::<Bomb>()) };
            (open, task)
        };
        // Woken, by the end.
        let (open, task) = armed();
        open.send(()).unwrap();
        eventually("it has ended", || task.is_finished());
        assert!(task.join().unwrap());
        // Replaced by a poll with another.
        let (open, mut task) = armed();
        let (counted, waker) = Counting::waker();
        polled(&mut task, &waker);
        open.send(()).unwrap();
        eventually("the other is woken", || counted.wakes() == 1);
        assert!(task.join().unwrap());
        // Replaced by a join, of a thread and of a task.
        let (open, task) = armed();
        open.send(()).unwrap();
        assert!(task.join().unwrap());
        let (open, task) = armed();
        let joining = parked(rt, 1, move || task.join().unwrap());
        open.send(()).unwrap();
        assert!(joining.join().unwrap());
        // Dropped with the handle.
        let (open, task) = armed();
        task.detach();
        open.send(()).unwrap();
    });
}

/// Joins a task, by `join`, that was polled before with a waker which, when it is dropped for that,
/// ends the task and waits for the end of another.
fn join_that_drops_a_waker_that_waits(rt: &Runtime, joiners: u64, join: fn(&Runtime, Task<bool>)) {
    for _ in 0..scaled(20) {
        let before = parks(rt);
        let ((open, mut task), (open_other, gate)) = (gated(rt), channel::<()>());
        let other = rt.spawn(move || {
            blocking(move || gate.recv().unwrap());
            7
        });
        eventually("both wait", || parks(rt) == before + 2);
        let (opened, waited) = (Flag::new(), Arc::new(Mutex::new(None)));
        let (mut other, tell) = (Some(other), waited.clone());
        let waker = calling_at_drop(move || {
            let other = other.take().unwrap();
            open.send(()).unwrap();
            opened.set();
            let waited = match catch_unwind(|| other.join()) {
                Ok(Ok(7)) | Err(_) => "for the other's end, or refused".to_owned(),
                Ok(outcome) => format!("{outcome:?}, before the other's end"),
            };
            *tell.lock().unwrap() = Some(waited);
        });
        polled(&mut task, &waker);
        drop(waker);
        common::thread::scope(|threads| {
            threads.spawn(|| join(rt, task));
            eventually("the task has ended while its waker waits", || {
                let left: u64 = rt.metrics().workers.iter().map(|w| w.coroutines).sum();
                opened.get() && left == 1 + joiners || waited.lock().unwrap().is_some()
            });
            open_other.send(()).unwrap();
        });
        let waited = waited.lock().unwrap().take();
        assert_eq!(waited.as_deref(), Some("for the other's end, or refused"));
    }
}

#[test]
fn the_end_of_a_joined_task_does_not_end_a_wait_of_an_earlier_waker() {
    in_own_process(|| {
        with_each(|rt| {
            join_that_drops_a_waker_that_waits(rt, 1, |rt, task| {
                assert!(rt.spawn(move || task.join().unwrap()).join().unwrap());
            });
            join_that_drops_a_waker_that_waits(rt, 0, |_, task| assert!(task.join().unwrap()));
        });
    });
}

#[test]
fn a_migratable_task_that_has_moved_to_drop_a_waker_waits_on_its_new_worker() {
    with(&[2, 3, 8], |rt| {
        join_that_moves(rt, |task| task.join());
        join_that_moves(rt, |mut task| task.join_timeout(Duration::MAX));
        join_that_moves(rt, |mut task| task.join_timeout(Duration::from_secs(3600)));
    });
}

fn join_that_moves(rt: &Runtime, join: fn(Task<bool>) -> Result<bool, JoinError>) {
    let (open, mut task) = gated(rt);
    let mut open = Some(open);
    let moves = calling_at_drop(move || {
        let from = current_worker();
        while current_worker() == from {
            let (me, goes_on) = (unparker(), Flag::new());
            spawn(move || {
                me.unpark();
                // Unless this runs on the other worker, that one has to continue the joiner.
                goes_on.hold();
            })
            .detach();
            park().unwrap();
            goes_on.set();
        }
        let open = open.take().unwrap();
        spawn(move || {
            // The wait is likely to have begun by then.
            sleep(Duration::from_millis(1)).unwrap();
            open.send(()).unwrap();
        })
        .detach();
    });
    polled(&mut task, &moves);
    drop(moves);
    // SAFETY: it holds a handle over its suspensions.
    let joiner = unsafe { cygnet::task().migratable() }.spawn_in(rt, move || join(task).unwrap());
    assert!(joiner.join().unwrap());
}

#[test]
fn a_migratable_task_may_move_while_its_join_drops_an_earlier_waker() {
    fn poll_and_join(n: u64) -> u64 {
        let mut task = spawn(move || vec![n; 4]);
        // The destructor of the waker waits, so that the task may go on elsewhere.
        let moves = calling_at_drop(|| {
            for _ in 0..20 {
                let me = unparker();
                spawn(move || me.unpark()).detach();
                let _ = park();
            }
        });
        let polled = poll_by(&mut task, &moves);
        drop(moves);
        match polled {
            Poll::Ready(numbers) => numbers.unwrap()[3],
            Poll::Pending => task.join().unwrap()[3],
        }
    }
    in_own_process(|| {
        in_task_with(&[2, 3, 8], |_| {
            for _ in 0..scaled_in_debug(500) {
                let body = || (0..10).map(poll_and_join).sum::<u64>();
                // SAFETY: it holds handles and numbers over its suspensions.
                let tasks: Vec<_> =
                    (0..50).map(|_| unsafe { cygnet::task().migratable() }.spawn(body)).collect();
                tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), 45));
            }
        });
    });
}
