//! What the halves give back, borrow, and wait for.

use super::{fib, spin_until};
use crate::common;
use crate::common::{give_way_until, scaled, with, with_each};
use cygnet::{TaskLocal, join, no_suspend, park, scope, spawn, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn both_results_come_back_in_order() {
    with_each(|rt| {
        assert_eq!(rt.block_on(|| join(|| 1, || "two")), (1, "two"));
        assert_eq!(rt.block_on(|| fib(20)), 6765);
    });
}

#[test]
fn large_results_and_captures_survive() {
    with_each(|rt| {
        // In a debug build each of them is on the stack many times.
        let (left, right) = ([1u8; 400], [2u8; 400]);
        let swapped = |mut bytes: [u8; 400]| {
            bytes.iter_mut().for_each(|byte| *byte = 3 - *byte);
            bytes
        };
        let (a, b) = rt.block_on(|| join(|| swapped(left), move || swapped(right)));
        assert_eq!((a, b), (right, left));
    });
}

#[test]
fn the_first_half_need_not_be_send() {
    with_each(|rt| {
        rt.block_on(|| {
            let count = Rc::new(Cell::new(0));
            let counter = count.clone();
            let (rc, ()) = join(
                move || {
                    counter.set(counter.get() + 1);
                    counter
                },
                || (),
            );
            assert_eq!((rc.get(), count.get()), (1, 1));
        });
    });
}

#[test]
fn another_worker_takes_the_second_half_of_one_that_computes() {
    with(&[2, 3, 8], |rt| {
        let taken = AtomicBool::new(false);
        rt.block_on(|| join(|| spin_until(&taken), || taken.store(true, Ordering::Release)));
    });
}

#[test]
fn the_oldest_of_many_forks_is_taken_first() {
    with(&[2], |rt| {
        // Only the outermost second half lets the innermost first half go on.
        let taken = AtomicBool::new(false);
        let later = AtomicUsize::new(0);
        rt.block_on(|| {
            let nested = || {
                join(|| spin_until(&taken), || later.fetch_add(1, Ordering::Relaxed));
            };
            join(nested, || taken.store(true, Ordering::Release));
        });
        assert_eq!(later.into_inner(), 1);
    });
}

#[test]
fn the_first_half_may_wait_for_the_second() {
    with_each(|rt| {
        rt.block_on(|| {
            let set = AtomicBool::new(false);
            join(
                || give_way_until(|| set.load(Ordering::Acquire)),
                || set.store(true, Ordering::Release),
            );
            let unparker = cygnet::unparker();
            join(|| park().unwrap(), move || unparker.unpark());
        });
    });
}

#[test]
fn a_half_may_wait_for_tasks_that_other_halves_spawn() {
    with_each(|rt| {
        let total = rt.block_on(|| {
            let (tasks, more) = join(
                || (0..10).map(|i| spawn(move || i)).collect::<Vec<_>>(),
                || spawn(|| 100).join().unwrap(),
            );
            tasks.into_iter().map(|task| task.join().unwrap()).sum::<i32>() + more
        });
        assert_eq!(total, 145);
    });
}

#[test]
fn a_second_half_that_was_taken_may_wait() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(200) {
            let taken = AtomicBool::new(false);
            let (a, b) = rt.block_on(|| {
                join(
                    || {
                        spin_until(&taken);
                        1
                    },
                    || {
                        taken.store(true, Ordering::Release);
                        yield_now().unwrap();
                        spawn(|| yield_now().unwrap()).join().unwrap();
                        2
                    },
                )
            });
            assert_eq!((a, b), (1, 2));
        }
    });
}

#[test]
fn a_half_that_was_taken_has_the_task_locals_of_the_fork() {
    static NAME: TaskLocal<u32> = TaskLocal::new();
    let name = || NAME.with(|name| name.copied());
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(50) {
            rt.block_on(|| {
                NAME.scope(1, || {
                    let (outer, inner) = (AtomicBool::new(false), AtomicBool::new(false));
                    let tell = |flag: &AtomicBool| {
                        flag.store(true, Ordering::Release);
                        name()
                    };
                    let (within, without) = join(
                        || {
                            NAME.scope(2, || {
                                let both = join(|| spin_until(&inner), || tell(&inner));
                                spin_until(&outer);
                                (both.1, name())
                            })
                        },
                        || tell(&outer),
                    );
                    assert_eq!((within, without), ((Some(2), Some(2)), Some(1)));
                });
                assert_eq!(name(), None);
            });
        }
    });
}

#[test]
fn scopes_and_joins_nest() {
    fn sum(depth: u32) -> usize {
        if depth == 0 {
            return 1;
        }
        let count = AtomicUsize::new(0);
        let (a, b) = join(
            || {
                scope(|s| {
                    let task = s.spawn(|| sum(depth - 1));
                    s.spawn(|| count.fetch_add(sum(depth - 1), Ordering::Relaxed));
                    let (a, b) = join(|| sum(depth - 1), || task.join().unwrap());
                    a + b
                })
            },
            || spawn(move || sum(depth - 1)).join().unwrap(),
        );
        a + b + count.into_inner()
    }
    with_each(|rt| {
        let depth = if common::SANITIZED || common::emulated() { 4 } else { 6 };
        assert_eq!(rt.block_on(|| sum(depth)), 4usize.pow(depth));
    });
}

#[test]
fn a_migratable_task_may_suspend_inside() {
    fn sum(n: u64) -> u64 {
        if n == 0 {
            yield_now().unwrap();
            spawn(|| yield_now().unwrap()).join().unwrap();
            return 1;
        }
        let (a, b) = join(|| sum(n - 1), || sum(n - 1));
        a + b
    }
    with_each(|rt| {
        let sums = rt.block_on(|| {
            let tasks: Vec<_> = (0..20)
                // SAFETY: holds numbers over its suspensions.
                .map(|_| unsafe { cygnet::spawn_migratable(|| sum(5)) })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sums, 20 * 32);
    });
}

#[test]
fn many_workers_that_fork_lose_nothing() {
    common::with_each_and_many(|rt| {
        for _ in 0..scaled(20) {
            assert_eq!(rt.block_on(|| fib(18)), 2584);
        }
    });
}

#[test]
fn a_random_program_runs_each_half_once() {
    fn step(seed: u64, depth: u32, count: &AtomicUsize) -> usize {
        // Steele, Lea, Flood, OOPSLA 2014 (SplitMix64).
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        count.fetch_add(1, Ordering::Relaxed);
        if depth == 0 {
            return 1;
        }
        let (left, right) = (z, z.rotate_left(32));
        let first = || step(left, depth - 1, count);
        let second = || step(right, depth - 1, count);
        1 + match z % 16 {
            0 => {
                yield_now().unwrap();
                first()
            }
            1 => scope(|s| {
                let task = s.spawn(second);
                let a = first();
                a + task.join().unwrap()
            }),
            2 => {
                let unparker = cygnet::unparker();
                let (a, b) = join(
                    || {
                        park().unwrap();
                        first()
                    },
                    || {
                        unparker.unpark();
                        second()
                    },
                );
                a + b
            }
            3 => no_suspend(|| join(|| 1, || 1).0) + first() - 1,
            4 => {
                let (a, b) = join(
                    || {
                        let a = first();
                        yield_now().unwrap();
                        a
                    },
                    second,
                );
                a + b
            }
            _ => {
                let (a, b) = join(first, second);
                a + b
            }
        }
    }
    common::with_each_and_many(|rt| {
        for seed in 0..scaled(30) as u64 {
            let count = AtomicUsize::new(0);
            let returned = rt.block_on(|| step(seed, 9, &count));
            assert_eq!(returned, count.into_inner());
        }
    });
}
