//! Values that end with a stop.
//!
//! Each call first looks at the stop, by one load, and then calls the value. Only if the value is
//! not ready, the call registers its waker for the stop, and looks at the stop again. A stop that
//! came after the first look finds no waker to call, but the second look finds the stop. The
//! registered waker is remembered, so a further poll with the same waker takes no lock. It is
//! removed with the `Interrupt`.
//!
//! A value that is read and written at once has two waiting tasks, as a rule. Neither may overwrite
//! the other's waker, so writes have a listener of their own. It is made when a write has to wait
//! for the first time, which is rare.

mod channel;

use super::{Guard, StopListener};
#[cfg(feature = "futures")]
use futures_core::Stream;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value that ends with the stop of a [`Swansong`](super::Swansong), or with the end of the
/// `Swansong`. Made by [`Swansong::interrupt`](super::Swansong::interrupt).
///
/// Before the stop, it behaves like the value. After the stop, it is at its end:
///
/// | the value | after the stop | a waiter is woken |
/// | --- | --- | --- |
/// | [`Future`] | `None`; before the stop, `Some` of its output | yes |
/// | [`Iterator`] | `None` | no |
/// | `Stream` (feature `futures`) | `None` | yes |
/// | `AsyncRead`, `AsyncBufRead` (features `futures-io`, `tokio`) | the end: no bytes | yes |
/// | `AsyncWrite` (features `futures-io`, `tokio`) | no bytes are written: `Ok(0)` | yes |
/// | [`Read`](std::io::Read), [`BufRead`](std::io::BufRead) | the end: no bytes | no |
/// | [`Write`](std::io::Write) | no bytes are written: `Ok(0)` | no |
/// | [`Receiver`](crate::sync::Receiver) or `&Receiver` | [`recv`](Interrupt::recv): `None` | yes |
///
/// "No" means that a call which blocks inside the value cannot be woken. Such values look at the
/// stop before each call; a call in progress ends when the value ends it. The same goes for
/// `interrupt(receiver.iter())`, of any channel. To interrupt a channel of this library, wrap the
/// receiver itself.
///
/// Flushing and closing are passed on even after the stop, and wait for the value. A `write_all`
/// that is cut short by the stop fails with [`WriteZero`](std::io::ErrorKind::WriteZero), a
/// `read_exact` with [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof). A reader and a writer
/// may wait at the same time in two tasks, and both are woken. The stop does not drop the value: it
/// exists until the `Interrupt` is dropped. [`Deref`], [`DerefMut`] and
/// [`into_inner`](Interrupt::into_inner) give access to the value as if there were no stop.
///
/// An interrupt delays no shutdown, unless it is [`guarded`](Interrupt::guarded), and keeps no
/// `Swansong` alive. Two are equal if their values are equal and both belong to the same
/// `Swansong`. It has exactly the auto traits of the value.
///
/// A call costs one load more than the value's own call. A call that waits also costs a lock
/// acquisition when it is polled first, or with another waker.
///
/// ```
/// use cygnet::shutdown::Swansong;
/// use std::future::{pending, ready};
///
/// let swansong = Swansong::new();
/// assert_eq!(cygnet::wait(swansong.interrupt(ready(1))), Ok(Some(1)));
/// std::thread::scope(|s| {
///     let endless = swansong.interrupt(pending::<()>());
///     let waits = s.spawn(|| cygnet::wait(endless));
///     swansong.shut_down();
///     assert_eq!(waits.join().unwrap(), Ok(None));
/// });
/// assert_eq!(cygnet::wait(swansong.interrupt(ready(1))), Ok(None)); // too late
/// ```
///
/// ```
/// let swansong = cygnet::shutdown::Swansong::new();
/// let mut seen = Vec::new();
/// for i in swansong.interrupt(0..) {
///     seen.push(i);
///     if i == 2 {
///         swansong.shut_down();
///     }
/// }
/// assert_eq!(seen, [0, 1, 2]);
/// ```
pub struct Interrupt<T> {
    // The guard is dropped after the value, because the value's destructor is part of the work.
    pub(super) value: T,
    pub(super) stop: StopListener,
    guard: Option<Guard>,
}

impl<T> Interrupt<T> {
    #[inline]
    pub(crate) fn new(stop: StopListener, value: T) -> Interrupt<T> {
        Interrupt { value, stop, guard: None }
    }

    /// Adds a [`Guard`]: shutdown is not complete until the interrupt is dropped.
    ///
    /// A second call changes nothing. If the `Swansong` has ended, no guard is added, since no
    /// shutdown can wait for it.
    ///
    /// ```
    /// let swansong = cygnet::shutdown::Swansong::new();
    /// let mut numbers = swansong.interrupt(0..).guarded();
    /// assert_eq!((swansong.guard_count(), numbers.next()), (1, Some(0)));
    /// swansong.shut_down();
    /// assert_eq!((swansong.guard_count(), numbers.next()), (1, None));
    /// drop(numbers);
    /// assert_eq!(swansong.guard_count(), 0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn guarded(mut self) -> Interrupt<T> {
        if self.guard.is_none() {
            self.guard = self.stop.guard();
        }
        self
    }

    /// Returns the value, and drops the guard if there is one.
    ///
    /// ```
    /// let swansong = cygnet::shutdown::Swansong::new();
    /// let mut numbers = swansong.interrupt(0..).guarded();
    /// swansong.shut_down();
    /// assert_eq!(numbers.next(), None);
    /// assert_eq!(numbers.into_inner().next(), Some(0));
    /// assert_eq!(swansong.guard_count(), 0);
    /// ```
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the value, and the listener for the stop.
    #[inline]
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut T>, &mut StopListener) {
        // SAFETY: of the borrowed fields only the value is pinned, and it is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the value is pinned with the whole. Nothing here moves it out of a borrowed
        // `Interrupt`, there is no `Drop`, and `Interrupt` is `Unpin` only if the value is.
        let value = unsafe { Pin::new_unchecked(&mut this.value) };
        (value, &mut this.stop)
    }
}

/// Polls until the stop, which ends it with `None`.
#[inline]
fn poll_until_stop<R>(
    stop: &mut StopListener,
    cx: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
) -> Poll<Option<R>> {
    if stop.is_stopped() {
        return Poll::Ready(None);
    }
    match poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => stop.poll_stopped(cx).map(|()| None),
    }
}

/// See the module `shutdown::io`.
#[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
impl<T> Interrupt<T> {
    #[inline]
    pub(super) fn pinned(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.parts().0
    }

    /// Polls a read until the stop, which ends it with nothing read.
    #[inline]
    pub(super) fn poll_read_value<'a, R: Default>(
        self: Pin<&'a mut Self>,
        cx: &mut Context<'_>,
        read: impl FnOnce(Pin<&'a mut T>, &mut Context<'_>) -> Poll<std::io::Result<R>>,
    ) -> Poll<std::io::Result<R>> {
        let (value, stop) = self.parts();
        poll_until_stop(stop, cx, |cx| read(value, cx))
            .map(|read| read.unwrap_or_else(|| Ok(R::default())))
    }

    /// Polls a write until the stop, which ends it with `Ok(0)`.
    #[inline]
    pub(super) fn poll_write_value(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<std::io::Result<usize>>,
    ) -> Poll<std::io::Result<usize>> {
        let (value, stop) = self.parts();
        if stop.is_stopped() {
            return Poll::Ready(Ok(0));
        }
        match write(value, cx) {
            Poll::Pending => stop.poll_stopped_of_writes(cx).map(|()| Ok(0)),
            written => written,
        }
    }
}

impl<T> Deref for Interrupt<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Interrupt<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Future> Future for Interrupt<T> {
    /// `None` if the stop came first.
    type Output = Option<T::Output>;

    /// # Panics
    /// With the panic of the future. Most futures panic when they are polled after they were ready.
    /// After the stop the future is not polled.
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T::Output>> {
        let (future, stop) = self.parts();
        poll_until_stop(stop, cx, |cx| future.poll(cx))
    }
}

/// With the feature `futures`.
///
/// ```
/// use cygnet::shutdown::Swansong;
/// use futures_core::Stream;
/// use std::future::poll_fn;
/// use std::pin::pin;
///
/// let swansong = Swansong::new();
/// let (sender, receiver) = cygnet::sync::unbounded();
/// let mut stream = pin!(swansong.interrupt(receiver.into_stream()));
/// let mut next = || cygnet::wait(poll_fn(|cx| stream.as_mut().poll_next(cx)));
/// sender.send(1).unwrap();
/// assert_eq!(next(), Ok(Some(1)));
/// swansong.shut_down();
/// sender.send(2).unwrap();
/// assert_eq!(next(), Ok(None));
/// ```
#[cfg(feature = "futures")]
impl<T: Stream> Stream for Interrupt<T> {
    type Item = T::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T::Item>> {
        let (stream, stop) = self.parts();
        poll_until_stop(stop, cx, |cx| stream.poll_next(cx)).map(Option::flatten)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.value.size_hint().1)
    }
}

/// Each step looks at the stop first; a step that blocks is not woken.
///
/// ```
/// use cygnet::shutdown::Swansong;
/// use std::sync::mpsc::channel;
///
/// let swansong = Swansong::new();
/// let (sender, receiver) = channel();
/// (0..10).for_each(|i| sender.send(i).unwrap());
/// let mut sum = 0;
/// for i in swansong.interrupt(receiver.iter()) {
///     sum += i;
///     if i == 3 {
///         swansong.shut_down();
///     }
/// }
/// assert_eq!((sum, receiver.recv()), (6, Ok(4)));
/// ```
impl<T: Iterator> Iterator for Interrupt<T> {
    type Item = T::Item;

    #[inline]
    fn next(&mut self) -> Option<T::Item> {
        if self.stop.is_stopped() { None } else { self.value.next() }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.value.size_hint().1)
    }
}

impl<T: Eq> Eq for Interrupt<T> {}

impl<T: PartialEq<U>, U> PartialEq<Interrupt<U>> for Interrupt<T> {
    fn eq(&self, other: &Interrupt<U>) -> bool {
        self.stop.is_same(&other.stop) && self.value == other.value
    }
}

debug! {
    impl<T: fmt::Debug> Interrupt<T> as this {
        value: this.value,
        stopped: this.stop.is_stopped(),
        guarded: this.guard.is_some(),
    }
}
