//! The word of a node: its guards, its arrived children, and its state.
//!
//! ```text
//! STOPPED | ARRIVED | ORPHANED | COLLECTED | VISIT | arrived children (27 bits) | guards (32 bits)
//! ```
//!
//! [`super::node`] explains what each bit means. This module has the steps. Each step is one update
//! of the word, so exactly one thread sees that a node has left its parent.

use super::node_ref::NodeRef;
use crate::shim::abort_with;
use crate::shim::atomic::{AtomicU64, Ordering};
use std::mem::ManuallyDrop;

/// One guard.
pub(super) const GUARD: u64 = 1;
const GUARDS: u64 = 0xFFFF_FFFF;
/// One child that has arrived here.
pub(super) const CHILD: u64 = 1 << 32;
const CHILDREN: u64 = ((1 << 27) - 1) << 32;
const COUNTS: u64 = GUARDS | CHILDREN;
/// Stands in for the guards in a root's slots while a stop adds them up. The count may fall below
/// it meanwhile.
pub(super) const HOLD: u64 = 1 << 31;
/// The smallest number of guards that is too many, counted without HOLD.
pub(super) const TOO_MANY: u64 = 1 << 29;

/// The node has, or has had, children or waiters, so a stop must visit it.
const VISIT: u64 = 1 << 59;
const COLLECTED: u64 = 1 << 60;
const ORPHANED: u64 = 1 << 61;
const ARRIVED: u64 = 1 << 62;
const STOPPED: u64 = 1 << 63;
/// A node with one of these bits leaves its parent as soon as it is empty.
const LEAVES: u64 = STOPPED | ORPHANED;

pub(super) struct Word(AtomicU64);

/// The value of the word at some moment.
#[derive(Clone, Copy)]
pub(super) struct Look(u64);

impl Look {
    pub(super) fn is_stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    pub(super) fn is_complete(self) -> bool {
        self.is_stopped() && self.0 & COUNTS == 0
    }

    pub(super) fn has_arrived(self) -> bool {
        self.0 & ARRIVED != 0
    }

    pub(super) fn is_orphaned(self) -> bool {
        self.0 & ORPHANED != 0
    }

    /// Returns whether no stop is to come: the node is stopped or collected.
    pub(super) fn is_over(self) -> bool {
        self.0 & (STOPPED | COLLECTED) != 0
    }

    pub(super) fn wants_visit(self) -> bool {
        self.0 & VISIT != 0
    }

    /// Returns the number of guards in the word, without a HOLD.
    pub(super) fn guards(self) -> u64 {
        let guards = self.0 & GUARDS;
        if guards >= HOLD - TOO_MANY { guards.wrapping_sub(HOLD) } else { guards }
    }
}

/// The result of a step.
#[must_use]
pub(super) struct Step {
    pub(super) now: Look,
    /// `Some` if this step made the node leave its parent: the reference that ARRIVED owned. The
    /// node's unit in the parent is now the caller's, too.
    pub(super) left: Option<NodeRef>,
}

/// The result of an arrival.
#[derive(PartialEq, Eq)]
pub(super) enum Arrival {
    Counted,
    /// Counted, but the node has not arrived at its parent.
    Alone,
    /// The node has been collected.
    Gone,
}

impl Word {
    /// The word of a new node. A root counts as arrived.
    pub(super) fn new(is_root: bool) -> Word {
        Word(AtomicU64::new(if is_root { ARRIVED } else { 0 }))
    }

    #[inline]
    pub(super) fn look(&self) -> Look {
        // Acquire: whatever was done before the last guard was dropped happens before.
        // MUTANT(shutdown.look): relaxed
        Look(self.0.load(Ordering::Acquire))
    }

    /// Adds a guard or a child.
    #[inline]
    pub(super) fn arrive(&self, unit: u64) -> Arrival {
        // Acquire: a thread that reads ARRIVED sees the node's unit at the parent. Not Release: no
        // thread relies on this count before ARRIVED is set, which `set_arrived` releases.
        // MUTANT(shutdown.arrive): relaxed, split
        let before = self.0.fetch_add(unit, Ordering::Acquire);
        // True from the limit up to half as many again. `& 7` leaves HOLD out.
        let guards_overflow = (before / (TOO_MANY / 2)) & 7 == 2;
        if guards_overflow || unit == CHILD && before & CHILDREN >= CHILDREN / 2 {
            too_many();
        }
        if before & ARRIVED != 0 {
            Arrival::Counted
        } else if before & COLLECTED != 0 {
            // Collected nodes stay so. The unit is taken back, so that repeated attempts do not
            // overflow the count.
            self.0.fetch_sub(unit, Ordering::Relaxed);
            Arrival::Gone
        } else {
            Arrival::Alone
        }
    }

    /// Sets ARRIVED. Returns `false` if another thread has set it already. The caller has counted
    /// something here, and this node in its parent and above.
    pub(super) fn set_arrived(&self) -> bool {
        // Release: a thread that reads ARRIVED sees the counts above. Acquire: if another thread
        // was faster, its counts above come before the caller takes its own back.
        // MUTANT(shutdown.arrived): acquire, split
        self.0.fetch_or(ARRIVED, Ordering::AcqRel) & ARRIVED == 0
    }

    /// Marks an empty orphan as collected. Returns `false` if it is not empty, or if another thread
    /// was faster.
    pub(super) fn collect(&self) -> bool {
        let collect = |word: u64| {
            let ends = word & (COUNTS | ORPHANED | ARRIVED | COLLECTED) == ORPHANED;
            ends.then_some(word | COLLECTED)
        };
        // Acquire: another thread may have dropped the last guard or child since the caller looked,
        // and interrupts that are ended must see what was done before. Not Release: the caller
        // stores the flag `stopped` with release, and interrupts read that.
        // MUTANT(shutdown.collect): relaxed, split
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, collect).is_ok()
    }

    /// Makes a coming stop visit the node. Returns the word before, which says whether the stop has
    /// happened already.
    pub(super) fn ask_for_visit(&self) -> Look {
        // Acquire, for the reason given in `look`. Not Release: the stop finds what it visits under
        // the lock.
        // MUTANT(shutdown.visit): relaxed, split
        Look(self.0.fetch_or(VISIT, Ordering::Acquire))
    }
}

/// Steps by which a node may leave its parent.
impl NodeRef {
    /// Subtracts units. Unless the step has left, the node may be freed when this returns.
    ///
    /// # Safety
    /// The units are the caller's.
    #[inline]
    pub(super) unsafe fn depart(&self, units: u64) -> Step {
        self.step(|word| Some(word.wrapping_sub(units))).expect("always")
    }

    /// Stops the node and adds `hold`. Returns `None` if the node is stopped already.
    pub(super) fn stop(&self, hold: u64) -> Option<Step> {
        self.step(|word| (word & STOPPED == 0).then(|| (word | STOPPED).wrapping_add(hold)))
    }

    /// Marks the node as an orphan: its last holder and its last child are gone. Returns `None` if
    /// it is marked already.
    pub(super) fn orphan(&self) -> Option<Step> {
        self.step(|word| (word & ORPHANED == 0).then_some(word | ORPHANED))
    }

    #[inline]
    fn step(&self, f: impl Fn(u64) -> Option<u64>) -> Option<Step> {
        let at = &self.word.0;
        let mut word = at.load(Ordering::Relaxed);
        loop {
            let mut next = f(word)?;
            let left = next & COUNTS == 0 && next & LEAVES != 0 && next & ARRIVED != 0;
            if left {
                next &= !ARRIVED;
            }
            // MUTANT(shutdown.step): acquire, release, split
            match at.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    // SAFETY: this update cleared ARRIVED, which owned a counted reference.
                    let of_arrived = || ManuallyDrop::into_inner(unsafe { self.uncounted() });
                    return Some(Step { now: Look(next), left: left.then(of_arrived) });
                }
                Err(now) => word = now,
            }
        }
    }
}

/// Aborts, as std's `Arc` does when its count overflows: continuing would be unsound.
#[cold]
#[inline(never)]
pub(super) fn too_many() -> ! {
    abort_with(
        "a Swansong has 500 million guards or 60 million guarded children; \
         check for leaked guards",
    )
}
