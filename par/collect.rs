//! A vector that the parts of a loop fill in place.
//!
//! Each item is written to its final place as soon as it is made. A part owns the run of
//! neighbouring items that it has made ([`Made`]), and drops them if it unwinds or if they are not
//! wanted. Two runs that meet are joined into one. The run that covers the whole vector is the
//! result.

use crate::par::drive::{Body, run_all};
use crate::par::{IntoSource, Source, Zip, zip};
use crate::runtime::Cancelled;
use std::marker::PhantomData;
use std::mem::forget;
use std::ops::{ControlFlow, Range};
use std::ptr::slice_from_raw_parts_mut;

/// The spare capacity of a vector, which lives in the frame of the call that fills it.
struct Room<'a, R> {
    first: *mut R,
    size: usize,
    vector: PhantomData<&'a mut Vec<R>>,
}

// SAFETY: parts on different threads write to disjoint places (see `chunk`). The items are sent
// back with `Made`, which requires `R: Send`, and no reference to an item is given out before.
unsafe impl<R: Send> Sync for Room<'_, R> {}

/// A run of items that have been made and that only this value owns.
struct Made<'a, R> {
    /// The start of the whole room, as the run may have been written by parts on several threads.
    first: *mut R,
    start: usize,
    count: usize,
    room: PhantomData<&'a mut [R]>,
}

// SAFETY: a `Made` owns its items, as a vector does.
unsafe impl<R: Send> Send for Made<'_, R> {}

impl<R> Drop for Made<'_, R> {
    fn drop(&mut self) {
        let start = self.first.wrapping_add(self.start);
        // SAFETY: these `count` items have been made and belong to this run alone. The memory
        // belongs to the vector, which outlives `'a`.
        unsafe { slice_from_raw_parts_mut(start, self.count).drop_in_place() };
    }
}

/// A source whose items are numbered by the engine, so the numbers do not depend on the source.
type Numbered<S> = Zip<Range<usize>, S>;

struct Collect<'a, F, R> {
    f: F,
    room: Room<'a, R>,
}

/// Counts the items made, also if `f` panics in the middle of a chunk. The count is kept in a local
/// variable because the compiler cannot keep a value that is visible elsewhere in a register.
struct Progress<'a> {
    total: &'a mut usize,
    new: usize,
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        *self.total += self.new;
    }
}

impl<'a, S, R, F> Body<Numbered<S>> for Collect<'a, F, R>
where
    S: Source,
    R: Send,
    F: Fn(S::Item) -> R + Sync,
{
    type Out = Made<'a, R>;

    #[inline]
    fn begin(&self) -> Made<'a, R> {
        Made { first: self.room.first, start: 0, count: 0, room: PhantomData }
    }

    #[inline]
    fn chunk(
        &self,
        mut made: Made<'a, R>,
        chunk: Numbered<S>,
    ) -> ControlFlow<Made<'a, R>, Made<'a, R>> {
        let Zip { a: Range { start, end }, b: source } = chunk;
        assert!(start <= end && end <= self.room.size, "cygnet: a part of a loop is out of bounds");
        if made.count == 0 {
            made.start = start;
        }
        assert!(made.start + made.count == start, "{UNTRUE}");
        let place = self.room.first.wrapping_add(start);
        let mut progress = Progress { total: &mut made.count, new: 0 };
        (0..end - start).zip(source.items()).for_each(|(index, item)| {
            let item = (self.f)(item);
            // SAFETY: `start + index < end <= size`, so the place is in the room, and has room for
            // an `R`. No other part writes to it: the numbers come from splitting one range, so
            // they are disjoint. Nothing has been made here before, as a chunk is gone over once.
            unsafe { place.add(index).write(item) };
            progress.new += 1;
        });
        drop(progress);
        ControlFlow::Continue(made)
    }

    #[inline]
    fn merge(&self, mut first: Made<'a, R>, second: Made<'a, R>) -> Made<'a, R> {
        if second.count > 0 && first.start + first.count == second.start {
            first.count += second.count;
            forget(second);
        } else {
            drop(second);
        }
        first
    }
}

const UNTRUE: &str = "cygnet: a source has fewer items than its size says";

/// Maps each item and collects the results in a `Vec`, in the order of the items.
///
/// Each result is written once, into its place. There is no lock, and nothing is moved later.
///
/// Suspends like [`for_each`](crate::par::for_each). Costs as much, and an allocation.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let lengths = rt.block_on(|| par::map_collect(&["a", "bb", "ccc"], |word| word.len()));
/// assert_eq!(lengths, Ok(vec![1, 2, 3]));
/// ```
///
/// # Errors
/// As for [`for_each`](crate::par::for_each). The results made so far are dropped.
///
/// # Panics
/// If `f` panics, as in [`for_each`](crate::par::for_each); each result made so far is dropped
/// once. If called outside a task. If the source has fewer items than its size says. If there are
/// more items than a `Vec` can hold; this is checked first, also outside a task or in a cancelled
/// one.
#[track_caller]
pub fn map_collect<S, R, F>(source: S, f: F) -> Result<Vec<R>, Cancelled>
where
    S: IntoSource,
    R: Send,
    F: Fn(S::Item) -> R + Sync,
{
    let source = source.into_source();
    let size = source.size();
    assert!(size < usize::MAX, "cygnet: par::map_collect has more items than a Vec can hold");
    let mut results = Vec::with_capacity(size);
    let room = Room { first: results.as_mut_ptr(), size, vector: PhantomData };
    let numbered = zip(0..size, source);
    let made = run_all("par::map_collect", numbered, &Collect { f, room })?;
    assert!(made.count == size, "{UNTRUE}");
    // The vector owns the items from here on.
    forget(made);
    // SAFETY: `made` is one run of `size` items. The room holds no more, so the run starts at the
    // first place and all of the vector's first `size` items are initialised.
    unsafe { results.set_len(size) };
    Ok(results)
}
