//! Loops that end as soon as one item decides the result.

use crate::par::drive::{Body, Stop, run};
use crate::par::{IntoSource, Source};
use crate::runtime::Cancelled;
use std::ops::ControlFlow;

struct Find<F>(F);

impl<S, T, F> Body<S> for Find<F>
where
    S: Source,
    T: Send,
    F: Fn(S::Item) -> Option<T> + Sync,
{
    type Out = Option<T>;

    #[inline]
    fn begin(&self) -> Option<T> {
        None
    }

    #[inline]
    fn chunk(&self, _: Option<T>, chunk: S) -> ControlFlow<Option<T>, Option<T>> {
        let mut items = chunk.items();
        let found = items.find_map(&self.0);
        drop(items);
        match found {
            None => ControlFlow::Continue(None),
            found => ControlFlow::Break(found),
        }
    }

    #[inline]
    fn merge(&self, first: Option<T>, second: Option<T>) -> Option<T> {
        first.or(second)
    }
}

#[track_caller]
fn find_map<S, T, F>(what: &str, source: S, f: F) -> Result<Option<T>, Cancelled>
where
    S: IntoSource,
    T: Send,
    F: Fn(S::Item) -> Option<T> + Sync,
{
    match run(what, source.into_source(), &Find(f))? {
        // An item that was found is returned, even if the loop was cancelled afterwards.
        (Some(found), _) => Ok(Some(found)),
        (None, Stop::No) => Ok(None),
        (None, _) => Err(Cancelled::here()),
    }
}

/// Returns an item for which `f` is true, if there is one. Which one may differ from call to call.
///
/// The search ends soon after an item has been found: each worker stops at the end of its chunk,
/// after some 20 us.
///
/// The other items are dropped. Suspends and costs like [`for_each`](crate::par::for_each).
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let factor = rt.block_on(|| par::find_any(2..600_851u64, |n| 600_851 % n == 0));
/// assert!(matches!(factor, Ok(Some(71 | 8462 | _))));
/// ```
///
/// # Errors
/// As for [`for_each`](crate::par::for_each), unless an item has already been found.
///
/// # Panics
/// As for [`for_each`](crate::par::for_each), even if another worker has found an item.
#[track_caller]
pub fn find_any<S, F>(source: S, f: F) -> Result<Option<S::Item>, Cancelled>
where
    S: IntoSource,
    S::Item: Send,
    F: Fn(&S::Item) -> bool + Sync,
{
    find_map("par::find_any", source, |item| f(&item).then_some(item))
}

/// Returns whether `f` is true for at least one item. `false` if there are no items.
///
/// Ends early, suspends and costs like [`find_any`].
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(rt.block_on(|| par::any(0..=u64::MAX, |n| n % 1000 == 999)), Ok(true));
/// assert_eq!(rt.block_on(|| par::any(&[1, 3], |n| n % 2 == 0)), Ok(false));
/// ```
///
/// # Errors
/// As for [`find_any`].
///
/// # Panics
/// As for [`find_any`].
#[track_caller]
pub fn any<S, F>(source: S, f: F) -> Result<bool, Cancelled>
where
    S: IntoSource,
    F: Fn(S::Item) -> bool + Sync,
{
    Ok(find_map("par::any", source, |item| f(item).then_some(()))?.is_some())
}

/// Returns whether `f` is true for all items. `true` if there are no items.
///
/// Ends early, suspends and costs like [`find_any`].
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// assert_eq!(rt.block_on(|| par::all(b"cygnet", |c| c.is_ascii_lowercase())), Ok(true));
/// assert_eq!(rt.block_on(|| par::all(0..=u64::MAX, |n| n < 1000)), Ok(false));
/// ```
///
/// # Errors
/// As for [`find_any`].
///
/// # Panics
/// As for [`find_any`].
#[track_caller]
pub fn all<S, F>(source: S, f: F) -> Result<bool, Cancelled>
where
    S: IntoSource,
    F: Fn(S::Item) -> bool + Sync,
{
    Ok(find_map("par::all", source, |item| (!f(item)).then_some(()))?.is_none())
}
