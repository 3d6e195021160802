//! What a wait leaves behind that was cut short, timed out, or lost: nothing. The allocator, the workers' counters and the
//! timers are asked after a hundred such waits of each kind, and again after many more.

mod common;

use common::rerun::{alone, alone_and_leaking};
use common::{eventually, runtime, scaled_in_debug, within};
use cygnet::sync::ring;
use cygnet::sync::sequence::{MultiProducerSequencer, SequenceBarrier, SequenceBarrierGroup};
use cygnet::sync::{
    AsyncMutexGuard, Barrier, Condvar, Event, Mutex, RwLock, Semaphore, bounded, broadcast,
    oneshot, watch,
};
use cygnet::{
    Cancelled, JoinError, Metrics, Runtime, TaskActor, TaskGroup, all_fail_fast, any,
    cancel_handle, ignore_cancellation, interval, lease, on_cancel, park, promise, scope, select,
    shield, sleep, sleep_async, spawn, timeout, timeout_async, wait, yield_now,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

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

const LONG: Duration = Duration::from_secs(10_000);
const SHORT: Duration = Duration::from_micros(100);

/// What is allocated once, whenever it is needed first.
const SLACK: isize = 50;

/// Waits until it is cancelled.
fn lose() {
    park().unwrap_err();
}

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

/// Locks it as a future does, which is none of the calling task.
fn held(mutex: &Mutex<()>) -> AsyncMutexGuard<'_, ()> {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(mutex.lock_async()).poll(&mut context) {
        std::task::Poll::Ready(guard) => guard,
        std::task::Poll::Pending => panic!("it is free"),
    }
}

/// All kinds of waits, each of which can be cut short.
const WAITS: [(&str, fn()); 25] = [
    ("park", lose),
    ("sleep", || assert!(sleep(LONG).is_err())),
    ("join of a task", || drop(spawn(lose).join())),
    ("a scope with a child", || scope(|s| drop(s.spawn(lose)))),
    ("join of a promise", || {
        let (promise, answer) = promise::<String>();
        let _hook = promise.on_cancel(|_: Cancelled| ());
        assert!(answer.join().is_err());
        assert!(promise.complete(String::from("too late")).is_err());
    }),
    ("join of a group", || {
        let group = TaskGroup::new();
        group.spawn(lose);
        let below: TaskGroup = group.child();
        below.spawn(lose);
        drop(below);
        drop(group.join());
    }),
    ("a call of an actor", || {
        let (actor, body) = TaskActor::new(());
        let owner = spawn(move || body.run());
        assert!(actor.call(|()| lose()).is_err());
        drop(owner);
    }),
    ("an inner time limit", || {
        let _ = timeout(LONG, || {
            // What comes from above is not ignored by the scope of the limit in it.
            let _ = ignore_cancellation(|| timeout(SHORT, || sleep(LONG)).is_err());
            sleep(LONG)
        });
    }),
    ("a mutex", || {
        let mutex = Mutex::new(());
        let _held = held(&mutex);
        assert!(mutex.lock().is_err());
        assert!(mutex.lock_timeout(LONG).is_err());
    }),
    ("a reader-writer lock", || {
        let lock = RwLock::new(());
        let _reads = lock.try_read();
        assert!(lock.write().is_err() && lock.write_timeout(LONG).is_err());
    }),
    ("a semaphore", || {
        let semaphore = Semaphore::new(1);
        assert!(semaphore.acquire_many(2).is_err());
        assert!(semaphore.acquire_timeout(2, LONG).is_err());
    }),
    ("an event", || {
        let event = Event::new();
        assert!(event.wait().is_err() && event.wait_timeout(LONG).is_err());
    }),
    ("a condition variable", || {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        shield(SHORT, || {
            // The time may be over already.
            let mut guard = mutex.try_lock().unwrap();
            assert!(condvar.wait(&mut guard).is_err());
            assert!(condvar.wait_timeout(&mut guard, LONG).is_err());
        })
        .unwrap_err();
    }),
    ("a barrier", || {
        let barrier = Barrier::new(2);
        assert!(barrier.wait().is_err() && barrier.wait_timeout(LONG).is_err());
    }),
    ("a channel", || {
        for capacity in [0, 1] {
            let (to, from) = bounded(capacity);
            assert!(from.recv().is_err() && from.recv_timeout(LONG).is_err());
            let _ = to.try_send(String::from("fills it"));
            assert!(to.send(String::from("waits")).is_err());
            assert!(to.send_timeout(String::from("waits"), LONG).is_err());
        }
    }),
    ("a oneshot", || {
        let (to, mut from) = oneshot::<String>();
        assert!(from.recv().is_err() && from.recv_timeout(LONG).is_err());
        assert!(to.closed().is_err() && to.closed_timeout(LONG).is_err());
        assert!(wait(from.recv_async()).is_err() && wait(to.closed_async()).is_err());
        to.send(String::from("too late")).unwrap();
    }),
    ("a broadcast", || {
        let (to, mut from) = broadcast(2);
        assert!(from.recv().is_err() && from.recv_timeout(LONG).is_err());
        assert!(wait(from.recv_async()).is_err());
        let _other = from.clone();
        (0..3).for_each(|_| assert_eq!(to.send(String::from("too late")), Ok(2)));
        assert!(from.recv().is_err());
    }),
    ("a watch", || {
        let (to, mut from) = watch(String::new());
        assert!(from.changed().is_err() && from.changed_timeout(LONG).is_err());
        assert!(from.wait_for(|_| false).is_err());
        assert!(wait(from.changed_async()).is_err());
        to.send(String::from("too late"));
        assert!(from.changed().is_err());
    }),
    ("a sequence barrier, a group of them, and a sequencer", || {
        let barriers = [(); 2].map(|()| SequenceBarrier::<u8>::new());
        let group = SequenceBarrierGroup::new(barriers.iter().cloned());
        assert!(barriers[0].wait_until_published(0).is_err());
        assert!(group.wait_until_published(0).is_err() && group.wait_timeout(0, LONG).is_err());
        assert!(wait(group.wait_async(0)).is_err());
        let sequencer = MultiProducerSequencer::new(group, 2);
        let full = sequencer.try_claim(2).unwrap();
        assert!(sequencer.claim_one().is_err() && sequencer.claim_exactly(2).is_err());
        assert!(sequencer.claim_timeout(1, LONG).is_err());
        assert!(wait(sequencer.claim_async(1)).is_err());
        assert!(sequencer.wait_until_published(0, u8::MAX).is_err());
        drop(full);
    }),
    ("a ring", || {
        let mut builder = ring::multi_producer(2, String::new);
        let (mut stage, [mut reader]) = (builder.stage(), builder.readers());
        let producer = builder.producer();
        assert!(stage.next_batch().is_err() && stage.next_batch_timeout(LONG).is_err());
        assert!(wait(stage.next_batch_async()).is_err());
        (0..2).for_each(|_| producer.try_claim(1).into_iter().for_each(|batch| batch.publish()));
        assert!(producer.send(String::from("waits")).is_err());
        assert!(producer.claim(1).is_err() && wait(producer.claim_async(1)).is_err());
        assert!(reader.recv().is_err());
    }),
    ("a future", || {
        assert!(wait(std::future::pending::<()>()).is_err());
        let event = Event::new();
        assert!(wait(event.wait_async()).is_err());
    }),
    ("a future that waits for a time, and a tick", || {
        assert!(wait(sleep_async(LONG)).is_err());
        assert!(wait(timeout_async(LONG, std::future::pending::<()>())).is_err());
        let mut ticks = interval(LONG);
        ticks.reset();
        assert!(ticks.tick().is_err() && wait(ticks.tick_async()).is_err());
    }),
    ("a select", || {
        let (to, from) = bounded(0);
        let (event, semaphore) = (Event::new(), Semaphore::new(0));
        let waits = || {
            select! {
                _ = from.recv_async() => (),
                _ = event.wait_async() => (),
                _ = semaphore.acquire_async(1) => (),
                _ = async { std::future::pending::<()>().await } => (),
            }
        };
        assert!(waits().is_err());
        let sends = select! {
            _ = to.send_async(String::from("waits")) => (),
            _ = event.wait_async() => (),
        };
        assert!(sends.is_err());
    }),
    ("a future of a cancel", || {
        let other = spawn(lose);
        let [first, second] = [(); 2].map(|()| other.cancel_handle().cancelled_async());
        // A child of the calling task, it may be told between the wait's look at the task and its poll.
        assert!(!matches!(wait(first), Ok(None)));
        let mut second = std::pin::pin!(second);
        let mut context = Context::from_waker(Waker::noop());
        // And when its handle is dropped it is cancelled, at the latest.
        let _ = second.as_mut().poll(&mut context);
        drop(other);
    }),
    ("a hook and a lease", || {
        let (lease, handle) = (lease(), cancel_handle());
        let hook = on_cancel(|_: Cancelled| ());
        lease.spawn(lose).detach();
        lose();
        shield(SHORT, || sleep(LONG)).unwrap_err();
        drop((lease, handle, hook));
    }),
];

fn any_with_losers() {
    let children = (0..4).map(|n| {
        move || {
            if n == 3 {
                yield_now().unwrap();
                return Ok(n);
            }
            Err(park().unwrap_err())
        }
    });
    assert_eq!(any(children).unwrap(), 3);
}

fn all_with_a_failure() {
    let children = (0..4).map(|n| {
        move || {
            if n == 3 {
                yield_now().unwrap();
                return Err(n);
            }
            lose();
            Ok(())
        }
    });
    assert_eq!(all_fail_fast(children).unwrap_err().into_failed().unwrap(), 3);
}

/// A task that is awaited as a future, which is dropped.
fn a_future_that_is_dropped() {
    let mut task = spawn(lose);
    let mut context = Context::from_waker(Waker::noop());
    assert!(std::pin::Pin::new(&mut task).poll(&mut context).is_pending());
    drop(task);
}

/// Of futures that wait all but one lose.
fn branches_that_lose() {
    let (to, from) = bounded(0);
    let event = Event::new();
    let winner = spawn(|| yield_now().is_ok());
    let won = select! {
        _ = to.send_async(String::from("loses")) => false,
        _ = event.wait_async() => false,
        joined = winner => joined.unwrap(),
    };
    assert_eq!(won, Ok(true));
    assert!(from.try_recv().is_err());
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
            let (mutex, semaphore, barrier) = (Mutex::new(0), Semaphore::new(1), Barrier::new(2));
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
