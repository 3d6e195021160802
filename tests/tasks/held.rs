//! Scopes that end where nothing may be suspended, in the middle of an unwinding or inside
//! `no_suspend`. They end whatever their children need, and however many other scopes are in the
//! same position.

use crate::common::prelude::*;
use cygnet::coroutine::Coroutine;
use std::hint::black_box;

const LARGE: usize = if common::SANITIZED { 8 << 20 } else { 1 << 20 };

/// Opens a scope where nothing may be suspended.
fn held_scope<'env>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>)) {
    no_suspend(|| scope(f));
}

/// Opens a scope when it is dropped, in which a task counts itself.
fn late(count: Count) -> OnDrop<impl FnMut()> {
    OnDrop(move || scope(|s| drop(s.spawn(|| count.up()))))
}

#[test]
fn a_child_has_the_stack_that_it_asked_for() {
    in_task(|_| {
        let deep = || {
            let room = black_box([1u8; LARGE / 4]);
            usize::from(room[LARGE / 8])
        };
        let sum = Count::new();
        held_scope(|s| {
            for _ in 0..3 {
                task().stack_size(LARGE).unwrap().spawn_in(s, || sum.add(deep()));
            }
        });
        assert_eq!(sum.get(), 3);
    });
}

#[test]
fn a_local_child_is_called_whatever_it_needs() {
    in_task(|_| {
        let count = Rc::new(Cell::new(0));
        held_scope(|_| {
            let counts = || own(&count, move |count| count.set(count.get() + 1));
            for size in [16 << 10, LARGE] {
                task().stack_size(size).unwrap().spawn_in(ThisWorker, counts()).detach();
            }
            spawn_local(counts()).detach();
        });
        assert_eq!(count.get(), 3);
    });
}

#[test]
fn a_child_on_a_stack_of_its_own_may_panic_and_hold_again() {
    with_each(|rt| {
        let counted = Count::new();
        let error = rt
            .try_block_on(|| {
                held_scope(|s| {
                    task().stack_size(LARGE).unwrap().spawn_in(s, || {
                        let _late = late(counted);
                        resume_unwind(Box::new("the child"));
                    });
                })
            })
            .unwrap_err();
        assert!(error.to_string().contains("the child"), "{error}");
        assert_eq!(counted.get(), 1);
    });
}

#[test]
fn workers_that_are_all_held_end_for_all_that_their_children_need_stacks() {
    within_each([2, 3, 8], |workers| {
        let (rt, barrier) = (runtime(workers), Barrier::new(workers));
        let held = || {
            held_scope(|s| {
                barrier.wait();
                task().stack_size(LARGE).unwrap().spawn_in(s, || ());
                barrier.wait();
            })
        };
        rt.block_on(|| scope(|s| (0..workers).for_each(|_| drop(s.spawn(held)))));
    });
}

#[test]
fn workers_that_are_all_held_in_bare_coroutines_end() {
    within_each([1, 2, 8], |workers| {
        let (rt, barrier) = (runtime(workers), Barrier::new(workers));
        let held = || {
            let body = |_: &_, ()| {
                held_scope(|s| {
                    barrier.wait();
                    s.spawn(|| ());
                    barrier.wait();
                })
            };
            Coroutine::<(), (), ()>::scoped(body, |coroutine| {
                coroutine.resume(()).unwrap().returned().unwrap();
            });
        };
        rt.block_on(|| scope(|s| (0..workers).for_each(|_| drop(s.spawn(held)))));
    });
}

#[test]
fn scopes_in_coroutines_that_are_unwound_on_all_workers_end() {
    with_each(|rt| {
        const TASKS: usize = 50;
        for _ in 0..scaled(20) {
            let counted = Count::new();
            let unwinds = || {
                let body = |yielder: &cygnet::coroutine::Yielder<(), ()>, ()| {
                    let _late = late(counted);
                    yielder.suspend(());
                };
                // Suspended at the end of its scope, and unwound by that.
                Coroutine::scoped(body, |coroutine| {
                    coroutine.resume(()).unwrap().yielded().unwrap();
                    yield_now().unwrap();
                });
            };
            rt.block_on(|| scope(|s| (0..TASKS).for_each(|_| drop(s.spawn(unwinds)))));
            assert_eq!(counted.get(), TASKS);
        }
    });
}

/// Each held worker has children in its queues that others have stolen, and that are held
/// themselves.
#[test]
fn tasks_that_held_workers_give_away_are_found_by_their_waiters() {
    within_each(0..scaled(50), |_| {
        let (rt, barrier, counted) = (runtime(2), Barrier::new(2), Count::new());
        let spin = |n| (0..n).for_each(|_| common::spin_loop());
        let leaf = || {
            spin(200);
            counted.up();
        };
        let inner = || no_suspend(|| crowd(40, |_| leaf()));
        let outer = || {
            barrier.wait();
            no_suspend(|| crowd(200, |i| if i % 50 == 0 { inner() } else { spin(2_000) }));
        };
        rt.block_on(|| scope(|s| (0..2).for_each(|_| drop(s.spawn(outer)))));
        assert_eq!(counted.get(), 2 * 4 * 40);
    });
}
