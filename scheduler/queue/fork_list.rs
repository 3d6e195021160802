//! The forks of a worker: the second halves of joins that are open on its running coroutine.
//!
//! A fork is a record on the stack of the task that joins; see `fork` for what becomes of it. Its owner
//! pushes and pops one with plain stores; a thief pays for both.
//!
//! # The row
//!
//! A list, linked through the stack, from the `bottom` to the `newest`. It holds forks of the coroutine that
//! runs, and of no other, so they end in the reverse order of their beginning: the owner pushes and pops at
//! the newest end alone. Others take from the oldest end: it is the largest, as a rule. What they take is made
//! *public*, and stays in the list; so all below `head` are public, `head` too, and all above are not.
//!
//! ```text
//!  bottom <-> public <-> public <-> private <-> private
//!                          ^ head                 ^ newest
//! ```
//!
//! `newest` is the owner's. `head`, and with it who is public, changes under the lock.
//!
//! # Protocol
//!
//! As in the [private deque](super::private_deque), each side first announces what it takes and then looks at the other's
//! word:
//!
//! * owner: take the newest off (`newest` = the next older one), *fence*, read `boundary`; on conflict take
//!   the lock and look at `head`;
//! * thief, under the lock: lower `boundary`, *fence*, see whether the fork above `head` is the same as
//!   before. If not, or if it is not wanted, the owner finds `boundary` where it is, and puts it back.
//!
//! The owner's fence keeps only the compiler in line, the thief's is a `membarrier`. Of the two, at
//! least one sees the other.
//!
//! `boundary` is an address: a fork below it (see [`mark`]) is neither public nor about to be. Stacks grow
//! down, so that this is nearly always so of a fork that is newer than those. It need not be, as two joins
//! may be in one frame, in any order, and a blocked worker calls tasks on other stacks: their owner takes the
//! lock and looks at `head`, in vain. What must be is that the newest public fork and the one that a thief is
//! after are *not* below the boundary, so it is the lower one of the two. (Those that are older than the newest
//! public one end after it, and it does not end without the lock. Where the one that a thief is after lies above it, its
//! place alone would do: the owner ends that one first, finds the boundary, takes the lock, and puts the boundary back.)
//!
//! **Nobody follows a pointer to a fork that may be gone.** A fork is on its owner's stack, and its owner
//! may not return past it before it knows what became of it: it takes it off, and if it is not below
//! the boundary, takes the lock. A thief that has settled that a fork is its own makes it public under that very
//! lock (it writes the proxy into it, through which everything else goes), so when the owner has the lock
//! either the fork is public or nobody has touched it.
//!
//! A thief that has only looked at a fork, at its node and those above, must have done so before the owner goes
//! on, too. So it does not put the boundary back: the owner would find the fork private, with nothing in between
//! that orders what it writes there next after that look. It takes the lock once more than it need.
//!
//! A thief follows `head`, which is public, and so there; from it the link to the newer one, which may be stale:
//!
//! * It has a value, and there is a fork above `head`, if `newest` is neither `head` itself nor the next older
//!   one (then `head` has been taken off, and its owner waits for the lock). The owner writes the link before
//!   `newest`, and this with release.
//! * That fork is followed only if it is the same after the barrier, and there still is one. One that was
//!   there before the barrier has either been taken off by then, which `newest` or the link tells; or its
//!   owner finds the boundary. One that was pushed since, at the same address, finds it in any case. Its
//!   fields are written before the link, which is written with release for that.
//!
//! # A coroutine that is left
//!
//! It makes all its forks public first, so that what it waits for may be among them, and takes the fork list along
//! ([`ForkList::leave`]); the next one begins with an empty fork list. When it goes on, maybe on another worker, its fork list
//! is put back as it was ([`ForkList::come_back`]).
//!
//! # Requests for work
//!
//! `requested`: a push must do more than push, as somebody wants work; as in the private deque, with the same
//! argument why a push and one who lies down do not miss each other. Whoever asks a worker asks its private deque
//! and its fork list, and the worker answers for both. An owner that has handed its last fork over leaves the
//! mark there, as a request of its own (`Worker::offer_fork`).
//!
//! Without `membarrier` both sides would have to pay, the owner at each push and pop. So there the fork list is
//! **closed**: `requested` stays, and each fork is made public as soon as it is pushed.

use crate::shim::asymmetric::{heavy, is_one_sided, light};
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::shim::{Cell, Mutex, MutexGuard};
use crate::task::words::tree::Node;
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

/// What is in a fork list; defined by its user.
///
/// # Safety
/// The link is the first field.
pub(crate) unsafe trait Forked {
    fn link(&self) -> &Link;
    /// The node that forked; null for one that cannot be made public.
    fn node(&self) -> *const Node;
}

/// The neighbours of a fork. Both are written when there are some, and not before: it would cost each fork two
/// instructions.
#[repr(C)]
pub(crate) struct Link {
    /// The owner's; the lock's, too, in a fork that is public. The bottom has none: null.
    older: Cell<MaybeUninit<*const Link>>,
    /// Written by the owner. If there is none any more, the last one.
    newer: MaybeUninit<AtomicPtr<Link>>,
}

impl Link {
    #[inline(always)]
    pub(crate) fn new() -> Link {
        Link {
            older: Cell::new(MaybeUninit::uninit()),
            #[cfg(not(loom))]
            newer: MaybeUninit::uninit(),
            #[cfg(loom)]
            newer: MaybeUninit::new(AtomicPtr::new(ptr::null_mut())),
        }
    }

    fn bottom() -> Link {
        Link { older: Cell::new(MaybeUninit::new(ptr::null())), ..Link::new() }
    }

    /// # Safety
    /// It has been pushed, or is the bottom.
    #[inline(always)]
    unsafe fn older(&self) -> *const Link {
        // SAFETY: passed on.
        unsafe { self.older.get().assume_init() }
    }

    #[inline(always)]
    fn set_older(&self, older: *const Link) {
        self.older.set(MaybeUninit::new(older));
    }

    /// # Safety
    /// There is a newer one, or was.
    unsafe fn newer(&self) -> NonNull<Link> {
        // SAFETY: it has been written.
        // MUTANT(fork_list.newer.read): relaxed
        let newer = unsafe { self.newer.assume_init_ref() }.load(Ordering::Acquire);
        NonNull::new(newer).expect("a fork has an address")
    }

    #[inline(always)]
    fn set_newer(&self, newer: NonNull<Link>) {
        // SAFETY: it is only written to.
        // MUTANT(fork_list.newer.written): relaxed
        unsafe { &*self.newer.as_ptr() }.store(newer.as_ptr(), Ordering::Release);
    }
}

/// What stands for a fork in a comparison with the boundary: the address of its second field. That of the first is
/// what a push stores; it would be kept for the pop in a register, which each call of the function around
/// the two would have to save.
#[inline(always)]
fn mark(link: NonNull<Link>) -> usize {
    link.addr().get() + offset_of!(Link, newer)
}

/// The row of a coroutine that has been left: the newest fork and the oldest. None: there is no fork.
pub(crate) type Left = Option<(NonNull<Link>, NonNull<Link>)>;

/// See the module's documentation.
#[repr(C)] // what each push and pop uses comes first
pub(crate) struct ForkList<F> {
    owned: CachePadded<Owned>,
    guarded: CachePadded<Guarded>,
    /// Whether a fork may stay private.
    open: bool,
    forks: PhantomData<*const F>,
}

/// What the owner writes, on a cache line of its own.
#[repr(C)]
struct Owned {
    // First: its address is then that of the worker, and whether the fork list is clear, one comparison.
    bottom: Link,
    newest: AtomicPtr<Link>,
    requested: AtomicBool,
}

/// What is written under the lock.
struct Guarded {
    boundary: AtomicUsize,
    head: AtomicPtr<Link>,
    lock: Mutex<()>,
}

// SAFETY: the forks are shared by the protocol above, and what a fork list does not share with it is atomic,
// constant, or under the lock.
unsafe impl<F: Sync> Sync for ForkList<F> {}
// SAFETY: as above.
unsafe impl<F: Sync> Send for ForkList<F> {}

impl<F: Forked> ForkList<F> {
    /// A row that is to be [anchored](ForkList::anchor).
    pub(crate) fn new() -> ForkList<F> {
        let open = is_one_sided();
        ForkList {
            owned: CachePadded::new(Owned {
                bottom: Link::bottom(),
                newest: AtomicPtr::new(ptr::null_mut()),
                requested: AtomicBool::new(!open),
            }),
            guarded: CachePadded::new(Guarded {
                boundary: AtomicUsize::new(usize::MAX),
                head: AtomicPtr::new(ptr::null_mut()),
                lock: Mutex::new(()),
            }),
            open,
            forks: PhantomData,
        }
    }

    /// Makes it a fork list without forks. To be called where it stays from then on, before anybody else sees it.
    pub(crate) fn anchor(&self) {
        self.owned.newest.store(self.bottom().as_ptr(), Ordering::Relaxed);
        self.guarded.head.store(self.bottom().as_ptr(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn bottom(&self) -> NonNull<Link> {
        NonNull::from(&self.owned.bottom)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.guarded.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fork; whether the owner must attend to it.
    ///
    /// # Safety
    /// For the owner. The fork stays where it is until [`ForkList::pop`] or [`ForkList::settle`] has said whose it is,
    /// the newest first. If it is public, until its user has no more need of it.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, fork: NonNull<F>) -> bool {
        let older = self.owned.newest.load(Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { fork.as_ref() }.link().set_older(older);
        // SAFETY: the fork that was the newest is there by contract; so is the bottom.
        unsafe { &*older }.set_newer(fork.cast());
        // MUTANT(fork_list.push.newest): relaxed
        self.owned.newest.store(fork.as_ptr().cast(), Ordering::Release);
        // MUTANT(fork_list.push.fence): skip
        light();
        self.owned.requested.load(Ordering::Relaxed)
    }

    /// Takes the newest fork off; false if it may be public ([`ForkList::settle`]).
    ///
    /// # Safety
    /// For the owner. The fork has been pushed, and those that are newer have come to their end. So for `settle`.
    #[inline(always)]
    pub(crate) unsafe fn pop(&self, fork: &F) -> bool {
        // SAFETY: passed on.
        let older = unsafe { fork.link().older() }.cast_mut();
        // Release also here: who reads this is to see the links that were written before.
        // MUTANT(fork_list.pop.newest): relaxed
        self.owned.newest.store(older, Ordering::Release);
        // MUTANT(fork_list.pop.fence): skip
        light();
        // MUTANT(fork_list.pop.look): true
        mark(NonNull::from(fork.link())) < self.guarded.boundary.load(Ordering::Relaxed)
    }

    /// After [`ForkList::pop`] has said no: whether the fork is the owner's all the same, as it has only met
    /// a thief, or its address deceives.
    ///
    /// # Safety
    /// See there.
    pub(crate) unsafe fn settle(&self, fork: &F) -> bool {
        let _lock = self.lock();
        let head = self.head();
        if head != NonNull::from(fork.link()) {
            // Where a thief that went without it has left it.
            self.set_head(head);
            return true;
        }
        // SAFETY: passed on.
        let older = unsafe { fork.link().older() }.cast_mut();
        self.set_head(NonNull::new(older).expect("below a fork there is the bottom"));
        false
    }

    /// Under the lock, as all that follows up to `newest`.
    fn head(&self) -> NonNull<Link> {
        let head = self.guarded.head.load(Ordering::Relaxed);
        NonNull::new(head).expect("the row is anchored")
    }

    fn set_head(&self, head: NonNull<Link>) {
        self.guarded.head.store(head.as_ptr(), Ordering::Relaxed);
        self.guarded.boundary.store(self.boundary_at(head), Ordering::Relaxed);
    }

    fn boundary_at(&self, head: NonNull<Link>) -> usize {
        if head == self.bottom() { usize::MAX } else { mark(head) }
    }

    /// The oldest private fork, if there is one. For its owner it is there; for others see the module's
    /// documentation.
    fn oldest_private(&self) -> Option<NonNull<Link>> {
        let head = self.head();
        // SAFETY: it is public, and its owner does not pass by it without the lock; or it is the bottom.
        let head = unsafe { head.as_ref() };
        // SAFETY: it was pushed, or is the bottom.
        let older = unsafe { head.older() };
        // MUTANT(fork_list.private.newest): relaxed
        let newest = self.owned.newest.load(Ordering::Acquire).cast_const();
        // MUTANT(fork_list.private.head): with ptr::eq(newest, older)
        // MUTANT(fork_list.private.older): with ptr::eq(newest, head)
        if ptr::eq(newest, head) || ptr::eq(newest, older) {
            return None;
        }
        // SAFETY: as `newest` shows.
        Some(unsafe { head.newer() })
    }

    fn newest(&self) -> NonNull<Link> {
        let newest = self.owned.newest.load(Ordering::Relaxed);
        NonNull::new(newest).expect("the row is anchored")
    }

    /// Whether the coroutine that runs has no open join. For the owner.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.owned.newest.load(Ordering::Relaxed) == self.bottom().as_ptr()
    }

    /// Makes all forks public, the oldest first. `public` is called under the lock.
    ///
    /// For the owner, who needs no barrier: it cannot race itself, and thieves are locked out.
    pub(crate) fn publish(&self, mut public: impl FnMut(NonNull<F>)) {
        let _lock = self.lock();
        while let Some(oldest) = self.oldest_private() {
            self.set_head(oldest);
            public(oldest.cast());
        }
    }

    /// Takes the fork list of the running coroutine out, all of whose forks are public. For the owner.
    pub(crate) fn leave(&self) -> Left {
        let _lock = self.lock();
        let newest = self.newest();
        if newest == self.bottom() {
            return None;
        }
        // SAFETY: there is at least one fork.
        let oldest = unsafe { self.owned.bottom.newer() };
        self.owned.newest.store(self.bottom().as_ptr(), Ordering::Release);
        self.set_head(self.bottom());
        Some((newest, oldest))
    }

    /// Puts back what was taken out of this fork list, or another.
    ///
    /// # Safety
    /// For the owner. The row is clear, and the coroutine runs whose fork list it was.
    pub(crate) unsafe fn come_back(&self, left: Left) {
        let Some((newest, oldest)) = left else { return };
        let _lock = self.lock();
        // SAFETY: it is on the stack of the coroutine, in a join that is open.
        unsafe { oldest.as_ref() }.set_older(self.bottom().as_ptr());
        self.owned.bottom.set_newer(oldest);
        self.owned.newest.store(newest.as_ptr(), Ordering::Release);
        self.set_head(newest);
    }

    /// Takes the oldest fork. For the owner, as `publish`.
    pub(crate) fn give_oldest(&self, public: impl FnOnce(NonNull<F>)) -> bool {
        let _lock = self.lock();
        let Some(oldest) = self.oldest_private() else { return false };
        // SAFETY: it is on our stack, below the frames that run.
        if unsafe { oldest.cast::<F>().as_ref() }.node().is_null() {
            return false;
        }
        self.set_head(oldest);
        public(oldest.cast());
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
        let head = self.head();
        let Some(oldest) = self.oldest_private() else { return false };
        let boundary = self.boundary_at(head).min(mark(oldest));
        // MUTANT(fork_list.steal.announce): skip
        self.guarded.boundary.store(boundary, Ordering::Relaxed);
        // MUTANT(fork_list.steal.fence): skip
        heavy();
        // MUTANT(fork_list.steal.look): true
        if self.oldest_private() == Some(oldest) {
            // SAFETY: it is open after the barrier: its owner cannot pass by it without the lock.
            let node = unsafe { oldest.cast::<F>().as_ref() }.node();
            if !node.is_null() && wanted(node) {
                self.set_head(oldest);
                public(oldest.cast());
                return true;
            }
        }
        // The boundary stays: see the module's documentation.
        // MUTANT(fork_list.steal.stays): first self.set_head(head);
        false
    }

    /// Whether forks may stay private.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Clears a request: true if there was one. For the owner.
    pub(crate) fn serve_requests(&self) -> bool {
        // See the private deque.
        self.open && self.owned.requested.swap(false, Ordering::Relaxed)
    }

    /// Sees to it that the owner attends to its next push. For the owner.
    #[inline(always)]
    pub(crate) fn request_from_self(&self) {
        self.owned.requested.store(true, Ordering::Relaxed);
    }

    /// Asks the owner to hand over, or to wake someone, at its next push.
    #[inline]
    pub(crate) fn request(&self) {
        if !self.owned.requested.load(Ordering::Relaxed) {
            self.owned.requested.store(true, Ordering::Relaxed);
        }
    }

    /// Whether all forks are public; an estimate.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.guarded.head.load(Ordering::Relaxed);
        self.owned.newest.load(Ordering::Acquire) == head
    }
}
