//! Sources: sequences that a loop can cut in two.

use crate::par::Items;
use std::slice;

/// A sequence of items that can be cut in two, over and over. The functions of [`par`](crate::par)
/// take sources, by way of [`IntoSource`].
///
/// Ranges of integers and slices are sources. Implement the three required methods to make a source
/// of another type. Memory safety does not depend on them. If they contradict each other, items are
/// left out or come twice, or a function panics, or does not return, for example if
/// [`size`](Source::size) never shrinks.
///
/// ```
/// use cygnet::par::{self, Source};
///
/// /// The rows of a square matrix, with their numbers.
/// struct Rows<'a> {
///     first: usize,
///     width: usize,
///     cells: &'a mut [f64],
/// }
///
/// impl<'a> Source for Rows<'a> {
///     type Item = (usize, &'a mut [f64]);
///     type Iter = std::iter::Zip<std::ops::RangeFrom<usize>, std::slice::ChunksMut<'a, f64>>;
///
///     fn size(&self) -> usize {
///         self.cells.len() / self.width
///     }
///     fn split_at(self, n: usize) -> (Self, Self) {
///         let (front, back) = self.cells.split_at_mut(n * self.width);
///         (Rows { cells: front, ..self }, Rows { cells: back, first: self.first + n, ..self })
///     }
///     fn items(self) -> Self::Iter {
///         (self.first..).zip(self.cells.chunks_mut(self.width))
///     }
/// }
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut cells = vec![0.0; 9];
/// let rows = Rows { first: 0, width: 3, cells: &mut cells };
/// rt.block_on(|| par::for_each(rows, |(number, row)| row[number] = 1.0)).unwrap();
/// assert_eq!(cells, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
/// ```
pub trait Source: Send + Sized {
    /// The type of the items.
    type Item;
    /// The iterator over a chunk, on one worker. Its `fold` is the innermost loop.
    type Iter: Iterator<Item = Self::Item>;

    /// Returns the number of items, or `usize::MAX` if there are more.
    fn size(&self) -> usize;

    /// Splits the source into its first `n` items and the rest. `n` is at most
    /// [`size`](Self::size).
    fn split_at(self, n: usize) -> (Self, Self);

    /// Returns the items, in order.
    fn items(self) -> Self::Iter;

    /// Returns the number of items below which a part should not be cut: see [`at_least`].
    fn at_least(&self) -> usize {
        1
    }
}

/// A type that parallel loops accept: every [`Source`], and `&Vec`, `&mut Vec`, `Vec`, and
/// references to arrays and boxed slices.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut numbers = vec![1, 2, 3];
/// rt.block_on(|| {
///     par::for_each(&mut numbers, |n| *n *= 2)?;
///     assert!(par::all(&numbers, |n| n % 2 == 0)?);
///     par::for_each(numbers, drop)
/// })
/// .unwrap();
/// ```
pub trait IntoSource {
    /// The type of the items.
    type Item;
    /// The source that a loop goes over.
    type Source: Source<Item = Self::Item>;

    /// Converts `self` into a source.
    fn into_source(self) -> Self::Source;
}

impl<S: Source> IntoSource for S {
    type Item = S::Item;
    type Source = S;

    #[inline]
    fn into_source(self) -> S {
        self
    }
}

impl<'a, T: Sync> Source for &'a [T] {
    type Item = &'a T;
    type Iter = slice::Iter<'a, T>;

    #[inline]
    fn size(&self) -> usize {
        (**self).len()
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        <[T]>::split_at(self, n)
    }

    #[inline]
    fn items(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Send> Source for &'a mut [T] {
    type Item = &'a mut T;
    type Iter = slice::IterMut<'a, T>;

    #[inline]
    fn size(&self) -> usize {
        (**self).len()
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        self.split_at_mut(n)
    }

    #[inline]
    fn items(self) -> slice::IterMut<'a, T> {
        self.iter_mut()
    }
}

/// References to collections that are slices underneath.
macro_rules! slices {
    ($([$($parameters:tt)*] $shared:ty, $unique:ty;)*) => {$(
        impl<'a, T: Sync + 'a, $($parameters)*> IntoSource for $shared {
            type Item = &'a T;
            type Source = &'a [T];

            #[inline]
            fn into_source(self) -> &'a [T] {
                self
            }
        }

        impl<'a, T: Send + 'a, $($parameters)*> IntoSource for $unique {
            type Item = &'a mut T;
            type Source = &'a mut [T];

            #[inline]
            fn into_source(self) -> &'a mut [T] {
                self
            }
        }
    )*};
}

slices! {
    [] &'a Vec<T>, &'a mut Vec<T>;
    [] &'a Box<[T]>, &'a mut Box<[T]>;
    [const N: usize] &'a [T; N], &'a mut [T; N];
}

impl<T: Send> IntoSource for Vec<T> {
    type Item = T;
    type Source = Items<T>;

    fn into_source(self) -> Items<T> {
        Items::new(self)
    }
}

/// Non-overlapping parts of a slice: see [`chunks`].
#[derive(Debug)]
pub struct Chunks<'a, T> {
    slice: &'a [T],
    size: usize,
}

// Not derived: a clone copies only the reference, so `T: Clone` is not needed.
impl<T> Clone for Chunks<'_, T> {
    fn clone(&self) -> Self {
        Chunks { ..*self }
    }
}

/// Cuts a slice into parts of `size` elements; the last part may be shorter. Like
/// [`slice::chunks`].
///
/// Costs nothing by itself.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let sums = rt.block_on(|| {
///     par::map_collect(par::chunks(&[1, 2, 3, 4, 5], 2), |part| part.iter().sum())
/// });
/// assert_eq!(sums, Ok(vec![3, 7, 5]));
/// ```
///
/// # Panics
/// If `size` is 0.
#[track_caller]
pub fn chunks<T>(slice: &[T], size: usize) -> Chunks<'_, T> {
    assert!(size > 0, "cygnet: par::chunks cannot cut a slice into parts of 0 elements");
    Chunks { slice, size }
}

impl<'a, T: Sync> Source for Chunks<'a, T> {
    type Item = &'a [T];
    type Iter = slice::Chunks<'a, T>;

    #[inline]
    fn size(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        let end = n.saturating_mul(self.size).min(self.slice.len());
        let (private, back) = self.slice.split_at(end);
        (Chunks { slice: private, ..self }, Chunks { slice: back, ..self })
    }

    #[inline]
    fn items(self) -> slice::Chunks<'a, T> {
        self.slice.chunks(self.size)
    }
}

/// Non-overlapping mutable parts of a slice: see [`chunks_mut`].
#[derive(Debug)]
pub struct ChunksMut<'a, T> {
    slice: &'a mut [T],
    size: usize,
}

/// Cuts a slice into mutable parts of `size` elements; the last part may be shorter. Like
/// [`slice::chunks_mut`].
///
/// Costs nothing by itself.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut numbers = [5, 4, 3, 2, 1];
/// rt.block_on(|| par::for_each(par::chunks_mut(&mut numbers, 2), |part| part.sort())).unwrap();
/// assert_eq!(numbers, [4, 5, 2, 3, 1]);
/// ```
///
/// # Panics
/// If `size` is 0.
#[track_caller]
pub fn chunks_mut<T>(slice: &mut [T], size: usize) -> ChunksMut<'_, T> {
    assert!(size > 0, "cygnet: par::chunks_mut cannot cut a slice into parts of 0 elements");
    ChunksMut { slice, size }
}

impl<'a, T: Send> Source for ChunksMut<'a, T> {
    type Item = &'a mut [T];
    type Iter = slice::ChunksMut<'a, T>;

    #[inline]
    fn size(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        let end = n.saturating_mul(self.size).min(self.slice.len());
        let (private, back) = self.slice.split_at_mut(end);
        (ChunksMut { slice: private, size: self.size }, ChunksMut { slice: back, size: self.size })
    }

    #[inline]
    fn items(self) -> slice::ChunksMut<'a, T> {
        self.slice.chunks_mut(self.size)
    }
}

/// Two sources side by side: see [`zip`].
#[derive(Clone, Debug)]
pub struct Zip<A, B> {
    a: A,
    b: B,
}

/// Pairs the items of two sources, up to the end of the shorter one. The remaining items of the
/// longer one are dropped. Like [`Iterator::zip`]; with a range it numbers items.
///
/// Costs nothing by itself.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut squares = vec![0; 5];
/// rt.block_on(|| par::for_each(par::zip(0..5, &mut squares), |(i, square)| *square = i * i))
///     .unwrap();
/// assert_eq!(squares, [0, 1, 4, 9, 16]);
/// ```
pub fn zip<A: IntoSource, B: IntoSource>(a: A, b: B) -> Zip<A::Source, B::Source> {
    Zip { a: a.into_source(), b: b.into_source() }
}

impl<A: Source, B: Source> Source for Zip<A, B> {
    type Item = (A::Item, B::Item);
    type Iter = std::iter::Zip<A::Iter, B::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.a.size().min(self.b.size())
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        let (a, rest_of_a) = self.a.split_at(n);
        let (b, rest_of_b) = self.b.split_at(n);
        (Zip { a, b }, Zip { a: rest_of_a, b: rest_of_b })
    }

    #[inline]
    fn items(self) -> Self::Iter {
        self.a.items().zip(self.b.items())
    }

    #[inline]
    fn at_least(&self) -> usize {
        self.a.at_least().max(self.b.at_least())
    }
}

/// A source that is not cut into very small parts: see [`at_least`].
#[derive(Clone, Debug)]
pub struct AtLeast<S> {
    source: S,
    least: usize,
}

/// Keeps the parts of a source at `n` items or more.
///
/// A part of fewer than `2 * n` items is not split for another worker. A chunk, after which other
/// tasks may run, has at least `n` items, except the last one of a part.
///
/// Seldom needed, as a loop finds out how long its items take. Useful for parts with a cost of
/// their own (a large accumulator) and for results that must not depend on small parts. Costs
/// nothing by itself.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// // Each part starts with a table of its own, which takes longer than a few bytes do.
/// let counts = rt.block_on(|| {
///     par::fold_reduce(
///         par::at_least(10_000, &[7u8; 100_000]),
///         || vec![0u32; 256],
///         |mut table, &byte| {
///             table[usize::from(byte)] += 1;
///             table
///         },
///         |mut a, b| {
///             a.iter_mut().zip(&b).for_each(|(a, b)| *a += b);
///             a
///         },
///     )
/// });
/// assert_eq!(counts.unwrap()[7], 100_000);
/// ```
pub fn at_least<S: IntoSource>(n: usize, source: S) -> AtLeast<S::Source> {
    AtLeast { source: source.into_source(), least: n.max(1) }
}

impl<S: Source> Source for AtLeast<S> {
    type Item = S::Item;
    type Iter = S::Iter;

    #[inline]
    fn size(&self) -> usize {
        self.source.size()
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        let (private, back) = self.source.split_at(n);
        (AtLeast { source: private, ..self }, AtLeast { source: back, least: self.least })
    }

    #[inline]
    fn items(self) -> S::Iter {
        self.source.items()
    }

    #[inline]
    fn at_least(&self) -> usize {
        self.least.max(self.source.at_least())
    }
}
