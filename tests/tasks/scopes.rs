//! Scopes: tasks that borrow from the frame that waits for them.

use crate::common::prelude::*;

/// T40.
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

/// T40.
#[test]
fn a_scope_returns_after_its_tasks_and_their_children_have_ended() {
    in_task_and_many(|_| {
        for _ in 0..scaled(100) {
            let (ended, children) = (Count::new(), Count::new());
            scope(|s| {
                for i in 0..10 {
                    s.spawn(move || {
                        yields(i);
                        spawn(move || {
                            yield_now().unwrap();
                            children.up();
                        })
                        .detach();
                        ended.up();
                    });
                }
            });
            assert_eq!((ended.get(), children.get()), (10, 10));
        }
    });
}

/// T2.
#[test]
fn a_plain_spawn_inside_a_scope_belongs_to_it() {
    in_task(|_| {
        let ended = Count::new();
        let count = || {
            spawn(move || {
                yields(5);
                ended.up();
            })
            .detach();
        };
        scope(|_| (0..10).for_each(|_| count()));
        assert_eq!(ended.get(), 10);
        // After the scope they belong to the task again.
        count();
    });
}

/// T2.
#[test]
fn a_task_of_the_surrounding_one_does_not_hold_a_scope_up() {
    in_task(|rt| {
        let (outer, unparker) = sleeper(rt);
        scope(|s| s.spawn(|| ()).join().unwrap());
        assert!(!outer.is_finished());
        unparker.unpark();
        assert!(outer.join().unwrap());
    });
}

/// T33, T41.
#[test]
fn a_panic_surfaces_after_the_siblings_have_ended() {
    in_task_and_many(|_| {
        for _ in 0..scaled(20) {
            let ended = Count::new();
            let said = panic_of(|| {
                scope(|s| {
                    for i in 0..10 {
                        s.spawn(move || {
                            if i == 3 {
                                panic!("child 3");
                            }
                            yields(20);
                            ended.up();
                        });
                    }
                });
            });
            assert_eq!((said.as_str(), ended.get()), ("child 3", 9));
        }
    });
}

/// T41.
#[test]
fn the_panic_of_the_scope_s_own_closure_waits_for_the_tasks_and_goes_first() {
    in_task(|_| {
        let ended = Count::new();
        let said = panic_of(|| {
            scope(|s| {
                s.spawn(|| {
                    yields(20);
                    ended.up();
                    panic!("second");
                });
                panic!("first");
            });
        });
        assert_eq!((said.as_str(), ended.get()), ("first", 1));
    });
}

#[test]
fn a_panic_surfaces_once_with_its_payload_and_without_the_value_of_the_closure() {
    in_task(|_| {
        // A panic that was joined does not surface again.
        let joined = scope(|s| s.spawn(|| -> u8 { panic!("joined") }).join());
        assert!(joined.unwrap_err().is_panic());
        // The value of the closure is dropped.
        let drops = Drops::new();
        let said = panic_of(|| {
            scope(|s| {
                s.spawn(|| panic!("child"));
                drops.guard()
            })
        });
        assert_eq!((said.as_str(), drops.count()), ("child", 1));
        // A payload of any type comes through, and later scopes work.
        for i in 0..10_u8 {
            let panics = move || {
                if i % 2 == 1 {
                    resume_unwind(Box::new(i))
                }
            };
            let payload = payload_of(|| scope(|s| drop(s.spawn(panics))));
            let payload = payload.map(|payload| *payload.downcast::<u8>().unwrap());
            assert_eq!(payload, (i % 2 == 1).then_some(i));
        }
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
    in_task_and_many(|_| {
        let numbers: Vec<u64> = (0..scaled(4_000) as u64).collect();
        assert_eq!(sum(&numbers), numbers.iter().sum());
    });
}

#[test]
fn a_task_in_a_scope_may_spawn_into_it() {
    fn plant<'scope>(s: &'scope Scope<'scope, '_>, count: Count, n: usize) {
        count.up();
        if n > 0 {
            s.spawn(move || plant(s, count, n - 1));
            s.spawn(move || plant(s, count, n - 1));
        }
    }
    in_task_and_many(|_| {
        // One large tree, and many small ones, whose last tasks are stolen at the scope's very end.
        for depth in std::iter::once(8).chain((0..scaled_in_debug(2_000)).map(|_| 3)) {
            let count = Count::new();
            scope(|s| plant(s, count, depth));
            assert_eq!(count.get(), (2 << depth) - 1);
        }
    });
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "it leaks what it forgets, as it should")]
fn dropping_and_forgetting_a_handle_changes_nothing() {
    in_task_and_many(|_| {
        let (ran, results) = (Count::new(), Drops::new());
        scope(|s| {
            for i in 0..30 {
                let task = s.spawn(|| {
                    yield_now().unwrap();
                    ran.up();
                    results.guard()
                });
                match i % 3 {
                    0 => drop(task),
                    1 => std::mem::forget(task),
                    _ => drop(task.join().unwrap()),
                }
            }
        });
        assert_eq!(ran.get(), 30);
        // The result that a forgotten handle claims may leak.
        assert!((20..=30).contains(&results.count()), "{}", results.count());
    });
}

#[test]
fn a_handle_tells_whether_its_task_has_ended_and_its_id() {
    in_task(|_| {
        let stop = Flag::new();
        scope(|s| {
            let task = s.spawn(|| {
                stop.wait();
                cygnet::current_id()
            });
            assert!(!task.is_finished());
            stop.set();
            give_way_until(|| task.is_finished());
            let id = task.id();
            assert_eq!(task.join().unwrap(), Some(id));
        });
    });
}

/// T43, C21.
#[test]
fn the_end_of_a_scope_is_not_cut_short_by_a_cancellation() {
    in_task(|_| {
        let (ended, waits, go) = (Flag::new(), Flag::new(), Flag::new());
        let task = spawn(move || {
            let borrowed = std::sync::atomic::AtomicBool::new(false);
            scope(|s| {
                s.spawn(|| {
                    waits.set();
                    while !go.get() {
                        let _ = yield_now();
                    }
                    borrowed.store(true, std::sync::atomic::Ordering::Relaxed);
                });
            });
            ended.put(borrowed.into_inner());
        });
        waits.wait();
        drop(task);
        yields(50);
        assert!(!ended.get());
        go.set();
        ended.wait();
    });
}
