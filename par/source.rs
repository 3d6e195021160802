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

/// The sources over a slice that is shared, or that is changed: itself, the collections that are a
/// slice underneath, and its parts.
macro_rules! slices {
    (
        &'a $($mutability:ident)?, $bound:ident, $iter:ident, $into_iter:ident, $split_at:ident;
        $(#[$type_doc:meta])* $Chunks:ident; $(#[$chunks_doc:meta])* $chunks:ident;
    ) => {
        impl<'a, T: $bound> Source for &'a $($mutability)? [T] {
            type Item = &'a $($mutability)? T;
            type Iter = slice::$iter<'a, T>;

            #[inline]
            fn size(&self) -> usize {
                (**self).len()
            }

            #[inline]
            fn split_at(self, n: usize) -> (Self, Self) {
                <[T]>::$split_at(self, n)
            }

            #[inline]
            fn items(self) -> Self::Iter {
                self.$into_iter()
            }
        }

        slices! { @ [] &'a $($mutability)?, $bound, Vec<T> }
        slices! { @ [] &'a $($mutability)?, $bound, Box<[T]> }
        slices! { @ [const N: usize] &'a $($mutability)?, $bound, [T; N] }

        $(#[$type_doc])*
        #[derive(Debug)]
        pub struct $Chunks<'a, T> {
            slice: &'a $($mutability)? [T],
            size: usize,
        }

        $(#[$chunks_doc])*
        ///
        /// # Panics
        /// If `size` is 0.
        #[track_caller]
        pub fn $chunks<T>(slice: &$($mutability)? [T], size: usize) -> $Chunks<'_, T> {
            let name = stringify!($chunks);
            assert!(size > 0, "cygnet: par::{name} cannot cut a slice into parts of 0 elements");
            $Chunks { slice, size }
        }

        impl<'a, T: $bound> Source for $Chunks<'a, T> {
            type Item = &'a $($mutability)? [T];
            type Iter = slice::$Chunks<'a, T>;

            #[inline]
            fn size(&self) -> usize {
                self.slice.len().div_ceil(self.size)
            }

            #[inline]
            fn split_at(self, n: usize) -> (Self, Self) {
                let $Chunks { slice, size } = self;
                let end = n.saturating_mul(size).min(slice.len());
                let (private, back) = slice.$split_at(end);
                ($Chunks { slice: private, size }, $Chunks { slice: back, size })
            }

            #[inline]
            fn items(self) -> Self::Iter {
                self.slice.$chunks(self.size)
            }
        }
    };
    (@ [$($parameters:tt)*] &'a $($mutability:ident)?, $bound:ident, $collection:ty) => {
        impl<'a, T: $bound + 'a, $($parameters)*> IntoSource for &'a $($mutability)? $collection {
            type Item = &'a $($mutability)? T;
            type Source = &'a $($mutability)? [T];

            #[inline]
            fn into_source(self) -> Self::Source {
                self
            }
        }
    };
}

slices! {
    &'a, Sync, Iter, iter, split_at;
    /// Non-overlapping parts of a slice: see [`chunks`].
    Chunks;
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
    chunks;
}

// Not derived: a clone copies only the reference, so `T: Clone` is not needed.
impl<T> Clone for Chunks<'_, T> {
    fn clone(&self) -> Self {
        Chunks { ..*self }
    }
}

slices! {
    &'a mut, Send, IterMut, iter_mut, split_at_mut;
    /// Non-overlapping mutable parts of a slice: see [`chunks_mut`].
    ChunksMut;
    /// Cuts a slice into mutable parts of `size` elements; the last part may be shorter. Like
    /// [`slice::chunks_mut`].
    ///
    /// Costs nothing by itself.
    ///
    /// ```
    /// use cygnet::par;
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut numbers = [5, 4, 3, 2, 1];
    /// rt.block_on(|| par::for_each(par::chunks_mut(&mut numbers, 2), |part| part.sort()))
    ///     .unwrap();
    /// assert_eq!(numbers, [4, 5, 2, 3, 1]);
    /// ```
    chunks_mut;
}

impl<T: Send> IntoSource for Vec<T> {
    type Item = T;
    type Source = Items<T>;

    fn into_source(self) -> Items<T> {
        Items::new(self)
    }
}

/// Two sources side by side: see [`zip`].
#[derive(Clone, Debug)]
pub struct Zip<A, B> {
    pub(super) a: A,
    pub(super) b: B,
}

/// Pairs the items of two sources, up to the end of the shorter one. The remaining items of the
/// longer one are dropped. Like [`Iterator::zip`]. A range may be open, as in `zip(1.., names)`;
/// see [`enumerate`] for numbers from 0 on.
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

/// A source whose items have their numbers: see [`enumerate`].
#[derive(Clone, Debug)]
pub struct Enumerate<S> {
    pub(super) first: usize,
    pub(super) source: S,
}

/// Gives each item of a source together with its number, from 0 on. Like [`Iterator::enumerate`].
///
/// Costs an addition for each item.
///
/// ```
/// use cygnet::par;
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let mut squares = vec![0; 5];
/// rt.block_on(|| par::for_each(par::enumerate(&mut squares), |(i, square)| *square = i * i))
///     .unwrap();
/// assert_eq!(squares, [0, 1, 4, 9, 16]);
/// ```
pub fn enumerate<S: IntoSource>(source: S) -> Enumerate<S::Source> {
    Enumerate { first: 0, source: source.into_source() }
}

impl<S: Source> Source for Enumerate<S> {
    type Item = (usize, S::Item);
    type Iter = Numbered<S::Iter>;

    #[inline]
    fn size(&self) -> usize {
        self.source.size()
    }

    #[inline]
    fn split_at(self, n: usize) -> (Self, Self) {
        let (front, back) = self.source.split_at(n);
        let behind = self.first.wrapping_add(n);
        (Enumerate { source: front, ..self }, Enumerate { first: behind, source: back })
    }

    #[inline]
    fn items(self) -> Self::Iter {
        Numbered { next: self.first, items: self.source.items() }
    }

    #[inline]
    fn at_least(&self) -> usize {
        self.source.at_least()
    }
}

/// The iterator over a chunk of an [`Enumerate`].
#[derive(Clone, Debug)]
pub struct Numbered<I> {
    next: usize,
    items: I,
}

impl<I: Iterator> Iterator for Numbered<I> {
    type Item = (usize, I::Item);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.items.next()?;
        let number = self.next;
        self.next = number.wrapping_add(1);
        Some((number, item))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }

    /// The innermost loop is that of the items.
    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let Numbered { mut next, items } = self;
        items.fold(init, move |folded, item| {
            let folded = f(folded, (next, item));
            next = next.wrapping_add(1);
            folded
        })
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
