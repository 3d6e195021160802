//! Spawning: makes a record and puts it into a queue.

use crate::retire::record_pool;
use crate::retire::stack::StackClass;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::ids::fetch_ids;
use crate::scheduler::worker::shared::Shared;
use crate::task::cell::{layout_of, layout_of_fallible};
use crate::task::cold::ColdData;
use crate::task::outcome::Outcome;
use crate::task::record::{Birth, Record, Traits};
use crate::task::words::tree::Node;
use std::panic::Location;
use std::ptr::NonNull;

/// The terms of a spawn, besides the closure.
pub(crate) struct Terms {
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) traits: Traits,
    pub(crate) cold: Option<Box<ColdData>>,
    pub(crate) detached: bool,
}

/// The least stack size for a closure and result of these sizes: they pass over the stack by
/// value, in debug builds several times. `None` if the usual stack has room.
const fn stack_for_payload<F, T>() -> Option<usize> {
    let payload = size_of::<F>() + size_of::<T>();
    // An eighth of the smallest default stack in use.
    let copies = if cfg!(debug_assertions) { 24 } else { 8 };
    if payload <= 4 << 10 { None } else { Some(payload * copies + (64 << 10)) }
}

/// Enlarges the class of stack if the closure or the result needs it.
pub(crate) fn fit<F, T>(terms: &mut Terms, usual: StackClass) {
    let Some(size) = stack_for_payload::<F, T>() else { return };
    let chosen = match terms.traits.stack_class {
        0 => usual,
        class => StackClass::from_byte(class),
    };
    if chosen.size() < size
        && let Ok(class) = StackClass::for_size(size)
    {
        terms.traits.stack_class = class.to_byte();
    }
}

/// The initial values of a child of `parent`.
///
/// # Safety
/// The parent is open.
#[inline(always)]
pub(crate) unsafe fn birth(parent: *const Node, id: u64, terms: Terms) -> Birth {
    // SAFETY: the contract says that the parent is open.
    let flags = unsafe { &*parent }.flags().inherited();
    Birth {
        parent,
        flags,
        id,
        spawned_at: terms.spawned_at,
        traits: terms.traits.under(flags.isolation()),
        cold: terms.cold,
        detached: terms.detached,
    }
}

impl Worker {
    /// Spawns a child of `parent` on this worker.
    ///
    /// # Safety
    /// What `f` borrows outlives the child: the parent does not end before it, and the caller keeps
    /// the borrows until the parent has ended.
    #[inline]
    pub(crate) unsafe fn spawn<F: FnOnce() -> T, T>(
        &self,
        parent: *const Node,
        f: F,
        terms: Terms,
    ) -> NonNull<Record> {
        let local = terms.traits.local;
        // SAFETY: the contract of `new_task` is that of this function.
        let record = unsafe { self.new_task(parent, f, terms) };
        if local {
            self.queue_local(record);
        } else if self.remote.private.push(record) {
            self.serve_requests();
        }
        record
    }

    /// Spawns a closure that returns an outcome, and so can say itself why it gives no value. Not
    /// for local tasks.
    ///
    /// # Safety
    /// As for `spawn`.
    pub(crate) unsafe fn spawn_fallible<F: FnOnce() -> Outcome<T>, T>(
        &self,
        parent: *const Node,
        f: F,
        mut terms: Terms,
    ) -> NonNull<Record> {
        fit::<F, T>(&mut terms, self.memory.class);
        let memory = self.memory.records.take(const { layout_of_fallible::<F, T>() });
        // SAFETY: the parent is open, by the contract.
        let birth = unsafe { birth(parent, self.ids.next(), terms) };
        // SAFETY: the memory was taken for this layout.
        let record = unsafe { Record::new_fallible(memory, f, birth) };
        // SAFETY: the parent is open, by the contract.
        unsafe { self.count_child(parent) };
        if self.remote.private.push(record) {
            self.serve_requests();
        }
        record
    }

    /// Makes a child of `parent` without queueing it.
    ///
    /// # Safety
    /// As for `spawn`.
    #[inline]
    pub(crate) unsafe fn new_task<F: FnOnce() -> T, T>(
        &self,
        parent: *const Node,
        f: F,
        mut terms: Terms,
    ) -> NonNull<Record> {
        fit::<F, T>(&mut terms, self.memory.class);
        let memory = self.memory.records.take(const { layout_of::<F, T>() });
        // SAFETY: the parent is open, by the contract.
        let birth = unsafe { birth(parent, self.ids.next(), terms) };
        // SAFETY: the memory was taken for this layout.
        let record = unsafe { Record::new(memory, f, birth) };
        // SAFETY: the parent is open, by the contract.
        unsafe { self.count_child(parent) };
        record
    }

    /// Counts a child of `parent` that is spawned here.
    ///
    /// # Safety
    /// The parent is the running task's node or one that the caller holds open.
    #[inline(always)]
    pub(crate) unsafe fn count_child(&self, parent: *const Node) {
        // SAFETY: the contract says that the parent is open.
        unsafe { &*parent }.add_child(self.number());
        self.counters().spawned.add(1);
    }

    #[cold]
    fn queue_local(&self, record: NonNull<Record>) {
        // SAFETY: the caller has just made the record, and no other party knows it.
        unsafe { record.as_ref() }.set_phase(crate::task::record::Phase::Ready);
        self.queues.local.borrow_mut().push_back(record);
    }
}

impl Shared {
    /// Spawns a child of the root from any thread. The root has admitted it.
    ///
    /// # Safety
    /// What `f` borrows outlives the task.
    pub(crate) unsafe fn spawn_root<F: FnOnce() -> T, T>(
        &self,
        f: F,
        terms: Terms,
    ) -> NonNull<Record> {
        // SAFETY: the admission has counted the child, and keeps the root open.
        unsafe { self.spawn_counted(&raw const self.root.node, f, terms) }
    }

    /// Spawns a child of a node of this runtime from any thread.
    ///
    /// # Safety
    /// What `f` borrows outlives the task, and the caller holds the node open.
    pub(crate) unsafe fn spawn_below<F: FnOnce() -> T, T>(
        &self,
        parent: *const Node,
        f: F,
        terms: Terms,
    ) -> NonNull<Record> {
        // SAFETY: the caller holds the node open.
        unsafe { &*parent }.add_child_from_outside();
        // SAFETY: the contract covers the borrows, and the child was just counted.
        unsafe { self.spawn_counted(parent, f, terms) }
    }

    /// Spawns a child that `parent` counts already.
    ///
    /// # Safety
    /// As for `spawn_below`.
    unsafe fn spawn_counted<F: FnOnce() -> T, T>(
        &self,
        parent: *const Node,
        f: F,
        mut terms: Terms,
    ) -> NonNull<Record> {
        fit::<F, T>(&mut terms, self.config.stack_class);
        let memory = record_pool::allocate(layout_of::<F, T>());
        // SAFETY: the child is counted, so the parent is open.
        let birth = unsafe { birth(parent, fetch_ids(1), terms) };
        // SAFETY: the memory was taken for this layout.
        let record = unsafe { Record::new(memory, f, birth) };
        // SAFETY: the record was made above.
        unsafe { record.as_ref() }.set_phase(crate::task::record::Phase::Ready);
        self.inject(record);
        record
    }
}
