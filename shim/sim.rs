//! The simulation face: real atomics, but clock, randomness and switch points belong to a
//! controller that is installed for the one thread that simulates.
//!
//! On threads without a controller everything behaves as on the `std` face.

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

/// What a simulator answers on behalf of the machine.
#[derive(Clone, Copy)]
pub(crate) struct Controller {
    /// Nanoseconds of virtual time since the start of the run.
    pub(crate) now: fn() -> u64,
    /// The next number of the seeded stream.
    pub(crate) random: fn() -> u64,
    /// Runs somebody else, if the seed says so.
    pub(crate) point: fn(),
}

thread_local! {
    static CONTROLLER: Cell<Option<Controller>> = const { Cell::new(None) };
}

/// Installs (or removes) the controller of this thread; returns the one before.
#[cfg_attr(not(test), expect(dead_code, reason = "the simulator is what will install one"))]
pub(crate) fn install(controller: Option<Controller>) -> Option<Controller> {
    CONTROLLER.replace(controller)
}

pub(crate) mod time {
    //! The clock: virtual under a controller.
    pub(crate) use std::time::{Duration, Instant};

    use std::sync::OnceLock;

    pub(crate) fn now() -> Instant {
        static BASE: OnceLock<Instant> = OnceLock::new();
        match super::CONTROLLER.get() {
            Some(c) => *BASE.get_or_init(Instant::now) + Duration::from_nanos((c.now)()),
            None => Instant::now(),
        }
    }
}

pub(crate) fn entropy() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    match CONTROLLER.get() {
        Some(c) => (c.random)(),
        None => RandomState::new().hash_one(0u64),
    }
}

#[inline]
pub(crate) fn point() {
    if let Some(c) = CONTROLLER.get() {
        (c.point)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_controller_answers_for_clock_and_randomness_on_its_thread_only() {
        let before = install(Some(Controller { now: || 5_000, random: || 42, point: || () }));
        assert!(before.is_none());
        let first = time::now();
        assert_eq!(time::now(), first, "virtual time stands still by itself");
        assert_eq!(entropy(), 42);
        point();
        install(Some(Controller { now: || 7_000, random: || 43, point: || () }));
        assert_eq!(time::now() - first, Duration::from_nanos(2_000));
        thread::spawn(|| assert!(CONTROLLER.get().is_none())).join().unwrap();
        assert!(install(None).is_some());
    }
}
