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

pub(crate) use face::*;

#[cfg(all(test, loom))]
pub(crate) mod check;
#[cfg(all(test, loom))]
mod models;
