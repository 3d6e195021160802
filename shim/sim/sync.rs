//! Locks of `std`. If a virtual thread of this OS thread holds the lock, another virtual thread
//! waits for it by letting others run. If another OS thread holds it, the wait is a real one: no
//! virtual thread could release the lock, and other OS threads are no part of the run.

use super::{Turn, access, charge, controller, time};
use crate::shim::{Access, real};
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Returns a number for the calling OS thread, which is not 0.
fn os_thread() -> usize {
    std::thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| ptr::from_ref(place).addr())
}

#[derive(Default, Debug)]
pub(crate) struct Mutex<T> {
    /// The number of the OS thread that holds the lock, or 0. It is also 0 for a moment after the
    /// lock was acquired.
    holder: AtomicUsize,
    real: real::Mutex<T>,
}

#[allow(dead_code, reason = "as that of `std`")]
impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex { holder: AtomicUsize::new(0), real: real::Mutex::new(value) }
    }

    pub(crate) fn into_inner(self) -> T {
        self.real.into_inner()
    }

    fn word(&self) -> usize {
        ptr::from_ref(&self.holder).addr()
    }

    fn guard<'a>(&'a self, guard: real::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.holder.store(os_thread(), Ordering::Relaxed);
        MutexGuard { mutex: self, guard: Some(guard) }
    }

    /// Acquires the lock, blocking the OS thread.
    fn lock_for_real(&self) -> MutexGuard<'_, T> {
        self.guard(self.real.lock())
    }

    /// Acquires the lock if it is free.
    fn lock_at_once(&self) -> Option<MutexGuard<'_, T>> {
        self.real.try_lock().map(|guard| self.guard(guard))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        access(Access::Update, self.word());
        let Some(controller) = controller() else { return self.lock_for_real() };
        let mut spins = controller.spins();
        loop {
            if let Some(guard) = self.lock_at_once() {
                return guard;
            }
            // Only this OS thread writes and removes its own number.
            if self.holder.load(Ordering::Relaxed) != os_thread() {
                return self.lock_for_real();
            }
            if spins > 0 {
                spins -= 1;
                controller.give_way(Turn::Spin, Location::caller());
                charge(Access::Load, self.word());
            } else {
                controller.wait(self.word(), None, Location::caller());
            }
        }
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        access(Access::Update, self.word());
        self.lock_at_once()
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.real.get_mut()
    }
}

pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` while the guard waits for a condition, and in its drop.
    guard: Option<real::MutexGuard<'a, T>>,
}

impl<'a, T> MutexGuard<'a, T> {
    /// Takes the guard of `std` out, to release the lock.
    fn release(&mut self) -> real::MutexGuard<'a, T> {
        self.mutex.holder.store(0, Ordering::Relaxed);
        self.guard.take().expect("it is locked")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is locked")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            charge(Access::Update, self.mutex.word());
            drop(self.release());
            if let Some(controller) = controller() {
                controller.wake(self.mutex.word(), false);
            }
        }
    }
}

#[derive(Default, Debug)]
pub(crate) struct Condvar(real::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar(real::Condvar::new())
    }

    fn word(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Releases the lock and waits for a notification, with no other virtual thread in between.
    /// Returns the lock and whether the time was up.
    #[track_caller]
    fn wait_for<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Option<Duration>,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex;
        let place = Location::caller();
        let Some(controller) = controller() else {
            let inner = guard.release();
            let (inner, late) = match time {
                None => (self.0.wait(inner), false),
                Some(time) => self.0.wait_timeout(inner, time),
            };
            return (mutex.guard(inner), late);
        };
        drop(guard);
        let until = time.and_then(|time| time::after(controller.now(), time));
        let called = controller.wait(self.word(), until, place);
        (mutex.lock(), !called)
    }

    #[track_caller]
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_for(guard, None).0
    }

    #[track_caller]
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        self.wait_for(guard, Some(time))
    }

    pub(crate) fn notify_one(&self) {
        self.notify(false);
    }

    pub(crate) fn notify_all(&self) {
        self.notify(true);
    }

    fn notify(&self, all: bool) {
        match controller() {
            Some(controller) => controller.wake(self.word(), all),
            None if all => self.0.notify_all(),
            None => self.0.notify_one(),
        }
    }
}
