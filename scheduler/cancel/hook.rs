//! Hooks: callbacks that hang on a node. Each runs once: `on_cancel` if the node was cancelled,
//! else `on_cleanup`.
//!
//! # States
//!
//! ```text
//!         the body is taken
//!  armed ---+-- node is cancelled ------> on_cancel runs ---+--> over
//!           +-- node is not cancelled --> on_cleanup runs --+
//! ```
//!
//! A hook hangs in the list of its node (`task::children`). Its guard removes it from there, or
//! the end of the node does. A walk that reaches the hook leaves it in the list, and takes a
//! reference of its own under the lock of the list.
//!
//! The thread that takes the *body*, under the hook's own lock, runs it; so the body runs once. A
//! walk collects its hooks and runs them one after the other. The guard and the end of the node do
//! not wait for that turn but run the body themselves, so no hook is left to be started when its
//! node has ended.
//!
//! **The mark of the node decides which callback runs**, and not the party that runs it. A task
//! whose wait was interrupted may drop its guards before the walk has reached the hooks, or before
//! the canceller has run the hooks that it collected.
//!
//! References are held by the list, by walks and by the guard. The list passes its reference to
//! the party that removes the hook. The guard also has a handle to the list of children, so it
//! finds the lock even after the node's end. A guard that finds the hook running waits until the
//! hook returns, unless the hook itself drops the guard. No lock is held while a hook runs.
//!
//! `scheduler::wait::watching` describes hooks that are hung from outside the node, through a
//! handle.

use crate::scheduler::cancel::link;
use crate::scheduler::cancel::reason::{cause_of, decided};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::wait::no_suspend::call_foreign;
use crate::shim::{Arc, Condvar, Mutex};
use crate::task::cause::{Cause, Reason};
use crate::task::children::{self, ChildrenRef, Hang, HookLink};
use crate::task::cold::ColdData;
use crate::task::record::Record;
use crate::task::words::tree::{Node, NodeKind, Verdict};
use std::ptr::{self, NonNull};

/// The two callbacks of a hook. Both are foreign code.
pub(crate) trait Body: Send {
    fn on_cancel(self: Box<Self>, cause: std::sync::Arc<Cause>);
    fn on_cleanup(self: Box<Self>) {}
}

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Hook {
    /// First, so that a pointer to the link is a pointer to the hook.
    place: HookLink,
    state: Mutex<State>,
    over: Condvar,
}

// SAFETY: the link is used only under the lock of its list; the other fields are Send.
unsafe impl Send for Hook {}
// SAFETY: the link is used only under the lock of its list; the other fields are Sync.
unsafe impl Sync for Hook {}

enum State {
    /// With the cause of the cancel, once a cancel has been recorded for the hook.
    Armed(Box<dyn Body>, Option<std::sync::Arc<Cause>>),
    /// The body runs on the thread with this number ([`this_thread`]).
    Runs(usize),
    Over,
}

/// A number that differs between threads.
#[inline(never)]
fn this_thread() -> usize {
    crate::shim::thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| ptr::from_ref(place).addr())
}

impl Hook {
    pub(in crate::scheduler) fn new(body: Box<dyn Body>) -> Arc<Hook> {
        let state = Mutex::new(State::Armed(body, None));
        Arc::new(Hook { place: HookLink::new(), state, over: Condvar::new() })
    }

    /// The link of a hook, from which the list makes its way back to the hook.
    fn place(self: &Arc<Hook>) -> NonNull<HookLink> {
        NonNull::new(Arc::as_ptr(self).cast_mut().cast()).expect("an arc")
    }

    /// The hook that a list has referred to.
    ///
    /// # Safety
    /// The link is that of a hook, and the caller has the list's reference and gives it up.
    unsafe fn from_list(place: NonNull<HookLink>) -> Arc<Hook> {
        // SAFETY: the link is the first field of a hook, and the reference is the caller's.
        unsafe { Arc::from_raw(place.as_ptr().cast()) }
    }

    /// Records that the node is cancelled, so that `on_cancel` will run.
    fn fire(&self, cause: std::sync::Arc<Cause>) {
        if let State::Armed(_, fired) = &mut *self.state.lock() {
            *fired = Some(cause);
        }
    }

    /// Runs the body, unless another thread has taken it.
    fn run(&self) {
        let mut state = self.state.lock();
        // MUTANT(hook.run.once): false
        if !matches!(*state, State::Armed(..)) {
            return;
        }
        let runs = State::Runs(this_thread());
        let State::Armed(body, cause) = std::mem::replace(&mut *state, runs) else {
            unreachable!("looked at above")
        };
        drop(state);
        let run = || match cause {
            Some(cause) => body.on_cancel(cause),
            None => body.on_cleanup(),
        };
        // The running task, if any, need not be the hook's own.
        call_foreign(run);
        *self.state.lock() = State::Over;
        self.over.notify_all();
    }

    /// Runs the hook although it is in no list, because its node is cancelled or has ended.
    pub(in crate::scheduler) fn run_at_once(&self, cause: Option<std::sync::Arc<Cause>>) {
        if let Some(cause) = cause {
            self.fire(cause);
        }
        self.run();
    }

    /// Waits until the hook has returned, unless the calling thread runs it.
    fn wait(&self) {
        let mut state = self.state.lock();
        while matches!(*state, State::Runs(thread) if thread != this_thread()) {
            state = self.over.wait(state);
        }
    }
}

/// A hook that a cancel has reached, to be run when no lock is held.
pub(crate) struct Fired(Arc<Hook>);

impl Fired {
    /// # Safety
    /// `place` is the link of a hook. The caller has a reference to it, or holds the lock of its
    /// list, which has one.
    pub(crate) unsafe fn new(place: NonNull<HookLink>, cause: std::sync::Arc<Cause>) -> Fired {
        let hook: *const Hook = place.as_ptr().cast();
        // SAFETY: alive by the reference of the caller or of the list.
        let hook = unsafe {
            Arc::increment_strong_count(hook);
            Arc::from_raw(hook)
        };
        hook.fire(cause);
        Fired(hook)
    }

    pub(crate) fn run(self) {
        self.0.run();
    }
}

/// A hook, and the list in which it hangs, unless it has been taken out since.
pub(in crate::scheduler) struct Hanging {
    hook: Arc<Hook>,
    children: ChildrenRef,
}

/// A hook that was not put into a list, and the cause of the cancel, or `None` if the node has
/// ended.
pub(in crate::scheduler) type NotHung = (Arc<Hook>, Option<std::sync::Arc<Cause>>);

impl Hanging {
    /// Hangs a hook on a node. If the node is cancelled, `told` decides the cause.
    ///
    /// # Safety
    /// The node is linked. It has not ended, or its list of children [expects
    /// hooks](children::Children::expect_hooks), or its task is
    /// [watched](crate::task::record::Record::watch).
    pub(in crate::scheduler) unsafe fn on(
        node: &Node,
        hook: Arc<Hook>,
        told: impl FnOnce(LiveNode<'_>) -> std::sync::Arc<Cause>,
    ) -> Result<Hanging, NotHung> {
        let cold = node.cold().expect("a linked node has cold data");
        // SAFETY: called under the lock of the list, while the node has not ended.
        let told = |node: &Node| told(unsafe { LiveNode::new(node) });
        // SAFETY: the link is new, and comes with the reference of the list. The caller's contract
        // covers the node.
        let hang = |place| unsafe { cold.children().hang(node, place, told) };
        // SAFETY: the handle that `hang` has added.
        Hanging::after(hook, hang, || unsafe { ChildrenRef::counted(cold) })
    }

    /// Hangs a hook on the node of a list, which [bears](children::Children::bear).
    pub(in crate::scheduler) fn by(
        children: &ChildrenRef,
        hook: Arc<Hook>,
    ) -> Result<Hanging, NotHung> {
        // SAFETY: called under the lock of the list, while the node has not ended.
        let told = |node: &Node| cause_of(unsafe { LiveNode::new(node) });
        // SAFETY: the link is new, and comes with the reference of the list. The list bears.
        let hang = |place| unsafe { children.hang_by_handle(place, told) };
        // SAFETY: the handle that `hang_by_handle` has added.
        Hanging::after(hook, hang, || unsafe { children.counted_again() })
    }

    /// Calls `hang` with the link of a hook that is in no list, and with a reference for the list.
    /// If the hook hangs then, takes the handle that `hang` has added.
    fn after(
        hook: Arc<Hook>,
        hang: impl FnOnce(NonNull<HookLink>) -> Hang<std::sync::Arc<Cause>>,
        handle: impl FnOnce() -> ChildrenRef,
    ) -> Result<Hanging, NotHung> {
        let listed = Arc::clone(&hook);
        match hang(listed.place()) {
            Hang::Hung => {
                // The list has this reference now.
                std::mem::forget(listed);
                Ok(Hanging { hook, children: handle() })
            }
            Hang::Cancelled(cause) => Err((hook, Some(cause))),
            Hang::Over => Err((hook, None)),
        }
    }

    /// Takes the hook out of the list. Returns what `look` returns for the node, or `None` if the
    /// end of the node was faster.
    pub(in crate::scheduler) fn take_out<R>(
        self,
        look: impl FnOnce(LiveNode<'_>) -> R,
    ) -> Option<R> {
        let place = self.hook.place();
        // SAFETY: the hook was hung on this list, to which we have a handle, and this value goes
        // with the call. `look` is called under the lock of the list, and the node does not end
        // before its hooks are taken out.
        let looked = unsafe { self.children.unhook(place, |node| look(LiveNode::new(node))) }?;
        // SAFETY: taken out just now, so the list's reference is ours.
        drop(unsafe { Hook::from_list(place) });
        Some(looked)
    }
}

/// The guard of a hook: removes it from its list when dropped.
pub(crate) struct Hung {
    /// None if the guard was given up.
    hook: Option<Arc<Hook>>,
    /// None if the hook was never in a list.
    hanging: Option<Hanging>,
}

/// Hangs a hook on a node in which, or below which, the caller runs.
pub(crate) fn hang(node: LiveNode<'_>, body: Box<dyn Body>) -> Hung {
    if !node.is_linked() {
        link(node);
    }
    // SAFETY: the node is linked and has not ended.
    unsafe { hang_on(node.get(), body) }
}

/// Hangs a hook on a node in which the caller need not run.
///
/// # Safety
/// The node is linked. It has not ended, or its list of children [expects
/// hooks](children::Children::expect_hooks).
pub(crate) unsafe fn hang_on(node: &Node, body: Box<dyn Body>) -> Hung {
    // SAFETY: the caller's contract covers the node.
    match unsafe { Hanging::on(node, Hook::new(body), cause_of) } {
        Ok(hanging) => Hung { hook: Some(Arc::clone(&hanging.hook)), hanging: Some(hanging) },
        Err((hook, cause)) => {
            let recorded = || node.cold()?.cause.get().cloned();
            let ended = || node.word().decide().then(|| recorded().unwrap_or_else(Cause::unknown));
            hook.run_at_once(cause.or_else(ended));
            Hung { hook: Some(hook), hanging: None }
        }
    }
}

/// The recorded cause of the cancel of a task that may have ended, along with its ancestors.
pub(in crate::scheduler) fn cause_seen(task: &Record) -> std::sync::Arc<Cause> {
    // If no cause is recorded, the cancel came by the task's handle.
    decided(task.node.cold_or_new(), || Cause::new(Reason::HandleDropped, Some(task.spawned_at)))
}

/// Runs the hooks of the watchers of a task that has ended. Its parent has not ended.
pub(crate) fn unhook_watchers(task: &Record) {
    let cold = task.cold().expect("watching a task allocates its cold data");
    take_out(cold, || {
        // MUTANT(hook.decide): with task.node.verdict() == Verdict::Cancelled
        let cancelled = task.node.word().decide();
        cancelled.then(|| cause_seen(task))
    });
    // A watcher may have linked the task after the task's end had looked.
    // MUTANT(hook.unlink): false
    if task.node.is_linked() {
        children::unlink(&task.node);
    }
}

/// Runs the hooks that still hang on a node after its last child has ended and it was unlinked.
#[cold]
#[inline(never)]
pub(crate) fn unhook_all(node: LiveNode<'_>, cold: &ColdData) {
    take_out(cold, || {
        // A handle to a task finds the node without the lock, and may cancel it at any time: from
        // here on such a cancel is ignored.
        // MUTANT(hook.decide.linked): with false
        let decides = node.kind == NodeKind::Task;
        let cancelled =
            if decides { node.word().decide() } else { node.verdict() == Verdict::Cancelled };
        cancelled.then(|| cause_of(node))
    });
}

/// Takes all hooks out of a list and runs them. `decide` is called under the lock, and returns the
/// cause if the node was cancelled. A party that comes later finds the cause recorded.
fn take_out(cold: &ColdData, decide: impl FnOnce() -> Option<std::sync::Arc<Cause>>) {
    let told = |place: NonNull<HookLink>, cause: &Option<std::sync::Arc<Cause>>| {
        if let Some(cause) = cause {
            // SAFETY: kept alive by the list's reference, which is ours.
            unsafe { place.cast::<Hook>().as_ref() }.fire(std::sync::Arc::clone(cause));
        }
    };
    for place in cold.children().unhook_all(decide, told) {
        // SAFETY: just taken out, along with the list's reference.
        unsafe { Hook::from_list(place) }.run();
    }
}

/// The cause of the cancel of a linked node, if it is cancelled.
fn cause_if_cancelled(node: LiveNode<'_>) -> Option<std::sync::Arc<Cause>> {
    (node.verdict() == Verdict::Cancelled).then(|| cause_of(node))
}

impl Hung {
    /// Leaves the hook in the list, and gives the guard up.
    pub(crate) fn keep(mut self) {
        self.hook = None;
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        let Some(hook) = self.hook.take() else { return };
        let Some(hanging) = self.hanging.take() else { return hook.wait() };
        if let Some(cause) = hanging.take_out(cause_if_cancelled) {
            cause.into_iter().for_each(|cause| hook.fire(cause));
        }
        hook.run();
        hook.wait();
    }
}
