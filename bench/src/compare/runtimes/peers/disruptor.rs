//! disruptor, a ring with a consumer thread of its own that spins or sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ::disruptor::{
    BusySpin, Producer, Sequence, build_multi_producer, build_single_producer,
    wait_strategies::{Sleep, WaitStrategy},
};

use crate::compare::prelude::*;
use crate::compare::runtimes::rings::{Traffic, expected};

/// The cases that disruptor runs.
pub const TABLE: Table = &[
    ("ring-batch-", |s| Ok(ring(s, Traffic::BATCHES, pass))),
    ("ring-", |s| Ok(ring(s, Traffic::SINGLE, pass))),
    ("ring-park-", |s| Ok(ring(s, Traffic::PARKED, pass))),
];

/// Nap of a waiting thread. The system makes it longer.
const NAP: Duration = Duration::from_micros(1);

fn pass(traffic: Traffic) {
    if traffic.spins { pass_with(traffic, BusySpin) } else { pass_with(traffic, Sleep::new(NAP)) }
}

fn pass_with(traffic: Traffic, strategy: impl WaitStrategy + 'static) {
    let total = Arc::new(AtomicU64::new(0));
    let add = {
        let (total, mut sum) = (Arc::clone(&total), 0);
        move |item: &u64, _: Sequence, last: bool| {
            sum += black_box(*item);
            if last {
                total.store(sum, Ordering::Relaxed);
            }
        }
    };
    if traffic.producers == 1 {
        let producer = build_single_producer(ROOM, u64::default, strategy);
        write(traffic, &mut producer.handle_events_with(add).build());
    } else {
        let producer = build_multi_producer(ROOM, u64::default, strategy);
        let producer = producer.handle_events_with(add).build();
        thread::scope(|scope| {
            for _ in 0..traffic.producers {
                let mut producer = producer.clone();
                scope.spawn(move || write(traffic, &mut producer));
            }
        });
        // The drop of the producer waits for the consumer.
        drop(producer);
    }
    assert_eq!(total.load(Ordering::Relaxed), expected(traffic), "a message is missing");
}

fn write(traffic: Traffic, producer: &mut impl Producer<u64>) {
    for first in (0..traffic.each()).step_by(traffic.batch) {
        if traffic.batch == 1 {
            producer.publish(|item| *item = first as u64);
        } else {
            producer.batch_publish(traffic.batch, |items| {
                items.zip(first as u64..).for_each(|(item, n)| *item = n);
            });
        }
    }
}
