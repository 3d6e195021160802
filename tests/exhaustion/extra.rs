//! A task that another one waits for has a stack beyond the limit if there is no other.

use crate::common::prelude::*;
use crate::{STACK, assert_stacks, deep, runtime};
use cygnet::shutdown::Swansong;

#[test]
fn a_child_that_has_no_room_on_the_stack_of_its_waiter_has_one_beyond_the_limit() {
    fn parks() -> u8 {
        let me = unparker();
        let thread = common::thread::spawn(move || me.unpark());
        park().unwrap();
        thread.join().unwrap();
        7
    }
    type Waits = (&'static str, fn() -> u8);
    let waits: [Waits; 6] = [
        ("a join", || spawn(|| 7).join().unwrap()),
        ("block_on", || cygnet::Handle::current().block_on(|| 7)),
        ("a join of a task that parks", || spawn(parks).join().unwrap()),
        ("a join of a local task", || {
            let local = std::rc::Rc::new(7);
            spawn_local(move || *local).join().unwrap()
        }),
        ("a join of a large task", || {
            task().stack_size(1 << 20).unwrap().spawn(|| 7).join().unwrap()
        }),
        ("a join of a migratable task", || {
            // SAFETY: the closure uses nothing of its thread.
            unsafe { task().migratable() }.spawn(parks).join().unwrap()
        }),
    ];
    for (how, wait) in waits {
        within(|| assert_eq!(runtime(1, 1).block_on(|| deep(wait)), 7, "{how}"));
    }
    within(|| {
        let panics = || spawn(|| panic!("the child")).join();
        let error = runtime(1, 1).block_on(|| deep(panics)).unwrap_err();
        assert!(error.is_panic());
    });
}

#[test]
fn the_end_of_a_scope_below_the_half_mark_runs_all_its_children() {
    within_each([1, 2, 4], |workers| {
        for _ in 0..20 {
            // One for each scope: an extra stack may go back after the next scope has begun.
            let rt = runtime(workers, workers);
            let count = Count::new();
            let child = || {
                yield_now().unwrap();
                count.up();
            };
            rt.block_on(|| deep(|| scope(|s| (0..100).for_each(|_| drop(s.spawn(child))))));
            assert_eq!(count.get(), 100);
            assert_stacks(&rt, workers + 1);
        }
    });
}

#[test]
fn a_cancel_of_the_waiter_does_not_wait_for_the_child() {
    within(|| {
        let rt = runtime(1, 1);
        let (start, started) = channel();
        let (over, ended) = (Flag::new(), Flag::new());
        let waiter = rt.spawn(move || {
            let child = move || {
                drop(ignore_cancellation(|| {
                    start.send(()).unwrap();
                    over.wait();
                }));
                ended.set();
            };
            let joined = deep(|| spawn(child).join());
            assert!(joined.is_err() && !ended.get());
            over.set();
        });
        started.recv().unwrap();
        waiter.cancel("enough");
        waiter.join().unwrap();
        assert!(ended.get(), "a child ends before its parent");
    });
}

#[test]
fn a_task_that_yields_or_computes_does_not_keep_a_child_from_its_stack() {
    let ways: [(usize, fn(Flag)); 2] = [(1, Flag::wait), (2, Flag::spin)];
    for (workers, waits) in ways {
        within(|| {
            let rt = runtime(workers, 2);
            let flag = Flag::new();
            let spinner = rt.spawn(move || waits(flag));
            rt.block_on(|| deep(|| spawn(move || flag.set()).join().unwrap()));
            spinner.join().unwrap();
        });
    }
}

#[test]
fn a_child_without_a_stack_is_called_by_the_worker_that_is_held_until_it_ends() {
    struct Late(Count);
    impl Drop for Late {
        fn drop(&mut self) {
            scope(|s| {
                s.spawn(|| self.0.up());
                // Long enough for the other worker to take it, and to find no stack for it.
                common::thread::sleep(Duration::from_millis(50));
            });
        }
    }
    within(|| {
        let rt = runtime(2, 2);
        let (parked, unparker) = sleeper(&rt);
        let called = Count::new();
        let error = rt.try_block_on(|| {
            let _late = Late(called);
            panic!("here")
        });
        assert!(error.is_err());
        assert_eq!(called.get(), 1);
        unparker.unpark();
        assert!(parked.join().unwrap());
    });
}

#[test]
fn a_wait_with_a_time_limit_calls_no_child_that_has_no_room() {
    within(|| {
        runtime(1, 1).block_on(|| {
            let child = task().stack_size(8 * STACK).unwrap().spawn(|| deep(|| deep(|| 7)));
            let swansong = Swansong::new();
            let _guard = swansong.guard();
            let time = Duration::from_millis(1);
            let shut_down = || swansong.shut_down_within_at_most(time, time);
            assert!(while_unwinding(shut_down).is_given_up());
            assert_eq!(child.join().unwrap(), 7);
        });
    });
}
