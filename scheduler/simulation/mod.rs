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
//! fibers, happen as usual.
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
pub use machine::{LostTime, Measured, ThreadTimes};
pub(crate) use machine::{Machine, Shape};
pub(crate) use progress::Progress;
pub(crate) use trace::{Event, Step, Trace};

use crate::retire::overflow::AltStack;
use crate::scheduler::worker::Worker;
use crate::shim::{
    Access, Bug, Controller, FAULTS, Fault, Turn, VirtualThread, install, is_simulated,
};
use crate::task::outcome::panic_text;
use flow::{Flow, State};
use random::Stream;
use roster::Roster;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The number of processors in a run without a machine, and of the sockets that have them.
const PROCESSORS: usize = 4;
const SOCKETS: usize = 2;
/// The longest time of a chunk of a parallel loop.
const LONG: Duration = Duration::from_secs(1);

/// The configuration of a run.
pub(crate) struct Config {
    pub(crate) seed: u64,
    /// Asked unless there is a machine.
    pub(crate) chooser: RefCell<Chooser>,
    /// How often each [`Fault`] happens, out of 65,536 opportunities.
    pub(crate) faults: [u16; FAULTS],
    pub(crate) bug: Option<Bug>,
    /// A run with more steps counts as a livelock.
    pub(crate) most_steps: u64,
    /// A machine model that decides, instead of the chooser, which thread runs and how long each
    /// step takes. The clock is then that of the running thread.
    pub(crate) machine: Option<RefCell<Machine>>,
    /// Whether the trace keeps a backtrace of each of the last switches.
    pub(crate) keeps_calls: bool,
    /// The progress of the run, to be read by other OS threads.
    pub(crate) progress: Arc<Progress>,
}

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The test panicked with this message.
    Panicked(String),
    /// A deadlock: no thread can go on, and no timer is set.
    Deadlock,
    /// The run took as many steps as it [may](crate::sim::Options::most_steps).
    TooManySteps,
    /// The run does not follow its schedule. The program has changed, or depends on something that
    /// no seed decides, such as real time or the order of a `HashMap`.
    Another,
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Run {
    /// A hash of the run's events: which thread did what, where and when. It is the same for the
    /// same program and seed.
    pub trace_hash: u64,
    /// The number of steps.
    pub steps: u64,
    /// How often a [fault](crate::sim::Faults) happened.
    pub faults: u64,
    /// How long the run took on its own clock.
    pub time: Duration,
    /// The number of virtual threads: the test's own, the workers, the threads for blocking calls,
    /// and the threads that the test started. All of them have ended, unless the run failed.
    pub threads: usize,
}

/// All about a run.
pub(crate) struct Report {
    pub(crate) failure: Option<Reason>,
    pub(crate) trace: Trace,
    pub(crate) run: Run,
    /// The names of the virtual threads.
    pub(crate) names: Vec<String>,
    /// The test function has returned. Other threads may not have ended.
    pub(crate) returned: bool,
    /// Texts about the waits that threads have described, and about each thread that has not ended.
    pub(crate) left: Vec<String>,
    /// The choices that the run offered, if the chooser keeps them.
    pub(crate) choices: Vec<Choice>,
    /// How the time was spent, if the run had a machine.
    pub(crate) measured: Option<Measured>,
}

/// A run. See the module's documentation.
pub(crate) struct Simulation {
    config: Config,
    host: Flow,
    roster: Roster,
    /// The random numbers of the program.
    randomness: Stream,
    faults: Stream,
    /// The number of faults that were injected.
    happened: Cell<u64>,
    clock: Cell<Duration>,
    steps: Cell<u64>,
    /// The number of consecutive turns in which the running thread gave way and no other thread was
    /// ready.
    alone: Cell<u32>,
    numbers: RefCell<BTreeMap<usize, u64>>,
    /// The waits that threads have described.
    waits: RefCell<BTreeMap<u64, Wait>>,
    trace: RefCell<Trace>,
    failure: RefCell<Option<Reason>>,
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
        assert!(Worker::current().is_none(), "cygnet: a simulation was started inside a task");
        // This panics before the new simulation exists, because the outer one continues.
        assert!(!is_simulated(), "cygnet: a simulation was started inside another simulation");
        panic_count::find();
        let simulation = Rc::new(Simulation {
            host: Flow::of_host(),
            roster: Roster::new(),
            randomness: Stream::new(config.seed, 1),
            faults: Stream::new(config.seed, 2),
            happened: Cell::new(0),
            clock: Cell::new(Duration::ZERO),
            steps: Cell::new(0),
            alone: Cell::new(0),
            numbers: RefCell::default(),
            waits: RefCell::default(),
            trace: RefCell::new(Trace::new(config.keeps_calls)),
            failure: RefCell::new(None),
            left: RefCell::default(),
            config,
        });
        simulation.config.progress.begin();
        // One alternate signal stack for all workers, because it belongs to the OS thread.
        let _alternate = AltStack::install().ok();
        let weak = Rc::downgrade(&simulation);
        let body = move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(test)) {
                let simulation = weak.upgrade().expect("the host keeps it");
                let text = panic_text(&payload).to_owned();
                // The payload may be anything. It is leaked, as is the rest of the run.
                std::mem::forget(payload);
                simulation.fail(Reason::Panicked(text));
            }
        };
        let first = simulation.add(Some("test".to_owned()), Box::new(body));
        let flow = simulation.roster.flow(first);
        install(Some(Rc::clone(&simulation) as Rc<dyn Controller>));
        simulation.host.leave_for(&flow);
        drop(flow);
        install(None);
        simulation.report()
    }

    fn report(self: Rc<Self>) -> Report {
        let flows = self.roster.flows.take();
        let mut failure = self.failure.take();
        if self.config.chooser.borrow().is_misfit(failure.is_none()) {
            failure = Some(Reason::Another);
        }
        // A thread that has panicked is left out: the failure reports it.
        let panicked = matches!(failure, Some(Reason::Panicked(_))).then(|| self.roster.running());
        let left = flows
            .iter()
            .enumerate()
            .filter(|&(index, flow)| flow.state.get() != State::Ended && Some(index) != panicked);
        let left = left.map(|(_, flow)| flow.describe());
        let left = self.left.take().into_iter().chain(left).collect();
        let names: Vec<_> = flows.iter().map(|flow| flow.name()).collect();
        let no_wait = self.waits.borrow().is_empty();
        debug_assert!(failure.is_some() || no_wait, "a wait is left after a complete run");
        let returned = flows.first().is_some_and(|flow| flow.state.get() == State::Ended);
        for flow in flows {
            match Rc::try_unwrap(flow) {
                Ok(flow) if flow.state.get() == State::Ended => flow.recycle(),
                // Its stack holds frames that are never resumed, and that may refer to anything.
                Ok(flow) => std::mem::forget(flow),
                Err(flow) => std::mem::forget(flow),
            }
        }
        let machine = self.config.machine.as_ref();
        let ended = machine.filter(|_| failure.is_none());
        let trace = self.trace.take();
        let run = Run {
            trace_hash: trace.hash,
            steps: self.steps.get(),
            faults: self.happened.get(),
            time: ended.map_or(self.clock.get(), |machine| {
                Duration::from_nanos(machine.borrow().latest())
            }),
            threads: names.len(),
        };
        let measured = machine.map(|machine| machine.borrow().measured(run, &names));
        let choices = self.config.chooser.borrow_mut().take_choices();
        Report { failure, trace, run, names, returned, left, choices, measured }
    }

    /// Stores the descriptions of the waits, before the stacks of the waiting threads are
    /// abandoned.
    fn remember_waits(&self) {
        // A description may read atomics, which must not lead to another choice.
        let controller = install(None);
        let (waits, flows) = (self.waits.borrow(), self.roster.flows.borrow());
        let texts = waits
            .values()
            .map(|wait| format!("{}: {}", flows[wait.flow].name(), (wait.describe)()));
        *self.left.borrow_mut() = texts.collect();
        install(controller);
    }

    fn add(&self, name: Option<String>, body: Box<dyn FnOnce()>) -> usize {
        let number = self.roster.flows.borrow().len();
        let flow = Flow::new(VirtualThread::new(number, name), body, self);
        self.config.progress.add(flow.name());
        if let Some(machine) = &self.config.machine {
            machine.borrow_mut().add(number, (number > 0).then(|| self.roster.running()));
        }
        self.roster.add(flow)
    }

    /// Ends the run with a failure. No virtual thread is resumed.
    fn fail(&self, failure: Reason) -> ! {
        self.failure.borrow_mut().get_or_insert(failure);
        self.remember_waits();
        let me = self.roster.flow(self.roster.running());
        me.leave_for(&self.host);
        unreachable!("a thread was resumed after the run had failed");
    }
}

impl Controller for Simulation {
    fn point(&self, place: &'static Location<'static>) {
        // A panicking thread may be formatting its message: see `panic_count`.
        if !std::thread::panicking() {
            self.step(Step::Preempted, place);
        }
    }

    fn access(&self, access: Access, address: usize, place: &'static Location<'static>) {
        self.point(place);
        if let Some(machine) = &self.config.machine {
            let (mut machine, me) = (machine.borrow_mut(), self.roster.running());
            machine.access(me, access, address, place);
            self.clock.set(machine.clock(me));
        }
    }

    fn charge(&self, access: Access, address: usize, place: &'static Location<'static>) {
        if self.config.machine.is_some() {
            self.access(access, address, place);
        }
    }

    fn give_way(&self, turn: Turn, place: &'static Location<'static>) {
        if let Some(machine) = &self.config.machine {
            machine.borrow_mut().turns(self.roster.running(), turn);
        }
        self.step(Step::GaveWay, place);
    }

    fn wait(&self, on: usize, until: Option<Duration>, place: &'static Location<'static>) -> bool {
        let me = self.roster.flow(self.roster.running());
        me.woken.set(false);
        self.roster.set(self.roster.running(), State::Waiting { on, until, place });
        if let Some(machine) = &self.config.machine {
            machine.borrow_mut().sleeps(self.roster.running(), until);
        }
        self.step(Step::Waits, place);
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
        if self.config.machine.is_none() {
            // The time per item differs at each call. With one short time, a loop that makes its
            // next chunk longer when this one was short would never come to the end of a chunk.
            let each = 1 << (self.randomness.next() % 13);
            let all = Duration::from_nanos((items as u64).saturating_mul(each));
            self.clock.set(self.clock.get() + all.min(LONG));
        }
    }

    fn compute(&self, time: Duration, place: &'static Location<'static>) {
        match &self.config.machine {
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
        if let Some(machine) = &self.config.machine {
            machine.borrow_mut().searches(self.roster.running(), begins);
        }
    }

    fn processors(&self) -> usize {
        self.config.machine.as_ref().map_or(PROCESSORS, |machine| machine.borrow().shape.cores)
    }

    fn sockets(&self) -> usize {
        self.config.machine.as_ref().map_or(SOCKETS, |machine| machine.borrow().shape.sockets)
    }

    fn processor(&self) -> usize {
        match &self.config.machine {
            Some(machine) => machine.borrow_mut().processor(self.roster.running()),
            // Any answer is true of some system.
            None => self.randomness.next() as usize % PROCESSORS,
        }
    }

    fn spins(&self) -> u32 {
        if self.config.machine.is_some() { machine::SPINS } else { 0 }
    }

    fn random(&self) -> u64 {
        self.randomness.next()
    }

    fn fault(&self, fault: Fault) -> bool {
        let rate = self.config.faults[fault as usize];
        let happens = rate > 0 && self.faults.happens(rate);
        self.happened.set(self.happened.get() + u64::from(happens));
        happens
    }

    fn has(&self, bug: Bug) -> bool {
        self.config.bug == Some(bug)
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
        Arc::clone(&self.roster.flows.borrow()[self.roster.running()].thread)
    }

    fn spawn(&self, name: Option<String>, body: Box<dyn FnOnce()>) -> Arc<VirtualThread> {
        let index = self.add(name, body);
        Arc::clone(&self.roster.flows.borrow()[index].thread)
    }
}
