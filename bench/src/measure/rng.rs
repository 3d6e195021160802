//! Random numbers from a seed.

use std::time::Duration;

/// The step of the generator's state.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Hashes a number with the step of the generator splitmix64 (Steele, Lea, Flood, 2014).
pub fn splitmix(seed: u64) -> u64 {
    let z = seed.wrapping_add(GAMMA);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A generator with one word of state (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A generator for part `index` of the object with this seed.
    pub(crate) fn part(seed: u64, index: u64) -> Rng {
        let mut rng = Rng(seed ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Rng(rng.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        let word = splitmix(self.0);
        self.0 = self.0.wrapping_add(GAMMA);
        word
    }

    /// A number less than `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A count in `low..=high`.
    pub(crate) fn count(&mut self, low: usize, high: usize) -> usize {
        self.between(low as u64, high as u64) as usize
    }

    /// True once in `times` calls, on average.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A duration of at most `most` microseconds.
    pub(crate) fn micros(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most + 1))
    }

    /// Splits off an independent generator.
    pub(crate) fn split(&mut self) -> Rng {
        Rng(self.next())
    }

    /// Picks an element.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_one_others() {
        let numbers = |seed| {
            let mut rng = Rng::part(seed, 3);
            [rng.next(), rng.next(), rng.below(10)]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_ne!(Rng::part(7, 1).next(), Rng::part(7, 2).next());
    }

    #[test]
    fn ranges_are_kept_and_used_to_their_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.between(2, 5)).collect();
        assert_eq!(drawn.iter().min(), Some(&2));
        assert_eq!(drawn.iter().max(), Some(&5));
        assert!((0..100).any(|_| rng.one_in(10)) && rng.one_in(1));
    }
}
