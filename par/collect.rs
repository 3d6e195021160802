//! A vector that the parts of a loop fill in place.
//!
//! Each item is written to where it belongs as soon as it is made. A part answers for what it has made
//! ([`Made`], a run of neighbours) and drops it if it unwinds or if it is not wanted; two runs that
//! meet are joined into one. When the run is the whole vector, it is the result.

use crate::par::drive::{Body, run_all};
use crate::par::{IntoSource, Source};
use crate::runtime::Cancelled;
use std::marker::PhantomData;
use std::mem::forget;
use std::ops::ControlFlow;
use std::ptr::slice_from_raw_parts_mut;

/// Room for items: the spare part of a vector, in the frame of the call that fills it.
struct Room<'a, R> {
    first: *mut R,
    size: usize,
    vector: PhantomData<&'a mut Vec<R>>,
}

// SAFETY: parts of different threads write to different places, each of them alone (see `chunk`), what they
// write is sent back with `Made`, and no reference to it is given out before.
unsafe impl<R: Send> Sync for Room<'_, R> {}

/// A run of items that have been made and that nobody else answers for.
struct Made<'a, R> {
    /// Of the whole room: the run may have been written by parts of several threads.
    first: *mut R,
    start: usize,
    count: usize,
    room: PhantomData<&'a mut [R]>,
}

// SAFETY: owns its items, as a vector does.
unsafe impl<R: Send> Send for Made<'_, R> {}

impl<R> Drop for Made<'_, R> {
    fn drop(&mut self) {
        // SAFETY: `start` is in the room, or at its end.
        let start = unsafe { self.first.add(self.start) };
        // SAFETY: these were made, and are ours alone; the memory is the vector's, which outlives us.
        unsafe { slice_from_raw_parts_mut(start, self.count).drop_in_place() };
    }
}

/// A source whose items are numbered, by engine and not by the source itself.
struct Numbered<S> {
    source: S,
    start: usize,
    end: usize,
}

impl<S: Source> Source for Numbered<S> {
    type Item = (usize, S::Item);
    type Iter = std::iter::Zip<std::ops::Range<usize>, S::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        // The numbers of two parts must never meet, whatever the source does.
        assert!(n <= self.size(), "cygnet: a part of a loop is cut behind its end");
        let middle = self.start + n;
        let (front, back) = self.source.split_at(n);
        (
            Numbered { source: front, start: self.start, end: middle },
            Numbered { source: back, start: middle, end: self.end },
        )
    }

    #[inline]
    fn items(self) -> Self::Iter {
        (self.start..self.end).zip(self.source.items())
    }

    #[inline]
    fn at_least(&self) -> usize {
        self.source.at_least()
    }
}

struct Collect<'a, F, R> {
    f: F,
    room: Room<'a, R>,
}

/// Counts what has been made, also if `f` panics in the middle of a chunk. (In a local number: the
/// compiler would not keep one in a register that others can see.)
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
        let Numbered { source, start, end } = chunk;
        assert!(start <= end && end <= self.room.size, "cygnet: a part of a loop is out of bounds");
        if made.count == 0 {
            made.start = start;
        }
        assert!(made.start + made.count == start, "{UNTRUE}");
        // SAFETY: in the room, or at its end.
        let place = unsafe { self.room.first.add(start) };
        let mut progress = Progress { total: &mut made.count, new: 0 };
        (0..end - start).zip(source.items()).for_each(|(index, item)| {
            let item = (self.f)(item);
            // SAFETY: start + index < end <= size.
            let place = unsafe { place.add(index) };
            // SAFETY: room for an `R`, that no other part has: their numbers are other ones, as `Numbered`
            // makes them from one range by cutting. Nothing has been made here before: a chunk is gone over
            // once.
            unsafe { place.write(item) };
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
/// Each result is written once, into its place; there is no lock, and nothing is moved later.
///
/// Suspends as [`for_each`](crate::par::for_each), and costs as much, and the allocation.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let lengths = rt.block_on(|| par::map_collect(&["a", "bb", "ccc"], |word| word.len()));
/// assert_eq!(lengths, Ok(vec![1, 2, 3]));
/// ```
///
/// # Errors
/// As [`for_each`](crate::par::for_each); what has been made is dropped.
///
/// # Panics
/// As [`for_each`](crate::par::for_each); what has been made is dropped, each result once. If there are more
/// items than a `Vec` can hold, also outside a task or in a cancelled one. If the source has fewer items
/// than it says.
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
    let numbered = Numbered { source, start: 0, end: size };
    let made = run_all("par::map_collect", numbered, &Collect { f, room })?;
    assert!(made.count == size, "{UNTRUE}");
    // The vector has them now.
    forget(made);
    // SAFETY: `size` items of one run, which can only begin at the first, as the room holds no more.
    unsafe { results.set_len(size) };
    Ok(results)
}
