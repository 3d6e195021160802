//! The number of items in a chunk.

use crate::shim::time::Duration;

/// The time a chunk should take: some hundred times as long as reading a clock and the other work
/// at its end, and no longer than it takes to put a worker to sleep and wake it.
const TARGET: Duration = Duration::from_micros(20);
/// A chunk has at most this many times the items of the one before, and at least that fraction of
/// them: the next items may be unlike the last ones, and a measurement may be disturbed.
const GROWTH: usize = 8;
/// The first chunks of a loop are smaller than this, and are not timed.
const UNTIMED: usize = 4;

/// The size of chunks, found out while a loop runs.
///
/// The first chunk has one item, and each further one twice as many up to [`UNTIMED`]. From then on
/// chunks are timed, unless the loop is as good as over, and sized to take [`TARGET`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pace {
    chunk: usize,
    timed: bool,
}

impl Pace {
    pub(super) const START: Pace = Pace { chunk: 1, timed: false };

    /// Returns the number of items of the next chunk if `left` are left. If a whole chunk would
    /// leave less than another, the next chunk is half of them, so that the last chunks get
    /// shorter. (Polychronopoulos and Kuck make a chunk a share of the remaining items from the
    /// beginning; here that share is an upper bound.)
    #[inline]
    pub(super) fn next(self, left: usize, least: usize) -> usize {
        let n = if left <= self.chunk { left } else { self.chunk.min(left - left / 2) };
        n.max(least).min(left)
    }

    /// Returns whether to time the next chunk, of `n` items, if `left` are left.
    #[inline]
    pub(super) fn wants_time(self, n: usize, left: usize) -> bool {
        self.timed || (n >= UNTIMED && left / 2 >= n)
    }

    /// Records that an untimed chunk has been done.
    #[inline]
    pub(super) fn grow(&mut self) {
        if self.chunk < UNTIMED {
            self.chunk *= 2;
        }
    }

    /// Records that `n` items have taken `time`.
    #[inline]
    pub(super) fn learn(&mut self, n: usize, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        let fitting = (n as u64).saturating_mul(TARGET.as_nanos() as u64) / time;
        let least = (n / GROWTH).max(1);
        let most = n.saturating_mul(GROWTH);
        self.chunk = usize::try_from(fitting).unwrap_or(usize::MAX).clamp(least, most);
        self.timed = true;
    }

    /// Returns whether half of `left` items is worth the trouble of another worker, as far as is
    /// known.
    #[inline]
    pub(super) fn is_worth_sharing(self, left: usize) -> bool {
        !self.timed || left >= self.chunk
    }

    #[inline]
    pub(super) fn is_timed(self) -> bool {
        self.timed
    }

    /// Packs the pace into one word, for an atomic.
    #[inline]
    pub(super) fn to_word(self) -> usize {
        (self.chunk.min(usize::MAX >> 1) << 1) | usize::from(self.timed)
    }

    #[inline]
    pub(super) fn from_word(word: usize) -> Pace {
        Pace { chunk: (word >> 1).max(1), timed: word & 1 == 1 }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn the_first_chunks_double_and_a_short_loop_reads_no_clock() {
        let mut pace = Pace::START;
        let mut left = 10;
        let mut sizes = Vec::new();
        while left > 0 {
            let n = pace.next(left, 1);
            assert!(!pace.wants_time(n, left));
            sizes.push(n);
            left -= n;
            pace.grow();
        }
        assert_eq!(sizes, [1, 2, 4, 3]);
    }

    #[test]
    fn chunks_come_to_take_the_target_in_a_few_steps_and_no_faster() {
        let mut pace = Pace { chunk: 4, timed: false };
        let (left, nanosecond) = (1 << 40, Duration::from_nanos(1));
        let mut sizes = Vec::new();
        for _ in 0..6 {
            let n = pace.next(left, 1);
            sizes.push(n);
            pace.learn(n, nanosecond * n as u32);
        }
        assert_eq!(sizes, [4, 32, 256, 2048, 16_384, 20_000]);
        pace.learn(20_000, 20_000 * US);
        assert_eq!(pace.next(left, 1), 2500, "one slow chunk may be an accident");
        pace.learn(1, 10_000 * US);
        assert_eq!(pace.next(left, 1), 1);
    }

    #[test]
    fn the_last_chunks_get_shorter_and_a_minimum_holds() {
        let pace = Pace { chunk: 100, timed: true };
        assert_eq!(pace.next(1000, 1), 100);
        assert_eq!(pace.next(150, 1), 75);
        assert_eq!(pace.next(75, 1), 75);
        assert_eq!(pace.next(1000, 400), 400);
        assert_eq!(pace.next(30, 400), 30);
        assert!(pace.is_worth_sharing(100) && !pace.is_worth_sharing(99));
    }

    #[test]
    fn extreme_sizes_and_times_do_not_overflow() {
        let mut pace = Pace { chunk: usize::MAX, timed: true };
        assert_eq!(pace.next(usize::MAX, 1), usize::MAX);
        pace.learn(usize::MAX, Duration::ZERO);
        pace.learn(usize::MAX, Duration::MAX);
        assert_eq!(Pace::from_word(pace.to_word()).next(1, 1), 1);
        for pace in [Pace::START, Pace { chunk: 77, timed: true }] {
            assert_eq!(Pace::from_word(pace.to_word()), pace);
        }
    }
}
