//! What the workers have learnt about the tasks of each spawn place: whether they wait as soon as
//! they start, how long they live, and whether they have enough to do for a worker each.
//!
//! The worker that starts a task runs it for the rest of its life, and the choice is made before
//! the task has computed anything (spread.rs). Most tasks are like earlier tasks of the same spawn
//! place. The workers of a runtime learn together from the fibers that they make: a task that runs
//! to its end without waiting needs none, and is not observed. Spawn places are divided into
//! [`CLASSES`] classes, one for each place as long as they suffice. Two places in one class cost
//! balance, never correctness.

use crate::scheduler::worker::fiber::Observed;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use crate::shim::time::Duration;
use crate::task::record::Record;
use std::cell::Cell;
use std::panic::Location;
use std::ptr;

/// The number of classes of spawn places. Their counts fill a cache line (census.rs).
pub(crate) const CLASSES: usize = 64;

/// The number of classes that are probed for a place.
const PROBES: usize = 8;

/// A task that waits for the first time within this time after its start has computed nothing by
/// then.
const HASTY: Duration = Duration::from_micros(10);
/// Tasks that live less than this are not worth the time that it takes to bring another worker to
/// them.
const BRIEF: Duration = Duration::from_micros(500);
/// Tasks that compute less than this between two waits, on average, are not worth the time that it
/// takes to wake each other across workers.
const TURN: Duration = Duration::from_micros(2);
/// The number of tasks in a row that must show that they need no worker each. Several are
/// necessary, since there are exceptions among tasks that do need one: of tasks that wait for each
/// other, the last ones do not wait; in a pipeline on unequally busy workers, some have little to
/// do; and a stage that starts when there are values computes before it waits.
const UNLIKE: u8 = 4;
/// After this many tasks in a row that have not waited at their start, the tasks of their place are
/// taken not to. In a pipeline, all stages but one or two may find values when they start.
const CALM: u8 = 32;
/// For a place whose tasks need no spreading, one of this many tasks is observed.
const SELDOM: u8 = 16;
/// The bounds of the time for which a worker stands back, which is a tenth of the life of the
/// tasks.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// The number of a spawn place. Several places share a number if there are more than [`CLASSES`] of
/// them, or if many of them have similar hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class(pub(crate) u8);

/// The slot where the search for a place begins. The hash does not depend on where the program lies
/// in memory, so a simulation can be repeated. Fibonacci hashing (Knuth, TAOCP 6.4): the highest
/// bits of a product with 2^64 by the golden ratio.
fn hash(place: &Location<'_>) -> usize {
    let key = u64::from(place.line()) << 16 ^ u64::from(place.column());
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - CLASSES.ilog2())) as usize
}

/// The knowledge about one class, as it lies in a word that all workers share.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Habit {
    /// Some tasks have waited as soon as they had started.
    hasty: bool,
    /// The number of tasks in a row that were seen not to do so; up to [`CALM`].
    calm: u8,
    /// The number of tasks in a row that have ended while no task waited on their worker, or that
    /// had too little to do for a worker each; up to [`UNLIKE`].
    unlike: u8,
    /// The usual length of a task's life, as the logarithm of its nanoseconds; 0 if none has ended.
    life: u8,
}

/// A bit of the word: nothing more is to be learnt about the class, and its tasks are not to be
/// spread.
const LEARNT: u32 = 1 << 31;

impl Habit {
    fn of(word: u32) -> Habit {
        let (unlike, calm) = ((word >> 4) as u8 % 16, (word >> 16) as u8);
        Habit { hasty: word & 1 != 0, calm, unlike, life: (word >> 8) as u8 }
    }

    fn word(self) -> u32 {
        let learnt = if self.life > 0 && !self.spreads() { LEARNT } else { 0 };
        let (unlike, calm) = (u32::from(self.unlike) << 4, u32::from(self.calm) << 16);
        learnt | u32::from(self.hasty) | unlike | calm | u32::from(self.life) << 8
    }

    /// Whether the tasks should be spread before they have computed anything.
    fn spreads(self) -> bool {
        self.hasty && self.unlike < UNLIKE && self.life().is_none_or(|life| life >= BRIEF)
    }

    fn life(self) -> Option<Duration> {
        (self.life > 0).then(|| Duration::from_nanos(1 << self.life))
    }

    /// Moves one step towards the length of a life, so that a single task with a different length
    /// changes little.
    fn learn_life(&mut self, life: Duration) {
        let logarithm = (life.as_nanos() as u64).max(2).ilog2() as u8;
        self.life = match self.life {
            0 => logarithm,
            usual if usual < logarithm => usual + 1,
            usual => usual - u8::from(usual > logarithm),
        };
    }
}

/// The knowledge of the workers of a runtime; see the module's documentation. Written without
/// order, each word as a whole, and only if something is new: of two simultaneous writes one is
/// lost, and learnt again.
pub(crate) struct Habits {
    /// Whether the tasks of any class were ever to be spread.
    any: AtomicBool,
    slots: [Slot; CLASSES],
}

/// A place, null until one takes the slot, and the knowledge about it.
struct Slot {
    place: AtomicPtr<Location<'static>>,
    habit: AtomicU32,
}

impl Habits {
    pub(crate) fn new() -> Habits {
        let slot = || Slot { place: AtomicPtr::new(ptr::null_mut()), habit: AtomicU32::new(0) };
        Habits { any: AtomicBool::new(false), slots: std::array::from_fn(|_| slot()) }
    }

    /// The class of a task's spawn place.
    #[inline]
    pub(crate) fn class_of(&self, task: &Record) -> Class {
        let (place, hash) = (task.spawned_at, hash(task.spawned_at));
        if ptr::eq(self.slots[hash].place.load(Ordering::Relaxed), place) {
            return Class(hash as u8);
        }
        self.find_class(place, hash)
    }

    #[cold]
    fn find_class(&self, place: &'static Location<'static>, hash: usize) -> Class {
        let relaxed = Ordering::Relaxed;
        let new = ptr::from_ref(place).cast_mut();
        for at in (hash..hash + PROBES).map(|at| at % CLASSES) {
            let slot = &self.slots[at].place;
            let mut found = slot.load(relaxed);
            if found.is_null() {
                let taken = slot.compare_exchange(ptr::null_mut(), new, relaxed, relaxed);
                found = taken.err().unwrap_or(new);
            }
            if found == new {
                return Class(at as u8);
            }
        }
        Class(hash as u8)
    }

    fn of(&self, class: Class) -> Habit {
        Habit::of(self.slots[usize::from(class.0)].habit.load(Ordering::Relaxed))
    }

    fn change(&self, class: Class, f: impl FnOnce(&mut Habit)) {
        let before = self.of(class);
        let mut habit = before;
        f(&mut habit);
        if habit != before {
            self.slots[usize::from(class.0)].habit.store(habit.word(), Ordering::Relaxed);
            if habit.spreads() && !self.any_spreads() {
                self.any.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether the tasks of any class may have to be spread.
    #[inline(always)]
    pub(crate) fn any_spreads(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether the tasks of this class should be spread.
    #[inline]
    pub(crate) fn spreads(&self, class: Class) -> bool {
        self.of(class).spreads()
    }

    /// Whether nothing is to be learnt about this class, save now and then.
    #[inline]
    pub(crate) fn is_learnt(&self, class: Class) -> bool {
        self.slots[usize::from(class.0)].habit.load(Ordering::Relaxed) & LEARNT != 0
    }

    /// Learns that a task has waited for the first time, `after` this time since its start. Returns
    /// `true` if that was as soon as it had started.
    pub(crate) fn learn_wait(&self, class: Class, after: Duration) -> bool {
        let hasty = after <= HASTY;
        if hasty {
            self.change(class, |habit| (habit.hasty, habit.calm) = (true, 0));
        }
        hasty
    }

    /// Learns from the end of an observed task. `idle` is how much of its `life` its worker had
    /// nothing to do, and `parks` is how often tasks have waited there meanwhile.
    pub(crate) fn learn_end(&self, task: &Observed, life: Duration, idle: Duration, parks: u64) {
        self.change(Class(task.class), |habit| {
            habit.learn_life(life);
            let computed = life.saturating_sub(idle);
            let turns = u32::try_from(parks).unwrap_or(u32::MAX);
            let busy = computed >= life / 8 && computed >= TURN.saturating_mul(turns);
            let unlike = parks == 0 || !busy;
            habit.unlike = if unlike { UNLIKE.min(habit.unlike + 1) } else { 0 };
            // A first wait while other tasks were ready is not seen.
            if task.hasty == Some(false) || parks == 0 {
                habit.calm = CALM.min(habit.calm + 1);
                habit.hasty &= habit.calm < CALM;
            }
        });
    }

    /// How long a worker that has its share of this class stands back.
    pub(crate) fn patience(&self, class: Class) -> Duration {
        self.of(class).life().map_or(LONGEST, |life| (life / 10).clamp(SHORTEST, LONGEST))
    }
}

/// The part of this knowledge that each worker has for itself.
pub(crate) struct Accounts {
    /// The number of tasks of learnt classes that may still be begun without being observed.
    unobserved: Cell<u8>,
    tolerances: [Cell<Tolerance>; CLASSES],
}

/// The tolerated excess of one class.
#[derive(Clone, Copy)]
struct Tolerance {
    /// The number of tasks that may be here whatever the others have.
    most: u8,
    /// By how much that number exceeds the tasks here the next time.
    step: u8,
}

impl Tolerance {
    const NONE: Tolerance = Tolerance { most: 0, step: 1 };
}

impl Accounts {
    pub(crate) fn new() -> Accounts {
        Accounts {
            unobserved: Cell::new(0),
            tolerances: [const { Cell::new(Tolerance::NONE) }; CLASSES],
        }
    }

    /// Whether the task of a learnt class that is begun now is to be observed all the same.
    #[inline]
    pub(crate) fn is_sample(&self) -> bool {
        let left = self.unobserved.get();
        self.unobserved.set(if left == 0 { SELDOM - 1 } else { left - 1 });
        left == 0
    }

    fn tolerance(&self, class: Class) -> &Cell<Tolerance> {
        &self.tolerances[usize::from(class.0)]
    }

    /// The number of tasks of this class that may be here whatever the others have.
    pub(crate) fn tolerated(&self, class: Class) -> u8 {
        self.tolerance(class).get().most
    }

    /// Tolerates more than `here`, since the other workers have not come to take theirs, and
    /// doubles the step for the next time.
    pub(crate) fn tolerate(&self, class: Class, here: u8) {
        let step = self.tolerance(class).get().step;
        let most = here.saturating_add(step);
        self.tolerance(class).set(Tolerance { most, step: step.saturating_mul(2) });
    }

    /// Tolerates nothing from now on: no task of the class is here any more.
    pub(crate) fn forget_tolerance(&self, class: Class) {
        self.tolerance(class).set(Tolerance::NONE);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    fn class_at(habits: &Habits, place: &'static Location<'static>) -> Class {
        habits.find_class(place, hash(place))
    }

    /// Ends a task that has lived for `life`, on a worker that was never idle meanwhile and where
    /// tasks have waited `parks` times.
    fn ends(habits: &Habits, class: Class, hasty: bool, life: Duration, parks: u64) {
        let hasty = Some(hasty);
        let (idle, task) = (Duration::ZERO, ptr::null());
        let began = None;
        let task = Observed { class: class.0, task, waited: true, hasty, began, idle, parks: 0 };
        habits.learn_end(&task, life, idle, parks);
    }

    #[test]
    fn each_place_has_a_class_of_its_own() {
        let habits = Habits::new();
        let places = [here(), here(), here(), here()];
        let classes = places.map(|place| class_at(&habits, place).0);
        assert_eq!(places.map(|place| class_at(&habits, place).0), classes);
        assert_eq!(HashSet::from(classes).len(), places.len(), "{classes:?}");
    }

    #[test]
    fn tasks_that_wait_at_once_are_spread_until_known_to_live_short() {
        let habits = Habits::new();
        let class = class_at(&habits, here());
        assert!(!habits.spreads(class) && !habits.is_learnt(class) && !habits.any_spreads());
        assert!(!habits.learn_wait(class, MS));
        assert!(!habits.spreads(class));
        assert!(habits.learn_wait(class, US));
        assert!(habits.spreads(class) && habits.any_spreads());
        ends(&habits, class, true, 100 * US, 1);
        assert!(!habits.spreads(class) && habits.is_learnt(class));
        // The next tasks live longer and longer.
        (0..4).for_each(|_| ends(&habits, class, true, 100 * MS, 1));
        assert!(habits.spreads(class) && !habits.is_learnt(class));
    }

    #[test]
    fn tasks_that_hardly_compute_are_not_spread_until_one_computes_again() {
        let habits = Habits::new();
        let class = class_at(&habits, here());
        habits.learn_wait(class, US);
        for left in (0..UNLIKE).rev() {
            // One microsecond a turn.
            ends(&habits, class, true, 10 * MS, 10_000);
            assert_eq!(habits.spreads(class), left > 0);
        }
        ends(&habits, class, true, 10 * MS, 100);
        assert!(habits.spreads(class));
        // The last task at a barrier does not wait.
        ends(&habits, class, false, 10 * MS, 0);
        assert!(habits.spreads(class));
    }

    #[test]
    fn tasks_that_compute_before_they_wait_are_spread_no_longer() {
        let habits = Habits::new();
        let class = class_at(&habits, here());
        habits.learn_wait(class, US);
        for left in (0..CALM).rev() {
            ends(&habits, class, false, 10 * MS, 100);
            assert_eq!(habits.spreads(class), left > 0);
        }
        // This holds until one waits at once again, whatever ends after that.
        habits.learn_wait(class, US);
        ends(&habits, class, false, 10 * MS, 100);
        assert!(habits.spreads(class));
    }

    #[test]
    fn a_worker_stands_back_for_a_tenth_of_a_life_within_bounds() {
        let habits = Habits::new();
        let class = class_at(&habits, here());
        assert_eq!(habits.patience(class), LONGEST);
        ends(&habits, class, true, Duration::from_nanos(1 << 22), 1);
        assert_eq!(habits.patience(class), Duration::from_nanos((1 << 22) / 10));
        (0..20).for_each(|_| ends(&habits, class, true, US, 1));
        assert_eq!(habits.patience(class), SHORTEST);
    }

    #[test]
    fn the_tolerated_number_grows_until_no_task_is_left() {
        let (accounts, class) = (Accounts::new(), Class(7));
        let tolerated = |here| {
            accounts.tolerate(class, here);
            accounts.tolerated(class)
        };
        assert_eq!([2, 3, 5, 9].map(tolerated), [3, 5, 9, 17]);
        assert_eq!(accounts.tolerated(Class(8)), 0);
        accounts.forget_tolerance(class);
        assert_eq!((accounts.tolerated(class), tolerated(4)), (0, 5));
    }

    #[test]
    fn one_of_sixteen_tasks_of_a_learnt_class_is_observed() {
        let accounts = Accounts::new();
        let samples: Vec<_> = (0..64).filter(|_| accounts.is_sample()).collect();
        assert_eq!(samples, [0, 16, 32, 48]);
    }
}
