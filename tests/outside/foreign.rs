//! Children that run on another runtime.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;

#[test]
fn a_foreign_child_runs_there_and_is_joined_here() {
    in_task(|rt| {
        let there = runtime(2);
        let pool = there.handle();
        let here = common::thread::current().id();
        for n in 0..scaled_in_debug(500) {
            let child = task()
                .spawn_in(ChildOn(&pool), move || (n, common::thread::current().id()))
                .unwrap();
            let (value, thread) = child.join().unwrap();
            assert_eq!(value, n);
            assert_ne!(thread, here);
        }
        // Its own runtime will do too.
        let seven = task().name("seven").spawn_in(ChildOn(&rt.handle()), || 7).unwrap();
        assert_eq!(seven.name(), Some("seven"));
        assert_eq!(seven.join().unwrap(), 7);
    });
}

#[test]
fn the_parent_ends_after_the_child_and_after_all_that_it_has_spawned_there() {
    with_each(|rt| {
        let there = runtime(2);
        let pool = there.handle();
        let (open, gate) = channel::<()>();
        let ended = Count::new();
        let parent = rt.spawn(move || {
            scope(|_| {
                let child = task().spawn_in(ChildOn(&pool), move || {
                    spawn(move || {
                        gate.recv().unwrap();
                        ended.up();
                    })
                    .detach();
                });
                child.unwrap().detach();
            });
            ended.get()
        });
        assert!(!parent.is_finished());
        open.send(()).unwrap();
        assert_eq!(parent.join().unwrap(), 1);
    });
}

/// A child that has begun, and ends when something is sent.
fn busy(there: &Handle) -> (Task<()>, Sender<()>) {
    let ((open, gate), begun) = (channel(), Flag::new());
    let computes = move || (begun.set(), gate.recv().unwrap()).1;
    let busy = task().spawn_in(ChildOn(there), computes).unwrap();
    begun.wait();
    (busy, open)
}

#[test]
fn a_cancel_reaches_the_child_with_its_reason_before_and_after_the_start() {
    in_task(|_| {
        let there = runtime(1);
        let before = parks(&there);
        let pool = there.handle();
        let child =
            task().spawn_in(ChildOn(&pool), || park().unwrap_err().reason().to_string()).unwrap();
        give_way_until(|| parks(&there) > before);
        child.cancel("enough");
        assert_eq!(child.join().unwrap(), "enough");

        // Its only worker is busy.
        let (busy, open) = busy(&pool);
        let drops = Drops::default();
        let fresh = scope(|s| {
            let fresh = task().spawn_in(ChildOn(&pool), drops.around(|| ())).unwrap();
            s.cancel("too late");
            open.send(()).unwrap();
            fresh
        });
        assert_eq!(drops.count(), 1, "before the scope has ended");
        let Err(JoinError::NotStarted(why)) = fresh.join() else { panic!("it has started") };
        assert_eq!(*why.reason(), Reason::from("too late"));
        busy.join().unwrap();
    });
}

#[test]
fn dropping_the_handle_cancels_the_child_and_its_panic_comes_here() {
    in_task(|_| {
        let there = runtime(1);
        let pool = there.handle();
        let (tell, told) = channel();
        drop(task().spawn_in(ChildOn(&pool), move || tell.send(park()).unwrap()).unwrap());
        // It was told so, or has never started.
        assert!(told.recv().is_ok_and(|told| told.is_err()) || told.recv().is_err());
        let child =
            task().spawn_in(ChildOn(&pool), || resume_unwind(Box::new("over there"))).unwrap();
        let payload = child.join().unwrap_err().into_panic().unwrap();
        assert_eq!(payload.downcast_ref(), Some(&"over there"));
        let child = task().spawn_in(ChildOn(&pool), || park().unwrap_err().unwind()).unwrap();
        child.cancel("enough");
        let error: JoinError = child.join().unwrap_err();
        assert_eq!(*error.cancelled().unwrap().reason(), Reason::from("enough"));
    });
}

#[test]
fn the_bindings_of_the_child_are_dropped_before_its_end() {
    static BOUND: TaskLocal<common::drops::Guard> = TaskLocal::new();
    in_task(|_| {
        let there = runtime(1);
        let pool = there.handle();
        for starts in [true, false] {
            let ((busy, open), drops) = (busy(&pool), Drops::new());
            let bound = || BOUND.with(|bound| bound.is_some());
            let child = BOUND.scope(drops.guard(), || task().spawn_in(ChildOn(&pool), bound));
            let child = child.unwrap();
            assert_eq!(drops.left(), 1);
            if !starts {
                child.cancel("enough");
            }
            open.send(()).unwrap();
            assert_eq!(child.join().ok(), starts.then_some(true));
            assert_eq!(drops.left(), 0);
            busy.join().unwrap();
        }
    });
}

#[test]
fn the_end_of_the_other_runtime_is_an_error_or_a_cancel() {
    with_each(|rt| {
        let there = runtime(1);
        let pool = there.handle();
        let before = parks(&there);
        let waiting = rt.spawn(own(&pool, |theirs| {
            task()
                .spawn_in(ChildOn(&theirs), || park().unwrap_err().reason().clone())
                .unwrap()
                .join()
        }));
        eventually("it waits there", || parks(&there) > before);
        drop(there);
        assert_eq!(waiting.join().unwrap().unwrap(), Reason::RuntimeShutDown);
        let refused = rt.block_on(move || task().spawn_in(ChildOn(&pool), || 7).unwrap_err());
        assert_eq!((refused.0)(), 7);
    });
}

#[test]
fn two_runtimes_call_each_other_and_end_in_either_order() {
    for first in [true, false] {
        within(|| {
            let (a, b) = (runtime(2), runtime(2));
            let drops = Drops::default();
            let tasks: Vec<_> = (0..scaled_in_debug(200))
                .map(|n| {
                    let (to_a, to_b, value) = (a.handle(), b.handle(), drops.guard());
                    a.spawn(move || {
                        let child = task().spawn_in(ChildOn(&to_b), move || {
                            let back = task().spawn_in(ChildOn(&to_a), move || {
                                drop(value);
                                n
                            });
                            back.map_or(n, |back| back.join().unwrap_or(n))
                        });
                        child.map_or(n, |child| child.join().unwrap_or(n))
                    })
                })
                .collect();
            let (one, other) = if first { (a, b) } else { (b, a) };
            drop(one);
            drop(other);
            tasks.into_iter().for_each(|task| drop(task.join()));
            assert_eq!(drops.left(), 0);
        });
    }
}

#[test]
fn a_large_result_gets_the_stack_that_it_needs_there() {
    let (here, there) = (runtime(1), runtime(1));
    let pool = there.handle();
    let length = here.block_on(move || {
        let joiner = task().stack_size(4 << 20).unwrap().spawn(move || {
            task()
                .spawn_in(ChildOn(&pool), || std::hint::black_box([7u8; 60_000]))
                .unwrap()
                .join()
                .unwrap()
                .len()
        });
        joiner.join().unwrap()
    });
    assert_eq!(length, 60_000);
}
