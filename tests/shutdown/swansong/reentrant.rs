//! Wakers are foreign code: a waker that a stop or the last guard calls may use the same tree.

use super::{Watched, completion_of, is_stopped, now};
use crate::common::prelude::*;
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::Swansong;

/// S46.
#[test]
fn a_waker_called_by_a_stop_may_make_guards_and_children_and_stop() {
    within(|| {
        let root = Swansong::new();
        let (child, made) = (root.child(), Arc::new(Mutex::new(Vec::new())));
        let waker = calling_once({
            let (root, child, made) = (root.clone(), child.clone(), Arc::clone(&made));
            move || {
                let late = root.child();
                assert!(is_stopped(&root) && late.state() == Complete);
                root.shut_down();
                child.shut_down();
                drop((child.guard(), late.guard()));
                let guards = [root.guard(), child.guard(), late.guard()];
                assert_eq!((root.guard_count(), root.state()), (3, ShuttingDown));
                made.lock().unwrap().extend(guards);
                let mut other = late.interrupt(pending::<()>());
                assert_eq!(now(&mut other), Some(None));
            }
        });
        let _first = begun_by(root.interrupt(pending::<()>()), &waker);
        let other = calling_once(own(&root, move |root| {
            drop((root.guard(), root.child(), root.shutting_down()))
        }));
        let _second = begun_by(root.shutting_down(), &other);
        let mut completion = root.shut_down();
        assert_eq!((child.state(), root.guard_count()), (ShuttingDown, 3));
        assert!(now(&mut completion).is_none());
        made.lock().unwrap().clear();
        assert!(now(&mut completion).is_some());
        assert_eq!((child.state(), root.state()), (Complete, Complete));
    });
}

#[test]
fn a_waker_called_by_the_last_guard_may_make_guards_and_wait() {
    within(|| {
        let root = Swansong::new();
        let child = root.child();
        let waker = calling_once({
            let (root, child) = (root.clone(), child.clone());
            move || {
                let late = child.guard();
                assert_eq!((root.state(), root.guard_count()), (ShuttingDown, 1));
                assert!(now(&mut completion_of(&root)).is_none());
                drop(late);
                assert!(now(&mut completion_of(&root)).is_some());
                drop(root.shut_down());
            }
        });
        let mut completion = begun_by(completion_of(&root), &waker);
        let guard = child.guard();
        root.shut_down();
        drop(guard);
        assert_eq!((root.state(), now(&mut completion)), (Complete, Some(())));
    });
}

#[test]
fn a_waker_called_by_a_stop_gets_no_guard_below_it() {
    within(|| {
        let root = Swansong::new();
        let below = root.child().child();
        let refused = Arc::new(Mutex::new(None));
        let waker = calling_once({
            let (below, refused) = (below.clone(), Arc::clone(&refused));
            move || *refused.lock().unwrap() = Some(below.try_guard().is_none())
        });
        let _stop = begun_by(root.shutting_down(), &waker);
        drop(below.try_guard().unwrap());
        root.shut_down();
        assert_eq!(*refused.lock().unwrap(), Some(true));
        assert_eq!((below.state(), root.state()), (Complete, Complete));
    });
}

/// There are too many waiters to be woken in one batch.
#[test]
fn a_guard_made_while_waiters_are_woken_delays_later_waiters() {
    within(|| {
        let root = Swansong::new();
        let (first, waiting) = (root.guard(), Arc::new(Mutex::new(None)));
        root.shut_down();
        let mut others: Vec<_> = (0..1000).map(|_| Watched::new(completion_of(&root))).collect();
        let waker = calling_once({
            let (root, waiting) = (root.clone(), Arc::clone(&waiting));
            move || {
                let mut later = (root.guard(), Watched::new(completion_of(&root)));
                assert!(later.1.poll().is_none());
                *waiting.lock().unwrap() = Some(later);
            }
        });
        let mut completion = begun_by(completion_of(&root), &waker);
        assert!(others.iter_mut().all(|other| other.poll().is_none()));
        drop(first);
        let (guard, mut later) = waiting.lock().unwrap().take().unwrap();
        assert!(now(&mut completion).is_some());
        assert!(later.poll().is_none(), "complete, and a guard is there");
        drop(guard);
        assert!(later.is_resolved());
        assert!(others.iter_mut().all(|other| other.is_resolved()));
    });
}

#[test]
fn a_waker_called_by_a_stop_may_drop_handles_and_interrupts() {
    within(|| {
        let root = Swansong::new();
        let above = root.child();
        let children: Vec<_> = (0..10).map(|_| above.child()).collect();
        let begin = |it: &Swansong| begun(it.interrupt(pending::<()>()));
        let waits: Vec<_> = children.iter().map(begin).collect();
        // The stop would still go through the handles and wake the interrupts.
        let waker = calling_once(move || drop((children, waits)));
        let _first = begun_by(above.interrupt(pending::<()>()), &waker);
        above.shut_down().block();
        assert_eq!((above.state(), root.state()), (Complete, Running));
    });
}

/// The waker of an interrupt holds the last handle of its root.
#[test]
fn a_waker_may_hold_the_last_handle() {
    within(|| {
        let root = Swansong::new();
        let (child, mut completion) = (root.child(), completion_of(&root));
        let interrupt = root.interrupt(pending::<()>());
        let holds = calling(move || _ = &root);
        let waits = begun_by(interrupt, &holds);
        drop(holds);
        assert_eq!(child.state(), Running);
        assert!(now(&mut completion).is_none());
        drop(waits);
        assert!(is_stopped(&child) && now(&mut completion).is_some());
    });
}

/// A future drops the last handle during a poll. The same poll ends, or the next one.
#[test]
fn an_interrupted_future_may_drop_the_last_handle() {
    within(|| {
        let root = Swansong::new();
        let mut handle = Some(root.clone());
        let mut waits = root.interrupt(std::future::poll_fn(move |_| {
            drop(handle.take());
            Poll::<()>::Pending
        }));
        drop(root);
        assert_eq!(block_on(Pin::new(&mut waits)), None);
    });
}
