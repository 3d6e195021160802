//! The storage of a ring.

use crate::ring::sequence::{MultiProducerSequencer, SequenceRange};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ptr::slice_from_raw_parts_mut;

/// The items of a ring. The sequencer decides which thread may access an item: the item belongs to
/// the claim of its number until that claim is published or given back, and then to the readers of
/// one stage after the other. A stage owns the item from the moment when the stage before publishes
/// the number until the stage publishes it in turn.
pub(super) struct Items<T> {
    items: Box<[UnsafeCell<T>]>,
    /// With several producers, their sequencer, which knows the numbers without an item.
    pub(super) skips: Option<MultiProducerSequencer<u64>>,
}

// SAFETY: an item is accessed by one thread at a time, for which `T: Send` suffices, or shared by
// the readers of a stage, for which `RingBuilder::readers` requires `T: Sync`.
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

    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.items.len()
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.items.len() - 1)
    }

    #[inline]
    fn is_skipped(&self, number: u64) -> bool {
        self.skips.as_ref().is_some_and(|sequencer| sequencer.is_skipped(number))
    }

    /// Counts the leading numbers of a range without an item, and then the numbers after them that
    /// have one.
    #[cold]
    fn run(&self, first: u64, len: usize) -> (usize, usize) {
        let is_skipped = |index: usize| self.is_skipped(first.wrapping_add(index as u64));
        let start = (0..len).find(|&index| !is_skipped(index)).unwrap_or(len);
        let end = (start..len).find(|&index| is_skipped(index)).unwrap_or(len);
        (start, end - start)
    }

    /// The item of a number. The items of the following numbers are next to it, up to the end of
    /// the storage.
    #[inline(always)]
    pub(super) fn at(&self, number: u64) -> *mut T {
        // SAFETY: `slot` is masked to an index below the number of items.
        let item = unsafe { self.items.as_ptr().add(self.slot(number)) };
        UnsafeCell::raw_get(item)
    }
}

/// The items of some numbers as runs of adjacent items, skipping numbers without an item. No item
/// is in two runs. `Access` is the reference that the caller makes of a run: it decides where the
/// iterator can be sent. The iterator itself accesses no item.
pub(super) struct Runs<'a, T, Access> {
    items: &'a Items<T>,
    first: u64,
    len: usize,
    /// All numbers have items, as in a new claim.
    all: bool,
    _access: PhantomData<Access>,
}

impl<'a, T, Access> Runs<'a, T, Access> {
    /// The items of published numbers.
    #[inline(always)]
    pub(super) fn new(items: &'a Items<T>, numbers: SequenceRange<u64>) -> Self {
        let all = items.skips.as_ref().is_none_or(|skips| skips.has_no_skips_from(numbers.start()));
        Runs { all, ..Runs::of_claimed(items, numbers) }
    }

    /// The items of numbers that are claimed and not published.
    #[inline(always)]
    pub(super) fn of_claimed(items: &'a Items<T>, numbers: SequenceRange<u64>) -> Self {
        let (first, len) = (numbers.start(), numbers.len());
        Runs { items, first, len, all: true, _access: PhantomData }
    }

    #[inline(always)]
    fn pass(&mut self, count: usize) {
        self.first = self.first.wrapping_add(count as u64);
        self.len -= count;
    }
}

impl<T, Access> Iterator for Runs<'_, T, Access> {
    type Item = *mut [T];

    #[inline(always)]
    fn next(&mut self) -> Option<*mut [T]> {
        let mut run = self.len;
        if !self.all {
            let (skipped, len) = self.items.run(self.first, self.len);
            self.pass(skipped);
            run = len;
        }
        if run == 0 {
            return None;
        }
        let run = run.min(self.items.size() - self.items.slot(self.first));
        let item = self.items.at(self.first);
        self.pass(run);
        Some(slice_from_raw_parts_mut(item, run))
    }
}
