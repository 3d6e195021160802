//! Everything that reaches into the tree from outside, dropped in every order, on tasks and on
//! threads.

use crate::common::mpsc::channel;
use crate::common::{self, Drops, with_each};
use cygnet::{Cancelled, Handle, TaskGroup, lease, promise, scope};
use std::any::Any;

/// All orders of the numbers below `n`.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let insert =
        |order: Vec<usize>| (0..n).map(move |at| [&order[..at], &[n - 1], &order[at..]].concat());
    orders(n - 1).into_iter().flat_map(insert).collect()
}

/// All that can outlive the frame or the task of an open scope.
fn all_kinds(drops: &Drops) -> Vec<Option<Box<dyn Any + Send>>> {
    let (promise, answer) = promise::<common::drops::Guard>();
    let hooked = drops.guard();
    let guard = promise.on_cancel(move |_: Cancelled| drop(hooked));
    let handle = answer.cancel_handle();
    let own = cygnet::cancel_handle();
    let kinds: [Box<dyn Any + Send>; 6] = [
        Box::new(lease()),
        Box::new(promise),
        Box::new(answer),
        Box::new(guard),
        Box::new((handle, own)),
        Box::new(TaskGroup::new()),
    ];
    kinds.into_iter().map(Some).collect()
}

#[test]
fn every_order_of_drops_ends_the_scope_and_leaves_nothing() {
    with_each(|rt| {
        let (give, taken) = channel::<Box<dyn Any + Send>>();
        let thread = common::thread::spawn(move || taken.into_iter().for_each(drop));
        let drops = Drops::new();
        let all = orders(6);
        assert_eq!(all.len(), 720);
        for (n, order) in all.into_iter().enumerate().step_by(720 / common::scaled_in_debug(720)) {
            rt.block_on(|| {
                scope(|s| {
                    let mut kinds = all_kinds(&drops);
                    for (m, kind) in order.iter().enumerate() {
                        let kind = kinds[*kind].take().unwrap();
                        match (n + m) % 3 {
                            0 => drop(kind),
                            1 => give.send(kind).unwrap(),
                            _ => drop(s.spawn(move || drop(kind))),
                        }
                    }
                    if n % 5 == 0 {
                        s.cancel("all of you");
                    }
                });
            });
        }
        drop(give);
        thread.join().unwrap();
        assert_eq!(drops.left(), 0);
    });
}

/// The remains of a runtime that has ended are dropped, and used, without harm.
#[test]
fn every_order_of_drops_after_the_end_of_the_runtime_leaves_nothing() {
    for workers in [1, 2] {
        common::within(|| {
            let drops = Drops::new();
            for order in orders(5) {
                let rt = common::runtime(workers);
                let (give, given) = common::mpsc::channel();
                let made = drops.clone();
                rt.spawn(move || {
                    let mut kinds = all_kinds(&made);
                    // These hold the runtime open.
                    kinds.pop();
                    drop(kinds.swap_remove(0));
                    let group = TaskGroup::detached(&Handle::current()).unwrap();
                    kinds.push(Some(Box::new(group)));
                    give.send(kinds).unwrap();
                })
                .detach();
                let mut kinds = given.recv().unwrap();
                drop(rt);
                for kind in order {
                    drop(kinds[kind].take());
                }
            }
            assert_eq!(drops.left(), 0);
        });
    }
}

/// In destructors while the thread unwinds, and where nothing may suspend.
#[test]
fn promises_leases_and_groups_work_while_unwinding_and_in_no_suspend() {
    struct Unwinds<'a>(&'a Drops);
    impl Drop for Unwinds<'_> {
        fn drop(&mut self) {
            use_all(self.0);
        }
    }
    fn use_all(drops: &Drops) {
        let (promise, answer) = promise();
        let lease = lease();
        let value = drops.guard();
        lease.spawn(move || drop(value)).detach();
        promise.complete(drops.guard()).unwrap();
        answer.detach();
        let group = TaskGroup::new();
        let value = drops.guard();
        group.spawn(move || drop(value));
        drop((lease, group));
    }
    with_each(|rt| {
        let drops = Drops::new();
        let payload = rt.block_on(|| {
            let payload = common::payload_of(|| {
                scope(|_| {
                    let _unwinds = Unwinds(&drops);
                    std::panic::resume_unwind(Box::new("on purpose"));
                });
            });
            scope(|_| cygnet::no_suspend(|| use_all(&drops)));
            payload
        });
        assert!(payload.is_some());
        assert_eq!(drops.left(), 0);
    });
}
