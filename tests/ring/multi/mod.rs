//! `MultiProducerSequencer`: claims of many producers that are given back, skipped, and served in
//! order.

mod ends;
mod order;

use crate::common::prelude::*;
use crate::with_each_strategy;
use cygnet::ring::sequence::{
    MultiClaim, MultiProducerSequencer, Sequence, SequenceBarrier, WaitStrategy,
};

const NOTHING: u8 = u8::MAX;

fn ring<S: Sequence>(size: usize) -> (SequenceBarrier<S>, MultiProducerSequencer<S>) {
    let read = SequenceBarrier::new();
    let ring = MultiProducerSequencer::new(&read, size);
    (read, ring)
}

/// Publishes a claim, and returns its first number.
fn publish<S: Sequence>(claim: MultiClaim<'_, S>) -> S {
    let number = claim.range().start();
    claim.publish();
    number
}

/// Spawns `body` with a handle of the ring. A waiter that parks is in the queue when this returns.
fn spawned<R: Send + 'static>(
    rt: &Runtime,
    ring: &MultiProducerSequencer<u8>,
    strategy: WaitStrategy,
    body: impl FnOnce(MultiProducerSequencer<u8>) -> R + Send + 'static,
) -> Task<R> {
    match strategy {
        WaitStrategy::Park => waits(rt, ring, body),
        _ => rt.spawn(own(ring, body)),
    }
}

#[test]
fn a_claim_of_more_than_the_ring_has_takes_all_that_it_has() {
    let (_read, ring) = ring::<u16>(4);
    assert_eq!(ring.claim(usize::MAX).unwrap().range().len(), 4);
    assert_eq!(ring.claim(..=usize::MAX).unwrap().range().len(), 4);
    for all in [None, Some(ring.claim(4).unwrap())] {
        // A claim of no number is had even from a full ring.
        assert!(ring.claim(0).unwrap().range().is_empty());
        assert!(ring.claim(..=0).unwrap().range().is_empty());
        assert!(ring.try_claim(..=0).is_ok());
        drop(all);
    }
    assert_eq!(ring.claim_one().unwrap().range().start(), 0);
}

#[test]
fn a_claim_that_is_cut_short_never_gets_a_number() {
    with_each_strategy(|rt, strategy| {
        let (read, ring) = ring::<u8>(2);
        let ring = ring.with_strategy(strategy);
        ring.claim(2).unwrap().publish();
        let cut = spawned(rt, &ring, strategy, |ring| ring.claim(2).map(|_| ()));
        cut.cancel("enough");
        // A task that spins may not have begun.
        let cut = cut.join();
        assert!(matches!(cut, Ok(Err(WaitError::Cancelled(_))) | Err(_)), "{cut:?}");
        assert_eq!(ring.claim_timeout(1, MOMENT).map(|_| ()), Err(WaitError::TimedOut));
        assert!(poll_once(ring.claim_async(1)).is_pending());
        assert_eq!(waiting(&ring), 0);
        assert!(!ring.is_closed());
        read.publish(0);
        assert_eq!(ring.claim_one().unwrap().range().start(), 2);
    });
}

#[test]
fn a_claim_that_is_rolled_back_makes_room_for_waiters() {
    with_each(|rt| {
        let (_read, ring) = ring::<u8>(2);
        let (one, two) = (ring.claim_one().unwrap(), ring.claim_one().unwrap());
        let first = waits(rt, &ring, |ring| publish(ring.claim_one().unwrap()));
        // No reader makes room.
        drop(two);
        assert_eq!(first.join().unwrap(), 1);
        assert_eq!(ring.last_published(), NOTHING);
        drop(one);
        assert_eq!(ring.last_published(), 1);
        assert!(ring.is_skipped(0) && !ring.is_skipped(1));
    });
}

#[test]
fn readers_wait_for_the_gap_to_be_filled() {
    with_each_strategy(|rt, strategy| {
        let (_read, ring) = ring::<u8>(8);
        let ring = ring.with_strategy(strategy);
        let [cut, readers @ ..] = [0, 0, 2, 1].map(|target| {
            spawned(rt, &ring, strategy, move |ring| ring.wait_until_published(target, NOTHING))
        });
        cut.cancel("enough");
        let _ = cut.join();
        let [a, b, c] = [(); 3].map(|()| ring.claim_one().unwrap());
        c.publish();
        a.publish();
        drop(b);
        assert!(join_all(readers).iter().all(Result::is_ok));
        assert_eq!(ring.last_published(), 2);
        assert!(ring.is_skipped(1));
        assert_eq!(waiting(&ring), 0);
    });
}

#[test]
fn the_size_of_a_ring_is_a_power_of_two() {
    for size in [0, 6, 128] {
        let said = panic_of(|| ring::<u8>(size));
        assert!(said.ends_with(&format!("at most 64, not {size}")), "{said}");
    }
    panic_of(|| ring::<u64>((1 << 30) + 1));
    let (_read, used) = ring::<u8>(2);
    let _other = used.clone();
    assert_eq!(
        panic_of(|| used.terminal()),
        "cygnet: set the options of a sequencer before it is cloned or used"
    );
}

#[test]
fn numbers_far_in_the_past_count_as_published() {
    let (read, ring) = ring::<u64>(4);
    for _ in 0..100 {
        let claim = ring.claim(4).unwrap();
        let last = claim.range().last().unwrap();
        claim.publish();
        read.publish(last);
    }
    assert_eq!(ring.last_published_after(u64::MAX), 399);
    assert_eq!(ring.last_published_after(7), 399);
    assert_eq!(ring.wait_until_published(3, u64::MAX), Ok(399));
    assert_eq!(ring.last_published_after(398), 399);
}

#[test]
fn a_writer_of_debug_output_may_use_the_sequencer() {
    struct Uses<'a>(&'a MultiProducerSequencer<u8>, usize);
    impl std::fmt::Write for Uses<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            let time = Duration::from_micros(1);
            let late = self.0.claim_timeout(1, time).map(|_| ());
            assert_eq!(late, Err(WaitError::TimedOut));
            assert_eq!(self.0.wait_timeout(1, 0, time), Err(WaitError::TimedOut));
            self.1 += text.len();
            Ok(())
        }
    }
    crate::common::within(|| {
        let (_read, ring) = ring::<u8>(1);
        let ring = ring.with_strategy(WaitStrategy::Park);
        ring.claim_one().unwrap().publish();
        let mut text = Uses(&ring, 0);
        std::fmt::Write::write_fmt(&mut text, format_args!("{ring:?}")).unwrap();
        assert!(text.1 > 0);
    });
}
