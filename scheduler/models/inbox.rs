//! The inbox of a worker, and the wake-up of the worker.

use super::{Dormitory, Tasks};
use crate::scheduler::queue::inbox::Inbox;
use crate::scheduler::steal::idle::Rest;
use crate::shim::atomic::Ordering;
use crate::shim::check::{FENCES, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;

struct Home<const N: usize> {
    inbox: Inbox,
    tasks: Tasks<N>,
    dormitory: Dormitory<1>,
}

impl<const N: usize> Home<N> {
    fn new() -> Stage<Home<N>> {
        Stage::new(Home { inbox: Inbox::new(), tasks: Tasks::new(), dormitory: Dormitory::new() })
    }
}

/// Two threads push, one of them twice. The worker empties the inbox once while they push, and once
/// afterwards.
fn two_pushers() {
    let home = Home::<3>::new();
    let pushers = [vec![0, 1], vec![2]].map(|tasks| {
        spawn(move || {
            let pushes = tasks.iter().map(|t| home.inbox.push(home.tasks.spawn(*t)));
            pushes.filter(|found_empty| *found_empty).count()
        })
    });
    let mut order = Vec::new();
    home.inbox.take_all(|record| order.push(home.tasks.take(record)));
    let early = order.len();
    let duties: usize = pushers.map(|p| p.join().unwrap()).iter().sum();
    home.inbox.take_all(|record| order.push(home.tasks.take(record)));
    let place = |task| order.iter().position(|t| *t == task);
    assert!(place(0) < place(1), "one pusher's order is lost: {order:?}");
    let batches = usize::from(early > 0) + usize::from(early < order.len());
    assert_eq!(duties, batches, "exactly one pusher of each batch must wake the worker");
    home.tasks.end();
    // SAFETY: the threads have ended.
    unsafe { home.end() };
}

#[test]
fn loom_an_inbox_keeps_the_order_of_each_pusher() {
    explore(3, two_pushers);
}

/// One thread pushes several tasks at once, as a cancel does, and another thread pushes a single
/// one.
#[test]
fn loom_tasks_that_are_pushed_at_once_keep_their_order() {
    explore(3, || {
        let home = Home::<3>::new();
        let sender = spawn(move || {
            let [first, last] = [0, 1].map(|task| home.tasks.spawn(task));
            // SAFETY: the record is this thread's until it is pushed.
            unsafe { last.as_ref() }.link.store(first.as_ptr(), Ordering::Relaxed);
            home.inbox.push_all(last, first)
        });
        let alone = home.inbox.push(home.tasks.spawn(2));
        let mut order = Vec::new();
        home.inbox.take_all(|record| order.push(home.tasks.take(record)));
        let early = order.len();
        let chain = sender.join().unwrap();
        home.inbox.take_all(|record| order.push(home.tasks.take(record)));
        let place = |task| order.iter().position(|t| *t == task);
        assert!(place(0) < place(1), "the order of the two tasks is lost: {order:?}");
        let batches = usize::from(early > 0) + usize::from(early < order.len());
        assert_eq!(usize::from(chain) + usize::from(alone), batches, "one wake-up for each batch");
        home.tasks.end();
        // SAFETY: the threads have ended.
        unsafe { home.end() };
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_an_inbox_without_order() {
    plant("scheduler/queue/inbox.rs", ORDERS);
    explore(3, two_pushers);
}

/// The worker sleeps until it has got both tasks.
fn no_sleep_through_a_push(pushers: usize) {
    let home = Home::<2>::new();
    home.dormitory.sleepers[0].introduce();
    let per_pusher = 2 / pushers;
    let pushers = (0..pushers).map(|pusher| {
        spawn(move || {
            for task in pusher * per_pusher..(pusher + 1) * per_pusher {
                if home.inbox.push(home.tasks.spawn(task)) {
                    home.dormitory.idle.notify_worker(&home.dormitory, 0);
                }
            }
        })
    });
    let pushers: Vec<_> = pushers.collect();
    let mut got = 0;
    while got < 2 {
        home.inbox.take_all(|record| {
            home.tasks.take(record);
            got += 1;
        });
        if got < 2 {
            let look = || !home.inbox.is_empty();
            home.dormitory.idle.rest(&home.dormitory, 0, Rest::Sleep, look);
        }
    }
    pushers.into_iter().for_each(|p| p.join().unwrap());
    home.tasks.end();
    // SAFETY: the threads have ended.
    unsafe { home.end() };
}

#[test]
fn loom_a_worker_does_not_sleep_through_two_pushers() {
    explore(2, || no_sleep_through_a_push(2));
}

#[test]
fn loom_a_worker_does_not_sleep_through_the_second_push() {
    explore(3, || no_sleep_through_a_push(1));
}

/// One thread invites the worker, and another one pushes a task. The pusher may find the invitation
/// in the inbox, and leave the wake-up to the thread that invited.
#[test]
fn loom_an_invited_worker_does_not_sleep_through_a_push() {
    explore(3, || {
        let home = Home::<1>::new();
        home.dormitory.sleepers[0].introduce();
        let host = spawn(move || {
            if home.inbox.invite() {
                home.dormitory.idle.notify_worker(&home.dormitory, 0);
            }
        });
        let pusher = spawn(move || {
            if home.inbox.push(home.tasks.spawn(0)) {
                home.dormitory.idle.notify_worker(&home.dormitory, 0);
            }
        });
        let mut got = 0;
        while got == 0 {
            home.inbox.take_all(|record| got += 1 + home.tasks.take(record));
            if got == 0 {
                let look = || !home.inbox.is_empty();
                home.dormitory.idle.rest(&home.dormitory, 0, Rest::Sleep, look);
            }
        }
        host.join().unwrap();
        pusher.join().unwrap();
        home.inbox.take_all(|_| unreachable!("the task was taken before"));
        home.tasks.end();
        // SAFETY: the threads have ended.
        unsafe { home.end() };
    });
}

/// An invitation stays in the inbox until the worker takes it, even if tasks are pushed on top of
/// it.
#[test]
fn loom_an_invitation_is_taken_together_with_later_tasks() {
    explore(3, || {
        let home = Home::<1>::new();
        let pusher = spawn(move || home.inbox.push(home.tasks.spawn(0)));
        let left = home.inbox.invite();
        let mut invited = home.inbox.take_all(|record| _ = home.tasks.take(record));
        let duty = pusher.join().unwrap();
        invited |= home.inbox.take_all(|record| _ = home.tasks.take(record));
        assert_eq!(invited, left, "the worker sees an invitation if one was left");
        assert!(duty || left, "no thread wakes the worker");
        home.tasks.end();
        // SAFETY: the threads have ended.
        unsafe { home.end() };
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_push_and_a_sleep_without_fences() {
    plant("scheduler/steal/idle.rs", FENCES);
    explore(3, || no_sleep_through_a_push(1));
}
