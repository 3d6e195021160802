//! The storage of a ring.

use crate::ring::sequence::{MultiProducerSequencer, SequenceRange};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::slice;

/// The items of a ring. The sequencer decides which thread may access an item: the item belongs to
/// the claim of its number until that claim is published or given back, and then to the readers of
/// one stage after the other. A stage owns the item from the moment when the stage before publishes
/// the number until the stage publishes it in turn.
pub(super) struct Items<T> {
    items: Box<[UnsafeCell<T>]>,
    /// With several producers, their sequencer, which knows the numbers without an item.
    skips: Option<MultiProducerSequencer<u64>>,
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

    /// The sequencer of the producers, if there are several.
    pub(super) fn sequencer(&self) -> Option<&MultiProducerSequencer<u64>> {
        self.skips.as_ref()
    }

    /// The item of a claimed number.
    pub(super) fn claimed(&self, number: u64) -> *mut T {
        self.at(number)
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
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

    /// The item of a number, if it has one. The number belongs to the caller.
    pub(super) fn item(&self, number: u64) -> Option<*mut T> {
        (!self.is_skipped(number)).then(|| self.at(number))
    }

    /// The item of a number. The items of the following numbers are next to it, up to the end of
    /// the storage.
    #[inline(always)]
    fn at(&self, number: u64) -> *mut T {
        // SAFETY: `place` is masked to an index below the number of items.
        let place = unsafe { self.items.as_ptr().add(self.place(number)) };
        UnsafeCell::raw_get(place)
    }
}

/// The items of some numbers as runs of adjacent items, skipping numbers without an item. `Runs`
/// accesses no item, and so can be sent wherever `T` can; the slices made from it decide on
/// sharing.
struct Runs<'a, T> {
    items: &'a Items<T>,
    first: u64,
    len: usize,
    /// All numbers have items, as in a new claim.
    all: bool,
}

impl<'a, T> Runs<'a, T> {
    #[inline(always)]
    fn new(items: &'a Items<T>, numbers: SequenceRange<u64>) -> Runs<'a, T> {
        let all = match &items.skips {
            None => true,
            Some(sequencer) => sequencer.has_no_skips_from(numbers.start()),
        };
        Runs { items, first: numbers.start(), len: numbers.len(), all }
    }

    /// Returns the next run of adjacent items.
    #[inline(always)]
    fn next_run(&mut self) -> Option<(*mut T, usize)> {
        let mut run = self.len;
        if !self.all {
            let (skipped, len) = self.items.run(self.first, self.len);
            self.pass(skipped);
            run = len;
        }
        if run == 0 {
            return None;
        }
        let run = run.min(self.items.size() - self.items.place(self.first));
        let item = self.items.at(self.first);
        self.pass(run);
        Some((item, run))
    }

    #[inline(always)]
    fn pass(&mut self, count: usize) {
        self.first = self.first.wrapping_add(count as u64);
        self.len -= count;
    }
}

/// The items of some numbers, as shared slices of adjacent items.
///
/// # Safety (of making one)
/// For `'a`, the numbers are published, and belong to the stage of the caller.
pub(super) struct Slices<'a, T> {
    runs: Runs<'a, T>,
    /// Sharing the iterator shares the items.
    _items: PhantomData<&'a T>,
}

impl<'a, T> Slices<'a, T> {
    /// # Safety
    /// For `'a`, the numbers are published and belong to the stage of the caller, and all of its
    /// readers only read the items.
    #[inline(always)]
    pub(super) unsafe fn new(items: &'a Items<T>, numbers: SequenceRange<u64>) -> Slices<'a, T> {
        Slices { runs: Runs::new(items, numbers), _items: PhantomData }
    }
}

impl<'a, T> Iterator for Slices<'a, T> {
    type Item = &'a [T];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [T]> {
        let (first, len) = self.runs.next_run()?;
        // SAFETY: the items are adjacent, and by the contract of `new` they may be read for `'a`.
        Some(unsafe { slice::from_raw_parts(first, len) })
    }
}

/// The items of some numbers, as exclusive slices of adjacent items.
pub(super) struct SlicesMut<'a, T> {
    runs: Runs<'a, T>,
    _items: PhantomData<&'a mut T>,
}

impl<'a, T> SlicesMut<'a, T> {
    /// # Safety
    /// For `'a`, the numbers are published and belong to the caller, which is the only reader of
    /// its stage.
    #[inline(always)]
    pub(super) unsafe fn new(items: &'a Items<T>, numbers: SequenceRange<u64>) -> SlicesMut<'a, T> {
        SlicesMut { runs: Runs::new(items, numbers), _items: PhantomData }
    }

    /// The items of numbers that are claimed and not published.
    ///
    /// # Safety
    /// For `'a`, the numbers belong to a claim of the caller.
    #[inline(always)]
    pub(super) unsafe fn of_claimed(
        items: &'a Items<T>,
        numbers: SequenceRange<u64>,
    ) -> SlicesMut<'a, T> {
        let runs = Runs { items, first: numbers.start(), len: numbers.len(), all: true };
        SlicesMut { runs, _items: PhantomData }
    }
}

impl<'a, T> Iterator for SlicesMut<'a, T> {
    type Item = &'a mut [T];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a mut [T]> {
        let (first, len) = self.runs.next_run()?;
        // SAFETY: the items are adjacent, by the contract of `new` or `of_claimed` they belong to
        // the caller alone for `'a`, and each item is in one slice only.
        Some(unsafe { slice::from_raw_parts_mut(first, len) })
    }
}
