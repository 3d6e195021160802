//! How long a program takes on a machine that is not there.

use super::report::{Failed, Run};
use super::watchdog::Watchdog;
use crate::scheduler::simulation::{
    Account, Chooser, Config, FaultRates, Place, Shape, Simulation, Tally,
};
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// The largest machine.
const MOST_CORES: usize = 4096;

/// A machine of many cores, on which a program's time is counted: see [`run`](Machine::run).
///
/// [`check`](super::check) asks whether a program is right in any order of events; a machine asks how long it takes in the order that its cores
/// give. Each virtual thread has a clock of its own, and always the one goes on whose clock is earliest. What the library does takes time: an access to an atomic, a lock
/// or a queue, by the state of its cache line; fences; turns of loops that wait; going to sleep and waking. What the program itself computes takes the time
/// that it says by [`compute`](super::compute), and nothing else.
///
/// ```
/// use cygnet::sim::{Machine, compute, now};
/// use std::time::Duration;
///
/// let measured = Machine::new(8).run(|| {
///     let rt = cygnet::Runtime::builder().workers(8).build().unwrap();
///     rt.block_on(|| {
///         let start = now();
///         cygnet::par::for_each(0..800, |_| compute(Duration::from_micros(10))).unwrap();
///         // The ideal: 800 items of 10 us on 8 cores.
///         assert!(now() - start < Duration::from_micros(1_000) * 2);
///     });
/// }).unwrap();
/// // Where the rest has gone, thread by thread, and at which lines of the source.
/// println!("{measured}");
/// ```
///
/// # Prices
///
/// The defaults are those of a server of today, rounded; each can be set. Moves between cores and the barrier were
/// measured by others and by us on machines with two to 64 cores a socket: shapes are to be trusted, digits are not.
///
/// | | |
/// | --- | --- |
/// | access to a line that the core has; a read-modify-write of it; a fence | 1, 5, 8 ns |
/// | the line comes from another core: of this socket, of another one | 50, 130 ns |
/// | `membarrier`: for its caller, for each thread that it interrupts | 3, 1 us |
/// | a turn of a loop that waits; one that yields; a look at the clock | 20, 400, 20 ns |
/// | a thread goes to sleep; is woken, for the waker, and until it runs | 1, 1.5, 6 us |
/// | a thread is started, until it runs | 20 us |
/// | how long a thread has its core while others wait for one | 3 ms |
///
/// # What it does not know
///
/// Caches that are too small, memory that is slow, frequencies, hyperthreads, and a kernel that moves threads. The program's own accesses to
/// what its threads share: they cost nothing. What [the simulation](super) does not see it does not see either.
#[derive(Clone, Debug)]
pub struct Machine {
    shape: Shape,
    seed: u64,
    most_steps: u64,
}

macro_rules! prices {
    ($($(#[$attribute:meta])* $name:ident: $field:ident, $least:expr;)*) => {$(
        $(#[$attribute])*
        #[must_use]
        pub fn $name(mut self, price: Duration) -> Machine {
            self.shape.$field = nanos(stringify!($name), price, $least);
            self
        }
    )*};
}

impl Machine {
    /// So many cores in one socket.
    ///
    /// # Panics
    /// If there are none, or more than 4,096.
    #[must_use]
    pub fn new(cores: usize) -> Machine {
        assert!(cores > 0, "cygnet: a machine without cores does nothing: give it one at least");
        assert!(
            cores <= MOST_CORES,
            "cygnet: a machine of {cores} cores is too large to be simulated: {MOST_CORES} at most"
        );
        let shape = Shape {
            cores,
            sockets: 1,
            hit: 1,
            update: 5,
            near: 50,
            far: 130,
            fence: 8,
            barrier: 3_000,
            interrupt: 1_000,
            spin: 20,
            yields: 400,
            clock: 20,
            sleep: 1_000,
            wake: 1_500,
            wake_up: 6_000,
            start: 20_000,
            slice: 3_000_000,
        };
        Machine { shape, seed: 0, most_steps: u64::MAX }
    }

    /// The cores are divided among so many sockets, as evenly as they can be.
    ///
    /// # Panics
    /// If there are none, or more than cores.
    #[must_use]
    pub fn sockets(mut self, sockets: usize) -> Machine {
        let cores = self.shape.cores;
        assert!(
            (1..=cores).contains(&sockets),
            "cygnet: {cores} cores cannot be divided among {sockets} sockets: one at least, and no more than cores"
        );
        self.shape.sockets = sockets;
        self
    }

    /// What is left to chance follows from this: whom a searcher looks at first.
    #[must_use]
    pub fn seed(self, seed: u64) -> Machine {
        Machine { seed, ..self }
    }

    /// A run with more steps has failed: it seems not to come to an end. None by default.
    #[must_use]
    pub fn most_steps(self, most_steps: u64) -> Machine {
        Machine { most_steps, ..self }
    }

    prices! {
        /// An access to a cache line that the core has.
        ///
        /// # Panics
        /// If it is zero, as no loop would then come to the time that it waits for; or longer than an hour.
        hit: hit, 1;
        /// A read-modify-write of a line that the core has.
        ///
        /// # Panics
        /// If it is longer than an hour.
        update: update, 0;
        /// A line comes from another core of the same socket.
        ///
        /// # Panics
        /// If it is longer than an hour.
        near: near, 0;
        /// A line comes from another socket.
        ///
        /// # Panics
        /// If it is longer than an hour.
        far: far, 0;
        /// A full fence.
        ///
        /// # Panics
        /// If it is longer than an hour.
        fence: fence, 0;
        /// A barrier of all cores (`membarrier`), for the thread that calls it.
        ///
        /// # Panics
        /// If it is longer than an hour.
        barrier: barrier, 0;
        /// The same, for each thread that it interrupts.
        ///
        /// # Panics
        /// If it is longer than an hour.
        interrupt: interrupt, 0;
        /// A turn of a loop that waits.
        ///
        /// # Panics
        /// If it is zero, as the loop would then not come to an end; or longer than an hour.
        spin: spin, 1;
        /// A turn in which the core may be given to another thread.
        ///
        /// # Panics
        /// If it is zero, as above; or longer than an hour.
        yields: yields, 1;
        /// A look at the clock.
        ///
        /// # Panics
        /// If it is longer than an hour.
        clock: clock, 0;
        /// The call of a thread that goes to sleep.
        ///
        /// # Panics
        /// If it is longer than an hour.
        sleep: sleep, 0;
        /// The call of a thread that wakes another one.
        ///
        /// # Panics
        /// If it is longer than an hour.
        wake: wake, 0;
        /// From there until that one runs; and from the time that a sleeper has set until it runs.
        ///
        /// # Panics
        /// If it is longer than an hour.
        wake_up: wake_up, 0;
        /// From the start of a thread until it runs.
        ///
        /// # Panics
        /// If it is longer than an hour.
        start: start, 0;
        /// How long a thread has its core while others wait for one.
        ///
        /// # Panics
        /// If it is zero, as no thread would then do anything; or longer than an hour.
        slice: slice, 1;
    }

    /// Runs a program on this machine, once. The same program on the same machine takes the same time in each process that runs it first. (Later runs of a process find
    /// memory where earlier ones have left it: other variables may share a cache line, and the time differs a little.)
    ///
    /// It builds its runtimes itself, and tells them how many workers they have: by default as many as there are cores. It may start more
    /// threads than there are cores, which then take turns.
    ///
    /// # Errors
    /// How it has failed, as a run of [`explore`](super::explore) does: a panic, a deadlock, too many steps.
    ///
    /// # Panics
    /// In another simulation, and in a task.
    pub fn run(&self, program: impl FnOnce()) -> Result<Measured, Box<Failed>> {
        let watchdog = Watchdog::new();
        let seed = self.seed.to_string();
        watchdog.begin(seed.clone());
        let config = Config {
            seed: self.seed,
            chooser: Chooser::random(self.seed),
            faults: FaultRates::default(),
            bug: None,
            most_steps: self.most_steps,
            keeps_calls: false,
            progress: watchdog.progress(),
            machine: Some(self.shape.clone()),
        };
        let mut report = Simulation::run(config, Box::new(program));
        if report.failure.is_some() {
            return Err(Box::new(Failed::of(report, seed)));
        }
        let tally = report.tally.take().expect("there was a machine");
        Ok(Measured { run: Run::of(&report), names: report.names, tally })
    }
}

fn nanos(name: &str, price: Duration, least: u64) -> u64 {
    const LONGEST: Duration = Duration::from_secs(3600);
    assert!(
        price <= LONGEST,
        "cygnet: {name} of a machine takes {price:?}: an hour at most, and mostly nanoseconds"
    );
    let nanos = price.as_nanos() as u64;
    assert!(
        nanos >= least,
        "cygnet: {name} of a machine takes no time, and time would stand still: a nanosecond at least"
    );
    nanos
}

/// What a run on a [`Machine`] came to. Its text is a table.
#[derive(Clone, Debug)]
pub struct Measured {
    run: Run,
    names: Vec<String>,
    tally: Tally,
}

impl Measured {
    /// Steps, threads, and the whole time from the start of the program to its end. For a part of it the program reads the clock: [`now`](super::now).
    #[must_use]
    pub fn run(&self) -> Run {
        self.run
    }

    /// What each virtual thread has done: the program's own, then those that it started, workers and others, in that order.
    pub fn threads(&self) -> impl Iterator<Item = ThreadTimes<'_>> {
        let times = self.names.iter().zip(&self.tally.accounts);
        times.map(|(name, account)| ThreadTimes { name, account: *account })
    }

    /// The places of the source that have lost time by waiting for cache lines and barriers; those that lost most come first.
    pub fn places(&self) -> impl Iterator<Item = LostTime> {
        self.tally.places.iter().map(|&(location, place)| LostTime { location, place })
    }

    /// How often a cache line has come from another core.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.tally.moves
    }

    /// How often a thread has interrupted all others to have their fences.
    #[must_use]
    pub fn barriers(&self) -> u64 {
        self.tally.barriers
    }

    /// How often a sleeping thread was woken.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.tally.wakes
    }
}

/// What a virtual thread has done on a [`Machine`].
#[derive(Clone, Copy, Debug)]
pub struct ThreadTimes<'a> {
    name: &'a str,
    account: Account,
}

impl ThreadTimes<'_> {
    /// Its name; workers are called by the name that their runtime gives them.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// What it has [computed](super::compute).
    #[must_use]
    pub fn computing(&self) -> Duration {
        Duration::from_nanos(self.account.computing)
    }

    /// What it has spent in the library besides, and not in search of work.
    #[must_use]
    pub fn working(&self) -> Duration {
        Duration::from_nanos(self.account.working)
    }

    /// What it has spent in search of work.
    #[must_use]
    pub fn searching(&self) -> Duration {
        Duration::from_nanos(self.account.searching)
    }

    /// How long it could have gone on, and all cores were taken.
    #[must_use]
    pub fn queueing(&self) -> Duration {
        Duration::from_nanos(self.account.queueing)
    }

    /// How long it has slept, or waited to be woken.
    #[must_use]
    pub fn sleeping(&self) -> Duration {
        Duration::from_nanos(self.account.sleeping)
    }
}

/// A place of the source at which threads have waited for cache lines, or for a barrier.
#[derive(Clone, Copy, Debug)]
pub struct LostTime {
    location: &'static Location<'static>,
    place: Place,
}

impl LostTime {
    /// The place.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }

    /// How often.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.place.times
    }

    /// How long, in sum.
    #[must_use]
    pub fn lost(&self) -> Duration {
        Duration::from_nanos(self.place.lost)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let (moves, barriers, wakes) = (self.moves(), self.barriers(), self.wakes());
        writeln!(
            f,
            "{:.1} us; {moves} moves of cache lines, {barriers} barriers, {wakes} wakes",
            us(self.run.time())
        )?;
        writeln!(
            f,
            "{:<24}{:>12}{:>12}{:>12}{:>12}{:>12}  us",
            "thread", "computing", "working", "searching", "queueing", "sleeping"
        )?;
        for thread in self.threads() {
            write!(f, "{:<24}", thread.name)?;
            for time in [
                thread.computing(),
                thread.working(),
                thread.searching(),
                thread.queueing(),
                thread.sleeping(),
            ] {
                write!(f, "{:>12.1}", us(time))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{:>12}{:>12}  place", "times", "lost, us")?;
        for lost in self.places().take(12) {
            writeln!(f, "{:>12}{:>12.1}  {}", lost.times(), us(lost.lost()), lost.location)?;
        }
        Ok(())
    }
}
