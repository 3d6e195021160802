//! A vector whose items are moved out by the parts of a loop.

use crate::par::Source;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// The items of a `Vec`, by value: the [source](crate::par::IntoSource) that a `Vec` is turned
/// into.
///
/// Items that are not taken are dropped with it. A part costs an atomic increment and a decrement.
/// The vector's memory is freed with the last part.
pub struct Items<T> {
    memory: Arc<Memory<T>>,
    start: usize,
    end: usize,
}

/// The memory of the vector. The items in it belong to the parts.
struct Memory<T> {
    first: NonNull<T>,
    capacity: usize,
}

// SAFETY: parts on different threads share the memory, but each uses items of its own. An item
// moves to another thread only with its part, which `T: Send` allows.
unsafe impl<T: Send> Send for Memory<T> {}
// SAFETY: a shared `Memory` gives out no reference to an item; each part reads and drops items of
// its own range only, and `T: Send` allows that on any thread.
unsafe impl<T: Send> Sync for Memory<T> {}

// The same as for a vector.
impl<T: UnwindSafe> UnwindSafe for Items<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for Items<T> {}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: pointer and capacity come from a vector. Its items have been moved out or
        // dropped by the parts, so the length is 0.
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
        self.memory.first.as_ptr().wrapping_add(index)
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
        // Before the read: from here on this part does not drop the item.
        self.start += 1;
        // SAFETY: the item belonged to this part alone and has just been taken out of its range, so
        // it is read once.
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
        // Comparing the sum instead could overflow, and two parts would have the same items.
        assert!(n <= self.size(), "cygnet: the items of a Vec cannot be split at n > size()");
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
        // SAFETY: the items belong to this part alone and have been taken out of its range, so they
        // are dropped once. If the drop of one panics, the others are dropped, as with any slice.
        unsafe { slice.drop_in_place() };
    }
}

debug! { impl<T> Items<T> as this { left: this.end - this.start, .. } }
