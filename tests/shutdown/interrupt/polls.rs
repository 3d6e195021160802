//! What is polled: of each kind.

use super::kinds::{Given, Kind, kinds};
use super::values::{Answer, Control, Value};
use super::{Called, stop};
use crate::common::Barrier;
use crate::common::{Random, panic_of, scaled_in_debug, with_each, within};
use cygnet::shutdown::{Interrupt, Swansong};
use std::pin::Pin;
use std::task::{Context, Poll};

const VALUE: Poll<Given> = Poll::Ready(Given::Value);
const END: Poll<Given> = Poll::Ready(Given::End);

/// One value of one kind, and how it is polled.
struct Subject {
    kind: Kind,
    swansong: Swansong,
    control: Control,
    value: Pin<Box<Interrupt<Value>>>,
}

impl Subject {
    fn poll(&mut self, called: &Called) -> Poll<Given> {
        (self.kind.of_interrupt)(self.value.as_mut(), &mut Context::from_waker(&called.1))
    }
}

/// Shows something of each kind.
fn of_each(show: impl Fn(Subject)) {
    for kind in kinds() {
        println!("{}", kind.name);
        let swansong = Swansong::new();
        let (value, control) = Value::new(Answer::Wait);
        let value = Box::pin(swansong.interrupt(value));
        show(Subject { kind, swansong, control, value });
    }
}

#[test]
fn before_the_stop_each_is_what_its_value_is() {
    of_each(|mut subject| {
        let called = Called::new();
        assert_eq!(subject.poll(&called), Poll::Pending);
        subject.control.set(Answer::Ready);
        assert_eq!(subject.poll(&called), VALUE);
        assert_eq!((subject.control.polls(), called.count()), (2, 0));
    });
}

#[test]
fn one_that_is_ready_at_once_keeps_no_waker() {
    of_each(|mut subject| {
        let called = Called::new();
        subject.control.set(Answer::Ready);
        assert_eq!((subject.poll(&called), called.kept()), (VALUE, 0));
        stop(&subject.swansong);
        assert_eq!(called.count(), 0);
    });
}

#[test]
fn who_waits_is_woken_by_the_stop_once() {
    of_each(|mut subject| {
        let called = Called::new();
        assert_eq!(subject.poll(&called), Poll::Pending);
        assert_eq!(called.count(), 0);
        stop(&subject.swansong);
        assert_eq!(called.count(), 1);
        stop(&subject.swansong);
        assert_eq!(subject.poll(&called), END);
        assert_eq!(subject.poll(&called), END);
        assert_eq!((called.count(), subject.control.polls()), (1, 1));
        drop(subject);
        assert_eq!(called.kept(), 0);
    });
}

#[test]
fn who_waits_is_woken_when_the_last_handle_is_gone() {
    of_each(|subject| {
        let Subject { kind, swansong, value: mut interrupt, .. } = subject;
        let called = Called::new();
        let mut poll =
            || (kind.of_interrupt)(interrupt.as_mut(), &mut Context::from_waker(&called.1));
        let other = swansong.clone();
        assert_eq!(poll(), Poll::Pending);
        drop(swansong);
        assert_eq!((poll(), called.count()), (Poll::Pending, 0));
        drop(other);
        assert_eq!((poll(), called.count()), (END, 1));
    });
}

#[test]
fn after_the_stop_no_value_is_polled() {
    of_each(|mut subject| {
        let called = Called::new();
        subject.control.set(Answer::Ready);
        stop(&subject.swansong);
        for _ in 0..3 {
            assert_eq!(subject.poll(&called), END);
        }
        assert_eq!((subject.control.polls(), called.count(), called.kept()), (0, 0, 0));
        // One that is made now is as late.
        let (value, control) = Value::new(Answer::Ready);
        let mut late = Box::pin(subject.swansong.interrupt(value));
        let cx = &mut Context::from_waker(&called.1);
        assert_eq!(((subject.kind.of_interrupt)(late.as_mut(), cx), control.polls()), (END, 0));
    });
}

#[test]
fn one_that_is_dropped_while_it_waits_leaves_no_waker() {
    of_each(|mut subject| {
        let called = Called::new();
        assert_eq!(subject.poll(&called), Poll::Pending);
        assert!(called.kept() > 0);
        let swansong = subject.swansong.clone();
        drop(subject);
        assert_eq!(called.kept(), 0);
        stop(&swansong);
        assert_eq!(called.count(), 0);
    });
}

#[test]
fn the_waker_of_the_last_poll_is_called() {
    of_each(|mut subject| {
        let [first, second] = [Called::new(), Called::new()];
        assert_eq!(subject.poll(&first), Poll::Pending);
        assert_eq!(subject.poll(&second), Poll::Pending);
        assert_eq!(first.kept(), 0);
        stop(&subject.swansong);
        assert_eq!((first.count(), second.count()), (0, 1));
    });
}

#[test]
fn the_same_waker_is_kept_over_polls() {
    of_each(|mut subject| {
        let called = Called::new();
        assert_eq!(subject.poll(&called), Poll::Pending);
        let kept = called.kept();
        for _ in 0..10 {
            assert_eq!(subject.poll(&called), Poll::Pending);
            assert_eq!(called.kept(), kept);
        }
        stop(&subject.swansong);
        assert_eq!(called.count(), 1);
    });
}

#[test]
fn a_stop_in_the_middle_of_a_poll_is_seen_by_it() {
    of_each(|mut subject| {
        let called = Called::new();
        subject.control.set(Answer::StopAndWait(subject.swansong.clone()));
        assert_eq!(subject.poll(&called), END);
        assert_eq!(subject.control.polls(), 1);
    });
}

#[test]
fn what_is_ready_when_the_stop_comes_is_given_out() {
    of_each(|mut subject| {
        let called = Called::new();
        subject.control.set(Answer::StopAndReady(subject.swansong.clone()));
        assert_eq!(subject.poll(&called), VALUE);
        assert_eq!(subject.poll(&called), END);
    });
}

#[test]
fn a_panic_of_the_value_goes_through_and_changes_nothing() {
    of_each(|mut subject| {
        let called = Called::new();
        subject.control.set(Answer::Panic);
        assert_eq!(panic_of(|| subject.poll(&called)), "the value's panic");
        assert_eq!(called.kept(), 0);
        subject.control.set(Answer::Wait);
        assert_eq!(subject.poll(&called), Poll::Pending);
        subject.control.set(Answer::Panic);
        assert_eq!(panic_of(|| subject.poll(&called)), "the value's panic");
        // It is still known who waits.
        stop(&subject.swansong);
        assert_eq!((subject.poll(&called), called.count()), (END, 1));
        drop(subject);
        assert_eq!(called.kept(), 0);
    });
}

#[test]
fn a_guard_of_an_interrupt_is_held_until_it_is_dropped() {
    of_each(|subject| {
        let Subject { kind, swansong, .. } = subject;
        let called = Called::new();
        let (value, _control) = Value::new(Answer::Wait);
        let mut interrupt = Box::pin(swansong.interrupt(value).guarded().guarded());
        assert_eq!(swansong.guard_count(), 1);
        let mut poll =
            || (kind.of_interrupt)(interrupt.as_mut(), &mut Context::from_waker(&called.1));
        assert_eq!(poll(), Poll::Pending);
        stop(&swansong);
        assert_eq!((poll(), swansong.guard_count()), (END, 1));
        drop(interrupt);
        assert_eq!((swansong.guard_count(), called.kept()), (0, 0));
    });
}

#[test]
fn one_of_a_swansong_that_is_gone_gets_no_guard() {
    let swansong = Swansong::new();
    let mut numbers = swansong.interrupt(0..);
    assert_eq!(numbers.next(), Some(0));
    drop(swansong);
    let mut numbers = numbers.guarded();
    assert_eq!(numbers.next(), None);
    assert!(format!("{numbers:?}").contains("guarded: false"), "{numbers:?}");
}

#[test]
fn two_are_equal_if_their_values_and_their_swansongs_are() {
    let [a, b] = [Swansong::new(), Swansong::new()];
    assert_eq!(a.interrupt(1), a.clone().interrupt(1).guarded());
    assert_ne!(a.interrupt(1), a.interrupt(2));
    assert_ne!(a.interrupt(1), b.interrupt(1));
    // As the values are, of two types too.
    assert!(a.interrupt("text".to_owned()) == a.interrupt("text"));
    let interrupt = a.interrupt(vec![1]);
    assert_eq!(
        format!("{interrupt:?}"),
        "Interrupt { value: [1], stopped: false, guarded: false }"
    );
}

#[test]
fn the_value_is_reached_and_given_back() {
    let swansong = Swansong::new();
    let mut interrupt = swansong.interrupt(vec![1]).guarded();
    interrupt.push(2);
    stop(&swansong);
    interrupt.push(3);
    assert_eq!((interrupt.len(), swansong.guard_count()), (3, 1));
    assert_eq!((interrupt.into_inner(), swansong.guard_count()), (vec![1, 2, 3], 0));
    // One that was pending is no longer woken.
    let swansong = Swansong::new();
    let called = Called::new();
    let mut interrupt = swansong.interrupt(std::future::pending::<()>());
    let cx = &mut Context::from_waker(&called.1);
    assert!(Pin::new(&mut interrupt).poll(cx).is_pending());
    let _pending = interrupt.into_inner();
    assert_eq!(called.kept(), 0);
    stop(&swansong);
    assert_eq!(called.count(), 0);
}

#[cfg(feature = "futures")]
#[test]
fn a_stream_may_be_shorter_than_it_says() {
    use futures_core::Stream;

    let swansong = Swansong::new();
    let [(value, _), (other, _)] = [Value::new(Answer::Wait), Value::new(Answer::Wait)];
    assert_eq!(swansong.interrupt(value).size_hint(), (0, Some(5)));
    assert_eq!(swansong.guarded(other).size_hint(), (3, Some(5)));
}

/// Reads and writes that wait at the same time, as the halves of a connection do in two tasks.
#[cfg(any(feature = "futures-io", feature = "tokio"))]
#[test]
fn who_reads_and_who_writes_are_both_woken() {
    let [reads, writes]: [Vec<Kind>; 2] = ["read", "write"]
        .map(|word| kinds().into_iter().filter(|kind| kind.name.contains(word)).collect());
    assert!(!reads.is_empty() && !writes.is_empty());
    for (read, write) in reads.iter().flat_map(|read| writes.iter().map(move |write| (read, write)))
    {
        println!("{}, {}", read.name, write.name);
        let [reader, writer] = [Called::new(), Called::new()];
        let swansong = Swansong::new();
        let mut value = Box::pin(swansong.interrupt(Value::new(Answer::Wait).0));
        let mut poll = |kind: &Kind, called: &Called| {
            (kind.of_interrupt)(value.as_mut(), &mut Context::from_waker(&called.1))
        };
        for _ in 0..3 {
            assert_eq!(poll(read, &reader), Poll::Pending);
            assert_eq!(poll(write, &writer), Poll::Pending);
        }
        stop(&swansong);
        assert_eq!((reader.count(), writer.count()), (1, 1));
        assert_eq!((poll(read, &reader), poll(write, &writer)), (END, END));
        drop(value);
        assert_eq!((reader.kept(), writer.kept()), (0, 0));
    }
}

#[cfg(feature = "futures-io")]
#[test]
fn by_futures_io_what_was_written_is_flushed_and_closed_also_after_the_stop() {
    use futures_io::{AsyncBufRead, AsyncWrite};

    let swansong = Swansong::new();
    let (value, control) = Value::new(Answer::Wait);
    let mut value = Box::pin(swansong.interrupt(value));
    let called = Called::new();
    let cx = &mut Context::from_waker(&called.1);
    for stopped in [false, true] {
        control.set(Answer::Wait);
        assert!(value.as_mut().poll_flush(cx).is_pending(), "{stopped}");
        assert!(value.as_mut().poll_close(cx).is_pending());
        control.set(Answer::Ready);
        assert!(value.as_mut().poll_flush(cx).is_ready());
        assert!(value.as_mut().poll_close(cx).is_ready());
        value.as_mut().consume(1);
        stop(&swansong);
    }
    // They wait for the value alone.
    assert_eq!((control.polls(), called.count(), called.kept()), (10, 0, 0));
}

#[cfg(feature = "tokio")]
#[test]
fn by_tokio_what_was_written_is_flushed_and_closed_also_after_the_stop() {
    crate::common::real!("a foreign executor with threads of its own");
    use tokio::io::{AsyncBufRead, AsyncWrite};

    let swansong = Swansong::new();
    let (value, control) = Value::new(Answer::Wait);
    let mut value = Box::pin(swansong.interrupt(value));
    assert!(value.is_write_vectored());
    let called = Called::new();
    let cx = &mut Context::from_waker(&called.1);
    for stopped in [false, true] {
        control.set(Answer::Wait);
        assert!(value.as_mut().poll_flush(cx).is_pending(), "{stopped}");
        assert!(value.as_mut().poll_shutdown(cx).is_pending());
        control.set(Answer::Ready);
        assert!(value.as_mut().poll_flush(cx).is_ready());
        assert!(value.as_mut().poll_shutdown(cx).is_ready());
        value.as_mut().consume(1);
        stop(&swansong);
    }
    assert_eq!((control.polls(), called.count(), called.kept()), (10, 0, 0));
}

/// Threads that wait, in the middle of whose polls the stop may come.
#[test]
fn no_stop_is_missed_by_threads() {
    within(|| {
        let mut random = Random(11);
        for _ in 0..scaled_in_debug(2_000) {
            let swansong = Swansong::new();
            let barrier = Barrier::new(3);
            let delays = [random.below(200), random.below(200), random.below(200)];
            crate::common::thread::scope(|s| {
                for delay in &delays[..2] {
                    let pending = swansong.interrupt(std::future::pending::<()>());
                    let barrier = &barrier;
                    s.spawn(move || {
                        barrier.wait();
                        (0..*delay).for_each(|_| crate::common::spin_loop());
                        assert_eq!(cygnet::wait(pending), Ok(None));
                    });
                }
                barrier.wait();
                (0..delays[2]).for_each(|_| crate::common::spin_loop());
                stop(&swansong);
            });
        }
    });
}

#[test]
fn no_stop_is_missed_by_tasks() {
    with_each(|rt| {
        for _ in 0..scaled_in_debug(500) {
            let swansong = Swansong::new();
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let pending = swansong.interrupt(std::future::pending::<()>()).guarded();
                    rt.spawn(move || cygnet::wait(pending))
                })
                .collect();
            stop(&swansong);
            for task in tasks {
                assert_eq!(task.join().unwrap(), Ok(None));
            }
            assert_eq!(swansong.guard_count(), 0);
        }
    });
}
