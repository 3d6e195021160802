//! Hooks: what hangs on a node and is not a task, and is told when the node is cancelled, or that it was not.
//!
//! # States
//!
//! ```text
//!  armed ----- taken out of the list of a node that is cancelled ------------> on_cancel runs --+
//!    |                                                                                          +--> over
//!    +-------- taken out of that of another, by its guard or as it ends -----> on_cleanup runs -+
//! ```
//!
//! A hook hangs in the list of its node, out of which its guard takes it, or whoever ends the node. A walk that comes to
//! it there, under the lock of the list, makes a reference of its own. Who takes the *body*, under the hook's own lock,
//! runs it: once. The guard and the end of the node may be faster than a walk that has several hooks to run one after
//! the other; so none is left to be run when its node has ended.
//!
//! **Which call it is, the mark of the node decides**, and not who is the one to make it: a task that was cut out of
//! its wait may drop its guards before the walk has come to them, or the canceller has called what it has taken.
//!
//! References are held by the list, which hands its own to whoever takes the hook out, by walks, and by the guard. The guard has a
//! handle to the list of children besides, so it finds the lock also after the node's end. A guard that finds the hook running
//! waits for its end, unless it is that hook that drops it. No lock is held while a hook runs.
//!
//! Hooks that come from outside, by a handle, are the subject of `watching`.

use crate::scheduler::cancel::link;
use crate::scheduler::cancel::reason::{cause_of, decided};
use crate::scheduler::life::complete::in_nobodys_name;
use crate::scheduler::wait::no_suspend::no_suspend;
use crate::shim::{Arc, Condvar, Mutex};
use crate::task::cause::{Cause, Reason};
use crate::task::children::{self, Children, Hang, HookLink};
use crate::task::cold::ColdData;
use crate::task::outcome::{drop_payload, quietly};
use crate::task::record::Record;
use crate::task::words::tree::{Node, NodeKind, Verdict};
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

/// What a hook does; foreign code.
pub(crate) trait Body: Send {
    fn on_cancel(self: Box<Self>, cause: std::sync::Arc<Cause>);
    fn on_cleanup(self: Box<Self>);
}

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Hook {
    /// First, so that a place is its hook.
    place: HookLink,
    state: Mutex<State>,
    over: Condvar,
}

// SAFETY: the place is used under the lock of its list alone.
unsafe impl Send for Hook {}
// SAFETY: as above.
unsafe impl Sync for Hook {}

enum State {
    /// With the reason why it was taken, if that was for a cancel.
    Armed(Box<dyn Body>, Option<std::sync::Arc<Cause>>),
    /// On this thread.
    Runs(usize),
    Over,
}

/// Something that differs between threads.
#[inline(never)]
fn this_thread() -> usize {
    crate::shim::thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| ptr::from_ref(place).addr())
}

impl Hook {
    fn state(&self) -> crate::shim::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its node is cancelled, and it was taken out of the list: that is what it will be told.
    fn fire(&self, cause: std::sync::Arc<Cause>) {
        if let State::Armed(_, fired) = &mut *self.state() {
            *fired = Some(cause);
        }
    }

    /// Runs it, unless another was faster.
    fn run(&self) {
        let mut state = self.state();
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
        // Whatever task runs here, it need not be the one that the hook is about. The panic hook has told of a panic; it goes no further.
        in_nobodys_name(|| {
            if let Some(payload) = quietly(|| no_suspend(run)) {
                drop_payload(payload);
            }
        });
        *self.state() = State::Over;
        self.over.notify_all();
    }

    /// Waits for its end if it runs, unless it is the calling thread that runs it.
    fn wait(&self) {
        let mut state = self.state();
        while matches!(*state, State::Runs(thread) if thread != this_thread()) {
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A hook that a cancel has come to.
pub(crate) struct Fired(Arc<Hook>);

impl Fired {
    /// # Safety
    /// The place is that of a hook, with a reference that is the caller's, or its list's, whose lock the caller has.
    pub(crate) unsafe fn new(place: NonNull<HookLink>, cause: std::sync::Arc<Cause>) -> Fired {
        let hook: *const Hook = place.as_ptr().cast();
        // SAFETY: alive by that reference.
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

/// The guard of a hook: takes it out of the list when it is dropped.
pub(crate) struct Hung {
    hook: Arc<Hook>,
    /// A handle; none if it never hung.
    children: Option<NonNull<Children>>,
    kept: bool,
}

// SAFETY: hooks and lists of children are shared by design.
unsafe impl Send for Hung {}
// SAFETY: as above.
unsafe impl Sync for Hung {}

/// Hangs a hook on a node in which, or below which, the caller runs.
pub(crate) fn hang(node: &Node, body: Box<dyn Body>) -> Hung {
    if !node.is_linked() {
        link(node);
    }
    // SAFETY: linked, and it does not end before the caller.
    unsafe { hang_on(node, body) }
}

/// The same on a node that the caller does not run in.
///
/// # Safety
/// It is linked, and has not ended, or its list of children [expects hooks](Children::expect_hooks).
pub(crate) unsafe fn hang_on(node: &Node, body: Box<dyn Body>) -> Hung {
    let (hook, place) = new(body);
    // As a pointer to the whole of the cold data.
    let cold: *const ColdData = node.cold().expect("a linked node has cold");
    // SAFETY: those of a node that has not ended.
    let children = unsafe { (*cold).children() };
    // SAFETY: the list's reference is given to it; the rest is passed on.
    let cause = match unsafe { children.hang(node, place, cause_of) } {
        Hang::Hung => {
            let children = NonNull::new(cold.cast_mut().cast()).expect("a reference");
            return Hung { hook, children: Some(children), kept: false };
        }
        Hang::Cancelled(cause) => cause,
        // SAFETY: as above.
        Hang::Over => unsafe { (*cold).cause.get().cloned() }.unwrap_or_else(Cause::unknown),
    };
    // SAFETY: it was not put into the list.
    unsafe { run_at_once(&hook, place, Some(cause)) };
    Hung { hook, children: None, kept: false }
}

/// A hook, and its place with the reference of a list.
pub(in crate::scheduler) fn new(body: Box<dyn Body>) -> (Arc<Hook>, NonNull<HookLink>) {
    let state = Mutex::new(State::Armed(body, None));
    let hook = Arc::new(Hook { place: HookLink::new(), state, over: Condvar::new() });
    let place = NonNull::new(Arc::into_raw(Arc::clone(&hook)).cast_mut().cast()).expect("an arc");
    (hook, place)
}

/// Runs a hook at once: its node is cancelled, or has ended.
///
/// # Safety
/// The place is that of the hook, with the reference of a list that it is not in.
pub(in crate::scheduler) unsafe fn run_at_once(
    hook: &Hook,
    place: NonNull<HookLink>,
    cause: Option<std::sync::Arc<Cause>>,
) {
    if let Some(cause) = cause {
        hook.fire(cause);
    }
    hook.run();
    // SAFETY: the caller's.
    drop::<Arc<Hook>>(unsafe { Arc::from_raw(place.as_ptr().cast()) });
}

/// Why a task was cancelled, which may have ended, and whose ancestors may be gone: what has been written down for it.
pub(in crate::scheduler) fn cause_seen(task: &Record) -> std::sync::Arc<Cause> {
    // If there is nothing, by its handle.
    decided(task.node.cold_or_new(), || Cause::new(Reason::HandleDropped, Some(task.spawned_at)))
}

/// Runs the hooks of those who watch a task, which has ended; its parent has not.
pub(crate) fn unhook_watchers(task: &Record) {
    let cold = task.cold().expect("who watches it has made them");
    take_out(cold, || {
        // MUTANT(hook.settle): with task.node.verdict() == Verdict::Cancelled
        let cancelled = task.node.word().settle();
        cancelled.then(|| cause_seen(task))
    });
    // One of them may have linked it after its end had looked.
    // MUTANT(hook.unlink): false
    if task.node.is_linked() {
        children::unlink(&task.node);
    }
}

/// Runs the hooks that still hang on a node whose last child has ended. For whoever ends it, when it is unlinked.
#[cold]
#[inline(never)]
pub(crate) fn unhook_all(node: &Node, cold: &ColdData) {
    take_out(cold, || {
        // Who has a reference to a task may be about to cancel it, and finds it without the lock.
        // MUTANT(hook.settle.linked): with false
        let settles = node.kind == NodeKind::Task;
        let cancelled =
            if settles { node.word().settle() } else { node.verdict() == Verdict::Cancelled };
        cancelled.then(|| cause_of(node))
    });
}

/// Takes all hooks out of a list, and runs them. `decide` is asked under the lock whether the node was cancelled; who comes later finds the
/// reason written down.
fn take_out(cold: &ColdData, decide: impl FnOnce() -> Option<std::sync::Arc<Cause>>) {
    let told = |place: NonNull<HookLink>, cause: &Option<std::sync::Arc<Cause>>| {
        if let Some(cause) = cause {
            // SAFETY: kept by the list's reference, which is ours.
            unsafe { place.cast::<Hook>().as_ref() }.fire(std::sync::Arc::clone(cause));
        }
    };
    for place in cold.children().unhook_all(decide, told) {
        // SAFETY: taken out just now, with the list's reference.
        let hook: Arc<Hook> = unsafe { Arc::from_raw(place.as_ptr().cast()) };
        hook.run();
    }
}

/// Of a node that is linked and has not ended.
fn cause_if_cancelled(node: &Node) -> Option<std::sync::Arc<Cause>> {
    (node.verdict() == Verdict::Cancelled).then(|| cause_of(node))
}

impl Hung {
    /// Leaves the hook where it is.
    pub(crate) fn keep(mut self) {
        if let Some(children) = self.children.take() {
            // SAFETY: ours.
            unsafe { Children::release_handle(children) };
        }
        self.kept = true;
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let Some(children) = self.children else { return self.hook.wait() };
        let place = NonNull::new(Arc::as_ptr(&self.hook).cast_mut().cast()).expect("an arc");
        // SAFETY: kept by the handle; it was hung there.
        if let Some(cause) = unsafe { children.as_ref().unhook(place, cause_if_cancelled) } {
            // SAFETY: the list's reference.
            let hook: Arc<Hook> = unsafe { Arc::from_raw(place.as_ptr().cast()) };
            if let Some(cause) = cause {
                hook.fire(cause);
            }
        }
        self.hook.run();
        self.hook.wait();
        // SAFETY: ours.
        unsafe { Children::release_handle(children) };
    }
}
