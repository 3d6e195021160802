//! Where the items lie.

use crate::runtime::sync::sequence::{MultiProducerSequencer, SequenceRange};
use std::cell::UnsafeCell;
use std::slice;

/// The items of a ring. Who may touch which says its sequencer: an item belongs to who has claimed its number, from the claim to the end of that, and
/// then to the readers of one stage after the other, from when the stage before has published the number until they have.
pub(super) struct Items<T> {
    items: Box<[UnsafeCell<T>]>,
    /// With many producers: who knows which numbers have no item.
    skips: Option<MultiProducerSequencer<u64>>,
}

// SAFETY: an item is touched by one thread at a time, or by several that share it: then `T` is `Sync`, as `RingBuilder::readers` asks.
unsafe impl<T: Send> Sync for Items<T> {}

impl<T> Items<T> {
    pub(super) fn new(
        size: usize,
        mut make: impl FnMut() -> T,
        skips: Option<MultiProducerSequencer<u64>>,
    ) -> Items<T> {
        let items = (0..size).map(|_| UnsafeCell::new(make())).collect();
        Items { items, skips }
    }

    pub(super) fn size(&self) -> usize {
        self.items.len()
    }

    /// With many producers: theirs.
    pub(super) fn sequencer(&self) -> Option<&MultiProducerSequencer<u64>> {
        self.skips.as_ref()
    }

    /// The item of a number that has been claimed.
    pub(super) fn claimed(&self, number: u64) -> *mut T {
        self.at(number, 1)
    }

    fn place(&self, number: u64) -> usize {
        number as usize & (self.items.len() - 1)
    }

    #[inline]
    fn is_skipped(&self, number: u64) -> bool {
        self.skips.as_ref().is_some_and(|sequencer| sequencer.is_skipped(number))
    }

    /// The first of the numbers that have items lying side by side: how many were passed over, and how many these are.
    #[inline]
    fn run(&self, numbers: SequenceRange<u64>, all: bool) -> (usize, usize) {
        let len = numbers.len();
        let (start, mut skipped, mut end) = (numbers.start(), 0, len);
        if !all {
            let is_skipped = |index: usize| self.is_skipped(start.wrapping_add(index as u64));
            while skipped < len && is_skipped(skipped) {
                skipped += 1;
            }
            end = (skipped..len).find(|&index| is_skipped(index)).unwrap_or(len);
        }
        let first = self.place(start.wrapping_add(skipped as u64));
        (skipped, (end - skipped).min(self.items.len() - first))
    }

    /// The item of a number, if it has one. For whom it belongs to.
    pub(super) fn item(&self, number: u64) -> Option<*mut T> {
        (!self.is_skipped(number)).then(|| self.at(number, 1))
    }

    /// The items of a place and some after it, which are no more than the ring has.
    fn at(&self, number: u64, len: usize) -> *mut T {
        let place = self.place(number);
        // What lies there side by side is got at by one pointer.
        UnsafeCell::raw_get(self.items[place..place + len].as_ptr())
    }
}

/// Items of some numbers, as slices of what lies side by side; without those of which there is no item.
///
/// # Safety (of making one)
/// The numbers are published, and belong to who makes it for `'a`.
pub(super) struct Slices<'a, T> {
    items: &'a Items<T>,
    numbers: SequenceRange<u64>,
    /// Whether all of them have items, as what has just been claimed.
    all: bool,
}

impl<'a, T> Slices<'a, T> {
    /// # Safety
    /// As above; shared with others, if these read only.
    pub(super) unsafe fn new(items: &'a Items<T>, numbers: SequenceRange<u64>) -> Slices<'a, T> {
        Slices { items, numbers, all: items.skips.is_none() }
    }

    fn next_run(&mut self) -> Option<(*mut T, usize)> {
        let (skipped, len) = self.items.run(self.numbers, self.all);
        let first = self.numbers.start().wrapping_add(skipped as u64);
        self.numbers = self.numbers.skip(skipped + len);
        (len > 0).then(|| (self.items.at(first, len), len))
    }
}

impl<'a, T> Iterator for Slices<'a, T> {
    type Item = &'a [T];

    #[inline]
    fn next(&mut self) -> Option<&'a [T]> {
        let (first, len) = self.next_run()?;
        // SAFETY: they lie side by side, and may be read for so long, by the contract of `new`.
        Some(unsafe { slice::from_raw_parts(first, len) })
    }
}

/// The same, to be changed.
pub(super) struct SlicesMut<'a, T>(Slices<'a, T>);

impl<'a, T> SlicesMut<'a, T> {
    /// # Safety
    /// As of `Slices`, and nobody else has them.
    pub(super) unsafe fn new(items: &'a Items<T>, numbers: SequenceRange<u64>) -> SlicesMut<'a, T> {
        SlicesMut(Slices { items, numbers, all: items.skips.is_none() })
    }

    /// The same of what has been claimed, and not published.
    ///
    /// # Safety
    /// They belong to who makes it.
    pub(super) unsafe fn of_claimed(
        items: &'a Items<T>,
        numbers: SequenceRange<u64>,
    ) -> SlicesMut<'a, T> {
        SlicesMut(Slices { items, numbers, all: true })
    }
}

impl<'a, T> Iterator for SlicesMut<'a, T> {
    type Item = &'a mut [T];

    #[inline]
    fn next(&mut self) -> Option<&'a mut [T]> {
        let (first, len) = self.0.next_run()?;
        // SAFETY: as above, and each item is in one slice.
        Some(unsafe { slice::from_raw_parts_mut(first, len) })
    }
}
