//! The thread rule: a task may start on any worker, and once started it never sees another thread. Tasks
//! that were spawned as migratable do move.

use crate::common::Mutex;
use crate::common::thread::{ThreadId, current};
use crate::common::{self, compute, give_way_until, scaled, with, with_each, with_each_and_many};
use cygnet::{blocking, checkpoint, park, scope, spawn, spawn_local, spawn_migratable, yield_now};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Calls every kind of wait, and panics if one of them returns on another thread.
fn wait_in_every_way(handle: &cygnet::Handle) {
    let here = current().id();
    let same = |what: &str| assert_eq!(current().id(), here, "after {what}");
    yield_now().unwrap();
    same("yield_now");
    checkpoint().unwrap();
    same("checkpoint");
    let me = cygnet::unparker();
    let waker = spawn(move || me.unpark());
    park().unwrap();
    same("park");
    waker.join().unwrap();
    same("join");
    let slow = spawn(|| yield_now().unwrap());
    yield_now().unwrap();
    slow.join().unwrap();
    same("join of a started task");
    scope(|s| {
        s.spawn(|| yield_now().unwrap());
        s.spawn(|| compute(1));
    });
    same("scope");
    handle.block_on(|| yield_now().unwrap());
    same("block_on");
}

#[test]
fn a_started_task_never_sees_another_thread_whatever_it_waits_for() {
    with_each_and_many(|rt| {
        let handle = rt.handle();
        rt.block_on(|| {
            let tasks: Vec<_> = (0..scaled(300))
                .map(|i| {
                    let handle = handle.clone();
                    spawn(move || {
                        let here = current().id();
                        wait_in_every_way(&handle);
                        if i % 50 == 0 {
                            blocking(|| assert_ne!(current().id(), here));
                            assert_eq!(current().id(), here, "after blocking");
                        }
                        compute(5);
                        wait_in_every_way(&handle);
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn fresh_tasks_are_started_by_other_workers_than_their_spawner_s() {
    with(&[2, 3, 8], |rt| {
        rt.block_on(|| {
            let here = current().id();
            let elsewhere = Arc::new(AtomicBool::new(false));
            // Bounded by the watchdog: thieves come as soon as the system lets them.
            while !elsewhere.load(Ordering::Relaxed) {
                let tasks: Vec<_> = (0..50)
                    .map(|_| {
                        let elsewhere = elsewhere.clone();
                        spawn(move || {
                            compute(20);
                            elsewhere.fetch_or(current().id() != here, Ordering::Relaxed);
                        })
                    })
                    .collect();
                tasks.into_iter().for_each(|task| task.join().unwrap());
            }
        });
    });
}

#[test]
fn an_rc_lives_over_suspensions() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..scaled(200))
                .map(|i| {
                    spawn(move || {
                        let shared = Rc::new(RefCell::new(vec![i]));
                        let other = shared.clone();
                        for n in 0..20 {
                            other.borrow_mut().push(n);
                            yield_now().unwrap();
                            assert_eq!(Rc::strong_count(&shared), 2);
                        }
                        shared.borrow().len()
                    })
                })
                .collect();
            assert!(tasks.into_iter().all(|task| task.join().unwrap() == 21));
        });
    });
}

#[test]
fn a_guard_of_std_s_mutex_is_held_over_suspensions_and_unlocked_by_the_same_thread() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..scaled(100))
                .map(|_| {
                    spawn(|| {
                        let mutex = Mutex::new(0);
                        let mut guard = mutex.lock().unwrap();
                        for _ in 0..10 {
                            *guard += 1;
                            yield_now().unwrap();
                            let excluded = scope(|s| s.spawn(|| mutex.try_lock().is_err()).join());
                            assert!(excluded.unwrap());
                        }
                        drop(guard);
                        mutex.into_inner().unwrap()
                    })
                })
                .collect();
            assert!(tasks.into_iter().all(|task| task.join().unwrap() == 10));
        });
    });
}

thread_local! {
    static PLACE: Cell<u64> = const { Cell::new(0) };
    static LAZY: RefCell<Vec<u8>> = RefCell::new(vec![1, 2, 3]);
}

#[test]
fn thread_locals_are_those_of_one_thread_before_and_after_a_wait() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..scaled(200))
                .map(|_| {
                    spawn(move || {
                        let (place, lazy) = (PLACE.with(|p| p.as_ptr()), LAZY.with(|l| l.as_ptr()));
                        for _ in 0..20 {
                            yield_now().unwrap();
                            assert_eq!(PLACE.with(|p| p.as_ptr()), place);
                            assert_eq!(LAZY.with(|l| l.as_ptr()), lazy);
                            // A read, a change and a write are not divided by a suspension.
                            PLACE.set(PLACE.get() + 1);
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn a_local_task_starts_and_stays_where_it_was_spawned_and_need_not_be_send() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    spawn(|| {
                        let here = current().id();
                        let shared = Rc::new(Cell::new(0));
                        let locals: Vec<_> = (0..20)
                            .map(|_| {
                                let shared = shared.clone();
                                spawn_local(move || {
                                    assert_eq!(current().id(), here);
                                    yield_now().unwrap();
                                    assert_eq!(current().id(), here);
                                    shared.set(shared.get() + 1);
                                    Rc::clone(&shared)
                                })
                            })
                            .collect();
                        compute(20);
                        let last = locals.into_iter().map(|l| l.join().unwrap()).last().unwrap();
                        last.get()
                    })
                })
                .collect();
            assert!(tasks.into_iter().all(|task| task.join().unwrap() == 20));
        });
    });
}

#[test]
fn a_detached_local_task_ends_before_its_parent() {
    with_each(|rt| {
        rt.block_on(|| {
            let ended = Arc::new(AtomicUsize::new(0));
            let parent = spawn({
                let ended = ended.clone();
                move || {
                    for _ in 0..10 {
                        let ended = ended.clone();
                        spawn_local(move || {
                            yield_now().unwrap();
                            ended.fetch_add(1, Ordering::Relaxed);
                        })
                        .detach();
                    }
                }
            });
            parent.join().unwrap();
            assert_eq!(ended.load(Ordering::Relaxed), 10);
        });
    });
}

#[test]
fn a_local_task_that_is_joined_in_place_and_waits_loses_none_of_those_behind_it() {
    with_each(|rt| {
        rt.block_on(|| {
            // Others that are ready all the time.
            let stop = Arc::new(AtomicBool::new(false));
            let others: Vec<_> = (0..8)
                .map(|_| {
                    let stop = stop.clone();
                    spawn(move || give_way_until(|| stop.load(Ordering::Relaxed)))
                })
                .collect();
            let ran = Rc::new(Cell::new(0));
            for round in 1..=scaled(100) {
                let first = spawn_local(|| (0..3).for_each(|_| yield_now().unwrap()));
                for _ in 0..3 {
                    let ran = ran.clone();
                    spawn_local(move || ran.set(ran.get() + 1)).detach();
                }
                let last = spawn_local(|| yield_now().unwrap());
                first.join().unwrap();
                last.join().unwrap();
                give_way_until(|| ran.get() == 3 * round);
            }
            stop.store(true, Ordering::Relaxed);
            others.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

/// Tells on which thread it was dropped.
struct TellsThread {
    dropped: Arc<Mutex<Vec<ThreadId>>>,
    _not_send: PhantomData<Rc<()>>,
}

impl Drop for TellsThread {
    fn drop(&mut self) {
        self.dropped.lock().unwrap().push(current().id());
    }
}

#[test]
fn the_result_of_a_local_task_is_dropped_at_home_although_its_last_child_ends_elsewhere() {
    with(&[2, 3, 8], |rt| {
        for detached in [true, false] {
            let dropped = Arc::new(Mutex::new(Vec::new()));
            let home = rt.block_on(|| {
                let (away, open) =
                    (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let returned = Rc::new(Cell::new(false));
                let local = spawn_local({
                    let (away, open) = (away.clone(), open.clone());
                    let (returned, dropped) = (returned.clone(), dropped.clone());
                    move || {
                        let started = away.clone();
                        spawn(move || {
                            started.store(true, Ordering::Release);
                            while !open.load(Ordering::Acquire) {
                                common::thread::yield_now();
                            }
                        })
                        .detach();
                        // It does not wait, so the child can start on another worker only.
                        while !away.load(Ordering::Acquire) {
                            common::thread::yield_now();
                        }
                        returned.set(true);
                        TellsThread { dropped, _not_send: PhantomData }
                    }
                });
                // While this task runs here the local one does not: it has returned, and its child is left.
                give_way_until(|| returned.get());
                if detached {
                    local.detach()
                } else {
                    drop(local)
                }
                open.store(true, Ordering::Release);
                current().id()
            });
            assert_eq!(*dropped.lock().unwrap(), [home], "detached: {detached}");
        }
    });
}

// --- migratable tasks -----------------------------------------------------------------------------

#[test]
fn migratable_tasks_move_under_load_and_lose_nothing() {
    with(&[2, 3, 8], |rt| {
        let moved = AtomicBool::new(false);
        // Bounded by the watchdog.
        while !moved.load(Ordering::Relaxed) {
            let sum = rt.block_on(|| {
                let seen = Arc::new(Mutex::new(Vec::<HashSet<ThreadId>>::new()));
                let tasks: Vec<_> = (0..50u64)
                    .map(|i| {
                        let seen = seen.clone();
                        let body = move || {
                            let (mut threads, mut sum) = (HashSet::new(), 0);
                            for turn in 0..20 {
                                threads.insert(thread_id_of_now());
                                sum += i * turn;
                                compute(2);
                                let me = cygnet::unparker();
                                spawn(move || me.unpark()).detach();
                                park().unwrap();
                            }
                            seen.lock().unwrap().push(threads);
                            sum
                        };
                        // SAFETY: over its suspensions it holds numbers and a set, and it reads the
                        // thread's identity in a function of its own.
                        unsafe { spawn_migratable(body) }
                    })
                    .collect();
                let sum: u64 = tasks.into_iter().map(|task| task.join().unwrap()).sum();
                let seen = seen.lock().unwrap();
                assert_eq!(seen.len(), 50);
                moved.fetch_or(seen.iter().any(|threads| threads.len() > 1), Ordering::Relaxed);
                sum
            });
            assert_eq!(sum, (0..50).sum::<u64>() * (0..20).sum::<u64>());
        }
    });
}

#[inline(never)]
fn thread_id_of_now() -> ThreadId {
    current().id()
}

#[test]
fn migratable_tasks_park_wake_and_join_on_whatever_worker() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let tasks: Vec<_> = (0..scaled(200))
                .map(|i| {
                    let body = move || {
                        let me = cygnet::unparker();
                        let waker = spawn(move || me.unpark());
                        park().unwrap();
                        waker.join().unwrap();
                        let child = spawn(move || i);
                        yield_now().unwrap();
                        scope(|s| s.spawn(|| yield_now().unwrap()).join().unwrap());
                        child.join().unwrap()
                    };
                    // SAFETY: it holds handles, which are Send, and a number.
                    unsafe { spawn_migratable(body) }
                })
                .collect();
            for (i, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.join().unwrap(), i);
            }
        });
    });
}

#[test]
fn the_panic_of_a_migratable_task_reaches_its_join() {
    with_each(|rt| {
        rt.block_on(|| {
            let body = || -> u8 {
                yield_now().unwrap();
                panic!("on the way")
            };
            // SAFETY: it holds nothing over its suspension.
            let task = unsafe { spawn_migratable(body) };
            assert!(task.join().unwrap_err().is_panic());
        });
    });
}

#[test]
fn a_migratable_task_is_woken_and_told_when_it_is_dropped_and_when_the_runtime_ends() {
    for workers in common::WORKERS {
        common::within(|| {
            let rt = common::runtime(workers);
            let cut = Arc::new(AtomicUsize::new(0));
            let parked = |cut: &Arc<AtomicUsize>| {
                let cut = cut.clone();
                let body = move || {
                    if park().is_err() {
                        cut.fetch_add(1, Ordering::Relaxed);
                    }
                };
                // SAFETY: it holds a counter.
                unsafe { spawn_migratable(body) }
            };
            let unscoped = rt.block_on(|| {
                let before = common::parks(&rt);
                let dropped = parked(&cut);
                give_way_until(|| common::parks(&rt) > before);
                drop(dropped);
                give_way_until(|| cut.load(Ordering::Relaxed) == 1);
                cygnet::spawn_unscoped({
                    let cut = cut.clone();
                    move || parked(&cut).detach()
                })
            });
            unscoped.detach();
            common::eventually("it is parked", || common::parks(&rt) >= 2);
            drop(rt);
            assert_eq!(cut.load(Ordering::Relaxed), 2);
        });
    }
}

// --- balance --------------------------------------------------------------------------------------

#[test]
fn started_tasks_are_spread_over_the_workers() {
    // Each waits once, then computes: where it started it must go on, so the starts decide.
    with(&[2, 8], |rt| {
        let enough = Arc::new(AtomicBool::new(false));
        while !enough.load(Ordering::Relaxed) {
            rt.block_on(|| {
                let tasks: Vec<_> = (0..scaled(500))
                    .map(|_| {
                        spawn(|| {
                            yield_now().unwrap();
                            compute(20);
                            current().id()
                        })
                    })
                    .collect();
                let threads: HashSet<_> =
                    tasks.into_iter().map(|task| task.join().unwrap()).collect();
                enough.store(threads.len() >= 2, Ordering::Relaxed);
            });
        }
    });
}
