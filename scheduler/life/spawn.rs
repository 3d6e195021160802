//! Spawning: makes a record and puts it into a queue.

use crate::retire::record_pool;
use crate::retire::stack::StackClass;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::root::Admitted;
use crate::scheduler::wait::resume::send_to_start;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::ids::fetch_ids;
use crate::scheduler::worker::release::{HandleRef, queued};
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use crate::task::cell::{Body, External, layout_of};
use crate::task::cold::ColdData;
use crate::task::record::{Birth, Origin, Phase, Record, Traits};
use crate::task::reference::RunRef;
use std::marker::PhantomData;
use std::panic::Location;

/// The terms of a spawn, besides the closure.
pub(crate) struct Terms {
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) traits: Traits,
    pub(crate) cold: Option<Box<ColdData>>,
}

/// The least stack size for a closure and result of these sizes: they pass over the stack by
/// value, in debug builds several times. `None` if the usual stack has room.
const fn stack_for_payload<B, T>() -> Option<usize> {
    let payload = size_of::<B>() + size_of::<T>();
    // An eighth of the smallest default stack in use.
    let copies = if cfg!(debug_assertions) { 24 } else { 8 };
    if payload <= 4 << 10 { None } else { Some(payload * copies + (64 << 10)) }
}

/// Enlarges the class of stack if the closure or the result needs it.
pub(crate) fn fit<B, T>(traits: &mut Traits, usual: StackClass) {
    let Some(size) = stack_for_payload::<B, T>() else { return };
    let chosen = match traits.stack_class {
        0 => usual,
        class => StackClass::from_byte(class),
    };
    if chosen.size() < size
        && let Ok(class) = StackClass::for_size(size)
    {
        traits.stack_class = class.to_byte();
    }
}

/// The initial values of a child of `parent`.
#[inline(always)]
pub(crate) fn birth(parent: LiveNode<'_>, id: u64, terms: Terms, detached: bool) -> Birth {
    let flags = parent.flags().inherited();
    Birth {
        parent: parent.pointer(),
        flags,
        id,
        spawned_at: terms.spawned_at,
        traits: terms.traits.under(flags.isolation()),
        cold: terms.cold,
        detached,
    }
}

/// The promise that a body of this type may be given to the task: what it and its result borrow
/// outlives the task, and both may be on any thread where the task may be. (It does not hold the
/// body, as each move of that takes room on the stack of a debug build.)
pub(crate) struct Lasting<B, T>(PhantomData<fn(B) -> T>);

impl<B: Body<T>, T> Lasting<B, T> {
    /// For a body that borrows nothing, and any task.
    pub(crate) const fn new() -> Lasting<B, T>
    where
        B: Send + 'static,
        T: Send + 'static,
    {
        Lasting(PhantomData)
    }

    /// # Safety
    /// What the body and its result borrow outlives the task: the task's parent does not end before
    /// it, and the caller keeps the borrows until the parent has ended. A body or a result that is
    /// not Send goes to a task that stays on this worker, with its handle.
    pub(crate) const unsafe fn promised() -> Lasting<B, T> {
        Lasting(PhantomData)
    }
}

impl<T> Lasting<External, T> {
    /// No closure: an external task borrows nothing, and its result is as Send as its handle.
    pub(crate) const fn external() -> Lasting<External, T> {
        Lasting(PhantomData)
    }
}

/// A task that was just made.
pub(crate) struct Newborn<T> {
    run: RunRef,
    result: PhantomData<fn() -> T>,
}

impl<T> Newborn<T> {
    /// Makes a task out of memory of this worker's pool, or else of the common one. The parent is
    /// to count it.
    #[inline(always)]
    pub(super) fn new<B: Body<T>>(
        worker: Option<&Worker>,
        body: B,
        _: Lasting<B, T>,
        birth: Birth,
    ) -> Newborn<T> {
        let memory = match worker {
            Some(worker) => worker.memory.records.take(const { layout_of::<B, T>() }),
            None => record_pool::allocate(const { layout_of::<B, T>() }),
        };
        // SAFETY: the memory was taken for this layout, and the record is new.
        let run = unsafe { RunRef::new(Record::new(memory, body, birth)) };
        Newborn { run, result: PhantomData }
    }

    /// The run reference, and the handle's. For a task that was not born detached.
    #[inline(always)]
    pub(super) fn with_handle(self) -> (RunRef, HandleRef<T>) {
        debug_assert!(self.run.is_known(), "a detached task has no handle");
        // SAFETY: the record was made for a `T`, with a reference for its handle.
        let handle = unsafe { HandleRef::new(self.run.task().pointer()) };
        (self.run, handle)
    }
}

impl Worker {
    /// Spawns a child of `parent` on this worker.
    #[inline]
    pub(crate) fn spawn<B: Body<T>, T>(
        &self,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        terms: Terms,
    ) -> HandleRef<T> {
        let local = terms.traits.local;
        let (run, handle) = self.new_task(parent, body, lasting, terms);
        self.queue_new(run, local);
        handle
    }

    /// Spawns a child of `parent` on this worker, without a handle.
    pub(crate) fn spawn_detached<B: Body<T>, T>(
        &self,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        terms: Terms,
    ) {
        self.queue_new(self.make(parent, body, lasting, terms, false, true).run, false);
    }

    /// Makes a child of `parent` without queueing it.
    #[inline]
    pub(crate) fn new_task<B: Body<T>, T>(
        &self,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        terms: Terms,
    ) -> (RunRef, HandleRef<T>) {
        self.make(parent, body, lasting, terms, false, false).with_handle()
    }

    /// Same as [`new_task`](Worker::new_task), for places where nothing may unwind: returns `None`
    /// if `parent` has too many children.
    pub(crate) fn try_new_task<B: Body<T>, T>(
        &self,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        terms: Terms,
    ) -> Option<(RunRef, HandleRef<T>)> {
        if !parent.try_add_child(self.number()) {
            return None;
        }
        self.counters().spawned.add(1);
        Some(self.make(parent, body, lasting, terms, true, false).with_handle())
    }

    /// Makes a child of `parent` without queueing it, with a reference for its handle unless it is
    /// detached. The parent may have counted it already. (One function for both: each layer copies
    /// the captures in a debug build.)
    #[inline(always)]
    fn make<B: Body<T>, T>(
        &self,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        mut terms: Terms,
        counted: bool,
        detached: bool,
    ) -> Newborn<T> {
        if !counted {
            // Before the record is made, which would leak if this panics.
            self.count_child(parent);
        }
        fit::<B, T>(&mut terms.traits, self.memory.class);
        let birth = birth(parent, self.ids.next(), terms, detached);
        Newborn::new(Some(self), body, lasting, birth)
    }

    /// Counts a child of `parent` that is spawned here.
    #[inline(always)]
    pub(crate) fn count_child(&self, parent: LiveNode<'_>) {
        parent.add_child(self.number());
        self.counters().spawned.add(1);
    }

    /// Queues a task that was just made.
    #[inline(always)]
    fn queue_new(&self, run: RunRef, local: bool) {
        if local {
            self.queue_local(run);
        } else {
            self.queue_privately(run);
        }
    }

    /// Puts a fresh task into the private deque.
    #[inline(always)]
    pub(crate) fn queue_privately(&self, run: RunRef) {
        if self.remote.private.push(run) {
            self.serve_requests_at_push();
        }
    }

    #[cold]
    pub(crate) fn queue_local(&self, run: RunRef) {
        run.set_phase(Phase::Ready);
        self.queues.local.borrow_mut().push_back(queued(run));
    }
}

impl Shared {
    /// Spawns a child of the root from any thread.
    pub(crate) fn spawn_root<B: Body<T>, T>(
        &self,
        child: Admitted<'_>,
        body: B,
        lasting: Lasting<B, T>,
        terms: Terms,
    ) -> HandleRef<T> {
        let parent = child.into_parent();
        let (run, handle) = self.new_counted(parent, body, lasting, terms, false).with_handle();
        self.inject(run);
        handle
    }

    /// Spawns a child of the root that starts on one worker and stays there, from any thread.
    pub(crate) fn spawn_root_on<B: Body<T>, T>(
        &self,
        worker: usize,
        child: Admitted<'_>,
        body: B,
        lasting: Lasting<B, T>,
        mut terms: Terms,
    ) -> HandleRef<T> {
        terms.traits = Traits { local: true, origin: Origin::Sent, ..terms.traits };
        let parent = child.into_parent();
        let (run, handle) = self.new_counted(parent, body, lasting, terms, false).with_handle();
        send_to_start(self, worker, run);
        handle
    }

    /// Spawns a child of a node on the caller's worker, if that is of this runtime and runs a task,
    /// and otherwise from outside. (One function for both: in a debug build each call with the body
    /// has a copy of it in the caller's frame.)
    #[inline(always)]
    pub(crate) fn spawn_from<B: Body<T>, T>(
        &self,
        worker: Option<&Worker>,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        mut terms: Terms,
    ) -> HandleRef<T> {
        let id = match worker {
            Some(worker) => {
                worker.count_child(parent);
                worker.ids.next()
            }
            None => {
                parent.add_child_from_outside();
                self.injected.fetch_add(1, Ordering::Relaxed);
                fetch_ids(1)
            }
        };
        fit::<B, T>(&mut terms.traits, self.config.stack_class);
        let birth = birth(parent, id, terms, false);
        let (run, handle) = Newborn::new(worker, body, lasting, birth).with_handle();
        match worker {
            Some(worker) => worker.queue_privately(run),
            None => self.inject(run),
        }
        handle
    }

    /// Spawns a child of a node of this runtime from any thread, without a handle.
    pub(crate) fn spawn_detached_below<B: Body<T>, T>(
        &self,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        terms: Terms,
    ) {
        parent.add_child_from_outside();
        self.inject(self.new_counted(parent, body, lasting, terms, true).run);
    }

    /// Makes a child that `parent` counts already, with a reference for its handle unless it is
    /// detached.
    fn new_counted<B: Body<T>, T>(
        &self,
        parent: LiveNode<'_>,
        body: B,
        lasting: Lasting<B, T>,
        mut terms: Terms,
        detached: bool,
    ) -> Newborn<T> {
        fit::<B, T>(&mut terms.traits, self.config.stack_class);
        let birth = birth(parent, fetch_ids(1), terms, detached);
        self.injected.fetch_add(1, Ordering::Relaxed);
        Newborn::new(None, body, lasting, birth)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Worker;
    use crate::task::words::tree::NOBODY;
    use crate::{ChildOn, Handle};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    #[test]
    fn a_child_too_many_is_a_panic_and_its_captures_are_dropped() {
        let runtime = || crate::Runtime::builder().workers(1).build().unwrap();
        let (here, there) = (runtime(), runtime());
        let pool = there.handle();
        let ways: [fn(&Handle, Arc<()>); 2] = [
            |_, theirs| drop(crate::spawn(move || drop(theirs))),
            |pool, theirs| drop(crate::task().spawn_in(ChildOn(pool), move || drop(theirs))),
        ];
        here.block_on(|| {
            let node = Worker::current().unwrap().running_node();
            for way in ways {
                let captured = Arc::new(());
                let theirs = Arc::clone(&captured);
                node.fill();
                let spawned = catch_unwind(AssertUnwindSafe(|| way(&pool, theirs)));
                node.empty();
                assert!(spawned.is_err());
                assert_eq!(Arc::strong_count(&captured), 1);
            }
        });
        // Nothing is waited for there.
        assert!(!there.shutdown_at_most(Duration::ZERO, Duration::from_secs(10)).is_given_up());
    }

    /// The root has room for the call of one worker, and not for that of the other.
    #[test]
    fn a_broadcast_that_is_one_task_too_many_calls_nobody() {
        let rt = crate::Runtime::builder().workers(2).build().unwrap();
        let (handle, root) = (rt.handle(), &rt.shared().root.node);
        let called = AtomicBool::new(false);
        root.fill();
        let _ = root.release_child(NOBODY);
        let calls = || handle.broadcast(|_| called.store(true, Relaxed));
        let refused = catch_unwind(AssertUnwindSafe(calls)).is_err();
        root.add_child_from_outside();
        root.empty();
        assert!(refused && !called.load(Relaxed));
        assert_eq!(calls().len(), 2);
    }
}
