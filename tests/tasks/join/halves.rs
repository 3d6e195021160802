//! The results of the halves, their borrows, and their waits.

use super::fib;
use crate::common::prelude::*;

#[test]
fn both_results_come_back_in_order_and_large_ones_survive() {
    with_each(|rt| {
        assert_eq!(rt.block_on(|| join(|| 1, || "two")), (1, "two"));
        assert_eq!(rt.block_on(|| fib(20)), 6765);
        // In a debug build each of them is on the stack many times.
        let (left, right) = ([1u8; 400], [2u8; 400]);
        let swapped = |bytes: [u8; 400]| bytes.map(|byte| 3 - byte);
        let (a, b) = rt.block_on(|| join(|| swapped(left), move || swapped(right)));
        assert_eq!((a, b), (right, left));
    });
}

#[test]
fn the_first_half_need_not_be_send() {
    in_task(|_| {
        let count = Rc::new(Cell::new(0));
        let counter = count.clone();
        let first = move || {
            counter.set(counter.get() + 1);
            counter
        };
        let (rc, ()) = join(first, || ());
        assert_eq!((rc.get(), count.get()), (1, 1));
    });
}

/// T44.
#[test]
fn another_worker_takes_the_second_half_and_the_oldest_of_many_first() {
    in_task_with(&[2, 3, 8], |_| {
        let taken = Flag::new();
        join(|| taken.hold(), || taken.set());
    });
    // Only the outermost second half lets the innermost first half go on.
    in_task_with(&[2], |_| {
        let (taken, later) = (Flag::new(), Count::new());
        let nested = || {
            join(|| taken.hold(), || later.up());
        };
        join(nested, || taken.set());
        assert_eq!(later.get(), 1);
    });
}

#[test]
fn a_half_may_wait_for_the_other_and_for_tasks_that_other_halves_spawn() {
    in_task(|_| {
        let set = Flag::new();
        join(|| set.wait(), || set.set());
        let unparker = cygnet::unparker();
        join(|| park().unwrap(), move || unparker.unpark());
        let spawns = || (0..10).map(|i| spawn(move || i)).collect::<Vec<_>>();
        let (tasks, more) = join(spawns, || spawn(|| 100).join().unwrap());
        assert_eq!(join_all(tasks).into_iter().sum::<i32>() + more, 145);
    });
}

#[test]
fn a_half_that_was_taken_has_the_task_locals_of_the_fork() {
    static NAME: TaskLocal<u32> = TaskLocal::new();
    let name = || NAME.with(|name| name.copied());
    in_task_with(&[2, 3, 8], |_| {
        for _ in 0..scaled(50) {
            NAME.scope(1, || {
                let (outer, inner) = (Flag::new(), Flag::new());
                let tell = |flag: Flag| {
                    flag.set();
                    name()
                };
                let rebinds = || {
                    let both = join(|| inner.hold(), || tell(inner));
                    outer.hold();
                    (both.1, name())
                };
                let names = join(|| NAME.scope(2, rebinds), || tell(outer));
                assert_eq!(names, ((Some(2), Some(2)), Some(1)));
            });
            assert_eq!(name(), None);
        }
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
    in_task(|_| {
        // SAFETY: it holds numbers over its suspensions.
        let tasks = (0..20).map(|_| unsafe { cygnet::task().migratable() }.spawn(|| sum(5)));
        assert_eq!(join_all(tasks).into_iter().sum::<u64>(), 20 * 32);
    });
}

/// T44.
#[test]
fn a_random_program_runs_each_half_once() {
    fn step(seed: u64, depth: u32, count: Count) -> usize {
        // Steele, Lea, Flood, OOPSLA 2014 (SplitMix64).
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        count.up();
        if depth == 0 {
            return 1;
        }
        let (left, right) = (z, z.rotate_left(32));
        let first = || step(left, depth - 1, count);
        let second = || step(right, depth - 1, count);
        let sum = |(a, b)| a + b;
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
                let parks = || {
                    park().unwrap();
                    first()
                };
                let unparks = || {
                    unparker.unpark();
                    second()
                };
                sum(join(parks, unparks))
            }
            3 => no_suspend(|| join(|| 1, || 1).0) + first() - 1,
            4 => {
                let yields = || {
                    let a = first();
                    yield_now().unwrap();
                    a
                };
                sum(join(yields, second))
            }
            _ => sum(join(first, second)),
        }
    }
    with_each_and_many(|rt| {
        for seed in 0..scaled(30) as u64 {
            let count = Count::new();
            let returned = rt.block_on(|| step(seed, 9, count));
            assert_eq!(returned, count.get());
        }
    });
}
