//! Models of a semaphore.

use super::{Task, enter_or_come};
use crate::scheduler::wait::waiters::{WaitFuture, Waitable};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::called::CALL;
use crate::sync::raw_semaphore::{CLOSED, RawSemaphore};
use std::panic::Location;
use std::task::{Context, Waker};

/// Does the same as `Semaphore::acquire_many`. Returns `true` if the task got the permits.
fn acquire(task: Stage<Task>, semaphore: &RawSemaphore, permits: usize) -> bool {
    let at_once = match permits {
        1 => semaphore.acquire_one(),
        _ => semaphore.try_acquire(permits),
    };
    let comes = || semaphore.answer_call();
    at_once
        || enter_or_come(task, semaphore, permits as u64, CALL, comes)
            .is_some_and(|answer| answer != CLOSED)
}

/// There are two permits. One task asks for both and may be cut, another asks for one. No permit is
/// lost, and the second task is served.
#[test]
fn loom_permits_are_neither_lost_nor_made() {
    explore(3, || {
        let semaphore = Stage::new(RawSemaphore::new(2));
        let (cut, other) = (Task::new(), Task::new());
        let visit = move |task: Stage<Task>, permits: usize| {
            task.introduce();
            let got = acquire(task, &semaphore, permits);
            assert!(!got || semaphore.release(permits));
            got
        };
        let first = spawn(move || visit(cut, 2));
        let second = spawn(move || visit(other, 1));
        cut.interrupt();
        first.join().unwrap();
        assert!(second.join().unwrap(), "a waiter that was not cut was refused");
        assert_eq!(semaphore.free(), 2);
        assert!(semaphore.state().is_empty(), "a waiter is left in the queue");
        Task::end(cut);
        Task::end(other);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { semaphore.end() };
    });
}

/// The first waiter asks for more permits than there are, and leaves the queue. The next waiter is
/// served, though no permits are given back.
#[test]
fn loom_a_waiter_that_leaves_the_queue_makes_way() {
    explore(ALL, || {
        let (semaphore, task) = (Stage::new(RawSemaphore::new(1)), Task::new());
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(WaitFuture::new(&*semaphore, 2, Location::caller()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let second = spawn(move || {
            task.introduce();
            acquire(task, &semaphore, 1)
        });
        drop(first);
        assert!(second.join().unwrap());
        assert_eq!(semaphore.free(), 0);
        Task::end(task);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { semaphore.end() };
    });
}

/// Three tasks take the only permit in turn. While a task tries, the permit looks taken to the
/// others, and a called waiter may find none.
#[test]
fn loom_barging_for_a_permit_loses_no_waiter() {
    explore(3, || {
        let semaphore = Stage::new(RawSemaphore::new(1));
        let tasks = [Task::new(), Task::new(), Task::new()];
        let visit = move |task: Stage<Task>| {
            task.introduce();
            assert!(acquire(task, &semaphore, 1), "a waiter that was not cut was refused");
            assert!(semaphore.release(1));
        };
        let [one, two, three] = tasks;
        let others = [spawn(move || visit(one)), spawn(move || visit(two))];
        visit(three);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(semaphore.free(), 1);
        assert!(semaphore.state().is_empty(), "a waiter is left in the queue");
        tasks.into_iter().for_each(Task::end);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { semaphore.end() };
    });
}

/// A caller tries to take the permit, which looks taken meanwhile, and does not wait for it. The
/// waiter gets the permit all the same.
#[test]
fn loom_a_failed_attempt_leaves_the_permit_to_the_waiter() {
    explore(3, || {
        let (semaphore, task) = (Stage::new(RawSemaphore::new(1)), Task::new());
        assert!(semaphore.acquire_one());
        let waits = spawn(move || {
            task.introduce();
            assert!(acquire(task, &semaphore, 1), "a waiter that was not cut was refused");
            assert!(semaphore.release(1));
        });
        let looks = spawn(move || {
            assert!(!semaphore.acquire_one() || semaphore.release(1));
        });
        assert!(semaphore.release(1));
        waits.join().unwrap();
        looks.join().unwrap();
        assert_eq!(semaphore.free(), 1);
        Task::end(task);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { semaphore.end() };
    });
}

/// A called waiter gives up before it has come, and the next waiter is called.
#[test]
fn loom_a_called_waiter_that_gives_up_passes_the_call_on() {
    explore(3, || {
        let (semaphore, task) = (Stage::new(RawSemaphore::new(1)), Task::new());
        assert!(semaphore.acquire_one());
        let mut cx = Context::from_waker(Waker::noop());
        let mut gives_up = Box::pin(WaitFuture::new(&*semaphore, 1, Location::caller()));
        assert!(gives_up.as_mut().poll(&mut cx).is_pending());
        let waits = spawn(move || {
            task.introduce();
            assert!(acquire(task, &semaphore, 1), "a waiter that was not cut was refused");
        });
        assert!(semaphore.release(1));
        drop(gives_up);
        waits.join().unwrap();
        assert_eq!(semaphore.free(), 0);
        Task::end(task);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { semaphore.end() };
    });
}

/// A semaphore, and a value that is written before permits are given back.
struct Permitted {
    semaphore: RawSemaphore,
    value: Baton,
}

impl Permitted {
    fn new(permits: usize) -> Stage<Permitted> {
        Stage::new(Permitted { semaphore: RawSemaphore::new(permits), value: Baton::new() })
    }

    fn end(this: Stage<Permitted>, free: usize) {
        assert_eq!(this.semaphore.free(), free);
        assert!(this.semaphore.state().is_empty(), "a waiter is left in the queue");
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { this.end() };
    }
}

fn one_gives_and_two_take() {
    let (permitted, one, other) = (Permitted::new(0), Task::new(), Task::new());
    let take = move |task: Stage<Task>| {
        task.introduce();
        assert!(acquire(task, &permitted.semaphore, 1));
        assert_eq!(permitted.value.read(), 1);
    };
    let taker = spawn(move || take(one));
    let giver = spawn(move || {
        permitted.value.write();
        assert!(permitted.semaphore.release(2));
    });
    take(other);
    taker.join().unwrap();
    giver.join().unwrap();
    Task::end(one);
    Task::end(other);
    Permitted::end(permitted, 0);
}

#[test]
fn loom_a_release_is_seen_by_every_acquirer() {
    explore(2, one_gives_and_two_take);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_semaphore_without_order() {
    plant("sync/raw_semaphore.rs", ORDERS);
    explore(2, one_gives_and_two_take);
}

/// A release sees a waiter in the queue, and then finds that the waiter has left. The next caller
/// takes the permit without the queue's lock, and sees what was done before the release.
#[test]
fn loom_a_release_to_a_waiter_that_has_left_is_seen_by_the_next_caller() {
    explore(ALL, || {
        let permitted = Permitted::new(0);
        let taker = spawn(move || {
            let mut cx = Context::from_waker(Waker::noop());
            let mut leaves = Box::pin(WaitFuture::new(&permitted.semaphore, 1, Location::caller()));
            let entered = leaves.as_mut().poll(&mut cx).is_ready();
            drop(leaves);
            let took = entered || permitted.semaphore.try_acquire(1);
            if took {
                assert_eq!(permitted.value.read(), 1);
            }
            took
        });
        permitted.value.write();
        assert!(permitted.semaphore.release(1));
        let took = taker.join().unwrap();
        Permitted::end(permitted, usize::from(!took));
    });
}

/// A caller takes the permits without the queue's lock at the moment of such a release. No permit
/// is lost, and none is made.
#[test]
fn loom_a_permit_for_a_waiter_that_has_left_is_counted_once() {
    explore(ALL, || {
        let semaphore = Stage::new(RawSemaphore::new(1));
        let taker = spawn(move || {
            let mut cx = Context::from_waker(Waker::noop());
            let mut leaves = Box::pin(WaitFuture::new(&*semaphore, 2, Location::caller()));
            if leaves.as_mut().poll(&mut cx).is_ready() {
                return 2;
            }
            drop(leaves);
            usize::from(semaphore.try_acquire(1))
        });
        assert!(semaphore.release(1));
        // A grant to the dropped future has been given back by now.
        let taken = taker.join().unwrap();
        assert_eq!(semaphore.free() + taken, 2);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { semaphore.end() };
    });
}

/// Closing a semaphore neither takes nor makes permits, whatever else happens meanwhile.
#[test]
fn loom_closing_a_semaphore_keeps_its_permits() {
    explore(ALL, || {
        let permitted = Permitted::new(1);
        let visitor = spawn(move || {
            let entered = permitted.semaphore.try_acquire(1);
            assert!(!entered || permitted.semaphore.release(1));
        });
        permitted.semaphore.close();
        visitor.join().unwrap();
        assert!(permitted.semaphore.is_closed());
        assert!(!permitted.semaphore.try_acquire(0));
        Permitted::end(permitted, 1);
    });
}
