//! Loops that end as soon as one item decides the result.

use crate::par::drive::{Body, Stop, run};
use crate::par::{Enumerate, IntoSource, Source, enumerate};
use crate::runtime::Cancelled;
use crate::shim::atomic::{AtomicUsize, Ordering};
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

struct Position<F> {
    f: F,
    /// The items from the first one that was found on, counted from the end of all numbers: 0 if
    /// none was found.
    found: AtomicUsize,
}

impl<S, F> Body<Enumerate<S>> for Position<F>
where
    S: Source,
    F: Fn(S::Item) -> bool + Sync,
{
    type Out = ();

    #[inline]
    fn begin(&self) {}

    /// Not what lies behind an item that was found.
    #[inline]
    fn wants(&self, rest: &Enumerate<S>) -> bool {
        usize::MAX - rest.first > self.found.load(Ordering::Relaxed)
    }

    #[inline]
    fn chunk(&self, (): (), chunk: Enumerate<S>) -> ControlFlow<()> {
        let first = chunk.first;
        let mut items = chunk.source.items();
        let found = items.position(&self.f);
        drop(items);
        if let Some(n) = found {
            self.found.fetch_max(usize::MAX - first.saturating_add(n), Ordering::Relaxed);
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn merge(&self, (): (), (): ()) {}
}

/// Returns the number of the first item for which `f` is true, from 0 on, if there is one. Like
/// [`Iterator::position`].
///
/// The search ends soon after all items before that one have been looked at. The other items are
/// dropped. Suspends and costs like [`for_each`](crate::par::for_each).
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let words = ["work", "stealing", "of", "coroutines"];
/// let long = |word: &&str| word.len() > 4;
/// assert_eq!(rt.block_on(|| par::position(&words, long)), Ok(Some(1)));
/// assert_eq!(rt.block_on(|| par::position(1.., |n: u64| n.is_multiple_of(1000))), Ok(Some(999)));
/// ```
///
/// # Errors
/// As for [`for_each`](crate::par::for_each), even if an item has been found: there may be one
/// before it.
///
/// # Panics
/// As for [`for_each`](crate::par::for_each).
#[track_caller]
pub fn position<S, F>(source: S, f: F) -> Result<Option<usize>, Cancelled>
where
    S: IntoSource,
    F: Fn(S::Item) -> bool + Sync,
{
    let body = Position { f, found: AtomicUsize::new(0) };
    let ((), stopped) = run("par::position", enumerate(source), &body)?;
    if stopped != Stop::No {
        return Err(Cancelled::here());
    }
    // Relaxed: the end of the loop has ordered all of it before this.
    let found = body.found.load(Ordering::Relaxed);
    Ok((found > 0).then(|| usize::MAX - found))
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

/// Calls `f` with each item, in any order, on any worker, until one call fails. Returns that error.
/// If several calls fail, one of their errors is returned, and the others are dropped.
///
/// Ends early, suspends and costs like [`find_any`].
///
/// ```
/// use cygnet::par;
/// type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let check = |texts: &[&str]| -> Outcome {
///     par::try_for_each(texts, |text| Ok(drop(text.parse::<f64>()?)))
/// };
/// assert!(rt.block_on(|| check(&["1", "2.5"])).is_ok());
/// assert!(rt.block_on(|| check(&["1", "two"])).is_err());
/// ```
///
/// # Errors
/// An error of `f`; or one made from the [`Cancelled`] of [`for_each`](crate::par::for_each).
///
/// # Panics
/// As for [`find_any`].
#[track_caller]
pub fn try_for_each<S, E, F>(source: S, f: F) -> Result<(), E>
where
    S: IntoSource,
    E: From<Cancelled> + Send,
    F: Fn(S::Item) -> Result<(), E> + Sync,
{
    match find_map("par::try_for_each", source, |item| f(item).err())? {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct TryFold<I, M, R> {
    identity: I,
    map: M,
    reduce: R,
}

impl<S, T, E, I, M, R> Body<S> for TryFold<I, M, R>
where
    S: Source,
    T: Send,
    E: Send,
    I: Fn() -> T + Sync,
    M: Fn(S::Item) -> Result<T, E> + Sync,
    R: Fn(T, T) -> T + Sync,
{
    type Out = Result<T, E>;

    #[inline]
    fn begin(&self) -> Result<T, E> {
        Ok((self.identity)())
    }

    #[inline]
    fn chunk(&self, out: Result<T, E>, chunk: S) -> ControlFlow<Result<T, E>, Result<T, E>> {
        let mut items = chunk.items();
        let out = out.and_then(|out| {
            items.try_fold(out, |out, item| match (self.map)(item) {
                Ok(value) => Ok((self.reduce)(out, value)),
                Err(error) => {
                    drop(out);
                    Err(error)
                }
            })
        });
        drop(items);
        if out.is_ok() { ControlFlow::Continue(out) } else { ControlFlow::Break(out) }
    }

    #[inline]
    fn merge(&self, first: Result<T, E>, second: Result<T, E>) -> Result<T, E> {
        match (first, second) {
            (Ok(first), Ok(second)) => Ok((self.reduce)(first, second)),
            (Err(error), other) => {
                drop(other);
                Err(error)
            }
            (Ok(value), error) => {
                drop(value);
                error
            }
        }
    }
}

/// Maps each item to a value and reduces the values to one, like
/// [`map_reduce`](crate::par::map_reduce), until one call of `map` fails. Returns that error, or
/// one of them.
///
/// Ends early like [`find_any`]; suspends and costs like [`map_reduce`](crate::par::map_reduce).
///
/// ```
/// use cygnet::par;
/// type Outcome = Result<u64, Box<dyn std::error::Error + Send + Sync>>;
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let sum = |texts: &[&str]| -> Outcome {
///     par::try_map_reduce(texts, || 0, |text| Ok(text.parse::<u64>()?), |a, b| a + b)
/// };
/// assert_eq!(rt.block_on(|| sum(&["1", "2", "3"])).unwrap(), 6);
/// let error = rt.block_on(|| sum(&["1", "two", "3"])).unwrap_err();
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// ```
///
/// # Errors
/// An error of `map`; or one made from the [`Cancelled`] of [`for_each`](crate::par::for_each). The
/// values reduced so far are dropped.
///
/// # Panics
/// As for [`map_reduce`](crate::par::map_reduce), even if a call of `map` has failed.
#[track_caller]
pub fn try_map_reduce<S, T, E, I, M, R>(source: S, identity: I, map: M, reduce: R) -> Result<T, E>
where
    S: IntoSource,
    T: Send,
    E: From<Cancelled> + Send,
    I: Fn() -> T + Sync,
    M: Fn(S::Item) -> Result<T, E> + Sync,
    R: Fn(T, T) -> T + Sync,
{
    let body = TryFold { identity, map, reduce };
    match run("par::try_map_reduce", source.into_source(), &body)? {
        (Err(error), _) => Err(error),
        (Ok(value), Stop::No) => Ok(value),
        (Ok(value), _) => {
            drop(value);
            Err(Cancelled::here().into())
        }
    }
}
