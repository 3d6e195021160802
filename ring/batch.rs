use super::items::{Items, Slices, SlicesMut};
use super::reader::Cursor;
use crate::ring::sequence::{MultiClaim, SequenceRange, SingleClaim};
use std::fmt;
use std::marker::PhantomData;

/// Items to be read. They are given back when it is dropped, as a whole: also if that is by a panic.
///
/// One that is forgotten gives nothing back: the next batch begins where this one did.
#[must_use = "a batch that is dropped counts as read"]
pub struct Batch<'a, T> {
    cursor: &'a mut Cursor<T>,
    numbers: SequenceRange<u64>,
    /// Who shares the batch shares the items.
    _items: PhantomData<&'a T>,
}

/// As [`Batch`], with items that may be changed.
///
/// It goes where its items may go. To share it, or the slices of it, with other threads they must be `Sync`:
///
/// ```compile_fail
/// # use std::cell::Cell;
/// let mut ring = cygnet::ring::single_producer(2, || Cell::new(0));
/// let mut stage = ring.stage();
/// let mut producer = ring.producer();
/// producer.send(Cell::new(1)).unwrap();
/// let batch = stage.next_batch().unwrap();
/// let slices = batch.slices();
/// std::thread::scope(|s| _ = s.spawn(|| slices.count()));
/// ```
#[must_use = "a batch that is dropped counts as read"]
pub struct BatchMut<'a, T> {
    cursor: &'a mut Cursor<T>,
    numbers: SequenceRange<u64>,
    /// Who shares the batch shares the items.
    _items: PhantomData<&'a mut T>,
}

macro_rules! reads {
    ($name:ident) => {
        impl<'a, T> $name<'a, T> {
            pub(super) fn new(
                cursor: &'a mut Cursor<T>,
                numbers: SequenceRange<u64>,
            ) -> $name<'a, T> {
                $name { cursor, numbers, _items: PhantomData }
            }

            /// The items, in order.
            #[inline]
            pub fn iter(&self) -> impl Iterator<Item = &T> {
                self.slices().flatten()
            }

            /// The items, as slices of what lies side by side: two at most, but for those that were given up by who had claimed them.
            #[inline]
            pub fn slices(&self) -> impl Iterator<Item = &[T]> {
                // SAFETY: they can be read, and are given back after this borrow.
                unsafe { Slices::new(&self.cursor.items, self.numbers) }
            }

            /// The numbers of the items. With many producers there may be some of which there is no item: they were given up.
            #[must_use]
            pub fn numbers(&self) -> SequenceRange<u64> {
                self.numbers
            }

            /// How many items there are.
            ///
            /// With many producers it costs a load for each.
            #[must_use]
            pub fn len(&self) -> usize {
                self.slices().map(<[T]>::len).sum()
            }

            /// Whether there is none: all were given up by who had claimed them.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.slices().next().is_none()
            }
        }

        impl<T> Drop for $name<'_, T> {
            #[inline]
            fn drop(&mut self) {
                self.cursor.give_back(self.numbers);
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.iter()).finish()
            }
        }
    };
}

reads! { Batch }
reads! { BatchMut }

impl<T> BatchMut<'_, T> {
    /// The items, in order, to be changed.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slices_mut().flatten()
    }

    /// The same as slices of what lies side by side.
    #[inline]
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        // SAFETY: the stage has no other reader, and they are given back after this borrow.
        unsafe { SlicesMut::new(&self.cursor.items, self.numbers) }
    }
}

/// What has been claimed.
pub(super) enum Claim<'a> {
    Single(SingleClaim<'a, u64>),
    Multi(MultiClaim<'a, u64>),
}

/// Items to be written: what an earlier use has left in them. Dropped, they are given back, and readers do not see them.
#[must_use = "a batch that is dropped is not published"]
pub struct WriteBatch<'a, T> {
    items: &'a Items<T>,
    claim: Claim<'a>,
}

impl<'a, T> WriteBatch<'a, T> {
    pub(super) fn new(items: &'a Items<T>, claim: Claim<'a>) -> WriteBatch<'a, T> {
        WriteBatch { items, claim }
    }

    /// The numbers of the items.
    #[must_use]
    pub fn numbers(&self) -> SequenceRange<u64> {
        match &self.claim {
            Claim::Single(claim) => claim.range(),
            Claim::Multi(claim) => claim.range(),
        }
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers().len()
    }

    /// Whether there is none: none were asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items, in order.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slices_mut().flatten()
    }

    /// The same as slices of what lies side by side: two at most.
    #[inline]
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        // SAFETY: they have been claimed, and nobody else has them until the claim goes.
        unsafe { SlicesMut::of_claimed(self.items, self.numbers()) }
    }

    /// Publishes all of them.
    ///
    /// Returns `false` if that comes too late: a reader has gone, and has ended the ring by that. A single producer has published nothing then; with many producers
    /// the readers that are left read the items all the same. Returns `true` after a `close`.
    ///
    /// Does not suspend. Costs as [`SingleClaim::publish`], and [`MultiClaim::publish`].
    #[inline]
    pub fn publish(self) -> bool {
        match self.claim {
            Claim::Single(claim) => claim.publish(),
            Claim::Multi(claim) => claim.publish(),
        }
    }

    /// Publishes the first so many, and gives back the others. Returns as [`publish`](WriteBatch::publish) does.
    pub fn publish_first(self, count: usize) -> bool {
        match self.claim {
            Claim::Single(claim) => claim.publish_first(count),
            Claim::Multi(claim) => claim.publish_first(count),
        }
    }
}

impl<T> fmt::Debug for WriteBatch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteBatch").field(&self.numbers()).finish()
    }
}
