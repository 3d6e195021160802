//! The lists of children: links, ends, look-ups and the walk of a cancel.

use super::{end, record_below};
use crate::shim::check::{FENCES, Stage, beside, explore_to_the_end, models};
use crate::shim::thread::spawn;
use crate::task::children::{Children, ChildrenRef, Reached, link, origin_of, unlink, walk};
use crate::task::record::Record;
use crate::task::words::tree::{Cancel, NOBODY, Node, NodeKind, Verdict};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// A root with two lists. Most models use only the first one.
struct Top {
    node: Node,
    lists: [Children; 2],
    /// The number of nodes that walks have reached.
    reached: Cell<usize>,
}

impl Top {
    fn new() -> Stage<Top> {
        Stage::new(Top {
            node: Node::new(NodeKind::Root, ptr::null(), NOBODY),
            lists: [Children::new(), Children::new()],
            reached: Cell::new(0),
        })
    }

    fn link(&self, task: NonNull<Record>) {
        self.link_in(task, 0);
    }

    fn link_in(&self, task: NonNull<Record>, list: usize) {
        // SAFETY: a task of a model ends only in `ends`, after its link.
        unsafe {
            link(&task.as_ref().node, |_, _| &*ptr::from_ref(&self.lists[list]), |_, _| (), |_| ())
        };
    }

    fn cancel(&self) {
        if self.node.word().cancel() == Cancel::First {
            // SAFETY: the node was marked just now, and the lists are alive until the model's end.
            unsafe { walk(&self.lists, &self.node, |reached| self.count(reached), || ()) };
        }
    }

    /// Like `scheduler::cancel::deliver`.
    fn deliver(&self, task: NonNull<Record>) {
        // SAFETY: the task has not ended.
        let node = unsafe { &task.as_ref().node };
        self.count(Reached::Node(node));
        let list = node.cold_in_total_order().map(|cold| cold.children());
        // SAFETY: the caller has marked the node, which has not ended.
        unsafe { walk(list, origin_of(node), |reached| self.count(reached), || ()) };
    }

    fn count(&self, reached: Reached<'_>) {
        if let Reached::Node(_) = reached {
            self.reached.set(self.reached.get() + 1);
        }
    }
}

fn below(parent: NonNull<Record>) -> NonNull<Record> {
    record_below(|| (), parent.as_ptr().cast())
}

fn verdict(task: NonNull<Record>) -> Verdict {
    // SAFETY: the task has not ended.
    unsafe { task.as_ref() }.node.verdict()
}

/// Returns whether a task is cancelled, like `scheduler::cancel::is_cancelled`.
fn is_cancelled(task: NonNull<Record>) -> bool {
    // SAFETY: neither the task nor one of its ancestors has ended.
    let mut at = unsafe { &task.as_ref().node };
    loop {
        // Each node is asked once.
        match at.verdict() {
            // SAFETY: the ancestors have not ended.
            Verdict::AskParent => at = unsafe { &*at.parent },
            verdict => return verdict == Verdict::Cancelled,
        }
    }
}

/// Ends the task, like `scheduler::life::complete`, and frees its record.
fn ends(task: NonNull<Record>) {
    // SAFETY: the record has not been freed.
    let record = unsafe { task.as_ref() };
    if record.node.is_linked() {
        unlink(&record.node);
    }
    assert!(record.release(2), "a reference is left");
    // SAFETY: these references were the last; the closure has nothing to drop.
    unsafe { end(task) };
}

/// A task links itself and its parent while the root is cancelled.
fn link_and_cancel() {
    let top = Top::new();
    let parent = record_below(|| (), &raw const top.node);
    let task = below(parent);
    beside(move || top.cancel(), || top.link(task));
    assert_eq!(verdict(task), Verdict::Cancelled, "the cancel has not reached the task");
    assert_eq!(verdict(parent), Verdict::Cancelled, "the cancel has not reached its parent");
    assert!(top.reached.get() <= 2);
    ends(task);
    ends(parent);
}

models! {
    fn loom_a_walk_finds_a_task_or_the_task_finds_the_mark() =
        explore_to_the_end(3, link_and_cancel);

    fn loom_negative_a_walk_that_looks_for_children_before_its_mark_is_seen() =
        explore_to_the_end(3, link_and_cancel),
        without FENCES in "task/children/mod.rs", fails: "the cancel has not reached";

    fn loom_negative_a_link_that_looks_for_a_mark_before_it_is_seen() =
        explore_to_the_end(3, link_and_cancel),
        without FENCES in "task/words/tree.rs", fails: "the cancel has not reached";
}

/// A task and its parent end while a walk is on its way to them.
#[test]
fn loom_a_node_may_end_while_a_walk_is_on_its_way() {
    explore_to_the_end(3, || {
        let top = Top::new();
        let parent = record_below(|| (), &raw const top.node);
        let task = below(parent);
        top.link(task);
        let canceller = spawn(move || top.cancel());
        ends(task);
        ends(parent);
        canceller.join().unwrap();
    });
}

/// The walk leaves a placeholder in the list and releases the lock. Meanwhile one child ends, and
/// another one is linked.
#[test]
fn loom_a_list_may_change_while_a_walk_rests() {
    explore_to_the_end(2, || {
        let top = Top::new();
        let tasks = [(); 3].map(|()| record_below(|| (), &raw const top.node));
        top.link(tasks[0]);
        top.link(tasks[1]);
        let canceller = spawn(move || top.cancel());
        ends(tasks[1]);
        top.link(tasks[2]);
        canceller.join().unwrap();
        assert_eq!(verdict(tasks[0]), Verdict::Cancelled);
        assert_eq!(verdict(tasks[2]), Verdict::Cancelled);
        ends(tasks[0]);
        ends(tasks[2]);
    });
}

/// A task stops ignoring cancellation while a cancel comes. Either the walk or the task delivers
/// the cancel to the child.
fn stop_ignoring_and_cancel(delivers: fn(bool) -> bool) {
    let top = Top::new();
    let task = record_below(|| (), &raw const top.node);
    let child = below(task);
    // SAFETY: the task has not ended.
    let word = unsafe { task.as_ref() }.node.word();
    assert!(word.ignore());
    top.link(child);
    let canceller = spawn(move || top.cancel());
    if delivers(word.stop_ignoring()) {
        top.deliver(task);
    }
    canceller.join().unwrap();
    assert_eq!(verdict(task), Verdict::Cancelled);
    assert_eq!(verdict(child), Verdict::Cancelled, "the cancel has not reached the child");
    assert_eq!(top.reached.get(), 2, "the number of nodes reached");
    ends(child);
    ends(task);
}

models! {
    fn loom_a_deferred_cancel_is_delivered_once() =
        explore_to_the_end(3, || stop_ignoring_and_cancel(|deferred| deferred));

    fn loom_negative_a_deferred_cancel_that_is_not_delivered() =
        explore_to_the_end(3, || stop_ignoring_and_cancel(|_| false)),
        fails: "has not reached the child";
}

/// An unlinked task is cancelled, or stops ignoring an earlier cancel, while its child links itself
/// and the task.
fn deliver_and_link(ignores: bool) {
    let top = Top::new();
    let task = record_below(|| (), &raw const top.node);
    let child = below(task);
    // SAFETY: the task has not ended.
    let word = unsafe { task.as_ref() }.node.word();
    if ignores {
        assert!(word.ignore());
        assert_eq!(word.cancel(), Cancel::Deferred);
    }
    let linker = spawn(move || top.link(child));
    let delivers = if ignores { word.stop_ignoring() } else { word.cancel() == Cancel::First };
    assert!(delivers, "the cancel is not this thread's to deliver");
    top.deliver(task);
    linker.join().unwrap();
    assert_eq!(verdict(child), Verdict::Cancelled, "the cancel has not reached the child");
    ends(child);
    ends(task);
}

#[test]
fn loom_a_cancel_and_the_link_of_a_child_see_each_other() {
    explore_to_the_end(3, || deliver_and_link(false));
    explore_to_the_end(3, || deliver_and_link(true));
}

/// Two handles to a task's list of children are released after the task's end. The last one frees
/// the list.
#[test]
fn loom_the_last_handle_frees_a_list_of_children() {
    explore_to_the_end(3, || {
        let top = Top::new();
        let task = record_below(|| (), &raw const top.node);
        top.link(task);
        // SAFETY: the task has not ended.
        let node = unsafe { &task.as_ref().node };
        let handle = ChildrenRef::new(node.cold().expect("a linked node has cold data"), node);
        let other = handle.clone();
        ends(task);
        beside(move || drop(other), || drop(handle));
    });
}

/// Two tasks link themselves at the same time, and each of them links their unlinked parent.
fn two_link_one(list: fn(usize) -> usize) {
    let top = Top::new();
    let parent = record_below(|| (), &raw const top.node);
    let tasks = [below(parent), below(parent)];
    beside(move || top.link_in(tasks[1], list(1)), || top.link_in(tasks[0], list(0)));
    tasks.into_iter().for_each(ends);
    ends(parent);
    assert!(top.lists.iter().all(Children::is_empty), "a node is left in a list");
}

models! {
    fn loom_two_children_may_link_the_same_parent() = explore_to_the_end(3, || two_link_one(|_| 0));

    fn loom_negative_two_threads_that_link_a_node_into_different_lists() =
        explore_to_the_end(3, || two_link_one(|thread| thread)), fails: "Causality violation";
}

/// An unlinked task looks up, long after the cancel, while another task links its parent.
fn look_and_link(look: fn(NonNull<Record>) -> bool) {
    let top = Top::new();
    let parent = record_below(|| (), &raw const top.node);
    let tasks = [below(parent), below(parent)];
    top.cancel();
    beside(move || top.link(tasks[1]), || assert!(look(tasks[0]), "an earlier cancel is not seen"));
    tasks.into_iter().for_each(ends);
    ends(parent);
}

/// Like `Node::verdict`, in the opposite order.
fn is_marked_or_not_linked(task: NonNull<Record>) -> bool {
    // SAFETY: neither the task nor its parent has ended.
    let parent = unsafe { &*task.as_ref().node.parent };
    let marked = parent.word().is_marked();
    let linked = parent.is_linked();
    // SAFETY: the parent's parent is the root, which is alive until the model's end.
    marked || !linked && unsafe { &*parent.parent }.word().is_marked()
}

models! {
    fn loom_a_look_up_does_not_miss_a_mark() =
        explore_to_the_end(3, || look_and_link(is_cancelled));

    fn loom_negative_a_look_up_that_reads_the_word_before_the_link() =
        explore_to_the_end(3, || look_and_link(is_marked_or_not_linked)), fails: "is not seen";
}
