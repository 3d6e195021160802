//! External tasks: children without a closure. Any thread can provide the outcome of an external
//! task.
//!
//! # Life
//!
//! ```text
//!  Created --> Parked --settled: the outcome is stored--> Ready --> Running --> Finished
//!                 |                                         ^          ^
//!                 +--interrupted by a cancel (`End` only)---+          |
//!                 +--the last child of its scope has ended-------------+
//! ```
//!
//! An external task waits before its start. Its wait word decides which party goes on with it: the
//! [`Outside`], which settles it, or a cancel, if its wait is interruptible. The party that clears
//! PARKED has the record to itself until it queues it. The `Outside` stores the outcome and queues
//! the task; the cancel queues it without an outcome. The worker that takes the task from the
//! queue finds the outcome, or a cancelled task that never starts. So the end of the task, and
//! with it that of its parent, is always scheduled, and never happens inside the call that settles
//! the task. Once started, it is a task like any other and may wait again: destructors run in its
//! name, namely those of its task-locals and of a value that no handle takes.
//!
//! Until it is settled, the task is an unfinished child: its ancestors are open, and the runtime
//! does not end. Once it is queued, all of them may be gone at any moment.

use crate::scheduler::cancel::hook::{Body, Hung, hang_on};
use crate::scheduler::cancel::link;
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::life::spawn::{Lasting, Newborn, Terms, birth, fit};
use crate::scheduler::queue::item::Item;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::ids::fetch_ids;
use crate::scheduler::worker::release::{HandleRef, SharedRef};
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use crate::task::cell::External;
use crate::task::cell::settle;
use crate::task::outcome::{Failure, Outcome};
use crate::task::record::{Origin, Phase, Record, Traits};
use crate::task::reference::{Ready, RunRef, TaskRef, WaiterRef};
use crate::task::words::tree::NOBODY;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;

/// What a cancel does to an external task that is not settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnCancel {
    /// Ends it.
    End,
    /// Tells the hooks that hang on it. Its parent waits for it all the same.
    Tell,
    /// Nothing.
    Wait,
}

/// The right, and the duty, to settle an external task.
pub(crate) struct Outside<T> {
    record: SharedRef,
    /// Send and Sync if `T` is Send: an outcome can be moved in on any thread, by value alone.
    outcome: PhantomData<Box<Mutex<T>>>,
}

impl<T> Outside<T> {
    /// Settles the task, or gives the outcome back if the task was settled or cancelled before.
    pub(crate) fn settle(&self, outcome: Outcome<T>) -> Result<(), Outcome<T>> {
        let Some(task) = self.take() else { return Err(outcome) };
        // SAFETY: just taken out of its wait, and the record was made for this `T`.
        unsafe { settle(task.task().pointer(), outcome) };
        queue(task);
        Ok(())
    }

    /// Settles the task without a value, unless it was settled or cancelled before.
    pub(crate) fn abandon(&self) {
        let Some(task) = self.take() else { return };
        let failure = if self.is_cancelled() {
            // The task is in our hand, so it has not ended.
            Failure::NotStarted(cause_of(LiveNode::from(&task)))
        } else {
            Failure::Abandoned
        };
        // SAFETY: just taken out of its wait, and the record was made for this `T`.
        unsafe { settle::<T>(task.task().pointer(), Err(failure)) };
        queue(task);
    }

    pub(crate) fn task(&self) -> TaskRef<'_> {
        self.record.task()
    }

    /// Takes the task out of its wait before the start. Returns `None` if another party has done
    /// so.
    fn take(&self) -> Option<Ready> {
        self.task().take_from_outside()
    }

    /// The shared state of the workers of the task's runtime.
    ///
    /// Only for a task that a cancel does not end, and before it is settled.
    pub(crate) fn shared(&self) -> &Shared {
        let place = self.task().place.load(Ordering::Relaxed);
        // SAFETY: the task is not settled, and the runtime does not end before it.
        unsafe { &*ptr::with_exposed_provenance(place) }
    }

    /// The node that the task keeps open.
    ///
    /// Only for a task that a cancel does not end, and before it is settled.
    pub(crate) fn parent(&self) -> LiveNode<'_> {
        self.live_node().parent().expect("a task has a parent")
    }

    /// The node of the task.
    ///
    /// Only for a task that a cancel does not end, and before it is settled.
    pub(crate) fn live_node(&self) -> LiveNode<'_> {
        // SAFETY: the task is not settled, and so has not ended.
        unsafe { LiveNode::new(&raw const self.record.node) }
    }

    /// Whether a cancel has reached the task. One load.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.task().node.word().is_marked()
    }

    /// Hangs a hook on the task. Not for [`OnCancel::Wait`].
    pub(crate) fn hang(&self, body: Box<dyn Body>) -> Hung {
        hang(&self.task(), body)
    }
}

impl Outside<()> {
    /// Closes a scope of the task. Returns whether the task has been settled, as no child is left.
    /// If not, the last child ends the task, on the worker where it has ended itself.
    ///
    /// Opened by a thread that is not a worker, the scope belongs to this task, which never starts.
    /// The thread has left the closure, and joins the task: it does not wait for a worker that is
    /// free.
    pub(crate) fn close_scope(&self, frame: &ScopeFrame) -> bool {
        if !frame.node.close() {
            return false;
        }
        let settled = self.settle(Ok(()));
        debug_assert!(settled.is_ok(), "a scope without children has ended its owner");
        true
    }
}

impl<T> Drop for Outside<T> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Hangs a hook on an external task, which may have ended. Not for [`OnCancel::Wait`].
pub(crate) fn hang(task: &Record, body: Box<dyn Body>) -> Hung {
    debug_assert_eq!(task.traits.origin, Origin::External);
    // SAFETY: the task was linked when it was made, and its list of children expects hooks.
    unsafe { hang_on(&task.node, body) }
}

/// Whether a task with an interrupted wait is an external task that has not started, and is to be
/// [queued](queue).
pub(crate) fn is_outside(task: &Record) -> bool {
    task.traits.origin == Origin::External && task.node.home() == NOBODY
}

/// Takes the owner of a scope whose last child has ended out of its wait. The owner is an external
/// task that has not started; the caller ends it.
#[cold]
pub(crate) fn take_owner(owner: WaiterRef) -> Option<RunRef> {
    let task = owner.task().take_from_outside()?;
    // SAFETY: just taken out of its wait. `Outside::close_scope` alone leaves the end of an
    // unstarted task to the children of a scope, and its record was made for `()`.
    unsafe { settle(task.task().pointer(), Ok(())) };
    // Not Ready, which says that a joiner may claim the task.
    task.set_phase(Phase::Running);
    // SAFETY: whoever takes an external task out of its wait has its run reference.
    Some(unsafe { RunRef::new(task.into_pointer()) })
}

/// Queues an external task that has not started.
pub(crate) fn queue(task: Ready) {
    let shared: *const Shared = ptr::with_exposed_provenance(task.place.load(Ordering::Relaxed));
    // As in scheduler/wait/resume.rs: the runtime may end before the rest of the call. It may do so
    // as soon as the task is ready, which a joiner sees before the task is in the queue.
    let here = Worker::current().is_some_and(|worker| ptr::eq(worker.shared.get(), shared));
    let _kept = (!here).then(|| {
        // SAFETY: the pointer is the one that `Shared::new` has exposed, to an Arc that the
        // workers' threads hold. They do not end before the task, which is in our hand.
        unsafe { Shared::kept(shared) }
    });
    task.set_phase(Phase::Ready);
    // SAFETY: whoever takes an external task out of its wait has its run reference.
    let run = unsafe { RunRef::new(task.into_pointer()) };
    // SAFETY: kept by the reference made above, or by the worker's thread that we are on.
    unsafe { &*shared }.inject_item(Item::fresh(run));
}

/// Lets a new external task wait, and returns its handle and the right to settle it.
fn begin_wait<T>(
    shared: &Shared,
    born: Newborn<T>,
    on_cancel: OnCancel,
) -> (HandleRef<T>, Outside<T>) {
    let (run, handle) = born.with_handle();
    let outside = Outside { record: SharedRef::new(run.task()), outcome: PhantomData };
    run.place.store(ptr::from_ref(shared).addr(), Ordering::Relaxed);
    run.set_phase(Phase::Parked);
    if on_cancel != OnCancel::Wait {
        // Lets a cancel of an ancestor find the task. The task may end before a hook is hung on
        // it.
        run.node.cold_or_new().children().expect_hooks();
        link(LiveNode::from(&run));
    }
    let ends = on_cancel == OnCancel::End;
    // The run reference is left to the party that takes the task out of its wait.
    let _ = run.into_pointer();
    let task = handle.task();
    task.wait.publish_outside(ends);
    // As with every wait: a cancel has found the task parked, or is seen here.
    if ends && task.node.word().is_cancelled_in_total_order() {
        task.interrupt().into_iter().for_each(queue);
    }
    (handle, outside)
}

impl Shared {
    /// Makes an external child of `parent`, which the caller holds open, from any thread. Returns
    /// its handle, and the right to settle it. If `counted`, the parent counts the child already.
    pub(crate) fn spawn_external<T>(
        &self,
        parent: LiveNode<'_>,
        mut terms: Terms,
        on_cancel: OnCancel,
        counted: bool,
    ) -> (HandleRef<T>, Outside<T>) {
        // An outcome that no handle takes is dropped on the task's stack.
        fit::<(), T>(&mut terms.traits, self.config.stack_class);
        let worker = self.worker_here().filter(|_| !counted);
        let id = match worker {
            Some(worker) => {
                worker.count_child(parent);
                worker.ids.next()
            }
            None => {
                if !counted {
                    parent.add_child_from_outside();
                }
                self.injected.fetch_add(1, Ordering::Relaxed);
                fetch_ids(1)
            }
        };
        let traits = Traits { origin: Origin::External, ..terms.traits };
        let birth = birth(parent, id, Terms { traits, ..terms }, false);
        begin_wait(self, Newborn::new(worker, External, Lasting::external(), birth), on_cancel)
    }
}
