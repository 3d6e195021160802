//! Measurements of one case on any runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::cases::{self, CONTENDERS, LOCKS, MESSAGES, SPREAD_OF, VALUES};
use super::runtimes::rings::Traffic;
use crate::measure::busy::{Stint, since_the_first};
use crate::measure::harness::{
    BYTES, CPU, CaseResult, Measured, Setting, Size, shared_out, starts, time,
};
use crate::measure::machine::cpu_time;
use crate::measure::memory;
use crate::measure::stats::{median, quantile};
use crate::measure::work::{Work, spin, spin_until};

/// Measures contenders for one lock, each of which takes the lock the given number of times.
/// Returns the cost of a lock acquisition.
pub fn contended(setting: &Setting, mut run: impl FnMut(usize) -> Vec<Stint>) -> Measured {
    let each = setting.size(LOCKS);
    shared_out(setting, CONTENDERS * each, |n| {
        (0..n).filter_map(|_| since_the_first(&run(each)).max()).sum()
    })
}

/// Measures the same contenders. Returns the ratio of the slowest one's time to the fastest
/// one's.
pub fn spread(setting: &Setting, mut run: impl FnMut(usize) -> Vec<Stint>) -> Measured {
    let each = setting.size(LOCKS);
    let spreads: Vec<_> = (0..setting.size(Size(11, 2)))
        .map(|_| {
            let times: Vec<_> =
                since_the_first(&run(each)).map(|time| time.as_secs_f64()).collect();
            quantile(&times, 1.0) / quantile(&times, 0.0)
        })
        .collect();
    Measured::of([(SPREAD_OF, median(&spreads))])
}

/// Measures the cost per value of a channel. `run` passes the given number of values from the
/// given number of senders.
pub fn passed(setting: &Setting, mut run: impl FnMut(usize, usize)) -> Measured {
    let (values, senders) = (setting.size(VALUES), setting.number as usize);
    shared_out(setting, values, |n| time(n, |_| run(values, senders)))
}

/// Measures the cost per message of a ring. `run` passes the messages.
pub fn ring(setting: &Setting, traffic: Traffic, mut run: impl FnMut(Traffic)) -> Measured {
    let (messages, producers) = (setting.size(MESSAGES), setting.number as usize);
    let traffic = Traffic { messages, producers, ..traffic };
    shared_out(setting, messages, |n| time(n, |_| run(traffic)))
}

/// Parameters of the case `start-elsewhere`. The time between two spawns lets the other worker
/// find out that there is no work. The child's computation makes it worth stealing. The limit
/// ends the parent's computation if a runtime has put the child where no other worker can take
/// it.
pub const ELSEWHERE_GAP: Duration = Duration::from_micros(5);
/// See [`ELSEWHERE_GAP`].
pub const ELSEWHERE_WORK: Duration = Duration::from_micros(20);
/// See [`ELSEWHERE_GAP`].
pub const ELSEWHERE_LIMIT: Duration = Duration::from_millis(2);
/// Time between two spawns of the case `start-outside`, after which all workers are asleep.
pub const OUTSIDE_GAP: Duration = Duration::from_micros(200);

/// Measures the case `start-outside`. `run` runs a task that reads the clock, from a thread that is
/// not a worker.
pub fn start_outside(setting: &Setting, mut run: impl FnMut() -> Instant) -> Measured {
    starts(setting, || {
        std::thread::sleep(OUTSIDE_GAP);
        let before = Instant::now();
        (before, run())
    })
}

/// Measures the case `start-elsewhere`. `spawn` spawns a child that does a job.
pub fn start_elsewhere<C>(
    setting: &Setting,
    mut spawn: impl FnMut(Loot) -> C,
    is_done: impl Fn(&C) -> bool,
    join: impl Fn(C) -> Instant,
) -> Measured {
    let loot = Loot(setting.work(ELSEWHERE_WORK));
    starts(setting, || {
        spin(ELSEWHERE_GAP);
        let before = Instant::now();
        let child = spawn(loot);
        spin_until(ELSEWHERE_LIMIT, || is_done(&child));
        (before, join(child))
    })
}

/// The job of a child in the case `start-elsewhere`.
#[derive(Clone, Copy, Debug)]
pub struct Loot(Work);

impl Loot {
    /// Does the job. Returns the time of its beginning.
    pub fn take(self) -> Instant {
        let started = Instant::now();
        self.0.run(1);
        started
    }
}

/// Returns the bytes per thing of `count` things that `make` makes, and the things. One must have
/// been made before.
///
/// # Errors
/// There is not enough memory, or the kernel does not report its use.
pub fn memory_of<T>(
    count: usize,
    at_most: usize,
    make: impl FnOnce(usize) -> T,
) -> anyhow::Result<(Measured, T)> {
    memory::need(count * at_most)?;
    let base = memory::settled()?;
    let made = make(count);
    let full = memory::used()?;
    Ok((Measured::of([(BYTES, full - base)]).each(count), made))
}

/// The time between two jobs of the control loop, and the time of a job.
const PERIOD: Duration = Duration::from_millis(10);
const CONTROL_JOB: Duration = Duration::from_micros(100);
/// Number of jobs of the control loop.
const CONTROL_JOBS: Size = Size(200, 10);

/// A job of the control loop.
#[derive(Clone, Debug)]
pub struct ControlJob {
    work: Work,
    done: Arc<AtomicUsize>,
}

impl ControlJob {
    /// Performs the job.
    pub fn run(self) {
        self.work.run(1);
        self.done.fetch_add(1, Ordering::Release);
    }
}

/// Tasks that each sleep once.
#[derive(Debug)]
pub struct Sleepers {
    /// The number of tasks.
    pub count: usize,
    shortest: Duration,
    missing: AtomicUsize,
    has_ended: AtomicBool,
    slept_together: AtomicBool,
}

impl Sleepers {
    fn new(count: usize, shortest: Duration) -> Arc<Sleepers> {
        Arc::new(Sleepers {
            count,
            shortest,
            missing: AtomicUsize::new(count),
            has_ended: AtomicBool::new(false),
            slept_together: AtomicBool::new(false),
        })
    }

    /// Called by task number `index` before it sleeps. Returns the time that it sleeps for.
    pub fn lie_down(&self, index: usize) -> Duration {
        if self.missing.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.slept_together.store(!self.has_ended.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // Spread over the timers, as the deadlines of a program are.
        self.shortest + Duration::from_millis(index as u64 % 1_000)
    }

    /// Called by each task after its sleep.
    pub fn rise(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// Measures the processor time of the process per sleeper. `run` runs all sleepers to their end.
///
/// # Errors
/// Some sleepers always ended before all of them slept.
pub fn sleepers(setting: &Setting, mut run: impl FnMut(Arc<Sleepers>)) -> CaseResult {
    // A few beforehand, so that threads are started and timers set up.
    run(Sleepers::new(10, Duration::ZERO));
    // A disturbed process takes longer to start them all.
    for factor in [1, 2, 4] {
        let shortest = Duration::from_millis(setting.size(cases::SLEEP) as u64) * factor;
        let sleepers = Sleepers::new(setting.size(cases::SLEEPERS), shortest);
        let cpu_before = cpu_time();
        run(Arc::clone(&sleepers));
        let cpu = cpu_time().saturating_sub(cpu_before);
        if sleepers.slept_together.load(Ordering::Relaxed) {
            return Ok(Measured::of([(CPU, cpu.as_nanos() as f64)]).each(sleepers.count));
        }
    }
    anyhow::bail!("the first sleepers ended before the last one slept")
}

/// Submits a job every 10 ms and measures the processor time that the process takes per job.
///
/// # Errors
/// A job is not done a second after the last one was submitted.
pub fn control_loop(setting: &Setting, mut submit: impl FnMut(ControlJob)) -> CaseResult {
    let jobs = setting.size(CONTROL_JOBS);
    let job = ControlJob { work: setting.work(CONTROL_JOB), done: Arc::default() };
    let mut submit_and_wait = || {
        submit(job.clone());
        std::thread::sleep(PERIOD);
    };
    // Once beforehand, so that threads are started and pages touched.
    submit_and_wait();
    let cpu_before = cpu_time();
    (0..jobs).for_each(|_| submit_and_wait());
    let cpu = cpu_time().saturating_sub(cpu_before);
    let late = Instant::now();
    while job.done.load(Ordering::Acquire) <= jobs {
        ensure!(late.elapsed() < Duration::from_secs(1), "a job of the control loop was lost");
        std::thread::yield_now();
    }
    Ok(Measured::of([(CPU, cpu.as_nanos() as f64)]).each(jobs))
}
