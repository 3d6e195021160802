//! `MultiProducerSequencer`: claims of many producers, given back, skipped, and in the order of coming.

mod ends;
mod order;

use crate::common::{panic_of, scaled, with_each};
use crate::{poll_once, until_waiting, waiting};
use cygnet::ring::sequence::{MultiProducerSequencer, Sequence, SequenceBarrier, WaitStrategy};
use cygnet::sync::WaitError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

const NOTHING: u8 = u8::MAX;

fn ring<S: Sequence>(size: usize) -> (SequenceBarrier<S>, MultiProducerSequencer<S>) {
    let read = SequenceBarrier::new();
    let ring = MultiProducerSequencer::new(&read, size);
    (read, ring)
}

#[test]
fn what_is_published_out_of_order_is_read_in_order() {
    let (read, ring) = ring::<u8>(4);
    let (a, b, c) = (ring.claim_one().unwrap(), ring.claim_up_to(2).unwrap(), ring.claim_one());
    assert_eq!((a.range().start(), b.range().start(), b.range().len()), (0, 1, 2));
    assert!(!ring.any_available() && ring.try_claim(1).is_none());
    c.unwrap().publish();
    assert_eq!(ring.last_published(), NOTHING);
    a.publish();
    assert_eq!(ring.last_published_after(NOTHING), 0);
    b.publish();
    assert_eq!((ring.last_published(), ring.last_published_after(1)), (3, 3));
    assert_eq!(ring.wait_until_published(2, 0), Ok(3));
    assert_eq!(ring.wait_until_published(NOTHING, NOTHING), Ok(3));
    assert_eq!(poll_once(ring.wait_async(NOTHING)), Poll::Ready(Ok(3)));
    read.publish(0);
    assert_eq!(ring.claim_up_to(9).unwrap().range().len(), 1);
}

#[test]
fn the_newest_claim_is_rolled_back_and_an_older_one_is_skipped() {
    let (_read, ring) = ring::<u8>(8);
    drop(ring.claim_exactly(3).unwrap());
    let (a, b, c) = (ring.claim_one().unwrap(), ring.claim_exactly(2), ring.claim_one());
    let (b, c) = (b.unwrap(), c.unwrap());
    assert_eq!(a.range().start(), 0);
    drop(b); // an older one
    drop(c); // the newest: its number is the next one
    let c = ring.claim_one().unwrap();
    assert_eq!(c.range().start(), 3);
    c.publish();
    assert_eq!(ring.last_published(), NOTHING);
    a.publish();
    assert_eq!(ring.last_published(), 3);
    let skipped: Vec<_> = (0..=3).filter(|&number| ring.is_skipped(number)).collect();
    assert_eq!(skipped, [1, 2]);
}

#[test]
fn a_part_of_a_claim_is_published_and_the_rest_given_back() {
    let (_read, ring) = ring::<u32>(8);
    ring.claim_exactly(4).unwrap().publish_first(1);
    let claim = ring.claim_exactly(4).unwrap();
    assert_eq!(claim.range().start(), 1);
    let newer = ring.claim_one().unwrap();
    claim.publish_first(2);
    newer.publish();
    assert_eq!(ring.last_published(), 5);
    let skipped: Vec<_> = (0..=5).filter(|&number| ring.is_skipped(number)).collect();
    assert_eq!(skipped, [3, 4]);
    ring.claim_exactly(2).unwrap().publish_first(100);
    assert_eq!(ring.last_published(), 7);
}

#[test]
fn a_claim_of_more_than_the_ring_has_is_one_of_all_that_it_has() {
    let (_read, ring) = ring::<u16>(4);
    assert_eq!(ring.claim_exactly(usize::MAX).unwrap().range().len(), 4);
    assert_eq!(ring.claim_up_to(usize::MAX).unwrap().range().len(), 4);
    assert!(ring.claim_exactly(0).unwrap().range().is_empty());
    assert!(ring.claim_up_to(0).unwrap().range().is_empty());
    let all = ring.claim_exactly(4).unwrap();
    // None are had also from a ring that is full.
    assert!(ring.claim_exactly(0).unwrap().range().is_empty());
    assert!(ring.try_claim(0).is_some());
    drop(all);
    assert_eq!(ring.claim_one().unwrap().range().start(), 0);
}

#[test]
fn a_claim_that_is_cut_short_has_never_had_a_number() {
    for strategy in [WaitStrategy::Park, WaitStrategy::SpinThenPark, WaitStrategy::Spin] {
        with_each(|rt| {
            let (read, ring) = ring::<u8>(2);
            let ring = ring.with_strategy(strategy);
            ring.claim_exactly(2).unwrap().publish();
            let cut = rt.spawn({
                let ring = ring.clone();
                move || ring.claim_exactly(2).map(|_| ()).unwrap_err()
            });
            if strategy == WaitStrategy::Park {
                until_waiting(&ring, 1);
            }
            cut.cancel("enough");
            // One that spins may not have begun.
            let cut = cut.join();
            assert!(matches!(cut, Ok(WaitError::Cancelled(_)) | Err(_)), "{cut:?}");
            let late = ring.claim_timeout(1, Duration::from_millis(1)).map(|_| ());
            assert_eq!(late, Err(WaitError::TimedOut));
            assert!(poll_once(ring.claim_async(1)).is_pending());
            assert_eq!(waiting(&ring), 0);
            assert!(!ring.is_closed());
            read.publish(0);
            assert_eq!(ring.claim_one().unwrap().range().start(), 2);
        });
    }
}

#[test]
fn a_claim_that_is_rolled_back_makes_room_for_those_who_wait() {
    with_each(|rt| {
        let (_read, ring) = ring::<u8>(2);
        let (one, two) = (ring.claim_one().unwrap(), ring.claim_one().unwrap());
        let waits = || {
            let ring = ring.clone();
            rt.spawn(move || {
                let claim = ring.claim_one().unwrap();
                let number = claim.range().start();
                claim.publish();
                number
            })
        };
        let first = waits();
        until_waiting(&ring, 1);
        // Nobody will ever read anything.
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
    for strategy in [WaitStrategy::Park, WaitStrategy::SpinThenPark, WaitStrategy::Spin] {
        with_each(|rt| {
            let (_read, ring) = ring::<u8>(8);
            let ring = ring.with_strategy(strategy);
            let waits = |target| {
                let ring = ring.clone();
                rt.spawn(move || ring.wait_until_published(target, NOTHING))
            };
            let readers = [waits(0), waits(2), waits(1)];
            let cut = waits(0);
            if strategy == WaitStrategy::Park {
                until_waiting(&ring, 4);
            }
            cut.cancel("enough");
            let _ = cut.join();
            let claims = [(); 3].map(|()| ring.claim_one().unwrap());
            let [a, b, c] = claims;
            c.publish();
            a.publish();
            drop(b);
            for reader in readers {
                assert!(reader.join().unwrap().is_ok());
            }
            assert_eq!(ring.last_published(), 2);
            assert!(ring.is_skipped(1));
            assert_eq!(waiting(&ring), 0);
        });
    }
}

#[test]
fn a_ring_has_a_power_of_two_of_places() {
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
fn numbers_far_in_the_past_are_published() {
    let (read, ring) = ring::<u64>(4);
    for _ in 0..100 {
        let claim = ring.claim_exactly(4).unwrap();
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
fn all_numbers_come_once_and_in_order_from_many_producers_of_which_half_give_up() {
    for strategy in [WaitStrategy::Park, WaitStrategy::SpinThenPark] {
        with_each(|rt| {
            let read = SequenceBarrier::<u8>::new();
            let ring = MultiProducerSequencer::new(&read, 8).with_strategy(strategy);
            let items: Arc<[AtomicUsize]> = (0..8).map(|_| AtomicUsize::new(0)).collect();
            let (producers, each) = (4, scaled(2_000));
            let reader = rt.spawn({
                let (ring, items) = (ring.clone(), Arc::clone(&items));
                move || {
                    let mut seen = vec![0; producers];
                    let (mut next, mut known) = (0_u8, NOTHING);
                    while seen.iter().sum::<usize>() < producers * each {
                        let last = ring.wait_until_published(next, known).unwrap();
                        while !last.precedes(next) {
                            if !ring.is_skipped(next) {
                                let item = items[usize::from(next) % 8].load(Ordering::Relaxed);
                                let (producer, number) = (item / each, item % each);
                                assert_eq!(seen[producer], number, "of producer {producer}");
                                seen[producer] += 1;
                            }
                            next = next.next();
                        }
                        known = last;
                        read.publish(last);
                    }
                }
            });
            let tasks: Vec<_> = (0..producers)
                .map(|producer| {
                    let (ring, items) = (ring.clone(), Arc::clone(&items));
                    rt.spawn(move || {
                        let mut number = 0;
                        while number < each {
                            let claim = ring.claim_up_to(number % 3 + 1).unwrap();
                            if number % 2 == 1 {
                                drop(claim);
                                let claim = ring.claim_one().unwrap();
                                let place = usize::from(claim.range().start()) % 8;
                                items[place].store(producer * each + number, Ordering::Relaxed);
                                claim.publish();
                                number += 1;
                                continue;
                            }
                            let take = claim.range().len().min(each - number);
                            for sequence in claim.range().take(take) {
                                let item = producer * each + number;
                                items[usize::from(sequence) % 8].store(item, Ordering::Relaxed);
                                number += 1;
                            }
                            claim.publish_first(take);
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            reader.join().unwrap();
            assert_eq!(waiting(&ring), 0);
        });
    }
}

#[test]
fn what_it_is_written_to_may_use_it() {
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
