//! The clock: virtual under a controller.

pub(crate) use std::time::{Duration, Instant};

use super::charge;
use crate::shim::Access;
use std::panic::Location;
use std::sync::OnceLock;

/// When a simulation begins: all of them at the same instant of the process.
pub(super) fn base() -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

/// Who waits until later than this waits for ever: no clock shows it.
const FAR: Duration = Duration::from_secs(1 << 40);

/// The end of a wait that begins now; none for one whose end nobody sees.
pub(super) fn after(now: Duration, time: Duration) -> Option<Duration> {
    now.checked_add(time).filter(|&until| until < FAR)
}

/// The present, on a clock that never goes back.
#[track_caller]
pub(crate) fn now() -> Instant {
    match super::controller() {
        Some(controller) => {
            charge(Access::Clock, 0);
            base() + controller.now()
        }
        None => Instant::now(),
    }
}

/// Notes that the caller has gone over so many items of a loop. A simulation decides how long they took.
pub(crate) fn computed(items: usize) {
    if let Some(controller) = super::controller() {
        controller.computed(items);
    }
}

/// Computes for `time`: on the virtual clock of a simulation, or by spinning elsewhere.
#[track_caller]
pub(crate) fn compute(time: Duration) {
    match super::controller() {
        Some(controller) => controller.compute(time, Location::caller()),
        None => {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        }
    }
}

/// The instant that ticks are counted from: before all that `now` returns.
pub(crate) fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    if super::is_simulated() { base() } else { *ZERO.get_or_init(Instant::now) }
}

/// For how long somebody waits before it says that it does; for ever in a simulation, which says itself what hangs.
pub(crate) fn patience(time: Duration) -> Option<Duration> {
    (!super::is_simulated()).then_some(time)
}
