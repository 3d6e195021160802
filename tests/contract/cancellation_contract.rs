//! To whom a cancel goes, and from where.

use crate::common::mpsc::channel;
use crate::common::{self, give_way_until, runtime, with_each};
use crate::give_way_until_parked;
use cygnet::{
    CancelHook, Cancelled, JoinError, Reason, Task, cancel_handle, on_cancel, park, promise, scope,
    spawn, spawn_local, spawn_now, spawn_unscoped,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn contract_1_scoped_starts_are_cancelled_with_their_scope() {
    with_each(|rt| {
        let there = runtime(1);
        let pool = there.handle();
        rt.block_on(|| {
            let (before, before_there) = (common::parks(rt), common::parks(&there));
            let why = || park().unwrap_err().reason().clone();
            let (plain, at_once, local, lent, foreign, (promise, external)) = scope(|s| {
                let tasks = (
                    spawn(why),
                    spawn_now(why),
                    spawn_local(why),
                    s.lease().spawn(why),
                    pool.spawn_child(why).unwrap(),
                    promise::<Reason>(),
                );
                let scoped = s.spawn(why);
                give_way_until_parked(before, 5);
                give_way_until(|| common::parks(&there) > before_there);
                s.cancel("all of you");
                drop(scoped);
                tasks
            });
            let reason = Reason::from("all of you");
            let of = |task: Task<Reason>| task.join().unwrap();
            assert_eq!([plain, at_once, lent, foreign].map(of), [(); 4].map(|()| reason.clone()));
            assert_eq!(local.join().unwrap(), reason);
            assert!(promise.is_cancelled());
            match external.join() {
                Err(JoinError::NotStarted(why)) => assert_eq!(*why.reason(), reason),
                other => panic!("{other:?}"),
            }
        });
    });
}

#[test]
fn contract_2_unscoped_starts_are_not() {
    with_each(|rt| {
        let (give, given) = channel();
        let creator = rt.spawn(move || {
            let unscoped = spawn_unscoped(park);
            let group = cygnet::TaskGroup::detached(&cygnet::Handle::current()).unwrap();
            group.spawn(|| assert!(park().is_err()));
            give.send((unscoped, group)).unwrap();
            assert!(park().is_err());
        });
        let (unscoped, group) = given.recv().unwrap();
        creator.cancel("only the creator");
        creator.join().unwrap();
        assert!(!unscoped.is_finished() && !group.is_cancelled());
        unscoped.cancel("now");
        let why = match unscoped.join() {
            Ok(told) => told.unwrap_err(),
            Err(error) => error.cancelled().unwrap().clone(),
        };
        assert_eq!(*why.reason(), Reason::from("now"));
        group.cancel_and_join("and now").unwrap();
    });
}

#[test]
fn contract_3_hooks_are_what_other_resources_hang_on() {
    struct Connection(Arc<AtomicBool>);
    impl CancelHook for Connection {
        fn on_cancel(self: Box<Self>, _: Cancelled) {
            self.0.store(true, Ordering::Release);
        }
    }
    with_each(|rt| {
        rt.block_on(|| {
            for cancels in [true, false] {
                let cut = Arc::new(AtomicBool::new(false));
                scope(|s| {
                    on_cancel(Connection(cut.clone())).keep();
                    if cancels {
                        s.cancel("hang up");
                        assert!(cut.load(Ordering::Acquire), "when the call has returned");
                    }
                });
                assert_eq!(cut.load(Ordering::Acquire), cancels);
            }
        });
    });
}

/// Ours is more: from any thread, of any runtime or none.
#[test]
fn contract_4_a_cancel_may_come_from_anywhere() {
    with_each(|rt| {
        let other = runtime(1);
        for from in 0..4 {
            let before = common::parks(rt);
            let task = rt.spawn(|| park().unwrap_err().reason().to_string());
            common::eventually("it waits", || common::parks(rt) > before);
            let handle = task.cancel_handle();
            match from {
                0 => handle.cancel("from a plain thread"),
                1 => other.block_on(|| handle.cancel("from a task of another runtime")),
                2 => rt.block_on(|| handle.cancel("from a task of its own")),
                _ => rt.block_on(|| {
                    scope(|s| {
                        on_cancel(move |_: Cancelled| handle.cancel("from a hook")).keep();
                        s.cancel("the hook's");
                    })
                }),
            }
            assert!(task.join().unwrap().starts_with("from a "));
        }
        // And by itself.
        let itself = rt.block_on(|| {
            cancel_handle().cancel("by itself");
            park().unwrap_err().reason().clone()
        });
        assert_eq!(itself, Reason::from("by itself"));
    });
}
