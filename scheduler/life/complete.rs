//! How a task ends: its node is closed, its result is shown or dropped, its parent is released.
//!
//! All of it is one loop: when the end of a task ends its parent too, the parent is the next round.
//! A chain of a million tasks that wait for each other's end takes no stack.
//!
//! Order: the task's own children have ended; its result is visible (DONE) or dropped; its waiter is
//! woken; its run reference is released; then the parent's count. So everything that a task owned is
//! gone, or in the hands of its handle, before its parent can be seen to have ended.

use crate::scheduler::cancel::hook;
use crate::scheduler::life::root::Root;
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::wait::no_suspend::no_suspend;
use crate::scheduler::wait::resume::resume;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::release;
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use crate::shim::{Bug, has};
use crate::task::children;
use crate::task::outcome::{Payload, drop_payload, quietly};
use crate::task::record::{JoinedAtHome, Phase, Record, RunEnd, WATCHED};
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::join::{Finished, Waiter};
use crate::task::words::tree::{Node, NodeKind, Release};
use std::ptr::{self, NonNull};
use std::task::Waker;

/// A task that has ended, and that its parent still counts; or nothing, if the task has children and
/// so has not ended.
#[must_use]
pub(crate) struct StillCounted(Option<NonNull<Node>>);

impl StillCounted {
    fn by(parent: *const Node) -> StillCounted {
        StillCounted(NonNull::new(parent.cast_mut()))
    }

    /// Uncounts the task, on the worker where it ended, and all that wait for nothing but its end.
    pub(crate) fn uncount(self, worker: &Worker) {
        let mut rest = self;
        while let StillCounted(Some(parent)) = rest
            && let Some(next) = release_parent(worker.number(), parent.as_ptr())
        {
            // SAFETY: given back by the call.
            rest = unsafe { ended(worker, next) };
        }
    }
}

/// So many ends are uncounted together at most: as long as they are counted, a parent that goes on
/// spawning comes nearer to the limit of what it can count.
const TOGETHER: u32 = 64;

/// Children of one node that have ended one after the other on a worker that is not the node's
/// home, and that it still counts. Uncounted one by one, each would take the node's cache line from
/// all others.
///
/// The node hardly waits for that: the worker keeps them only while it takes its next task, without
/// a search, and goes on if that is a child of the same node, which then cannot end before.
pub(crate) struct Uncounting {
    parent: *const Node,
    count: u32,
}

impl Uncounting {
    pub(crate) fn new() -> Uncounting {
        Uncounting { parent: ptr::null(), count: 0 }
    }

    /// Before a task is called.
    #[inline]
    pub(crate) fn before(&mut self, worker: &Worker, task: NonNull<Record>) {
        // SAFETY: its run reference is in the caller's hand.
        let parent = unsafe { task.as_ref() }.node.parent;
        if self.count > 0 && (!ptr::eq(parent, self.parent) || self.count >= TOGETHER) {
            self.finish(worker);
        }
    }

    /// After the call of that task.
    #[inline]
    pub(crate) fn after(&mut self, worker: &Worker, StillCounted(parent): StillCounted) {
        let Some(parent) = parent else { return };
        if self.count > 0 && ptr::eq(parent.as_ptr(), self.parent) {
            self.count += 1;
            return;
        }
        debug_assert_eq!(self.count, 0, "the task is not that of which `before` was told");
        // SAFETY: a node with an unfinished child is alive, and this one is counted.
        if !unsafe { parent.as_ref() }.release_at_home(worker.number()) {
            self.parent = parent.as_ptr();
            self.count = 1;
        }
    }

    /// Uncounts what has ended.
    #[inline]
    pub(crate) fn finish(&mut self, worker: &Worker) {
        let count = std::mem::take(&mut self.count);
        if count > 0
            && let Some(next) = release_parent_elsewhere(self.parent, count)
        {
            // SAFETY: given back by the call.
            unsafe { ended(worker, next).uncount(worker) };
        }
    }
}

/// Completes a task whose closure has ended; if it has children left the last of them does.
///
/// # Safety
/// The run reference is the caller's, and is given up.
pub(crate) unsafe fn complete(worker: &Worker, record: NonNull<Record>) -> StillCounted {
    // SAFETY: alive by the run reference.
    let task = unsafe { record.as_ref() };
    if !task.node.close() {
        if has(Bug::OutlivingChild)
            && let Finished::Waiter(waiter) = task.join.finish()
        {
            wake(waiter);
        }
        return StillCounted(None);
    }
    if task.at_home.get() != JoinedAtHome::Waiting {
        // SAFETY: passed on; no child is left.
        return unsafe { ended(worker, record) };
    }
    finish(task);
    task.at_home.set(JoinedAtHome::Ended);
    let parent = task.node.parent;
    // The joiner has both references from here on, and runs when we have left.
    let joiner = task.join.finish_at_home();
    // SAFETY: a registered task may not leave its wait before this grant has arrived.
    if unsafe { (*joiner).wait.grant() } {
        worker.make_ready(NonNull::new(joiner.cast_mut()).expect("a joiner is not null"));
    }
    StillCounted::by(parent)
}

/// The end of a task without children.
unsafe fn ended(worker: &Worker, record: NonNull<Record>) -> StillCounted {
    // SAFETY: alive by the run reference.
    let task = unsafe { record.as_ref() };
    finish(task);
    let parent = task.node.parent;
    task.place.store(worker.retired().as_ptr().expose_provenance(), Ordering::Relaxed);
    match task.join.finish() {
        Finished::Unclaimed => {}
        Finished::Detached => {
            // The parent may be running on another worker.
            in_nobodys_name_on(worker, || {
                // SAFETY: the handle is gone, so the outcome is ours.
                no_suspend(|| unsafe { drop_outcome(record) });
            });
        }
        Finished::Waiter(waiter) => wake(waiter),
    }
    // SAFETY: our run reference, given up; the record is not used below.
    unsafe { release_run(worker, record, 1) };
    StillCounted::by(parent)
}

/// Ends a task, after its children, as far as the tree is concerned.
#[inline]
pub(crate) fn finish(task: &Record) {
    // First: what hangs on it may call anything, and a cancel by a handle does nothing any more.
    // MUTANT(complete.finish): late
    task.set_phase(Phase::Finished);
    if task.node.is_linked() {
        unlink_node(&task.node);
    }
}

/// Takes a node that ends, after its last child, out of the lists of the tree, and runs what hangs on it.
#[cold]
#[inline(never)]
pub(crate) fn unlink_node(node: &Node) {
    // First: no walk comes to it any more, and whether it is cancelled is decided, but by itself.
    children::unlink(node);
    // Somebody may have begun to watch it from outside, and a walk may have seen that and be on its way to the hook: then that
    // has happened before, and is seen here. The walk may find the hook as long as what it has come from is there, and no longer.
    if let Some(cold) = node.cold()
        && cold.children().has_had_children()
    {
        hook::unhook_all(node, cold);
    }
}

/// Uncounts a child of `parent` that ended at home.
#[inline]
pub(crate) fn release_parent(number: u32, parent: *const Node) -> Option<NonNull<Record>> {
    // SAFETY: a node with an unfinished child is alive, and the caller's child is.
    if unsafe { &*parent }.release_at_home(number) {
        return None;
    }
    release_parent_elsewhere(parent, 1)
}

/// Uncounts so many children of `parent`; a task that thereby ends is given back.
fn release_parent_elsewhere(parent: *const Node, count: u32) -> Option<NonNull<Record>> {
    // SAFETY: a node with an unfinished child is alive, and the caller's child is.
    let node = unsafe { &*parent };
    let kind = node.kind;
    // The frame of a scope may be gone once its last child is uncounted; its owner is not: it waits
    // for the grant below.
    let owner = match kind {
        // SAFETY: a node of kind Scope is the start of its frame.
        NodeKind::Scope => Some(unsafe { (*parent.cast::<ScopeFrame>()).owner() }),
        _ => None,
    };
    if node.release_elsewhere(count) == Release::StillOpen {
        return None;
    }
    match kind {
        NodeKind::Task => NonNull::new(parent.cast_mut().cast()),
        NodeKind::Scope => {
            wake(Waiter::Task(owner.expect("read above").as_ptr()));
            None
        }
        NodeKind::Root => {
            // SAFETY: a node of kind Root is the start of its root, which the runtime keeps.
            unsafe { (*parent.cast::<Root>()).end() };
            None
        }
    }
}

/// Delivers the grant to one whose registration has been taken out.
pub(crate) fn wake(waiter: Waiter) {
    match waiter {
        Waiter::Task(record) => {
            // SAFETY: a registered task may not leave its wait before this grant has arrived.
            if unsafe { (*record).wait.grant() } {
                resume(record);
            }
        }
        Waiter::Thread(thread) => ThreadWaiter::grant(thread),
        Waiter::Waker(waker) => wake_future(*waker),
    }
}

/// Calls a waker: foreign code on our stack.
pub(crate) fn wake_future(waker: Waker) {
    in_nobodys_name(|| {
        if let Some(payload) = quietly(|| no_suspend(|| waker.wake())) {
            drop_payload(payload);
        }
    });
}

/// Calls foreign code, which does not unwind: the task that runs here, if there is one, has nothing to do with it.
pub(crate) fn in_nobodys_name(f: impl FnOnce()) {
    match Worker::current() {
        Some(worker) => in_nobodys_name_on(worker, f),
        None => f(),
    }
}

fn in_nobodys_name_on(worker: &Worker, f: impl FnOnce()) {
    let outer = worker.node.replace(ptr::null());
    f();
    worker.node.set(outer);
}

/// Drops the outcome of a task; a panic that nobody will see goes to its scope or to the hook.
///
/// # Safety
/// The outcome is the caller's, and is gone afterwards.
pub(crate) unsafe fn drop_outcome(record: NonNull<Record>) {
    // SAFETY: the caller holds a reference.
    let task = unsafe { record.as_ref() };
    if task.outcome_dropped.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: passed on; `outcome_dropped` makes it once.
    if let Some(payload) = unsafe { Record::drop_outcome(record) } {
        report_unobserved(task, payload);
    }
}

/// Drops the outcome of a local task whose last child has not ended, for its handle. The child may end meanwhile, elsewhere or because the destructor
/// gives way, and with it the task and its parent.
///
/// # Safety
/// As for `drop_outcome`, and the caller has seen that the task had not ended.
pub(crate) unsafe fn drop_outcome_early(record: NonNull<Record>) {
    // SAFETY: the caller holds a reference.
    let task = unsafe { record.as_ref() };
    if is_above_caller(task.node.parent) {
        // It does not end before the caller.
        // SAFETY: passed on.
        unsafe { drop_outcome(record) };
        return;
    }
    if task.outcome_dropped.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: passed on; `outcome_dropped` makes it once.
    unsafe { drop_outcome_unseen(record) };
}

/// Whether the running task is in a node, or below it. The node may have ended: it is not followed. One that has ended is not mistaken for another that
/// lies in its place now, if the caller has seen a child of it that has not: the other one was opened before that, and after the end of the first.
fn is_above_caller(node: *const Node) -> bool {
    let mut at = Worker::current().map_or(ptr::null(), |worker| worker.node.get());
    // SAFETY: the node that runs, and those above it.
    while let Some(above) = unsafe { at.as_ref() } {
        if ptr::eq(at, node) {
            return true;
        }
        at = above.parent;
    }
    false
}

fn report_unobserved(task: &Record, payload: Payload) {
    let parent = task.node.parent;
    // SAFETY: the parent of a task that has not been released, or of one in a scope whose handle is
    // still there, is alive. For others see `drop_outcome_unseen`.
    let in_scope = unsafe { (*parent).kind } == NodeKind::Scope;
    let rest = if in_scope {
        // SAFETY: as above; a node of kind Scope is the start of its frame.
        unsafe { (*parent.cast::<ScopeFrame>()).keep(payload) }
    } else {
        Some(payload)
    };
    if let Some(payload) = rest {
        tell_hook(task, payload);
    }
}

/// Drops the outcome of a task that ended earlier, for the handle that is dropped. Its parent may be
/// gone, unless it is a scope, which its handles cannot outlive.
///
/// # Safety
/// As for `drop_outcome`.
pub(crate) unsafe fn drop_outcome_by_handle(record: NonNull<Record>, in_scope: bool) {
    if in_scope {
        // SAFETY: passed on.
        unsafe { drop_outcome(record) };
        return;
    }
    // SAFETY: the caller holds a reference.
    if unsafe { record.as_ref() }.outcome_dropped.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: passed on.
    unsafe { drop_outcome_unseen(record) };
}

/// Drops the outcome of a task whose parent may be gone: a panic goes to the hook.
///
/// # Safety
/// As for `drop_outcome`, once.
unsafe fn drop_outcome_unseen(record: NonNull<Record>) {
    // SAFETY: passed on.
    if let Some(payload) = unsafe { Record::drop_outcome(record) } {
        // SAFETY: the caller holds a reference.
        tell_hook(unsafe { record.as_ref() }, payload);
    }
}

/// Tells the runtime's hook of a panic whose handle is gone.
fn unobserved(shared: &Shared, payload: Payload, task: &Record) {
    if let Some(hook) = &shared.config.on_panic {
        // A user's function: it may panic, and must not suspend where it is called.
        let failed = quietly(|| no_suspend(|| hook(&payload, task)));
        if let Some(second) = failed {
            drop_payload(second);
        }
    }
    drop_payload(payload);
}

fn tell_hook(task: &Record, payload: Payload) {
    match Worker::current() {
        Some(worker) => unobserved(worker.shared(), payload, task),
        None => drop_payload(payload),
    }
}

/// Releases `n` references of which one is the run reference, on the worker where the task ended and
/// with its place set to that worker's queue.
///
/// # Safety
/// The references are the caller's.
#[inline]
pub(crate) unsafe fn release_run(worker: &Worker, record: NonNull<Record>, n: u32) {
    // SAFETY: alive by the reference.
    let left = unsafe { record.as_ref() }.release_run(n);
    if let RunEnd::Last = left {
        // SAFETY: no reference is left; the outcome was taken or dropped by the last handle.
        let operations = unsafe { Record::end(record) };
        // SAFETY: the memory of an ended record.
        unsafe {
            worker
                .memory
                .records
                .put_classed(record.cast(), operations.class, || operations.layout);
        }
        return;
    }
    // SAFETY: the queue is this worker's own.
    unsafe { worker.retired().as_ref().take_custody() };
    if let RunEnd::Watched = left {
        // SAFETY: that reference is ours.
        unsafe { tell_watchers(record) };
    }
}

/// Tells those who watch a task, which has ended, and releases their reference.
///
/// # Safety
/// It is the caller's.
#[cold]
#[inline(never)]
unsafe fn tell_watchers(record: NonNull<Record>) {
    // SAFETY: alive by that reference.
    hook::unhook_watchers(unsafe { record.as_ref() });
    // SAFETY: passed on; the outcome was taken or dropped, or is the handle's, which has a reference.
    unsafe { release(record, WATCHED) };
}
