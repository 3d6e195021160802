//! Values with a guard.

use super::kinds::{Given, kinds};
use super::stop;
use super::values::{Answer, Value};
use crate::common::prelude::*;
use crate::{now, of_each_kind};
use cygnet::shutdown::ShutdownState::{Complete, ShuttingDown};
use cygnet::shutdown::Swansong;

/// S32, S33.
#[test]
fn a_guarded_value_of_each_kind_takes_no_notice_of_the_stop() {
    for kind in kinds() {
        println!("{}", kind.name);
        of_each_kind(|swansong| {
            let (value, control) = Value::new(Answer::Wait);
            let mut value = Box::pin(swansong.guarded(value));
            let mut poll =
                || (kind.of_guarded)(value.as_mut(), &mut Context::from_waker(Waker::noop()));
            for stopped in [false, true] {
                control.set(Answer::Wait);
                assert_eq!(poll(), Poll::Pending, "{stopped}");
                control.set(Answer::Ready);
                assert_eq!(poll(), Poll::Ready(Given::Value));
                stop(&swansong);
            }
            control.set(Answer::Panic);
            assert_eq!(panic_of(poll), "the value's panic");
            assert_eq!((control.polls(), swansong.guard_count()), (5, 1));
            drop(value);
            assert_eq!(swansong.guard_count(), 0);
        });
    }
}

#[test]
fn a_guarded_value_holds_a_guard_until_it_is_dropped_or_taken_out() {
    of_each_kind(|swansong| {
        let (dropped, taken) = (swansong.guarded("one"), swansong.guarded("two"));
        assert_eq!(swansong.guard_count(), 2);
        let mut completion = swansong.shut_down();
        assert_eq!(now(&mut completion), None);
        drop(dropped);
        assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 1));
        assert_eq!(now(&mut completion), None);
        assert_eq!(taken.into_inner(), "two");
        assert_eq!((now(&mut completion), swansong.state()), (Some(()), Complete));
    });
}

#[test]
fn a_guarded_value_can_be_used_like_the_value() {
    of_each_kind(|swansong| {
        let mut list = swansong.guarded(vec![1]);
        list.push(2);
        assert_eq!((list.len(), &**list), (2, &[1, 2][..]));
        assert!(format!("{list:?}").contains("[1, 2]"));
        // Each clone has a guard of its own.
        let [copy, other] = [list.clone(), list.clone()];
        assert!(copy == list);
        assert_eq!((swansong.guard_count(), copy.into_inner()), (3, vec![1, 2]));
        assert_eq!(swansong.guard_count(), 2);
        drop(other);
        assert_eq!(swansong.guard_count(), 1);
        let mut sum = 0;
        for i in swansong.guarded(list.iter()) {
            assert_eq!(swansong.guard_count(), 2);
            stop(&swansong);
            sum += i;
        }
        assert_eq!((sum, swansong.guard_count()), (3, 1));
    });
}

#[test]
fn guarded_values_are_equal_if_their_values_and_their_swansongs_are() {
    let [a, b] = [Swansong::new(), Swansong::new()];
    assert_eq!(a.guarded(1), a.guarded(1));
    assert_ne!(a.guarded(1), a.guarded(2));
    assert_ne!(a.guarded(1), b.guarded(1));
}

/// S31.
#[test]
fn the_destructor_of_the_value_runs_under_its_guard() {
    let (swansong, seen) = (Swansong::new(), Mutex::new(Vec::new()));
    // Notes the number of guards when it is dropped.
    let notes = || OnDrop(|| seen.lock().unwrap().push(swansong.guard_count()));
    drop(swansong.guarded(notes()));
    drop(swansong.interrupt(notes()).guarded());
    assert_eq!(*seen.lock().unwrap(), [1, 1]);
    // `into_inner` gives up the guard.
    drop(swansong.guarded(notes()).into_inner());
    drop(swansong.interrupt(notes()).guarded().into_inner());
    assert_eq!(*seen.lock().unwrap(), [1, 1, 0, 0]);
}

#[test]
fn a_destructor_that_panics_keeps_no_guard() {
    let swansong = Swansong::new();
    let panics = || OnDrop(|| panic!("the destructor's panic"));
    let guarded = swansong.guarded(panics());
    assert_eq!(panic_of(|| drop(guarded)), "the destructor's panic");
    let interrupt = swansong.interrupt(panics()).guarded();
    assert_eq!(panic_of(|| drop(interrupt)), "the destructor's panic");
    assert_eq!(swansong.guard_count(), 0);
}
