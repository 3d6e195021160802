//! The forms of batches: exact and up to a count, with a limit, at once, as a future, and the rest
//! at the end.

use super::one_stage;
use crate::common::prelude::*;
use crate::with_each_strategy;
use cygnet::ring::{self, Stage};
use cygnet::sync::TryRecvError;

fn late() -> Instant {
    common::now() + LONG
}

/// The length of an exact batch, asked for in one of the forms of a wait.
fn len_of(stage: &mut Stage<u32>, count: usize, form: usize) -> Result<usize, WaitError> {
    match form {
        0 => stage.next_batch(count).map(|batch| batch.len()),
        1 => stage.next_batch_timeout(count, LONG).map(|batch| batch.len()),
        2 => stage.next_batch_deadline(count, late()).map(|batch| batch.len()),
        _ => wait(stage.next_batch_async(count)).unwrap().map(|batch| batch.len()),
    }
}

/// Q38.
#[test]
fn a_batch_has_exactly_a_count_or_what_there_is_of_a_range() {
    with_both!(|new| {
        let mut ring = new(8, u32::default);
        let (mut stage, mut producer) = (ring.stage(), ring.producer());
        let mut next = 0;
        let mut fill = || {
            while producer.try_send(next).is_ok() {
                next += 1;
            }
        };
        fill();
        assert_eq!(stage.next_batch(3).unwrap().len(), 3);
        assert_eq!(stage.next_batch(..=3).unwrap().len(), 3);
        // Two are left.
        assert_eq!(stage.try_next_batch(3).unwrap_err(), TryRecvError::Empty);
        assert_eq!(stage.try_next_batch(3..).unwrap_err(), TryRecvError::Empty);
        assert_eq!(stage.next_batch_timeout(3, MOMENT).unwrap_err(), WaitError::TimedOut);
        assert_eq!(
            stage.next_batch_deadline(usize::MAX, common::now()).unwrap_err(),
            WaitError::TimedOut
        );
        assert!(poll_once(stage.next_batch_async(3)).is_pending());
        let batch = stage.try_next_batch(2..=3).unwrap();
        assert_eq!((batch.numbers().start(), batch.len()), (6, 2));
        drop(batch);
        fill();
        for all in [8, 9, usize::MAX] {
            let batch = stage.next_batch(all).unwrap();
            assert!(
                batch.iter().copied().eq((0..8).map(|item| batch.numbers().start() as u32 + item))
            );
            drop(batch);
            fill();
            assert_eq!(stage.try_next_batch(all..).unwrap().len(), 8);
            fill();
            assert_eq!(wait(stage.next_batch_async(all)).unwrap().unwrap().len(), 8);
            fill();
        }
        // None counts as one.
        assert_eq!(stage.next_batch(0).unwrap().len(), 1);
        assert_eq!(stage.try_next_batch(..=0).unwrap().len(), 1);
        assert_eq!(stage.next_batch(0..=2).unwrap().len(), 2);
        assert_eq!(stage.next_batch(..).unwrap().len(), 4);
    });
}

/// Q36.
#[test]
fn a_batch_of_an_empty_range_is_refused() {
    let (mut stage, mut producer) = one_stage(4, u32::default);
    producer.send(1).unwrap();
    let (more, fewer) = (3, 2);
    let said = panic_of(|| drop(stage.try_next_batch(more..=fewer)));
    assert!(said.contains("no count is in 3..=2"), "{said}");
    assert_eq!(stage.recv(), Ok(1));
}

/// Q38.
#[test]
fn a_reader_of_several_waits_until_all_of_them_are_there() {
    with_each_strategy(|rt, strategy| {
        for form in 0..4 {
            for many in [false, true] {
                let (mut stage, mut send): (_, Box<dyn FnMut(u32) -> bool + Send>) = if many {
                    let mut ring = ring::multi_producer_with(4, strategy, u32::default);
                    let (stage, producer) = (ring.stage(), ring.producer());
                    (stage, Box::new(move |item| producer.send(item).is_ok()))
                } else {
                    let mut ring = ring::single_producer_with(4, strategy, u32::default);
                    let (stage, mut producer) = (ring.stage(), ring.producer());
                    (stage, Box::new(move |item| producer.send(item).is_ok()))
                };
                let reads = rt.spawn(move || {
                    let first = len_of(&mut stage, 3, form);
                    let second = len_of(&mut stage, usize::MAX, form);
                    // The ring has ended with two items.
                    let rest = len_of(&mut stage, 3, form);
                    [first, second, rest, len_of(&mut stage, 3, form)]
                });
                (0..9).for_each(|item| assert!(send(item)));
                drop(send);
                let read = reads.join().unwrap();
                assert_eq!(read, [Ok(3), Ok(4), Ok(2), Err(WaitError::Closed)]);
            }
        }
    });
}

/// Q39.
#[test]
fn the_end_leaves_a_batch_of_the_rest() {
    with_both!(|new| {
        let mut ring = new(8, u32::default);
        let [mut early, mut late] = ring.readers();
        let (mut last, mut producer) = (ring.stage(), ring.producer());
        (0..5).for_each(|item| producer.send(item).unwrap());
        assert_eq!(early.try_next_batch(6).unwrap_err(), TryRecvError::Empty);
        producer.close();
        assert_eq!(early.try_next_batch(6).unwrap().len(), 5);
        assert_eq!(early.try_next_batch(6).unwrap_err(), TryRecvError::Closed);
        assert_eq!(early.next_batch(6).unwrap_err(), WaitError::Closed);
        // One reader has ended, and the other may still give back what is left.
        assert_eq!(late.next_batch(2).unwrap().len(), 2);
        assert_eq!(last.try_next_batch(6).unwrap_err(), TryRecvError::Empty);
        assert_eq!(last.next_batch_timeout(6, MOMENT).unwrap_err(), WaitError::TimedOut);
        assert!(poll_once(last.next_batch_async(6)).is_pending());
        assert_eq!(late.next_batch(6).unwrap().len(), 3);
        assert_eq!(last.try_next_batch(6).unwrap().len(), 5);
        assert_eq!(last.try_next_batch(6).unwrap_err(), TryRecvError::Closed);
        assert_eq!(late.try_next_batch(..).unwrap_err(), TryRecvError::Closed);
    });
}

/// Q39.
#[test]
fn a_stage_that_waits_for_several_gets_what_a_dropped_reader_had_read() {
    with_each_strategy(|rt, strategy| {
        for form in 0..4 {
            let mut ring = ring::single_producer_with(8, strategy, u32::default);
            let [mut gone, mut slow] = ring.readers();
            let (mut last, mut producer) = (ring.stage(), ring.producer());
            (0..8).for_each(|item| producer.send(item).unwrap());
            let reads = rt.spawn(move || (len_of(&mut last, 6, form), len_of(&mut last, 6, form)));
            drop(gone.next_batch(5));
            drop(slow.next_batch(2));
            drop(gone);
            drop(slow.next_batch(..));
            assert_eq!(reads.join().unwrap(), (Ok(5), Err(WaitError::Closed)));
        }
    });
}

/// Q20, Q39.
#[test]
fn the_rest_has_the_items_that_are_published_after_the_close() {
    let mut ring = ring::multi_producer(8, u32::default);
    let (mut stage, producer) = (ring.stage(), ring.producer());
    producer.send(1).unwrap();
    let [open, dropped] = [2, 1].map(|count| producer.claim(count).unwrap());
    producer.close();
    assert_eq!(stage.try_next_batch(4).unwrap_err(), TryRecvError::Empty);
    drop(dropped);
    assert_eq!(stage.next_batch_timeout(4, MOMENT).unwrap_err(), WaitError::TimedOut);
    assert!(open.publish());
    assert_eq!(stage.next_batch(4).unwrap().len(), 3);
    assert_eq!(stage.next_batch(4).unwrap_err(), WaitError::Closed);
}

/// Q33, Q38.
#[test]
fn a_cancelled_reader_of_several_takes_nothing() {
    with_each(|rt| {
        let (mut stage, mut producer) = one_stage(8, u32::default);
        (0..3).for_each(|item| producer.send(item).unwrap());
        let waits = parked(rt, 1, move || {
            let refused = stage.next_batch(4).map(drop).unwrap_err();
            assert!(matches!(refused, WaitError::Cancelled(_)), "{refused:?}");
            let again = stage.next_batch(..).map(drop).unwrap_err();
            assert!(matches!(again, WaitError::Cancelled(_)), "{again:?}");
            assert_eq!(stage.try_next_batch(3).unwrap().numbers().start(), 0);
            assert_eq!(stage.try_next_batch(1).unwrap_err(), TryRecvError::Empty);
            stage
        });
        waits.cancel("enough");
        let mut stage = waits.join().unwrap();
        producer.send(3).unwrap();
        assert_eq!(stage.recv(), Ok(3));
    });
}

/// The ring has four items, of which three are there and one is free.
#[test]
fn a_producer_and_a_reader_that_want_too_much_wait_for_each_other() {
    with_both!(|new| {
        let mut ring = new(4, u32::default);
        let (mut stage, mut producer) = (ring.stage(), ring.producer());
        producer.claim(3).unwrap().publish();
        for _ in 0..2 {
            assert_eq!(producer.claim_timeout(2, MOMENT).unwrap_err(), WaitError::TimedOut);
            assert_eq!(stage.next_batch_timeout(4, MOMENT).unwrap_err(), WaitError::TimedOut);
        }
        assert_eq!(stage.next_batch(..=4).unwrap().len(), 3);
        assert_eq!(producer.claim(2).unwrap().len(), 2);
    });
}

/// The largest counts that cannot wait for each other.
#[test]
fn counts_that_add_up_to_the_ring_make_progress() {
    with_each_strategy(|rt, strategy| {
        let items = scaled(3_000) / 6 * 6;
        let mut ring = ring::single_producer_with(16, strategy, u32::default);
        let (mut first, mut last) = (ring.stage(), ring.stage());
        let mut producer = ring.producer();
        let writes = rt.spawn(move || {
            for _ in 0..items / 5 {
                producer.claim(5).unwrap().publish();
            }
            producer.claim(items % 5).unwrap().publish();
        });
        let read = move |stage: &mut Stage<u32>, count| {
            let mut total = 0;
            while let Ok(batch) = stage.next_batch(count) {
                total += batch.len();
                assert!(batch.len() == count || total == items, "a short batch before the end");
            }
            total
        };
        let first = rt.spawn(move || read(&mut first, 7));
        let last = rt.spawn(move || read(&mut last, 4));
        writes.join().unwrap();
        assert_eq!((first.join().unwrap(), last.join().unwrap()), (items, items));
    });
}
