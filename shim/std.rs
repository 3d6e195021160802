//! The face that programs run on: what `std` and the operating system offer.

pub(crate) use super::unsimulated::*;
pub(crate) use std::cell::Cell;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{self, panicking};
pub(crate) use std::thread_local;

pub(crate) mod unmodelled {
    //! What loom's models leave out: threads and locks of `std` there too. In a simulation they are simulated.
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread;
}

pub(crate) mod alloc {
    //! The memory of records.
    pub(crate) use std::alloc::{alloc, dealloc};
}

pub(crate) mod atomic {
    //! Atomic types and fences.
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub(crate) mod time {
    //! The clock.
    pub(crate) use std::time::{Duration, Instant};

    /// The present, on a clock that never goes back.
    #[inline]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// The caller has gone over so many items. It matters where the clock is virtual.
    #[inline]
    pub(crate) fn computed(_items: usize) {}

    /// The instant that ticks are counted from: before all that `now` returns later.
    pub(crate) fn zero() -> Instant {
        static ZERO: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *ZERO.get_or_init(Instant::now)
    }

    /// For how long somebody waits before it says that it does; for ever in a simulation, which says itself what hangs.
    pub(crate) fn patience(time: Duration) -> Option<Duration> {
        Some(time)
    }
}

/// A seed for a generator of victims and the like.
pub(crate) fn entropy() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u64)
}
