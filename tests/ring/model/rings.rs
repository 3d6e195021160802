//! Rings: one stage changes the items, and two readers share the next stage.

use super::multi::{Plain, Slot};
use super::size;
use crate::choices::Choices;
use cygnet::ring::{self, Batch, MultiProducer, Producer, Reader, Stage, WriteBatch};
use cygnet::sync::TryRecvError;
use std::ops::Range;

#[derive(Clone, Copy, Default, Debug)]
struct Item {
    written: u64,
    /// The value that the stage gives it.
    staged: u64,
}

/// The stage and the readers, how far each has got, and the item of each number.
struct World {
    stage: Stage<Item>,
    staged: i128,
    /// The stage was told of the end.
    told: bool,
    readers: [Reader<Item>; 2],
    read: [i128; 2],
    plain: Plain,
    items: Vec<(i128, u64)>,
    serial: u64,
}

pub(super) fn run(choices: &mut Choices<'_>) {
    let size = size(choices);
    if choices.one_in(2) {
        let mut ring = ring::multi_producer(size, Item::default);
        let (stage, readers) = (ring.stage(), ring.readers());
        many(&ring.producer(), World::new(size, stage, readers), choices);
    } else {
        let mut ring = ring::single_producer(size, Item::default);
        let (stage, readers) = (ring.stage(), ring.readers());
        one(ring.producer(), World::new(size, stage, readers), choices);
    }
}

fn one(mut producer: Producer<Item>, mut world: World, choices: &mut Choices<'_>) {
    while !choices.is_over() {
        match choices.below(8) {
            0..=2 => {
                let asked = choices.below(70);
                let batch = producer.try_claim(..=asked).ok();
                if let Some((batch, numbers)) = world.claimed(asked, batch) {
                    world.ends(batch, numbers, choices);
                }
            }
            3 if world.plain.room() > 0 || world.plain.closed => {
                world.sends(|item| producer.send(item).is_ok());
            }
            4 if choices.one_in(16) => {
                producer.close();
                world.plain.closed = true;
            }
            _ => world.reads(choices),
        }
        assert_eq!(producer.is_closed(), world.plain.closed);
    }
    drop(producer);
    world.plain.closed = true;
    world.reads_the_rest();
}

fn many(producer: &MultiProducer<Item>, mut world: World, choices: &mut Choices<'_>) {
    let mut batches: Vec<(WriteBatch<'_, Item>, Range<i128>)> = Vec::new();
    while !choices.is_over() {
        match choices.below(8) {
            0 | 1 => {
                let asked = choices.below(70);
                batches.extend(world.claimed(asked, producer.try_claim(..=asked).ok()));
            }
            2 if !batches.is_empty() => {
                let (batch, numbers) = batches.swap_remove(choices.below(batches.len().min(256)));
                world.ends(batch, numbers, choices);
            }
            3 if world.plain.room() > 0 || world.plain.closed => {
                world.sends(|item| producer.send(item).is_ok());
            }
            4 if choices.one_in(16) => {
                producer.close();
                world.plain.closed = true;
            }
            _ => world.reads(choices),
        }
        assert_eq!(producer.is_closed(), world.plain.closed);
    }
    while let Some((batch, numbers)) = batches.pop() {
        world.ends(batch, numbers, choices);
    }
    world.reads_the_rest();
}

impl World {
    fn new(size: usize, stage: Stage<Item>, readers: [Reader<Item>; 2]) -> World {
        let plain = Plain::new(size, 0);
        World {
            stage,
            staged: -1,
            told: false,
            readers,
            read: [-1; 2],
            plain,
            items: Vec::new(),
            serial: 0,
        }
    }

    /// Compares the numbers of a claim, and writes its items, even if they will not be published.
    fn claimed<'a>(
        &mut self,
        asked: usize,
        batch: Option<WriteBatch<'a, Item>>,
    ) -> Option<(WriteBatch<'a, Item>, Range<i128>)> {
        let room = self.plain.room();
        assert_eq!(batch.is_some(), !self.plain.closed && (room > 0 || asked == 0));
        let mut batch = batch?;
        let numbers = self.plain.claim(asked.min(room));
        assert!(batch.numbers().into_iter().map(i128::from).eq(numbers.clone()));
        let mut written = numbers.clone();
        for item in batch.iter_mut() {
            self.serial += 1;
            *item = Item { written: self.serial, staged: 0 };
            self.becomes(written.next().expect("as many as there are numbers"), self.serial);
        }
        assert!(written.is_empty(), "an item is not there: {written:?}");
        Some((batch, numbers))
    }

    fn becomes(&mut self, number: i128, value: u64) {
        self.items.retain(|(n, _)| *n != number);
        self.items.push((number, value));
    }

    fn ends(
        &mut self,
        batch: WriteBatch<'_, Item>,
        numbers: Range<i128>,
        choices: &mut Choices<'_>,
    ) {
        let published = match choices.below(4) {
            0 | 1 => {
                assert!(batch.publish());
                numbers.end
            }
            2 => {
                let first = choices.below(70);
                assert!(batch.publish_first(first));
                numbers.end.min(numbers.start + first as i128)
            }
            _ => {
                drop(batch);
                numbers.start
            }
        };
        self.plain.becomes(numbers.start..published, Slot::Published);
        if published < numbers.end {
            self.plain.give_up(published..numbers.end);
        }
    }

    fn sends(&mut self, send: impl FnOnce(Item) -> bool) {
        let value = self.serial + 1;
        let sent = send(Item { written: value, staged: 0 });
        assert_eq!(sent, !self.plain.closed);
        if sent {
            self.serial = value;
            let numbers = self.plain.claim(1);
            self.becomes(numbers.start, value);
            self.plain.becomes(numbers, Slot::Published);
        }
    }

    fn value_of(&self, number: i128) -> Option<u64> {
        let value = self.items.iter().find(|(n, _)| *n == number).map(|(_, value)| *value);
        value.filter(|_| self.plain.slots[&number] == Slot::Published)
    }

    /// Returns the items of `numbers`. A number that was given up has none.
    fn values(&self, numbers: Range<i128>) -> Vec<u64> {
        numbers.filter_map(|n| self.value_of(n)).collect()
    }

    fn reads(&mut self, choices: &mut Choices<'_>) {
        let (kind, who) = (choices.below(6), choices.below(4));
        match who {
            0 | 1 => self.stage_reads(kind),
            _ => self.reader_reads(who - 2, kind),
        }
        self.plain.read = self.read[0].min(self.read[1]);
    }

    /// Reads a batch: kind 0 forgets the batch; 1 and 2 read at most that many items, and 4 and 5
    /// exactly that many.
    fn stage_reads(&mut self, kind: usize) {
        let (from, last) = (self.staged + 1, self.plain.last());
        let mut batch = match kind {
            1 | 2 if from <= last => self.stage.next_batch(..=kind).unwrap(),
            4 | 5 => match self.stage.try_next_batch(kind) {
                Ok(batch) => {
                    let rest = self.plain.is_finished().then_some(last + 1 - from);
                    self.plain.is_exact(&batch.numbers(), kind, rest);
                    batch
                }
                Err(why) => {
                    assert!(last + 1 - from < self.plain.size.min(kind as i128), "it is there");
                    let ended = self.plain.is_finished();
                    assert!(from > last || !ended, "the rest is there");
                    self.told |= ended;
                    return assert_eq!(why, nothing(self.told));
                }
            },
            _ => match self.stage.try_next_batch(..) {
                Ok(batch) => batch,
                Err(why) => {
                    assert!(from > last, "nothing is there");
                    self.told |= self.plain.is_finished();
                    return assert_eq!(why, nothing(self.told));
                }
            },
        };
        let numbers = from..from + batch.numbers().len() as i128;
        assert_eq!(batch.numbers().start(), from as u64);
        assert!(!numbers.is_empty() && numbers.end - 1 <= last);
        for item in batch.iter_mut() {
            item.staged = item.written + 1;
        }
        let found: Vec<_> = batch.iter().map(|item| item.written).collect();
        assert_eq!((batch.len(), batch.is_empty()), (found.len(), found.is_empty()));
        if kind == 0 {
            std::mem::forget(batch);
        } else {
            drop(batch);
            self.staged = numbers.end - 1;
        }
        assert_eq!(found, self.values(numbers));
    }

    fn reader_reads(&mut self, who: usize, kind: usize) {
        let (from, last) = (self.read[who] + 1, self.staged);
        let reader = &mut self.readers[who];
        let batch = match kind {
            1 | 2 if from <= last => reader.next_batch(..=kind).unwrap(),
            4 | 5 => match reader.try_next_batch(kind) {
                Ok(batch) => {
                    let rest = self.told.then_some(last + 1 - from);
                    self.plain.is_exact(&batch.numbers(), kind, rest);
                    batch
                }
                Err(why) => {
                    assert!(last + 1 - from < self.plain.size.min(kind as i128), "it is there");
                    assert!(from > last || !self.told, "the rest is there");
                    return assert_eq!(why, nothing(self.told));
                }
            },
            _ => match reader.try_next_batch(..) {
                Ok(batch) => batch,
                Err(why) => {
                    assert!(from > last, "nothing is there");
                    return assert_eq!(why, nothing(self.told));
                }
            },
        };
        let numbers = from..from + batch.numbers().len() as i128;
        assert_eq!(batch.numbers().start(), from as u64);
        assert!(!numbers.is_empty() && numbers.end - 1 <= last);
        let found = values_in(&batch);
        if kind == 0 {
            std::mem::forget(batch);
        } else {
            drop(batch);
            self.read[who] = numbers.end - 1;
        }
        assert_eq!(found, self.values(numbers));
    }

    /// Checks that every published item reaches all readers.
    fn reads_the_rest(mut self) {
        let last = self.plain.last();
        while self.staged < last {
            self.stage_reads(3);
        }
        for who in 0..2 {
            while self.read[who] < last {
                self.reader_reads(who, 3);
            }
        }
        let ended = nothing(self.plain.is_finished());
        assert_eq!(self.stage.try_next_batch(..).unwrap_err(), ended);
        for reader in &mut self.readers {
            assert_eq!(reader.try_next_batch(..).unwrap_err(), ended);
        }
    }
}

/// Returns the error of a reader that finds no item.
fn nothing(ended: bool) -> TryRecvError {
    if ended { TryRecvError::Closed } else { TryRecvError::Empty }
}

fn values_in(batch: &Batch<'_, Item>) -> Vec<u64> {
    assert!(batch.iter().all(|item| item.staged == item.written + 1), "it was not staged");
    batch.iter().map(|item| item.written).collect()
}
