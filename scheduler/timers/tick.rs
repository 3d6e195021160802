//! The clock of the timers.

use crate::shim::time::{Duration, Instant, now, zero};

/// The length of a tick is 2 to this power, in nanoseconds: 65.5 us.
const TICK: u32 = 16;
/// No tick: nothing is due.
pub(super) const NEVER: u64 = u64::MAX;

/// A time on the clock of the timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tick(pub(super) u64);

impl Tick {
    /// It never comes.
    pub(crate) const NEVER: Tick = Tick(NEVER);

    fn nanoseconds(time: Instant) -> u128 {
        time.saturating_duration_since(zero()).as_nanos()
    }

    /// The first one that is not before `time`.
    pub(crate) fn not_before(time: Instant) -> Tick {
        Tick(u64::try_from(Tick::nanoseconds(time).div_ceil(1 << TICK)).unwrap_or(NEVER - 1))
    }

    /// That of the present.
    pub(crate) fn now() -> Tick {
        Tick((Tick::nanoseconds(now()) >> TICK) as u64)
    }

    /// Its number, for one who keeps it in an atomic.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn numbered(number: u64) -> Tick {
        Tick(number)
    }

    /// How long it is from an earlier one to this one.
    pub(crate) fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0).saturating_mul(1 << TICK))
    }

    /// How long it is until then.
    pub(crate) fn time_left(self) -> Duration {
        let at = u128::from(self.0) << TICK;
        let left = at.saturating_sub(Tick::nanoseconds(now()));
        Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
    }
}
