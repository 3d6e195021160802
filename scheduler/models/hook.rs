//! Hooks: a hook and its guard against the end of the node and a cancel; watchers; queries after
//! the end of a task.

use crate::scheduler::cancel::hook::{Body, Hung, hang, unhook_all, unhook_watchers};
use crate::scheduler::cancel::{cancel, cancel_all, link, make_known};
use crate::scheduler::life::complete::{finish, unlink_node};
use crate::scheduler::life::root::Root;
use crate::scheduler::wait::watching::{
    Watching, is_cancelled_or_was, is_marked_or_was, watch_task,
};
use crate::shim::atomic::live_atomics;
use crate::shim::check::{Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::cause::Cause;
use crate::task::children::{self, Children};
use crate::task::models::{end, record_below};
use crate::task::record::{Phase, Record, RunEnd, WATCHED};
use crate::task::words::tree::Node;
use std::ptr::NonNull;
use std::sync::Arc;

struct Calls {
    /// Written by the one call that is made.
    call: Baton,
}

struct Hook(Stage<Calls>);

// SAFETY: loom checks that the uses of the baton do not overlap.
unsafe impl Send for Hook {}

impl Body for Hook {
    fn on_cancel(self: Box<Self>, _: Arc<Cause>) {
        assert_eq!(self.0.call.write(), 0, "called twice");
    }

    fn on_cleanup(self: Box<Self>) {
        assert_eq!(self.0.call.write(), 0, "called twice");
    }
}

/// A record or a guard that is sent to a thread of a model.
struct Sent<T>(T);

// SAFETY: records and guards may be shared between threads.
unsafe impl<T> Send for Sent<T> {}

/// A hook is called by exactly one of a cancel, the end of its node and, if `guarded`, the drop of
/// its guard.
fn one_calls(guarded: bool) {
    let before = live_atomics();
    let (root, calls) = (Stage::new(Root::new(1)), Stage::new(Calls { call: Baton::new() }));
    let task: NonNull<Record> = record_below(|| (), &raw const root.node);
    // SAFETY: the task has not ended.
    let node = unsafe { &task.as_ref().node };
    let guard = hang(node, Box::new(Hook(calls)));
    let canceller = spawn(move || cancel_all(&root));
    let dropper = if guarded {
        let guard = Sent(guard);
        Some(spawn(move || {
            let guard: Sent<Hung> = guard;
            drop(guard.0);
        }))
    } else {
        guard.keep();
        None
    };
    unlink_node(node);
    // SAFETY: the task has ended, and both references are this thread's. A walk or a guard may
    // still use the list of children.
    unsafe {
        assert!(task.as_ref().release(2));
        end(task);
    }
    canceller.join().unwrap();
    if let Some(dropper) = dropper {
        dropper.join().unwrap();
    }
    assert_eq!(calls.call.read(), 1, "the number of calls of the hook");
    // SAFETY: the threads have ended.
    unsafe {
        calls.end();
        root.end();
    }
    assert_eq!(live_atomics(), before, "something is left over");
}

#[test]
fn loom_a_cancel_or_the_end_calls_a_hook() {
    explore(3, || one_calls(false));
}

#[test]
fn loom_a_cancel_the_end_or_the_guard_calls_a_hook() {
    explore(2, || one_calls(true));
}

/// A hook is hung while a cancel comes.
#[test]
fn loom_a_hook_that_is_hung_during_the_cancel_is_called() {
    explore(3, || {
        let before = live_atomics();
        let (root, calls) = (Stage::new(Root::new(1)), Stage::new(Calls { call: Baton::new() }));
        let task: NonNull<Record> = record_below(|| (), &raw const root.node);
        let canceller = spawn(move || cancel_all(&root));
        // SAFETY: the task has not ended.
        let node = unsafe { &task.as_ref().node };
        hang(node, Box::new(Hook(calls))).keep();
        canceller.join().unwrap();
        assert_eq!(calls.call.read(), 1, "the hook has missed the cancel, or was called twice");
        unlink_node(node);
        // SAFETY: the task has ended, and both references are this thread's.
        unsafe {
            assert!(task.as_ref().release(2));
            end(task);
            calls.end();
            root.end();
        }
        assert_eq!(live_atomics(), before, "something is left over");
    });
}

/// A hook that owns the guard of another hook, and drops that guard when it is called.
struct Drops {
    told: Stage<Calls>,
    guard: Option<Hung>,
}

// SAFETY: loom checks that the uses of the baton do not overlap, and a guard may be sent.
unsafe impl Send for Drops {}

impl Body for Drops {
    fn on_cancel(mut self: Box<Self>, _: Arc<Cause>) {
        self.guard = None;
        assert_eq!(self.told.call.write(), 0, "called twice");
    }

    fn on_cleanup(self: Box<Self>) {
        panic!("the hook was told of the end, but its node was cancelled");
    }
}

/// A cancelled task ends before the walk has come to its hooks. The guards of two hooks are dropped
/// meanwhile, one by a hook and one by another thread. All hooks are told of the cancel.
#[test]
fn loom_a_hook_that_the_end_of_a_cancelled_task_takes_out_is_told() {
    explore(3, || {
        let before = live_atomics();
        let stage = || Stage::new(Calls { call: Baton::new() });
        let (root, calls) = (Stage::new(Root::new(1)), [stage(), stage(), stage()]);
        let task: NonNull<Record> = record_below(|| (), &raw const root.node);
        // SAFETY: the task has not ended.
        let node = unsafe { &task.as_ref().node };
        let hook = |told| Box::new(Drops { told, guard: None });
        let guard = Sent(hang(node, hook(calls[0])));
        // Hooks are called in the order in which they were hung, or in the opposite order.
        let inner = Some(hang(node, hook(calls[1])));
        hang(node, Box::new(Drops { told: calls[2], guard: inner })).keep();
        node.word().cancel();
        let dropper = spawn(move || {
            let guard: Sent<Hung> = guard;
            drop(guard.0);
        });
        unlink_node(node);
        // SAFETY: the task has ended, and both references are this thread's. A guard may still use
        // the list of children.
        unsafe {
            assert!(task.as_ref().release(2));
            end(task);
        }
        dropper.join().unwrap();
        for calls in calls {
            assert_eq!(calls.call.read(), 1, "the number of calls of a hook");
        }
        // SAFETY: the threads have ended.
        unsafe {
            calls.iter().for_each(|calls| calls.end());
            root.end();
        }
        assert_eq!(live_atomics(), before, "something is left over");
    });
}

/// A thread with nothing but a reference watches a task while the task ends and, if `cancelled`, is
/// cancelled. The watcher is told once, whether it comes before the end or after it. If `dropped`,
/// the watcher stops watching at once.
fn a_watcher_is_told(cancelled: bool, dropped: bool) {
    let before = live_atomics();
    let (root, calls) = (Stage::new(Root::new(1)), Stage::new(Calls { call: Baton::new() }));
    let task: NonNull<Record> = record_below(|| (), &raw const root.node);
    // SAFETY: this thread has references.
    let record = unsafe { task.as_ref() };
    record.add_reference();
    record.begin();
    let release = |n: u32| {
        // SAFETY: the caller has these references.
        if unsafe { task.as_ref() }.release(n) {
            // SAFETY: no reference is left.
            unsafe { end(task) };
        }
    };
    let theirs = Sent(task);
    let watcher = spawn(move || {
        let theirs: Sent<NonNull<Record>> = theirs;
        // SAFETY: the reference is released only after the guard is dropped.
        let watching = watch_task(unsafe { theirs.0.as_ref() }, Box::new(Hook(calls)));
        Sent((!dropped).then_some(watching))
    });
    if cancelled {
        cancel(record, Some(Cause::shut_down()));
    }
    record.set_phase(Phase::Finished);
    match record.release_run(1) {
        RunEnd::Last => unreachable!("a handle has a reference"),
        RunEnd::Kept => {}
        RunEnd::Watched => {
            unhook_watchers(record);
            release(WATCHED);
        }
    }
    let watching: Sent<Option<Watching>> = watcher.join().unwrap();
    let told = calls.call.read();
    assert!(told == 1 || dropped && told == 0, "told {told} times");
    drop(watching.0);
    release(1);
    release(1);
    // SAFETY: the threads have ended.
    unsafe {
        calls.end();
        root.end();
    }
    assert_eq!(live_atomics(), before, "something is left over");
}

#[test]
fn loom_a_watcher_of_a_task_that_ends_is_told_once() {
    explore(3, || a_watcher_is_told(false, false));
}

#[test]
fn loom_a_watcher_of_a_task_that_is_cancelled_is_told_once() {
    explore(3, || a_watcher_is_told(true, false));
}

#[test]
fn loom_a_watcher_that_stops_watching_leaves_nothing() {
    explore(3, || a_watcher_is_told(true, true));
}

#[test]
#[should_panic]
fn loom_negative_a_watch_of_a_task_without_order() {
    plant("task/record.rs", ORDERS);
    explore(3, || a_watcher_is_told(false, false));
}

/// A hook that reports whether it was told of a cancel.
struct Verdict(std::sync::mpsc::Sender<bool>);

impl Body for Verdict {
    fn on_cancel(self: Box<Self>, _: Arc<Cause>) {
        self.0.send(true).unwrap();
    }

    fn on_cleanup(self: Box<Self>) {
        self.0.send(false).unwrap();
    }
}

/// A task ends while it is cancelled. A watcher and the owner of a handle are told the same, and
/// the answer stays the same. If `early`, the task is watched, and so linked, before its end
/// begins. Otherwise it is watched after the end has looked whether the task is linked.
fn what_is_told_stays(early: bool, preemptions: usize) {
    explore(preemptions, move || {
        let before = live_atomics();
        let root = Stage::new(Root::new(1));
        let task: NonNull<Record> = record_below(|| (), &raw const root.node);
        // SAFETY: this thread has references.
        let record = unsafe { task.as_ref() };
        record.add_reference();
        record.begin();
        let (tell, told) = std::sync::mpsc::channel();
        let watch = || watch_task(record, Box::new(Verdict(tell.clone())));
        let watching = early.then(watch);
        let theirs = Sent(task);
        let canceller = spawn(move || {
            let theirs: Sent<NonNull<Record>> = theirs;
            // SAFETY: the references outlive the thread.
            cancel(unsafe { theirs.0.as_ref() }, Some(Cause::shut_down()));
        });
        finish(record);
        let watching = watching.unwrap_or_else(watch);
        let theirs = Sent(task);
        let asker = spawn(move || {
            let theirs: Sent<NonNull<Record>> = theirs;
            // SAFETY: the references outlive the thread.
            is_marked_or_was(unsafe { theirs.0.as_ref() })
        });
        assert!(matches!(record.release_run(1), RunEnd::Watched));
        unhook_watchers(record);
        canceller.join().unwrap();
        let answers = [asker.join().unwrap(), is_marked_or_was(record)];
        assert_eq!(answers, [told.recv().unwrap(); 2], "the watcher was told otherwise");
        drop(watching);
        // SAFETY: the threads have ended, and the references that are left are this thread's.
        unsafe {
            assert!(record.release(WATCHED + 2));
            end(task);
            root.end();
        }
        assert_eq!(live_atomics(), before, "something is left over");
    });
}

#[test]
fn loom_an_answer_about_a_task_that_has_ended_stays() {
    what_is_told_stays(false, 3);
}

#[test]
fn loom_an_answer_about_a_linked_task_that_has_ended_stays() {
    what_is_told_stays(true, 3);
}

/// A thread begins to watch a linked task, which ends, while a cancel comes from above. Once the
/// task is unlinked, its parent may end, although the task has not been released yet. So no walk
/// may still be on its way to a hook of the task, because it would ask the parent for the reason.
fn a_walk_meets_a_watcher(unlink: fn(&Node)) {
    let before = live_atomics();
    let (root, calls) = (Stage::new(Root::new(1)), Stage::new(Calls { call: Baton::new() }));
    let task: NonNull<Record> = record_below(|| (), &raw const root.node);
    // SAFETY: this thread has references.
    let record = unsafe { task.as_ref() };
    record.add_reference();
    record.begin();
    link(&record.node);
    let theirs = Sent(task);
    let watcher = spawn(move || {
        let theirs: Sent<NonNull<Record>> = theirs;
        // SAFETY: the reference is released only after the guard is dropped.
        Sent(watch_task(unsafe { theirs.0.as_ref() }, Box::new(Hook(calls))))
    });
    let canceller = spawn(move || cancel_all(&root));
    unlink(&record.node);
    let cold = record.node.cold().expect("a linked node has cold data");
    assert!(!cold.children().is_awaited(), "a walk is on its way to a hook of an unlinked task");
    canceller.join().unwrap();
    record.set_phase(Phase::Finished);
    let watched = matches!(record.release_run(1), RunEnd::Watched);
    if watched {
        unhook_watchers(record);
    }
    let watching: Sent<Watching> = watcher.join().unwrap();
    assert_eq!(calls.call.read(), 1, "the number of calls of the watcher");
    drop(watching.0);
    // SAFETY: the threads have ended, and the references that are left are this thread's.
    unsafe {
        assert!(record.release(if watched { WATCHED + 2 } else { 2 }));
        end(task);
        calls.end();
        root.end();
    }
    assert_eq!(live_atomics(), before, "something is left over");
}

#[test]
fn loom_no_walk_is_on_its_way_to_a_watcher_of_an_unlinked_task() {
    explore(3, || a_walk_meets_a_watcher(unlink_node));
}

/// The task looks for hooks before it is unlinked, but not afterwards.
#[test]
#[should_panic(expected = "on its way to a hook")]
fn loom_negative_a_task_that_looks_for_watchers_before_its_unlink() {
    explore(3, || {
        a_walk_meets_a_watcher(|node| {
            let cold = node.cold().expect("a linked node has cold data");
            if cold.children().has_had_children() {
                unhook_all(node, cold);
            }
            children::unlink(node);
        });
    });
}

/// A thread begins to watch an unlinked task while its parent is cancelled, and the task computes
/// or, if `ends`, ends. Once the task has told its watchers, it is in no list, and no thread links
/// it again, because its parent may end.
fn a_watcher_links_a_task(ends: bool, tell: fn(&Record)) {
    let before = live_atomics();
    let (root, calls) = (Stage::new(Root::new(1)), Stage::new(Calls { call: Baton::new() }));
    let task: NonNull<Record> = record_below(|| (), &raw const root.node);
    // SAFETY: this thread has references.
    let record = unsafe { task.as_ref() };
    record.add_reference();
    record.begin();
    let theirs = Sent(task);
    let watcher = spawn(move || {
        let theirs: Sent<NonNull<Record>> = theirs;
        // SAFETY: the reference is released only after the guard is dropped.
        Sent(watch_task(unsafe { theirs.0.as_ref() }, Box::new(Hook(calls))))
    });
    let canceller = spawn(move || cancel_all(&root));
    let join = || {
        canceller.join().unwrap();
        let watching: Sent<Watching> = watcher.join().unwrap();
        assert_eq!(calls.call.read(), 1, "the number of calls of the watcher");
        drop(watching.0);
    };
    let in_no_list = || root.children_lists().all(Children::is_empty);
    let mut left = 2;
    let mut end_it = || {
        finish(record);
        if let RunEnd::Watched = record.release_run(1) {
            tell(record);
            left += WATCHED;
        }
        assert!(in_no_list(), "the task is in a list, and its parent may end");
    };
    if ends {
        end_it();
        join();
    } else {
        join();
        end_it();
    }
    assert!(in_no_list(), "the task was linked after its end");
    // SAFETY: the threads have ended, and the references that are left are this thread's.
    unsafe {
        assert!(record.release(left));
        end(task);
        calls.end();
        root.end();
    }
    assert_eq!(live_atomics(), before, "something is left over");
}

#[test]
fn loom_a_watcher_of_a_computing_task_is_told_of_a_cancel_from_above() {
    explore(3, || a_watcher_links_a_task(false, unhook_watchers));
}

#[test]
fn loom_a_watched_task_that_has_ended_is_in_no_list() {
    explore(3, || a_watcher_links_a_task(true, unhook_watchers));
}

/// The task tells its watchers, and does not look whether a watcher has linked it.
#[test]
#[should_panic(expected = "the task is in a list")]
fn loom_negative_a_watched_task_that_does_not_look_whether_it_was_linked() {
    explore(3, || {
        a_watcher_links_a_task(true, |task| {
            let cold = task.cold().expect("a watched task has cold data");
            cold.children().unhook_all(|| (), |place, ()| drop(Sent(place)));
        });
    });
}

/// The first query whether a task is cancelled comes while the task ends.
#[test]
fn loom_a_query_meets_the_end_of_its_task() {
    explore(3, || {
        let before = live_atomics();
        let root = Stage::new(Root::new(1));
        let task: NonNull<Record> = record_below(|| (), &raw const root.node);
        // SAFETY: this thread has references.
        let record = unsafe { task.as_ref() };
        record.begin();
        let theirs = Sent(task);
        let asker = spawn(move || {
            let theirs: Sent<NonNull<Record>> = theirs;
            // SAFETY: the reference outlives the thread.
            is_cancelled_or_was(unsafe { theirs.0.as_ref() })
        });
        finish(record);
        let mut left = 1;
        if let RunEnd::Watched = record.release_run(1) {
            unhook_watchers(record);
            left += WATCHED;
        }
        assert!(!asker.join().unwrap(), "this model has no cancel");
        assert!(root.children_lists().all(Children::is_empty), "the task is in a list");
        // SAFETY: the thread has ended, and the references that are left are this thread's.
        unsafe {
            assert!(record.release(left));
            end(task);
            root.end();
        }
        assert_eq!(live_atomics(), before, "something is left over");
    });
}

/// The first query whether a task is cancelled comes while the task and its parent end, the parent
/// is freed, and a cancel comes from above. The query links both tasks. It may have to carry the
/// cancel to the parent's children after the parent has ended. Once the query has reported the
/// cancel, the answer stays.
#[test]
fn loom_a_query_meets_the_end_of_its_task_and_of_the_parent() {
    explore(2, || {
        let before = live_atomics();
        let root = Stage::new(Root::new(1));
        let above: NonNull<Record> = record_below(|| (), &raw const root.node);
        let task: NonNull<Record> = record_below(|| (), above.as_ptr().cast());
        // SAFETY: this thread has references.
        let (parent, record) = unsafe { (above.as_ref(), task.as_ref()) };
        parent.begin();
        record.begin();
        let theirs = Sent(task);
        let asker = spawn(move || {
            let theirs: Sent<NonNull<Record>> = theirs;
            // SAFETY: the reference outlives the thread.
            is_cancelled_or_was(unsafe { theirs.0.as_ref() })
        });
        let canceller = spawn(move || cancel_all(&root));
        finish(record);
        let mut left = 1;
        if let RunEnd::Watched = record.release_run(1) {
            unhook_watchers(record);
            left += WATCHED;
        }
        finish(parent);
        assert!(root.children_lists().all(Children::is_empty), "one of the tasks is in a list");
        // SAFETY: the parent and its child have ended, and both references are this thread's.
        unsafe {
            assert!(parent.release(2));
            end(above);
        }
        let told = asker.join().unwrap();
        canceller.join().unwrap();
        assert!(!told || is_marked_or_was(record), "a second query gives another answer");
        // SAFETY: the threads have ended, and the references that are left are this thread's.
        unsafe {
            assert!(record.release(left));
            end(task);
            root.end();
        }
        assert_eq!(live_atomics(), before, "something is left over");
    });
}

/// A task without any handle makes a reference to itself for others while a cancel comes from
/// above. The reason of the cancel is written down.
fn one_makes_itself_known(make_known: fn(&Record)) {
    let before = live_atomics();
    let root = Stage::new(Root::new(1));
    let task: NonNull<Record> = record_below(|| (), &raw const root.node);
    // SAFETY: this thread has references.
    let record = unsafe { task.as_ref() };
    assert!(!record.release(1), "the handle's reference was the last");
    record.begin();
    link(&record.node);
    let canceller = spawn(move || cancel_all(&root));
    make_known(record);
    canceller.join().unwrap();
    let cold = record.node.cold().expect("a linked node has cold data");
    assert!(cold.cause.get().is_some(), "the reason is lost");
    unlink_node(&record.node);
    // SAFETY: the thread has ended, and the references that are left are this thread's.
    unsafe {
        assert!(record.release(2));
        end(task);
        root.end();
    }
    assert_eq!(live_atomics(), before, "something is left over");
}

#[test]
fn loom_the_reason_is_written_down_for_a_task_that_makes_itself_known() {
    explore(3, || one_makes_itself_known(make_known));
}

#[test]
#[should_panic(expected = "the reason is lost")]
fn loom_negative_a_task_that_makes_itself_known_and_looks_for_no_mark() {
    explore(3, || one_makes_itself_known(Record::add_reference));
}
