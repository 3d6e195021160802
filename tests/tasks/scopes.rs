//! Scopes: tasks that borrow from the frame that waits for them.

use crate::common::Mutex;
use crate::common::{
    Drops, give_way_until, panic_of, parks, scaled, scaled_in_debug, with_each, with_each_and_many,
};
use cygnet::{park, scope, spawn, unparker, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn tasks_in_a_scope_borrow_and_mutate_what_is_outside() {
    with_each_and_many(|rt| {
        let mut numbers: Vec<u64> = (0..1_000).collect();
        let factor = 3;
        let sum = rt.block_on(|| {
            scope(|s| {
                for part in numbers.chunks_mut(10) {
                    s.spawn(|| part.iter_mut().for_each(|n| *n *= factor));
                }
            });
            scope(|s| {
                let parts: Vec<_> =
                    numbers.chunks(100).map(|part| s.spawn(|| part.iter().sum::<u64>())).collect();
                parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>()
            })
        });
        assert_eq!(sum, 3 * 999 * 1_000 / 2);
    });
}

#[test]
fn a_scope_returns_after_its_tasks_and_their_children_have_ended() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            for _ in 0..scaled(100) {
                let ended = AtomicUsize::new(0);
                let shared = Arc::new(AtomicUsize::new(0));
                scope(|s| {
                    for i in 0..10 {
                        let (ended, shared) = (&ended, shared.clone());
                        s.spawn(move || {
                            (0..i).for_each(|_| yield_now().unwrap());
                            spawn(move || {
                                yield_now().unwrap();
                                shared.fetch_add(1, Ordering::Relaxed);
                            })
                            .detach();
                            ended.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
                assert_eq!(ended.into_inner(), 10);
                assert_eq!(shared.load(Ordering::Relaxed), 10);
            }
        });
    });
}

#[test]
fn a_plain_spawn_inside_a_scope_belongs_to_it() {
    with_each(|rt| {
        rt.block_on(|| {
            let ended = Arc::new(AtomicUsize::new(0));
            let count = |ended: &Arc<AtomicUsize>| {
                let ended = ended.clone();
                spawn(move || {
                    (0..5).for_each(|_| yield_now().unwrap());
                    ended.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            };
            scope(|_| (0..10).for_each(|_| count(&ended)));
            assert_eq!(ended.load(Ordering::Relaxed), 10);
            // After the scope they belong to the task again.
            count(&ended);
        });
    });
}

#[test]
fn a_task_of_the_surrounding_one_does_not_hold_a_scope_up() {
    with_each(|rt| {
        rt.block_on(|| {
            let before = parks(rt);
            let place = Arc::new(Mutex::new(None));
            let outer = spawn({
                let place = place.clone();
                move || {
                    *place.lock().unwrap() = Some(unparker());
                    park().unwrap();
                }
            });
            give_way_until(|| parks(rt) > before);
            scope(|s| s.spawn(|| ()).join().unwrap());
            assert!(!outer.is_finished());
            place.lock().unwrap().take().unwrap().unpark();
            outer.join().unwrap();
        });
    });
}

#[test]
fn a_panic_surfaces_after_the_siblings_have_ended() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            for _ in 0..scaled(20) {
                let ended = AtomicUsize::new(0);
                let said = panic_of(|| {
                    scope(|s| {
                        for i in 0..10 {
                            let ended = &ended;
                            s.spawn(move || {
                                if i == 3 {
                                    panic!("child 3");
                                }
                                (0..20).for_each(|_| yield_now().unwrap());
                                ended.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                });
                assert_eq!((said.as_str(), ended.into_inner()), ("child 3", 9));
            }
        });
    });
}

#[test]
fn the_panic_of_the_scope_s_own_closure_waits_for_the_tasks_and_goes_first() {
    with_each(|rt| {
        rt.block_on(|| {
            let ended = AtomicUsize::new(0);
            let said = panic_of(|| {
                scope(|s| {
                    s.spawn(|| {
                        (0..20).for_each(|_| yield_now().unwrap());
                        ended.fetch_add(1, Ordering::Relaxed);
                        panic!("second");
                    });
                    panic!("first");
                });
            });
            assert_eq!((said.as_str(), ended.into_inner()), ("first", 1));
        });
    });
}

#[test]
fn a_panic_that_was_joined_does_not_surface_again() {
    with_each(|rt| {
        rt.block_on(|| {
            let joined = scope(|s| s.spawn(|| -> u8 { panic!("joined") }).join());
            assert!(joined.unwrap_err().is_panic());
        });
    });
}

#[test]
fn the_value_of_the_closure_is_dropped_when_a_child_panics() {
    with_each(|rt| {
        rt.block_on(|| {
            let drops = Drops::new();
            let said = panic_of(|| {
                scope(|s| {
                    s.spawn(|| panic!("child"));
                    drops.guard()
                })
            });
            assert_eq!((said.as_str(), drops.count()), ("child", 1));
        });
    });
}

#[test]
fn a_scope_is_usable_after_a_panic_in_an_earlier_one() {
    with_each(|rt| {
        rt.block_on(|| {
            for i in 0..10 {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    scope(|s| {
                        s.spawn(|| assert!(i % 2 == 0, "odd"));
                    });
                }));
                assert_eq!(caught.is_ok(), i % 2 == 0);
            }
        });
    });
}

#[test]
fn scopes_nest_in_one_task_and_in_their_children() {
    fn sum(numbers: &[u64]) -> u64 {
        if numbers.len() <= 4 {
            return numbers.iter().sum();
        }
        let (left, right) = numbers.split_at(numbers.len() / 2);
        scope(|s| {
            let left = s.spawn(move || sum(left));
            let inner = scope(|s| s.spawn(|| sum(right)).join().unwrap());
            left.join().unwrap() + inner
        })
    }
    with_each_and_many(|rt| {
        let numbers: Vec<u64> = (0..scaled(4_000) as u64).collect();
        let expected: u64 = numbers.iter().sum();
        assert_eq!(rt.block_on(|| sum(&numbers)), expected);
    });
}

#[test]
fn a_task_in_a_scope_may_spawn_into_it() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            fn plant<'scope>(
                s: &'scope cygnet::Scope<'scope, '_>,
                count: &'scope AtomicUsize,
                n: usize,
            ) {
                count.fetch_add(1, Ordering::Relaxed);
                if n > 0 {
                    s.spawn(move || plant(s, count, n - 1));
                    s.spawn(move || plant(s, count, n - 1));
                }
            }
            // One large tree, and many small ones, whose last tasks are stolen at the scope's very end.
            for depth in std::iter::once(8).chain((0..scaled_in_debug(2_000)).map(|_| 3)) {
                let count = AtomicUsize::new(0);
                scope(|s| plant(s, &count, depth));
                assert_eq!(count.into_inner(), (2 << depth) - 1);
            }
        });
    });
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "it leaks what it forgets, as it should")]
fn dropping_and_forgetting_a_handle_changes_nothing() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let (ran, results) = (AtomicUsize::new(0), Drops::new());
            scope(|s| {
                for i in 0..30 {
                    let task = s.spawn(|| {
                        yield_now().unwrap();
                        ran.fetch_add(1, Ordering::Relaxed);
                        results.guard()
                    });
                    match i % 3 {
                        0 => drop(task),
                        1 => std::mem::forget(task),
                        _ => drop(task.join().unwrap()),
                    }
                }
            });
            assert_eq!(ran.into_inner(), 30);
            // What a forgotten handle claims is nobody's to drop, and may leak.
            assert!((20..=30).contains(&results.count()), "{}", results.count());
        });
    });
}

#[test]
fn the_result_of_a_dropped_handle_is_gone_when_the_scope_returns() {
    with_each(|rt| {
        rt.block_on(|| {
            let results = Drops::new();
            scope(|s| {
                for i in 0..20 {
                    let results = &results;
                    s.spawn(move || {
                        (0..i % 4).for_each(|_| yield_now().unwrap());
                        results.guard()
                    });
                }
            });
            assert_eq!(results.count(), 20);
        });
    });
}

#[test]
fn a_handle_tells_whether_its_task_has_ended_and_its_id() {
    with_each(|rt| {
        rt.block_on(|| {
            let stop = AtomicBool::new(false);
            scope(|s| {
                let task = s.spawn(|| {
                    give_way_until(|| stop.load(Ordering::Relaxed));
                    cygnet::current_id()
                });
                assert!(!task.is_finished());
                stop.store(true, Ordering::Relaxed);
                give_way_until(|| task.is_finished());
                let id = task.id();
                assert_eq!(task.join().unwrap(), Some(id));
            });
        });
    });
}

#[test]
fn the_end_of_a_scope_is_not_cut_short_by_a_cancellation() {
    with_each(|rt| {
        rt.block_on(|| {
            let (ended, waits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let go = Arc::new(AtomicBool::new(false));
            let task = spawn({
                let (ended, waits, go) = (ended.clone(), waits.clone(), go.clone());
                move || {
                    let borrowed = AtomicUsize::new(0);
                    scope(|s| {
                        s.spawn(|| {
                            waits.store(true, Ordering::Release);
                            while !go.load(Ordering::Acquire) {
                                let _ = yield_now();
                            }
                            borrowed.fetch_add(1, Ordering::Relaxed);
                        });
                    });
                    ended.store(borrowed.into_inner(), Ordering::Release);
                }
            });
            give_way_until(|| waits.load(Ordering::Acquire));
            drop(task);
            (0..50).for_each(|_| yield_now().unwrap());
            assert_eq!(ended.load(Ordering::Acquire), 0);
            go.store(true, Ordering::Release);
            give_way_until(|| ended.load(Ordering::Acquire) == 1);
        });
    });
}

#[test]
fn a_scope_in_a_destructor_that_runs_because_of_a_panic_waits_for_its_tasks() {
    struct Opens<'a>(&'a AtomicUsize);
    impl Drop for Opens<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| self.0.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
    }
    with_each(|rt| {
        rt.block_on(|| {
            let ran = AtomicUsize::new(0);
            let said = panic_of(|| {
                let _opens = Opens(&ran);
                panic!("unwinding");
            });
            assert_eq!((said.as_str(), ran.into_inner()), ("unwinding", 10));
            // The worker is as it was.
            yield_now().unwrap();
            assert_eq!(spawn(|| 1).join().unwrap(), 1);
        });
    });
}

#[test]
fn a_payload_of_any_type_comes_through_a_scope() {
    with_each(|rt| {
        rt.block_on(|| {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                scope(|s| {
                    s.spawn(|| resume_unwind(Box::new(17u8)));
                });
            }));
            assert_eq!(*caught.unwrap_err().downcast::<u8>().unwrap(), 17);
        });
    });
}

#[test]
fn a_scope_outside_a_task_says_where_to_call_it() {
    assert!(panic_of(|| scope(|_| ())).contains("outside a task"));
}
