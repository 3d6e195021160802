//! Which workers are near each other.
//!
//! A worker's thread may move between processors at any time, and rarely moves far. A worker notes
//! where it runs when it begins to search: it enters the set of the workers of its group, and
//! leaves the set of the group that it was in. So the sets may be wrong for a while. They only say
//! where to look first, and no promise depends on them: a searcher also looks at random workers of
//! all, and before a worker sleeps, it or the last searcher looks at all of them (idle.rs).
//!
//! What lies near is cheaper to take: the queue and the record move a shorter way, and so do the
//! victim's data, which the task will probably read.

use crate::scheduler::steal::idle::FEW;
use crate::scheduler::steal::topology::{Division, divisions};
use crate::scheduler::worker_set::WorkerSet;
use crate::shim::processor;
use std::cell::Cell;

/// The neighbourhoods of a runtime's workers. There are none if all processors are equally near.
pub(crate) struct Neighbourhoods(Box<[Neighbourhood]>);

/// A division of the processors, and the workers that run in each group.
struct Neighbourhood {
    division: Division,
    workers: Box<[WorkerSet]>,
}

/// The processor on which a worker has last begun to search.
#[derive(Default)]
pub(crate) struct Place(Cell<Option<usize>>);

impl Neighbourhoods {
    pub(crate) fn new(workers: usize) -> Neighbourhoods {
        Neighbourhoods::by(workers, if workers <= FEW { Vec::new() } else { divisions() })
    }

    fn by(workers: usize, divisions: Vec<Division>) -> Neighbourhoods {
        let of = |division: Division| {
            let workers = (0..division.groups).map(|_| WorkerSet::new(workers)).collect();
            Neighbourhood { division, workers }
        };
        Neighbourhoods(divisions.into_iter().map(of).collect())
    }

    /// Notes where the calling worker runs.
    pub(crate) fn note(&self, worker: usize, place: &Place) {
        if !self.0.is_empty() {
            self.moved(worker, place, processor());
        }
    }

    /// Notes that `worker` runs on the processor `now`.
    fn moved(&self, worker: usize, place: &Place, now: Option<usize>) {
        let before = place.0.replace(now);
        if now == before {
            return;
        }
        for Neighbourhood { division, workers } in &self.0 {
            let group = |processor: Option<usize>| division.group(processor?);
            let (from, to) = (group(before), group(now));
            if from != to {
                from.into_iter().for_each(|from| _ = workers[from].remove(worker));
                to.into_iter().for_each(|to| workers[to].insert(worker));
            }
        }
    }

    /// The sets of the workers that are near a place, the nearest first.
    pub(crate) fn near(&self, place: &Place) -> impl Iterator<Item = &WorkerSet> + Clone {
        let processor = place.0.get();
        let near = move |of: &'_ Neighbourhood| of.division.group(processor?);
        self.0.iter().filter_map(move |of| near(of).map(|group| &of.workers[group]))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The neighbourhoods of 16 workers on as many processors, in blocks of these sizes.
    fn of(sizes: &[usize]) -> Neighbourhoods {
        let divisions = sizes.iter().map(|size| Division::of_blocks(16, *size)).collect();
        Neighbourhoods::by(16, divisions)
    }

    fn near(all: &Neighbourhoods, place: &Place) -> Vec<Vec<usize>> {
        all.near(place).map(|workers| workers.iter().collect()).collect()
    }

    #[test]
    fn a_worker_is_in_the_sets_of_the_processor_that_it_was_last_seen_on() {
        let (all, places) = (of(&[4, 8]), [const { Place(Cell::new(None)) }; 3]);
        assert_eq!(near(&all, &places[0]), Vec::<Vec<usize>>::new());
        all.moved(0, &places[0], Some(0));
        all.moved(1, &places[1], Some(3));
        all.moved(2, &places[2], Some(4));
        assert_eq!(near(&all, &places[0]), [vec![0, 1], vec![0, 1, 2]]);
        assert_eq!(near(&all, &places[2]), [vec![2], vec![0, 1, 2]]);
        all.moved(1, &places[1], Some(15));
        assert_eq!(near(&all, &places[0]), [vec![0], vec![0, 2]]);
        assert_eq!(near(&all, &places[1]), [vec![1], vec![1]]);
    }

    #[test]
    fn a_worker_on_a_processor_that_is_in_no_group_has_no_neighbours() {
        let (all, place) = (of(&[4]), Place::default());
        all.moved(7, &place, Some(2));
        for nowhere in [Some(16), Some(usize::MAX), None] {
            all.moved(7, &place, nowhere);
            assert_eq!(near(&all, &place), Vec::<Vec<usize>>::new());
        }
        all.moved(7, &place, Some(2));
        assert_eq!(near(&all, &place), [[7]]);
    }

    #[test]
    fn few_workers_have_no_neighbourhoods() {
        assert!(Neighbourhoods::new(FEW).0.is_empty());
    }
}
