//! `join`: both halves run once each and to their end, whoever runs the second; what either of them borrows,
//! throws or waits for.

mod common;

use common::drops::Drops;
use common::rerun::{rerun, role};
use common::{
    eventually, give_way_until, panic_of, parks, runtime, scaled, with, with_each, within,
};
use cygnet::coroutine::Coroutine;
use cygnet::{
    Runtime, TaskLocal, is_cancelled, join, no_suspend, park, scope, spawn, task, yield_now,
};
use std::cell::Cell;
use std::hint::spin_loop;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Spins, without a suspension, until it is so: somebody else must make it so.
fn spin_until(so: &AtomicBool) {
    while !so.load(Ordering::Acquire) {
        spin_loop();
        std::thread::yield_now();
    }
}

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
fn a_panic_comes_after_both_halves_and_the_first_ones_goes_before() {
    with_each(|rt| {
        for taken_first in [false, true] {
            let may_take = taken_first && rt.metrics().workers.len() > 1;
            let (taken, count) = (AtomicBool::new(false), AtomicUsize::new(0));
            let begin = |panics: Option<&str>| {
                if may_take {
                    spin_until(&taken);
                }
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(text) = panics {
                    panic!("{text}");
                }
            };
            let end = |panics: Option<&str>| {
                taken.store(true, Ordering::Release);
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(text) = panics {
                    panic!("{text}");
                }
            };
            let cases = [
                (Some("first"), None, "first"),
                (None, Some("second"), "second"),
                (Some("first"), Some("second"), "first"),
            ];
            for (first, second, seen) in cases {
                taken.store(false, Ordering::Relaxed);
                count.store(0, Ordering::Relaxed);
                let text = panic_of(|| rt.block_on(|| join(|| begin(first), || end(second))));
                assert_eq!(text, seen);
                assert_eq!(count.load(Ordering::Relaxed), 2);
            }
        }
    });
}

#[test]
fn each_capture_and_result_is_dropped_once() {
    with_each(|rt| {
        let drops = Drops::default();
        rt.block_on(|| {
            for panics in [None, Some(0), Some(1)] {
                let (a, b) = (drops.guard(), drops.guard());
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    join(
                        || {
                            assert!(panics != Some(0), "the first one's");
                            a
                        },
                        || {
                            yield_now().unwrap();
                            assert!(panics != Some(1), "the second one's");
                            b
                        },
                    )
                }));
                assert_eq!(result.is_err(), panics.is_some());
            }
        });
        assert_eq!(drops.count(), 3 * 2);
    });
}

#[test]
fn outside_a_runtime_it_panics_with_a_sentence() {
    let text = panic_of(|| join(|| 1, || 2));
    assert!(text.contains("join was called outside a runtime"), "{text}");
}

#[test]
fn between_tasks_both_halves_are_called_one_after_the_other() {
    struct Joins(std::sync::mpsc::Sender<(u64, u64)>);
    impl Drop for Joins {
        fn drop(&mut self) {
            self.0.send(join(|| fib(10), || 2)).unwrap();
        }
    }
    with_each(|rt| {
        let (tell, told) = channel();
        // The result is dropped by the worker when the last child of the detached task has ended.
        rt.block_on(|| {
            spawn(move || {
                spawn(|| yield_now().unwrap()).detach();
                Joins(tell)
            })
            .detach();
        });
        assert_eq!(told.recv().unwrap(), (55, 2));
    });
}

#[test]
fn inside_no_suspend_a_half_that_was_taken_is_waited_for() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(100) {
            let taken = AtomicBool::new(false);
            let sum = rt.block_on(|| {
                no_suspend(|| {
                    let (a, b) = join(
                        || {
                            spin_until(&taken);
                            1
                        },
                        || {
                            taken.store(true, Ordering::Release);
                            fib(15)
                        },
                    );
                    a + b
                })
            });
            assert_eq!(sum, 611);
        }
    });
}

#[test]
fn a_half_forked_outside_is_not_called_where_its_task_holds_the_worker() {
    /// A structured wait for a task that is not called in place.
    fn wait() {
        scope(|s| drop(s.spawn_with(task().stack_size(1 << 20).unwrap(), || ())));
    }
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            wait();
        }
    }
    with_each(|rt| {
        for _ in 0..scaled(20) {
            rt.block_on(|| {
                join(|| no_suspend(wait), || yield_now().unwrap());
                let result = std::panic::catch_unwind(|| {
                    join(
                        || {
                            let _waits = Waits;
                            std::panic::resume_unwind(Box::new("first"));
                        },
                        || {
                            assert!(!std::thread::panicking());
                            yield_now().unwrap();
                        },
                    )
                });
                assert_eq!(result.unwrap_err().downcast_ref(), Some(&"first"));
            });
        }
    });
}

#[test]
fn a_destructor_may_join_while_its_thread_panics() {
    struct Joins<'a>(&'a AtomicUsize);
    impl Drop for Joins<'_> {
        fn drop(&mut self) {
            let (a, b) = join(|| fib(12), || fib(13));
            self.0.fetch_add((a + b) as usize, Ordering::Relaxed);
        }
    }
    with_each(|rt| {
        let sum = AtomicUsize::new(0);
        let text = panic_of(|| {
            rt.block_on(|| {
                let _joins = Joins(&sum);
                panic!("first");
            })
        });
        assert_eq!((text.as_str(), sum.into_inner()), ("first", 144 + 233));
    });
}

#[test]
fn a_cancelled_task_sees_it_in_both_halves() {
    with_each(|rt| {
        let (started, wait) = channel();
        let (tell, told) = channel();
        let cancelled = || {
            while yield_now().is_ok() {}
            is_cancelled()
        };
        let task = rt.spawn(move || {
            started.send(()).unwrap();
            tell.send(join(cancelled, cancelled)).unwrap();
        });
        wait.recv().unwrap();
        drop(task);
        assert_eq!(told.recv().unwrap(), (true, true));
    });
}

#[test]
fn a_cancel_reaches_halves_that_are_parked_elsewhere() {
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(50) {
            let before = parks(rt);
            let (tell, told) = channel();
            let task = rt.spawn(move || {
                let taken: [_; 2] = std::array::from_fn(|_| AtomicBool::new(false));
                let inner = |taken: &AtomicBool| {
                    taken.store(true, Ordering::Release);
                    park().is_err()
                };
                let ended = join(
                    || join(|| spin_until(&taken[0]), || park().is_err()).1,
                    || {
                        let both = join(|| inner(&taken[0]), || park().is_err());
                        both.0 && both.1
                    },
                );
                tell.send(ended).unwrap();
            });
            eventually("all are parked", || parks(rt) >= before + 3);
            drop(task);
            assert_eq!(told.recv().unwrap(), (true, true));
        }
    });
}

#[test]
fn a_cancel_reaches_a_half_and_its_half_that_park_at_the_same_time() {
    #[derive(Default)]
    struct Flags {
        taken: AtomicBool,
        cancelled: AtomicBool,
        met: AtomicUsize,
    }
    with(&[2, 3, 8], |rt| {
        for _ in 0..scaled(300) {
            let flags = Arc::new(Flags::default());
            let (tell, told) = channel();
            let task = rt.spawn({
                let flags = flags.clone();
                move || {
                    let park_together = || {
                        flags.met.fetch_add(1, Ordering::AcqRel);
                        while flags.met.load(Ordering::Acquire) < 2 {
                            spin_loop();
                        }
                        park().is_err()
                    };
                    let taken = || {
                        flags.taken.store(true, Ordering::Release);
                        spin_until(&flags.cancelled);
                        join(park_together, park_together)
                    };
                    let ((), ended) = join(|| spin_until(&flags.taken), taken);
                    tell.send(ended).unwrap();
                }
            });
            spin_until(&flags.taken);
            drop(task);
            flags.cancelled.store(true, Ordering::Release);
            assert_eq!(told.recv().unwrap(), (true, true));
        }
    });
}

#[test]
fn both_halves_run_to_their_end_when_the_runtime_ends() {
    within(|| {
        for workers in common::WORKERS {
            let rt = runtime(workers);
            let (started, wait) = channel();
            let (tell, told) = channel();
            rt.spawn(move || {
                started.send(()).unwrap();
                let until_cut = || {
                    while yield_now().is_ok() {}
                    join(|| 1, || 2)
                };
                tell.send(join(until_cut, until_cut)).unwrap();
            })
            .detach();
            wait.recv().unwrap();
            drop(rt);
            assert_eq!(told.recv().unwrap(), ((1, 2), (1, 2)));
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
fn a_bare_coroutine_is_not_left_in_the_middle_of_a_join() {
    with_each(|rt| {
        rt.block_on(|| {
            let coroutine = Coroutine::new(|yielder, ()| {
                let sum = join(|| fib(10), || fib(11));
                yielder.suspend(sum.0 + sum.1);
                let (result, _) = join(|| panic_of(|| yielder.suspend(0)), || yield_now().unwrap());
                assert!(result.contains("must end"), "{result}");
                yielder.suspend(2);
            });
            let outer = join(|| coroutine.resume(()).unwrap().yielded().unwrap(), || fib(12));
            assert_eq!(outer, (55 + 89, 144));
            assert_eq!(coroutine.resume(()).unwrap().yielded().unwrap(), 2);
            // And the row of forks is in order afterwards.
            assert_eq!(fib(15), 610);
            assert!(coroutine.resume(()).unwrap().returned().is_some());
        });
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

/// A list of either shape: the rest in the first half, or in the second.
fn list(n: usize, rest_first: bool, ended: &AtomicUsize) {
    if n == 0 {
        return;
    }
    let leaf = || {
        ended.fetch_add(1, Ordering::Relaxed);
    };
    let rest = || list(n - 1, rest_first, ended);
    let ((), ()) = if rest_first { join(rest, leaf) } else { join(leaf, rest) };
}

#[test]
fn a_deep_list_ends_in_either_shape_and_with_more_forks_than_a_row_holds() {
    with_each(|rt| {
        for rest_first in [false, true] {
            for depth in [10, 1023, 1024, 1025, 5000] {
                let ended = AtomicUsize::new(0);
                rt.block_on(|| {
                    scope(|s| {
                        // Some kilobytes for each level in debug builds, under sanitizers more.
                        let deep = task().stack_size(256 << 20).unwrap();
                        s.spawn_with(deep, || list(depth, rest_first, &ended));
                    });
                });
                assert_eq!(ended.into_inner(), depth);
            }
        }
    });
}

#[test]
fn a_full_row_is_left_and_found_again() {
    fn deep(n: usize, ended: &AtomicUsize) {
        if n == 0 {
            return;
        }
        if n.is_multiple_of(97) {
            yield_now().unwrap();
        }
        join(|| deep(n - 1, ended), || ended.fetch_add(1, Ordering::Relaxed));
        if n.is_multiple_of(89) {
            yield_now().unwrap();
            join(|| ended.fetch_add(1, Ordering::Relaxed), || yield_now().unwrap());
        }
    }
    with_each(|rt| {
        let ended = AtomicUsize::new(0);
        rt.block_on(|| {
            scope(|s| {
                for _ in 0..3 {
                    let task = task().stack_size(256 << 20).unwrap();
                    s.spawn_with(task, || deep(3000, &ended));
                }
            });
        });
        assert_eq!(ended.into_inner(), 3 * (3000 + 3000 / 89));
    });
}

#[test]
fn a_list_too_deep_for_its_stack_ends_in_the_report_of_an_overflow() {
    let name = "a_list_too_deep_for_its_stack_ends_in_the_report_of_an_overflow";
    if let Some(_role) = role() {
        let rt = runtime(2);
        rt.block_on(|| list(1_000_000, true, &AtomicUsize::new(0)));
        return;
    }
    if common::SANITIZED {
        return; // they handle the signal themselves
    }
    let output = rerun(name, "overflow");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("has overflowed its stack"), "{text}");
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
fn with_a_single_stack_nothing_is_lost() {
    within(|| {
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).max_stacks(workers).build().unwrap();
            let waits = |n: u64| {
                for _ in 0..10 {
                    yield_now().unwrap();
                }
                fib(n)
            };
            assert_eq!(rt.block_on(|| join(|| waits(10), || waits(12))), (55, 144));
        }
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
