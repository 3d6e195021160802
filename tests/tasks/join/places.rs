//! Where a join is called: outside of tasks, where nothing may suspend, in a bare coroutine.

use super::{fib, spin_until};
use crate::common::mpsc::channel;
use crate::common::thread::{ThreadId, current};
use crate::common::{panic_of, scaled, with, with_each};
use cygnet::coroutine::Coroutine;
use cygnet::{join, no_suspend, park, scope, spawn, spawn_migratable, task, unparker, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn outside_a_runtime_it_panics_with_a_sentence() {
    let text = panic_of(|| join(|| 1, || 2));
    assert!(text.contains("join was called outside a runtime"), "{text}");
}

#[test]
fn between_tasks_both_halves_are_called_one_after_the_other() {
    struct Joins(crate::common::mpsc::Sender<(u64, u64)>);
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
fn a_bare_coroutine_is_not_left_in_the_middle_of_a_join() {
    with_each(|rt| {
        rt.block_on(|| {
            let coroutine = Coroutine::new(|yielder, ()| {
                let sum = join(|| fib(10), || fib(11));
                yielder.suspend(sum.0 + sum.1);
                let (result, _) = join(|| panic_of(|| yielder.suspend(0)), || yield_now().unwrap());
                assert!(result.contains("must return first"), "{result}");
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
fn open_forks_go_along_with_a_task_that_changes_workers() {
    const DEPTH: usize = 5;

    #[inline(never)]
    fn thread() -> ThreadId {
        current().id()
    }

    /// Parks in the midst of so many joins, until it goes on elsewhere.
    fn nested(depth: usize, called: &AtomicUsize, moved: &AtomicUsize) {
        if depth == 0 {
            let start = thread();
            for _ in 0..20 {
                let me = unparker();
                spawn(move || {
                    me.unpark();
                    // Another worker gets a processor, and finds it in this one's deque.
                    crate::common::thread::sleep(Duration::from_micros(20));
                })
                .detach();
                park().unwrap();
                if thread() != start {
                    moved.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
            return;
        }
        let count = || called.fetch_add(1, Ordering::Relaxed);
        join(|| nested(depth - 1, called, moved), count);
        // And the row is in order where it has come to.
        join(count, || join(count, count));
    }

    with(&[2, 3, 8, 64], |rt| {
        let moved = Arc::new(AtomicUsize::new(0));
        // Bounded by the watchdog.
        while moved.load(Ordering::Relaxed) < scaled(50) {
            let called = Arc::new(AtomicUsize::new(0));
            rt.block_on(|| {
                let tasks = (0..20).map(|_| {
                    let (called, moved) = (called.clone(), moved.clone());
                    let body = move || nested(DEPTH, &called, &moved);
                    // SAFETY: over its suspensions it holds numbers and references to atomics, and it reads the
                    // thread's identity in a function of its own.
                    unsafe { spawn_migratable(body) }
                });
                let tasks: Vec<_> = tasks.collect();
                tasks.into_iter().for_each(|task| task.join().unwrap());
            });
            assert_eq!(called.load(Ordering::Relaxed), 20 * DEPTH * 4);
        }
    });
}
