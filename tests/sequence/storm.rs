//! Producers whose waits for room are cut short in each of the ways that there are, while others' are not; numbers that wrap around.

use crate::common::{scaled_in_debug, with_each_and_many};
use crate::{LONG, poll_once};
use cygnet::ring::sequence::{MultiClaim, MultiProducerSequencer, Sequence};
use cygnet::ring::sequence::{SequenceBarrier, WaitStrategy};
use cygnet::sync::WaitError;
use std::array;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

const SIZE: usize = 8;
const PRODUCERS: usize = 4;

struct Ring {
    sequencer: MultiProducerSequencer<u8>,
    read: SequenceBarrier<u8>,
    /// From which producer, and the how many-eth of it.
    items: [AtomicUsize; SIZE],
    each: usize,
}

impl Ring {
    fn publish(&self, claim: MultiClaim<'_, u8>, producer: usize, number: usize) {
        let place = usize::from(claim.range().start()) % SIZE;
        self.items[place].store(producer * self.each + number, Ordering::Relaxed);
        claim.publish_first(1);
    }

    /// One claim of each kind is cut short, if there is no room at once, before one that is not.
    fn produce(&self, producer: usize) {
        let mut number = 0;
        while number < self.each {
            let count = number % 3 + 1;
            let claim = match number % 4 {
                0 => self.sequencer.claim_timeout(count, Duration::from_micros(20)).ok(),
                1 => match poll_once(self.sequencer.claim_async(count)) {
                    Poll::Ready(claim) => Some(claim.unwrap()),
                    Poll::Pending => None,
                },
                2 => {
                    self.produce_unless_cancelled(producer, number);
                    number += 1;
                    continue;
                }
                _ => None,
            };
            let claim = claim.unwrap_or_else(|| self.sequencer.claim_up_to(count).unwrap());
            self.publish(claim, producer, number);
            number += 1;
        }
    }

    /// A task claims and is cancelled meanwhile; another one does what it has not done.
    fn produce_unless_cancelled(&self, producer: usize, number: usize) {
        let done = AtomicUsize::new(0);
        cygnet::scope(|s| {
            let task = s.spawn(|| match self.sequencer.claim_one() {
                Ok(claim) => {
                    self.publish(claim, producer, number);
                    done.store(1, Ordering::Relaxed);
                }
                Err(error) => assert!(matches!(error, WaitError::Cancelled(_)), "{error}"),
            });
            let _ = cygnet::yield_now();
            task.cancel("cut short");
            let _ = task.join();
        });
        if done.into_inner() == 0 {
            self.publish(self.sequencer.claim_one().unwrap(), producer, number);
        }
    }

    /// Each item once and in order; every other wait of the reader's own is cut short as well.
    fn consume(&self) {
        let mut seen = [0; PRODUCERS];
        let (mut next, mut known) = (u8::INITIAL.next(), u8::INITIAL);
        while seen.iter().sum::<usize>() < PRODUCERS * self.each {
            let time = if next % 2 == 0 { Duration::from_micros(10) } else { LONG };
            let last = match self.sequencer.wait_timeout(next, known, time) {
                Err(WaitError::TimedOut) => self.sequencer.wait_until_published(next, known),
                other => other,
            };
            known = last.unwrap();
            while !known.precedes(next) {
                if !self.sequencer.is_skipped(next) {
                    let item = self.items[usize::from(next) % SIZE].load(Ordering::Relaxed);
                    let (producer, number) = (item / self.each, item % self.each);
                    assert_eq!(number, seen[producer], "of producer {producer}");
                    seen[producer] += 1;
                }
                next = next.next();
            }
            assert!(self.read.publish(known));
        }
    }
}

#[test]
fn all_numbers_come_once_and_in_order_though_half_of_the_claims_are_cut_short() {
    for strategy in [WaitStrategy::Park, WaitStrategy::SpinThenPark, WaitStrategy::Spin] {
        with_each_and_many(|rt| {
            let read = SequenceBarrier::new();
            let ring = Ring {
                sequencer: MultiProducerSequencer::new(&read, SIZE).with_strategy(strategy),
                read,
                items: array::from_fn(|_| AtomicUsize::new(0)),
                each: scaled_in_debug(4_000),
            };
            rt.block_on(|| {
                cygnet::scope(|s| {
                    let reader = s.spawn(|| ring.consume());
                    for producer in 0..PRODUCERS {
                        let ring = &ring;
                        s.spawn(move || ring.produce(producer));
                    }
                    reader.join().unwrap();
                });
            });
            assert!(!ring.sequencer.is_closed());
            assert_eq!(crate::waiting(&ring.sequencer), 0);
        });
    }
}
