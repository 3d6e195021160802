//! The work that all runtimes do, written once over what they call a fork.
//!
//! A kernel asks its runtime for one thing, [`Fork::join`]. Each runtime gets its own copy of each
//! kernel, compiled with its own `join` in it, so nothing stands between the two. [`Serial`] has plain
//! calls in place of forks: the same code without a scheduler, beside which one worker is judged.
//!
//! [`busy`] asks for other things: tasks that block, locks, channels and scopes.

pub mod busy;
pub mod data;
pub mod forks;
pub mod leaves;
pub mod search;

/// A runtime that calls two closures, maybe at once.
pub trait Fork {
    /// What the calls hand down to each other, for runtimes that need such a thing.
    type Scope<'s>;

    /// Calls both, and returns both results.
    fn join<A, B, RA, RB>(scope: &mut Self::Scope<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut Self::Scope<'_>) -> RA + Send,
        B: FnOnce(&mut Self::Scope<'_>) -> RB + Send,
        RA: Send,
        RB: Send;
}

/// No runtime: one call after the other.
#[derive(Debug)]
pub struct Serial;

impl Fork for Serial {
    type Scope<'s> = ();

    #[inline(always)]
    fn join<A, B, RA, RB>((): &mut (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut ()) -> RA + Send,
        B: FnOnce(&mut ()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let a = a(&mut ());
        (a, b(&mut ()))
    }
}

/// A hash of a number: the step of the generator splitmix64 (Steele, Lea, Flood, 2014).
#[must_use]
pub fn splitmix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
