//! Messages through one of cygnet's rings, from tasks to a task.

use std::hint::black_box;

use cygnet::ring;
use cygnet::ring::sequence::WaitStrategy;

use crate::compare::cases::{MESSAGE_BATCH, ROOM};

/// The traffic through a ring.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Number of messages.
    pub messages: usize,
    /// Number of producers, each of which writes an equal share.
    pub producers: usize,
    /// Messages per batch.
    pub batch: usize,
    /// Whether waiters spin and keep the processor.
    pub spins: bool,
}

impl Traffic {
    /// In batches.
    pub const BATCHES: Traffic =
        Traffic { messages: 0, producers: 1, batch: MESSAGE_BATCH, spins: true };
    /// One at a time.
    pub const SINGLE: Traffic = Traffic { batch: 1, ..Traffic::BATCHES };
    /// One at a time. Waiters give up the processor.
    pub const PARKED: Traffic = Traffic { spins: false, ..Traffic::SINGLE };

    /// Number of messages that each producer writes.
    pub fn each(&self) -> usize {
        self.messages / self.producers
    }
}

/// Writes the messages of one producer.
macro_rules! write {
    ($producer:ident, $traffic:ident) => {
        for first in (0..$traffic.each()).step_by($traffic.batch) {
            if $traffic.batch == 1 {
                $producer.send(first as u64).expect("it is open");
                continue;
            }
            let mut batch = $producer.claim($traffic.batch).expect("it is open");
            batch.iter_mut().zip(first as u64..).for_each(|(item, n)| *item = n);
            batch.publish();
        }
    };
}

/// Passes the messages through a ring, inside a task.
///
/// # Panics
/// If a message is missing.
pub fn pass(traffic: Traffic) {
    let strategy = if traffic.spins { WaitStrategy::Spin } else { WaitStrategy::default() };
    let sum = if traffic.producers == 1 {
        let mut ring = ring::single_producer_with(ROOM, strategy, u64::default);
        let [reader] = ring.readers();
        let mut producer = ring.producer();
        cygnet::scope(|s| {
            s.spawn(move || write!(producer, traffic));
            sum(reader)
        })
    } else {
        let mut ring = ring::multi_producer_with(ROOM, strategy, u64::default);
        let [reader] = ring.readers();
        let producer = ring.producer();
        cygnet::scope(|s| {
            for _ in 0..traffic.producers {
                let producer = producer.clone();
                s.spawn(move || write!(producer, traffic));
            }
            drop(producer);
            sum(reader)
        })
    };
    assert_eq!(sum, expected(traffic), "a message is missing");
}

/// The sum of the messages.
pub fn expected(traffic: Traffic) -> u64 {
    let written = traffic.each().next_multiple_of(traffic.batch) as u64;
    traffic.producers as u64 * (written * (written - 1) / 2)
}

fn sum(mut reader: ring::Reader<u64>) -> u64 {
    let mut sum = 0;
    while let Ok(batch) = reader.next_batch(..) {
        sum += batch.iter().map(|&item| black_box(item)).sum::<u64>();
    }
    sum
}
