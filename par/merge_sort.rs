//! A parallel merge sort that keeps the order of equal elements. Pieces are sorted by std's stable
//! sort, and merged with the help of a buffer as large as the slice. A merge is cut in two where
//! the median of its longer run belongs in the other run (Valiant, "Parallelism in Comparison
//! Problems", SIAM Journal on Computing, 1975).
//!
//! # Where an element is
//!
//! Elements are moved between the slice and the buffer by copying their bytes. The slice is whole,
//! with each element once, whenever no merge into it is in progress: a merge into the buffer leaves
//! the slice as it is. No comparison sees the copy of an element in the buffer before that merge,
//! and all comparisons of the next merge, into the slice, see the buffer alone; so the copy that a
//! comparison may have changed (inside a `Cell`, say) is the one that is kept. A merge moves all of
//! its elements, whatever happens: if a comparison panics or the loop is stopped, the rest follows
//! unsorted, by the destructor of [`Runs`].

use crate::par::boundary::with_caller;
use crate::par::drive::{Loop, Pass, Stop, StopOnPanic, may_nest};
use crate::par::sort::{is_in_order, leaf};
use crate::runtime::{Cancelled, join};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, forget};
use std::ptr;

/// Sorts a slice by a comparison, keeping the order of equal elements.
///
/// Suspends like [`for_each`](crate::par::for_each), between two steps instead of two chunks. A
/// step sorts a piece of up to some ten thousand elements, or merges two. The first steps go over
/// the whole slice once or twice without a pause, and a cancellation is noticed after that.
///
/// Costs O(n log n) comparisons, or O(n) if the slice is in order or strictly in reverse order, and
/// a buffer as large as the slice. [`sort_unstable_by`](crate::par::sort_unstable_by) is usually
/// faster, and needs no buffer. Elements of kilobytes need a larger stack than usual, as std's sort
/// keeps copies of some there.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut words = ["of", "work", "a", "by", "deque"];
/// rt.block_on(|| par::sort_by(&mut words, |a, b| a.len().cmp(&b.len()))).unwrap();
/// assert_eq!(words, ["a", "of", "by", "work", "deque"]);
/// ```
///
/// # Errors
/// [`Cancelled`] if the task is cancelled or its runtime ends, on entry or before the slice was
/// sorted. The slice then has its elements in some other order.
///
/// # Panics
/// If `compare` panics: the panic is resumed once no other call of `compare` is in progress, and
/// the slice has its elements in some order. If `compare` is not a total order, it may panic, and
/// the resulting order is unspecified. If called outside a task.
#[track_caller]
pub fn sort_by<T, F>(slice: &mut [T], compare: F) -> Result<(), Cancelled>
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    run("par::sort_by", slice, &compare)
}

/// Sorts a slice, keeping the order of equal elements. Like [`sort_by`] with [`Ord::cmp`].
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut names = vec!["b".to_string(), "a".to_string()];
/// rt.block_on(|| par::sort(&mut names)).unwrap();
/// assert_eq!(names, ["a", "b"]);
/// ```
///
/// # Errors
/// As for [`sort_by`].
///
/// # Panics
/// As for [`sort_by`].
#[track_caller]
pub fn sort<T: Ord + Send>(slice: &mut [T]) -> Result<(), Cancelled> {
    run("par::sort", slice, &T::cmp)
}

/// Sorts a slice by a key, keeping the order of elements with equal keys.
///
/// Like [`sort_by`]; each comparison calls `key` twice.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut numbers = [-3i32, 2, 3, 1];
/// rt.block_on(|| par::sort_by_key(&mut numbers, |n| n.abs())).unwrap();
/// assert_eq!(numbers, [1, 2, -3, 3]);
/// ```
///
/// # Errors
/// As for [`sort_by`].
///
/// # Panics
/// As for [`sort_by`].
#[track_caller]
pub fn sort_by_key<T, K, F>(slice: &mut [T], key: F) -> Result<(), Cancelled>
where
    T: Send,
    K: Ord,
    F: Fn(&T) -> K + Sync,
{
    run("par::sort_by_key", slice, &|a, b| key(a).cmp(&key(b)))
}

#[track_caller]
fn run<T, F>(what: &str, slice: &mut [T], compare: &F) -> Result<(), Cancelled>
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    let stopped = with_caller(what, |caller, workers| {
        let this = Loop::new(caller, workers);
        let is_long = slice.len() > leaf::<T>() && size_of::<T>() > 0;
        if is_long && is_in_order(slice, compare) {
            return Stop::No;
        }
        let size = if is_long { slice.len() } else { 0 };
        let mut buffer = Vec::with_capacity(size);
        let room = &mut buffer.spare_capacity_mut()[..size];
        sort_piece(&this, slice, room, compare, Place { in_buffer: false, depth: 0 });
        this.stopped()
    })?;
    if stopped == Stop::No { Ok(()) } else { Err(Cancelled::here()) }
}

#[derive(Clone, Copy)]
struct Place {
    /// The sorted piece is wanted in the buffer.
    in_buffer: bool,
    /// The forks that are open below on this stack.
    depth: u32,
}

/// Sorts a piece in place, or into its part of the buffer.
#[inline(never)]
fn sort_piece<T, F>(
    this: &Loop<'_>,
    piece: &mut [T],
    buffer: &mut [MaybeUninit<T>],
    compare: &F,
    place: Place,
) where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    let guard = StopOnPanic(this);
    if this.pass() == Pass::End {
        return forget(guard);
    }
    if piece.len() <= leaf::<T>() || size_of::<T>() == 0 {
        piece.sort_by(compare);
        if place.in_buffer {
            // SAFETY: the buffer's part is as long as the piece, and elsewhere. The copies do not
            // count before they are merged back: see above.
            unsafe {
                ptr::copy_nonoverlapping(piece.as_ptr(), buffer.as_mut_ptr().cast(), piece.len());
            }
        }
        return forget(guard);
    }
    let middle = piece.len() / 2;
    {
        let halves = (piece.split_at_mut(middle), buffer.split_at_mut(middle));
        let ((first, second), (first_buffer, second_buffer)) = halves;
        let below = Place { in_buffer: !place.in_buffer, depth: place.depth + 1 };
        both(
            this,
            place.depth,
            || sort_piece(this, first, first_buffer, compare, below),
            || sort_piece(this, second, second_buffer, compare, below),
        );
    }
    // Otherwise a half may be unsorted, or not in the buffer.
    if this.stopped() == Stop::No {
        let (slice, buffer) = (piece.as_mut_ptr(), buffer.as_mut_ptr().cast());
        let (from, to) = if place.in_buffer { (slice, buffer) } else { (buffer, slice) };
        // SAFETY: both halves are sorted in `from`, and `to` has as much room, elsewhere.
        let runs = unsafe { Runs::new(from, middle, from.add(middle), piece.len() - middle, to) };
        merge(this, runs, compare, place.depth);
    }
    forget(guard);
}

/// Calls both, in parallel if another worker can help.
fn both(this: &Loop<'_>, depth: u32, first: impl FnOnce() + Send, second: impl FnOnce() + Send) {
    if this.is_shared() && may_nest(depth) {
        join(first, second);
    } else {
        first();
        second();
    }
}

/// Two sorted runs on their way to another place. Dropping them moves what is left there, the first
/// run before the second.
struct Runs<'a, T> {
    first: *mut T,
    firsts: usize,
    second: *mut T,
    seconds: usize,
    to: *mut T,
    borrows: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for exclusive borrows of its elements and of the place.
unsafe impl<T: Send> Send for Runs<'_, T> {}

impl<T> Runs<'_, T> {
    /// # Safety
    /// The runs have these lengths and are valid elements, and `to` has room for all of them. The
    /// three do not overlap, and nothing else uses them during `'a`. The caller has the elements in
    /// `to` afterwards, and not in the runs.
    unsafe fn new<'a>(
        first: *mut T,
        firsts: usize,
        second: *mut T,
        seconds: usize,
        to: *mut T,
    ) -> Runs<'a, T> {
        Runs { first, firsts, second, seconds, to, borrows: PhantomData }
    }

    fn len(&self) -> usize {
        self.firsts + self.seconds
    }

    /// Moves the lesser of the two first elements. Both runs have one.
    #[inline(always)]
    fn step(&mut self, is_less: impl Fn(&T, &T) -> bool) {
        // SAFETY: both runs have a first element, and the place has room for each that is left.
        unsafe {
            // If they are equal, that of the first run comes first.
            let takes_second = is_less(&*self.second, &*self.first);
            let from = if takes_second { self.second } else { self.first };
            ptr::copy_nonoverlapping(from, self.to, 1);
            self.second = self.second.add(usize::from(takes_second));
            self.seconds -= usize::from(takes_second);
            self.first = self.first.add(usize::from(!takes_second));
            self.firsts -= usize::from(!takes_second);
            self.to = self.to.add(1);
        }
    }

    /// Cuts the runs in two, so that no element of the first part belongs behind one of the second.
    fn split(self, is_less: impl Fn(&T, &T) -> bool) -> (Self, Self) {
        // SAFETY: the runs are valid elements, which are not moved while these slices exist.
        let (first, second) = unsafe {
            (
                std::slice::from_raw_parts(self.first, self.firsts),
                std::slice::from_raw_parts(self.second, self.seconds),
            )
        };
        let (a, b) = if self.firsts >= self.seconds {
            // Elements of the second run that equal the middle one come behind it.
            let a = self.firsts / 2;
            (a, second.partition_point(|x| is_less(x, &first[a])))
        } else {
            // Elements of the first run that equal the middle one come before it.
            let b = self.seconds / 2;
            (first.partition_point(|x| !is_less(&second[b], x)), b)
        };
        let Runs { first, firsts, second, seconds, to, .. } = self;
        // The parts have the elements from here on.
        forget(self);
        // SAFETY: as the whole; `a` and `b` are positions in the runs.
        unsafe {
            let rest = (first.add(a), firsts - a, second.add(b), seconds - b, to.add(a + b));
            (Runs::new(first, a, second, b, to), Runs::new(rest.0, rest.1, rest.2, rest.3, rest.4))
        }
    }
}

impl<T> Drop for Runs<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the place has room for all that is left, and does not overlap the runs.
        unsafe {
            ptr::copy_nonoverlapping(self.first, self.to, self.firsts);
            ptr::copy_nonoverlapping(self.second, self.to.add(self.firsts), self.seconds);
        }
    }
}

/// Merges two runs. If the loop is stopped, moves them all the same.
#[inline(never)]
fn merge<T, F>(this: &Loop<'_>, mut runs: Runs<'_, T>, compare: &F, mut depth: u32)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    let guard = StopOnPanic(this);
    let is_less = |a: &T, b: &T| compare(a, b) == Ordering::Less;
    while runs.len() > leaf::<T>() && runs.firsts > 0 && runs.seconds > 0 {
        if this.pass() == Pass::End {
            return forget(guard);
        }
        let (before, behind) = runs.split(is_less);
        if this.is_shared() && may_nest(depth) {
            depth += 1;
            join(|| merge(this, before, compare, depth), || merge(this, behind, compare, depth));
            return forget(guard);
        }
        merge(this, before, compare, depth);
        runs = behind;
    }
    while runs.firsts > 0 && runs.seconds > 0 {
        runs.step(is_less);
    }
    drop(runs);
    forget(guard);
}
