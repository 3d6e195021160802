//! Producers that give claims back, and waits for room that are cut short in every way. The numbers
//! wrap around.

use crate::STRATEGIES;
use crate::common::prelude::*;
use cygnet::ring::sequence::{MultiClaim, MultiProducerSequencer, Sequence, SequenceBarrier};
use std::array;

const SIZE: usize = 8;
const PRODUCERS: usize = 4;

struct Ring {
    sequencer: MultiProducerSequencer<u8>,
    read: SequenceBarrier<u8>,
    /// `producer * each + number` of the item.
    items: [AtomicUsize; SIZE],
    each: usize,
}

impl Ring {
    /// Publishes items from `number` on, at most `most`, gives the rest of the claim back, and
    /// returns how many it has published.
    fn publish(
        &self,
        claim: MultiClaim<'_, u8>,
        producer: usize,
        number: usize,
        most: usize,
    ) -> usize {
        let count = claim.range().len().min(self.each - number).min(most);
        for (sequence, number) in claim.range().take(count).into_iter().zip(number..) {
            let item = producer * self.each + number;
            self.items[usize::from(sequence) % SIZE].store(item, Ordering::Relaxed);
        }
        claim.publish_first(count);
        count
    }

    /// Before each claim that is published, one is dropped, or its wait is cut short.
    fn produce(&self, producer: usize) {
        let mut number = 0;
        while number < self.each {
            let count = number % 3 + 1;
            if number % 8 >= 4 {
                drop(self.sequencer.claim(..=count).unwrap());
            }
            let claim = match number % 4 {
                0 => self.sequencer.claim_timeout(..=count, Duration::from_micros(20)).ok(),
                1 => match poll_once(self.sequencer.claim_async(..=count)) {
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
            let claim = claim.unwrap_or_else(|| self.sequencer.claim(..=count).unwrap());
            number += self.publish(claim, producer, number, number % 3 + 1);
        }
    }

    /// Claims in a task that is cancelled meanwhile, and again if it was cut short.
    fn produce_unless_cancelled(&self, producer: usize, number: usize) {
        let done = AtomicUsize::new(0);
        cygnet::scope(|s| {
            let task = s.spawn(|| match self.sequencer.claim_one() {
                Ok(claim) => {
                    self.publish(claim, producer, number, 1);
                    done.store(1, Ordering::Relaxed);
                }
                Err(error) => assert!(matches!(error, WaitError::Cancelled(_)), "{error}"),
            });
            let _ = cygnet::yield_now();
            task.cancel("cut short");
            let _ = task.join();
        });
        if done.into_inner() == 0 {
            self.publish(self.sequencer.claim_one().unwrap(), producer, number, 1);
        }
    }

    /// Checks that each item comes once and in order. Every other wait of the reader is cut short
    /// as well.
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

/// Q6.
#[test]
fn all_items_come_once_in_order_though_claims_are_dropped_or_cut_short() {
    for strategy in STRATEGIES {
        in_task_and_many(|_| {
            let read = SequenceBarrier::new();
            let ring = Ring {
                sequencer: MultiProducerSequencer::new(&read, SIZE).with_strategy(strategy),
                read,
                items: array::from_fn(|_| AtomicUsize::new(0)),
                each: scaled_in_debug(4_000),
            };
            cygnet::scope(|s| {
                let reader = s.spawn(|| ring.consume());
                for producer in 0..PRODUCERS {
                    let ring = &ring;
                    s.spawn(move || ring.produce(producer));
                }
                reader.join().unwrap();
            });
            assert!(!ring.sequencer.is_closed());
            assert_eq!(crate::waiting(&ring.sequencer), 0);
        });
    }
}
