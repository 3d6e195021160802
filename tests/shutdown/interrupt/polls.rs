//! Polls of interrupts around each kind of value.

use super::kinds::{Given, Kind, kinds};
use super::stop;
use super::values::{Answer, Control, Value};
use crate::common::prelude::*;
use crate::{Called, now, of_each_kind};
use cygnet::shutdown::{Interrupt, Swansong};

const VALUE: Poll<Given> = Poll::Ready(Given::Value);
const END: Poll<Given> = Poll::Ready(Given::End);

/// One interrupted value of one kind.
struct Subject {
    kind: Kind,
    swansong: Swansong,
    control: Control,
    value: Pin<Box<Interrupt<Value>>>,
}

impl Subject {
    fn new(kind: Kind, swansong: Swansong) -> Subject {
        let (value, control) = Value::new(Answer::Wait);
        let value = Box::pin(swansong.interrupt(value));
        Subject { kind, swansong, control, value }
    }

    fn poll(&mut self, called: &Called) -> Poll<Given> {
        (self.kind.of_interrupt)(self.value.as_mut(), &mut called.cx())
    }
}

/// Shows a behaviour of each kind of value and of Swansong.
fn of_each(show: impl Fn(Subject)) {
    for kind in kinds() {
        println!("{}", kind.name);
        of_each_kind(|swansong| show(Subject::new(kind, swansong)));
    }
}

#[test]
fn before_the_stop_an_interrupt_polls_like_its_value() {
    of_each(|mut subject| {
        let called = Called::new();
        assert_eq!(subject.poll(&called), Poll::Pending);
        subject.control.set(Answer::Ready);
        assert_eq!(subject.poll(&called), VALUE);
        assert_eq!((subject.control.polls(), called.count()), (2, 0));
    });
}

#[test]
fn an_interrupt_that_is_ready_at_once_keeps_no_waker() {
    of_each(|mut subject| {
        let called = Called::new();
        subject.control.set(Answer::Ready);
        assert_eq!((subject.poll(&called), called.kept()), (VALUE, 0));
        stop(&subject.swansong);
        assert_eq!(called.count(), 0);
    });
}

/// S62.
#[test]
fn a_waiting_interrupt_is_woken_by_the_stop_once() {
    of_each(|mut subject| {
        let called = Called::new();
        assert_eq!(subject.poll(&called), Poll::Pending);
        // The same waker is kept over polls.
        let kept = called.kept();
        for _ in 0..10 {
            assert_eq!(subject.poll(&called), Poll::Pending);
            assert_eq!(called.kept(), kept);
        }
        assert_eq!(called.count(), 0);
        stop(&subject.swansong);
        assert_eq!(called.count(), 1);
        stop(&subject.swansong);
        assert_eq!(subject.poll(&called), END);
        assert_eq!(subject.poll(&called), END);
        assert_eq!((called.count(), subject.control.polls()), (1, 11));
        drop(subject);
        assert_eq!(called.kept(), 0);
    });
}

#[test]
fn a_waiting_interrupt_is_woken_when_the_last_handle_is_gone() {
    of_each(|subject| {
        let Subject { kind, swansong, value: mut interrupt, .. } = subject;
        let called = Called::new();
        let mut poll = || (kind.of_interrupt)(interrupt.as_mut(), &mut called.cx());
        let other = swansong.clone();
        assert_eq!(poll(), Poll::Pending);
        drop(swansong);
        assert_eq!((poll(), called.count()), (Poll::Pending, 0));
        drop(other);
        assert_eq!((poll(), called.count()), (END, 1));
    });
}

/// S58, S60.
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
        // An interrupt that is made now is as late.
        let mut late = Subject::new(subject.kind, subject.swansong);
        late.control.set(Answer::Ready);
        assert_eq!((late.poll(&called), late.control.polls()), (END, 0));
    });
}

#[test]
fn an_interrupt_that_is_dropped_while_it_waits_leaves_no_waker() {
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

/// S63.
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
fn a_stop_in_the_middle_of_a_poll_is_seen_unless_the_value_is_ready() {
    type Make = fn(Swansong) -> Answer;
    let answers: [(Make, _); 2] = [(Answer::StopAndWait, END), (Answer::StopAndReady, VALUE)];
    for (answer, expected) in answers {
        of_each(|mut subject| {
            let called = Called::new();
            subject.control.set(answer(subject.swansong.clone()));
            assert_eq!(subject.poll(&called), expected);
            assert_eq!(subject.poll(&called), END);
            assert_eq!(subject.control.polls(), 1);
        });
    }
}

#[test]
fn a_panic_of_the_value_passes_through_and_changes_nothing() {
    of_each(|mut subject| {
        let called = Called::new();
        subject.control.set(Answer::Panic);
        assert_eq!(panic_of(|| subject.poll(&called)), "the value's panic");
        assert_eq!(called.kept(), 0);
        subject.control.set(Answer::Wait);
        assert_eq!(subject.poll(&called), Poll::Pending);
        subject.control.set(Answer::Panic);
        assert_eq!(panic_of(|| subject.poll(&called)), "the value's panic");
        // The waker is still known.
        stop(&subject.swansong);
        assert_eq!((subject.poll(&called), called.count()), (END, 1));
        drop(subject);
        assert_eq!(called.kept(), 0);
    });
}

/// S66, S67.
#[test]
fn a_guard_of_an_interrupt_is_held_until_it_is_dropped() {
    of_each(|subject| {
        let Subject { kind, swansong, .. } = subject;
        let called = Called::new();
        let (value, _control) = Value::new(Answer::Wait);
        let mut interrupt = Box::pin(swansong.interrupt(value).guarded().guarded());
        assert_eq!(swansong.guard_count(), 1);
        let mut poll = || (kind.of_interrupt)(interrupt.as_mut(), &mut called.cx());
        assert_eq!(poll(), Poll::Pending);
        let mut completion = swansong.shut_down();
        assert_eq!((poll(), called.count(), swansong.guard_count()), (END, 1, 1));
        assert_eq!(now(&mut completion), None);
        drop(interrupt);
        assert_eq!((swansong.guard_count(), called.kept()), (0, 0));
        assert_eq!(now(&mut completion), Some(()));
    });
}

/// S67.
#[test]
fn an_interrupt_of_a_swansong_that_is_gone_gets_no_guard() {
    let swansong = Swansong::new();
    let mut numbers = swansong.interrupt(0..);
    assert_eq!(numbers.next(), Some(0));
    drop(swansong);
    let mut numbers = numbers.guarded();
    assert_eq!(numbers.next(), None);
    assert!(format!("{numbers:?}").contains("guarded: false"), "{numbers:?}");
}

#[test]
fn interrupts_are_equal_if_their_values_and_their_swansongs_are() {
    let [a, b] = [Swansong::new(), Swansong::new()];
    assert_eq!(a.interrupt(1), a.clone().interrupt(1).guarded());
    assert_ne!(a.interrupt(1), a.interrupt(2));
    assert_ne!(a.interrupt(1), b.interrupt(1));
    // Also values of two types.
    assert!(a.interrupt("text".to_owned()) == a.interrupt("text"));
    let text = format!("{:?}", a.interrupt(vec![1]));
    assert_eq!(text, "Interrupt { value: [1], stopped: false, guarded: false }");
}

#[test]
fn the_value_is_reached_and_given_back() {
    of_each_kind(|swansong| {
        let mut interrupt = swansong.interrupt(vec![1]).guarded();
        interrupt.push(2);
        let called = Called::new();
        let mut waits = swansong.interrupt(pending::<()>());
        assert!(called.poll(Pin::new(&mut waits)).is_pending());
        // A waiting interrupt whose value is taken out is no longer woken.
        let _pending = waits.into_inner();
        assert_eq!(called.kept(), 0);
        stop(&swansong);
        assert_eq!(called.count(), 0);
        interrupt.push(3);
        assert_eq!((interrupt.len(), swansong.guard_count()), (3, 1));
        assert_eq!((interrupt.into_inner(), swansong.guard_count()), (vec![1, 2, 3], 0));
    });
}

#[cfg(feature = "futures")]
#[test]
fn a_stream_ends_with_its_own_end_too() {
    use futures_core::Stream;

    struct Counted(usize);
    impl Stream for Counted {
        type Item = usize;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<usize>> {
            let next = self.0.checked_sub(1);
            self.0 = next.unwrap_or(0);
            Poll::Ready(next)
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.0, Some(self.0))
        }
    }
    let next = |stream: &mut (dyn Stream<Item = usize> + Unpin)| {
        Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
    };
    of_each_kind(|swansong| {
        let mut interrupt = swansong.interrupt(Counted(2));
        assert_eq!(interrupt.size_hint(), (0, Some(2)), "the stop may come early");
        assert_eq!(
            [(); 3].map(|()| next(&mut interrupt)),
            [Some(1), Some(0), None].map(Poll::Ready)
        );
        let (mut begun, mut guarded) =
            (swansong.interrupt(Counted(5)), swansong.guarded(Counted(2)));
        assert_eq!(next(&mut begun), Poll::Ready(Some(4)));
        stop(&swansong);
        assert_eq!((next(&mut begun), begun.into_inner().0), (Poll::Ready(None), 4));
        assert_eq!(guarded.size_hint(), (2, Some(2)));
        assert_eq!([(); 3].map(|()| next(&mut guarded)), [Some(1), Some(0), None].map(Poll::Ready));
        assert_eq!(swansong.guard_count(), 1);
    });
}

/// The halves of a connection read and write at the same time, in two tasks.
#[cfg(any(feature = "futures-io", feature = "tokio"))]
#[test]
fn readers_and_writers_of_one_value_are_both_woken() {
    let [reads, writes]: [Vec<Kind>; 2] = ["read", "write"]
        .map(|word| kinds().into_iter().filter(|kind| kind.name.contains(word)).collect());
    assert!(!reads.is_empty() && !writes.is_empty());
    for (read, write) in reads.iter().flat_map(|read| writes.iter().map(move |write| (read, write)))
    {
        println!("{}, {}", read.name, write.name);
        let [reader, writer] = [Called::new(), Called::new()];
        let swansong = Swansong::new();
        let mut value = Box::pin(swansong.interrupt(Value::new(Answer::Wait).0));
        let mut poll =
            |kind: &Kind, called: &Called| (kind.of_interrupt)(value.as_mut(), &mut called.cx());
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

/// Flushes, closes and consumes, before the stop and after it. Each call reaches the value.
#[cfg(any(feature = "futures-io", feature = "tokio"))]
macro_rules! flush_and_close {
    ($wrap:ident, $poll_close:ident) => {
        of_each_kind(|swansong| {
            let (value, control) = Value::new(Answer::Wait);
            let mut value = Box::pin(swansong.$wrap(value));
            let called = Called::new();
            let cx = &mut called.cx();
            for stopped in [false, true] {
                control.set(Answer::Wait);
                assert!(value.as_mut().poll_flush(cx).is_pending(), "{stopped}");
                assert!(value.as_mut().$poll_close(cx).is_pending());
                control.set(Answer::Ready);
                assert!(value.as_mut().poll_flush(cx).is_ready());
                assert!(value.as_mut().$poll_close(cx).is_ready());
                value.as_mut().consume(1);
                stop(&swansong);
            }
            assert_eq!((control.polls(), called.count(), called.kept()), (10, 0, 0));
        })
    };
}

#[cfg(feature = "futures-io")]
#[test]
fn a_futures_io_writer_is_flushed_and_closed_also_after_the_stop() {
    use futures_io::{AsyncBufRead, AsyncWrite};

    flush_and_close!(interrupt, poll_close);
    flush_and_close!(guarded, poll_close);
}

#[cfg(feature = "tokio")]
#[test]
fn a_tokio_writer_is_flushed_and_shut_down_also_after_the_stop() {
    use tokio::io::{AsyncBufRead, AsyncWrite};

    flush_and_close!(interrupt, poll_shutdown);
    flush_and_close!(guarded, poll_shutdown);
    let (swansong, value) = (Swansong::new(), || Value::new(Answer::Wait).0);
    assert!(swansong.interrupt(value()).is_write_vectored());
    assert!(swansong.guarded(value()).is_write_vectored());
}

#[test]
fn no_stop_is_missed_by_tasks() {
    with_each(|rt| {
        for _ in 0..scaled_in_debug(500) {
            let swansong = Swansong::new();
            let tasks = [(); 4].map(|()| {
                let pending = swansong.interrupt(pending::<()>()).guarded();
                rt.spawn(move || cygnet::wait(pending))
            });
            stop(&swansong);
            assert_eq!(join_all(tasks), vec![Ok(None); 4]);
            assert_eq!(swansong.guard_count(), 0);
        }
    });
}
