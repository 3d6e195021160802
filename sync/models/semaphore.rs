//! Models of a semaphore.

use super::{Modelled, Of, Subject, Task, enter_or_come, explore_with, queued};
use crate::scheduler::wait::waiters::{WaitFuture, Waitable};
use crate::shim::check::{ALL, ORDERS, Stage, beside, models};
use crate::shim::thread::spawn;
use crate::sync::called::CALL;
use crate::sync::raw_semaphore::{CLOSED, RawSemaphore};
use std::panic::Location;
use std::pin::pin;
use std::task::{Context, Waker};

impl Modelled for RawSemaphore {
    /// The free permits.
    type End = usize;

    fn assert_end(semaphore: &Subject<RawSemaphore>, free: usize) {
        assert_eq!(semaphore.free(), free);
        assert!(semaphore.state().is_empty(), "a waiter is left in the queue");
    }
}

/// Does the same as `Semaphore::acquire_many`. Returns `true` if the task got the permits.
fn acquire(task: Stage<Task>, semaphore: &RawSemaphore, permits: usize) -> bool {
    task.introduce();
    let at_once = match permits {
        1 => semaphore.take_one(),
        _ => semaphore.try_take(permits as u64),
    };
    let comes = || semaphore.answer_call(1);
    at_once
        || enter_or_come(task, semaphore, permits as u64, CALL, comes)
            .is_some_and(|answer| answer != CLOSED)
}

/// Acquires a permit for a task that is not cut.
fn acquire_one(task: Stage<Task>, semaphore: Of<RawSemaphore>) {
    assert!(acquire(task, &semaphore, 1), "a waiter that was not cut was refused");
}

/// Acquires a permit for a task that is not cut, and releases it.
fn visit(task: Stage<Task>, semaphore: Of<RawSemaphore>) {
    acquire_one(task, semaphore);
    assert!(semaphore.release(1));
}

/// Asks for permits, and leaves the queue if there are not enough. Returns `true` if there were.
fn acquire_at_first_poll(semaphore: &RawSemaphore, permits: u64) -> bool {
    let waits = pin!(WaitFuture::new(semaphore, permits, Location::caller()));
    waits.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// There are two permits. One task asks for both and may be cut, another asks for one. No permit is
/// lost, and the second task is served.
#[test]
fn loom_permits_are_neither_lost_nor_made() {
    explore_with(3, (RawSemaphore::new, 2), |semaphore, [cut, other]| {
        let first = spawn(move || {
            assert!(!acquire(cut, &semaphore, 2) || semaphore.release(2));
        });
        let second = spawn(move || visit(other, semaphore));
        cut.interrupt();
        first.join().unwrap();
        second.join().unwrap();
        2
    });
}

/// The first waiter asks for more permits than there are, and leaves the queue. The next waiter is
/// served, though no permits are given back.
#[test]
fn loom_a_waiter_that_leaves_the_queue_makes_way() {
    explore_with(ALL, (RawSemaphore::new, 1), |semaphore, [task]| {
        let first = queued(&**semaphore, 2);
        beside(move || acquire_one(task, semaphore), || drop(first));
        0
    });
}

/// Three tasks take the only permit in turn. While a task tries, the permit looks taken to the
/// others, and a called waiter may find none.
#[test]
fn loom_barging_for_a_permit_loses_no_waiter() {
    explore_with(3, (RawSemaphore::new, 1), |semaphore, [one, two, three]| {
        let others = [one, two].map(|task| spawn(move || visit(task, semaphore)));
        visit(three, semaphore);
        others.into_iter().for_each(|other| other.join().unwrap());
        1
    });
}

/// A caller tries to take the permit, which looks taken meanwhile, and does not wait for it. The
/// waiter gets the permit all the same.
#[test]
fn loom_a_failed_attempt_leaves_the_permit_to_the_waiter() {
    explore_with(3, (RawSemaphore::new, 1), |semaphore, [task]| {
        assert!(semaphore.take_one());
        let waits = spawn(move || visit(task, semaphore));
        let looks = spawn(move || {
            assert!(!semaphore.take_one() || semaphore.release(1));
        });
        assert!(semaphore.release(1));
        waits.join().unwrap();
        looks.join().unwrap();
        1
    });
}

/// A called waiter gives up before it has come, and the next waiter is called.
#[test]
fn loom_a_called_waiter_that_gives_up_passes_the_call_on() {
    explore_with(3, (RawSemaphore::new, 1), |semaphore, [task]| {
        assert!(semaphore.take_one());
        let gives_up = queued(&**semaphore, 1);
        let waits = spawn(move || acquire_one(task, semaphore));
        assert!(semaphore.release(1));
        drop(gives_up);
        waits.join().unwrap();
        0
    });
}

/// A value is written before permits are given back.
fn one_gives_and_two_take() {
    explore_with(2, (RawSemaphore::new, 0), |semaphore, [one, other]| {
        let take = move |task: Stage<Task>| {
            acquire_one(task, semaphore);
            assert_eq!(semaphore.value.read(), 1);
        };
        let taker = spawn(move || take(one));
        let giver = spawn(move || {
            semaphore.value.write();
            assert!(semaphore.release(2));
        });
        take(other);
        taker.join().unwrap();
        giver.join().unwrap();
        0
    });
}

models! {
    fn loom_a_release_is_seen_by_every_acquirer() = one_gives_and_two_take();

    fn loom_negative_a_semaphore_without_order() = one_gives_and_two_take(),
        without ORDERS in "sync/counted.rs", fails: "Causality violation";
}

/// A release sees a waiter in the queue, and then finds that the waiter has left. The next caller
/// takes the permit without the queue's lock, and sees what was done before the release.
#[test]
fn loom_a_release_to_a_waiter_that_has_left_is_seen_by_the_next_caller() {
    explore_with(ALL, (RawSemaphore::new, 0), |semaphore, []| {
        let taker = spawn(move || {
            let took = acquire_at_first_poll(&semaphore, 1) || semaphore.try_take(1);
            if took {
                assert_eq!(semaphore.value.read(), 1);
            }
            took
        });
        semaphore.value.write();
        assert!(semaphore.release(1));
        usize::from(!taker.join().unwrap())
    });
}

/// A caller takes the permits without the queue's lock at the moment of such a release. No permit
/// is lost, and none is made.
#[test]
fn loom_a_permit_for_a_waiter_that_has_left_is_counted_once() {
    explore_with(ALL, (RawSemaphore::new, 1), |semaphore, []| {
        let taker = spawn(move || match acquire_at_first_poll(&semaphore, 2) {
            true => 2,
            false => usize::from(semaphore.try_take(1)),
        });
        assert!(semaphore.release(1));
        // A grant to the dropped future has been given back by now.
        2 - taker.join().unwrap()
    });
}

/// Closing a semaphore neither takes nor makes permits, whatever else happens meanwhile.
#[test]
fn loom_closing_a_semaphore_keeps_its_permits() {
    explore_with(ALL, (RawSemaphore::new, 1), |semaphore, []| {
        let visitor = spawn(move || {
            let entered = semaphore.try_take(1);
            assert!(!entered || semaphore.release(1));
        });
        semaphore.close();
        visitor.join().unwrap();
        assert!(semaphore.is_closed());
        assert!(!semaphore.try_take(0));
        1
    });
}
