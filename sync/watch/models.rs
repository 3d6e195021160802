//! Models of watches, run by ci/loom.sh. See `sync::models` for what a task is in a model.

use super::state::{Changing, Shared};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::TryRecvError;
use crate::sync::holder::Holder;
use crate::sync::models::{Task, enter};
use std::sync::Arc;

fn watched() -> Stage<Shared<usize>> {
    Stage::new(Shared::new(0, Holder::from_number(4)))
}

fn send(watch: Stage<Shared<usize>>, value: usize) {
    assert!(watch.replace(Arc::new(value), None, Holder::from_number(4)).is_ok());
}

/// Like `WatchReceiver::changed`; the caller has introduced the task. Unless it `leaves` the value,
/// it has a fault: a receiver that is cut has seen the value that is there.
fn changed(
    task: Stage<Task>,
    watch: Stage<Shared<usize>>,
    seen: &mut u64,
    leaves: bool,
) -> Result<usize, TryRecvError> {
    let mut tried = watch.newer(*seen);
    if let Err(TryRecvError::Empty) = tried {
        if enter(task, &Changing { shared: &*watch, seen: *seen }, 0).is_none() {
            if !leaves {
                *seen = watch.version();
            }
            return Err(TryRecvError::Empty);
        }
        tried = watch.newer(*seen);
        assert!(!matches!(tried, Err(TryRecvError::Empty)), "a called receiver found nothing");
    }
    let (value, version) = tried?;
    *seen = version;
    Ok(*value)
}

fn end(watch: Stage<Shared<usize>>) {
    assert!(watch.places().is_empty(), "a waiter is left in the list");
    // SAFETY: the threads have ended, so the watch has no other user.
    unsafe { watch.end() };
}

/// Watches until the end, and returns the last value seen.
fn follow(task: Stage<Task>, watch: Stage<Shared<usize>>, mut seen: u64) -> usize {
    task.introduce();
    let mut last = 0;
    while let Ok(value) = changed(task, watch, &mut seen, true) {
        assert!(value > last, "{value} after {last}");
        last = value;
    }
    last
}

/// Two receivers, so that the lock is released between the calls.
#[test]
fn loom_all_receivers_see_the_last_value_and_then_the_end() {
    explore(2, || {
        let (watch, tasks) = (watched(), [Task::new(), Task::new()]);
        let seen = watch.version();
        let [first, second] = tasks.map(|task| spawn(move || follow(task, watch, seen)));
        send(watch, 1);
        send(watch, 2);
        watch.drop_sender();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (2, 2));
        tasks.into_iter().for_each(Task::end);
        end(watch);
    });
}

/// A value is sent, and a receiver is cut at any moment: it sees the value, or a later look does.
fn a_value_and_a_cut(leaves: bool) {
    let (watch, task) = (watched(), Task::new());
    let mut seen = watch.version();
    let watches = spawn(move || {
        task.introduce();
        let first = changed(task, watch, &mut seen, leaves);
        (first, seen)
    });
    // While the call is on its way.
    let cuts = spawn(move || task.interrupt());
    send(watch, 7);
    cuts.join().unwrap();
    let (first, seen) = watches.join().unwrap();
    let later = watch.newer(seen).map(|(value, _)| *value);
    match first {
        Ok(7) => assert_eq!(later, Err(TryRecvError::Empty)),
        _ => assert_eq!(later, Ok(7), "the value is lost"),
    }
    Task::end(task);
    end(watch);
}

#[test]
fn loom_a_cut_leaves_the_value_unseen() {
    explore(ALL, || a_value_and_a_cut(true));
}

#[test]
#[should_panic(expected = "the value is lost")]
fn loom_negative_a_cut_that_marks_the_value_as_seen() {
    explore(ALL, || a_value_and_a_cut(false));
}

/// Like `WatchSender::send_modify`. Unless it `looks`, it has a fault: it ignores what others have
/// sent meanwhile.
fn add_one(watch: Stage<Shared<usize>>, looks: bool, me: u64) {
    loop {
        let (latest, version) = watch.latest();
        let next = Arc::new(*latest + 1);
        if watch.replace(next, looks.then_some(version), Holder::from_number(me << 2)).is_ok() {
            return;
        }
    }
}

fn two_that_modify(look: bool) {
    let watch = watched();
    let other = spawn(move || add_one(watch, look, 2));
    add_one(watch, look, 3);
    other.join().unwrap();
    assert_eq!(*watch.latest().0, 2, "a modification is lost");
    end(watch);
}

#[test]
fn loom_no_modification_is_lost() {
    explore(ALL, || two_that_modify(true));
}

#[test]
#[should_panic(expected = "a modification is lost")]
fn loom_negative_a_modification_that_ignores_other_sends() {
    explore(ALL, || two_that_modify(false));
}

/// A caller that sees the change without the lock also sees what was done before it.
fn sent_and_asked() {
    let (watch, done) = (watched(), Stage::new(Baton::new()));
    let seen = watch.version();
    let asks = spawn(move || {
        if watch.version() > seen {
            assert_eq!(done.read(), 1);
        }
    });
    done.write();
    send(watch, 1);
    asks.join().unwrap();
    end(watch);
    // SAFETY: the threads have ended, so the baton has no other user.
    unsafe { done.end() };
}

#[test]
fn loom_has_changed_shows_what_was_done_before_the_send() {
    explore(ALL, sent_and_asked);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_watch_without_order() {
    plant("sync/watch/state.rs", ORDERS);
    explore(3, sent_and_asked);
}
