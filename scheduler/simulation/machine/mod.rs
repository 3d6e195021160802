//! A simulated machine with many cores, on which each virtual thread has a clock of its own.
//!
//! The simulation is one of discrete events. Of all threads that have a core, the thread with the
//! earliest clock runs next. So a thread makes an access only when no other thread can make an
//! earlier one, and the cost of the access advances that thread's clock alone. The machine leaves
//! nothing to chance: a program takes the same time in every run.
//!
//! # What takes time
//!
//! * An access to an atomic, a lock or a public queue: see [`lines`].
//! * A fence of one core, and a barrier of all cores. The caller of a barrier waits for it, and
//!   every other thread that has a core is interrupted.
//! * A turn of a loop that waits, and a look at the clock.
//! * Going to sleep, for the sleeper; waking, for the waker; and the delay until the sleeper runs.
//! * Computing: the time that the program passes to `sim::compute`. The program's other code is
//!   free. The library's code costs a nanosecond between two accesses.
//!
//! # Cores
//!
//! A thread that can run either has a core or waits in a *line* for one. It takes the core that it
//! had last if that one is free, else any free core. It keeps the core until it sleeps, yields, or
//! has used up its slice while the machine has more threads than cores. The model leaves out how a
//! kernel balances cores, how a woken thread preempts another one, and frequencies.

mod account;
mod lines;

pub use account::{LostTime, Measured, ThreadTimes};

use super::Run;
use crate::shim::{Access, Turn};
use account::{Account, Doing};
use lines::Lines;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::Location;
use std::time::Duration;

/// The time of the library's own code between two accesses, in nanoseconds.
const BETWEEN: u64 = 1;
/// A time that no clock of a machine reaches: 292 years.
const FAR: u64 = u64::MAX / 2;
/// The number of turns for which a thread spins on a held lock before it sleeps, the same as in
/// `std` on Linux.
pub(super) const SPINS: u32 = 100;

macro_rules! shape {
    ($($(#[$doc:meta])* $price:ident = $default:literal;)*) => {
        /// The cores of a machine and its prices in nanoseconds, as `sim::Machine` documents them.
        #[derive(Clone, Debug)]
        pub(crate) struct Shape {
            pub(crate) cores: usize,
            pub(crate) sockets: usize,
            $($(#[$doc])* pub(crate) $price: u64,)*
        }

        impl Shape {
            pub(crate) fn new(cores: usize) -> Shape {
                Shape { cores, sockets: 1, $($price: $default,)* }
            }
        }
    };
}

shape! {
    /// An access to a line that the core holds.
    hit = 1;
    /// A read-modify-write of such a line.
    update = 5;
    /// Moving a line from a core of the same socket, and of another one.
    near = 50;
    far = 130;
    fence = 8;
    /// A barrier, for its caller and for each thread that it interrupts.
    barrier = 3_000;
    interrupt = 1_000;
    /// A turn of a loop, and a turn that offers the core to another thread.
    spin = 20;
    yields = 400;
    clock = 20;
    /// The sleeper's call, the waker's call, and the delay until the woken thread runs.
    sleep = 1_000;
    wake = 1_500;
    wake_up = 6_000;
    /// The delay until a started thread runs.
    start = 20_000;
    /// The time for which a thread keeps its core while other threads wait for one.
    slice = 3_000_000;
}

/// The state of one virtual thread.
#[derive(Default)]
struct Thread {
    clock: u64,
    core: Option<usize>,
    last_core: Option<usize>,
    /// When the thread got its core, or its present slice began.
    since: u64,
    due: Option<u64>,
    account: Account,
}

/// See the module's documentation.
pub(crate) struct Machine {
    pub(super) shape: Shape,
    threads: Vec<Thread>,
    /// The thread that has each core.
    cores: Vec<Option<usize>>,
    /// Threads that have a core, by their clocks, without the one whose code runs.
    going: BTreeSet<(u64, usize)>,
    /// Threads that can run and have no core.
    line: VecDeque<usize>,
    /// Threads that will be able to run, by the time at which they will.
    due: BTreeSet<(u64, usize)>,
    /// Cores that will become free, by time. A core is passed on only when that time is the
    /// earliest of all, because another core may become free before it.
    left: BTreeSet<(u64, usize)>,
    lines: Lines,
    places: BTreeMap<&'static Location<'static>, LostTime>,
    barriers: u64,
    wakes: u64,
}

/// The next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// This thread runs, at the time of its clock.
    Goes(usize),
    /// The wait of this thread is over: it has a core now, or is in the line.
    Arrives(usize),
    /// No thread will ever run again.
    Nobody,
}

impl Machine {
    pub(crate) fn new(shape: Shape) -> Machine {
        Machine {
            cores: vec![None; shape.cores],
            lines: Lines::new(&shape),
            shape,
            threads: Vec::new(),
            going: BTreeSet::new(),
            line: VecDeque::new(),
            due: BTreeSet::new(),
            left: BTreeSet::new(),
            places: BTreeMap::new(),
            barriers: 0,
            wakes: 0,
        }
    }

    pub(super) fn clock(&self, thread: usize) -> Duration {
        Duration::from_nanos(self.threads[thread].clock)
    }

    /// Adds a thread that `starter` starts now. The first thread of a run has no starter.
    pub(super) fn add(&mut self, thread: usize, starter: Option<usize>) {
        debug_assert_eq!(thread, self.threads.len());
        self.threads.push(Thread::default());
        match starter {
            None => self.takes_core(thread, 0, 0),
            Some(starter) => {
                let now = self.threads[starter].clock;
                self.threads[thread].clock = now;
                self.threads[thread].account.now_does(Doing::Sleeping, now);
                self.is_due(thread, now + self.shape.start);
            }
        }
    }

    /// Processes the next event, where `me` is the thread whose code ran last.
    pub(super) fn next(&mut self, me: usize) -> Next {
        let mine = self.threads[me].core.map(|_| (self.threads[me].clock, me));
        // At equal times `me` keeps running.
        let first = self.going.first().copied();
        let earliest = match (mine, first) {
            (Some(mine), Some(first)) if first.0 < mine.0 => Some(first),
            (Some(mine), _) => Some(mine),
            (None, first) => first,
        };
        let comes = |at: u64| earliest.is_none_or(|(earliest, _)| at <= earliest);
        let due = self.due.first().copied();
        if let Some(&(at, core)) = self.left.first()
            && comes(at)
            && due.is_none_or(|due| at <= due.0)
        {
            self.left.remove(&(at, core));
            self.cores[core] = None;
            if let Some(next) = self.line.pop_front() {
                self.takes_core(next, core, at);
                self.going.insert((at, next));
            }
            return self.next(me);
        }
        if let Some((at, thread)) = due
            && comes(at)
        {
            self.arrives(thread, at);
            return Next::Arrives(thread);
        }
        earliest.map_or(Next::Nobody, |(_, thread)| Next::Goes(thread))
    }

    /// Notes that the code of `next` runs from now on instead of that of `me`.
    pub(super) fn switch(&mut self, me: usize, next: usize) {
        if self.threads[me].core.is_some() {
            self.going.insert((self.threads[me].clock, me));
        }
        self.going.remove(&(self.threads[next].clock, next));
    }

    fn is_due(&mut self, thread: usize, at: u64) {
        self.is_due_no_more(thread);
        self.threads[thread].due = Some(at);
        self.due.insert((at, thread));
    }

    fn is_due_no_more(&mut self, thread: usize) {
        if let Some(at) = self.threads[thread].due.take() {
            self.due.remove(&(at, thread));
        }
    }

    fn arrives(&mut self, thread: usize, at: u64) {
        self.is_due_no_more(thread);
        self.threads[thread].account.now_does(Doing::Queueing, at);
        self.threads[thread].clock = at;
        let free = |core: &usize| self.cores[*core].is_none();
        let last = self.threads[thread].last_core.filter(free);
        match last.or_else(|| (0..self.cores.len()).find(free)) {
            Some(core) => {
                self.takes_core(thread, core, at);
                self.going.insert((at, thread));
            }
            None => self.line.push_back(thread),
        }
    }

    fn takes_core(&mut self, thread: usize, core: usize, at: u64) {
        self.cores[core] = Some(thread);
        let thread = &mut self.threads[thread];
        (thread.core, thread.last_core) = (Some(core), Some(core));
        (thread.clock, thread.since) = (at, at);
        thread.account.now_does(Doing::Working, at);
    }

    /// Takes the core from `me`. The core becomes free at the time of `me`'s clock.
    fn leaves_core(&mut self, me: usize, now_does: Doing) {
        let at = self.threads[me].clock;
        self.threads[me].account.now_does(now_does, at);
        let core = self.threads[me].core.take().expect("who runs has a core");
        self.left.insert((at, core));
    }

    /// Sends `me` to the end of the line, if the machine has more threads than cores.
    fn gives_way(&mut self, me: usize) {
        if self.threads.len() > self.cores.len() {
            self.leaves_core(me, Doing::Queueing);
            self.is_due(me, self.threads[me].clock);
        }
    }

    /// Sends `me` to the end of the line if its slice is over. Returns `true` if it is.
    pub(super) fn ends_slice(&mut self, me: usize) -> bool {
        let thread = &mut self.threads[me];
        let ends = thread.clock - thread.since >= self.shape.slice;
        if ends {
            thread.since = thread.clock;
            self.gives_way(me);
        }
        ends
    }

    /// Charges `me` for a turn of a loop that waits.
    pub(super) fn turns(&mut self, me: usize, turn: Turn) {
        match turn {
            Turn::Spin => self.threads[me].clock += self.shape.spin,
            Turn::Yield => {
                self.threads[me].clock += self.shape.yields;
                self.gives_way(me);
            }
        }
    }

    pub(super) fn sleeps(&mut self, me: usize, until: Option<Duration>) {
        self.threads[me].clock += self.shape.sleep;
        // A thread that sleeps for longer sleeps for ever.
        let until = until.and_then(|until| u64::try_from(until.as_nanos()).ok());
        if let Some(until) = until.filter(|until| *until < FAR) {
            let at = until.max(self.threads[me].clock) + self.shape.wake_up;
            self.is_due(me, at);
        }
        self.leaves_core(me, Doing::Sleeping);
    }

    /// `me` wakes `sleeper`. Returns the time at which the sleeper can run.
    pub(super) fn wakes(&mut self, me: usize, sleeper: usize) -> Duration {
        self.wakes += 1;
        self.threads[me].clock += self.shape.wake;
        let at = self.threads[me].clock.max(self.threads[sleeper].clock) + self.shape.wake_up;
        self.is_due(sleeper, at);
        Duration::from_nanos(at)
    }

    pub(super) fn ends(&mut self, me: usize) {
        self.leaves_core(me, Doing::Nothing);
    }

    /// The core of `me`, which looks where it runs, as a look at the clock takes.
    pub(super) fn processor(&mut self, me: usize) -> usize {
        let thread = &mut self.threads[me];
        thread.clock += self.shape.clock;
        thread.core.expect("who runs has a core")
    }

    /// `me` begins to look for work, or ends it.
    pub(super) fn searches(&mut self, me: usize, begins: bool) {
        let thread = &mut self.threads[me];
        thread.account.searches(begins, thread.clock);
    }

    /// `me` computes for `time`, or until its slice ends if `ends_slice`. Returns the time that is
    /// left.
    pub(super) fn computes(&mut self, me: usize, time: u64, ends_slice: bool) -> u64 {
        let slice = self.shape.slice;
        let thread = &mut self.threads[me];
        let left = (thread.since + slice).saturating_sub(thread.clock).max(1);
        let now = if ends_slice { time.min(left) } else { time };
        thread.account.computes(now);
        thread.clock += now;
        time - now
    }

    /// Charges `me` for an access.
    pub(super) fn access(
        &mut self,
        me: usize,
        access: Access,
        address: usize,
        place: &'static Location<'static>,
    ) {
        let thread = &self.threads[me];
        let (core, now) = (thread.core.expect("who runs has a core"), thread.clock);
        let cost = BETWEEN
            + match access {
                Access::Fence => self.shape.fence,
                Access::Clock => self.shape.clock,
                Access::Barrier => self.barrier(me),
                Access::Load => self.lines.load(address, core, now),
                Access::Store => self.lines.write(address, core, now, self.shape.hit),
                Access::Update => self.lines.write(address, core, now, self.shape.update),
            };
        self.threads[me].clock += cost;
        // An access to a line that the core holds loses nothing.
        if cost > BETWEEN + self.shape.update.max(self.shape.fence).max(self.shape.clock) {
            let none = LostTime { location: place, times: 0, lost: Duration::ZERO };
            let place = self.places.entry(place).or_insert(none);
            place.times += 1;
            place.lost += Duration::from_nanos(cost);
        }
    }

    fn barrier(&mut self, me: usize) -> u64 {
        self.barriers += 1;
        for &other in self.cores.iter().flatten().filter(|other| **other != me) {
            let thread = &mut self.threads[other];
            // The thread has left this core already, at a time that is still to come.
            if thread.core.is_none() {
                continue;
            }
            let was_going = self.going.remove(&(thread.clock, other));
            debug_assert!(was_going, "a thread that has a core goes on at some time");
            thread.clock += self.shape.interrupt;
            self.going.insert((thread.clock, other));
        }
        self.shape.barrier
    }

    /// The time at which the last thread has ended.
    pub(super) fn latest(&self) -> u64 {
        self.threads.iter().map(|thread| thread.clock).max().unwrap_or(0)
    }

    /// What the machine has counted in a run whose threads have these names.
    pub(super) fn measured(&self, run: Run, names: &[String]) -> Measured {
        let end = self.latest();
        let threads = self.threads.iter().zip(names);
        let threads = threads.map(|(thread, name)| thread.account.closed(name.clone(), end));
        let mut places: Vec<_> = self.places.values().copied().collect();
        // The sort is stable, so equal ones stay in the order of their places.
        places.sort_by_key(|place| Reverse(place.lost));
        let (moves, barriers, wakes) = (self.lines.moves, self.barriers, self.wakes);
        Measured { run, threads: threads.collect(), places, moves, barriers, wakes }
    }
}
