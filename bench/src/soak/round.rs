//! A round: a new runtime, threads that run programs on it and on the lasting runtime, and its
//! end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cygnet::{Handle, Runtime};

use super::faults::{self, Fault};
use super::programs::{ENDS_LATER, Kind, Program};
use super::state::{Failure, MOST_FAILURES, State, Step};
use crate::measure::rng::Rng;
use crate::measure::work::{spin, spin_until};

/// The programs to draw from.
pub(crate) struct Mix {
    pub(crate) kinds: Vec<&'static Kind>,
    /// The seed of every program, if one was requested.
    pub(crate) seed: Option<u64>,
    /// A planted program, run before each other program, so that no other failure can come first.
    pub(crate) planted: Option<&'static Kind>,
    pub(crate) workers: Vec<usize>,
}

/// Maximum number of checks whether a runtime is at rest once its programs have ended, with a
/// [`NAP`] after each. They take at least 20 s, and longer in a process that is stopped meanwhile
/// or has no processor.
const REST: u32 = 100_000;
const NAP: Duration = Duration::from_micros(200);
/// Duration of a long leaf.
const LEAF: Duration = Duration::from_millis(5);

/// Fills the pools of dead tasks' memory that sleeping workers keep.
///
/// The worker that ends a task keeps the memory that other threads allocated for the task, up to
/// a bound for each size of record. A run of some minutes would approach that bound slowly, which
/// would look like a leak.
pub(crate) fn fill_pools(runtime: &Runtime) {
    for _ in 0..4 {
        fill::<0>(runtime);
        fill::<8>(runtime);
        fill::<16>(runtime);
        fill::<32>(runtime);
    }
}

/// Fills the pool for records of tasks that capture `WORDS` words.
fn fill<const WORDS: usize>(runtime: &Runtime) {
    let payload = [1u64; WORDS];
    let spawn = |_| runtime.spawn(move || drop(std::hint::black_box(Box::new(payload))));
    let tasks: Vec<_> = (0..8192).map(spawn).collect();
    tasks.into_iter().for_each(|task| drop(task.join()));
}

/// The settings of a round.
struct Plan {
    workers: usize,
    stack_size: usize,
    blocking: usize,
    threads: u64,
    programs: u64,
    busy: bool,
    end: u64,
}

impl Plan {
    fn draw(rng: &mut Rng, number: u64, workers: &[usize]) -> Plan {
        Plan {
            workers: workers[number as usize % workers.len()],
            stack_size: *rng.pick(&[64, 64, 128, 256, 1024]) << 10,
            blocking: rng.count(2, 12),
            threads: rng.between(1, 3),
            programs: rng.between(5, 40),
            busy: rng.one_in(6),
            end: rng.below(4),
        }
    }

    fn words(&self, number: u64) -> String {
        let Plan { workers, stack_size, blocking, threads, busy, .. } = self;
        let busy = if *busy { ", one busy thread besides" } else { "" };
        format!(
            "round {number}: {workers} workers, stacks of {} KiB, at most {blocking} blocking threads, programs \
             from {threads} threads{busy}",
            stack_size >> 10
        )
    }
}

/// Runs the round with this number, until its programs have ended or `stop` returns true.
pub(crate) fn run(state: &State, mix: &Mix, number: u64, stop: &(dyn Fn() -> bool + Sync)) {
    let seed = Rng::part(state.seed, number).next();
    let mut rng = Rng::new(seed);
    let plan = Plan::draw(&mut rng, number, &mix.workers);
    let round = plan.words(number);
    let step = |kind, seed| Step { kind, seed, round: round.clone() };
    let builder = Runtime::builder().workers(plan.workers).stack_size(plan.stack_size);
    let builder = builder.max_blocking_threads(plan.blocking).thread_name("round");
    let runtime = match builder.build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let what = format!("a runtime could not be built: {error}");
            return state.fail(Failure { step: step("begin", seed), what });
        }
    };
    state.set_round(Some(runtime.handle()));
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        if plan.busy {
            Fault::Busy.count();
            s.spawn(|| spin_until(Duration::MAX, || over.load(Ordering::Relaxed)));
        }
        let drivers: Vec<_> = (0..plan.threads)
            .map(|driver| {
                let (mut rng, handle, step) = (Rng::part(seed, driver), runtime.handle(), &step);
                s.spawn(move || {
                    for _ in 0..plan.programs {
                        if stop() || state.failures().len() >= MOST_FAILURES {
                            break;
                        }
                        let kind = *rng.pick(&mix.kinds);
                        let seed = mix.seed.unwrap_or(rng.next());
                        for kind in mix.planted.into_iter().chain([kind]) {
                            program(state, kind, seed, &handle, &step(kind.name, seed));
                        }
                    }
                })
            })
            .collect();
        // A driver catches the panics of its programs, so it does not panic itself.
        drivers.into_iter().for_each(|driver| drop(driver.join()));
        over.store(true, Ordering::Relaxed);
    });
    state.watched(step("rest", seed), || {
        for runtime in state.runtimes() {
            if let Err(what) = come_to_rest(&runtime) {
                state.fail(Failure { step: step("rest", seed), what });
            }
        }
    });
    state.set_round(None);
    state.watched(step("end", seed), || end(runtime, plan.end));
    for what in faults::take_unplanned() {
        state.fail(Failure { step: step("panic", seed), what });
    }
    state.rounds.fetch_add(1, Ordering::Relaxed);
    state.sample(true);
}

/// Runs a program, sometimes with a long leaf beside it. One in four programs runs on the lasting
/// runtime, with the round's as the other one.
fn program(state: &State, kind: &'static Kind, seed: u64, round: &Handle, step: &Step) {
    let mut rng = Rng::new(seed);
    let pair = (round.clone(), state.lasting());
    let (handle, other) = if rng.one_in(4) { (pair.1, pair.0) } else { pair };
    if rng.one_in(16) {
        Fault::Leaf.count();
        let leaf = handle.spawn(|| spin(LEAF));
        leaf.expect(ENDS_LATER).detach();
    }
    let mut program = Program { handle, other, rng };
    let caught =
        state.watched(step.clone(), || catch_unwind(AssertUnwindSafe(|| (kind.run)(&mut program))));
    if let Err(payload) = caught {
        let what = match faults::is_planned(&*payload) {
            true => "a planned panic escaped from the program".to_owned(),
            false => format!("the program failed: {}", faults::text(&*payload)),
        };
        state.fail(Failure { step: step.clone(), what });
    }
    state.count(kind);
}

/// Waits until everything that the programs started on the runtime has ended, which must be soon.
fn come_to_rest(runtime: &Handle) -> Result<(), String> {
    let begun = Instant::now();
    let mut looks = 0;
    loop {
        let metrics = runtime.metrics();
        let coroutines: u64 = metrics.workers.iter().map(|worker| worker.coroutines).sum();
        let blocking = &metrics.blocking;
        let at_work = blocking.threads - blocking.idle.min(blocking.threads) + blocking.queued;
        let left = (coroutines, metrics.timers(), at_work, metrics.unresponsive.len());
        if left == (0, 0, 0, 0) {
            return Ok(());
        }
        looks += 1;
        if looks > REST {
            return Err(format!(
                "{:.0?} after the last program there are still (coroutines, timers, blocking calls, unresponsive \
                 tasks) {left:?}: {metrics:?}",
                begun.elapsed()
            ));
        }
        thread::sleep(NAP);
    }
}

fn end(runtime: Runtime, how: u64) {
    match how {
        0 => drop(runtime),
        1 => drop(runtime.shutdown(Duration::from_secs(1000))),
        2 => drop(runtime.shutdown(Duration::ZERO)),
        _ => {
            // Dropped at the end of a task of another runtime.
            let other = Runtime::builder().workers(1).build().expect("a runtime can be built");
            other.block_on(move || drop(runtime));
        }
    }
}
