//! Whom a cancel reaches.

use crate::common::mpsc::{Sender, channel};
use crate::common::{Drops, give_way_until, parks, with, with_each};
use crate::{Count, parked, until_parked, why};
use cygnet::{JoinError, checkpoint, is_cancelled, join, park, scope, spawn, task, yield_now};
use std::sync::Arc;

#[test]
fn a_cancel_reaches_all_descendants_that_wait() {
    fn grow(levels: usize) -> usize {
        if levels == 0 {
            return usize::from(parked() == "enough");
        }
        let children = [(); 3].map(|()| spawn(move || grow(levels - 1)));
        // A cancelled parent joins nobody: it counts what they tell by other means.
        let (tell, told) = channel();
        let watch = children.map(|child| {
            let tell = tell.clone();
            spawn(move || tell.send(child.join().unwrap_or(0)))
        });
        let mine = usize::from(parked() == "enough");
        drop(watch);
        drop(tell);
        mine + told.try_iter().sum::<usize>()
    }
    with_each(|rt| {
        let before = parks(rt);
        let root = rt.spawn(|| grow(3));
        // 1 + 3 + 9 + 27 that park, 3 + 9 + 27 that join them.
        until_parked(rt, before, 40 + 39);
        root.cancel("enough");
        assert!(root.join().unwrap() >= 1);
    });
}

#[test]
fn a_cancel_reaches_those_that_compute_and_have_never_waited() {
    with_each(|rt| {
        let (started, ended) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let root = rt.spawn({
            let (started, ended) = (started.clone(), ended.clone());
            move || {
                scope(|s| {
                    for _ in 0..2 {
                        s.spawn(|| {
                            started.add();
                            scope(|s| {
                                s.spawn(|| {
                                    while checkpoint().is_ok() {}
                                    ended.add();
                                });
                            });
                        });
                    }
                });
                why(checkpoint())
            }
        });
        crate::common::eventually("one computes", || started.get() > 0);
        root.cancel("enough");
        assert_eq!(root.join().unwrap(), "enough");
        assert!(ended.get() <= 2);
    });
}

#[test]
fn a_task_that_computes_below_many_others_learns_of_the_cancel_of_the_uppermost() {
    fn descend(levels: usize, started: Sender<()>, tell: Sender<String>) {
        if levels == 0 {
            started.send(()).unwrap();
            loop {
                if let Err(cancelled) = checkpoint() {
                    return tell.send(cancelled.reason().to_string()).unwrap();
                }
            }
        }
        // Called in place, unless somebody else is faster: then none of them ever waits.
        scope(|s| drop(s.spawn(|| descend(levels - 1, started, tell)).join()));
    }
    with_each(|rt| {
        for levels in [0, 1, 7, 8, 9, 40] {
            let (started, starts) = channel();
            let (tell, told) = channel();
            let task = rt.spawn(move || descend(levels, started, tell));
            starts.recv().unwrap();
            task.cancel("enough");
            task.join().unwrap();
            assert_eq!(told.try_recv().as_deref(), Ok("enough"), "{levels} levels");
        }
    });
}

#[test]
fn a_fresh_task_whose_scope_is_cancelled_never_starts_and_its_captures_are_dropped() {
    with_each(|rt| {
        let drops = Drops::new();
        let ran = Arc::new(Count::default());
        rt.block_on(|| {
            scope(|s| {
                s.cancel("before they were spawned");
                for _ in 0..100 {
                    let (guard, ran) = (drops.guard(), &ran);
                    s.spawn(move || {
                        ran.add();
                        drop(guard);
                    });
                }
            });
            assert_eq!((ran.get(), drops.count()), (0, 100));
        });
    });
}

#[test]
fn a_fresh_task_below_a_cancelled_grandparent_never_starts() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let ran = Count::default();
            scope(|outer| {
                scope(|inner| {
                    let task = inner.spawn(|| ran.add());
                    outer.cancel("enough");
                    match task.join() {
                        Err(JoinError::Cancelled(cancelled)) => {
                            assert_eq!(cancelled.reason().to_string(), "enough");
                        }
                        other => panic!("{other:?}"),
                    }
                });
            });
            assert_eq!(ran.get(), 0);
        });
    });
}

#[test]
fn an_unscoped_task_is_not_cancelled_with_its_creator() {
    with_each(|rt| {
        let (tell, told) = channel();
        let creator = rt.spawn(move || {
            let unscoped = cygnet::spawn_unscoped(move || {
                give_way_until(|| told.try_recv().is_ok());
                7
            });
            let mine = park();
            (unscoped, mine.is_err())
        });
        until_parked(rt, 0, 1);
        creator.cancel("enough");
        let (unscoped, cancelled) = creator.join().unwrap();
        assert!(cancelled);
        tell.send(()).unwrap();
        assert_eq!(unscoped.join().unwrap(), 7);
    });
}

#[test]
fn a_sibling_and_the_parent_of_a_cancelled_task_go_on() {
    with_each(|rt| {
        rt.block_on(|| {
            let me = cygnet::unparker();
            let sibling = spawn(move || {
                yield_now().unwrap();
                me.unpark();
            });
            let cancelled = spawn(|| park().is_err());
            yield_now().unwrap();
            cancelled.cancel("only this one");
            park().unwrap();
            sibling.join().unwrap();
            assert!(matches!(cancelled.join(), Ok(true) | Err(JoinError::NotStarted(_))));
            checkpoint().unwrap();
        });
    });
}

#[test]
fn the_failure_of_a_parent_does_not_cancel_its_children() {
    with_each(|rt| {
        let (tell, told) = channel();
        let parent = rt.spawn(move || {
            spawn(move || {
                (0..10).for_each(|_| yield_now().unwrap());
                tell.send(is_cancelled()).unwrap();
            })
            .detach();
            panic!("the parent fails");
        });
        let result: Result<(), _> = parent.join();
        assert!(result.unwrap_err().is_panic());
        // Its end came after that of its child.
        assert_eq!(told.try_recv(), Ok(false));
    });
}

#[test]
fn a_cancel_reaches_both_halves_of_a_join_and_both_run_to_their_end() {
    with_each(|rt| {
        let task = rt.spawn(|| join(parked, parked));
        until_parked(rt, 0, 1);
        task.cancel("enough");
        assert_eq!(task.join().unwrap(), ("enough".into(), "enough".into()));
    });
}

#[test]
fn a_join_of_a_cancelled_task_calls_both_halves_all_the_same() {
    with_each(|rt| {
        rt.block_on(|| {
            scope(|s| {
                s.cancel("before");
                assert_eq!(join(is_cancelled, is_cancelled), (true, true));
                assert!(rt.block_on(is_cancelled), "so does block_on");
            });
        });
    });
}

#[test]
fn block_on_in_a_cancelled_task_runs_its_closure_also_where_it_cannot_be_called_in_place() {
    /// Calls itself until more than half of the stack is used.
    fn deep(f: &mut dyn FnMut(), top: usize) {
        let frame = std::hint::black_box([0u8; 256]);
        let used = top - std::ptr::from_ref(&frame).addr();
        if used > 36 << 10 {
            f()
        } else {
            deep(f, top)
        }
        std::hint::black_box(&frame);
    }
    with_each(|rt| {
        let ran = rt.block_on(|| {
            let mut ran = false;
            scope(|s| {
                s.cancel("before");
                let top = std::ptr::from_ref(&s).addr() + 64;
                deep(&mut || ran = rt.block_on(is_cancelled), top);
            });
            ran
        });
        assert!(ran);
    });
}

#[test]
fn a_task_on_a_stack_of_its_own_and_one_that_may_migrate_are_reached() {
    with_each(|rt| {
        let before = parks(rt);
        let root = rt.spawn(|| {
            let own = task().stack_size(128 << 10).unwrap().spawn(parked);
            // SAFETY: it holds a string.
            let migratable = unsafe { cygnet::spawn_migratable(parked) };
            let local = cygnet::spawn_local(parked);
            let (tell, told) = channel();
            let tells = (tell.clone(), tell.clone());
            spawn(move || tell.send(own.join())).detach();
            spawn(move || tells.0.send(migratable.join())).detach();
            cygnet::spawn_local(move || tells.1.send(local.join())).detach();
            let mine = parked();
            (mine, told)
        });
        // Four that park, three that join three of them.
        until_parked(rt, before, 7);
        root.cancel("enough");
        let (mine, told) = root.join().unwrap();
        assert_eq!(mine, "enough");
        for joined in told {
            // The joiner is cancelled as well. If the joined task ends first, its value is kept.
            match joined {
                Ok(words) => assert_eq!(words, "enough"),
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }
    });
}

#[test]
fn the_end_of_a_runtime_says_that_it_is_the_reason() {
    let rt = crate::common::runtime(2);
    let task = rt.spawn(|| park().unwrap_err());
    until_parked(&rt, 0, 1);
    drop(rt);
    let cancelled = task.join().unwrap();
    assert_eq!(*cancelled.reason(), cygnet::Reason::RuntimeShutDown);
    assert_eq!(cancelled.place(), None);
}
