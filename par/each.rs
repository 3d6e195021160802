//! Loops that go over all items.

use crate::par::drive::{Body, run_all};
use crate::par::{IntoSource, Source};
use crate::runtime::Cancelled;
use std::ops::ControlFlow;

/// Calls `f` with each item, in any order, on any worker.
///
/// Suspends at the ends of chunks to let ready tasks of the worker run, and at its end if another
/// worker still has a part; that wait is structured. Costs a few hundred instructions, and some
/// sixty more for each chunk, that is, for about every 20 us. Sharing costs more (see [the module's
/// documentation](crate::par#what-it-costs)).
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut pixels = vec![0u8; 10_000];
/// rt.block_on(|| par::for_each(&mut pixels, |p| *p = p.wrapping_add(1))).unwrap();
/// assert!(pixels.iter().all(|&p| p == 1));
/// ```
///
/// # Errors
/// [`Cancelled`] if the task is cancelled or its runtime ends, on entry or before all items have
/// been passed to `f`. No call of `f` is in progress any more. The remaining items have been
/// dropped.
///
/// # Panics
/// If `f` panics: the panic is resumed once no other call of `f` is in progress, and the remaining
/// items are not passed to `f`. If called outside a task.
#[track_caller]
pub fn for_each<S, F>(source: S, f: F) -> Result<(), Cancelled>
where
    S: IntoSource,
    F: Fn(S::Item) + Sync,
{
    let fold = Fold { identity: || (), fold: |(), item| f(item), reduce: |(), ()| () };
    run_all("par::for_each", source.into_source(), &fold)
}

struct Fold<I, F, R> {
    identity: I,
    fold: F,
    reduce: R,
}

impl<S, A, I, F, R> Body<S> for Fold<I, F, R>
where
    S: Source,
    A: Send,
    I: Fn() -> A + Sync,
    F: Fn(A, S::Item) -> A + Sync,
    R: Fn(A, A) -> A + Sync,
{
    type Out = A;

    #[inline]
    fn begin(&self) -> A {
        (self.identity)()
    }

    #[inline]
    fn chunk(&self, out: A, chunk: S) -> ControlFlow<A, A> {
        ControlFlow::Continue(chunk.items().fold(out, &self.fold))
    }

    #[inline]
    fn merge(&self, first: A, second: A) -> A {
        (self.reduce)(first, second)
    }
}

/// Maps each item and reduces the results to one.
///
/// `reduce` must be associative, and `identity` must return its neutral element:
/// `reduce(identity(), x)` is `x`, and so is `reduce(x, identity())`. `reduce` need not be
/// commutative, as the order of the items is kept.
///
/// The grouping differs from call to call. So if `reduce` is not quite associative, such as a sum
/// of floating-point numbers, the last digits differ from call to call. If `identity` does not
/// return a neutral element, its value comes in once for each part, and the number of parts is
/// unpredictable: with 1 as the identity of a sum, the result is too large by an unknown number.
///
/// A sum over a slice compiles to the same code as a plain loop, vector instructions included.
///
/// Suspends and costs like [`for_each`], and calls `identity` and `reduce` once more for each part.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let sum = rt.block_on(|| par::map_reduce(1..=1000u64, || 0, |n| n * n, |a, b| a + b));
/// assert_eq!(sum, Ok(333_833_500));
///
/// let text = rt.block_on(|| {
///     par::map_reduce(b'a'..=b'e', String::new, |c| char::from(c).to_string(), |a, b| a + &b)
/// });
/// assert_eq!(text.unwrap(), "abcde");
/// ```
///
/// # Errors
/// As for [`for_each`]. The values reduced so far are dropped.
///
/// # Panics
/// As for [`for_each`], for a panic of any of the closures. The values reduced so far are
/// dropped.
#[track_caller]
pub fn map_reduce<S, R, I, M, F>(source: S, identity: I, map: M, reduce: F) -> Result<R, Cancelled>
where
    S: IntoSource,
    R: Send,
    I: Fn() -> R + Sync,
    M: Fn(S::Item) -> R + Sync,
    F: Fn(R, R) -> R + Sync,
{
    let fold = |out, item| reduce(out, map(item));
    run_all("par::map_reduce", source.into_source(), &Fold { identity, fold, reduce: &reduce })
}

/// Folds the items of each part into an accumulator, and reduces the accumulators to one.
///
/// Prefer this to [`map_reduce`] where a result for each item would be a detour: for counts,
/// tables, vectors. The same conditions hold for `identity` and `reduce`. In addition, `fold` into
/// an accumulator that `reduce` made from two must give the same as `fold` of all items into one.
///
/// Suspends and costs like [`map_reduce`].
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let words = ["work", "stealing", "coroutines"];
/// let (count, letters) = rt
///     .block_on(|| {
///         par::fold_reduce(
///             &words,
///             || (0, 0),
///             |(count, letters), word| (count + 1, letters + word.len()),
///             |a, b| (a.0 + b.0, a.1 + b.1),
///         )
///     })
///     .unwrap();
/// assert_eq!((count, letters), (3, 22));
/// ```
///
/// # Errors
/// As for [`map_reduce`].
///
/// # Panics
/// As for [`map_reduce`].
#[track_caller]
pub fn fold_reduce<S, A, I, F, R>(
    source: S,
    identity: I,
    fold: F,
    reduce: R,
) -> Result<A, Cancelled>
where
    S: IntoSource,
    A: Send,
    I: Fn() -> A + Sync,
    F: Fn(A, S::Item) -> A + Sync,
    R: Fn(A, A) -> A + Sync,
{
    run_all("par::fold_reduce", source.into_source(), &Fold { identity, fold, reduce })
}
