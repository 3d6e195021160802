//! The face of normal builds: the types of `std` and the services of the operating system.

pub(crate) use super::real::{Condvar, Mutex, MutexGuard};
pub(crate) use super::unsimulated::*;
pub(crate) use std::alloc;
pub(crate) use std::cell::Cell;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::{Arc, atomic};
pub(crate) use std::thread::{self, panicking};
pub(crate) use std::thread_local;

pub(crate) mod unmodelled {
    //! Threads and locks that loom's models leave out: the types of `std` under loom, too. In a
    //! simulation they are simulated.
    pub(crate) use crate::shim::real::{Condvar, Mutex};
    pub(crate) use std::thread;
}

/// Returns a seed, for instance for a generator of victims.
pub(crate) fn entropy() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u64)
}
