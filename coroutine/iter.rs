//! Coroutines as iterators over what they yield.

use std::iter::FusedIterator;

use super::{Coroutine, ResumeError, Resumed};

/// An iterator that owns a coroutine and gives what it yields.
///
/// Made by [`IntoIterator::into_iter`] of a [`Coroutine`] that takes no input. Dropping the
/// iterator drops the coroutine.
///
/// # Panics
///
/// [`next`](Iterator::next) resumes the coroutine. If the body panics, so does `next`, and after
/// that it returns `None`. (If the body has [transferred](super::Yielder::transfer), this holds for
/// the coroutine that runs in its place: when that one returns, the iterator is at its end and has
/// its value; when that one panics, the next call resumes this one.) `next` also panics where the coroutine cannot be resumed although it has
/// not finished: if the coroutine is running, that is, if its own body has got hold of the
/// iterator, or if [its thread is ending](super#the-end-of-a-thread).
///
/// # Cost
///
/// `next` costs as much as [`Coroutine::resume`].
///
/// # Examples
///
/// ```
/// use cygnet::coroutine::Coroutine;
///
/// let countdown = Coroutine::new(|yielder, ()| {
///     (1..=3).rev().for_each(|n: u32| yielder.suspend(n));
///     "lift-off"
/// });
/// let mut iter = countdown.into_iter();
/// assert_eq!(iter.by_ref().sum::<u32>(), 6);
/// assert_eq!(iter.next(), None);
/// assert_eq!(iter.returned(), Some("lift-off"));
/// ```
#[must_use = "an iterator does nothing until it is asked for a value"]
pub struct IntoIter<Out, Ret> {
    coroutine: Coroutine<(), Out, Ret>,
    end: End<Ret>,
}

/// An iterator that borrows a coroutine and gives what it yields.
///
/// Made by [`Coroutine::iter`], or by a loop over a reference to a [`Coroutine`] that takes no
/// input. It begins where the coroutine stands. Dropping the iterator leaves the coroutine as it
/// is, and another iterator continues it.
///
/// # Panics
///
/// Those of [`IntoIter`].
///
/// # Cost
///
/// `next` costs as much as [`Coroutine::resume`].
///
/// # Examples
///
/// ```
/// use cygnet::coroutine::Coroutine;
///
/// let naturals = Coroutine::new(|yielder, ()| (0..).for_each(|n: u32| yielder.suspend(n)));
/// for n in &naturals {
///     if n == 2 {
///         break;
///     }
/// }
/// assert_eq!(naturals.iter().next(), Some(3));
/// ```
#[must_use = "an iterator does nothing until it is asked for a value"]
pub struct Iter<'a, Out, Ret> {
    coroutine: &'a Coroutine<(), Out, Ret>,
    end: End<Ret>,
}

/// How far an iterator is from its end.
enum End<Ret> {
    NotYet,
    /// The coroutine has returned, or cannot return any more.
    Reached(Option<Ret>),
}

impl<Ret> End<Ret> {
    #[inline]
    fn next<Out>(&mut self, coroutine: &Coroutine<(), Out, Ret>) -> Option<Out> {
        if let End::Reached(_) = self {
            return None;
        }
        match coroutine.resume(()) {
            Ok(Resumed::Yielded(value)) => return Some(value),
            Ok(Resumed::Returned(value)) => *self = End::Reached(Some(value)),
            Err(ResumeError::Finished(())) => *self = End::Reached(None),
            Err(error) => panic!("an iterator over a coroutine has no next value: {error}"),
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            End::NotYet => (0, None),
            End::Reached(_) => (0, Some(0)),
        }
    }

    fn returned(self) -> Option<Ret> {
        match self {
            End::NotYet => None,
            End::Reached(value) => value,
        }
    }
}

impl<Out, Ret> IntoIter<Out, Ret> {
    /// Returns the value that the body has returned, if this iterator has seen the coroutine
    /// return. Otherwise returns `None`; a coroutine that is suspended is then unwound, as by any
    /// [drop](super#dropping).
    ///
    /// # Panics
    ///
    /// If the body panics while it is unwound.
    pub fn returned(self) -> Option<Ret> {
        let IntoIter { coroutine, end } = self;
        // May panic: before the result is made, which the compiler would leak.
        drop(coroutine);
        end.returned()
    }
}

impl<Out, Ret> Iter<'_, Out, Ret> {
    /// Returns the value that the body has returned, if this iterator has seen the coroutine
    /// return. Otherwise returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use cygnet::coroutine::Coroutine;
    ///
    /// let words = ["a", "stack", "each"];
    /// let count = Coroutine::scoped(
    ///     |yielder, ()| {
    ///         words.iter().for_each(|word| yielder.suspend(word.len()));
    ///         words.len()
    ///     },
    ///     |coroutine| {
    ///         let mut iter = coroutine.iter();
    ///         assert_eq!(iter.by_ref().max(), Some(5));
    ///         iter.returned()
    ///     },
    /// );
    /// assert_eq!(count, Some(3));
    /// ```
    pub fn returned(self) -> Option<Ret> {
        self.end.returned()
    }
}

impl<Out, Ret> Coroutine<(), Out, Ret> {
    /// Returns an iterator over the values that the coroutine yields from now on. See [`Iter`] for
    /// an example.
    pub fn iter(&self) -> Iter<'_, Out, Ret> {
        Iter { coroutine: self, end: End::NotYet }
    }
}

impl<Out, Ret> IntoIterator for Coroutine<(), Out, Ret> {
    type Item = Out;
    type IntoIter = IntoIter<Out, Ret>;

    fn into_iter(self) -> IntoIter<Out, Ret> {
        IntoIter { coroutine: self, end: End::NotYet }
    }
}

impl<'a, Out, Ret> IntoIterator for &'a Coroutine<(), Out, Ret> {
    type Item = Out;
    type IntoIter = Iter<'a, Out, Ret>;

    fn into_iter(self) -> Iter<'a, Out, Ret> {
        self.iter()
    }
}

impl<Out, Ret> Iterator for IntoIter<Out, Ret> {
    type Item = Out;

    #[inline]
    fn next(&mut self) -> Option<Out> {
        self.end.next(&self.coroutine)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.end.size_hint()
    }
}

impl<Out, Ret> Iterator for Iter<'_, Out, Ret> {
    type Item = Out;

    #[inline]
    fn next(&mut self) -> Option<Out> {
        self.end.next(self.coroutine)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.end.size_hint()
    }
}

impl<Out, Ret> FusedIterator for IntoIter<Out, Ret> {}
impl<Out, Ret> FusedIterator for Iter<'_, Out, Ret> {}

debug! { impl<Out, Ret> IntoIter<Out, Ret> as this { coroutine: this.coroutine, .. } }

impl<Out, Ret> std::fmt::Debug for Iter<'_, Out, Ret> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("coroutine", self.coroutine).finish_non_exhaustive()
    }
}
