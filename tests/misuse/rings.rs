//! Rings whose calls are made in wrong places, with limits of no time and of all time, and after
//! the end.

use crate::common::prelude::*;
use crate::drop_a_result_between_tasks;
use cygnet::ring::sequence::{SequenceBarrier, TryClaimError, WaitStrategy};
use cygnet::ring::{self, MultiProducer, Producer, Reader, Stage};
use cygnet::sync::{SendError, TryRecvError, TrySendError};

/// Producers and readers, each of a ring of its own.
struct Rings {
    one: Producer<u32>,
    many: MultiProducer<u32>,
    stage: Stage<u32>,
    reader: Reader<u32>,
    /// The other sides of these rings.
    read: (Stage<u32>, Stage<u32>),
    written: Option<(Producer<u32>, MultiProducer<u32>)>,
}

const SIZE: u32 = 64;

impl Rings {
    /// Returns rings in which no call has to wait, or else all calls have to.
    fn new(is_ready: bool) -> Rings {
        let strategy = WaitStrategy::Park;
        let single = || ring::single_producer_with(SIZE as usize, strategy, u32::default);
        let multi = || ring::multi_producer_with(SIZE as usize, strategy, u32::default);
        let (mut first, mut second, mut third, mut fourth) = (single(), multi(), single(), multi());
        let read = (first.stage(), second.stage());
        let (stage, [reader]) = (third.stage(), fourth.readers());
        let (mut one, many) = (first.producer(), second.producer());
        let mut written = (third.producer(), fourth.producer());
        for item in 0..SIZE {
            match is_ready {
                true => assert!(written.0.send(item).is_ok() && written.1.send(item).is_ok()),
                false => assert!(one.send(item).is_ok() && many.send(item).is_ok()),
            }
        }
        Rings { one, many, stage, reader, read, written: Some(written) }
    }

    /// Ends the rings.
    fn end(&mut self) {
        self.one.close();
        self.many.close();
        self.written = None;
    }

    /// Checks that no call has changed anything in rings that were not ready.
    fn are_unchanged(mut self) {
        let numbers = 0..SIZE;
        assert!(self.read.0.try_iter().eq(numbers.clone()) && self.read.1.try_iter().eq(numbers));
        assert_eq!(self.stage.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(self.reader.try_recv(), Err(TryRecvError::Empty));
        let (mut one, many) = self.written.expect("they have not ended");
        assert!(one.try_send(7).is_ok() && many.try_send(7).is_ok());
        assert_eq!((self.stage.try_recv(), self.reader.try_recv()), (Ok(7), Ok(7)));
        assert_eq!(self.one.try_claim(..).unwrap().numbers().start(), u64::from(SIZE));
        assert_eq!(self.many.try_claim(..).unwrap().numbers().start(), u64::from(SIZE));
    }
}

fn late() -> Instant {
    common::now() + LONG
}

fn unsent(sent: Result<(), SendError<u32>>) -> Result<(), WaitError> {
    sent.map_err(|error| error.reason().clone())
}

type Call = (&'static str, fn(&mut Rings) -> Result<(), WaitError>);

/// All calls that may wait.
const CALLS: [Call; 32] = [
    ("claim of one", |rings| rings.one.claim(2).map(drop)),
    ("claim_timeout of one", |rings| rings.one.claim_timeout(2, LONG).map(drop)),
    ("claim_deadline of one", |rings| rings.one.claim_deadline(2, late()).map(drop)),
    ("claim_async of one", |rings| wait(rings.one.claim_async(2))?.map(drop)),
    ("send of one", |rings| unsent(rings.one.send(1))),
    ("send_timeout of one", |rings| unsent(rings.one.send_timeout(1, LONG))),
    ("send_deadline of one", |rings| unsent(rings.one.send_deadline(1, late()))),
    ("send_async of one", |rings| unsent(wait(rings.one.send_async(1))?)),
    ("claim of many", |rings| rings.many.claim(2).map(drop)),
    ("claim_timeout of many", |rings| rings.many.claim_timeout(2, LONG).map(drop)),
    ("claim_deadline of many", |rings| rings.many.claim_deadline(2, late()).map(drop)),
    ("claim_async of many", |rings| wait(rings.many.claim_async(2))?.map(drop)),
    ("send of many", |rings| unsent(rings.many.send(1))),
    ("send_timeout of many", |rings| unsent(rings.many.send_timeout(1, LONG))),
    ("send_deadline of many", |rings| unsent(rings.many.send_deadline(1, late()))),
    ("send_async of many", |rings| unsent(wait(rings.many.send_async(1))?)),
    ("Stage::next_batch", |rings| rings.stage.next_batch(2).map(drop)),
    ("Stage::next_batch_timeout", |rings| rings.stage.next_batch_timeout(2, LONG).map(drop)),
    ("Stage::next_batch_deadline", |rings| rings.stage.next_batch_deadline(2, late()).map(drop)),
    ("Stage::next_batch_async", |rings| wait(rings.stage.next_batch_async(2))?.map(drop)),
    ("Stage::recv", |rings| rings.stage.recv().map(drop)),
    ("Stage::recv_timeout", |rings| rings.stage.recv_timeout(LONG).map(drop)),
    ("Stage::recv_deadline", |rings| rings.stage.recv_deadline(late()).map(drop)),
    ("Stage::recv_async", |rings| wait(rings.stage.recv_async())?.map(drop)),
    ("Reader::next_batch", |rings| rings.reader.next_batch(2).map(drop)),
    ("Reader::next_batch_timeout", |rings| rings.reader.next_batch_timeout(2, LONG).map(drop)),
    ("Reader::next_batch_deadline", |rings| rings.reader.next_batch_deadline(2, late()).map(drop)),
    ("Reader::next_batch_async", |rings| wait(rings.reader.next_batch_async(2))?.map(drop)),
    ("Reader::recv", |rings| rings.reader.recv().map(drop)),
    ("Reader::recv_timeout", |rings| rings.reader.recv_timeout(LONG).map(drop)),
    ("Reader::recv_deadline", |rings| rings.reader.recv_deadline(late()).map(drop)),
    ("Reader::recv_async", |rings| wait(rings.reader.recv_async())?.map(drop)),
];

/// Makes all calls, and returns what they have returned.
fn results(rings: &mut Rings) -> Vec<(&'static str, Result<(), WaitError>)> {
    CALLS.iter().map(|(name, call)| (*name, call(rings))).collect()
}

/// Makes all calls, and returns what their panics have said.
fn panics(rings: &mut Rings) -> Vec<(&'static str, String)> {
    CALLS.iter().map(|(name, call)| (*name, panic_of(|| _ = call(rings)))).collect()
}

#[track_caller]
fn all_succeed(rings: &mut Rings) {
    results(rings).into_iter().for_each(|(name, result)| assert_eq!(result, Ok(()), "{name}"));
}

#[test]
fn rings_that_are_ready_need_no_runtime_and_no_wait() {
    within(|| all_succeed(&mut Rings::new(true)));
    with(&[1], |rt| {
        rt.block_on(|| no_suspend(|| all_succeed(&mut Rings::new(true))));
        let (tell, told) = channel();
        let called = OnDrop(move || {
            let results = results(&mut Rings::new(true));
            tell.send(results).unwrap();
        });
        rt.block_on(move || drop_a_result_between_tasks(|| called));
        let results = told.recv().unwrap();
        results.into_iter().for_each(|(name, result)| assert_eq!(result, Ok(()), "{name}"));
    });
}

#[test]
fn a_wait_for_a_ring_inside_no_suspend_is_a_panic_and_changes_nothing() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let mut rings = Rings::new(false);
            for (name, said) in no_suspend(|| panics(&mut rings)) {
                assert!(said.contains("inside no_suspend"), "{name}: {said}");
            }
            rings.are_unchanged();
        });
    });
}

#[test]
fn a_wait_for_a_ring_between_tasks_is_a_panic_and_changes_nothing() {
    with(&[1], |rt| {
        let (tell, told) = channel();
        let waits = OnDrop(move || {
            let mut rings = Rings::new(false);
            let said = panics(&mut rings);
            tell.send((rings, said)).ok().unwrap();
        });
        rt.block_on(move || drop_a_result_between_tasks(|| waits));
        let (rings, said) = told.recv().unwrap();
        for (name, said) in said {
            assert!(said.contains("outside of its tasks"), "{name}: {said}");
        }
        rings.are_unchanged();
    });
}

#[test]
fn a_wait_for_a_ring_while_unwinding_is_cancelled_and_changes_nothing() {
    with(&[1, 2], |rt| {
        for is_ready in [false, true] {
            let (tell, told) = channel();
            let task = rt.spawn(move || {
                let _waits = OnDrop(move || {
                    let mut rings = Rings::new(is_ready);
                    let results = results(&mut rings);
                    tell.send((rings, results)).ok().unwrap();
                });
                panic!("for the destructor");
            });
            let (rings, results) = told.recv().unwrap();
            let ended: Result<(), _> = task.join();
            assert!(ended.is_err());
            for (name, result) in results {
                match result {
                    Ok(()) => assert!(is_ready, "{name}"),
                    Err(why) => {
                        // `wait` is refused whether or not its future is ready.
                        assert!(!is_ready || name.contains("async"), "{name}");
                        assert!(format!("{why:?}").contains("Unwinding"), "{name}: {why:?}");
                    }
                }
            }
            if !is_ready {
                rings.are_unchanged();
            }
        }
    });
}

/// Also if the task need not wait. What does not wait takes no notice.
#[test]
fn a_cancelled_task_is_refused_by_a_ring_and_changes_nothing() {
    with(&[1, 2], |rt| {
        for is_ready in [false, true] {
            let task = rt.spawn(move || {
                let mut rings = Rings::new(is_ready);
                cygnet::cancel_handle().cancel("enough");
                for (name, result) in results(&mut rings) {
                    // A future that need not wait is none of the task's waits.
                    let may_be = is_ready && name.contains("async");
                    assert!(
                        matches!(result, Err(WaitError::Cancelled(_))) || may_be,
                        "{name}: {result:?}"
                    );
                }
                match is_ready {
                    false => rings.are_unchanged(),
                    true => {
                        assert!(rings.one.try_claim(2).is_ok() && rings.many.try_claim(2).is_ok());
                        assert!(rings.one.try_send(1).is_ok() && rings.many.try_send(1).is_ok());
                        assert!(rings.stage.try_next_batch(2).is_ok());
                        assert!(rings.reader.try_recv().is_ok());
                    }
                }
            });
            task.join().unwrap();
        }
    });
}

#[test]
fn the_calls_of_a_ring_after_its_end_are_closed() {
    within(|| {
        let mut rings = Rings::new(false);
        rings.end();
        for _ in 0..2 {
            for (name, result) in results(&mut rings) {
                assert_eq!(result, Err(WaitError::Closed), "{name}");
            }
            assert_eq!(rings.one.try_claim(usize::MAX).unwrap_err(), TryClaimError::Closed);
            assert_eq!(rings.many.try_claim(0).unwrap_err(), TryClaimError::Closed);
            assert_eq!(rings.one.try_send(1), Err(TrySendError::Closed(1)));
            assert_eq!(rings.many.try_send(2), Err(TrySendError::Closed(2)));
            assert_eq!(rings.stage.try_next_batch(9).unwrap_err(), TryRecvError::Closed);
            assert_eq!(rings.reader.try_recv().unwrap_err(), TryRecvError::Closed);
            assert_eq!((rings.stage.iter().next(), rings.reader.try_iter().next()), (None, None));
        }
    });
}

#[test]
fn limits_of_no_time_get_what_is_there_and_else_time_out() {
    with(&[1], |rt| {
        let limits = || {
            let past = common::now();
            for is_ready in [true, false] {
                let mut rings = Rings::new(is_ready);
                let Rings { one, many, stage, reader, .. } = &mut rings;
                let results = [
                    one.claim_timeout(2, Duration::ZERO).map(drop),
                    one.claim_deadline(2, past).map(drop),
                    many.claim_timeout(2.., Duration::ZERO).map(drop),
                    many.claim_deadline(..=2, past).map(drop),
                    unsent(one.send_timeout(1, Duration::ZERO)),
                    unsent(one.send_deadline(1, past)),
                    unsent(many.send_timeout(1, Duration::ZERO)),
                    unsent(many.send_deadline(1, past)),
                    stage.next_batch_timeout(2, Duration::ZERO).map(drop),
                    stage.next_batch_deadline(2, past).map(drop),
                    stage.recv_timeout(Duration::ZERO).map(drop),
                    stage.recv_deadline(past).map(drop),
                    reader.next_batch_timeout(2, Duration::ZERO).map(drop),
                    reader.next_batch_deadline(.., past).map(drop),
                    reader.recv_timeout(Duration::ZERO).map(drop),
                    reader.recv_deadline(past).map(drop),
                ];
                // The reader has taken all that there was before its last two calls.
                let late = if is_ready { 2 } else { 0 };
                let (first, last) = results.split_at(results.len() - late);
                let expected = if is_ready { Ok(()) } else { Err(WaitError::TimedOut) };
                assert!(first.iter().all(|result| *result == expected), "{results:?}");
                assert!(last.iter().all(|result| *result == Err(WaitError::TimedOut)));
            }
            let barrier = SequenceBarrier::<u64>::new();
            assert_eq!(barrier.wait_deadline(0, past), Err(WaitError::TimedOut));
            barrier.publish(0);
            assert_eq!(barrier.wait_deadline(0, past), Ok(0));
        };
        limits();
        rt.block_on(limits);
    });
}

#[test]
fn limits_beyond_the_clock_are_none() {
    with(&[1, 2], |rt| {
        let never = || common::now().checked_add(Duration::from_secs(1 << 60)).unwrap();
        let mut ring = ring::multi_producer_with(2, WaitStrategy::Park, u32::default);
        let (mut stage, producer) = (ring.stage(), ring.producer());
        let reads = parked(rt, 1, move || {
            let mut all = vec![
                stage.recv_timeout(Duration::MAX).unwrap(),
                stage.recv_deadline(never()).unwrap(),
            ];
            all.extend(stage.next_batch_timeout(1, Duration::MAX).unwrap().iter().copied());
            all.extend(stage.next_batch_deadline(1, never()).unwrap().iter().copied());
            (all, stage)
        });
        (0..4).for_each(|item| producer.send(item).unwrap());
        let (all, mut stage) = reads.join().unwrap();
        assert_eq!(all, [0, 1, 2, 3]);
        producer.claim(2).unwrap().publish();
        let writes = parked(rt, 1, move || {
            drop(producer.claim_timeout(1, Duration::MAX).unwrap());
            producer.claim_deadline(2, never()).unwrap().publish();
            producer.send_timeout(1, Duration::MAX).unwrap();
            producer.send_deadline(2, never()).unwrap();
        });
        let mut read = 0;
        while let Ok(batch) = stage.next_batch(..) {
            read += batch.len();
        }
        writes.join().unwrap();
        assert_eq!(read, 6);
    });
}

/// The ring has its first stage as before, and ends with its builder.
#[test]
fn a_number_of_readers_that_no_memory_has_room_for_is_a_panic() {
    let mut ring = cygnet::ring::multi_producer(8, u32::default);
    let mut stage = ring.stage();
    let readers = catch_unwind(AssertUnwindSafe(|| ring.readers_vec(usize::MAX).len()));
    assert!(readers.is_err());
    ring.producer().send(7).unwrap();
    assert_eq!(stage.recv(), Ok(7));
    assert_eq!(stage.recv(), Err(WaitError::Closed));
}

#[test]
fn a_range_that_was_used_up_is_no_count() {
    let mut ring = cygnet::ring::single_producer(8, u32::default);
    let _stage = ring.stage();
    let mut producer = ring.producer();
    let mut counts = 3..=5;
    counts.by_ref().for_each(drop);
    panics_with("no count is in", || producer.try_claim(counts).is_ok());
}
