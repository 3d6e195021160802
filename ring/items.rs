//! Where the items lie.

use crate::ring::sequence::{MultiProducerSequencer, SequenceRange};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
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

    #[inline(always)]
    pub(super) fn size(&self) -> usize {
        self.items.len()
    }

    /// With many producers: theirs.
    pub(super) fn sequencer(&self) -> Option<&MultiProducerSequencer<u64>> {
        self.skips.as_ref()
    }

    /// The item of a number that has been claimed.
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

    /// How many of so many numbers have no item, and how many after these have one.
    #[cold]
    fn run(&self, first: u64, len: usize) -> (usize, usize) {
        let is_skipped = |index: usize| self.is_skipped(first.wrapping_add(index as u64));
        let start = (0..len).find(|&index| !is_skipped(index)).unwrap_or(len);
        let end = (start..len).find(|&index| is_skipped(index)).unwrap_or(len);
        (start, end - start)
    }

    /// The item of a number, if it has one. For whom it belongs to.
    pub(super) fn item(&self, number: u64) -> Option<*mut T> {
        (!self.is_skipped(number)).then(|| self.at(number))
    }

    /// The item of a number, from which on others lie side by side, up to the end of the ring.
    #[inline(always)]
    fn at(&self, number: u64) -> *mut T {
        // SAFETY: a place is one of the ring's.
        let place = unsafe { self.items.as_ptr().add(self.place(number)) };
        UnsafeCell::raw_get(place)
    }
}

/// Where the items of some numbers lie, in runs of what lies side by side; without those of which there is no item. It goes where `T` may go, as it touches
/// none of them: what is made of it says who may share them.
struct Runs<'a, T> {
    items: &'a Items<T>,
    first: u64,
    len: usize,
    /// Whether all of them have items, as what has just been claimed.
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

    /// The next ones that lie side by side.
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

/// Items of some numbers, as slices of what lies side by side; without those of which there is no item.
///
/// # Safety (of making one)
/// The numbers are published, and belong to who makes it for `'a`.
pub(super) struct Slices<'a, T> {
    runs: Runs<'a, T>,
    /// Who has it shares the items.
    _items: PhantomData<&'a T>,
}

impl<'a, T> Slices<'a, T> {
    /// # Safety
    /// As above; shared with others, if these read only.
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
        // SAFETY: they lie side by side, and may be read for so long, by the contract of `new`.
        Some(unsafe { slice::from_raw_parts(first, len) })
    }
}

/// The same, to be changed.
pub(super) struct SlicesMut<'a, T> {
    runs: Runs<'a, T>,
    _items: PhantomData<&'a mut T>,
}

impl<'a, T> SlicesMut<'a, T> {
    /// # Safety
    /// As of `Slices`, and nobody else has them.
    #[inline(always)]
    pub(super) unsafe fn new(items: &'a Items<T>, numbers: SequenceRange<u64>) -> SlicesMut<'a, T> {
        SlicesMut { runs: Runs::new(items, numbers), _items: PhantomData }
    }

    /// The same of what has been claimed, and not published.
    ///
    /// # Safety
    /// They belong to who makes it.
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
        // SAFETY: as above, and each item is in one slice.
        Some(unsafe { slice::from_raw_parts_mut(first, len) })
    }
}
