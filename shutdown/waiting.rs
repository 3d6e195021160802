//! What waiters of a node wait for.

use super::node::State;
use super::node_ref::NodeRef;
use super::word::Look;
use crate::scheduler::wait::waiters::{
    WaitFuture, WaitList, WaitMode, WaitNode, Waitable, Wakes, enter_and,
};
use crate::shim::MutexGuard;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};

/// An event of a node: [`STOP`] or [`END`].
struct Event<const WHICH: bool>(NodeRef);

/// The stop of a node, or its end as an orphan.
pub(super) const STOP: bool = false;
/// The completion of a node.
pub(super) const END: bool = true;

impl<const WHICH: bool> Event<WHICH> {
    fn is_in(look: Look) -> bool {
        if WHICH == END { look.is_complete() } else { look.is_over() }
    }
}

impl<const WHICH: bool> Waitable for Event<WHICH> {
    type State = State;
    const WHAT: &'static str = "the stop or the completion of a Swansong";

    /// A grant is never given back: a stop or a completion that was seen has happened.
    fn stands(&self, _: &WaitNode) -> bool {
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    fn waiters(state: &mut State) -> &mut WaitList {
        if WHICH == END { &mut state.for_end } else { &mut state.for_stop }
    }

    fn try_enter(&self, _: &mut State, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
        // MUTANT(shutdown.wait.look): with { self.0.word.ask_for_visit(); None }
        Self::is_in(self.0.word.ask_for_visit()).then_some(0)
    }

    fn give_back(&self, _: &WaitNode) {}
}

/// A wait for an event of a node. It keeps the node's memory.
pub(super) struct Wait<const WHICH: bool> {
    event: Event<WHICH>,
    /// `Some` between the first poll and the event.
    begun: Option<Pin<Box<WaitFuture<Event<WHICH>>>>>,
}

impl<const WHICH: bool> UnwindSafe for Wait<WHICH> {}
impl<const WHICH: bool> RefUnwindSafe for Wait<WHICH> {}

impl<const WHICH: bool> Wait<WHICH> {
    pub(super) fn new(node: &NodeRef) -> Wait<WHICH> {
        Wait { event: Event(node.clone()), begun: None }
    }

    #[inline(always)]
    pub(super) fn node(&self) -> &NodeRef {
        &self.event.0
    }

    pub(super) fn is_over(&self) -> bool {
        Event::<WHICH>::is_in(self.node().word.look())
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let event = || Event(self.event.0.clone());
        let new = || Box::pin(WaitFuture::new(event(), 0, Location::caller()));
        let polled = self.begun.get_or_insert_with(new).as_mut().poll(cx);
        if polled.is_ready() {
            self.cancel();
        }
        polled.map(|_| ())
    }

    pub(super) fn cancel(&mut self) {
        self.begun = None;
    }

    /// Blocks the calling thread, or parks the calling task. Returns whether the event has
    /// happened: the mode may have cut the wait short.
    #[track_caller]
    pub(super) fn block(&self, mode: WaitMode) -> bool {
        self.is_over() || enter_and(&self.event, 0, mode, None).is_ok()
    }
}
