//! Groups whose members hand on a cancel with `?`.

use crate::common::prelude::*;
use std::error::Error;

/// A group with members that have and have not begun, and that hand on their cancel with `?`.
fn cancelled_by_hand<E: std::fmt::Debug + Send + 'static>(
    rt: &Runtime,
    fails: fn() -> Result<(), E>,
) {
    for begun in [0, 1, 4] {
        for group in [TaskGroup::fallible, || TaskGroup::fallible().fail_fast()] {
            let joined = rt.block_on(|| {
                let group = group();
                let waits = Count::new();
                for _ in 0..begun {
                    group.add(move || {
                        waits.up();
                        fails()
                    });
                }
                waits.wait(begun);
                (0..2).for_each(|_| group.add(fails));
                group.cancel_and_join("the server stops")
            });
            assert!(joined.is_ok(), "{begun} have begun: {joined:?}");
        }
    }
}

#[test]
fn a_member_that_hands_on_the_cancel_of_its_group_has_not_failed() {
    with_each(|rt| {
        cancelled_by_hand(rt, park);
        cancelled_by_hand::<JoinError>(rt, || {
            let _ = spawn(park).join()?;
            Ok(())
        });
        cancelled_by_hand(rt, || {
            // In a scope, and boxed as by `?`.
            let parked = scope(|_| park());
            parked.map_err(Box::<dyn Error + Send + Sync>::from)
        });
    });
}

#[test]
fn a_member_that_hands_on_another_cancel_than_that_of_its_group_has_failed() {
    with_each(|rt| {
        let joined = rt.block_on(|| {
            let group = TaskGroup::<(), Cancelled>::fallible();
            let ended = Flag::new();
            let seen = ended;
            group.add(move || {
                let own = scope(|s| {
                    s.cancel("its own");
                    park()
                });
                ended.set();
                own
            });
            seen.wait();
            group.cancel_and_join("the server stops")
        });
        let failed = joined.unwrap_err().into_failed().unwrap();
        assert_eq!(*failed.reason(), Reason::from("its own"));
    });
}

/// The task that has the group ignores the cancel from above it, so that cancel is not the group's.
#[test]
fn a_member_that_hands_on_a_cancel_that_is_ignored_above_its_group_has_failed() {
    with_each(|rt| {
        let (give, results) = channel();
        let above = rt.spawn(move || {
            let (me, other) = (cancel_handle(), spawn(park));
            spawn(move || {
                let joined = ignore_cancellation(|| {
                    me.cancel("from above");
                    let told = match other.join() {
                        Ok(parked) => parked,
                        Err(error) => Err(error.cancelled().unwrap().clone()),
                    };
                    let group = TaskGroup::<(), Cancelled>::fallible();
                    let hands_on = Flag::new();
                    let begins = hands_on;
                    group.add(move || {
                        begins.set();
                        told
                    });
                    hands_on.wait();
                    group.cancel_and_join("by the owner")
                });
                give.send(joined.unwrap()).unwrap();
            })
            .detach();
        });
        let failed = results.recv().unwrap().unwrap_err().into_failed().unwrap();
        assert_eq!(*failed.reason(), Reason::from("from above"));
        above.join().unwrap();
    });
}

#[test]
fn a_failure_counts_more_than_a_cancel_that_was_handed_on_before_it() {
    with_each(|rt| {
        let joined = rt.block_on(|| {
            let group = TaskGroup::<(), Box<dyn Error + Send + Sync>>::fallible();
            let (told, begun) = (Arc::new(Event::new()), Count::new());
            let (is_told, begins) = (Arc::clone(&told), begun);
            group.add(move || {
                begins.up();
                let cancelled = park();
                told.set();
                Ok(cancelled?)
            });
            let begins = begun;
            group.add(move || {
                ignore_cancellation(|| {
                    begins.up();
                    is_told.wait()
                })??;
                Err("no luck".into())
            });
            begun.wait(2);
            group.cancel("enough");
            group.join()
        });
        assert_eq!(joined.unwrap_err().into_failed().unwrap().to_string(), "no luck");
    });
}
