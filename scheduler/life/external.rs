//! External tasks: children without a closure. Any thread can provide the outcome of an external
//! task.
//!
//! # Life
//!
//! ```text
//!  Created --> Parked --settled: the outcome is stored--> Ready --> Running --> Finished
//!                 |                                         ^
//!                 +--interrupted by a cancel (`End` only)---+
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

use crate::retire::record_pool;
use crate::scheduler::cancel::hook::{Body, Hung, hang_on};
use crate::scheduler::cancel::link;
use crate::scheduler::cancel::reason::cause_of;
use crate::scheduler::life::spawn::{Terms, birth, fit};
use crate::scheduler::queue::item::Item;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::ids::fetch_ids;
use crate::scheduler::worker::release::release;
use crate::scheduler::worker::shared::Shared;
use crate::shim::Arc;
use crate::shim::atomic::Ordering;
use crate::task::cell::{layout_of_external, settle};
use crate::task::outcome::{Failure, Outcome};
use crate::task::record::{Origin, Phase, Record, Traits};
use crate::task::words::tree::{NOBODY, Node};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

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
    /// A counted reference.
    record: NonNull<Record>,
    outcome: PhantomData<fn(T)>,
}

// SAFETY: the record is shared by design. The outcome moves to another thread, which `T: Send`
// allows.
unsafe impl<T: Send> Send for Outside<T> {}
// SAFETY: a shared `Outside` can only move a `T` that its caller owns into the record, which
// `T: Send` allows.
unsafe impl<T: Send> Sync for Outside<T> {}

impl<T> Outside<T> {
    /// Settles the task, or gives the outcome back if the task was settled or cancelled before.
    pub(crate) fn settle(&self, outcome: Outcome<T>) -> Result<(), Outcome<T>> {
        if !self.take() {
            return Err(outcome);
        }
        // SAFETY: just taken out of its wait, and the record was made for this `T`.
        unsafe { settle(self.record, outcome) };
        queue(self.record);
        Ok(())
    }

    /// Settles the task without a value, unless it was settled or cancelled before.
    pub(crate) fn abandon(&self) {
        if !self.take() {
            return;
        }
        let failure = if self.is_cancelled() {
            // The task is in our hand, so it has not ended.
            Failure::NotStarted(cause_of(&self.record().node))
        } else {
            Failure::Abandoned
        };
        // SAFETY: just taken out of its wait, and the record was made for this `T`.
        unsafe { settle::<T>(self.record, Err(failure)) };
        queue(self.record);
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: alive by our reference.
        unsafe { self.record.as_ref() }
    }

    /// Takes the task out of its wait before the start. Returns `false` if another party has done
    /// so.
    fn take(&self) -> bool {
        self.record().wait.take_from_outside()
    }

    /// The shared state of the workers of the task's runtime.
    ///
    /// Only for a task that a cancel does not end, and before it is settled.
    pub(crate) fn shared(&self) -> &Shared {
        let place = self.record().place.load(Ordering::Relaxed);
        // SAFETY: the task is not settled, and the runtime does not end before it.
        unsafe { &*ptr::with_exposed_provenance(place) }
    }

    /// Whether a cancel has reached the task. One load.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.record().node.word().is_marked()
    }

    /// Hangs a hook on the task. Not for [`OnCancel::Wait`].
    pub(crate) fn hang(&self, body: Box<dyn Body>) -> Hung {
        hang(self.record(), body)
    }
}

impl<T> Drop for Outside<T> {
    fn drop(&mut self) {
        self.abandon();
        // SAFETY: the reference is ours; it is the last one only if the handle has disposed of the
        // outcome.
        unsafe { release(self.record, 1) };
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

/// Queues an external task that has not started. The caller has cleared its PARKED bit.
pub(crate) fn queue(record: NonNull<Record>) {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    let shared: *const Shared = ptr::with_exposed_provenance(task.place.load(Ordering::Relaxed));
    // As in `resume_all`: the runtime may end before the rest of the call. It may do so as soon as
    // the task is ready, which a joiner sees before the task is in the queue.
    let here = Worker::current().is_some_and(|worker| ptr::eq(worker.shared.get(), shared));
    let _kept = (!here).then(|| {
        // SAFETY: the pointer came from an Arc that the workers' threads hold. They do not end
        // before the task, which is in our hand.
        unsafe {
            Arc::increment_strong_count(shared);
            Arc::from_raw(shared)
        }
    });
    task.set_phase(Phase::Ready);
    // SAFETY: kept by the reference made above, or by the worker's thread that we are on.
    unsafe { &*shared }.offer(Item::fresh(record));
}

/// Lets a new external task wait, and returns the right to settle it.
///
/// # Safety
/// The record was made for this `T`, is known to no other party, and its parent is open.
unsafe fn publish<T>(shared: &Shared, record: NonNull<Record>, on_cancel: OnCancel) -> Outside<T> {
    // SAFETY: the record is new, and the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    task.add_reference();
    let outside = Outside { record, outcome: PhantomData };
    task.place.store(ptr::from_ref(shared).expose_provenance(), Ordering::Relaxed);
    task.set_phase(Phase::Parked);
    if on_cancel != OnCancel::Wait {
        // Lets a cancel of an ancestor find the task. The task may end before a hook is hung on
        // it.
        task.node.cold_or_new().children().expect_hooks();
        link(&task.node);
    }
    let ends = on_cancel == OnCancel::End;
    task.wait.publish_outside(ends);
    // As with every wait: a cancel has found the task parked, or is seen here.
    if ends && task.node.word().is_cancelled_in_total_order() && task.wait.interrupt() {
        queue(record);
    }
    outside
}

fn external(terms: Terms) -> Terms {
    Terms { traits: Traits { origin: Origin::External, ..terms.traits }, ..terms }
}

impl Worker {
    /// Makes an external child of `parent`. Returns its record, with the handle's reference, and
    /// the right to settle it.
    ///
    /// # Safety
    /// The parent is the running task's node, or one that the caller holds open.
    pub(crate) unsafe fn spawn_external<T>(
        &self,
        parent: *const Node,
        mut terms: Terms,
        on_cancel: OnCancel,
    ) -> (NonNull<Record>, Outside<T>) {
        // An outcome that no handle takes is dropped on the task's stack.
        fit::<(), T>(&mut terms, self.memory.class);
        let memory = self.memory.records.take(const { layout_of_external::<T>() });
        // SAFETY: the caller assures that the parent is open.
        let birth = unsafe { birth(parent, self.ids.next(), external(terms)) };
        // SAFETY: the memory was taken for this layout.
        let record = unsafe { Record::new_external::<T>(memory, birth) };
        // SAFETY: the caller assures that the parent is open.
        unsafe { self.count_child(parent) };
        // SAFETY: the record was made above for this `T`, and the parent is open.
        (record, unsafe { publish(self.shared(), record, on_cancel) })
    }
}

impl Shared {
    /// Makes an external child of the root, from any thread. The caller has been admitted by the
    /// root.
    pub(crate) fn spawn_external_root<T>(
        &self,
        terms: Terms,
        on_cancel: OnCancel,
    ) -> (NonNull<Record>, Outside<T>) {
        // SAFETY: the admission has counted the child, and keeps the root open.
        unsafe { self.spawn_external_counted(&raw const self.root.node, terms, on_cancel) }
    }

    /// Makes an external child of a node of this runtime, from any thread.
    ///
    /// # Safety
    /// The caller holds the node open.
    pub(crate) unsafe fn spawn_external_below<T>(
        &self,
        parent: *const Node,
        terms: Terms,
        on_cancel: OnCancel,
    ) -> (NonNull<Record>, Outside<T>) {
        // SAFETY: the caller holds the node open.
        unsafe { &*parent }.add_child_from_outside();
        // SAFETY: the caller holds the node open, and the child was just counted.
        unsafe { self.spawn_external_counted(parent, terms, on_cancel) }
    }

    /// Makes an external child that `parent` counts already.
    ///
    /// # Safety
    /// The caller holds the node open, and the child has been counted.
    unsafe fn spawn_external_counted<T>(
        &self,
        parent: *const Node,
        mut terms: Terms,
        on_cancel: OnCancel,
    ) -> (NonNull<Record>, Outside<T>) {
        fit::<(), T>(&mut terms, self.config.stack_class);
        let memory = record_pool::allocate(layout_of_external::<T>());
        // SAFETY: the caller assures that the parent is open.
        let birth = unsafe { birth(parent, fetch_ids(1), external(terms)) };
        // SAFETY: the memory was taken for this layout.
        let record = unsafe { Record::new_external::<T>(memory, birth) };
        self.injected.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the record was made above for this `T`, and the parent is open.
        (record, unsafe { publish(self, record, on_cancel) })
    }
}
