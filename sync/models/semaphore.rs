//! Models of a semaphore.

use super::{Task, enter_or_come};
use crate::scheduler::wait::waiters::{Entering, Waitable};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::raw_semaphore::{CALL, CLOSED, RawSemaphore};
use std::panic::Location;
use std::task::{Context, Waker};

/// As `Semaphore::acquire_many`; whether it has got them.
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

/// Two ask, for one and for two of two permits, and one of them is cut: nothing is lost, and who was not cut is served.
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
        cut.cut();
        first.join().unwrap();
        assert!(second.join().unwrap(), "it was not cut");
        assert_eq!(semaphore.free(), 2);
        assert!(semaphore.state().is_empty(), "somebody is left in the queue");
        Task::end(cut);
        Task::end(other);
        // SAFETY: the threads have ended.
        unsafe { semaphore.end() };
    });
}

/// The first of the queue asks for more than there is, and is not waited for any longer: the next one is served, though nobody gives anything
/// back.
#[test]
fn loom_who_leaves_the_queue_of_a_semaphore_makes_way() {
    explore(ALL, || {
        let (semaphore, task) = (Stage::new(RawSemaphore::new(1)), Task::new());
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(Entering::new(&*semaphore, 2, Location::caller()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let second = spawn(move || {
            task.introduce();
            acquire(task, &semaphore, 1)
        });
        drop(first);
        assert!(second.join().unwrap());
        assert_eq!(semaphore.free(), 0);
        Task::end(task);
        // SAFETY: the threads have ended.
        unsafe { semaphore.end() };
    });
}

/// Three take the only permit, one after the other: while one of them looks whether it is there, it
/// looks taken to the others, and one that was called may come in vain.
#[test]
fn loom_a_permit_that_is_taken_past_those_who_wait_loses_nobody() {
    explore(3, || {
        let semaphore = Stage::new(RawSemaphore::new(1));
        let tasks = [Task::new(), Task::new(), Task::new()];
        let visit = move |task: Stage<Task>| {
            task.introduce();
            assert!(acquire(task, &semaphore, 1), "nobody was cut");
            assert!(semaphore.release(1));
        };
        let [one, two, three] = tasks;
        let others = [spawn(move || visit(one)), spawn(move || visit(two))];
        visit(three);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(semaphore.free(), 1);
        assert!(semaphore.state().is_empty(), "somebody is left in the queue");
        tasks.into_iter().for_each(Task::end);
        // SAFETY: the threads have ended.
        unsafe { semaphore.end() };
    });
}

/// One looks for the permit, to which it then looks taken, and does not wait for it: who waits has
/// it all the same.
#[test]
fn loom_one_that_looks_for_a_permit_in_vain_leaves_it_to_those_who_wait() {
    explore(3, || {
        let (semaphore, task) = (Stage::new(RawSemaphore::new(1)), Task::new());
        assert!(semaphore.acquire_one());
        let waits = spawn(move || {
            task.introduce();
            assert!(acquire(task, &semaphore, 1), "it was not cut");
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
        // SAFETY: the threads have ended.
        unsafe { semaphore.end() };
    });
}

/// A waiter that has been called is not there any more: the next one is called.
#[test]
fn loom_one_that_gives_up_on_its_way_to_a_permit_passes_the_call_on() {
    explore(3, || {
        let (semaphore, task) = (Stage::new(RawSemaphore::new(1)), Task::new());
        assert!(semaphore.acquire_one());
        let mut cx = Context::from_waker(Waker::noop());
        let mut gives_up = Box::pin(Entering::new(&*semaphore, 1, Location::caller()));
        assert!(gives_up.as_mut().poll(&mut cx).is_pending());
        let waits = spawn(move || {
            task.introduce();
            assert!(acquire(task, &semaphore, 1), "it was not cut");
        });
        assert!(semaphore.release(1));
        drop(gives_up);
        waits.join().unwrap();
        assert_eq!(semaphore.free(), 0);
        Task::end(task);
        // SAFETY: the threads have ended.
        unsafe { semaphore.end() };
    });
}

/// A semaphore, and what is done before permits are given back.
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
        assert!(this.semaphore.state().is_empty(), "somebody is left in the queue");
        // SAFETY: the threads have ended.
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
fn loom_what_was_done_before_permits_are_given_is_seen_by_all_who_take_some() {
    explore(2, one_gives_and_two_take);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_semaphore_without_order() {
    plant("sync/raw_semaphore.rs", ORDERS);
    explore(2, one_gives_and_two_take);
}

/// Who gives a permit back and sees somebody in the queue finds that it has left it: the next one, which comes without the lock, sees what
/// was done before.
#[test]
fn loom_a_permit_for_one_that_has_left_the_queue_has_all_that_came_before() {
    explore(ALL, || {
        let permitted = Permitted::new(0);
        let taker = spawn(move || {
            let mut cx = Context::from_waker(Waker::noop());
            let mut leaves = Box::pin(Entering::new(&permitted.semaphore, 1, Location::caller()));
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

/// The same permits are taken by one who comes without the lock at that moment: none is lost, and none is made.
#[test]
fn loom_a_permit_for_one_that_has_left_the_queue_is_counted_once() {
    explore(ALL, || {
        let semaphore = Stage::new(RawSemaphore::new(1));
        let taker = spawn(move || {
            let mut cx = Context::from_waker(Waker::noop());
            let mut leaves = Box::pin(Entering::new(&*semaphore, 2, Location::caller()));
            if leaves.as_mut().poll(&mut cx).is_ready() {
                return 2;
            }
            drop(leaves);
            usize::from(semaphore.try_acquire(1))
        });
        assert!(semaphore.release(1));
        // Nobody takes back what was granted to one that has left.
        let taken = taker.join().unwrap();
        assert_eq!(semaphore.free() + taken, 2);
        // SAFETY: the threads have ended.
        unsafe { semaphore.end() };
    });
}

/// A close takes no permit away, and makes none, whatever comes and goes meanwhile.
#[test]
fn loom_a_close_of_a_semaphore_leaves_its_permits_alone() {
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
