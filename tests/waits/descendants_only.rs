//! Scopes and joins during which nothing but their own tasks runs on a worker.

use crate::common::prelude::*;
use crate::common::rerun::{alone, command, role};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Tasks that contend for a lock of std's, each of which holds it over a wait of every kind.
fn contend(wait: Wait, tasks: usize) -> u64 {
    let sum = Mutex::new(0);
    let started = Count::new();
    crowd(tasks, |_| {
        // Else they would run one after the other.
        started.up();
        started.wait(tasks);
        let mut sum = sum.lock().unwrap();
        let (a, b) = join_with(
            wait,
            || {
                yield_now().unwrap();
                fib(8)
            },
            || {
                yield_now().unwrap();
                spawn(|| yield_now().unwrap()).join().unwrap();
                spawn(|| yield_now().unwrap()).detach();
                fib(9)
            },
        );
        *sum += a + b;
    });
    sum.into_inner().unwrap()
}

#[test]
fn a_lock_of_stds_may_be_held_over_a_join() {
    with_each_and_many(|rt| {
        for _ in 0..scaled(20) {
            assert_eq!(rt.block_on(|| contend(Wait::DescendantsOnly, 20)), 20 * (21 + 34));
        }
    });
}

/// The negative control of the test above.
#[test]
fn without_the_restriction_the_same_program_hangs() {
    common::real!("a process of its own");
    let name = "descendants_only::without_the_restriction_the_same_program_hangs";
    if role().is_some() {
        assert_eq!(runtime(1).block_on(|| contend(Wait::DescendantsOnly, 20)), 20 * (21 + 34));
        println!("the restricted one has ended");
        runtime(1).block_on(|| contend(Wait::Anyone, 20));
        println!("the other one has ended");
        return;
    }
    let mut child = command(name, "hang").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("the restricted one has ended")));
    let (tell, told) = channel();
    let reader = thread::spawn(move || {
        let ended = lines.any(|line| line.contains("the other one has ended"));
        let _ = tell.send(ended);
    });
    // It must not end.
    let ended = told.recv_timeout(Duration::from_secs(2)).unwrap_or(false);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    assert!(!ended);
}

#[test]
fn strangers_of_the_same_worker_wait_until_the_scope_ends() {
    in_task_with(&[1], |_| {
        let ran = Count::new();
        scope(|s| {
            // Started, fresh, and local ones.
            for _ in 0..3 {
                s.spawn(|| {
                    yield_now().unwrap();
                    ran.up();
                });
            }
            yield_now().unwrap();
            s.spawn(|| ran.up());
            let before = ran.get();
            assert!(before < 4, "some are left");
            let kin = Count::new();
            scope_with(Wait::DescendantsOnly, |s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        yield_now().unwrap();
                        spawn_local(|| ()).join().unwrap();
                        kin.up();
                    });
                }
                yields(1000);
            });
            assert_eq!(ran.get(), before);
            assert_eq!(kin.get(), 3);
        });
        assert_eq!(ran.get(), 4);
    });
}

#[test]
fn a_stranger_that_is_to_start_at_once_waits_until_the_scope_ends() {
    in_task_with(&[1], |_| {
        let ran = Flag::new();
        scope(|around| {
            scope_with(Wait::DescendantsOnly, |s| {
                let kin = task().now().spawn_in(s, || 7);
                assert!(kin.is_finished());
                drop(task().now().spawn_in(around, || ran.set()));
                yields(100);
                assert!(!ran.get(), "it ran among kin");
            });
        });
        assert!(ran.get());
    });
}

#[test]
fn a_worker_that_helps_is_restricted_too() {
    in_task_with(&[2, 3, 8], |_| {
        for _ in 0..scaled(20) {
            // The threads on which kin are started and unfinished at present.
            let busy = Mutex::new(HashSet::new());
            let (met, done) = (Count::new(), Flag::new());
            scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        while !done.get() {
                            if busy.lock().unwrap().contains(&thread::current().id()) {
                                met.up();
                            }
                            yield_now().unwrap();
                        }
                    });
                }
                yield_now().unwrap();
                scope_with(Wait::DescendantsOnly, |s| {
                    for _ in 0..10 {
                        s.spawn(|| {
                            let me = thread::current().id();
                            // The first of several on the same thread tells for all.
                            let first = busy.lock().unwrap().insert(me);
                            yields(20);
                            if first {
                                busy.lock().unwrap().remove(&me);
                            }
                        });
                    }
                });
                done.set();
            });
            assert_eq!(met.get(), 0, "strangers ran among kin");
        }
    });
}

#[test]
fn a_task_that_kin_wait_for_is_found_wherever_it_was_spawned() {
    with_each(|rt| {
        for _ in 0..scaled(20) {
            let lock = Mutex::new(0);
            scope_on(rt, |s| {
                // Strangers that block their thread as long as the lock is held.
                for _ in 0..10 {
                    s.spawn(|| {
                        yield_now().unwrap();
                        *lock.lock().unwrap() += 1;
                    });
                }
                s.spawn(|| {
                    let mut count = lock.lock().unwrap();
                    scope_with(Wait::DescendantsOnly, |s| {
                        for _ in 0..5 {
                            // Ends long before the tasks that it leaves behind, on any worker.
                            let child = || drop(spawn(|| yield_now().unwrap()).join());
                            s.spawn(move || (0..5).for_each(|_| spawn(child).detach()));
                        }
                    });
                    *count += 100;
                });
            });
            assert_eq!(lock.into_inner().unwrap(), 110);
        }
    });
}

#[test]
fn restrictions_nest_and_the_innermost_counts() {
    in_task(|_| {
        let outer_lock = Mutex::new(0);
        let inner_lock = Mutex::new(0);
        crowd(5, |_| {
            let mut outer = outer_lock.lock().unwrap();
            scope_with(Wait::DescendantsOnly, |s| {
                for _ in 0..5 {
                    s.spawn(|| {
                        yield_now().unwrap();
                        let mut inner = inner_lock.lock().unwrap();
                        let (a, b) = join_with(
                            Wait::DescendantsOnly,
                            || yield_now().is_ok(),
                            || yield_now().is_ok(),
                        );
                        *inner += usize::from(a) + usize::from(b);
                    });
                }
            });
            *outer += 1;
        });
        assert_eq!(outer_lock.into_inner().unwrap(), 5);
        assert_eq!(inner_lock.into_inner().unwrap(), 50);
    });
}

#[test]
fn others_run_what_the_worker_gives_away() {
    in_task_with(&[2, 3, 8], |_| {
        let ran = Flag::new();
        scope(|s| {
            s.spawn(|| ran.set());
            scope_with(Wait::DescendantsOnly, |_| ran.wait());
        });
    });
}

#[test]
fn a_panic_lifts_the_restriction() {
    in_task(|_| {
        let other = spawn(|| yield_now().unwrap());
        let text = panic_of(|| {
            join_with(Wait::DescendantsOnly, || yield_now().unwrap(), || panic!("the second"))
        });
        assert_eq!(text, "the second");
        other.join().unwrap();
        let text = panic_of(|| scope_with(Wait::DescendantsOnly, |_| panic!("the scope")));
        assert_eq!(text, "the scope");
        spawn(|| yield_now().unwrap()).join().unwrap();
    });
}

#[test]
fn a_migratable_task_may_restrict_and_stays_meanwhile() {
    in_task(|_| {
        let body = || {
            yield_now().unwrap();
            scope_with(Wait::DescendantsOnly, |s| {
                let me = thread::current().id();
                for _ in 0..10 {
                    s.spawn(|| yield_now().unwrap());
                    spawn(|| yield_now().unwrap()).join().unwrap();
                }
                assert_eq!(me, thread::current().id());
            });
        };
        // SAFETY: it holds numbers over its suspensions, and a thread's name for comparison.
        join_all((0..20).map(|_| unsafe { task().migratable() }.spawn(body)));
    });
}

#[test]
fn kin_fork_and_are_stolen() {
    in_task_with(&[2, 3, 8], |_| {
        let taken = Flag::new();
        join_with(Wait::DescendantsOnly, || taken.hold(), || taken.set());
        let both = join_with(Wait::DescendantsOnly, || fib(18), || fib(17));
        assert_eq!(both, (2584, 1597));
    });
}

#[test]
fn fresh_kin_have_their_turn_among_kin_that_yield_all_the_time() {
    in_task(|_| {
        let (oldest, local) = (Flag::new(), Flag::new());
        scope_with(Wait::DescendantsOnly, |s| {
            s.spawn(|| oldest.set());
            spawn_local(move || local.set()).detach();
            give_way_until(|| {
                // Newer than both.
                s.spawn(|| ());
                oldest.get() && local.get()
            });
        });
    });
}

/// The processor time of this process.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn workers_without_kin_to_run_rest_though_strangers_lie_in_the_injector() {
    common::real!("a process of its own");
    let name =
        "descendants_only::workers_without_kin_to_run_rest_though_strangers_lie_in_the_injector";
    alone(name, || {
        for workers in common::WORKERS {
            let rt = runtime(workers);
            let begun = Count::new();
            let (tell, told) = channel();
            thread::scope(|threads| {
                threads.spawn(|| {
                    rt.block_on(|| {
                        scope_with(Wait::DescendantsOnly, |s| {
                            for _ in 0..workers {
                                s.spawn(own(&tell, move |tell| {
                                    tell.send(unparker()).unwrap();
                                    // So that each worker has one of them.
                                    begun.meet(workers);
                                    park().unwrap();
                                }));
                            }
                        });
                    });
                });
                eventually("all kin are parked", || parks(&rt) >= workers as u64);
                let ran = Count::new();
                (0..3).for_each(|_| rt.spawn(move || ran.up()).detach());
                thread::sleep(Duration::from_millis(100));
                let before = processor_time();
                thread::sleep(Duration::from_millis(500));
                let used = processor_time() - before;
                let early = ran.get();
                (0..workers).for_each(|_| told.recv().unwrap().unpark());
                assert_eq!(early, 0);
                // A worker that looked all the time would use 500. In an emulator, and with a
                // sanitizer, a look takes long.
                let slow = common::emulated() || common::SANITIZED;
                let most = Duration::from_millis(if slow { 400 } else { 150 });
                assert!(used < most, "{workers} workers: {used:?}");
                eventually("the strangers run", || ran.get() == 3);
            });
        }
    });
}

#[test]
fn without_stacks_kin_that_are_waited_for_exceed_the_limit() {
    within_each(common::WORKERS, |workers| {
        let rt = Runtime::builder().workers(workers).max_stacks(workers).build().unwrap();
        let ran = Count::new();
        rt.block_on(|| {
            crowd(workers, |_| {
                scope_with(Wait::DescendantsOnly, |s| {
                    spawn_local(|| yield_now().unwrap()).detach();
                    for _ in 0..10 {
                        s.spawn(|| {
                            spawn_local(|| yield_now().unwrap()).detach();
                            yield_now().unwrap();
                            ran.up();
                        });
                    }
                });
            });
        });
        assert_eq!(ran.get(), workers * 10);
    });
}

#[test]
fn kin_exceed_the_limit_though_strangers_are_ready() {
    within(|| {
        let rt = Runtime::builder().workers(1).max_stacks(3).build().unwrap();
        let (started, over, ran) = (Flag::new(), Flag::new(), Count::new());
        scope_on(&rt, |s| {
            // Two strangers have the other stacks: one that waits, and one that is ready.
            s.spawn(|| {
                scope(|s| {
                    s.spawn(|| {
                        started.set();
                        over.wait();
                        ran.up();
                    });
                    started.wait();
                });
            });
            started.wait();
            yields(10);
            // Another stranger: there will be a stack for it when the scope has ended.
            task().stack_size(1 << 20).unwrap().spawn_in(s, || ran.up());
            scope_with(Wait::DescendantsOnly, |s| {
                let kin = task().stack_size(1 << 20).unwrap().spawn_in(s, || 7);
                assert_eq!(kin.join().unwrap(), 7);
            });
            assert_eq!(ran.get(), 0);
            // Frees them.
            over.set();
            ran.wait(2);
        });
    });
}

#[test]
fn a_stranger_is_not_yielded_to() {
    in_task_with(&[1], |_| {
        let [started, fresh] = [(); 2].map(|()| spawn(|| yield_now().unwrap()));
        assert_eq!(yield_to(&started), Ok(YieldTo::Ran));
        scope_with(Wait::DescendantsOnly, |_| {
            let kin = spawn(|| ());
            for stranger in [&started, &fresh] {
                assert_eq!(yield_to(stranger), Ok(YieldTo::Elsewhere));
            }
            assert_eq!(yield_to(&kin), Ok(YieldTo::Ran));
            assert!(!started.is_finished() && !fresh.is_finished());
            kin.join().unwrap();
        });
        started.join().unwrap();
        fresh.join().unwrap();
    });
}

#[test]
fn strangers_of_either_of_two_nested_scopes_go_on_in_order() {
    in_task_with(&[1], |_| {
        let order = Mutex::new(Vec::new());
        let note = |name: &'static str| {
            yields(3);
            order.lock().unwrap().push(name);
        };
        scope(|s| {
            s.spawn(|| note("outer"));
            for _ in 0..100 {
                if order.lock().unwrap().is_empty() {
                    yield_now().unwrap();
                }
            }
            order.lock().unwrap().clear();
            ["a", "b"].into_iter().for_each(|name| drop(s.spawn(move || note(name))));
            yield_now().unwrap();
            scope_with(Wait::DescendantsOnly, |s| {
                s.spawn(|| note("c"));
                yield_now().unwrap();
                scope_with(Wait::DescendantsOnly, |s| {
                    s.spawn(|| note("d"));
                    yields(500);
                });
                assert_eq!(*order.lock().unwrap(), ["d"]);
            });
            assert_eq!(*order.lock().unwrap(), ["d", "c"]);
        });
        assert_eq!(order.into_inner().unwrap().len(), 4);
    });
}
