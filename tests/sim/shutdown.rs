//! Shutdowns beside a reference in plain numbers. The clock is virtual, so the ends of all work and
//! the report are known to the millisecond.

use crate::common::prelude::*;
use cygnet::shutdown::{ShutdownReport, Swansong};
use proptest::prelude::{any, *};
use std::sync::atomic::Ordering::Relaxed;

/// A holder of a guard.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A guarded task, which ends when it is cancelled.
    Obeys,
    /// One that takes no notice.
    Ignores,
    /// A scope of the Swansong, with a guard.
    Scoped,
    /// A thread, which cannot be cancelled.
    Thread,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    kind: Kind,
    /// The Swansong.
    at: usize,
    /// In milliseconds from the start, as all times here.
    ends: u64,
}

#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    workers: usize,
    /// The parent of each Swansong but the root.
    parents: Vec<usize>,
    works: Vec<Work>,
    /// The Swansong that is shut down, when, its time to finish, and how much longer until it is
    /// given up.
    stopped: usize,
    start: u64,
    grace: u64,
    patience: Option<u64>,
    /// When another task shuts the same Swansong down, with no time to finish.
    hasty: Option<u64>,
}

/// The expected outcome.
#[derive(PartialEq, Eq, Debug)]
struct Told {
    in_time: bool,
    late: usize,
    cancelled: usize,
    given_up: bool,
    left: usize,
    took: u64,
    ends: Vec<u64>,
    /// When an interrupted wait at each Swansong ends.
    interrupted: Vec<u64>,
}

/// A second shutdown, of the root, stops the interrupts that are left.
const LAST: u64 = 1_000;

impl Plan {
    fn is_below(&self, mut at: usize, above: usize) -> bool {
        while at > above {
            at = self.parents[at - 1];
        }
        at == above
    }

    fn told(&self) -> Told {
        let concerned = |work: &&Work| self.is_below(work.at, self.stopped);
        let all = || self.works.iter().filter(concerned);
        let over = self.start + self.grace;
        // The first time limit that is over cancels. After that only work that takes no notice is
        // left.
        let first = self.hasty.map_or(over, |hasty| hasty.min(over));
        let late_at_first = all().filter(|it| it.ends > first);
        let told = |it: &&Work| !matches!(it.kind, Kind::Thread);
        let cancelled = late_at_first.clone().filter(told).count();
        let ends = |work: &Work| match work.kind {
            Kind::Obeys | Kind::Scoped if concerned(&work) && work.ends > first => first,
            _ => work.ends,
        };
        let late: Vec<_> = match first == over {
            true => late_at_first.clone().collect(),
            false => all().filter(|it| ends(it) > over).collect(),
        };
        // Work may be late by the limit of the other task, which has cancelled it, and not by this
        // one.
        let late_by_other =
            if late.is_empty() && cancelled > 0 { late_at_first.count() } else { 0 };
        // Work that has ended before the shutdown is not waited for.
        let concerned_ends = self.works.iter().filter(concerned).map(ends);
        let last = concerned_ends.clone().max().unwrap_or(0).max(self.start);
        let limit = self.patience.filter(|_| !late.is_empty()).map(|patience| over + patience);
        let given_up = limit.is_some_and(|limit| last > limit);
        let end = limit.filter(|_| given_up).unwrap_or(last);
        Told {
            in_time: late.is_empty() && late_by_other == 0,
            late: late.len() + late_by_other,
            cancelled,
            given_up,
            left: concerned_ends.filter(|ends| *ends > end).count(),
            took: end - self.start,
            ends: self.works.iter().map(ends).collect(),
            interrupted: (0..=self.parents.len())
                .map(|at| if self.is_below(at, self.stopped) { self.start } else { LAST })
                .collect(),
        }
    }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The times of some events.
type Times = Arc<[AtomicU64]>;

fn times(count: usize) -> Times {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

fn read(times: &Times) -> Vec<u64> {
    times.iter().map(|time| time.load(Relaxed)).collect()
}

fn play(plan: &Plan) -> Told {
    let start = sim::now();
    let note = move |times: &Times, n: usize| {
        times[n].store((sim::now() - start).as_millis() as u64, Relaxed);
    };
    let until = move |time: u64| start + millis(time);
    let mut all = vec![Swansong::new()];
    for parent in &plan.parents {
        all.push(all[*parent].child());
    }
    let (ends, interrupted) = (times(plan.works.len()), times(all.len()));
    let threads: Vec<_> = plan
        .works
        .iter()
        .enumerate()
        .filter_map(|(n, work)| {
            let (guard, ends, time) = (all[work.at].guard(), ends.clone(), work.ends);
            matches!(work.kind, Kind::Thread).then(|| {
                sim::thread::spawn(move || {
                    sim::thread::sleep(until(time) - sim::now());
                    note(&ends, n);
                    drop(guard);
                })
            })
        })
        .collect();
    let report = runtime(plan.workers).block_on(|| {
        let waits: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(at, swansong)| {
                let (swansong, interrupted) = (swansong.clone(), interrupted.clone());
                spawn(move || {
                    assert!(wait(swansong.interrupt(pending::<()>())).unwrap().is_none());
                    note(&interrupted, at);
                })
            })
            .collect();
        let tasks: Vec<_> = plan
            .works
            .iter()
            .enumerate()
            .filter_map(|(n, work)| {
                let (swansong, ends, time) = (all[work.at].clone(), ends.clone(), work.ends);
                let body = move || {
                    let _ = sleep_until(until(time));
                    note(&ends, n);
                };
                match work.kind {
                    Kind::Obeys => Some(cygnet::task().guard(&swansong).spawn(body)),
                    Kind::Ignores => Some(
                        cygnet::task()
                            .guard(&swansong)
                            .spawn(|| ignore_cancellation(body).unwrap()),
                    ),
                    Kind::Scoped => Some(spawn(move || {
                        swansong.scope(|s| {
                            let _guard = s.swansong().guard();
                            body();
                        });
                    })),
                    Kind::Thread => None,
                }
            })
            .collect();
        let hasty = plan.hasty.map(|time| {
            let swansong = all[plan.stopped].clone();
            spawn(move || {
                sleep_until(until(time)).unwrap();
                swansong.shut_down_within(Duration::ZERO)
            })
        });
        sleep_until(until(plan.start)).unwrap();
        let (swansong, grace) = (&all[plan.stopped], millis(plan.grace));
        let report = match plan.patience.map(millis) {
            None => swansong.shut_down_within(grace),
            Some(patience) => swansong.shut_down_within_at_most(grace, patience),
        };
        sleep_until(until(LAST)).unwrap();
        drop(all[0].shut_down());
        waits.into_iter().chain(tasks).for_each(|task| task.join().unwrap());
        assert!(hasty.is_none_or(|hasty| !hasty.join().unwrap().is_given_up()));
        report
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    Told {
        in_time: report.is_in_time(),
        late: report.guards_in_time_over(),
        cancelled: report.cancelled(),
        given_up: report.is_given_up(),
        left: report.left(),
        // The shutdown has begun a moment after the planned time.
        took: (report.took() + millis(1) / 2).as_millis() as u64,
        ends: read(&ends),
        interrupted: read(&interrupted),
    }
}

fn plans() -> impl Strategy<Value = Plan> {
    let kinds = prop_oneof![
        3 => Just(Kind::Obeys),
        1 => Just(Kind::Ignores),
        2 => Just(Kind::Scoped),
        1 => Just(Kind::Thread)
    ];
    let works = proptest::collection::vec((kinds, 0..5_usize, 0..30_u64), 0..10);
    let option = || proptest::option::of(0..15_u64);
    let times = (0..15_u64, 0..15_u64, option(), option());
    let parents = proptest::collection::vec(any::<usize>(), 0..5);
    (0..1_000_u64, 1..4_usize, parents, works, 0..5_usize, times).prop_map(
        |(seed, workers, parents, works, stopped, (start, grace, patience, hasty))| {
            let parents: Vec<_> =
                parents.iter().enumerate().map(|(n, any)| any % (n + 1)).collect();
            let count = parents.len() + 1;
            // No two of these times are the same, so their order is known.
            let works = works.into_iter().map(|(kind, at, ends)| Work {
                kind,
                at: at % count,
                ends: 10 * ends + 5,
            });
            Plan {
                seed,
                workers,
                works: works.collect(),
                parents,
                stopped: stopped % count,
                start: 10 * start + 10,
                grace: 10 * grace,
                patience: patience.map(|patience| 10 * patience + 2),
                hasty: hasty.filter(|hasty| *hasty < grace).map(|hasty| 10 * (start + hasty) + 13),
            }
        },
    )
}

proptest! {
    #![proptest_config(crate::random::config(400))]

    #[test]
    fn shutdowns_do_what_the_plain_reference_says(plan in plans()) {
        let mut told = None;
        sim::run(plan.seed, || told = Some(play(&plan))).unwrap();
        prop_assert_eq!(told.unwrap(), plan.told());
    }
}

/// Shuts down a runtime with a guard, which is kept until `guard_ends`, and with a task that takes
/// no notice of its cancellation before `task_ends`. Returns how long after the cancel
/// [`Runtime::shutdown_at_most`](cygnet::Runtime::shutdown_at_most) returns, and its report.
fn end_of_runtime(task_ends: u64, guard_ends: u64, patience: u64) -> (u64, ShutdownReport) {
    const GRACE: u64 = 10;
    let start = sim::now();
    let rt = runtime(2);
    let guard = rt.swansong().guard();
    let keeper = sim::thread::spawn(move || {
        sim::thread::sleep(start + millis(guard_ends) - sim::now());
        drop(guard);
    });
    let task = move || ignore_cancellation(|| sleep_until(start + millis(task_ends))).unwrap();
    cygnet::task().guard(&rt.swansong()).spawn_in(&rt, task).detach();
    let report = rt.shutdown_at_most(millis(GRACE), millis(patience));
    // The end of threads takes some microseconds of virtual time too.
    let after = (report.took() + millis(1) / 2).as_millis() as u64 - GRACE;
    keeper.join().unwrap();
    (after, report)
}

#[test]
fn guards_have_the_patience_that_the_end_of_a_runtime_has_left() {
    for seed in 0..200 {
        sim::run(seed, || {
            let (after, report) = end_of_runtime(70, 200, 100);
            assert!(report.is_given_up(), "{report}");
            assert_eq!((after, report.left(), report.guards_in_time_over()), (100, 1, 2));
            // The guard goes within the patience that is left.
            let (after, report) = end_of_runtime(70, 105, 100);
            assert!(!report.is_given_up(), "{report}");
            assert_eq!((after, report.left()), (95, 0));
        })
        .unwrap();
    }
}

/// The last guard goes some nanoseconds before or after the time is over. There is a scope without
/// a guard.
#[test]
fn a_shutdown_in_time_has_cancelled_nothing() {
    let mut outcomes = [0; 2];
    for seed in 0..500 {
        sim::run(seed, || {
            let over = sim::now() + millis(10);
            let swansong = Swansong::new();
            let rt = runtime(2);
            let guard = swansong.guard();
            let keeper = sim::thread::spawn(move || {
                sim::thread::sleep(over + Duration::from_nanos(10 * seed) - sim::now());
                drop(guard);
            });
            let (scoped, done) = (swansong.clone(), Arc::new(AtomicU64::new(0)));
            let ended = done.clone();
            let task = rt.spawn(move || {
                scoped.scope(|_| {
                    let _ = sleep_until(over + millis(10));
                    ended.store((sim::now() - over).as_millis() as u64, Relaxed);
                });
            });
            let report = swansong.shut_down_within(over - sim::now());
            task.join().unwrap();
            keeper.join().unwrap();
            let cut_short = done.load(Relaxed) < 10;
            assert_eq!(report.is_in_time(), !cut_short, "{report}");
            assert_eq!(report.cancelled(), usize::from(cut_short), "{report}");
            outcomes[usize::from(cut_short)] += 1;
        })
        .unwrap();
    }
    assert!(outcomes.iter().all(|&count| count > 0), "both happen: {outcomes:?}");
}
