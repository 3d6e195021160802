//! A child that its parent's join calls on the parent's own stack: a cancel of the parent reaches
//! it.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;

/// Calls itself in place `depth` times, and then `f`.
fn nested(depth: usize, f: impl FnOnce() + Send + 'static) {
    if depth == 0 {
        f();
    } else {
        // An error if the joining task is cancelled and the child has left children.
        let _ = spawn(move || nested(depth - 1, f)).join();
    }
}

/// Calls `wait` in a child that is nested so deep, and cancels the outermost task once the child is
/// about to wait and `meanwhile` has returned. Returns the value of `wait`.
fn cancelled_while<T: Send + 'static>(
    rt: &Runtime,
    depth: usize,
    wait: impl FnOnce(Sender<()>) -> T + Send + 'static,
    meanwhile: impl FnOnce(),
) -> T {
    let (about_to, waits) = channel();
    let (tell, told) = channel();
    let parent = rt.spawn(move || nested(depth, move || tell.send(wait(about_to)).unwrap()));
    waits.recv().unwrap();
    meanwhile();
    drop(parent);
    told.recv().unwrap()
}

fn parks_until_cancelled(about_to: Sender<()>) -> bool {
    about_to.send(()).unwrap();
    park().is_err()
}

#[test]
fn a_child_that_is_parked_is_woken_when_its_caller_is_cancelled() {
    // One worker: with more, another may steal the child before it is called.
    with(&[1], |rt| {
        for depth in [1, 2, 10] {
            let before = parks(rt);
            let is_parked = || eventually("the child is parked", || parks(rt) > before);
            assert!(cancelled_while(rt, depth, parks_until_cancelled, is_parked));
        }
    });
}

#[test]
fn a_child_that_yields_is_told_when_its_caller_is_cancelled() {
    with_each(|rt| {
        for depth in [1, 10] {
            let yields = |about_to: Sender<()>| {
                about_to.send(()).unwrap();
                while yield_now().is_ok() {}
                cygnet::is_cancelled()
            };
            assert!(cancelled_while(rt, depth, yields, || ()));
        }
    });
}

#[test]
fn a_child_that_joins_one_apart_is_cut_short_when_its_caller_is_cancelled() {
    with(&[1], |rt| {
        let joins = |about_to: Sender<()>| {
            // It is told of the cancel too, and may be so first: it does not end before the join
            // has.
            let left = Flag::new();
            let apart = task().stack_size(1 << 20).unwrap().spawn(move || {
                about_to.send(()).unwrap();
                while !left.get() {
                    let _ = yield_now();
                }
            });
            let joined = apart.join();
            left.set();
            joined.is_err_and(|error| error.is_cancelled())
        };
        assert!(cancelled_while(rt, 3, joins, || ()));
    });
}

#[test]
fn a_cancel_at_any_moment_reaches_the_child() {
    with_each(|rt| {
        for round in 0..if cfg!(debug_assertions) { 200 } else { 2_000 } {
            let spin = || (0..round % 128).for_each(|_| common::spin_loop());
            assert!(cancelled_while(rt, 1 + round % 3, parks_until_cancelled, spin));
        }
    });
}

#[test]
fn a_child_that_waits_again_and_again_is_linked_once_and_forgotten_at_its_end() {
    in_task(|_| {
        let rounds = Count::new();
        for _ in 0..100 {
            nested(3, move || {
                for _ in 0..10 {
                    let me = cygnet::unparker();
                    let waker = spawn(move || me.unpark());
                    park().unwrap();
                    waker.join().unwrap();
                    rounds.up();
                }
            });
        }
        assert_eq!(rounds.get(), 1_000);
    });
}

#[test]
fn a_child_whose_caller_is_cancelled_starts_nothing_and_waits_for_nothing() {
    with(&[1], |rt| {
        let (at, reached) = channel();
        let (go, gone) = channel::<()>();
        let (tell, told) = channel();
        let parent = rt.spawn(move || {
            let child = spawn(move || {
                at.send(()).unwrap();
                // Not a wait of the task's: its caller is cancelled meanwhile.
                gone.recv().unwrap();
                tell.send(matches!(spawn(|| 7).join(), Err(JoinError::Cancelled(_)))).unwrap();
                let ran = Flag::new();
                scope(|s| drop(s.spawn(|| ran.set())));
                tell.send(ran.get()).unwrap();
                tell.send(park().is_ok()).unwrap();
            });
            let _ = child.join();
        });
        reached.recv().unwrap();
        drop(parent);
        go.send(()).unwrap();
        assert!(told.recv().unwrap(), "the join is refused");
        assert!(!told.recv().unwrap(), "a grandchild in a scope never starts");
        assert!(!told.recv().unwrap(), "the child itself does not wait");
    });
}
