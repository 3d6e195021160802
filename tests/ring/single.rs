//! `SingleProducerSequencer`: claims, in order, of one producer.

use crate::common::prelude::*;
use crate::with_each_strategy;
use cygnet::ring::sequence::{
    Sequence, SequenceBarrier, SequenceBarrierGroup, SingleProducerSequencer,
};

fn ring<S: Sequence>(size: usize) -> (SequenceBarrier<S>, SingleProducerSequencer<S>) {
    let read = SequenceBarrier::new();
    let ring = SingleProducerSequencer::new(&read, size);
    (read, ring)
}

/// Q15.
#[test]
fn a_claim_of_more_than_the_ring_has_takes_all_that_it_has() {
    let (read, mut ring) = ring::<u8>(8);
    assert_eq!(ring.size(), 8);
    assert_eq!(ring.claim(usize::MAX).unwrap().range().len(), 8);
    assert_eq!(ring.claim(..=usize::MAX).unwrap().range().len(), 8);
    ring.claim(8).unwrap().publish();
    assert_eq!(ring.claim_timeout(1, MOMENT).unwrap_err(), WaitError::TimedOut);
    read.publish(7);
    assert!(ring.claim_timeout(1, MOMENT).is_ok());
    // The producer has not seen the room yet.
    ring.claim(8).unwrap().publish();
    read.publish(15);
    assert_eq!(ring.claim(usize::MAX).unwrap().range().len(), 8);
    ring.claim(8).unwrap().publish();
    read.publish(20);
    assert_eq!(ring.claim(..).unwrap().range().len(), 5);
}

/// Q16.
#[test]
fn numbers_of_a_dropped_claim_are_claimed_next() {
    let (_read, mut ring) = ring::<u64>(4);
    drop(ring.claim(3).unwrap());
    let _ = std::mem::ManuallyDrop::new(ring.claim(3).unwrap());
    let claim = ring.claim(3).unwrap();
    assert_eq!(claim.range().start(), 0);
    claim.publish_first(1);
    assert_eq!(ring.last_published(), 0);
    assert_eq!(ring.claim_one().unwrap().range().start(), 1);
    ring.claim(2).unwrap().publish_first(0);
    assert_eq!(ring.claim(..=9).unwrap().range().len(), 3);
}

/// Q14.
#[test]
fn the_producer_waits_for_the_slowest_reader() {
    with_each_strategy(|rt, strategy| {
        let read = [SequenceBarrier::<u8>::new(), SequenceBarrier::new()];
        let group = SequenceBarrierGroup::new(read.clone());
        let mut ring = SingleProducerSequencer::new(group, 2).with_strategy(strategy);
        ring.claim(2).unwrap().publish();
        let task = rt.spawn(move || {
            let first = ring.claim(2).map(|claim| claim.range().start());
            (first, ring)
        });
        let [fast, slow] = read;
        fast.publish(1);
        slow.publish(0);
        crate::common::thread::yield_now();
        slow.publish(1);
        assert_eq!(task.join().unwrap().0, Ok(2));
    });
}

#[test]
fn a_claim_that_is_cut_short_changes_nothing() {
    with_each(|rt| {
        let (read, mut ring) = ring::<u8>(2);
        ring.claim(2).unwrap().publish();
        let task = rt.spawn(move || {
            let cancelled = ring.claim_one().map(|_| ()).unwrap_err();
            (cancelled, ring)
        });
        common::eventually("it waits", || common::parks(rt) > 0);
        task.cancel("enough");
        let (error, mut ring) = task.join().unwrap();
        assert!(matches!(error, WaitError::Cancelled(_)));
        assert!(poll_once(ring.claim_async(1)).is_pending());
        assert!(!ring.is_closed() && !read.is_closed());
        read.publish(0);
        assert_eq!(ring.claim_one().unwrap().range().start(), 2);
    });
}

#[test]
fn a_reader_is_told_of_the_end_when_the_producer_is_dropped() {
    with_each(|rt| {
        let (_read, mut ring) = ring::<u8>(4);
        let task = rt.spawn(own(ring.published(), |published| {
            [0, 1].map(|target| published.wait_until_published(target))
        }));
        ring.claim_one().unwrap().publish();
        drop(ring);
        assert_eq!(task.join().unwrap(), [Ok(0), Err(WaitError::Closed)]);
    });
}

#[test]
fn the_producer_is_refused_when_a_reader_has_ended() {
    for end in [SequenceBarrier::close, SequenceBarrier::finish] {
        with_each(|rt| {
            let (read, mut ring) = ring::<u8>(2);
            ring.claim(2).unwrap().publish();
            let published = ring.published().clone();
            let producer = rt.spawn(move || ring.claim_one().map(|_| ()).unwrap_err());
            let reader = waits(rt, &published, |published| published.wait_until_published(2));
            end(&read);
            assert_eq!(producer.join().unwrap(), WaitError::Closed);
            assert_eq!(reader.join().unwrap(), Err(WaitError::Closed));
            assert_eq!(published.wait_until_published(1), Ok(1));
        });
    }
    let read = SequenceBarrier::<u8>::new();
    read.close();
    let mut ring = SingleProducerSequencer::new(&read, 2);
    assert!(ring.is_closed() && ring.try_claim(1).is_err() && !ring.any_available());
    assert_eq!(ring.claim_one().unwrap_err(), WaitError::Closed);
}

#[test]
fn closing_a_sequencer_ends_the_waits_of_both_sides() {
    with_each(|rt| {
        let (read, mut ring) = ring::<u8>(2);
        let reader = waits(rt, ring.published(), |read| read.wait_until_published(0));
        ring.close();
        ring.close();
        assert_eq!(reader.join().unwrap(), Err(WaitError::Closed));
        assert!(ring.is_closed() && read.is_closed());
        // A claim of no number is refused, too.
        for count in [1, 0] {
            assert_eq!(ring.claim(..=count).unwrap_err(), WaitError::Closed);
            assert!(ring.try_claim(..=count).is_err());
        }
    });
}

#[test]
fn a_terminal_sequencer_is_closed_by_either_side() {
    let (read, ring) = ring::<u8>(2);
    let mut ring = ring.terminal();
    ring.claim(2).unwrap().publish();
    assert_eq!(ring.claim_timeout(1, MOMENT).unwrap_err(), WaitError::TimedOut);
    assert!(ring.is_closed() && read.is_closed());

    let (read, ring) = self::ring::<u8>(2);
    let ring = ring.terminal();
    assert_eq!(ring.published().wait_timeout(0, MOMENT), Err(WaitError::TimedOut));
    assert!(ring.is_closed() && read.is_closed());
}

/// Q3.
#[test]
fn the_size_of_a_ring_is_a_power_of_two() {
    for size in [0, 3, 65, 100, 128, usize::MAX] {
        let said = panic_of(|| ring::<u8>(size));
        let expected = format!(
            "cygnet: the size of a ring of u8 must be a power of two and at most 64, not {size}"
        );
        assert_eq!(said, expected);
    }
    for size in [1, 2, 64] {
        assert_eq!(ring::<u8>(size).1.size(), size);
    }
    panic_of(|| ring::<usize>(1 << 31));
}

#[test]
fn options_of_a_sequencer_are_set_before_it_is_used() {
    let (_read, mut ring) = ring::<u8>(4);
    ring.claim_one().unwrap().publish();
    assert_eq!(
        panic_of(|| ring.terminal()),
        "cygnet: set the options of a sequencer before it is used"
    );
}

#[test]
fn a_ring_ends_when_any_of_its_many_readers_ends() {
    with_each(|rt| {
        let read: Vec<_> =
            (0..scaled(1_000).max(8)).map(|_| SequenceBarrier::<u64>::new()).collect();
        let ring = SingleProducerSequencer::new(SequenceBarrierGroup::new(read.clone()), 4);
        rt.spawn(move || {
            read[7].finish();
            assert!(ring.is_closed() && read.iter().all(SequenceBarrier::is_closed));
        })
        .join()
        .unwrap();
    });
}
