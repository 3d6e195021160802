//! The virtual threads of a run: which one runs, which are ready, and what each of the others waits
//! for, and until when.
//!
//! A step is taken at each access to an atomic, and its cost must not depend on the number of
//! threads. So the answers that a step needs are kept up to date where states change, which is
//! rare. Every change of a state goes through [`Roster::set`]; no other code writes the state of a
//! flow.

use super::flow::{Flow, State};
use super::set::Set;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Roster {
    pub(super) flows: RefCell<Vec<Rc<Flow>>>,
    running: Cell<usize>,
    /// The ready threads, without the running one.
    pub(super) others: RefCell<Set>,
    /// The waiting threads, as pairs of the word waited for and the thread.
    waiting: RefCell<BTreeSet<(usize, usize)>>,
    /// No thread is due before this time. It may be too early, because a wake-up does not update
    /// it.
    due: Cell<Duration>,
}

impl Roster {
    pub(super) fn new() -> Roster {
        Roster { due: Cell::new(Duration::MAX), ..Roster::default() }
    }

    pub(super) fn running(&self) -> usize {
        self.running.get()
    }

    pub(super) fn flow(&self, index: usize) -> Rc<Flow> {
        Rc::clone(&self.flows.borrow()[index])
    }

    /// Adds a new flow, which is ready. The first flow runs first.
    pub(super) fn add(&self, flow: Rc<Flow>) -> usize {
        let index = self.flows.borrow().len();
        self.flows.borrow_mut().push(flow);
        if index != self.running.get() {
            self.others.borrow_mut().insert(index);
        }
        index
    }

    /// Changes the state of a thread.
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

    /// Returns whether the running thread is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.flows.borrow()[self.running.get()].state.get() == State::Ready
    }

    /// Adds the running thread, which is about to be left, to the other ready threads, if it is
    /// ready.
    pub(super) fn readmit(&self) {
        if self.is_ready() {
            self.others.borrow_mut().insert(self.running.get());
        }
    }

    /// Makes all threads ready that are due at `now`.
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

    /// Returns the earliest time at which a thread is due, if there is one.
    pub(super) fn first_due(&self) -> Option<Duration> {
        self.flows.borrow().iter().filter_map(|flow| flow.state.get().until()).min()
    }

    /// Returns the threads that wait for this word, in order.
    pub(super) fn waiting_for(&self, on: usize) -> Vec<usize> {
        let waiting = self.waiting.borrow();
        waiting.range((on, 0)..=(on, usize::MAX)).map(|&(_, index)| index).collect()
    }

    /// Makes `next` the running thread.
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
