//! A value that a stop interrupts.
//!
//! Each call looks at the stop first, by one load, and passes on to the value. Only if that is not ready the stop is told whom to
//! call, and looked at once more: a stop that has come since the first look finds nobody to call, and is found here. Who is
//! called stays known over polls, so that one more poll with the same waker takes no lock; and it is taken back with
//! the `Interrupt`.
//!
//! A value that is read and written at the same time has two that wait for it, as a rule in two tasks. The one must not take the
//! other's place, so writes are listeners of their own: made when a write has to wait for the first time, which few do.

mod channel;
mod io_std;

#[cfg(feature = "futures-io")]
mod io_futures;
#[cfg(all(feature = "tokio", not(loom)))]
mod io_tokio;

use super::{Guard, StopListener};
#[cfg(feature = "futures")]
use futures_core::Stream;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value that is interrupted by the stop of a [`Swansong`](super::Swansong), or by its loss. See
/// [`Swansong::interrupt`](super::Swansong::interrupt).
///
/// Before the stop it is what the value is, and after it is at its end:
///
/// | the value | after the stop | one that waits is woken |
/// | --- | --- | --- |
/// | [`Future`] | `None`; before it the output is in a `Some` | yes |
/// | [`Iterator`] | `None` | no |
/// | `Stream` (feature `futures`) | `None` | yes |
/// | `AsyncRead`, `AsyncBufRead` (features `futures-io`, `tokio`) | the end: no bytes | yes |
/// | `AsyncWrite` (the same) | no bytes are written: `Ok(0)` | yes |
/// | [`Read`](std::io::Read), [`BufRead`](std::io::BufRead) | the end: no bytes | no |
/// | [`Write`](std::io::Write) | no bytes are written: `Ok(0)` | no |
/// | [`sync::Receiver`](crate::sync::Receiver), or a reference to one | [`recv`](Interrupt::recv): `None` | yes |
///
/// "No" is said of calls that block inside of the value, which nobody can wake: they look at the stop before each, and a call
/// that is under way ends when the value ends it. So also does `interrupt(receiver.iter())`, of whatever channel;
/// for a channel of this library interrupt the receiver instead.
///
/// What has been written can still be flushed, and the writer closed: both are passed on also after the stop, and do wait for
/// the value. A `write_all` that the stop cuts short fails with
/// [`WriteZero`](std::io::ErrorKind::WriteZero), a `read_exact` with
/// [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof). A reader and a writer may wait at the same time in two tasks, and both are
/// woken. To stop is no reason to drop the value: it is there until the `Interrupt` is dropped, and through [`Deref`],
/// [`DerefMut`] and [`into_inner`](Interrupt::into_inner) it can be used as if there were no stop.
///
/// An interrupt delays no shutdown, unless it is [`guarded`](Interrupt::guarded), and keeps no `Swansong` alive. Two are equal
/// if their values are, and both belong to the same `Swansong`. It has exactly the auto traits of the value.
///
/// A call costs one load besides the value's own. One that waits costs a lock, when it is polled first or with another
/// waker.
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
    // The guard after the value, whose destructor belongs to the work.
    value: T,
    stop: StopListener,
    #[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
    stop_of_writes: Option<Box<StopListener>>,
    guard: Option<Guard>,
}

impl<T> Interrupt<T> {
    #[inline]
    pub(crate) fn new(stop: StopListener, value: T) -> Interrupt<T> {
        Interrupt {
            value,
            stop,
            #[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
            stop_of_writes: None,
            guard: None,
        }
    }

    /// The same with a [`Guard`]: shutdown is not complete before it is dropped.
    ///
    /// One that is guarded stays so. It gets no guard if the `Swansong` is gone: nobody can wait for that.
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

    /// The value; a guard is dropped.
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

    /// The value, and who waits for the stop with it.
    #[inline]
    fn parts(self: Pin<&mut Self>) -> (Pin<&mut T>, &mut StopListener) {
        // SAFETY: of what is borrowed here only the value is pinned, and that is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the value is pinned with the whole: nothing here moves it out of an `Interrupt` that is borrowed, there is no
        // `Drop`, and it is `Unpin` only if the value is.
        let value = unsafe { Pin::new_unchecked(&mut this.value) };
        (value, &mut this.stop)
    }
}

/// Polls what a stop interrupts, which it does with `None`.
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

/// The writing side.
#[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
impl<T> Interrupt<T> {
    /// Polls a write, which a stop ends with nothing written.
    #[inline]
    fn poll_write_until_stop(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<std::io::Result<usize>>,
    ) -> Poll<std::io::Result<usize>> {
        if self.stop.is_stopped() {
            return Poll::Ready(Ok(0));
        }
        // SAFETY: as in `parts`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as in `parts`.
        let value = unsafe { Pin::new_unchecked(&mut this.value) };
        match write(value, cx) {
            Poll::Pending => {
                poll_stop_of_writes(&this.stop, &mut this.stop_of_writes, cx).map(|()| Ok(0))
            }
            written => written,
        }
    }
}

/// The stop, for a write that has to wait.
#[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
#[inline(never)]
fn poll_stop_of_writes(
    stop: &StopListener,
    of_writes: &mut Option<Box<StopListener>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    of_writes.get_or_insert_with(|| Box::new(stop.another())).poll_stopped(cx)
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
    /// With the panic of the future; such is, as a rule, what it does when it is polled after it was ready. After the stop it is
    /// not polled.
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

/// Looks at the stop before each step; a step that blocks is not woken.
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

impl<T: fmt::Debug> fmt::Debug for Interrupt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt")
            .field("value", &self.value)
            .field("stopped", &self.stop.is_stopped())
            .field("guarded", &self.guard.is_some())
            .finish()
    }
}
