//! The end of a runtime: waits are cut short, started tasks end, and fresh tasks never start.

use crate::common::prelude::*;

/// T48.
#[test]
fn the_end_of_a_runtime_cuts_short_parks_yields_and_joins() {
    with_own_of(&[1, 2, 3, 8, MANY], |rt| {
        let (told, outcomes) = channel();
        let started = Count::new();
        let start = |wait: fn(Count) -> bool| {
            rt.spawn(own(&told, move |told| {
                started.up();
                told.send(wait(started)).unwrap();
            }))
            .detach();
        };
        for _ in 0..10 {
            start(|_| park().is_err());
            start(|_| {
                while yield_now().is_ok() {}
                true
            });
            // A child that the join calls in place answers before the join.
            start(|started| {
                let park = || {
                    started.up();
                    park().is_err()
                };
                scope(|s| match s.spawn(park).join() {
                    Ok(cut) => cut,
                    Err(error) => error.is_cancelled(),
                })
            });
        }
        // Children have begun, too. A task that does not wait yet fails when it would.
        eventually("they wait", || started.get() == 40 && parks(&rt) >= 20);
        drop(rt);
        drop(told);
        assert_eq!(outcomes.iter().filter(|cut| *cut).count(), 30);
    });
}

#[test]
fn a_join_starts_no_child_once_the_runtime_ends() {
    with_own_of(&[1], |rt| {
        let (joins, late) = (Count::new(), Count::new());
        rt.spawn(move || {
            loop {
                let child = spawn(move || late.add(usize::from(cygnet::is_cancelled())));
                if child.join().is_err() {
                    return;
                }
                joins.up();
            }
        })
        .detach();
        // This task has its turn while the other task is in the middle of a join.
        let (tell, told) = channel();
        rt.spawn(move || {
            while yield_now().is_ok() && joins.get() < 100 {}
            tell.send(()).unwrap();
            eventually("the runtime ends", cygnet::is_cancelled);
        })
        .detach();
        told.recv().unwrap();
        drop(rt);
        // One child may begin while the cancel is on its way.
        assert!(late.get() <= 1, "{late:?} have begun");
    });
}

#[test]
fn tasks_that_wake_each_other_without_end_are_cut_short() {
    /// Wakes the other task and waits to be woken, until the wait fails.
    fn exchange(other: &Unparker, [begun, ended]: [Count; 2]) {
        begun.up();
        while park().is_ok() {
            other.unpark();
        }
        ended.up();
    }
    for workers in WORKERS {
        rounds(100, |_| {
            let rt = runtime(workers);
            let counts = [Count::new(), Count::new()];
            for _ in 0..8 {
                rt.spawn(move || {
                    let (me, place) = (unparker(), Rc::new(RefCell::new(None)));
                    let partner = spawn_local(own(&place, move |place| {
                        *place.borrow_mut() = Some(unparker());
                        me.unpark();
                        exchange(&me, counts);
                    }));
                    give_way_until(|| place.borrow().is_some());
                    let other = place.borrow_mut().take().unwrap();
                    exchange(&other, counts);
                    partner.detach();
                })
                .detach();
            }
            eventually("all have begun", || counts[0].get() == 16);
            drop(rt);
            assert_eq!(counts[1].get(), 16);
        });
    }
}

/// T48.
#[test]
fn a_runtime_does_not_end_before_its_tasks_have() {
    with_own(|rt| {
        let (started, ended) = (Count::new(), Count::new());
        for _ in 0..20 {
            rt.spawn(move || {
                started.up();
                let _ = park();
                // Clean-up that takes its time, and turns.
                for _ in 0..100 {
                    let _ = yield_now();
                }
                ended.up();
            })
            .detach();
        }
        eventually("all have started", || started.get() == 20);
        drop(rt);
        assert_eq!(ended.get(), 20);
    });
}

#[test]
fn threads_begin_and_end_with_the_runtime_and_call_its_hooks() {
    within(|| {
        let (starts, stops) = (Count::new(), Count::new());
        let rt = Runtime::builder()
            .workers(3)
            .thread_name("life")
            .on_thread_start(move |_| starts.up())
            .on_thread_stop(move |_| stops.up())
            .build()
            .unwrap();
        let name = rt.block_on(|| thread::current().name().unwrap().to_owned());
        assert!(["life-0", "life-1", "life-2"].contains(&name.as_str()), "{name}");
        drop(rt);
        assert_eq!((starts.get(), stops.get()), (3, 3));
    });
}

/// Waits until the runtime takes no more tasks.
fn await_refusal(handle: &cygnet::Handle) {
    eventually("the runtime takes no more tasks", || match handle.spawn(|| ()) {
        Err(_) => true,
        Ok(task) => {
            task.detach();
            false
        }
    });
}

#[test]
fn a_join_of_a_task_that_the_end_prevented_says_not_started() {
    with_own_of(&[1], |rt| {
        let handle = rt.handle();
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = rt.spawn(move || {
            running.send(()).unwrap();
            gate.recv().unwrap();
            // Spawns by handles are refused a moment before that.
            eventually("the runtime ends", cygnet::is_cancelled);
        });
        runs.recv().unwrap();
        // The only worker is busy, so the tasks stay queued.
        let drops = Drops::new();
        let queued: Vec<_> = (0..10).map(|_| rt.spawn(drops.around(|| ()))).collect();
        thread::scope(|scope| {
            scope.spawn(move || drop(rt));
            await_refusal(&handle);
            assert!(queued.iter().all(|task| !task.is_finished()));
            open.send(()).unwrap();
        });
        assert_eq!(drops.count(), 10);
        for task in queued {
            assert!(matches!(task.join(), Err(JoinError::NotStarted(_))));
        }
        busy.join().unwrap();
    });
}
