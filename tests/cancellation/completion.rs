//! The ways a task can end, and what has happened by then.

use crate::common::mpsc::channel;
use crate::common::{
    Count, Drops, Flag, eventually, give_way_until, in_task, parks, payload_of, with_each,
};
use crate::{Log, give_way_until_parked, receive};
use cygnet::{
    JoinError, Reason, cancel_handle, checkpoint, park, scope, spawn, spawn_local, unparker,
    yield_now,
};
use std::panic::resume_unwind;

#[test]
fn a_joiner_gets_the_result_or_the_panic_of_the_body() {
    in_task(|_| {
        assert_eq!(spawn(|| 7).join().unwrap(), 7);
        let panics = spawn(|| -> u8 { resume_unwind(Box::new("boom")) });
        let payload = panics.join().unwrap_err().into_panic().unwrap();
        assert_eq!(payload.downcast_ref(), Some(&"boom"));
        // The joiner waits before the joined task ends.
        let (give, given) = channel();
        let joiner = spawn(move || {
            let joined = spawn(move || {
                give.send(unparker()).unwrap();
                park().unwrap();
                7
            });
            joined.join().unwrap()
        });
        receive(&given).unpark();
        assert_eq!(joiner.join().unwrap(), 7);
    });
}

#[test]
fn a_parent_completes_after_the_last_of_its_children() {
    in_task(|_| {
        let log = Log::default();
        let seen = log.clone();
        let (give, given) = channel();
        let parent = spawn(move || {
            for dropped in ["first child", "last child"] {
                let (local, give) = (seen.on_drop(dropped), give.clone());
                spawn(move || {
                    let _local = local;
                    give.send((dropped, unparker())).unwrap();
                    park().unwrap();
                })
                .detach();
            }
            seen.add("the body returns");
            "its result"
        });
        let children: std::collections::HashMap<_, _> =
            [receive(&given), receive(&given)].into_iter().collect();
        give_way_until(|| log.len() > 0);
        assert!(!parent.is_finished(), "it has children left");
        children["first child"].unpark();
        give_way_until(|| log.len() == 2);
        (0..20).for_each(|_| yield_now().unwrap());
        assert!(!parent.is_finished(), "it has a child left");
        children["last child"].unpark();
        assert_eq!(parent.join().unwrap(), "its result");
        log.assert(&["the body returns", "first child", "last child"], "");
    });
}

#[test]
fn each_wait_fails_if_a_cancel_comes_before_it_or_during_it() {
    in_task(|_| {
        let (give, given) = channel();
        let task = spawn(move || {
            give.send(cancel_handle()).unwrap();
            let during = park().is_err();
            // A permit no longer counts, and stays.
            unparker().unpark();
            [during, park().is_err(), yield_now().is_err(), checkpoint().is_err()]
        });
        give_way_until_parked(1);
        receive(&given).cancel("enough");
        assert_eq!(task.join().unwrap(), [true; 4]);
    });
}

#[test]
fn a_cancelled_parent_waits_for_its_children() {
    in_task(|_| {
        let log = Log::default();
        let seen = log.clone();
        let parent = spawn(move || {
            let local = seen.on_drop("the child's local");
            spawn(move || {
                let _local = local;
                assert!(park().is_err());
                for _ in 0..20 {
                    let _ = yield_now();
                }
                seen.add("the child is about to return");
            })
            .detach();
            park().unwrap_err().reason().clone()
        });
        give_way_until_parked(2);
        parent.cancel("enough");
        assert_eq!(parent.join().unwrap(), Reason::from("enough"));
        log.assert(&["the child is about to return", "the child's local"], "");
    });
}

#[test]
fn a_child_s_values_are_dropped_before_its_parent_goes_on() {
    type Ending = (&'static str, fn() -> Result<(), ()>, bool);
    // A name, a body, and whether the body waits for a cancel.
    let endings: [Ending; 5] = [
        ("returns", || Ok(()), false),
        ("fails", || Err(()), false),
        ("panics", || resume_unwind(Box::new("on purpose")), false),
        ("returns when cancelled", || park().map_err(drop), true),
        ("unwinds when cancelled", || park().map_err(|cancelled| cancelled.unwind()), true),
    ];
    let seen_by = ["a join", "the end of the scope", "the end of the cancelled scope"];
    in_task(|rt| {
        for ((name, ending, waits), by) in
            endings.iter().flat_map(|ending| seen_by.map(|by| (*ending, by)))
        {
            let (log, before) = (Log::default(), parks(rt));
            let (captured, local) = (log.on_drop("captured"), log.on_drop("local"));
            let (joins, starts) = (by == seen_by[0], by != seen_by[2]);
            let caught = payload_of(|| {
                scope(|s| {
                    if !starts {
                        s.cancel("before the start");
                    }
                    let child = s.spawn(move || {
                        let _captured = &captured;
                        let _local = local;
                        ending()
                    });
                    if waits && starts {
                        give_way_until_parked(before + 1);
                        child.cancel("after the start");
                    }
                    if joins {
                        let joined = child.join();
                        log.add("the parent goes on");
                        assert_eq!(joined.is_err_and(|e| e.is_panic()), name == "panics");
                    }
                });
            });
            if !joins {
                log.add("the parent goes on");
            }
            let [first, second] =
                if starts { ["local", "captured"] } else { ["captured", "local"] };
            log.assert(&[first, second, "the parent goes on"], &format!("{name}, {by}"));
            let surfaces = name == "panics" && starts && !joins;
            assert_eq!(caught.is_some(), surfaces, "{name}, {by}");
        }
    });
}

#[test]
fn a_task_that_never_starts_drops_its_captures_once() {
    in_task(|_| {
        let (drops, ran) = (Drops::new(), Count::new());
        for n in 0..20 {
            let captured = drops.guard();
            // The scope is cancelled, or the handle is dropped and the task may start.
            let handle = scope(|s| {
                if n % 2 == 0 {
                    s.cancel("before its start");
                }
                let task = s.spawn(move || {
                    ran.add(usize::from(n % 2 == 0));
                    drop(captured);
                });
                let handle = task.cancel_handle();
                drop(task);
                handle
            });
            assert_eq!((ran.get(), drops.left(), drops.count()), (0, 0, n + 1));
            drop(handle);
            assert_eq!(drops.count(), n + 1);
        }
        // Many that are queued at once, and a local one.
        scope(|s| {
            s.cancel("before their starts");
            for _ in 0..100 {
                let captured = drops.guard();
                s.spawn(move || {
                    ran.up();
                    drop(captured);
                });
            }
        });
        assert_eq!((ran.get(), drops.left(), drops.count()), (0, 0, 120));
        let captured = std::rc::Rc::new(());
        let count = std::rc::Rc::downgrade(&captured);
        scope(|_| drop(spawn_local(move || drop(captured))));
        assert_eq!(count.strong_count(), 0);
    });
}

#[test]
fn a_result_that_is_not_taken_is_dropped_and_its_memory_returns() {
    with_each(|rt| {
        let drops = Drops::new();
        let handles: Vec<_> = rt.block_on(|| {
            let handles = (0..100).map(|_| {
                let value = drops.guard();
                let task = spawn(move || value);
                let handle = task.cancel_handle();
                task.detach();
                handle
            });
            handles.collect()
        });
        eventually("the results are dropped", || drops.left() == 0);
        drop(handles);
        assert_eq!(drops.count(), 100);
        let retiring = rt.metrics().workers.iter().map(|worker| worker.retiring).sum::<u64>();
        assert!(retiring <= 200, "{retiring} records have not returned to their pool");
    });
}

/// A join that is cut short leaves no trace in the joined task.
#[test]
fn a_task_whose_joiner_was_cancelled_still_ends_before_its_parent() {
    in_task(|_| {
        let (begun, gone) = (Flag::new(), Flag::new());
        let joiner = spawn(move || {
            let joined = spawn(move || {
                begun.set();
                let cut = park().is_err();
                gone.set();
                cut
            });
            matches!(joined.join(), Ok(true) | Err(JoinError::Cancelled(_)))
        });
        begun.wait();
        joiner.cancel("enough");
        assert!(joiner.join().unwrap());
        assert!(gone.get());
    });
}
