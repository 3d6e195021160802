//! The task record: the shared state behind every handle to a task.
//!
//! # Lifetime
//!
//! A record outlives its task. The captures live in it until the closure is called. The outcome
//! lives in it from the end of the closure until the handle takes it, or until no handle can. The
//! record itself is freed with its last reference. References are held by
//!
//! * the task itself, from its spawn to its end (the *run* reference, which moves from queue to
//!   worker),
//! * its handle,
//! * every `Unparker` and `CancelHandle`,
//! * every stale entry of a public queue or of a local one.
//!
//! **Watching.** A thread with a reference may watch a task for its end ([`Record::watch`]).
//! WATCHED is one more reference, held in the name of the task. The release of the run reference
//! sets ENDED in the same update. It either finds WATCHED, tells the watchers and releases WATCHED,
//! or comes first, and then a later `watch` finds ENDED. This adds no step to the end of the task:
//! a record with another reference is released by an atomic update in any case.
//!
//! # Access
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | node, wait, join | see their modules | |
//! | phase | spawner, claimant, then home worker | any thread (relaxed: a hint) |
//! | link | the one queue that has the record | the same |
//! | place: in a private deque | spawner and thieves: the index, or that it has left | the same |
//! | place: on the way to the worker that starts it | nobody: zero | that worker |
//! | place: started | home worker: the task's fiber | the waker |
//! | place: external | spawner: the `Shared` of its runtime | the thread that queues it |
//! | place: ended | the worker where it ended: its retire queue | holder of the last reference |
//! | cold data | spawner, then the thread that runs the task | the same; the name: any thread |
//! | stored | home worker; of an external task, the thread that cleared PARKED | home worker |
//! | at_home | home worker | home worker, forks of the task |
//! | outcome_dropped | the thread that drops an outcome which no handle takes | the same |
//! | payload | spawner; claimant; after DONE the owner of the outcome | the same |
//!
//! The list of children in the cold data has its own rules (see [`children`](super::children)).

use crate::retire;
use crate::retire::record_pool::Chunk;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::task::cell::{Body, Cell, Operations};
use crate::task::cold::ColdData;
use crate::task::outcome::Outcome;
use crate::task::words::join::JoinWord;
use crate::task::words::tree::{InheritedFlags, Isolation, NOBODY, Node, NodeKind};
use crate::task::words::wait::WaitWord;
use std::panic::Location;
use std::ptr::{self, NonNull};

/// The phases of a task's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Spawned, in a private deque, on the way to its worker, or in the hand of one worker, which
    /// need not claim the task.
    Created,
    /// Spawned, in a public queue or a local one: to be claimed before it is started. (A task that
    /// *is ready*, as in [`Ready`](super::reference::Ready), has a fiber on which it can go on.)
    Ready,
    Running,
    /// Has yielded; in its home's run queue.
    Suspended,
    /// Waits. An external task is parked before its start.
    Parked,
    Finished,
}

impl Phase {
    fn from_u8(value: u8) -> Phase {
        match value {
            0 => Phase::Created,
            1 => Phase::Ready,
            2 => Phase::Running,
            3 => Phase::Suspended,
            4 => Phase::Parked,
            _ => Phase::Finished,
        }
    }

    /// Returns whether the life cycle has an edge from this phase to `next`.
    fn may_become(self, next: Phase) -> bool {
        use Phase::*;
        matches!(
            (self, next),
            (Created, Ready | Running | Parked)
                | (Ready, Running)
                | (Running, Suspended | Parked | Finished)
                | (Suspended | Parked, Running)
                // An external task.
                | (Parked, Ready)
        )
    }
}

/// The state of a join between two tasks that stay on one worker: see
/// [`JoinWord::register_at_home`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum JoinedAtHome {
    /// There is no such join.
    No = 0,
    /// The joiner called the task on its own stack.
    Called,
    /// The joiner is parked.
    Waiting,
    /// The task ended on that worker, and left its run reference to the joiner.
    Ended,
}

/// A cell for a [`JoinedAtHome`]. Only the home worker writes it. The home worker reads it, and so
/// do forks of the task while they exist. During that time either the state is `Called`, or it does
/// not concern the forks.
pub(crate) struct AtHome(std::sync::atomic::AtomicU8);

impl AtHome {
    fn new() -> AtHome {
        AtHome(std::sync::atomic::AtomicU8::new(JoinedAtHome::No as u8))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> JoinedAtHome {
        match self.0.load(Ordering::Relaxed) {
            0 => JoinedAtHome::No,
            1 => JoinedAtHome::Called,
            2 => JoinedAtHome::Waiting,
            _ => JoinedAtHome::Ended,
        }
    }

    #[inline(always)]
    pub(crate) fn set(&self, state: JoinedAtHome) {
        self.0.store(state as u8, Ordering::Relaxed);
    }
}

/// Properties of a task that are fixed at its spawn.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Traits {
    /// Never leaves the worker that spawned it, or that it was sent to.
    pub(crate) local: bool,
    /// May change workers after its start.
    pub(crate) migratable: bool,
    /// The class of stack that the spawner asked for; 0 is the runtime's default.
    pub(crate) stack_class: u8,
    pub(crate) origin: Origin,
}

/// How a task was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Origin {
    #[default]
    Spawned,
    /// The parent waits for the task as for a function call, so the task starts even if it is
    /// cancelled.
    Called,
    /// Any thread has sent the task to the worker where it is to start.
    Sent,
    /// The task has no closure. It is in no queue until its outcome, or a cancel, comes from
    /// outside.
    External,
}

impl Traits {
    /// The traits under `isolation`. An isolated task does not migrate, because it isolates the
    /// worker that it is on.
    #[inline(always)]
    pub(crate) fn under(self, isolation: Isolation) -> Traits {
        Traits { migratable: self.migratable & (isolation == Isolation::None), ..self }
    }

    /// Returns whether the task can neither be called on another task's stack nor run by a worker's
    /// loop.
    #[inline(always)]
    pub(crate) fn needs_own_stack(&self) -> bool {
        // One comparison.
        u16::from_le_bytes([self.migratable as u8, self.stack_class]) != 0
    }
}

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Record {
    /// First, so that a node of kind Task is its record.
    pub(crate) node: Node,
    pub(crate) operations: &'static Operations,
    references: AtomicU32,
    pub(crate) wait: WaitWord,
    pub(crate) join: JoinWord,
    id: u64,
    pub(crate) link: AtomicPtr<Record>,
    pub(crate) place: AtomicUsize,
    pub(crate) spawned_at: &'static Location<'static>,
    phase: AtomicU8,
    /// The outcome was dropped because no handle could take it any more.
    pub(crate) outcome_dropped: AtomicBool,
    /// The outcome has been stored.
    pub(crate) stored: std::cell::Cell<bool>,
    /// The join by a task of the same worker, if there is one.
    pub(crate) at_home: AtHome,
    pub(crate) traits: Traits,
}

/// The run reference has been released.
const ENDED: u32 = 1 << 31;
/// The reference that the watchers of the task share.
pub(crate) const WATCHED: u32 = 1 << 30;

/// The result of a release of the run reference.
pub(crate) enum RunEnd {
    /// No reference is left: the caller frees the record.
    Last,
    /// Other references are left.
    Kept,
    /// The task has watchers: the caller tells them, and then releases their reference,
    /// [`WATCHED`].
    Watched,
}

/// The arguments for a new record.
pub(crate) struct Birth {
    pub(crate) parent: *const Node,
    pub(crate) flags: InheritedFlags,
    pub(crate) id: u64,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) traits: Traits,
    pub(crate) cold: Option<Box<ColdData>>,
    /// The spawner keeps no handle, so no one takes the outcome.
    pub(crate) detached: bool,
}

impl Record {
    /// Lays a record out in `memory`, with two references: the run reference and the handle's. A
    /// detached record has only the run reference.
    ///
    /// # Safety
    /// `memory` is exclusively the caller's, and came from `record_pool` for `layout_of::<B, T>()`.
    #[inline]
    pub(crate) unsafe fn new<B: Body<T>, T>(
        memory: NonNull<u8>,
        body: B,
        birth: Birth,
    ) -> NonNull<Record> {
        let record = Record::with(const { &Cell::<B, T>::OPERATIONS }, birth);
        // SAFETY: the memory is exclusively the caller's and fits this cell.
        unsafe { Cell::<B, T>::lay_out(memory, record, body) }
    }

    #[inline(always)]
    fn with(operations: &'static Operations, birth: Birth) -> Record {
        Record {
            node: Node::new(NodeKind::Task, birth.parent, NOBODY)
                .with_flags(birth.flags)
                .with_cold(birth.cold),
            operations,
            references: AtomicU32::new(if birth.detached { 1 } else { 2 }),
            wait: WaitWord::new(),
            join: JoinWord::new(birth.detached),
            id: birth.id,
            link: AtomicPtr::new(ptr::null_mut()),
            place: AtomicUsize::new(0),
            spawned_at: birth.spawned_at,
            phase: AtomicU8::new(Phase::Created as u8),
            outcome_dropped: AtomicBool::new(false),
            stored: std::cell::Cell::new(false),
            at_home: AtHome::new(),
            traits: birth.traits,
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.cold().and_then(|e| e.name.as_deref())
    }

    #[inline]
    pub(crate) fn cold(&self) -> Option<&ColdData> {
        self.node.cold()
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        Phase::from_u8(self.phase.load(Ordering::Relaxed))
    }

    /// Moves the task to its next phase. Called by the owner of the run reference.
    #[inline]
    pub(crate) fn set_phase(&self, next: Phase) {
        debug_assert!(
            self.phase().may_become(next),
            "task {} cannot go from {:?} to {next:?}",
            self.id,
            self.phase()
        );
        // Release: a claimant sees the place, which was written before.
        // MUTANT(record.phase): relaxed
        self.phase.store(next as u8, Ordering::Release);
    }

    /// Sets `Running`. Called by a worker that has just claimed the task, or taken it out of a
    /// private deque.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        debug_assert!(matches!(self.phase(), Phase::Created | Phase::Ready | Phase::Running));
        self.phase.store(Phase::Running as u8, Ordering::Release);
    }

    /// Claims a task that is in a public queue. Returns `false` if another claimant was faster.
    pub(crate) fn claim(&self) -> bool {
        let (from, to) = (Phase::Ready as u8, Phase::Running as u8);
        // MUTANT(record.claim): relaxed, split
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives a claim back before the task is started, so that the task can enter a public queue.
    pub(crate) fn unclaim(&self) {
        // MUTANT(record.unclaim): relaxed
        self.phase.store(Phase::Ready as u8, Ordering::Release);
    }

    /// Makes a claimed task private to the claimant. Its stale entries in public queues stay stale.
    pub(crate) fn unclaim_privately(&self) {
        self.phase.store(Phase::Created as u8, Ordering::Release);
    }

    pub(crate) fn add_reference(&self) {
        // MUTANT(record.add_reference): split
        let before = self.references.fetch_add(1, Ordering::Relaxed) & !ENDED;
        debug_assert!(before >= 1, "a reference was added to a record that has none");
        if before & !WATCHED > WATCHED / 2 {
            // Like std's Arc: there is no sound way to go on.
            std::process::abort();
        }
    }

    /// Returns whether the caller's `n` references are the only ones. If so, no other thread can
    /// add one.
    #[inline]
    pub(crate) fn is_last(&self, n: u32) -> bool {
        // Acquire: all uses of the record by released references happen before.
        // MUTANT(record.is_last): relaxed
        self.references.load(Ordering::Acquire) & !ENDED == n
    }

    /// Releases `n` references. Returns `true` if they were the last; then the caller frees the
    /// record.
    #[inline]
    pub(crate) fn release(&self, n: u32) -> bool {
        // The last references need no locked instruction.
        if self.is_last(n) {
            return true;
        }
        // MUTANT(record.release): relaxed, split
        let before = self.references.fetch_sub(n, Ordering::Release) & !ENDED;
        debug_assert!(before >= n, "a reference was released twice");
        if before == n {
            // Acquire, by a load of the same word instead of a fence: all uses of the record by
            // released references happen before.
            // MUTANT(record.release.last): relaxed
            let _ = self.references.load(Ordering::Acquire);
            true
        } else {
            false
        }
    }

    /// Releases `n` references, one of them the run reference. The task has ended.
    #[inline]
    pub(crate) fn release_run(&self, n: u32) -> RunEnd {
        // The last references need no locked instruction.
        if self.is_last(n) {
            return RunEnd::Last;
        }
        // MUTANT(record.release_run): relaxed, split
        let before = self.references.fetch_add(ENDED.wrapping_sub(n), Ordering::Release);
        debug_assert!(before & ENDED == 0, "a task has ended twice");
        if before != n && before & WATCHED == 0 {
            return RunEnd::Kept;
        }
        // Acquire: all uses by released references happen before, and so does the cold data that a
        // watcher made.
        // MUTANT(record.release_run.last): relaxed
        let _ = self.references.load(Ordering::Acquire);
        if before == n { RunEnd::Last } else { RunEnd::Watched }
    }

    /// Makes the end of the task tell its watchers, which are the hooks in its list of children.
    /// Returns `false` if the task has ended. The caller has a reference.
    pub(crate) fn watch(&self) -> bool {
        let watch = |word: u32| (word & (ENDED | WATCHED) == 0).then_some(word | WATCHED);
        // MUTANT(record.watch): relaxed, split
        match self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, watch) {
            Ok(_) => true,
            Err(word) => word & ENDED == 0,
        }
    }

    /// Returns whether there are references beside the run reference, such as the handle's. A hint:
    /// the load is relaxed.
    pub(crate) fn is_known(&self) -> bool {
        self.references.load(Ordering::Relaxed) & !ENDED > 1
    }

    /// Moves the outcome out.
    ///
    /// # Safety
    /// The task has ended and the caller owns its outcome, which is gone afterwards. `T` is the
    /// type that the record was made with.
    #[inline(always)]
    pub(crate) unsafe fn take_outcome<T>(this: NonNull<Record>) -> Outcome<T> {
        // SAFETY: the offset is that of the payload in this record's own layout, and the payload
        // is a union whose fields start at offset 0 (each field of a union may be read through a
        // pointer to its start); the outcome is there.
        let outcome = unsafe {
            let offset = this.as_ref().operations.outcome_offset;
            &*this.cast::<u8>().add(offset).cast::<Outcome<T>>().as_ptr()
        };
        // By variant: one wide load of a value that was stored in pieces would stall until the
        // stores have retired.
        match outcome {
            // SAFETY: the caller owns the outcome, and reads it once.
            Ok(value) => Ok(unsafe { ptr::read(value) }),
            // SAFETY: the caller owns the outcome, and reads it once.
            Err(failure) => Err(unsafe { ptr::read(failure) }),
        }
    }

    /// Drops the record's fields, the cold data by a call of `end_cold`, and returns the memory.
    ///
    /// # Safety
    /// No reference is left, and the outcome is gone. `end_cold` asks for no more than
    /// [`ColdData::end`] does.
    #[inline]
    pub(crate) unsafe fn end(
        this: NonNull<Record>,
        end_cold: unsafe fn(NonNull<ColdData>),
    ) -> Chunk {
        // SAFETY: the record is alive until this call.
        let record = unsafe { this.as_ref() };
        if let Some(cold) = record.node.cold_as_allocated() {
            // SAFETY: the node has ended, and no reference is left. A walk or a handle to the list
            // of children may still use the list, which `ColdData::end` allows.
            unsafe { end_cold(cold) };
        }
        // SAFETY: no reference is left, and the cold data have ended.
        unsafe { Record::end_bare(this) }
    }

    /// Like `end`, for a record without cold data.
    ///
    /// # Safety
    /// No reference is left, and the outcome is gone.
    #[inline(always)]
    pub(crate) unsafe fn end_bare(this: NonNull<Record>) -> Chunk {
        // SAFETY: the record is alive until this call.
        let operations = unsafe { this.as_ref() }.operations;
        // SAFETY: no reference is left, so this is the last use of the fields. None of them has a
        // destructor, except under loom.
        unsafe { ptr::drop_in_place(this.as_ptr()) };
        // SAFETY: the record was laid out in memory of this shape, and has ended.
        unsafe { Chunk::new(this.cast(), &operations.shape) }
    }
}

// SAFETY: shared fields are atomic or immutable. The others are used as the table in the module's
// documentation says.
unsafe impl Sync for Record {}

const _: () = assert!(size_of::<Record>() >= retire::queue::LEAST_BYTES);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::task::cell::layout_of;
    use std::alloc::Layout;

    #[test]
    fn a_record_with_a_one_word_capture_has_120_bytes() {
        fn layout<F: FnOnce() -> u64>(_: &F) -> Layout {
            layout_of::<F, u64>()
        }
        let word = 7u64;
        assert_eq!(layout(&move || word), Layout::from_size_align(120, 8).unwrap());
    }

    #[test]
    fn the_life_cycle_has_no_other_edges() {
        use Phase::*;
        let all = [Created, Ready, Running, Suspended, Parked, Finished];
        let edges: usize =
            all.iter().map(|a| all.iter().filter(|b| a.may_become(**b)).count()).sum();
        assert_eq!(edges, 10);
        assert!(all.iter().all(|p| !Finished.may_become(*p)));
    }
}
