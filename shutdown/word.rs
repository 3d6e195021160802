//! The word of a node: how many guards it has, how many of its children count here, and what has become of it.
//!
//! ```text
//! STOPPED | ARRIVED | ORPHANED | COLLECTED | VISIT | children that have arrived (27 bits) | guards (32 bits)
//! ```
//!
//! What each bit means, and who may change what, is told in [`super::node`]. Here are the steps, each of them one update of the word, so
//! that of all who take part exactly one sees that a node has left its parent.

use crate::shim::abort_with;
use crate::shim::atomic::{AtomicU64, Ordering};

/// One guard.
pub(super) const GUARD: u64 = 1;
const GUARDS: u64 = 0xFFFF_FFFF;
/// One child that counts here.
pub(super) const CHILD: u64 = 1 << 32;
const CHILDREN: u64 = ((1 << 27) - 1) << 32;
const COUNTS: u64 = GUARDS | CHILDREN;
/// What stands in for the guards that are counted elsewhere, while these are added up: the number may go below it meanwhile.
pub(super) const HOLD: u64 = 1 << 31;
/// More guards than there may be; with a hold it is that many more.
pub(super) const TOO_MANY: u64 = 1 << 29;

/// Whoever stops the node must come and look: somebody waits, or there are children.
const VISIT: u64 = 1 << 59;
const COLLECTED: u64 = 1 << 60;
const ORPHANED: u64 = 1 << 61;
const ARRIVED: u64 = 1 << 62;
const STOPPED: u64 = 1 << 63;
/// As soon as it is empty, a node with one of these leaves its parent.
const LEAVES: u64 = STOPPED | ORPHANED;

pub(super) struct Word(AtomicU64);

/// What the word was, or is, at some moment.
#[derive(Clone, Copy)]
pub(super) struct Look(u64);

impl Look {
    pub(super) fn is_stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 & COUNTS == 0
    }

    pub(super) fn is_complete(self) -> bool {
        self.is_stopped() && self.is_empty()
    }

    pub(super) fn has_arrived(self) -> bool {
        self.0 & ARRIVED != 0
    }

    pub(super) fn is_orphaned(self) -> bool {
        self.0 & ORPHANED != 0
    }

    /// Nobody will stop the node any more: it is stopped, or gone.
    pub(super) fn is_over(self) -> bool {
        self.0 & (STOPPED | COLLECTED) != 0
    }

    pub(super) fn wants_visit(self) -> bool {
        self.0 & VISIT != 0
    }

    /// The guards that are counted in the word; and whether it holds the place of others.
    pub(super) fn guards(self) -> (u64, bool) {
        let guards = self.0 & GUARDS;
        if guards >= HOLD - TOO_MANY { (guards.wrapping_sub(HOLD), true) } else { (guards, false) }
    }
}

/// What a step has led to.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) now: Look,
    /// The node has left its parent by this very step: what it held there, and its hold on itself, are the caller's.
    pub(super) left: bool,
}

/// What became of an arrival.
#[derive(PartialEq, Eq)]
pub(super) enum Arrival {
    Counted,
    /// Counted, but the node has not arrived at its parent yet.
    Alone,
    /// The node is gone.
    Gone,
}

impl Word {
    /// That of a node without a parent, which has arrived wherever it could.
    pub(super) fn of_root() -> Word {
        Word(AtomicU64::new(ARRIVED))
    }

    pub(super) fn of_child(stopped: bool) -> Word {
        Word(AtomicU64::new(if stopped { STOPPED } else { 0 }))
    }

    #[inline]
    pub(super) fn look(&self) -> Look {
        // Acquire: what was done before the last guard went happens before.
        // MUTANT(shutdown.look): relaxed
        Look(self.0.load(Ordering::Acquire))
    }

    /// Counts one more.
    #[inline]
    pub(super) fn arrive(&self, unit: u64) -> Arrival {
        // Acquire: who sees that it has arrived sees the unit that it has at its parent. Not Release: nobody relies on what is counted before
        // it is said that it has arrived.
        // MUTANT(shutdown.arrive): relaxed, split
        let before = self.0.fetch_add(unit, Ordering::Acquire);
        // From the first that is too many, for half as many again.
        let guards_overflow = (before / (TOO_MANY / 2)) & 7 == 2;
        if guards_overflow || unit == CHILD && before & CHILDREN >= CHILDREN / 2 {
            too_many();
        }
        if before & ARRIVED != 0 {
            Arrival::Counted
        } else if before & COLLECTED != 0 {
            // For ever: taken back, so that those who go on asking are not too many in the end.
            self.0.fetch_sub(unit, Ordering::Relaxed);
            Arrival::Gone
        } else {
            Arrival::Alone
        }
    }

    /// Says that it has arrived, and so far up; false if somebody else has said so. For one who has counted himself here, and has a unit at
    /// the parent.
    pub(super) fn set_arrived(&self) -> bool {
        // Release: what has been counted above is seen by who finds this. Acquire: what the other has counted above, who was faster, is there before
        // the caller takes back what he has counted too much.
        // MUTANT(shutdown.arrived): acquire, split
        self.0.fetch_or(ARRIVED, Ordering::AcqRel) & ARRIVED == 0
    }

    /// Takes some units away, which are the caller's. Unless it has left, the node may be gone afterwards.
    #[inline]
    pub(super) fn depart(&self, units: u64) -> Step {
        self.step(|word| Some(word.wrapping_sub(units))).expect("always")
    }

    /// Stops the node, and puts `hold` in; `None` if it is stopped.
    pub(super) fn stop(&self, hold: u64) -> Option<Step> {
        self.step(|word| (word & STOPPED == 0).then(|| (word | STOPPED).wrapping_add(hold)))
    }

    /// Says that nobody has a handle any more; `None` if that was said.
    pub(super) fn orphan(&self) -> Option<Step> {
        self.step(|word| (word & ORPHANED == 0).then_some(word | ORPHANED))
    }

    /// Ends an orphan that is empty; false if it is not, or another was faster.
    pub(super) fn collect(&self) -> bool {
        let collect = |word: u64| {
            let ends = word & (COUNTS | ORPHANED | ARRIVED | COLLECTED) == ORPHANED;
            ends.then_some(word | COLLECTED)
        };
        // Acquire: the step that led here may be another's, who has let the last guard go, or the last child, since the caller has looked, and
        // who is told of the end sees what was done before. Not Release: the flag that tells is.
        // MUTANT(shutdown.collect): relaxed, split
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, collect).is_ok()
    }

    /// Has whoever stops the node come and look, if it has not been stopped before this.
    pub(super) fn ask_for_visit(&self) -> Look {
        // Acquire, as `look`. Not Release: what whoever stops the node is to find lies under a lock.
        // MUTANT(shutdown.visit): relaxed, split
        Look(self.0.fetch_or(VISIT, Ordering::Acquire))
    }

    #[inline]
    fn step(&self, f: impl Fn(u64) -> Option<u64>) -> Option<Step> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let mut next = f(word)?;
            let left = next & COUNTS == 0 && next & LEAVES != 0 && next & ARRIVED != 0;
            if left {
                next &= !ARRIVED;
            }
            // MUTANT(shutdown.step): acquire, release, split
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Step { now: Look(next), left }),
                Err(now) => word = now,
            }
        }
    }
}

/// As std's Arc: there is no sound way to go on.
#[cold]
#[inline(never)]
pub(super) fn too_many() -> ! {
    abort_with("a swansong has 500 million guards, or 60 million children that have some")
}
