//! The face under the loom model checker.
//!
//! loom has no clock and no threads of its own names; models drive the protocols below the
//! scheduler, which need neither.

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread;

pub(crate) mod atomic {
    //! Atomic types and fences, as loom models them.
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

pub(crate) mod time {
    //! The clock: loom has none, so this one is `std`'s and no model may depend on it.
    pub(crate) use std::time::{Duration, Instant};

    pub(crate) fn now() -> Instant {
        Instant::now()
    }
}

pub(crate) fn entropy() -> u64 {
    0x9e37_79b9_7f4a_7c15
}

pub(crate) fn point() {}
