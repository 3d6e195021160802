//! The work of all runtimes, generic over their ways to fork.
//!
//! A kernel needs one thing of its runtime, [`Fork::join`]. Each runtime gets its own copy of
//! each kernel, compiled with its own `join`, so there is no indirection between the two.
//! [`Serial`] makes plain calls instead of forks: the same code without a scheduler, as the
//! reference for one worker.
//!
//! The kernels in [`busy`] and [`waits`] need other things: blocking tasks, locks, channels and
//! scopes.

pub use crate::measure::rng::splitmix;

pub mod busy;
pub mod data;
pub mod forks;
pub mod leaves;
pub mod search;
pub mod waits;

/// A runtime that calls two closures, possibly at the same time.
pub trait Fork {
    /// A value that the calls pass down to each other, for runtimes that need one.
    type Scope<'s>;

    /// Calls both closures and returns both results.
    fn join<A, B, RA, RB>(scope: &mut Self::Scope<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut Self::Scope<'_>) -> RA + Send,
        B: FnOnce(&mut Self::Scope<'_>) -> RB + Send,
        RA: Send,
        RB: Send;
}

/// No runtime: one call after the other.
pub struct Serial;

/// Implements [`Fork`] for a runtime with forks that need no scope. `$join` forks two closures.
macro_rules! fork {
    ($runtime:ty, |$a:ident, $b:ident| $join:expr) => {
        impl $crate::compare::kernels::Fork for $runtime {
            type Scope<'s> = ();

            #[inline(always)]
            fn join<A, B, RA, RB>((): &mut (), $a: A, $b: B) -> (RA, RB)
            where
                A: FnOnce(&mut ()) -> RA + Send,
                B: FnOnce(&mut ()) -> RB + Send,
                RA: Send,
                RB: Send,
            {
                let ($a, $b) = (|| $a(&mut ()), || $b(&mut ()));
                $join
            }
        }
    };
}
pub(in crate::compare) use fork;

fork!(Serial, |a, b| {
    let a = a();
    (a, b())
});
