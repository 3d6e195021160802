//! Messages through a ring that a single task writes and reads, so that there is no waiting. They
//! show the cost in instructions, beside the least that a ring of several producers can do.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cygnet::ring::{self, Reader};

use crate::measure::harness::time;

/// Number of slots of a ring.
const SIZE: usize = 1024;
/// Messages per batch.
const BATCH: usize = 32;

/// A ring without parking, cancellation or an end. A producer claims sequence numbers by an
/// addition, never gives them back, and spins while the ring is full.
struct Bare {
    next: AtomicU64,
    slots: Box<[(AtomicU64, AtomicU64)]>,
    read: AtomicU64,
}

impl Bare {
    fn new() -> Bare {
        let slots = (0..SIZE).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
        Bare { next: AtomicU64::new(0), slots, read: AtomicU64::new(0) }
    }

    fn slot(&self, number: u64) -> &(AtomicU64, AtomicU64) {
        &self.slots[number as usize % SIZE]
    }

    fn claim(&self, count: u64) -> u64 {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        while first + count > self.read.load(Ordering::Acquire) + SIZE as u64 {
            std::hint::spin_loop();
        }
        first
    }

    fn write(&self, number: u64, message: u64) {
        let (stamp, item) = self.slot(number);
        item.store(message, Ordering::Relaxed);
        stamp.store(number + 1, Ordering::Release);
    }

    /// Reads all published messages from sequence number `number` on, and returns the number
    /// after them.
    fn read(&self, mut number: u64) -> u64 {
        loop {
            let (stamp, item) = self.slot(number);
            if stamp.load(Ordering::Acquire) != number + 1 {
                break;
            }
            black_box(item.load(Ordering::Relaxed));
            number += 1;
        }
        self.read.store(number, Ordering::Release);
        number
    }
}

/// Passes `n` messages through the bare ring, `batch` at a time.
fn bare(n: u64, batch: u64) -> Duration {
    let (ring, mut next) = (Bare::new(), 0);
    let began = Instant::now();
    for message in (0..n).step_by(batch as usize) {
        let first = ring.claim(batch);
        (0..batch).for_each(|i| ring.write(first + i, message + i));
        next = ring.read(next);
    }
    began.elapsed()
}

/// One message at a time through the bare ring.
pub fn bare_messages(n: u64) -> Duration {
    bare(n, 1)
}

/// Messages through the bare ring, in batches.
pub fn bare_batches(n: u64) -> Duration {
    bare(n, BATCH as u64)
}

fn read_all(reader: &mut Reader<u64>) {
    let batch = reader.next_batch(..).expect("it is open");
    batch.iter().for_each(|&message| _ = black_box(message));
}

/// Defines a loop of single messages and one of batches, through a ring of this kind.
macro_rules! loops {
    ($ring:ident, $messages:ident, $batches:ident $(, $mutable:tt)?) => {
        /// One message at a time.
        pub fn $messages(n: u64) -> Duration {
            let mut ring = ring::$ring(SIZE, u64::default);
            let ([mut reader], $($mutable)? producer) = (ring.readers(), ring.producer());
            time(n, |message| {
                producer.send(message).expect("it is open");
                read_all(&mut reader);
            })
        }

        /// Messages in batches.
        pub fn $batches(n: u64) -> Duration {
            let mut ring = ring::$ring(SIZE, u64::default);
            let ([mut reader], $($mutable)? producer) = (ring.readers(), ring.producer());
            let began = Instant::now();
            for first in (0..n).step_by(BATCH) {
                let mut batch = producer.claim(BATCH).expect("it is open");
                batch.iter_mut().zip(first..).for_each(|(item, message)| *item = message);
                batch.publish();
                read_all(&mut reader);
            }
            began.elapsed()
        }
    };
}

loops!(single_producer, single_messages, single_batches, mut);
loops!(multi_producer, multi_messages, multi_batches);
