//! How a sequencer of many producers ends, and when readers are told.

use super::{NOTHING, ring, spawned};
use crate::STRATEGIES;
use crate::common::prelude::*;
use cygnet::ring::sequence::{
    MultiClaim, MultiProducerSequencer, Sequence, SequenceBarrier, SequenceBarrierGroup,
    WaitStrategy,
};

/// Q21.
#[test]
fn closing_a_sequencer_ends_the_waits_of_both_sides() {
    with_each(|rt| {
        let (read, ring) = ring::<u8>(2);
        ring.claim(2).unwrap().publish();
        let producers =
            [1, 2].map(|count| waits(rt, &ring, move |ring| ring.claim(count).map(|_| ())));
        let reader = waits(rt, &ring, |ring| ring.wait_until_published(2, 1));
        ring.close();
        ring.close();
        assert_eq!(join_all(producers), vec![Err(WaitError::Closed); 2]);
        assert_eq!(reader.join().unwrap(), Err(WaitError::Closed));
        assert!(ring.is_closed() && read.is_closed() && !ring.any_available());
        assert_eq!(ring.wait_until_published(1, NOTHING), Ok(1));
        // A claim of no number is refused, too.
        for count in [1, 0] {
            assert_eq!(ring.claim(..=count).map(|_| ()), Err(WaitError::Closed));
            assert!(ring.try_claim(..=count).is_err());
            let claim = poll_once(ring.claim_async(..=count));
            assert_eq!(claim.map_ok(|_| ()), Poll::Ready(Err(WaitError::Closed)));
        }
    });
}

type Ring = MultiProducerSequencer<u8>;

/// The ways to end a ring from the producers' side.
const ENDS: [fn(&Ring); 2] = [Ring::close, Ring::finish];

#[test]
fn an_end_also_holds_for_a_sequencer_that_gets_other_options() {
    for end in ENDS {
        for change in [Ring::terminal, |ring: Ring| ring.with_strategy(WaitStrategy::Park)] {
            let (_read, ring) = ring::<u8>(2);
            end(&ring);
            let ring = change(ring);
            assert!(ring.is_closed() && ring.is_finished() && ring.try_claim(1).is_err());
            assert_eq!(ring.claim_one().map(|_| ()), Err(WaitError::Closed));
            assert_eq!(ring.wait_until_published(0, NOTHING), Err(WaitError::Closed));
        }
    }
}

#[test]
fn a_claim_may_be_published_after_the_close() {
    for end in ENDS {
        let (_read, ring) = ring::<u8>(2);
        let (a, b) = (ring.claim_one().unwrap(), ring.claim_one().unwrap());
        end(&ring);
        assert!(b.publish());
        drop(a);
        assert_eq!(ring.wait_until_published(1, NOTHING), Ok(1));
    }
}

/// Q22.
#[test]
fn readers_are_told_of_the_end_when_the_last_claim_has_ended() {
    for end in ENDS {
        let (_read, ring) = ring::<u8>(8);
        let [a, b, c, d] = [(); 4].map(|()| ring.claim_one().unwrap());
        assert!(b.publish(), "published before the end, behind an open claim");
        end(&ring);
        assert!(ring.is_closed() && !ring.is_finished());
        assert_eq!(ring.claim_one().map(|_| ()), Err(WaitError::Closed));
        for target in [0, 1, 7] {
            assert!(poll_once(ring.wait_async(target)).is_pending(), "{target}");
        }
        assert!(a.publish());
        assert_eq!(poll_once(ring.wait_async(0)), Poll::Ready(Ok(1)));
        drop(c);
        assert!(poll_once(ring.wait_async(3)).is_pending() && !ring.is_finished());
        drop(d); // The newest claim: its number will not come.
        assert!(ring.is_finished() && ring.is_skipped(2));
        assert_eq!(ring.last_published(), 2);
        assert_eq!(ring.wait_until_published(2, 1), Ok(2));
        assert_eq!(ring.wait_until_published(3, 2), Err(WaitError::Closed));
    }
}

#[test]
fn a_reader_that_waits_for_the_end_is_woken_however_the_last_claim_ends() {
    let endings: [fn(MultiClaim<'_, u8>); 3] =
        [|claim| assert!(claim.publish()), |claim| drop(claim), |claim| _ = claim.publish_first(0)];
    for strategy in STRATEGIES {
        for (end, ending) in ENDS.into_iter().flat_map(|end| endings.map(|ending| (end, ending))) {
            // The claim that ends last is the older of two, or the only one, which is taken back.
            for claims in [2, 1] {
                with_each(|rt| {
                    let (_read, ring) = ring::<u8>(4);
                    let ring = ring.with_strategy(strategy);
                    let last = ring.claim_one().unwrap();
                    let newer = (claims == 2).then(|| ring.claim_one().unwrap());
                    let reader = spawned(rt, &ring, strategy, move |ring| {
                        ring.wait_until_published(claims, NOTHING)
                    });
                    end(&ring);
                    newer.into_iter().for_each(|newer| assert!(newer.publish()));
                    ending(last);
                    assert_eq!(reader.join().unwrap(), Err(WaitError::Closed));
                    assert!(ring.is_finished());
                    assert!(claims == 1 || ring.last_published() == 1);
                });
            }
        }
    }
}

#[test]
fn a_number_handed_over_before_the_end_counts_as_an_open_claim() {
    for end in ENDS {
        let (read, ring) = ring::<u8>(2);
        ring.claim(2).unwrap().publish();
        let (handed, waits) = (begun(ring.claim_async(1)), begun(ring.claim_async(..=2)));
        read.publish(0);
        end(&ring);
        assert!(matches!(poll_once(waits), Poll::Ready(Err(WaitError::Closed))));
        assert!(poll_once(ring.wait_async(2)).is_pending());
        let Poll::Ready(Ok(claim)) = poll_once(handed) else { panic!("it was handed over") };
        assert!(claim.publish());
        assert_eq!(ring.wait_until_published(2, 1), Ok(2));
        assert!(ring.is_finished());
    }
}

#[test]
fn a_publish_after_a_reader_has_ended_returns_false() {
    let read = [SequenceBarrier::<u8>::new(), SequenceBarrier::new()];
    let ring = MultiProducerSequencer::new(SequenceBarrierGroup::new(read.clone()), 4);
    let [a, b, c] = [(); 3].map(|()| ring.claim_one().unwrap());
    assert!(a.publish());
    read[1].finish();
    assert!(!c.publish() && !b.publish_first(1));
    // The other reader gets them.
    assert_eq!(ring.wait_until_published(0, NOTHING), Ok(2));
    assert_eq!(ring.wait_until_published(3, 2), Err(WaitError::Closed));
}

#[test]
fn all_published_numbers_are_read_whenever_the_ring_is_closed() {
    for strategy in STRATEGIES.into_iter().take(2) {
        with_each(|rt| {
            for lap in 0..scaled(40) {
                let read = SequenceBarrier::<u8>::new();
                let ring = MultiProducerSequencer::new(&read, 4).with_strategy(strategy);
                let reader = rt.spawn(own(&(ring.clone(), read), move |(ring, read)| {
                    let (mut next, mut items) = (0_u8, 0);
                    while let Ok(last) = ring.wait_until_published(next, next.wrapping_sub(1)) {
                        while !last.precedes(next) {
                            items += usize::from(!ring.is_skipped(next));
                            next = next.next();
                        }
                        read.publish(last);
                        // The producers have open claims at that moment.
                        if items >= lap {
                            ENDS[lap % 2](&ring);
                        }
                    }
                    assert_eq!(ring.last_published(), next.wrapping_sub(1), "told too soon");
                    items
                }));
                let producers = [1, 2, 3].map(|give_up| {
                    rt.spawn(own(&ring, move |ring| {
                        let mut published = 0;
                        for turn in 1.. {
                            let Ok(claim) = ring.claim_one() else { break };
                            let _ = cygnet::yield_now();
                            if turn % 4 != give_up {
                                assert!(claim.publish());
                                published += 1;
                            }
                        }
                        published
                    }))
                });
                let published: usize = producers.map(|task| task.join().unwrap()).iter().sum();
                assert_eq!(reader.join().unwrap(), published);
                assert!(ring.is_finished());
            }
        });
    }
}

#[test]
fn producers_are_refused_when_a_reader_has_ended() {
    with_each(|rt| {
        let read = [SequenceBarrier::<u8>::new(), SequenceBarrier::new()];
        let group = SequenceBarrierGroup::new(read.clone());
        let ring = MultiProducerSequencer::new(group, 2);
        ring.claim(2).unwrap().publish();
        let producer = waits(rt, &ring, |ring| ring.claim_one().map(|_| ()));
        read[1].close();
        assert_eq!(producer.join().unwrap(), Err(WaitError::Closed));
        assert!(ring.is_closed() && read[0].is_closed());
    });
}

#[test]
fn a_terminal_sequencer_is_closed_by_a_claim_or_wait_that_is_cut_short() {
    let terminal = || {
        let (read, ring) = ring::<u8>(1);
        (read, ring.terminal())
    };
    let (read, ring) = terminal();
    ring.claim_one().unwrap().publish();
    assert_eq!(ring.claim_timeout(1, MOMENT).map(|_| ()), Err(WaitError::TimedOut));
    assert!(ring.is_closed() && read.is_closed());
    let (_read, ring) = terminal();
    assert_eq!(ring.wait_timeout(0, NOTHING, MOMENT), Err(WaitError::TimedOut));
    assert!(ring.is_closed());
    let (_read, ring) = terminal();
    assert!(poll_once(ring.wait_async(0)).is_pending());
    assert!(ring.is_closed());
}

/// Q20.
#[test]
fn a_forgotten_claim_stops_the_readers_of_a_ring_even_if_it_is_closed() {
    with_each(|rt| {
        let (_read, ring) = ring::<u8>(2);
        std::mem::forget(ring.claim_one().unwrap());
        ring.claim_one().unwrap().publish();
        let reader = waits(rt, &ring, |ring| ring.wait_until_published(0, NOTHING));
        let producer = waits(rt, &ring, |ring| ring.claim_one().map(|_| ()));
        ring.close();
        assert_eq!(producer.join().unwrap(), Err(WaitError::Closed));
        assert!(!ring.is_finished());
        assert_eq!(waiting(&ring), 1);
        reader.cancel("it would wait for ever");
        assert!(matches!(reader.join().unwrap(), Err(WaitError::Cancelled(_))));
        assert_eq!(ring.wait_timeout(0, NOTHING, MOMENT), Err(WaitError::TimedOut));
    });
}
