//! The forms of claims and sends: exact and up to a count, with a limit, at once, as a future.

use super::one_stage;
use crate::common::prelude::*;
use crate::with_each_strategy;
use cygnet::ring;
use cygnet::ring::sequence::TryClaimError;
use cygnet::sync::TrySendError;

/// A moment that has passed.
fn past() -> Instant {
    common::now()
}

fn soon() -> Instant {
    common::now() + MOMENT
}

fn late() -> Instant {
    common::now() + LONG
}

/// Q36.
#[test]
fn a_claim_takes_exactly_a_count_or_what_there_is_of_a_range() {
    with_both!(|new| {
        let mut ring = new(8, u32::default);
        let (mut stage, mut producer) = (ring.stage(), ring.producer());
        assert_eq!(producer.claim(5).unwrap().len(), 5);
        assert_eq!(producer.claim(..=5).unwrap().len(), 5);
        producer.claim(5).unwrap().publish();
        // Three are left.
        assert_eq!(producer.claim(2).unwrap().len(), 2);
        assert_eq!(producer.claim(..=5).unwrap().len(), 3);
        assert_eq!(producer.claim(2..=5).unwrap().len(), 3);
        assert_eq!(producer.claim(2..).unwrap().len(), 3);
        assert_eq!(producer.claim(..).unwrap().len(), 3);
        assert_eq!(producer.claim(0..=1).unwrap().len(), 1);
        for exact in [4, 8, 9, usize::MAX] {
            let time = producer.claim_timeout(exact, MOMENT).unwrap_err();
            assert_eq!(time, WaitError::TimedOut);
            assert_eq!(producer.claim_timeout(exact.., MOMENT).unwrap_err(), WaitError::TimedOut);
            assert_eq!(producer.claim_deadline(exact, soon()).unwrap_err(), WaitError::TimedOut);
            assert_eq!(producer.try_claim(exact).unwrap_err(), TryClaimError::Full);
            assert!(poll_once(producer.claim_async(exact)).is_pending());
        }
        drop(stage.next_batch(..));
        for exact in [8, 9, usize::MAX] {
            assert_eq!(producer.claim(exact).unwrap().len(), 8);
            assert_eq!(producer.claim(exact..).unwrap().len(), 8);
            assert_eq!(producer.try_claim(exact).unwrap().len(), 8);
            assert_eq!(wait(producer.claim_async(exact)).unwrap().unwrap().len(), 8);
        }
    });
}

/// Q36.
#[test]
fn a_claim_of_none_is_empty_also_in_a_full_ring() {
    with_both!(|new| {
        let mut ring = new(2, u32::default);
        let (_stage, mut producer) = (ring.stage(), ring.producer());
        producer.claim(2).unwrap().publish();
        let empty = producer.claim(0).unwrap();
        assert!(empty.is_empty() && empty.publish());
        assert!(producer.claim(..=0).unwrap().is_empty());
        assert!(producer.try_claim(0).unwrap().is_empty());
        assert!(producer.claim_timeout(0, Duration::ZERO).unwrap().is_empty());
        assert!(wait(producer.claim_async(..=0)).unwrap().unwrap().is_empty());
        producer.close();
        assert_eq!(producer.claim(0).unwrap_err(), WaitError::Closed);
        assert_eq!(producer.try_claim(0).unwrap_err(), TryClaimError::Closed);
    });
}

/// Q36.
#[test]
fn a_range_of_counts_that_is_empty_is_refused() {
    let (mut stage, mut producer) = one_stage(4, u32::default);
    let (more, fewer) = (3, 2);
    let said = panic_of(|| drop(producer.claim(more..=fewer)));
    assert_eq!(said, "cygnet: no count is in 3..=2: the start of a range must not exceed its end");
    producer.send(1).unwrap();
    assert_eq!(stage.recv(), Ok(1));
}

/// Q37.
#[test]
fn a_claim_or_send_at_once_tells_a_full_ring_from_a_closed_one() {
    with_both!(|new| {
        let mut ring = new(2, u32::default);
        let (mut stage, mut producer) = (ring.stage(), ring.producer());
        producer.try_send(1).unwrap();
        producer.try_claim(1).unwrap().publish();
        assert_eq!(producer.try_claim(1).unwrap_err(), TryClaimError::Full);
        assert_eq!(producer.try_send(7), Err(TrySendError::Full(7)));
        assert_eq!(stage.recv(), Ok(1));
        assert_eq!(producer.try_claim(2).unwrap_err(), TryClaimError::Full);
        producer.try_send(8).unwrap();
        drop(stage);
        assert_eq!(producer.try_claim(1).unwrap_err(), TryClaimError::Closed);
        assert_eq!(producer.try_send(9), Err(TrySendError::Closed(9)));
    });
    assert_eq!(TryClaimError::Full.to_string(), "the ring is full");
    assert_eq!(TryClaimError::Closed.to_string(), "the ring is closed");
}

/// Q37.
#[test]
fn a_claim_at_once_does_not_pass_a_producer_that_waits() {
    let mut ring = ring::multi_producer(4, u32::default);
    let (mut stage, producer) = (ring.stage(), ring.producer());
    producer.claim(4).unwrap().publish();
    let mut first = Box::pin(producer.claim_async(3));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    drop(stage.next_batch(..=2));
    assert_eq!(producer.try_claim(1).unwrap_err(), TryClaimError::Full);
    assert_eq!(producer.try_send(1), Err(TrySendError::Full(1)));
    drop(stage.next_batch(..));
    let Poll::Ready(Ok(batch)) = first.as_mut().poll(&mut cx) else { panic!("it has its room") };
    assert_eq!(batch.len(), 3);
    producer.try_send(1).unwrap();
}

#[test]
fn sends_end_with_their_limit_and_return_the_value() {
    with_both!(|new| {
        let mut ring = new(1, String::new);
        let (mut stage, mut producer) = (ring.stage(), ring.producer());
        producer.send_timeout("a".into(), Duration::ZERO).unwrap();
        let refused = producer.send_timeout("b".into(), MOMENT).unwrap_err();
        assert_eq!(
            (refused.reason(), refused.clone().into_inner()),
            (&WaitError::TimedOut, "b".into())
        );
        let refused = producer.send_deadline("c".into(), past()).unwrap_err();
        assert_eq!(
            (refused.reason(), refused.clone().into_inner()),
            (&WaitError::TimedOut, "c".into())
        );
        assert!(poll_once(producer.send_async("d".into())).is_pending());
        assert_eq!(stage.recv().unwrap(), "a");
        producer.send_deadline("e".into(), past()).unwrap();
        assert_eq!(stage.recv().unwrap(), "e");
        wait(producer.send_async("f".into())).unwrap().unwrap();
        assert_eq!(stage.recv().unwrap(), "f");
        drop(stage);
        let refused = wait(producer.send_async("g".into())).unwrap().unwrap_err();
        assert_eq!(
            (refused.reason(), refused.clone().into_inner()),
            (&WaitError::Closed, "g".into())
        );
        let refused = producer.send_timeout("h".into(), Duration::MAX).unwrap_err();
        assert_eq!(refused.reason(), &WaitError::Closed);
    });
}

/// Q36.
#[test]
fn a_claim_of_several_waits_until_all_of_them_are_free() {
    with_each_strategy(|rt, strategy| {
        for form in 0..4 {
            let mut ring = ring::multi_producer_with(4, strategy, u32::default);
            let (mut stage, producer) = (ring.stage(), ring.producer());
            producer.claim(4).unwrap().publish();
            let waits = rt.spawn(move || match form {
                0 => producer.claim(3).map(|batch| batch.len()),
                1 => producer.claim_timeout(3..=4, LONG).map(|batch| batch.len()),
                2 => producer.claim_deadline(3, late()).map(|batch| batch.len()),
                _ => wait(producer.claim_async(3)).unwrap().map(|batch| batch.len()),
            });
            drop(stage.next_batch(..=1));
            thread::yield_now();
            drop(stage.next_batch(..=2));
            assert_eq!(waits.join().unwrap(), Ok(3));
        }
    });
}
