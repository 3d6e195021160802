//! Models of watches, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::Latest;
use crate::shim::check::{ALL, ORDERS, Stage, beside, models};
use crate::shim::thread::spawn;
use crate::sync::holder::Holder;
use crate::sync::models::slot::{a_value_and_a_cut, changed_and_asked, receive};
use crate::sync::models::{Of, Task, explore_with};
use crate::sync::slot::Slot;
use std::sync::Arc;

fn watched() -> Slot<Latest<usize>> {
    Slot::of(0, Holder::from_number(4))
}

fn send(watch: &Slot<Latest<usize>>, value: usize) {
    assert!(watch.replace(Arc::new(value), None, Holder::from_number(4)).is_ok());
}

/// Watches until the end, and returns the last value seen.
fn follow(task: Stage<Task>, watch: Of<Slot<Latest<usize>>>, mut seen: u64) -> usize {
    let mut last = 0;
    while let Ok(value) = receive(task, &watch, &mut seen, true) {
        assert!(*value > last, "{value} after {last}");
        last = *value;
    }
    last
}

/// Two receivers, so that the lock is released between the calls.
#[test]
fn loom_all_receivers_see_the_last_value_and_then_the_end() {
    explore_with(2, watched, |watch, [one, two]| {
        let seen = watch.sent();
        let [first, second] = [one, two].map(|task| spawn(move || follow(task, watch, seen)));
        send(&watch, 1);
        send(&watch, 2);
        watch.drop_sender();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (2, 2));
    });
}

fn a_value_is_sent_and_a_receiver_is_cut(leaves: bool) {
    a_value_and_a_cut(watched, |watch| watch.sent(), |watch| send(watch, 7), leaves);
}

models! {
    fn loom_a_cut_leaves_the_value_unseen() = a_value_is_sent_and_a_receiver_is_cut(true);

    fn loom_negative_a_cut_that_marks_the_value_as_seen() =
        a_value_is_sent_and_a_receiver_is_cut(false), fails: "the value is lost";
}

/// Like `WatchSender::send_modify`. Unless it `looks`, it has a fault: it ignores what others have
/// sent meanwhile.
fn add_one(watch: &Slot<Latest<usize>>, looks: bool, me: u64) {
    loop {
        let (latest, version) = watch.latest();
        let next = Arc::new(*latest + 1);
        if watch.replace(next, looks.then_some(version), Holder::from_number(me << 2)).is_ok() {
            return;
        }
    }
}

fn two_that_modify(look: bool) {
    explore_with(ALL, watched, move |watch, []| {
        beside(move || add_one(&watch, look, 2), || add_one(&watch, look, 3));
        assert_eq!(*watch.latest().0, 2, "a modification is lost");
    });
}

models! {
    fn loom_no_modification_is_lost() = two_that_modify(true);

    fn loom_negative_a_modification_that_ignores_other_sends() = two_that_modify(false),
        fails: "a modification is lost";
}

fn sent_and_asked(preemptions: usize) {
    changed_and_asked(preemptions, watched, |watch| send(watch, 1));
}

models! {
    fn loom_has_changed_shows_what_was_done_before_the_send() = sent_and_asked(ALL);

    fn loom_negative_a_watch_without_order() = sent_and_asked(3),
        without ORDERS in "sync/slot.rs", fails: "Causality violation";
}
