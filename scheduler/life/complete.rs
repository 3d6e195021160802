//! How a task ends: its node is closed, its result is published or dropped, its parent is
//! released.
//!
//! All of it is one loop: if the end of a task ends its parent too, the parent is the next round.
//! A chain of a million tasks that wait for each other's end takes no stack.
//!
//! The order of an end:
//!
//! 1. The task's own children have ended.
//! 2. The result is visible (DONE), or dropped.
//! 3. The joiner is woken.
//! 4. The run reference is released.
//! 5. The parent no longer counts the task.
//!
//! So everything that a task owned is gone, or in the hands of its handle, before its parent can
//! be seen to have ended.

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

/// A task that has ended and that its parent still counts. Empty if the task has children left,
/// and so has not ended.
#[must_use]
pub(crate) struct StillCounted(Option<NonNull<Node>>);

impl StillCounted {
    fn by(parent: *const Node) -> StillCounted {
        StillCounted(NonNull::new(parent.cast_mut()))
    }

    /// Uncounts the task, on the worker where it ended, and then every ancestor that ends by that.
    pub(crate) fn uncount(self, worker: &Worker) {
        let mut rest = self;
        while let StillCounted(Some(parent)) = rest
            && let Some(next) = release_parent(worker.number(), parent.as_ptr())
        {
            // SAFETY: the run reference of `next` was returned by the call.
            rest = unsafe { ended(worker, next) };
        }
    }
}

/// Ends that are uncounted together at most. As long as they are counted, a parent that goes on
/// spawning comes nearer to the limit of its count.
const TOGETHER: u32 = 64;

/// Children of one node that have ended one after the other on a worker other than the node's
/// home, and that the node still counts. Uncounted one by one, each would take the node's cache
/// line from all other workers.
///
/// This hardly delays the node. The worker keeps the children only while it takes its next task
/// without a search, and goes on only if that is a child of the same node, which then cannot end
/// before.
pub(crate) struct Uncounting {
    parent: *const Node,
    count: u32,
}

impl Uncounting {
    pub(crate) fn new() -> Uncounting {
        Uncounting { parent: ptr::null(), count: 0 }
    }

    /// Called before a task is called.
    #[inline]
    pub(crate) fn before(&mut self, worker: &Worker, task: NonNull<Record>) {
        // SAFETY: the caller has the run reference of the task.
        let parent = unsafe { task.as_ref() }.node.parent;
        if self.count > 0 && (!ptr::eq(parent, self.parent) || self.count >= TOGETHER) {
            self.finish(worker);
        }
    }

    /// Called after the call of that task.
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

    /// Uncounts the collected children.
    #[inline]
    pub(crate) fn finish(&mut self, worker: &Worker) {
        let count = std::mem::take(&mut self.count);
        if count > 0
            && let Some(next) = release_parent_elsewhere(self.parent, count)
        {
            // SAFETY: the run reference of `next` was returned by the call.
            unsafe { ended(worker, next).uncount(worker) };
        }
    }
}

/// Completes a task when its closure has ended. If the task has children left, the last of them
/// completes it.
///
/// # Safety
/// The caller has the run reference, and gives it up.
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
        // SAFETY: the caller gives up the run reference, and no child is left.
        return unsafe { ended(worker, record) };
    }
    finish(task);
    task.at_home.set(JoinedAtHome::Ended);
    let parent = task.node.parent;
    // The joiner has both references from here on, and runs after this worker has left the record.
    let joiner = task.join.finish_at_home();
    // SAFETY: a registered joiner cannot leave its wait before this grant.
    if unsafe { (*joiner).wait.grant() } {
        worker.make_ready(NonNull::new(joiner.cast_mut()).expect("a joiner is not null"));
    }
    StillCounted::by(parent)
}

/// Ends a task that has no children left.
unsafe fn ended(worker: &Worker, record: NonNull<Record>) -> StillCounted {
    // SAFETY: alive by the run reference.
    let task = unsafe { record.as_ref() };
    finish(task);
    let parent = task.node.parent;
    task.place.store(worker.retired().as_ptr().expose_provenance(), Ordering::Relaxed);
    match task.join.finish() {
        Finished::Unclaimed => {}
        Finished::Detached => {
            // The parent may run on another worker, so the drop is not done in its name.
            in_nobodys_name_on(worker, || {
                // SAFETY: the handle is gone, so the outcome is ours.
                no_suspend(|| unsafe { drop_outcome(record) });
            });
        }
        Finished::Waiter(waiter) => wake(waiter),
    }
    // SAFETY: our run reference, which is given up; the record is not used below.
    unsafe { release_run(worker, record, 1) };
    StillCounted::by(parent)
}

/// Ends a task after its children, as far as the tree is concerned.
#[inline]
pub(crate) fn finish(task: &Record) {
    // First: hooks on the node may call anything, and a cancel by a handle has no effect any more.
    // MUTANT(complete.finish): late
    task.set_phase(Phase::Finished);
    if task.node.is_linked() {
        unlink_node(&task.node);
    }
}

/// Unlinks a node that ends, after its last child, and runs the hooks that hang on it.
#[cold]
#[inline(never)]
pub(crate) fn unlink_node(node: &Node) {
    // First: no walk reaches the node from here on, so only a cancel of the node itself can still
    // change whether it is cancelled.
    children::unlink(node);
    // A party outside may have begun to watch the node, and a walk may have seen that and be on
    // its way to the hook. Then the watch happened before, and is seen here. The walk must not
    // find the hook after the node that it comes from has gone.
    if let Some(cold) = node.cold()
        && cold.children().has_had_children()
    {
        hook::unhook_all(node, cold);
    }
}

/// Uncounts a child of `parent` that ended on worker `number`. Returns a task that ends by that.
#[inline]
pub(crate) fn release_parent(number: u32, parent: *const Node) -> Option<NonNull<Record>> {
    // SAFETY: a node with an unfinished child is alive, and the caller's child is.
    if unsafe { &*parent }.release_at_home(number) {
        return None;
    }
    release_parent_elsewhere(parent, 1)
}

/// Uncounts `count` children of `parent`. Returns a task that ends by that.
fn release_parent_elsewhere(parent: *const Node, count: u32) -> Option<NonNull<Record>> {
    // SAFETY: a node with an unfinished child is alive, and the caller's child is.
    let node = unsafe { &*parent };
    let kind = node.kind;
    // The frame of a scope may be gone once its last child is uncounted. Its owner is still there:
    // it waits for the grant below.
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

/// Grants the wait of a waiter after its registration was taken out.
pub(crate) fn wake(waiter: Waiter) {
    match waiter {
        Waiter::Task(record) => {
            // SAFETY: a registered task cannot leave its wait before this grant.
            if unsafe { (*record).wait.grant() } {
                resume(record);
            }
        }
        Waiter::Thread(thread) => ThreadWaiter::grant(thread),
        Waiter::Waker(waker) => wake_future(*waker),
    }
}

/// Calls a waker, which is foreign code on our stack.
pub(crate) fn wake_future(waker: Waker) {
    in_nobodys_name(|| {
        if let Some(payload) = quietly(|| no_suspend(|| waker.wake())) {
            drop_payload(payload);
        }
    });
}

/// Calls foreign code that does not unwind. The task that runs on this worker, if there is one,
/// has nothing to do with that code.
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

/// Drops the outcome of a task. If the outcome is a panic, or its destructor panics, the panic
/// goes to the task's scope or to the hook of the runtime.
///
/// # Safety
/// The caller owns the outcome, which is gone afterwards. The task's parent is alive.
pub(crate) unsafe fn drop_outcome(record: NonNull<Record>) {
    // SAFETY: the caller holds a reference.
    let task = unsafe { record.as_ref() };
    if task.outcome_dropped.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the caller owns the outcome, and `outcome_dropped` ensures a single drop.
    if let Some(payload) = unsafe { Record::drop_outcome(record) } {
        report_unobserved(task, payload);
    }
}

/// Drops the outcome of a local task whose last child has not ended, for the task's handle. The
/// child may end meanwhile, on another worker or because the destructor gives way; then the task
/// and its parent may end too.
///
/// # Safety
/// The caller owns the outcome, which is gone afterwards, and has seen that the task had not
/// ended.
pub(crate) unsafe fn drop_outcome_early(record: NonNull<Record>) {
    // SAFETY: the caller holds a reference.
    let task = unsafe { record.as_ref() };
    if is_above_caller(task.node.parent) {
        // SAFETY: the caller owns the outcome. The parent is above the running task, so it does
        // not end before the caller.
        unsafe { drop_outcome(record) };
        return;
    }
    if task.outcome_dropped.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the caller owns the outcome, and `outcome_dropped` ensures a single drop.
    unsafe { drop_outcome_unseen(record) };
}

/// Whether the running task is in `node` or below it. The node may have ended: it is not followed.
/// It is not mistaken for a new node at the same address, if the caller has seen an unfinished
/// child of it: the new node would have been opened before that, and after the end of the first.
fn is_above_caller(node: *const Node) -> bool {
    let mut at = Worker::current().map_or(ptr::null(), |worker| worker.node.get());
    // SAFETY: the node that runs and its ancestors are alive.
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
    // SAFETY: the parent is alive, if it still counts the task or is a scope that the task's
    // handle cannot outlive. Other callers use `drop_outcome_unseen`.
    let in_scope = unsafe { (*parent).kind } == NodeKind::Scope;
    let rest = if in_scope {
        // SAFETY: the scope is alive, and a node of kind Scope is the start of its frame.
        unsafe { (*parent.cast::<ScopeFrame>()).keep(payload) }
    } else {
        Some(payload)
    };
    if let Some(payload) = rest {
        tell_hook(task, payload);
    }
}

/// Drops the outcome of a task that has ended, for the handle that is dropped. The task's parent
/// may be gone, unless it is a scope, which its handles cannot outlive.
///
/// # Safety
/// The caller owns the outcome, which is gone afterwards.
pub(crate) unsafe fn drop_outcome_by_handle(record: NonNull<Record>, in_scope: bool) {
    if in_scope {
        // SAFETY: the caller owns the outcome, and the scope outlives the handle.
        unsafe { drop_outcome(record) };
        return;
    }
    // SAFETY: the caller holds a reference.
    if unsafe { record.as_ref() }.outcome_dropped.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the caller owns the outcome, and it has not been dropped.
    unsafe { drop_outcome_unseen(record) };
}

/// Drops the outcome of a task with a parent that may be gone: a panic goes to the hook of the
/// runtime.
///
/// # Safety
/// The caller owns the outcome, which is gone afterwards. It has not been dropped.
unsafe fn drop_outcome_unseen(record: NonNull<Record>) {
    // SAFETY: the caller owns the outcome.
    if let Some(payload) = unsafe { Record::drop_outcome(record) } {
        // SAFETY: the caller holds a reference.
        tell_hook(unsafe { record.as_ref() }, payload);
    }
}

/// Reports a panic to the runtime's hook, because no handle can observe it.
fn unobserved(shared: &Shared, payload: Payload, task: &Record) {
    if let Some(hook) = &shared.config.on_panic {
        // The hook is user code: it may panic, and must not suspend here.
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

/// Releases `n` references, one of which is the run reference, on the worker where the task ended.
/// The task's `place` is set to that worker's retire queue.
///
/// # Safety
/// The caller owns the references.
#[inline]
pub(crate) unsafe fn release_run(worker: &Worker, record: NonNull<Record>, n: u32) {
    // SAFETY: alive by the reference.
    let left = unsafe { record.as_ref() }.release_run(n);
    if let RunEnd::Last = left {
        // SAFETY: no reference is left; the outcome was taken or dropped by the last handle.
        let operations = unsafe { Record::end(record) };
        // SAFETY: the memory held a record, which has ended.
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
        // SAFETY: the watchers' reference is ours to release.
        unsafe { tell_watchers(record) };
    }
}

/// Tells the watchers of a task that it has ended, and releases their reference.
///
/// # Safety
/// That reference is the caller's.
#[cold]
#[inline(never)]
unsafe fn tell_watchers(record: NonNull<Record>) {
    // SAFETY: alive by that reference.
    hook::unhook_watchers(unsafe { record.as_ref() });
    // SAFETY: the reference is ours. The outcome was taken or dropped, or belongs to the handle,
    // which has a reference.
    unsafe { release(record, WATCHED) };
}
