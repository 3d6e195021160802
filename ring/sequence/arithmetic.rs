use std::fmt;
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A sequence number, which wraps around: zero follows the largest number.
///
/// Of two numbers less than half of all numbers apart, one [precedes](Sequence::precedes) the
/// other. So all numbers in use at one time must be that close together. A ring has at most a
/// quarter of all numbers.
///
/// ```
/// use cygnet::ring::sequence::Sequence;
///
/// assert_eq!(u8::INITIAL, 255); // the one before zero
/// assert_eq!(u8::INITIAL.next(), 0);
/// assert!(250_u8.precedes(3));
/// assert_eq!(3_u8.difference(250), 9);
/// ```
pub trait Sequence:
    Copy
    + Eq
    + Hash
    + fmt::Debug
    + fmt::Display
    + Send
    + Sync
    + Unpin
    + UnwindSafe
    + RefUnwindSafe
    + sealed::Word
    + 'static
{
    /// The number before zero: the last published number where nothing has been published.
    const INITIAL: Self;

    /// The size of the largest ring.
    const LARGEST_RING: usize;

    /// The distance from `other` to this number; negative if this number precedes `other`.
    #[must_use]
    fn difference(self, other: Self) -> isize;

    /// The number at a distance of `by` from this one, before it if `by` is negative.
    #[must_use]
    fn offset(self, by: isize) -> Self;

    /// Returns `true` if this number comes before `other`.
    #[must_use]
    #[inline(always)]
    fn precedes(self, other: Self) -> bool {
        self.difference(other) < 0
    }

    /// The number after this one.
    #[must_use]
    #[inline(always)]
    fn next(self) -> Self {
        self.offset(1)
    }
}

mod sealed {
    /// Conversion of a number to and from an atomic word.
    pub trait Word {
        fn to_word(self) -> u64;
        fn from_word(word: u64) -> Self;
    }
}

pub(super) use sealed::Word;

/// Returns the target that comes first after `last`, or that is reached already. A target exactly
/// half of all numbers away from `last` both precedes and follows it, and counts as the furthest.
pub(super) fn nearest<S: Sequence>(targets: impl Iterator<Item = S>, last: S) -> Option<S> {
    targets.max_by_key(|&target| last.difference(target))
}

macro_rules! sequences {
    ($($unsigned:ident $signed:ident),*) => {$(
        impl Sequence for $unsigned {
            const INITIAL: $unsigned = $unsigned::MAX;
            const LARGEST_RING: usize = 1 << ($unsigned::BITS - 2);

            #[inline(always)]
            fn difference(self, other: $unsigned) -> isize {
                self.wrapping_sub(other).cast_signed() as isize
            }

            #[inline(always)]
            fn offset(self, by: isize) -> $unsigned {
                self.wrapping_add(by as $unsigned)
            }
        }

        impl Word for $unsigned {
            #[inline(always)]
            fn to_word(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn from_word(word: u64) -> $unsigned {
                word as $unsigned
            }
        }
    )*};
}

sequences! { u8 i8, u16 i16, u32 i32, u64 i64, usize isize }

/// A range of consecutive numbers, which may wrap around.
///
/// ```
/// use cygnet::ring::sequence::SequenceRange;
///
/// let range = SequenceRange::new(254_u8, 4);
/// assert_eq!(range.into_iter().collect::<Vec<_>>(), [254, 255, 0, 1]);
/// assert_eq!((range.first(), range.last(), range.end()), (Some(254), Some(1), 2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceRange<S: Sequence = usize> {
    start: S,
    len: usize,
}

impl<S: Sequence> SequenceRange<S> {
    /// Creates the range of `len` numbers from `start` on.
    ///
    /// # Panics
    /// If `len` is more than twice the [largest ring](Sequence::LARGEST_RING).
    #[must_use]
    pub fn new(start: S, len: usize) -> SequenceRange<S> {
        assert!(
            len <= 2 * S::LARGEST_RING,
            "cygnet: a range of {len} numbers is longer than twice the largest ring"
        );
        SequenceRange { start, len }
    }

    /// Creates a range within a ring, which is never too long.
    #[inline(always)]
    pub(crate) fn of_ring(start: S, len: usize) -> SequenceRange<S> {
        debug_assert!(len <= 2 * S::LARGEST_RING, "a range is at most twice the largest ring");
        SequenceRange { start, len }
    }

    /// The start of the range, even if it is empty.
    #[must_use]
    #[inline]
    pub fn start(&self) -> S {
        self.start
    }

    /// The number after the last one.
    #[must_use]
    #[inline]
    pub fn end(&self) -> S {
        self.start.offset(self.len.cast_signed())
    }

    /// The first number, or `None` if the range is empty.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<S> {
        (!self.is_empty()).then_some(self.start)
    }

    /// The last number, or `None` if the range is empty.
    #[must_use]
    #[inline]
    pub fn last(&self) -> Option<S> {
        (!self.is_empty()).then(|| self.end().offset(-1))
    }

    /// The count of numbers.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the range is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number at `index`, counted from the start.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<S> {
        (index < self.len).then(|| self.start.offset(index.cast_signed()))
    }

    /// Returns `true` if the range contains the number.
    #[must_use]
    pub fn contains(&self, sequence: S) -> bool {
        let index = sequence.difference(self.start);
        index >= 0 && index.unsigned_abs() < self.len
    }

    /// The first `count` numbers, or all if there are fewer.
    #[must_use]
    #[inline]
    pub fn take(&self, count: usize) -> SequenceRange<S> {
        SequenceRange { start: self.start, len: self.len.min(count) }
    }

    /// The numbers without the first `count`.
    #[must_use]
    #[inline]
    pub fn skip(&self, count: usize) -> SequenceRange<S> {
        let count = self.len.min(count);
        SequenceRange { start: self.start.offset(count.cast_signed()), len: self.len - count }
    }
}

impl<S: Sequence> fmt::Debug for SequenceRange<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end())
    }
}

impl<S: Sequence> IntoIterator for SequenceRange<S> {
    type Item = S;
    type IntoIter = SequenceIter<S>;

    fn into_iter(self) -> SequenceIter<S> {
        SequenceIter { range: self }
    }
}

/// An iterator over the numbers of a [`SequenceRange`].
#[derive(Clone, Debug)]
pub struct SequenceIter<S: Sequence = usize> {
    range: SequenceRange<S>,
}

impl<S: Sequence> Iterator for SequenceIter<S> {
    type Item = S;

    fn next(&mut self) -> Option<S> {
        let first = self.range.first()?;
        self.range = self.range.skip(1);
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.range.len, Some(self.range.len))
    }
}

impl<S: Sequence> DoubleEndedIterator for SequenceIter<S> {
    fn next_back(&mut self) -> Option<S> {
        let last = self.range.last()?;
        self.range.len -= 1;
        Some(last)
    }
}

impl<S: Sequence> ExactSizeIterator for SequenceIter<S> {}
