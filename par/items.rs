//! A vector whose items are moved out by parts of a loop.

use crate::par::Source;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// The items of a `Vec`, by value: what a `Vec` is gone over as (see [`IntoSource`](crate::par::IntoSource)).
/// Those that are not taken are dropped with it.
///
/// A part costs an atomic increment and a decrement, and the vector's memory goes when the last part does.
pub struct Items<T> {
    memory: Arc<Memory<T>>,
    start: usize,
    end: usize,
}

/// The memory of the vector; its items are the parts'.
struct Memory<T> {
    first: NonNull<T>,
    capacity: usize,
}

// SAFETY: parts of different threads share it, and use different items, each of them alone; the items go
// from one thread to another with their parts, as T: Send allows.
unsafe impl<T: Send> Send for Memory<T> {}
// SAFETY: as above; no reference to an item is given out.
unsafe impl<T: Send> Sync for Memory<T> {}

// As a vector.
impl<T: UnwindSafe> UnwindSafe for Items<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for Items<T> {}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: the parts of a vector with this capacity, whose items have been moved or dropped.
        drop(unsafe { Vec::from_raw_parts(self.first.as_ptr(), 0, self.capacity) });
    }
}

impl<T> Items<T> {
    pub(super) fn new(vector: Vec<T>) -> Items<T> {
        let mut vector = ManuallyDrop::new(vector);
        let first = NonNull::new(vector.as_mut_ptr()).expect("a vector's pointer is never null");
        let memory = Memory { first, capacity: vector.capacity() };
        Items { memory: Arc::new(memory), start: 0, end: vector.len() }
    }

    fn at(&self, index: usize) -> *mut T {
        // SAFETY: the index is one of the vector's, or its length.
        unsafe { self.memory.first.as_ptr().add(index) }
    }
}

impl<T> Iterator for Items<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.start == self.end {
            return None;
        }
        let item = self.at(self.start);
        // Before the read: from here on it is not ours to drop.
        self.start += 1;
        // SAFETY: an item of this part alone, which has just been taken out of its range.
        Some(unsafe { item.read() })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.start;
        (left, Some(left))
    }
}

impl<T> ExactSizeIterator for Items<T> {}

impl<T: Send> Source for Items<T> {
    type Item = T;
    type Iter = Items<T>;

    #[inline]
    fn size(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    fn split_at(mut self, n: usize) -> (Self, Self) {
        // Not by the sum, which could overflow: two parts would have the same items.
        assert!(n <= self.size(), "cygnet: a part of a vector is cut behind its end");
        let middle = self.start + n;
        let back = Items { memory: self.memory.clone(), start: middle, end: self.end };
        self.end = middle;
        (self, back)
    }

    #[inline]
    fn items(self) -> Self {
        self
    }
}

impl<T> Drop for Items<T> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut self.start, self.end)..self.end;
        let slice = std::ptr::slice_from_raw_parts_mut(self.at(left.start), left.len());
        // SAFETY: the items of this part alone, which have been taken out of its range; should the drop of
        // one panic, the others are dropped, as those of a slice are.
        unsafe { slice.drop_in_place() };
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("left", &(self.end - self.start)).finish_non_exhaustive()
    }
}
