//! The ids of tasks, and random numbers.

use crate::shim::{self, Numbers};
use std::cell::Cell;

/// Ids are fetched from the global counter in blocks.
const ID_BLOCK: u64 = 1024;

/// The ids that a worker gives to tasks.
#[derive(Default)]
pub(crate) struct Ids {
    next: Cell<u64>,
    /// The end of the present block.
    end: Cell<u64>,
}

impl Ids {
    /// Returns the next id. Only each 1,024th call executes a locked instruction.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let mut next = self.next.get();
        if next == self.end.get() {
            next = fetch_ids(ID_BLOCK);
            self.end.set(next + ID_BLOCK);
        }
        self.next.set(next + 1);
        next
    }
}

/// Takes `n` ids from the process's counter.
pub(crate) fn fetch_ids(n: u64) -> u64 {
    static NEXT: Numbers = Numbers::from(1);
    NEXT.take(n)
}

/// A random number generator for choices that need no quality (xorshift64*, Vigna 2016).
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new() -> Random {
        Random(Cell::new(shim::entropy() | 1))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn two_workers_never_give_out_the_same_id() {
        let (a, b) = (Ids::default(), Ids::default());
        let three = |_| [a.next(), b.next(), fetch_ids(1)];
        let ids: HashSet<u64> = (0..3 * ID_BLOCK).flat_map(three).collect();
        assert_eq!(ids.len() as u64, 3 * 3 * ID_BLOCK);
    }

    #[test]
    fn random_numbers_fall_into_eight_boxes_equally_often() {
        let random = Random(Cell::new(1));
        let mut boxes = [0; 8];
        (0..8000).for_each(|_| boxes[(random.next() % 8) as usize] += 1);
        assert!(boxes.iter().all(|count| (800..1200).contains(count)), "{boxes:?}");
    }
}
