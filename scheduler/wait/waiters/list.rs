//! The list, its nodes, and whom to wake.

use crate::scheduler::cancel::Woken;
use crate::scheduler::life::complete::{wake, wake_future};
use crate::shim::Cell;
use crate::task::record::Record;
use crate::task::thread_waiter::ThreadWaiter;
use crate::task::words::join::Waiter;
use crate::task::words::tree::{NOBODY, WorkerNumber};
use std::marker::PhantomPinned;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::Waker;

/// Where a node is in its life: see the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Out,
    In,
    Granted,
}

/// The one behind a node.
pub(crate) enum Who {
    Nobody,
    Task(*const Record),
    Thread(*const ThreadWaiter),
    Future(Waker),
}

/// One wait. See the module's documentation.
pub(crate) struct WaitNode {
    next: Cell<*const WaitNode>,
    previous: Cell<*const WaitNode>,
    stage: Cell<Stage>,
    who: Cell<Who>,
    /// Of the primitive: whose it is, or how much it asks for. A grant may replace it by what does not fit into the answer.
    pub(crate) token: Cell<u64>,
    /// Of the primitive: what has been granted.
    answer: Cell<u32>,
    pub(crate) place: &'static Location<'static>,
    _pinned: PhantomPinned,
}

impl WaitNode {
    pub(crate) fn new(token: u64, place: &'static Location<'static>) -> WaitNode {
        WaitNode {
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            stage: Cell::new(Stage::Out),
            who: Cell::new(Who::Nobody),
            token: Cell::new(token),
            answer: Cell::new(0),
            place,
            _pinned: PhantomPinned,
        }
    }

    /// What has been granted. For whom it was granted to.
    pub(crate) fn answer(&self) -> u32 {
        self.answer.get()
    }

    /// The worker on which a task waits that stays there; [`NOBODY`] if it is not known. Under the
    /// lock of the list that it is in.
    pub(crate) fn home(&self) -> WorkerNumber {
        let who = self.who.replace(Who::Nobody);
        let home = match who {
            // SAFETY: the task does not leave the wait before it is taken out of the list.
            Who::Task(record) => unsafe { (*record).node.home() },
            _ => NOBODY,
        };
        self.who.set(who);
        home
    }

    /// What it has been granted is used, and it asks for the next thing as if it were new.
    pub(crate) fn forget(&self) {
        self.token.set(0);
        self.answer.set(0);
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage.get()
    }

    pub(super) fn replace_stage(&self, stage: Stage) -> Stage {
        self.stage.replace(stage)
    }

    pub(super) fn set_who(&self, who: Who) {
        drop(self.replace_who(who));
    }

    /// The one before, whose destructor may be foreign code: to be dropped when the lock is free.
    pub(super) fn replace_who(&self, who: Who) -> Who {
        self.who.replace(who)
    }
}

/// Whom a grant wakes, when the lock is free.
#[must_use = "it waits for ever"]
pub(crate) struct Wake(Who);

impl Wake {
    /// Delivers the grant.
    pub(crate) fn deliver(self) {
        match self.0 {
            Who::Nobody => {}
            Who::Task(record) => wake(Waiter::Task(record)),
            Who::Thread(thread) => wake(Waiter::Thread(thread)),
            Who::Future(waker) => wake_future(waker),
        }
    }
}

/// Several of them, to be woken together when the lock is free.
#[derive(Default)]
#[must_use = "they wait for ever"]
pub(crate) struct Wakes {
    /// Tasks, whose grants have arrived, but that are in no queue yet.
    tasks: Woken,
    others: Vec<Wake>,
}

impl Wakes {
    /// Adds one. Under the lock, or not.
    pub(crate) fn add(&mut self, wake: Wake) {
        match wake.0 {
            Who::Task(record) => {
                let task = NonNull::new(record.cast_mut()).expect("a waiter is not null");
                // SAFETY: it may not leave its wait before this grant has arrived.
                unsafe { self.tasks.grant(task) };
            }
            _ => self.others.push(wake),
        }
    }

    /// Whether no foreign code is called.
    pub(super) fn call_nobody(&self) -> bool {
        !self.others.iter().any(|wake| matches!(wake.0, Who::Future(_)))
    }

    /// Delivers the grants. Without a lock.
    pub(crate) fn deliver(self) {
        self.tasks.finish();
        // Mostly there are none, and an iterator is dearer than that look.
        if !self.others.is_empty() {
            self.others.into_iter().for_each(Wake::deliver);
        }
    }
}

/// Who waits, in the order in which they came.
pub(crate) struct WaitList {
    first: *const WaitNode,
    last: *const WaitNode,
    len: usize,
}

// SAFETY: what it leads to is touched under the lock that it lies behind.
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

    /// The one that has come first.
    pub(crate) fn first(&self) -> Option<&WaitNode> {
        // SAFETY: a node in the list is there.
        unsafe { self.first.as_ref() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WaitNode> {
        // SAFETY: as above.
        std::iter::successors(self.first(), |node| unsafe { node.next.get().as_ref() })
    }

    /// Where they wait, as text.
    pub(crate) fn places(&self) -> Vec<String> {
        self.iter().map(|node| node.place.to_string()).collect()
    }

    /// Enters a node as the last one, or as the first.
    ///
    /// # Safety
    /// It is in no list, and is taken out before it goes.
    pub(super) unsafe fn push(&mut self, node: Pin<&WaitNode>, as_first: bool) {
        node.stage.set(Stage::In);
        let (next, previous) =
            if as_first { (self.first, ptr::null()) } else { (ptr::null(), self.last) };
        node.next.set(next);
        node.previous.set(previous);
        let node = ptr::from_ref(node.get_ref());
        // SAFETY: those in the list are there.
        unsafe {
            match previous.as_ref() {
                Some(previous) => previous.next.set(node),
                None => self.first = node,
            }
            match next.as_ref() {
                Some(next) => next.previous.set(node),
                None => self.last = node,
            }
        }
        self.len += 1;
    }

    /// Takes out the first one, which has been granted what it asked for: the caller has seen to that, or does before
    /// it gives the lock back.
    pub(crate) fn grant_first(&mut self, answer: u32) -> Option<Wake> {
        self.grant_first_that(answer, |_| true)
    }

    /// The same of all of them.
    pub(crate) fn grant_all(&mut self, answer: u32, wakes: &mut Wakes) {
        while let Some(wake) = self.grant_first(answer) {
            wakes.add(wake);
        }
    }

    /// The same of the first one that is such.
    pub(super) fn grant_first_that(
        &mut self,
        answer: u32,
        so: impl Fn(&WaitNode) -> bool,
    ) -> Option<Wake> {
        let node = ptr::from_ref(self.iter().find(|node| so(node))?);
        // SAFETY: a node in the list is there.
        Some(unsafe { self.grant(node, answer) })
    }

    /// # Safety
    /// The node is in this list.
    unsafe fn grant(&mut self, node: *const WaitNode, answer: u32) -> Wake {
        // SAFETY: who is in the list is there.
        let granted = unsafe { &*node };
        // SAFETY: it is in this list.
        unsafe { self.take_out(granted) };
        granted.stage.set(Stage::Granted);
        granted.answer.set(answer);
        Wake(granted.who.replace(Who::Nobody))
    }

    /// The same of all for whom there is an answer.
    pub(crate) fn grant_those(
        &mut self,
        answer: impl Fn(&WaitNode) -> Option<u32>,
        wakes: &mut Wakes,
    ) {
        let mut at = self.first;
        // SAFETY: a node in the list is there.
        while let Some(node) = unsafe { at.as_ref() } {
            at = node.next.get();
            if let Some(answer) = answer(node) {
                // SAFETY: it is in this list.
                wakes.add(unsafe { self.grant(node, answer) });
            }
        }
    }

    /// # Safety
    /// The node is in this list.
    pub(super) unsafe fn take_out(&mut self, node: &WaitNode) {
        self.len -= 1;
        let (next, previous) = (node.next.get(), node.previous.get());
        // SAFETY: its neighbours are in the list.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.previous.set(previous),
            None => self.last = previous,
        }
    }
}
