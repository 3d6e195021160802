//! The one place from which the library takes atomics, locks, cells, the clock, randomness, threads
//! and switch points.
//!
//! Protocol code imports these names from here and never from `std`, so that the same source runs
//! on three faces:
//!
//! * `std` (default): plain re-exports; [`point`] is empty and disappears.
//! * `loom` (`--cfg loom`): the types of the loom model checker, which tries every interleaving
//!   that the memory model allows.
//! * simulation (feature `sim`): the types of `std`, but a controller installed by the simulator
//!   answers for clock, randomness and switch points.

/// The methods of a face's own atomic type that are made of its `load` and `compare_exchange`.
#[cfg(any(loom, feature = "sim"))]
macro_rules! loops {
    ($value:ty) => {
        /// Does not fail spuriously, as every caller would only try again.
        #[track_caller]
        pub(crate) fn compare_exchange_weak(
            &self,
            from: $value,
            to: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            self.compare_exchange(from, to, success, failure)
        }

        #[track_caller]
        pub(crate) fn fetch_update(
            &self,
            set: Ordering,
            fetch: Ordering,
            mut to: impl FnMut($value) -> Option<$value>,
        ) -> Result<$value, $value> {
            let mut from = self.load(fetch);
            while let Some(to) = to(from) {
                match self.compare_exchange(from, to, set, fetch) {
                    Ok(before) => return Ok(before),
                    Err(now) => from = now,
                }
            }
            Err(from)
        }
    };
}

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
mod locks;
mod stderr;
#[cfg(any(loom, not(feature = "sim")))]
mod unsimulated;

pub(crate) use locks::real;
pub(crate) use stderr::{abort_with, say};

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time for which a thread spins before it yields the processor at each turn.
const POLITE: Duration = Duration::from_micros(2);

/// Spins until `so()` returns true or `limit` passes, and returns `so()`. For conditions that
/// usually come true sooner than a thread could be put to sleep and woken. A model has no time to
/// wait.
pub(crate) fn spin_until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    if cfg!(loom) {
        return so();
    }
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

pub(crate) use face::*;

/// Returns the instant at which every simulation begins, and that ticks are counted from. It is the
/// same for all runs in a process, and before every later result of `time::now`.
pub(crate) fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now)
}

/// Returns the number of threads that run at once: the processors that the process may use. A
/// simulation always has the same number, so that a seed gives the same run on each machine; a
/// machine model has its own. loom has one.
pub(crate) fn processors() -> usize {
    if cfg!(loom) {
        return 1;
    }
    face::simulated_processors()
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns what [`processors`] returned when this process first asked here. The system takes 10 to
/// 20 us to answer, as std reads the limits of the process from files.
pub(crate) fn processors_at_first() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    face::simulated_processors().unwrap_or_else(|| *COUNT.get_or_init(processors))
}

/// Returns the number of the processor that runs the calling thread, if the system tells it. The
/// thread may move at any time.
pub(crate) fn processor() -> Option<usize> {
    face::simulated_processor().or_else(|| {
        // SAFETY: the call has no preconditions.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    })
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
    /// A reading of the clock.
    Clock,
}

/// A fault that a simulation can inject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "a face without faults does not look at them")]
pub(crate) enum Fault {
    /// A thief finds nothing although there is something to steal.
    Steal,
    /// A parked thread goes on without having been unparked.
    SpuriousUnpark,
    /// There is no stack.
    Stack,
    /// The allocator has no memory.
    Allocation,
    /// The system refuses a thread for blocking calls.
    Thread,
    /// The clock jumps by up to a second, at a step.
    Clock,
    /// A woken thread becomes ready up to a millisecond later.
    LateWake,
    /// A thread stalls for up to ten milliseconds, at a step.
    Stall,
}

/// The number of kinds of faults.
#[cfg(feature = "sim")]
pub(crate) const FAULTS: usize = Fault::Stall as usize + 1;

/// A bug that a simulation can plant in the library, to see whether it is found. Left out of all
/// builds without simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "a face without simulation does not look at them")]
pub enum Bug {
    /// A grant that comes before its waiter has published the wait is forgotten.
    LostWake,
    /// A mutex that is handed to the last waiter of its queue is left free.
    DoubleGrant,
    /// A mutex that was handed to a waiter which has given up is not passed on.
    LeakedLock,
    /// A task publishes its result before its children have ended.
    OutlivingChild,
    /// A waiter that has published its wait does not check whether it is cancelled.
    NoLookAfterPublishing,
    /// A worker that has announced its sleep does not check for work.
    NoLookBeforeSleep,
}

/// Numbers that are given out once in a process. Each simulated run has its own sequence, which
/// starts anew.
pub(crate) struct Numbers {
    // Not the face's: ids are names and take part in no protocol.
    next: std::sync::atomic::AtomicU64,
    first: u64,
}

impl Numbers {
    pub(crate) const fn from(first: u64) -> Numbers {
        Numbers { next: std::sync::atomic::AtomicU64::new(first), first }
    }

    /// Reserves `count` numbers for the caller and returns the first.
    pub(crate) fn take(&'static self, count: u64) -> u64 {
        match face::numbers(std::ptr::from_ref(self).addr(), count) {
            Some(number) => self.first + number,
            None => self.next.fetch_add(count, std::sync::atomic::Ordering::Relaxed),
        }
    }
}

/// Defines a `const fn`, except under loom: the atomics and locks of loom are made at run time.
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

/// Reads one word after an update of another, both in the total order of SeqCst.
///
/// If two threads do so with the words exchanged, at least one sees the other's update. This saves
/// the fence that would come between: on x86 an update is a fence.
#[inline(always)]
#[track_caller]
pub(crate) fn load_in_total_order<A: TotalOrder>(atomic: &A) -> A::Value {
    // To loom, a SeqCst access is only an acquire or release access.
    if cfg!(loom) {
        atomic::fence(atomic::Ordering::SeqCst);
    }
    atomic.load_seq_cst()
}

#[cfg(all(test, loom))]
pub(crate) mod check;
#[cfg(all(test, loom))]
mod models;
