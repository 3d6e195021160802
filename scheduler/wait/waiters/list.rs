//! The wait list, its nodes, and the wake-ups that its grants produce.

use crate::scheduler::life::complete::{wake, wake_future};
use crate::scheduler::queue::ready_stack::ReadyStack;
use crate::scheduler::wait::resume::{resume, resume_all};
#[cfg(not(loom))]
use crate::shim::abort_with;
use crate::shim::{Cell, Mutex};
use crate::task::reference::WaiterRef;
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::join::Waiter;
use crate::task::words::tree::{NOBODY, WorkerNumber};
use std::hint::cold_path;
use std::marker::PhantomPinned;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Waker;

// The whereabouts of a node. See the documentation of the parent module. LISTED is written, and
// overwritten, under the lock of the list. The waiter writes SEATED before it shows the node, and
// whoever takes the node out of its seat writes OUT or LISTED.
const OUT: u8 = 0;
const SEATED: u8 = 1;
const LISTED: u8 = 2;

/// The waiter behind a node.
pub(crate) enum Who {
    Nobody,
    Task(WaiterRef),
    Thread(*const ThreadWaiter),
    Future(Waker),
}

/// One wait. See the documentation of the parent module. A node that is pinned leaves its list
/// before its memory goes: its drop ends the process otherwise.
pub(crate) struct WaitNode {
    next: Cell<*const WaitNode>,
    previous: Cell<*const WaitNode>,
    whereabouts: AtomicU8,
    who: Cell<Who>,
    /// For the primitive: the identity of the waiter, or the amount that it asks for. A grant may
    /// leave a value here that does not fit into the answer.
    pub(crate) token: Cell<u64>,
    /// For the primitive: what has been granted.
    answer: Cell<u32>,
    /// For the primitive: where the waiter keeps a value that others may move while the node is in
    /// the list, or null.
    pub(crate) cell: Cell<*mut ()>,
    pub(crate) location: &'static Location<'static>,
    _pinned: PhantomPinned,
}

impl WaitNode {
    pub(crate) fn new(token: u64, location: &'static Location<'static>) -> WaitNode {
        WaitNode {
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            whereabouts: AtomicU8::new(OUT),
            who: Cell::new(Who::Nobody),
            token: Cell::new(token),
            answer: Cell::new(0),
            cell: Cell::new(ptr::null_mut()),
            location,
            _pinned: PhantomPinned,
        }
    }

    /// Returns what has been granted. For the waiter that has received the grant.
    pub(crate) fn answer(&self) -> u32 {
        self.answer.get()
    }

    /// Returns the worker on which the waiting task stays, or [`NOBODY`] if the waiter is no task
    /// or the worker is not known. Called under the lock of the list that the node is in.
    pub(crate) fn home(&self) -> WorkerNumber {
        let who = self.who.replace(Who::Nobody);
        let home = match &who {
            Who::Task(task) => task.node.home(),
            _ => NOBODY,
        };
        self.who.set(who);
        home
    }

    /// Resets a node when its grant has been used, so that it asks for the next one as if it were
    /// new.
    pub(crate) fn forget(&self) {
        self.token.set(0);
        self.answer.set(0);
    }

    /// Returns whether the node is in a list. For its waiter, under the lock of the list.
    pub(super) fn is_listed(&self) -> bool {
        self.whereabouts.load(Ordering::Relaxed) == LISTED
    }

    /// Lets `seat` show the node to others, and returns what it does. Whoever takes the node out of
    /// the seat grants it ([`grant_seated`](WaitNode::grant_seated)), or pushes it into the list.
    #[inline]
    pub(crate) fn sit(&self, who: Who, seat: impl FnOnce(*const WaitNode) -> bool) -> bool {
        self.set_who(who);
        self.whereabouts.store(SEATED, Ordering::Relaxed);
        let sits = seat(self);
        if !sits {
            self.whereabouts.store(OUT, Ordering::Relaxed);
        }
        sits
    }

    /// Takes the node out of its seat again, if it has been in one and `seat` returns `true`.
    pub(crate) fn stand_up(&self, seat: impl FnOnce(*const WaitNode) -> bool) -> bool {
        let stands = self.whereabouts.load(Ordering::Relaxed) == SEATED && seat(self);
        if stands {
            self.whereabouts.store(OUT, Ordering::Relaxed);
        }
        stands
    }

    /// Grants a node that the caller has taken out of its seat.
    ///
    /// # Safety
    /// The node was in a seat, and the caller alone has taken it out.
    #[inline]
    pub(crate) unsafe fn grant_seated(node: *const WaitNode, answer: u32) -> Wake {
        // SAFETY: the node is alive, as its waiter stays until the wake has been delivered.
        unsafe { &*node }.grant(answer)
    }

    #[inline]
    fn grant(&self, answer: u32) -> Wake {
        self.whereabouts.store(OUT, Ordering::Relaxed);
        self.answer.set(answer);
        Wake(self.who.replace(Who::Nobody))
    }

    #[inline]
    pub(super) fn set_who(&self, who: Who) {
        drop(self.replace_who(who));
    }

    /// Replaces the waiter, and returns the previous one. Its destructor may be foreign code, so
    /// it must be dropped when the lock is free.
    pub(super) fn replace_who(&self, who: Who) -> Who {
        self.who.replace(who)
    }
}

// A model that finds a fault unwinds past nodes that are in a list.
#[cfg(not(loom))]
impl Drop for WaitNode {
    #[inline]
    fn drop(&mut self) {
        if *self.whereabouts.get_mut() != OUT {
            abort_with("a wait has left its frame without leaving the wait list, which is a bug");
        }
    }
}

/// The wake-up of a granted waiter, to be delivered when the lock is free.
#[must_use = "it waits for ever"]
pub(crate) struct Wake(Who);

impl Wake {
    /// Delivers the grant.
    #[inline]
    pub(crate) fn deliver(self) {
        match self.0 {
            Who::Task(task) => task.grant().into_iter().for_each(resume),
            who => {
                cold_path();
                match who {
                    Who::Thread(thread) => wake(Waiter::Thread(thread)),
                    Who::Future(waker) => wake_future(waker),
                    _ => {}
                }
            }
        }
    }
}

/// Several wake-ups, to be delivered together when the lock is free.
#[derive(Default)]
#[must_use = "they wait for ever"]
pub(crate) struct Wakes {
    /// Tasks that have received their grants and are in no queue yet.
    tasks: ReadyStack,
    others: Vec<Wake>,
}

impl Wakes {
    /// Adds a wake-up. May be called with or without the lock.
    pub(crate) fn add(&mut self, wake: Wake) {
        match wake.0 {
            Who::Task(task) => task.grant().into_iter().for_each(|task| self.tasks.push(task)),
            who => self.others.push(Wake(who)),
        }
    }

    /// Returns whether the delivery calls no foreign code.
    #[inline]
    pub(super) fn call_nobody(&self) -> bool {
        !self.others.iter().any(|wake| matches!(wake.0, Who::Future(_)))
    }

    /// Delivers the grants. Called without a lock.
    #[inline(always)]
    pub(crate) fn deliver(self) {
        if self.tasks.top().is_none() && self.others.is_empty() {
            // There is nothing to drop either.
            mem::forget(self);
        } else {
            self.deliver_some();
        }
    }

    fn deliver_some(self) {
        resume_all(self.tasks);
        if !self.others.is_empty() {
            self.others.into_iter().for_each(Wake::deliver);
        }
    }
}

/// Calls `f` under the lock, then wakes the waiters that it has served.
pub(crate) fn with_wakes<S, R>(lock: &Mutex<S>, f: impl FnOnce(&mut S, &mut Wakes) -> R) -> R {
    let mut wakes = Wakes::default();
    let mut state = lock.lock();
    let result = f(&mut state, &mut wakes);
    drop(state);
    wakes.deliver();
    result
}

/// The waiters of a primitive, in order of arrival.
pub(crate) struct WaitList {
    first: *const WaitNode,
    last: *const WaitNode,
    len: usize,
}

// SAFETY: the nodes in the list are touched only under the lock that guards the list.
unsafe impl Send for WaitList {}

impl WaitList {
    pub(crate) const fn new() -> WaitList {
        WaitList { first: ptr::null(), last: ptr::null(), len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first node in the list.
    pub(crate) fn first(&self) -> Option<&WaitNode> {
        self.at(self.first)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WaitNode> {
        std::iter::successors(self.first(), |node| self.at(node.next.get()))
    }

    /// Returns a node by a pointer out of the list, or `None` for the null at its ends.
    fn at(&self, node: *const WaitNode) -> Option<&WaitNode> {
        // SAFETY: a node leaves the list before its memory goes, and takes the pointers to it
        // along.
        unsafe { node.as_ref() }
    }

    /// Returns the source locations of the waits, as text.
    pub(crate) fn locations(&self) -> Vec<String> {
        self.iter().map(|node| node.location.to_string()).collect()
    }

    /// Enters a node as the last one, or as the first.
    ///
    /// # Panics
    /// If the node is in a list.
    pub(crate) fn push(&mut self, node: Pin<&WaitNode>, as_first: bool) {
        assert!(!node.is_listed(), "a wait has entered two lists");
        node.whereabouts.store(LISTED, Ordering::Relaxed);
        let (next, previous) =
            if as_first { (self.first, ptr::null()) } else { (ptr::null(), self.last) };
        node.next.set(next);
        node.previous.set(previous);
        let node = ptr::from_ref(node.get_ref());
        match self.at(previous) {
            Some(previous) => previous.next.set(node),
            None => self.first = node,
        }
        match self.at(next) {
            Some(next) => next.previous.set(node),
            None => self.last = node,
        }
        self.len += 1;
    }

    /// Takes out the first node as granted. The caller has given it what it asked for, or does so
    /// before it releases the lock.
    pub(crate) fn grant_first(&mut self, answer: u32) -> Option<Wake> {
        self.grant_first_that(answer, |_| true)
    }

    /// Same as [`grant_first`](Self::grant_first), for all nodes.
    pub(crate) fn grant_all(&mut self, answer: u32, wakes: &mut Wakes) {
        while let Some(wake) = self.grant_first(answer) {
            wakes.add(wake);
        }
    }

    /// Same as [`grant_first`](Self::grant_first), for the first node for which `so` returns
    /// `true`.
    pub(super) fn grant_first_that(
        &mut self,
        answer: u32,
        so: impl Fn(&WaitNode) -> bool,
    ) -> Option<Wake> {
        let node = ptr::from_ref(self.iter().find(|node| so(node))?);
        // SAFETY: the node was found in this list.
        Some(unsafe { self.grant(node, answer) })
    }

    /// Takes out a node as granted.
    ///
    /// # Safety
    /// The node is in this list.
    unsafe fn grant(&mut self, node: *const WaitNode, answer: u32) -> Wake {
        // SAFETY: the node is in this list, so it is alive.
        let granted = unsafe { &*node };
        // SAFETY: the node is in this list.
        unsafe { self.take_out(granted) };
        granted.grant(answer)
    }

    /// Same as [`grant_first`](Self::grant_first), for all nodes for which `answer` returns a
    /// value.
    pub(crate) fn grant_those(
        &mut self,
        answer: impl Fn(&WaitNode) -> Option<u32>,
        wakes: &mut Wakes,
    ) {
        let mut at = self.first;
        // SAFETY: the next node is read before a grant takes this one out, so it is in the list
        // and alive.
        while let Some(node) = unsafe { at.as_ref() } {
            at = node.next.get();
            if let Some(answer) = answer(node) {
                // SAFETY: the loop has just met the node in this list.
                wakes.add(unsafe { self.grant(node, answer) });
            }
        }
    }

    /// Takes out a node.
    ///
    /// # Safety
    /// The node is in this list.
    pub(super) unsafe fn take_out(&mut self, node: &WaitNode) {
        self.len -= 1;
        node.whereabouts.store(OUT, Ordering::Relaxed);
        let (next, previous) = (node.next.get(), node.previous.get());
        match self.at(previous) {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        match self.at(next) {
            Some(next) => next.previous.set(previous),
            None => self.last = previous,
        }
    }
}
