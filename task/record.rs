//! The task record: what everybody who can reach a task holds on to.
//!
//! # Split lives
//!
//! A record outlives its task. The captures live in it until the start; the outcome from the end of
//! the closure until the handle takes it, or until it is clear that nobody will. The record itself
//! goes when the last reference does. References are held by: the task itself from its spawn to its
//! end (the *run* reference, which moves from queue to worker), its handle, every `Unparker`, and every
//! stale entry of a public queue or a local one.
//!
//! **Who watches a task from outside** for its end ([`Record::watch`]) makes one more reference, in the name of the task: WATCHED.
//! Whoever releases the run reference says so in the same update (ENDED), and so finds WATCHED there, tells the watchers and
//! releases it, or is found by whoever comes too late. It takes no step that a task would not take anyway: one with another
//! reference to it is released by an update in any case.
//!
//! # Who may touch what
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | node, wait, join | see their modules | |
//! | phase | spawner, then whoever claims it, then the home worker | anybody (relaxed: a hint) |
//! | link | the one queue that the record is in | the same |
//! | place, in a private deque | spawner and thieves of that private deque: the index, or that it has left | the same |
//! | place, started | home: the coroutine | its waker |
//! | place, external | spawner: what its runtime's workers share | whoever queues it |
//! | place, ended | the worker where it ended: its retire queue | who drops the last reference |
//! | cold data (of the node) | spawner; then whoever runs the task; its list of children as `children` says | the same; for the name, anybody |
//! | stored | home; of an external task, whoever has cleared PARKED | home |
//! | at_home | home | home, forks of the task |
//! | outcome_dropped | who drops an outcome that nobody takes, once | the same |
//! | payload | spawner; the claimant; after DONE the owner of the result | |

use crate::retire;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::task::cell::{Cell, External, NoClosure, Operations};
use crate::task::cold::ColdData;
use crate::task::outcome::{Failure, Outcome, Payload, drop_payload, quietly};
use crate::task::words::join::JoinWord;
use crate::task::words::tree::{InheritedFlags, Isolation, NOBODY, Node, NodeKind};
use crate::task::words::wait::WaitWord;
use std::panic::Location;
use std::ptr::{self, NonNull};

/// Where a task is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Spawned, in its spawner's private deque.
    Created,
    /// Spawned, in a public queue: to be claimed before it is started.
    Ready,
    Running,
    /// Has yielded; in its home's run queue.
    Suspended,
    /// Waits. An external task does so before its start.
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

    /// The edges of the life cycle.
    fn may_become(self, next: Phase) -> bool {
        use Phase::*;
        matches!(
            (self, next),
            (Created, Ready | Running | Parked)
                | (Ready, Running)
                | (Running, Suspended | Parked | Finished)
                | (Suspended | Parked, Running)
                // An external one.
                | (Parked, Ready)
        )
    }
}

/// The state of a join between two tasks that stay on one worker: see [`JoinWord::register_at_home`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum JoinedAtHome {
    /// There is none.
    No = 0,
    /// The joiner has called the task on its own stack.
    Called,
    /// The joiner is parked.
    Waiting,
    /// The task has ended there, and has left its run reference to the joiner.
    Ended,
}

/// A place for one. Written at home alone; read there, and by forks of the task, from when they are made to
/// their end: in that time it is either `Called` or none of their business.
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
    /// Never leaves the worker that spawned it.
    pub(crate) local: bool,
    /// May change workers after its start.
    pub(crate) migratable: bool,
    /// The class of stack it asked for; 0 is the runtime's own.
    pub(crate) stack_class: u8,
    pub(crate) origin: Origin,
}

/// How a task came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Origin {
    #[default]
    Spawned,
    /// The task below it in the tree waits for it as if it had called it: it starts in any case.
    Called,
    /// It has no closure, and is in no queue before its outcome has come from outside, or a cancel.
    External,
}

impl Traits {
    /// A task under a isolation does not change workers: it isolates the one where it is.
    #[inline(always)]
    pub(crate) fn under(self, isolation: Isolation) -> Traits {
        Traits { migratable: self.migratable & (isolation == Isolation::None), ..self }
    }

    /// Whether the task can be neither called on the stack of another nor run by a loop.
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
    /// The outcome was dropped at the end of the closure, as nobody could take it any more.
    pub(crate) outcome_dropped: AtomicBool,
    /// The outcome is there.
    pub(crate) stored: std::cell::Cell<bool>,
    /// Whether a task of the worker where this one was started, and stays, waits for it.
    pub(crate) at_home: AtHome,
    pub(crate) traits: Traits,
}

/// Drops the cold data of a record that has ended.
///
/// # Safety
/// As for [`ColdData::end`].
#[cold]
#[inline(never)]
unsafe fn end_cold(cold: NonNull<ColdData>) {
    // A binding of a task-local may be a user's type whose destructor panics.
    // SAFETY: passed on.
    if let Some(payload) = quietly(|| unsafe { ColdData::end(cold) }) {
        drop_payload(payload);
    }
}

/// The run reference is gone.
const ENDED: u32 = 1 << 31;
/// The reference of those who watch the task.
pub(crate) const WATCHED: u32 = 1 << 30;

/// What is left when the run reference has been released.
pub(crate) enum RunEnd {
    /// Nothing: the caller frees the record.
    Last,
    Kept,
    /// Those who watch it, to be told; and then their reference, [`WATCHED`], to be released.
    Watched,
}

/// All that a new record is given.
pub(crate) struct Birth {
    pub(crate) parent: *const Node,
    pub(crate) flags: InheritedFlags,
    pub(crate) id: u64,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) traits: Traits,
    pub(crate) cold: Option<Box<ColdData>>,
    /// The spawner has no handle: nobody will take the result.
    pub(crate) detached: bool,
}

impl Record {
    /// Lays a record out in `memory`, with two references: the run reference and the handle's (one
    /// if it is born detached).
    ///
    /// # Safety
    /// `memory` is exclusively the caller's and fits `layout_of::<F, T>()`.
    #[inline]
    pub(crate) unsafe fn new<F: FnOnce() -> T, T>(
        memory: NonNull<u8>,
        f: F,
        birth: Birth,
    ) -> NonNull<Record> {
        let record = Record::with(const { &Cell::<F, T>::OPERATIONS }, birth);
        // SAFETY: passed on.
        unsafe { Cell::<F, T>::lay_out(memory, record, f) }
    }

    /// As `new`, of a closure that says itself why it gives no value.
    ///
    /// # Safety
    /// As there, for [`layout_of_fallible::<F, T>()`](crate::task::cell::layout_of_fallible).
    pub(crate) unsafe fn new_fallible<F: FnOnce() -> Outcome<T>, T>(
        memory: NonNull<u8>,
        f: F,
        birth: Birth,
    ) -> NonNull<Record> {
        let record = Record::with(const { &Cell::<F, T>::FALLIBLE }, birth);
        // SAFETY: passed on.
        unsafe { Cell::<F, T>::lay_out(memory, record, f) }
    }

    /// As `new`, for a task whose outcome comes from outside.
    ///
    /// # Safety
    /// As there, for [`layout_of_external::<T>()`](crate::task::cell::layout_of_external).
    pub(crate) unsafe fn new_external<T>(memory: NonNull<u8>, birth: Birth) -> NonNull<Record> {
        let record = Record::with(const { &External::<T>::OPERATIONS }, birth);
        // SAFETY: passed on.
        unsafe { External::<T>::lay_out(memory, record, NoClosure) }
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

    /// Takes an edge of the life cycle, for whoever has the task in hand.
    #[inline]
    pub(crate) fn set_phase(&self, next: Phase) {
        debug_assert!(
            self.phase().may_become(next),
            "task {} cannot go from {:?} to {next:?}",
            self.id,
            self.phase()
        );
        // Release, for one who claims it: the place was written before.
        // MUTANT(record.phase): relaxed
        self.phase.store(next as u8, Ordering::Release);
    }

    /// Running, for whoever has just taken the task, whether by a claim or out of a private deque.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        debug_assert!(matches!(self.phase(), Phase::Created | Phase::Ready | Phase::Running));
        self.phase.store(Phase::Running as u8, Ordering::Release);
    }

    /// Takes a task that lies in a public queue; false if another was faster.
    pub(crate) fn claim(&self) -> bool {
        let (from, to) = (Phase::Ready as u8, Phase::Running as u8);
        // MUTANT(record.claim): relaxed, split
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives a claim back before the task is started, so that it can be queued in public.
    pub(crate) fn unclaim(&self) {
        // MUTANT(record.unclaim): relaxed
        self.phase.store(Phase::Ready as u8, Ordering::Release);
    }

    /// Makes a claimed task private to the claimant again: stale entries elsewhere stay stale.
    pub(crate) fn unclaim_privately(&self) {
        self.phase.store(Phase::Created as u8, Ordering::Release);
    }

    pub(crate) fn add_reference(&self) {
        // MUTANT(record.add_reference): split
        let before = self.references.fetch_add(1, Ordering::Relaxed) & !ENDED;
        debug_assert!(before >= 1, "a reference was made out of nothing");
        if before & !WATCHED > WATCHED / 2 {
            // As std's Arc: there is no sound way to go on.
            std::process::abort();
        }
    }

    /// Whether the caller's `n` references are all there are, so that nobody can make another.
    #[inline]
    pub(crate) fn is_last(&self, n: u32) -> bool {
        // Acquire: what others did to the record before they let go of it happens before.
        // MUTANT(record.is_last): relaxed
        self.references.load(Ordering::Acquire) & !ENDED == n
    }

    /// Gives up `n` references; true if these were the last, and the caller frees the record.
    #[inline]
    pub(crate) fn release(&self, n: u32) -> bool {
        // No locked instruction, if it can be avoided.
        if self.is_last(n) {
            return true;
        }
        // MUTANT(record.release): relaxed, split
        let before = self.references.fetch_sub(n, Ordering::Release) & !ENDED;
        debug_assert!(before >= n, "a reference was released twice");
        if before == n {
            // On the very word, not by a fence: what the others did to the record happens before.
            // MUTANT(record.release.last): relaxed
            let _ = self.references.load(Ordering::Acquire);
            true
        } else {
            false
        }
    }

    /// Gives up `n` references, of which one is the run reference, when the task has ended.
    #[inline]
    pub(crate) fn release_run(&self, n: u32) -> RunEnd {
        // As in `release`.
        if self.is_last(n) {
            return RunEnd::Last;
        }
        // MUTANT(record.release_run): relaxed, split
        let before = self.references.fetch_add(ENDED.wrapping_sub(n), Ordering::Release);
        debug_assert!(before & ENDED == 0, "a task has ended twice");
        if before != n && before & WATCHED == 0 {
            return RunEnd::Kept;
        }
        // As in `release`; and what those who watch it have made.
        // MUTANT(record.release_run.last): relaxed
        let _ = self.references.load(Ordering::Acquire);
        if before == n { RunEnd::Last } else { RunEnd::Watched }
    }

    /// Has the end of the task told to those who are in the list of its list of children; false if it has ended. For one who has a
    /// reference.
    pub(crate) fn watch(&self) -> bool {
        let watch = |word: u32| (word & (ENDED | WATCHED) == 0).then_some(word | WATCHED);
        // MUTANT(record.watch): relaxed, split
        match self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, watch) {
            Ok(_) => true,
            Err(word) => word & ENDED == 0,
        }
    }

    /// Whether others than the task itself have a reference, its handle among them, as far as can be seen.
    pub(crate) fn is_known(&self) -> bool {
        self.references.load(Ordering::Relaxed) & !ENDED > 1
    }

    /// Calls the closure and stores the outcome. Never unwinds.
    ///
    /// # Safety
    /// The caller has claimed the task, once.
    #[inline]
    pub(crate) unsafe fn run(this: NonNull<Record>) {
        // SAFETY: passed on.
        unsafe { (this.as_ref().operations.run)(this) }
    }

    /// Drops the closure uncalled.
    ///
    /// # Safety
    /// As for `run`.
    pub(crate) unsafe fn abandon(this: NonNull<Record>, why: Failure) {
        // SAFETY: passed on.
        unsafe { (this.as_ref().operations.abandon)(this, why) }
    }

    /// Drops the outcome; gives back the payload of a panic, also of one in its destructor.
    ///
    /// # Safety
    /// The task has ended and the caller owns its outcome, which is gone afterwards.
    pub(crate) unsafe fn drop_outcome(this: NonNull<Record>) -> Option<Payload> {
        // SAFETY: passed on.
        unsafe { (this.as_ref().operations.drop_outcome)(this) }
    }

    /// Moves the outcome out.
    ///
    /// # Safety
    /// As for `drop_outcome`, and `T` is the type that the record was made with.
    #[inline(always)]
    pub(crate) unsafe fn take_outcome<T>(this: NonNull<Record>) -> Outcome<T> {
        // SAFETY: the offset is that of the payload in this record's own layout, and the payload
        // is a union whose fields start at offset 0 (each field of a union may be read through a
        // pointer to its start); the outcome is there.
        let outcome = unsafe {
            let offset = this.as_ref().operations.outcome_offset;
            &*this.cast::<u8>().add(offset).cast::<Outcome<T>>().as_ptr()
        };
        // By its parts: a copy of the whole would load at once what was stored in pieces, and wait
        // for it.
        match outcome {
            // SAFETY: read once, by contract.
            Ok(value) => Ok(unsafe { ptr::read(value) }),
            // SAFETY: as above.
            Err(failure) => Err(unsafe { ptr::read(failure) }),
        }
    }

    /// Ends the record's life; the memory is the caller's to free.
    ///
    /// # Safety
    /// No reference is left, and the outcome is gone.
    #[inline]
    pub(crate) unsafe fn end(this: NonNull<Record>) -> &'static Operations {
        // SAFETY: alive until this call.
        let record = unsafe { this.as_ref() };
        if let Some(cold) = record.node.cold_as_allocated() {
            // SAFETY: nobody uses them any more, but for a walk that may be on its way.
            unsafe { end_cold(cold) };
        }
        // SAFETY: passed on.
        unsafe { Record::end_bare(this) }
    }

    /// As `end`, for a record that never had cold data.
    ///
    /// # Safety
    /// As for `end`.
    #[inline(always)]
    pub(crate) unsafe fn end_bare(this: NonNull<Record>) -> &'static Operations {
        // SAFETY: alive until this call.
        let operations = unsafe { this.as_ref() }.operations;
        // SAFETY: nobody uses the fields any more. None has a destructor, except under loom.
        unsafe { ptr::drop_in_place(this.as_ptr()) };
        operations
    }
}

// SAFETY: shared fields are atomic or immutable; the rest follows the table above.
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
