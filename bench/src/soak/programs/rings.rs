//! Rings of items, and rings of sequence numbers only.

use cygnet::ring;
use cygnet::ring::sequence::{MultiProducerSequencer, SequenceBarrier};

use super::prelude::*;

/// An item: the value written by a producer, and its double, written by the first stage.
type Item = (u64, u64);

/// Reads to the end, and returns the sum of an expression of each item.
macro_rules! reads {
    ($reader:ident, $rng:ident, |$item:ident| $of:expr) => {{
        let mut sum = 0u64;
        loop {
            let batch = match $rng.one_in(4) {
                true => $reader.next_batch_timeout(.., limit(&mut $rng, 300)),
                false => $reader.next_batch(..),
            };
            match in_time(batch) {
                Ok(batch) => batch.iter().flat_map(|b| b.iter()).for_each(|$item| sum += $of),
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
            match double.next_batch(..) {
                Ok(mut batch) => batch.iter_mut().for_each(|item| item.1 = 2 * item.0),
                Err(error) => return assert_eq!(error, WaitError::Closed),
            }
            drop(pause(&mut rng_a));
        }
    });
    let first = p.spawn(move || reads!(first, rng_b, |item| item.0));
    let second = p.spawn(move || reads!(second, rng_c, |item| item.1));
    let writing = p.spawn_each(producers, |_, mut rng| {
        let lines = lines.clone();
        move || write(&lines, count, &mut rng)
    });
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
        let batch = match rng.one_in(4) {
            true => lines.claim_timeout(..=many, limit(rng, 300)),
            false => lines.claim(..=many),
        };
        let Some(mut batch) = in_time(batch).expect("the readers exist") else { continue };
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
    let writing = p.spawn_each(producers, |_, mut rng| {
        let (ring, places) = (ring.clone(), places.clone());
        move || {
            let (mut sum, mut left) = (0, count);
            while left > 0 {
                let timed = rng.one_in(4);
                let many = rng.count(1, 3).min(size);
                let claim = match timed {
                    true => ring.claim_timeout(..=many, limit(&mut rng, 300)),
                    false => ring.claim(..=many),
                };
                let Some(claim) = in_time(claim).expect("the ring is open") else { continue };
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
        }
    });
    let mut rng = p.rng.split();
    let reading = {
        let (ring, places) = (ring.clone(), places.clone());
        p.spawn(move || {
            let (mut next, mut sum) = (0u64, 0);
            loop {
                let known = next.wrapping_sub(1);
                let last = match rng.one_in(3) {
                    true => ring.wait_timeout(next, known, limit(&mut rng, 500)),
                    false => ring.wait_until_published(next, known),
                };
                let last = match in_time(last) {
                    Ok(Some(last)) => last,
                    Ok(None) => continue,
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
