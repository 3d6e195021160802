//! Ranges of integers as sources, up to the limits of their types. Lengths are computed in the
//! unsigned type of the same width, in which a difference never overflows.

use crate::par::{IntoSource, Source};
use std::ops::{Range, RangeFrom, RangeInclusive};

mod sealed {
    /// The arithmetic that ranges need of integers.
    pub trait Arithmetic: Copy + Send + Sync + PartialOrd {
        const MAX: Self;
        const ONE: Self;
        const ZERO: Self;

        /// Returns by how much `end` is larger, or `usize::MAX` if that is less.
        fn distance(self, end: Self) -> usize;

        /// Returns the integer that is larger by `n`. It exists, or is just behind the largest.
        fn forward(self, n: usize) -> Self;
    }
}

use sealed::Arithmetic;

/// An integer of any width, as the element of a range that can be a source. It has no methods for
/// users, and no other types implement it.
pub trait Integer: Arithmetic {}

macro_rules! integers {
    ($($int:ty, $unsigned:ty;)*) => {$(
        impl Integer for $int {}

        impl Arithmetic for $int {
            const MAX: $int = <$int>::MAX;
            const ONE: $int = 1;
            const ZERO: $int = 0;

            #[inline]
            fn distance(self, end: $int) -> usize {
                usize::try_from(end.wrapping_sub(self) as $unsigned).unwrap_or(usize::MAX)
            }

            #[inline]
            fn forward(self, n: usize) -> $int {
                // The conversion cuts off a multiple of the type's range.
                self.wrapping_add(n as $int)
            }
        }
    )*};
}

integers! {
    u8, u8; u16, u16; u32, u32; u64, u64; u128, u128; usize, usize;
    i8, u8; i16, u16; i32, u32; i64, u64; i128, u128; isize, usize;
}

// One implementation for all types, not one for each: so the type of `0..n` can be inferred from
// its use.
impl<T: Integer> Source for Range<T>
where
    Range<T>: Iterator<Item = T>,
{
    type Item = T;
    type Iter = Range<T>;

    #[inline]
    fn size(&self) -> usize {
        if self.is_empty() { 0 } else { self.start.distance(self.end) }
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        let middle = self.start.forward(n);
        (self.start..middle, middle..self.end)
    }

    #[inline]
    fn items(self) -> Self {
        self
    }
}

impl<T: Integer> Source for RangeInclusive<T>
where
    RangeInclusive<T>: Iterator<Item = T>,
{
    type Item = T;
    type Iter = RangeInclusive<T>;

    #[inline]
    fn size(&self) -> usize {
        if self.is_empty() { 0 } else { self.start().distance(*self.end()).saturating_add(1) }
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        // There may be no number behind the last one at which an empty rest could begin.
        let empty = T::ONE..=T::ZERO;
        if n == 0 {
            return (empty, self);
        }
        let (start, end) = (*self.start(), *self.end());
        // The size `usize::MAX` may stand for a larger one. Such a range is cut before its last
        // item at the latest.
        if n - 1 < start.distance(end) {
            (start..=start.forward(n - 1), start.forward(n)..=end)
        } else {
            (self, empty)
        }
    }

    #[inline]
    fn items(self) -> Self {
        self
    }
}

/// An open range ends with the largest number of its type.
impl<T: Integer> IntoSource for RangeFrom<T>
where
    RangeInclusive<T>: Iterator<Item = T>,
{
    type Item = T;
    type Source = RangeInclusive<T>;

    #[inline]
    fn into_source(self) -> RangeInclusive<T> {
        self.start..=T::MAX
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_right_at_the_limits_of_the_types() {
        assert_eq!((i8::MIN..i8::MAX).size(), 255);
        assert_eq!((i8::MIN..=i8::MAX).size(), 256);
        assert_eq!((0..=u64::MAX).size(), usize::MAX);
        assert_eq!((1..=u64::MAX).size(), usize::MAX);
        assert_eq!((i128::MIN..=i128::MAX).size(), usize::MAX);
        assert_eq!((isize::MIN..isize::MAX).size(), usize::MAX);
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = ((5..3u8).size(), (5..=3i16).size());
        assert_eq!(reversed, (0, 0));
        let mut done = 1..=1;
        done.next();
        assert_eq!(done.size(), 0);
    }

    #[test]
    fn ranges_are_cut_at_the_limits_of_the_types() {
        assert_eq!((-100..100i8).split_at(150), (-100..50, 50..100));
        assert_eq!((-100..100i8).split_at(200), (-100..100, 100..100));
        assert_eq!((i8::MIN..=i8::MAX).split_at(255), (i8::MIN..=126, 127..=127));
        assert_eq!((250..=255u8).split_at(1), (250..=250, 251..=255));
        let (all, none) = (250..=255u8).split_at(6);
        assert_eq!((all.size(), none.size()), (6, 0));
        let (none, all) = (250..=255u8).split_at(0);
        assert_eq!((all.size(), none.size()), (6, 0));
        let (private, back) = (0..=u64::MAX).split_at(usize::MAX);
        assert_eq!((private, back), (0..=u64::MAX - 1, u64::MAX..=u64::MAX));
        let (private, back) = (0..=u128::MAX).split_at(usize::MAX / 2);
        assert_eq!((private.size(), back.size()), (usize::MAX / 2, usize::MAX));
        let (private, back) = (0..=3u64).split_at(4);
        assert_eq!((private.size(), back.size()), (4, 0));
    }
}
