//! A value with a guard.

mod io_std;

#[cfg(feature = "futures-io")]
mod io_futures;
#[cfg(all(feature = "tokio", not(loom)))]
mod io_tokio;

use super::Guard;
#[cfg(feature = "futures")]
use futures_core::Stream;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value with a [`Guard`]: shutdown is not complete before it is dropped. See
/// [`Swansong::guarded`](super::Swansong::guarded).
///
/// It is what the value is: a future, an iterator, a reader or a writer of `std::io`; with the feature `futures` a stream, with
/// `futures-io` and `tokio` what reads and writes by their traits. The rest is reached through [`Deref`] and [`DerefMut`].
/// All of it is passed on as it is, also after the stop: for what should end then there is
/// [`Interrupt`](super::Interrupt), which can have a guard of its own.
///
/// The value is dropped first, and the guard after it: what its destructor does belongs to the work. A clone has a guard of
/// its own. Two are equal if their values are, and both belong to the same [`Swansong`](super::Swansong). It has
/// exactly the auto traits of the value.
///
/// ```
/// use cygnet::shutdown::Swansong;
///
/// let swansong = Swansong::new();
/// let work = swansong.guarded(async { 6 * 7 });
/// assert_eq!(swansong.guard_count(), 1);
/// swansong.shut_down();
/// assert_eq!(cygnet::wait(work), Ok(42)); // by the stop it is not bothered
/// assert_eq!(swansong.guard_count(), 0);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Guarded<T> {
    // In this order they are dropped.
    value: T,
    guard: Guard,
}

impl<T> Guarded<T> {
    #[inline]
    pub(crate) fn new(guard: Guard, value: T) -> Guarded<T> {
        Guarded { value, guard }
    }

    /// Calls it, and drops the guard when that is over, also by a panic.
    pub(super) fn call<R>(self) -> R
    where
        T: FnOnce() -> R,
    {
        let Guarded { value, guard: _guard } = self;
        value()
    }

    /// The value without the guard, which is dropped.
    ///
    /// ```
    /// let swansong = cygnet::shutdown::Swansong::new();
    /// assert_eq!(swansong.guarded(1).into_inner(), 1);
    /// assert_eq!(swansong.guard_count(), 0);
    /// ```
    pub fn into_inner(self) -> T {
        self.value
    }

    #[inline]
    fn pinned(self: Pin<&mut Self>) -> Pin<&mut T> {
        // SAFETY: the value is pinned with the whole: nothing here moves it out of a `Guarded` that is borrowed, there is no
        // `Drop`, and it is `Unpin` only if the value is.
        unsafe { self.map_unchecked_mut(|this| &mut this.value) }
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guarded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Future> Future for Guarded<T> {
    type Output = T::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output> {
        self.pinned().poll(cx)
    }
}

/// With the feature `futures`.
#[cfg(feature = "futures")]
impl<T: Stream> Stream for Guarded<T> {
    type Item = T::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T::Item>> {
        self.pinned().poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.value.size_hint()
    }
}

impl<T: Iterator> Iterator for Guarded<T> {
    type Item = T::Item;

    #[inline]
    fn next(&mut self) -> Option<T::Item> {
        self.value.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.value.size_hint()
    }
}

impl<T: fmt::Debug> fmt::Debug for Guarded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("value", &self.value).field("guard", &self.guard).finish()
    }
}
