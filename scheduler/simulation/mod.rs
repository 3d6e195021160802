//! The scheduler on one OS thread, with every choice made from a seed.
//!
//! A [`Simulation`] is the [controller](crate::shim::Controller) of the OS thread that runs it. It
//! runs **virtual threads**: the test, the workers of each runtime that the test makes, the threads
//! for blocking calls, and the threads that the test starts with `cygnet::sim::thread`. The
//! scheduler does not know of the simulation: the same code runs on the simulation face of the
//! [shim](crate::shim).
//!
//! | file | |
//! | --- | --- |
//! | `flow` | a virtual thread as a flow of control, with its stack |
//! | `roster` | the virtual threads of a run, and the state of each |
//! | `steps` | which thread runs next, and the clock |
//! | `choice` | the choosers: random, or by a plan |
//! | `machine` | the model of a machine, which decides instead of a chooser |
//! | `panic_count` | `std`'s count of panics, one for each virtual thread |
//! | `trace`, `progress` | the last switches; how far a run is, for another OS thread |
//! | `random`, `set` | seeded numbers; sets of threads |
//!
//! # Flows
//!
//! A virtual thread is a [flow](flow::Flow) with its own stack, which stands for the stack of an OS
//! thread. Its code may run on other stacks: a worker runs tasks on theirs. To leave a virtual
//! thread, the simulation saves its context, on whichever stack it is, with the two words that the
//! library keeps for each thread and the standard library's [count of its panics](panic_count). To
//! resume it, the simulation restores all of these. So a switch between virtual threads may happen
//! inside any function of the library that touches an atomic. The scheduler's own switches, between
//! coroutines, happen as usual.
//!
//! The *host* is the flow that has called [`Simulation::run`]. It resumes when all virtual threads
//! have ended, or at the first failure. After a failure the other flows are never resumed. Their
//! stacks hold live frames, and are leaked.
//!
//! # Choices
//!
//! At each *point* (an access to an atomic or a lock) the [chooser](choice::Chooser) picks the
//! thread that runs next: the running thread, or another one that is ready. If the running thread
//! waits or gives way, the chooser picks one of the others. The chooser, the program's own random
//! numbers, and the faults draw from three streams of one seed. So the same program with the same
//! seed gives the same run, on any machine.
//!
//! # Time
//!
//! A step takes ten nanoseconds, and a turn of a loop that waits for other threads takes a
//! microsecond. The time of a chunk of a timed parallel loop comes from the seed. If no thread is
//! ready, the clock jumps to the earliest time until which a thread waits. If there is no such time
//! either, the run is over. It is a *deadlock* if some virtual thread has not ended.
//!
//! # What a simulation does not see
//!
//! Weak memory orderings (loom checks these), and effects of virtual threads on each other that
//! bypass the shim: see [`crate::shim`].

mod choice;
mod flow;
mod machine;
mod panic_count;
mod progress;
mod random;
mod roster;
mod set;
mod steps;
mod trace;

pub(crate) use choice::{Choice, Chooser};
pub(crate) use machine::{Account, Place, Shape, Tally};
pub(crate) use progress::Progress;
pub(crate) use trace::{Event, Step, Trace};

use crate::retire::overflow::AltStack;
use crate::scheduler::worker::Worker;
use crate::shim::{Access, Bug, Controller, Fault, Turn, VirtualThread, install, is_simulated};
use flow::{Flow, State};
use machine::Machine;
use random::Stream;
use roster::Roster;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use steps::Leaves;

/// The number of processors in a run without a machine.
const PROCESSORS: usize = 4;
/// The longest time of a chunk of a parallel loop.
const LONG: Duration = Duration::from_secs(1);

/// How often each fault happens, out of 65,536 opportunities.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FaultRates {
    pub(crate) steal: u16,
    pub(crate) spurious_unpark: u16,
    pub(crate) stack: u16,
    pub(crate) allocation: u16,
    pub(crate) thread: u16,
    /// The clock jumps by up to a second, at a step.
    pub(crate) clock: u16,
    /// A woken thread becomes ready up to a millisecond later.
    pub(crate) late_wake: u16,
    /// A thread stalls for up to ten milliseconds, at a step.
    pub(crate) stall: u16,
}

/// The configuration of a run.
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) chooser: Chooser,
    pub(crate) faults: FaultRates,
    pub(crate) bug: Option<Bug>,
    /// A run with more steps counts as a livelock.
    pub(crate) most_steps: u64,
    /// A machine model that decides, instead of the chooser, which thread runs and how long each
    /// step takes.
    pub(crate) machine: Option<Shape>,
    /// Whether the trace keeps a backtrace of each of the last switches.
    pub(crate) keeps_calls: bool,
    /// The progress of the run, to be read by other OS threads.
    pub(crate) progress: Arc<Progress>,
}

/// The reason why a run did not complete.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The test has panicked.
    Panicked(Box<dyn Any + Send>),
    /// No thread can ever run again, and some have not ended.
    Deadlock,
    /// The run took more steps than allowed.
    TooManySteps,
    /// The plan does not fit this run.
    Misfit,
}

/// The result of a run.
pub(crate) struct Report {
    pub(crate) failure: Option<Failure>,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
    /// The number of faults that were injected.
    pub(crate) faults: u64,
    pub(crate) time: Duration,
    /// The names of the virtual threads.
    pub(crate) names: Vec<String>,
    /// The test function has returned. Other threads may not have ended.
    pub(crate) returned: bool,
    /// Texts about the waits that threads have described, and about each thread that has not ended.
    pub(crate) left: Vec<String>,
    /// The choices that the run offered, if the chooser keeps them.
    pub(crate) choices: Vec<Choice>,
    /// How the time was spent, if the run had a machine.
    pub(crate) tally: Option<Tally>,
}

/// A run. See the module's documentation.
pub(crate) struct Simulation {
    host: Flow,
    roster: Roster,
    chooser: RefCell<Chooser>,
    /// The random numbers of the program.
    randomness: Stream,
    faults: Stream,
    rates: FaultRates,
    bug: Option<Bug>,
    /// The number of faults that were injected.
    happened: Cell<u64>,
    clock: Cell<Duration>,
    /// With a machine, the clock is that of the running thread, and the chooser is not asked.
    machine: Option<RefCell<Machine>>,
    steps: Cell<u64>,
    most_steps: u64,
    progress: Arc<Progress>,
    /// The number of consecutive turns in which the running thread gave way and no other thread was
    /// ready.
    alone: Cell<u32>,
    numbers: RefCell<BTreeMap<usize, u64>>,
    /// The waits that threads have described.
    waits: RefCell<BTreeMap<u64, Wait>>,
    trace: RefCell<Trace>,
    failure: RefCell<Option<Failure>>,
    /// After a failure: the descriptions of the waits.
    left: RefCell<Vec<String>>,
}

/// A wait, with a description by the thread that waits.
struct Wait {
    flow: usize,
    describe: Box<dyn Fn() -> String>,
}

impl Simulation {
    /// Runs `test` as the first virtual thread, with all threads that it starts.
    ///
    /// # Panics
    /// If called inside another simulation, or on a worker.
    pub(crate) fn run<'a>(config: Config, test: Box<dyn FnOnce() + 'a>) -> Report {
        // SAFETY: `test` is called, or dropped, within this call. If the call of `test` does not
        // return, its frame is never resumed, and nothing in the frame is dropped.
        let test: Box<dyn FnOnce()> = unsafe { std::mem::transmute(test) };
        assert!(
            Worker::current().is_none(),
            "cygnet: a simulation must not be started inside a task"
        );
        // This panics before the new simulation exists, because the outer one continues.
        assert!(
            !is_simulated(),
            "cygnet: a simulation must not be started inside another simulation"
        );
        panic_count::find();
        let simulation = Rc::new(Simulation {
            host: Flow::of_host(),
            roster: Roster::new(),
            chooser: RefCell::new(config.chooser),
            randomness: Stream::new(config.seed, 1),
            faults: Stream::new(config.seed, 2),
            rates: config.faults,
            bug: config.bug,
            happened: Cell::new(0),
            clock: Cell::new(Duration::ZERO),
            machine: config.machine.map(|shape| RefCell::new(Machine::new(shape))),
            steps: Cell::new(0),
            most_steps: config.most_steps,
            progress: config.progress,
            alone: Cell::new(0),
            numbers: RefCell::default(),
            waits: RefCell::default(),
            trace: RefCell::new(Trace::new(config.keeps_calls)),
            failure: RefCell::new(None),
            left: RefCell::default(),
        });
        simulation.progress.begin();
        // One alternate signal stack for all workers, because it belongs to the OS thread.
        let _alternate = AltStack::install().ok();
        let weak = Rc::downgrade(&simulation);
        let body = move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(test)) {
                let simulation = weak.upgrade().expect("the host keeps it");
                simulation.fail(Failure::Panicked(payload));
            }
        };
        let first = simulation.add(Some("test".to_owned()), Box::new(body));
        let flow = simulation.roster.flow(first);
        install(Some(Rc::clone(&simulation) as Rc<dyn Controller>));
        // SAFETY: the host is running, and the flow is new. Both are alive until the end of the
        // run.
        unsafe { simulation.host.leave_for(&flow) };
        drop(flow);
        install(None);
        simulation.report()
    }

    fn report(self: Rc<Self>) -> Report {
        let flows = self.roster.take_all();
        let mut failure = self.failure.take();
        if self.chooser.borrow().is_misfit(failure.is_none()) {
            failure = Some(Failure::Misfit);
        }
        // A thread that has panicked is left out: the failure reports it.
        let panicked = matches!(failure, Some(Failure::Panicked(_))).then(|| self.roster.running());
        let left = flows
            .iter()
            .enumerate()
            .filter(|&(index, flow)| flow.state.get() != State::Ended && Some(index) != panicked);
        let left = left.map(|(_, flow)| flow.describe());
        let left = self.left.take().into_iter().chain(left).collect();
        let names = flows.iter().map(|flow| flow.name()).collect();
        let told = self.waits.borrow();
        debug_assert!(failure.is_some() || told.is_empty(), "a wait is left after a complete run");
        drop(told);
        let returned = flows.first().is_some_and(|flow| flow.state.get() == State::Ended);
        for flow in flows {
            match Rc::try_unwrap(flow) {
                Ok(flow) if flow.state.get() == State::Ended => flow.recycle(),
                // Its stack holds frames that are never resumed, and that may refer to anything.
                Ok(flow) => std::mem::forget(flow),
                Err(flow) => std::mem::forget(flow),
            }
        }
        let ended = self.machine.as_ref().filter(|_| failure.is_none());
        let time = ended.map_or(self.clock.get(), |machine| machine.borrow().end());
        Report {
            failure,
            trace: self.trace.take(),
            steps: self.steps.get(),
            faults: self.happened.get(),
            time,
            names,
            returned,
            left,
            choices: self.chooser.borrow_mut().take_choices(),
            tally: self.machine.as_ref().map(|machine| machine.borrow().tally()),
        }
    }

    /// Stores the descriptions of the waits, before the stacks of the waiting threads are
    /// abandoned.
    fn remember_waits(&self) {
        // A description may read atomics, which must not lead to another choice.
        let controller = install(None);
        let (waits, flows) = (self.waits.borrow(), self.roster.all());
        let texts = waits
            .values()
            .map(|wait| format!("{}: {}", flows[wait.flow].name(), (wait.describe)()));
        *self.left.borrow_mut() = texts.collect();
        install(controller);
    }

    fn add(&self, name: Option<String>, body: Box<dyn FnOnce()>) -> usize {
        let number = self.roster.all().len();
        let flow = Flow::new(VirtualThread::new(number, name), body, self);
        self.progress.add(flow.name());
        if let Some(machine) = &self.machine {
            machine.borrow_mut().add(number, (number > 0).then(|| self.roster.running()));
        }
        self.roster.add(flow)
    }

    /// Ends the run with a failure. No virtual thread is resumed.
    fn fail(&self, failure: Failure) -> ! {
        self.failure.borrow_mut().get_or_insert(failure);
        self.remember_waits();
        let me = self.roster.flow(self.roster.running());
        // SAFETY: `me` is the running flow, and the host is suspended. Both are alive.
        unsafe { me.leave_for(&self.host) };
        unreachable!("a thread was resumed after the run had failed");
    }
}

impl Controller for Simulation {
    fn point(&self, place: &'static Location<'static>) {
        // A panicking thread may be formatting its message: see `panic_count`.
        if !std::thread::panicking() {
            self.step(Leaves::Freely, place);
        }
    }

    fn access(&self, access: Access, address: usize, place: &'static Location<'static>) {
        self.point(place);
        self.takes_time(access, address, place);
    }

    fn charge(&self, access: Access, address: usize, place: &'static Location<'static>) {
        if self.machine.is_some() {
            self.access(access, address, place);
        }
    }

    fn give_way(&self, turn: Turn, place: &'static Location<'static>) {
        if let Some(machine) = &self.machine {
            machine.borrow_mut().turns(self.roster.running(), turn);
        }
        self.step(Leaves::GivesWay, place);
    }

    fn wait(&self, on: usize, until: Option<Duration>, place: &'static Location<'static>) -> bool {
        let me = self.roster.flow(self.roster.running());
        me.woken.set(false);
        self.roster.set(self.roster.running(), State::Waiting { on, until, place });
        if let Some(machine) = &self.machine {
            machine.borrow_mut().sleeps(self.roster.running(), until);
        }
        self.step(Leaves::Blocked, place);
        me.woken.get()
    }

    fn wake(&self, on: usize, all: bool) {
        let mut waiting = self.roster.waiting_for(on);
        if !all && !waiting.is_empty() {
            let one = self.randomness.next() as usize % waiting.len();
            waiting = vec![waiting[one]];
        }
        for index in waiting {
            self.roster.flow(index).woken.set(true);
            self.roster.set(index, self.after_wake(index));
        }
    }

    fn now(&self) -> Duration {
        self.clock.get()
    }

    fn computed(&self, items: usize) {
        // With a machine, the program states its computing time by `sim::compute`.
        if self.machine.is_none() {
            // The time per item differs at each call. With one short time, a loop that makes its
            // next chunk longer when this one was short would never come to the end of a chunk.
            let each = 1 << (self.randomness.next() % 13);
            let all = Duration::from_nanos((items as u64).saturating_mul(each));
            self.clock.set(self.clock.get() + all.min(LONG));
        }
    }

    fn compute(&self, time: Duration, place: &'static Location<'static>) {
        match &self.machine {
            Some(machine) => {
                let me = self.roster.running();
                let mut left = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                // A point does nothing while the thread unwinds, so no slice can end there.
                let ends_slice = !std::thread::panicking();
                while left > 0 {
                    left = machine.borrow_mut().computes(me, left, ends_slice);
                    self.clock.set(machine.borrow().clock(me));
                    self.point(place);
                }
            }
            None => {
                self.clock.set(self.clock.get() + time);
                self.point(place);
            }
        }
    }

    fn searches(&self, begins: bool) {
        if let Some(machine) = &self.machine {
            machine.borrow_mut().searches(self.roster.running(), begins);
        }
    }

    fn processors(&self) -> usize {
        self.machine.as_ref().map_or(PROCESSORS, |machine| machine.borrow().cores())
    }

    fn spins(&self) -> u32 {
        if self.machine.is_some() { machine::SPINS } else { 0 }
    }

    fn random(&self) -> u64 {
        self.randomness.next()
    }

    fn fault(&self, fault: Fault) -> bool {
        let rate = match fault {
            Fault::Steal => self.rates.steal,
            Fault::SpuriousUnpark => self.rates.spurious_unpark,
            Fault::Stack => self.rates.stack,
            Fault::Allocation => self.rates.allocation,
            Fault::Thread => self.rates.thread,
        };
        self.goes_wrong(rate)
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn numbers(&self, key: usize, count: u64) -> u64 {
        let mut numbers = self.numbers.borrow_mut();
        let next = numbers.entry(key).or_default();
        let first = *next;
        *next += count;
        first
    }

    fn waits(&self, describe: Box<dyn Fn() -> String>) -> u64 {
        let number = self.numbers(ptr::from_ref(self).addr(), 1);
        self.waits.borrow_mut().insert(number, Wait { flow: self.roster.running(), describe });
        number
    }

    fn waits_no_more(&self, number: u64) {
        self.waits.borrow_mut().remove(&number);
    }

    fn current(&self) -> Arc<VirtualThread> {
        Arc::clone(&self.roster.all()[self.roster.running()].thread)
    }

    fn spawn(&self, name: Option<String>, body: Box<dyn FnOnce()>) -> Arc<VirtualThread> {
        let index = self.add(name, body);
        Arc::clone(&self.roster.all()[index].thread)
    }
}
