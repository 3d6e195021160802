//! Swansongs beside a plain model of them. After each operation everything visible is compared with
//! the model.

use super::{Watched, completion_of};
use crate::common::prelude::*;
use cygnet::shutdown::ShutdownState::{Complete, Running, ShuttingDown};
use cygnet::shutdown::{Guard, Interrupt, ShutdownCompletion, ShuttingDown as Signal, Swansong};
use std::future::Pending;

/// A future that waits, and its answers so far.
struct Waiting<F> {
    watched: Watched<F>,
    /// Polled after each operation.
    is_eager: bool,
    /// The number of wakes before the last poll, if the future waited then.
    waits_since: Option<usize>,
    has_resolved: bool,
}

impl<F: Future + Unpin> Waiting<F> {
    fn new(future: F, is_eager: bool) -> Waiting<F> {
        Waiting { watched: Watched::new(future), is_eager, waits_since: None, has_resolved: false }
    }

    /// Polls the future, and compares: a resolved future stays so, and a waiting future was woken.
    #[track_caller]
    fn look(&mut self, expected: Option<bool>) {
        let wakes = self.watched.called.count();
        let resolved = self.watched.poll().is_some();
        if let Some(expected) = expected {
            assert_eq!(resolved, expected || self.has_resolved);
        }
        if resolved && let Some(before) = self.waits_since {
            assert!(wakes > before, "it was not woken");
        }
        assert!(resolved || !self.has_resolved, "a resolved future waits again");
        self.has_resolved = resolved;
        self.waits_since = (!resolved).then_some(self.watched.called.count());
    }

    /// Changes the waker.
    fn move_on(self) -> Waiting<F> {
        let watched = Watched::new(self.watched.future);
        Waiting { watched, waits_since: None, ..self }
    }
}

type Interrupted = Interrupt<Pending<()>>;

/// One Swansong with its parts, and the little that the model knows of it.
struct Node {
    parent: Option<usize>,
    is_stopped: bool,
    handles: Vec<Swansong>,
    guards: Vec<Guard>,
    completions: Vec<Waiting<ShutdownCompletion>>,
    signals: Vec<Waiting<Signal>>,
    /// The interrupts, and whether each holds a guard.
    interrupts: Vec<(Waiting<Interrupted>, bool)>,
}

/// Parts of a node that can be dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Handle,
    Guard,
    Completion,
    Signal,
    Interrupt,
}

/// The answer of the model about a node.
#[derive(Clone, Copy, Default)]
struct Told {
    guards: usize,
    /// Whether a part must keep the node, and whether a part may keep it.
    must_live: bool,
    may_live: bool,
}

#[derive(Default)]
pub(crate) struct World {
    /// In an order with parents first.
    nodes: Vec<Node>,
}

impl World {
    fn add(&mut self, swansong: Swansong, parent: Option<usize>) -> usize {
        let is_stopped = parent.is_some_and(|parent| self.nodes[parent].is_stopped);
        self.nodes.push(Node {
            parent,
            is_stopped,
            handles: vec![swansong],
            guards: Vec::new(),
            completions: Vec::new(),
            signals: Vec::new(),
            interrupts: Vec::new(),
        });
        self.nodes.len() - 1
    }

    pub(crate) fn root(&mut self) -> usize {
        self.add(Swansong::new(), None)
    }

    /// The nodes that have handles.
    pub(crate) fn named(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&n| !self.nodes[n].handles.is_empty()).collect()
    }

    /// The nodes that have such a part.
    pub(crate) fn with(&self, part: Part) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&n| self.count(n, part) > 0).collect()
    }

    pub(crate) fn count(&self, n: usize, part: Part) -> usize {
        let node = &self.nodes[n];
        match part {
            Part::Handle => node.handles.len(),
            Part::Guard => node.guards.len(),
            Part::Completion => node.completions.len(),
            Part::Signal => node.signals.len(),
            Part::Interrupt => node.interrupts.len(),
        }
    }

    pub(crate) fn is_stopped(&self, n: usize) -> bool {
        self.nodes[n].is_stopped
    }

    fn handle(&self, n: usize) -> &Swansong {
        self.nodes[n].handles.last().unwrap()
    }

    pub(crate) fn child(&mut self, n: usize) -> usize {
        self.add(self.handle(n).child(), Some(n))
    }

    /// Makes many children, and drops them.
    pub(crate) fn crowd(&self, n: usize) {
        let children: Vec<_> = (0..200).map(|_| self.handle(n).child()).collect();
        drop(children);
    }

    pub(crate) fn clone_handle(&mut self, n: usize) {
        let clone = self.handle(n).clone();
        self.nodes[n].handles.push(clone);
    }

    pub(crate) fn guard(&mut self, n: usize) {
        let guard = self.handle(n).guard();
        self.nodes[n].guards.push(guard);
    }

    pub(crate) fn clone_guard(&mut self, n: usize) {
        let clone = self.nodes[n].guards[0].clone();
        self.nodes[n].guards.push(clone);
    }

    pub(crate) fn completion(&mut self, n: usize, is_eager: bool) {
        let completion = completion_of(self.handle(n));
        self.nodes[n].completions.push(Waiting::new(completion, is_eager));
    }

    pub(crate) fn signal(&mut self, n: usize, is_eager: bool) {
        let signal = self.handle(n).shutting_down();
        self.nodes[n].signals.push(Waiting::new(signal, is_eager));
    }

    pub(crate) fn interrupt(&mut self, n: usize, is_eager: bool) {
        let interrupt = self.handle(n).interrupt(pending());
        self.nodes[n].interrupts.push((Waiting::new(interrupt, is_eager), false));
    }

    pub(crate) fn shut_down(&mut self, n: usize, is_eager: bool) {
        let completion = self.handle(n).shut_down();
        self.nodes[n].completions.push(Waiting::new(completion, is_eager));
        self.stop(n);
    }

    /// Stops a subtree in the model only.
    fn stop(&mut self, n: usize) {
        self.nodes[n].is_stopped = true;
        for below in n + 1..self.nodes.len() {
            if let Some(parent) = self.nodes[below].parent
                && self.is_below(parent, n)
            {
                self.nodes[below].is_stopped = true;
            }
        }
    }

    fn is_below(&self, mut n: usize, above: usize) -> bool {
        loop {
            match self.nodes[n].parent {
                _ if n == above => return true,
                Some(parent) => n = parent,
                None => return false,
            }
        }
    }

    pub(crate) fn drop_part(&mut self, n: usize, part: Part, at: usize) {
        let node = &mut self.nodes[n];
        match part {
            Part::Handle => drop(node.handles.swap_remove(at)),
            Part::Guard => drop(node.guards.swap_remove(at)),
            Part::Completion => drop(node.completions.swap_remove(at)),
            Part::Signal => drop(node.signals.swap_remove(at)),
            Part::Interrupt => drop(node.interrupts.swap_remove(at)),
        }
        if matches!(part, Part::Handle) && node.handles.is_empty() && node.parent.is_none() {
            self.stop(n);
        }
    }

    /// Makes an interrupt hold a guard.
    pub(crate) fn guard_interrupt(&mut self, n: usize, at: usize) {
        let Told { must_live, may_live, .. } = self.told()[n];
        if must_live != may_live {
            return;
        }
        let (interrupt, was_guarded) = self.nodes[n].interrupts.swap_remove(at);
        let Waiting { watched: Watched { future, called }, .. } = interrupt;
        let watched = Watched { future: future.guarded(), called };
        let interrupt = Waiting { watched, ..interrupt };
        self.nodes[n].interrupts.push((interrupt, was_guarded || must_live));
    }

    /// Polls every waiting future of a node, with another waker.
    pub(crate) fn move_on(&mut self, n: usize) {
        let told = self.told();
        let node = &mut self.nodes[n];
        node.completions = node.completions.drain(..).map(Waiting::move_on).collect();
        node.signals = node.signals.drain(..).map(Waiting::move_on).collect();
        node.interrupts =
            node.interrupts.drain(..).map(|(it, guards)| (it.move_on(), guards)).collect();
        node.look(told[n], true);
    }

    fn told(&self) -> Vec<Told> {
        let mut told = vec![Told::default(); self.nodes.len()];
        for (n, node) in self.nodes.iter().enumerate().rev() {
            let of = &mut told[n];
            of.guards += node.guards.len() + node.interrupts.iter().filter(|it| it.1).count();
            let is_complete = node.is_stopped && of.guards == 0;
            let waits = node.completions.iter().any(|it| !it.has_resolved && !is_complete);
            let has_guards = !node.guards.is_empty() || node.interrupts.iter().any(|it| it.1);
            of.must_live |= !node.handles.is_empty() || has_guards || waits;
            of.may_live |= of.must_live || !node.completions.is_empty() || !node.signals.is_empty();
            let of = *of;
            if let Some(parent) = node.parent {
                told[parent].guards += of.guards;
                told[parent].must_live |= of.must_live;
                told[parent].may_live |= of.may_live;
            }
        }
        told
    }

    /// Compares every node with the model.
    #[track_caller]
    pub(crate) fn check(&mut self) {
        let told = self.told();
        for (node, told) in self.nodes.iter_mut().zip(told) {
            node.look(told, false);
        }
        let named: Vec<_> = self.nodes.iter().filter_map(|node| node.handles.first()).collect();
        for pair in named.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
    }
}

impl Node {
    #[track_caller]
    fn look(&mut self, told: Told, also_lazy: bool) {
        let is_complete = self.is_stopped && told.guards == 0;
        let state = match (self.is_stopped, is_complete) {
            (false, _) => Running,
            (true, false) => ShuttingDown,
            (true, true) => Complete,
        };
        for handle in &self.handles {
            assert_eq!((handle.state(), handle.guard_count()), (state, told.guards));
            assert_eq!(*handle, self.handles[0]);
        }
        assert!(self.guards.windows(2).all(|pair| pair[0] == pair[1]));
        for it in self.completions.iter_mut().filter(|it| also_lazy || it.is_eager) {
            it.look(Some(is_complete));
        }
        // A completion that waited at that moment has been woken, and may be polled later.
        for it in self.completions.iter_mut().filter(|it| is_complete && it.waits_since.is_some()) {
            it.has_resolved = true;
        }
        // Of a node that may be gone or not, the model knows only whether it has been stopped.
        let goes_on = told.must_live.then_some(false);
        for it in self.signals.iter_mut().filter(|it| also_lazy || it.is_eager) {
            it.look(if self.is_stopped { Some(true) } else { goes_on });
        }
        let ends = self.is_stopped || !told.may_live;
        for (it, _) in self.interrupts.iter_mut().filter(|it| also_lazy || it.0.is_eager) {
            it.look(if ends { Some(true) } else { goes_on });
        }
    }
}
