//! What the workers have learnt of the tasks of each spawn place: whether they wait as soon as they
//! start, how long they live, and whether they have enough to do for a worker each.
//!
//! Who starts a task decides where it computes for the rest of its life, before it has computed
//! anything (spread.rs). Most tasks are like those that were spawned at the same place before. The
//! workers of a runtime learn together from the coroutines that they make: a task that runs to its
//! end without waiting needs none, and is not observed. There are [`CLASSES`] classes of places,
//! one for each place as long as there are not more; two places in one class cost balance, never
//! correctness.

use crate::scheduler::worker::fiber::Observed;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use crate::shim::time::Duration;
use crate::task::record::Record;
use std::cell::Cell;
use std::panic::Location;
use std::ptr;

/// Classes of spawn places. Their counts fill a cache line (see crowd.rs).
pub(crate) const CLASSES: usize = 64;

/// So many classes are looked at for a place.
const PROBES: usize = 8;

/// A task that waits for the first time so soon after its start has computed nothing by then.
const HASTY: Duration = Duration::from_micros(10);
/// Tasks that live less are not worth the time that it takes to bring another worker to them.
const BRIEF: Duration = Duration::from_micros(500);
/// Tasks that compute for less between two waits, in the mean, are not worth the time that it takes
/// to wake each other from another worker.
const TURN: Duration = Duration::from_micros(2);
/// So many in a fork list have to show that they need no worker each. Of those that wait for each other
/// some are the last, which do not wait; in a pipeline on workers that are not equally busy some
/// have little to do; and a stage that starts when there are values computes before it waits.
const UNLIKE: u8 = 4;
/// When so many tasks in a fork list have not waited at their start, their place is taken for one whose
/// tasks do not. Of a pipeline's stages all but one or two may find values when they start.
const CALM: u8 = 32;
/// Of a place whose tasks need no spreading so many are begun for one that is observed.
const SELDOM: u8 = 16;
/// The bounds of the time for which a worker stands back, which is a tenth of their life.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// A spawn place by its number; or several, if there are more than [`CLASSES`], or they are many
/// and their hashes alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class(pub(crate) u8);

/// Where the number of a place is looked for: what does not depend on where the program lies in
/// memory, so that a simulation can be repeated. Fibonacci hashing (Knuth, TAOCP 6.4): the highest
/// bits of a product with 2^64 by the golden ratio.
fn hash(place: &Location<'_>) -> usize {
    let key = u64::from(place.line()) << 16 ^ u64::from(place.column());
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - CLASSES.ilog2())) as usize
}

/// What is known of one class, as it lies in a word that all workers share.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Habit {
    /// Some have waited as soon as they had started.
    hasty: bool,
    /// How many of which that was seen have not, in a fork list; up to [`CALM`].
    calm: u8,
    /// How many in a fork list have ended while nothing waited on their worker, or had too little to do for
    /// a worker each; up to [`UNLIKE`].
    unlike: u8,
    /// The usual length of their lives: the logarithm of its nanoseconds; 0 if none has ended.
    life: u8,
}

/// In the word: nothing more is to be learnt of the class, and its tasks are not to be spread.
const SETTLED: u32 = 1 << 31;

impl Habit {
    fn of(word: u32) -> Habit {
        let (unlike, calm) = ((word >> 4) as u8 % 16, (word >> 16) as u8);
        Habit { hasty: word & 1 != 0, calm, unlike, life: (word >> 8) as u8 }
    }

    fn word(self) -> u32 {
        let settled = if self.life > 0 && !self.spreads() { SETTLED } else { 0 };
        let (unlike, calm) = (u32::from(self.unlike) << 4, u32::from(self.calm) << 16);
        settled | u32::from(self.hasty) | unlike | calm | u32::from(self.life) << 8
    }

    /// Whether these tasks are to be spread before they have computed anything.
    fn spreads(self) -> bool {
        self.hasty && self.unlike < UNLIKE && self.life().is_none_or(|life| life >= BRIEF)
    }

    fn life(self) -> Option<Duration> {
        (self.life > 0).then(|| Duration::from_nanos(1 << self.life))
    }

    /// Goes one step towards the length of a life, so that a single one of another length changes
    /// little.
    fn learn_life(&mut self, life: Duration) {
        let logarithm = (life.as_nanos() as u64).max(2).ilog2() as u8;
        self.life = match self.life {
            0 => logarithm,
            usual if usual < logarithm => usual + 1,
            usual => usual - u8::from(usual > logarithm),
        };
    }
}

/// What the workers of a runtime have learnt: see the module's documentation. Written without
/// order, each word as a whole, and only if something is new: what two write at once is lost in
/// part, and learnt again.
pub(crate) struct Habits {
    /// Whether tasks of any class were ever to be spread.
    any: AtomicBool,
    slots: [Slot; CLASSES],
}

/// A place, null before the first one has come, and what is known of it.
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

    /// Whether tasks of any class may have to be spread.
    #[inline(always)]
    pub(crate) fn any_spreads(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether tasks of this class are to be spread.
    #[inline]
    pub(crate) fn spreads(&self, class: Class) -> bool {
        self.of(class).spreads()
    }

    /// Whether nothing is to be learnt of this class, save now and then.
    #[inline]
    pub(crate) fn is_settled(&self, class: Class) -> bool {
        self.slots[usize::from(class.0)].habit.load(Ordering::Relaxed) & SETTLED != 0
    }

    /// A task has waited so long after its start. Returns `true` if that was as soon as it had
    /// started.
    pub(crate) fn learn_wait(&self, class: Class, after: Duration) -> bool {
        let hasty = after <= HASTY;
        if hasty {
            self.change(class, |habit| (habit.hasty, habit.calm) = (true, 0));
        }
        hasty
    }

    /// A task has ended that was observed. `idle`: for how much of its `life` its worker had
    /// nothing to do; `parks`: how often tasks have waited there meanwhile.
    pub(crate) fn learn_end(&self, task: &Observed, life: Duration, idle: Duration, parks: u64) {
        self.change(Class(task.class), |habit| {
            habit.learn_life(life);
            let computed = life.saturating_sub(idle);
            let turns = u32::try_from(parks).unwrap_or(u32::MAX);
            let busy = computed >= life / 8 && computed >= TURN.saturating_mul(turns);
            let unlike = parks == 0 || !busy;
            habit.unlike = if unlike { UNLIKE.min(habit.unlike + 1) } else { 0 };
            // A first wait while others were ready is not seen.
            if task.hasty == Some(false) || parks == 0 {
                habit.calm = CALM.min(habit.calm + 1);
                habit.hasty &= habit.calm < CALM;
            }
        });
    }

    /// For how long a worker stands back that has its share of this class.
    pub(crate) fn patience(&self, class: Class) -> Duration {
        self.of(class).life().map_or(LONGEST, |life| (life / 10).clamp(SHORTEST, LONGEST))
    }
}

/// What one worker keeps of its own.
pub(crate) struct Accounts {
    /// So many tasks of settled classes may still be begun without being observed.
    unobserved: Cell<u8>,
    tolerances: [Cell<Tolerance>; CLASSES],
}

/// Of what is here for each class.
#[derive(Clone, Copy)]
struct Tolerance {
    /// So many may be here whatever the others have, ...
    most: u8,
    /// ... and so many more the next time.
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

    /// Whether the task of a settled class that is begun now is to be observed all the same.
    #[inline]
    pub(crate) fn is_sample(&self) -> bool {
        let left = self.unobserved.get();
        self.unobserved.set(if left == 0 { SELDOM - 1 } else { left - 1 });
        left == 0
    }

    fn tolerance(&self, class: Class) -> &Cell<Tolerance> {
        &self.tolerances[usize::from(class.0)]
    }

    /// So many of this class may be here whatever the others have.
    pub(crate) fn tolerated(&self, class: Class) -> u8 {
        self.tolerance(class).get().most
    }

    /// The others have not come to take theirs: tolerates more than `here`, and twice as many more
    /// the next time.
    pub(crate) fn tolerate(&self, class: Class, here: u8) {
        let step = self.tolerance(class).get().step;
        let most = here.saturating_add(step);
        self.tolerance(class).set(Tolerance { most, step: step.saturating_mul(2) });
    }

    /// None is here any more: nothing is tolerated from now on.
    pub(crate) fn forget_tolerance(&self, class: Class) {
        self.tolerance(class).set(Tolerance::NONE);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    fn class_at(habits: &Habits, place: &'static Location<'static>) -> Class {
        habits.find_class(place, hash(place))
    }

    /// A task that has lived so long, while tasks have waited so often, and whose worker was never
    /// idle.
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
        let mut sorted = classes;
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "{classes:?}");
    }

    #[test]
    fn tasks_that_wait_as_soon_as_they_start_are_spread_until_it_is_known_that_they_live_short() {
        let habits = Habits::new();
        let class = class_at(&habits, here());
        assert!(!habits.spreads(class) && !habits.is_settled(class) && !habits.any_spreads());
        assert!(!habits.learn_wait(class, MS));
        assert!(!habits.spreads(class));
        assert!(habits.learn_wait(class, US));
        assert!(habits.spreads(class) && habits.any_spreads());
        ends(&habits, class, true, 100 * US, 1);
        assert!(!habits.spreads(class) && habits.is_settled(class));
        // The others live longer and longer.
        (0..4).for_each(|_| ends(&habits, class, true, 100 * MS, 1));
        assert!(habits.spreads(class) && !habits.is_settled(class));
    }

    #[test]
    fn tasks_that_hardly_compute_are_spread_no_longer_and_one_that_does_brings_it_back() {
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
        // The last one of a barrier does not wait.
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
        // Until one waits at once again, whichever ends after that.
        habits.learn_wait(class, US);
        ends(&habits, class, false, 10 * MS, 100);
        assert!(habits.spreads(class));
    }

    #[test]
    fn a_worker_stands_back_for_a_tenth_of_their_lives_within_bounds() {
        let habits = Habits::new();
        let class = class_at(&habits, here());
        assert_eq!(habits.patience(class), LONGEST);
        ends(&habits, class, true, Duration::from_nanos(1 << 22), 1);
        assert_eq!(habits.patience(class), Duration::from_nanos((1 << 22) / 10));
        (0..20).for_each(|_| ends(&habits, class, true, US, 1));
        assert_eq!(habits.patience(class), SHORTEST);
    }

    #[test]
    fn more_and_more_are_tolerated_until_none_is_left() {
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
    fn one_of_sixteen_tasks_is_observed_where_nothing_is_to_be_learnt() {
        let accounts = Accounts::new();
        let samples: Vec<_> = (0..64).filter(|_| accounts.is_sample()).collect();
        assert_eq!(samples, [0, 16, 32, 48]);
    }
}
