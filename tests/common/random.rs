//! Random choices that a seed repeats.

/// xorshift64 (Marsaglia, 2003).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// A seed for another generator.
    pub(crate) fn seed(&mut self) -> u64 {
        self.below(u64::MAX)
    }
}

/// All orders of the numbers below `n`.
pub(crate) fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let insert =
        |order: Vec<usize>| (0..n).map(move |at| [&order[..at], &[n - 1], &order[at..]].concat());
    orders(n - 1).into_iter().flat_map(insert).collect()
}
