//! A task that has called a child in place, or has forks that others run, and somebody who cancels the task.

use super::new_record;
use crate::retire::models::{end, record_below, record_of_fork};
use crate::retire::record::{JoinedAtHome, Record};
use crate::scheduler::cancel::{cancel, link, unlink};
use crate::shim::atomic::{Ordering, fence};
use crate::shim::check::{FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use std::ptr::NonNull;

struct Call {
    /// With a reference for the canceller.
    parent: NonNull<Record>,
    child: NonNull<Record>,
}

impl Call {
    fn begin() -> Stage<Call> {
        let parent = new_record(|| (), true);
        let child = record_below(|| (), parent);
        // SAFETY: made just now.
        unsafe { child.as_ref() }.at_home.set(JoinedAtHome::Called);
        Stage::new(Call { parent, child })
    }

    fn parent(&self) -> &Record {
        // SAFETY: freed in `end`.
        unsafe { self.parent.as_ref() }
    }

    /// The child returns, as in `Claim::join`.
    fn returned(&self) {
        // SAFETY: both references are ours.
        let child = unsafe { self.child.as_ref() };
        if !child.is_last(2) {
            unlink(self.parent(), self.child);
        }
        if child.release(2) {
            // SAFETY: these were the last.
            unsafe { end(self.child) };
        }
    }

    fn end(this: Stage<Call>) {
        assert!(this.parent().release(1), "a reference to the parent is left");
        // SAFETY: that was the last; the threads have ended.
        unsafe {
            end(this.parent);
            this.end();
        }
    }
}

/// The child is about to park.
fn parks() {
    let call = Call::begin();
    let canceller = spawn(move || cancel(call.parent()));
    let told = link(call.child);
    canceller.join().unwrap();
    // SAFETY: it has not returned yet.
    let reached = unsafe { call.child.as_ref() }.wait.is_cancelled();
    assert!(reached, "the cancel has not reached the child");
    assert!(!told || call.parent().wait.is_cancelled());
    call.returned();
    Call::end(call);
}

#[test]
fn loom_a_cancel_finds_the_child_or_the_child_the_cancel() {
    explore(3, parks);
}

#[test]
#[should_panic(expected = "has not reached the child")]
fn loom_negative_a_link_and_a_cancel_without_fences() {
    plant("scheduler/cancel.rs", FENCES);
    explore(3, parks);
}

/// The child is gone at once, whoever has found it.
#[test]
fn loom_a_child_may_return_while_a_cancel_finds_it() {
    explore(3, || {
        let call = Call::begin();
        let canceller = spawn(move || cancel(call.parent()));
        link(call.child);
        call.returned();
        canceller.join().unwrap();
        Call::end(call);
    });
}

/// A task and the tasks that stand for its forks, each a fork of the one before it or all of the first.
struct Forked<const N: usize> {
    /// With a reference for the canceller.
    parent: NonNull<Record>,
    forks: [NonNull<Record>; N],
    nested: bool,
}

impl<const N: usize> Forked<N> {
    fn begin(nested: bool) -> Stage<Forked<N>> {
        let parent = new_record(|| (), true);
        let mut above = parent;
        let forks = [(); N].map(|()| {
            let fork = record_of_fork(|| (), above);
            if nested {
                above = fork;
            }
            fork
        });
        Stage::new(Forked { parent, forks, nested })
    }

    fn parent(&self) -> &Record {
        // SAFETY: freed in `end`.
        unsafe { self.parent.as_ref() }
    }

    fn parks(&self, fork: usize) -> bool {
        link(self.forks[fork])
    }

    #[track_caller]
    fn assert_reached(&self, fork: usize) {
        // SAFETY: it has not returned yet.
        let reached = unsafe { self.forks[fork].as_ref() }.wait.is_cancelled();
        assert!(reached, "the cancel has not reached the fork {fork}");
    }

    /// The fork has ended, and its owner passes by it, as in `Worker::await_proxy`.
    fn returned(&self, fork: usize) {
        let record = self.forks[fork];
        let owner = if self.nested && fork > 0 { self.forks[fork - 1] } else { self.parent };
        // SAFETY: it waits for the fork.
        unlink(unsafe { owner.as_ref() }, record);
        // SAFETY: both references are ours.
        if unsafe { record.as_ref() }.release(2) {
            // SAFETY: these were the last.
            unsafe { end(record) };
        }
    }

    fn end(this: Stage<Forked<N>>) {
        assert!(this.parent().release(1), "a reference to the parent is left");
        // SAFETY: that was the last; the threads have ended.
        unsafe {
            end(this.parent);
            this.end();
        }
    }
}

/// Two forks of one task park on two threads, while somebody cancels the task.
fn two_forks_park() {
    let tree = Forked::<2>::begin(false);
    let canceller = spawn(move || cancel(tree.parent()));
    let elsewhere = spawn(move || tree.parks(1));
    tree.parks(0);
    elsewhere.join().unwrap();
    canceller.join().unwrap();
    for fork in [0, 1] {
        tree.assert_reached(fork);
        tree.returned(fork);
    }
    Forked::end(tree);
}

#[test]
fn loom_a_cancel_finds_two_forks_that_park_at_once() {
    explore(2, two_forks_park);
}

#[test]
#[should_panic(expected = "has not reached the fork")]
fn loom_negative_two_forks_and_a_cancel_without_fences() {
    plant("scheduler/cancel.rs", FENCES);
    explore(2, two_forks_park);
}

/// A fork parks, and on another thread one that it has forked itself.
fn a_fork_and_its_fork_park(link_first: fn(&Forked<2>)) {
    let tree = Forked::<2>::begin(true);
    let canceller = spawn(move || cancel(tree.parent()));
    let elsewhere = spawn(move || tree.parks(1));
    link_first(&tree);
    elsewhere.join().unwrap();
    canceller.join().unwrap();
    tree.assert_reached(0);
    tree.assert_reached(1);
    tree.returned(1);
    tree.returned(0);
    Forked::end(tree);
}

#[test]
fn loom_a_cancel_finds_a_fork_and_its_fork_that_park_at_once() {
    let parks = |tree: &Forked<2>| {
        tree.parks(0);
    };
    explore(3, move || a_fork_and_its_fork_park(parks));
}

#[test]
#[should_panic(expected = "has not reached the fork 1")]
fn loom_negative_a_link_that_does_not_carry_the_cancel_on() {
    // As `link`, but for the cancel at its end: the fork is marked alone.
    let parks = |tree: &Forked<2>| {
        // SAFETY: it has not returned yet.
        let fork = unsafe { tree.forks[0].as_ref() };
        fork.add_reference();
        tree.parent().extras_or_new().called.lock().unwrap().push(tree.forks[0]);
        fence(Ordering::SeqCst);
        if tree.parent().wait.is_cancelled() {
            fork.wait.cancel();
        }
    };
    explore(3, move || a_fork_and_its_fork_park(parks));
}

/// A fork returns, and its owner forks again, while a cancel walks along the links of both.
#[test]
fn loom_forks_may_return_while_a_cancel_walks() {
    explore(3, || {
        let tree = Forked::<3>::begin(false);
        tree.parks(0);
        tree.parks(1);
        let canceller = spawn(move || cancel(tree.parent()));
        tree.returned(1);
        tree.parks(2);
        tree.returned(0);
        canceller.join().unwrap();
        tree.assert_reached(2);
        tree.returned(2);
        Forked::end(tree);
    });
}

/// One fork returns while another one parks on another thread, and a cancel walks.
fn one_returns_and_one_parks(unlink: fn(&Forked<2>)) {
    let tree = Forked::<2>::begin(false);
    tree.parks(0);
    let canceller = spawn(move || cancel(tree.parent()));
    let elsewhere = spawn(move || tree.parks(1));
    unlink(&tree);
    elsewhere.join().unwrap();
    canceller.join().unwrap();
    tree.assert_reached(1);
    tree.returned(1);
    Forked::end(tree);
}

#[test]
fn loom_a_fork_may_return_while_another_parks() {
    explore(2, || one_returns_and_one_parks(|tree| tree.returned(0)));
}

#[test]
#[should_panic(expected = "has not reached the fork 1")]
fn loom_negative_a_fork_that_returns_takes_the_other_links_along() {
    // As if there were a link for one child only.
    let forget_all = |tree: &Forked<2>| {
        let links = std::mem::take(&mut *tree.parent().extras().unwrap().called.lock().unwrap());
        for linked in links {
            // SAFETY: the link's reference; the model's own are left.
            unsafe { linked.as_ref() }.release(1);
        }
        tree.returned(0);
    };
    explore(2, move || one_returns_and_one_parks(forget_all));
}
