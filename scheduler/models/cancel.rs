//! A task that has called a child in place, and somebody who cancels the task.

use super::new_record;
use crate::retire::models::{end, record_below};
use crate::retire::record::{JoinedAtHome, Record};
use crate::scheduler::cancel::{cancel, link, unlink};
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
