//! The lists of children: links, ends, look-ups and the walk of a cancel.

use super::{end, record_below};
use crate::shim::atomic::live_atomics;
use crate::shim::check::{FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::children::{Children, Reached, link, origin_of, unlink, walk};
use crate::task::cold::ColdData;
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
    atomics_before: isize,
}

impl Top {
    fn new() -> Stage<Top> {
        let atomics_before = live_atomics();
        Stage::new(Top {
            node: Node::new(NodeKind::Root, ptr::null(), NOBODY),
            lists: [Children::new(), Children::new()],
            reached: Cell::new(0),
            atomics_before,
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

    fn end(this: Stage<Top>) {
        let before = this.atomics_before;
        // SAFETY: the threads have ended.
        unsafe { this.end() };
        assert_eq!(live_atomics(), before, "cold data are left over");
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
    let parent_and_task = (Shared(parent), Shared(task));
    let canceller = spawn(move || top.cancel());
    top.link(task);
    canceller.join().unwrap();
    let (Shared(parent), Shared(task)) = parent_and_task;
    assert_eq!(verdict(task), Verdict::Cancelled, "the cancel has not reached the task");
    assert_eq!(verdict(parent), Verdict::Cancelled, "the cancel has not reached its parent");
    assert!(top.reached.get() <= 2);
    ends(task);
    ends(parent);
    Top::end(top);
}

/// Records are shared by the threads of a model.
#[derive(Clone, Copy)]
struct Shared(NonNull<Record>);

// SAFETY: a record may be shared between threads.
unsafe impl Send for Shared {}

/// A handle to a list of children.
#[derive(Clone, Copy)]
struct Handle(NonNull<Children>);

// SAFETY: a list of children may be shared between threads.
unsafe impl Send for Handle {}

impl Handle {
    fn release(self) {
        // SAFETY: the handle is consumed.
        unsafe { Children::release_handle(self.0) };
    }
}

#[test]
fn loom_a_walk_finds_a_task_or_the_task_finds_the_mark() {
    explore(3, link_and_cancel);
}

#[test]
#[should_panic(expected = "the cancel has not reached")]
fn loom_negative_a_walk_that_looks_for_children_before_its_mark_is_seen() {
    plant("task/children/mod.rs", FENCES);
    explore(3, link_and_cancel);
}

#[test]
#[should_panic(expected = "the cancel has not reached")]
fn loom_negative_a_link_that_looks_for_a_mark_before_it_is_seen() {
    plant("task/words/tree.rs", FENCES);
    explore(3, link_and_cancel);
}

/// A task and its parent end while a walk is on its way to them.
#[test]
fn loom_a_node_may_end_while_a_walk_is_on_its_way() {
    explore(3, || {
        let top = Top::new();
        let parent = record_below(|| (), &raw const top.node);
        let task = below(parent);
        top.link(task);
        let canceller = spawn(move || top.cancel());
        ends(task);
        ends(parent);
        canceller.join().unwrap();
        Top::end(top);
    });
}

/// The walk leaves a mark at its place in the list and releases the lock. Meanwhile one child ends,
/// and another one is linked.
#[test]
fn loom_a_list_may_change_while_a_walk_rests() {
    explore(2, || {
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
        Top::end(top);
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
    Top::end(top);
}

#[test]
fn loom_a_deferred_cancel_is_delivered_once() {
    explore(3, || stop_ignoring_and_cancel(|deferred| deferred));
}

#[test]
#[should_panic(expected = "has not reached the child")]
fn loom_negative_a_deferred_cancel_that_is_not_delivered() {
    explore(3, || stop_ignoring_and_cancel(|_| false));
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
    let linker = {
        let child = Shared(child);
        spawn(move || {
            let child = child;
            top.link(child.0);
        })
    };
    let delivers = if ignores { word.stop_ignoring() } else { word.cancel() == Cancel::First };
    assert!(delivers, "the cancel is not this thread's to deliver");
    top.deliver(task);
    linker.join().unwrap();
    assert_eq!(verdict(child), Verdict::Cancelled, "the cancel has not reached the child");
    ends(child);
    ends(task);
    Top::end(top);
}

#[test]
fn loom_a_cancel_and_the_link_of_a_child_see_each_other() {
    explore(3, || deliver_and_link(false));
    explore(3, || deliver_and_link(true));
}

/// Two handles to a task's list of children are released after the task's end. The last one frees
/// the list.
#[test]
fn loom_the_last_handle_frees_a_list_of_children() {
    explore(3, || {
        let top = Top::new();
        let task = record_below(|| (), &raw const top.node);
        top.link(task);
        // SAFETY: the task has not ended.
        let node = unsafe { &task.as_ref().node };
        let cold: *const ColdData = node.cold().expect("a linked node has cold data");
        let handle = Handle(NonNull::new(cold.cast_mut().cast()).expect("a reference"));
        // SAFETY: the task has not ended, so its cold data are alive.
        let children = unsafe { (*cold).children() };
        children.add_handle_of(node);
        children.add_handle();
        ends(task);
        let other = spawn(move || handle.release());
        handle.release();
        other.join().unwrap();
        Top::end(top);
    });
}

/// Two tasks link themselves at the same time, and each of them links their unlinked parent.
fn two_link_one(list: fn(usize) -> usize) {
    let top = Top::new();
    let parent = record_below(|| (), &raw const top.node);
    let tasks = [Shared(below(parent)), Shared(below(parent))];
    let other = {
        let [_, task] = tasks;
        spawn(move || {
            let task = task;
            top.link_in(task.0, list(1));
        })
    };
    top.link_in(tasks[0].0, list(0));
    other.join().unwrap();
    tasks.into_iter().for_each(|task| ends(task.0));
    ends(parent);
    assert!(top.lists.iter().all(Children::is_empty), "a node is left in a list");
    Top::end(top);
}

#[test]
fn loom_two_children_may_link_the_same_parent() {
    explore(3, || two_link_one(|_| 0));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_two_threads_that_link_a_node_into_different_lists() {
    explore(3, || two_link_one(|thread| thread));
}

/// An unlinked task looks up, long after the cancel, while another task links its parent.
fn look_and_link(look: fn(NonNull<Record>) -> bool) {
    let top = Top::new();
    let parent = record_below(|| (), &raw const top.node);
    let tasks = [Shared(below(parent)), Shared(below(parent))];
    top.cancel();
    let other = {
        let [_, task] = tasks;
        spawn(move || {
            let task = task;
            top.link(task.0);
        })
    };
    assert!(look(tasks[0].0), "an earlier cancel is not seen");
    other.join().unwrap();
    tasks.into_iter().for_each(|task| ends(task.0));
    ends(parent);
    Top::end(top);
}

#[test]
fn loom_a_look_up_does_not_miss_a_mark() {
    explore(3, || look_and_link(is_cancelled));
}

#[test]
#[should_panic(expected = "is not seen")]
fn loom_negative_a_look_up_that_reads_the_word_before_the_link() {
    explore(3, || {
        look_and_link(|task| {
            // SAFETY: neither the task nor its parent has ended.
            let parent = unsafe { &*task.as_ref().node.parent };
            // Like `Node::verdict`, in the opposite order.
            let marked = parent.word().is_marked();
            let linked = parent.is_linked();
            // SAFETY: the parent's parent is the root, which is alive until the model's end.
            marked || !linked && unsafe { &*parent.parent }.word().is_marked()
        });
    });
}
