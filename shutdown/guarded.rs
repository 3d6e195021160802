//! Values with guards.

use super::Guard;
#[cfg(feature = "futures")]
use futures_core::Stream;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value with a [`Guard`]: shutdown is not complete until it is dropped. Made by
/// [`Swansong::guarded`](super::Swansong::guarded).
///
/// It implements what the value implements of `Future`, `Iterator` and the traits of `std::io`;
/// with the feature `futures` also `Stream`, with `futures-io` and `tokio` their read and write
/// traits. [`Deref`] and [`DerefMut`] give access to everything else. All calls are passed on
/// unchanged, even after the stop. For a value that should end with the stop, use
/// [`Interrupt`](super::Interrupt), which can have a guard, too.
///
/// The guard is dropped after the value, because the value's destructor is part of the work. A
/// clone has a guard of its own. Two are equal if their values are equal and both belong to the
/// same [`Swansong`](super::Swansong). It has exactly the auto traits of the value.
///
/// ```
/// use cygnet::shutdown::Swansong;
///
/// let swansong = Swansong::new();
/// let work = swansong.guarded(async { 6 * 7 });
/// assert_eq!(swansong.guard_count(), 1);
/// swansong.shut_down();
/// assert_eq!(cygnet::wait(work), Ok(42)); // the stop does not end it
/// assert_eq!(swansong.guard_count(), 0);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Guarded<T> {
    // Dropped in this order.
    pub(super) value: T,
    guard: Guard,
}

impl<T> Guarded<T> {
    #[inline]
    pub(crate) fn new(guard: Guard, value: T) -> Guarded<T> {
        Guarded { value, guard }
    }

    /// Returns the value, and drops the guard.
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
    pub(super) fn pinned(self: Pin<&mut Self>) -> Pin<&mut T> {
        // SAFETY: the value is pinned with the whole. Nothing here moves it out of a borrowed
        // `Guarded`, there is no `Drop`, and `Guarded` is `Unpin` only if the value is.
        unsafe { self.map_unchecked_mut(|this| &mut this.value) }
    }
}

/// See the module `shutdown::io`.
#[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
impl<T> Guarded<T> {
    #[inline]
    pub(super) fn poll_read_value<'a, R>(
        self: Pin<&'a mut Self>,
        cx: &mut Context<'_>,
        read: impl FnOnce(Pin<&'a mut T>, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        read(self.pinned(), cx)
    }

    #[inline]
    pub(super) fn poll_write_value<R>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        write(self.pinned(), cx)
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

debug! { impl<T: fmt::Debug> Guarded<T> as this { value: this.value, guard: this.guard } }
