//! Promises: something outside completes a child.

use crate::common::mpsc::Sender;
use crate::common::prelude::*;

#[test]
fn a_thread_completes_a_child_that_is_waited_for_or_not_yet() {
    with_each(|rt| {
        let (give, given) = channel::<(u64, Promise<u64>)>();
        let thread = common::thread::spawn(move || {
            for (n, promise) in given {
                promise.complete(n * 2).unwrap();
            }
        });
        rt.block_on(|| {
            for n in 0..scaled_in_debug(1_000) as u64 {
                let (promise, answer) = promise();
                give.send((n, promise)).unwrap();
                if n % 2 == 0 {
                    give_way_until(|| answer.is_finished());
                }
                assert_eq!(answer.join().unwrap(), n * 2);
            }
        });
        drop(give);
        thread.join().unwrap();
    });
}

#[test]
fn a_task_completes_a_child_of_another_one() {
    in_task(|_| {
        let (promise, answer) = promise();
        let other = spawn(move || promise.complete("from a sibling"));
        assert_eq!(answer.join().unwrap(), "from a sibling");
        other.join().unwrap().unwrap();
    });
}

/// T9.
#[test]
fn the_parent_and_its_scope_end_after_the_completion() {
    with_each(|rt| {
        let (give, given) = channel();
        let parent = rt.spawn(move || {
            let (of_scope, scoped) = promise();
            give.send(of_scope).unwrap();
            scope(|_| scoped.detach());
            let (of_task, own) = promise();
            give.send(of_task).unwrap();
            own.detach();
        });
        given.recv().unwrap().complete(()).unwrap();
        let last: Promise<()> = given.recv().unwrap();
        assert!(!parent.is_finished(), "its child has not ended");
        common::thread::spawn(move || last.complete(()).unwrap());
        parent.join().unwrap();
    });
}

/// T9.
#[test]
fn dropping_a_promise_ends_the_child_without_a_value() {
    in_task(|_| {
        let (promise, answer) = promise::<u32>();
        drop(promise);
        let error = answer.join().unwrap_err();
        assert!(matches!(error, JoinError::Abandoned), "{error:?}");
        assert!(error.to_string().contains("promise was dropped"), "{error}");
        // By a thread that panics.
        let (promise, answer) = cygnet::promise::<u32>();
        let thread = common::thread::spawn(move || {
            let _promise = promise;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(thread.join().is_err());
        assert!(matches!(answer.join(), Err(JoinError::Abandoned)));
    });
}

/// C17.
#[test]
fn a_cancel_ends_the_child_at_once_and_gives_the_value_back() {
    in_task(|_| {
        // By its own handle, by the drop of that, by the scope before and after the promise was
        // made, and by a time limit.
        let (own, answer) = promise();
        answer.cancel("enough");
        let Err(JoinError::NotStarted(why)) = answer.join() else { panic!("it has started") };
        assert_eq!(*why.reason(), Reason::from("enough"));
        assert!(own.is_cancelled());
        assert_eq!(own.complete(7), Err(7));

        let (dropped, answer) = promise();
        drop(answer);
        assert_eq!(dropped.complete(7), Err(7));

        let detached = || {
            let (promise, answer) = promise();
            answer.detach();
            promise
        };
        let (before, after) = scope(|s| {
            let before = detached();
            s.cancel("all of you");
            (before, detached())
        });
        assert!(before.is_cancelled() && after.is_cancelled());
        assert_eq!((before.complete(7), after.complete(8)), (Err(7), Err(8)));

        let late = timeout(Duration::from_millis(1), detached);
        assert_eq!(late.unwrap_err().into_inner().complete(7), Err(7));
    });
}

#[test]
fn the_end_of_the_runtime_ends_the_child() {
    with_own(|rt| {
        let (give, given) = channel();
        let task = rt.spawn(move || {
            let (promise, answer) = promise::<u8>();
            give.send(promise).unwrap();
            answer.join()
        });
        let promise = given.recv().unwrap();
        drop(rt);
        assert!(task.join().unwrap().is_err());
        assert!(promise.is_cancelled());
        let calls = Count::new();
        // Hooks are told even when all is over.
        let _hook = promise.on_cancel(move |why: Cancelled| {
            assert_eq!(*why.reason(), Reason::RuntimeShutDown);
            calls.up();
        });
        assert_eq!(calls.get(), 1);
        assert_eq!(promise.complete(7), Err(7));
    });
}

#[test]
fn the_hooks_of_a_promise_are_told_of_a_cancel_or_of_the_end() {
    in_task(|_| {
        let (promise, answer) = promise();
        let (kept, taken_back) = (Calls::default(), Calls::default());
        promise.on_cancel(kept.clone()).keep();
        drop(promise.on_cancel(taken_back.clone()));
        promise.complete(7).unwrap();
        assert_eq!(answer.join().unwrap(), 7);
        assert_eq!((kept.get(), taken_back.get()), ((0, 1), (0, 1)));

        let (promise, answer) = cygnet::promise::<()>();
        let (before, after) = (Calls::default(), Calls::default());
        let guard = promise.on_cancel(before.clone());
        answer.cancel("enough");
        let late = promise.on_cancel(after.clone());
        assert_eq!((before.get(), after.get()), ((1, 0), (1, 0)));
        drop((guard, late, promise));
        assert!(answer.join().is_err());
        assert_eq!((before.get(), after.get()), ((1, 0), (1, 0)));
    });
}

/// The task is cancelled and ends while a thread adds a hook.
#[test]
fn a_hook_that_races_the_cancel_and_the_end_is_called_once() {
    with_each(|rt| {
        let (give, given) = channel::<Promise<u8>>();
        let (tell, told) = channel();
        let thread = common::thread::spawn(move || {
            for promise in given {
                let calls = Calls::default();
                promise.on_cancel(calls.clone()).keep();
                tell.send((calls, promise)).unwrap();
            }
        });
        rt.block_on(|| {
            for _ in 0..scaled_in_debug(2_000) {
                let (promise, answer) = promise();
                give.send(promise).unwrap();
                answer.cancel("enough");
                assert!(answer.join().is_err());
            }
        });
        drop(give);
        thread.join().unwrap();
        for (calls, _) in told {
            eventually("the hook is called", || calls.get().0 == 1);
            assert_eq!(calls.get(), (1, 0));
        }
    });
}

/// The first of three counts: the value, the cancel, or the end of the promise. All values are
/// dropped.
#[test]
fn a_completion_races_a_cancel_and_one_of_them_counts() {
    with_each_and_many(|rt| {
        let drops = Drops::default();
        let (give, given) = channel::<Promise<_>>();
        let thread = common::thread::spawn(own(&drops, |values| {
            let mut accepted = 0;
            for (n, promise) in given.into_iter().enumerate() {
                if n % 5 == 4 {
                    drop(promise);
                } else {
                    accepted += usize::from(promise.complete(values.guard()).is_ok());
                }
            }
            accepted
        }));
        let received = rt.block_on(|| {
            let mut received = 0;
            for n in 0..scaled_in_debug(2_000) {
                let (promise, answer) = promise();
                let handle = answer.cancel_handle();
                give.send(promise).unwrap();
                let canceller = spawn(move || handle.cancel("enough"));
                if n % 3 == 0 {
                    yield_now().unwrap();
                }
                match answer.join() {
                    Ok(_) => received += 1,
                    Err(JoinError::Abandoned | JoinError::NotStarted(_)) => {}
                    Err(other) => panic!("{other}"),
                }
                canceller.join().unwrap();
            }
            received
        });
        drop(give);
        let accepted = thread.join().unwrap();
        assert_eq!(received, accepted, "a value that was accepted is received");
        assert_eq!(drops.left(), 0);
    });
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "it leaks what it forgets, as it should")]
fn a_forgotten_promise_ends_by_a_cancel() {
    in_task(|_| {
        let (promise, answer) = promise::<u8>();
        std::mem::forget(promise);
        answer.cancel("the promise is forgotten");
        assert!(answer.join().is_err());
    });
}

#[test]
fn a_large_value_passes_and_a_panic_in_its_destructor_does_no_harm() {
    with_each(|rt| {
        rt.block_on(|| {
            let (promise, answer) = promise();
            promise.complete([7u8; 3_000]).unwrap();
            assert_eq!(answer.join().unwrap(), [7; 3_000]);
            let (promise, answer) = cygnet::promise();
            answer.detach();
            promise.complete(Bomb("on purpose")).unwrap();
        });
        // A larger one that is never taken does not overflow a stack.
        let (give, given) = channel();
        let task = rt.spawn(move || {
            let (promise, answer) = promise();
            answer.detach();
            give.send(promise).unwrap();
        });
        assert!(given.recv().unwrap().complete([7u8; 100_000]).is_ok());
        task.join().unwrap();
    });
}

#[test]
fn a_promise_ends_where_all_stacks_are_held() {
    for workers in [1, 2, 3] {
        within(|| {
            let rt = Runtime::builder().workers(workers).max_stacks(workers).build().unwrap();
            let (give, given) = channel();
            let tasks: Vec<_> = (0..workers * 3)
                .map(|_| {
                    rt.spawn(own(&give, move |give| {
                        let (promise, answer) = promise();
                        give.send(promise).unwrap();
                        answer.join().unwrap()
                    }))
                })
                .collect();
            let thread = common::thread::spawn(move || {
                for _ in 0..workers * 3 {
                    given.recv().unwrap().complete(7).unwrap();
                }
            });
            assert!(join_all(tasks).into_iter().all(|value| value == 7));
            thread.join().unwrap();
        });
    }
}

#[test]
fn a_task_that_waits_for_nothing_else_does_not_hold_up_the_cancel() {
    with_each(|rt| {
        let task = parked(rt, 1, || {
            let (_promise, answer) = promise::<u8>();
            let joined = answer.join();
            assert!(park().is_err());
            joined.is_err()
        });
        task.cancel("enough");
        assert!(task.join().unwrap());
    });
}

#[test]
fn a_cancel_reaches_the_destructor_of_a_value_that_is_not_taken() {
    with_each(|rt| {
        let state = Count::new();
        let task = parked(rt, 1, move || {
            let (promise, answer) = promise();
            answer.detach();
            // Waits in its destructor, in the name of the task that drops it.
            let value = OnDrop(move || {
                state.up();
                assert!(park().is_err());
                state.up();
            });
            assert!(promise.complete(value).is_ok());
        });
        assert_eq!(state.get(), 1);
        task.cancel("enough");
        task.join().unwrap();
        assert_eq!(state.get(), 2);
    });
}

/// Opens a scope in its destructor, that lasts until the lease is dropped.
struct Lasts(Sender<ScopeLease>, Count);

impl Drop for Lasts {
    fn drop(&mut self) {
        scope(|s| self.0.send(s.lease()).unwrap());
        self.1.up();
    }
}

#[test]
fn a_late_completion_leaves_a_task_alone_that_waits_in_a_destructor() {
    static LOCAL: cygnet::TaskLocal<Lasts> = cygnet::TaskLocal::new();
    with_each(|rt| {
        let (give, given) = channel();
        let (tell, leases) = channel();
        let over = Count::new();
        let task = parked(rt, 1, move || {
            let (promise, answer) = LOCAL.scope(Lasts(tell, over), promise::<Box<u8>>);
            answer.cancel("too late");
            give.send(promise).unwrap();
            assert!(answer.join().is_err());
        });
        let lease = leases.recv().unwrap();
        let promise = given.recv().unwrap();
        assert_eq!(promise.complete(Box::new(7)), Err(Box::new(7)));
        common::thread::sleep(Duration::from_millis(1));
        assert_eq!(over.get(), 0, "the scope has not waited for its lease");
        drop(lease);
        task.join().unwrap();
        assert_eq!(over.get(), 1);
    });
}

#[test]
fn a_runtime_ends_while_a_completion_is_under_way() {
    for _ in 0..scaled_in_debug(200) {
        let rt = runtime(1);
        let (give, given) = channel::<Promise<u8>>();
        let thread = common::thread::spawn(move || given.recv().unwrap().complete(7));
        rt.block_on(move || {
            let (promise, answer) = promise();
            give.send(promise).unwrap();
            // As soon as it is ready it is started here, maybe before the call has put it into a
            // queue.
            while cygnet::yield_to(&answer) == Ok(cygnet::YieldTo::Parked) {}
            assert_eq!(answer.join().unwrap(), 7);
        });
        drop(rt);
        thread.join().unwrap().unwrap();
    }
}
