//! The clock of the timers.

use crate::shim::time::{Duration, Instant, now};
use crate::shim::zero;

/// A tick lasts 2 to this power nanoseconds: 65.5 us.
const TICK: u32 = 16;
/// The number of the tick that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// A time on the clock of the timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tick(pub(super) u64);

impl Tick {
    /// The tick that never comes.
    pub(crate) const NEVER: Tick = Tick(NEVER);

    fn nanoseconds(time: Instant) -> u128 {
        time.saturating_duration_since(zero()).as_nanos()
    }

    /// The first tick that is not before `time`.
    pub(crate) fn not_before(time: Instant) -> Tick {
        Tick(u64::try_from(Tick::nanoseconds(time).div_ceil(1 << TICK)).unwrap_or(NEVER - 1))
    }

    /// The present tick.
    pub(crate) fn now() -> Tick {
        Tick((Tick::nanoseconds(now()) >> TICK) as u64)
    }

    /// The tick's number, to be kept in an atomic.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn numbered(number: u64) -> Tick {
        Tick(number)
    }

    /// The time from an earlier tick to this one.
    pub(crate) fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.ticks_since(earlier).saturating_mul(1 << TICK))
    }

    /// The number of ticks from an earlier tick to this one.
    pub(crate) fn ticks_since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time left until this tick.
    pub(crate) fn time_left(self) -> Duration {
        let at = u128::from(self.0) << TICK;
        let left = at.saturating_sub(Tick::nanoseconds(now()));
        Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
    }
}
