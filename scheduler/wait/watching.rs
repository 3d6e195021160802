//! Watching a task or scope from outside, with no more than a handle.
//!
//! A hook is usually hung by code that runs in the node or keeps it open. The holder of a mere
//! handle [watches](Watching) instead: the node may end at any moment, and its ancestors with it.
//!
//! * **A scope.** The handle finds the node under the lock of its list of children, or learns
//!   that it has ended. When the handle was made, the scope was told to look into its list at its
//!   end.
//! * **A task.** A task is not in its parent's list before it waits. Most tasks never wait, so
//!   their ends do not look into their own lists. But a handle to a task is a reference to its
//!   record, and the end of a task with other references releases the run reference by an atomic
//!   update. The watcher has left a mark in that word ([`Record::watch`]), so the end of the task
//!   sees the mark and tells the hooks. The watcher also links the task, so that a cancel from
//!   above finds the hooks, as a cancel of the task itself does ([`watch_and_link`]).

use crate::scheduler::cancel::hook::{Body, Hanging, Hook, NotHung, cause_seen};
use crate::scheduler::cancel::{Woken, link_and_mark};
use crate::scheduler::life::live_node::LiveNode;
use crate::task::cause::Cause;
use crate::task::children::ChildrenRef;
use crate::task::record::{Phase, Record};
use std::sync::Arc;

/// Returns whether a task is cancelled, in effect or not, by itself or with an ancestor, or was
/// cancelled when it ended. The caller has a handle to the task.
#[inline]
pub(crate) fn is_cancelled_or_was(task: &Record) -> bool {
    if !is_marked_or_was(task) && !task.node.is_linked() && task.phase() != Phase::Finished {
        watch_and_link(task);
    }
    // Looks again in any case: a thread that has linked or ended the task meanwhile marked it
    // before.
    is_marked_or_was(task)
}

/// Returns whether a cancel, in effect or not, has reached a task, or had reached it when it
/// ended. The caller has a handle to the task.
#[inline]
pub(crate) fn is_marked_or_was(task: &Record) -> bool {
    let marked = task.node.word().is_marked();
    // The mark is read before the phase. If another thread has decided the answer and a mark came
    // after that, a reader of the mark also finds the task finished, and returns the decided
    // answer.
    // MUTANT(cancel.was): false
    if task.phase() == Phase::Finished { task.node.word().decide() } else { marked }
}

/// [Watches](Record::watch) a task and links it, so that a cancel of an ancestor reaches it
/// although it computes and does not ask. Returns `false` if the task has ended. The caller has a
/// reference to the task.
pub(crate) fn watch_and_link(task: &Record) -> bool {
    // The cold data are made before the watch: the end of a watched task looks into them.
    // MUTANT(cancel.watch.made): skip
    let _made = task.node.cold_or_new();
    if !task.watch() {
        return false;
    }
    let mine = task.node.cold_or_new().children();
    if task.node.is_linked() {
        return true;
    }
    // For each node that linking marks: what is to be delivered once the lock is free.
    let mut marked = Vec::new();
    mine.before_the_end(|| {
        // SAFETY: the task was watched before this lock was taken, and the end of the task has
        // not taken the lock yet. The end takes it before it releases the parent, so the node has
        // not ended while the lock is held.
        let node = unsafe { LiveNode::new(&raw const task.node) };
        // The caller's reference to the task keeps its own list, whose lock is held here.
        link_and_mark(node, |delivery| marked.extend(delivery.kept(mine)));
    });
    let woken = Woken::default();
    marked.into_iter().for_each(|delivery| woken.walk(delivery));
    woken.finish();
    true
}

/// Hangs a hook on a task, which may be fresh, started, or ended, on any worker. The caller has a
/// reference to the task, and keeps it for longer than the returned guard.
pub(crate) fn watch_task(task: &Record, body: Box<dyn Body>) -> Watching {
    let hook = Hook::new(body);
    let hung = if watch_and_link(task) {
        // SAFETY: the task is linked and watched, so its end takes the hooks out of the list.
        unsafe { Hanging::on(&task.node, hook, |_| cause_seen(task)) }
    } else {
        Err((hook, None))
    };
    Watching::of(hung, || task.node.word().decide().then(|| cause_seen(task)))
}

/// Hangs a hook on a scope that may have ended. Its list
/// [bears](crate::task::children::Children::bear).
pub(crate) fn watch_scope(children: &ChildrenRef, body: Box<dyn Body>) -> Watching {
    // The end of the scope has written the cause.
    Watching::of(Hanging::by(children, Hook::new(body)), || children.cause())
}

/// The guard of a hook on a node that may end at any time, together with its ancestors. Dropping
/// the guard takes the hook out of the list without calling it, and does not wait for a call that
/// is under way.
pub(crate) struct Watching {
    /// `None` if the hook was never in a list.
    hanging: Option<Hanging>,
}

impl Watching {
    /// Runs the hook at once if it was not hung. If the node has ended, `cause` returns the cause
    /// of its cancel.
    fn of(hung: Result<Hanging, NotHung>, cause: impl FnOnce() -> Option<Arc<Cause>>) -> Watching {
        let not_hung = |(hook, told): NotHung| hook.run_at_once(told.or_else(cause));
        Watching { hanging: hung.map_err(not_hung).ok() }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(hanging) = self.hanging.take() {
            let _ = hanging.take_out(|_| ());
        }
    }
}
