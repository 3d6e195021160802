//! Values with a guard.

use super::kinds::{Given, kinds};
use super::stop;
use super::values::{Answer, Value};
use crate::common::Mutex;
use crate::common::panic_of;
use cygnet::shutdown::Swansong;
use std::task::{Context, Poll, Waker};

#[test]
fn a_guarded_value_takes_no_notice_of_the_stop() {
    for kind in kinds() {
        println!("{}", kind.name);
        let swansong = Swansong::new();
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
    }
}

#[cfg(feature = "futures-io")]
#[test]
fn the_other_calls_of_futures_io_are_passed_on() {
    use futures_io::{AsyncBufRead, AsyncWrite};

    let swansong = Swansong::new();
    let (value, control) = Value::new(Answer::Ready);
    let mut value = Box::pin(swansong.guarded(value));
    stop(&swansong);
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(value.as_mut().poll_flush(cx).is_ready() && value.as_mut().poll_close(cx).is_ready());
    value.as_mut().consume(1);
    assert_eq!(control.polls(), 3);
}

#[cfg(feature = "tokio")]
#[test]
fn the_other_calls_of_tokio_are_passed_on() {
    crate::common::real!("a foreign executor with threads of its own");
    use tokio::io::{AsyncBufRead, AsyncWrite};

    let swansong = Swansong::new();
    let (value, control) = Value::new(Answer::Ready);
    let mut value = Box::pin(swansong.guarded(value));
    stop(&swansong);
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(value.as_mut().poll_flush(cx).is_ready());
    assert!(value.as_mut().poll_shutdown(cx).is_ready());
    assert!(value.is_write_vectored());
    value.as_mut().consume(1);
    assert_eq!(control.polls(), 3);
}

#[test]
fn every_clone_has_a_guard_of_its_own() {
    let swansong = Swansong::new();
    let first = swansong.guarded(vec![1]);
    let second = first.clone();
    assert_eq!(swansong.guard_count(), 2);
    assert_eq!(first.into_inner(), [1]);
    assert_eq!(swansong.guard_count(), 1);
    drop(second);
    assert_eq!(swansong.guard_count(), 0);
}

#[test]
fn two_are_equal_if_their_values_and_their_swansongs_are() {
    let [a, b] = [Swansong::new(), Swansong::new()];
    assert_eq!(a.guarded(1), a.guarded(1));
    assert_ne!(a.guarded(1), a.guarded(2));
    assert_ne!(a.guarded(1), b.guarded(1));
    assert!(format!("{:?}", a.guarded(17)).contains("17"));
}

#[test]
fn a_guarded_value_is_reached_and_iterated() {
    let swansong = Swansong::new();
    let mut numbers = swansong.guarded(vec![1]);
    numbers.push(2);
    assert_eq!((numbers.len(), &**numbers), (2, &[1, 2][..]));
    let mut sum = 0;
    for i in swansong.guarded(numbers.iter()) {
        assert_eq!(swansong.guard_count(), 2);
        stop(&swansong);
        sum += i;
    }
    assert_eq!((sum, swansong.guard_count()), (3, 1));
}

/// Notes how many guards there are when it is dropped.
struct Notes<'a>(&'a Swansong, &'a Mutex<Vec<usize>>);

impl Drop for Notes<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.guard_count());
    }
}

#[test]
fn the_destructor_of_the_value_runs_under_its_guard() {
    let (swansong, seen) = (Swansong::new(), Mutex::default());
    drop(swansong.guarded(Notes(&swansong, &seen)));
    drop(swansong.interrupt(Notes(&swansong, &seen)).guarded());
    assert_eq!(*seen.lock().unwrap(), [1, 1]);
    // `into_inner` gives up the guard.
    drop(swansong.guarded(Notes(&swansong, &seen)).into_inner());
    drop(swansong.interrupt(Notes(&swansong, &seen)).guarded().into_inner());
    assert_eq!(*seen.lock().unwrap(), [1, 1, 0, 0]);
}

/// Panics when it is dropped.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("the destructor's panic");
    }
}

#[test]
fn a_destructor_that_panics_keeps_no_guard() {
    let swansong = Swansong::new();
    let guarded = swansong.guarded(Panics);
    assert_eq!(panic_of(|| drop(guarded)), "the destructor's panic");
    let interrupt = swansong.interrupt(Panics).guarded();
    assert_eq!(panic_of(|| drop(interrupt)), "the destructor's panic");
    assert_eq!(swansong.guard_count(), 0);
}
