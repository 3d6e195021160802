//! Where a join is called: outside of tasks, where nothing may suspend, in a bare coroutine.

use super::fib;
use crate::common::prelude::*;
use crate::common::thread::{ThreadId, current};
use cygnet::coroutine::Coroutine;

#[test]
fn between_tasks_both_halves_are_called_one_after_the_other() {
    with_each(|rt| {
        let (tell, told) = channel();
        // The result is dropped by the worker when the last child of the detached task has ended.
        rt.block_on(|| {
            spawn(move || {
                spawn(|| yield_now().unwrap()).detach();
                OnDrop(move || tell.send(join(|| fib(10), || 2)).unwrap())
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
            let taken = Flag::new();
            let first = || {
                taken.hold();
                1
            };
            let second = || {
                taken.set();
                fib(15)
            };
            assert_eq!(rt.block_on(|| no_suspend(|| join(first, second))), (1, 610));
        }
    });
}

#[test]
fn a_half_forked_outside_is_not_called_where_its_task_holds_the_worker() {
    /// A structured wait for a task that is not called in place.
    fn wait() {
        scope(|s| drop(task().stack_size(1 << 20).unwrap().spawn_in(s, || ())));
    }
    in_task(|_| {
        for _ in 0..scaled(20) {
            join(|| no_suspend(wait), || yield_now().unwrap());
            let first = || {
                let _waits = OnDrop(wait);
                std::panic::resume_unwind(Box::new("first"));
            };
            let second = || {
                assert!(!std::thread::panicking());
                yield_now().unwrap();
            };
            let payload = payload_of(|| {
                join(first, second);
            });
            assert_eq!(payload.unwrap().downcast_ref(), Some(&"first"));
        }
    });
}

#[test]
fn a_destructor_may_join_while_its_thread_panics() {
    in_task(|_| assert_eq!(while_unwinding(|| join(|| fib(12), || fib(13))), (144, 233)));
}

#[test]
fn a_bare_coroutine_is_not_left_in_the_middle_of_a_join() {
    in_task(|_| {
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
        // The row of forks is in order afterwards.
        assert_eq!(fib(15), 610);
        assert!(coroutine.resume(()).unwrap().returned().is_some());
    });
}

#[test]
fn open_forks_go_along_with_a_task_that_changes_workers() {
    const DEPTH: usize = 5;

    #[inline(never)]
    fn thread() -> ThreadId {
        current().id()
    }

    /// Parks within `depth` joins, until the task goes on elsewhere.
    fn nested(depth: usize, called: Count, moved: Count) {
        if depth == 0 {
            let start = thread();
            for _ in 0..20 {
                let me = unparker();
                spawn(move || {
                    me.unpark();
                    // Another worker gets a processor, and finds it in this one's deque.
                    common::thread::sleep(Duration::from_micros(20));
                })
                .detach();
                park().unwrap();
                if thread() != start {
                    moved.up();
                    return;
                }
            }
            return;
        }
        let count = || called.up();
        join(|| nested(depth - 1, called, moved), count);
        // The row is in order on the new worker.
        join(count, || join(count, count));
    }

    in_task_with(&[2, 3, 8, 64], |_| {
        let moved = Count::new();
        // Bounded by the watchdog.
        while moved.get() < scaled(50) {
            let called = Count::new();
            let tasks = (0..20).map(|_| {
                let body = move || nested(DEPTH, called, moved);
                // SAFETY: over its suspensions it holds numbers and references to atomics, and
                // it reads the thread's identity in a function of its own.
                unsafe { task().migratable() }.spawn(body)
            });
            join_all(tasks);
            assert_eq!(called.get(), 20 * DEPTH * 4);
        }
    });
}
