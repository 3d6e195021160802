//! A worker's private deque: fresh tasks that the worker spawned and that no other worker has
//! taken.
//!
//! The owner pushes and pops with plain loads and stores; a thief pays for both sides.
//!
//! # Protocol
//!
//! A ring of slots between two indices that only grow: `head`, moved under the lock, and `tail`,
//! moved by the owner. The owner takes from the tail and a thief from the head, so they can meet
//! only at the last items. As in Cilk-5's THE protocol (Frigo, Leiserson, Randall, PLDI 1998), each
//! side first announces what it takes and then reads the other side's index:
//!
//! * owner: lower `tail`, *fence*, read `head`; on conflict take the lock and read `head` again;
//! * thief, under the lock: raise `head`, *fence*, read `tail`; put back what was not there.
//!
//! The owner's fence restrains only the compiler. The thief's fence is a `membarrier` where the
//! kernel offers it ([`crate::shim::asymmetric`]). At least one side sees the other, so no item is
//! taken twice and none is lost. The owner lowers `tail` before it reads `head` even if it only
//! skips a cleared slot.
//!
//! [`PrivateDeque::take`] removes an item from the middle, for a parent that joins a child. It
//! clears the slot, *fences*, and reads `head`. If a thief has claimed that index meanwhile, `take`
//! acquires the lock, and the item's `place` tells whether the thief saw the item (the thief then
//! wrote [`PUBLIC`]) or the cleared slot.
//!
//! # Requests for work
//!
//! `limit` is the index at which a push must do more than push. Normally that is where the ring is
//! full. A worker that wants work stores 0 there. The owner's next push (or its loop) notices the
//! request with the compare that it needs anyway, and hands tasks over. The push compares after it
//! has stored `tail`. So a push and a worker that goes to sleep (store 0, membarrier, look at every
//! private deque) cannot miss each other.
//!
//! A worker that finds the 0 of another worker does not store its own. One request may therefore
//! stand for several workers, so an owner that takes a request back fences before it looks for
//! sleepers. A worker that lies down while another one searches makes no request: the searcher
//! makes them when it stops, to its own private deque too (idle.rs).
//!
//! # Orderings
//!
//! Each store of `tail`, also a lowering one, is Release, and thieves load it with Acquire: this
//! hands over the records below it. All other accesses are relaxed, between the fences or under the
//! lock.

use crate::shim::Mutex;
use crate::shim::asymmetric::{heavy, is_one_sided, light};
use crate::shim::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::task::record::Record;
use crate::task::reference::{RunRef, TaskRef};
use crossbeam_utils::CachePadded;
use std::hint::cold_path;
use std::ptr::{self, NonNull};

/// The `place` of a record that has left the private deque for a public queue or a thief.
pub(crate) const PUBLIC: usize = usize::MAX;

#[cfg(not(loom))]
const INITIAL: usize = 256;
#[cfg(loom)]
const INITIAL: usize = 4;

/// The first index. There is always an index below the tail, and no index is [`PUBLIC`].
const FIRST: usize = 1;

/// The number of cleared slots that one steal skips, which takes a microsecond or two.
const LOOK: usize = 4096;

type Slot = AtomicPtr<Record>;

/// The words that the owner writes, on their own cache lines.
struct Owned {
    tail: AtomicUsize,
    limit: AtomicUsize,
    /// The index at which the ring is full, as the owner last found it under the lock. A slot below
    /// it may still be unread by a thief that has raised `head` past that slot.
    full: AtomicUsize,
    /// The slots of the ring that the lock holds. The owner replaces the ring under the lock, and
    /// thieves read it under the lock.
    ring: AtomicPtr<Slot>,
    mask: AtomicUsize,
    /// Whether the owner's fence is free.
    one_sided: bool,
}

/// How much of a private deque is handed over.
#[derive(Clone, Copy)]
pub(crate) struct Portion {
    /// The number of workers that want a share. The owner keeps as much as each of them gets, and
    /// at least one item of two or more.
    pub(crate) takers: usize,
    pub(crate) most: usize,
}

impl Portion {
    pub(crate) const ONE: Portion = Portion { takers: 1, most: 1 };
    /// Half of the items.
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
    /// Owns the ring.
    lock: Mutex<Ring>,
}

/// A ring: `mask + 1` slots. A vector and not a boxed slice, since a move of the latter would
/// invalidate the pointer in `Owned`.
type Ring = Vec<Slot>;

fn new_ring(capacity: usize) -> Ring {
    (0..capacity).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

impl PrivateDeque {
    pub(crate) fn new() -> PrivateDeque {
        let ring = new_ring(INITIAL);
        PrivateDeque {
            owned: CachePadded::new(Owned {
                tail: AtomicUsize::new(FIRST),
                limit: AtomicUsize::new(FIRST + INITIAL),
                full: AtomicUsize::new(FIRST + INITIAL),
                ring: AtomicPtr::new(ring.as_ptr().cast_mut()),
                mask: AtomicUsize::new(INITIAL - 1),
                one_sided: is_one_sided(),
            }),
            head: CachePadded::new(AtomicUsize::new(FIRST)),
            lock: Mutex::new(ring),
        }
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

    /// The slot of an index. For the owner, or under the lock.
    #[inline]
    fn slot(&self, index: usize) -> &Slot {
        let ring = self.owned.ring.load(Ordering::Relaxed);
        let mask = self.owned.mask.load(Ordering::Relaxed);
        // SAFETY: the ring has mask + 1 slots, and is replaced only by `install`. The caller is the
        // owner, which alone replaces it, or holds the lock under which it is replaced.
        unsafe { &*ring.add(index & mask) }
    }

    /// Adds an item. Returns `true` if the owner must serve requests
    /// ([`PrivateDeque::take_request`]).
    ///
    /// Owner only.
    #[inline]
    pub(crate) fn push(&self, run: RunRef) -> bool {
        let tail = self.owned.tail.load(Ordering::Relaxed);
        run.place.store(tail, Ordering::Relaxed);
        self.slot(tail).store(run.into_pointer().as_ptr(), Ordering::Relaxed);
        // MUTANT(private_deque.push.tail): relaxed
        self.owned.tail.store(tail + 1, Ordering::Release);
        // MUTANT(private_deque.push.fence): skip
        self.fence();
        tail + 1 >= self.owned.limit.load(Ordering::Relaxed)
    }

    /// Whether a worker has asked for work, or the ring is full.
    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        self.owned.tail.load(Ordering::Relaxed) >= self.owned.limit.load(Ordering::Relaxed)
    }

    /// Removes the newest item. Owner only.
    #[inline]
    pub(crate) fn pop(&self) -> Option<RunRef> {
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
            if self.head.load(Ordering::Relaxed) > last && !self.resolve(last) {
                return None;
            }
            // SAFETY: the item has been taken out, and is ours.
            if let Some(run) = unsafe { self.item(last) } {
                return Some(run);
            }
            // `take` has cleared this slot: go on below it.
        }
    }

    /// Decides a conflict: the owner has lowered `tail` to `last` and met a thief. Returns `true`
    /// if the item is the owner's. Otherwise the private deque is empty, and the item was the
    /// thief's or was never there.
    #[cold]
    #[inline(never)]
    fn resolve(&self, last: usize) -> bool {
        let _lock = self.lock.lock();
        let head = self.head.load(Ordering::Relaxed);
        // MUTANT(private_deque.resolve.look): false
        if head > last {
            self.owned.tail.store(head, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Removes a task if it is the newest item. Owner only.
    #[inline(always)]
    pub(crate) fn take_newest(&self, task: TaskRef<'_>) -> Option<RunRef> {
        let last = self.owned.tail.load(Ordering::Relaxed) - 1;
        // Compare the slot first: it is in our cache, and the record of a task that was called
        // elsewhere is not. As in `take`, the place may hold anything. The slot below the tail is
        // one of the ring even if the ring is empty. If that slot still holds the record then, the
        // comparison of `head` finds the record gone.
        if !task.is(self.slot(last).load(Ordering::Relaxed))
            || task.place.load(Ordering::Relaxed) != last
        {
            return None;
        }
        // MUTANT(private_deque.newest.tail): relaxed
        self.owned.tail.store(last, Ordering::Release);
        // MUTANT(private_deque.newest.fence): skip
        self.fence();
        // MUTANT(private_deque.newest.look): true
        let ours = self.head.load(Ordering::Relaxed) <= last || self.resolve(last);
        // SAFETY: the task has been taken out, and is ours.
        ours.then(|| unsafe { RunRef::new(task.pointer()) })
    }

    /// Removes a task wherever it lies, if it is still here. Owner only.
    #[inline(always)]
    pub(crate) fn take(&self, task: TaskRef<'_>) -> Option<RunRef> {
        // SAFETY: the task has been taken out, and is ours.
        self.take_out(task).then(|| unsafe { RunRef::new(task.pointer()) })
    }

    #[inline(always)]
    fn take_out(&self, task: TaskRef<'_>) -> bool {
        let place = &task.place;
        let index = place.load(Ordering::Relaxed);
        let tail = self.owned.tail.load(Ordering::Relaxed);
        // The place may hold anything: the index of another private deque, a fiber, or a value from
        // an earlier life of the record. Only a slot that holds this record counts.
        if index >= tail || index < self.head.load(Ordering::Relaxed) {
            return false;
        }
        // MUTANT(private_deque.take.slot): false
        if !task.is(self.slot(index).load(Ordering::Relaxed)) {
            return false;
        }
        if index + 1 == tail {
            // MUTANT(private_deque.take.tail): relaxed
            self.owned.tail.store(index, Ordering::Release);
            // MUTANT(private_deque.take.fence): skip
            self.fence();
            // MUTANT(private_deque.take.look): true
            return self.head.load(Ordering::Relaxed) <= index || self.resolve(index);
        }
        self.slot(index).store(ptr::null_mut(), Ordering::Relaxed);
        // MUTANT(private_deque.middle.fence): skip
        self.fence();
        // MUTANT(private_deque.middle.look): true
        self.head.load(Ordering::Relaxed) <= index || self.resolve_cleared(place, index)
    }

    /// Decides a conflict: the owner has cleared the slot of the item with this place, and met a
    /// thief. Returns `true` if the thief found the slot empty, so that the item is the owner's.
    #[cold]
    #[inline(never)]
    fn resolve_cleared(&self, place: &AtomicUsize, index: usize) -> bool {
        let _lock = self.lock.lock();
        // MUTANT(private_deque.middle.resolve): true
        place.load(Ordering::Relaxed) == index
    }

    /// The index above the newest item. Owner only.
    #[inline]
    pub(crate) fn tail(&self) -> usize {
        self.owned.tail.load(Ordering::Relaxed)
    }

    /// The index of the oldest item, if there is any.
    pub(crate) fn head(&self) -> usize {
        self.head.load(Ordering::Relaxed)
    }

    /// Makes room if the ring is full, and clears a request. Returns `true` if there was one.
    ///
    /// The request stands if a thief holds the lock, there is room, and a worker is counted as
    /// searching (`searched` tells): a thief's barrier may take longer than many tasks. A worker
    /// that lies down meanwhile relies on the searcher. The thief itself need not be counted as one
    /// (wait/isolation.rs).
    ///
    /// Owner only.
    pub(crate) fn take_request(&self, searched: impl FnOnce() -> bool) -> bool {
        let mut ring = match self.lock.try_lock() {
            Some(ring) => ring,
            None if self.has_room() && searched() => return false,
            None => self.lock.lock(),
        };
        let tail = self.owned.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed);
        let capacity = self.owned.mask.load(Ordering::Relaxed) + 1;
        if tail - head >= capacity {
            self.squeeze(&mut ring, head, tail, capacity);
        }
        let head = self.head.load(Ordering::Relaxed);
        let capacity = self.owned.mask.load(Ordering::Relaxed) + 1;
        // A swap, so that a request that arrives now is not overwritten unseen. Relaxed suffices: a
        // worker that lies down fences before it makes its request or finds one standing, and our
        // caller fences before it looks for sleepers.
        self.owned.full.store(head + capacity, Ordering::Relaxed);
        // MUTANT(private_deque.serve.limit): split
        self.owned.limit.swap(head + capacity, Ordering::Relaxed) == 0
    }

    /// Whether one more item can be pushed, whatever a thief may still have to read. Owner only.
    pub(crate) fn has_room(&self) -> bool {
        // MUTANT(private_deque.serve.room): true
        self.owned.tail.load(Ordering::Relaxed) < self.owned.full.load(Ordering::Relaxed)
    }

    /// Closes the gaps between the items, and moves them to a larger ring if they fill more than
    /// half.
    fn squeeze(&self, ring: &mut Ring, head: usize, tail: usize, capacity: usize) {
        let items: Vec<_> = (head..tail)
            .filter_map(|i| NonNull::new(self.slot(i).load(Ordering::Relaxed)))
            .collect();
        if items.len() * 2 > capacity {
            self.install(ring, new_ring(capacity * 2));
        }
        for (i, record) in items.iter().enumerate() {
            self.slot(head + i).store(record.as_ptr(), Ordering::Relaxed);
            // SAFETY: a record in the ring is alive, and the lock lets us write its place.
            unsafe { record.as_ref() }.place.store(head + i, Ordering::Relaxed);
        }
        self.owned.tail.store(head + items.len(), Ordering::Release);
    }

    /// Replaces the ring, whose slots are then those of `new`, and frees the old one.
    fn install(&self, ring: &mut Ring, new: Ring) {
        self.owned.ring.store(new.as_ptr().cast_mut(), Ordering::Relaxed);
        self.owned.mask.store(new.len() - 1, Ordering::Relaxed);
        *ring = new;
    }

    /// Whether `trim` would give any memory back. Owner only.
    pub(crate) fn exceeds_bound(&self) -> bool {
        self.owned.mask.load(Ordering::Relaxed) >= INITIAL * 16 && self.is_empty()
    }

    /// Gives back the memory of a ring that was once large. For the owner, when it is idle.
    pub(crate) fn trim(&self) {
        if !self.exceeds_bound() {
            return;
        }
        let mut ring = self.lock.lock();
        self.install(&mut ring, new_ring(INITIAL));
        let head = self.head.load(Ordering::Relaxed);
        // A request (0) stays. A request that arrives now makes the exchange fail.
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
    }

    /// Estimates the number of items, cleared slots included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        self.owned.tail.load(Ordering::Acquire).saturating_sub(head)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks the owner to hand tasks over, or to wake a sleeper, at its next push.
    #[inline]
    pub(crate) fn request(&self) {
        if self.owned.limit.load(Ordering::Relaxed) != 0 {
            self.owned.limit.store(0, Ordering::Relaxed);
        }
    }

    /// Removes a portion of the items, the oldest first. A deque with fewer than `least` items
    /// gives none.
    ///
    /// For the owner, which needs no barrier: it cannot race with itself, and the lock keeps
    /// thieves out.
    pub(crate) fn hand_over(
        &self,
        least: usize,
        portion: Portion,
        mut to: impl FnMut(RunRef),
    ) -> usize {
        let _lock = self.lock.lock();
        let tail = self.owned.tail.load(Ordering::Relaxed);
        let head = self.first_full(self.head.load(Ordering::Relaxed), tail);
        let len = tail.saturating_sub(head);
        let end = if len < least { head } else { head + portion.of(len) };
        self.head.store(end, Ordering::Relaxed);
        self.deliver(head, end, &mut to)
    }

    /// As [`hand_over`](PrivateDeque::hand_over), the newest first.
    pub(crate) fn hand_over_newest(
        &self,
        least: usize,
        portion: Portion,
        mut to: impl FnMut(RunRef),
    ) -> usize {
        let len = {
            let _lock = self.lock.lock();
            let tail = self.owned.tail.load(Ordering::Relaxed);
            let head = self.first_full(self.head.load(Ordering::Relaxed), tail);
            self.head.store(head, Ordering::Relaxed);
            tail.saturating_sub(head)
        };
        let wanted = if len < least { 0 } else { portion.of(len) };
        for given in 0..wanted {
            let Some(run) = self.pop() else { return given };
            run.place.store(PUBLIC, Ordering::Relaxed);
            to(run);
        }
        wanted
    }

    /// Steals up to half of the items, the oldest first, and at most `most`.
    ///
    /// For thieves; costs a membarrier.
    pub(crate) fn steal(&self, most: usize, mut to: impl FnMut(RunRef)) -> usize {
        let _lock = self.lock.lock();
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

    /// The first slot that `take` has not cleared, or the end of the look. Skipping matters where a
    /// parent joins its oldest child first, which leaves only cleared slots behind. Under the lock.
    fn first_full(&self, head: usize, tail: usize) -> usize {
        let end = tail.min(head + LOOK);
        (head..end).find(|i| !self.slot(*i).load(Ordering::Relaxed).is_null()).unwrap_or(end)
    }

    fn deliver(&self, from: usize, end: usize, to: &mut impl FnMut(RunRef)) -> usize {
        let mut count = 0;
        for index in from..end {
            // SAFETY: the head has passed the item, and is ours.
            if let Some(run) = unsafe { self.item(index) } {
                run.place.store(PUBLIC, Ordering::Relaxed);
                to(run);
                count += 1;
            }
        }
        count
    }

    /// The item in a slot, unless `take` has cleared the slot.
    ///
    /// # Safety
    /// The caller has taken the item out, and calls this once.
    #[inline(always)]
    unsafe fn item(&self, index: usize) -> Option<RunRef> {
        let record = NonNull::new(self.slot(index).load(Ordering::Relaxed))?;
        // SAFETY: `push` has put the run reference into the slot, and it is the caller's.
        Some(unsafe { RunRef::new(record) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Portion;

    #[test]
    fn an_owner_keeps_as_much_as_each_taker_gets() {
        let given = |takers, len| Portion { takers, most: 64 }.of(len);
        assert_eq!([2, 3, 8, 9].map(|len| given(1, len)), [1, 2, 4, 5]);
        assert_eq!([1, 2, 3, 8, 9].map(|len| given(3, len)), [1, 1, 2, 6, 7]);
        assert_eq!(given(7, 1_000), 64);
        assert_eq!((Portion::ONE.of(5), Portion::HALF.of(1_000)), (1, 500));
    }
}
