//! `Swansong`s of scopes, tasks and runtimes, and how a shutdown cancels them when its time is
//! over.
//!
//! A scope gets its own `Swansong` at first use: a child of the `Swansong` of the scope around it,
//! or of the runtime's. It is attached to the scope's node in the tree of tasks, and is dropped
//! with that node. Its own node knows how to cancel the scope; the node of a guarded task knows the
//! task. So [`shut_down_within`](Swansong::shut_down_within) finds what to cancel in the tree of
//! `Swansong`s, and the cancel reaches everything below in the tree of tasks.

use super::Swansong;
use super::guard::Guard;
use super::report::Origin;
use super::stop::stop;
use super::work::Work;
use crate::runtime::task_builder::Guarding;
use crate::runtime::{CancelHandle, Scope, Task, TaskBuilder, here, scope};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::worker::shared::Shared;
use crate::task::attachment::{Attached, Attachment};
use crate::task::words::tree::NodeKind;
use std::panic::Location;
use std::sync::Arc;

/// Returns the [`Swansong`] of the innermost scope around the calling task that has one, or else
/// the runtime's.
///
/// Does not suspend. Looks at the enclosing scopes and tasks one by one.
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
    around(worker.running_node(), worker.shared())
}

/// Returns the `Swansong` of `node`, of its nearest ancestor that has one, or of the runtime.
fn around(node: LiveNode<'_>, shared: &Shared) -> Swansong {
    let below_root = node.and_above().take_while(|at| at.kind != NodeKind::Root);
    let nearest = below_root.filter_map(|at| attached(&at.get().cold()?.attached)).next();
    nearest.unwrap_or_else(|| of_runtime(shared))
}

fn attached(place: &Attachment) -> Option<Swansong> {
    place.get().map(handle)
}

/// Attaches a `Swansong`, unless there is one already. Returns the attached one.
fn attach(place: &Attachment, swansong: Swansong) -> Swansong {
    handle(place.get_or_attach(Arc::new(swansong)))
}

fn handle(attached: &Attached) -> Swansong {
    attached.downcast_ref::<Swansong>().expect("nothing else is attached").clone()
}

/// Returns a runtime's `Swansong`, which is made at first use.
pub(crate) fn of_runtime(shared: &Shared) -> Swansong {
    let swansong = attached(&shared.attached).unwrap_or_else(|| {
        let fresh = match shared.config.guard_report {
            true => Swansong::with_guard_report(),
            false => Swansong::new(),
        };
        attach(&shared.attached, fresh)
    });
    // The end of the runtime first sets that it is closing and then looks for a `Swansong`. So it
    // has found this one, or this load sees that.
    if shared.is_closing() {
        stop(&swansong.node);
    }
    swansong
}

/// Stops a runtime's `Swansong`, if it has one.
pub(crate) fn stop_runtime(shared: &Shared) {
    if let Some(swansong) = attached(&shared.attached) {
        drop(swansong.shut_down());
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Returns the [`Swansong`] of this scope, which is made at first use as a child of the
    /// `Swansong` of the scope around it, or of the runtime's. It ends with the scope unless there
    /// are other handles or guards.
    ///
    /// Does not suspend. The first use costs some allocations.
    pub fn swansong(&self) -> Swansong {
        let node = self.node();
        let there = node.cold().and_then(|cold| attached(&cold.attached));
        there.unwrap_or_else(|| {
            let above = node.parent().expect("a scope has a parent");
            self.attach(around(above, self.shared()).child())
        })
    }

    /// Stops this scope softly, with all scopes below it, by a [`shut_down`](Swansong::shut_down)
    /// of its [`swansong`](Scope::swansong). Interrupts end, and nothing is cancelled. The returned
    /// completion waits for the guards.
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
    pub fn shut_down(&self) -> super::ShutdownCompletion {
        self.swansong().shut_down()
    }

    fn attach(&self, swansong: Swansong) -> Swansong {
        // This also gives the scope's node its cold data.
        let cancel = self.cancel_handle();
        set_work(&swansong, cancel, None);
        let cold = self.node().get().cold().expect("a node with a handle has cold data");
        attach(&cold.attached, swansong)
    }
}

fn set_work(swansong: &Swansong, cancel: CancelHandle, origin: Option<Origin>) {
    let mut state = swansong.node.state.lock();
    // A shutdown that is out of time has set `over` before this, or finds the work later.
    let over = state.over.clone().map(|over| (over, cancel.clone()));
    state.work = Some(Box::new(Work { cancel, origin }));
    drop(state);
    if let Some((over, cancel)) = over {
        over.cancel(&cancel);
    }
}

/// The guard of a [`TaskBuilder`], made by [`TaskBuilder::guard`]. It belongs to a `Swansong` of
/// its own, which learns of the task.
pub struct TaskGuard {
    child: Swansong,
    origin: Origin,
    /// Of [`TaskBuilder::try_guard`]: keeps the stop from its end until the task has its guard.
    _until_spawned: Option<Guard>,
}

impl Guarding for TaskGuard {
    type Held = Guard;

    const WANTS_TASK: bool = true;

    fn hold(&self) -> Guard {
        self.child.guard()
    }

    fn belongs_to<T>(self, task: &Task<T>) {
        // If the task has ended already, the child has ended too, or ends here.
        let origin = Origin { task: Some(task.id()), ..self.origin };
        set_work(&self.child, task.cancel_handle(), Some(origin));
    }
}

impl TaskBuilder {
    /// Lets the task hold a guard of `swansong` from its spawn until its closure returns, panics,
    /// or is dropped without having started. Pass the `Swansong` of a [scope](Scope::swansong) or
    /// [runtime](crate::Runtime::swansong), or one of your own.
    ///
    /// When its time is over, [`shut_down_within`](Swansong::shut_down_within) cancels the task,
    /// and names it in the report with the place of this call.
    ///
    /// Does not suspend. Costs a [`child`](Swansong::child) and a look at the clock.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// rt.block_on(|| {
    ///     let swansong = Swansong::new();
    ///     let task = cygnet::task().guard(&swansong).spawn(|| 6 * 7);
    ///     swansong.shut_down().block();
    ///     assert_eq!(task.join().unwrap(), 42);
    /// });
    /// ```
    #[track_caller]
    pub fn guard(self, swansong: &Swansong) -> TaskBuilder<TaskGuard> {
        let origin = Origin::new(Location::caller(), None);
        self.with_guard(TaskGuard { child: swansong.child(), origin, _until_spawned: None })
    }

    /// Like [`guard`](TaskBuilder::guard), but returns `None` if `swansong`, or one that it is a
    /// child of, is stopped: for work that must not begin any more. The stop waits for the builder,
    /// and then for the task.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let swansong = Swansong::new();
    /// let spawn = || Some(cygnet::task().try_guard(&swansong)?.spawn_in(&rt, || 6 * 7));
    /// let task = spawn().unwrap();
    /// swansong.shut_down().block();
    /// assert_eq!(task.join().unwrap(), 42);
    /// assert!(spawn().is_none());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn try_guard(self, swansong: &Swansong) -> Option<TaskBuilder<TaskGuard>> {
        let (child, origin) = (swansong.child(), Origin::new(Location::caller(), None));
        let first = child.try_guard()?;
        Some(self.with_guard(TaskGuard { child, origin, _until_spawned: Some(first) }))
    }
}

impl Swansong {
    /// Opens a [`scope`](crate::scope()) that belongs to this: the scope's
    /// [`swansong`](Scope::swansong) is a child of this one, wherever the calling task runs.
    /// [`shut_down_within`](Swansong::shut_down_within) cancels the scope when its time is over.
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
    /// Suspends like [`scope`](crate::scope()).
    ///
    /// # Panics
    /// As [`scope`](crate::scope()) does.
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
}
