//! The inbox of a worker, and the wake-up of the worker.

use super::{Dormitory, Tasks};
use crate::scheduler::queue::inbox::Inbox;
use crate::scheduler::queue::ready_stack::Batch;
use crate::scheduler::steal::idle::Rest;
use crate::shim::check::{FENCES, ORDERS, Stage, explore, models};
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

    /// Pushes a task, and wakes the worker if that is the pusher's duty.
    fn send(&self, task: usize) {
        if self.inbox.push(self.tasks.wake(task)) {
            self.dormitory.idle.notify_worker(&self.dormitory, 0);
        }
    }

    /// Sleeps until the worker has got all tasks.
    fn sleep_until_got(&self) {
        let mut got = 0;
        while got < N {
            self.inbox.take_all(|record| {
                self.tasks.take_ready(record);
                got += 1;
            });
            if got < N {
                let look = || !self.inbox.is_empty();
                self.dormitory.idle.rest(&self.dormitory, 0, Rest::Sleep, look);
            }
        }
    }

    /// Empties the inbox once while other threads push, and once afterwards. One thread pushes task
    /// 0 before task 1. `join` joins the pushers, and returns how many of them had to wake the
    /// worker.
    fn empty_twice(&self, join: impl FnOnce() -> usize) {
        let mut order = Vec::new();
        self.inbox.take_all(|record| order.push(self.tasks.take_ready(record)));
        let early = order.len();
        let duties = join();
        self.inbox.take_all(|record| order.push(self.tasks.take_ready(record)));
        let place = |task| order.iter().position(|t| *t == task);
        assert!(place(0) < place(1), "one pusher's order is lost: {order:?}");
        let batches = usize::from(early > 0) + usize::from(early < order.len());
        assert_eq!(duties, batches, "exactly one pusher of each batch must wake the worker");
        self.tasks.end();
    }
}

/// Two threads push, one of them twice. The worker empties the inbox once while they push, and once
/// afterwards.
fn two_pushers() {
    let home = Home::<3>::new();
    let pushers = [vec![0, 1], vec![2]].map(|tasks| {
        spawn(move || {
            let pushes = tasks.iter().map(|t| home.inbox.push(home.tasks.wake(*t)));
            pushes.filter(|found_empty| *found_empty).count()
        })
    });
    home.empty_twice(|| pushers.map(|p| p.join().unwrap()).iter().sum());
}

models! {
    fn loom_an_inbox_keeps_the_order_of_each_pusher() = explore(3, two_pushers);

    fn loom_negative_an_inbox_without_order() = explore(3, two_pushers),
        without ORDERS in "scheduler/queue/inbox.rs", fails: "Causality violation";
}

/// One thread pushes several tasks at once, as a cancel does, and another thread pushes a single
/// one.
#[test]
fn loom_tasks_that_are_pushed_at_once_keep_their_order() {
    explore(3, || {
        let home = Home::<3>::new();
        let sender = spawn(move || {
            let mut tasks = Batch::of(home.tasks.wake(1));
            tasks.push_below(home.tasks.wake(0));
            home.inbox.push_all(tasks)
        });
        let alone = home.inbox.push(home.tasks.wake(2));
        home.empty_twice(|| usize::from(sender.join().unwrap()) + usize::from(alone));
    });
}

/// The worker sleeps until it has got both tasks.
fn no_sleep_through_a_push(pushers: usize) {
    let home = Home::<2>::new();
    home.dormitory.sleepers[0].introduce();
    let per_pusher = 2 / pushers;
    let pushers = (0..pushers).map(|pusher| {
        spawn(move || {
            for task in pusher * per_pusher..(pusher + 1) * per_pusher {
                home.send(task);
            }
        })
    });
    let pushers: Vec<_> = pushers.collect();
    home.sleep_until_got();
    pushers.into_iter().for_each(|p| p.join().unwrap());
    home.tasks.end();
}

models! {
    fn loom_a_worker_does_not_sleep_through_two_pushers() =
        explore(2, || no_sleep_through_a_push(2));

    fn loom_a_worker_does_not_sleep_through_the_second_push() =
        explore(3, || no_sleep_through_a_push(1));

    fn loom_negative_a_push_and_a_sleep_without_fences() =
        explore(3, || no_sleep_through_a_push(1)),
        without FENCES in "scheduler/steal/idle.rs", fails: "deadlock";
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
        let pusher = spawn(move || home.send(0));
        home.sleep_until_got();
        host.join().unwrap();
        pusher.join().unwrap();
        home.inbox.take_all(|_| unreachable!("the task was taken before"));
        home.tasks.end();
    });
}

/// An invitation stays in the inbox until the worker takes it, even if tasks are pushed on top of
/// it.
#[test]
fn loom_an_invitation_is_taken_together_with_later_tasks() {
    explore(3, || {
        let home = Home::<1>::new();
        let pusher = spawn(move || home.inbox.push(home.tasks.wake(0)));
        let left = home.inbox.invite();
        let mut invited = home.inbox.take_all(|record| _ = home.tasks.take_ready(record));
        let duty = pusher.join().unwrap();
        invited |= home.inbox.take_all(|record| _ = home.tasks.take_ready(record));
        assert_eq!(invited, left, "the worker sees an invitation if one was left");
        assert!(duty || left, "no thread wakes the worker");
        home.tasks.end();
    });
}
