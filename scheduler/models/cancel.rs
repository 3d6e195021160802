//! A task that is about to wait, and somebody who cancels it.

use super::new_record;
use crate::retire::branch::{Branch, link, unlink};
use crate::retire::cause::Cause;
use crate::retire::extras::Extras;
use crate::retire::models::{Processor, end, record_below};
use crate::retire::record::Record;
use crate::retire::tree::Cancel;
use crate::retire::wait::{Publish, WaitKind, Woken};
use crate::scheduler::cancel::{cancel_all, cancel_branch};
use crate::scheduler::root::Root;
use crate::shim::atomic::live_atomics;
use crate::shim::check::{FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use std::ptr::NonNull;

struct Waiter {
    task: NonNull<Record>,
    processor: Processor,
}

impl Waiter {
    fn task(&self) -> &Record {
        // SAFETY: freed at the end of the model.
        unsafe { self.task.as_ref() }
    }

    /// As `Worker::lie_down` and `Worker::wait`; whether the wait has ended with a grant.
    fn waits(&self) -> bool {
        let (word, wait) = (self.task().node.word(), &self.task().wait);
        if word.is_marked() {
            return false;
        }
        if wait.publish(WaitKind::Grant) == Publish::Ready {
            return true;
        }
        if word.is_cancelled_in_total_order() && wait.cut() {
            return false;
        }
        self.processor.suspend();
        wait.woken() == Woken::Granted
    }

    /// As `scheduler::cancel::cancel`, of a node without children.
    fn cancel(&self) {
        assert_eq!(self.task().node.word().cancel(), Cancel::First);
        if self.task().wait.cut() {
            self.processor.resume();
        }
    }
}

/// The wait is granted as well, if `granted`: by whom it was ended, each one knows.
fn wait_and_cancel(granted: bool) {
    let waiter = Stage::new(Waiter { task: new_record(|| (), true), processor: Processor::new() });
    waiter.processor.introduce();
    let canceller = spawn(move || waiter.cancel());
    let granter = granted.then(|| {
        spawn(move || {
            let duty = waiter.task().wait.grant();
            if duty {
                waiter.processor.resume();
            }
            duty
        })
    });
    let ended_by_grant = waiter.waits();
    canceller.join().unwrap();
    let woken_by_grant = granter.is_some_and(|granter| granter.join().unwrap());
    assert!(ended_by_grant || !woken_by_grant, "the granter has woken one that was cut");
    assert!(!waiter.task().wait.is_parked());
    assert!(waiter.processor.wakes() <= 1, "queued twice");
    // SAFETY: the threads have ended, and the record has one reference.
    unsafe {
        assert!(waiter.task().release(1));
        end(waiter.task);
        waiter.end();
    }
}

#[test]
fn loom_a_wait_is_cut_or_sees_that_it_is_cancelled() {
    explore(3, || wait_and_cancel(false));
}

#[test]
fn loom_a_grant_or_a_cancel_ends_a_wait_and_not_both() {
    explore(3, || wait_and_cancel(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_canceller_that_looks_for_a_waiter_before_its_mark_is_seen() {
    plant("retire/wait.rs", FENCES);
    explore(3, || wait_and_cancel(false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_waiter_that_does_not_look_again() {
    explore(3, || {
        let waiter =
            Stage::new(Waiter { task: new_record(|| (), true), processor: Processor::new() });
        waiter.processor.introduce();
        let canceller = spawn(move || waiter.cancel());
        // As `waits`, without the second look.
        if !waiter.task().node.word().is_marked() {
            assert_eq!(waiter.task().wait.publish(WaitKind::Grant), Publish::Parked);
            waiter.processor.suspend();
        }
        canceller.join().unwrap();
    });
}

/// Somebody's handle to a branch.
struct Handle(NonNull<Branch>);

impl Handle {
    fn cancel_and_drop(&self) {
        // SAFETY: the handle, given up at the end.
        unsafe {
            cancel_branch(self.0.as_ref(), Some(Cause::shut_down()));
            Branch::release_handle(self.0);
        }
    }
}

/// A node ends while somebody who has a handle to its branch cancels it, and maybe a walk comes.
fn end_and_cancel(walk: bool) {
    let before = live_atomics();
    let root = Stage::new(Root::new(1));
    let task = record_below(|| (), &raw const root.node);
    // SAFETY: it has not ended.
    let node = unsafe { &task.as_ref().node };
    // SAFETY: as above.
    unsafe { link(node, |_, node| root.branch_for(node), |_| (), |_| ()) };
    let extras: *const Extras = node.extras().unwrap();
    // SAFETY: as above.
    unsafe { (*extras).branch() }.add_handle_of(node);
    let handle = Stage::new(Handle(NonNull::new(extras.cast_mut().cast()).unwrap()));
    // A walk is on its way to nodes with children alone.
    let child = walk.then(|| record_below(|| (), node));
    if let Some(child) = child {
        // SAFETY: it has not ended; its parent is linked.
        unsafe {
            link(&child.as_ref().node, |_, _| unreachable!("not below a root"), |_| (), |_| ())
        };
    }
    let canceller = spawn(move || handle.cancel_and_drop());
    let walker = walk.then(|| spawn(move || cancel_all(&root)));
    if let Some(child) = child {
        // SAFETY: as below.
        unsafe {
            unlink(&child.as_ref().node);
            assert!(child.as_ref().release(2));
            end(child);
        }
    }
    // As `ScopeFrame::end`.
    unlink(node);
    // SAFETY: it has ended, and only the handle is left.
    unsafe {
        assert!(task.as_ref().release(2));
        end(task);
    }
    canceller.join().unwrap();
    walker.map(|walker| walker.join().unwrap());
    // SAFETY: the threads have ended.
    unsafe {
        handle.end();
        root.end();
    }
    assert_eq!(live_atomics(), before, "extras are left over");
}

#[test]
fn loom_a_handle_may_cancel_a_node_that_ends() {
    explore(3, || end_and_cancel(false));
}

#[test]
fn loom_a_handle_and_a_walk_may_cancel_a_node_that_ends() {
    explore(2, || end_and_cancel(true));
}
