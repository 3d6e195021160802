//! `spawn_now`: the child has begun when the call returns.

use crate::common::prelude::*;

/// T17.
#[test]
fn the_child_has_begun_on_this_thread_when_the_call_returns() {
    in_task(|_| {
        for n in 0..scaled_in_debug(1_000) {
            let (begun, here) = (Count::new(), common::thread::current().id());
            let child = spawn_now(move || {
                assert_eq!(common::thread::current().id(), here);
                begun.up();
                if n % 2 == 0 {
                    yield_now().unwrap();
                }
                begun.up();
                n
            });
            assert_eq!(begun.get(), 2 - usize::from(n % 2 == 0));
            assert_eq!(child.is_finished(), n % 2 == 1);
            assert_eq!(child.join().unwrap(), n);
        }
    });
}

#[test]
fn the_caller_goes_on_before_others_that_are_ready() {
    in_task_with(&[1], |_| {
        let others = Count::new();
        let body = move || {
            yield_now().unwrap();
            others.up();
        };
        let tasks = [(); 10].map(|()| spawn_now(body));
        assert_eq!(others.get(), 0);
        join_all(tasks);
        assert_eq!(others.get(), 10);
    });
}

#[test]
fn a_child_that_parks_is_woken_and_its_panic_is_its_join_s() {
    in_task(|_| {
        let (give, given) = common::mpsc::channel();
        let child = spawn_now(move || {
            give.send(unparker()).unwrap();
            park().unwrap();
            7
        });
        given.try_recv().unwrap().unpark();
        assert_eq!(child.join().unwrap(), 7);
        let panics: cygnet::Task<()> = spawn_now(|| panic!("at once"));
        assert!(panics.join().unwrap_err().is_panic());
    });
}

#[test]
fn a_child_of_a_cancelled_scope_never_starts() {
    in_task(|_| {
        let drops = Drops::new();
        scope(|s| {
            s.cancel("before");
            let child = spawn_now(drops.around(|| ()));
            assert!(child.is_finished());
            assert_eq!(drops.count(), 1);
            assert!(matches!(child.join(), Err(JoinError::Cancelled(_))));
        });
    });
}

#[test]
fn open_joins_of_the_caller_and_chains_of_such_children_do_no_harm() {
    fn chain(depth: usize) -> usize {
        if depth == 0 { 0 } else { spawn_now(move || chain(depth - 1)).join().unwrap() + 1 }
    }
    in_task(|_| {
        assert_eq!(chain(500), 500);
        let (a, b) =
            cygnet::join(|| spawn_now(|| 1).join().unwrap(), || spawn_now(|| 2).join().unwrap());
        assert_eq!((a, b), (1, 2));
    });
}

#[test]
fn inside_no_suspend_spawn_now_panics() {
    in_task_with(&[1], |_| {
        panics_with("no_suspend", || no_suspend(|| drop(spawn_now(|| ()))));
        assert_eq!(spawn_now(|| 7).join().unwrap(), 7);
    });
}

#[test]
fn while_unwinding_and_without_a_stack_the_child_is_spawned_as_any_other() {
    with(&[1], |rt| {
        let ended = Count::new();
        let spawns = move || {
            spawn_now(move || ended.up()).detach();
            ended.get()
        };
        assert_eq!(rt.spawn(move || while_unwinding(spawns)).join().unwrap(), 0);
        assert_eq!(ended.get(), 1);
    });
    within(|| {
        let rt = Runtime::builder().workers(1).max_stacks(1).build().unwrap();
        assert_eq!(rt.block_on(|| spawn_now(|| spawn(|| 7).join().unwrap()).join().unwrap()), 7);
    });
}
