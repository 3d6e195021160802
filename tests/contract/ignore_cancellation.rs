//! Sections that ignore cancellation.

use crate::common::mpsc::channel;
use crate::common::{self, with_each};
use crate::{give_way_until_parked, receive};
use cygnet::{
    Reason, cancel_handle, checkpoint, ignore_cancellation, is_cancelled, park, scope, spawn,
    timeout, unparker, yield_now,
};
use std::time::Duration;

#[test]
fn section_1_inside_cancellation_is_suppressed() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            let result = ignore_cancellation(|| {
                handle.cancel("enough");
                unparker().unpark();
                let below = spawn(|| checkpoint().is_ok());
                (
                    park().is_ok(),
                    yield_now().is_ok(),
                    checkpoint().is_ok(),
                    !is_cancelled(),
                    below.join().unwrap(),
                )
            });
            assert_eq!(result, Ok((true, true, true, true, true)));
        });
    });
}

#[test]
fn section_2_its_end_restores_it_also_by_a_panic() {
    with_each(|rt| {
        let told = rt.block_on(|| {
            let handle = cancel_handle();
            let payload = common::payload_of(|| {
                let _ = ignore_cancellation(|| {
                    handle.cancel("enough");
                    std::panic::resume_unwind(Box::new("on purpose"));
                });
            });
            assert!(payload.is_some());
            checkpoint()
        });
        assert_eq!(*told.unwrap_err().reason(), Reason::from("enough"));
    });
}

#[test]
fn enter_1_a_section_inside_a_section_counts_and_enters() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            let result = ignore_cancellation(|| {
                handle.cancel("enough");
                // Although it is marked by now.
                ignore_cancellation(|| ignore_cancellation(|| checkpoint().is_ok()))
            });
            assert_eq!(result, Ok(Ok(Ok(true))));
        });
    });
}

#[test]
fn enter_2_a_cancel_that_came_first_wins_and_entering_fails() {
    with_each(|rt| {
        rt.block_on(|| {
            cancel_handle().cancel("first");
            let refused = ignore_cancellation(|| unreachable!("it is cancelled")).unwrap_err();
            assert_eq!(*refused.reason(), Reason::from("first"));
        });
        // From above, and to one that computes.
        rt.block_on(|| {
            scope(|s| {
                s.cancel("above");
                scope(|_| {
                    let refused = ignore_cancellation(|| unreachable!("it is cancelled"));
                    assert_eq!(*refused.unwrap_err().reason(), Reason::from("above"));
                });
            });
        });
    });
}

#[test]
fn leave_1_leaving_an_inner_section_changes_nothing() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            let result = ignore_cancellation(|| {
                let inner = ignore_cancellation(|| handle.cancel("enough"));
                (inner.is_ok(), checkpoint().is_ok(), yield_now().is_ok())
            });
            assert_eq!(result, Ok((true, true, true)));
        });
    });
}

#[test]
fn leave_2_leaving_the_last_one_lets_cancels_through_again() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            ignore_cancellation(|| assert!(checkpoint().is_ok())).unwrap();
            assert!(checkpoint().is_ok(), "nothing has come meanwhile");
            handle.cancel("afterwards");
            assert!(checkpoint().is_err());
        });
    });
}

#[test]
fn leave_3_what_came_meanwhile_is_delivered_to_all_below() {
    with_each(|rt| {
        rt.block_on(|| {
            let before = common::parks(rt);
            let (give, given) = channel();
            let task = spawn(move || {
                give.send((cancel_handle(), unparker())).unwrap();
                let children = ignore_cancellation(|| {
                    let children = [(); 3].map(|()| spawn(|| park().unwrap_err().reason().clone()));
                    park().unwrap();
                    children
                });
                // Their own cancels are told, and their waits cut short; a join would be, too.
                for child in children.unwrap() {
                    child.detach();
                }
                checkpoint().unwrap_err().reason().clone()
            });
            give_way_until_parked(before, 4);
            let (handle, unparker) = receive(&given);
            handle.cancel("meanwhile");
            (0..20).for_each(|_| yield_now().unwrap());
            assert!(!task.is_finished(), "nobody has been told");
            unparker.unpark();
            assert_eq!(task.join().unwrap(), Reason::from("meanwhile"));
        });
    });
}

/// A time limit that is set inside works, as it is not what the section ignores.
#[test]
fn a_timeout_opened_inside_still_works() {
    with_each(|rt| {
        rt.block_on(|| {
            let handle = cancel_handle();
            let late = ignore_cancellation(|| {
                handle.cancel("ignored");
                timeout(Duration::from_millis(2), || park().unwrap_err().reason().clone())
            });
            assert_eq!(late.unwrap().unwrap_err().into_inner(), Reason::Deadline);
        });
    });
}
