//! Which virtual thread runs next, and at what time: chosen at random, or as a machine decides.

use super::flow::{Flow, State};
use super::machine::{Machine, Next};
use super::{Event, Reason, Simulation, Step};
use crate::shim::{Controller, Fault};
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

/// The time of a step.
const STEP: Duration = Duration::from_nanos(10);
/// The time of a turn of a loop that waits for other threads.
const TURN: Duration = Duration::from_micros(1);

/// The longest jump of the clock, delay of a wake-up, and stall of a thread.
const JUMP: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(1);
const STALL: Duration = Duration::from_millis(10);

impl Simulation {
    /// Makes the threads ready that are due. If no other thread is ready, and the running thread is
    /// to be left, moves the clock to the earliest time at which a thread is due. If the running
    /// thread gives way, the clock moves by a turn instead, which doubles in length at each
    /// consecutive turn. It moves no further than that time, but at least by one plain turn.
    fn see_to_clock(&self, leaves: Step) {
        let now = self.clock.get();
        self.roster.wake_due(now);
        if leaves == Step::Preempted {
            return;
        }
        if !self.roster.others.borrow().is_empty() {
            return self.alone.set(0);
        }
        let due = self.roster.first_due();
        let later = if leaves == Step::GaveWay {
            let turns = self.alone.get();
            self.alone.set(turns + 1);
            let later = now + TURN * (1 << turns.min(20));
            Some(due.map_or(later, |due| later.min(due.max(now + TURN))))
        } else {
            // The running thread itself may have become due above.
            due.filter(|_| !self.roster.is_ready()).map(|due| due.max(now))
        };
        if let Some(later) = later {
            self.clock.set(later);
            self.roster.wake_due(later);
        }
        if leaves != Step::GaveWay {
            self.roster.readmit();
        }
    }

    /// Decides whether a fault that is a delay happens now, and returns its length.
    pub(super) fn delay(&self, fault: Fault, longest: Duration) -> Option<Duration> {
        let happens = self.fault(fault);
        happens.then(|| Duration::from_nanos(self.faults.next() % longest.as_nanos() as u64))
    }

    /// Takes a step: runs the next thread. Returns when the calling thread runs again.
    pub(super) fn step(&self, leaves: Step, place: &'static Location<'static>) {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        self.config.progress.step(place);
        if steps > self.config.most_steps {
            self.fail(Reason::TooManySteps);
        }
        match &self.config.machine {
            Some(machine) => self.step_of_machine(machine, leaves, place),
            None => self.step_by_choice(leaves, place),
        }
    }

    fn step_by_choice(&self, leaves: Step, place: &'static Location<'static>) {
        let takes = if leaves == Step::GaveWay { TURN } else { STEP };
        self.clock.set(self.clock.get() + takes);
        if let Some(jump) = self.delay(Fault::Clock, JUMP) {
            self.clock.set(self.clock.get() + jump);
        }
        let me = self.roster.running();
        let mut leaves = leaves;
        if leaves != Step::Waits
            && let Some(stall) = self.delay(Fault::Stall, STALL)
        {
            self.roster.set(me, State::Late { at: self.clock.get() + stall });
            leaves = Step::Stalled;
        }
        self.see_to_clock(leaves);
        let others = self.roster.others.borrow();
        let next = match leaves {
            Step::Preempted | Step::GaveWay if others.is_empty() => me,
            Step::Preempted => self.config.chooser.borrow_mut().at_point(me, &others),
            _ if others.is_empty() => {
                drop(others);
                self.is_stuck(place)
            }
            _ => self.config.chooser.borrow_mut().when_it_must(me, &others),
        };
        drop(others);
        if self.config.chooser.borrow().is_misfit(false) {
            self.fail(Reason::Another);
        }
        self.go_on_with(next, leaves, place);
    }

    /// Runs the thread with the earliest clock.
    fn step_of_machine(
        &self,
        machine: &RefCell<Machine>,
        leaves: Step,
        place: &'static Location<'static>,
    ) {
        let me = self.roster.running();
        let keeps_core = leaves == Step::Preempted && !machine.borrow_mut().ends_slice(me);
        let Some(next) = self.next_of_machine(machine, me) else { self.is_stuck(place) };
        if next == me && keeps_core {
            self.trace.borrow_mut().pass(me, place);
            return;
        }
        machine.borrow_mut().switch(me, next);
        self.go_on_with(next, leaves, place);
    }

    /// Returns the thread that runs next on the machine, and sets the clock to its time. That may
    /// be `me`, the thread whose code ran last. Returns `None` if no thread can ever run again.
    fn next_of_machine(&self, machine: &RefCell<Machine>, me: usize) -> Option<usize> {
        loop {
            let next = machine.borrow_mut().next(me);
            match next {
                Next::Goes(next) => {
                    self.clock.set(machine.borrow().clock(next));
                    return Some(next);
                }
                Next::Arrives(thread) => self.roster.set(thread, State::Ready),
                Next::Nobody => return None,
            }
        }
    }

    /// The state of a thread that the running thread has just woken.
    pub(super) fn after_wake(&self, woken: usize) -> State {
        if let Some(machine) = &self.config.machine {
            return State::Late { at: machine.borrow_mut().wakes(self.roster.running(), woken) };
        }
        let late = self.delay(Fault::LateWake, LATE);
        late.map_or(State::Ready, |delay| State::Late { at: self.clock.get() + delay })
    }

    /// Adds the switch to `next` to the trace.
    fn note(&self, next: usize, step: Step, place: &'static Location<'static>) {
        let (time, from) = (self.clock.get(), self.roster.running());
        self.trace.borrow_mut().add(Event { time, from, step, place, to: next, calls: None });
    }

    fn is_stuck(&self, place: &'static Location<'static>) -> ! {
        self.note(self.roster.running(), Step::Stuck, place);
        self.fail(Reason::Deadlock)
    }

    /// Switches from the running thread to `next`, which may be the same.
    fn go_on_with(&self, next: usize, leaves: Step, place: &'static Location<'static>) {
        let running = self.roster.running();
        if next == running {
            // A thread that was not left is in no list.
            if leaves != Step::Preempted || self.config.machine.is_some() {
                self.roster.runs(running);
            }
            self.trace.borrow_mut().pass(running, place);
            return;
        }
        self.note(next, leaves, place);
        let (me, next_flow) = (self.roster.flow(running), self.roster.flow(next));
        self.roster.runs(next);
        self.config.progress.switch(next);
        me.leave_for(&next_flow);
    }

    /// Ends the running flow, and returns the flow that runs next: another thread, or the host.
    /// Called on the stack of the ending flow, where nothing else is left.
    pub(super) fn end_of_flow(&self) -> *const Flow {
        let me = self.roster.running();
        self.roster.set(me, State::Ended);
        if self.roster.have_all_ended() {
            return &raw const self.host;
        }
        let next = match &self.config.machine {
            Some(machine) => {
                machine.borrow_mut().ends(me);
                let next = self.next_of_machine(machine, me);
                next.inspect(|&next| machine.borrow_mut().switch(me, next))
            }
            None => {
                self.alone.set(0);
                self.see_to_clock(Step::Waits);
                let others = self.roster.others.borrow();
                (!others.is_empty())
                    .then(|| self.config.chooser.borrow_mut().when_it_must(me, &others))
            }
        };
        let Some(next) = next else {
            self.failure.borrow_mut().get_or_insert(Reason::Deadlock);
            self.remember_waits();
            return &raw const self.host;
        };
        let place = Location::caller();
        self.note(next, Step::Ended, place);
        self.roster.runs(next);
        self.config.progress.switch(next);
        Rc::as_ptr(&self.roster.flows.borrow()[next])
    }
}
