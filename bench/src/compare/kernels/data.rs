//! Loops over data.

use std::ops::Range;

use crate::compare::prelude::*;

/// Number of items of a leaf of a sum over memory.
pub const CHUNK: usize = 16 << 10;
/// Number of items of a leaf of a loop over items of some 20 ns each.
pub const ITEMS: u64 = 256;
/// Quicksort uses insertion for fewer elements than this.
const INSERTED: usize = 24;

/// Numbers below 2^32, so that their sum does not overflow.
pub fn numbers(count: usize) -> Vec<u64> {
    (0..count as u64).map(|at| splitmix(at) >> 32).collect()
}

/// Adds up the numbers by divide and conquer, down to [`CHUNK`].
pub fn sum<F: Fork>(scope: &mut F::Scope<'_>, numbers: &[u64]) -> u64 {
    if numbers.len() <= CHUNK {
        return numbers.iter().sum();
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let (a, b) = F::join(scope, |s| sum::<F>(s, left), |s| sum::<F>(s, right));
    a + b
}

/// Adds up the items by divide and conquer, down to [`ITEMS`].
pub fn items<F: Fork>(scope: &mut F::Scope<'_>, range: Range<u64>, steps: u64) -> u64 {
    let length = range.end - range.start;
    if length <= ITEMS {
        return range.map(|at| item(at, steps)).sum();
    }
    let middle = range.start + length / 2;
    let (left, right) = (range.start..middle, middle..range.end);
    let (a, b) = F::join(scope, |s| items::<F>(s, left, steps), |s| items::<F>(s, right, steps));
    a + b
}

/// Sorts by Hoare's partition around the median of three, with a fork for the two sides of each
/// partition.
pub fn quicksort<F: Fork>(scope: &mut F::Scope<'_>, values: &mut [u32]) {
    if values.len() <= INSERTED {
        return insert(values);
    }
    let at = partition(values);
    let (left, right) = values.split_at_mut(at);
    F::join(scope, |s| quicksort::<F>(s, left), |s| quicksort::<F>(s, right));
}

/// Moves values not above a pivot to the left and values not below it to the right. Returns the
/// start of the right side. Neither side is empty.
fn partition(values: &mut [u32]) -> usize {
    let (first, middle, last) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    let pivot = first.max(middle).min(first.min(middle).max(last));
    let (mut left, mut right) = (0, values.len() - 1);
    loop {
        while values[left] < pivot {
            left += 1;
        }
        while values[right] > pivot {
            right -= 1;
        }
        if left >= right {
            return left.max(1);
        }
        values.swap(left, right);
        left += 1;
        right -= 1;
    }
}

fn insert(values: &mut [u32]) {
    for end in 1..values.len() {
        let value = values[end];
        let mut at = end;
        while at > 0 && values[at - 1] > value {
            values[at] = values[at - 1];
            at -= 1;
        }
        values[at] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Serial;
    use super::*;

    #[test]
    fn sums_by_halves_are_sums() {
        let numbers = numbers(100_000);
        assert_eq!(sum::<Serial>(&mut (), &numbers), numbers.iter().sum::<u64>());
        let plain: u64 = (0..1001).map(|at| item(at, 7)).sum();
        assert_eq!(items::<Serial>(&mut (), 0..1001, 7), plain);
    }

    #[test]
    fn quicksort_sorts_whatever_the_order_and_the_repetitions() {
        for (length, modulus) in [(0, 1), (1, 1), (30, 1), (1000, 3), (1000, 1 << 32), (5000, 97)] {
            let hashed: Vec<u32> = (0..length).map(|at| (splitmix(at) % modulus) as u32).collect();
            let rising: Vec<u32> = (0..length as u32).collect();
            let falling: Vec<u32> = (0..length as u32).rev().collect();
            for values in [hashed, rising, falling] {
                let (mut ours, mut theirs) = (values.clone(), values);
                quicksort::<Serial>(&mut (), &mut ours);
                theirs.sort_unstable();
                assert_eq!(ours, theirs);
            }
        }
    }
}
