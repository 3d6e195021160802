//! The hooks of a simulation, for faces that have none: they do nothing and cost nothing. And the
//! real clock.

use super::Access;

/// A point at which a simulation may run another thread.
#[inline(always)]
pub(crate) fn point() {}

/// Panics if the thread is simulated and the caller is not part of the same simulation.
#[inline(always)]
pub(crate) fn assert_reachable<T>(_: &T) {}

/// Returns `true` if the caller is simulated.
#[inline(always)]
pub(crate) const fn is_simulated() -> bool {
    false
}

/// Returns `true` if the caller is simulated and needs no barrier.
#[inline(always)]
pub(crate) const fn barrier_is_simulated() -> bool {
    false
}

/// The number of processors of the simulation that the caller is in.
#[inline(always)]
pub(crate) const fn simulated_processors() -> Option<usize> {
    None
}

/// The number of sockets of the simulation that the caller is in.
#[inline(always)]
pub(crate) const fn simulated_sockets() -> Option<usize> {
    None
}

/// The processor of the simulation that runs the caller.
#[inline(always)]
pub(crate) const fn simulated_processor() -> Option<usize> {
    None
}

/// Returns `true` if spinning may be worth while.
#[inline(always)]
pub(crate) const fn may_spin() -> bool {
    true
}

/// The next numbers of a sequence in the simulated run.
#[inline(always)]
pub(crate) const fn numbers(_: usize, _: u64) -> Option<u64> {
    None
}

/// Returns `true` if a simulation injects this fault now.
#[inline(always)]
pub(crate) const fn fault(_: super::Fault) -> bool {
    false
}

/// Returns `true` if a simulation has planted this bug.
#[inline(always)]
pub(crate) const fn has(_: super::Bug) -> bool {
    false
}

/// Notes what the caller waits for, until the returned guard is dropped.
#[inline(always)]
pub(crate) fn waits<'a>(_: impl Fn() -> String + 'a) -> Waits<'a> {
    Waits(std::marker::PhantomData)
}

/// See [`waits`].
pub(crate) struct Waits<'a>(std::marker::PhantomData<&'a ()>);

/// Notes that the calling thread searches for work, until the returned guard is dropped.
#[inline(always)]
pub(crate) fn searches() -> Searches {
    Searches
}

/// See [`searches`].
pub(crate) struct Searches;

/// The cache line of a structure in another crate, whose accesses the caller declares.
#[derive(Clone)]
pub(crate) struct Line;

impl Line {
    pub(crate) fn new() -> Line {
        Line
    }

    #[inline(always)]
    pub(crate) fn access(&self, _: Access) {}
}

pub(crate) mod time {
    //! The clock of `std`, on which no model may depend.
    pub(crate) use std::time::{Duration, Instant};

    /// Returns the current time, on a clock that never goes back.
    #[inline]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// Notes that the caller has gone over some items. Matters only if the clock is virtual.
    #[inline]
    pub(crate) fn computed(_items: usize) {}

    /// Returns how long a thread waits before it reports that it waits. `None` in a simulation,
    /// which reports hangs itself.
    pub(crate) fn patience(time: Duration) -> Option<Duration> {
        Some(time)
    }
}
