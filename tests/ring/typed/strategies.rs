//! A strategy for each reader, and readers in a `Vec`.

use crate::STRATEGIES;
use crate::common::prelude::*;
use cygnet::ring;
use cygnet::ring::sequence::WaitStrategy;

/// Q35.
#[test]
fn readers_with_different_strategies_see_all_items() {
    for strategy in STRATEGIES {
        with_each(|rt| {
            let items = scaled(3_000) as u64;
            let mut ring = ring::multi_producer_with(8, strategy, u64::default);
            let mut own = STRATEGIES.into_iter();
            let readers = ring.readers_vec(STRATEGIES.len()).into_iter();
            let readers: Vec<_> = readers
                .map(|reader| reader.with_strategy(own.next().expect("as many as readers")))
                .collect();
            let last = ring.stage().with_strategy(WaitStrategy::Park);
            let producer = ring.producer();
            let readers: Vec<_> = readers
                .into_iter()
                .map(|mut reader| {
                    rt.spawn(move || {
                        let mut seen = 0;
                        while let Ok(batch) = reader.next_batch(..) {
                            assert!(batch.iter().copied().eq(seen..seen + batch.len() as u64));
                            seen += batch.len() as u64;
                        }
                        seen
                    })
                })
                .collect();
            let mut last = last;
            let last = rt.spawn(move || {
                std::iter::from_fn(|| last.recv().ok()).filter(|item| *item < items).count() as u64
            });
            let writes = rt.spawn(move || (0..items).for_each(|item| producer.send(item).unwrap()));
            writes.join().unwrap();
            assert_eq!(join_all(readers), vec![items; STRATEGIES.len()]);
            assert_eq!(last.join().unwrap(), items);
        });
    }
}

/// Q35.
#[test]
fn a_reader_waits_by_its_own_strategy() {
    with(&[1], |rt| {
        // A reader of a spinning ring parks.
        let mut ring = ring::single_producer_with(2, WaitStrategy::Spin, u32::default);
        let mut stage = ring.stage().with_strategy(WaitStrategy::Park);
        let mut producer = ring.producer();
        let parks_once = parked(rt, 1, move || stage.recv());
        producer.send(7).unwrap();
        assert_eq!(parks_once.join().unwrap(), Ok(7));
        // A reader of a parking ring spins: on a single worker, such a task does not park.
        let mut ring = ring::single_producer_with(2, WaitStrategy::Park, u32::default);
        let mut stage = ring.stage().with_strategy(WaitStrategy::Spin);
        let mut producer = ring.producer();
        let before = parks(rt);
        let (begin, begun) = channel();
        let spins = rt.spawn(move || {
            begin.send(()).unwrap();
            stage.recv()
        });
        begun.recv().unwrap();
        common::thread::sleep(MOMENT);
        assert!(!spins.is_finished());
        producer.send(8).unwrap();
        assert_eq!((spins.join().unwrap(), parks(rt)), (Ok(8), before));
    });
}

/// Q24.
#[test]
fn each_reader_of_a_vec_sees_every_item() {
    for count in [1, 2, 9] {
        with_both!(|new| {
            let mut ring = new(4, u32::default);
            let mut readers = ring.readers_vec(count);
            let (mut last, mut producer) = (ring.stage(), ring.producer());
            assert_eq!(readers.len(), count);
            (1..=3).for_each(|item| producer.send(item).unwrap());
            for reader in &mut readers {
                assert!(last.try_next_batch(..).is_err(), "not all have read it");
                assert_eq!(reader.next_batch(3).unwrap().iter().sum::<u32>(), 6);
            }
            assert_eq!(last.next_batch(3).unwrap().len(), 3);
            drop(readers.pop());
            assert!(producer.is_closed());
        });
    }
}

#[test]
fn a_stage_without_readers_is_refused_and_changes_nothing() {
    let mut ring = ring::single_producer(4, u32::default);
    let said = panic_of(|| drop(ring.readers_vec(0)));
    assert_eq!(said, "cygnet: a stage needs at least one reader");
    let (mut stage, mut producer) = (ring.stage(), ring.producer());
    producer.send(1).unwrap();
    assert_eq!(stage.recv(), Ok(1));
}
