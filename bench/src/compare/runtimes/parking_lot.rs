//! System threads that share locks of parking_lot.

use ::parking_lot::{Mutex, RwLock};

use super::Table;
use super::busy::contended_locks;
use super::threads::Threads;
use crate::compare::kernels::busy::{self, Lock, ReadWrite};

/// The tables of the cases in which every core is busy.
pub const BUSY: &[Table] = &[
    contended_locks!(busy::contended::<Threads, Mutex<u64>>),
    &[("readers-95", busy::readers::<Threads, RwLock<u64>>)],
];

impl Lock for Mutex<u64> {
    fn new() -> Mutex<u64> {
        Mutex::new(0)
    }

    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock())
    }
}

impl ReadWrite for RwLock<u64> {
    fn new() -> RwLock<u64> {
        RwLock::new(0)
    }

    #[inline(always)]
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
        f(&self.read())
    }

    #[inline(always)]
    fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.write())
    }
}
