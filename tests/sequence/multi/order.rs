//! Producers that wait for room: the order of their numbers, and what becomes of a number that nobody wants any more.

use super::ring;
use crate::common::{scaled, with_each};
use crate::{poll_once, until_waiting, waiting};
use cygnet::ring::sequence::{MultiClaim, WaitStrategy};
use cygnet::sync::WaitError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

#[test]
fn producers_that_wait_for_room_have_it_in_the_order_of_coming() {
    with_each(|rt| {
        let (read, ring) = ring::<u8>(4);
        ring.claim_exactly(4).unwrap().publish();
        let order = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = [3, 1, 2]
            .into_iter()
            .enumerate()
            .map(|(index, count)| {
                let task = rt.spawn({
                    let (ring, order) = (ring.clone(), Arc::clone(&order));
                    move || {
                        let claim = ring.claim_exactly(count).unwrap();
                        let place = order.fetch_add(1, Ordering::Relaxed);
                        let range = claim.range();
                        claim.publish();
                        (place, range)
                    }
                });
                until_waiting(&ring, index + 1);
                task
            })
            .collect();
        // Room for the second, but the first has come before it.
        read.publish(1);
        crate::common::thread::yield_now();
        assert!(ring.try_claim(1).is_none(), "nobody passes those who wait");
        assert_eq!(waiting(&ring), 3);
        read.publish(2);
        until_waiting(&ring, 2);
        read.publish(3);
        until_waiting(&ring, 1);
        let mut tasks = tasks.into_iter();
        let (first, second) = (tasks.next().unwrap(), tasks.next().unwrap());
        // The second may run before the first, and has the later number all the same.
        assert_eq!(second.join().unwrap().1.start(), 7);
        assert_eq!(first.join().unwrap().1.start(), 4);
        read.publish(5);
        let third = tasks.next().unwrap().join().unwrap();
        assert_eq!((third.0, third.1.start(), third.1.len()), (2, 8, 2));
        assert_eq!(ring.last_published(), 9);
    });
}

#[test]
fn a_producer_that_has_come_first_has_the_first_number_also_if_it_runs_last() {
    let (read, ring) = ring::<u8>(4);
    ring.claim_exactly(4).unwrap().publish();
    let [mut first, mut second, mut third] =
        [1, 2, 1].map(|count| Box::pin(ring.claim_async(count)));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(third.as_mut()).is_pending());
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
fn tasks_that_wait_for_room_are_numbered_in_the_order_of_coming() {
    with_each(|rt| {
        let (read, ring) = ring::<u64>(2);
        let ring = ring.with_strategy(WaitStrategy::Park);
        ring.claim_exactly(2).unwrap().publish();
        for lap in 1..=scaled(50) as u64 {
            let tasks = [0, 1].map(|index| {
                let task = rt.spawn({
                    let ring = ring.clone();
                    move || {
                        let claim = ring.claim_one().unwrap();
                        let number = claim.range().start();
                        claim.publish();
                        number
                    }
                });
                until_waiting(&ring, index + 1);
                task
            });
            read.publish(2 * lap - 1);
            let numbers = tasks.map(|task| task.join().unwrap());
            assert_eq!(numbers, [2 * lap, 2 * lap + 1]);
        }
    });
}

#[test]
fn a_producer_that_goes_with_the_number_it_was_handed_leaves_no_hole() {
    let (read, ring) = ring::<u8>(4);
    ring.claim_exactly(4).unwrap().publish();
    let pending = |count| {
        let mut future = Box::pin(ring.claim_async(count));
        assert!(poll_once(future.as_mut()).is_pending());
        future
    };
    let (first, second, third) = (pending(1), pending(2), pending(1));
    read.publish(3);
    // The newest is taken back, and its number is the next one.
    drop(third);
    assert_eq!(ring.try_claim(4).unwrap().range().start(), 7);
    // An older one is stepped over.
    drop(first);
    assert_eq!(ring.last_published_after(3), 4);
    assert!(ring.is_skipped(4));
    let Poll::Ready(Ok(claim)) = poll_once(second) else { panic!("it was handed over") };
    assert_eq!((claim.range().start(), claim.range().len()), (5, 2));
    claim.publish();
    assert_eq!(ring.last_published_after(3), 6);
    read.publish(6);
    assert_eq!(ring.claim_exactly(4).unwrap().range().start(), 7);
}

#[test]
fn a_task_that_is_cancelled_with_the_number_it_was_handed_leaves_no_hole() {
    with_each(|rt| {
        for lap in 0..scaled(50) {
            let (read, ring) = ring::<u8>(2);
            let ring = ring.with_strategy(WaitStrategy::Park);
            ring.claim_exactly(2).unwrap().publish();
            let producer = || {
                let ring = ring.clone();
                rt.spawn(move || ring.claim_one().map(|claim| claim.publish()))
            };
            let cut = producer();
            until_waiting(&ring, 1);
            let stays = producer();
            until_waiting(&ring, 2);
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
            // Nothing is lost: what was not published is had by the next ones.
            read.publish(last);
            assert_eq!(ring.try_claim(2).unwrap().range().len(), 2);
        }
    });
}

#[test]
fn one_that_waits_for_much_and_goes_lets_those_behind_it_pass() {
    with_each(|rt| {
        let (read, ring) = ring::<u8>(4);
        ring.claim_exactly(4).unwrap().publish();
        read.publish(0);
        let much = rt.spawn({
            let ring = ring.clone();
            move || ring.claim_exactly(3).map(|_| ()).unwrap_err()
        });
        until_waiting(&ring, 1);
        let little = rt.spawn({
            let ring = ring.clone();
            move || ring.claim_one().map(|claim| claim.range().start())
        });
        until_waiting(&ring, 2);
        much.cancel("enough");
        assert!(matches!(much.join().unwrap(), WaitError::Cancelled(_)));
        assert_eq!(little.join().unwrap(), Ok(4));
    });
}

#[test]
fn a_number_that_was_handed_to_a_future_nobody_polls_keeps_no_producer_from_the_rest() {
    for strategy in [WaitStrategy::Park, WaitStrategy::SpinThenPark, WaitStrategy::Spin] {
        with_each(|rt| {
            let (read, ring) = ring::<u8>(4);
            let ring = ring.with_strategy(strategy);
            ring.claim_exactly(4).unwrap().publish();
            let mut granted = Box::pin(ring.claim_async(1));
            assert!(poll_once(granted.as_mut()).is_pending());
            let begun = Arc::new(AtomicUsize::new(0));
            let other = rt.spawn({
                let (ring, begun) = (ring.clone(), Arc::clone(&begun));
                move || {
                    begun.store(1, Ordering::Relaxed);
                    ring.claim_one().map(|claim| claim.publish())
                }
            });
            crate::eventually("it has begun", || begun.load(Ordering::Relaxed) == 1);
            crate::common::thread::yield_now();
            // Nobody polls the future, which has been handed one of the four.
            read.publish(3);
            assert_eq!(other.join().unwrap(), Ok(true));
            assert!(ring.any_available());
            let claim = ring.try_claim(4).unwrap();
            assert_eq!(claim.range().len(), 2);
            assert!(!ring.any_available() && ring.try_claim(1).is_none());
            claim.publish();
            assert_eq!(ring.last_published_after(3), 3, "readers wait for the first");
            drop(granted);
            assert_eq!(ring.last_published_after(3), 7);
            assert!(ring.is_skipped(4));
        });
    }
}

#[test]
fn a_reader_ahead_of_what_was_claimed_makes_no_more_room_than_there_is_and_keeps_nobody_waiting() {
    with_each(|rt| {
        let (read, ring) = ring::<u64>(4);
        ring.claim_exactly(4).unwrap().publish();
        let mut first = Box::pin(ring.claim_async(4));
        assert!(poll_once(first.as_mut()).is_pending());
        let second = rt.spawn({
            let ring = ring.clone();
            move || {
                let claim = ring.claim_exactly(4).unwrap();
                let number = claim.range().start();
                claim.publish();
                number
            }
        });
        until_waiting(&ring, 2);
        read.publish(100);
        let third = ring.try_claim(9).unwrap();
        assert_eq!((third.range().start(), third.range().len()), (12, 4));
        let Poll::Ready(Ok(claim)) = poll_once(first) else { panic!("there is room") };
        assert_eq!((claim.range().start(), claim.range().len()), (4, 4));
        claim.publish();
        assert_eq!(second.join().unwrap(), 8);
    });
}
