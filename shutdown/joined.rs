//! Swansongs of scopes, of tasks and of runtimes: what can be cancelled, when its time to finish is over.
//!
//! A scope has its own at first use: a child of that of the scope around it, or of the runtime's, which hangs on the scope's node and goes
//! with it. Its node knows how to cancel the scope; that of a guarded task knows the task. So [`shut_down_within`](Swansong::shut_down_within)
//! finds what is to be cancelled in the tree of nodes, with whatever is below it in the tree of tasks.

use super::Swansong;
use super::guarded::Guarded;
use super::report::Origin;
use super::stop::stop;
use crate::TaskId;
use crate::runtime::CancelHandle;
use crate::runtime::ScopedTask;
use crate::runtime::Task;
use crate::runtime::here;
use crate::runtime::spawn;
use crate::runtime::{Scope, scope};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::shared::Shared;
use crate::shim::time::now;
use crate::task::attachment::{Attached, Attachment};
use crate::task::words::tree::{Node, NodeKind};
use std::panic::Location;
use std::sync::Arc;

/// The work of a node that was made for a scope or a task.
pub(super) struct Work {
    pub(super) cancel: CancelHandle,
    /// Of a task: its guards are this one's.
    pub(super) origin: Option<Origin>,
}

/// The Swansong of the innermost scope that has one, around the calling task; or that of the runtime.
///
/// Does not suspend. Looks at the scopes and tasks above, one after the other.
///
/// ```
/// use cygnet::shutdown;
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     cygnet::scope(|s| {
///         let swansong = s.swansong();
///         let task = s.spawn(|| shutdown::current());
///         assert_eq!(task.join().unwrap(), swansong);
///     });
///     assert_eq!(shutdown::current(), cygnet::Handle::current().swansong());
/// });
/// ```
///
/// # Panics
/// Outside a task.
#[track_caller]
pub fn current() -> Swansong {
    let (worker, _) = here("shutdown::current");
    // SAFETY: that of the running task, or of a scope on its stack.
    around(unsafe { &*worker.node.get() }, worker)
}

/// That of a node in which the caller runs, or of the next one above.
fn around(node: &Node, worker: &Worker) -> Swansong {
    let mut at = node;
    while at.kind != NodeKind::Root {
        if let Some(swansong) = at.extras().and_then(|extras| attached(&extras.attached)) {
            return swansong;
        }
        // SAFETY: the caller runs below it.
        at = unsafe { &*at.parent };
    }
    of_runtime(worker.shared())
}

fn attached(place: &Attachment) -> Option<Swansong> {
    place.get().map(handle)
}

/// Attaches one, unless another is there: the one that is there then.
fn attach(place: &Attachment, swansong: Swansong) -> Swansong {
    handle(place.get_or_attach(Arc::new(swansong)))
}

fn handle(attached: &Attached) -> Swansong {
    attached.downcast_ref::<Swansong>().expect("nothing else is attached").clone()
}

/// That of a runtime, made at first use.
pub(crate) fn of_runtime(shared: &Shared) -> Swansong {
    let swansong = attached(&shared.attached).unwrap_or_else(|| {
        let fresh = match shared.config.guard_report {
            true => Swansong::with_guard_report(),
            false => Swansong::new(),
        };
        attach(&shared.attached, fresh)
    });
    // The end, which says so first and then looks, has found it, or this sees the end.
    if shared.is_closing() {
        stop(&swansong.node);
    }
    swansong
}

/// Stops that of a runtime, if it has one.
pub(crate) fn stop_runtime(shared: &Shared) {
    if let Some(swansong) = attached(&shared.attached) {
        drop(swansong.shut_down());
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// The [`Swansong`] of this scope, made at first use as a child of that of the scope around it, or of the runtime's. It ends with the scope, if
    /// nobody else has a handle or a guard of it.
    ///
    /// Does not suspend. The first use costs some allocations.
    ///
    /// # Panics
    /// Outside a task of the scope's runtime.
    #[track_caller]
    pub fn swansong(&self) -> Swansong {
        let (worker, _) = self.assert_here();
        let node = self.node();
        let there = node.extras().and_then(|extras| attached(&extras.attached));
        there.unwrap_or_else(|| {
            // SAFETY: the caller runs in the scope, or below it.
            let above = around(unsafe { &*node.parent }, worker);
            self.attach(above.child())
        })
    }

    /// Stops this scope softly, with all below it: a [`shut_down`](Swansong::shut_down) of its [`swansong`](Scope::swansong). Interrupts end,
    /// guards are waited for by what is returned, and nothing is cancelled.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// rt.block_on(|| {
    ///     let (sender, requests) = cygnet::sync::bounded::<u32>(1);
    ///     cygnet::scope(|s| {
    ///         let swansong = s.swansong();
    ///         let server = s.spawn(move || swansong.interrupt(requests).iter().count());
    ///         s.shut_down();
    ///         assert_eq!(server.join().unwrap(), 0); // though the channel is open
    ///     });
    ///     drop(sender);
    /// });
    /// ```
    ///
    /// # Panics
    /// As `swansong`.
    #[track_caller]
    pub fn shut_down(&self) -> super::ShutdownCompletion {
        self.swansong().shut_down()
    }

    /// As [`spawn`](Scope::spawn), with a guard of the scope's [`swansong`](Scope::swansong): see [`Swansong::spawn_guarded`].
    ///
    /// # Panics
    /// As `spawn`.
    #[track_caller]
    pub fn spawn_guarded<F, T>(&'scope self, f: F) -> ScopedTask<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let work = GuardedWork::new(&self.swansong());
        let guarded = work.guarded(f);
        let task = self.spawn(move || guarded.call());
        work.belongs_to(task.id(), task.cancel_handle());
        task
    }

    fn attach(&self, swansong: Swansong) -> Swansong {
        // The scope's node has extras by that.
        let cancel = self.cancel_handle();
        set_work(&swansong, cancel, None);
        let extras = self.node().extras().expect("a node with a handle has extras");
        attach(&extras.attached, swansong)
    }
}

fn set_work(swansong: &Swansong, cancel: CancelHandle, origin: Option<Origin>) {
    let mut state = swansong.node.lock();
    // Who cancels what is late has been here, or finds the work.
    let over = state.over.clone().map(|over| (over, cancel.clone()));
    state.work = Some(Box::new(Work { cancel, origin }));
    drop(state);
    if let Some((over, cancel)) = over {
        over.cancel(&cancel);
    }
}

/// A task that is to be spawned with a guard: that of a node of its own, which knows the task.
pub(super) struct GuardedWork {
    child: Swansong,
    origin: Origin,
}

impl GuardedWork {
    #[track_caller]
    pub(super) fn new(swansong: &Swansong) -> GuardedWork {
        let origin = Origin { place: Location::caller(), made: now(), task: None };
        GuardedWork { child: swansong.child(), origin }
    }

    pub(super) fn guarded<F>(&self, f: F) -> Guarded<F> {
        self.child.guarded(f)
    }

    /// It may have ended; then so has the node, or does here.
    pub(super) fn belongs_to(self, task: TaskId, cancel: CancelHandle) {
        set_work(&self.child, cancel, Some(Origin { task: Some(task), ..self.origin }));
    }
}

impl Swansong {
    /// Opens a [`scope`](crate::scope()) that belongs to this: its [`swansong`](Scope::swansong) is a child of it, wherever the calling task runs.
    /// [`shut_down_within`](Swansong::shut_down_within) cancels it when its time is over.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let swansong = Swansong::new();
    /// let stuck = rt.spawn({
    ///     let swansong = swansong.clone();
    ///     move || swansong.scope(|s| {
    ///         let _guard = s.swansong().guard();
    ///         cygnet::park().is_err() // .. for something that does not come
    ///     })
    /// });
    /// # while swansong.guard_count() == 0 { std::thread::yield_now() }
    /// let report = swansong.shut_down_within(Duration::ZERO);
    /// assert_eq!(report.guards_in_time_over(), 1);
    /// assert!(stuck.join().unwrap());
    /// ```
    ///
    /// Suspends as `scope`.
    ///
    /// # Panics
    /// As `scope`.
    #[track_caller]
    pub fn scope<'env, F, R>(&self, f: F) -> R
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        scope(|s| {
            s.attach(self.child());
            f(s)
        })
    }

    /// As [`spawn`](crate::spawn()), with a guard that the task holds until its closure has ended: by its value, by a panic, or because it never
    /// starts. When its time is over [`shut_down_within`](Swansong::shut_down_within) cancels it, and names it in the report, with the
    /// place of this call.
    ///
    /// Does not suspend. Costs a [`child`](Swansong::child) and a look at the clock more than `spawn`.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// rt.block_on(|| {
    ///     let swansong = Swansong::new();
    ///     let task = swansong.spawn_guarded(|| 6 * 7);
    ///     swansong.shut_down().block();
    ///     assert_eq!(task.join().unwrap(), 42);
    /// });
    /// ```
    ///
    /// # Panics
    /// As `spawn`.
    #[track_caller]
    pub fn spawn_guarded<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let work = GuardedWork::new(self);
        let guarded = work.guarded(f);
        let task = spawn(move || guarded.call());
        work.belongs_to(task.id(), task.cancel_handle());
        task
    }
}
