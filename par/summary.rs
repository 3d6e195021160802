//! Loops that say one thing about all items: their sum, their number, the least and the greatest.

use crate::par::drive::{Body, run_all};
use crate::par::{IntoSource, Source};
use crate::runtime::Cancelled;
use std::iter::{self, Sum};
use std::ops::ControlFlow;

/// What is said about a chunk, and how two such things become one.
struct Summary<P, M> {
    part: P,
    merge: M,
}

impl<S, T, P, M> Body<S> for Summary<P, M>
where
    S: Source,
    T: Send,
    P: Fn(&mut S::Iter) -> Option<T> + Sync,
    M: Fn(T, T) -> T + Sync,
{
    type Out = Option<T>;

    #[inline]
    fn begin(&self) -> Option<T> {
        None
    }

    #[inline]
    fn chunk(&self, out: Option<T>, chunk: S) -> ControlFlow<Option<T>, Option<T>> {
        let mut items = chunk.items();
        let part = (self.part)(&mut items);
        drop(items);
        ControlFlow::Continue(Body::<S>::merge(self, out, part))
    }

    #[inline]
    fn merge(&self, first: Option<T>, second: Option<T>) -> Option<T> {
        match (first, second) {
            (Some(first), Some(second)) => Some((self.merge)(first, second)),
            (first, second) => first.or(second),
        }
    }
}

/// Returns the sum of all items, as [`Iterator::sum`] does. The grouping differs from call to call,
/// so of floating-point numbers the last digits do.
///
/// Suspends and costs like [`for_each`](crate::par::for_each).
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(rt.block_on(|| par::sum(1..=1000u64)), Ok(500_500));
/// assert_eq!(rt.block_on(|| par::sum::<_, u32>(&[1, 2, 3])), Ok(6));
/// ```
///
/// # Errors
/// As for [`for_each`](crate::par::for_each).
///
/// # Panics
/// As for [`for_each`](crate::par::for_each), also for a panic of an addition.
#[track_caller]
pub fn sum<S, T>(source: S) -> Result<T, Cancelled>
where
    S: IntoSource,
    T: Sum<S::Item> + Sum<T> + Send,
{
    let summary = Summary {
        part: |items: &mut <S::Source as Source>::Iter| Some(items.sum()),
        merge: |first, second| [first, second].into_iter().sum(),
    };
    let sum: Option<T> = run_all("par::sum", source.into_source(), &summary)?;
    Ok(sum.unwrap_or_else(|| iter::empty::<T>().sum()))
}

/// Returns for how many items `f` is true.
///
/// Suspends and costs like [`for_each`](crate::par::for_each).
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(rt.block_on(|| par::count("a b c".as_bytes(), |c| *c == b' ')), Ok(2));
/// ```
///
/// # Errors
/// As for [`for_each`](crate::par::for_each).
///
/// # Panics
/// As for [`for_each`](crate::par::for_each).
#[track_caller]
pub fn count<S, F>(source: S, f: F) -> Result<usize, Cancelled>
where
    S: IntoSource,
    F: Fn(S::Item) -> bool + Sync,
{
    let summary = Summary {
        part: |items: &mut <S::Source as Source>::Iter| {
            Some(items.map(|item| usize::from(f(item))).sum::<usize>())
        },
        merge: |first, second| first + second,
    };
    Ok(run_all("par::count", source.into_source(), &summary)?.unwrap_or(0))
}

/// Returns the least item, the first of equal ones; `None` if there are no items.
///
/// Suspends and costs like [`for_each`](crate::par::for_each).
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(rt.block_on(|| par::min(&[3, 1, 2])), Ok(Some(&1)));
/// ```
///
/// # Errors
/// As for [`for_each`](crate::par::for_each).
///
/// # Panics
/// As for [`for_each`](crate::par::for_each), also for a panic of a comparison.
#[track_caller]
pub fn min<S>(source: S) -> Result<Option<S::Item>, Cancelled>
where
    S: IntoSource,
    S::Item: Ord + Send,
{
    let summary = Summary {
        part: |items: &mut <S::Source as Source>::Iter| items.min(),
        merge: |first: S::Item, second| first.min(second),
    };
    run_all("par::min", source.into_source(), &summary)
}

/// Returns the greatest item, the last of equal ones; `None` if there are no items.
///
/// Suspends and costs like [`for_each`](crate::par::for_each).
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let last = rt.block_on(|| par::max(&["work", "stealing"])).unwrap();
/// assert_eq!(last, Some(&"work"));
/// ```
///
/// # Errors
/// As for [`for_each`](crate::par::for_each).
///
/// # Panics
/// As for [`for_each`](crate::par::for_each), also for a panic of a comparison.
#[track_caller]
pub fn max<S>(source: S) -> Result<Option<S::Item>, Cancelled>
where
    S: IntoSource,
    S::Item: Ord + Send,
{
    let summary = Summary {
        part: |items: &mut <S::Source as Source>::Iter| items.max(),
        merge: |first: S::Item, second| first.max(second),
    };
    run_all("par::max", source.into_source(), &summary)
}
