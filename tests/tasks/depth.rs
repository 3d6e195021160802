//! Chains and crowds of tasks as deep and as many as memory allows: nothing recurses.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;

#[test]
fn a_chain_of_spawn_and_join_may_be_100_000_deep_and_20_000_if_it_yields() {
    fn depth(n: usize, yields: bool) -> usize {
        if n == 0 {
            return 0;
        }
        let child = spawn(move || depth(n - 1, yields));
        if yields {
            yield_now().unwrap();
        }
        child.join().unwrap() + 1
    }
    for (deep, yields) in [(scaled(100_000), false), (scaled(20_000), true)] {
        in_task_with(&[1, 2, 8], |_| assert_eq!(depth(deep, yields), deep));
    }
}

/// T23, T32.
#[test]
fn a_chain_of_a_million_detached_parents_and_children_ends() {
    fn descend(n: usize, ends: Count) {
        if n > 0 {
            spawn(move || descend(n - 1, ends)).detach();
        }
        ends.up();
    }
    let deep = scaled_in_debug(1_000_000);
    with(&[1, 2, 8], |rt| {
        let ends = Count::new();
        rt.block_on(|| descend(deep, ends));
        assert_eq!(ends.get(), deep + 1);
    });
}

/// T1.
#[test]
fn a_million_detached_children_of_one_parent_end_before_it() {
    let many = scaled_in_debug(1_000_000);
    with(&[1, 2, 8], |rt| {
        let ends = Count::new();
        rt.block_on(|| (0..many).for_each(|_| spawn(move || ends.up()).detach()));
        assert_eq!(ends.get(), many);
    });
}

/// T32.
#[test]
fn a_chain_of_tasks_that_own_handles_is_released_without_recursion() {
    // Each task owns the one before. None has started when the last is dropped, whose end drops the
    // next handle, and so on.
    let long = scaled(200_000);
    with(&[1], |rt| {
        let drops = Drops::new();
        rt.block_on(|| {
            let mut last = spawn(|| ());
            for _ in 0..long {
                last = spawn(drops.around(move || drop(last)));
            }
            drop(last);
        });
        assert_eq!(drops.count(), long);
    });
}

#[test]
fn a_deep_chain_of_parked_parents_wakes_and_ends() {
    fn descend(n: usize, bottom: Sender<Unparker>) -> usize {
        if n == 0 {
            bottom.send(unparker()).unwrap();
            park().unwrap();
            return 0;
        }
        let child = spawn(move || descend(n - 1, bottom));
        // On a stack of its own.
        yield_now().unwrap();
        child.join().unwrap() + 1
    }
    let deep = scaled(5_000);
    with_each(|rt| {
        let (tell, told) = channel();
        let task = rt.spawn(move || descend(deep, tell));
        let deepest = told.recv().unwrap();
        assert!(!task.is_finished());
        deepest.unpark();
        assert_eq!(task.join().unwrap(), deep);
    });
}
