//! A task that is about to wait, and somebody who cancels it.

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
        // SAFETY: freed at the end of the model.
        unsafe { self.task.as_ref() }
    }

    /// As `Worker::lie_down` and `Worker::wait`; whether the wait has ended with a grant.
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

    /// As `scheduler::cancel::cancel`, of a node without children.
    fn cancel(&self) {
        assert_eq!(self.task().node.word().cancel(), Cancel::First);
        if self.task().wait.interrupt() {
            self.processor.resume();
        }
    }
}

/// What ends a wait before its grant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Cancel,
    Expiry,
}

/// The wait is granted as well, if `granted`: by whom it was ended, each one knows.
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
    // As `Worker::wait` and `Worker::wait_until` look, and would wait once more.
    let told = match short {
        Interruption::Cancel => waiter.task().node.verdict() == Verdict::Cancelled,
        Interruption::Expiry => over.load(Ordering::Relaxed),
    };
    assert!(ended_by_grant || told, "it does not see why its wait was cut");
    cutter.join().unwrap();
    let woken_by_grant = granter.is_some_and(|granter| granter.join().unwrap());
    assert!(ended_by_grant || !woken_by_grant, "the granter has woken one that was cut");
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
fn loom_a_wait_ends_when_its_time_is_over() {
    explore(3, || wait_and_cut(Interruption::Expiry, false));
}

#[test]
fn loom_a_grant_or_the_time_ends_a_wait_and_not_both() {
    explore(3, || wait_and_cut(Interruption::Expiry, true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_timer_that_looks_for_a_waiter_before_it_is_seen() {
    plant("task/words/wait.rs", FENCES);
    explore(3, || wait_and_cut(Interruption::Expiry, false));
}

#[test]
fn loom_a_wait_is_cut_or_sees_that_it_is_cancelled() {
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
        // As `waits`, without the second look.
        if !waiter.task().node.word().is_marked() {
            assert_eq!(waiter.task().wait.publish(WaitKind::Grant), Publish::Parked);
            waiter.processor.suspend();
        }
        canceller.join().unwrap();
    });
}

/// A task, and its child, for two threads.
#[derive(Clone, Copy)]
struct Family(NonNull<Record>, NonNull<Record>);

// SAFETY: records are shared by design.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

/// A task is cancelled that is in no list, and has no cold data, while its child links itself, and with it its parent.
#[test]
fn loom_a_cancel_finds_the_child_or_the_child_finds_the_mark() {
    explore(3, || {
        let root = Stage::new(Root::new(1));
        let parent = record_below(|| (), &raw const root.node);
        let child = record_below(|| (), parent.as_ptr().cast());
        let family = Stage::new(Family(parent, child));
        // SAFETY: they have not ended.
        let nodes = move || unsafe { (&family.0.as_ref().node, &family.1.as_ref().node) };
        // SAFETY: as above.
        let canceller = spawn(move || unsafe { cancel_node(nodes().0, None) });
        link_below_root(nodes().1);
        canceller.join().unwrap();
        let verdict = nodes().1.verdict();
        assert_eq!(verdict, Verdict::Cancelled, "the cancel has not reached the child");
        for task in [child, parent] {
            // SAFETY: it ends, and these are its references.
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

/// Three below each other: the first is cancelled, somebody asks in the `asking` one whether it is, and another links the `linked` one, with those
/// above it. When all is over the last of these is. They are `known` if others have references to them, too.
fn ask_and_link(asking: usize, linked: usize, known: bool) {
    let root = Stage::new(Root::new(1));
    let first = record_below(|| (), &raw const root.node);
    let second = record_below(|| (), first.as_ptr().cast());
    let third = record_below(|| (), second.as_ptr().cast());
    let references = if known { 2 } else { 1 };
    for task in [first, second, third] {
        // SAFETY: it has two.
        assert!(known || !unsafe { task.as_ref() }.release(1));
    }
    let line = Stage::new([Family(first, second), Family(second, third)]);
    // SAFETY: they have not ended.
    let node = move |n: usize| unsafe {
        match n {
            0 => &line[0].0.as_ref().node,
            n => &line[n - 1].1.as_ref().node,
        }
    };
    // SAFETY: as above.
    let canceller = spawn(move || unsafe { cancel_node(node(0), None) });
    let linker = spawn(move || link_below_root(node(linked)));
    let asked = is_cancelled(node(asking));
    assert!(!asked || is_cancelled(node(asking)), "it is told otherwise");
    if asked {
        assert!(node(asking).word().is_marked());
        assert_eq!(origin_of(node(asking)), ptr::from_ref(node(0)), "the cancel is another's");
    }
    canceller.join().unwrap();
    linker.join().unwrap();
    assert!(is_cancelled(node(linked)), "the cancel has not reached it");
    assert_eq!(origin_of(node(linked)), ptr::from_ref(node(0)));
    for task in [third, second, first] {
        // SAFETY: it ends, and these are its references.
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

/// The one between is linked, by somebody who has not seen the mark above it, before the walk comes to it.
#[test]
fn loom_who_is_told_of_a_cancel_is_not_told_otherwise() {
    explore(2, || ask_and_link(2, 1, false));
}

/// It is marked by who asks while the one below it is linked: that one is marked, too.
#[test]
fn loom_what_is_linked_below_one_that_asks_is_cancelled() {
    explore(2, || ask_and_link(1, 2, true));
}

/// One that is looked past begins to ignore cancellation, and what is above it is cancelled after that: whoever is below it is not told.
#[test]
fn loom_who_asks_below_one_that_ignores_a_cancel_is_not_told_of_it() {
    explore(3, || {
        let root = Stage::new(Root::new(1));
        let first = record_below(|| (), &raw const root.node);
        let second = record_below(|| (), first.as_ptr().cast());
        let third = record_below(|| (), second.as_ptr().cast());
        let line = Stage::new(Family(first, second));
        let ignores = spawn(move || {
            // SAFETY: they have not ended.
            unsafe {
                assert!(line.1.as_ref().node.word().ignore());
                cancel_node(&line.0.as_ref().node, None);
            }
        });
        // SAFETY: it has not ended.
        let told = is_cancelled(unsafe { &third.as_ref().node });
        assert!(!told, "it is told of what is ignored above it");
        ignores.join().unwrap();
        for task in [third, second, first] {
            // SAFETY: it ends, and these are its references.
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

/// Somebody cancels a task by his handle, which keeps the task and not what is above it: while it is told of a cancel from there, and ends, and so does
/// the one above it. One of them makes the cold data, and nothing is left.
#[test]
fn loom_a_cancel_by_a_handle_comes_with_one_from_above() {
    explore(3, || {
        let before = live_atomics();
        let root = Stage::new(Root::new(1));
        let parent = record_below(|| (), &raw const root.node);
        let child = record_below(|| (), parent.as_ptr().cast());
        let handle = Stage::new(Family(parent, child));
        // SAFETY: they have not ended, and have two references each.
        let (above, node) = unsafe { (&parent.as_ref().node, &child.as_ref().node) };
        // SAFETY: as above.
        unsafe { cancel_node(above, None) };
        let let_go = move || {
            let child = handle.1;
            // SAFETY: a reference of the caller's.
            unsafe {
                if child.as_ref().release(1) {
                    end(child);
                }
            }
        };
        let canceller = spawn(move || {
            // SAFETY: the handle keeps it.
            unsafe { cancel_node(&handle.1.as_ref().node, None) };
            let_go();
        });
        assert!(is_cancelled(node), "the cancel has not reached it");
        let_go();
        // SAFETY: it ends, and both references are the caller's.
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
        assert_eq!(live_atomics(), before, "cold are left over");
    });
}

/// A task that ignores that is cancelled while it is linked; what comes from above afterwards is not the reason.
#[test]
fn loom_the_first_reason_counts_also_for_one_that_ignores_it() {
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
        assert!(ptr::eq(origin_of(node), node), "the reason is that of who came later");
        // As a handle asks.
        assert!(node.cold().is_some_and(|cold| cold.children().is_marked()), "nothing is said");
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

/// A task begins to ignore cancellation while it is cancelled: it is refused, or the mark is there when it stops.
#[test]
fn loom_a_cancel_is_not_lost_to_one_who_begins_to_ignore_it() {
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
            Cancel::Deferred => assert!(deferred, "nobody delivers the cancel"),
            Cancel::First => assert!(!deferred, "two deliver the cancel"),
            Cancel::Already => panic!("nobody else cancels it"),
        }
        // SAFETY: the thread has ended, and the record has one reference.
        unsafe {
            assert!(task.task().release(1));
            end(task.task);
            task.end();
        }
    });
}

/// Somebody's handle to a list of children.
struct Handle(NonNull<Children>);

impl Handle {
    fn cancel_and_drop(&self) {
        // SAFETY: the handle, given up at the end.
        unsafe {
            cancel_children(self.0.as_ref(), Some(Cause::shut_down()));
            Children::release_handle(self.0);
        }
    }
}

/// A linked node, to whose list of children somebody has a handle.
fn with_handle(root: &Stage<Root>) -> (NonNull<Record>, Stage<Handle>) {
    let task = record_below(|| (), &raw const root.node);
    // SAFETY: it has not ended.
    let node = unsafe { &task.as_ref().node };
    // SAFETY: as above.
    unsafe { link(node, |_, node| root.children_for(node), |_, _| (), |_| ()) };
    let cold: *const ColdData = node.cold().unwrap();
    // SAFETY: as above.
    unsafe { (*cold).children() }.add_handle_of(node);
    (task, Stage::new(Handle(NonNull::new(cold.cast_mut().cast()).unwrap())))
}

/// A node ends while somebody who has a handle to its list of children cancels it, and maybe a walk comes.
fn end_and_cancel(walk: bool) {
    let before = live_atomics();
    let root = Stage::new(Root::new(1));
    let (task, handle) = with_handle(&root);
    // SAFETY: it has not ended.
    let node = unsafe { &task.as_ref().node };
    // A walk is on its way to nodes with children alone.
    let child = walk.then(|| record_below(|| (), node));
    if let Some(child) = child {
        // SAFETY: it has not ended; its parent is linked.
        unsafe {
            link(&child.as_ref().node, |_, _| unreachable!("not below a root"), |_, _| (), |_| ())
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
    assert_eq!(live_atomics(), before, "cold are left over");
}

#[test]
fn loom_a_handle_may_cancel_a_node_that_ends() {
    explore(3, || end_and_cancel(false));
}

#[test]
fn loom_a_handle_and_a_walk_may_cancel_a_node_that_ends() {
    explore(2, || end_and_cancel(true));
}

/// Somebody else cancels a scope: the one that runs in it is cancelled before a handle says so.
#[test]
fn loom_a_node_is_cancelled_when_its_handle_says_so() {
    explore(3, || {
        let before = live_atomics();
        let root = Stage::new(Root::new(1));
        let (task, handle) = with_handle(&root);
        // SAFETY: it has not ended.
        let node = unsafe { &task.as_ref().node };
        // SAFETY: a handle keeps it.
        let children = unsafe { handle.0.as_ref() };
        children.add_handle();
        let canceller = spawn(move || handle.cancel_and_drop());
        if children.is_marked() {
            assert!(is_cancelled(node), "its handle says that it is cancelled");
        }
        unlink(node);
        // SAFETY: it has ended, and only the handle is left.
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
        assert_eq!(live_atomics(), before, "cold are left over");
    });
}
