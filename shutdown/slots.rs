//! Slots: how a running root counts its guards without contention.
//!
//! A root has several slots. A thread that makes or drops a guard counts in the slot that its
//! number selects. The first thread that uses a slot **owns** it, and counts in `own` by plain
//! loads and stores. Other threads with the same slot count in `others` by an atomic addition. A
//! guard may be dropped by another thread than the one that made it, so a slot may be negative. The
//! sum of all slots is the number of guards.
//!
//! # The freeze
//!
//! While the root runs, no reader needs the exact sum at one moment. The stop does. It *freezes*
//! the slots, adds them up once, and puts the sum into the word, where all threads count from then
//! on. Each operation is counted either in its slot or in the word, never in both or in neither:
//!
//! * The owner of a slot sets `busy`, then looks whether the root is stopped, and counts if it is
//!   not. The stopping thread sets the flag `stopped`, then waits until the owner is not busy, then
//!   reads the count. Each side stores its flag and then loads the other's. The owner has a
//!   [`light`] fence in between, the stopping thread a [`heavy`] one
//!   ([`shim::asymmetric`](crate::shim::asymmetric)). So either the owner sees the stop and does
//!   not count, or the stopping thread sees the owner busy, and waits for these few instructions.
//! * `others` is frozen by a bit, which is set by an update of the same counter. A thread whose
//!   addition returns this bit has not counted.
//!
//! Where the kernel has no asymmetric fence, no thread owns a slot.
//!
//! The idea comes from Linux's `percpu_ref`, a count per processor that is switched to one atomic
//! count when the end begins, and from biased locks.

use crate::scheduler::worker::Worker;
use crate::shim::asymmetric::{heavy, is_one_sided, light, prepare};
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::shim::{Numbers, is_simulated, processors, thread};
use std::hint::cold_path;

/// The initial value of `others`. The counter drifts up or down without bound if one thread makes
/// guards and another drops them, so it starts as far from zero as from FROZEN.
const BASE: u64 = 1 << 61;
const FROZEN: u64 = 1 << 62;
/// The number of looks at a busy owner before the freezing thread sleeps. The owner may have lost
/// its processor.
const LOOKS: u32 = 100;

/// A number of the calling thread, which no other thread has or has had. Never 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadNumber(pub(super) u64);

/// The bit that marks the number of a thread that is not a worker.
const PLAIN: u64 = 1 << 63;

impl ThreadNumber {
    #[inline(always)]
    pub(super) fn current() -> ThreadNumber {
        match Worker::current() {
            Some(worker) => ThreadNumber(worker.number().into()),
            None => ThreadNumber::of_plain_thread(),
        }
    }

    /// Never inlined: a coroutine may have moved to another thread since its caller looked.
    #[inline(never)]
    fn of_plain_thread() -> ThreadNumber {
        static NEXT: Numbers = Numbers::from(PLAIN | 1);
        crate::shim::thread_local! {
            static NUMBER: ThreadNumber = ThreadNumber(NEXT.take(1));
        }
        NUMBER.try_with(|number| *number).unwrap_or(ThreadNumber::NONE)
    }

    /// The number of a thread that cannot get one. It owns no slot, and differs from the 0 of a
    /// slot without an owner.
    pub(super) const NONE: ThreadNumber = ThreadNumber(PLAIN);
}

/// Two cache lines: the owner's, and the one for `others`.
#[repr(C, align(128))]
struct Slot {
    /// The number of the owning thread, or 0. Set once.
    owner: AtomicU64,
    busy: AtomicBool,
    /// Written by the owner only.
    own: AtomicU64,
    others: Line,
}

#[repr(align(64))]
struct Line(AtomicU64);

pub(super) struct Slots(Box<[Slot]>);

impl Slots {
    pub(super) fn new() -> Slots {
        prepare();
        let slot = || Slot {
            owner: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            own: AtomicU64::new(0),
            others: Line(AtomicU64::new(BASE)),
        };
        Slots((0..count()).map(|_| slot()).collect())
    }

    /// Adds `more` (which wraps, to subtract) for a thread that owns its slot. Returns `false`,
    /// having counted nothing, if it does not, or if the root is stopped.
    #[inline(always)]
    pub(super) fn add_own(&self, thread: ThreadNumber, more: u64, stopped: &AtomicBool) -> bool {
        let slot = self.slot_of(thread);
        slot.owner.load(Ordering::Relaxed) == thread.0 && slot.add_as_owner(more, stopped)
    }

    /// As [`add_own`](Slots::add_own), for any thread.
    pub(super) fn add(&self, thread: ThreadNumber, more: u64, stopped: &AtomicBool) -> bool {
        let slot = self.slot_of(thread);
        if slot.owner.load(Ordering::Relaxed) == thread.0 {
            slot.add_as_owner(more, stopped)
        } else {
            slot.add_as_other(thread, more, stopped)
        }
    }

    #[inline(always)]
    fn slot_of(&self, thread: ThreadNumber) -> &Slot {
        // Workers use slots from the front, plain threads from the back. Both are numbered in the
        // order in which they start.
        let number = if thread.0 & PLAIN == 0 { thread.0 } else { !thread.0 };
        &self.0[number as usize & (self.0.len() - 1)]
    }

    /// Freezes all slots and returns their sum. Called once, by the thread that has set `stopped`.
    pub(super) fn freeze(&self) -> u64 {
        // MUTANT(slots.freeze.fence): skip
        fence(Ordering::SeqCst);
        // A thread that claims a slot after this check sees the stop.
        if self.0.iter().any(|slot| slot.owner.load(Ordering::Relaxed) != 0) {
            heavy();
        }
        self.0.iter().map(Slot::freeze).fold(0, u64::wrapping_add)
    }

    /// Returns the sum of the slots, read one after the other.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(Slot::sum).fold(0, u64::wrapping_add)
    }
}

/// Returns the number of slots: a power of two, with some slots per processor, so that threads
/// seldom share one.
fn count() -> usize {
    if cfg!(loom) {
        return 2;
    }
    // Computed once, as the number of processors is read from control-group files.
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let count = || (2 * processors()).next_power_of_two().clamp(8, 128);
    if is_simulated() { count() } else { *COUNT.get_or_init(count) }
}

impl Slot {
    #[inline(always)]
    fn add_as_owner(&self, more: u64, stopped: &AtomicBool) -> bool {
        self.busy.store(true, Ordering::Relaxed);
        // MUTANT(slots.add.fence): skip
        light();
        // MUTANT(slots.add.look): true
        let counts = !stopped.load(Ordering::Relaxed);
        if counts {
            self.own.store(self.own.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        } else {
            cold_path();
        }
        // Release: the freezing thread, which waits for this store, sees the count, and what was
        // done before a guard was dropped.
        // MUTANT(slots.add.done): relaxed
        self.busy.store(false, Ordering::Release);
        counts
    }

    #[cold]
    #[inline(never)]
    fn add_as_other(&self, thread: ThreadNumber, more: u64, stopped: &AtomicBool) -> bool {
        if is_one_sided() && thread != ThreadNumber::NONE && self.owner.load(Ordering::Relaxed) == 0
        {
            let claim = Ordering::AcqRel;
            // MUTANT(slots.claim): split
            if self.owner.compare_exchange(0, thread.0, claim, Ordering::Relaxed).is_ok() {
                // The freezing thread sees the owner, or the owner sees the stop.
                fence(Ordering::SeqCst);
                return self.add_as_owner(more, stopped);
            }
        }
        // MUTANT(slots.others): relaxed, split
        self.others.0.fetch_add(more, Ordering::AcqRel) & FROZEN == 0
    }

    fn freeze(&self) -> u64 {
        let mut looks = 0;
        // MUTANT(slots.freeze.wait): false
        // MUTANT(slots.freeze.busy): relaxed
        while self.busy.load(Ordering::Acquire) {
            looks += 1;
            if looks < LOOKS {
                thread::yield_now();
            } else {
                thread::sleep(std::time::Duration::from_micros(50));
            }
        }
        // MUTANT(slots.freeze.others): relaxed, split
        let others = self.others.0.fetch_or(FROZEN, Ordering::AcqRel);
        self.own.load(Ordering::Relaxed).wrapping_add(others.wrapping_sub(BASE))
    }

    fn sum(&self) -> u64 {
        let others = self.others.0.load(Ordering::Acquire) & !FROZEN;
        self.own.load(Ordering::Relaxed).wrapping_add(others.wrapping_sub(BASE))
    }
}
