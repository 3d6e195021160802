//! 3.2: what wraps something. Reading and writing are in files of their own.

use super::{Watched, now, of_each_kind};
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::task::Poll;

#[test]
fn s3_2_a_guarded_value_holds_a_guard_until_it_is_dropped_or_taken_out() {
    of_each_kind(|swansong| {
        let (dropped, taken) = (swansong.guarded("one"), swansong.guarded("two"));
        assert_eq!(swansong.guard_count(), 2);
        let mut completion = Watched::new(swansong.shut_down());
        assert!(completion.poll().is_none());
        drop(dropped);
        assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 1));
        assert_eq!(taken.into_inner(), "two");
        assert!(completion.is_woken() && completion.poll().is_some());
    });
}

#[test]
fn s3_2_a_guarded_value_is_used_as_if_it_were_not() {
    of_each_kind(|swansong| {
        let mut list = swansong.guarded(vec![1]);
        list.push(2);
        assert_eq!((list.len(), &list[..]), (2, &[1, 2][..]));
        // Each clone is a guard.
        let copy = list.clone();
        assert!(copy == list);
        assert_eq!((swansong.guard_count(), copy.into_inner()), (2, vec![1, 2]));
        assert!(format!("{list:?}").contains("[1, 2]"));

        let mut future = swansong.guarded(ready(3));
        assert_eq!(now(&mut future), Some(3));
        // It is not stopped by the stop.
        let mut waits = swansong.guarded(pending::<()>());
        swansong.shut_down();
        assert_eq!(now(&mut waits), None);
        assert_eq!(swansong.guard_count(), 3);
    });
}

#[cfg(feature = "futures")]
#[test]
fn s3_2_a_guarded_stream_passes_through() {
    of_each_kind(|swansong| {
        let mut stream = swansong.guarded(Counted(3));
        swansong.shut_down();
        assert_eq!(collect(&mut stream), [2, 1, 0]);
        assert_eq!(futures_core::Stream::size_hint(&stream), (0, Some(0)));
        assert_eq!(swansong.guard_count(), 1);
    });
}

#[test]
fn s3_2_an_interrupted_future_gives_its_output_or_none() {
    of_each_kind(|swansong| {
        assert_eq!(now(&mut swansong.interrupt(ready(1))), Some(Some(1)));
        let mut waits = Watched::new(swansong.interrupt(pending::<i32>()));
        assert_eq!(waits.poll(), None);
        assert!(!waits.is_woken());
        swansong.shut_down();
        assert!(waits.is_woken());
        assert_eq!(waits.poll(), Some(None));
        // What has never been polled, and what is wrapped after the stop.
        assert_eq!(now(&mut swansong.interrupt(pending::<i32>())), Some(None));
    });
}

#[cfg(feature = "futures")]
#[test]
fn s3_2_an_interrupted_stream_gives_items_or_none() {
    use futures_core::Stream;
    use std::pin::Pin;
    use std::task::Context;
    struct Never;
    impl Stream for Never {
        type Item = ();
        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<()>> {
            Poll::Pending
        }
    }
    of_each_kind(|swansong| {
        assert_eq!(collect(&mut swansong.interrupt(Counted(2))), [1, 0]);
        let mut under_way = swansong.interrupt(Counted(5));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(Pin::new(&mut under_way).poll_next(&mut cx), Poll::Ready(Some(4)));
        let mut never = Box::pin(swansong.interrupt(Never));
        let (wakes, waker) = super::Wakes::waker();
        assert!(never.as_mut().poll_next(&mut Context::from_waker(&waker)).is_pending());
        swansong.shut_down();
        assert_eq!(wakes.get(), 1);
        assert_eq!(never.as_mut().poll_next(&mut cx), Poll::Ready(None));
        assert_eq!(collect(&mut under_way), []);
        assert_eq!((under_way.0, under_way.size_hint().0), (4, 0), "what was left stays");
    });
}

#[test]
fn s3_2_an_interrupted_iterator_gives_items_or_none() {
    of_each_kind(|swansong| {
        let mut items = swansong.interrupt(0..10);
        assert_eq!((items.next(), items.next()), (Some(0), Some(1)));
        assert_eq!(items.size_hint(), (0, Some(8)));
        swansong.shut_down();
        assert_eq!((items.next(), items.next()), (None, None));
        assert_eq!(items.into_inner(), 2..10, "nothing was taken");
        assert_eq!(swansong.interrupt(0..10).count(), 0);
    });
}

#[test]
fn s3_2_an_interrupt_looks_before_it_delegates() {
    of_each_kind(|swansong| {
        let calls = Cell::new(0);
        let call = || calls.set(calls.get() + 1);
        let mut future = swansong.interrupt(poll_fn(|_| {
            call();
            Poll::<()>::Pending
        }));
        let mut items = swansong.interrupt(std::iter::repeat_with(call));
        assert!(now(&mut future).is_none() && items.next().is_some());
        assert_eq!(calls.get(), 2);
        swansong.shut_down();
        assert_eq!((now(&mut future), items.next()), (Some(None), None));
        assert_eq!(
            now(&mut swansong.interrupt(poll_fn(|_| Poll::Ready(calls.take())))),
            Some(None)
        );
        assert_eq!(calls.get(), 2, "nothing is asked after the stop");
    });
}

#[test]
fn s3_2_an_interrupt_goes_with_whoever_polled_it_last() {
    of_each_kind(|swansong| {
        let mut waits = Watched::new(swansong.interrupt(pending::<()>()));
        assert!(waits.poll().is_none());
        let first = std::mem::replace(&mut waits, Watched::new(swansong.interrupt(pending())));
        let mut moved = Watched::new(first.future);
        assert!(moved.poll().is_none());
        // And one that is dropped while it waits is woken by nothing.
        assert!(waits.poll().is_none());
        let wakes = waits.wakes.clone();
        drop(waits);
        swansong.shut_down();
        assert_eq!((first.wakes.get(), moved.wakes.get(), wakes.get()), (0, 1, 0));
    });
}

#[test]
fn s3_2_an_interrupt_may_hold_a_guard_too() {
    of_each_kind(|swansong| {
        let mut waits = Watched::new(swansong.interrupt(pending::<()>()).guarded());
        let taken = swansong.interrupt(7).guarded();
        assert_eq!((swansong.state(), swansong.guard_count()), (Running, 2));
        assert!(waits.poll().is_none());
        let mut completion = Watched::new(swansong.shut_down());
        assert!(completion.poll().is_none());
        assert!(waits.is_woken());
        assert_eq!(waits.poll(), Some(None));
        // It is the wrapper that holds it, also when it has ended.
        assert_eq!((swansong.state(), swansong.guard_count()), (ShuttingDown, 2));
        drop(waits);
        assert_eq!((swansong.guard_count(), taken.into_inner()), (1, 7));
        assert!(completion.is_woken() && completion.poll().is_some());
        // Twice guarded is guarded once.
        let twice = swansong.interrupt(()).guarded().guarded();
        assert_eq!(swansong.guard_count(), 1);
        drop(twice);
        assert_eq!(swansong.state(), Complete);
    });
}

#[test]
fn s3_2_an_interrupt_without_a_guard_delays_nothing() {
    of_each_kind(|swansong| {
        let mut waits = Watched::new(swansong.interrupt(pending::<()>()));
        assert!(waits.poll().is_none());
        assert_eq!(swansong.guard_count(), 0);
        assert!(now(&mut swansong.shut_down()).is_some());
        assert_eq!(swansong.state(), Complete);
    });
}

/// Counts down to zero.
#[cfg(feature = "futures")]
#[derive(Debug)]
struct Counted(usize);

#[cfg(feature = "futures")]
impl futures_core::Stream for Counted {
    type Item = usize;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<usize>> {
        let next = self.0.checked_sub(1);
        self.0 = next.unwrap_or(0);
        Poll::Ready(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0, Some(self.0))
    }
}

/// What a stream gives without a wait.
#[cfg(feature = "futures")]
fn collect<S: futures_core::Stream + Unpin>(stream: &mut S) -> Vec<S::Item> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut items = Vec::new();
    while let Poll::Ready(Some(item)) = std::pin::Pin::new(&mut *stream).poll_next(&mut cx) {
        items.push(item);
    }
    items
}
