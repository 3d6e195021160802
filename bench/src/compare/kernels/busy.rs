//! Kernels of computing tasks that keep every core busy, generic over runtimes in which a task
//! may block.
//!
//! All computations are steps of [`Work`], so that each runtime performs the same number of
//! steps.

use std::iter;
use std::mem;
use std::ops::Range;

use super::waits;
use crate::compare::prelude::*;

/// A task that may borrow.
pub type Task<'a, T> = Box<dyn FnOnce() -> T + Send + 'a>;

/// A runtime whose tasks may block.
pub trait Blocking {
    /// Number of tasks or threads per worker that share the locks.
    const CONTENDERS_PER_WORKER: usize = TASKS_PER_WORKER;

    /// Measures inside a task.
    ///
    /// # Errors
    /// The runtime cannot be built.
    fn inside(
        setting: &Setting,
        kernel: impl FnOnce(&Setting) -> Measured + Send + 'static,
    ) -> CaseResult;

    /// Runs all tasks at the same time, and returns their results.
    fn run_all<T: Send>(tasks: Vec<Task<'_, T>>) -> Vec<T>;

    /// Returns a call that waits until `count` tasks have made it. It returns `true` in one of
    /// them.
    fn barrier(count: usize) -> impl Fn() -> bool + Sync;
}

/// A runtime that has bounded channels.
pub trait Channels: Blocking {
    /// Returns a call that sends a number, waiting for room, and a call that receives one. The
    /// second call returns `None` if the channel is empty and all clones of the first call have
    /// been dropped.
    fn channel(
        room: usize,
    ) -> (impl Fn(u64) + Clone + Send + 'static, impl Fn() -> Option<u64> + Send + 'static);
}

/// A mutex around a number, which is 0 at first.
pub trait Lock: Default + Sync + Send {
    /// Calls `f` with the number while the mutex is locked.
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;
}

/// A reader-writer lock around a number, which is 0 at first.
pub trait ReadWrite: Default + Sync + Send {
    /// Calls `f` with the number while other readers may do so too.
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R;

    /// Calls `f` with the number while there is neither a reader nor another writer.
    fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;
}

/// A runtime that has scopes.
pub trait Scopes {
    /// Calls `job` for each slot, in a job of its own within one scope, and waits for all jobs.
    fn each(slots: &mut [Slot], job: impl Fn(&mut Slot) + Sync);
}

/// The number of jobs performed for one slot of a scope, in cache lines of its own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(128))]
pub struct Slot(u64);

/// Returns the number of things to do, and a computation that takes `nanos` nanoseconds.
pub fn sized(setting: &Setting, size: Size, nanos: u64) -> (usize, Work) {
    (setting.size(size), setting.work(Duration::from_nanos(nanos)))
}

/// Performs the work. Costs next to nothing if there is none.
#[inline(always)]
pub fn if_any(work: Work, seed: u64) {
    if work.steps > 0 {
        work.run(seed);
    }
}

/// Performs the work and returns 1, for counting.
pub fn job(work: Work, seed: u64) -> u64 {
    work.run(seed);
    1
}

/// Returns the number of values that pass through a pipeline, and the computation of each stage.
pub fn stages(setting: &Setting) -> (usize, [Work; STAGES]) {
    let nanos = match setting.number {
        0 => cases::UNEVEN_STAGES,
        nanos => [nanos; STAGES],
    };
    (setting.size(cases::PIPED), nanos.map(|nanos| setting.work(Duration::from_nanos(nanos))))
}

/// See the cases `pipeline-500` and so on.
///
/// # Errors
/// A runtime that cannot be built.
pub fn pipeline<B: Channels>(setting: &Setting) -> CaseResult {
    let (values, stages) = stages(setting);
    B::inside(setting, move |setting| busy(setting, values, || pass::<B>(values as u64, stages)))
}

/// Passes the values through the stages, each of which adds one. Returns the sum of the results.
fn pass<B: Channels>(values: u64, stages: [Work; STAGES]) -> u64 {
    let (to, mut from) = B::channel(BUSY_ROOM);
    let mut tasks: Vec<Task<'_, u64>> = vec![Box::new(move || {
        (0..values).for_each(to);
        0
    })];
    for work in stages {
        let (to, next) = B::channel(BUSY_ROOM);
        let from = mem::replace(&mut from, next);
        tasks.push(Box::new(move || {
            while let Some(value) = from() {
                work.run(value);
                to(value + 1);
            }
            0
        }));
    }
    tasks.push(Box::new(move || iter::from_fn(from).sum()));
    B::run_all(tasks).into_iter().sum()
}

/// See the cases `phases-1000` and so on.
pub fn phases<S: Scopes>(setting: &Setting) -> Measured {
    let (rounds, work) = sized(setting, cases::rounds(setting.number), setting.number);
    busy(setting, rounds, || {
        let mut slots = [Slot::default(); JOBS];
        (0..rounds).for_each(|_| fill::<S>(&mut slots, work));
        slots.iter().map(|slot| slot.0).sum()
    })
}

fn fill<S: Scopes>(slots: &mut [Slot], work: Work) {
    S::each(slots, |slot| slot.0 += job(work, slot.0));
}

/// See the cases `scope-flood-500` and so on.
pub fn scope_flood<S: Scopes>(setting: &Setting) -> Measured {
    let (tasks, work) = sized(setting, cases::FLOOD, setting.number);
    let mut slots = vec![Slot::default(); tasks];
    busy(setting, tasks, || {
        slots.fill(Slot::default());
        fill::<S>(&mut slots, work);
        slots.iter().map(|slot| slot.0).sum()
    })
}

/// See the cases `contended-0` and so on.
///
/// # Errors
/// A runtime that cannot be built.
pub fn contended<B: Blocking, L: Lock>(setting: &Setting) -> CaseResult {
    let (turns, outside) = sized(setting, cases::turns(setting.number), setting.number);
    let count = setting.workers * B::CONTENDERS_PER_WORKER;
    locked::<B, L>(setting, count, turns, Work::NONE, outside)
}

/// Measures `count` tasks that lock one mutex, with some computation inside and outside.
///
/// # Errors
/// A runtime that cannot be built.
pub fn locked<B: Blocking, L: Lock>(
    setting: &Setting,
    count: usize,
    turns: usize,
    inside: Work,
    outside: Work,
) -> CaseResult {
    B::inside(setting, move |setting| {
        busy_with_waits(setting, turns, || {
            let lock = L::default();
            let shares = take_turns::<B>(count, turns, |_, turn, is_sample| {
                let locked = lock.with(|number| {
                    let locked = is_sample.then(Instant::now);
                    *number += 1;
                    if_any(inside, turn);
                    locked
                });
                outside.run(turn);
                locked
            });
            (lock.with(|number| *number), shares)
        })
    })
}

/// Returns whether a task writes in a turn. Each task writes in one turn of 20, and neighbouring
/// tasks write in different turns.
pub fn writes(task: usize, turn: u64) -> bool {
    (turn + task as u64).is_multiple_of(20)
}

/// See the case `readers-95`.
///
/// # Errors
/// A runtime that cannot be built.
pub fn readers<B: Blocking, L: ReadWrite>(setting: &Setting) -> CaseResult {
    let (turns, work) = sized(setting, cases::READ_TURNS, cases::READ_WORK);
    read_and_written::<B, L>(setting, setting.workers * B::CONTENDERS_PER_WORKER, turns, work)
}

/// Measures `count` tasks that use one reader-writer lock, with some computation inside and
/// outside.
///
/// # Errors
/// A runtime that cannot be built.
pub fn read_and_written<B: Blocking, L: ReadWrite>(
    setting: &Setting,
    count: usize,
    turns: usize,
    work: Work,
) -> CaseResult {
    B::inside(setting, move |setting| {
        busy_with_waits(setting, turns, || {
            let lock = L::default();
            let shares = take_turns::<B>(count, turns, |task, turn, is_sample| {
                let locked = if writes(task, turn) {
                    lock.write(|number| {
                        let locked = is_sample.then(Instant::now);
                        *number += job(work, turn);
                        locked
                    })
                } else {
                    lock.read(|number| {
                        let locked = is_sample.then(Instant::now);
                        work.run(*number);
                        locked
                    })
                };
                work.run(turn);
                locked
            });
            (lock.read(|number| *number), shares)
        })
    })
}

/// Starts `count` tasks together and divides `turns` turns among them. `turn` gets the task, the
/// turn, and whether it should return the time of the end of its wait.
pub fn take_turns<B: Blocking>(
    count: usize,
    turns: usize,
    turn: impl Fn(usize, u64, bool) -> Option<Instant> + Sync,
) -> Vec<Share> {
    let (start, each) = (B::barrier(count), (turns / count) as u64);
    let contend = |task: usize| {
        start();
        let mut share = Share::begin(each);
        for at in 0..each {
            let before = sampled(at);
            let locked = turn(task, at, before.is_some());
            share.waits.extend(before.zip(locked));
        }
        share.end()
    };
    let contend = &contend;
    let task = |task| -> Task<'_, Share> { Box::new(move || contend(task)) };
    B::run_all((0..count).map(task).collect())
}

/// See the case `many-senders`.
///
/// # Errors
/// A runtime that cannot be built.
pub fn many_senders<B: Channels>(setting: &Setting) -> CaseResult {
    let (values, work) = sized(setting, cases::SENT, cases::SENT_WORK);
    B::inside(setting, move |setting| {
        let senders = setting.workers * TASKS_PER_WORKER;
        busy(setting, values, || {
            let (to, from) = B::channel(BUSY_ROOM);
            let mut tasks: Vec<Task<'_, u64>> = Vec::new();
            for sender in 0..senders {
                let (to, own) = (to.clone(), portion(values, senders, sender));
                tasks.push(Box::new(move || {
                    own.for_each(to);
                    0
                }));
            }
            drop(to);
            tasks.push(Box::new(move || {
                iter::from_fn(from).inspect(|&value| _ = work.run(value)).sum()
            }));
            B::run_all(tasks).into_iter().sum()
        })
    })
}

/// Returns part number `part` of `parts` equal parts of the numbers below `all`.
pub fn portion(all: usize, parts: usize, part: usize) -> Range<u64> {
    let each = (all / parts) as u64;
    part as u64 * each..(part as u64 + 1) * each
}

/// See the case `request-reply`.
///
/// # Errors
/// A runtime that cannot be built.
pub fn request_reply<B: Channels>(setting: &Setting) -> CaseResult {
    let (requests, work) = sized(setting, cases::REQUESTS, cases::ANSWER_WORK);
    let pairs = setting.workers * PAIRS_PER_WORKER;
    waits::exchanges::<B, _, _>(setting, pairs, requests, work, || {
        waits::over(B::channel(1), B::channel(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_all_numbers_once() {
        let all: Vec<u64> = (0..4).flat_map(|part| portion(20, 4, part)).collect();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn each_task_writes_in_one_turn_of_twenty() {
        for task in 0..25 {
            assert_eq!((0..100).filter(|&turn| writes(task, turn)).count(), 5);
        }
    }

    /// Checks all numbers of workers and tasks of the cases.
    #[test]
    fn turns_and_values_can_be_shared_out() {
        let shared_out = |size: Size, tasks: usize, at_a_time: usize| {
            for turns in [size.0, size.1] {
                assert_eq!(turns % (tasks * at_a_time), 0, "{turns} turns of {tasks} tasks");
            }
        };
        for workers in cases::LOCKING {
            for outside in [0, 300, 1_000, 5_000] {
                shared_out(cases::turns(outside), workers * TASKS_PER_WORKER, 1);
            }
        }
        for workers in cases::UP_TO_FOUR {
            shared_out(cases::READ_TURNS, workers * TASKS_PER_WORKER, 20);
            shared_out(cases::SENT, workers * TASKS_PER_WORKER, 1);
            shared_out(cases::REQUESTS, workers * PAIRS_PER_WORKER, 1);
        }
        [2, 8, 64].iter().for_each(|&tasks| shared_out(cases::TURNS, tasks, 20));
    }
}
