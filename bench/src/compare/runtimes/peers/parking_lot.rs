//! System threads that share locks of parking_lot.

use ::parking_lot::{Condvar, Mutex, RwLock};

use crate::compare::prelude::*;
use crate::compare::runtimes::threads::Threads;

/// The cases that threads run with these locks.
pub const TABLE: Table = &[
    ("contended-", busy::contended::<Threads, Mutex<u64>>),
    ("readers-95", busy::readers::<Threads, RwLock<u64>>),
    ("turns-mutex-", waits::mutex::<Threads, Mutex<u64>>),
    ("turns-rwlock-", waits::rwlock::<Threads, RwLock<u64>>),
    ("turns-condvar-", waits::condvar::<Threads, Buffer>),
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

#[derive(Default)]
struct Buffer(Mutex<u64>, [Condvar; 2]);

impl Place for Buffer {
    fn when<R>(&self, rest: u64, f: impl FnOnce(&mut u64) -> R) -> R {
        let mut number = self.0.lock();
        self.1[rest as usize].wait_while(&mut number, |number| *number % 2 != rest);
        let result = f(&mut number);
        drop(number);
        self.1[1 - rest as usize].notify_one();
        result
    }
}
