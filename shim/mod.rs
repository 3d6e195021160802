//! The one place where atomics, locks, cells, the clock, randomness, thread start and switch
//! points come from.
//!
//! Protocol code imports these names from here and never from `std`, so that the very same source
//! runs on three faces:
//!
//! * `std` (default): plain re-exports; [`point`] is empty and disappears.
//! * `loom` (`--cfg loom`): the types of the loom model checker, which tries every interleaving
//!   that the memory model allows.
//! * simulation (feature `sim`): the types of `std`, but clock, randomness and switch points are
//!   answered by a controller that the simulator installs.

#[cfg(all(not(loom), not(feature = "sim")))]
#[path = "std.rs"]
mod face;

#[cfg(loom)]
#[path = "loom.rs"]
mod face;

#[cfg(all(not(loom), feature = "sim"))]
#[path = "sim/mod.rs"]
mod face;

pub(crate) mod asymmetric;
mod stderr;
#[cfg(any(loom, not(feature = "sim")))]
mod unsimulated;

pub(crate) use stderr::{abort_with, say};

use std::time::Duration;

/// How long a thread spins before it lets others have the processor at each turn.
#[cfg(not(loom))]
const POLITE: Duration = Duration::from_micros(2);

/// Spins until it is so, for `limit` at most; whether it is. For what is mostly so sooner than a thread
/// could be put to sleep and woken again.
#[cfg(not(loom))]
pub(crate) fn spin_until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let start = face::time::now();
    loop {
        if so() {
            return true;
        }
        let time = face::time::now() - start;
        if time >= limit {
            return false;
        }
        if time >= POLITE { face::thread::yield_now() } else { face::spin_loop() }
    }
}

/// A model has no time to wait.
#[cfg(loom)]
pub(crate) fn spin_until(_: Duration, mut so: impl FnMut() -> bool) -> bool {
    so()
}

pub(crate) use face::*;

/// How many threads run at once: those of the machine that the process may use. A simulation
/// always has the same, as a seed is to bring the same run on each machine; a machine model has its own.
#[cfg(not(loom))]
pub(crate) fn processors() -> usize {
    face::simulated_processors()
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(loom)]
pub(crate) fn processors() -> usize {
    1
}

/// A kind of memory access, for a machine that charges for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "a face without a machine model does not look at them")]
pub(crate) enum Access {
    Load,
    Store,
    /// An atomic read-modify-write.
    Update,
    /// A full fence of one core.
    Fence,
    /// A full fence of all cores that run a thread of this process (`membarrier`).
    Barrier,
    /// A look at the clock.
    Clock,
}

/// What goes wrong where a simulation is asked to let it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "a face without faults does not look at them")]
pub(crate) enum Fault {
    /// A thief finds nothing where there is something.
    Steal,
    /// A thread that is parked goes on though nobody has unparked it.
    SpuriousUnpark,
    /// There is no stack.
    Stack,
    /// The allocator has no memory.
    Allocation,
    /// The system refuses a thread for calls that block.
    Thread,
}

/// A mistake that a simulation is asked to put into the library, to see whether it is found. Left out of all builds without simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "a face without simulation does not look at them")]
pub enum Bug {
    /// A grant that comes before its wait is published is forgotten.
    LostWake,
    /// A mutex that is handed over to the last of its queue is left free.
    DoubleGrant,
    /// A mutex that was handed over to one that has given up is not passed on.
    LeakedLock,
    /// A task shows its result before its children have ended.
    OutlivingChild,
    /// Who has published a wait does not look whether it is cancelled.
    NoLookAfterPublishing,
    /// A worker that has announced its sleep does not look whether there is work.
    NoLookBeforeSleep,
}

/// Numbers that are given out once in a process. A simulation has its own, the same in each run.
pub(crate) struct Numbers {
    // Not the face's: these are names, no protocol.
    next: std::sync::atomic::AtomicU64,
    first: u64,
}

impl Numbers {
    pub(crate) const fn from(first: u64) -> Numbers {
        Numbers { next: std::sync::atomic::AtomicU64::new(first), first }
    }

    /// The first of `count` numbers that are the caller's.
    pub(crate) fn take(&'static self, count: u64) -> u64 {
        match face::numbers(std::ptr::from_ref(self).addr(), count) {
            Some(number) => self.first + number,
            None => self.next.fetch_add(count, std::sync::atomic::Ordering::Relaxed),
        }
    }
}

/// A `const fn`, but in models: the atomics and locks of loom are made at run time.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$attribute])*
        $visibility const fn $($rest)*

        #[cfg(loom)]
        $(#[$attribute])*
        $visibility fn $($rest)*
    };
}

pub(crate) use const_fn;

/// An atomic that is read in the one total order of all SeqCst operations.
pub(crate) trait TotalOrder {
    type Value;
    fn load_seq_cst(&self) -> Self::Value;
}

macro_rules! total_order {
    ($($name:ident $(<$t:ident>)? : $value:ty;)*) => {$(
        impl $(<$t>)? TotalOrder for atomic::$name $(<$t>)? {
            type Value = $value;
            #[inline(always)]
            fn load_seq_cst(&self) -> $value {
                self.load(atomic::Ordering::SeqCst)
            }
        }
    )*};
}

total_order! {
    AtomicBool: bool;
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicPtr<T>: *mut T;
}

/// Reads one word after an update of another, both in the total order of SeqCst: of two threads that do so
/// with the words exchanged, at least one sees what the other has written. It saves the fence that would come
/// between: on x86 an update is one.
#[inline(always)]
#[track_caller]
pub(crate) fn load_in_total_order<A: TotalOrder>(atomic: &A) -> A::Value {
    // To loom a SeqCst access is one that acquires or releases.
    if cfg!(loom) {
        atomic::fence(atomic::Ordering::SeqCst);
    }
    atomic.load_seq_cst()
}

#[cfg(all(test, loom))]
pub(crate) mod check;
#[cfg(all(test, loom))]
mod models;
