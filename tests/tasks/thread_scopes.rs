//! Scopes whose closure runs on a thread that is not a worker.

use crate::common::prelude::*;

/// T58.
#[test]
fn the_closure_runs_on_the_calling_thread_and_its_tasks_on_workers() {
    with_each_and_many(|rt| {
        let here = thread::current().id();
        let mut numbers: Vec<u64> = (0..1_000).collect();
        let sum = rt.handle().scope(|s| {
            assert_eq!(thread::current().id(), here);
            assert_eq!(current_id(), None);
            let parts = numbers.chunks_mut(10).map(|part| {
                s.spawn(move || {
                    assert!(current_worker().is_some());
                    part.iter_mut().for_each(|n| *n *= 3);
                    part.iter().sum::<u64>()
                })
            });
            let parts: Vec<_> = parts.collect();
            parts.into_iter().map(|part| part.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 3 * 999 * 1_000 / 2);
        assert_eq!(numbers[999], 3 * 999);
    });
}

/// T58. The only worker is held by a task that ends after the closure.
#[test]
fn the_closure_does_not_wait_for_a_worker() {
    with(&[1], |rt| {
        let (is_held, held) = (Flag::new(), Flag::new());
        let holder = rt.spawn(move || {
            is_held.set();
            held.hold();
        });
        eventually("the worker is held", || is_held.get());
        let seven = rt.handle().scope(|s| {
            let task = s.spawn(|| 7);
            held.set();
            task.join().unwrap()
        });
        assert_eq!(seven, 7);
        assert_eq!(rt.handle().scope(|_| 8), 8);
        holder.join().unwrap();
    });
}

/// T58.
#[test]
fn the_scope_ends_after_its_tasks_and_what_they_spawn() {
    with_each_and_many(|rt| {
        for round in 0..scaled(100) {
            let (ended, children) = (Count::new(), Count::new());
            rt.handle().scope(|s| {
                for i in 0..10 {
                    s.spawn(move || {
                        yields(i * round % 7);
                        spawn(move || {
                            yield_now().unwrap();
                            children.up();
                        })
                        .detach();
                        s.spawn(move || children.up());
                        ended.up();
                    });
                }
            });
            assert_eq!((ended.get(), children.get()), (10, 20));
        }
    });
}

/// T58, T33.
#[test]
fn panics_surface_as_those_of_any_scope() {
    with_each(|rt| {
        let ended = Count::new();
        let later = |s: &Scope<'_, '_>| {
            let lease = s.lease();
            task()
                .spawn_in(&lease, move || {
                    yields(20);
                    ended.up();
                })
                .detach();
        };
        let of_a_task = || {
            rt.handle().scope(|s| {
                s.spawn(|| panic!("planted: a task"));
                later(s);
            });
        };
        panics_with("planted: a task", of_a_task);
        assert_eq!(ended.get(), 1);
        let of_the_closure = || {
            rt.handle().scope(|s| {
                s.spawn(|| panic!("planted: a task"));
                later(s);
                panic!("planted: the closure");
            });
        };
        panics_with("planted: the closure", of_the_closure);
        assert_eq!(ended.get(), 2);
        let joined = rt.handle().scope(|s| s.spawn(|| panic!("planted: joined")).join().is_err());
        assert!(joined);
    });
}

/// T58.
#[test]
fn a_cancel_reaches_the_tasks_and_not_the_thread() {
    with_each(|rt| {
        let handle = rt.handle().scope(|s| {
            let waiting: Vec<_> = (0..10).map(|_| s.spawn(park)).collect();
            let other = task().name("named").spawn_in(s, park);
            assert_eq!(other.name(), Some("named"));
            s.cancel("enough");
            let (sender, receiver) = bounded(0);
            let also = s.spawn(move || sender.send(7));
            for task in waiting.into_iter().chain([other]) {
                let end = task.join();
                assert!(!matches!(end, Ok(Ok(()))), "{end:?}");
            }
            assert!(matches!(also.join(), Err(JoinError::NotStarted(_))));
            assert_eq!(receiver.recv(), Err(WaitError::Closed));
            s.cancel_handle()
        });
        handle.cancel("too late");
        assert_eq!(rt.handle().scope(|s| s.spawn(|| 7).join().unwrap()), 7);
    });
}

/// T58. The end of the runtime cancels what is in the scope, and waits for the scope.
#[test]
fn a_scope_outlasts_the_end_of_its_runtime() {
    with_own(|rt| {
        let handle = rt.handle();
        let (opened, open) = channel();
        let over = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                handle.scope(|s| {
                    let waiting = s.spawn(park);
                    opened.send(()).unwrap();
                    let end = waiting.join();
                    assert!(!matches!(end, Ok(Ok(()))), "{end:?}");
                    assert!(matches!(s.spawn(|| 7).join(), Err(JoinError::NotStarted(_))));
                    over.store(true, Ordering::SeqCst);
                });
            });
            open.recv().unwrap();
            drop(rt);
            assert!(over.load(Ordering::SeqCst));
        });
        panics_with("a runtime that has ended", || handle.scope(|_| ()));
    });
}

/// T58.
#[test]
fn a_task_opens_one_on_its_own_runtime_or_on_another() {
    with_each(|rt| {
        let handle = &rt.handle();
        let own = rt.block_on(|| handle.scope(|s| (s.spawn(current_worker).join(), current_id())));
        assert!(matches!(own, (Ok(Some(_)), Some(_))), "{own:?}");
        let other = runtime(2);
        let both = other.block_on(|| {
            let me = current_id();
            // The worker is free while the task waits: the second task runs there.
            scope(|outer| {
                outer.spawn(yield_now);
                handle.scope(|s| {
                    let parts: Vec<_> = (0..10).map(|i| s.spawn(move || i)).collect();
                    assert_eq!(current_id(), me);
                    parts.into_iter().map(|part| part.join().unwrap()).sum::<i32>()
                })
            })
        });
        assert_eq!(both, 45);
    });
}

/// T59.
#[test]
fn other_threads_and_tasks_of_other_runtimes_spawn_into_a_scope() {
    with_each(|rt| {
        let other = runtime(1);
        let spawned = Count::new();
        rt.block_on(|| {
            scope(|s| {
                // Not on the worker, which the threads wait for.
                blocking(|| {
                    threads(3, |_| {
                        let five = s.spawn(|| 5).join().unwrap();
                        (0..five).for_each(|_| drop(s.spawn(move || spawned.up())));
                        drop(s.lease());
                        assert!(s.swansong().state().is_running());
                    });
                });
                other.block_on(|| s.spawn(move || spawned.up()));
            });
            assert_eq!(spawned.get(), 16);
        });
    });
}

/// T58. Threads and tasks open scopes at the same time, whose ends meet those of their last tasks.
#[test]
fn many_threads_open_scopes_of_one_runtime() {
    with_each_and_many(|rt| {
        let handle = &rt.handle();
        threads(4, |thread| {
            for round in 0..scaled_in_debug(300) {
                let mut values = [0; 4];
                handle.scope(|s| {
                    for (i, value) in values.iter_mut().enumerate().take((thread + round) % 5) {
                        let task = s.spawn(move || {
                            yields((i + round) % 3);
                            *value = i + 1;
                        });
                        if round % 2 == 0 {
                            task.join().unwrap();
                        }
                    }
                });
                let wanted = |i: usize| if i < (thread + round) % 5 { i + 1 } else { 0 };
                assert_eq!(values, std::array::from_fn(wanted));
            }
        });
    });
}
