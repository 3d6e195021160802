//! What lies in a channel, and who waits at its two ends.
//!
//! Everything happens under one lock, in a few instructions; values are moved in and out under it, and dropped outside.
//!
//! # Permits
//!
//! Who waits is granted a **permit**, not a value: a receiver one of the values that lie there (`promised` of them
//! are spoken for), a sender one of the free places (`reserved`). It takes or puts its value when it runs. So one
//! that is cancelled in between has nothing that could be lost: its permit goes to the next. Nobody takes what is spoken for,
//! and nobody comes past those who wait, so the order at each end is that of coming.
//!
//! # Without room (capacity 0)
//!
//! There are as many places as receivers wait, or have a permit and not yet taken their value. A sender that comes first waits; the
//! receiver that comes grants it a place and waits for the value. If the receiver has left before the sender runs, the
//! place is gone, and the sender waits again. Once a value lies there they have met: that stands, and a receiver that
//! is cancelled then receives all the same.
//!
//! # The end
//!
//! A closed channel takes nothing any more. What lies there is received; then receivers are told.

use crate::scheduler::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::AtomicUsize;
use crate::shim::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// The answers.
pub(super) const PERMIT: u32 = 0;
pub(super) const CLOSED: u32 = 1;

pub(crate) struct State<T> {
    values: VecDeque<T>,
    capacity: usize,
    /// Values for which a receiver has a permit.
    promised: usize,
    /// Places for which a sender has a permit.
    reserved: usize,
    closed: bool,
    senders: WaitList,
    receivers: WaitList,
}

/// What a try came to.
pub(super) enum Tried<V> {
    Done(V),
    /// It would have to wait.
    Later,
    Closed,
}

impl<T> State<T> {
    fn new(capacity: usize) -> State<T> {
        State {
            values: VecDeque::new(),
            capacity,
            promised: 0,
            reserved: 0,
            closed: false,
            senders: WaitList::new(),
            receivers: WaitList::new(),
        }
    }

    /// Whether there is a place, if so many more receivers waited.
    fn has_room(&self, more: usize) -> bool {
        let places = match self.capacity {
            0 => self.receivers.len() + more + self.promised,
            capacity => capacity,
        };
        self.values.len() + self.reserved < places
    }

    fn has_value(&self) -> bool {
        self.values.len() > self.promised
    }

    fn put(&mut self, value: T, wakes: &mut Wakes) {
        self.values.push_back(value);
        self.promise(wakes);
    }

    /// Gives a value that is there to the first who waits for one.
    fn promise(&mut self, wakes: &mut Wakes) {
        if self.has_value()
            && let Some(wake) = self.receivers.grant_first(PERMIT)
        {
            self.promised += 1;
            wakes.add(wake);
        }
    }

    fn take(&mut self, wakes: &mut Wakes) -> Option<T> {
        let value = self.values.pop_front();
        // After a burst; so seldom that it costs nothing on the whole.
        if self.values.capacity() > 64 && self.values.len() < self.values.capacity() / 8 {
            self.values.shrink_to(self.values.capacity() / 2);
        }
        self.reserve(0, wakes);
        value
    }

    /// Gives a place that is free to the first who waits for one.
    fn reserve(&mut self, more: usize, wakes: &mut Wakes) {
        if !self.closed
            && self.has_room(more)
            && let Some(wake) = self.senders.grant_first(PERMIT)
        {
            self.reserved += 1;
            wakes.add(wake);
        }
    }
}

pub(super) struct Shared<T> {
    capacity: usize,
    state: Mutex<State<T>>,
    /// Handles of each end.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize) -> Shared<T> {
        Shared {
            capacity,
            state: Mutex::new(State::new(capacity)),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` under the lock, and wakes whom it has granted something.
    fn with<R>(&self, f: impl FnOnce(&mut State<T>, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        let mut state = self.lock();
        let result = f(&mut state, &mut wakes);
        drop(state);
        wakes.deliver();
        result
    }

    /// Puts a value in, if there is a place and nobody waits for one. It is taken out of `value` if it was.
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        self.with(|state, wakes| {
            if state.closed {
                return Tried::Closed;
            }
            if !state.senders.is_empty() || !state.has_room(0) {
                return Tried::Later;
            }
            state.put(value.take().expect("it is put once"), wakes);
            Tried::Done(())
        })
    }

    /// The same with a permit, which is used up.
    pub(super) fn put_by_permit(&self, value: &mut Option<T>) -> Tried<()> {
        self.with(|state, wakes| {
            state.reserved -= 1;
            if state.closed {
                return Tried::Closed;
            }
            // The receiver that it was for has left.
            if !state.has_room(0) {
                return Tried::Later;
            }
            state.put(value.take().expect("it is put once"), wakes);
            Tried::Done(())
        })
    }

    /// Takes the permit of a sender back.
    pub(super) fn give_back_place(&self) {
        self.with(|state, wakes| {
            state.reserved -= 1;
            state.reserve(0, wakes);
        });
    }

    /// Takes a value out, if there is one that is not promised, and nobody waits for one.
    pub(super) fn try_take(&self) -> Tried<T> {
        self.with(|state, wakes| {
            if state.has_value() {
                let value = state.take(wakes);
                return Tried::Done(value.expect("there is one"));
            }
            if state.closed {
                return Tried::Closed;
            }
            Tried::Later
        })
    }

    /// The same with a permit, which is used up.
    pub(super) fn take_by_permit(&self) -> T {
        self.with(|state, wakes| {
            state.promised -= 1;
            state.take(wakes).expect("it was promised")
        })
    }

    pub(super) fn close(&self) {
        self.with(|state, wakes| {
            state.closed = true;
            while let Some(wake) = state.senders.grant_first(CLOSED) {
                wakes.add(wake);
            }
            // They wait, so nothing is left for them.
            while let Some(wake) = state.receivers.grant_first(CLOSED) {
                wakes.add(wake);
            }
        });
    }

    /// Closes it, and drops what lies there, as nobody will receive it.
    pub(super) fn close_and_empty(&self) {
        self.close();
        let values = self.with(|state, _| std::mem::take(&mut state.values));
        drop(values);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn len(&self) -> usize {
        self.lock().values.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Where senders and receivers wait.
    pub(super) fn places(&self) -> (Vec<String>, Vec<String>) {
        let state = self.lock();
        (state.senders.places(), state.receivers.places())
    }
}

/// A channel, to be waited for by senders.
pub(super) struct Sending<'a, T>(pub(super) &'a Shared<T>);

/// A channel, to be waited for by receivers.
pub(super) struct Receiving<'a, T>(pub(super) &'a Shared<T>);

impl<T> Waitable for Sending<'_, T> {
    type State = State<T>;

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.senders
    }

    fn try_enter(&self, state: &mut State<T>, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
        if state.closed {
            return Some(CLOSED);
        }
        let free = state.senders.is_empty() && state.has_room(0);
        if free {
            state.reserved += 1;
        }
        free.then_some(PERMIT)
    }

    fn give_back(&self, node: &WaitNode) {
        if node.answer() == PERMIT {
            self.0.give_back_place();
        }
    }
}

impl<T> Waitable for Receiving<'_, T> {
    type State = State<T>;

    fn stands(&self) -> bool {
        self.0.capacity() == 0
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock()
    }

    fn waiters(state: &mut State<T>) -> &mut WaitList {
        &mut state.receivers
    }

    fn try_enter(&self, state: &mut State<T>, _: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        if state.has_value() {
            state.promised += 1;
            return Some(PERMIT);
        }
        if state.closed {
            return Some(CLOSED);
        }
        if state.capacity == 0 {
            // The place that it makes by waiting.
            state.reserve(1, wakes);
        }
        None
    }

    fn give_back(&self, node: &WaitNode) {
        if node.answer() == PERMIT {
            self.0.with(|state, wakes| {
                state.promised -= 1;
                state.promise(wakes);
            });
        }
    }
}
