//! Scopes that a thread opens which is not a worker.
//!
//! A scope has an owner, a task. Here that is an external task, which is never started: see
//! `Outside::close_scope`.

use crate::retire::nesting::Pin;
use crate::runtime::handle::{Handle, ended};
use crate::runtime::scope::{Scope, end, scope};
use crate::runtime::spawn::terms_with;
use crate::scheduler::life::complete::ParentLives;
use crate::scheduler::life::external::OnCancel;
use crate::scheduler::wait::no_suspend::{assert_may_wait, refuse_between_tasks};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::shim::{abort_with, thread_local};
use crate::task::record::Traits;
use crate::task::words::wait::WaitKind;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;

impl Handle {
    /// Opens a [`scope`] of the runtime, and runs `f` on the calling thread: for a program whose
    /// threads are its own, and that lets tasks borrow from them. `f` begins at once, even if all
    /// workers are busy. Called by a task of the runtime, this is [`scope`].
    ///
    /// `f` is not a task: to spawn, it uses the [`Scope`]. (In a task of another runtime,
    /// [`spawn`](crate::spawn()) spawns a child of that task.) Cancelling the scope does not cut its
    /// waits short. The tasks inherit no task-locals.
    ///
    /// Blocks the calling thread at its end, or suspends the calling task, as a structured wait, if
    /// tasks are left. Costs an allocation and a handful of locked instructions. A spawn in `f` costs
    /// as much as [`Handle::spawn`].
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut halves = [vec![3, 1], vec![4, 2]];
    /// rt.handle().scope(|s| {
    ///     for half in &mut halves {
    ///         s.spawn(|| half.sort_unstable());
    ///     }
    /// });
    /// assert_eq!(halves, [[1, 3], [2, 4]]);
    /// ```
    ///
    /// # Panics
    /// As [`scope`]. If the runtime has ended or is ending. If called by a task inside
    /// [`no_suspend`](crate::no_suspend), or on a worker's thread between tasks; while that thread
    /// unwinds, the panic ends the process.
    #[track_caller]
    pub fn scope<'env, F, R>(&self, f: F) -> R
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        let shared = self.shared();
        if shared.worker_here().is_some_and(|worker| worker.task().is_some()) {
            return scope(f);
        }
        if assert_may_wait().is_err() {
            refuse_between_tasks();
        }
        let (Some(open), Some(child)) = (shared.admit(), shared.admit()) else { ended("scope") };
        // The end waits where the beginning has seen that it may.
        let _pin = Pin::innermost();
        let open_here = OpenHere { shared, outer: Cell::new(ptr::null()) };
        let _listed = open_here.list();
        let terms = terms_with(Location::caller(), Traits::default(), None, None, None);
        let root = child.into_parent();
        let (handle, owner) = shared.spawn_external(root, terms, OnCancel::Wait, true);
        let scope = Scope::new(owner.frame_of_scope());
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        if owner.close_scope(scope.frame()) {
            handle.let_go(ParentLives::UNKNOWN);
        } else {
            let joined = handle.join(WaitKind::Structured, ParentLives::UNKNOWN);
            if joined.is_err() {
                // Tasks may borrow from the frames below.
                abort_with("a scope has ended before its tasks, which is a bug");
            }
        }
        // The frame of the scope uses the owner's record, and lies below the root.
        let _until_then = (&owner, &open);
        end(scope.frame(), result)
    }
}

thread_local! {
    /// The innermost scope that is open on this thread, if that is not a worker.
    static INNERMOST: Cell<*const OpenHere> = const { Cell::new(ptr::null()) };
}

/// A scope of a runtime that this thread has opened. A drop of the runtime inside it would wait for
/// itself.
struct OpenHere {
    shared: *const Shared,
    outer: Cell<*const OpenHere>,
}

/// An entry of the list, until this is dropped.
struct Listed<'a>(&'a OpenHere);

impl OpenHere {
    /// Enters this, unless the thread is a worker, whose tasks have scopes of their own meanwhile.
    fn list(&self) -> Option<Listed<'_>> {
        Worker::current().is_none().then(|| {
            self.outer.set(INNERMOST.with(|innermost| innermost.replace(self)));
            Listed(self)
        })
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        INNERMOST.with(|innermost| innermost.set(self.0.outer.get()));
    }
}

/// Whether this thread, which is not a worker, has a scope of this runtime open.
pub(super) fn is_open_here(shared: &Shared) -> bool {
    let mut at = INNERMOST.with(Cell::get);
    // SAFETY: the list is that of the present thread, whose frames keep its entries.
    while let Some(open) = unsafe { at.as_ref() } {
        if ptr::eq(open.shared, shared) {
            return true;
        }
        at = open.outer.get();
    }
    false
}
