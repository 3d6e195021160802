//! Watching from outside: by one who has no more than a handle.
//!
//! A hook is hung by one who runs in the node, or holds it open. Who has no more than a handle [watches](Watching): the node may end
//! at any moment, and with it those above it. Of a *scope* the handle finds the node under the lock of the list, or learns that it
//! has ended; when the handle was made, the scope was told to look into its list at its end. A *task* is in no list of
//! its parent's before it has waited, and most never are, so nobody looks into theirs. But a handle to a task is a
//! reference to its record, and one that is not alone there releases its run reference by an update: there the watchers
//! have left a mark ([`Record::watch`]), and are told. They also link the task, so that a cancel from above finds the hooks as one of the
//! task itself does ([`watch_and_link`]).

use crate::scheduler::cancel::hook::{self, Body, Hook, cause_seen, run_at_once};
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::cancel::{Woken, link_and_mark};
use crate::shim::Arc;
use crate::task::children::{self, Children, Hang, origin_of};
use crate::task::cold::ColdData;
use crate::task::record::{Phase, Record};
use crate::task::words::tree::Node;
use std::ptr::{self, NonNull};

/// Whether a task is cancelled, in effect or not, itself or with an ancestor, or was when it ended. For one who has a handle to it.
#[inline]
pub(crate) fn is_cancelled_or_was(task: &Record) -> bool {
    if !is_marked_or_was(task) && !task.node.is_linked() && task.phase() != Phase::Finished {
        watch_and_link(task);
    }
    // Once more in any case: whoever has linked it meanwhile, or ended it, has marked it before.
    is_marked_or_was(task)
}

/// Whether a cancel of a task, in effect or not, has come to it, or had when it ended. For one who has a handle to it.
#[inline]
pub(crate) fn is_marked_or_was(task: &Record) -> bool {
    let marked = task.node.word().is_marked();
    // In this order: who finds a mark that comes after the answer of another finds that it has ended.
    // MUTANT(cancel.was): false
    if task.phase() == Phase::Finished { task.node.word().settle() } else { marked }
}

/// [Watches](Record::watch) a task and links it, so that a cancel of what is above it comes to it although it computes and does not
/// ask. Returns `false` if it has ended. For one who has a reference to it.
pub(crate) fn watch_and_link(task: &Record) -> bool {
    // The cold data come before the watch: the end of a watched task looks into its cold data.
    // MUTANT(cancel.watch.made): skip
    let _made = task.node.cold_or_new();
    if !task.watch() {
        return false;
    }
    let mine = task.node.cold_or_new().children();
    if task.node.is_linked() {
        return true;
    }
    // The nodes that linking marks: for each the list of children to walk from, when the lock is free, and the origin of the cancel.
    let mut marked = Vec::new();
    mine.before_the_end(|| {
        let mark = |node: &Node| {
            let Some(cold) = node.cold_in_total_order() else { return };
            // As a pointer to the whole of the cold data.
            let cold: *const ColdData = cold;
            // SAFETY: those of a node that has not ended.
            let children = unsafe { (*cold).children() };
            if !ptr::eq(children, mine) {
                children.add_handle_of(node);
            }
            let children = NonNull::new(cold.cast_mut().cast::<Children>()).expect("a reference");
            marked.push((children, origin_of(node)));
        };
        // SAFETY: the task was watched before this lock was taken, and the task's end has not taken the lock yet. The end takes it
        // before it releases the parent, so the parent is alive while the lock is blocked; and then the end unlinks the task.
        unsafe { link_and_mark(&task.node, mark) };
    });
    let woken = Woken::default();
    for (children, origin) in marked {
        if ptr::eq(children.as_ptr(), mine) {
            // SAFETY: marked above; kept by the caller's reference to the task. An origin is used for what hangs there, which has
            // not ended then.
            unsafe {
                children::walk(
                    [mine],
                    origin,
                    |reached| woken.take(reached, origin),
                    || woken.queue(),
                );
            }
        } else {
            // SAFETY: marked above, with a handle.
            unsafe { woken.walk(children, origin) };
        }
    }
    woken.finish();
    true
}

/// Hangs a hook on a task that may run, wait to be started, or have ended, wherever that is. For one who has a
/// reference to it, and keeps that for longer than what is returned.
pub(crate) fn watch_task(task: &Record, body: Box<dyn Body>) -> Watching {
    let cold: *const ColdData = task.node.cold_or_new();
    // SAFETY: as long as the record is there.
    let children = unsafe { &*cold }.children();
    let (hook, place) = hook::new(body);
    let hang = if watch_and_link(task) {
        // SAFETY: the list's reference is given to it. Who ends the task has not released it yet, and comes to the list
        // when he does.
        unsafe { children.hang(&task.node, place, |_| cause_seen(task)) }
    } else {
        Hang::Over
    };
    let cause = match hang {
        Hang::Hung => return Watching::new(hook, cold),
        Hang::Cancelled(cause) => Some(cause),
        Hang::Over => task.node.word().settle().then(|| cause_seen(task)),
    };
    // SAFETY: it was not put into the list.
    unsafe { run_at_once(&hook, place, cause) };
    Watching { hook, children: None }
}

/// Hangs a hook on a scope that may have ended.
///
/// # Safety
/// The caller has a handle to the list of children, which [bears](Children::bear), and keeps it for longer than what is returned.
pub(crate) unsafe fn watch_scope(children: NonNull<Children>, body: Box<dyn Body>) -> Watching {
    // A list of children is the start of its cold data.
    let cold: *const ColdData = children.as_ptr().cast_const().cast();
    let (hook, place) = hook::new(body);
    // SAFETY: kept by the handle; the list's reference is given to it; the rest is passed on.
    let cause = match unsafe { children.as_ref().hang_by_handle(place, cause_of) } {
        Hang::Hung => return Watching::new(hook, cold),
        Hang::Cancelled(cause) => Some(cause),
        // SAFETY: kept by the handle. Who has ended it has said there why it was cancelled.
        Hang::Over => unsafe { (*cold).cause.get().cloned() },
    };
    // SAFETY: it was not put into the list.
    unsafe { run_at_once(&hook, place, cause) };
    Watching { hook, children: None }
}

/// The guard of a hook on something that may end at any time, with all that is above it. Dropped, it takes the hook out of the
/// list, without a call of it; nor does it wait for one that is under way.
pub(crate) struct Watching {
    hook: Arc<Hook>,
    /// A handle; none if it never hung.
    children: Option<NonNull<Children>>,
}

// SAFETY: hooks and lists of children are shared by design.
unsafe impl Send for Watching {}
// SAFETY: as above; nothing is done by a shared reference.
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
        // SAFETY: kept by the handle; it was hung there.
        if unsafe { children.as_ref().unhook(place, |_| ()) }.is_some() {
            // SAFETY: the list's reference.
            drop::<Arc<Hook>>(unsafe { Arc::from_raw(place.as_ptr().cast()) });
        }
        // SAFETY: ours.
        unsafe { Children::release_handle(children) };
    }
}
