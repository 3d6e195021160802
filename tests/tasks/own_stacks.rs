//! Joins of children that need a stack of their own: the joining task parks, the child is started
//! on another coroutine of the same worker.

use crate::common::prelude::*;

const USUAL: usize = 64 << 10;
const LARGE: usize = 1 << 20;

/// A child that cannot be called by its joiner.
fn apart<T: Send + 'static>(size: usize, f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    task().stack_size(size).unwrap().spawn(f)
}

#[test]
fn a_child_with_a_stack_of_its_own_hands_its_value_or_panic_over() {
    in_task(|_| {
        for size in [USUAL, LARGE] {
            for i in 0..1_000u64 {
                assert_eq!(apart(size, move || i * 3).join().unwrap(), i * 3);
            }
        }
        let failed = apart(USUAL, || panic!("apart")).join();
        assert!(matches!(failed, Err(JoinError::Panicked(_))));
        // A child that waits.
        let child = apart(USUAL, || {
            let me = unparker();
            let waker = thread::spawn(move || me.unpark());
            park().unwrap();
            waker.join().unwrap();
            yields(10);
            7
        });
        assert_eq!(child.join().unwrap(), 7);
        // A handle that was polled before.
        let mut child = apart(USUAL, || 5);
        if pin!(&mut child).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            assert_eq!(child.join().unwrap(), 5);
        }
    });
}

#[test]
fn children_left_by_such_a_child_end_before_its_join_returns() {
    in_task(|_| {
        for round in 0..200 {
            let ended = Count::new();
            let child = apart(if round % 2 == 0 { USUAL } else { LARGE }, move || {
                for _ in 0..3 {
                    // On another worker, if there is one.
                    spawn(move || {
                        (0..round).for_each(|_| common::spin_loop());
                        ended.up();
                    })
                    .detach();
                }
                "gone"
            });
            assert_eq!(child.join().unwrap(), "gone");
            assert_eq!(ended.get(), 3);
        }
    });
}

#[test]
fn a_joining_task_that_is_cancelled_leaves_and_its_child_is_cancelled_too() {
    with_each(|rt| {
        let drops = Drops::new();
        let (waits, child_waits) = channel();
        let told = Flag::new();
        let joiner = rt.spawn(own(&drops, move |results| {
            let child = apart(USUAL, move || {
                let result = results.guard();
                waits.send(()).unwrap();
                told.put(park().is_err());
                result
            });
            matches!(child.join(), Err(JoinError::Cancelled(_)))
        }));
        child_waits.recv().unwrap();
        // The drop of the handle cancels the joiner, which waits, or is about to.
        drop(joiner);
        eventually("the child's result is dropped", || drops.count() == 1);
        assert!(told.get(), "the child's wait was cut short");
    });
}

#[test]
fn cancels_that_meet_the_end_of_the_child_lose_nothing() {
    with_each(|rt| {
        let rounds = if cfg!(debug_assertions) { 100 } else { 1_000 };
        let drops = Drops::new();
        for round in 0..rounds {
            let (begun, child_begun) = channel();
            let joiner = rt.spawn(own(&drops, |results| {
                let child = apart(USUAL, move || {
                    let _ = begun.send(());
                    let _ = yield_now();
                    results.guard()
                });
                let _ = child.join();
            }));
            if round % 2 == 0 {
                let _ = child_begun.recv();
            }
            (0..round % 64).for_each(|_| common::spin_loop());
            drop(joiner);
            // Every child that began has made one value, which is gone.
            drop(child_begun);
        }
        rt.block_on(|| ());
        eventually("all have ended", || alive(rt) == 0);
        assert!(drops.count() <= rounds);
    });
}

#[test]
fn ready_tasks_have_their_turn_while_another_joins_for_ever() {
    in_task(|_| {
        let done = Flag::new();
        let ready = spawn(move || {
            yields(10);
            done.set();
        });
        let mut joins = 0;
        while !done.get() {
            apart(USUAL, || ()).join().unwrap();
            joins += 1;
            assert!(joins < 10_000_000, "the other task has no turn");
        }
        ready.join().unwrap();
    });
}

#[test]
fn a_coroutine_kept_for_the_next_task_is_not_counted_as_alive() {
    with_each(|rt| {
        rt.block_on(|| {
            (0..100).for_each(|_| apart(USUAL, || ()).join().unwrap());
        });
        eventually("none is alive", || alive(rt) == 0);
    });
}

fn alive(rt: &cygnet::Runtime) -> u64 {
    rt.metrics().workers.iter().map(|worker| worker.coroutines).sum()
}
