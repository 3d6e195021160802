//! A worker's fork list: the second halves of the joins that are open on its running fiber.
//!
//! A fork is a record on the stack of the task that joins; `fork` tells what becomes of it. The
//! owner pushes and pops a fork with plain stores; a thief pays for both sides.
//!
//! # The list
//!
//! The list is linked through the stack, from the `bottom` to the `newest` fork. All its forks
//! belong to the running fiber, so they end in the reverse order of their beginning: the owner
//! pushes and pops only at the newest end. Thieves, and an owner that hands forks over, take from
//! the oldest end, where the forks are largest as a rule. A fork that is taken is made *public* and
//! stays in the list. So all forks up to and including `head` are public, and all newer ones are
//! private.
//!
//! ```text
//!  bottom <-> public <-> public <-> private <-> private
//!                          ^ head                 ^ newest
//! ```
//!
//! `newest` is the owner's. `head`, and with it the set of public forks, changes under the lock.
//!
//! # Protocol
//!
//! As in the [private deque](super::private_deque), each side first announces what it takes and
//! then reads the other side's word:
//!
//! * owner: take the newest fork off (`newest` = the next older one), *fence*, read `boundary`; on
//!   conflict take the lock and look at `head`;
//! * thief, under the lock: lower `boundary`, *fence*, check that the fork above `head` is the same
//!   as before. If it is not, or is not wanted, the thief leaves `boundary` lowered; the owner
//!   finds it there and puts it back.
//!
//! The owner's fence restrains only the compiler; the thief's fence is a `membarrier`. At least one
//! side sees the other.
//!
//! `boundary` is an address. A fork whose [`position`] lies below it is neither public nor about to
//! be. Stacks grow down, so a fork that is newer than the public ones nearly always lies below
//! them. It need not: two joins may be in one frame, in any order, and a blocked worker calls tasks
//! on other stacks. The owner of such a fork takes the lock, looks at `head`, and finds the fork
//! private.
//!
//! The protocol requires that neither the newest public fork nor the fork that a thief is after
//! lies below the boundary. So `boundary` is the lower of the two addresses. (Older public forks
//! end after the newest public one, which does not end without the lock. If the fork that a thief
//! is after lies above the newest public one, its own address alone would do: the owner ends that
//! fork first, finds the boundary, takes the lock, and puts the boundary back.)
//!
//! # No dangling pointers
//!
//! A fork is on its owner's stack, and the owner does not return past a fork before it knows what
//! became of it. The owner takes the fork off the list. If the fork is not below the boundary, the
//! owner acquires the lock. A thief that has claimed a fork makes it public under that same lock:
//! it writes the proxy into the fork, and everything else goes through the proxy. So when the owner
//! has the lock, either the fork is public or no thief has touched it.
//!
//! A thief that has only inspected a fork, its node and the nodes above must have finished before
//! the owner goes on, too. So this thief does not put the boundary back. Otherwise the owner would
//! find the fork private, and nothing would order the thief's reads before what the owner writes
//! there next. The price is that the owner takes the lock once more than necessary.
//!
//! A thief follows `head`, which is public and therefore alive. From there it follows the link to
//! the newer fork, which may be stale:
//!
//! * The link has a value, and there is a fork above `head`, if `newest` is neither `head` itself
//!   nor the next older fork. (In the latter case `head` has been taken off, and its owner waits
//!   for the lock.) The owner writes the link before `newest`, and writes `newest` with Release.
//! * The thief follows the link to that fork only if, after the barrier, the link is the same and
//!   there still is a fork above `head`. A fork that was there before the barrier may have been
//!   taken off by then, which `newest` or the link tells; otherwise its owner finds the boundary.
//!   The owner of a fork that was pushed since, at the same address, finds the boundary in any
//!   case. The fields of a fork are written before the link to it, and that link is written with
//!   Release for this purpose.
//!
//! # When a task waits
//!
//! A task that waits leaves its fiber. It first makes all its forks public, since the wait may be
//! for one of them, and takes the fork list along ([`ForkList::leave`]). The next fiber begins with
//! an empty fork list. When the task goes on, maybe on another worker, its fork list is put back as
//! it was ([`ForkList::come_back`]).
//!
//! # Requests for work
//!
//! If `requested` is set, a push must do more than push, as in the private deque. The argument why
//! a push and a worker that lies down do not miss each other is the same. A request to a worker
//! goes to its private deque and to its fork list, and the worker answers for both. An owner that
//! has handed its last fork over leaves `requested` set, as a request of its own
//! (`Worker::hand_over_fork`).
//!
//! Without `membarrier` both sides would have to pay, the owner at each push and pop. So there the
//! fork list is **closed**: `requested` stays set, and each fork is made public as soon as it is
//! pushed.

use crate::shim::asymmetric::{heavy, is_one_sided, light};
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::shim::{Cell, Mutex};
use crate::task::words::tree::Node;
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};

/// The element of a fork list, defined by the user of the list.
///
/// # Safety
/// The link is the first field.
pub(crate) unsafe trait Forked {
    fn link(&self) -> &Link;
    /// The node that forked; null for a fork that cannot be made public.
    fn node(&self) -> *const Node;
}

/// The neighbours of a fork. Each is written when there is one, and not before: initialising both
/// would cost each fork two instructions.
#[repr(C)]
pub(crate) struct Link {
    /// Belongs to the owner; in a public fork also to the lock's holder. Null at the bottom, which
    /// has no older neighbour.
    older: Cell<MaybeUninit<*const Link>>,
    /// Written by the owner. Stale once the newer fork has ended.
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
    /// This link has been pushed, or is the bottom.
    #[inline(always)]
    unsafe fn older(&self) -> *const Link {
        // SAFETY: a push writes this field, and the bottom is made with it.
        unsafe { self.older.get().assume_init() }
    }

    #[inline(always)]
    fn set_older(&self, older: *const Link) {
        self.older.set(MaybeUninit::new(older));
    }

    /// # Safety
    /// There is a newer fork, or has been one.
    unsafe fn newer(&self) -> NonNull<Link> {
        // SAFETY: by contract a newer fork was pushed, which wrote this field.
        // MUTANT(fork_list.newer.read): relaxed
        let newer = unsafe { self.newer.assume_init_ref() }.load(Ordering::Acquire);
        NonNull::new(newer).expect("a fork has an address")
    }

    #[inline(always)]
    fn set_newer(&self, newer: NonNull<Link>) {
        // SAFETY: the pointer is to our own field, and the reference is used only for a store.
        // MUTANT(fork_list.newer.written): relaxed
        unsafe { &*self.newer.as_ptr() }.store(newer.as_ptr(), Ordering::Release);
    }
}

/// The address that stands for a fork in a comparison with the boundary: that of its second field.
/// A push stores the address of the first field. If the comparison used that one, the compiler
/// would keep it in a register until the pop, and each call of the function around the two would
/// have to save it.
#[inline(always)]
fn position(link: NonNull<Link>) -> usize {
    link.addr().get() + offset_of!(Link, newer)
}

/// The fork list of a fiber that has been left: its newest and its oldest fork. `None` if it has no
/// fork.
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

/// The words that the owner writes, on a cache line of their own.
#[repr(C)]
struct Owned {
    // The first field: its address is then that of the worker, and `is_clear` is one comparison.
    bottom: Link,
    newest: AtomicPtr<Link>,
    requested: AtomicBool,
}

/// The words that are written under the lock.
struct Guarded {
    boundary: AtomicUsize,
    head: AtomicPtr<Link>,
    lock: Mutex<()>,
}

// SAFETY: the forks are shared by the protocol above. All else in a fork list is atomic, constant,
// the owner's alone, or written under the lock.
unsafe impl<F: Sync> Sync for ForkList<F> {}
// SAFETY: nothing in a fork list is tied to the thread that built it; the forks it points to are
// shared by the protocol above.
unsafe impl<F: Sync> Send for ForkList<F> {}

impl<F: Forked> ForkList<F> {
    /// Creates a fork list that has yet to be [anchored](ForkList::anchor).
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

    /// Makes this a fork list without forks. Called at its final address, before any other thread
    /// sees it.
    pub(crate) fn anchor(&self) {
        self.owned.newest.store(self.bottom().as_ptr(), Ordering::Relaxed);
        self.guarded.head.store(self.bottom().as_ptr(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn bottom(&self) -> NonNull<Link> {
        NonNull::from(&self.owned.bottom)
    }

    /// Adds a fork. Returns `true` if the owner must serve requests.
    ///
    /// # Safety
    /// For the owner. A fork stays where it is until [`ForkList::pop`] or [`ForkList::resolve`] has
    /// returned for it; the newest fork is popped first. A fork that is public stays where it is
    /// until its user no longer needs it.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, fork: NonNull<F>) -> bool {
        let older = self.owned.newest.load(Ordering::Relaxed);
        // SAFETY: by contract the fork stays where it is until it has been popped.
        unsafe { fork.as_ref() }.link().set_older(older);
        // SAFETY: by contract the fork that was the newest has not moved; the bottom is part of
        // `self`.
        unsafe { &*older }.set_newer(fork.cast());
        // MUTANT(fork_list.push.newest): relaxed
        self.owned.newest.store(fork.as_ptr().cast(), Ordering::Release);
        // MUTANT(fork_list.push.fence): skip
        light();
        self.owned.requested.load(Ordering::Relaxed)
    }

    /// Takes the newest fork off. Returns `false` if the fork may be public: the owner then calls
    /// [`ForkList::resolve`].
    ///
    /// # Safety
    /// For the owner. The fork has been pushed, and all newer forks have ended. The same holds for
    /// `resolve`.
    #[inline(always)]
    pub(crate) unsafe fn pop(&self, fork: &F) -> bool {
        // SAFETY: by contract the fork has been pushed.
        let older = unsafe { fork.link().older() }.cast_mut();
        // Release also here: a thief that loads this value has to see the links written before it.
        // MUTANT(fork_list.pop.newest): relaxed
        self.owned.newest.store(older, Ordering::Release);
        // MUTANT(fork_list.pop.fence): skip
        light();
        // MUTANT(fork_list.pop.look): true
        position(NonNull::from(fork.link())) < self.guarded.boundary.load(Ordering::Relaxed)
    }

    /// Decides a conflict after [`ForkList::pop`] has returned `false`. Returns `true` if the fork
    /// is the owner's all the same: the owner has only met a thief, or the fork's address misled
    /// the comparison.
    ///
    /// # Safety
    /// The contract of [`ForkList::pop`].
    pub(crate) unsafe fn resolve(&self, fork: &F) -> bool {
        let _lock = self.guarded.lock.lock();
        let head = self.head();
        if head != NonNull::from(fork.link()) {
            // Undoes the lowering by a thief that went away without the fork.
            self.set_head(head);
            return true;
        }
        // SAFETY: by contract the fork has been pushed.
        let older = unsafe { fork.link().older() }.cast_mut();
        self.set_head(NonNull::new(older).expect("below a fork there is the bottom"));
        false
    }

    /// The newest public fork, or the bottom. `head`, `set_head`, `boundary_at` and
    /// `oldest_private` are called under the lock.
    fn head(&self) -> NonNull<Link> {
        let head = self.guarded.head.load(Ordering::Relaxed);
        NonNull::new(head).expect("a fork list must be anchored before its first use")
    }

    fn set_head(&self, head: NonNull<Link>) {
        self.guarded.head.store(head.as_ptr(), Ordering::Relaxed);
        self.guarded.boundary.store(self.boundary_at(head), Ordering::Relaxed);
    }

    fn boundary_at(&self, head: NonNull<Link>) -> usize {
        if head == self.bottom() { usize::MAX } else { position(head) }
    }

    /// The oldest private fork, if there is one. The owner may follow the pointer; for a thief see
    /// the module's documentation.
    fn oldest_private(&self) -> Option<NonNull<Link>> {
        let head = self.head();
        // SAFETY: this fork is public, and its owner does not return past it without the lock; or
        // it is the bottom.
        let head = unsafe { head.as_ref() };
        // SAFETY: this fork was pushed, or is the bottom.
        let older = unsafe { head.older() };
        // MUTANT(fork_list.private.newest): relaxed
        let newest = self.owned.newest.load(Ordering::Acquire).cast_const();
        // MUTANT(fork_list.private.head): with ptr::eq(newest, older)
        // MUTANT(fork_list.private.older): with ptr::eq(newest, head)
        if ptr::eq(newest, head) || ptr::eq(newest, older) {
            return None;
        }
        // SAFETY: `newest` is neither `head` nor the one below, so a newer fork has been pushed.
        Some(unsafe { head.newer() })
    }

    fn newest(&self) -> NonNull<Link> {
        let newest = self.owned.newest.load(Ordering::Relaxed);
        NonNull::new(newest).expect("a fork list must be anchored before its first use")
    }

    /// Whether the running fiber has no open join. Owner only.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.owned.newest.load(Ordering::Relaxed) == self.bottom().as_ptr()
    }

    /// Makes all forks public, the oldest first. `public` is called under the lock.
    ///
    /// For the owner, which needs no barrier: it cannot race with itself, and the lock keeps
    /// thieves out.
    pub(crate) fn make_all_public(&self, mut public: impl FnMut(NonNull<F>)) {
        let _lock = self.guarded.lock.lock();
        while let Some(oldest) = self.oldest_private() {
            self.set_head(oldest);
            public(oldest.cast());
        }
    }

    /// Takes out the fork list of the running fiber. All its forks are public. Owner only.
    pub(crate) fn leave(&self) -> Left {
        let _lock = self.guarded.lock.lock();
        let newest = self.newest();
        if newest == self.bottom() {
            return None;
        }
        // SAFETY: `newest` is not the bottom, so a fork has been pushed above the bottom.
        let oldest = unsafe { self.owned.bottom.newer() };
        self.owned.newest.store(self.bottom().as_ptr(), Ordering::Release);
        self.set_head(self.bottom());
        Some((newest, oldest))
    }

    /// Puts back the forks that `leave` took out of this fork list or another one.
    ///
    /// # Safety
    /// For the owner. This fork list is clear, and the fiber that left the forks runs again.
    pub(crate) unsafe fn come_back(&self, left: Left) {
        let Some((newest, oldest)) = left else { return };
        let _lock = self.guarded.lock.lock();
        // SAFETY: the fork is on the stack of the running fiber, in a join that is open.
        unsafe { oldest.as_ref() }.set_older(self.bottom().as_ptr());
        self.owned.bottom.set_newer(oldest);
        self.owned.newest.store(newest.as_ptr(), Ordering::Release);
        self.set_head(newest);
    }

    /// Makes the oldest private fork public. For the owner, which needs no barrier, as in
    /// `make_all_public`.
    pub(crate) fn give_oldest(&self, public: impl FnOnce(NonNull<F>)) -> bool {
        let _lock = self.guarded.lock.lock();
        let Some(oldest) = self.oldest_private() else { return false };
        // SAFETY: the fork is on our stack, in a frame older than the running one.
        if unsafe { oldest.cast::<F>().as_ref() }.node().is_null() {
            return false;
        }
        self.set_head(oldest);
        public(oldest.cast());
        true
    }

    /// Takes the oldest private fork by force if its node is `wanted`. `public` is called under the
    /// lock.
    ///
    /// For thieves; costs a membarrier.
    pub(crate) fn steal(
        &self,
        wanted: impl FnOnce(*const Node) -> bool,
        public: impl FnOnce(NonNull<F>),
    ) -> bool {
        let _lock = self.guarded.lock.lock();
        let head = self.head();
        let Some(oldest) = self.oldest_private() else { return false };
        let boundary = self.boundary_at(head).min(position(oldest));
        // MUTANT(fork_list.steal.announce): skip
        self.guarded.boundary.store(boundary, Ordering::Relaxed);
        // MUTANT(fork_list.steal.fence): skip
        heavy();
        // MUTANT(fork_list.steal.look): true
        if self.oldest_private() == Some(oldest) {
            // SAFETY: the fork is open after the barrier, and its owner cannot return past it
            // without the lock.
            let node = unsafe { oldest.cast::<F>().as_ref() }.node();
            if !node.is_null() && wanted(node) {
                self.set_head(oldest);
                public(oldest.cast());
                return true;
            }
        }
        // The boundary stays lowered: see the module's documentation.
        // MUTANT(fork_list.steal.stays): first self.set_head(head);
        false
    }

    /// Whether forks may stay private.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Clears a request. Returns `true` if there was one. Owner only.
    pub(crate) fn take_request(&self) -> bool {
        // Relaxed suffices, as in `PrivateDeque::take_request`.
        self.open && self.owned.requested.swap(false, Ordering::Relaxed)
    }

    /// Makes the owner serve requests at its next push. Owner only.
    #[inline(always)]
    pub(crate) fn request_from_self(&self) {
        self.owned.requested.store(true, Ordering::Relaxed);
    }

    /// Asks the owner to hand work over, or to wake a sleeper, at its next push.
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
