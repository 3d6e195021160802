//! The forks of a worker: the second halves of joins that are open on its running coroutine.
//!
//! A fork is a record on the stack of the task that joins; see `fork` for what becomes of it. Its owner
//! pushes and pops one with plain stores; a thief pays for both.
//!
//! # Protocol
//!
//! A row of slots, filled from the bottom, between `head` (moved by whoever holds the lock) and `tail`
//! (moved by the owner). The owner takes from the tail, others from the head. As in the
//! [front](super::front), each side first announces what it takes and then looks at the other's index:
//!
//! * owner: lower `tail`, *fence*, read `head`; on conflict take the lock and look again;
//! * thief, under the lock: raise `head`, *fence*, read `tail`; take back what was not there.
//!
//! The owner's fence keeps only the compiler in line, the thief's is a `membarrier`. Of the two, at
//! least one sees the other.
//!
//! **Nobody follows a pointer to a fork that may be gone.** A fork is on its owner's stack, and its owner
//! may not return past it before it knows what became of it: it lowers `tail`, and if it finds `head`
//! above, takes the lock. A thief that has settled that a fork is its own makes it *public* under that very
//! lock (it writes the proxy into it, through which everything else goes), so when the owner has the lock
//! either the fork is public or nobody has touched it.
//!
//! # What is in the row
//!
//! Only forks of the coroutine that runs: one that is left makes all its forks public first
//! ([`Forks::leave`]), so that what it waits for may be among them. So forks end in the reverse order of
//! their beginning, and each finds the place where it was pushed again, whatever has become of it:
//!
//! * its place is not below `head`: it is still there, the newest one;
//! * its place is below `head`: it is public. All those below it are, too.
//!
//! A coroutine that goes on finds its own `head` and `tail` again ([`Forks::come_back`]): equal, and above
//! the places of all its forks. Taken from its head, one by one, it is always the oldest fork that goes, and
//! the largest as a rule.
//!
//! A row that is full makes all its forks public, and from then on each that comes after, at the highest
//! place, which several forks then have; `head` stays above it until the last of them has ended. So `head`
//! does not tell whether the newest fork at that place is public yet. Its owner sees to it at once, and no
//! thief takes one from there.
//!
//! # Hunger
//!
//! `limit` is the index at which a push must do more than push: where the row is full, or 0 if somebody
//! wants work; as in the front, with the same argument why a push and one who lies down do not miss
//! each other. Whoever asks a worker asks its front and its row, and the worker answers for both. An owner
//! that has handed its last fork over leaves the 0 there, as a request of its own (`Worker::offer_fork`).
//!
//! Without `membarrier` both sides would have to pay, the owner at each push and pop. So there the row is
//! **closed**: `limit` stays 0, and each fork is made public as soon as it is pushed.

use crate::retire::tree::Node;
use crate::shim::asymmetric::{heavy, is_one_sided, light};
use crate::shim::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::shim::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

/// Forks in a row, at most. More than a stack of the default size has frames for.
#[cfg(not(loom))]
const CAPACITY: usize = 1024;
#[cfg(loom)]
const CAPACITY: usize = 3;

/// What the row holds; defined by its user.
pub(crate) trait Forked {
    /// The node that forked; null for one that cannot be made public.
    fn node(&self) -> *const Node;
}

/// Where a fork lies.
pub(crate) type Place = usize;

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Forks<F> {
    owned: CachePadded<Owned>,
    head: CachePadded<AtomicUsize>,
    lock: Mutex<()>,
    /// Whether a fork may stay in the row.
    open: bool,
    slots: [AtomicPtr<F>; CAPACITY],
}

/// What the owner writes, on a cache line of its own.
struct Owned {
    tail: AtomicUsize,
    limit: AtomicUsize,
}

// SAFETY: the forks are shared by the protocol above, and what a row does not share with it is atomic,
// constant, or under the lock.
unsafe impl<F: Sync> Sync for Forks<F> {}
// SAFETY: as above.
unsafe impl<F: Sync> Send for Forks<F> {}

impl<F: Forked> Forks<F> {
    pub(crate) fn new() -> Forks<F> {
        let open = is_one_sided();
        Forks {
            owned: CachePadded::new(Owned {
                tail: AtomicUsize::new(0),
                limit: AtomicUsize::new(if open { CAPACITY } else { 0 }),
            }),
            head: CachePadded::new(AtomicUsize::new(0)),
            lock: Mutex::new(()),
            open,
            slots: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fork; says where it lies, and whether the owner must attend to it.
    ///
    /// For the owner.
    #[inline(always)]
    pub(crate) fn push(&self, fork: NonNull<F>) -> (Place, bool) {
        let tail = self.owned.tail.load(Ordering::Relaxed);
        debug_assert!(tail < CAPACITY);
        // SAFETY: the row is never left full: the one who fills it attends at once.
        unsafe { self.slots.get_unchecked(tail) }.store(fork.as_ptr(), Ordering::Relaxed);
        self.owned.tail.store(tail + 1, Ordering::Release);
        light();
        (tail, tail + 1 >= self.owned.limit.load(Ordering::Relaxed))
    }

    /// Takes the fork out that lies at `place`, the newest of those whose end has not come; false if it may
    /// be public ([`Forks::settle`]).
    ///
    /// For the owner.
    #[inline(always)]
    pub(crate) fn pop(&self, place: Place) -> bool {
        self.owned.tail.store(place, Ordering::Relaxed);
        light();
        self.head.load(Ordering::Relaxed) <= place
    }

    /// After [`Forks::pop`] has said no: whether the fork is the owner's all the same, as it has only met
    /// a thief.
    pub(crate) fn settle(&self, place: Place) -> bool {
        let _lock = self.lock();
        if self.head.load(Ordering::Relaxed) <= place {
            return true;
        }
        self.put_head(place);
        false
    }

    /// All below `place` are public. For the owner, under the lock.
    fn put_head(&self, place: Place) {
        let saturated = place == CAPACITY - 1;
        self.head.store(place + usize::from(saturated), Ordering::Relaxed);
    }

    /// Whether the coroutine that runs has no open join. For the owner.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.owned.tail.load(Ordering::Relaxed) == 0
    }

    /// Makes all forks public, the oldest first. `public` is called under the lock.
    ///
    /// For the owner, who needs no barrier: it cannot race itself, and thieves are locked out.
    pub(crate) fn publish(&self, mut public: impl FnMut(NonNull<F>)) {
        let _lock = self.lock();
        let tail = self.owned.tail.load(Ordering::Relaxed);
        // In a row that is full the newest is not public yet, although `head` may be above it.
        let first = self.head.load(Ordering::Relaxed).min(CAPACITY - 1);
        for place in first..tail {
            // SAFETY: between head and tail, under the lock.
            public(unsafe { self.fork_at(place) });
        }
        if self.head.load(Ordering::Relaxed) < tail {
            self.head.store(tail, Ordering::Relaxed);
        }
        // Never left full.
        self.owned.tail.store(tail.min(CAPACITY - 1), Ordering::Relaxed);
    }

    /// Clears a row without forks for the next coroutine; what it returns is for
    /// [`Forks::come_back`]. For the owner.
    pub(crate) fn leave(&self) -> Place {
        let _lock = self.lock();
        self.owned.tail.store(0, Ordering::Relaxed);
        self.head.swap(0, Ordering::Relaxed)
    }

    /// For the owner, who finds the row clear.
    pub(crate) fn come_back(&self, head: Place) {
        let _lock = self.lock();
        self.head.store(head, Ordering::Relaxed);
        self.owned.tail.store(head.min(CAPACITY - 1), Ordering::Relaxed);
    }

    /// Takes the oldest fork. For the owner, as `publish`.
    pub(crate) fn give_oldest(&self, public: impl FnOnce(NonNull<F>)) -> bool {
        let _lock = self.lock();
        let head = self.head.load(Ordering::Relaxed);
        if self.is_empty() {
            return false;
        }
        // SAFETY: between head and tail, under the lock.
        let oldest = unsafe { self.fork_at(head) };
        // SAFETY: it is on our stack, below the frames that run.
        if unsafe { oldest.as_ref() }.node().is_null() {
            return false;
        }
        self.head.store(head + 1, Ordering::Relaxed);
        public(oldest);
        true
    }

    /// Takes the oldest fork by force, if its node is `wanted`; `public` is called under the lock.
    ///
    /// For thieves; costs a membarrier.
    pub(crate) fn steal(
        &self,
        wanted: impl FnOnce(*const Node) -> bool,
        public: impl FnOnce(NonNull<F>),
    ) -> bool {
        let _lock = self.lock();
        let head = self.head.load(Ordering::Relaxed);
        // The one at the highest place is made public by its owner, who could not tell that we have been
        // there.
        if self.owned.tail.load(Ordering::Acquire).min(CAPACITY - 1) <= head {
            return false;
        }
        self.head.store(head + 1, Ordering::Relaxed);
        heavy();
        if self.owned.tail.load(Ordering::Acquire) > head {
            // SAFETY: below the tail after the barrier: its owner cannot pass by it without the lock.
            let fork = unsafe { self.fork_at(head) };
            // SAFETY: as above.
            let node = unsafe { fork.as_ref() }.node();
            if !node.is_null() && wanted(node) {
                public(fork);
                return true;
            }
        }
        self.head.store(head, Ordering::Relaxed);
        false
    }

    /// # Safety
    /// There is a fork at the place, and the caller has the lock.
    unsafe fn fork_at(&self, place: Place) -> NonNull<F> {
        let fork = self.slots[place].load(Ordering::Relaxed);
        NonNull::new(fork).expect("there is a fork below the tail")
    }

    /// Whether forks may stay in the row.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Clears a request: true if there was one. For the owner.
    pub(crate) fn attend(&self) -> bool {
        if !self.open {
            return false;
        }
        // Only somebody who asks changes it meanwhile; see the front for the orderings.
        self.owned.limit.swap(CAPACITY, Ordering::Acquire) == 0
    }

    /// Whether the next push would find no slot. For the owner.
    pub(crate) fn is_full(&self) -> bool {
        self.owned.tail.load(Ordering::Relaxed) == CAPACITY
    }

    /// Sees to it that the owner attends to its next push. For the owner.
    #[inline(always)]
    pub(crate) fn demand_attention(&self) {
        self.owned.limit.store(0, Ordering::Relaxed);
    }

    /// Asks the owner to hand over, or to wake someone, at its next push.
    #[inline]
    pub(crate) fn ask(&self) {
        if self.owned.limit.load(Ordering::Relaxed) != 0 {
            self.owned.limit.store(0, Ordering::Release);
        }
    }

    /// An estimate.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        self.owned.tail.load(Ordering::Acquire).saturating_sub(head)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
