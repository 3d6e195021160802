//! Panics in destructors, and waits in the middle of an unwinding.

use crate::common::Mutex;
use crate::common::mpsc;
use crate::common::rerun::alone_and_leaking;
use crate::common::{self, runtime, scaled, text, with_each, within};
use cygnet::{
    JoinError, LocalTask, Runtime, Task, YieldTo, park, scope, shield, spawn, spawn_local,
    spawn_migratable, unparker, yield_now, yield_to,
};
use std::any::Any;
use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Panics when it is dropped, unless the thread is panicking already.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("{}", self.0);
        }
    }
}

/// Calls its function when it is dropped.
struct Late<F: FnMut()>(F);

impl<F: FnMut()> Drop for Late<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A runtime that keeps what its hook for unseen panics is told.
fn telling(workers: usize) -> (Runtime, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let rt = Runtime::builder()
        .workers(workers)
        .on_panic({
            let told = told.clone();
            move |report| told.lock().unwrap().push(report.message().to_owned())
        })
        .build()
        .unwrap();
    (rt, told)
}

#[test]
fn a_panic_in_the_drop_of_captures_that_were_used_is_the_tasks_panic() {
    within(|| {
        let rt = runtime(1);
        let bomb = Bomb("captured");
        let error = rt
            .spawn(move || {
                let _bomb = bomb;
            })
            .join()
            .unwrap_err();
        assert!(error.to_string().contains("captured"), "{error}");
    });
}

#[test]
fn a_panic_in_the_drop_of_captures_that_were_never_used_is_told_to_the_hook() {
    within(|| {
        let (rt, told) = telling(1);
        rt.block_on(|| {
            let bomb = Bomb("unused");
            // Cancelled before its start.
            drop(spawn(move || {
                let _bomb = &bomb;
            }));
            yield_now().unwrap();
        });
        drop(rt);
        assert_eq!(*told.lock().unwrap(), ["unused"]);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_result_that_nobody_takes_is_told_to_the_hook() {
    within(|| {
        let (rt, told) = telling(2);
        rt.block_on(|| {
            // Let go of before the end, and after it.
            spawn(|| Bomb("early")).detach();
            let task = spawn(|| Bomb("late"));
            while !task.is_finished() {
                yield_now().unwrap();
            }
            drop(task);
        });
        drop(rt);
        let mut told = told.lock().unwrap();
        told.sort_unstable();
        assert_eq!(*told, ["early", "late"]);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_result_on_a_foreign_thread_does_not_come_out_of_the_handles_drop() {
    within(|| {
        let rt = runtime(1);
        let task = rt.spawn(|| Bomb("a result"));
        while !task.is_finished() {
            common::thread::yield_now();
        }
        drop(task);
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_scoped_result_surfaces_at_the_end_of_the_scope() {
    within(|| {
        let rt = runtime(2);
        let ended = AtomicUsize::new(0);
        let error = rt
            .try_block_on(|| {
                scope(|s| {
                    s.spawn(|| Bomb("a result"));
                    for _ in 0..10 {
                        s.spawn(|| {
                            yield_now().unwrap();
                            ended.fetch_add(1, Ordering::Relaxed)
                        });
                    }
                });
            })
            .unwrap_err();
        assert!(error.to_string().contains("a result"), "{error}");
        assert_eq!(ended.into_inner(), 10);
    });
}

#[test]
fn a_payload_whose_drop_panics_reaches_the_join_and_does_no_harm_elsewhere() {
    common::real!("a process of its own");
    alone_and_leaking(
        "panics::a_payload_whose_drop_panics_reaches_the_join_and_does_no_harm_elsewhere",
        || {
            let rt = runtime(2);
            let error = rt.spawn(|| panic_any(Bomb("a payload"))).join().unwrap_err();
            let payload: Box<dyn Any + Send> = error.into_panic().unwrap();
            assert!(catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err());
            rt.block_on(|| {
                spawn(|| panic_any(Bomb("unseen"))).detach();
                drop(spawn(|| panic_any(Bomb("dropped"))));
                let _ = catch_unwind(|| {
                    scope(|s| {
                        s.spawn(|| panic_any(Bomb("the first of a scope")));
                        s.spawn(|| panic_any(Bomb("the second of a scope")));
                        resume_unwind(Box::new(7))
                    })
                })
                .map_err(std::mem::forget);
            });
            assert_eq!(rt.block_on(|| 7), 7);
        },
    );
}

#[test]
fn a_payload_whose_drop_panics_with_such_a_payload_is_leaked_and_does_no_harm() {
    common::real!("a process of its own");
    struct Matryoshka(u32);
    impl Drop for Matryoshka {
        fn drop(&mut self) {
            if self.0 > 0 && !std::thread::panicking() {
                panic_any(Matryoshka(self.0 - 1));
            }
        }
    }
    alone_and_leaking(
        "panics::a_payload_whose_drop_panics_with_such_a_payload_is_leaked_and_does_no_harm",
        || {
            let rt = runtime(1);
            rt.block_on(|| spawn(|| panic_any(Matryoshka(5))).detach());
            assert_eq!(rt.block_on(|| 7), 7);
        },
    );
}

#[test]
fn a_scope_in_a_destructor_during_an_unwinding_waits_for_its_children() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers);
            let ended = AtomicUsize::new(0);
            let seen = AtomicBool::new(false);
            let error = rt
                .try_block_on(|| {
                    let _late = Late(|| {
                        scope(|s| {
                            for _ in 0..10 {
                                s.spawn(|| ended.fetch_add(1, Ordering::Relaxed));
                            }
                        });
                        seen.store(ended.load(Ordering::Relaxed) == 10, Ordering::Relaxed);
                    });
                    panic!("the first")
                })
                .unwrap_err();
            assert!(error.to_string().contains("the first"));
            assert!(seen.into_inner());
        }
    });
}

/// Calls `f` in a destructor that runs because of a panic.
fn while_unwinding(rt: &Runtime, f: impl FnMut() + Send) {
    let error = rt
        .try_block_on(|| {
            let _late = Late(f);
            panic!("the first")
        })
        .unwrap_err();
    assert!(error.to_string().contains("the first"), "{error}");
}

#[test]
fn a_scope_during_an_unwinding_waits_for_local_tasks_too() {
    with_each(|rt| {
        let ended = Arc::new(AtomicUsize::new(0));
        while_unwinding(rt, || {
            scope(|_| {
                for _ in 0..10 {
                    let ended = ended.clone();
                    spawn_local(move || ended.fetch_add(1, Ordering::Relaxed)).detach();
                }
            });
        });
        assert_eq!(ended.load(Ordering::Relaxed), 10);
    });
}

#[test]
fn a_scope_during_an_unwinding_waits_for_a_child_that_needs_a_larger_stack() {
    with_each(|rt| {
        let seen = AtomicUsize::new(0);
        while_unwinding(rt, || {
            // The smallest capture that asks for more than the usual stack.
            let captured = [1u8; (4 << 10) + 1];
            scope(|s| {
                let seen = &seen;
                s.spawn(move || seen.store(black_box(&captured).len(), Ordering::Relaxed));
            });
        });
        assert_eq!(seen.into_inner(), (4 << 10) + 1);
    });
}

#[test]
fn a_scope_during_an_unwinding_loses_no_child_although_others_were_joined_before_it() {
    with_each(|rt| {
        for _ in 0..scaled(20) {
            let ended = AtomicUsize::new(0);
            while_unwinding(rt, || {
                scope(|s| {
                    for _ in 0..50 {
                        s.spawn(|| ended.fetch_add(1, Ordering::Relaxed));
                        // Joined out of the queue, where it leaves an entry without a task, or
                        // cancelled, if another worker has begun it.
                        let _ = s.spawn(|| ()).join();
                    }
                });
            });
            assert_eq!(ended.into_inner(), 50);
        }
    });
}

#[test]
fn a_held_worker_hides_no_task_while_it_runs_a_descendant() {
    fn spin_until(flag: &AtomicBool) {
        while !flag.load(Ordering::Acquire) {
            common::thread::yield_now();
        }
    }
    fn set(flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
    }
    within(|| {
        let (rt, other) = (runtime(2), runtime(1));
        let flags: [AtomicBool; 5] = Default::default();
        let [busy, unwinds, own, stranger, begun] = &flags;
        rt.block_on(|| {
            scope(|s| {
                // The other worker takes nothing before the descendant runs.
                s.spawn(|| {
                    set(busy);
                    spin_until(own);
                });
                spin_until(busy);
                let unwinding = s.spawn(|| {
                    scope(|s| {
                        s.spawn(|| {
                            set(own);
                            spin_until(stranger);
                        });
                        set(begun);
                        yield_now().unwrap();
                        let _late = Late(|| {
                            set(unwinds);
                            other.block_on(|| spin_until(own));
                        });
                        panic!("the first")
                    })
                });
                while !begun.load(Ordering::Acquire) {
                    yield_now().unwrap();
                }
                // In the queue it lies above the descendant.
                s.spawn(|| set(stranger));
                while !unwinds.load(Ordering::Acquire) {
                    yield_now().unwrap();
                }
                assert!(unwinding.join().is_err());
            });
        });
    });
}

#[test]
fn block_on_in_a_destructor_during_an_unwinding_returns_its_value() {
    within(|| {
        let (rt, other) = (runtime(1), runtime(1));
        let sum = AtomicUsize::new(0);
        let error = rt
            .try_block_on(|| {
                let _late = Late(|| {
                    let value = rt.block_on(|| 3) + other.block_on(|| 4);
                    sum.store(value, Ordering::Relaxed);
                });
                panic!("the first")
            })
            .unwrap_err();
        assert!(error.is_panic());
        assert_eq!(sum.into_inner(), 7);
    });
}

#[test]
fn join_park_and_yield_in_a_destructor_during_an_unwinding_return_at_once() {
    within(|| {
        let rt = runtime(2);
        let answers = Mutex::new(None);
        let error = rt
            .try_block_on(|| {
                // Fresh or parked: nobody wakes it, so its join would have to wait.
                let mut other = Some(spawn(park));
                let _late = Late(|| {
                    let (parked, yielded) = (park(), yield_now());
                    let ran = other.as_ref().map(yield_to);
                    let joined = other.take().map(Task::join);
                    *answers.lock().unwrap() = Some((parked, yielded, ran, joined));
                });
                panic!("the first")
            })
            .unwrap_err();
        assert!(error.to_string().contains("the first"));
        let (parked, yielded, ran, joined) = answers.into_inner().unwrap().expect("it was dropped");
        assert!(parked.is_err() && yielded.is_ok(), "{parked:?}, {yielded:?}");
        assert_eq!(ran, Some(Ok(YieldTo::Elsewhere)));
        assert!(matches!(joined, Some(Err(JoinError::Cancelled(_)))), "{joined:?}");
    });
}

#[test]
fn a_spawn_of_a_migratable_task_during_an_unwinding_is_refused() {
    with_each(|rt| {
        let refused = Mutex::new(None);
        while_unwinding(rt, || {
            // SAFETY: it captures nothing and holds nothing over a suspension.
            let spawn = || unsafe { spawn_migratable(|| ()) }.detach();
            *refused.lock().unwrap() = Some(catch_unwind(spawn));
        });
        let payload = refused.into_inner().unwrap().unwrap().expect_err("it was spawned");
        let said = text(&*payload);
        assert!(
            said.contains("spawn_migratable was called while the thread is panicking"),
            "{said}"
        );
    });
}

#[test]
fn neighbours_do_not_see_a_panic_that_waits_nor_poison_their_locks() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers);
            let saw = Arc::new(AtomicUsize::new(0));
            let rounds = Arc::new(AtomicUsize::new(0));
            let lock = Arc::new(Mutex::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let neighbours: Vec<_> = (0..4)
                .map(|_| {
                    let (saw, rounds, lock, stop) =
                        (saw.clone(), rounds.clone(), lock.clone(), stop.clone());
                    rt.spawn(move || {
                        while !stop.load(Ordering::Acquire) {
                            saw.fetch_add(usize::from(std::thread::panicking()), Ordering::Relaxed);
                            *lock.lock().unwrap() += 1;
                            rounds.fetch_add(1, Ordering::Relaxed);
                            yield_now().unwrap();
                        }
                    })
                })
                .collect();
            while rounds.load(Ordering::Relaxed) < 100 {
                common::thread::yield_now();
            }
            for _ in 0..10 {
                let error = rt.try_block_on(|| {
                    let _late = Late(|| {
                        scope(|s| {
                            for _ in 0..5 {
                                s.spawn(|| saw.load(Ordering::Relaxed));
                            }
                        });
                        let _ = yield_now();
                        let _ = park();
                    });
                    panic!("here")
                });
                assert!(error.is_err());
            }
            stop.store(true, Ordering::Release);
            neighbours.into_iter().for_each(|task| task.join().unwrap());
            assert_eq!(saw.load(Ordering::Relaxed), 0);
            assert!(!lock.is_poisoned());
        }
    });
}

#[test]
fn children_called_during_an_unwinding_do_not_count_as_panicking_twice() {
    // A panic inside a child that the unwinding destructor waits for is the child's own.
    within(|| {
        let rt = runtime(1);
        let inner = Mutex::new(String::new());
        let error = rt
            .try_block_on(|| {
                let _late = Late(|| {
                    let result = rt.try_block_on(|| {
                        let caught = catch_unwind(|| panic!("the second"));
                        assert!(caught.is_err());
                        7
                    });
                    *inner.lock().unwrap() = format!("{result:?}");
                });
                panic!("the first")
            })
            .unwrap_err();
        assert!(error.to_string().contains("the first"), "{error}");
        assert_eq!(inner.into_inner().unwrap(), "Ok(7)");
    });
}

#[test]
fn a_child_that_a_second_unwinding_hands_on_is_called_by_the_first() {
    within(|| {
        for workers in [1, 2] {
            let rt = runtime(workers);
            let called = AtomicUsize::new(0);
            let error = rt.try_block_on(|| {
                let _outer = Late(|| {
                    let ended = catch_unwind(AssertUnwindSafe(|| {
                        scope(|s| {
                            s.spawn(|| called.fetch_add(1, Ordering::Relaxed));
                            // The newest one comes first, and waits for a child that is not run in place.
                            s.spawn(|| {
                                let _inner = Late(|| {
                                    scope(|_| {
                                        let task = cygnet::task().stack_size(1 << 20).unwrap();
                                        task.spawn(|| ()).detach();
                                    });
                                });
                                panic!("the second")
                            });
                        })
                    }));
                    assert!(ended.is_err());
                });
                panic!("the first")
            });
            assert!(error.is_err());
            assert_eq!(called.into_inner(), 1);
        }
    });
}

/// Says that it is being dropped, and panics when it may.
struct Slow {
    drops: Arc<AtomicBool>,
    may_panic: Rc<Cell<bool>>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.drops.store(true, Ordering::Release);
        while !self.may_panic.get() {
            let _ = shield(Duration::from_secs(60), yield_now);
        }
        panic!("slow");
    }
}

/// A scope whose frame lies below those of calls that come after it, so that it is still there to be mistaken for one.
#[inline(never)]
fn far_down(f: impl FnOnce(&cygnet::Scope<'_, '_>)) {
    let frames = black_box([0_u8; 16 << 10]);
    scope(f);
    black_box(&frames);
}

/// A local task in a scope returns a value, and leaves a child that ends when the value is being dropped: by its join, which another task makes, and
/// which that child cuts short.
#[test]
fn a_panic_in_a_drop_by_a_join_goes_to_the_hook_when_the_scope_of_the_task_has_ended_meanwhile() {
    for workers in common::WORKERS {
        within(|| {
            let (rt, told) = telling(workers);
            rt.block_on(|| {
                let (joins, drops) = (Arc::new(AtomicBool::new(false)), Arc::default());
                let is_over = Rc::new(Cell::new(false));
                let place: Rc<Cell<Option<LocalTask<Slow>>>> = Rc::default();
                let (theirs, begins) = (Rc::clone(&place), Arc::clone(&joins));
                let joining = spawn_local(move || {
                    loop {
                        if let Some(local) = theirs.take() {
                            begins.store(true, Ordering::Release);
                            return local.join().is_ok();
                        }
                        yield_now().unwrap();
                    }
                });
                let joiner = joining.cancel_handle();
                far_down(|_| {
                    let value = Slow { drops: Arc::clone(&drops), may_panic: Rc::clone(&is_over) };
                    place.set(Some(spawn_local(move || {
                        spawn(move || {
                            common::give_way_until(|| joins.load(Ordering::Acquire));
                            joiner.cancel("enough");
                            while !drops.load(Ordering::Acquire) {
                                let _ = yield_now();
                            }
                        })
                        .detach();
                        value
                    })));
                });
                is_over.set(true);
                assert!(!joining.join().unwrap(), "its value is dropped by the join");
            });
            drop(rt);
            assert_eq!(*told.lock().unwrap(), ["slow"]);
        });
    }
}

/// Its handle is dropped in the scope, which waits for its child.
#[test]
fn a_panic_in_the_drop_of_what_a_local_task_has_returned_surfaces_from_the_scope_it_is_dropped_in()
{
    for workers in common::WORKERS {
        within(|| {
            let (rt, told) = telling(workers);
            let error = rt.try_block_on(|| {
                let (begun, may_end) =
                    (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let drops = Arc::default();
                let value = Slow { drops: Arc::clone(&drops), may_panic: Rc::new(Cell::new(true)) };
                scope(|_| {
                    let (until, begins) = (Arc::clone(&may_end), Arc::clone(&begun));
                    let local = spawn_local(move || {
                        spawn(move || {
                            begins.store(true, Ordering::Release);
                            while !until.load(Ordering::Acquire) {
                                let _ = yield_now();
                            }
                        })
                        .detach();
                        value
                    });
                    // Which the local task has spawned, and that returns without a wait, here.
                    common::give_way_until(|| begun.load(Ordering::Acquire));
                    drop(local);
                    assert!(drops.load(Ordering::Acquire), "it is dropped at home, and at once");
                    may_end.store(true, Ordering::Release);
                });
            });
            assert!(error.unwrap_err().to_string().contains("slow"));
            drop(rt);
            assert!(told.lock().unwrap().is_empty());
        });
    }
}

#[test]
fn a_task_dropped_during_an_unwinding_is_cancelled() {
    within(|| {
        let rt = runtime(2);
        let cut = Arc::new(AtomicBool::new(false));
        let error = rt
            .try_block_on(|| {
                let (send, receive) = mpsc::channel();
                let _task: Task<()> = spawn({
                    let cut = cut.clone();
                    move || {
                        send.send(unparker()).unwrap();
                        cut.store(park().is_err(), Ordering::Relaxed);
                    }
                });
                while receive.try_recv().is_err() {
                    yield_now().unwrap();
                }
                panic!("the parent")
            })
            .unwrap_err();
        assert!(error.is_panic());
        assert!(cut.load(Ordering::Relaxed));
    });
}
