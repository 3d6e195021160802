//! Values that pass from task to task.

use super::Bench;
use crate::world::compute;
use cygnet::sync::bounded;

/// Number of values between two stages.
const BETWEEN: usize = 64;
/// Number of values on their way to a single receiver.
const ON_THE_WAY: usize = 1_024;

pub fn pipeline(on: Bench<'_>) {
    let (values, stages, work) = (on.size.items(4_000), 2 * on.cores(), on.work());
    on.measure_scope(values.saturating_mul(stages), |s| {
        let (first, mut before) = bounded(BETWEEN);
        for _ in 0..stages {
            let (sender, receiver) = bounded(BETWEEN);
            let from = std::mem::replace(&mut before, receiver);
            s.spawn(move || {
                for value in from.iter() {
                    compute(work);
                    sender.send(value).expect("the next stage");
                }
            });
        }
        s.spawn(move || {
            for value in 0..values {
                first.send(value).expect("the first stage");
            }
        });
        assert_eq!(before.iter().count() as u64, values);
    });
}

pub fn channel(on: Bench<'_>) {
    let (each, work) = (on.size.items(20_000).div_ceil(on.cores()), on.work());
    let (sender, receiver) = bounded(ON_THE_WAY);
    on.measure_scope(each * on.cores(), |s| {
        for _ in 0..on.cores() {
            let sender = sender.clone();
            s.spawn(move || {
                for value in 0..each {
                    compute(work);
                    sender.send(value).expect("the receiver is there");
                }
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().count() as u64, each * on.cores());
    });
}

pub fn rings(on: Bench<'_>) {
    let (each, work) = (on.size.items(20_000).div_ceil(on.cores()), on.work());
    let mut ring = cygnet::ring::multi_producer(ON_THE_WAY, u64::default);
    let (mut reader, producer) = (ring.stage(), ring.producer());
    on.measure_scope(each * on.cores(), |s| {
        for _ in 0..on.cores() {
            let producer = producer.clone();
            s.spawn(move || {
                for value in 0..each {
                    compute(work);
                    producer.send(value).expect("the reader is there");
                }
            });
        }
        drop(producer);
        let mut values = 0;
        while let Ok(batch) = reader.next_batch(..) {
            values += batch.len() as u64;
        }
        assert_eq!(values, each * on.cores());
    });
}

pub fn fan_out(on: Bench<'_>) {
    let (values, work) = (on.size.items(2_000), on.work());
    on.measure_scope(values.saturating_mul(on.cores()), |s| {
        // A value that a slow receiver has not received yet is never driven out.
        let (sender, receiver) = cygnet::sync::broadcast(usize::MAX);
        for _ in 1..on.cores() {
            let receiver = sender.subscribe();
            s.spawn(move || receive(receiver, values, work));
        }
        s.spawn(move || receive(receiver, values, work));
        for value in 0..values {
            sender.send(value).expect("the receivers are there");
        }
    });

    fn receive(
        mut receiver: cygnet::sync::BroadcastReceiver<u64>,
        values: u64,
        work: std::time::Duration,
    ) {
        for value in 0..values {
            assert_eq!(receiver.recv().expect("each value is received"), value);
            compute(work);
        }
    }
}

pub fn request(on: Bench<'_>) {
    let pairs = 2 * on.cores();
    let (each, work) = (on.size.items(20_000).div_ceil(pairs), on.work());
    on.measure_scope(each * pairs, |s| {
        for _ in 0..pairs {
            let (ask, asked) = bounded(1);
            let (reply, replies) = bounded(1);
            s.spawn(move || {
                for value in asked.iter() {
                    compute(work);
                    reply.send(value).expect("the asking task waits for it");
                }
            });
            s.spawn(move || {
                for value in 0..each {
                    ask.send(value).expect("the replying task is there");
                    replies.recv().expect("a reply");
                }
            });
        }
    });
}
