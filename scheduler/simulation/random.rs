//! Random numbers from a seed.

use std::cell::Cell;

/// A stream of random numbers (SplitMix64; Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014).
pub(super) struct Stream(Cell<u64>);

impl Stream {
    /// Makes stream number `stream` of `seed`. The streams of one seed are independent of each
    /// other.
    pub(super) fn new(seed: u64, stream: u64) -> Stream {
        let stream = Stream(Cell::new(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)));
        stream.next();
        stream
    }

    pub(super) fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns `true` with a probability of `rate` in 65,536.
    pub(super) fn happens(&self, rate: u16) -> bool {
        (self.next() & 0xffff) < u64::from(rate)
    }

    /// Returns a number below `count`.
    pub(super) fn below(&self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }
}
