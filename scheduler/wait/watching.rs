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

use crate::scheduler::cancel::hook::{self, Body, Hook, cause_seen, run_at_once};
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::{Woken, link_and_mark};
use crate::shim::Arc;
use crate::task::children::{self, Children, Hang, origin_of};
use crate::task::cold::ColdData;
use crate::task::record::{Phase, Record};
use crate::task::words::tree::Node;
use std::ptr::{self, NonNull};

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
    // The mark is read before the phase. If another thread has settled the answer and a mark came
    // after that, a reader of the mark also finds the task finished, and returns the settled
    // answer.
    // MUTANT(cancel.was): false
    if task.phase() == Phase::Finished { task.node.word().settle() } else { marked }
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
    // For each node that linking marks: the list of children to walk from once the lock is free,
    // and the origin of the cancel.
    let mut marked = Vec::new();
    mine.before_the_end(|| {
        let mark = |node: &Node| {
            let Some(cold) = node.cold_in_total_order() else { return };
            // A pointer to the whole of the cold data.
            let cold: *const ColdData = cold;
            // SAFETY: the node has not ended, so its cold data are alive.
            let children = unsafe { (*cold).children() };
            if !ptr::eq(children, mine) {
                children.add_handle_of(node);
            }
            let children = NonNull::new(cold.cast_mut().cast::<Children>()).expect("a reference");
            marked.push((children, origin_of(node)));
        };
        // SAFETY: the task was watched before this lock was taken, and the end of the task has
        // not taken the lock yet. The end takes it before it releases the parent, so the parent
        // is alive while the lock is held. After that the end unlinks the task.
        unsafe { link_and_mark(&task.node, mark) };
    });
    let woken = Woken::default();
    for (children, origin) in marked {
        if ptr::eq(children.as_ptr(), mine) {
            // SAFETY: the node was marked above, and the caller's reference to the task keeps the
            // list. The origin is used for what is in the list, which has not ended then.
            unsafe {
                children::walk(
                    [mine],
                    origin,
                    |reached| woken.take(reached, origin),
                    || woken.queue(),
                );
            }
        } else {
            // SAFETY: the node was marked above, and the handle made there keeps the list.
            unsafe { woken.walk(children, origin) };
        }
    }
    woken.finish();
    true
}

/// Hangs a hook on a task, which may be fresh, started, or ended, on any worker. The caller has a
/// reference to the task, and keeps it for longer than the returned guard.
pub(crate) fn watch_task(task: &Record, body: Box<dyn Body>) -> Watching {
    let cold: *const ColdData = task.node.cold_or_new();
    // SAFETY: the cold data live as long as the record, to which the caller has a reference.
    let children = unsafe { &*cold }.children();
    let (hook, place) = hook::new(body);
    let hang = if watch_and_link(task) {
        // SAFETY: the hook is new, and the list receives its own reference to it. The task is
        // linked and watched, so its end takes the hooks out of the list.
        unsafe { children.hang(&task.node, place, |_| cause_seen(task)) }
    } else {
        Hang::Over
    };
    let cause = match hang {
        Hang::Hung => return Watching::new(hook, cold),
        Hang::Cancelled(cause) => Some(cause),
        Hang::Over => task.node.word().settle().then(|| cause_seen(task)),
    };
    // SAFETY: the hook was not put into the list, so the list's reference is ours.
    unsafe { run_at_once(&hook, place, cause) };
    Watching { hook, children: None }
}

/// Hangs a hook on a scope that may have ended.
///
/// # Safety
/// The caller has a handle to the list of children, which [bears](Children::bear), and keeps it
/// for longer than the returned guard.
pub(crate) unsafe fn watch_scope(children: NonNull<Children>, body: Box<dyn Body>) -> Watching {
    // A list of children is the start of its cold data.
    let cold: *const ColdData = children.as_ptr().cast_const().cast();
    let (hook, place) = hook::new(body);
    // SAFETY: the caller's handle keeps the list, which bears. The hook is new, and the list
    // receives its own reference to it.
    let cause = match unsafe { children.as_ref().hang_by_handle(place, cause_of) } {
        Hang::Hung => return Watching::new(hook, cold),
        Hang::Cancelled(cause) => Some(cause),
        // SAFETY: the caller's handle keeps the cold data. The end of the scope has written the
        // cause there.
        Hang::Over => unsafe { (*cold).cause.get().cloned() },
    };
    // SAFETY: the hook was not put into the list, so the list's reference is ours.
    unsafe { run_at_once(&hook, place, cause) };
    Watching { hook, children: None }
}

/// The guard of a hook on a node that may end at any time, together with its ancestors. Dropping
/// the guard takes the hook out of the list without calling it, and does not wait for a call that
/// is under way.
pub(crate) struct Watching {
    hook: Arc<Hook>,
    /// A handle to the list of children. `None` if the hook was never in the list.
    children: Option<NonNull<Children>>,
}

// SAFETY: hooks and lists of children are shared by design.
unsafe impl Send for Watching {}
// SAFETY: hooks and lists of children are shared by design, and no method takes `&self`.
unsafe impl Sync for Watching {}

impl Watching {
    fn new(hook: Arc<Hook>, cold: *const ColdData) -> Watching {
        Watching { hook, children: NonNull::new(cold.cast_mut().cast()) }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Some(children) = self.children else { return };
        let place = NonNull::new(Arc::as_ptr(&self.hook).cast_mut().cast()).expect("an arc");
        // SAFETY: the handle keeps the list, in which the hook was hung.
        if unsafe { children.as_ref().unhook(place, |_| ()) }.is_some() {
            // SAFETY: the hook was taken out of the list, so the list's reference is ours.
            drop::<Arc<Hook>>(unsafe { Arc::from_raw(place.as_ptr().cast()) });
        }
        // SAFETY: the handle is ours, and the list is not used afterwards.
        unsafe { Children::release_handle(children) };
    }
}
