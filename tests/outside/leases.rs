//! Leases: a scope is held open by those who are not below it.

use crate::common::mpsc::channel;
use crate::common::{
    self, Drops, eventually, scaled_in_debug, with, with_each, with_each_and_many,
};
use cygnet::sync::Event;
use cygnet::{
    CancelHook, Cancelled, JoinError, Reason, ScopeLease, Wait, lease, on_cancel, park, scope,
    scope_with, spawn_now, timeout,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn a_scope_and_a_task_end_after_the_last_lease() {
    with_each(|rt| {
        let (give, given) = channel::<ScopeLease>();
        let (of_scope, of_task) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let task = rt.spawn({
            let (scope_gone, give) = (of_scope.clone(), give.clone());
            move || {
                scope(|s| give.send(s.lease()).unwrap());
                assert!(scope_gone.load(Ordering::Acquire), "the scope has not waited");
                give.send(lease()).unwrap();
            }
        });
        let first = given.recv().unwrap();
        let second = first.clone();
        drop(first);
        of_scope.store(true, Ordering::Release);
        drop(second);
        let last = given.recv().unwrap();
        assert!(!task.is_finished());
        let gone = of_task.clone();
        crate::common::thread::spawn(move || {
            gone.store(true, Ordering::Release);
            drop(last);
        });
        task.join().unwrap();
        assert!(of_task.load(Ordering::Acquire), "the task has not waited");
    });
}

#[test]
fn it_spawns_from_tasks_and_threads_and_the_scope_waits_for_them() {
    with_each_and_many(|rt| {
        let count = Arc::new(AtomicUsize::new(0));
        let n = scaled_in_debug(1_000);
        let stranger = rt.block_on(|| {
            scope(|s| {
                let lease = s.lease();
                let threads: Vec<_> = (0..2)
                    .map(|_| {
                        let (lease, count) = (lease.clone(), count.clone());
                        crate::common::thread::spawn(move || {
                            for _ in 0..n {
                                let count = count.clone();
                                lease.spawn(move || count.fetch_add(1, Ordering::Relaxed)).detach();
                            }
                        })
                    })
                    .collect();
                let (its, counted) = (lease.clone(), count.clone());
                let stranger = cygnet::spawn_unscoped(move || {
                    for _ in 0..n {
                        let counted = counted.clone();
                        its.spawn(move || counted.fetch_add(1, Ordering::Relaxed)).detach();
                    }
                });
                drop(lease);
                (threads, stranger)
            })
        });
        assert_eq!(count.load(Ordering::Relaxed), 3 * n);
        stranger.1.join().unwrap();
        stranger.0.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_result_is_joined_and_a_panic_surfaces_from_the_scope() {
    with_each(|rt| {
        let text = common::panic_of(|| {
            rt.block_on(|| {
                scope(|s| {
                    let lease = s.lease();
                    assert_eq!(lease.spawn(|| 7).join().unwrap(), 7);
                    // When it has been let go: the panic of one that has ended before is told to the runtime's hook.
                    let let_go = Arc::new(Event::new());
                    let waits = Arc::clone(&let_go);
                    let panics = lease.spawn(move || {
                        waits.wait().unwrap();
                        std::panic::resume_unwind(Box::new("by a lease"))
                    });
                    panics.detach();
                    let_go.set();
                })
            })
        });
        assert_eq!(text, "by a lease");
    });
}

#[test]
fn a_cancel_reaches_what_it_spawns_and_does_not_end_it() {
    with_each(|rt| {
        let (give, given) = channel();
        let before = common::parks(rt);
        let task = rt.spawn(move || {
            scope(|s| {
                let lease = s.lease();
                lease.spawn(|| assert!(park().is_err())).detach();
                give.send(lease).unwrap();
                let told = park();
                told.is_err()
            })
        });
        let held = given.recv().unwrap();
        eventually("they wait", || common::parks(rt) >= before + 2);
        task.cancel("enough");
        assert!(held.is_cancelled());
        match held.spawn(|| unreachable!()).join() {
            Err(JoinError::NotStarted(why)) => assert_eq!(*why.reason(), Reason::from("enough")),
            other => panic!("{other:?}"),
        }
        assert!(!task.is_finished());
        drop(held);
        assert!(task.join().unwrap());
    });
}

#[test]
fn it_cancels_its_scope_and_nothing_beside_it() {
    with_each(|rt| {
        rt.block_on(|| {
            scope(|s| {
                let lease = s.lease();
                let waiting = s.spawn(|| park().unwrap_err().reason().to_string());
                let thread = crate::common::thread::spawn(move || lease.cancel("from outside"));
                assert_eq!(park().unwrap_err().reason().to_string(), "from outside");
                thread.join().unwrap();
                drop(waiting);
            });
            assert!(cygnet::checkpoint().is_ok());
        });
    });
}

#[test]
fn what_it_spawns_is_under_the_time_limit_and_the_restriction_of_its_scope() {
    with_each(|rt| {
        let timed = rt.block_on(|| {
            timeout(Duration::from_millis(5), || {
                let lease = lease();
                crate::common::thread::spawn(move || lease.spawn(|| park().unwrap_err()).join())
            })
        });
        // It may have come too late to start.
        let why = match timed.unwrap_err().into_inner().join().unwrap() {
            Ok(told) => told,
            Err(error) => error.cancelled().unwrap().clone(),
        };
        assert_eq!(*why.reason(), Reason::Deadline);
        let held = crate::common::Mutex::new(0);
        rt.block_on(|| {
            scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        let mut held = held.lock().unwrap();
                        scope_with(Wait::DescendantsOnly, |s| {
                            let lease = s.lease();
                            crate::common::thread::spawn(move || lease.spawn(|| 7).join().unwrap());
                        });
                        *held += 1;
                    });
                }
            });
        });
        assert_eq!(*held.lock().unwrap(), 4);
    });
}

/// The last clones are dropped by threads and tasks, three levels deep, while the scopes are cancelled or not.
#[test]
fn drops_race_the_end_of_the_scopes_and_their_cancel() {
    with_each_and_many(|rt| {
        let drops = Drops::default();
        let (give, given) = channel::<ScopeLease>();
        let thread = crate::common::thread::spawn({
            let drops = drops.clone();
            move || {
                for (n, lease) in given.into_iter().enumerate() {
                    let value = drops.guard();
                    match n % 4 {
                        0 => drop(lease),
                        1 => lease.spawn(move || drop(value)).detach(),
                        2 => drop(lease.spawn(move || park().map(|()| value))),
                        _ => {
                            let below = lease.clone();
                            lease.spawn(move || below.spawn(move || drop(value)).detach()).detach();
                        }
                    }
                }
            }
        });
        rt.block_on(|| {
            for n in 0..scaled_in_debug(500) {
                scope(|outer| {
                    give.send(outer.lease()).unwrap();
                    let give = give.clone();
                    outer.spawn(move || {
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
                    });
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

/// A lease keeps its runtime from ending; what is left of it afterwards is nothing.
#[test]
fn the_runtime_ends_after_the_last_lease() {
    for workers in common::WORKERS {
        common::within(|| {
            let rt = common::runtime(workers);
            let held = rt.spawn(lease_of_another).join().unwrap();
            let dropper = crate::common::thread::spawn(move || {
                held.cancel("no more");
                drop(held);
            });
            drop(rt);
            dropper.join().unwrap();
        });
    }
}

/// A lease on a task of which nobody has the handle.
fn lease_of_another() -> ScopeLease {
    let (give, given) = channel();
    cygnet::spawn_unscoped(move || give.send(lease()).unwrap()).detach();
    loop {
        match given.try_recv() {
            Ok(lease) => return lease,
            Err(_) => cygnet::yield_now().unwrap(),
        }
    }
}

/// The end that the drop of a lease brings is not run inside the drop.
#[test]
fn the_drop_only_schedules_the_end_that_it_brings() {
    with(&[1], |rt| {
        rt.block_on(|| {
            let (tell, told) = channel();
            let (give, given) = channel();
            let parent = spawn_now(move || {
                on_cancel(Tells(tell)).keep();
                give.send(lease()).unwrap();
            });
            drop(given.recv().unwrap());
            assert!(told.try_recv().is_err(), "its end has been run inside the drop");
            assert!(!parent.is_finished());
            parent.join().unwrap();
            assert_eq!(told.try_recv(), Ok("it has ended"));
        });
    });
}

struct Tells(crate::common::mpsc::Sender<&'static str>);

impl CancelHook for Tells {
    fn on_cancel(self: Box<Self>, _: Cancelled) {}

    fn on_cleanup(self: Box<Self>) {
        self.0.send("it has ended").unwrap();
    }
}

/// A worker whose task waits inside `no_suspend`, or in the middle of an unwinding, is on nobody's list of sleepers.
#[test]
fn a_held_worker_sees_what_comes_from_outside() {
    fn waits_for_a_thread() {
        cygnet::scope(|s| {
            let lease = s.lease();
            let (promise, answer) = cygnet::promise();
            answer.detach();
            crate::common::thread::spawn(move || {
                crate::common::thread::sleep(std::time::Duration::from_millis(2));
                lease.spawn(|| ()).detach();
                crate::common::thread::sleep(std::time::Duration::from_millis(2));
                drop(lease);
                promise.complete(7).unwrap();
            });
        });
    }
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            waits_for_a_thread();
        }
    }
    with_each(|rt| {
        rt.block_on(|| cygnet::no_suspend(waits_for_a_thread));
        let unwound = rt.try_block_on(|| {
            let _waits = Waits;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(unwound.is_err());
    });
}
