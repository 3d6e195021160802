//! Panics in destructors, and waits in the middle of an unwinding.

use crate::common::prelude::*;
use std::any::Any;
use std::hint::black_box;
use std::panic::panic_any;

/// Runs `f` in a task of a runtime, and ends the runtime. Returns the outcome of the task, and the
/// messages of the panics that the runtime's hook was told.
fn told_to_hook(workers: usize, f: impl FnOnce() + Send) -> (Result<(), JoinError>, Vec<String>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    let hook = move |report: &PanicReport<'_>| {
        tells.lock().unwrap().push(report.message().to_owned());
    };
    let rt = Runtime::builder().workers(workers).on_panic(hook).build().unwrap();
    let outcome = rt.try_block_on(f);
    drop(rt);
    let mut told = std::mem::take(&mut *told.lock().unwrap());
    told.sort_unstable();
    (outcome, told)
}

#[test]
fn a_panic_in_the_drop_of_captures_that_were_used_is_the_tasks_panic() {
    with(&[1], |rt| {
        let bomb = Bomb("captured");
        let error = rt.spawn(move || drop(bomb)).join().unwrap_err();
        assert!(error.to_string().contains("captured"), "{error}");
    });
}

#[test]
fn a_panic_in_the_drop_of_captures_that_were_never_used_is_told_to_the_hook() {
    within(|| {
        let (outcome, told) = told_to_hook(1, || {
            let bomb = Bomb("unused");
            // Cancelled before its start.
            drop(spawn(move || drop(bomb)));
            yield_now().unwrap();
        });
        assert!(outcome.is_ok());
        assert_eq!(told, ["unused"]);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_result_that_is_not_taken_is_told_to_the_hook() {
    within(|| {
        let (outcome, told) = told_to_hook(2, || {
            // One handle goes before the end of its task, the other one after it.
            spawn(|| Bomb("early")).detach();
            let task = spawn(|| Bomb("late"));
            give_way_until(|| task.is_finished());
            drop(task);
        });
        assert!(outcome.is_ok());
        assert_eq!(told, ["early", "late"]);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_result_does_not_leave_the_drop_of_a_handle_on_a_thread() {
    with(&[1], |rt| {
        let task = rt.spawn(|| Bomb("a result"));
        spin_until(|| task.is_finished());
        drop(task);
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_scoped_result_surfaces_at_the_end_of_the_scope() {
    with(&[2], |rt| {
        let ended = AtomicUsize::new(0);
        let children = || {
            scope(|s| {
                s.spawn(|| Bomb("a result"));
                for _ in 0..10 {
                    s.spawn(|| {
                        yield_now().unwrap();
                        ended.fetch_add(1, Ordering::Relaxed)
                    });
                }
            });
        };
        let error = rt.try_block_on(children).unwrap_err();
        assert!(error.to_string().contains("a result"), "{error}");
        assert_eq!(ended.into_inner(), 10);
    });
}

#[test]
fn a_payload_whose_drop_panics_reaches_the_join_and_does_no_harm_elsewhere() {
    in_own_process_leaking(|| {
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
    });
}

#[test]
fn a_payload_whose_drop_panics_with_such_a_payload_is_leaked_and_does_no_harm() {
    struct Matryoshka(u32);
    impl Drop for Matryoshka {
        fn drop(&mut self) {
            if self.0 > 0 && !std::thread::panicking() {
                panic_any(Matryoshka(self.0 - 1));
            }
        }
    }
    in_own_process_leaking(|| {
        let rt = runtime(1);
        rt.block_on(|| spawn(|| panic_any(Matryoshka(5))).detach());
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn a_scope_in_a_destructor_during_an_unwinding_waits_for_its_children() {
    with_each(|rt| {
        let ended = Arc::new(AtomicUsize::new(0));
        let mut seen = 0;
        unwinding(rt, || {
            scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| ended.fetch_add(1, Ordering::Relaxed));
                    let ended = ended.clone();
                    spawn_local(move || ended.fetch_add(1, Ordering::Relaxed)).detach();
                }
                // The smallest capture that asks for more than the usual stack.
                let (captured, ended) = ([1u8; (4 << 10) + 1], &ended);
                s.spawn(move || ended.fetch_add(black_box(&captured).len(), Ordering::Relaxed));
            });
            seen = ended.load(Ordering::Relaxed);
        });
        assert_eq!(seen, 20 + (4 << 10) + 1);
    });
}

/// Calls `f` in a destructor that runs because of a panic.
fn unwinding(rt: &Runtime, f: impl FnMut() + Send) {
    let ended = rt.try_block_on(|| {
        let _late = OnDrop(f);
        panic!("the first")
    });
    let error = ended.unwrap_err();
    assert!(error.to_string().contains("the first"), "{error}");
}

#[test]
fn a_scope_during_an_unwinding_loses_no_child_although_others_were_joined() {
    with_each(|rt| {
        for _ in 0..scaled(20) {
            let ended = AtomicUsize::new(0);
            unwinding(rt, || {
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
    in_task_with(&[2], |_| {
        let other = runtime(1);
        let [busy, unwinds, own, stranger, begun] = [(); 5].map(|()| Flag::new());
        scope(|s| {
            // The other worker takes nothing before the descendant runs.
            s.spawn(|| {
                busy.set();
                own.hold();
            });
            busy.hold();
            let unwinding = s.spawn(|| {
                scope(|s| {
                    s.spawn(|| {
                        own.set();
                        stranger.hold();
                    });
                    begun.set();
                    yield_now().unwrap();
                    let _late = OnDrop(|| {
                        unwinds.set();
                        other.block_on(|| own.hold());
                    });
                    panic!("the first")
                })
            });
            yield_until(begun);
            // In the queue it lies above the descendant.
            s.spawn(|| stranger.set());
            yield_until(unwinds);
            assert!(unwinding.join().is_err());
        });
    });
}

/// In a task: runs others until the flag is set, also when the task is cancelled.
fn yield_until(flag: Flag) {
    while !flag.get() {
        let _ = yield_now();
    }
}

#[test]
fn block_on_in_a_destructor_during_an_unwinding_returns_its_value() {
    with(&[1], |rt| {
        let (other, mut sum) = (runtime(1), 0);
        unwinding(rt, || sum = rt.block_on(|| 3) + other.block_on(|| 4));
        assert_eq!(sum, 7);
    });
}

/// T46.
#[test]
fn join_park_and_yield_in_a_destructor_during_an_unwinding_return_at_once() {
    with(&[2], |rt| {
        let answers = Mutex::new(None);
        let error = rt
            .try_block_on(|| {
                // Fresh or parked: only a cancel ends it, so its join would have to wait.
                let mut other = Some(spawn(park));
                let _late = OnDrop(|| {
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
        let mut said = String::new();
        unwinding(rt, || {
            // SAFETY: it captures nothing and holds nothing over a suspension.
            said = panic_of(|| unsafe { cygnet::task().migratable() }.spawn(|| ()).detach());
        });
        let refusal = "a migratable task was spawned while the thread is panicking";
        assert!(said.contains(refusal), "{said}");
    });
}

#[test]
fn neighbours_do_not_see_a_panic_that_waits_nor_poison_their_locks() {
    with(&[1, 2], |rt| {
        let (panics_seen, rounds, stop) = (Count::new(), Count::new(), Flag::new());
        let lock = Arc::new(Mutex::new(0));
        let theirs = lock.clone();
        let neighbour = move || {
            while !stop.get() {
                panics_seen.add(usize::from(std::thread::panicking()));
                *theirs.lock().unwrap() += 1;
                rounds.up();
                yield_now().unwrap();
            }
        };
        let neighbours: Vec<_> = (0..4).map(|_| rt.spawn(neighbour.clone())).collect();
        spin_until(|| rounds.get() >= 100);
        for _ in 0..10 {
            unwinding(rt, || {
                scope(|s| (0..5).for_each(|_| drop(s.spawn(|| panics_seen.get()))));
                let _ = yield_now();
                let _ = park();
            });
        }
        stop.set();
        neighbours.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(panics_seen.get(), 0);
        assert!(!lock.is_poisoned());
    });
}

/// A panic inside a child that the unwinding destructor waits for is the child's own.
#[test]
fn children_called_during_an_unwinding_do_not_count_as_panicking_twice() {
    with(&[1], |rt| {
        let mut inner = String::new();
        unwinding(rt, || {
            let result = rt.try_block_on(|| {
                let caught = catch_unwind(|| panic!("the second"));
                assert!(caught.is_err());
                7
            });
            inner = format!("{result:?}");
        });
        assert_eq!(inner, "Ok(7)");
    });
}

#[test]
fn a_child_that_a_second_unwinding_hands_on_is_called_by_the_first() {
    with(&[1, 2], |rt| {
        let called = AtomicUsize::new(0);
        unwinding(rt, || {
            let said = panic_of(|| {
                scope(|s| {
                    s.spawn(|| called.fetch_add(1, Ordering::Relaxed));
                    // The newest one comes first, and waits for a child that is not run in place.
                    s.spawn(|| {
                        let _inner = OnDrop(|| {
                            scope(|_| {
                                let task = cygnet::task().stack_size(1 << 20).unwrap();
                                task.spawn(|| ()).detach();
                            });
                        });
                        panic!("the second")
                    });
                })
            });
            assert_eq!(said, "the second");
        });
        assert_eq!(called.into_inner(), 1);
    });
}

/// Says that it is being dropped, and panics when it may.
struct Slow {
    drops: Flag,
    may_panic: Rc<Cell<bool>>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.drops.set();
        while !self.may_panic.get() {
            let _ = shield(Duration::from_secs(60), yield_now);
        }
        panic!("slow");
    }
}

/// A scope with a frame below the frames of later calls, so that it could still be mistaken for
/// one of theirs.
#[inline(never)]
fn far_down(f: impl FnOnce(&cygnet::Scope<'_, '_>)) {
    let frames = black_box([0_u8; 16 << 10]);
    scope(f);
    black_box(&frames);
}

/// A local task in a scope returns a value, and leaves a child that ends when the value is being
/// dropped. A join drops the value: another task makes it, and that child cuts it short.
#[test]
fn a_panic_in_a_drop_by_a_join_after_the_end_of_the_scope_goes_to_the_hook() {
    let body = || {
        let (joins, drops) = (Flag::new(), Flag::new());
        let is_over = Rc::new(Cell::new(false));
        let place: Rc<Cell<Option<LocalTask<Slow>>>> = Rc::default();
        let joining = spawn_local(own(&place, move |theirs| {
            loop {
                if let Some(local) = theirs.take() {
                    joins.set();
                    return local.join().is_ok();
                }
                yield_now().unwrap();
            }
        }));
        let joiner = joining.cancel_handle();
        far_down(|_| {
            let value = Slow { drops, may_panic: Rc::clone(&is_over) };
            place.set(Some(spawn_local(move || {
                spawn(move || {
                    joins.wait();
                    joiner.cancel("enough");
                    yield_until(drops);
                })
                .detach();
                value
            })));
        });
        is_over.set(true);
        assert!(!joining.join().unwrap(), "its value is dropped by the join");
    };
    for workers in common::WORKERS {
        within(|| {
            let (outcome, told) = told_to_hook(workers, body);
            outcome.unwrap();
            assert_eq!(told, ["slow"]);
        });
    }
}

/// The handle is dropped in the scope, which waits for the child.
#[test]
fn a_panic_in_the_drop_of_a_local_tasks_result_surfaces_from_the_scope_around() {
    let body = || {
        let [begun, may_end, drops] = [(); 3].map(|()| Flag::new());
        let value = Slow { drops, may_panic: Rc::new(Cell::new(true)) };
        scope(|_| {
            let local = spawn_local(move || {
                spawn(move || {
                    begun.set();
                    yield_until(may_end);
                })
                .detach();
                value
            });
            // The local task has spawned the child, and returns without a wait, here.
            begun.wait();
            drop(local);
            assert!(drops.get(), "it is dropped at home, and at once");
            may_end.set();
        });
    };
    for workers in common::WORKERS {
        within(|| {
            let (outcome, told) = told_to_hook(workers, body);
            assert!(outcome.unwrap_err().to_string().contains("slow"));
            assert!(told.is_empty());
        });
    }
}

#[test]
fn a_task_dropped_during_an_unwinding_is_cancelled() {
    with(&[2], |rt| {
        let (started, cut) = (Flag::new(), Flag::new());
        let error = rt.try_block_on(|| {
            let _task = spawn(move || {
                started.set();
                cut.put(park().is_err());
            });
            yield_until(started);
            panic!("the parent")
        });
        assert!(error.unwrap_err().is_panic());
        assert!(cut.get());
    });
}
