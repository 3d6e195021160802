use super::cursor::Cursor;
use super::items::{Items, Runs};
use crate::ring::sequence::{MultiClaim, SequenceRange, SingleClaim};
use std::fmt;
use std::iter::from_fn;
use std::marker::PhantomData;

/// A batch of items to read. Dropping it gives all of them back, also during a panic.
///
/// A batch that is forgotten gives nothing back: the next batch begins where this one did.
#[must_use = "a batch that is dropped counts as read"]
pub struct Batch<'a, T> {
    cursor: &'a mut Cursor<T>,
    numbers: SequenceRange<u64>,
    /// Sharing the batch shares the items.
    _items: PhantomData<&'a T>,
}

/// A [`Batch`] whose items may be changed.
///
/// A batch can be sent to another thread if the items can. Sharing a batch, or slices of it, with
/// other threads requires that the items are `Sync`:
/// ```compile_fail
/// # use std::cell::Cell;
/// let mut ring = cygnet::ring::single_producer(2, || Cell::new(0));
/// let mut stage = ring.stage();
/// let mut producer = ring.producer();
/// producer.send(Cell::new(1)).unwrap();
/// let batch = stage.next_batch(..).unwrap();
/// let slices = batch.slices();
/// std::thread::scope(|s| _ = s.spawn(|| slices.count()));
/// ```
#[must_use = "a batch that is dropped counts as read"]
pub struct BatchMut<'a, T> {
    cursor: &'a mut Cursor<T>,
    numbers: SequenceRange<u64>,
    /// Sharing the batch shares the items.
    _items: PhantomData<&'a mut T>,
}

macro_rules! reads {
    ($name:ident) => {
        impl<'a, T> $name<'a, T> {
            pub(super) fn new(cursor: &'a mut Cursor<T>, numbers: SequenceRange<u64>) -> Self {
                $name { cursor, numbers, _items: PhantomData }
            }

            /// The items, in order.
            #[inline]
            pub fn iter(&self) -> impl Iterator<Item = &T> {
                self.slices().flatten()
            }

            /// The items as contiguous slices: at most two, plus one more for each gap that a claim
            /// given back has left.
            #[inline]
            pub fn slices(&self) -> impl Iterator<Item = &[T]> {
                let mut runs = Runs::<_, &T>::new(&self.cursor.items, self.numbers);
                // SAFETY: the numbers are published to this reader, and it gives them back only
                // when the batch is dropped, after this borrow.
                from_fn(move || runs.next().map(|run| unsafe { &*run }))
            }

            /// The numbers of the items. With several producers some numbers may have no item,
            /// because the producer gave them back.
            #[must_use]
            pub fn numbers(&self) -> SequenceRange<u64> {
                self.numbers
            }

            /// The number of items.
            ///
            /// With several producers it costs a load for each.
            #[must_use]
            pub fn len(&self) -> usize {
                self.slices().map(<[T]>::len).sum()
            }

            /// Returns `true` if there are no items: all numbers of the batch were given back by
            /// their producer.
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
    /// The items, in order, for changing them.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slices_mut().flatten()
    }

    /// The items as contiguous slices, for changing them.
    #[inline]
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let mut runs = Runs::<_, &mut T>::new(&self.cursor.items, self.numbers);
        // SAFETY: the stage has no other reader, and the items are given back only after this
        // borrow.
        from_fn(move || runs.next().map(|run| unsafe { &mut *run }))
    }
}

/// The claim behind a [`WriteBatch`].
pub(super) enum Claim<'a> {
    Single(SingleClaim<'a, u64>),
    Multi(MultiClaim<'a, u64>),
}

/// A batch of items to write. They hold the contents of their last use.
///
/// A batch that is dropped unpublished gives the items back, and readers do not see them.
#[must_use = "a batch that is dropped is not published"]
pub struct WriteBatch<'a, T> {
    items: &'a Items<T>,
    claim: Claim<'a>,
}

impl<'a, T> WriteBatch<'a, T> {
    #[inline(always)]
    pub(super) fn new(items: &'a Items<T>, claim: Claim<'a>) -> WriteBatch<'a, T> {
        WriteBatch { items, claim }
    }

    /// The numbers of the items.
    #[must_use]
    #[inline]
    pub fn numbers(&self) -> SequenceRange<u64> {
        match &self.claim {
            Claim::Single(claim) => claim.range(),
            Claim::Multi(claim) => claim.range(),
        }
    }

    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers().len()
    }

    /// Returns `true` if there are no items, because none were asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items, in order.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slices_mut().flatten()
    }

    /// The items as contiguous slices, at most two.
    #[inline]
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let mut runs = Runs::<_, &mut T>::of_claimed(self.items, self.numbers());
        // SAFETY: the numbers are claimed, and belong to this batch alone until the claim is
        // published or given back, which consumes the batch.
        from_fn(move || runs.next().map(|run| unsafe { &mut *run }))
    }

    /// Publishes all items of the batch.
    ///
    /// Returns `false` if it comes too late: a reader was dropped, which has ended the ring. A
    /// single producer has published nothing then. With several producers, the remaining readers
    /// read the items all the same. After a `close` the batch is not too late, and `publish`
    /// returns `true`.
    ///
    /// Does not suspend. Costs as much as [`SingleClaim::publish`] or [`MultiClaim::publish`].
    #[inline]
    pub fn publish(self) -> bool {
        match self.claim {
            Claim::Single(claim) => claim.publish(),
            Claim::Multi(claim) => claim.publish(),
        }
    }

    /// Overwrites the first item with `value`, and publishes the batch, which is not empty.
    #[inline(always)]
    pub(super) fn send(self, value: T) {
        // SAFETY: the item belongs to this batch alone until the claim is published.
        unsafe { *self.items.at(self.numbers().start()) = value };
        self.publish();
    }

    /// Publishes the first `count` items and gives back the rest. Returns the same as
    /// [`publish`](WriteBatch::publish).
    pub fn publish_first(self, count: usize) -> bool {
        match self.claim {
            Claim::Single(claim) => claim.publish_first(count),
            Claim::Multi(claim) => claim.publish_first(count),
        }
    }
}

debug! { impl<T> WriteBatch<'_, T> as this (this.numbers()) }
