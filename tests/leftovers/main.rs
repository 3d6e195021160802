//! What a wait leaves behind that was cut short, timed out, or lost: nothing. The allocator, the workers' counters and the
//! timers are asked after a hundred such waits of each kind, and again after many more.

#[path = "../common/mod.rs"]
mod common;
mod kinds;

use common::rerun::{alone, alone_and_leaking};
use common::{eventually, runtime, scaled_in_debug, within};
use cygnet::ring::sequence::{MultiProducerSequencer, SequenceBarrier};
use cygnet::shutdown::Swansong;
use cygnet::sync::{Barrier, Event, Mutex, Semaphore, bounded, broadcast, oneshot, watch};
use cygnet::{
    Cancelled, JoinError, Metrics, Runtime, blocking, on_cancel, scope, spawn, spawn_blocking,
    timeout, yield_now, yield_to,
};
use kinds::{
    LONG, SHORT, WAITS, a_future_that_is_dropped, all_with_a_failure, any_with_losers,
    branches_that_lose, held,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

/// Counts the allocations of the process that live.
struct Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);
static MADE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's, and a count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(1, Ordering::Relaxed);
        MADE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is allocated once, whenever it is needed first.
const SLACK: isize = 50;

/// Calls `wait` in a task that is cancelled as soon as it waits, or before.
fn cancelled(wait: impl FnOnce() + Send + 'static) {
    let waiting = spawn(wait);
    yield_now().unwrap();
    waiting.cancel("enough");
    let joined = waiting.join();
    assert!(matches!(joined, Ok(()) | Err(JoinError::NotStarted(_))), "{joined:?}");
}

/// Calls `wait` within a time limit that it does not keep.
fn timed_out(wait: impl FnOnce()) {
    assert!(timeout(SHORT, wait).is_err());
}

/// Nothing runs, and nothing is set.
fn is_quiet(metrics: &Metrics) -> bool {
    metrics.workers.iter().all(|w| (w.coroutines, w.timers) == (0, 0))
}

fn live() -> isize {
    LIVE.load(Ordering::Relaxed)
}

/// Does it so many times, and waits until nothing is under way.
fn settled(rt: &Runtime, rounds: usize, what: &str, wait: impl Fn() + Sync) {
    rt.block_on(|| (0..rounds).for_each(|_| scope(|_| wait())));
    eventually(what, || is_quiet(&rt.metrics()));
}

/// Does it a hundred times, and then `rounds` times: the allocations that have become more.
fn left_by(rt: &Runtime, rounds: usize, what: &str, wait: impl Fn() + Sync) -> isize {
    settled(rt, 100, what, &wait);
    let before = live();
    settled(rt, rounds, what, &wait);
    live() - before
}

/// As `left_by`, the last of a few times: what is needed only now, as a row for each slot of a timing wheel that a
/// timer comes to, is there the next time, and a leak goes on.
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
    // Each of them may take a time limit's time.
    let rounds = 200;
    within(|| {
        let rt = runtime(1);
        let left = left_at_last(&rt, rounds, kind, &wait);
        assert!(left < SLACK, "{kind}: {left} allocations");
        let stacks = rt.metrics().stacks;
        assert!(stacks < 100, "{kind}: {stacks} stacks");
    });
    // Where tasks end on other workers than those that have spawned them, records lie in the pools of both, many of
    // them at times. All has gone with the runtime.
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

#[test]
fn a_cancelled_wait_leaves_nothing_behind() {
    common::real!("a process of its own");
    alone("a_cancelled_wait_leaves_nothing_behind", || {
        for (kind, wait) in WAITS {
            leaves_nothing(kind, || cancelled(wait));
        }
    });
}

#[test]
fn a_wait_that_has_timed_out_leaves_nothing_behind() {
    common::real!("a process of its own");
    alone("a_wait_that_has_timed_out_leaves_nothing_behind", || {
        for (kind, wait) in WAITS {
            leaves_nothing(kind, || timed_out(wait));
        }
    });
}

/// All threads for calls that block may hang for as long as they like.
#[test]
fn a_call_that_is_cancelled_behind_one_that_hangs_leaves_nothing_behind() {
    common::real!("a process of its own");
    alone("a_call_that_is_cancelled_behind_one_that_hangs_leaves_nothing_behind", || {
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
    common::real!("a process of its own");
    alone("a_wait_that_has_lost_leaves_nothing_behind", || {
        leaves_nothing("any", any_with_losers);
        leaves_nothing("all_fail_fast", all_with_a_failure);
        leaves_nothing("a future", a_future_that_is_dropped);
        leaves_nothing("the branches of a select", branches_that_lose);
    });
}

/// Two tasks that hand primitives to each other, so that each call has to wait.
#[test]
fn a_wait_of_a_primitive_allocates_nothing() {
    common::real!("a process of its own");
    alone("a_wait_of_a_primitive_allocates_nothing", || {
        within(|| {
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
                    // The second one waits for room, and the first one until the second one has read.
                    let claim = sequencer.claim_one().unwrap();
                    let sequence = claim.range().start();
                    yield_now().unwrap();
                    claim.publish();
                    read.publish(sequence);
                    read.wait_until_published(sequence | 1).unwrap();
                }
            };
            let rt = runtime(1);
            let made = || {
                let (before, parked) = (MADE.load(Ordering::Relaxed), common::parks(&rt));
                rt.block_on(|| scope(|s| (0..2).for_each(|_| drop(s.spawn(visit)))));
                let waits = common::parks(&rt) - parked;
                assert!(waits >= 4 * rounds, "{waits} waits");
                MADE.load(Ordering::Relaxed) - before
            };
            // The rows of a timing wheel, and the tasks.
            made();
            let more = made();
            assert!(more < SLACK, "{more} allocations");
        });
    });
}

/// Where the places of guards are kept, they have room in nodes of a map, and not an allocation each.
#[test]
fn guards_whose_places_are_kept_allocate_less_than_one_time_in_four() {
    common::real!("a process of its own");
    alone("guards_whose_places_are_kept_allocate_less_than_one_time_in_four", || {
        let swansong = Swansong::with_guard_report();
        let (rounds, mut guards) = (1_000, Vec::with_capacity(1_000));
        let mut made = |at_once: bool| {
            let before = MADE.load(Ordering::Relaxed);
            for _ in 0..rounds {
                guards.push(swansong.guard());
                if !at_once {
                    guards.clear();
                }
            }
            guards.clear();
            MADE.load(Ordering::Relaxed) - before
        };
        made(true);
        let (alone, together) = (made(false), made(true));
        assert!(alone < SLACK, "{alone} allocations");
        assert!(together < rounds / 4, "{together} allocations");
        assert!(swansong.guard_report().is_empty());
    });
}

/// A oneshot is one allocation, and a broadcast and a watch have one for each value, with room for those that lie there.
#[test]
fn channels_allocate_no_more_than_they_say() {
    common::real!("a process of its own");
    alone("channels_allocate_no_more_than_they_say", || {
        let rounds = 10_000;
        let made = |round: &mut dyn FnMut()| {
            let before = (MADE.load(Ordering::Relaxed), live());
            (0..rounds).for_each(|_| round());
            assert!(live() - before.1 < SLACK, "{} are left", live() - before.1);
            MADE.load(Ordering::Relaxed) - before.0
        };
        let oneshots = made(&mut || {
            let (to, mut from) = oneshot();
            to.send(1).unwrap();
            from.recv().unwrap();
        });
        assert!(oneshots - rounds < SLACK, "{oneshots} in {rounds} rounds");
        let (to, mut from) = broadcast(8);
        let mut other = from.clone();
        let broadcasts = made(&mut || {
            to.send(1).unwrap();
            assert_eq!((from.recv(), other.recv()), (Ok(1), Ok(1)));
        });
        assert!(broadcasts - rounds < SLACK, "{broadcasts} in {rounds} rounds");
        let (to, mut from) = watch(0);
        let watches = made(&mut || {
            to.send(1);
            from.changed().unwrap();
        });
        assert!(watches - rounds < SLACK, "{watches} in {rounds} rounds");
    });
}

/// A task that waits for one of the primitives, and a cancel that ends it; so often that the least that is left each time
/// would be seen.
#[test]
fn a_million_cancelled_waits_leave_nothing() {
    common::real!("a process of its own");
    const EACH: usize = 1_000;
    const PRIMITIVES: usize = 7;
    alone("a_million_cancelled_waits_leave_nothing", || {
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
                // The only worker: each one waits when the next one begins, or this one goes on.
                while begun.load(Ordering::Relaxed) < EACH {
                    yield_now().unwrap();
                }
                s.cancel_handle().cancel("in vain");
            });
        };
        within(|| {
            let rt = runtime(1);
            let left = rt.block_on(|| {
                // Memory that is kept for the next ones.
                waits.into_iter().for_each(round);
                let before = live();
                (0..times).for_each(|_| waits.into_iter().for_each(round));
                live() - before
            });
            assert!(left < SLACK, "{left} allocations");
            let waited = common::parks(&rt);
            assert!(waited >= (times * EACH * PRIMITIVES) as u64, "{waited} waits");
        });
    });
}

/// What is forgotten does stay, and is seen here.
#[test]
fn a_leak_is_seen() {
    common::real!("a process of its own");
    alone_and_leaking("a_leak_is_seen", || {
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
    alone("a_handle_that_outlives_its_runtime_keeps_no_records", || {
        within(|| {
            let rt = runtime(2);
            let before = live();
            rt.block_on(|| {
                let tasks: Vec<_> = (0..1_000).map(|_| spawn(|| ())).collect();
                tasks.into_iter().for_each(|task| task.join().unwrap());
            });
            let handle = rt.handle();
            assert!(live() > before + 500, "records are kept for later");
            drop(rt);
            assert!(live() < before + SLACK, "{} before, {} now", before, live());
            drop(handle);
        });
    });
}
