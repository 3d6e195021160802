//! Iterators, each step of which looks at the stop.

use super::stop;
use crate::common::mpsc;
use crate::common::{panic_of, within};
use cygnet::shutdown::Swansong;

#[test]
fn an_iterator_ends_with_the_stop() {
    let swansong = Swansong::new();
    let mut numbers = swansong.interrupt(0..);
    assert_eq!((numbers.next(), numbers.next()), (Some(0), Some(1)));
    stop(&swansong);
    assert_eq!((numbers.next(), numbers.next()), (None, None));
    // No step was taken.
    assert_eq!(numbers.into_inner().next(), Some(2));
}

#[test]
fn an_iterator_ends_with_its_own_end_too() {
    let swansong = Swansong::new();
    assert_eq!(swansong.interrupt(0..3).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(swansong.interrupt(0..0).next(), None);
}

#[test]
fn the_stop_is_seen_in_the_middle_of_an_adaptor() {
    let swansong = Swansong::new();
    let seen: Vec<u32> = swansong
        .interrupt(0..)
        .inspect(|i| {
            if *i == 5 {
                stop(&swansong);
            }
        })
        .collect();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    assert_eq!(swansong.interrupt(0..).map(|i: u32| i + 1).sum::<u32>(), 0);
    assert_eq!(swansong.interrupt(0..).nth(3), None);
}

#[test]
fn an_iterator_may_be_shorter_than_it_says() {
    let swansong = Swansong::new();
    assert_eq!(swansong.interrupt(0..7).size_hint(), (0, Some(7)));
    assert_eq!(swansong.guarded(0..7).size_hint(), (7, Some(7)));
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

/// A step that blocks is not woken: it ends when its channel gives something, and the next one looks.
#[test]
fn a_foreign_channel_is_looked_at_between_its_steps() {
    within(|| {
        let swansong = Swansong::new();
        let (sender, receiver) = mpsc::channel();
        let (seen_by, seen) = mpsc::channel();
        let mut values = swansong.interrupt(receiver.into_iter());
        let steps = crate::common::thread::spawn(move || {
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
