//! The virtual threads of a run: who runs, who could, who waits for what, and until when.
//!
//! A step is taken at each access to an atomic, and must cost the same however many threads there are. So what it asks is kept up to date where states
//! change, which is seldom: all changes go through [`Roster::set`], and nobody else writes to the state of a flow.

use super::flow::{Flow, State};
use super::set::Set;
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// See the module's documentation.
pub(super) struct Roster {
    flows: RefCell<Vec<Rc<Flow>>>,
    running: Cell<usize>,
    /// Who could go on; the running one is not among them.
    others: RefCell<Set>,
    /// Who waits, by what for: each word of memory with the threads that wait there, in order.
    waiting: RefCell<BTreeSet<(usize, usize)>>,
    /// Nobody's time comes before this; it may be too early, as who is woken leaves it as it is.
    due: Cell<Duration>,
}

impl Roster {
    pub(super) fn new() -> Roster {
        Roster {
            flows: RefCell::default(),
            running: Cell::new(0),
            others: RefCell::default(),
            waiting: RefCell::default(),
            due: Cell::new(Duration::MAX),
        }
    }

    pub(super) fn running(&self) -> usize {
        self.running.get()
    }

    pub(super) fn all(&self) -> Ref<'_, Vec<Rc<Flow>>> {
        self.flows.borrow()
    }

    pub(super) fn take_all(&self) -> Vec<Rc<Flow>> {
        self.flows.take()
    }

    pub(super) fn flow(&self, index: usize) -> Rc<Flow> {
        Rc::clone(&self.flows.borrow()[index])
    }

    /// A new one, which is ready. The first one is the first to run.
    pub(super) fn add(&self, flow: Rc<Flow>) -> usize {
        let index = self.flows.borrow().len();
        self.flows.borrow_mut().push(flow);
        if index != self.running.get() {
            self.others.borrow_mut().insert(index);
        }
        index
    }

    pub(super) fn set(&self, index: usize, state: State) {
        let before = self.flows.borrow()[index].state.replace(state);
        match before {
            State::Ready => self.others.borrow_mut().remove(index),
            State::Waiting { on, .. } => _ = self.waiting.borrow_mut().remove(&(on, index)),
            State::Late { .. } | State::Ended => {}
        }
        match state {
            State::Ready if index != self.running.get() => self.others.borrow_mut().insert(index),
            State::Waiting { on, .. } => _ = self.waiting.borrow_mut().insert((on, index)),
            State::Ready | State::Late { .. } | State::Ended => {}
        }
        self.due.set(state.until().map_or(self.due.get(), |until| until.min(self.due.get())));
    }

    /// Who could go on instead of the running one.
    pub(super) fn others(&self) -> Ref<'_, Set> {
        self.others.borrow()
    }

    /// Whether the running one could go on.
    pub(super) fn is_ready(&self) -> bool {
        self.flows.borrow()[self.running.get()].state.get() == State::Ready
    }

    /// The running one, which is about to be left, is among those who could go on, if it could.
    pub(super) fn readmit(&self) {
        if self.is_ready() {
            self.others.borrow_mut().insert(self.running.get());
        }
    }

    /// Those whose time has come could go on.
    pub(super) fn wake_due(&self, now: Duration) {
        if now < self.due.get() {
            return;
        }
        let is_late = |flow: &Flow| flow.state.get().until().is_some_and(|until| until <= now);
        for index in 0..self.flows.borrow().len() {
            let late = is_late(&self.flows.borrow()[index]);
            if late {
                self.set(index, State::Ready);
            }
        }
        self.due.set(self.first_due().unwrap_or(Duration::MAX));
    }

    /// When the first one's time comes, if anybody's does.
    pub(super) fn first_due(&self) -> Option<Duration> {
        self.flows.borrow().iter().filter_map(|flow| flow.state.get().until()).min()
    }

    /// Those who wait for this word, in order.
    pub(super) fn waiting_for(&self, on: usize) -> Vec<usize> {
        let waiting = self.waiting.borrow();
        waiting.range((on, 0)..=(on, usize::MAX)).map(|&(_, index)| index).collect()
    }

    /// From now on this one runs.
    pub(super) fn runs(&self, next: usize) {
        let before = self.running.replace(next);
        if self.flows.borrow()[before].state.get() == State::Ready {
            self.others.borrow_mut().insert(before);
        }
        self.others.borrow_mut().remove(next);
    }

    pub(super) fn have_all_ended(&self) -> bool {
        self.flows.borrow().iter().all(|flow| flow.state.get() == State::Ended)
    }
}
