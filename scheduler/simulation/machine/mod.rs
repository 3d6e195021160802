//! A machine of many cores: what the virtual threads of a run do takes time, on a clock of each one's own.
//!
//! Discrete events, without any choice: of all threads that have a core the one goes on whose clock is earliest. So an access is made when nobody
//! can make an earlier one any more, and what it costs moves the clock of its thread alone. The same program gives the same times on every run.
//!
//! # What takes time
//!
//! * An *access* to an atomic, a lock or a public queue: by the state of its [cache line](lines).
//! * A *fence* of one core, and a *barrier* of all: its caller waits for it, and each other thread that has a core is interrupted.
//! * Each *turn* of a loop that waits, and each look at the clock.
//! * *Sleeping* and *waking*: the sleeper's call, the waker's call, and how long it takes until the woken thread runs.
//! * *Computing*: what the program says by `sim::compute`. Its own code takes nothing else, but that each access takes a nanosecond more, for the code
//!   between two of them.
//!
//! # Cores
//!
//! A thread that could go on has a core, or waits for one in a *line*. It takes its last core if that is free, else any that is free. It has it until it
//! waits, yields, or has had it for a slice while others wait in line. So there may be more threads than cores, as on a real machine; the kernel's
//! balance, its preemption by those that wake up, and frequencies are left out.

mod account;
mod lines;

pub(crate) use account::{Account, Place, Tally};

use crate::shim::{Access, Turn};
use account::Doing;
use lines::Lines;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::Location;
use std::time::Duration;

/// What the code takes between two accesses.
const BETWEEN: u64 = 1;
/// How many turns a thread looks at a lock before it sleeps, as those of `std` do on Linux.
pub(super) const SPINS: u32 = 100;

/// What there is of it and what it costs, in nanoseconds. The defaults and their sources are documented in `sim::Machine`.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) cores: usize,
    pub(crate) sockets: usize,
    /// An access to a line that the core has.
    pub(crate) hit: u64,
    /// A read-modify-write of such a line.
    pub(crate) update: u64,
    /// A line comes from another core, of the same socket or of another one.
    pub(crate) near: u64,
    pub(crate) far: u64,
    pub(crate) fence: u64,
    /// A barrier of all cores, for its caller, and for each thread that it interrupts.
    pub(crate) barrier: u64,
    pub(crate) interrupt: u64,
    /// A turn of a loop, and one in which the core may be given away.
    pub(crate) spin: u64,
    pub(crate) yields: u64,
    pub(crate) clock: u64,
    /// The call of a thread that goes to sleep; the waker's call; from there until the woken one runs.
    pub(crate) sleep: u64,
    pub(crate) wake: u64,
    pub(crate) wake_up: u64,
    /// From the start of a thread until it runs.
    pub(crate) start: u64,
    /// How long a thread may have a core while others wait for one.
    pub(crate) slice: u64,
}

/// A virtual thread, by its index in the run.
#[derive(Default)]
struct Thread {
    clock: u64,
    core: Option<usize>,
    last_core: Option<usize>,
    /// Since when it has its core.
    since: u64,
    due: Option<u64>,
    account: Account,
}

/// See the module's documentation.
pub(crate) struct Machine {
    shape: Shape,
    threads: Vec<Thread>,
    /// Who has which core.
    cores: Vec<Option<usize>>,
    /// Who has a core and does not run at present, the earliest first.
    going: BTreeSet<(u64, usize)>,
    /// Who could go on and has no core.
    line: VecDeque<usize>,
    /// Who could go on at which time.
    due: BTreeSet<(u64, usize)>,
    /// Which core is left at which time. Whoever it is left for comes to it when that is the earliest time of all, and not when it is known.
    left: BTreeSet<(u64, usize)>,
    lines: Lines,
    places: BTreeMap<&'static Location<'static>, Place>,
    barriers: u64,
    wakes: u64,
}

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// This thread goes on, at its time.
    Goes(usize),
    /// The wait of this one is over: it has a core now, or waits for one.
    Arrives(usize),
    /// Nobody can go on any more.
    Nobody,
}

impl Machine {
    pub(super) fn new(shape: Shape) -> Machine {
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

    pub(super) fn cores(&self) -> usize {
        self.shape.cores
    }

    pub(super) fn clock(&self, thread: usize) -> Duration {
        Duration::from_nanos(self.threads[thread].clock)
    }

    /// A thread is started at this time by another one, or is the first one of all. It runs a while later.
    pub(super) fn add(&mut self, thread: usize, starter: Option<usize>) {
        debug_assert_eq!(thread, self.threads.len());
        self.threads.push(Thread::default());
        match starter {
            None => self.takes_core(thread, 0, 0),
            Some(starter) => {
                let now = self.threads[starter].clock;
                self.threads[thread].clock = now;
                self.threads[thread].account.begin(now);
                self.is_due(thread, now + self.shape.start);
            }
        }
    }

    /// Who goes on next, if `me` runs, or is the one that has just lost its core.
    pub(super) fn next(&mut self, me: usize) -> Next {
        let mine = self.threads[me].core.map(|_| (self.threads[me].clock, me));
        // Of two at the same time the running one goes on.
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

    /// `me` is left, for one who has its turn.
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

    /// `me` leaves its core, which is another one's from now on.
    fn leaves_core(&mut self, me: usize, now_does: Doing) {
        let at = self.threads[me].clock;
        self.threads[me].account.now_does(now_does, at);
        let core = self.threads[me].core.take().expect("who runs has a core");
        self.left.insert((at, core));
    }

    /// If others may wait for its core, they come first, and `me` waits for one.
    fn gives_way(&mut self, me: usize) {
        if self.threads.len() > self.cores.len() {
            self.leaves_core(me, Doing::Queueing);
            self.is_due(me, self.threads[me].clock);
        }
    }

    /// If `me` has had its core for a slice, others come first; whether it has.
    pub(super) fn ends_slice(&mut self, me: usize) -> bool {
        let thread = &mut self.threads[me];
        let ends = thread.clock - thread.since >= self.shape.slice;
        if ends {
            thread.since = thread.clock;
            self.gives_way(me);
        }
        ends
    }

    /// A turn of a loop that waits.
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
        if let Some(until) = until {
            // No clock of the machine comes so far.
            let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX / 2);
            let at = until.max(self.threads[me].clock) + self.shape.wake_up;
            self.is_due(me, at);
        }
        self.leaves_core(me, Doing::Sleeping);
    }

    /// `me` wakes one who sleeps. When that one can go on.
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

    /// `me` looks for work from now on, or no more.
    pub(super) fn searches(&mut self, me: usize, begins: bool) {
        let thread = &mut self.threads[me];
        thread.account.searches(begins, thread.clock);
    }

    /// `me` computes for `time`, up to the end of its slice; what is left of it then.
    pub(super) fn computes(&mut self, me: usize, time: u64) -> u64 {
        let slice = self.shape.slice;
        let thread = &mut self.threads[me];
        let now = time.min((thread.since + slice).saturating_sub(thread.clock).max(1));
        thread.account.computes(now);
        thread.clock += now;
        time - now
    }

    /// `me` does this.
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
        // What a line costs that the core has is no loss.
        if cost > BETWEEN + self.shape.update.max(self.shape.fence).max(self.shape.clock) {
            self.places.entry(place).or_default().lost(cost);
        }
    }

    fn barrier(&mut self, me: usize) -> u64 {
        self.barriers += 1;
        for &other in self.cores.iter().flatten().filter(|other| **other != me) {
            let thread = &mut self.threads[other];
            // One that has left its core has been noted down for later than now.
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

    /// All that it has counted.
    pub(super) fn tally(&self) -> Tally {
        let end = self.threads.iter().map(|thread| thread.clock).max().unwrap_or(0);
        let accounts = self.threads.iter().map(|thread| thread.account.closed(end)).collect();
        let moves = self.lines.moves();
        Tally::new(accounts, &self.places, moves, self.barriers, self.wakes)
    }
}
