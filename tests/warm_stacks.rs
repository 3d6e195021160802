//! Warm stacks in a worker's pool are given up for tasks that need a stack when there are no more.

mod common;

use common::prelude::*;

fn runtime(workers: usize, stacks: usize) -> Runtime {
    Runtime::builder().workers(workers).max_stacks(stacks).build().unwrap()
}

#[test]
fn a_larger_stack_is_had_by_giving_up_warm_smaller_ones() {
    within(|| {
        let rt = runtime(1, 2);
        // Two stacks of the usual size are warm afterwards.
        rt.block_on(|| {
            let parked = spawn(|| yield_now().unwrap());
            yield_now().unwrap();
            parked.join().unwrap();
        });
        let value =
            rt.block_on(|| cygnet::task().stack_size(1 << 20).unwrap().spawn(|| 7).join().unwrap());
        assert_eq!(value, 7);
    });
}

#[test]
fn warm_stacks_of_an_idle_worker_serve_a_starving_one() {
    within(|| {
        let rt = runtime(2, 3);
        for _ in 0..50 {
            let count: u32 = rt.block_on(|| {
                let yields = |i| spawn(move || yield_now().map(|()| i).unwrap());
                join_all((0..20).map(yields)).into_iter().sum()
            });
            assert_eq!(count, 190);
        }
    });
}

/// Keeps every worker busy at once, so that each has had a stack.
fn busy_on_all_workers(rt: &Runtime) {
    let (workers, started) = (rt.workers(), Count::new());
    join_all((0..workers).map(|_| rt.spawn(move || started.meet(workers))));
}

#[test]
fn the_warm_stack_of_an_idle_worker_serves_a_local_task_of_another() {
    within_each([2, 3, 8], |workers| {
        for _ in 0..scaled(20) {
            let rt = runtime(workers, workers);
            busy_on_all_workers(&rt);
            assert_eq!(rt.metrics().stacks, workers);
            let woken = rt.block_on(|| {
                let me = unparker();
                spawn_local(move || me.unpark()).detach();
                park()
            });
            assert!(woken.is_ok());
        }
    });
}
