//! Cancelling a task, and how a cancel finds a child that the task has called in place.
//!
//! A cancel marks a task and cuts its wait short, if it is in one that may be cut. A task that has called
//! a child in a join ([`crate::scheduler::call::call_child`]) is in no wait of its own: it would have been,
//! in that join, and the cancel would have cancelled the child. So it does that here too.
//!
//! # Protocol
//!
//! A call in place costs nothing for this. What a called child does before it waits (yield, ask whether
//! it is cancelled) looks down the tasks that called each other on its stack ([`is_cancelled`]): they
//! cannot end before it. Only when it is about to park, where a cancel must find it, it is **linked**
//! ([`link`]): its caller's extras hold a counted reference to it, the caller's caller's one to that, and
//! so on down to a task that is linked already. A canceller follows the links ([`cancel`]). The caller
//! takes the link back when the call has returned ([`unlink`]); it knows that there is one by the number
//! of references.
//!
//! Neither side misses the other: the child links, *fences*, and looks whether a task below it is
//! cancelled, from which on all those above it are; the canceller marks the task, *fences*, and looks for a
//! link. So a link leads from a cancelled task to a cancelled one, or to one that the canceller is on its
//! way to, or the one who has just linked it, and a link that is there need not be looked at again. Who
//! links, and finds its caller cancelled, goes on as the canceller would have done, along the links: a fork
//! of its own, parked on another worker, may have found its new link there, and nobody cancelled yet.
//!
//! The reference is copied under the lock of the link, so the child's record stays while the canceller uses
//! it, and whatever it does to a child that has ended meanwhile has no effect. (models/cancel.rs explores
//! all of it.)

use crate::retire::record::Record;
use crate::scheduler::complete::release;
use crate::scheduler::wait::resume;
use crate::scheduler::worker::task_of;
use crate::shim::atomic::{Ordering, fence};
use crate::shim::{Mutex, MutexGuard};
use std::ptr::NonNull;
use std::sync::PoisonError;

/// A counted reference to the child that a task has called, once that child has waited.
pub(crate) type Link = Mutex<Vec<NonNull<Record>>>;

/// Marks a task cancelled and cuts its wait short, or those of the children that it has called or forked.
pub(crate) fn cancel(task: &Record) {
    mark(task);
    let mut found = called_by(task);
    while let Some(child) = found.pop() {
        // SAFETY: we hold a reference.
        let child_ref = unsafe { child.as_ref() };
        mark(child_ref);
        found.append(&mut called_by(child_ref));
        // SAFETY: the reference is ours; the handle's is not, and the joiner who has it takes the outcome
        // before it gives that up.
        unsafe { release(child, 1) };
    }
}

fn mark(task: &Record) {
    task.node.word().set_cancelled();
    if task.wait.cancel() {
        resume(task);
    }
    fence(Ordering::SeqCst);
}

/// The children that a task has called or forked and that are linked to it, each with a reference.
fn called_by(task: &Record) -> Vec<NonNull<Record>> {
    let Some(extras) = task.extras() else { return Vec::new() };
    let link = lock(&extras.called);
    let children = link.clone();
    for child in &children {
        // SAFETY: the link holds a reference, and we its lock: the child cannot return past it.
        unsafe { child.as_ref() }.add_reference();
    }
    drop(link);
    children
}

fn lock(link: &Link) -> MutexGuard<'_, Vec<NonNull<Record>>> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task that has called `task` in place and is below it on its stack, or has forked it and does not pass
/// by it.
fn caller(task: &Record) -> Option<NonNull<Record>> {
    if task.has_caller() { task_of(task.node.parent) } else { None }
}

/// Whether `task`, which runs here, is cancelled, or one that it has been called by.
#[inline]
pub(crate) fn is_cancelled(task: &Record) -> bool {
    task.wait.is_cancelled() || task.has_caller() && is_caller_cancelled(task)
}

#[cold]
#[inline(never)]
fn is_caller_cancelled(task: &Record) -> bool {
    let mut at = caller(task);
    // SAFETY: a task that has called another does not end before that.
    while let Some(task) = at.map(|task| unsafe { task.as_ref() }) {
        if task.wait.is_cancelled() {
            return true;
        }
        at = caller(task);
    }
    false
}

/// Makes `task`, which runs here and is about to park, known to those that have called it; true if one of
/// them is cancelled, and so is it.
#[cold]
#[inline(never)]
pub(crate) fn link(task: NonNull<Record>) -> bool {
    let mut newly_linked = Vec::new();
    let mut child = task;
    // SAFETY: the task that runs, then one that waits for it to return.
    while let Some(caller) = caller(unsafe { child.as_ref() }) {
        // SAFETY: it waits for `child` to return.
        let caller_ref = unsafe { caller.as_ref() };
        let mut link = lock(&caller_ref.extras_or_new().called);
        if link.contains(&child) {
            break;
        }
        // SAFETY: alive, as above.
        unsafe { child.as_ref() }.add_reference();
        link.push(child);
        drop(link);
        newly_linked.push((caller_ref, child));
        child = caller;
    }
    fence(Ordering::SeqCst);
    // The lowest first: a cancel goes on from there, along the links, as if it had found them.
    let missed = newly_linked.iter().rev().find(|(caller, _)| caller.wait.is_cancelled());
    if let Some((_, called)) = missed {
        // SAFETY: the running task, or one that waits for it to return.
        cancel(unsafe { called.as_ref() });
    }
    // SAFETY: the running task.
    unsafe { task.as_ref() }.wait.is_cancelled()
}

/// Forgets a child that has returned.
pub(crate) fn unlink(caller: &Record, child: NonNull<Record>) {
    let Some(extras) = caller.extras() else { return };
    let mut link = lock(&extras.called);
    let place = link.iter().position(|linked| *linked == child);
    if let Some(place) = place {
        link.swap_remove(place);
        drop(link);
        // SAFETY: the link's reference; the caller's own are left.
        unsafe { release(child, 1) };
    }
}
