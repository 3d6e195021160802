//! What the ends of a channel share: what lies there, and who waits at the two ends.
//!
//! # Permits
//!
//! Who waits is granted a **permit**, not a value: a receiver one of the values that lie there, which is *promised* then, a
//! sender one of the free places, which is *reserved*. It takes or puts its value when it runs. So one
//! that is cancelled in between has nothing that could be lost: its permit goes to the next. Nobody takes what is spoken for,
//! and nobody comes past those who wait, so permits are granted in the order of coming. What is done with them is done in the
//! order in which their owners run: who has one is sure of a value, or a place, and not of which.
//!
//! # The end
//!
//! A closed channel takes nothing any more. What lies there is received; then receivers are told. As long as a value is
//! promised it may come back, so those who come behind wait until it is taken.
//!
//! # Where the values lie
//!
//! In a [`Ring`], which those who need not wait pass without a lock, if it can be made at once for the capacity; else in a
//! [`Queue`], behind the lock.

use super::queue::Queue;
use super::ring::Ring;
use crate::retire::outcome::{drop_all, resume_in_destructor};
use crate::scheduler::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::AtomicUsize;
use crate::shim::{Mutex, MutexGuard};
use std::sync::PoisonError;

/// The answers.
pub(super) const PERMIT: u32 = 0;
pub(super) const CLOSED: u32 = 1;

/// Who waits. Behind the lock.
pub(crate) struct Ends {
    pub(super) senders: WaitList,
    pub(super) receivers: WaitList,
}

pub(crate) struct State<T> {
    ends: Ends,
    /// Unless there is a ring.
    queue: Queue<T>,
}

/// What a try came to.
pub(super) enum Tried<V> {
    Done(V),
    /// It would have to wait.
    Later,
    /// Others are about to have theirs, and there may be something left.
    Behind,
    Closed,
}

pub(super) struct Shared<T> {
    capacity: usize,
    ring: Option<Ring<T>>,
    state: Mutex<State<T>>,
    /// Handles of each end.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize) -> Shared<T> {
        let ends = Ends { senders: WaitList::new(), receivers: WaitList::new() };
        Shared {
            capacity,
            ring: Ring::new(capacity),
            state: Mutex::new(State { ends, queue: Queue::new(capacity) }),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` under the lock, and wakes whom it has granted something.
    fn with<R>(&self, f: impl FnOnce(&mut Queue<T>, &mut Ends, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut state = self.lock();
        let State { ends, queue } = &mut *state;
        let result = f(queue, ends, &mut wakes);
        drop(state);
        wakes.deliver();
        result
    }

    /// Puts a value in, if there is a place and nobody waits for one. It is taken out of `value` if it was.
    #[inline]
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return self.with(|queue, ends, wakes| queue.try_put(value, ends, wakes));
        };
        let tried = ring.try_put(value);
        // PROOF(ring.put.look): false
        if matches!(tried, Tried::Done(())) && ring.receivers_wait() {
            self.promise(ring);
        }
        tried
    }

    /// The same for one that does not wait, and has what is left by those who do: nothing is left if it is to come later.
    pub(super) fn put_now(&self, value: &mut Option<T>) -> Tried<()> {
        match (self.try_put(value), &self.ring) {
            (Tried::Behind, Some(ring)) => {
                match self.with(|_, ends, wakes| ring.reserve_now(ends, wakes)) {
                    Some(PERMIT) => self.put_by_permit(value),
                    Some(_) => Tried::Closed,
                    None => Tried::Later,
                }
            }
            (tried, _) => tried,
        }
    }

    /// The same with a permit, which is used up.
    pub(super) fn put_by_permit(&self, value: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return self.with(|queue, ends, wakes| queue.put_by_permit(value, ends, wakes));
        };
        let tried = ring.put_by_permit(value);
        // PROOF(ring.put_by_permit.look): false
        if ring.receivers_wait() {
            self.promise(ring);
        }
        tried
    }

    /// Takes the permit of a sender back.
    pub(super) fn give_back_place(&self) {
        self.with(|queue, ends, wakes| match &self.ring {
            Some(ring) => ring.unreserve(ends, wakes),
            None => queue.unreserve(ends, wakes),
        });
    }

    /// Takes a value out, if there is one that is not promised, and nobody waits for one.
    #[inline]
    pub(super) fn try_take(&self) -> Tried<T> {
        let Some(ring) = &self.ring else {
            return self.with(Queue::try_take);
        };
        let tried = ring.try_take();
        // PROOF(ring.take.look): false
        if matches!(tried, Tried::Done(_)) && ring.senders_wait() {
            self.reserve(ring);
        }
        tried
    }

    /// The same for one that does not wait, and has what is left by those who do: nothing is left if it is to come later.
    pub(super) fn take_now(&self) -> Tried<T> {
        match (self.try_take(), &self.ring) {
            (Tried::Behind, Some(ring)) => {
                match self.with(|_, ends, wakes| ring.promise_now(ends, wakes)) {
                    Some(PERMIT) => Tried::Done(self.take_by_permit()),
                    Some(_) => Tried::Closed,
                    None => Tried::Later,
                }
            }
            (tried, _) => tried,
        }
    }

    /// The same with a permit, which is used up.
    pub(super) fn take_by_permit(&self) -> T {
        let Some(ring) = &self.ring else {
            return self.with(Queue::take_by_permit);
        };
        let value = ring.take_by_permit();
        // PROOF(ring.take_by_permit.look): false
        if ring.senders_wait() {
            self.reserve(ring);
        }
        // It may have been what they waited for to learn that this is the end.
        // PROOF(ring.take_by_permit.end): false
        if ring.is_closed() && ring.receivers_wait() {
            self.promise(ring);
        }
        value
    }

    #[cold]
    #[inline(never)]
    fn promise(&self, ring: &Ring<T>) {
        self.with(|_, ends, wakes| ring.promise(ends, wakes));
    }

    #[cold]
    #[inline(never)]
    fn reserve(&self, ring: &Ring<T>) {
        self.with(|_, ends, wakes| ring.reserve(ends, wakes));
    }

    pub(super) fn close(&self) {
        self.with(|queue, ends, wakes| match &self.ring {
            Some(ring) => ring.close(ends, wakes),
            None => queue.close(ends, wakes),
        });
    }

    /// Closes it, and drops what lies there, as nobody will receive it.
    pub(super) fn close_and_empty(&self) {
        self.close();
        let values = match &self.ring {
            Some(ring) => ring.drain(),
            None => self.with(|queue, _, _| queue.drain()),
        };
        if let Some(payload) = drop_all(values) {
            resume_in_destructor(payload);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.ring {
            Some(ring) => ring.is_closed(),
            None => self.lock().queue.is_closed(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.ring {
            Some(ring) => ring.len(),
            None => self.lock().queue.len(),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Where senders and receivers wait.
    pub(super) fn places(&self) -> (Vec<String>, Vec<String>) {
        let ends = &self.lock().ends;
        (ends.senders.places(), ends.receivers.places())
    }
}

/// A channel, to be waited for by senders.
pub(super) struct Sending<'a, T>(pub(super) &'a Shared<T>);

/// A channel, to be waited for by receivers.
pub(super) struct Receiving<'a, T>(pub(super) &'a Shared<T>);

impl<T> Waitable for Sending<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "room in a channel"
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.ends.senders
    }

    fn try_enter(&self, state: &mut State<T>, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
        match &self.0.ring {
            Some(ring) => ring.enter_sender(&mut state.ends),
            None => state.queue.enter_sender(&state.ends),
        }
    }

    fn left(&self, state: &mut State<T>, _: &mut Wakes) {
        if let Some(ring) = &self.0.ring {
            ring.sender_left(&mut state.ends);
        }
    }

    fn give_back(&self, node: &WaitNode) {
        if node.answer() == PERMIT {
            self.0.give_back_place();
        }
    }
}

impl<T> Waitable for Receiving<'_, T> {
    type State = State<T>;

    fn what(&self) -> &'static str {
        "a value of a channel"
    }

    fn stands(&self) -> bool {
        self.0.capacity() == 0
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.ends.receivers
    }

    fn try_enter(&self, state: &mut State<T>, _: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        match &self.0.ring {
            Some(ring) => ring.enter_receiver(&mut state.ends),
            None => state.queue.enter_receiver(&mut state.ends, wakes),
        }
    }

    fn left(&self, state: &mut State<T>, _: &mut Wakes) {
        if let Some(ring) = &self.0.ring {
            ring.receiver_left(&mut state.ends);
        }
    }

    fn give_back(&self, node: &WaitNode) {
        if node.answer() == PERMIT {
            self.0.with(|queue, ends, wakes| match &self.0.ring {
                Some(ring) => ring.unpromise(ends, wakes),
                None => queue.unpromise(ends, wakes),
            });
        }
    }
}
