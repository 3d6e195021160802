//! Producers that wait for room: the order of their numbers, and a number that its producer left.

use super::{publish, ring};
use crate::common::prelude::*;
use crate::with_each_strategy;
use cygnet::ring::sequence::{MultiClaim, WaitStrategy};

/// Q18.
#[test]
fn producers_that_wait_for_room_get_it_in_order() {
    with_each(|rt| {
        let (read, ring) = ring::<u8>(4);
        ring.claim(4).unwrap().publish();
        let order = Count::new();
        let [first, second, third] = [3, 1, 2].map(|count| {
            waits(rt, &ring, move |ring| {
                let claim = ring.claim(count).unwrap();
                let place = order.get();
                order.up();
                let range = claim.range();
                claim.publish();
                (place, range.start(), range.len())
            })
        });
        // There is room for the second producer, but the first has come before it.
        read.publish(1);
        crate::common::thread::yield_now();
        assert!(ring.try_claim(1).is_err(), "a new claim does not pass waiters");
        assert_eq!(waiting(&ring), 3);
        read.publish(2);
        until_waiting(&ring, 2);
        read.publish(3);
        until_waiting(&ring, 1);
        // The second may run before the first, and has the later number all the same.
        assert_eq!(second.join().unwrap().1, 7);
        assert_eq!(first.join().unwrap().1, 4);
        read.publish(5);
        assert_eq!(third.join().unwrap(), (2, 8, 2));
        assert_eq!(ring.last_published(), 9);
    });
}

#[test]
fn the_first_producer_has_the_first_number_even_if_it_runs_last() {
    let (read, ring) = ring::<u8>(4);
    ring.claim(4).unwrap().publish();
    let [first, second, third] = [1, 2, 1].map(|count| begun(ring.claim_async(..=count)));
    read.publish(3);
    let numbers = |polled| {
        let Poll::Ready(Ok(claim)) = polled else { panic!("there is room") };
        let claim: MultiClaim<'_, u8> = claim;
        let range = claim.range();
        claim.publish();
        (range.start(), range.len())
    };
    assert_eq!(numbers(poll_once(third)), (7, 1));
    assert_eq!(numbers(poll_once(second)), (5, 2));
    assert_eq!(ring.last_published_after(3), 3, "the first number is missing");
    assert_eq!(numbers(poll_once(first)), (4, 1));
    assert_eq!(ring.last_published_after(3), 7);
}

#[test]
fn tasks_that_wait_for_room_are_numbered_in_order() {
    with_each(|rt| {
        let (read, ring) = ring::<u64>(2);
        let ring = ring.with_strategy(WaitStrategy::Park);
        ring.claim(2).unwrap().publish();
        for lap in 1..=scaled(50) as u64 {
            let tasks =
                [(); 2].map(|()| waits(rt, &ring, |ring| publish(ring.claim_one().unwrap())));
            read.publish(2 * lap - 1);
            assert_eq!(tasks.map(|task| task.join().unwrap()), [2 * lap, 2 * lap + 1]);
        }
    });
}

/// Q19.
#[test]
fn a_producer_that_is_dropped_with_its_number_leaves_no_hole() {
    let (read, ring) = ring::<u8>(4);
    ring.claim(4).unwrap().publish();
    let [first, second, third] = [1, 2, 1].map(|count| begun(ring.claim_async(..=count)));
    read.publish(3);
    // The newest claim is taken back, and its number is the next one.
    drop(third);
    assert_eq!(ring.try_claim(..=4).unwrap().range().start(), 7);
    // The number of an older claim is skipped.
    drop(first);
    assert_eq!(ring.last_published_after(3), 4);
    assert!(ring.is_skipped(4));
    let Poll::Ready(Ok(claim)) = poll_once(second) else { panic!("it was handed over") };
    assert_eq!((claim.range().start(), claim.range().len()), (5, 2));
    claim.publish();
    assert_eq!(ring.last_published_after(3), 6);
    read.publish(6);
    assert_eq!(ring.claim(4).unwrap().range().start(), 7);
}

#[test]
fn a_task_that_is_cancelled_with_its_number_leaves_no_hole() {
    with_each(|rt| {
        for lap in 0..scaled(50) {
            let (read, ring) = ring::<u8>(2);
            let ring = ring.with_strategy(WaitStrategy::Park);
            ring.claim(2).unwrap().publish();
            let [cut, stays] = [(); 2]
                .map(|()| waits(rt, &ring, |ring| ring.claim_one().map(|claim| claim.publish())));
            if lap % 2 == 0 {
                read.publish(1);
                cut.cancel("enough");
            } else {
                cut.cancel("enough");
                read.publish(1);
            }
            let cut = cut.join().unwrap();
            assert!(matches!(cut, Ok(_) | Err(WaitError::Cancelled(_))), "{cut:?}");
            assert!(stays.join().unwrap().is_ok());
            let last = ring.wait_until_published(if cut.is_ok() { 3 } else { 2 }, 1).unwrap();
            let items = (2..=last).filter(|&number| !ring.is_skipped(number)).count();
            assert_eq!(items, 1 + usize::from(cut.is_ok()));
            // No room is lost: the next claim gets what was not published.
            read.publish(last);
            assert_eq!(ring.try_claim(..=2).unwrap().range().len(), 2);
        }
    });
}

#[test]
fn a_waiter_for_many_numbers_that_leaves_lets_the_next_ones_pass() {
    with_each(|rt| {
        let (read, ring) = ring::<u8>(4);
        ring.claim(4).unwrap().publish();
        read.publish(0);
        let much = waits(rt, &ring, |ring| ring.claim(3).map(|_| ()).unwrap_err());
        let little = waits(rt, &ring, |ring| ring.claim_one().map(|claim| claim.range().start()));
        much.cancel("enough");
        assert!(matches!(much.join().unwrap(), WaitError::Cancelled(_)));
        assert_eq!(little.join().unwrap(), Ok(4));
    });
}

#[test]
fn a_number_handed_to_an_unpolled_future_blocks_no_other_producer() {
    with_each_strategy(|rt, strategy| {
        let (read, ring) = ring::<u8>(4);
        let ring = ring.with_strategy(strategy);
        ring.claim(4).unwrap().publish();
        let granted = begun(ring.claim_async(1));
        let has_begun = Flag::new();
        let other = rt.spawn(own(&ring, move |ring| {
            has_begun.set();
            ring.claim_one().map(|claim| claim.publish())
        }));
        eventually("it has begun", || has_begun.get());
        crate::common::thread::yield_now();
        // The future that is handed one of the four is not polled.
        read.publish(3);
        assert_eq!(other.join().unwrap(), Ok(true));
        assert!(ring.any_available());
        let claim = ring.try_claim(..=4).unwrap();
        assert_eq!(claim.range().len(), 2);
        assert!(!ring.any_available() && ring.try_claim(1).is_err());
        claim.publish();
        assert_eq!(ring.last_published_after(3), 3, "readers wait for the first number");
        drop(granted);
        assert_eq!(ring.last_published_after(3), 7);
        assert!(ring.is_skipped(4));
    });
}

#[test]
fn a_reader_ahead_of_all_claims_makes_no_more_room_and_blocks_no_waiter() {
    with_each(|rt| {
        let (read, ring) = ring::<u64>(4);
        ring.claim(4).unwrap().publish();
        let first = begun(ring.claim_async(..=4));
        let second = waits(rt, &ring, |ring| publish(ring.claim(4).unwrap()));
        read.publish(100);
        let third = ring.try_claim(..=9).unwrap();
        assert_eq!((third.range().start(), third.range().len()), (12, 4));
        let Poll::Ready(Ok(claim)) = poll_once(first) else { panic!("there is room") };
        assert_eq!((claim.range().start(), claim.range().len()), (4, 4));
        claim.publish();
        assert_eq!(second.join().unwrap(), 8);
    });
}
