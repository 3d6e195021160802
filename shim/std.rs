//! The face that programs run on: what `std` and the operating system offer.

pub(crate) use std::cell::Cell;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::thread;

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
}

/// A seed for a generator of victims and the like.
pub(crate) fn entropy() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u64)
}

/// A place where a simulator may run somebody else. Empty here.
#[inline(always)]
pub(crate) fn point() {}
