//! How far a cancel goes, up and down.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;
use crate::{parked, until_parked, why};

/// C12.
#[test]
fn a_cancel_reaches_all_descendants_that_wait() {
    fn grow(levels: usize, tell: Sender<String>) {
        if levels > 0 {
            for _ in 0..3 {
                let child = spawn(own(&tell, move |tell| grow(levels - 1, tell)));
                // A task that joins is cancelled as well.
                spawn(move || drop(child.join())).detach();
            }
        }
        tell.send(parked()).unwrap();
    }
    with_each(|rt| {
        let (tell, told) = channel();
        let root = rt.spawn(move || grow(3, tell));
        // 1 + 3 + 9 + 27 tasks park, and 3 + 9 + 27 join them.
        until_parked(rt, 40 + 39);
        root.cancel("enough");
        root.join().unwrap();
        assert_eq!(told.iter().collect::<Vec<_>>(), ["enough"; 40]);
    });
}

/// C25.
#[test]
fn a_task_that_computes_learns_of_the_cancel_of_a_distant_ancestor() {
    fn descend(levels: usize, started: Sender<()>, tell: Sender<String>) {
        if levels == 0 {
            started.send(()).unwrap();
            while checkpoint().is_ok() {}
            return tell.send(why(checkpoint())).unwrap();
        }
        // Called in place, unless a thief is faster: then none of the tasks ever waits.
        scope(|s| drop(s.spawn(|| descend(levels - 1, started, tell)).join()));
    }
    with_each(|rt| {
        for levels in [0, 1, 7, 8, 9, 40] {
            let (started, starts) = channel();
            let (tell, told) = channel();
            let task = rt.spawn(move || {
                descend(levels, started, tell);
                why(checkpoint())
            });
            starts.recv().unwrap();
            task.cancel("enough");
            assert_eq!(task.join().unwrap(), "enough");
            assert_eq!(told.try_recv().as_deref(), Ok("enough"), "{levels} levels");
        }
    });
}

/// C11.
#[test]
fn the_call_that_cancels_runs_no_task() {
    in_task_with(&[1], |_| {
        let ran = Flag::new();
        let task = spawn(move || ran.put(park().is_err()));
        crate::give_way_until_parked(1);
        task.cancel("enough");
        assert!(!ran.get());
        task.join().unwrap();
        assert!(ran.get());
    });
}

/// C16.
#[test]
fn a_fresh_task_below_a_cancelled_grandparent_never_starts() {
    in_task_with(&[1], |_| {
        scope(|outer| {
            scope(|inner| {
                let task = inner.spawn(|| unreachable!("it is cancelled"));
                outer.cancel("enough");
                let Err(JoinError::Cancelled(cancelled)) = task.join() else {
                    panic!("it was not cancelled")
                };
                assert_eq!(cancelled.reason().to_string(), "enough");
            });
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
        // The parent ended after its child.
        assert_eq!(told.try_recv(), Ok(false));
    });
}

#[test]
fn a_cancel_reaches_both_halves_of_a_join() {
    with_each(|rt| {
        let task = rt.spawn(|| join(parked, parked));
        until_parked(rt, 1);
        task.cancel("enough");
        assert_eq!(task.join().unwrap(), ("enough".into(), "enough".into()));
    });
}

#[test]
fn join_and_block_on_in_a_cancelled_task_call_their_closures() {
    in_task(|rt| {
        scope(|s| {
            s.cancel("before");
            assert_eq!(join(is_cancelled, is_cancelled), (true, true));
            assert!(rt.block_on(is_cancelled));
        });
    });
}

#[test]
fn block_on_in_a_cancelled_task_may_run_its_closure_on_another_stack() {
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
    in_task(|rt| {
        let mut ran = false;
        scope(|s| {
            s.cancel("before");
            let top = std::ptr::from_ref(&s).addr() + 64;
            deep(&mut || ran = rt.block_on(is_cancelled), top);
        });
        assert!(ran);
    });
}

#[test]
fn a_cancel_reaches_local_and_migratable_tasks_and_own_stacks() {
    with_each(|rt| {
        let root = rt.spawn(|| {
            let own = task().stack_size(128 << 10).unwrap().spawn(parked);
            // SAFETY: `parked` holds only a string over its suspension.
            let migratable = unsafe { task().migratable() }.spawn(parked);
            let local = cygnet::spawn_local(parked);
            let (tell, told) = channel();
            let tells = (tell.clone(), tell.clone());
            spawn(move || tell.send(own.join())).detach();
            spawn(move || tells.0.send(migratable.join())).detach();
            cygnet::spawn_local(move || tells.1.send(local.join())).detach();
            let mine = parked();
            (mine, told)
        });
        // Four tasks park, and three join three of them.
        until_parked(rt, 7);
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

/// C6.
#[test]
fn the_end_of_a_runtime_is_the_reason_of_its_cancels() {
    let rt = runtime(2);
    let task = rt.spawn(|| park().unwrap_err());
    until_parked(&rt, 1);
    drop(rt);
    let cancelled = task.join().unwrap();
    assert_eq!(*cancelled.reason(), cygnet::Reason::RuntimeShutDown);
    assert_eq!(cancelled.place(), None);
}
