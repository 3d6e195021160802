//! Cancels: against a wait, a link, a query, a handle and the end of a node.

use super::new_record;
use crate::scheduler::cancel::{
    cancel_all, cancel_children, cancel_node, expire, is_cancelled, link as link_below_root,
};
use crate::scheduler::life::root::Root;
use crate::scheduler::wait::interrupted::Interrupted;
use crate::scheduler::wait::park::{Limit, publish_wait};
use crate::shim::atomic::{AtomicBool, Ordering, live_atomics};
use crate::shim::check::{FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::cause::Cause;
use crate::task::children::{Children, link, origin_of, unlink};
use crate::task::cold::ColdData;
use crate::task::models::{Processor, end, record_below};
use crate::task::record::Record;
use crate::task::words::tree::{Cancel, Verdict};
use crate::task::words::wait::{Publish, WaitKind, Woken};
use std::ptr::{self, NonNull};

struct Waiter {
    task: NonNull<Record>,
    processor: Processor,
}

impl Waiter {
    fn task(&self) -> &Record {
        // SAFETY: the record is freed at the end of the model.
        unsafe { self.task.as_ref() }
    }

    /// Waits, like `Worker::lie_down` and `Worker::wait`. Returns whether a grant ended the wait.
    fn waits(&self, limit: &impl Limit) -> bool {
        let task = self.task();
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
        assert_eq!(self.task().node.word().cancel(), Cancel::First);
        if self.task().wait.interrupt() {
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
    let waiter = Stage::new(Waiter { task: new_record(|| (), true), processor: Processor::new() });
    waiter.processor.introduce();
    let cutter = spawn(move || match short {
        Interruption::Cancel => waiter.cancel(),
        Interruption::Expiry => {
            if expire(waiter.task(), &over) {
                waiter.processor.resume();
            }
        }
    });
    let granter = granted.then(|| {
        spawn(move || {
            let duty = waiter.task().wait.grant();
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
        Interruption::Cancel => waiter.task().node.verdict() == Verdict::Cancelled,
        Interruption::Expiry => over.load(Ordering::Relaxed),
    };
    assert!(ended_by_grant || told, "the waiter does not see why its wait was interrupted");
    cutter.join().unwrap();
    let woken_by_grant = granter.is_some_and(|granter| granter.join().unwrap());
    assert!(ended_by_grant || !woken_by_grant, "the granter has woken an interrupted waiter");
    assert!(!waiter.task().wait.is_parked());
    assert!(waiter.processor.wakes() <= 1, "queued twice");
    // SAFETY: the threads have ended, and the record has one reference.
    unsafe {
        assert!(waiter.task().release(1));
        end(waiter.task);
        waiter.end();
        over.end();
    }
}

#[test]
fn loom_a_wait_ends_when_its_time_limit_expires() {
    explore(3, || wait_and_cut(Interruption::Expiry, false));
}

#[test]
fn loom_a_grant_or_an_expiry_ends_a_wait_and_not_both() {
    explore(3, || wait_and_cut(Interruption::Expiry, true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_timer_that_looks_for_a_waiter_before_it_is_seen() {
    plant("task/words/wait.rs", FENCES);
    explore(3, || wait_and_cut(Interruption::Expiry, false));
}

#[test]
fn loom_a_wait_is_interrupted_or_sees_the_cancel() {
    explore(3, || wait_and_cut(Interruption::Cancel, false));
}

#[test]
fn loom_a_grant_or_a_cancel_ends_a_wait_and_not_both() {
    explore(3, || wait_and_cut(Interruption::Cancel, true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_canceller_that_looks_for_a_waiter_before_its_mark_is_seen() {
    plant("task/words/wait.rs", FENCES);
    explore(3, || wait_and_cut(Interruption::Cancel, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_waiter_that_does_not_look_again() {
    explore(3, || {
        let waiter =
            Stage::new(Waiter { task: new_record(|| (), true), processor: Processor::new() });
        waiter.processor.introduce();
        let canceller = spawn(move || waiter.cancel());
        // Like `waits`, without the second look at the mark.
        if !waiter.task().node.word().is_marked() {
            assert_eq!(waiter.task().wait.publish(WaitKind::Grant), Publish::Parked);
            waiter.processor.suspend();
        }
        canceller.join().unwrap();
    });
}

/// A task and its child, shared by two threads.
#[derive(Clone, Copy)]
struct Family(NonNull<Record>, NonNull<Record>);

// SAFETY: records may be shared between threads.
unsafe impl Send for Family {}
// SAFETY: records may be shared between threads.
unsafe impl Sync for Family {}

/// An unlinked task without cold data is cancelled while its child links itself and its parent.
#[test]
fn loom_a_cancel_finds_the_child_or_the_child_finds_the_mark() {
    explore(3, || {
        let root = Stage::new(Root::new(1));
        let parent = record_below(|| (), &raw const root.node);
        let child = record_below(|| (), parent.as_ptr().cast());
        let family = Stage::new(Family(parent, child));
        // SAFETY: neither task has ended.
        let nodes = move || unsafe { (&family.0.as_ref().node, &family.1.as_ref().node) };
        // SAFETY: neither task has ended.
        let canceller = spawn(move || unsafe { cancel_node(nodes().0, None) });
        link_below_root(nodes().1);
        canceller.join().unwrap();
        let verdict = nodes().1.verdict();
        assert_eq!(verdict, Verdict::Cancelled, "the cancel has not reached the child");
        for task in [child, parent] {
            // SAFETY: the task ends here, and both references are this thread's.
            unsafe {
                unlink(&task.as_ref().node);
                assert!(task.as_ref().release(2));
                end(task);
            }
        }
        // SAFETY: the thread has ended.
        unsafe {
            family.end();
            root.end();
        }
    });
}

/// Three tasks, each a child of the one before. One thread cancels the first, one thread asks
/// whether the task `asking` is cancelled, and one thread links the task `linked` and its
/// ancestors. In the end the task `linked` is cancelled. If `known`, handles to the tasks exist
/// too.
fn ask_and_link(asking: usize, linked: usize, known: bool) {
    let root = Stage::new(Root::new(1));
    let first = record_below(|| (), &raw const root.node);
    let second = record_below(|| (), first.as_ptr().cast());
    let third = record_below(|| (), second.as_ptr().cast());
    let references = if known { 2 } else { 1 };
    for task in [first, second, third] {
        // SAFETY: the task has two references.
        assert!(known || !unsafe { task.as_ref() }.release(1));
    }
    let line = Stage::new([Family(first, second), Family(second, third)]);
    // SAFETY: the tasks have not ended.
    let node = move |n: usize| unsafe {
        match n {
            0 => &line[0].0.as_ref().node,
            n => &line[n - 1].1.as_ref().node,
        }
    };
    // SAFETY: the task has not ended.
    let canceller = spawn(move || unsafe { cancel_node(node(0), None) });
    let linker = spawn(move || link_below_root(node(linked)));
    let asked = is_cancelled(node(asking));
    assert!(!asked || is_cancelled(node(asking)), "a second query gives another answer");
    if asked {
        assert!(node(asking).word().is_marked());
        assert_eq!(origin_of(node(asking)), ptr::from_ref(node(0)), "the origin is wrong");
    }
    canceller.join().unwrap();
    linker.join().unwrap();
    assert!(is_cancelled(node(linked)), "the cancel has not reached the linked task");
    assert_eq!(origin_of(node(linked)), ptr::from_ref(node(0)));
    for task in [third, second, first] {
        // SAFETY: the task ends here, and the references are this thread's.
        unsafe {
            if task.as_ref().node.is_linked() {
                unlink(&task.as_ref().node);
            }
            assert!(task.as_ref().release(references));
            end(task);
        }
    }
    // SAFETY: the threads have ended.
    unsafe {
        line.end();
        root.end();
    }
}

/// The task between is linked before the walk comes to it, by a thread that has not seen the mark
/// above it.
#[test]
fn loom_a_task_that_was_told_of_a_cancel_stays_cancelled() {
    explore(2, || ask_and_link(2, 1, false));
}

/// A query marks the second task while the third one is linked. The third is marked too.
#[test]
fn loom_a_task_linked_below_a_task_that_asks_is_cancelled() {
    explore(2, || ask_and_link(1, 2, true));
}

/// While a task looks up, its parent begins to ignore cancellation, and afterwards the grandparent
/// is cancelled. The task is not told of this cancel.
#[test]
fn loom_a_query_below_a_node_that_ignores_a_cancel_is_not_told_of_it() {
    explore(3, || {
        let root = Stage::new(Root::new(1));
        let first = record_below(|| (), &raw const root.node);
        let second = record_below(|| (), first.as_ptr().cast());
        let third = record_below(|| (), second.as_ptr().cast());
        let line = Stage::new(Family(first, second));
        let ignores = spawn(move || {
            // SAFETY: neither task has ended.
            unsafe {
                assert!(line.1.as_ref().node.word().ignore());
                cancel_node(&line.0.as_ref().node, None);
            }
        });
        // SAFETY: the task has not ended.
        let told = is_cancelled(unsafe { &third.as_ref().node });
        assert!(!told, "a task is told of a cancel that its parent ignores");
        ignores.join().unwrap();
        for task in [third, second, first] {
            // SAFETY: the task ends here, and both references are this thread's.
            unsafe {
                assert!(task.as_ref().release(2));
                end(task);
            }
        }
        // SAFETY: the thread has ended.
        unsafe {
            line.end();
            root.end();
        }
    });
}

/// A thread cancels a task by its handle, which keeps the task's record but not its ancestors.
/// Meanwhile the task learns of a cancel from above, and ends, and so does its parent. One of the
/// threads makes the cold data, and nothing is left over.
#[test]
fn loom_a_cancel_by_a_handle_meets_one_from_above() {
    explore(3, || {
        let before = live_atomics();
        let root = Stage::new(Root::new(1));
        let parent = record_below(|| (), &raw const root.node);
        let child = record_below(|| (), parent.as_ptr().cast());
        let handle = Stage::new(Family(parent, child));
        // SAFETY: neither task has ended, and each has two references.
        let (above, node) = unsafe { (&parent.as_ref().node, &child.as_ref().node) };
        // SAFETY: the parent has not ended.
        unsafe { cancel_node(above, None) };
        let let_go = move || {
            let child = handle.1;
            // SAFETY: the caller has a reference.
            unsafe {
                if child.as_ref().release(1) {
                    end(child);
                }
            }
        };
        let canceller = spawn(move || {
            // SAFETY: the handle keeps the record.
            unsafe { cancel_node(&handle.1.as_ref().node, None) };
            let_go();
        });
        assert!(is_cancelled(node), "the cancel has not reached the child");
        let_go();
        // SAFETY: the parent ends here, and both references are this thread's.
        unsafe {
            assert!(parent.as_ref().release(2));
            end(parent);
        }
        canceller.join().unwrap();
        // SAFETY: the thread has ended.
        unsafe {
            handle.end();
            root.end();
        }
        assert_eq!(live_atomics(), before, "cold data are left over");
    });
}

/// A task that ignores cancellation is cancelled while it is linked. A later cancel from above does
/// not replace the reason.
#[test]
fn loom_the_first_reason_counts_even_if_the_task_ignores_it() {
    explore(3, || {
        let root = Stage::new(Root::new(1));
        let task = Stage::new(Waiter {
            task: record_below(|| (), &raw const root.node),
            processor: Processor::new(),
        });
        let node = &task.task().node;
        assert!(node.word().ignore());
        let canceller = spawn(move || {
            // SAFETY: the task has not ended.
            unsafe { cancel_node(&task.task().node, None) };
        });
        link_below_root(node);
        canceller.join().unwrap();
        cancel_all(&root);
        assert!(ptr::eq(origin_of(node), node), "the reason is that of the later cancel");
        // The query of a handle.
        assert!(node.cold().is_some_and(|cold| cold.children().is_marked()), "no mark in the list");
        unlink(node);
        // SAFETY: the thread has ended, and the record has two references.
        unsafe {
            assert!(task.task().release(2));
            end(task.task);
            task.end();
            root.end();
        }
    });
}

/// A task begins to ignore cancellation while it is cancelled. Either `ignore` is refused, or the
/// task finds the mark when it stops.
#[test]
fn loom_a_cancel_is_not_lost_when_a_task_begins_to_ignore_it() {
    explore(3, || {
        let task =
            Stage::new(Waiter { task: new_record(|| (), true), processor: Processor::new() });
        let canceller = spawn(move || task.task().node.word().cancel());
        let word = task.task().node.word();
        let ignored = word.ignore();
        let deferred = ignored && word.stop_ignoring();
        let cancel = canceller.join().unwrap();
        assert!(word.is_marked(), "the mark is lost");
        match cancel {
            Cancel::Deferred => assert!(deferred, "the cancel is not delivered"),
            Cancel::First => assert!(!deferred, "the cancel is delivered twice"),
            Cancel::Already => panic!("this model has one canceller"),
        }
        // SAFETY: the thread has ended, and the record has one reference.
        unsafe {
            assert!(task.task().release(1));
            end(task.task);
            task.end();
        }
    });
}

/// A handle to a list of children.
struct Handle(NonNull<Children>);

impl Handle {
    fn cancel_and_drop(&self) {
        // SAFETY: the handle keeps the list until it is released.
        unsafe {
            cancel_children(self.0.as_ref(), Some(Cause::shut_down()));
            Children::release_handle(self.0);
        }
    }
}

/// Makes a linked node, and a handle to its list of children.
fn with_handle(root: &Stage<Root>) -> (NonNull<Record>, Stage<Handle>) {
    let task = record_below(|| (), &raw const root.node);
    // SAFETY: the task has not ended.
    let node = unsafe { &task.as_ref().node };
    // SAFETY: neither the task nor the root has ended.
    unsafe { link(node, |_, node| root.children_for(node), |_, _| (), |_| ()) };
    let cold: *const ColdData = node.cold().unwrap();
    // SAFETY: the task has not ended, so its cold data are alive.
    unsafe { (*cold).children() }.add_handle_of(node);
    (task, Stage::new(Handle(NonNull::new(cold.cast_mut().cast()).unwrap())))
}

/// A node ends while a thread cancels it by a handle to its list of children. If `walk`, a walk
/// comes too.
fn end_and_cancel(walk: bool) {
    let before = live_atomics();
    let root = Stage::new(Root::new(1));
    let (task, handle) = with_handle(&root);
    // SAFETY: the task has not ended.
    let node = unsafe { &task.as_ref().node };
    // A walk visits only nodes that have children.
    let child = walk.then(|| record_below(|| (), node));
    if let Some(child) = child {
        // SAFETY: the child has not ended, and its parent is linked.
        unsafe {
            link(&child.as_ref().node, |_, _| unreachable!("not below a root"), |_, _| (), |_| ())
        };
    }
    let canceller = spawn(move || handle.cancel_and_drop());
    let walker = walk.then(|| spawn(move || cancel_all(&root)));
    if let Some(child) = child {
        // SAFETY: the child has ended, and both references are this thread's.
        unsafe {
            unlink(&child.as_ref().node);
            assert!(child.as_ref().release(2));
            end(child);
        }
    }
    // Like `ScopeFrame::end`.
    unlink(node);
    // SAFETY: the task has ended, and both references are this thread's. Only the handle is left.
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
    assert_eq!(live_atomics(), before, "cold data are left over");
}

#[test]
fn loom_a_handle_may_cancel_a_node_that_ends() {
    explore(3, || end_and_cancel(false));
}

#[test]
fn loom_a_handle_and_a_walk_may_cancel_a_node_that_ends() {
    explore(2, || end_and_cancel(true));
}

/// Another thread cancels a scope. A handle reports the cancel only after the node itself is
/// cancelled.
#[test]
fn loom_a_node_is_cancelled_when_its_handle_says_so() {
    explore(3, || {
        let before = live_atomics();
        let root = Stage::new(Root::new(1));
        let (task, handle) = with_handle(&root);
        // SAFETY: the task has not ended.
        let node = unsafe { &task.as_ref().node };
        // SAFETY: a handle keeps the list.
        let children = unsafe { handle.0.as_ref() };
        children.add_handle();
        let canceller = spawn(move || handle.cancel_and_drop());
        if children.is_marked() {
            assert!(is_cancelled(node), "the handle reports a cancel that the node does not see");
        }
        unlink(node);
        // SAFETY: the task has ended, and both references are this thread's. Only handles are left.
        unsafe {
            assert!(task.as_ref().release(2));
            end(task);
        }
        canceller.join().unwrap();
        // SAFETY: the thread has ended.
        unsafe {
            Children::release_handle(handle.0);
            handle.end();
            root.end();
        }
        assert_eq!(live_atomics(), before, "cold data are left over");
    });
}
