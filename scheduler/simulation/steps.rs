//! Which virtual thread runs next, and at what time: chosen at random, or as a machine decides.

use super::flow::{Flow, State};
use super::machine::{Machine, Next};
use super::{Event, Failure, Simulation, Step};
use crate::shim::Access;
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

/// How the running thread comes to a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    /// The thread can continue.
    Freely,
    /// The thread gives way to another one, if one is ready.
    GivesWay,
    /// The thread waits.
    Blocked,
    /// A fault stalls the thread.
    Stalled,
}

impl Leaves {
    fn step(self) -> Step {
        match self {
            Leaves::Freely => Step::Preempted,
            Leaves::GivesWay => Step::GaveWay,
            Leaves::Blocked => Step::Waits,
            Leaves::Stalled => Step::Stalled,
        }
    }
}

impl Simulation {
    /// Makes the threads ready that are due. If no other thread is ready, and the running thread is
    /// to be left, moves the clock to the earliest time at which a thread is due. If the running
    /// thread gives way, the clock moves by a turn instead, which doubles in length at each
    /// consecutive turn. It moves no further than that time, but at least by one plain turn.
    fn see_to_clock(&self, leaves: Leaves) {
        let now = self.clock.get();
        self.roster.wake_due(now);
        if leaves == Leaves::Freely {
            return;
        }
        if !self.roster.others().is_empty() {
            return self.alone.set(0);
        }
        let due = self.roster.first_due();
        let later = if leaves == Leaves::GivesWay {
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
        if leaves != Leaves::GivesWay {
            self.roster.readmit();
        }
    }

    /// Decides, at this rate, whether a fault happens now.
    pub(super) fn goes_wrong(&self, rate: u16) -> bool {
        let happens = rate > 0 && self.faults.happens(rate);
        self.happened.set(self.happened.get() + u64::from(happens));
        happens
    }

    /// Decides, at this rate, whether a delay happens now, and returns its length.
    pub(super) fn delay(&self, rate: u16, longest: Duration) -> Option<Duration> {
        let happens = self.goes_wrong(rate);
        happens.then(|| Duration::from_nanos(self.faults.next() % longest.as_nanos() as u64))
    }

    /// Takes a step: runs the next thread. Returns when the calling thread runs again.
    pub(super) fn step(&self, leaves: Leaves, place: &'static Location<'static>) {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        self.progress.step(place);
        if steps > self.most_steps {
            self.fail(Failure::TooManySteps);
        }
        match &self.machine {
            Some(machine) => self.step_of_machine(machine, leaves, place),
            None => self.step_by_choice(leaves, place),
        }
    }

    fn step_by_choice(&self, leaves: Leaves, place: &'static Location<'static>) {
        let takes = if leaves == Leaves::GivesWay { TURN } else { STEP };
        self.clock.set(self.clock.get() + takes);
        if let Some(jump) = self.delay(self.rates.clock, JUMP) {
            self.clock.set(self.clock.get() + jump);
        }
        let me = self.roster.running();
        let mut leaves = leaves;
        if leaves != Leaves::Blocked
            && let Some(stall) = self.delay(self.rates.stall, STALL)
        {
            self.roster.set(me, State::Late { at: self.clock.get() + stall });
            leaves = Leaves::Stalled;
        }
        self.see_to_clock(leaves);
        let others = self.roster.others();
        let next = match leaves {
            Leaves::Freely if others.is_empty() => me,
            Leaves::Freely => self.chooser.borrow_mut().at_point(me, &others),
            _ if others.is_empty() && leaves == Leaves::GivesWay => me,
            _ if others.is_empty() => {
                self.trace.borrow_mut().add(self.event(me, Step::Stuck, place));
                drop(others);
                self.fail(Failure::Deadlock)
            }
            _ => self.chooser.borrow_mut().when_it_must(me, &others),
        };
        drop(others);
        if self.chooser.borrow().is_misfit(false) {
            self.fail(Failure::Misfit);
        }
        if next == me {
            if leaves != Leaves::Freely {
                self.roster.runs(me);
            }
            self.trace.borrow_mut().pass(me, place);
            return;
        }
        self.trace.borrow_mut().add(self.event(next, leaves.step(), place));
        self.go_on_with(me, next);
    }

    /// Runs the thread with the earliest clock.
    fn step_of_machine(
        &self,
        machine: &RefCell<Machine>,
        leaves: Leaves,
        place: &'static Location<'static>,
    ) {
        let me = self.roster.running();
        let keeps_core = leaves == Leaves::Freely && !machine.borrow_mut().ends_slice(me);
        let Some(next) = self.next_of_machine(machine, me) else {
            self.trace.borrow_mut().add(self.event(me, Step::Stuck, place));
            self.fail(Failure::Deadlock)
        };
        if next == me && keeps_core {
            self.trace.borrow_mut().pass(me, place);
            return;
        }
        machine.borrow_mut().switch(me, next);
        if next == me {
            self.roster.runs(me);
            self.trace.borrow_mut().pass(me, place);
            return;
        }
        self.trace.borrow_mut().add(self.event(next, leaves.step(), place));
        self.go_on_with(me, next);
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

    /// Charges the running thread for an access, if there is a machine.
    pub(super) fn takes_time(
        &self,
        access: Access,
        address: usize,
        place: &'static Location<'static>,
    ) {
        if let Some(machine) = &self.machine {
            let (mut machine, me) = (machine.borrow_mut(), self.roster.running());
            machine.access(me, access, address, place);
            self.clock.set(machine.clock(me));
        }
    }

    /// The state of a thread that the running thread has just woken.
    pub(super) fn after_wake(&self, woken: usize) -> State {
        if let Some(machine) = &self.machine {
            return State::Late { at: machine.borrow_mut().wakes(self.roster.running(), woken) };
        }
        let late = self.delay(self.rates.late_wake, LATE);
        late.map_or(State::Ready, |delay| State::Late { at: self.clock.get() + delay })
    }

    fn event(&self, next: usize, step: Step, place: &'static Location<'static>) -> Event {
        Event {
            time: self.clock.get(),
            from: self.roster.running(),
            step,
            place,
            to: next,
            calls: None,
        }
    }

    /// Switches from the running thread `me` to `next`.
    pub(super) fn go_on_with(&self, me: usize, next: usize) {
        let (me, next_flow) = (self.roster.flow(me), self.roster.flow(next));
        self.roster.runs(next);
        self.progress.switch(next);
        // SAFETY: `me` is running, and `next` is ready, so it is suspended or new. The roster keeps
        // both.
        unsafe { me.leave_for(&next_flow) };
    }

    /// Ends the running flow, and returns the flow that runs next: another thread, or the host.
    /// Called on the stack of the ending flow, where nothing else is left.
    pub(super) fn end_of_flow(&self) -> *const Flow {
        let me = self.roster.running();
        self.roster.set(me, State::Ended);
        if self.roster.have_all_ended() {
            return &raw const self.host;
        }
        let next = match &self.machine {
            Some(machine) => {
                machine.borrow_mut().ends(me);
                let next = self.next_of_machine(machine, me);
                next.inspect(|&next| machine.borrow_mut().switch(me, next))
            }
            None => {
                self.alone.set(0);
                self.see_to_clock(Leaves::Blocked);
                let others = self.roster.others();
                (!others.is_empty()).then(|| self.chooser.borrow_mut().when_it_must(me, &others))
            }
        };
        let Some(next) = next else {
            self.failure.borrow_mut().get_or_insert(Failure::Deadlock);
            self.remember_waits();
            return &raw const self.host;
        };
        let place = Location::caller();
        self.trace.borrow_mut().add(self.event(next, Step::Ended, place));
        self.roster.runs(next);
        self.progress.switch(next);
        Rc::as_ptr(&self.roster.all()[next])
    }
}
