//! The hooks of a simulation, for faces that have none: they do nothing and cost nothing.

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
#[cfg_attr(loom, allow(dead_code, reason = "loom's own barrier is a fence"))]
pub(crate) const fn barrier_is_simulated() -> bool {
    false
}

/// The number of processors of the simulation that the caller is in.
#[inline(always)]
#[cfg_attr(loom, allow(dead_code, reason = "loom has one processor"))]
pub(crate) const fn simulated_processors() -> Option<usize> {
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
