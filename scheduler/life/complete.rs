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
use crate::scheduler::life::external::{is_outside, take_owner};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::root::Root;
use crate::scheduler::wait::no_suspend::{call_foreign, in_nobodys_name_on, no_suspend};
use crate::scheduler::wait::resume::resume;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::{HandleRef, end_cold, release};
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use crate::shim::{Bug, has};
use crate::task::children;
use crate::task::outcome::{Payload, drop_payload, quietly};
use crate::task::record::{JoinedAtHome, Phase, Record, RunEnd, WATCHED};
use crate::task::reference::{RunRef, TaskRef, WaiterRef};
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::join::{Finished, Waiter};
use crate::task::words::tree::{Node, NodeKind, Release};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::task::Waker;

/// A task that has ended and that its parent still counts. Empty if the task has children left,
/// and so has not ended.
#[must_use]
pub(crate) struct StillCounted(Option<NonNull<Node>>);

impl StillCounted {
    /// The task that has this run reference, and that has ended just now.
    #[inline(always)]
    fn of(run: &RunRef) -> StillCounted {
        StillCounted(NonNull::new(LiveNode::parent_of_run(run).pointer().cast_mut()))
    }

    #[inline(always)]
    fn parent(&self) -> Option<LiveNode<'_>> {
        // SAFETY: a node does not end while it counts a child.
        self.0.map(|parent| unsafe { LiveNode::new(parent.as_ptr()) })
    }

    fn is_below(&self, node: *const Node) -> bool {
        ptr::eq(self.0.map_or(ptr::null_mut(), NonNull::as_ptr).cast_const(), node)
    }

    /// Uncounts the task, on worker `number`, where it ended. Returns a task that ends by that.
    #[inline(always)]
    fn release(self, number: u32) -> Option<RunRef> {
        let parent = self.parent()?;
        if parent.release_at_home(number) {
            return None;
        }
        release_elsewhere(parent, 1)
    }

    /// Uncounts the task, on the worker where it ended, and then every ancestor that ends by that.
    pub(crate) fn uncount(self, worker: &Worker) {
        let mut rest = self;
        while let Some(next) = rest.release(worker.number()) {
            rest = ended(worker, next);
        }
    }
}

/// Uncounts a task that has ended on this worker below its parent, which runs here and so cannot
/// end by that.
#[inline(always)]
pub(crate) fn uncount_in_parent(worker: &Worker, run: &RunRef) {
    let parent = LiveNode::parent_of_run(run);
    if !parent.release_at_home(worker.number()) {
        let left = release_elsewhere(parent, 1);
        debug_assert!(left.is_none(), "uncounting a child ended its running parent");
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
    /// One of the children.
    one: StillCounted,
    count: u32,
}

impl Uncounting {
    pub(crate) fn new() -> Uncounting {
        Uncounting { one: StillCounted(None), count: 0 }
    }

    /// Called before a task is called.
    #[inline]
    pub(crate) fn before(&mut self, worker: &Worker, task: &RunRef) {
        if self.count > 0 && (!self.one.is_below(task.node.parent) || self.count >= TOGETHER) {
            self.finish(worker);
        }
    }

    /// Called after the call of that task.
    #[inline]
    pub(crate) fn after(&mut self, worker: &Worker, task: StillCounted) {
        let Some(parent) = task.parent() else { return };
        if self.count > 0 && self.one.is_below(parent.pointer()) {
            self.count += 1;
            return;
        }
        debug_assert_eq!(self.count, 0, "the task is not that of which `before` was told");
        if !parent.release_at_home(worker.number()) {
            self.one = task;
            self.count = 1;
        }
    }

    /// Uncounts the collected children.
    #[inline]
    pub(crate) fn finish(&mut self, worker: &Worker) {
        let count = std::mem::take(&mut self.count);
        if count > 0
            && let Some(parent) = self.one.parent()
            && let Some(next) = release_elsewhere(parent, count)
        {
            ended(worker, next).uncount(worker);
        }
    }
}

/// Completes a task when its closure has ended. If the task has children left, the last of them
/// completes it, and has the run reference until then.
pub(crate) fn complete(worker: &Worker, task: RunRef) -> StillCounted {
    // The node may be gone as soon as it is closed with children left.
    if !task.node.close() {
        if has(Bug::OutlivingChild)
            && let Finished::Waiter(waiter) = task.join.finish()
        {
            wake(waiter);
        }
        let _ = task.into_pointer();
        return StillCounted(None);
    }
    if task.at_home.get() != JoinedAtHome::Waiting {
        return ended(worker, task);
    }
    finish(&task);
    task.at_home.set(JoinedAtHome::Ended);
    let counted = StillCounted::of(&task);
    // The joiner has both references from here on, and runs after this worker has left the record.
    let joiner = task.join.finish_at_home();
    let _ = task.into_pointer();
    if let Some(joiner) = joiner.grant() {
        worker.make_ready(joiner);
    }
    counted
}

/// Ends a task that has no children left.
fn ended(worker: &Worker, task: RunRef) -> StillCounted {
    finish(&task);
    let counted = StillCounted::of(&task);
    match task.join.finish() {
        Finished::Unclaimed => {}
        Finished::Detached => {
            // The parent may run on another worker, so the drop is not done in its name.
            in_nobodys_name_on(worker, || {
                // SAFETY: the handle is gone, so the outcome is ours.
                let orphan = unsafe { Orphan::new(task.task()) };
                no_suspend(|| orphan.drop_below(Some(LiveNode::parent_of_run(&task))));
            });
        }
        Finished::Waiter(waiter) => wake(waiter),
    }
    release_run(worker, task);
    counted
}

/// Ends a task after its children, as far as the tree is concerned.
#[inline]
pub(crate) fn finish(task: &RunRef) {
    // First: hooks on the node may call anything, and a cancel by a handle has no effect any more.
    // MUTANT(complete.finish): late
    task.set_phase(Phase::Finished);
    if task.node.is_linked() {
        unlink_node(LiveNode::from(task));
    }
}

/// Unlinks a node that ends, after its last child, and runs the hooks that hang on it.
#[cold]
#[inline(never)]
pub(crate) fn unlink_node(node: LiveNode<'_>) {
    // First: no walk reaches the node from here on, so only a cancel of the node itself can still
    // change whether it is cancelled.
    children::unlink(&node);
    // A party outside may have begun to watch the node, and a walk may have seen that and be on
    // its way to the hook. Then the watch happened before, and is seen here. The walk must not
    // find the hook after the node that it comes from has gone.
    if let Some(cold) = node.cold()
        && cold.children().has_had_children()
    {
        hook::unhook_all(node, cold);
    }
}

/// Uncounts `count` children of `node`. Returns a task that ends by that.
fn release_elsewhere(node: LiveNode<'_>, count: u32) -> Option<RunRef> {
    let kind = node.kind;
    // The frame of a scope may be gone once its last child is uncounted. Its owner is still there:
    // it waits for the grant below.
    let owner = node.scope().map(|scope| scope.owner().pointer());
    let pointer = node.pointer();
    if node.release_elsewhere(count) == Release::StillOpen {
        return None;
    }
    match kind {
        NodeKind::Task => NonNull::new(pointer.cast_mut().cast()).map(|record| {
            // SAFETY: a node of kind Task is the start of its record. It was closed with children
            // left, and has left its run reference to the last of them.
            unsafe { RunRef::new(record) }
        }),
        NodeKind::Scope => {
            // SAFETY: the owner waits until it is granted here, or taken out of its wait.
            let owner = unsafe { WaiterRef::from_pointer(owner.expect("read above")) };
            if is_outside(&owner) {
                return take_owner(owner);
            }
            wake(Waiter::Task(owner));
            None
        }
        NodeKind::Root => {
            // SAFETY: a node of kind Root is the start of its root, which the runtime keeps.
            unsafe { (*pointer.cast::<Root>()).end() };
            None
        }
    }
}

/// Grants the wait of a waiter after its registration was taken out.
pub(crate) fn wake(waiter: Waiter) {
    match waiter {
        Waiter::Task(task) => task.grant().into_iter().for_each(resume),
        Waiter::Thread(thread) | Waiter::PoolThread(thread) => ThreadWaiter::grant(thread),
        Waiter::Waker(waker) => wake_future(*waker),
    }
}

/// Calls a waker, which is foreign code on our stack.
pub(crate) fn wake_future(waker: Waker) {
    call_foreign(|| waker.wake());
}

/// Whether the parent of a task is known to be alive as long as the task's handle.
#[derive(Clone, Copy)]
pub(crate) struct ParentLives(bool);

impl ParentLives {
    pub(crate) const UNKNOWN: ParentLives = ParentLives(false);

    /// # Safety
    /// The parent is a scope, which the handle that this is used with does not outlive.
    #[inline(always)]
    pub(crate) unsafe fn in_scope() -> ParentLives {
        ParentLives(true)
    }

    /// The parent of this task, if it is known to be alive.
    pub(crate) fn of(self, task: &Record) -> Option<LiveNode<'_>> {
        // SAFETY: alive, as `in_scope` was told.
        self.0.then(|| unsafe { LiveNode::new(task.node.parent) })
    }
}

/// The outcome of a task that no handle will take, and that the holder is to drop.
///
/// If the outcome is a panic, or its destructor panics, the panic goes to the task's scope or to
/// the hook of the runtime: to the hook alone if the task's parent may be gone.
#[must_use = "the outcome is to be dropped"]
pub(crate) struct Orphan<'a>(TaskRef<'a>);

impl<'a> Orphan<'a> {
    /// # Safety
    /// The outcome is there and the caller's, unless `outcome_dropped` says that it was dropped. It
    /// is gone afterwards.
    pub(crate) unsafe fn new(task: TaskRef<'a>) -> Orphan<'a> {
        Orphan(task)
    }

    /// Drops the outcome, unless that was done. `parent` is the task's parent, if it has not ended.
    pub(crate) fn drop_below(self, parent: Option<LiveNode<'_>>) {
        if !self.0.outcome_dropped.swap(true, Ordering::Relaxed) {
            self.drop_now(parent);
        }
    }

    fn drop_now(self, parent: Option<LiveNode<'_>>) {
        // SAFETY: the outcome is ours, and this takes the orphan, so it is dropped once.
        let Some(payload) = (unsafe { self.0.drop_outcome() }) else { return };
        let rest = match parent.and_then(LiveNode::scope) {
            Some(scope) => scope.keep(payload),
            None => Some(payload),
        };
        if let Some(payload) = rest {
            tell_hook(&self.0, payload);
        }
    }

    /// Drops the outcome of a local task whose last child has not ended, for the task's handle,
    /// which has seen that the task had not ended. The child may end meanwhile, on another worker
    /// or because the destructor gives way; then the task and its parent may end too.
    pub(crate) fn drop_early(self) {
        // A parent that is above the running task does not end before the caller.
        let parent = node_above_caller(self.0.node.parent);
        self.drop_below(parent);
    }

    /// Drops the outcome of a task that has ended, for the handle that is dropped. The task's
    /// parent may be gone, unless it is a scope, which its handles cannot outlive: `scope`.
    pub(crate) fn drop_by_handle(self, scope: Option<LiveNode<'_>>) {
        if scope.is_some() {
            self.drop_below(scope);
        } else if !self.0.outcome_dropped.load(Ordering::Relaxed) {
            self.drop_now(None);
        }
    }
}

/// The node with this address, if the running task is in it or below it. The node may have ended:
/// it is not followed. It is not mistaken for a new node at the same address, if the caller has
/// seen an unfinished child of it: the new node would have been opened before that, and after the
/// end of the first.
fn node_above_caller<'a>(node: *const Node) -> Option<LiveNode<'a>> {
    let innermost = Worker::current().and_then(Worker::innermost_node)?;
    innermost.and_above().find(|above| above.is(node))
}

/// Reports a panic to the runtime's hook, because no handle can observe it.
fn unobserved(shared: &Shared, payload: Payload, task: &Record) {
    if let Some(hook) = &shared.config.on_panic {
        // The hook is user code: it may panic, and must not suspend here.
        let failed = quietly(|| no_suspend(|| hook(&payload, task)));
        failed.into_iter().for_each(drop_payload);
    }
    drop_payload(payload);
}

fn tell_hook(task: &Record, payload: Payload) {
    match Worker::current() {
        Some(worker) => unobserved(worker.shared(), payload, task),
        None => drop_payload(payload),
    }
}

/// Releases the run reference of a task, on the worker where the task ended.
#[inline]
pub(crate) fn release_run(worker: &Worker, run: RunRef) {
    release_on(worker, run.into_pointer(), 1);
}

/// As [`release_run`], together with the reference of the task's handle. The outcome has been taken
/// or dropped.
#[inline(always)]
pub(crate) fn release_both<T>(worker: &Worker, run: RunRef, handle: HandleRef<T>) {
    assert!(run.task() == handle.task(), "the references are of two tasks");
    let _ = ManuallyDrop::new(handle);
    release_on(worker, run.into_pointer(), 2);
}

/// Releases `n` references, one of which is the run reference, on the worker where the task ended.
#[inline(always)]
fn release_on(worker: &Worker, record: NonNull<Record>, n: u32) {
    // SAFETY: alive by the references, which the callers have given up.
    let task = unsafe { record.as_ref() };
    task.place.store(worker.remote.retired.as_ptr().expose_provenance(), Ordering::Relaxed);
    let left = task.release_run(n);
    if let RunEnd::Last = left {
        // SAFETY: no reference is left; the outcome was taken or dropped by the last handle.
        // `end_cold` asks for what `ColdData::end` does.
        return worker.memory.records.put(unsafe { Record::end(record, end_cold) });
    }
    worker.retired().take_custody();
    if let RunEnd::Watched = left {
        tell_watchers(record);
    }
}

/// Tells the watchers of a task that it has ended, and releases their reference.
#[cold]
#[inline(never)]
fn tell_watchers(record: NonNull<Record>) {
    // SAFETY: alive by the watchers' reference, which is released below.
    hook::unhook_watchers(unsafe { record.as_ref() });
    // SAFETY: the reference is ours. The outcome was taken or dropped, or belongs to the handle,
    // which has a reference.
    unsafe { release(record, WATCHED) };
}
