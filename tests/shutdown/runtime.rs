//! The end of a runtime: waits are cut short, what has started comes to its end, what has not is refused.

use crate::common::mpsc::channel;
use crate::common::{self, Drops, eventually, scaled_in_debug};
use cygnet::{JoinError, Runtime, Unparker, park, scope, spawn, spawn_local, unparker, yield_now};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_runtime_that_ends_wakes_parked_yielding_and_joining_tasks_with_cancelled() {
    for workers in [1, 2, 3, 8, common::MANY] {
        common::within(|| {
            let rt = common::runtime(workers);
            let (told, outcomes) = channel();
            let started = Arc::new(AtomicUsize::new(0));
            let start = |wait: fn(&AtomicUsize) -> bool| {
                let (told, started) = (told.clone(), Arc::clone(&started));
                rt.spawn(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    told.send(wait(&started)).unwrap();
                })
                .detach();
            };
            for _ in 0..10 {
                start(|_| park().is_err());
                start(|_| {
                    while yield_now().is_ok() {}
                    true
                });
                // A child that the join calls in place has its say before the join has.
                start(|started| {
                    let park = || {
                        started.fetch_add(1, Ordering::Relaxed);
                        park().is_err()
                    };
                    scope(|s| match s.spawn(park).join() {
                        Ok(cut) => cut,
                        Err(error) => error.is_cancelled(),
                    })
                });
            }
            // Children too; who does not wait yet finds out when it would.
            let all_started = || started.load(Ordering::Relaxed) == 40;
            eventually("they wait", || all_started() && common::parks(&rt) >= 20);
            drop(rt);
            drop(told);
            assert_eq!(outcomes.iter().filter(|cut| *cut).count(), 30);
        });
    }
}

#[test]
fn a_join_that_has_given_others_a_turn_starts_no_child_once_the_runtime_ends() {
    common::within(|| {
        let rt = common::runtime(1);
        let [joins, late] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (joined, began) = (joins.clone(), late.clone());
        rt.spawn(move || {
            loop {
                let began = began.clone();
                let child = spawn(move || {
                    began.fetch_add(usize::from(cygnet::is_cancelled()), Ordering::Relaxed)
                });
                if child.join().is_err() {
                    return;
                }
                joined.fetch_add(1, Ordering::Relaxed);
            }
        })
        .detach();
        // In its turn, so that the other task is in the middle of a join when the end begins.
        let (tell, told) = channel();
        rt.spawn(move || {
            while yield_now().is_ok() && joins.load(Ordering::Relaxed) < 100 {}
            tell.send(()).unwrap();
            eventually("the runtime ends", cygnet::is_cancelled);
        })
        .detach();
        told.recv().unwrap();
        drop(rt);
        // One may begin while the cancel is on its way to it.
        let late = late.load(Ordering::Relaxed);
        assert!(late <= 1, "{late} have begun");
    });
}

#[test]
fn tasks_of_one_worker_that_wake_each_other_without_end_are_cut_short_when_the_runtime_ends() {
    /// Wakes the other and waits to be woken, until that is refused.
    fn exchange(other: &Unparker, [begun, ended]: &[AtomicUsize; 2]) {
        begun.fetch_add(1, Ordering::Relaxed);
        while park().is_ok() {
            other.unpark();
        }
        ended.fetch_add(1, Ordering::Relaxed);
    }
    for workers in common::WORKERS {
        common::within(|| {
            for _ in 0..scaled_in_debug(100) {
                let rt = common::runtime(workers);
                let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
                for _ in 0..8 {
                    let counts = counts.clone();
                    rt.spawn(move || {
                        let (me, place) = (unparker(), Rc::new(RefCell::new(None)));
                        let partner = spawn_local({
                            let (place, counts) = (place.clone(), counts.clone());
                            move || {
                                *place.borrow_mut() = Some(unparker());
                                me.unpark();
                                exchange(&me, &counts);
                            }
                        });
                        while place.borrow().is_none() {
                            yield_now().unwrap();
                        }
                        let other = place.borrow_mut().take().unwrap();
                        exchange(&other, &counts);
                        partner.detach();
                    })
                    .detach();
                }
                eventually("all have begun", || counts[0].load(Ordering::Relaxed) == 16);
                drop(rt);
                assert_eq!(counts[1].load(Ordering::Relaxed), 16);
            }
        });
    }
}

#[test]
fn a_runtime_does_not_end_before_its_tasks_have() {
    for workers in common::WORKERS {
        common::within(|| {
            let rt = common::runtime(workers);
            let ended = Arc::new(AtomicUsize::new(0));
            let started = Arc::new(AtomicUsize::new(0));
            for _ in 0..20 {
                let (started, ended) = (started.clone(), ended.clone());
                rt.spawn(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    let _ = park();
                    // Clean-up that takes its time, and turns.
                    for _ in 0..100 {
                        let _ = yield_now();
                    }
                    ended.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
            eventually("all have started", || started.load(Ordering::Relaxed) == 20);
            drop(rt);
            assert_eq!(ended.load(Ordering::Relaxed), 20);
        });
    }
}

#[test]
fn threads_begin_and_end_with_the_runtime_and_call_its_hooks() {
    common::within(|| {
        let (starts, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (start, stop) = (starts.clone(), stops.clone());
        let rt = Runtime::builder()
            .workers(3)
            .thread_name("life")
            .on_thread_start(move || {
                start.fetch_add(1, Ordering::Relaxed);
            })
            .on_thread_stop(move || {
                stop.fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .unwrap();
        let name = rt.block_on(|| common::thread::current().name().unwrap().to_owned());
        assert!(["life-0", "life-1", "life-2"].contains(&name.as_str()), "{name}");
        drop(rt);
        assert_eq!((starts.load(Ordering::Relaxed), stops.load(Ordering::Relaxed)), (3, 3));
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
fn a_join_on_a_task_that_the_runtime_s_end_prevented_says_that_it_never_started() {
    common::within(|| {
        let rt = common::runtime(1);
        let handle = rt.handle();
        let (open, gate) = channel::<()>();
        let (running, runs) = channel();
        let busy = rt.spawn(move || {
            running.send(()).unwrap();
            gate.recv().unwrap();
            // Handles are refused a moment before that.
            eventually("the runtime ends", cygnet::is_cancelled);
        });
        runs.recv().unwrap();
        // The only worker is busy, so these stay queued.
        let drops = Drops::new();
        let queued: Vec<_> = (0..10)
            .map(|_| {
                let guard = drops.guard();
                rt.spawn(move || drop(guard))
            })
            .collect();
        common::thread::scope(|scope| {
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

#[test]
fn a_handle_that_outlives_its_runtime_gives_the_closure_back() {
    common::within(|| {
        let rt = common::runtime(2);
        let handle = rt.handle();
        drop(rt);
        let error = handle.spawn(|| 5).unwrap_err();
        assert_eq!((error.0)(), 5);
        assert!(matches!(handle.try_block_on(|| 5), Err(JoinError::NotStarted(_))));
    });
}
