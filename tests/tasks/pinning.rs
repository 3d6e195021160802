//! The thread rule: a task may start on any worker, and once started it never sees another thread.
//! Tasks that were spawned as migratable do move.

use crate::common::prelude::*;
use crate::common::thread::{ThreadId, current};
use std::collections::HashSet;

/// Runs `body` in many tasks.
fn in_many_tasks(tasks: usize, body: fn(usize)) {
    in_task_and_many(|_| {
        join_all((0..tasks).map(|i| spawn(move || body(i))));
    });
}

/// Calls every kind of wait, and panics if one of them returns on another thread.
fn wait_in_every_way() {
    let here = current().id();
    let same = |what: &str| assert_eq!(current().id(), here, "after {what}");
    yield_now().unwrap();
    same("yield_now");
    checkpoint().unwrap();
    same("checkpoint");
    let me = unparker();
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
    Handle::current().block_on(|| yield_now().unwrap());
    same("block_on");
}

/// T14.
#[test]
fn a_started_task_never_sees_another_thread_whatever_it_waits_for() {
    in_many_tasks(scaled(300), |i| {
        let here = current().id();
        wait_in_every_way();
        if i % 50 == 0 {
            blocking(|| assert_ne!(current().id(), here));
            assert_eq!(current().id(), here, "after blocking");
        }
        compute(5);
        wait_in_every_way();
    });
}

/// T13.
#[test]
fn fresh_tasks_are_started_by_other_workers_than_their_spawner_s() {
    in_task_with(&[2, 3, 8], |_| {
        let here = current().id();
        let elsewhere = Flag::new();
        // Bounded by the watchdog: thieves come as soon as the system lets them.
        while !elsewhere.get() {
            join_all((0..50).map(|_| {
                spawn(move || {
                    compute(20);
                    if current().id() != here {
                        elsewhere.set();
                    }
                })
            }));
        }
    });
}

#[test]
fn an_rc_lives_over_suspensions() {
    in_many_tasks(scaled(200), |i| {
        let shared = Rc::new(RefCell::new(vec![i]));
        let other = shared.clone();
        for n in 0..20 {
            other.borrow_mut().push(n);
            yield_now().unwrap();
            assert_eq!(Rc::strong_count(&shared), 2);
        }
        assert_eq!(shared.borrow().len(), 21);
    });
}

#[test]
fn a_guard_of_std_s_mutex_is_held_over_suspensions_and_unlocked_by_the_same_thread() {
    in_many_tasks(scaled(100), |_| {
        let mutex = Mutex::new(0);
        let mut guard = mutex.lock().unwrap();
        for _ in 0..10 {
            *guard += 1;
            yield_now().unwrap();
            let excluded = scope(|s| s.spawn(|| mutex.try_lock().is_err()).join());
            assert!(excluded.unwrap());
        }
        drop(guard);
        assert_eq!(mutex.into_inner().unwrap(), 10);
    });
}

thread_local! {
    static PLACE: Cell<u64> = const { Cell::new(0) };
    static LAZY: RefCell<Vec<u8>> = RefCell::new(vec![1, 2, 3]);
}

#[test]
fn thread_locals_are_those_of_one_thread_before_and_after_a_wait() {
    in_many_tasks(scaled(200), |_| {
        let (place, lazy) = (PLACE.with(|p| p.as_ptr()), LAZY.with(|l| l.as_ptr()));
        for _ in 0..20 {
            yield_now().unwrap();
            assert_eq!(PLACE.with(|p| p.as_ptr()), place);
            assert_eq!(LAZY.with(|l| l.as_ptr()), lazy);
            // A read, a change and a write are not divided by a suspension.
            PLACE.set(PLACE.get() + 1);
        }
    });
}

/// T15.
#[test]
fn a_local_task_starts_and_stays_where_it_was_spawned_and_need_not_be_send() {
    in_many_tasks(20, |_| {
        let here = current().id();
        let shared = Rc::new(Cell::new(0));
        let locals: Vec<_> = (0..20)
            .map(|_| {
                spawn_local(own(&shared, move |shared| {
                    assert_eq!(current().id(), here);
                    yield_now().unwrap();
                    assert_eq!(current().id(), here);
                    shared.set(shared.get() + 1);
                    Rc::clone(&shared)
                }))
            })
            .collect();
        compute(20);
        let last = locals.into_iter().map(|l| l.join().unwrap()).last().unwrap();
        assert_eq!(last.get(), 20);
    });
}

#[test]
fn a_detached_local_task_ends_before_its_parent() {
    in_task(|_| {
        let ended = Count::new();
        let parent = spawn(move || {
            for _ in 0..10 {
                spawn_local(move || {
                    yield_now().unwrap();
                    ended.up();
                })
                .detach();
            }
        });
        parent.join().unwrap();
        assert_eq!(ended.get(), 10);
    });
}

#[test]
fn a_local_task_that_is_joined_in_place_and_waits_loses_none_of_those_behind_it() {
    in_task(|_| {
        // Others that are ready all the time.
        let stop = Flag::new();
        let others = [(); 8].map(|()| spawn(move || stop.wait()));
        let ran = Rc::new(Cell::new(0));
        for round in 1..=scaled(100) {
            let first = spawn_local(|| yields(3));
            for _ in 0..3 {
                spawn_local(own(&ran, move |ran| ran.set(ran.get() + 1))).detach();
            }
            let last = spawn_local(|| yield_now().unwrap());
            first.join().unwrap();
            last.join().unwrap();
            give_way_until(|| ran.get() == 3 * round);
        }
        stop.set();
        join_all(others);
    });
}

#[test]
fn the_result_of_a_local_task_is_dropped_at_home_although_its_last_child_ends_elsewhere() {
    with(&[2, 3, 8], |rt| {
        for detached in [true, false] {
            let (tell, dropped) = channel();
            let home = rt.block_on(|| {
                let (away, open, returned) = (Flag::new(), Flag::new(), Flag::new());
                let local = spawn_local(move || {
                    spawn(move || {
                        away.set();
                        open.hold();
                    })
                    .detach();
                    // It does not wait, so the child can start on another worker only.
                    away.hold();
                    returned.set();
                    // Tells on which thread it was dropped, and is not `Send`.
                    let not_send = Rc::new(tell);
                    OnDrop(move || not_send.send(current().id()).unwrap())
                });
                // While this task runs here the local one does not: it has returned, and its child
                // is left.
                returned.wait();
                if detached {
                    local.detach()
                } else {
                    drop(local)
                }
                open.set();
                current().id()
            });
            assert_eq!(dropped.iter().collect::<Vec<_>>(), [home], "detached: {detached}");
        }
    });
}

// --- migratable tasks --------------------------------------------------------------------------

/// T16.
#[test]
fn migratable_tasks_move_under_load_and_lose_nothing() {
    in_task_with(&[2, 3, 8], |_| {
        let mut moved = false;
        // Bounded by the watchdog.
        while !moved {
            let seen = join_all((0..50u64).map(|i| {
                let body = move || {
                    let (mut threads, mut sum) = (HashSet::new(), 0);
                    for turn in 0..20 {
                        threads.insert(thread_id_of_now());
                        sum += i * turn;
                        compute(2);
                        let me = unparker();
                        spawn(move || me.unpark()).detach();
                        park().unwrap();
                    }
                    (sum, threads.len())
                };
                // SAFETY: over its suspensions it holds numbers and a set, and it reads the
                // thread's identity in a function of its own.
                unsafe { cygnet::task().migratable() }.spawn(body)
            }));
            moved = seen.iter().any(|(_, threads)| *threads > 1);
            let sum: u64 = seen.iter().map(|(sum, _)| sum).sum();
            assert_eq!(sum, (0..50).sum::<u64>() * (0..20).sum::<u64>());
        }
    });
}

#[inline(never)]
fn thread_id_of_now() -> ThreadId {
    current().id()
}

#[test]
fn migratable_tasks_park_wake_join_and_panic_on_whatever_worker() {
    in_task_and_many(|_| {
        let tasks = (0..scaled(200)).map(|i| {
            let body = move || {
                let me = unparker();
                let waker = spawn(move || me.unpark());
                park().unwrap();
                waker.join().unwrap();
                let child = spawn(move || i);
                yield_now().unwrap();
                scope(|s| s.spawn(|| yield_now().unwrap()).join().unwrap());
                child.join().unwrap()
            };
            // SAFETY: it holds handles, which are Send, and a number.
            unsafe { cygnet::task().migratable() }.spawn(body)
        });
        assert!(join_all(tasks).into_iter().eq(0..scaled(200)));
        let panics = || -> u8 {
            yield_now().unwrap();
            panic!("on the way")
        };
        // SAFETY: it holds nothing over its suspension.
        let task = unsafe { cygnet::task().migratable() }.spawn(panics);
        assert!(task.join().unwrap_err().is_panic());
    });
}

#[test]
fn a_migratable_task_is_told_when_it_is_dropped_and_when_the_runtime_ends() {
    with_own(|rt| {
        let cut = Count::new();
        let parked = move || {
            let body = move || cut.add(usize::from(park().is_err()));
            // SAFETY: it holds a counter.
            unsafe { cygnet::task().migratable() }.spawn(body)
        };
        let unscoped = rt.block_on(|| {
            let before = parks(&rt);
            let dropped = parked();
            give_way_until(|| parks(&rt) > before);
            drop(dropped);
            cut.wait(1);
            spawn_unscoped(move || parked().detach())
        });
        unscoped.detach();
        eventually("it is parked", || parks(&rt) >= 2);
        drop(rt);
        assert_eq!(cut.get(), 2);
    });
}

// --- balance -----------------------------------------------------------------------------------

#[test]
fn started_tasks_are_spread_over_the_workers() {
    // Each waits once, then computes: where it started it must go on, so the starts decide.
    in_task_with(&[2, 8], |_| {
        let mut threads = HashSet::new();
        while threads.len() < 2 {
            let body = || {
                yield_now().unwrap();
                compute(20);
                current().id()
            };
            threads = join_all((0..scaled(500)).map(|_| spawn(body))).into_iter().collect();
        }
    });
}

/// T14.
#[test]
fn a_task_keeps_the_index_of_its_worker() {
    with_each_and_many(|rt| {
        let workers = rt.workers();
        let tasks: Vec<_> = (0..100)
            .map(|i| {
                rt.spawn(move || {
                    let index = current_worker().unwrap();
                    yields(i % 5);
                    assert_eq!(current_worker(), Some(index));
                    index
                })
            })
            .collect();
        let indices: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        assert!(indices.iter().all(|index| *index < workers), "{indices:?}");
        let handle = rt.handle();
        assert_eq!(
            rt.block_on(|| blocking(|| (current_worker(), handle.workers()))),
            (None, workers)
        );
    });
}
