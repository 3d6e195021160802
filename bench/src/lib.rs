//! The measuring part of the `cygnet` command, which the criterion benches share with it.

pub mod clock;
pub mod compare;
pub mod figures;
pub mod soak;
pub mod turns;
