//! A simulated machine that measures how long a program takes.

use super::explore::Schedule;
use super::options::Options;
use super::report::Failed;
use super::watchdog::Watchdog;
use crate::scheduler::simulation::{Machine as Model, Measured, Shape};
use std::fmt;
use std::time::Duration;

/// The largest machine.
const MOST_CORES: usize = 4096;

/// A simulated machine with many cores, which measures how long a program takes.
///
/// [`check`](super::check) asks whether a program is right in every order of events. A machine asks
/// how long the program takes. Each virtual thread has a clock of its own, and the thread whose
/// clock is earliest always runs next. The library's work takes time: accesses to atomics, locks
/// and queues, by the state of their cache lines; fences; loops that wait; going to sleep and
/// waking. The program's own work takes the time that the program passes to
/// [`compute`](super::compute).
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
/// The defaults are rounded figures of a present-day server, and each can be set. Trust the shape
/// of a result rather than its digits: docs/scaling.md compares the model with a real machine of
/// two cores.
///
/// | | |
/// | --- | --- |
/// | access to a line that the core holds; a read-modify-write of it; a fence | 1, 5, 8 ns |
/// | moving a line from a core of the same socket; from another socket | 50, 130 ns |
/// | `membarrier`: for its caller, for each thread that it interrupts | 3, 1 us |
/// | a turn of a loop that waits; one that yields; a look at the clock | 20, 400, 20 ns |
/// | going to sleep; waking a thread; the delay until that thread runs | 1, 1.5, 6 us |
/// | the delay until a started thread runs | 20 us |
/// | the time for which a thread keeps its core while others wait for one | 3 ms |
///
/// # What the model leaves out
///
/// Cache sizes, memory, frequencies, hyperthreads, and the kernel's own decisions. The program's
/// own accesses to shared data are free. Whatever [the simulation](super) does not see, the machine
/// does not see either. A thread that sleeps for more than 292 years sleeps for ever.
#[derive(Clone, Debug)]
#[must_use]
pub struct Machine {
    shape: Shape,
    seed: u64,
    most_steps: u64,
}

macro_rules! prices {
    ($($(#[$attribute:meta])* $name:ident: $least:expr;)*) => {$(
        $(#[$attribute])*
        pub fn $name(mut self, price: Duration) -> Machine {
            self.shape.$name = nanos(stringify!($name), price, $least);
            self
        }
    )*};
}

setters! {
    impl Machine;

    /// Sets the seed of the library's own random choices, such as the first victim of a thief.
    pub fn seed(seed: u64) => seed;

    /// Fails a run that takes more steps than this, because it seems not to end. There is no limit
    /// by default.
    pub fn most_steps(most_steps: u64) => most_steps;
}

impl Machine {
    /// A machine with `cores` cores in one socket.
    ///
    /// # Panics
    /// If `cores` is 0 or greater than 4,096.
    pub fn new(cores: usize) -> Machine {
        assert!(
            cores > 0,
            "cygnet: a machine without cores cannot run anything; give it at least one"
        );
        assert!(
            cores <= MOST_CORES,
            "cygnet: a machine of {cores} cores is too large to simulate; {MOST_CORES} at most"
        );
        Machine { shape: Shape::new(cores), seed: 0, most_steps: u64::MAX }
    }

    /// Divides the cores among `sockets` sockets, as evenly as possible.
    ///
    /// # Panics
    /// If `sockets` is 0 or greater than the number of cores.
    pub fn sockets(mut self, sockets: usize) -> Machine {
        let cores = self.shape.cores;
        assert!(
            (1..=cores).contains(&sockets),
            "cygnet: {cores} cores cannot be divided among {sockets} sockets; use at least one, and no more than cores"
        );
        self.shape.sockets = sockets;
        self
    }

    prices! {
        /// Sets the price of an access to a cache line that the core holds.
        ///
        /// # Panics
        /// If the price is zero, because a loop that waits for a time would never end; or if it
        /// exceeds an hour.
        hit: 1;
        /// Sets the price of a read-modify-write of a line that the core holds.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        update: 0;
        /// Sets the price of moving a line from another core of the same socket.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        near: 0;
        /// Sets the price of moving a line from another socket.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        far: 0;
        /// Sets the price of a full fence.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        fence: 0;
        /// Sets the price of a barrier of all cores (`membarrier`) for its caller.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        barrier: 0;
        /// Sets the price of a barrier for each thread that it interrupts.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        interrupt: 0;
        /// Sets the price of a turn of a loop that waits.
        ///
        /// # Panics
        /// If the price is zero, because the loop would never end; or if it exceeds an hour.
        spin: 1;
        /// Sets the price of a turn that offers the core to another thread.
        ///
        /// # Panics
        /// If the price is zero, because the loop would never end; or if it exceeds an hour.
        yields: 1;
        /// Sets the price of a look at the clock.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        clock: 0;
        /// Sets the price of going to sleep.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        sleep: 0;
        /// Sets the price of waking a thread.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        wake: 0;
        /// Sets the delay until a woken thread runs, also one that wakes by a timer.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        wake_up: 0;
        /// Sets the delay until a started thread runs.
        ///
        /// # Panics
        /// If the price exceeds an hour.
        start: 0;
        /// Sets the time for which a thread keeps its core while others wait for one.
        ///
        /// # Panics
        /// If the time is zero, because no thread would ever run; or if it exceeds an hour.
        slice: 1;
    }

    /// Runs `program` once on this machine.
    ///
    /// The first run of a process always takes the same time. Later runs of the same process find
    /// memory where earlier runs have left it. Other variables may then share a cache line, and the
    /// time differs a little.
    ///
    /// The program builds its own runtimes. By default a runtime has as many workers as the machine
    /// has cores. A program may start more threads than cores; they take turns.
    ///
    /// # Errors
    /// If the run panics, deadlocks or exceeds [`most_steps`](Machine::most_steps).
    ///
    /// # Panics
    /// If it is called inside another simulation or inside a task.
    pub fn run(&self, program: impl FnOnce()) -> Result<Measured, Box<Failed>> {
        let schedule = Schedule::Seed(self.seed);
        let options = Options::new().most_steps(self.most_steps);
        let model = Model::new(self.shape.clone());
        let watchdog = Watchdog::new();
        let mut report = schedule.run(&options, &watchdog, Some(model), Box::new(program));
        let measured = report.measured.take().expect("there is a machine");
        schedule.judge(report).map(|_| measured)
    }
}

fn nanos(name: &str, price: Duration, least: u64) -> u64 {
    const LONGEST: Duration = Duration::from_secs(3600);
    assert!(
        price <= LONGEST,
        "cygnet: Machine::{name}({price:?}): the price must not exceed an hour"
    );
    let nanos = price.as_nanos() as u64;
    assert!(
        nanos >= least,
        "cygnet: Machine::{name}({price:?}): time would stand still; use at least a nanosecond"
    );
    nanos
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let Measured { run, moves, barriers, wakes, .. } = self;
        writeln!(
            f,
            "{:.1} us; {moves} moves of cache lines, {barriers} barriers, {wakes} wakes",
            us(run.time)
        )?;
        writeln!(
            f,
            "{:<24}{:>12}{:>12}{:>12}{:>12}{:>12}  us",
            "thread", "computing", "working", "searching", "queueing", "sleeping"
        )?;
        for thread in &self.threads {
            write!(f, "{:<24}", thread.name)?;
            for time in [
                thread.computing,
                thread.working,
                thread.searching,
                thread.queueing,
                thread.sleeping,
            ] {
                write!(f, "{:>12.1}", us(time))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{:>12}{:>12}  place", "times", "lost, us")?;
        for lost in self.places.iter().take(12) {
            writeln!(f, "{:>12}{:>12.1}  {}", lost.times, us(lost.lost), lost.location)?;
        }
        Ok(())
    }
}
