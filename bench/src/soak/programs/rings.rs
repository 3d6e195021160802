//! Rings of items, and rings of sequence numbers only.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cygnet::ring;
use cygnet::ring::sequence::{MultiProducerSequencer, SequenceBarrier};
use cygnet::sync::WaitError;

use super::Program;
use super::aids::{pause, value};
use crate::soak::faults::Fault;
use crate::soak::rng::Rng;

/// An item: the value written by a producer, and its double, written by the first stage.
type Item = (u64, u64);

/// Reads to the end, and returns the sum of an expression of each item.
macro_rules! reads {
    ($reader:ident, $rng:ident, |$item:ident| $of:expr) => {{
        let mut sum = 0u64;
        loop {
            let batch = if $rng.one_in(4) {
                Fault::Timeout.count();
                $reader.next_batch_timeout($rng.micros(300))
            } else {
                $reader.next_batch()
            };
            match batch {
                Ok(batch) => batch.iter().for_each(|$item| sum += $of),
                Err(WaitError::TimedOut) => {}
                Err(error) => {
                    assert_eq!(error, WaitError::Closed);
                    return sum;
                }
            }
            drop(pause(&mut $rng));
        }
    }};
}

pub(crate) fn ring(p: &mut Program) {
    let size = 1 << p.rng.between(0, 5);
    let mut ring = ring::multi_producer(size, Item::default);
    let mut double = ring.stage();
    let [mut first, mut second] = ring.readers();
    let lines = ring.producer();
    let (count, producers) = (p.rng.between(1, 80), p.rng.between(1, 3));
    let (mut rng_a, mut rng_b, mut rng_c) = (p.rng.split(), p.rng.split(), p.rng.split());
    let doubling = p.spawn(move || {
        loop {
            match double.next_batch() {
                Ok(mut batch) => batch.iter_mut().for_each(|item| item.1 = 2 * item.0),
                Err(error) => return assert_eq!(error, WaitError::Closed),
            }
            drop(pause(&mut rng_a));
        }
    });
    let first = p.spawn(move || reads!(first, rng_b, |item| item.0));
    let second = p.spawn(move || reads!(second, rng_c, |item| item.1));
    let writing: Vec<_> = (0..producers)
        .map(|_| {
            let (lines, mut rng) = (lines.clone(), p.rng.split());
            p.spawn(move || write(&lines, count, &mut rng))
        })
        .collect();
    drop(lines);
    let written: u64 = writing.into_iter().map(|task| value(task.join())).sum();
    value(doubling.join());
    let sums = (value(first.join()), value(second.join()));
    assert_eq!(sums, (written, 2 * written), "each reader must see each item once");
}

/// Writes `count` items, and drops some claims unpublished. Returns the sum of the written
/// values.
fn write(lines: &ring::MultiProducer<Item>, count: u64, rng: &mut Rng) -> u64 {
    let (mut sum, mut left) = (0, count);
    while left > 0 {
        let many = rng.count(1, 4).min(left as usize);
        let batch = if rng.one_in(4) {
            Fault::Timeout.count();
            lines.claim_timeout(many, rng.micros(300))
        } else {
            lines.claim(many)
        };
        let mut batch = match batch {
            Ok(batch) => batch,
            Err(WaitError::TimedOut) => continue,
            Err(error) => panic!("the claim failed although the readers exist: {error}"),
        };
        if rng.one_in(10) {
            Fault::Unpublished.count();
            continue;
        }
        left -= batch.len() as u64;
        for item in batch.iter_mut() {
            *item = (rng.below(1000), 0);
            sum += item.0;
        }
        batch.publish();
        drop(pause(rng));
    }
    sum
}

/// Sequence numbers without items: published numbers are read in order, and unpublished claims
/// are skipped.
pub(crate) fn sequence(p: &mut Program) {
    let size = 1 << p.rng.between(1, 6);
    let read = SequenceBarrier::<u64>::new();
    let ring = MultiProducerSequencer::new(&read, size);
    let places: Arc<Vec<AtomicU64>> = Arc::new((0..size).map(|_| AtomicU64::new(0)).collect());
    let (producers, count) = (p.rng.between(1, 4), p.rng.between(1, 80));
    let writing: Vec<_> = (0..producers)
        .map(|_| {
            let (ring, places, mut rng) = (ring.clone(), places.clone(), p.rng.split());
            p.spawn(move || {
                let (mut sum, mut left) = (0, count);
                while left > 0 {
                    let claim = if rng.one_in(4) {
                        Fault::Timeout.count();
                        ring.claim_timeout(rng.count(1, 3).min(size), rng.micros(300))
                    } else {
                        ring.claim_up_to(rng.count(1, 3).min(size))
                    };
                    let claim = match claim {
                        Ok(claim) => claim,
                        Err(WaitError::TimedOut) => continue,
                        Err(error) => panic!("the ring was closed early: {error}"),
                    };
                    drop(pause(&mut rng));
                    if rng.one_in(8) {
                        Fault::Unpublished.count();
                        continue;
                    }
                    for number in claim.range() {
                        let item = rng.below(1000);
                        places[number as usize % size].store(item, Ordering::Relaxed);
                        sum += item;
                    }
                    left = left.saturating_sub(claim.range().len() as u64);
                    claim.publish();
                }
                sum
            })
        })
        .collect();
    let mut rng = p.rng.split();
    let reading = {
        let (ring, places) = (ring.clone(), places.clone());
        p.spawn(move || {
            let (mut next, mut sum) = (0u64, 0);
            loop {
                let known = next.wrapping_sub(1);
                let last = if rng.one_in(3) {
                    Fault::Timeout.count();
                    ring.wait_timeout(next, known, rng.micros(500))
                } else {
                    ring.wait_until_published(next, known)
                };
                let last = match last {
                    Ok(last) => last,
                    Err(WaitError::TimedOut) => continue,
                    Err(error) => {
                        assert_eq!(error, WaitError::Closed);
                        return sum;
                    }
                };
                for number in next..=last {
                    if !ring.is_skipped(number) {
                        sum += places[number as usize % size].load(Ordering::Relaxed);
                    }
                }
                drop(pause(&mut rng));
                read.publish(last);
                next = last + 1;
            }
        })
    };
    let written: u64 = writing.into_iter().map(|task| value(task.join())).sum();
    // Refuses further claims, of which there are none left. Readers go on to the end.
    ring.close();
    assert_eq!(value(reading.join()), written, "each number must be read once");
}
