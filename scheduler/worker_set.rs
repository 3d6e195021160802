//! A set of workers that all of them read often and few of them change.
//!
//! Sixty-four workers share a cache line, which every core keeps a copy of while nobody changes the
//! set. So a look at all workers of a large machine costs a few hits instead of a line for each
//! worker.

use crate::shim::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// A set of workers by their index, with one bit for each. Who sees a change also sees all that
/// happened before it.
pub(crate) struct WorkerSet(Box<[CachePadded<AtomicU64>]>);

fn bit(worker: usize) -> u64 {
    1 << (worker % 64)
}

impl WorkerSet {
    pub(crate) fn new(workers: usize) -> WorkerSet {
        WorkerSet((0..workers.div_ceil(64)).map(|_| CachePadded::default()).collect())
    }

    fn word(&self, worker: usize) -> &AtomicU64 {
        &self.0[worker / 64]
    }

    pub(crate) fn contains(&self, worker: usize) -> bool {
        self.word(worker).load(Ordering::Acquire) & bit(worker) != 0
    }

    /// Does not write if the worker is in the set.
    pub(crate) fn insert(&self, worker: usize) {
        if !self.contains(worker) {
            // MUTANT(worker_set.insert): relaxed
            self.word(worker).fetch_or(bit(worker), Ordering::AcqRel);
        }
    }

    /// Takes a worker out. Returns `false` if it is not in the set; then nothing is written.
    pub(crate) fn remove(&self, worker: usize) -> bool {
        self.contains(worker)
            && self.word(worker).fetch_and(!bit(worker), Ordering::AcqRel) & bit(worker) != 0
    }

    /// Takes out any worker.
    pub(crate) fn take(&self) -> Option<usize> {
        self.iter().find(|worker| self.remove(*worker))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    pub(crate) fn len(&self) -> usize {
        WorkerSet::count([self])
    }

    /// The number of workers that are in any of the sets, each counted once.
    pub(crate) fn count<const N: usize>(sets: [&WorkerSet; N]) -> usize {
        let words = 0..sets[0].0.len();
        let any =
            |at: usize| sets.iter().fold(0, |any, set| any | set.0[at].load(Ordering::Acquire));
        words.map(|at| any(at).count_ones() as usize).sum()
    }

    /// The workers in the set. Reads each word when the iterator comes to it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + Clone {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let next = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (next < 64).then_some(at * 64 + next)
            })
        })
    }

    /// The workers in the set, each once, beginning at one that `start` decides.
    pub(crate) fn round_from(&self, start: usize) -> impl Iterator<Item = usize> + Clone {
        let first = start % self.len().max(1);
        self.iter().skip(first).chain(self.iter().take(first))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_workers_that_were_put_in() {
        let set = WorkerSet::new(130);
        assert_eq!(set.iter().count(), 0);
        for worker in [129, 0, 64, 63, 0] {
            set.insert(worker);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(set.contains(129) && !set.contains(128));
        assert!(set.remove(63) && !set.remove(63) && !set.remove(1));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 64, 129]);
    }

    #[test]
    fn take_empties_a_set_worker_by_worker() {
        let set = WorkerSet::new(130);
        assert_eq!(set.take(), None);
        for worker in [129, 0, 64] {
            set.insert(worker);
        }
        let mut taken: Vec<_> = std::iter::from_fn(|| set.take()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 64, 129]);
        assert!(set.is_empty());
    }

    #[test]
    fn a_worker_in_several_sets_counts_once() {
        let (one, other) = (WorkerSet::new(130), WorkerSet::new(130));
        assert_eq!(WorkerSet::count([&one, &other]), 0);
        for worker in [0, 63, 129] {
            one.insert(worker);
        }
        for worker in [63, 64, 129] {
            other.insert(worker);
        }
        assert_eq!(WorkerSet::count([&one, &other]), 4);
        assert_eq!((one.len(), other.len()), (3, 3));
    }

    #[test]
    fn a_round_comes_to_each_worker_once() {
        let set = WorkerSet::new(130);
        assert_eq!(set.round_from(7).count(), 0);
        [129, 0, 64].into_iter().for_each(|worker| set.insert(worker));
        let round = |start| set.round_from(start).collect::<Vec<_>>();
        assert_eq!([round(0), round(4), round(8)], [[0, 64, 129], [64, 129, 0], [129, 0, 64]]);
    }
}
