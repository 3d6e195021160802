//! A flag and a count that tasks and threads share. Both are `Copy`, so that closures need no
//! clones of them. Their memory is kept until the process ends.
//!
//! Every access is relaxed: a test must not order by its own means what the library has to order.

use super::{give_way_until, spin_loop, thread};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Leaks `value`. A list of all such values keeps leak detectors quiet.
fn keep<T>(list: &Mutex<Vec<&'static T>>, value: T) -> &'static T {
    let value = Box::leak(Box::new(value));
    list.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    value
}

#[derive(Clone, Copy)]
pub(crate) struct Flag(&'static AtomicBool);

impl Flag {
    pub(crate) fn new() -> Flag {
        static ALL: Mutex<Vec<&'static AtomicBool>> = Mutex::new(Vec::new());
        Flag(keep(&ALL, AtomicBool::new(false)))
    }

    pub(crate) fn get(self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(self) {
        self.put(true);
    }

    pub(crate) fn put(self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// In a task: yields until the flag is set.
    pub(crate) fn wait(self) {
        give_way_until(|| self.get());
    }

    /// Keeps the worker or the thread until the flag is set, and lets other threads run.
    pub(crate) fn hold(self) {
        while !self.get() {
            thread::yield_now();
        }
    }

    /// Keeps the worker or the thread until the flag is set, and its processor too.
    pub(crate) fn spin(self) {
        while !self.get() {
            spin_loop();
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Count(&'static AtomicUsize);

impl Count {
    pub(crate) fn new() -> Count {
        static ALL: Mutex<Vec<&'static AtomicUsize>> = Mutex::new(Vec::new());
        Count(keep(&ALL, AtomicUsize::new(0)))
    }

    pub(crate) fn get(self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn put(self, value: usize) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds one.
    pub(crate) fn up(self) {
        self.add(1);
    }

    pub(crate) fn add(self, n: usize) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// In a task: yields until the count is `n`.
    pub(crate) fn wait(self, n: usize) {
        give_way_until(|| self.get() == n);
    }

    /// Counts the caller, and keeps its worker or thread until `n` have been counted.
    pub(crate) fn meet(self, n: usize) {
        self.up();
        while self.get() < n {
            thread::yield_now();
        }
    }
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}
