//! Ten million items. Each reader sees each of them once and in order, with half of the claims
//! given up.

use crate::common::prelude::*;
use cygnet::ring::sequence::WaitStrategy;
use cygnet::ring::{self, MultiProducer, Reader};

const PRODUCERS: usize = 4;

/// The producer, and the number of the item among its own.
type Item = (u8, u64);

fn read(mut reader: Reader<Item>) -> [u64; PRODUCERS] {
    let mut seen = [0; PRODUCERS];
    let mut turn = 0_u64;
    loop {
        turn += 1;
        let batch = match turn % 5 {
            0 => reader.next_batch(..=5),
            1 => reader.next_batch_timeout(.., LONG),
            2 => reader.next_batch(3),
            3 => reader.next_batch_timeout(2..=4, LONG),
            _ => reader.next_batch(..),
        };
        let Ok(batch) = batch else { return seen };
        for &(producer, number) in batch.iter() {
            assert_eq!(number, seen[usize::from(producer)], "of producer {producer}");
            seen[usize::from(producer)] += 1;
        }
    }
}

/// Writes single items and batches, and gives up every other claim.
fn write(producer: &MultiProducer<Item>, this: u8, items: u64) {
    let mut number = 0;
    while number < items {
        let count = (number % 7 + 1).min(items - number) as usize;
        let mut given_up = producer.claim(..=count).unwrap();
        given_up.iter_mut().for_each(|item| *item = (0, u64::MAX));
        if number % 3 == 0 {
            // The claim is given up as the older one, if there is room for a newer one.
            if let Ok(mut newer) = producer.try_claim(1) {
                newer.iter_mut().for_each(|item| *item = (this, number));
                drop(given_up);
                newer.publish();
            } else {
                given_up.iter_mut().for_each(|item| *item = (this, number));
                given_up.publish_first(1);
            }
            number += 1;
            continue;
        }
        drop(given_up);
        let mut batch = producer.claim(..=count).unwrap();
        for item in batch.iter_mut() {
            *item = (this, number);
            number += 1;
        }
        batch.publish();
    }
}

/// Q24.
#[test]
fn each_item_is_seen_once_and_in_order_by_each_reader() {
    let items = scaled_in_debug(10_000_000);
    see_each_item(&[1, 2, 3], WaitStrategy::SpinThenPark, 64, items);
    see_each_item(&[1, 2, 3], WaitStrategy::Park, 1024, items / 2);
    see_each_item(&[1, 2, 8, MANY], WaitStrategy::Spin, 256, items / 40);
    see_each_item(&[8, MANY], WaitStrategy::SpinThenPark, 256, items / 40);
}

fn see_each_item(workers: &[usize], strategy: WaitStrategy, size: usize, items: usize) {
    let items = (items / PRODUCERS) as u64;
    with(workers, |rt| {
        let mut ring = ring::multi_producer_with(size, strategy, Item::default);
        let readers: [_; 2] = ring.readers();
        let [last] = ring.readers();
        let producer = ring.producer();
        let readers = readers.map(|reader| rt.spawn(move || read(reader)));
        let last = rt.spawn(move || read(last));
        let write = |this| own(&producer, move |producer| write(&producer, this, items));
        let writers: Vec<_> = (0..PRODUCERS as u8).map(|this| rt.spawn(write(this))).collect();
        drop(producer);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let seen = readers.map(|reader| reader.join().unwrap());
        assert_eq!(seen, [[items; PRODUCERS]; 2]);
        assert_eq!(last.join().unwrap(), [items; PRODUCERS]);
    });
}

#[test]
fn a_line_of_stages_sees_each_item_of_one_writer_once() {
    line_of_stages(&[2], WaitStrategy::SpinThenPark, scaled_in_debug(10_000_000) as u64);
    line_of_stages(&[1, 3, 8], WaitStrategy::SpinThenPark, scaled(10_000) as u64);
    line_of_stages(&WORKERS, WaitStrategy::Park, scaled(10_000) as u64);
}

fn line_of_stages(workers: &[usize], strategy: WaitStrategy, items: u64) {
    with(workers, |rt| {
        let mut ring = ring::single_producer_with(256, strategy, u64::default);
        let stages = [ring.stage(), ring.stage(), ring.stage()];
        let mut producer = ring.producer();
        let writer = rt.spawn(move || {
            let mut number = 0;
            while number < items {
                let mut batch = producer.claim(..=(items - number).min(32) as usize).unwrap();
                let take = batch.len() / 2 + 1;
                for item in batch.iter_mut() {
                    *item = number;
                    number += 1;
                }
                if number % 2 == 0 {
                    number -= (batch.len() - take.min(batch.len())) as u64;
                    batch.publish_first(take);
                } else {
                    number -= batch.len() as u64;
                    drop(batch);
                    producer.send(number).unwrap();
                    number += 1;
                }
            }
        });
        let stages: Vec<_> = stages
            .into_iter()
            .enumerate()
            .map(|(index, mut stage)| {
                rt.spawn(move || {
                    let mut next = 0;
                    while let Ok(mut batch) = stage.next_batch(..) {
                        for item in batch.iter_mut() {
                            // Each stage has added one.
                            assert_eq!(*item, next + index as u64);
                            *item += 1;
                            next += 1;
                        }
                    }
                    next
                })
            })
            .collect();
        writer.join().unwrap();
        assert_eq!(join_all(stages), [items; 3]);
    });
}
