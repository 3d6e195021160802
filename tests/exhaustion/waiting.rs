//! Tasks without a stack wait until there is one, and no task is lost.

use crate::common::prelude::*;
use crate::{assert_stacks, runtime};

#[test]
fn fresh_tasks_wait_for_a_stack_and_none_is_lost() {
    within_each([(1, 1), (1, 2), (2, 2), (2, 3), (4, 4)], |(workers, stacks)| {
        let rt = runtime(workers, stacks);
        let ended = Count::new();
        for _ in 0..1_000 {
            rt.spawn(move || {
                yields(3);
                ended.up();
            })
            .detach();
        }
        spin_until(|| ended.get() == 1_000);
        assert_stacks(&rt, stacks);
    });
}

#[test]
fn no_fresh_task_is_lost_while_another_joins_again_and_again_on_the_only_stack() {
    within(|| {
        let rt = runtime(1, 1);
        let handle = rt.handle();
        let ended = Count::new();
        rt.block_on(|| {
            (0..100).for_each(|_| handle.spawn(move || ended.up()).unwrap().detach());
            // Often enough that the fresh ones have their turn many times, and never a stack.
            (0..10_000).for_each(|_| spawn(|| ()).join().unwrap());
        });
        spin_until(|| ended.get() == 100);
    });
}

#[test]
fn parked_tasks_that_hold_all_stacks_keep_fresh_ones_waiting_until_they_go_on() {
    within_each([1, 2], |workers| {
        let rt = runtime(workers, 2);
        let parked = [(); 2].map(|()| sleeper(&rt));
        let fresh: Vec<_> = (0..10).map(|i| rt.spawn(move || i)).collect();
        // Long enough for a wrong verdict.
        common::thread::sleep(Duration::from_millis(50));
        assert!(fresh.iter().all(|task| !task.is_finished()));
        parked.iter().for_each(|(_, unparker)| unparker.unpark());
        assert_eq!(join_all(parked.map(|(task, _)| task)), [true; 2]);
        assert_eq!(join_all(fresh).into_iter().sum::<i32>(), 45);
    });
}

#[test]
fn a_waiter_that_was_cancelled_goes_on_and_is_not_asked_for_its_stack_for_ever() {
    within(|| {
        let rt = runtime(1, 2);
        let (send, receive) = channel();
        let (give, take) = channel();
        let waiter = rt.spawn(move || {
            let child = spawn(move || {
                send.send(unparker()).unwrap();
                park().unwrap();
                // Its parent is ready from now on, and no longer waits for this task's child.
                drop::<cygnet::Task<bool>>(take.recv().unwrap());
                spawn(|| ()).detach();
            });
            assert_eq!(yield_to(&child), Ok(YieldTo::Ran));
            // No stack is left for this one.
            cygnet::task().stack_size(4 << 20).unwrap().spawn(|| ()).detach();
            child.join().is_err()
        });
        let child = receive.recv().unwrap();
        give.send(waiter).unwrap();
        // Long enough for the parent to wait.
        common::thread::sleep(Duration::from_millis(20));
        child.unpark();
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn nested_scopes_on_few_stacks_end() {
    fn tree(depth: u32, leaves: Count) {
        if depth == 0 {
            leaves.up();
            return;
        }
        scope(|s| {
            (0..3).for_each(|_| drop(s.spawn(move || tree(depth - 1, leaves))));
            let _ = checkpoint();
        });
    }
    within_each([(1, 1), (1, 2), (2, 2), (2, 5), (4, 4)], |(workers, stacks)| {
        // Stacks so large that only their number matters.
        let rt = Runtime::builder()
            .workers(workers)
            .max_stacks(stacks)
            .stack_size(1 << 20)
            .build()
            .unwrap();
        for _ in 0..10 {
            let leaves = Count::new();
            rt.block_on(|| tree(5, leaves));
            assert_eq!(leaves.get(), 243);
        }
    });
}

#[test]
fn a_runtime_that_is_dropped_while_tasks_wait_for_stacks_ends_without_calling_them() {
    within_each([1, 2], |workers| {
        let rt = runtime(workers, workers);
        let (send, receive) = channel();
        let cut = Count::new();
        for _ in 0..workers {
            let send = send.clone();
            rt.spawn(move || {
                send.send(()).unwrap();
                cut.add(usize::from(park().is_err()));
            })
            .detach();
        }
        receive.iter().take(workers).for_each(drop);
        let (dropped, called) = (Drops::new(), Count::new());
        (0..100).for_each(|_| rt.spawn(dropped.around(move || called.up())).detach());
        drop(rt);
        assert_eq!(cut.get(), workers);
        assert_eq!(called.get(), 0);
        assert_eq!(dropped.count(), 100);
    });
}
