//! Graceful shutdown: a stop that is seen by all, and the wait for what must not be cut short.

mod guarded;
mod interrupt;
mod stub;

pub use guarded::Guarded;
pub use interrupt::Interrupt;
pub use stub::{Guard, ShutdownCompletion, Swansong};

pub(crate) use stub::StopListener;
