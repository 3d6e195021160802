//! What counts as a child of a task, and when a task without children left completes.

use crate::common::prelude::*;
use crate::{Log, give_way_until_parked, receive};

/// Calls a function at the end of the task or scope that the hook is attached to.
struct AtEnd<F>(F);

impl<F: FnOnce() + Send + 'static> CancelHook for AtEnd<F> {
    fn on_cancel(self: Box<Self>, _: Cancelled) {}

    fn on_cleanup(self: Box<Self>) {
        (self.0)();
    }
}

/// T4.
#[test]
fn leases_promises_and_tasks_spawned_by_leases_count_as_children() {
    in_task(|_| {
        let (give, given) = channel();
        let parent = spawn(move || {
            let (promise, answer) = promise::<()>();
            answer.detach();
            give.send((lease(), promise)).unwrap();
        });
        let (lease, promise) = receive(&given);
        let clone = lease.clone();
        let assert_open = |left: &str| {
            (0..20).for_each(|_| yield_now().unwrap());
            assert!(!parent.is_finished(), "{left}");
        };
        assert_open("a promise and two leases");
        promise.complete(()).unwrap();
        assert_open("two leases");
        drop(lease);
        assert_open("one lease");
        let child = cygnet::task().spawn_in(&clone, || park().unwrap());
        drop(clone);
        assert_open("a task spawned by the lease");
        child.cancel("enough");
        let _ = child.join();
        parent.join().unwrap();
    });
}

/// T34, C15.
#[test]
fn detaching_a_handle_does_not_detach_the_task() {
    in_task(|rt| {
        let log = Log::default();
        scope(|_| {
            let (seen, local) = (log.clone(), log.on_drop("the task's local"));
            spawn(move || {
                let _local = local;
                (0..10).for_each(|_| yield_now().unwrap());
                seen.add("the task has run on");
            })
            .detach();
        });
        log.add("the scope has ended");
        log.assert(&["the task has run on", "the task's local", "the scope has ended"], "");
        // A cancel of the scope reaches a detached task.
        let before = parks(rt);
        scope(|s| {
            spawn(|| assert!(park().is_err())).detach();
            give_way_until_parked(before + 1);
            s.cancel("enough");
        });
    });
}

/// With one worker no other thread can run what the drop schedules. T5.
#[test]
fn dropping_the_last_lease_only_schedules_the_completion() {
    in_task_with(&[1], |_| {
        let log = Log::default();
        let (give, given) = channel();
        let seen = log.clone();
        let parent = spawn_now(move || {
            on_cancel(AtEnd(move || seen.add("the parent ends"))).keep();
            give.send(lease()).unwrap();
        });
        drop(given.recv().unwrap());
        log.add("the drop has returned");
        parent.join().unwrap();
        log.assert(&["the drop has returned", "the parent ends"], "");
    });
}

/// A child that is torn down without having run completes its parent, or a shutdown could hang,
/// and never on a thread without a worker. T30, C55.
#[test]
fn a_dropped_promise_completes_its_parent_on_a_worker() {
    with_each(|rt| {
        let (give, given) = channel();
        let (tell, told) = channel();
        let parent = rt.spawn(move || {
            on_cancel(AtEnd(move || tell.send(thread::current().id()).unwrap())).keep();
            let (promise, answer) = promise::<()>();
            answer.detach();
            give.send(promise).unwrap();
        });
        let promise = given.recv().unwrap();
        assert!(!parent.is_finished());
        drop(promise);
        parent.join().unwrap();
        assert_ne!(told.recv().unwrap(), thread::current().id());
    });
}
