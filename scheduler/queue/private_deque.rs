//! The private front of a worker: fresh tasks that it spawned and nobody else has taken yet.
//!
//! The owner pushes and pops with plain loads and stores; a thief pays for both.
//!
//! # Protocol
//!
//! A ring of slots between two indices that only grow: `head` (moved by whoever holds the lock) and
//! `tail` (moved by the owner). The owner takes from the tail, a thief from the head; they can
//! meet only at the last items. As in Cilk-5's THE protocol (Frigo, Leiserson, Randall, PLDI 1998)
//! each side first announces what it takes and then looks at the other's index:
//!
//! * owner: lower `tail`, *fence*, read `head`; on conflict take the lock and look again;
//! * thief, under the lock: raise `head`, *fence*, read `tail`; take back what was not there.
//!
//! The owner's fence keeps only the compiler in line, the thief's is `membarrier`, where the kernel
//! offers it ([`crate::shim::asymmetric`]). Of the two, at least one sees the other: no item is
//! taken twice and none is lost. The lowering must come first, also when the owner only trims.
//!
//! [`PrivateDeque::take`] removes an item from the middle (a parent that joins a child): it clears the slot,
//! *fences*, and reads `head`; if a thief has claimed that index meanwhile, the lock is taken, and
//! the item's `place` tells whether the thief saw the item (it then wrote [`PUBLIC`]) or the
//! cleared slot.
//!
//! # Requests for work
//!
//! `limit` is the index at which a push must do more than push: normally where the ring is full.
//! Someone who wants work stores 0 there, so the owner's next push (or its loop) notices with the very
//! compare that it needs anyway, and hands over. The check comes after the store of `tail`, so
//! that a worker that goes to sleep (store 0, membarrier, look at every private deque) and a push cannot
//! miss each other. Who finds the 0 of another leaves it at that; so an owner that takes a request back
//! fences before it looks for sleepers: there may be one more than asked. Who lies down while somebody
//! searches asks nobody: the searcher does, when it stops, of its own private deque too (idle.rs).
//!
//! Orderings: `tail` is stored with Release, also when it is lowered, and read by thieves with Acquire:
//! this hands over the records below it. Everything else is relaxed, between the fences or under the lock.

use crate::shim::asymmetric::{heavy, is_one_sided, light};
use crate::shim::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::shim::{Mutex, MutexGuard};
use crate::task::record::Record;
use crossbeam_utils::CachePadded;
use std::hint::cold_path;
use std::ptr::{self, NonNull};
use std::sync::{PoisonError, TryLockError};

/// `place` of a record that has left the private deque for a public queue or a thief.
pub(crate) const PUBLIC: usize = usize::MAX;

#[cfg(not(loom))]
const INITIAL: usize = 256;
#[cfg(loom)]
const INITIAL: usize = 4;

/// The first index: there is always one below the tail, and none is [`PUBLIC`].
const FIRST: usize = 1;

/// Cleared slots that one steal passes by: a microsecond or two.
const LOOK: usize = 4096;

type Slot = AtomicPtr<Record>;

/// What the owner writes, on its own cache lines.
struct Owned {
    tail: AtomicUsize,
    limit: AtomicUsize,
    /// Where the ring is full, as the owner last found it under the lock. What a thief has not read
    /// yet lies below, although `head` is above it already.
    full: AtomicUsize,
    /// The ring; replaced by the owner under the lock, read by thieves under the lock.
    ring: AtomicPtr<Slot>,
    mask: AtomicUsize,
    /// Whether its fence is free.
    one_sided: bool,
}

/// How much of a private deque is handed over.
#[derive(Clone, Copy)]
pub(crate) struct Portion {
    /// So many workers want to have some. The owner keeps as much as each of them gets, but one of
    /// two or more in any case.
    pub(crate) takers: usize,
    pub(crate) most: usize,
}

impl Portion {
    pub(crate) const ONE: Portion = Portion { takers: 1, most: 1 };
    /// Half of what there is.
    pub(crate) const HALF: Portion = Portion { takers: 1, most: usize::MAX };

    fn of(self, len: usize) -> usize {
        let kept = (len / (self.takers + 1)).max(usize::from(len > 1));
        (len - kept).min(self.most)
    }
}

/// See the module's documentation.
pub(crate) struct PrivateDeque {
    owned: CachePadded<Owned>,
    head: CachePadded<AtomicUsize>,
    lock: Mutex<()>,
}

// SAFETY: the records in the ring are shared by design; the ring is replaced and freed only by the
// owner under the lock, under which alone others read it.
unsafe impl Sync for PrivateDeque {}
// SAFETY: as above.
unsafe impl Send for PrivateDeque {}

fn new_ring(capacity: usize) -> *mut Slot {
    let ring: Box<[Slot]> = (0..capacity).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
    Box::into_raw(ring).cast()
}

/// # Safety
/// `ring` came from `new_ring(capacity)` and is not used any more.
unsafe fn free_ring(ring: *mut Slot, capacity: usize) {
    // SAFETY: passed on.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(ring, capacity)) });
}

impl PrivateDeque {
    pub(crate) fn new() -> PrivateDeque {
        PrivateDeque {
            owned: CachePadded::new(Owned {
                tail: AtomicUsize::new(FIRST),
                limit: AtomicUsize::new(FIRST + INITIAL),
                full: AtomicUsize::new(FIRST + INITIAL),
                ring: AtomicPtr::new(new_ring(INITIAL)),
                mask: AtomicUsize::new(INITIAL - 1),
                one_sided: is_one_sided(),
            }),
            head: CachePadded::new(AtomicUsize::new(FIRST)),
            lock: Mutex::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner's fence.
    #[inline(always)]
    fn fence(&self) {
        if self.owned.one_sided {
            light();
        } else {
            cold_path();
            fence(Ordering::SeqCst);
        }
    }

    /// The slot of an index, for the owner or under the lock.
    #[inline]
    fn slot(&self, index: usize) -> &Slot {
        let ring = self.owned.ring.load(Ordering::Relaxed);
        let mask = self.owned.mask.load(Ordering::Relaxed);
        // SAFETY: the ring has mask + 1 slots, and the caller is the one who could replace it or
        // holds the lock under which it is replaced.
        unsafe { &*ring.add(index & mask) }
    }

    /// Adds an item; true if the owner must attend to the private deque ([`PrivateDeque::attend`]).
    ///
    /// For the owner.
    #[inline]
    pub(crate) fn push(&self, record: NonNull<Record>) -> bool {
        let tail = self.owned.tail.load(Ordering::Relaxed);
        // SAFETY: the record is the caller's, and its place is the spawner's to write.
        unsafe { record.as_ref() }.place.store(tail, Ordering::Relaxed);
        self.slot(tail).store(record.as_ptr(), Ordering::Relaxed);
        // MUTANT(private_deque.push.tail): relaxed
        self.owned.tail.store(tail + 1, Ordering::Release);
        // MUTANT(private_deque.push.fence): skip
        self.fence();
        tail + 1 >= self.owned.limit.load(Ordering::Relaxed)
    }

    /// Whether somebody has asked for work, or the ring is full.
    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        self.owned.tail.load(Ordering::Relaxed) >= self.owned.limit.load(Ordering::Relaxed)
    }

    /// The newest item. For the owner.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<Record>> {
        loop {
            let tail = self.owned.tail.load(Ordering::Relaxed);
            if self.head.load(Ordering::Relaxed) >= tail {
                return None;
            }
            let last = tail - 1;
            // MUTANT(private_deque.pop.tail): relaxed
            self.owned.tail.store(last, Ordering::Release);
            // MUTANT(private_deque.pop.fence): skip
            self.fence();
            // MUTANT(private_deque.pop.look): false
            if self.head.load(Ordering::Relaxed) > last && !self.settle(last) {
                return None;
            }
            if let Some(record) = NonNull::new(self.slot(last).load(Ordering::Relaxed)) {
                return Some(record);
            }
            // A slot that `take` has cleared: go on below it.
        }
    }

    /// The owner has lowered `tail` to `last` and met a thief: whose is the item? False: nobody's or
    /// the thief's, and the private deque is empty.
    #[cold]
    #[inline(never)]
    fn settle(&self, last: usize) -> bool {
        let _lock = self.lock();
        let head = self.head.load(Ordering::Relaxed);
        // MUTANT(private_deque.settle.look): false
        if head > last {
            self.owned.tail.store(head, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Removes `record` if it is the newest item. For the owner, who holds a reference.
    #[inline(always)]
    pub(crate) fn take_newest(&self, record: NonNull<Record>) -> bool {
        let last = self.owned.tail.load(Ordering::Relaxed) - 1;
        // The slot first: it is ours, and the record of a task that was called elsewhere is not.
        // The place may be anything, as in `take`; the slot below the tail is one of the ring, even
        // if the ring is empty; if it still holds the record then, the record is found gone below.
        if self.slot(last).load(Ordering::Relaxed) != record.as_ptr()
            // SAFETY: the caller holds a reference.
            || unsafe { record.as_ref() }.place.load(Ordering::Relaxed) != last
        {
            return false;
        }
        // MUTANT(private_deque.newest.tail): relaxed
        self.owned.tail.store(last, Ordering::Release);
        // MUTANT(private_deque.newest.fence): skip
        self.fence();
        // MUTANT(private_deque.newest.look): true
        self.head.load(Ordering::Relaxed) <= last || self.settle(last)
    }

    /// Removes `record` wherever it lies, if it is still here. For the owner, who holds a reference.
    #[inline(always)]
    pub(crate) fn take(&self, record: NonNull<Record>) -> bool {
        // SAFETY: the caller holds a reference.
        let place = &unsafe { record.as_ref() }.place;
        let index = place.load(Ordering::Relaxed);
        let tail = self.owned.tail.load(Ordering::Relaxed);
        // The index may be anything: of another private deque, of a coroutine, of a life before. What counts
        // is that the slot holds this record.
        if index >= tail || index < self.head.load(Ordering::Relaxed) {
            return false;
        }
        // MUTANT(private_deque.take.slot): false
        if self.slot(index).load(Ordering::Relaxed) != record.as_ptr() {
            return false;
        }
        if index + 1 == tail {
            // MUTANT(private_deque.take.tail): relaxed
            self.owned.tail.store(index, Ordering::Release);
            // MUTANT(private_deque.take.fence): skip
            self.fence();
            // MUTANT(private_deque.take.look): true
            return self.head.load(Ordering::Relaxed) <= index || self.settle(index);
        }
        self.slot(index).store(ptr::null_mut(), Ordering::Relaxed);
        // MUTANT(private_deque.middle.fence): skip
        self.fence();
        // MUTANT(private_deque.middle.look): true
        self.head.load(Ordering::Relaxed) <= index || self.settle_cleared(place, index)
    }

    /// The owner has cleared the slot of an item with this place, and met a thief: whether that one has
    /// found the slot empty.
    #[cold]
    #[inline(never)]
    fn settle_cleared(&self, place: &AtomicUsize, index: usize) -> bool {
        let _lock = self.lock();
        // MUTANT(private_deque.middle.settle): true
        place.load(Ordering::Relaxed) == index
    }

    /// The index above the newest item. For the owner.
    #[inline]
    pub(crate) fn tail(&self) -> usize {
        self.owned.tail.load(Ordering::Relaxed)
    }

    /// The index of the oldest item, if there is any.
    pub(crate) fn head(&self) -> usize {
        self.head.load(Ordering::Relaxed)
    }

    /// Makes room if the ring is full, and clears a request: true if there was one.
    ///
    /// If a thief is here, there is room, and somebody is counted as searching (`searched` is a
    /// look at that), the request stands: a thief's barrier may take longer than many tasks.
    /// Whoever lies down meanwhile relies on the searcher. The thief itself need not be one
    /// (isolate.rs).
    ///
    /// For the owner.
    pub(crate) fn serve_requests(&self, searched: impl FnOnce() -> bool) -> bool {
        let _lock = match self.lock.try_lock() {
            Ok(lock) => lock,
            Err(TryLockError::WouldBlock) if self.has_room() && searched() => return false,
            _ => self.lock(),
        };
        let tail = self.owned.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed);
        let capacity = self.owned.mask.load(Ordering::Relaxed) + 1;
        if tail - head >= capacity {
            self.squeeze(head, tail, capacity);
        }
        let head = self.head.load(Ordering::Relaxed);
        let capacity = self.owned.mask.load(Ordering::Relaxed) + 1;
        // A swap: a request that comes just now must not be overwritten unseen.
        // Without order: whoever has asked and lies down has fenced before it asked, or found a request and does so, and our
        // caller fences before it looks for sleepers.
        self.owned.full.store(head + capacity, Ordering::Relaxed);
        // MUTANT(private_deque.attend.limit): split
        self.owned.limit.swap(head + capacity, Ordering::Relaxed) == 0
    }

    /// Whether one more item can be pushed, whatever a thief is about to read. For the owner.
    pub(crate) fn has_room(&self) -> bool {
        // MUTANT(private_deque.attend.room): true
        self.owned.tail.load(Ordering::Relaxed) < self.owned.full.load(Ordering::Relaxed)
    }

    /// Moves the items together, into a larger ring if they fill more than half. Under the lock.
    fn squeeze(&self, head: usize, tail: usize, capacity: usize) {
        let items: Vec<_> = (head..tail)
            .filter_map(|i| NonNull::new(self.slot(i).load(Ordering::Relaxed)))
            .collect();
        if items.len() * 2 > capacity {
            let old = self.owned.ring.load(Ordering::Relaxed);
            self.owned.ring.store(new_ring(capacity * 2), Ordering::Relaxed);
            self.owned.mask.store(capacity * 2 - 1, Ordering::Relaxed);
            // SAFETY: replaced above; thieves read the ring only under the lock that we hold.
            unsafe { free_ring(old, capacity) };
        }
        for (i, record) in items.iter().enumerate() {
            self.slot(head + i).store(record.as_ptr(), Ordering::Relaxed);
            // SAFETY: a record in the ring is alive, and its place is ours under the lock.
            unsafe { record.as_ref() }.place.store(head + i, Ordering::Relaxed);
        }
        self.owned.tail.store(head + items.len(), Ordering::Release);
    }

    /// Whether there is anything that a `trim` would give back. For the owner.
    pub(crate) fn exceeds_bound(&self) -> bool {
        self.owned.mask.load(Ordering::Relaxed) >= INITIAL * 16 && self.is_empty()
    }

    /// Gives back the memory of a ring that was once large. For the owner, when it is idle.
    pub(crate) fn trim(&self) {
        if !self.exceeds_bound() {
            return;
        }
        let capacity = self.owned.mask.load(Ordering::Relaxed) + 1;
        let _lock = self.lock();
        let old = self.owned.ring.swap(new_ring(INITIAL), Ordering::Relaxed);
        self.owned.mask.store(INITIAL - 1, Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed);
        // A request (0) stays; one that comes just now makes the exchange fail.
        let full = head + INITIAL;
        self.owned.full.store(full, Ordering::Relaxed);
        let limit = self.owned.limit.load(Ordering::Relaxed);
        if limit != 0 {
            // MUTANT(private_deque.trim.limit): split
            let _ = self.owned.limit.compare_exchange(
                limit,
                full,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        // SAFETY: replaced above; thieves read the ring only under the lock that we hold.
        unsafe { free_ring(old, capacity) };
    }

    /// An estimate of the number of items (cleared slots count).
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        self.owned.tail.load(Ordering::Acquire).saturating_sub(head)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks the owner to hand over, or to wake someone, at its next push.
    #[inline]
    pub(crate) fn request(&self) {
        if self.owned.limit.load(Ordering::Relaxed) != 0 {
            self.owned.limit.store(0, Ordering::Relaxed);
        }
    }

    /// Removes a portion of the items, the oldest first. A deque with fewer than `least` items
    /// gives none.
    ///
    /// For the owner, who needs no barrier: it cannot race itself, and thieves are locked out.
    pub(crate) fn hand_over(
        &self,
        least: usize,
        portion: Portion,
        mut to: impl FnMut(NonNull<Record>),
    ) -> usize {
        let _lock = self.lock();
        let tail = self.owned.tail.load(Ordering::Relaxed);
        let head = self.first_full(self.head.load(Ordering::Relaxed), tail);
        let len = tail.saturating_sub(head);
        let end = if len < least { head } else { head + portion.of(len) };
        self.head.store(end, Ordering::Relaxed);
        self.deliver(head, end, &mut to)
    }

    /// As `hand_over`, the newest first.
    pub(crate) fn hand_over_newest(
        &self,
        least: usize,
        portion: Portion,
        mut to: impl FnMut(NonNull<Record>),
    ) -> usize {
        let len = {
            let _lock = self.lock();
            let tail = self.owned.tail.load(Ordering::Relaxed);
            let head = self.first_full(self.head.load(Ordering::Relaxed), tail);
            self.head.store(head, Ordering::Relaxed);
            tail.saturating_sub(head)
        };
        let wanted = if len < least { 0 } else { portion.of(len) };
        for given in 0..wanted {
            let Some(record) = self.pop() else { return given };
            // SAFETY: just taken out, with its run reference.
            unsafe { record.as_ref() }.place.store(PUBLIC, Ordering::Relaxed);
            to(record);
        }
        wanted
    }

    /// Steals up to half of the items, the oldest first, and at most `most`.
    ///
    /// For thieves; costs a membarrier.
    pub(crate) fn steal(&self, most: usize, mut to: impl FnMut(NonNull<Record>)) -> usize {
        let _lock = self.lock();
        let head = self.head.load(Ordering::Relaxed);
        let tail = self.owned.tail.load(Ordering::Acquire);
        if head >= tail {
            return 0;
        }
        let full = self.first_full(head, tail);
        let wanted = full + (tail - full).div_ceil(2).min(most);
        self.head.store(wanted, Ordering::Relaxed);
        // MUTANT(private_deque.steal.fence): skip
        heavy();
        // MUTANT(private_deque.steal.look): with tail
        // MUTANT(private_deque.steal.tail): relaxed
        let tail = self.owned.tail.load(Ordering::Acquire);
        let end = wanted.min(tail).max(head);
        self.head.store(end, Ordering::Relaxed);
        self.deliver(head, end, &mut to)
    }

    /// The first slot that `take` has not cleared, or the last that we look at: who joins the oldest task first
    /// leaves nothing else behind. Under the lock.
    fn first_full(&self, head: usize, tail: usize) -> usize {
        let end = tail.min(head + LOOK);
        (head..end).find(|i| !self.slot(*i).load(Ordering::Relaxed).is_null()).unwrap_or(end)
    }

    fn deliver(&self, from: usize, end: usize, to: &mut impl FnMut(NonNull<Record>)) -> usize {
        let mut count = 0;
        for index in from..end {
            if let Some(record) = NonNull::new(self.slot(index).load(Ordering::Relaxed)) {
                // SAFETY: what was in the slot is ours now and alive.
                unsafe { record.as_ref() }.place.store(PUBLIC, Ordering::Relaxed);
                to(record);
                count += 1;
            }
        }
        count
    }
}

impl Drop for PrivateDeque {
    fn drop(&mut self) {
        let capacity = self.owned.mask.load(Ordering::Relaxed) + 1;
        // SAFETY: exclusively ours.
        unsafe { free_ring(self.owned.ring.load(Ordering::Relaxed), capacity) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Portion;

    #[test]
    fn an_owner_keeps_as_much_as_each_of_those_who_ask_gets() {
        let given = |takers, len| Portion { takers, most: 64 }.of(len);
        assert_eq!([2, 3, 8, 9].map(|len| given(1, len)), [1, 2, 4, 5]);
        assert_eq!([1, 2, 3, 8, 9].map(|len| given(3, len)), [1, 1, 2, 6, 7]);
        assert_eq!(given(7, 1_000), 64);
        assert_eq!((Portion::ONE.of(5), Portion::HALF.of(1_000)), (1, 500));
    }
}
