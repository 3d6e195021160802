//! Cancels: against a wait, a link, a query, a handle and the end of a node.

use super::{Task, live, new_record};
use crate::scheduler::cancel::{
    cancel_all, cancel_children, cancel_node, expire, is_cancelled, link as link_below_root,
};
use crate::scheduler::life::root::Root;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::wait::park::{Limit, publish_wait};
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::check::{FENCES, Stage, beside, explore_to_the_end, models};
use crate::shim::thread::spawn;
use crate::task::cause::Cause;
use crate::task::children::ChildrenRef;
use crate::task::children::{link, origin_of, unlink};
use crate::task::models::Processor;
use crate::task::reference::TaskRef;
use crate::task::words::tree::{Cancel, Verdict};
use crate::task::words::wait::{Publish, WaitKind, Woken};
use std::ptr;

struct Waiter {
    task: Task,
    processor: Processor,
}

impl Waiter {
    /// A task without a parent, which has one reference.
    fn new() -> Stage<Waiter> {
        let task = Task(new_record(|| (), true));
        Stage::new(Waiter { task, processor: Processor::new() })
    }

    /// Waits, like `Worker::begin_wait` and `Worker::wait`. Returns whether a grant ended the wait.
    fn waits(&self, limit: &impl Limit) -> bool {
        let task = &*self.task;
        if task.node.word().is_marked() {
            return false;
        }
        match publish_wait(&task.node, task, WaitKind::Grant, limit) {
            Ok(Publish::Ready) => return true,
            Err(Interrupted) => return false,
            Ok(Publish::Parked) => {}
        }
        self.processor.suspend();
        task.wait.woken() == Woken::Granted
    }

    /// Like `scheduler::cancel::cancel` for a node without children.
    fn cancel(&self) {
        assert_eq!(self.task.node.word().cancel(), Cancel::First);
        if self.task.wait.interrupt() {
            self.processor.resume();
        }
    }
}

/// The kinds of interruptions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Cancel,
    Expiry,
}

/// A wait is interrupted, and granted too if `granted`. Waiter, granter and canceller agree on what
/// ended it.
fn wait_and_cut(short: Interruption, granted: bool) {
    let over = Stage::new(AtomicBool::new(false));
    let waiter = Waiter::new();
    waiter.processor.introduce();
    let cutter = spawn(move || match short {
        Interruption::Cancel => waiter.cancel(),
        Interruption::Expiry => {
            // SAFETY: the record is freed at the end of the model.
            let task = unsafe { TaskRef::new(waiter.task.0) };
            if expire(task, &over).is_some() {
                waiter.processor.resume();
            }
        }
    });
    let granter = granted.then(|| {
        spawn(move || {
            let duty = waiter.task.wait.grant();
            if duty {
                waiter.processor.resume();
            }
            duty
        })
    });
    let ended_by_grant = match short {
        Interruption::Cancel => waiter.waits(&()),
        Interruption::Expiry => waiter.waits(&*over),
    };
    // The check of `Worker::wait` and `Worker::wait_until`, which would wait once more.
    let told = match short {
        Interruption::Cancel => waiter.task.node.verdict() == Verdict::Cancelled,
        Interruption::Expiry => over.load(Ordering::Relaxed),
    };
    assert!(ended_by_grant || told, "the waiter does not see why its wait was interrupted");
    cutter.join().unwrap();
    let woken_by_grant = granter.is_some_and(|granter| granter.join().unwrap());
    assert!(ended_by_grant || !woken_by_grant, "the granter has woken an interrupted waiter");
    assert!(!waiter.task.wait.is_parked());
    assert!(waiter.processor.wakes() <= 1, "queued twice");
    waiter.task.free(1);
}

models! {
    fn loom_a_wait_ends_when_its_time_limit_expires() =
        explore_to_the_end(3, || wait_and_cut(Interruption::Expiry, false));

    fn loom_a_grant_or_an_expiry_ends_a_wait_and_not_both() =
        explore_to_the_end(3, || wait_and_cut(Interruption::Expiry, true));

    fn loom_negative_a_timer_that_looks_for_a_waiter_before_it_is_seen() =
        explore_to_the_end(3, || wait_and_cut(Interruption::Expiry, false)),
        without FENCES in "task/words/wait.rs", fails: "deadlock";

    fn loom_a_wait_is_interrupted_or_sees_the_cancel() =
        explore_to_the_end(3, || wait_and_cut(Interruption::Cancel, false));

    fn loom_a_grant_or_a_cancel_ends_a_wait_and_not_both() =
        explore_to_the_end(3, || wait_and_cut(Interruption::Cancel, true));

    fn loom_negative_a_canceller_that_looks_for_a_waiter_before_its_mark_is_seen() =
        explore_to_the_end(3, || wait_and_cut(Interruption::Cancel, false)),
        without FENCES in "task/words/wait.rs", fails: "deadlock";
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_waiter_that_does_not_look_again() {
    explore_to_the_end(3, || {
        let waiter = Waiter::new();
        waiter.processor.introduce();
        let canceller = spawn(move || waiter.cancel());
        // Like `waits`, without the second look at the mark.
        if !waiter.task.node.word().is_marked() {
            assert_eq!(waiter.task.wait.publish(WaitKind::Grant), Publish::Parked);
            waiter.processor.suspend();
        }
        canceller.join().unwrap();
    });
}

/// An unlinked task without cold data is cancelled while its child links itself and its parent.
#[test]
fn loom_a_cancel_finds_the_child_or_the_child_finds_the_mark() {
    explore_to_the_end(3, || {
        let root = Stage::new(Root::new(1));
        let parent = Task::below(&root);
        let child = parent.child();
        beside(move || cancel_node(&parent.node, None), || link_below_root(live(&child.node)));
        let verdict = child.node.verdict();
        assert_eq!(verdict, Verdict::Cancelled, "the cancel has not reached the child");
        for task in [child, parent] {
            unlink(&task.node);
            task.free(2);
        }
    });
}

/// Makes three tasks, each a child of the one before.
fn three_in_line(root: &Root) -> [Task; 3] {
    let first = Task::below(root);
    let second = first.child();
    [first, second, second.child()]
}

/// Three tasks, each a child of the one before. One thread cancels the first, one thread asks
/// whether the task `asking` is cancelled, and one thread links the task `linked` and its
/// ancestors. In the end the task `linked` is cancelled. If `known`, handles to the tasks exist
/// too.
fn ask_and_link(asking: usize, linked: usize, known: bool) {
    let root = Stage::new(Root::new(1));
    let line = three_in_line(&root);
    let references = if known { 2 } else { 1 };
    for task in line {
        assert!(known || !task.release(1));
    }
    let node = |n: usize| &line[n].node;
    let canceller = spawn(move || cancel_node(&line[0].node, None));
    let linker = spawn(move || link_below_root(live(&line[linked].node)));
    let asked = is_cancelled(live(node(asking)));
    assert!(!asked || is_cancelled(live(node(asking))), "a second query gives another answer");
    if asked {
        assert!(node(asking).word().is_marked());
        assert_eq!(origin_of(node(asking)), ptr::from_ref(node(0)), "the origin is wrong");
    }
    canceller.join().unwrap();
    linker.join().unwrap();
    assert!(is_cancelled(live(node(linked))), "the cancel has not reached the linked task");
    assert_eq!(origin_of(node(linked)), ptr::from_ref(node(0)));
    for task in line.into_iter().rev() {
        if task.node.is_linked() {
            unlink(&task.node);
        }
        task.free(references);
    }
}

models! {
    /// The task between is linked before the walk comes to it, by a thread that has not seen the
    /// mark above it.
    fn loom_a_task_that_was_told_of_a_cancel_stays_cancelled() =
        explore_to_the_end(2, || ask_and_link(2, 1, false));

    /// A query marks the second task while the third one is linked. The third is marked too.
    fn loom_a_task_linked_below_a_task_that_asks_is_cancelled() =
        explore_to_the_end(2, || ask_and_link(1, 2, true));
}

/// While a task looks up, its parent begins to ignore cancellation, and afterwards the grandparent
/// is cancelled. The task is not told of this cancel.
#[test]
fn loom_a_query_below_a_node_that_ignores_a_cancel_is_not_told_of_it() {
    explore_to_the_end(3, || {
        let root = Stage::new(Root::new(1));
        let [first, second, third] = three_in_line(&root);
        let ignores = spawn(move || {
            assert!(second.node.word().ignore());
            cancel_node(&first.node, None);
        });
        let told = is_cancelled(live(&third.node));
        assert!(!told, "a task is told of a cancel that its parent ignores");
        ignores.join().unwrap();
        for task in [third, second, first] {
            task.free(2);
        }
    });
}

/// A thread cancels a task by its handle, which keeps the task's record but not its ancestors.
/// Meanwhile the task learns of a cancel from above, and ends, and so does its parent. One of the
/// threads makes the cold data, and nothing is left over.
#[test]
fn loom_a_cancel_by_a_handle_meets_one_from_above() {
    explore_to_the_end(3, || {
        let root = Stage::new(Root::new(1));
        let parent = Task::below(&root);
        let child = parent.child();
        cancel_node(&parent.node, None);
        let canceller = spawn(move || {
            // The handle's reference keeps the record.
            cancel_node(&child.node, None);
            child.let_go(1);
        });
        assert!(is_cancelled(live(&child.node)), "the cancel has not reached the child");
        child.let_go(1);
        parent.free(2);
        canceller.join().unwrap();
    });
}

/// A task that ignores cancellation is cancelled while it is linked. A later cancel from above does
/// not replace the reason.
#[test]
fn loom_the_first_reason_counts_even_if_the_task_ignores_it() {
    explore_to_the_end(3, || {
        let root = Stage::new(Root::new(1));
        let task = Task::below(&root);
        let node = &task.node;
        assert!(node.word().ignore());
        beside(move || cancel_node(&task.node, None), || link_below_root(live(node)));
        cancel_all(&root);
        assert!(ptr::eq(origin_of(node), node), "the reason is that of the later cancel");
        // The query of a handle.
        assert!(node.cold().is_some_and(|cold| cold.children().is_marked()), "no mark in the list");
        unlink(node);
        task.free(2);
    });
}

/// A task begins to ignore cancellation while it is cancelled. Either `ignore` is refused, or the
/// task finds the mark when it stops.
#[test]
fn loom_a_cancel_is_not_lost_when_a_task_begins_to_ignore_it() {
    explore_to_the_end(3, || {
        let task = Task(new_record(|| (), true));
        let canceller = spawn(move || task.node.word().cancel());
        let word = task.node.word();
        let ignored = word.ignore();
        let deferred = ignored && word.stop_ignoring();
        let cancel = canceller.join().unwrap();
        assert!(word.is_marked(), "the mark is lost");
        match cancel {
            Cancel::Deferred => assert!(deferred, "the cancel is not delivered"),
            Cancel::First => assert!(!deferred, "the cancel is delivered twice"),
            Cancel::Already => panic!("this model has one canceller"),
        }
        task.free(1);
    });
}

/// A handle to a list of children.
struct Handle(std::cell::RefCell<Option<ChildrenRef>>);

impl Handle {
    fn cancel_and_drop(&self) {
        let children = self.0.take().expect("cancelled once");
        cancel_children(&children, Some(Cause::shut_down()));
    }
}

/// Makes a linked node, and a handle to its list of children.
fn with_handle(root: &Root) -> (Task, Stage<Handle>) {
    let task = Task::below(root);
    let node = &task.node;
    // SAFETY: neither the task nor the root has ended.
    unsafe { link(node, |_, node| root.children_for(node), |_, _| (), |_| ()) };
    let children = ChildrenRef::new(node.cold().unwrap(), node);
    (task, Stage::new(Handle(Some(children).into())))
}

/// A node ends while a thread cancels it by a handle to its list of children. If `walk`, a walk
/// comes too.
fn end_and_cancel(walk: bool) {
    let root = Stage::new(Root::new(1));
    let (task, handle) = with_handle(&root);
    // A walk visits only nodes that have children.
    let child = walk.then(|| task.child());
    if let Some(child) = child {
        // SAFETY: the child has not ended, and its parent is linked.
        unsafe { link(&child.node, |_, _| unreachable!("not below a root"), |_, _| (), |_| ()) };
    }
    let canceller = spawn(move || handle.cancel_and_drop());
    let walker = walk.then(|| spawn(move || cancel_all(&root)));
    if let Some(child) = child {
        unlink(&child.node);
        child.free(2);
    }
    // Like `ScopeFrame::end`.
    unlink(&task.node);
    // Only the handle to the list is left.
    task.free(2);
    canceller.join().unwrap();
    walker.map(|walker| walker.join().unwrap());
}

models! {
    fn loom_a_handle_may_cancel_a_node_that_ends() =
        explore_to_the_end(3, || end_and_cancel(false));

    fn loom_a_handle_and_a_walk_may_cancel_a_node_that_ends() =
        explore_to_the_end(2, || end_and_cancel(true));
}

/// Another thread cancels a scope. A handle reports the cancel only after the node itself is
/// cancelled.
#[test]
fn loom_a_node_is_cancelled_when_its_handle_says_so() {
    explore_to_the_end(3, || {
        let root = Stage::new(Root::new(1));
        let (task, handle) = with_handle(&root);
        let node = &task.node;
        let children = handle.0.borrow().clone().expect("not cancelled yet");
        let canceller = spawn(move || handle.cancel_and_drop());
        if children.is_marked() {
            assert!(
                is_cancelled(live(node)),
                "the handle reports a cancel that the node does not see"
            );
        }
        unlink(node);
        // Only handles to the list are left.
        task.free(2);
        canceller.join().unwrap();
        drop(children);
    });
}
