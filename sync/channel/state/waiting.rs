//! A channel as its callers wait for it.

use super::{Channel, State};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes, Who};
use crate::shim::MutexGuard;
use crate::sync::channel::line::Senders;
use crate::sync::channel::line::{CALL, CALL_FROM_SEAT, MOVED, PERMIT, Side, returns};
use crate::sync::channel::rendezvous::OfRendezvous;
use crate::sync::channel::ring::Ring;
use std::marker::PhantomData;

/// What gives access to a channel: a reference, or one of its public handles.
pub(in crate::sync::channel) trait Handle {
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
pub(in crate::sync::channel) struct InLine<H, S>(pub(in crate::sync::channel) H, PhantomData<S>);

impl<H: Handle, S: Side> InLine<H, S> {
    pub(in crate::sync::channel) fn new(handle: H) -> InLine<H, S> {
        InLine(handle, PhantomData)
    }
}

impl<H: Handle, S: Side> Waitable for InLine<H, S> {
    type State = State<H::Value>;
    const WHAT: &'static str = S::WHAT;

    /// The caller's value has been moved, or, without room, a receiver has met a sender. A sender
    /// that has a place has met nobody yet.
    fn stands(&self, node: &WaitNode) -> bool {
        // MUTANT(rendezvous.stands): with false
        let has_met = node.answer() == MOVED;
        has_met || self.0.channel().ring.is_none() && !S::SENDS
    }

    fn state(&self) -> MutexGuard<'_, State<H::Value>> {
        self.0.channel().state.lock()
    }

    fn waiters(state: &mut State<H::Value>) -> &mut WaitList {
        S::line(&mut state.ends).waiting()
    }

    #[cold]
    #[inline(never)]
    fn try_enter(
        &self,
        state: &mut State<H::Value>,
        node: &WaitNode,
        wakes: &mut Wakes,
    ) -> Option<u32> {
        let channel = self.0.channel();
        channel.block_spot(state);
        if !S::SENDS {
            channel.refill(state, wakes);
        }
        let answer = channel.with_side::<S, _>(state, |line, supply| {
            line.admit(supply);
            line.enter(supply, node)
        });
        if answer.is_some() {
            channel.clear_spot(state);
        } else if !S::SENDS && channel.ring.is_none() {
            // A waiting receiver is a place. This one counts, though it is not in the list yet.
            let State { ends, rendezvous, .. } = state;
            let receivers = ends.receivers.len() + 1;
            let mut places = OfRendezvous::<_, Senders>(rendezvous, receivers, PhantomData);
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
        let channel = self.0.channel();
        // A new node has the answer 0, as if it were a permit. One that was called has another.
        if node.answer() != PERMIT || node.cell.get().is_null() {
            return false;
        }
        let overflows = channel.ring.as_ref().is_some_and(Ring::overflows);
        let may_sit = !(S::SENDS && overflows);
        may_sit && node.sit(who(), |node| channel.seat::<S>().sit::<S>(node))
    }

    #[inline]
    fn has_news(&self) -> bool {
        let ring = self.0.channel().ring.as_ref();
        ring.is_some_and(Ring::has_news::<S>)
    }

    #[inline]
    fn stand_up(&self, node: &WaitNode) -> bool {
        node.stand_up(|node| self.0.channel().seat::<S>().take::<S>(node))
    }

    #[cold]
    #[inline(never)]
    fn left(&self, state: &mut State<H::Value>, wakes: &mut Wakes) {
        let channel = self.0.channel();
        channel.with_side::<S, _>(state, |line, supply| line.serve(supply, wakes));
        channel.clear_spot(state);
    }

    #[cold]
    #[inline(never)]
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
