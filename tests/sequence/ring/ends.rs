//! How a ring ends: in good order, at once, and when somebody vanishes.

use crate::common::{thread, with_each, within};
use cygnet::ring::sequence::WaitStrategy;
use cygnet::ring::{self, Stage, TryNextError};
use cygnet::sync::{SendError, WaitError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads to the end: how many.
fn drain(stage: &mut Stage<u32>) -> usize {
    let mut count = 0;
    while let Ok(batch) = stage.next_batch_up_to(2) {
        count += batch.len();
    }
    count
}

#[test]
fn what_was_published_is_read_by_all_stages_when_the_writers_have_gone() {
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
        assert_eq!(first.next_batch().unwrap_err(), WaitError::Closed);
        // One of them is done, and has gone, long before the other.
        let mut count = 0;
        while let Ok(batch) = fast.next_batch() {
            count += batch.len();
        }
        assert_eq!(count, 6);
        drop((first, fast));
        let in_task = rt.spawn(move || drain(&mut last));
        let mut count = 0;
        while let Ok(item) = slow.recv() {
            assert_eq!(item, count);
            count += 1;
        }
        assert_eq!((count, in_task.join().unwrap()), (6, 6));
    });
}

#[test]
fn a_closed_ring_refuses_writers_and_is_read_to_its_end() {
    with_each(|rt| {
        let mut ring = ring::single_producer(4, u32::default);
        let mut stage = ring.stage();
        let mut producer = ring.producer();
        (0..3).for_each(|item| producer.send(item).unwrap());
        producer.close();
        producer.close();
        assert!(producer.is_closed());
        let refused: SendError<u32> = producer.send(9).unwrap_err();
        assert_eq!((refused.reason(), refused.clone().into_inner()), (&WaitError::Closed, 9));
        assert!(producer.try_claim(1).is_none());
        assert_eq!(rt.spawn(move || drain(&mut stage)).join().unwrap(), 3);
    });
}

#[test]
fn what_was_sent_before_the_close_is_read_though_an_earlier_batch_is_in_hand() {
    let mut ring = ring::multi_producer(8, u32::default);
    let mut first = ring.stage();
    let mut last = ring.stage();
    let producer = ring.producer();
    let mut batch = producer.claim_exactly(2).unwrap();
    producer.send(7).unwrap();
    producer.close();
    for stage in [&mut first, &mut last] {
        assert_eq!(stage.try_next_batch().unwrap_err(), TryNextError::Empty);
    }
    batch.iter_mut().for_each(|item| *item = 3);
    assert!(batch.publish_first(1));
    for stage in [&mut first, &mut last] {
        let items: Vec<_> = stage.next_batch().unwrap().iter().copied().collect();
        assert_eq!(items, [3, 7]);
    }
    assert_eq!(last.try_next_batch().unwrap_err(), TryNextError::Empty, "the first may go on");
    assert_eq!(first.next_batch().unwrap_err(), WaitError::Closed);
    assert_eq!(last.try_next_batch().unwrap_err(), TryNextError::Closed);
}

#[test]
fn stages_that_wait_are_told_of_the_end_when_the_last_batch_has_ended() {
    with_each(|rt| {
        for publishes in [true, false] {
            let mut ring = ring::multi_producer_with(4, WaitStrategy::Park, u32::default);
            let stages = [ring.stage(), ring.stage()];
            let producer = ring.producer();
            let batch = producer.claim(1).unwrap();
            let before = crate::common::parks(rt);
            let stages = stages.map(|mut stage| rt.spawn(move || drain(&mut stage)));
            crate::common::eventually("they wait", || crate::common::parks(rt) >= before + 2);
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

#[test]
fn a_reader_that_polls_tells_an_empty_ring_from_one_that_has_ended() {
    let mut ring = ring::single_producer(4, u32::default);
    let [mut reader] = ring.readers();
    let mut last = ring.stage();
    let mut producer = ring.producer();
    assert_eq!(reader.try_next_batch().unwrap_err(), TryNextError::Empty);
    producer.send(1).unwrap();
    drop(producer);
    assert_eq!(last.try_next_batch().unwrap_err(), TryNextError::Empty);
    assert_eq!(reader.try_next_batch().unwrap().len(), 1);
    assert_eq!(reader.try_next_batch().unwrap_err(), TryNextError::Closed);
    assert_eq!(reader.next_batch().unwrap_err(), WaitError::Closed);
    assert_eq!(last.try_next_batch().unwrap().len(), 1);
    assert_eq!(last.try_next_batch().unwrap_err(), TryNextError::Closed);
}

#[test]
fn a_batch_that_its_writer_forgot_is_given_back_when_the_last_writer_goes() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(8, u32::default);
        let mut stage = ring.stage();
        let producer = ring.producer();
        let other = producer.clone();
        producer.send(1).unwrap();
        std::mem::forget(producer.claim_exactly(2).unwrap());
        other.send(2).unwrap();
        std::mem::forget(other.claim_exactly(3).unwrap());
        let reader = rt.spawn(move || drain(&mut stage));
        drop(producer);
        other.close();
        drop(other);
        assert_eq!(reader.join().unwrap(), 2);
    });
}

#[test]
fn a_batch_that_is_published_after_a_reader_has_gone_comes_too_late() {
    let mut ring = ring::single_producer(4, u32::default);
    let [gone, mut stays] = ring.readers();
    let mut producer = ring.producer();
    producer.send(1).unwrap();
    let batch = producer.claim(2).unwrap();
    drop(gone);
    assert_eq!(stays.next_batch().unwrap().len(), 1);
    assert_eq!(stays.next_batch().unwrap_err(), WaitError::Closed);
    assert!(!batch.publish());
    assert_eq!(stays.next_batch().unwrap_err(), WaitError::Closed);
    assert_eq!(stays.try_next_batch().unwrap_err(), TryNextError::Closed);

    let mut ring = ring::multi_producer(4, u32::default);
    let [gone, mut stays] = ring.readers();
    let producer = ring.producer();
    let batch = producer.claim(2).unwrap();
    drop(gone);
    assert_eq!(stays.try_next_batch().unwrap_err(), TryNextError::Empty);
    assert!(!batch.publish());
    assert_eq!(stays.next_batch().unwrap().len(), 2, "it reads what is in hand");
    assert_eq!(stays.next_batch().unwrap_err(), WaitError::Closed);
}

#[test]
fn a_writer_is_refused_once_a_reader_has_gone_though_another_one_goes_at_the_same_moment() {
    within(|| {
        let mut ring = ring::single_producer(4, u32::default);
        let [other, gone] = ring.readers();
        let mut producer = ring.producer();
        thread::scope(|s| {
            let batch = producer.claim(1).unwrap();
            s.spawn(move || drop(other));
            drop(gone);
            assert!(!batch.publish());
            assert!(producer.is_closed() && producer.try_claim(1).is_none());
        });

        let mut ring = ring::multi_producer(4, u32::default);
        let [other, gone] = ring.readers();
        let producer = ring.producer();
        thread::scope(|s| {
            let batch = producer.claim(1).unwrap();
            s.spawn(move || drop(other));
            drop(gone);
            assert!(!batch.publish());
            assert!(producer.is_closed() && producer.try_claim(1).is_none());
        });
    });
}

#[test]
fn a_reader_that_was_told_of_the_end_stays_there_also_in_a_blocking_call_of_a_cancelled_task() {
    with_each(|rt| {
        let mut ring = ring::single_producer_with(2, WaitStrategy::Park, u32::default);
        let [gone, mut stays] = ring.readers();
        let mut producer = ring.producer();
        let task = rt.spawn(move || {
            cygnet::cancel_handle().cancel("enough");
            cygnet::blocking(move || {
                thread::scope(|s| {
                    // What comes at the moment of the end may be published, or not.
                    s.spawn(move || producer.claim(1).map(|batch| batch.publish()));
                    s.spawn(move || drop(gone));
                    let ended = Err(TryNextError::Closed);
                    while stays.try_next_batch().map(|_| ()) != ended {
                        thread::yield_now();
                    }
                    for _ in 0..3 {
                        assert_eq!(stays.next_batch().unwrap_err(), WaitError::Closed);
                        thread::yield_now();
                    }
                });
            });
        });
        task.join().unwrap();
    });
}

#[test]
fn to_close_it_wakes_who_waits_on_both_sides() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(2, u32::default);
        let mut first = ring.stage();
        let mut last = ring.stage();
        let producer = ring.producer();
        producer.claim_exactly(2).unwrap().publish();
        let writer = rt.spawn({
            let producer = producer.clone();
            move || producer.send(1).map_err(|error| error.reason().clone())
        });
        let reader = rt.spawn(move || drain(&mut last));
        crate::common::eventually("they wait", || crate::common::parks(rt) >= 2);
        producer.close();
        assert_eq!(writer.join().unwrap(), Err(WaitError::Closed));
        assert_eq!(drain(&mut first), 2);
        assert_eq!(reader.join().unwrap(), 2);
    });
}

#[test]
fn a_reader_that_vanishes_ends_the_ring_after_what_it_has_read() {
    with_each(|rt| {
        let mut ring = ring::single_producer(4, u32::default);
        let mut vanishes = ring.stage();
        let mut last = ring.stage();
        let mut producer = ring.producer();
        (0..4).for_each(|item| producer.send(item).unwrap());
        drop(vanishes.next_batch_up_to(3));
        drop(vanishes);
        let last = rt.spawn(move || drain(&mut last));
        // Refused, and not kept waiting for room that will never be.
        let writer = rt.spawn(move || {
            let mut sent = 0;
            while producer.send(9).is_ok() {
                sent += 1;
            }
            (sent, producer.is_closed())
        });
        assert_eq!(last.join().unwrap(), 3, "the stage before had given back so many");
        let (sent, closed) = writer.join().unwrap();
        assert!(sent <= 3 && closed);
    });
}

#[test]
fn writers_are_refused_when_a_reader_of_any_stage_has_gone_though_the_last_one_does_not_look() {
    for gone in 0..3 {
        let mut ring = ring::single_producer(4, u32::default);
        let mut stages = vec![ring.stage(), ring.stage(), ring.stage()];
        let mut producer = ring.producer();
        producer.send(1).unwrap();
        let lost = stages.remove(gone);
        assert_eq!(producer.claim(1).map(|batch| batch.publish()), Ok(true));
        drop(lost);
        assert_eq!(producer.send(3).unwrap_err().reason(), &WaitError::Closed);
        let read: Vec<_> = stages.iter_mut().map(drain).collect();
        assert_eq!(read, [[0, 0], [2, 0], [2, 2]][gone]);

        let mut ring = ring::multi_producer(4, u32::default);
        let mut stages = vec![ring.stage(), ring.stage(), ring.stage()];
        let lost = stages.remove(gone);
        if gone == 0 {
            drop(lost); // before there is who writes
            assert!(ring.producer().is_closed());
            continue;
        }
        let producer = ring.producer();
        producer.send(1).unwrap();
        drop(lost);
        assert_eq!(producer.send(3).unwrap_err().reason(), &WaitError::Closed);
        let read: Vec<_> = stages.iter_mut().map(drain).collect();
        assert_eq!(read, [[0, 0], [1, 0], [1, 1]][gone]);
    }
}

#[test]
fn a_reader_beside_one_that_vanishes_reads_what_was_published() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(4, u32::default);
        let [vanishes, mut stays] = ring.readers();
        let producer = ring.producer();
        producer.claim_exactly(4).unwrap().publish();
        let writer = rt.spawn({
            let producer = producer.clone();
            move || producer.send(1).map_err(|error| error.reason().clone())
        });
        crate::common::eventually("it waits", || crate::common::parks(rt) >= 1);
        drop(vanishes);
        assert_eq!(writer.join().unwrap(), Err(WaitError::Closed));
        assert!(producer.is_closed());
        assert_eq!(stays.next_batch().unwrap().len(), 4);
        assert_eq!(stays.next_batch().unwrap_err(), WaitError::Closed);
    });
}

#[test]
fn a_panic_of_a_reader_ends_the_ring() {
    with_each(|rt| {
        let mut ring = ring::single_producer(4, u32::default);
        let mut stage = ring.stage();
        let mut producer = ring.producer();
        let reader = rt.spawn(move || {
            let _batch = stage.next_batch().unwrap();
            panic!("a bad item");
        });
        while producer.send(1).is_ok() {
            crate::common::thread::yield_now();
        }
        let ended: Result<(), _> = reader.join();
        assert!(ended.is_err());
    });
}

#[test]
fn a_ring_that_never_had_a_writer_is_at_its_end() {
    let mut ring = ring::single_producer(4, u32::default);
    let mut stage = ring.stage();
    drop(ring);
    assert_eq!(stage.next_batch().unwrap_err(), WaitError::Closed);
    let mut ring = ring::multi_producer(4, u32::default);
    let mut stage = ring.stage();
    drop(ring);
    assert_eq!(stage.next_batch().unwrap_err(), WaitError::Closed);
}

#[test]
fn items_are_dropped_once_with_the_ring() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let mut ring = ring::single_producer(4, || Counts(Arc::clone(&drops)));
    let mut stage = ring.stage();
    let mut producer = ring.producer();
    for _ in 0..6 {
        producer.send(Counts(Arc::clone(&drops))).unwrap();
        drop(stage.next_batch());
    }
    assert_eq!(drops.load(Ordering::Relaxed), 6, "what was written over");
    drop(producer);
    assert_eq!(drops.load(Ordering::Relaxed), 6);
    drop(stage);
    assert_eq!(drops.load(Ordering::Relaxed), 10);
}
