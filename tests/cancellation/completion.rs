//! The ways a task can end, and what has happened by then.

use crate::common::prelude::*;
use crate::{Log, give_way_until_parked};

/// C54.
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

/// T29, C16.
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

/// T28.
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
