//! The clock: virtual under a controller.

pub(crate) use std::time::{Duration, Instant};

use super::charge;
use crate::shim::{Access, zero};
use std::panic::Location;

/// A wait until later than this never ends: no clock shows such a time.
const FAR: Duration = Duration::from_secs(1 << 40);

/// Returns the end of a wait that begins now. `None` if the wait never ends.
pub(super) fn after(now: Duration, time: Duration) -> Option<Duration> {
    now.checked_add(time).filter(|&until| until < FAR)
}

/// Returns the current time, on a clock that never goes back.
#[track_caller]
pub(crate) fn now() -> Instant {
    match super::controller() {
        Some(controller) => {
            charge(Access::Clock, 0);
            zero() + controller.now()
        }
        None => Instant::now(),
    }
}

/// Notes that the caller has gone over `items` items of a loop. A simulation decides how long they
/// took.
pub(crate) fn computed(items: usize) {
    if let Some(controller) = super::controller() {
        controller.computed(items);
    }
}

/// Computes for `time`: on the virtual clock in a simulation, otherwise by spinning.
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

/// Returns how long a thread waits before it reports that it waits. `None` in a simulation, which
/// reports hangs itself.
pub(crate) fn patience(time: Duration) -> Option<Duration> {
    (!super::is_simulated()).then_some(time)
}
