//! A parallel quicksort (Hoare, "Quicksort", The Computer Journal, 1962) that leaves small pieces
//! to std's `sort_unstable_by`.
//!
//! It moves elements by swaps alone, so whatever the comparison does, the slice stays a
//! permutation. The other precautions are those of pattern-defeating quicksort (Peters, arXiv
//! 2106.05123, 2021):
//!
//! * **Equal elements.** The right-hand piece knows the pivot in front of it, and none of its
//!   elements is less than that pivot. If its own pivot is not greater either, all elements equal
//!   to it are put aside; they are in place.
//! * **Bad pivots.** A pivot is the median of three medians of three. A piece that was still cut
//!   unevenly too often is left to std's sort. Its worst case is O(n log n), and so is that of this
//!   sort.
//! * **A slice in order,** or in reverse order, is recognised before the first cut.
//!
//! The inner loop has no list of children that depends on a comparison (Lomuto's partition, which
//! swaps each element whether or not it needs to move), as a list of children misprediction costs
//! more than a swap.

use crate::par::boundary::with_caller;
use crate::par::drive::{Loop, Pass, Stop, StopOnPanic, may_nest};
use crate::runtime::{Cancelled, join};
use std::cmp::Ordering;

/// Pieces of at most this many elements are not cut: std's sort takes some 20 us for as many
/// integers.
const LEAST: usize = 1 << 10;
/// Nor are pieces of at most this many elements, and of at most 1 MiB, unless another worker asks
/// for work: some hundred microseconds.
pub(super) const fn leaf<T>() -> usize {
    let (most, fitting) =
        (1 << 15, (1 << 20) / if size_of::<T>() > 0 { size_of::<T>() } else { 1 });
    if fitting < 64 {
        64
    } else if fitting < most {
        fitting
    } else {
        most
    }
}
/// A cut is uneven if one side has less than this fraction of the piece.
const UNEVEN: usize = 8;

/// Sorts a slice by a comparison, not keeping the order of equal elements.
///
/// Suspends like [`for_each`](crate::par::for_each), between two steps instead of two chunks. A
/// step sorts a piece of up to some ten thousand elements, or cuts a larger one in two. The first
/// steps go over the whole slice once or twice without a pause, and a cancellation is noticed after
/// that.
///
/// Costs O(n log n) comparisons, or O(n) if the slice is in order or strictly in reverse order. On
/// one worker it takes about as long as [`slice::sort_unstable_by`]. Elements are swapped in place,
/// without a buffer.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut words = ["work", "stealing", "coroutines", "of"];
/// rt.block_on(|| par::sort_unstable_by(&mut words, |a, b| b.len().cmp(&a.len()))).unwrap();
/// assert_eq!(words, ["coroutines", "stealing", "work", "of"]);
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
pub fn sort_unstable_by<T, F>(slice: &mut [T], compare: F) -> Result<(), Cancelled>
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    run("par::sort_unstable_by", slice, &compare)
}

/// Sorts a slice, not keeping the order of equal elements. Like [`sort_unstable_by`] with
/// [`Ord::cmp`].
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut numbers = vec![3, 1, 2];
/// rt.block_on(|| par::sort_unstable(&mut numbers)).unwrap();
/// assert_eq!(numbers, [1, 2, 3]);
/// ```
///
/// # Errors
/// As for [`sort_unstable_by`].
///
/// # Panics
/// As for [`sort_unstable_by`].
#[track_caller]
pub fn sort_unstable<T: Ord + Send>(slice: &mut [T]) -> Result<(), Cancelled> {
    run("par::sort_unstable", slice, &T::cmp)
}

/// Sorts a slice by a key, not keeping the order of elements with equal keys.
///
/// Like [`sort_unstable_by`]; each comparison calls `key` twice.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut numbers = [-3i32, 1, 2];
/// rt.block_on(|| par::sort_unstable_by_key(&mut numbers, |n| n.abs())).unwrap();
/// assert_eq!(numbers, [1, 2, -3]);
/// ```
///
/// # Errors
/// As for [`sort_unstable_by`].
///
/// # Panics
/// As for [`sort_unstable_by`].
#[track_caller]
pub fn sort_unstable_by_key<T, K, F>(slice: &mut [T], key: F) -> Result<(), Cancelled>
where
    T: Send,
    K: Ord,
    F: Fn(&T) -> K + Sync,
{
    run("par::sort_unstable_by_key", slice, &|a, b| key(a).cmp(&key(b)))
}

#[track_caller]
fn run<T, F>(what: &str, slice: &mut [T], compare: &F) -> Result<(), Cancelled>
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    let stopped = with_caller(what, |caller, workers| {
        let this = Loop::new(caller, workers);
        if slice.len() > LEAST && is_in_order(slice, compare) {
            return Stop::No;
        }
        // More uneven cuts than there would be even ones mean a pattern, not an accident.
        let patience = usize::BITS - slice.len().leading_zeros();
        sort(&this, slice, compare, None, Budget { patience, depth: 0 });
        this.stopped()
    })?;
    if stopped == Stop::No { Ok(()) } else { Err(Cancelled::here()) }
}

/// Returns whether the slice is sorted. A slice in strictly reverse order is reversed here first.
pub(super) fn is_in_order<T, F: Fn(&T, &T) -> Ordering>(slice: &mut [T], compare: &F) -> bool {
    if slice.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
        return true;
    }
    let falling = slice.is_sorted_by(|a, b| compare(a, b) == Ordering::Greater);
    if falling {
        slice.reverse();
    }
    falling
}

/// The limits for cutting a piece further.
#[derive(Clone, Copy)]
struct Budget {
    /// How many uneven cuts are left.
    patience: u32,
    /// The forks that are open below on this stack.
    depth: u32,
}

/// Sorts a piece. `before` is the pivot in front of it, if there is one; no element is less than
/// it.
#[inline(never)]
fn sort<'a, T, F>(
    this: &Loop<'_>,
    mut piece: &'a mut [T],
    compare: &F,
    mut before: Option<&'a mut T>,
    mut budget: Budget,
) where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    let guard = StopOnPanic(this);
    loop {
        let requested = match this.pass() {
            Pass::On => false,
            Pass::Interrupted { requested, .. } => requested,
            Pass::End => break,
        };
        if piece.len() <= LEAST
            || budget.patience == 0
            || (piece.len() <= leaf::<T>() && !requested)
        {
            piece.sort_unstable_by(compare);
            break;
        }
        choose_pivot(piece, compare);
        let is_less = |a: &T, b: &T| compare(a, b) == Ordering::Less;
        // Asked once for each pivot: with a comparison that is not an order, the loop might not end
        // otherwise.
        if before.take_if(|before| !is_less(before, &piece[0])).is_some() {
            // The pivot equals the one before, and so does every element that is not greater.
            let equal = partition(piece, |pivot, x| !is_less(pivot, x));
            piece = &mut piece[equal + 1..];
            continue;
        }
        let middle = partition(piece, |pivot, x| is_less(x, pivot));
        if middle.min(piece.len() - middle) < piece.len() / UNEVEN {
            budget.patience -= 1;
        }
        let (first, rest) = piece.split_at_mut(middle);
        let (pivot, second) = rest.split_first_mut().expect("the pivot is in the rest");
        let (mut small, mut large) = ((first, before), (second, Some(pivot)));
        if small.0.len() > large.0.len() {
            (small, large) = (large, small);
        }
        // The large half comes second. Thieves take the second half, and without a fork this order
        // bounds the depth of calls.
        if this.is_shared() && may_nest(budget.depth) {
            budget.depth += 1;
            join(
                || sort(this, small.0, compare, small.1, budget),
                || sort(this, large.0, compare, large.1, budget),
            );
            break;
        }
        sort(this, small.0, compare, small.1, budget);
        (piece, before) = large;
    }
    std::mem::forget(guard);
}

/// Puts an element near the median in front.
fn choose_pivot<T, F: Fn(&T, &T) -> Ordering>(piece: &mut [T], compare: &F) {
    let median = |a: usize, b: usize, c: usize| {
        let is_less = |a: usize, b: usize| compare(&piece[a], &piece[b]) == Ordering::Less;
        let (low, high) = if is_less(b, a) { (b, a) } else { (a, b) };
        if is_less(c, low) {
            low
        } else if is_less(high, c) {
            high
        } else {
            c
        }
    };
    // Not at regular distances, in case the slice has a regular pattern.
    let eighth = piece.len() / 8;
    let at = |i: usize| i * eighth + i;
    let pivot = median(
        median(at(0), at(1), at(2)),
        median(at(3), piece.len() / 2, at(4)),
        median(at(5), at(6), piece.len() - 1),
    );
    piece.swap(0, pivot);
}

/// Partitions a piece around its first element, the pivot: elements that belong to the left of it,
/// the pivot, the others. Returns the pivot's index.
#[inline]
fn partition<T>(piece: &mut [T], belongs_left: impl Fn(&T, &T) -> bool) -> usize {
    let (pivot, rest) = piece.split_first_mut().expect("a piece is not empty");
    let mut left = 0;
    for i in 0..rest.len() {
        let moves = belongs_left(pivot, &rest[i]);
        rest.swap(left, i);
        left += usize::from(moves);
    }
    piece.swap(0, left);
    left
}
