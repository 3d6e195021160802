//! Hooks: a hook and its guard against the end of the node and a cancel; watchers; queries after
//! the end of a task.

use crate::scheduler::cancel::hook::{Body, Hung, hang, unhook_all, unhook_watchers};
use crate::scheduler::cancel::{cancel, cancel_all, link, make_known};
use crate::scheduler::life::complete::unlink_node;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::root::Root;
use crate::scheduler::models::{Task, finish, live};
use crate::scheduler::wait::watching::{is_cancelled_or_was, is_marked_or_was, watch_task};
use crate::scheduler::worker::release::SharedRef;
use crate::shim::check::{Baton, ORDERS, Stage, beside, explore_to_the_end, models};
use crate::shim::thread::spawn;
use crate::task::cause::Cause;
use crate::task::children::{self, Children};
use crate::task::record::{Phase, Record, RunEnd, WATCHED};
use crate::task::words::tree::Node;
use std::sync::Arc;

/// A hook, with a baton that the one call writes.
struct Hook(Stage<Baton>);

impl Body for Hook {
    fn on_cancel(self: Box<Self>, _: Arc<Cause>) {
        assert_eq!(self.0.write(), 0, "called twice");
    }

    fn on_cleanup(self: Box<Self>) {
        assert_eq!(self.0.write(), 0, "called twice");
    }
}

/// Makes a root, a task below it, and the baton of a hook.
fn scene() -> (Stage<Root>, Task, Stage<Baton>) {
    let root = Stage::new(Root::new(1));
    (root, Task::below(&root), Stage::new(Baton::new()))
}

/// Like `scene`. The task has begun, and has a reference for a watcher too.
fn watched_scene() -> (Stage<Root>, Task, Stage<Baton>) {
    let scene = scene();
    scene.1.add_reference();
    scene.1.begin();
    scene
}

/// Releases the run reference of a task that has finished, and calls `tell` if the task is watched.
/// Returns the number of references that the watchers leave.
fn release_run(task: Task, tell: impl FnOnce(&Record)) -> u32 {
    if let RunEnd::Watched = task.release_run(1) {
        tell(&task);
        WATCHED
    } else {
        0
    }
}

/// A hook is called by exactly one of a cancel, the end of its node and, if `guarded`, the drop of
/// its guard.
fn one_calls(guarded: bool) {
    let (root, task, calls) = scene();
    let guard = hang(live(&task.node), Box::new(Hook(calls)));
    let canceller = spawn(move || cancel_all(&root));
    let dropper = if guarded {
        Some(spawn(move || drop(guard)))
    } else {
        guard.keep();
        None
    };
    unlink_node(live(&task.node));
    // A walk or a guard may still use the list of children.
    task.free(2);
    canceller.join().unwrap();
    dropper.map(|dropper| dropper.join().unwrap());
    assert_eq!(calls.read(), 1, "the number of calls of the hook");
}

models! {
    fn loom_a_cancel_or_the_end_calls_a_hook() = explore_to_the_end(3, || one_calls(false));

    fn loom_a_cancel_the_end_or_the_guard_calls_a_hook() =
        explore_to_the_end(2, || one_calls(true));
}

/// A hook is hung while a cancel comes.
#[test]
fn loom_a_hook_that_is_hung_during_the_cancel_is_called() {
    explore_to_the_end(3, || {
        let (root, task, calls) = scene();
        beside(move || cancel_all(&root), || hang(live(&task.node), Box::new(Hook(calls))).keep());
        assert_eq!(calls.read(), 1, "the hook has missed the cancel, or was called twice");
        unlink_node(live(&task.node));
        task.free(2);
    });
}

/// A hook that owns the guard of another hook, and drops that guard when it is called.
struct Drops {
    told: Stage<Baton>,
    guard: Option<Hung>,
}

impl Body for Drops {
    fn on_cancel(mut self: Box<Self>, _: Arc<Cause>) {
        self.guard = None;
        assert_eq!(self.told.write(), 0, "called twice");
    }

    fn on_cleanup(self: Box<Self>) {
        panic!("the hook was told of the end, but its node was cancelled");
    }
}

/// A cancelled task ends before the walk has come to its hooks. The guards of two hooks are dropped
/// meanwhile, one by a hook and one by another thread. All hooks are told of the cancel.
#[test]
fn loom_a_hook_that_the_end_of_a_cancelled_task_takes_out_is_told() {
    explore_to_the_end(3, || {
        let root = Stage::new(Root::new(1));
        let (task, calls) = (Task::below(&root), [(); 3].map(|()| Stage::new(Baton::new())));
        let node = &task.node;
        let hook = |told| Box::new(Drops { told, guard: None });
        let guard = hang(live(node), hook(calls[0]));
        // Hooks are called in the order in which they were hung, or in the opposite order.
        let inner = Some(hang(live(node), hook(calls[1])));
        hang(live(node), Box::new(Drops { told: calls[2], guard: inner })).keep();
        node.word().cancel();
        let dropper = spawn(move || drop(guard));
        unlink_node(live(node));
        // A guard may still use the list of children.
        task.free(2);
        dropper.join().unwrap();
        for calls in calls {
            assert_eq!(calls.read(), 1, "the number of calls of a hook");
        }
    });
}

/// A thread with nothing but a reference watches a task while the task ends and, if `cancelled`, is
/// cancelled. The watcher is told once, whether it comes before the end or after it. If `dropped`,
/// the watcher stops watching at once.
fn a_watcher_is_told(cancelled: bool, dropped: bool) {
    let (_root, task, calls) = watched_scene();
    let watcher = spawn(move || {
        // The watcher's reference is released only after the guard is dropped.
        let watching = watch_task(&task, Box::new(Hook(calls)));
        (!dropped).then_some(watching)
    });
    if cancelled {
        cancel(&task, Some(Cause::shut_down()));
    }
    task.set_phase(Phase::Finished);
    match task.release_run(1) {
        RunEnd::Last => unreachable!("a handle has a reference"),
        RunEnd::Kept => {}
        RunEnd::Watched => {
            unhook_watchers(&task);
            task.let_go(WATCHED);
        }
    }
    let watching = watcher.join().unwrap();
    let told = calls.read();
    assert!(told == 1 || dropped && told == 0, "told {told} times");
    drop(watching);
    task.let_go(1);
    task.let_go(1);
}

models! {
    fn loom_a_watcher_of_a_task_that_ends_is_told_once() =
        explore_to_the_end(3, || a_watcher_is_told(false, false));

    fn loom_a_watcher_of_a_task_that_is_cancelled_is_told_once() =
        explore_to_the_end(3, || a_watcher_is_told(true, false));

    fn loom_a_watcher_that_stops_watching_leaves_nothing() =
        explore_to_the_end(3, || a_watcher_is_told(true, true));

    fn loom_negative_a_watch_of_a_task_without_order() =
        explore_to_the_end(3, || a_watcher_is_told(false, false)),
        without ORDERS in "task/record.rs", fails;
}

/// A hook that reports whether it was told of a cancel.
struct Report(std::sync::mpsc::Sender<bool>);

impl Body for Report {
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
fn what_is_told_stays(early: bool) {
    explore_to_the_end(3, move || {
        let (_root, task, _) = watched_scene();
        let (tell, told) = std::sync::mpsc::channel();
        let watch = || watch_task(&task, Box::new(Report(tell.clone())));
        let watching = early.then(watch);
        let canceller = spawn(move || cancel(&task, Some(Cause::shut_down())));
        finish(&task);
        let watching = watching.unwrap_or_else(watch);
        let asker = spawn(move || is_marked_or_was(&task));
        assert_eq!(release_run(task, unhook_watchers), WATCHED);
        canceller.join().unwrap();
        let answers = [asker.join().unwrap(), is_marked_or_was(&task)];
        assert_eq!(answers, [told.recv().unwrap(); 2], "the watcher was told otherwise");
        drop(watching);
        task.free(WATCHED + 2);
    });
}

models! {
    fn loom_an_answer_about_a_task_that_has_ended_stays() = what_is_told_stays(false);

    fn loom_an_answer_about_a_linked_task_that_has_ended_stays() = what_is_told_stays(true);
}

/// A thread begins to watch a linked task, which ends, while a cancel comes from above. Once the
/// task is unlinked, its parent may end, although the task has not been released yet. So no walk
/// may still be on its way to a hook of the task, because it would ask the parent for the reason.
fn a_walk_meets_a_watcher(unlink: fn(&Node)) {
    let (root, task, calls) = watched_scene();
    link(live(&task.node));
    // The watcher's reference is released only after the guard is dropped.
    let watcher = spawn(move || watch_task(&task, Box::new(Hook(calls))));
    let canceller = spawn(move || cancel_all(&root));
    unlink(&task.node);
    let cold = task.node.cold().expect("a linked node has cold data");
    assert!(!cold.children().is_awaited(), "a walk is on its way to a hook of an unlinked task");
    canceller.join().unwrap();
    task.set_phase(Phase::Finished);
    let left = release_run(task, unhook_watchers);
    let watching = watcher.join().unwrap();
    assert_eq!(calls.read(), 1, "the number of calls of the watcher");
    drop(watching);
    task.free(left + 2);
}

/// Looks for hooks before the unlink, but not afterwards.
fn look_and_unlink(node: &Node) {
    let cold = node.cold().expect("a linked node has cold data");
    if cold.children().has_had_children() {
        unhook_all(live(node), cold);
    }
    children::unlink(node);
}

models! {
    fn loom_no_walk_is_on_its_way_to_a_watcher_of_an_unlinked_task() =
        explore_to_the_end(3, || a_walk_meets_a_watcher(|node| unlink_node(live(node))));

    fn loom_negative_a_task_that_looks_for_watchers_before_its_unlink() =
        explore_to_the_end(3, || a_walk_meets_a_watcher(look_and_unlink)),
        fails: "on its way to a hook";
}

/// A thread begins to watch an unlinked task while its parent is cancelled, and the task computes
/// or, if `ends`, ends. Once the task has told its watchers, it is in no list, and no thread links
/// it again, because its parent may end.
fn a_watcher_links_a_task(ends: bool, tell: fn(&Record)) {
    let (root, task, calls) = watched_scene();
    // The watcher's reference is released only after the guard is dropped.
    let watcher = spawn(move || watch_task(&task, Box::new(Hook(calls))));
    let canceller = spawn(move || cancel_all(&root));
    let join = || {
        canceller.join().unwrap();
        let watching = watcher.join().unwrap();
        assert_eq!(calls.read(), 1, "the number of calls of the watcher");
        drop(watching);
    };
    let in_no_list = || root.children_lists().all(Children::is_empty);
    let end_it = || {
        finish(&task);
        let left = release_run(task, tell);
        assert!(in_no_list(), "the task is in a list, and its parent may end");
        left
    };
    let left = if ends {
        let left = end_it();
        join();
        left
    } else {
        join();
        end_it()
    };
    assert!(in_no_list(), "the task was linked after its end");
    task.free(left + 2);
}

/// Tells the watchers, and does not look whether one of them has linked the task.
fn unhook_and_not_unlink(task: &Record) {
    let cold = task.cold().expect("a watched task has cold data");
    cold.children().unhook_all(|| (), |_, ()| ());
}

models! {
    fn loom_a_watcher_of_a_computing_task_is_told_of_a_cancel_from_above() =
        explore_to_the_end(3, || a_watcher_links_a_task(false, unhook_watchers));

    fn loom_a_watched_task_that_has_ended_is_in_no_list() =
        explore_to_the_end(3, || a_watcher_links_a_task(true, unhook_watchers));

    fn loom_negative_a_watched_task_that_does_not_look_whether_it_was_linked() =
        explore_to_the_end(3, || a_watcher_links_a_task(true, unhook_and_not_unlink)),
        fails: "the task is in a list";
}

/// The first query whether a task is cancelled comes while the task ends.
#[test]
fn loom_a_query_meets_the_end_of_its_task() {
    explore_to_the_end(3, || {
        let (root, task, _) = scene();
        task.begin();
        let asker = spawn(move || is_cancelled_or_was(&task));
        finish(&task);
        let left = release_run(task, unhook_watchers);
        assert!(!asker.join().unwrap(), "this model has no cancel");
        assert!(root.children_lists().all(Children::is_empty), "the task is in a list");
        task.free(left + 1);
    });
}

/// The first query whether a task is cancelled comes while the task and its parent end, the parent
/// is freed, and a cancel comes from above. The query links both tasks. It may have to carry the
/// cancel to the parent's children after the parent has ended. Once the query has reported the
/// cancel, the answer stays.
#[test]
fn loom_a_query_meets_the_end_of_its_task_and_of_the_parent() {
    explore_to_the_end(2, || {
        let (root, parent, _) = scene();
        let task = parent.child();
        parent.begin();
        task.begin();
        let asker = spawn(move || is_cancelled_or_was(&task));
        let canceller = spawn(move || cancel_all(&root));
        finish(&task);
        let left = release_run(task, unhook_watchers);
        finish(&parent);
        assert!(root.children_lists().all(Children::is_empty), "one of the tasks is in a list");
        parent.free(2);
        let told = asker.join().unwrap();
        canceller.join().unwrap();
        assert!(!told || is_marked_or_was(&task), "a second query gives another answer");
        task.free(left + 1);
    });
}

/// A task without any handle makes a reference to itself for others while a cancel comes from
/// above. The reason of the cancel is written down.
fn one_makes_itself_known(make_known: fn(LiveNode<'_>) -> Option<SharedRef>) {
    let (root, task, _) = scene();
    assert!(!task.release(1), "the handle's reference was the last");
    task.begin();
    link(live(&task.node));
    let canceller = spawn(move || cancel_all(&root));
    let known = make_known(live(&task.node)).expect("a task").into_pointer();
    assert_eq!(known, task.0);
    canceller.join().unwrap();
    let cold = task.node.cold().expect("a linked node has cold data");
    assert!(cold.cause.get().is_some(), "the reason is lost");
    unlink_node(live(&task.node));
    task.free(2);
}

models! {
    fn loom_the_reason_is_written_down_for_a_task_that_makes_itself_known() =
        explore_to_the_end(3, || one_makes_itself_known(make_known));

    fn loom_negative_a_task_that_makes_itself_known_and_looks_for_no_mark() =
        explore_to_the_end(3, || one_makes_itself_known(|node| node.task().map(SharedRef::new))),
        fails: "the reason is lost";
}
