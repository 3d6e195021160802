//! A hierarchical timing wheel (Varghese and Lauck, 1987). Setting and removing a timer takes a
//! constant number of steps, however many timers there are (setting one: amortised, as a full slot
//! is reallocated).
//!
//! Time is counted in ticks. Level 0 has a slot for each of the next 64 ticks, level 1 a slot for
//! each 64 ticks, and so on. A timer lies in the level of the highest digit (to the base 64) in
//! which its time differs from the present, in the slot of that digit. When the present reaches a
//! slot of a higher level, the timers of that slot are distributed over the lower levels; so a
//! timer moves down at most once for each level. Timers beyond the reach of the wheel wait in its
//! last slot.
//!
//! A slot is a vector of times and pointers, and each timer knows its place in it. Timers lie on
//! the stacks of sleeping tasks, far from each other and cold in the cache. Distributing a slot
//! reads the times from one piece of memory, and waits for no access to a timer (a linked list
//! through a million of them took three times as long).
//!
//! One word for each level says which slots are not empty. So the next slot is found at once, and
//! advancing over an empty stretch of time costs nothing.

use std::cell::Cell;
use std::ptr::{self, NonNull};

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// With ticks of 65.5 us the wheel reaches 575 years.
const LEVELS: usize = 8;
/// The greatest distance from the present at which a slot of the last level is still unambiguous.
const REACH: u64 = (SLOTS as u64 - 1) << (BITS * (LEVELS as u32 - 1));
/// Items for which an empty slot keeps its memory.
const ROOM: usize = 64;

/// A timer that a wheel can hold. Its user owns the memory.
pub(super) trait Timed {
    fn entry(&self) -> &Entry;
}

/// The part of a timer that the wheel uses.
pub(super) struct Entry {
    /// The tick at which it is due.
    at: Cell<u64>,
    /// Level and slot; [`OUT`] if it is in no wheel.
    place: Cell<u32>,
    /// Index in the slot.
    index: Cell<u32>,
}

const OUT: u32 = u32::MAX;

impl Entry {
    pub(super) fn new(at: u64) -> Entry {
        Entry { at: Cell::new(at), place: Cell::new(OUT), index: Cell::new(0) }
    }

    pub(super) fn at(&self) -> u64 {
        self.at.get()
    }

    /// Sets the tick of a timer that is in no wheel.
    pub(super) fn set_at(&self, at: u64) {
        self.at.set(at);
    }

    pub(super) fn is_in(&self) -> bool {
        self.place.get() != OUT
    }
}

/// An item of a slot: when the timer is due, and where it is.
struct Item<T> {
    at: u64,
    timer: NonNull<T>,
}

impl<T> Item<T> {
    fn timer(&self) -> &T {
        // SAFETY: a timer in the wheel stays in place, as the caller of `insert` has promised.
        unsafe { self.timer.as_ref() }
    }
}

struct Level<T> {
    /// A bit for each slot that is not empty.
    occupied: u64,
    /// All slots, or none before the first timer: few workers ever use more than two levels, and a
    /// runtime starts and ends sooner without 12 KB for each worker.
    slots: Vec<Vec<Item<T>>>,
}

impl<T> Level<T> {
    #[cold]
    fn make_slots(&mut self) {
        self.slots.resize_with(SLOTS, Vec::new);
    }
}

/// A timing wheel.
pub(super) struct Wheel<T> {
    /// All timers that were due at this tick or before have been taken out.
    now: u64,
    len: usize,
    /// The level in which `advance` has stopped half-way, if it has. The items that it left in
    /// that slot are due, though other items of the same slot may lie in a lower level by now.
    stopped: usize,
    levels: [Level<T>; LEVELS],
}

impl<T: Timed> Wheel<T> {
    pub(super) fn new() -> Wheel<T> {
        let level = |_| Level { occupied: 0, slots: Vec::new() };
        Wheel { now: 0, len: 0, stopped: 0, levels: std::array::from_fn(level) }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Enters a timer. A timer that is due already fires at the next tick.
    ///
    /// # Safety
    /// The timer is in no wheel, stays in place, and is removed before its memory is used for
    /// anything else.
    ///
    /// # Panics
    /// With 4 billion timers in one slot.
    pub(super) unsafe fn insert(&mut self, timer: &T) {
        self.place(Item { at: timer.entry().at(), timer: NonNull::from(timer) });
        self.len += 1;
    }

    fn place(&mut self, item: Item<T>) {
        let at = item.at.clamp(self.now + 1, self.now + REACH);
        let level = ((at ^ self.now).ilog2() / BITS).min(LEVELS as u32 - 1);
        let slot = (at >> (level * BITS)) as usize % SLOTS;
        let row = &mut self.levels[level as usize];
        if row.slots.is_empty() {
            row.make_slots();
        }
        let index = u32::try_from(row.slots[slot].len()).expect("a slot is not so large");
        let links = item.timer().entry();
        links.index.set(index);
        links.place.set(level << BITS | slot as u32);
        row.slots[slot].push(item);
        row.occupied |= 1 << slot;
    }

    /// Takes a timer out. Returns `false` if it is in no wheel.
    ///
    /// # Panics
    /// If the timer is in another wheel.
    pub(super) fn remove(&mut self, timer: &T) -> bool {
        let entry = timer.entry();
        let place = entry.place.get();
        if place == OUT {
            return false;
        }
        let (level, slot) = ((place >> BITS) as usize, place as usize % SLOTS);
        let row = &mut self.levels[level];
        let items = &mut row.slots[slot];
        let index = entry.index.get() as usize;
        assert!(ptr::eq(items[index].timer.as_ptr(), timer), "the timer is in another wheel");
        entry.place.set(OUT);
        items.swap_remove(index);
        if let Some(moved) = items.get(index) {
            moved.timer().entry().index.set(index as u32);
        }
        if items.is_empty() {
            row.occupied &= !(1 << slot);
        }
        if items.len() < items.capacity() / 4 {
            // Shrinks by half, so the next reallocation is at least as many steps away.
            items.shrink_to(ROOM.max(items.capacity() / 2));
        }
        self.len -= 1;
        true
    }

    /// The first slot that is not empty: its level, its number, and the tick at which it begins.
    fn first(&self) -> Option<(usize, usize, u64)> {
        let digit_at = |level: usize| (self.now >> (level as u32 * BITS)) as usize % SLOTS;
        // The slot of the present is empty, unless `advance` has stopped in it.
        let is_left = self.levels[self.stopped].occupied >> digit_at(self.stopped) & 1 == 1;
        // A lower level ends before the next slot of a higher one begins.
        let lowest = || self.levels.iter().position(|row| row.occupied != 0);
        let level = if is_left { self.stopped } else { lowest()? };
        let (shift, digit, row) = (level as u32 * BITS, digit_at(level), &self.levels[level]);
        // Looks at the slots from that of the present on, and then, in the last level alone, at
        // the slots before it.
        let ahead = row.occupied.rotate_right(digit as u32).trailing_zeros() as usize;
        let slot = (digit + ahead) % SLOTS;
        let begin = ((self.now >> shift) + ahead as u64) << shift;
        Some((level, slot, begin))
    }

    /// A tick before which nothing is due, and at which something may be.
    pub(super) fn next(&self) -> Option<u64> {
        self.first().map(|(_, _, begin)| begin.max(self.now + 1))
    }

    /// Advances to tick `to`, and takes out the timers that are due by then, in the order of their
    /// ticks. Timers of the same tick come in any order. The caller may reuse the memory of a
    /// timer that it is given. After `most` timers it stops half-way and returns `false`.
    pub(super) fn advance(&mut self, to: u64, mut most: usize, mut due: impl FnMut(&T)) -> bool {
        while let Some((level, slot, begin)) = self.first()
            && begin <= to
        {
            self.now = begin.max(self.now);
            // A timer that is not due goes to a lower level or, if it is too far away, to the slot
            // before this one. So the loop ends.
            while let Some(item) = self.levels[level].slots[slot].pop() {
                let items = &mut self.levels[level].slots[slot];
                if item.at > self.now {
                    self.place(item);
                    continue;
                }
                if most == 0 {
                    items.push(item);
                    self.stopped = level;
                    return false;
                }
                most -= 1;
                self.len -= 1;
                item.timer().entry().place.set(OUT);
                due(item.timer());
            }
            let row = &mut self.levels[level];
            row.occupied &= !(1 << slot);
            row.slots[slot].shrink_to(ROOM);
        }
        self.now = self.now.max(to);
        true
    }

    /// Takes out all timers, due or not. The caller may reuse the memory of a timer that it is
    /// given.
    pub(super) fn clear(&mut self, mut out: impl FnMut(&T)) {
        for row in &mut self.levels {
            for item in row.slots.iter_mut().flat_map(std::mem::take) {
                item.timer().entry().place.set(OUT);
                out(item.timer());
            }
            row.occupied = 0;
        }
        self.len = 0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Timed for Entry {
        fn entry(&self) -> &Entry {
            self
        }
    }

    fn advance(wheel: &mut Wheel<Entry>, to: u64) -> Vec<u64> {
        let mut fired = Vec::new();
        while !wheel.advance(to, 3, |entry| fired.push(entry.at())) {}
        fired
    }

    fn insert(wheel: &mut Wheel<Entry>, entry: &Entry) {
        // SAFETY: the entries of a test outlive its wheel.
        unsafe { wheel.insert(entry) };
    }

    #[test]
    fn each_timer_fires_at_its_tick_whatever_its_level() {
        let times = [1, 2, 63, 64, 65, 4095, 4096, 4097, 1 << 20, 1 << 40];
        let entries: Vec<_> = times.iter().map(|at| Entry::new(*at)).collect();
        let mut wheel = Wheel::new();
        entries.iter().for_each(|entry| insert(&mut wheel, entry));
        for at in times {
            assert!(advance(&mut wheel, at - 1).is_empty(), "before {at}");
            assert_eq!(advance(&mut wheel, at), [at]);
        }
        assert_eq!((wheel.len(), wheel.next()), (0, None));
    }

    #[test]
    fn an_overdue_timer_fires_at_the_next_tick() {
        let mut wheel = Wheel::new();
        assert!(advance(&mut wheel, 1000).is_empty());
        let (past, present) = (Entry::new(3), Entry::new(1000));
        insert(&mut wheel, &past);
        insert(&mut wheel, &present);
        assert_eq!(wheel.next(), Some(1001));
        assert_eq!(advance(&mut wheel, 1001).len(), 2);
    }

    #[test]
    fn a_slot_shrinks_when_most_of_its_timers_are_removed() {
        let entries: Vec<_> = (0..10_000).map(|_| Entry::new(1 << 30)).collect();
        let mut wheel = Wheel::new();
        entries.iter().for_each(|entry| insert(&mut wheel, entry));
        // All but the first.
        for entry in &entries[1..] {
            assert!(wheel.remove(entry));
        }
        let rooms = wheel.levels.iter().flat_map(|row| &row.slots).map(Vec::capacity);
        assert!(rooms.sum::<usize>() <= 2 * ROOM);
        assert_eq!(advance(&mut wheel, 1 << 30).len(), 1);
    }

    #[test]
    fn a_timer_beyond_the_reach_of_the_wheel_waits() {
        let mut wheel = Wheel::new();
        let never = Entry::new(u64::MAX);
        insert(&mut wheel, &never);
        assert!(advance(&mut wheel, 1 << 50).is_empty());
        assert!(never.is_in());
        assert!(wheel.remove(&never));
        assert_eq!((wheel.len(), wheel.next()), (0, None));
    }

    #[test]
    fn clearing_takes_out_all_timers_due_or_not() {
        let entries: Vec<_> =
            [0, 3, 64, 5000, 1 << 30, u64::MAX].iter().map(|at| Entry::new(*at)).collect();
        let mut wheel = Wheel::new();
        entries.iter().for_each(|entry| insert(&mut wheel, entry));
        assert_eq!(advance(&mut wheel, 1), [0]);
        let mut out = 0;
        wheel.clear(|_| out += 1);
        assert_eq!((out, wheel.len(), wheel.next()), (5, 0, None));
        assert!(!entries.iter().any(Entry::is_in));
        insert(&mut wheel, &entries[1]);
        assert_eq!(advance(&mut wheel, 4), [3]);
    }

    /// `advance` may stop with due timers left in a slot of a higher level. They come before
    /// timers of the same slot that have moved to a lower level meanwhile.
    #[test]
    fn timers_left_in_a_higher_level_come_before_those_moved_down() {
        for level in 1..LEVELS as u32 {
            let at = 1u64 << (level * BITS);
            let due: Vec<_> = (0..10).map(|_| Entry::new(at)).collect();
            let later = Entry::new(at + at / 2);
            let mut wheel = Wheel::new();
            due.iter().for_each(|entry| insert(&mut wheel, entry));
            insert(&mut wheel, &later);
            assert_eq!(advance(&mut wheel, at).len(), 10, "of level {level}");
            assert_eq!(advance(&mut wheel, at * 2), [at + at / 2]);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Remove(usize),
        Advance(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let distance = || {
            prop_oneof![
                0..200u64,
                Just(64),
                Just(4096),
                0..10_000u64,
                0..1u64 << 40,
                Just(u64::MAX / 2)
            ]
        };
        let step = prop_oneof![
            4 => distance().prop_map(Step::Insert),
            2 => (0..100usize).prop_map(Step::Remove),
            3 => distance().prop_map(|by| Step::Advance(by.min(1 << 41))),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn a_wheel_is_a_sorted_list_of_times(steps in steps()) {
            let entries: Vec<_> = steps.iter().map(|_| Entry::new(0)).collect();
            let (mut wheel, mut now) = (Wheel::new(), 0u64);
            // The times of the timers that are in, by their numbers.
            let mut model: BTreeMap<usize, u64> = BTreeMap::new();
            for (number, step) in steps.iter().enumerate() {
                match *step {
                    Step::Insert(distance) => {
                        let at = now.saturating_add(distance);
                        entries[number].at.set(at);
                        insert(&mut wheel, &entries[number]);
                        model.insert(number, at);
                    }
                    Step::Remove(which) => {
                        let was_in = wheel.remove(&entries[which % steps.len()]);
                        prop_assert_eq!(was_in, model.remove(&(which % steps.len())).is_some());
                    }
                    Step::Advance(by) => {
                        if let (Some(next), Some(first)) = (wheel.next(), model.values().min()) {
                            prop_assert!(next <= (*first).max(now + 1), "it would be missed");
                        }
                        now += by;
                        let mut fired = advance(&mut wheel, now);
                        fired.sort_unstable();
                        // A timer that was overdue when it was entered fires at the next tick.
                        let is_due = |at: u64| by > 0 && at <= now;
                        let mut due: Vec<_> =
                            model.values().copied().filter(|at| is_due(*at)).collect();
                        model.retain(|_, at| !is_due(*at));
                        due.sort_unstable();
                        prop_assert_eq!(fired, due);
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
                prop_assert_eq!(wheel.next().is_none(), model.is_empty());
            }
        }
    }
}
