//! How a root counts its guards while it runs: each thread in a slot of its own.
//!
//! A root has some slots, and a thread that makes or drops a guard counts in that which its number leads to. The first one that comes
//! there **owns** the slot, and counts in `own` by plain loads and stores; others that are led there count in `others` by an atomic addition.
//! A guard may be dropped by another thread than that which has made it, so a slot may be negative; the sum of all is the number
//! of guards.
//!
//! # The freeze
//!
//! While the root runs nobody needs the sum at one moment. The stop does: it *freezes* the slots, adds them up once, and puts the sum
//! into the word, where all count from then on. Each operation is counted in the slot or in the word, and not in both nor in
//! none:
//!
//! * The owner says that it is `busy`, then looks whether the root is stopped, and counts if it is not. Who stops says so, then waits
//!   until the owner is not busy, then reads. Both have stored and then load what the other has stored. Between the two the owner
//!   has a [`light`] fence and the other a [`heavy`] one ([`shim::asymmetric`](crate::shim::asymmetric)): so the owner sees
//!   the stop and does not count, or the other sees it busy, and waits for these few instructions.
//! * `others` is frozen by a bit that is set by the same kind of update as they count by. Who finds it set has not counted.
//!
//! Where the kernel has no asymmetric fence nobody owns a slot.
//!
//! The idea is that of the reference counts of Linux (`percpu_ref`: counts per processor, which are switched to one atomic count when
//! the end begins) and of biased locks.

use crate::scheduler::worker::Worker;
use crate::shim::asymmetric::{heavy, is_one_sided, light, prepare};
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::shim::{Numbers, is_simulated, processors, thread};
use std::cell::Cell;
use std::hint::cold_path;

/// Where a slot's `others` begins. It goes up or down without end where guards are made by one thread and dropped by another: as far from
/// zero as from what follows.
const BASE: u64 = 1 << 61;
const FROZEN: u64 = 1 << 62;
/// So often one who freezes looks before it sleeps: the owner may have lost its processor.
const LOOKS: u32 = 100;

/// A number of the calling thread that no other thread has, or has had. It is not 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadNumber(u64);

/// In the number of a thread that is no worker.
const PLAIN: u64 = 1 << 63;

impl ThreadNumber {
    #[inline(always)]
    pub(super) fn current() -> ThreadNumber {
        match Worker::current() {
            Some(worker) => ThreadNumber(worker.number().into()),
            None => ThreadNumber::of_plain_thread(),
        }
    }

    /// Never inlined: a coroutine may have been moved to another thread since its caller looked.
    #[inline(never)]
    fn of_plain_thread() -> ThreadNumber {
        static NEXT: Numbers = Numbers::from(PLAIN | 1);
        crate::shim::thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        let number = NUMBER.try_with(|number| {
            if number.get() == 0 {
                number.set(NEXT.take(1));
            }
            number.get()
        });
        number.map_or(ThreadNumber::NONE, ThreadNumber)
    }

    /// Instead of one that cannot be had. Not that of a slot without an owner.
    pub(super) const NONE: ThreadNumber = ThreadNumber(PLAIN);

    #[cfg(all(test, loom))]
    pub(super) fn of_model(number: u64) -> ThreadNumber {
        ThreadNumber(number)
    }
}

/// Two cache lines: the owner's, and that of the others.
#[repr(C, align(128))]
struct Slot {
    /// A thread's number, or 0. Set once.
    owner: AtomicU64,
    busy: AtomicBool,
    /// Written by the owner alone.
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

    /// Counts some more (or less, by a number that wraps) for a thread; false if the root is stopped, and nothing was counted.
    #[inline(always)]
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
        // Workers from the one end, plain threads from the other: both are numbered in the order of coming.
        let number = if thread.0 & PLAIN == 0 { thread.0 } else { !thread.0 };
        &self.0[number as usize & (self.0.len() - 1)]
    }

    /// The sum, for one who has said in `stopped` that there will not be more, and comes once.
    pub(super) fn freeze(&self) -> u64 {
        // MUTANT(slots.freeze.fence): skip
        fence(Ordering::SeqCst);
        // Who comes to own one later sees that it is stopped.
        if self.0.iter().any(|slot| slot.owner.load(Ordering::Relaxed) != 0) {
            heavy();
        }
        self.0.iter().map(Slot::freeze).fold(0, u64::wrapping_add)
    }

    /// The sum of what is there, one slot after the other.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(Slot::sum).fold(0, u64::wrapping_add)
    }
}

/// A power of two: some for each processor, so that threads seldom meet.
fn count() -> usize {
    if cfg!(loom) {
        return 2;
    }
    // Once: the answer is read from files, of the control groups.
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
        // Release: for one who waits for it, the number is there, and what was done before a guard was dropped.
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
                // Who freezes sees the owner, or the owner sees the stop.
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
