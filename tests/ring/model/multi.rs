//! Several producers, each with a claim of its own.

use super::{Wrapping, answer, near_an_edge, poll_once, size};
use crate::choices::Choices;
use cygnet::ring::sequence::{MultiClaim, MultiProducerSequencer, SequenceBarrier, SequenceRange};
use cygnet::sync::WaitError;
use std::collections::BTreeMap;
use std::ops::Range;
use std::task::Poll;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Claimed,
    Published,
    Skipped,
}

/// The state of the model.
pub(super) struct Plain {
    pub(super) size: i128,
    first: i128,
    /// The state of each number that was claimed and not rolled back.
    pub(super) slots: BTreeMap<i128, Slot>,
    pub(super) next: i128,
    /// The last number that the slowest reader has read.
    pub(super) read: i128,
    pub(super) closed: bool,
    /// The ring was closed because a reader had ended.
    deserted: bool,
}

impl Plain {
    pub(super) fn new(size: usize, first: i128) -> Plain {
        Plain {
            size: size as i128,
            first,
            slots: BTreeMap::new(),
            next: first,
            read: first - 1,
            closed: false,
            deserted: false,
        }
    }

    /// Returns whether no more numbers will be published.
    pub(super) fn is_finished(&self) -> bool {
        self.closed && self.last() + 1 == self.next
    }

    /// Checks that a batch has all of the numbers that were asked for, or the rest of the ring.
    pub(super) fn is_exact(&self, batch: &SequenceRange<u64>, asked: usize, rest: Option<i128>) {
        let len = batch.len() as i128;
        assert!(len == self.size.min(asked as i128) || Some(len) == rest, "{batch:?} of {asked}");
    }

    pub(super) fn room(&self) -> usize {
        (self.read + self.size + 1 - self.next).max(0) as usize
    }

    /// The last number before the first one that is neither published nor skipped.
    pub(super) fn last(&self) -> i128 {
        let there = |n: &i128| matches!(self.slots.get(n), Some(Slot::Published | Slot::Skipped));
        (self.read + 1..).take_while(there).last().unwrap_or(self.read)
    }

    pub(super) fn claim(&mut self, count: usize) -> Range<i128> {
        let claimed = self.next..self.next + count as i128;
        self.slots.extend(claimed.clone().map(|n| (n, Slot::Claimed)));
        self.next = claimed.end;
        claimed
    }

    pub(super) fn becomes(&mut self, numbers: Range<i128>, slot: Slot) {
        self.slots.extend(numbers.map(|n| (n, slot)));
    }

    /// Rolls the newest claim back, and skips the numbers of an older one.
    pub(super) fn give_up(&mut self, numbers: Range<i128>) {
        if numbers.end == self.next {
            self.next = numbers.start;
            self.slots.retain(|n, _| *n < numbers.start);
        } else {
            self.becomes(numbers, Slot::Skipped);
        }
    }
}

/// A claim of the sequencer, and its numbers in the model.
type Claim<'a, S> = (MultiClaim<'a, S>, Range<i128>);

pub(super) fn run<S: Wrapping>(choices: &mut Choices<'_>) {
    let (size, first) = (size(choices), near_an_edge::<S>(choices));
    let read = SequenceBarrier::<S>::starting_after(S::of(first - 1));
    let ring = MultiProducerSequencer::new(&read, size);
    let mut plain = Plain::new(size, first);
    let mut claims: Vec<Claim<'_, S>> = Vec::new();
    while !choices.is_over() {
        match choices.below(12) {
            0..=3 => claims.extend(claim(&ring, &mut plain, choices)),
            4..=7 if !claims.is_empty() => {
                let one = claims.swap_remove(choices.below(claims.len().min(256)));
                ends(one, &mut plain, choices);
            }
            8..=10 => {
                let unread = plain.last() - plain.read;
                let to = plain.read + choices.below(256) as i128 % (unread + 1);
                assert_eq!(read.publish(S::of(to)), to > plain.read);
                plain.read = to;
            }
            11 if choices.one_in(8) => {
                let how = choices.below(4);
                match how {
                    0 => ring.close(),
                    1 => ring.finish(),
                    2 => read.close(),
                    _ => read.finish(),
                }
                plain.deserted |= how > 1 && !plain.closed;
                plain.closed = true;
            }
            _ => {}
        }
        compare(&ring, &read, &plain, choices);
    }
    // The remaining claims are given up in some order.
    while let Some((claim, numbers)) = claims.pop() {
        drop(claim);
        plain.give_up(numbers);
        compare(&ring, &read, &plain, choices);
    }
    assert_eq!(ring.last_published(), S::of(plain.next - 1));
}

fn claim<'a, S: Wrapping>(
    ring: &'a MultiProducerSequencer<S>,
    plain: &mut Plain,
    choices: &mut Choices<'_>,
) -> Option<Claim<'a, S>> {
    let asked = if choices.one_in(4) { choices.below(130) } else { choices.below(5) };
    let room = plain.room();
    let claim = match choices.below(4) {
        0 if room >= asked.min(ring.size()) => ring.claim(asked).ok(),
        1 if room > 0 || asked == 0 => ring.claim(..=asked).ok(),
        2 => match poll_once(ring.claim_async(..=asked)) {
            Poll::Ready(claim) => {
                assert!(!matches!(&claim, Err(error) if *error != WaitError::Closed));
                claim.ok()
            }
            Poll::Pending => {
                assert!(!plain.closed, "it waits, and is closed");
                None
            }
        },
        _ => ring.try_claim(..=asked).ok(),
    };
    let has = !plain.closed && (room > 0 || asked == 0);
    assert_eq!(claim.is_some(), has, "asked for {asked}, room for {room}");
    let claim = claim?;
    let numbers = plain.claim(asked.min(room));
    let expected = (numbers.end - numbers.start) as usize;
    assert_eq!((claim.range().start(), claim.range().len()), (S::of(numbers.start), expected));
    Some((claim, numbers))
}

fn ends<S: Wrapping>((claim, numbers): Claim<'_, S>, plain: &mut Plain, choices: &mut Choices<'_>) {
    match choices.below(4) {
        0 | 1 => {
            assert_eq!(claim.publish(), !plain.deserted);
            plain.becomes(numbers, Slot::Published);
        }
        2 => {
            let first = choices.below(70);
            assert_eq!(claim.publish_first(first), !plain.deserted);
            let middle = numbers.end.min(numbers.start + first as i128);
            plain.becomes(numbers.start..middle, Slot::Published);
            if middle < numbers.end {
                plain.give_up(middle..numbers.end);
            }
        }
        _ => {
            drop(claim);
            if !numbers.is_empty() {
                plain.give_up(numbers);
            }
        }
    }
}

fn compare<S: Wrapping>(
    ring: &MultiProducerSequencer<S>,
    read: &SequenceBarrier<S>,
    plain: &Plain,
    choices: &mut Choices<'_>,
) {
    let last = plain.last();
    assert_eq!(read.last_published(), S::of(plain.read));
    assert_eq!(ring.is_closed(), plain.closed);
    assert_eq!(ring.is_finished(), plain.is_finished());
    assert_eq!(ring.last_published(), S::of(last), "{plain:?}", plain = plain.slots);
    // The answer does not depend on how much the caller already knows.
    let known = plain.read + choices.below(256) as i128 % (last - plain.read + 1);
    assert_eq!(ring.last_published_after(S::of(known)), S::of(last));
    assert_eq!(ring.any_available(), plain.room() > 0 && !plain.closed);
    for number in plain.read + 1..=last {
        let skipped = plain.slots[&number] == Slot::Skipped;
        assert_eq!(ring.is_skipped(S::of(number)), skipped, "{number}");
    }
    // A number that is published and not yet read, or comes next.
    let target = (last + choices.below(5) as i128 - 2).max(plain.first - 1).max(plain.read);
    let said = poll_once(ring.wait_async(S::of(target)));
    let expected = answer(target, last, plain.is_finished());
    assert_eq!(said, expected, "waits for {target}, {last} is published");
}
