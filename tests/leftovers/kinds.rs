//! Waits of all kinds that end without success.

use crate::common::prelude::*;
use cygnet::ring::sequence::{
    MultiProducerSequencer, SequenceBarrier, SequenceBarrierGroup, WaitStrategy,
};
use cygnet::sync::{AsyncMutexGuard, Barrier, Condvar, Mutex, RwLock, Semaphore, broadcast, watch};

pub const LONG: Duration = Duration::from_secs(10_000);
pub const SHORT: Duration = Duration::from_micros(100);

/// Waits until it is cancelled.
fn lose() {
    park().unwrap_err();
}

/// Locks the mutex by a future, so that the calling task is not the owner.
pub fn held(mutex: &Mutex<()>) -> AsyncMutexGuard<'_, ()> {
    let Poll::Ready(guard) = poll_once(mutex.lock_async()) else { panic!("it is free") };
    guard
}

/// All kinds of waits, each of which can be cut short.
pub const WAITS: [(&str, fn()); 25] = [
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
        group.add(lose);
        let below: TaskGroup = group.child();
        below.add(lose);
        drop(below);
        drop(group.join());
    }),
    ("a call of an actor", || {
        let (actor, body) = TaskActor::new(());
        let owner = spawn(move || body.run());
        // The message is cut short by the same cancel, and may have an answer in time.
        let _ = actor.call(|()| lose());
        drop(owner);
    }),
    ("an inner time limit", || {
        let _ = timeout(LONG, || {
            // The scope of the inner limit does not ignore a cancel from above.
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
        assert!(semaphore.acquire_many(2).is_err() && semaphore.acquire_timeout(2, LONG).is_err());
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
        let full = sequencer.try_claim(..=2).unwrap();
        assert!(sequencer.claim_one().is_err() && sequencer.claim(2).is_err());
        assert!(sequencer.claim_timeout(1, LONG).is_err());
        assert!(wait(sequencer.claim_async(1)).is_err());
        assert!(sequencer.wait_until_published(0, u8::MAX).is_err());
        drop(full);
    }),
    ("a ring", || {
        let mut builder = ring::multi_producer(2, String::new);
        let (mut stage, [mut reader]) = (builder.stage(), builder.readers());
        let producer = builder.producer();
        assert!(stage.next_batch(..).is_err() && stage.next_batch_timeout(2, LONG).is_err());
        assert!(stage.next_batch_deadline(2, common::now() + LONG).is_err());
        assert!(wait(stage.next_batch_async(2)).is_err());
        assert!(stage.recv_timeout(LONG).is_err() && wait(stage.recv_async()).is_err());
        (0..2)
            .for_each(|_| producer.try_claim(1).into_iter().for_each(|batch| _ = batch.publish()));
        assert!(producer.send(String::from("waits")).is_err());
        assert!(producer.claim(2).is_err() && wait(producer.claim_async(2)).is_err());
        assert!(producer.claim_timeout(1, LONG).is_err());
        assert!(producer.send_timeout(String::from("waits"), LONG).is_err());
        assert!(wait(producer.send_async(String::from("waits"))).is_err());
        assert!(reader.recv().is_err() && reader.with_strategy(WaitStrategy::Park).recv().is_err());
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
        // A child of the calling task may be told between the wait's look at the task and its poll.
        assert!(!matches!(wait(first), Ok(None)));
        let mut second = pin!(second);
        // The drop of its handle cancels it, at the latest.
        let _ = poll_once(second.as_mut());
        drop(other);
    }),
    ("a hook and a lease", || {
        let (lease, handle) = (lease(), cancel_handle());
        let hook = on_cancel(|_: Cancelled| ());
        cygnet::task().spawn_in(&lease, lose).detach();
        lose();
        shield(SHORT, || sleep(LONG)).unwrap_err();
        drop((lease, handle, hook));
    }),
];

pub fn any_with_losers() {
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

pub fn all_with_a_failure() {
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
pub fn a_future_that_is_dropped() {
    let mut task = spawn(lose);
    assert!(poll_once(&mut task).is_pending());
    drop(task);
}

/// All branches but one lose.
pub fn branches_that_lose() {
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
