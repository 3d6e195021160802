//! The state that the two ends of a channel share: the values, and the waiters at both ends.
//!
//! # Permits
//!
//! A waiter is called, from the line or from its seat, or granted a **permit** (see
//! [`line`](super::line)), or its value is moved while it waits: into the cell of a receiver in the
//! seat, or, without room, between any two that meet (see [`queue`](super::queue)).
//!
//! A permit is not a value. A receiver's permit stands for one of the values in the channel, which
//! is then *promised*; a sender's permit stands for one of the free places, which is then
//! *reserved*. No other caller gets a promised value or a reserved place. The owner of a permit is
//! sure of some value or place, but not of a particular one, and takes or fills it when it runs. A
//! waiter that is cancelled before that has nothing to lose: its permit goes to the next waiter.
//!
//! # The end
//!
//! A closed channel accepts no more values. Receivers take the remaining values, and are then told
//! of the end. A promised value may still come back, so the other receivers wait until it is taken.
//!
//! # Where the values lie
//!
//! In a [`Ring`], if the capacity allows all slots to be allocated at once. Callers that need not
//! wait use the ring without the lock. Otherwise the values lie in a [`Queue`], under the lock.

use super::line::{
    CALL, CALL_FROM_SEAT, Ends, Line, MOVED, PERMIT, Receivers, Senders, Side, Supply, returns,
};
use super::queue::{OfQueue, Queue};
use super::ring::{OfRing, Ring};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes, Who, with_wakes};
use crate::shim::atomic::AtomicUsize;
use crate::shim::{Mutex, MutexGuard};
use crate::task::outcome::{drop_all, resume_in_destructor};
use std::marker::PhantomData;

pub(crate) struct State<T> {
    pub(super) ends: Ends,
    /// Used only if there is no ring.
    queue: Queue<T>,
}

/// The result of an attempt to put or take a value.
pub(super) type Tried<V> = Result<V, Refused>;

/// Why an attempt has failed.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The caller would have to wait.
    Later,
    /// A place or a value without a permit is left, but the line is strict: the waiters come first.
    Behind,
    Closed,
    /// Another caller interfered: try again.
    Missed,
}

pub(super) struct Channel<T> {
    capacity: usize,
    pub(super) ring: Option<Ring<T>>,
    pub(super) state: Mutex<State<T>>,
    /// The number of handles of each end.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

impl<T> Channel<T> {
    pub(super) fn new(capacity: usize) -> Channel<T> {
        let ends = Ends { senders: Line::new(), receivers: Line::new() };
        Channel {
            capacity,
            ring: Ring::new(capacity),
            state: Mutex::new(State { ends, queue: Queue::new(capacity) }),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    /// Runs `f` with the line of one side, and what its callers wait for.
    fn with_side<S: Side, R>(
        &self,
        State { ends, queue }: &mut State<T>,
        f: impl FnOnce(&mut Line, &mut dyn Supply) -> R,
    ) -> R {
        let receivers = ends.receivers.len();
        match &self.ring {
            Some(ring) => f(S::line(ends), &mut OfRing::<T, S>(ring, PhantomData)),
            None => f(S::line(ends), &mut OfQueue::<T, S>(queue, receivers, PhantomData)),
        }
    }

    /// Runs `f` with the line of one side under the lock, then wakes the waiters that it has
    /// served.
    pub(super) fn with_line<S: Side, R>(
        &self,
        f: impl FnOnce(&mut Line, &mut dyn Supply, &mut Wakes) -> R,
    ) -> R {
        with_wakes(&self.state, |state, wakes| {
            self.with_side::<S, R>(state, |line, supply| {
                line.admit(supply);
                let result = f(line, supply, wakes);
                line.announce(supply);
                result
            })
        })
    }

    fn with_queue<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        with_wakes(&self.state, |State { queue, ends }, wakes| {
            queue.try_move::<S>(cell, ends, wakes)
        })
    }

    /// Puts a value in, if there is a place and no waiter must have it first. Empties `value` on
    /// success. `Later` may stand for any reason but `Missed`.
    #[inline(always)]
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return self.with_queue::<Senders>(value);
        };
        if let Some(node) = ring.seat::<Receivers>().read().seated()
            && ring.hand_over(node, value)
        {
            return Ok(());
        }
        match ring.try_put(value) {
            Ok(()) => {
                // MUTANT(ring.put.look): false
                if ring.calls::<Receivers>() {
                    self.serve_ring::<Receivers>(ring);
                }
                Ok(())
            }
            Err(Refused::Missed) => self.insist::<Senders>(ring, value),
            refused => refused,
        }
    }

    /// Serves the waiters of one side of the ring, after something has become free.
    #[cold]
    #[inline(never)]
    fn serve_ring<S: Side>(&self, ring: &Ring<T>) {
        if let Some(wake) = ring.call_seated::<S>() {
            return wake.deliver();
        }
        let supply = &mut OfRing::<T, S>(ring, PhantomData);
        let mut state = self.state.lock();
        S::line(&mut state.ends).admit(supply);
        if let Some(wake) = S::line(&mut state.ends).serve_alone(supply) {
            drop(state);
            return wake.deliver();
        }
        let mut wakes = Wakes::default();
        S::line(&mut state.ends).serve(supply, &mut wakes);
        drop(state);
        wakes.deliver();
    }

    /// Claims a permit and uses it, where several callers of the side come at once.
    #[cold]
    #[inline(never)]
    fn insist<S: Side>(&self, ring: &Ring<T>, cell: &mut Option<T>) -> Tried<()> {
        while !ring.claim::<S>() {
            // While the claim stood, the ring showed one place or value less. A caller that freed
            // one meanwhile may therefore have left the waiters to this one. Mostly this caller
            // takes that place or value itself when it tries again, but not if the line has become
            // strict, so it serves the waiters.
            // MUTANT(ring.claim.in_vain): false
            if ring.calls::<S>() {
                self.serve::<S>();
            }
            match ring.why::<S>() {
                Refused::Missed => {}
                why => return Err(why),
            }
        }
        self.by_permit::<S>(cell)
    }

    /// Takes a value out, if there is one without a permit and no waiter must have it first.
    /// `Later` may stand for any reason but `Missed`.
    #[inline(always)]
    pub(super) fn try_take(&self) -> Tried<T> {
        let Some(ring) = &self.ring else {
            let mut taken = None;
            self.with_queue::<Receivers>(&mut taken)?;
            return Ok(taken.expect("a successful try has taken a value"));
        };
        match ring.try_take() {
            Ok(value) => {
                // MUTANT(ring.take.look): false
                if ring.calls::<Senders>() {
                    self.serve_ring::<Senders>(ring);
                }
                Ok(value)
            }
            Err(Refused::Missed) => {
                let mut taken = None;
                self.insist::<Receivers>(ring, &mut taken)?;
                Ok(taken.expect("a successful try has taken a value"))
            }
            refused => refused,
        }
    }

    /// Moves a value on this side, like [`try_put`](Channel::try_put) out of the cell, or like
    /// [`try_take`](Channel::try_take) into it.
    pub(super) fn try_move<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        loop {
            let tried = self.try_once::<S>(cell);
            let (Err(Refused::Later), Some(ring)) = (&tried, &self.ring) else { return tried };
            match ring.why::<S>() {
                Refused::Missed => {}
                why => return Err(why),
            }
        }
    }

    /// As [`try_move`](Channel::try_move), but `Later` may stand for any reason but
    /// `Missed`.
    #[inline(always)]
    fn try_once<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        match S::SENDS {
            true => self.try_put(cell),
            false => self.try_take().map(|value| *cell = Some(value)),
        }
    }

    /// Moves a value for a caller that does not wait. If the line is strict, the caller gets a
    /// place or a value that the waiters do not need. If there is none, returns `Later`, `Behind`
    /// or `Missed`.
    pub(super) fn move_now<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        match self.try_move::<S>(cell) {
            Err(Refused::Behind)
                if self.with_line::<S, _>(|line, supply, wakes| line.ask(supply, wakes)) =>
            {
                self.by_permit::<S>(cell)
            }
            tried => tried,
        }
    }

    /// Moves a value with a permit, which is used up.
    pub(super) fn by_permit<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        let Some(ring) = &self.ring else {
            return with_wakes(&self.state, |State { queue, ends }, wakes| {
                queue.by_permit::<S>(cell, ends, wakes)
            });
        };
        let tried = ring.by_permit::<S>(cell);
        // MUTANT(ring.by_permit.look): false
        if ring.calls::<S::Other>() {
            self.serve_ring::<S::Other>(ring);
        }
        // If a closed channel is empty now, its waiting receivers are told of the end. A late put
        // leaves a void slot, which counts as a value until it is skipped; a receiver may have
        // waited because of it.
        // MUTANT(ring.by_permit.end): false
        if ring.receivers_wait() && ring.is_closed() {
            self.serve::<Receivers>();
        }
        tried
    }

    /// Moves a value for a caller that has waited and got this answer.
    #[inline(always)]
    pub(super) fn move_after<S: Side>(&self, answer: u32, cell: &mut Option<T>) -> Tried<()> {
        match answer {
            MOVED => Ok(()),
            CALL_FROM_SEAT => {
                self.came_from_seat::<S>();
                // The second attempt, if any, also finds the reason why there is nothing.
                self.try_once::<S>(cell).or_else(|_| self.try_move::<S>(cell))
            }
            PERMIT => self.by_permit::<S>(cell),
            CALL => {
                let tried = self.try_move::<S>(cell);
                self.with_line::<S, _>(|line, supply, wakes| line.came(supply, wakes));
                tried
            }
            _ => Err(Refused::Closed),
        }
    }

    fn came_from_seat<S: Side>(&self) {
        self.ring.as_ref().into_iter().for_each(Ring::came_from_seat::<S>);
    }

    /// Reserves a place for a sender that has waited and got this answer.
    #[cfg(feature = "futures")]
    pub(super) fn reserve_after(&self, answer: u32) -> Tried<()> {
        match answer {
            PERMIT => Ok(()),
            CALL if self.with_line::<Senders, _>(|line, supply, wakes| {
                line.came_for_permit(supply, wakes)
            }) =>
            {
                Ok(())
            }
            CALL => Err(Refused::Later),
            _ => Err(Refused::Closed),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn serve<S: Side>(&self) {
        self.with_line::<S, _>(|line, supply, wakes| line.serve(supply, wakes));
    }

    /// Returns whether many callers of the side come at once.
    pub(super) fn many<S: Side>(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::many::<S>)
    }

    pub(super) fn close(&self) {
        match &self.ring {
            Some(ring) => ring.close(),
            None => self.state.lock().queue.close(),
        }
        self.serve::<Senders>();
        self.serve::<Receivers>();
    }

    /// Takes back an unused permit.
    pub(super) fn take_back<S: Side>(&self) {
        self.with_line::<S, _>(|line, supply, wakes| line.take_back(supply, wakes));
    }

    /// Returns whether a future should let others of its executor go first.
    pub(super) fn is_hogged<S: Side>(&self) -> bool {
        self.with_side::<S, _>(&mut self.state.lock(), |line, supply| line.is_hogged(supply))
            || self.ring.as_ref().is_some_and(Ring::is_hogged::<S>)
    }

    /// Closes the channel and drops its values, which have no receiver any more.
    pub(super) fn close_and_empty(&self) {
        self.close();
        let values = match &self.ring {
            Some(ring) => ring.drain(),
            None => self.state.lock().queue.drain(),
        };
        if let Some(payload) = drop_all(values) {
            resume_in_destructor(payload);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.ring {
            Some(ring) => ring.is_closed(),
            None => self.state.lock().queue.is_closed(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.ring {
            Some(ring) => ring.len(),
            None => self.state.lock().queue.len(),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the locations in the code where senders and receivers wait. A waiter in a seat
    /// enters the line.
    pub(super) fn locations(&self) -> (Vec<String>, Vec<String>) {
        (self.locations_of::<Senders>(), self.locations_of::<Receivers>())
    }

    fn locations_of<S: Side>(&self) -> Vec<String> {
        self.with_line::<S, _>(|line, _, _| line.locations())
    }
}

/// What gives access to a channel: a reference, or one of its public handles.
pub(super) trait Handle {
    type Value;

    fn channel(&self) -> &Channel<Self::Value>;
}

impl<T> Handle for &Channel<T> {
    type Value = T;

    fn channel(&self) -> &Channel<T> {
        self
    }
}

/// A channel as the callers of one side wait for it.
pub(super) struct InLine<H, S>(pub(super) H, PhantomData<S>);

impl<H: Handle, S: Side> InLine<H, S> {
    pub(super) fn new(handle: H) -> InLine<H, S> {
        InLine(handle, PhantomData)
    }
}

impl<H: Handle, S: Side> Waitable for InLine<H, S> {
    type State = State<H::Value>;
    const WHAT: &'static str = S::WHAT;

    /// The caller's value has been moved, or, without room, a receiver has met a sender. A sender
    /// that has a place has met nobody yet.
    fn stands(&self, node: &WaitNode) -> bool {
        // MUTANT(queue.stands): with false
        let has_met = node.answer() == MOVED;
        has_met || self.0.channel().capacity == 0 && !S::SENDS
    }

    fn state(&self) -> MutexGuard<'_, State<H::Value>> {
        self.0.channel().state.lock()
    }

    fn waiters(state: &mut State<H::Value>) -> &mut WaitList {
        S::line(&mut state.ends).waiting()
    }

    fn try_enter(
        &self,
        state: &mut State<H::Value>,
        node: &WaitNode,
        wakes: &mut Wakes,
    ) -> Option<u32> {
        let channel = self.0.channel();
        let State { ends, queue } = state;
        if let Some(ring) = &channel.ring {
            let mut supply = OfRing::<_, S>(ring, PhantomData);
            S::line(ends).admit(&mut supply);
            return S::line(ends).enter(&mut supply, node);
        }
        let receivers = ends.receivers.len();
        let mut supply = OfQueue::<_, S>(queue, receivers, PhantomData);
        let answer = S::line(ends).enter(&mut supply, node);
        if answer.is_none() && !S::SENDS && channel.capacity == 0 {
            // A waiting receiver is a place. This one counts, though it is not in the list yet.
            let mut places = OfQueue::<_, Senders>(queue, receivers + 1, PhantomData);
            ends.senders.serve(&mut places, wakes);
        }
        answer
    }

    fn comes_back(&self, node: &WaitNode) -> bool {
        returns(node)
    }

    /// A waiter that was called from the seat in vain queues up.
    #[inline]
    fn sit(&self, node: &WaitNode, who: impl FnOnce() -> Who) -> bool {
        let ring = self.0.channel().ring.as_ref();
        // A new node has the answer 0, as if it were a permit. One that was called has another.
        let may_sit = node.answer() == PERMIT && !node.cell.get().is_null();
        ring.is_some_and(|ring| may_sit && node.sit(who(), |node| ring.seat::<S>().sit(node)))
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.0.channel().ring.as_ref().is_some_and(|ring| ring.why::<S>() != Refused::Later)
    }

    #[inline]
    fn stand_up(&self, node: &WaitNode) -> bool {
        let ring = self.0.channel().ring.as_ref();
        ring.is_some_and(|ring| node.stand_up(|node| ring.seat::<S>().take(node)))
    }

    fn left(&self, state: &mut State<H::Value>, wakes: &mut Wakes) {
        let channel = self.0.channel();
        channel.with_side::<S, _>(state, |line, supply| line.serve(supply, wakes));
    }

    fn give_back(&self, node: &WaitNode) {
        match node.answer() {
            PERMIT => self.0.channel().take_back::<S>(),
            CALL_FROM_SEAT => self.0.channel().came_from_seat::<S>(),
            CALL => {
                self.0.channel().with_line::<S, _>(|line, supply, wakes| line.came(supply, wakes))
            }
            _ => {}
        }
    }
}
