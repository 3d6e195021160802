//! What the faces answer that no simulation stands behind: nothing, at no cost.

use super::Access;

/// A place where a simulator may run somebody else.
#[inline(always)]
pub(crate) fn point() {}

/// Panics if that thread is simulated, and the caller is not.
#[inline(always)]
pub(crate) fn assert_reachable<T>(_: &T) {}

/// Whether the caller is simulated.
#[inline(always)]
pub(crate) const fn is_simulated() -> bool {
    false
}

/// Whether all virtual threads have passed a barrier at this moment.
#[inline(always)]
#[cfg_attr(loom, allow(dead_code, reason = "loom's own barrier is a fence"))]
pub(crate) const fn barrier_is_simulated() -> bool {
    false
}

/// How many threads run at once in the simulation that the caller is part of.
#[inline(always)]
#[cfg_attr(loom, allow(dead_code, reason = "loom has one processor"))]
pub(crate) const fn simulated_processors() -> Option<usize> {
    None
}

/// The next numbers of the sequence of this key in the run: there is none.
#[inline(always)]
pub(crate) const fn numbers(_: usize, _: u64) -> Option<u64> {
    None
}

/// Whether this is to go wrong now.
#[inline(always)]
pub(crate) const fn fault(_: super::Fault) -> bool {
    false
}

/// Whether the library has this mistake.
#[inline(always)]
pub(crate) const fn has(_: super::Bug) -> bool {
    false
}

/// Says what the caller waits for, as long as what is returned lives.
#[inline(always)]
pub(crate) fn waits<'a>(_: impl Fn() -> String + 'a) -> Waits<'a> {
    Waits(std::marker::PhantomData)
}

/// See [`waits`].
pub(crate) struct Waits<'a>(std::marker::PhantomData<&'a ()>);

/// Says that the calling thread looks for work, as long as what is returned lives.
#[inline(always)]
pub(crate) fn searches() -> Searches {
    Searches
}

/// See [`searches`].
pub(crate) struct Searches;

/// The cache line of a structure whose accesses are made inside another crate. They cost what they cost.
#[derive(Clone)]
pub(crate) struct Line;

impl Line {
    pub(crate) fn new() -> Line {
        Line
    }

    #[inline(always)]
    pub(crate) fn access(&self, _: Access) {}
}
