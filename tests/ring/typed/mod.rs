//! `cygnet::ring`: items that stages write and read in place, in batches.

/// Runs a block for either kind of ring, with its constructor.
macro_rules! with_both {
    (|$new:ident| $body:block) => {
        use ring::single_producer as $new;
        $body;
        #[allow(unused_mut)] // a handle of several producers needs no exclusive access
        {
            use ring::multi_producer as $new;
            $body
        }
    };
}

mod batches;
mod claims;
mod ends;
mod items;
mod storm;
mod strategies;

use crate::common::prelude::*;
use crate::{STRATEGIES, with_each_strategy};
use cygnet::ring::{self, Batch, Producer, Stage};
use cygnet::sync::TryRecvError;

/// A ring with one stage: its reader and its only writer.
fn one_stage<T: Send>(size: usize, make: impl FnMut() -> T) -> (Stage<T>, Producer<T>) {
    let mut ring = ring::single_producer(size, make);
    (ring.stage(), ring.producer())
}

fn items(batch: &Batch<'_, u32>) -> Vec<u32> {
    batch.iter().copied().collect()
}

#[test]
fn items_are_received_in_the_order_of_sending() {
    for strategy in STRATEGIES {
        in_task(|_| {
            let mut ring = ring::single_producer_with(4, strategy, u64::default);
            let (mut stage, mut producer) = (ring.stage(), ring.producer());
            let receives =
                spawn(move || std::iter::from_fn(|| stage.recv().ok()).collect::<Vec<_>>());
            (0..1000).for_each(|item| producer.send(item).unwrap());
            drop(producer);
            assert_eq!(receives.join().unwrap(), (0..1000).collect::<Vec<_>>());
        });
    }
}

/// Q23.
#[test]
fn items_stay_where_they_are() {
    let (mut stage, mut producer) = one_stage(4, || String::with_capacity(100));
    let mut slots = Vec::new();
    for lap in 0..3 {
        let mut batch = producer.claim(4).unwrap();
        assert_eq!(batch.len(), 4);
        for item in batch.iter_mut() {
            item.clear();
            item.push('x');
            slots.push((lap, item.as_ptr()));
        }
        batch.publish();
        let batch = stage.next_batch(..).unwrap();
        let read: Vec<_> = batch.iter().map(|item| (lap, item.as_ptr())).collect();
        assert_eq!(read, slots[slots.len() - 4..]);
    }
    assert!((0..8).all(|index| slots[index].1 == slots[index + 4].1));
}

/// Q4.
#[test]
fn a_batch_gives_slices_of_adjacent_items() {
    let (mut stage, mut producer) = one_stage(8, u32::default);
    producer.claim(6).unwrap().publish();
    drop(stage.next_batch(..));
    let mut batch = producer.claim(5).unwrap();
    let lens: Vec<_> = batch.slices_mut().map(|slice| slice.len()).collect();
    assert_eq!(lens, [2, 3]);
    for (index, slice) in batch.slices_mut().enumerate() {
        slice.fill(index as u32);
    }
    assert_eq!(batch.numbers().into_iter().collect::<Vec<_>>(), [6, 7, 8, 9, 10]);
    batch.publish();
    let mut batch = stage.next_batch(..).unwrap();
    assert_eq!(batch.slices().map(<[u32]>::to_vec).collect::<Vec<_>>(), [vec![0; 2], vec![1; 3]]);
    batch.slices_mut().for_each(|slice| slice.fill(7));
    assert_eq!(format!("{batch:?}"), "[7, 7, 7, 7, 7]");
    assert_eq!((batch.len(), batch.is_empty()), (5, false));
}

/// Q25.
#[test]
fn a_stage_sees_the_items_that_all_readers_of_the_stage_before_have_read() {
    let mut ring = ring::multi_producer(8, u32::default);
    let mut double = ring.stage();
    let [mut a, mut b] = ring.readers();
    let mut last = ring.stage();
    let producer = ring.producer();
    producer.claim(3).unwrap().iter_mut().zip(1..).for_each(|(item, n)| *item = n);
    // The claim was given back, so that no stage sees it.
    assert_eq!(double.try_next_batch(..).unwrap_err(), TryRecvError::Empty);
    let mut batch = producer.claim(3).unwrap();
    batch.iter_mut().zip(1..).for_each(|(item, n)| *item = n);
    batch.publish();
    assert_eq!(
        a.try_next_batch(..).unwrap_err(),
        TryRecvError::Empty,
        "the stage before has not read it"
    );
    let mut batch = double.next_batch(..).unwrap();
    batch.iter_mut().for_each(|item| *item *= 2);
    drop(batch);
    assert_eq!(items(&a.next_batch(..).unwrap()), [2, 4, 6]);
    assert_eq!(last.try_next_batch(..).unwrap_err(), TryRecvError::Empty);
    assert_eq!(items(&b.next_batch(..=2).unwrap()), [2, 4]);
    assert_eq!(last.next_batch(..).unwrap().iter().copied().collect::<Vec<_>>(), [2, 4]);
    assert_eq!(b.recv(), Ok(6));
    assert_eq!(last.recv(), Ok(6));
    assert_eq!(producer.claim(9).unwrap().len(), 8);
}

/// `model::rings` compares claims that are given up in any order; here all numbers of a batch are.
#[test]
fn a_batch_of_claims_that_were_all_given_up_is_empty() {
    let mut ring = ring::multi_producer(8, u32::default);
    let ([mut reader], producer) = (ring.readers(), ring.producer());
    let (a, b) = (producer.claim(1).unwrap(), producer.claim(1).unwrap());
    drop(a);
    drop(b);
    let batch = reader.next_batch(..).unwrap();
    assert!(batch.is_empty() && batch.numbers().len() == 1);
}

#[test]
fn the_claim_of_a_writer_that_panics_is_given_back() {
    let mut ring = ring::single_producer(4, u32::default);
    let ([mut reader], mut producer) = (ring.readers(), ring.producer());
    let panics = panic_of(|| {
        let mut batch = producer.claim(2).unwrap();
        batch.iter_mut().for_each(|item| *item = 99);
        panic!("in the midst of it");
    });
    assert_eq!(panics, "in the midst of it");
    producer.send(1).unwrap();
    assert_eq!(reader.recv(), Ok(1));
    assert_eq!(reader.try_next_batch(..).unwrap_err(), TryRecvError::Empty);
}

#[test]
fn a_batch_holds_the_items_that_the_last_look_found() {
    let mut ring = ring::single_producer(8, u32::default);
    let ([mut reader], mut producer) = (ring.readers(), ring.producer());
    (0..3).for_each(|item| producer.send(item).unwrap());
    assert_eq!(items(&reader.next_batch(..=1).unwrap()), [0]);
    producer.send(3).unwrap();
    assert_eq!(items(&reader.next_batch(..).unwrap()), [1, 2]);
    assert_eq!(items(&reader.next_batch(..).unwrap()), [3]);
}

/// Q31.
#[test]
fn waits_and_claims_that_are_cut_short_change_nothing() {
    with_each_strategy(|rt, strategy| {
        let mut ring = ring::multi_producer_with(2, strategy, u32::default);
        let ([mut reader], producer) = (ring.readers(), ring.producer());
        assert_eq!(reader.next_batch_timeout(.., MOMENT).unwrap_err(), WaitError::TimedOut);
        let cut = |task: cygnet::Task<Result<(), WaitError>>| {
            task.cancel("enough");
            // A task that spins may not have begun.
            assert!(matches!(task.join(), Ok(Err(WaitError::Cancelled(_))) | Err(_)));
        };
        common::thread::scope(|s| {
            let reads = s.spawn(|| poll_once(reader.next_batch_async(..)).is_pending());
            assert!(reads.join().unwrap());
        });
        producer.claim(2).unwrap().publish();
        assert_eq!(producer.claim_timeout(1, MOMENT).unwrap_err(), WaitError::TimedOut);
        assert!(producer.try_claim(1).is_err());
        for _ in 0..3 {
            cut(rt.spawn(own(&producer, |producer| producer.claim(2).map(drop))));
        }
        assert_eq!(reader.next_batch(..).unwrap().len(), 2);
        producer.send(7).unwrap();
        assert_eq!(items(&reader.next_batch(..).unwrap()), [7]);
    });
}

/// Q34.
#[test]
fn tasks_threads_and_futures_use_a_ring_together() {
    with_each(|rt| {
        let mut ring = ring::multi_producer(4, u64::default);
        let ([mut task, mut thread, mut future], producer) = (ring.readers(), ring.producer());
        let in_task = rt.spawn(move || {
            let sums = || Some(task.next_batch(..).ok()?.iter().sum::<u64>());
            std::iter::from_fn(sums).sum::<u64>()
        });
        common::thread::scope(|s| {
            let in_thread = s.spawn(move || std::iter::from_fn(|| thread.recv().ok()).sum::<u64>());
            let in_future = s.spawn(move || {
                cygnet::wait(async {
                    let mut sum = 0;
                    while let Ok(batch) = future.next_batch_async(..).await {
                        sum += batch.iter().sum::<u64>();
                    }
                    sum
                })
                .unwrap()
            });
            let of_future = producer.clone();
            s.spawn(move || {
                let writes = async {
                    for item in 1..=100 {
                        let mut batch = of_future.claim_async(1).await.unwrap();
                        batch.iter_mut().for_each(|slot| *slot = item);
                        batch.publish();
                    }
                };
                cygnet::wait(writes).unwrap();
            });
            let of_thread = producer.clone();
            s.spawn(move || (101..=200).for_each(|item| of_thread.send(item).unwrap()));
            let of_task =
                rt.spawn(move || (201..=300).for_each(|item| producer.send(item).unwrap()));
            of_task.join().unwrap();
            let sums = [in_thread.join().unwrap(), in_future.join().unwrap()];
            assert_eq!(sums, [45_150; 2]);
        });
        assert_eq!(in_task.join().unwrap(), 45_150);
    });
}

#[test]
fn a_ring_that_cannot_be_made_is_refused() {
    common::within(|| {
        let single = |size| ring::single_producer(size, u32::default);
        let multi = |size| ring::multi_producer(size, u32::default);
        let size = "the size of a ring of u64 must be a power of two and at most 1073741824, not";
        for (said, expected) in [
            (panic_of(|| single(0)), format!("{size} 0")),
            (panic_of(|| multi(12)), format!("{size} 12")),
            (panic_of(|| single(8).producer()), "a ring needs at least one stage".into()),
            (panic_of(|| multi(8).producer()), "a ring needs at least one stage".into()),
            (panic_of(|| multi(8).readers::<0>()), "a stage needs at least one reader".into()),
        ] {
            assert_eq!(said, format!("cygnet: {expected}"));
        }
    });
}

/// Q33.
#[test]
fn a_cancelled_reader_is_turned_away_from_items_that_it_has_found() {
    with_each(|rt| {
        let (mut stage, mut producer) = one_stage(4, u32::default);
        (0..4).for_each(|item| producer.send(item).unwrap());
        let task = rt.spawn(move || {
            assert_eq!(stage.recv(), Ok(0));
            cygnet::cancel_handle().cancel("enough");
            let refused =
                (stage.recv().unwrap_err(), stage.next_batch(..).map(|_| ()).unwrap_err());
            (refused, stage)
        });
        let (refused, mut stage) = task.join().unwrap();
        assert!(matches!(refused, (WaitError::Cancelled(_), WaitError::Cancelled(_))));
        assert_eq!(stage.next_batch(..).unwrap().numbers().start(), 1);
    });
}
