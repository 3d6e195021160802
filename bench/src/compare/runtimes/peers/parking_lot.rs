//! System threads that share locks of parking_lot.

use ::parking_lot::{Mutex, RwLock};

use crate::compare::prelude::*;
use crate::compare::runtimes::threads::Threads;

/// The cases that threads run with these locks.
pub const TABLE: Table = &[
    ("contended-", busy::contended::<Threads, Mutex<u64>>),
    ("readers-95", busy::readers::<Threads, RwLock<u64>>),
];

impl Lock for Mutex<u64> {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock())
    }
}

impl ReadWrite for RwLock<u64> {
    #[inline(always)]
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
        f(&self.read())
    }

    #[inline(always)]
    fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.write())
    }
}
