//! The clock: virtual under a controller.

pub(crate) use std::time::{Duration, Instant};

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
pub(crate) fn now() -> Instant {
    match super::controller() {
        Some(controller) => base() + controller.now(),
        None => Instant::now(),
    }
}

/// The longest that a call of [`computed`] takes.
const LONG: Duration = Duration::from_secs(1);

/// The caller has gone over so many items. In a simulation, whose clock stands still meanwhile, each of them takes from a nanosecond to 4 us, another time at
/// each call: who makes the next chunk as long as this one was short would otherwise never come to an end of one.
pub(crate) fn computed(items: usize) {
    if let Some(controller) = super::controller() {
        let each = 1 << (controller.random() % 13);
        let all = Duration::from_nanos((items as u64).saturating_mul(each));
        controller.computed(all.min(LONG));
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
