//! One producer, and one or two readers.

use super::{Wrapping, answer, near_an_edge, poll_once, size};
use crate::choices::{Choices, planted};
use cygnet::ring::sequence::{
    SequenceBarrier, SequenceBarrierGroup, SingleClaim, SingleProducerSequencer,
};
use cygnet::sync::WaitError;
use std::task::Poll;

/// The state of the model.
struct Plain {
    size: i128,
    /// The next number to be claimed; all before it are published.
    next: i128,
    /// How far each reader has got.
    read: Vec<i128>,
    closed: bool,
}

impl Plain {
    fn last_read(&self) -> i128 {
        *self.read.iter().min().expect("there is one")
    }

    fn room(&self) -> usize {
        let last = self.last_read();
        // A reader may claim to have read numbers that were never written.
        let last = if planted("fuzz_sequence_arithmetic") { last } else { last.min(self.next - 1) };
        (last + self.size + 1 - self.next).max(0) as usize
    }
}

/// The sequencer, what reads it, and the model.
struct World<S: Wrapping> {
    ring: SingleProducerSequencer<S>,
    read: SequenceBarrierGroup<S>,
    readers: Vec<SequenceBarrier<S>>,
    plain: Plain,
}

pub(super) fn run<S: Wrapping>(choices: &mut Choices<'_>) {
    let (size, first) = (size(choices), near_an_edge::<S>(choices));
    let readers: Vec<_> = (0..1 + choices.below(2))
        .map(|_| SequenceBarrier::<S>::starting_after(S::of(first - 1)))
        .collect();
    let read = SequenceBarrierGroup::new(readers.iter().cloned());
    let ring = SingleProducerSequencer::new(read.clone(), size);
    let plain = Plain {
        size: size as i128,
        next: first,
        read: vec![first - 1; readers.len()],
        closed: false,
    };
    let mut world = World { ring, read, readers, plain };
    world.compare(choices);
    while !choices.is_over() {
        match choices.below(10) {
            0..=3 => world.claims(choices),
            4..=7 => world.reads(choices),
            8 => world.polls_a_claim(choices),
            _ if choices.one_in(8) => {
                match choices.below(3) {
                    0 => world.ring.close(),
                    1 => world.readers[0].close(),
                    _ => world.readers[0].finish(),
                }
                world.plain.closed = true;
            }
            _ => {}
        }
        world.compare(choices);
    }
}

/// Chooses how many numbers to claim: a few, or any count up to more than the size of the ring.
fn count(choices: &mut Choices<'_>) -> usize {
    if choices.one_in(2) { choices.below(130) } else { choices.below(5) }
}

impl<S: Wrapping> World<S> {
    fn claims(&mut self, choices: &mut Choices<'_>) {
        let (asked, room) = (count(choices), self.plain.room());
        // A claim that could wait is called only where it need not.
        let claim = match choices.below(3) {
            0 if room >= asked.min(self.ring.size()) => self.ring.claim(asked),
            1 if room > 0 || asked == 0 => self.ring.claim(..=asked),
            _ => self.ring.try_claim(..=asked).map_err(|_| WaitError::Closed),
        };
        let has = !self.plain.closed && (room > 0 || asked == 0);
        assert_eq!(claim.is_ok(), has, "asked for {asked}, room for {room}");
        if let Ok(claim) = claim {
            goes_on(claim, asked.min(room), &mut self.plain, choices);
        }
    }

    fn polls_a_claim(&mut self, choices: &mut Choices<'_>) {
        let (asked, room) = (count(choices), self.plain.room());
        match poll_once(self.ring.claim_async(..=asked)) {
            Poll::Pending => assert!(asked > 0 && room == 0 && !self.plain.closed),
            Poll::Ready(Err(error)) => assert!(self.plain.closed && error == WaitError::Closed),
            Poll::Ready(Ok(claim)) => {
                assert!(!self.plain.closed && (asked == 0 || room > 0));
                goes_on(claim, asked.min(room), &mut self.plain, choices);
            }
        }
    }

    /// Moves a reader forward, perhaps past all published numbers, or repeats its last number.
    fn reads(&mut self, choices: &mut Choices<'_>) {
        let (reader, plain) = (choices.below(self.readers.len()), &mut self.plain);
        let has = plain.read[reader];
        let unread = plain.next - 1 - has;
        let to = match choices.below(8) {
            0..=4 => has + choices.below(256) as i128 % (unread.max(0) + 1),
            5 | 6 => has + unread.max(0),
            // Not so far ahead that the number would count as an earlier one.
            _ => (has + choices.below(3) as i128 - 1).min(plain.next - 1 + plain.size / 2),
        };
        assert_eq!(self.readers[reader].publish(S::of(to)), to > has);
        plain.read[reader] = has.max(to);
    }

    fn compare(&self, choices: &mut Choices<'_>) {
        let World { ring, read, readers, plain } = self;
        let last = plain.next - 1;
        assert_eq!(ring.last_published(), S::of(last));
        assert_eq!(ring.published().last_published(), S::of(last));
        assert_eq!(ring.is_closed(), plain.closed);
        assert_eq!(ring.any_available(), plain.room() > 0 && !plain.closed);
        assert_eq!(read.last_published(), S::of(plain.last_read()));
        for (reader, has) in readers.iter().zip(&plain.read) {
            assert_eq!(reader.last_published(), S::of(*has));
        }
        let target = last + choices.below(5) as i128 - 2;
        let said = poll_once(ring.published().wait_async(S::of(target)));
        let expected = answer(target, last, plain.closed);
        assert_eq!(said, expected, "waits for {target}, {last} is published");
        let target = plain.last_read() + choices.below(5) as i128 - 2;
        let said = poll_once(read.wait_async(S::of(target)));
        assert_eq!(said, answer(target, plain.last_read(), plain.closed));
    }
}

fn goes_on<S: Wrapping>(
    claim: SingleClaim<'_, S>,
    expected: usize,
    plain: &mut Plain,
    choices: &mut Choices<'_>,
) {
    assert_eq!((claim.range().start(), claim.range().len()), (S::of(plain.next), expected));
    match choices.below(4) {
        0 | 1 => {
            assert!(claim.publish());
            plain.next += expected as i128;
        }
        2 => {
            let first = choices.below(70);
            assert!(claim.publish_first(first));
            plain.next += first.min(expected) as i128;
        }
        _ => drop(claim),
    }
}
