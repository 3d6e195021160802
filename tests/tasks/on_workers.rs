//! Tasks of one worker each: `spawn_on` and `broadcast`.

use crate::common::prelude::*;

/// T56.
#[test]
fn a_task_starts_on_the_worker_that_it_was_sent_to() {
    with_each_and_many(|rt| {
        let (handle, workers) = (rt.handle(), rt.workers());
        let spawn_all = || {
            let on = |i| (i % workers, handle.spawn_on(i % workers, current_worker).unwrap());
            (0..scaled_in_debug(300).max(workers)).map(on).collect::<Vec<_>>()
        };
        let from_inside = rt.block_on(spawn_all);
        for (worker, task) in spawn_all().into_iter().chain(from_inside) {
            assert_eq!(task.join().unwrap(), Some(worker));
        }
    });
}

/// T56. Nobody steals it, and whoever joins or brings it forward does not start it elsewhere.
#[test]
fn a_task_waits_for_its_worker_though_others_are_idle() {
    with(&[2, 3, 8], |rt| {
        let handle = rt.handle();
        let (is_held, held) = (Flag::new(), Flag::new());
        let holder = handle
            .spawn_on(1, move || {
                is_held.set();
                held.hold();
            })
            .unwrap();
        eventually("the worker is held", || is_held.get());
        let waits = handle.spawn_on(1, current_worker).unwrap();
        let brings_forward = handle.spawn_on(0, {
            let waits = handle.spawn_on(1, current_worker).unwrap();
            move || {
                let answer = yield_to(&waits).unwrap();
                held.set();
                (answer, waits.join().unwrap())
            }
        });
        let answer = brings_forward.unwrap().join().unwrap();
        assert_eq!(answer, (YieldTo::Elsewhere, Some(1)));
        assert_eq!(waits.join().unwrap(), Some(1));
        holder.join().unwrap();
    });
}

/// T56. A started one waits and is woken there; what it spawns may run anywhere.
#[test]
fn a_task_of_a_worker_waits_like_any_other() {
    with_each(|rt| {
        let handle = rt.handle();
        let last = rt.workers() - 1;
        let (task, unparker) = {
            let (tell, told) = channel();
            let body = move || {
                tell.send(unparker()).unwrap();
                park().unwrap();
                (current_worker(), spawn(|| 7).join().unwrap())
            };
            (handle.spawn_on(last, body).unwrap(), told.recv().unwrap())
        };
        unparker.unpark();
        assert_eq!(task.join().unwrap(), (Some(last), 7));
    });
}

/// T56. Its handle is at other threads than its worker's, unlike that of a local task.
#[test]
fn handles_are_dropped_detached_and_cancelled_anywhere() {
    with_each(|rt| {
        let (handle, drops) = (rt.handle(), Drops::new());
        for i in 0..scaled_in_debug(200) {
            let worker = i % rt.workers();
            let guard = drops.guard();
            let task = handle
                .spawn_on(worker, move || {
                    spawn(|| yield_now().unwrap()).detach();
                    guard
                })
                .unwrap();
            match i % 4 {
                0 => drop(task),
                1 => task.detach(),
                2 => task.cancel("not needed"),
                _ => drop(rt.block_on(|| task.join())),
            }
        }
        eventually("all are dropped", || drops.left() == 0);
    });
}

/// T57.
#[test]
fn each_worker_calls_a_broadcast_once() {
    with_each_and_many(|rt| {
        let handle = rt.handle();
        let calls: Vec<_> = (0..rt.workers()).map(|_| Count::new()).collect();
        let body = |worker: usize| {
            assert_eq!(current_worker(), Some(worker));
            calls[worker].up();
            yield_now().unwrap();
            worker
        };
        assert!(handle.broadcast(body).into_iter().eq(0..rt.workers()));
        assert!(rt.block_on(|| handle.broadcast(body)).into_iter().eq(0..rt.workers()));
        assert!(calls.iter().all(|count| count.get() == 2));
    });
}

/// T57.
#[test]
fn a_panic_in_a_broadcast_comes_after_all_calls() {
    with_each(|rt| {
        let (handle, calls) = (rt.handle(), Count::new());
        panics_with("in a broadcast", || {
            handle.broadcast(|worker| {
                calls.up();
                if worker == 0 {
                    panic!("in a broadcast");
                }
                yields(3);
                calls.up();
            })
        });
        assert_eq!(calls.get(), 2 * rt.workers() - 1);
    });
}

#[test]
fn where_a_broadcast_could_not_end_it_is_refused() {
    with(&[1, 2], |rt| {
        let handle = rt.handle();
        panics_with("spawn_on got the worker 7", || handle.spawn_on(7, || ()));
        rt.block_on(|| {
            let handle = Handle::current();
            panics_with("no_suspend", || no_suspend(|| handle.broadcast(drop)));
            scope_with(Wait::DescendantsOnly, |_| {
                panics_with("only its descendants", || handle.broadcast(drop));
            });
            assert_eq!(handle.broadcast(|_| ()).len(), handle.workers());
        });
    });
}

#[test]
fn a_runtime_that_has_ended_takes_no_task_for_a_worker() {
    with_own(|rt| {
        let handle = rt.handle();
        // Cancelled before its start, or not.
        let late = handle.spawn_on(0, || 7).unwrap();
        drop(rt);
        assert!(matches!(late.join(), Ok(7) | Err(JoinError::NotStarted(_))));
        let SpawnError(f) = handle.spawn_on(0, || 7).unwrap_err();
        assert_eq!(f(), 7);
        panics_with("broadcast was called on a runtime that has ended", || handle.broadcast(drop));
    });
}
