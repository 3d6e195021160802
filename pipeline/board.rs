//! The board of a pipeline: the set of places with work, and whether a carrier is on its way to
//! look at the board. run.rs says which carrier may call which method.

use crate::shim::atomic::{AtomicU64, Ordering};

/// A place where there may be work: one or several stages, or the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u32);

impl Place {
    /// The number of stages that can have a place of their own.
    pub(super) const STAGES: u32 = 62;
    /// The source: of the lowest priority.
    pub(super) const SOURCE: Place = Place(Place::STAGES);

    /// Returns the place of the stage that has `behind` stages for one item at a time behind it.
    /// The last stage has the highest priority. From the 63rd on, stages share places.
    pub(super) fn of_stage(behind: u32) -> Place {
        Place(behind % Place::STAGES)
    }

    fn bit(self) -> u64 {
        1 << self.0
    }
}

/// This bit is set while the invitation exists.
const INVITED: u64 = 1 << 63;

/// A set of places, and whether the *invitation* exists. The invitation obliges its holder, a task,
/// to look at the board. If there is a place on the board, the invitation exists: every method
/// preserves that.
pub(super) struct Board(AtomicU64);

impl Board {
    pub(super) fn new() -> Board {
        Board(AtomicU64::new(0))
    }

    /// Puts a place on the board. Returns `true` if the caller has to spawn a carrier that gets the
    /// invitation.
    ///
    /// Release: publishes the caller's work to the carrier that takes the place off.
    #[must_use]
    pub(super) fn announce(&self, place: Place) -> bool {
        self.0.fetch_or(place.bit() | INVITED, Ordering::AcqRel) & INVITED == 0
    }

    /// Takes off the place with the highest priority. For a task without the invitation.
    pub(super) fn next(&self) -> Option<Place> {
        self.change(|word| first(word).map(|place| (word & !place.bit(), place)))
    }

    /// Takes off the place with the highest priority, and with the last one the invitation. For the
    /// carrier that has the invitation. The second part of the result is `true` if the caller has
    /// to hand the invitation to a carrier that it spawns.
    pub(super) fn accept(&self) -> Option<(Place, bool)> {
        self.change(|word| {
            let place = first(word)?;
            let left = word & !place.bit();
            let is_last = left == INVITED;
            Some((if is_last { 0 } else { left }, (place, !is_last)))
        })
    }

    /// Makes an invitation for the calling carrier, which has found no place. Returns `false` if
    /// there is a place or an invitation.
    pub(super) fn invite_oneself(&self) -> bool {
        self.change(|word| (word == 0).then_some((INVITED, ()))).is_some()
    }

    /// Withdraws the invitation of the calling carrier. Returns `false` if there is a place on the
    /// board.
    #[must_use]
    pub(super) fn leave(&self) -> bool {
        self.change(|word| (word == INVITED).then_some((0, ()))).is_some()
    }

    /// Returns whether there seems to be a place.
    pub(super) fn has_places(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !INVITED != 0
    }

    /// Acquire: the caller sees the work in the place that it takes off.
    fn change<T>(&self, to: impl Fn(u64) -> Option<(u64, T)>) -> Option<T> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (new, result) = to(word)?;
            match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(result),
                Err(now) => word = now,
            }
        }
    }
}

fn first(word: u64) -> Option<Place> {
    let places = word & !INVITED;
    (places != 0).then(|| Place(places.trailing_zeros()))
}

#[cfg(all(test, loom))]
mod models {
    use super::{Board, Place};
    use crate::shim::atomic::{AtomicUsize, Ordering};
    use crate::shim::check::{ORDERS, Stage, explore, models};
    use crate::shim::thread::spawn;

    /// Work that lies in two places of a board.
    struct Yard {
        board: Board,
        left: [AtomicUsize; 2],
        done: AtomicUsize,
    }

    impl Yard {
        /// Puts work into a place, and plays every carrier that has to be spawned for it, one after
        /// the other.
        fn put(&self, place: u32) {
            self.left[place as usize].fetch_add(1, Ordering::Relaxed);
            let mut carriers = u32::from(self.board.announce(Place::of_stage(place)));
            while carriers > 0 {
                carriers -= 1;
                self.carry_on(&mut carriers);
            }
        }

        /// Models `Course::carry_on`.
        fn carry_on(&self, carriers: &mut u32) {
            let mut place = self.accept(carriers);
            while let Some(at) = place {
                self.work(at);
                place = self.board.next();
                if place.is_none() && self.board.invite_oneself() {
                    place = self.accept(carriers);
                }
            }
        }

        /// Models `Course::accept`, without the wait.
        fn accept(&self, carriers: &mut u32) -> Option<Place> {
            loop {
                if let Some((place, goes_on)) = self.board.accept() {
                    *carriers += u32::from(goes_on);
                    return Some(place);
                }
                if self.board.leave() {
                    return None;
                }
            }
        }

        fn work(&self, place: Place) {
            // A plain load, as an update would find the newest value in any case: only the board
            // makes work visible that was put there before the announcement.
            let left = &self.left[place.0 as usize];
            let found = left.load(Ordering::Relaxed);
            left.store(0, Ordering::Relaxed);
            self.done.fetch_add(found, Ordering::Relaxed);
        }
    }

    fn two_announce() {
        let yard = Yard {
            board: Board::new(),
            left: [const { () }; 2].map(|()| AtomicUsize::new(0)),
            done: AtomicUsize::new(0),
        };
        let yard = Stage::new(yard);
        let other = spawn(move || yard.put(0));
        yard.put(1);
        other.join().unwrap();
        assert_eq!(yard.done.load(Ordering::Relaxed), 2, "work is forgotten");
        assert!(!yard.board.has_places());
    }

    models! {
        fn loom_whatever_is_announced_is_found() = explore(3, two_announce);

        fn loom_negative_a_board_without_order() = explore(3, two_announce),
            without ORDERS in "pipeline/board.rs", fails: "work is forgotten";
    }
}
