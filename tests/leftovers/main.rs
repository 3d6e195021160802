//! A wait that was cut short, timed out, or lost leaves nothing behind. The tests ask the
//! allocator, the workers' counters and the timers after a hundred such waits of each kind, and
//! again after many more.

#[path = "../common/mod.rs"]
mod common;
mod kinds;

use common::prelude::*;
use cygnet::ring::sequence::{MultiProducerSequencer, SequenceBarrier};
use cygnet::shutdown::Swansong;
use cygnet::sync::{Barrier, Mutex, Semaphore, broadcast, watch};
use kinds::{
    LONG, SHORT, WAITS, a_future_that_is_dropped, all_with_a_failure, any_with_losers,
    branches_that_lose, held,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicIsize;

/// Counts the allocations of the process.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);
static MADE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator, and counters that allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(1, Ordering::Relaxed);
        MADE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller has promised a layout that is not empty.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller has promised memory of this allocator, which is the system's, and its
        // layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations that are made once, when they are needed first.
const SLACK: isize = 50;

/// Calls `wait` in a task that is cancelled as soon as it waits, or before.
fn cancelled(wait: impl FnOnce() + Send + 'static) {
    let waiting = spawn(wait);
    yield_now().unwrap();
    waiting.cancel("enough");
    let joined = waiting.join();
    assert!(matches!(joined, Ok(()) | Err(JoinError::NotStarted(_))), "{joined:?}");
}

/// Calls `wait` within a time limit that ends it.
fn timed_out(wait: impl FnOnce()) {
    assert!(timeout(SHORT, wait).is_err());
}

/// Returns whether no coroutine is left and no timer set.
fn is_quiet(metrics: &Metrics) -> bool {
    metrics.workers.iter().all(|w| (w.coroutines, w.timers) == (0, 0))
}

/// Allocations that are alive.
fn live() -> isize {
    LIVE.load(Ordering::Relaxed)
}

/// Allocations so far.
fn made() -> isize {
    MADE.load(Ordering::Relaxed)
}

/// Calls `wait` `rounds` times, and waits until nothing is under way.
fn settled(rt: &Runtime, rounds: usize, what: &str, wait: impl Fn() + Sync) {
    rt.block_on(|| (0..rounds).for_each(|_| scope(|_| wait())));
    eventually(what, || is_quiet(&rt.metrics()));
}

/// Calls `wait` a hundred times, and returns how many allocations are left by `rounds` further
/// calls.
fn left_by(rt: &Runtime, rounds: usize, what: &str, wait: impl Fn() + Sync) -> isize {
    settled(rt, 100, what, &wait);
    let before = live();
    settled(rt, rounds, what, &wait);
    live() - before
}

/// As `left_by`, the last of a few times. Things that are needed only now, such as a row for a slot
/// of a timing wheel, are there the next time. A leak goes on.
fn left_at_last(rt: &Runtime, rounds: usize, what: &str, wait: impl Fn() + Sync) -> isize {
    let mut left = left_by(rt, rounds, what, &wait);
    for _ in 0..3 {
        if left < SLACK {
            break;
        }
        left = left_by(rt, rounds, what, &wait);
    }
    left
}

fn leaves_nothing(kind: &str, wait: impl Fn() + Sync) {
    let rounds = 200;
    with(&[1], |rt| {
        let left = left_at_last(rt, rounds, kind, &wait);
        assert!(left < SLACK, "{kind}: {left} allocations");
        let stacks = rt.metrics().stacks;
        assert!(stacks < 100, "{kind}: {stacks} stacks");
    });
    // Tasks that end on another worker than their spawner's leave records in the pools of both,
    // many at times. All records have gone with the runtime.
    for workers in [2, 8] {
        within(|| {
            settled(&runtime(workers), 10, kind, &wait);
            let before = live();
            settled(&runtime(workers), rounds, kind, &wait);
            let left = live() - before;
            assert!(left < SLACK, "{kind}, {workers} workers: {left} allocations");
        });
    }
}

/// C23.
#[test]
fn a_cancelled_wait_leaves_nothing_behind() {
    in_own_process(|| {
        for (kind, wait) in WAITS {
            leaves_nothing(kind, || cancelled(wait));
        }
    });
}

#[test]
fn a_wait_that_has_timed_out_leaves_nothing_behind() {
    in_own_process(|| {
        for (kind, wait) in WAITS {
            leaves_nothing(kind, || timed_out(wait));
        }
    });
}

/// The threads for blocking calls may hang for any time.
#[test]
fn a_call_that_is_cancelled_behind_one_that_hangs_leaves_nothing_behind() {
    in_own_process(|| {
        within(|| {
            let rt = Runtime::builder().workers(1).max_blocking_threads(1).build().unwrap();
            let (open, gate) = common::mpsc::channel::<()>();
            let hangs = rt.spawn(move || blocking(move || gate.recv().unwrap()));
            eventually("it hangs", || {
                let pool = rt.metrics().blocking;
                (pool.threads, pool.idle) == (1, 0)
            });
            let cancelled = || {
                let call = spawn_blocking(|| unreachable!("its turn never comes"));
                yield_to(&call).unwrap();
                call.cancel("enough");
                let joined: Result<(), _> = call.join();
                assert!(matches!(joined, Err(JoinError::NotStarted(_))), "{joined:?}");
            };
            let many = |rounds| rt.block_on(|| (0..rounds).for_each(|_| cancelled()));
            many(100);
            let before = live();
            many(1_000);
            let left = live() - before;
            assert!(left < SLACK, "{left} allocations");
            open.send(()).unwrap();
            hangs.join().unwrap();
        });
    });
}

#[test]
fn a_wait_that_has_lost_leaves_nothing_behind() {
    in_own_process(|| {
        leaves_nothing("any", any_with_losers);
        leaves_nothing("all_fail_fast", all_with_a_failure);
        leaves_nothing("a future", a_future_that_is_dropped);
        leaves_nothing("the branches of a select", branches_that_lose);
    });
}

/// Two tasks hand primitives to each other, so that each call has to wait.
#[test]
fn a_wait_of_a_primitive_allocates_nothing() {
    in_own_process(|| {
        with(&[1], |rt| {
            let rounds = 1_000;
            let (mutex, semaphore, barrier) = (Mutex::fifo(0), Semaphore::new(1), Barrier::new(2));
            let read = SequenceBarrier::<u8>::new();
            let sequencer = MultiProducerSequencer::new(&read, 1);
            let visit = || {
                for _ in 0..rounds {
                    let mut value = mutex.lock().unwrap();
                    *value += 1;
                    yield_now().unwrap();
                    drop(value);
                    drop(mutex.lock_timeout(LONG).unwrap());
                    let permit = semaphore.acquire().unwrap();
                    yield_now().unwrap();
                    drop(permit);
                    barrier.wait().unwrap();
                    // The second task waits for room, and the first one until the second one has
                    // read.
                    let claim = sequencer.claim_one().unwrap();
                    let sequence = claim.range().start();
                    yield_now().unwrap();
                    claim.publish();
                    read.publish(sequence);
                    read.wait_until_published(sequence | 1).unwrap();
                }
            };
            let allocated = || {
                let (before, parked) = (made(), common::parks(rt));
                rt.block_on(|| scope(|s| (0..2).for_each(|_| drop(s.spawn(visit)))));
                let waits = common::parks(rt) - parked;
                assert!(waits >= 4 * rounds, "{waits} waits");
                made() - before
            };
            // Allocates the rows of a timing wheel, and the tasks.
            allocated();
            let more = allocated();
            assert!(more < SLACK, "{more} allocations");
        });
    });
}

/// Kept places of guards have room in nodes of a map, instead of an allocation each.
#[test]
fn guards_with_kept_places_allocate_less_than_one_time_in_four() {
    in_own_process(|| {
        let swansong = Swansong::with_guard_report();
        let (rounds, mut guards) = (1_000, Vec::with_capacity(1_000));
        let mut allocated = |at_once: bool| {
            let before = made();
            for _ in 0..rounds {
                guards.push(swansong.guard());
                if !at_once {
                    guards.clear();
                }
            }
            guards.clear();
            made() - before
        };
        allocated(true);
        let (alone, together) = (allocated(false), allocated(true));
        assert!(alone < SLACK, "{alone} allocations");
        assert!(together < rounds / 4, "{together} allocations");
        assert!(swansong.guard_report().is_empty());
    });
}

/// A oneshot is one allocation. A broadcast and a watch have one for each value.
#[test]
fn channels_allocate_no_more_than_they_say() {
    in_own_process(|| {
        let (to_all, mut first) = broadcast(8);
        let mut second = first.clone();
        let (to_watch, mut watching) = watch(0);
        let rounds: [(&str, &mut dyn FnMut()); 3] = [
            ("oneshot", &mut || {
                let (to, mut from) = oneshot();
                to.send(1).unwrap();
                from.recv().unwrap();
            }),
            ("broadcast", &mut || {
                to_all.send(1).unwrap();
                assert_eq!((first.recv(), second.recv()), (Ok(1), Ok(1)));
            }),
            ("watch", &mut || {
                to_watch.send(1);
                watching.changed().unwrap();
            }),
        ];
        const ROUNDS: isize = 10_000;
        for (channel, round) in rounds {
            let before = (made(), live());
            (0..ROUNDS).for_each(|_| round());
            let (made, left) = (made() - before.0, live() - before.1);
            assert!(left < SLACK, "{channel}: {left} are left");
            assert!(made - ROUNDS < SLACK, "{channel}: {made} in {ROUNDS} rounds");
        }
    });
}

/// Tasks wait for a primitive, and a cancel ends them, so often that the smallest leftover would be
/// seen.
#[test]
fn a_million_cancelled_waits_leave_nothing() {
    const EACH: usize = 1_000;
    const PRIMITIVES: usize = 7;
    in_own_process(|| {
        let times = scaled_in_debug(1_000_000).div_ceil(EACH * PRIMITIVES);
        let (mutex, event, semaphore) = (Mutex::new(()), Event::new(), Semaphore::new(0));
        let ((_to, empty), (full, _from)) = (bounded::<u8>(4), bounded(1));
        full.try_send(1).unwrap();
        let _held = held(&mutex);
        let sequencer = MultiProducerSequencer::new(SequenceBarrier::<u8>::new(), 1);
        let _claim = sequencer.try_claim(1).unwrap();
        let waits: [&(dyn Fn() -> bool + Sync); PRIMITIVES] = [
            &|| mutex.lock().is_err(),
            &|| event.wait().is_err(),
            &|| semaphore.acquire().is_err(),
            &|| empty.recv().is_err(),
            &|| full.send(2).is_err(),
            &|| sequencer.wait_until_published(0, u8::MAX).is_err(),
            &|| sequencer.claim_one().is_err(),
        ];
        let round = |wait: &(dyn Fn() -> bool + Sync)| {
            let begun = AtomicUsize::new(0);
            let begin_and_wait = || {
                begun.fetch_add(1, Ordering::Relaxed);
                assert!(wait());
            };
            scope(|s| {
                (0..EACH).for_each(|_| drop(s.spawn(begin_and_wait)));
                // There is one worker, so each task waits when the next one begins, or this one
                // goes on.
                while begun.load(Ordering::Relaxed) < EACH {
                    yield_now().unwrap();
                }
                s.cancel_handle().cancel("in vain");
            });
        };
        with(&[1], |rt| {
            let left = rt.block_on(|| {
                // Fills the pools.
                waits.into_iter().for_each(round);
                let before = live();
                (0..times).for_each(|_| waits.into_iter().for_each(round));
                live() - before
            });
            assert!(left < SLACK, "{left} allocations");
            let waited = common::parks(rt);
            assert!(waited >= (times * EACH * PRIMITIVES) as u64, "{waited} waits");
        });
    });
}

/// The negative control.
#[test]
fn a_leak_is_seen() {
    in_own_process_leaking(|| {
        let before = live();
        let rt = runtime(2);
        let forget = || {
            let hook = on_cancel(|_: Cancelled| ());
            std::mem::forget(hook);
        };
        let left = left_at_last(&rt, 1_000, "a leak", forget);
        assert!(left >= 1_000, "{left} of 1,000");
        drop(rt);
        assert!(live() - before >= 1_000, "they have gone with the runtime");
    });
}

#[test]
fn a_handle_that_outlives_its_runtime_keeps_no_records() {
    in_own_process(|| {
        with_own_of(&[2], |rt| {
            let before = live();
            rt.block_on(|| {
                join_all((0..1_000).map(|_| spawn(|| ())));
            });
            let handle = rt.handle();
            assert!(live() > before + 500, "records are kept for later");
            drop(rt);
            assert!(live() < before + SLACK, "{} before, {} now", before, live());
            drop(handle);
        });
    });
}
