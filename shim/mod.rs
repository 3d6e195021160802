//! The one place where atomics, locks, cells, the clock, randomness, thread start and switch
//! points come from.
//!
//! Protocol code imports these names from here and never from `std`, so that the very same source
//! runs on three faces:
//!
//! * `std` (default): plain re-exports; [`point`] is empty and disappears.
//! * `loom` (`--cfg loom`): the types of the loom model checker, which tries every interleaving
//!   that the memory model allows.
//! * simulation (feature `sim`): the types of `std`, but clock, randomness and switch points are
//!   answered by a controller that the simulator installs.

#[cfg(all(not(loom), not(feature = "sim")))]
#[path = "std.rs"]
mod face;

#[cfg(loom)]
#[path = "loom.rs"]
mod face;

#[cfg(all(not(loom), feature = "sim"))]
#[path = "sim.rs"]
mod face;

pub(crate) mod asymmetric;

use std::time::Duration;

/// How long a thread spins before it lets others have the processor at each turn.
#[cfg(not(loom))]
const POLITE: Duration = Duration::from_micros(2);

/// Spins until it is so, for `limit` at most; whether it is. For what is mostly so sooner than a thread
/// could be put to sleep and woken again.
#[cfg(not(loom))]
pub(crate) fn spin_until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let start = face::time::now();
    loop {
        if so() {
            return true;
        }
        let time = face::time::now() - start;
        if time >= limit {
            return false;
        }
        if time >= POLITE { std::thread::yield_now() } else { face::spin_loop() }
    }
}

/// A model has no time to wait.
#[cfg(loom)]
pub(crate) fn spin_until(_: Duration, mut so: impl FnMut() -> bool) -> bool {
    so()
}

pub(crate) use face::*;

#[cfg(all(test, loom))]
pub(crate) mod check;
#[cfg(all(test, loom))]
mod models;
