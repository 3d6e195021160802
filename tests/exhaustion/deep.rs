//! Programs that wait deeper than there are stacks: they end, and the limit holds but for a stack
//! for each nested wait.

use crate::common::prelude::*;
use crate::{assert_stacks, deep, runtime};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Waits for a child that does the same, `depth` times.
fn joins(depth: usize) -> usize {
    if depth == 0 { 0 } else { deep(|| spawn(move || joins(depth - 1)).join().unwrap()) + 1 }
}

fn scopes(depth: usize, how: Wait) -> usize {
    if depth == 0 {
        return 0;
    }
    let mut below = 0;
    deep(|| scope_with(how, |s| drop(s.spawn(|| below = scopes(depth - 1, how)))));
    below + 1
}

#[test]
fn a_chain_of_waits_deeper_than_the_stacks_are_many_ends() {
    let ways: [fn() -> usize; 4] = [
        || joins(40),
        || scopes(40, Wait::Anyone),
        || scopes(40, Wait::DescendantsOnly),
        || ignore_cancellation(|| joins(40)).unwrap(),
    ];
    within_each(WORKERS, |workers| {
        for way in ways {
            let rt = runtime(workers, workers);
            assert_eq!(rt.block_on(way), 40);
            assert_stacks(&rt, workers + 40);
            // Afterwards the limit holds again.
            let tasks: Vec<_> =
                (0..100).map(|_| rt.spawn(|| sleep(MILLISECOND).unwrap())).collect();
            join_all(tasks);
            eventually("extra stacks go back", || rt.metrics().stacks <= workers);
        }
    });
}

#[test]
fn a_scope_exceeds_the_limit_by_one_stack_however_many_tasks_it_has() {
    within_each(WORKERS, |workers| {
        let (rt, ended) = (runtime(workers, 10), Count::new());
        let tasks = scaled(300);
        rt.block_on(|| {
            scope(|s| {
                for _ in 0..tasks {
                    s.spawn(|| {
                        sleep(MILLISECOND).unwrap();
                        ended.up();
                    });
                }
            });
        });
        assert_eq!(ended.get(), tasks);
        assert_stacks(&rt, 11);
    });
}

#[test]
fn a_task_that_nothing_waits_for_does_not_exceed_the_limit() {
    within_each(WORKERS, |workers| {
        let (rt, ended) = (runtime(workers, workers), Count::new());
        // Each would keep the extra stack that is there again and again.
        let asleep: Vec<_> =
            (0..20).map(|_| rt.spawn(|| sleep(MILLISECOND * 20).unwrap())).collect();
        let waits = || (0..100).for_each(|_| deep(|| spawn(move || ended.up()).join().unwrap()));
        rt.block_on(waits);
        assert_eq!(ended.get(), 100);
        join_all(asleep);
        assert_stacks(&rt, workers + 1);
    });
}

#[test]
fn a_task_that_another_runtime_waits_for_does_not_exceed_the_limit() {
    within(|| {
        let (rt, other) = (runtime(2, 3), runtime(2, 100));
        let handle = rt.handle();
        let naps = || handle.spawn(|| sleep(MILLISECOND).unwrap()).unwrap().join().unwrap();
        other.block_on(|| scope(|s| (0..50).for_each(|_| drop(s.spawn(naps)))));
        // One more if the machine stands still for 200 ms.
        assert_stacks(&rt, 4);
    });
}

#[test]
fn a_join_by_a_task_that_is_no_ancestor_ends_too() {
    within_each(WORKERS, |workers| {
        let rt = runtime(workers, workers);
        let children_of_the_root = || {
            let spawn = |f: fn() -> u8| Handle::current().spawn(f).unwrap();
            deep(|| {
                spawn(|| deep(|| Handle::current().spawn(|| 7).unwrap().join().unwrap())).join()
            })
        };
        assert_eq!(rt.block_on(children_of_the_root).unwrap(), 7);
        let siblings = || {
            let mut value = 0;
            deep(|| {
                scope(|s| {
                    let second = s.spawn(|| 7);
                    s.spawn(|| value = second.join().unwrap());
                });
            });
            value
        };
        assert_eq!(rt.block_on(siblings), 7);
    });
}

#[test]
fn a_child_waits_while_its_parent_waits_for_something_else() {
    within(|| {
        let other = runtime(1, 1);
        let sleep = || common::thread::sleep(Duration::from_millis(300));
        let waits: [&(dyn Fn() + Sync); 2] = [&|| blocking(sleep), &|| other.block_on(sleep)];
        for wait in waits {
            let called = Flag::new();
            runtime(1, 1).block_on(|| {
                let child = spawn(move || called.set());
                wait();
                assert!(!called.get());
                child.join().unwrap();
            });
        }
    });
}
