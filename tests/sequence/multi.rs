//! `MultiProducerSequencer`: claims of many producers, given back, skipped, and in the order of coming.

use crate::common::{panic_of, scaled, with_each};
use crate::{poll_once, until_waiting, waiting};
use cygnet::sync::WaitError;
use cygnet::sync::sequence::{
    MultiClaim, MultiProducerSequencer, Sequence, SequenceBarrier, SequenceBarrierGroup,
    WaitStrategy,
};
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
                rt.spawn(move || ring.claim_one().map(MultiClaim::publish))
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
fn to_close_it_ends_the_waits_of_both_sides() {
    with_each(|rt| {
        let (read, ring) = ring::<u8>(2);
        ring.claim_exactly(2).unwrap().publish();
        let producers = [1, 2].map(|count| {
            let ring = ring.clone();
            rt.spawn(move || ring.claim_exactly(count).map(|_| ()))
        });
        let reader = rt.spawn({
            let ring = ring.clone();
            move || ring.wait_until_published(2, 1)
        });
        until_waiting(&ring, 3);
        ring.close();
        ring.close();
        for producer in producers {
            assert_eq!(producer.join().unwrap(), Err(WaitError::Closed));
        }
        assert_eq!(reader.join().unwrap(), Err(WaitError::Closed));
        assert!(ring.is_closed() && read.is_closed() && !ring.any_available());
        assert_eq!(ring.wait_until_published(1, NOTHING), Ok(1));
        // Also of none.
        for count in [1, 0] {
            assert_eq!(ring.claim_up_to(count).map(|_| ()), Err(WaitError::Closed));
            assert!(ring.try_claim(count).is_none());
            let claim = poll_once(ring.claim_async(count));
            assert_eq!(claim.map_ok(|_| ()), Poll::Ready(Err(WaitError::Closed)));
        }
    });
}

#[test]
fn a_claim_may_be_published_after_the_close() {
    let (_read, ring) = ring::<u8>(2);
    let (a, b) = (ring.claim_one().unwrap(), ring.claim_one().unwrap());
    ring.close();
    b.publish();
    drop(a);
    assert_eq!(ring.wait_until_published(1, NOTHING), Ok(1));
}

#[test]
fn producers_are_refused_when_one_who_reads_has_ended() {
    with_each(|rt| {
        let read = [SequenceBarrier::<u8>::new(), SequenceBarrier::new()];
        let group = SequenceBarrierGroup::new(read.clone());
        let ring = MultiProducerSequencer::new(group, 2);
        ring.claim_exactly(2).unwrap().publish();
        let producer = rt.spawn({
            let ring = ring.clone();
            move || ring.claim_one().map(|_| ())
        });
        until_waiting(&ring, 1);
        read[1].close();
        assert_eq!(producer.join().unwrap(), Err(WaitError::Closed));
        assert!(ring.is_closed() && read[0].is_closed());
    });
}

#[test]
fn a_terminal_one_is_closed_by_a_claim_or_a_wait_that_is_cut_short() {
    let time = Duration::from_millis(1);
    let terminal = || {
        let (read, ring) = ring::<u8>(1);
        (read, ring.terminal())
    };
    let (read, ring) = terminal();
    ring.claim_one().unwrap().publish();
    assert_eq!(ring.claim_timeout(1, time).map(|_| ()), Err(WaitError::TimedOut));
    assert!(ring.is_closed() && read.is_closed());
    let (_read, ring) = terminal();
    assert_eq!(ring.wait_timeout(0, NOTHING, time), Err(WaitError::TimedOut));
    assert!(ring.is_closed());
    let (_read, ring) = terminal();
    assert!(poll_once(ring.wait_async(0)).is_pending());
    assert!(ring.is_closed());
}

#[test]
fn a_forgotten_claim_stops_the_ring_until_it_is_closed() {
    with_each(|rt| {
        let (_read, ring) = ring::<u8>(2);
        std::mem::forget(ring.claim_one().unwrap());
        ring.claim_one().unwrap().publish();
        let tasks = [
            rt.spawn({
                let ring = ring.clone();
                move || ring.wait_until_published(0, NOTHING).map(|_| ())
            }),
            rt.spawn({
                let ring = ring.clone();
                move || ring.claim_one().map(|_| ())
            }),
        ];
        until_waiting(&ring, 2);
        ring.close();
        for task in tasks {
            assert_eq!(task.join().unwrap(), Err(WaitError::Closed));
        }
    });
}

#[test]
fn a_ring_has_a_power_of_two_of_places() {
    for size in [0, 6, 128] {
        let said = panic_of(|| ring::<u8>(size));
        assert!(said.ends_with(&format!("64 at most, and not {size}")), "{said}");
    }
    panic_of(|| ring::<u64>((1 << 30) + 1));
    let (_read, used) = ring::<u8>(2);
    let _other = used.clone();
    assert_eq!(panic_of(|| used.terminal()), "cygnet: options are set before a sequencer is used");
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
            assert_eq!(other.join().unwrap(), Ok(()));
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
