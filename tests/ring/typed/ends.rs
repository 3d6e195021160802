//! How a ring ends: in good order, at once, and when a reader or a writer vanishes.

use super::one_stage;
use crate::common::prelude::*;
use cygnet::ring::sequence::WaitStrategy;
use cygnet::ring::{self, MultiProducer, Stage};
use cygnet::sync::{SendError, TryRecvError};

/// Sends one item, or returns why not.
fn send_one(producer: MultiProducer<u32>) -> Result<(), WaitError> {
    producer.send(1).map_err(|error| error.reason().clone())
}

/// Reads to the end, and returns how many items there were.
fn drain(stage: &mut Stage<u32>) -> usize {
    let mut count = 0;
    while let Ok(batch) = stage.next_batch(..=2) {
        count += batch.len();
    }
    count
}

/// Q28.
#[test]
fn all_stages_read_all_items_after_the_last_writer_is_dropped() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(8, u32::default);
        let mut first = ring.stage();
        let [mut fast, mut slow] = ring.readers();
        let mut last = ring.stage();
        let producer = ring.producer();
        let other = producer.clone();
        (0..5).for_each(|item| producer.send(item).unwrap());
        drop(producer);
        other.send(5).unwrap();
        drop(other);
        assert_eq!(drain(&mut first), 6);
        assert_eq!(first.next_batch(..).unwrap_err(), WaitError::Closed);
        // The fast reader is done, and is dropped, long before the slow one.
        let batches = std::iter::from_fn(|| Some(fast.next_batch(..).ok()?.len()));
        assert_eq!(batches.sum::<usize>(), 6);
        drop((first, fast));
        let in_task = rt.spawn(move || drain(&mut last));
        let read: Vec<_> = std::iter::from_fn(|| slow.recv().ok()).collect();
        assert_eq!((read, in_task.join().unwrap()), (vec![0, 1, 2, 3, 4, 5], 6));
    });
}

#[test]
fn a_closed_ring_refuses_writers_and_is_read_to_its_end() {
    with_each(|rt| {
        let (mut stage, mut producer) = one_stage(4, u32::default);
        (0..3).for_each(|item| producer.send(item).unwrap());
        producer.close();
        producer.close();
        assert!(producer.is_closed());
        let refused: SendError<u32> = producer.send(9).unwrap_err();
        assert_eq!((refused.reason(), refused.clone().into_inner()), (&WaitError::Closed, 9));
        assert!(producer.try_claim(1).is_err());
        assert_eq!(rt.spawn(move || drain(&mut stage)).join().unwrap(), 3);
    });
}

#[test]
fn items_sent_before_the_close_are_read_though_an_earlier_batch_is_open() {
    let mut ring = ring::multi_producer(8, u32::default);
    let (mut first, mut last) = (ring.stage(), ring.stage());
    let producer = ring.producer();
    let mut batch = producer.claim(2).unwrap();
    producer.send(7).unwrap();
    producer.close();
    for stage in [&mut first, &mut last] {
        assert_eq!(stage.try_next_batch(..).unwrap_err(), TryRecvError::Empty);
    }
    batch.iter_mut().for_each(|item| *item = 3);
    assert!(batch.publish_first(1));
    for stage in [&mut first, &mut last] {
        let items: Vec<_> = stage.next_batch(..).unwrap().iter().copied().collect();
        assert_eq!(items, [3, 7]);
    }
    assert_eq!(
        last.try_next_batch(..).unwrap_err(),
        TryRecvError::Empty,
        "the first stage may go on"
    );
    assert_eq!(first.next_batch(..).unwrap_err(), WaitError::Closed);
    assert_eq!(last.try_next_batch(..).unwrap_err(), TryRecvError::Closed);
}

#[test]
fn waiting_stages_are_told_of_the_end_when_the_last_batch_has_ended() {
    with_each(|rt| {
        for publishes in [true, false] {
            let mut ring = ring::multi_producer_with(4, WaitStrategy::Park, u32::default);
            let (stages, producer) = ([ring.stage(), ring.stage()], ring.producer());
            let batch = producer.claim(1).unwrap();
            let drains = |mut stage| rt.spawn(move || drain(&mut stage));
            let stages = parking(rt, 2, || stages.map(drains));
            producer.close();
            assert!(stages.iter().all(|stage| !stage.is_finished()));
            if publishes {
                assert!(batch.publish());
            } else {
                drop(batch);
            }
            let read = stages.map(|stage| stage.join().unwrap());
            assert_eq!(read, [usize::from(publishes); 2]);
        }
    });
}

/// Q20.
#[test]
fn a_forgotten_batch_is_given_back_when_the_last_writer_is_dropped() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(8, u32::default);
        let (mut stage, producer) = (ring.stage(), ring.producer());
        let other = producer.clone();
        producer.send(1).unwrap();
        std::mem::forget(producer.claim(2).unwrap());
        other.send(2).unwrap();
        std::mem::forget(other.claim(3).unwrap());
        let reader = rt.spawn(move || drain(&mut stage));
        drop(producer);
        other.close();
        drop(other);
        assert_eq!(reader.join().unwrap(), 2);
    });
}

/// Q30.
#[test]
fn a_batch_that_is_published_after_a_reader_is_dropped_comes_too_late() {
    let mut ring = ring::single_producer(4, u32::default);
    let ([gone, mut stays], mut producer) = (ring.readers(), ring.producer());
    producer.send(1).unwrap();
    let batch = producer.claim(2).unwrap();
    drop(gone);
    assert_eq!(stays.next_batch(..).unwrap().len(), 1);
    assert_eq!(stays.next_batch(..).unwrap_err(), WaitError::Closed);
    assert!(!batch.publish());
    assert_eq!(stays.next_batch(..).unwrap_err(), WaitError::Closed);
    assert_eq!(stays.try_next_batch(..).unwrap_err(), TryRecvError::Closed);

    let mut ring = ring::multi_producer(4, u32::default);
    let ([gone, mut stays], producer) = (ring.readers(), ring.producer());
    let batch = producer.claim(2).unwrap();
    drop(gone);
    assert_eq!(stays.try_next_batch(..).unwrap_err(), TryRecvError::Empty);
    assert!(!batch.publish());
    assert_eq!(stays.next_batch(..).unwrap().len(), 2, "it reads the open batch");
    assert_eq!(stays.next_batch(..).unwrap_err(), WaitError::Closed);
}

#[test]
fn a_writer_is_refused_once_a_reader_is_dropped_while_another_one_is() {
    within(|| {
        with_both!(|new| {
            let mut ring = new(4, u32::default);
            let ([other, gone], mut producer) = (ring.readers(), ring.producer());
            thread::scope(|s| {
                let batch = producer.claim(1).unwrap();
                s.spawn(move || drop(other));
                drop(gone);
                assert!(!batch.publish());
                assert!(producer.is_closed() && producer.try_claim(1).is_err());
            });
        });
    });
}

#[test]
fn a_reader_stays_at_the_end_in_a_blocking_call_of_a_cancelled_task() {
    with_each(|rt| {
        let mut ring = ring::single_producer_with(2, WaitStrategy::Park, u32::default);
        let ([gone, mut stays], mut producer) = (ring.readers(), ring.producer());
        let task = rt.spawn(move || {
            cygnet::cancel_handle().cancel("enough");
            cygnet::blocking(move || {
                thread::scope(|s| {
                    // A batch that comes at the moment of the end may be published, or not.
                    s.spawn(move || producer.claim(1).map(|batch| batch.publish()));
                    s.spawn(move || drop(gone));
                    let ended = Err(TryRecvError::Closed);
                    spin_until(|| stays.try_next_batch(..).map(|_| ()) == ended);
                    for _ in 0..3 {
                        assert_eq!(stays.next_batch(..).unwrap_err(), WaitError::Closed);
                        thread::yield_now();
                    }
                });
            });
        });
        task.join().unwrap();
    });
}

#[test]
fn closing_a_ring_wakes_the_waiters_of_both_sides() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(2, u32::default);
        let (mut first, mut last) = (ring.stage(), ring.stage());
        let producer = ring.producer();
        producer.claim(2).unwrap().publish();
        let writer = rt.spawn(own(&producer, send_one));
        let reader = rt.spawn(move || drain(&mut last));
        eventually("they wait", || parks(rt) >= 2);
        producer.close();
        assert_eq!(writer.join().unwrap(), Err(WaitError::Closed));
        assert_eq!(drain(&mut first), 2);
        assert_eq!(reader.join().unwrap(), 2);
    });
}

/// Q29.
#[test]
fn a_reader_that_is_dropped_ends_the_ring_after_what_it_has_read() {
    with_each(|rt| {
        let mut ring = ring::single_producer(4, u32::default);
        let mut vanishes = ring.stage();
        let mut last = ring.stage();
        let mut producer = ring.producer();
        (0..4).for_each(|item| producer.send(item).unwrap());
        drop(vanishes.next_batch(..=3));
        drop(vanishes);
        let last = rt.spawn(move || drain(&mut last));
        // The writer is refused, and does not wait for room that will never be there.
        let writer = rt.spawn(move || {
            ((0..).take_while(|_| producer.send(9).is_ok()).count(), producer.is_closed())
        });
        assert_eq!(last.join().unwrap(), 3, "the stage before had given back three");
        let (sent, closed) = writer.join().unwrap();
        assert!(sent <= 3 && closed);
    });
}

#[test]
fn writers_are_refused_when_a_reader_of_any_stage_is_dropped() {
    for gone in 0..3 {
        with_both!(|new| {
            let mut ring = new(4, u32::default);
            let mut stages = vec![ring.stage(), ring.stage(), ring.stage()];
            let mut producer = ring.producer();
            producer.send(1).unwrap();
            let lost = stages.remove(gone);
            assert_eq!(producer.claim(1).map(|batch| batch.publish()), Ok(true));
            drop(lost);
            assert_eq!(producer.send(3).unwrap_err().reason(), &WaitError::Closed);
            let read: Vec<_> = stages.iter_mut().map(drain).collect();
            assert_eq!(read, [[0, 0], [2, 0], [2, 2]][gone]);
        });
    }
    // A reader that is dropped before the first producer is made.
    let mut ring = ring::multi_producer(4, u32::default);
    let [lost, _kept] = [ring.stage(), ring.stage()];
    drop(lost);
    assert!(ring.producer().is_closed());
}

#[test]
fn a_reader_beside_one_that_is_dropped_reads_all_published_items() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(4, u32::default);
        let ([vanishes, mut stays], producer) = (ring.readers(), ring.producer());
        producer.claim(4).unwrap().publish();
        let writer = parked(rt, 1, own(&producer, send_one));
        drop(vanishes);
        assert_eq!(writer.join().unwrap(), Err(WaitError::Closed));
        assert!(producer.is_closed());
        assert_eq!(stays.next_batch(..).unwrap().len(), 4);
        assert_eq!(stays.next_batch(..).unwrap_err(), WaitError::Closed);
    });
}

#[test]
fn a_panic_of_a_reader_ends_the_ring() {
    with_each(|rt| {
        let (mut stage, mut producer) = one_stage(4, u32::default);
        let reader = rt.spawn(move || {
            let _batch = stage.next_batch(..).unwrap();
            panic!("a bad item");
        });
        spin_until(|| producer.send(1).is_err());
        let ended: Result<(), _> = reader.join();
        assert!(ended.is_err());
    });
}

#[test]
fn a_ring_that_never_had_a_writer_is_at_its_end() {
    with_both!(|new| {
        let mut ring = new(4, u32::default);
        let mut stage = ring.stage();
        drop(ring);
        assert_eq!(stage.next_batch(..).unwrap_err(), WaitError::Closed);
    });
}

#[test]
fn items_are_dropped_once_with_the_ring() {
    let drops = Drops::new();
    let (mut stage, mut producer) = one_stage(4, || drops.guard());
    for _ in 0..6 {
        producer.send(drops.guard()).unwrap();
        drop(stage.next_batch(..));
    }
    assert_eq!(drops.count(), 6, "the items that were replaced");
    drop(producer);
    assert_eq!(drops.count(), 6);
    drop(stage);
    assert_eq!((drops.count(), drops.left()), (10, 0));
}
