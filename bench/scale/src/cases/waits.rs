//! Tasks that share a lock, or wait for an event or a moment.

use super::{Bench, UNDISTURBED};
use crate::world::{compute, now, thread};
use cygnet::sync::{Barrier, Event, Mutex, RwLock, Semaphore};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub fn mutex(on: Bench<'_>) {
    let (count, work) = (Mutex::new(0_u64), on.work());
    let turns = on_all(on, || {
        *count.lock().expect(UNDISTURBED) += 1;
        compute(work);
    });
    assert_eq!(count.into_inner(), turns);
}

pub fn rw_lock(on: Bench<'_>) {
    let (lock, turn, work) = (RwLock::new(0_u64), AtomicU64::new(0), on.work());
    on_all(on, || {
        if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(20) {
            *lock.write().expect(UNDISTURBED) += 1;
        } else {
            let _ = *lock.read().expect(UNDISTURBED);
        }
        compute(work);
    });
}

pub fn semaphore(on: Bench<'_>) {
    let (permits, work) = (Semaphore::new(on.size.cores), on.work());
    on_all(on, || {
        let _permit = permits.acquire().expect(UNDISTURBED);
        compute(work);
    });
}

pub fn guards(on: Bench<'_>) {
    let (swansong, work) = (on.rt.swansong(), on.work());
    on_all(on, || {
        let _guard = swansong.guard();
        compute(work);
    });
}

pub fn late(on: Bench<'_>) {
    let tasks = on.size.items(8 * on.cores());
    let (start, work) = (Event::new(), on.work());
    on.measure_scope(tasks, |s| {
        for _ in 0..tasks {
            s.spawn(|| {
                start.wait().expect(UNDISTURBED);
                compute(work);
            });
        }
        cygnet::yield_now().expect(UNDISTURBED);
        start.set();
    });
}

/// All tasks sleep after this time per task.
const SETTING: Duration = Duration::from_micros(20);

pub fn timers(on: Bench<'_>) {
    let (each, work) = (on.size.items(100_000).div_ceil(on.cores()), on.work());
    let items = each * on.cores();
    // In nanoseconds from the start.
    let last = AtomicU64::new(0);
    on.rt.block_on(|| {
        let start = now();
        let due = start + Duration::from_nanos(SETTING.as_nanos() as u64 * items);
        cygnet::scope(|s| {
            for _ in 0..on.cores() {
                s.spawn(|| {
                    cygnet::scope(|s| {
                        for _ in 0..each {
                            s.spawn(|| {
                                let at = (now() - start).as_nanos() as u64;
                                last.fetch_max(at, Ordering::Relaxed);
                                cygnet::sleep_until(due).expect(UNDISTURBED);
                                compute(work);
                            });
                        }
                    });
                });
            }
        });
        let set = Duration::from_nanos(last.load(Ordering::Relaxed));
        let fired = now() - due;
        assert!(start + set <= due, "a task began its sleep after its end");
        on.clock.record(set + fired, on.size.ideal(items), items);
    });
}

pub fn pinned(on: Bench<'_>) {
    let tasks = 4 * on.cores();
    let (all_are_here, first) = (Barrier::new(tasks as usize), OnceLock::new());
    let work = on.work();
    // Ideally, one worker has an even share of the tasks.
    on.measure_scope(tasks / on.cores(), |s| {
        for _ in 0..tasks {
            s.spawn(|| {
                all_are_here.wait().expect(UNDISTURBED);
                let me = thread::current().id();
                if *first.get_or_init(|| me) == me {
                    compute(work);
                }
            });
        }
    });
}

/// Shares 20,000 calls of `f` among four tasks per core. Returns the number of calls.
fn on_all(on: Bench<'_>, f: impl Fn() + Sync) -> u64 {
    let tasks = 4 * on.cores();
    let each = on.size.items(20_000).div_ceil(tasks);
    on.measure_scope(tasks * each, |s| {
        for _ in 0..tasks {
            s.spawn(|| (0..each).for_each(|_| f()));
        }
    });
    tasks * each
}
