//! Everything that reaches into the tree from outside, dropped in every order, on tasks and on
//! threads.

use crate::common::prelude::*;
use std::any::Any;

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
        Box::new(TaskGroup::<()>::new()),
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
            scope_on(rt, |s| {
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
                rt.spawn(own(&drops, move |made| {
                    let mut kinds = all_kinds(&made);
                    // These hold the runtime open.
                    kinds.pop();
                    drop(kinds.swap_remove(0));
                    let group = TaskGroup::<()>::detached(&Handle::current()).unwrap();
                    kinds.push(Some(Box::new(group)));
                    give.send(kinds).unwrap();
                }))
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
    fn use_all(drops: &Drops) {
        let (promise, answer) = promise();
        let lease = lease();
        let value = drops.guard();
        cygnet::task().spawn_in(&lease, move || drop(value)).detach();
        promise.complete(drops.guard()).unwrap();
        answer.detach();
        let group = TaskGroup::new();
        let value = drops.guard();
        group.add(move || drop(value));
        drop((lease, group));
    }
    in_task(|_| {
        let drops = Drops::new();
        scope(|_| while_unwinding(|| use_all(&drops)));
        scope(|_| no_suspend(|| use_all(&drops)));
        assert_eq!(drops.left(), 0);
    });
}
