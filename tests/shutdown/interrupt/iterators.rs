//! Iterators: each step looks at the stop first.

use super::stop;
use crate::common::prelude::*;
use crate::of_each_kind;
use cygnet::shutdown::Swansong;

/// S60.
#[test]
fn an_iterator_ends_with_the_stop_or_its_own_end() {
    of_each_kind(|swansong| {
        let mut numbers = swansong.interrupt(0..10);
        assert_eq!((numbers.next(), numbers.next()), (Some(0), Some(1)));
        assert_eq!(numbers.size_hint(), (0, Some(8)), "the stop may come early");
        assert_eq!(swansong.guarded(0..7).size_hint(), (7, Some(7)));
        assert_eq!(swansong.interrupt(0..3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(swansong.interrupt(0..0).next(), None);
        stop(&swansong);
        assert_eq!((numbers.next(), numbers.next()), (None, None));
        assert_eq!(numbers.into_inner(), 2..10, "no step was taken");
        assert_eq!(swansong.interrupt(0..10).count(), 0);
    });
}

#[test]
fn the_stop_is_seen_in_the_middle_of_an_adaptor() {
    let swansong = Swansong::new();
    let stop_at_5 = |i: &u32| {
        if *i == 5 {
            stop(&swansong);
        }
    };
    let seen: Vec<u32> = swansong.interrupt(0..).inspect(stop_at_5).collect();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    assert_eq!(swansong.interrupt(0..).map(|i: u32| i + 1).sum::<u32>(), 0);
    assert_eq!(swansong.interrupt(0..).nth(3), None);
}

#[test]
fn a_panic_of_a_step_changes_nothing() {
    let swansong = Swansong::new();
    let mut steps = swansong.interrupt((0..).inspect(|i| assert_ne!(*i, 1, "the step's panic")));
    assert_eq!(steps.next(), Some(0));
    assert!(panic_of(|| steps.next()).contains("the step's panic"));
    assert_eq!(steps.next(), Some(2));
    stop(&swansong);
    assert_eq!(steps.next(), None);
}

#[test]
fn values_that_a_receiver_of_std_has_not_received_stay_in_the_channel() {
    of_each_kind(|swansong| {
        let (to, from) = mpsc::channel();
        (0..4).for_each(|n| to.send(n).unwrap());
        let mut items = swansong.interrupt(from.iter());
        assert_eq!((items.next(), items.next()), (Some(0), Some(1)));
        stop(&swansong);
        assert_eq!(items.next(), None);
        assert_eq!(from.try_recv(), Ok(2));
    });
}

/// A step that blocks is not woken. The step ends with the next value, and the following step sees
/// the stop.
#[test]
fn a_foreign_channel_is_looked_at_between_its_steps() {
    within(|| {
        let swansong = Swansong::new();
        let (sender, receiver) = mpsc::channel();
        let (seen_by, seen) = mpsc::channel();
        let mut values = swansong.interrupt(receiver.into_iter());
        let steps = thread::spawn(move || {
            values.by_ref().for_each(|value| seen_by.send(value).unwrap());
            values.into_inner()
        });
        sender.send(1).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        stop(&swansong);
        (2..5).for_each(|value| sender.send(value).unwrap());
        drop(sender);
        let mut all = vec![1];
        all.extend(seen.iter());
        assert!(all.len() <= 2, "{all:?}");
        all.extend(steps.join().unwrap());
        assert_eq!(all, [1, 2, 3, 4]);
    });
}
