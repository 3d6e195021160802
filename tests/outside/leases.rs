//! Leases: a scope is held open by tasks and threads that are not below it.

use crate::common::prelude::*;

/// T4.
#[test]
fn a_scope_and_a_task_end_after_the_last_lease() {
    with_each(|rt| {
        let (give, given) = channel::<ScopeLease>();
        let (of_scope, of_task) = (Flag::new(), Flag::new());
        let task = rt.spawn(move || {
            scope(|s| give.send(s.lease()).unwrap());
            assert!(of_scope.get(), "the scope has not waited");
            give.send(lease()).unwrap();
        });
        let first = given.recv().unwrap();
        let second = first.clone();
        drop(first);
        of_scope.set();
        drop(second);
        let last = given.recv().unwrap();
        assert!(!task.is_finished());
        common::thread::spawn(move || {
            of_task.set();
            drop(last);
        });
        task.join().unwrap();
        assert!(of_task.get(), "the task has not waited");
    });
}

#[test]
fn a_scope_waits_for_what_tasks_and_threads_spawn_by_its_lease() {
    with_each_and_many(|rt| {
        let (n, count) = (scaled_in_debug(1_000), Count::new());
        let (threads, stranger) = scope_on(rt, |s| {
            let lease = s.lease();
            let spawns = || {
                own(&lease, move |lease| {
                    (0..n).for_each(|_| task().spawn_in(&lease, move || count.up()).detach())
                })
            };
            let threads = [(); 2].map(|()| common::thread::spawn(spawns()));
            (threads, spawn_unscoped(spawns()))
        });
        assert_eq!(count.get(), 3 * n);
        stranger.join().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_result_is_joined_and_a_panic_surfaces_from_the_scope() {
    with_each(|rt| {
        let text = panic_of(|| {
            scope_on(rt, |s| {
                let lease = s.lease();
                assert_eq!(task().spawn_in(&lease, || 7).join().unwrap(), 7);
                // It panics when it has been detached. The panic of a task that has ended
                // before goes to the runtime's hook.
                let let_go = Arc::new(Event::new());
                let waits = Arc::clone(&let_go);
                let panics = task().spawn_in(&lease, move || {
                    waits.wait().unwrap();
                    resume_unwind(Box::new("by a lease"))
                });
                panics.detach();
                let_go.set();
            })
        });
        assert_eq!(text, "by a lease");
    });
}

/// C52.
#[test]
fn a_cancel_reaches_what_a_lease_spawns_and_does_not_end_the_lease() {
    with_each(|rt| {
        let (give, given) = channel();
        let task = parked(rt, 2, move || {
            scope(|s| {
                let lease = s.lease();
                task().spawn_in(&lease, || assert!(park().is_err())).detach();
                give.send(lease).unwrap();
                park().is_err()
            })
        });
        let held = given.recv().unwrap();
        task.cancel("enough");
        assert!(held.is_cancelled());
        let Err(JoinError::NotStarted(why)) =
            cygnet::task().spawn_in(&held, || unreachable!()).join()
        else {
            panic!("it has started")
        };
        assert_eq!(*why.reason(), Reason::from("enough"));
        assert!(!task.is_finished());
        drop(held);
        assert!(task.join().unwrap());
    });
}

#[test]
fn a_lease_cancels_its_scope_and_nothing_beside_it() {
    in_task(|_| {
        scope(|s| {
            let lease = s.lease();
            let waiting = s.spawn(|| park().unwrap_err().reason().to_string());
            let thread = common::thread::spawn(move || lease.cancel("from outside"));
            assert_eq!(park().unwrap_err().reason().to_string(), "from outside");
            thread.join().unwrap();
            drop(waiting);
        });
        assert!(cygnet::checkpoint().is_ok());
    });
}

#[test]
fn what_a_lease_spawns_is_under_the_time_limit_and_the_restriction_of_its_scope() {
    with_each(|rt| {
        let timed = rt.block_on(|| {
            timeout(Duration::from_millis(5), || {
                let lease = lease();
                common::thread::spawn(move || {
                    task().spawn_in(&lease, || park().unwrap_err()).join()
                })
            })
        });
        // It may have come too late to start.
        let why = match timed.unwrap_err().into_inner().join().unwrap() {
            Ok(told) => told,
            Err(error) => error.cancelled().unwrap().clone(),
        };
        assert_eq!(*why.reason(), Reason::Deadline);
        let held = Mutex::new(0);
        rt.block_on(|| {
            crowd(4, |_| {
                let mut held = held.lock().unwrap();
                scope_with(Wait::DescendantsOnly, |s| {
                    let lease = s.lease();
                    common::thread::spawn(move || task().spawn_in(&lease, || 7).join().unwrap());
                });
                *held += 1;
            });
        });
        assert_eq!(*held.lock().unwrap(), 4);
    });
}

/// Threads and tasks drop the last clones, three levels deep, while the scopes are cancelled or
/// not.
#[test]
fn drops_race_the_end_of_the_scopes_and_their_cancel() {
    with_each_and_many(|rt| {
        let drops = Drops::default();
        let (give, given) = channel::<ScopeLease>();
        let thread = common::thread::spawn(own(&drops, |values| {
            for (n, lease) in given.into_iter().enumerate() {
                let value = values.guard();
                match n % 4 {
                    0 => drop(lease),
                    1 => task().spawn_in(&lease, move || drop(value)).detach(),
                    2 => drop(task().spawn_in(&lease, move || park().map(|()| value))),
                    _ => {
                        let below = lease.clone();
                        task()
                            .spawn_in(&lease, move || {
                                task().spawn_in(&below, move || drop(value)).detach()
                            })
                            .detach();
                    }
                }
            }
        }));
        rt.block_on(|| {
            for n in 0..scaled_in_debug(500) {
                scope(|outer| {
                    give.send(outer.lease()).unwrap();
                    outer.spawn(own(&give, |give| {
                        scope(|inner| {
                            give.send(inner.lease()).unwrap();
                            let (lease, own) = (inner.lease(), lease());
                            inner.spawn(move || {
                                give.send(lease).unwrap();
                                give.send(cygnet::lease()).unwrap();
                                drop(own);
                            });
                            if n % 7 == 3 {
                                inner.cancel("the inner one");
                            }
                        });
                    }));
                    if n % 5 == 2 {
                        outer.cancel("the outer one");
                    }
                });
            }
        });
        drop(give);
        thread.join().unwrap();
        assert_eq!(drops.left(), 0);
    });
}

/// A lease keeps its runtime from ending. Afterwards nothing is left of the runtime.
#[test]
fn the_runtime_ends_after_the_last_lease() {
    with_own(|rt| {
        let held = rt.spawn(lease_of_another).join().unwrap();
        let dropper = common::thread::spawn(move || {
            held.cancel("no more");
            drop(held);
        });
        drop(rt);
        dropper.join().unwrap();
    });
}

/// A lease on a task whose handle is gone.
fn lease_of_another() -> ScopeLease {
    let (give, given) = channel();
    spawn_unscoped(move || give.send(lease()).unwrap()).detach();
    received(&given)
}

/// A worker whose task waits inside `no_suspend`, or in the middle of an unwinding, is on no list
/// of sleepers.
#[test]
fn a_held_worker_sees_what_comes_from_outside() {
    fn waits_for_a_thread() {
        scope(|s| {
            let lease = s.lease();
            let (promise, answer) = cygnet::promise();
            answer.detach();
            common::thread::spawn(move || {
                common::thread::sleep(Duration::from_millis(2));
                task().spawn_in(&lease, || ()).detach();
                common::thread::sleep(Duration::from_millis(2));
                drop(lease);
                promise.complete(7).unwrap();
            });
        });
    }
    with_each(|rt| {
        rt.block_on(|| cygnet::no_suspend(waits_for_a_thread));
        rt.block_on(|| while_unwinding(waits_for_a_thread));
    });
}
