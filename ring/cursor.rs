//! The position of a reader, and its waits.

use super::items::Items;
use crate::ring::sequence::{Count, SequenceBarrier, SequenceRange, Source, WaitStrategy};
use crate::runtime::is_cancelled;
use crate::shim::time::Instant;
use crate::shim::{Arc, spin_loop};
use crate::sync::{TryRecvError, WaitError};

/// From this number of items per look on, the cost of a look does not matter.
const MANY: u64 = 32;
/// The longest pause before a look, in turns: a microsecond.
const LONGEST: u64 = 64;

/// The position of a reader.
pub(super) struct Cursor<T> {
    pub(super) items: Arc<Items<T>>,
    source: Source,
    /// The last number that the reader has given back, for the next stage or the producers.
    position: SequenceBarrier<u64>,
    /// How the reader waits.
    pub(super) strategy: WaitStrategy,
    /// The first number that the reader has not given back.
    pub(super) next: u64,
    /// The first number that is not known to be readable.
    pub(super) end: u64,
    /// The count of readable numbers at the last look.
    found: u64,
    /// The reader was told of the end, and has passed that on to the next stage: it reads nothing
    /// more.
    ended: bool,
}

impl<T> Cursor<T> {
    pub(super) fn new(
        items: Arc<Items<T>>,
        source: Source,
        position: SequenceBarrier<u64>,
        strategy: WaitStrategy,
    ) -> Cursor<T> {
        Cursor { items, source, position, strategy, next: 0, end: 0, found: 0, ended: false }
    }

    /// Waits until enough can be read, or what is left at the end, and returns it.
    #[track_caller]
    #[inline(always)]
    pub(super) fn wait(
        &mut self,
        count: Count,
        until: Option<Instant>,
    ) -> Result<SequenceRange<u64>, WaitError> {
        let least = least(count);
        if self.known() < least {
            self.let_them_write();
            self.look();
        }
        if self.known() < least || is_cancelled() {
            self.wait_for_more(least, until)?;
        }
        Ok(self.first(count))
    }

    /// The count of numbers that are known to be readable.
    #[inline(always)]
    fn known(&self) -> u64 {
        self.end.wrapping_sub(self.next)
    }

    /// The first of these numbers.
    #[inline(always)]
    fn first(&self, count: Count) -> SequenceRange<u64> {
        SequenceRange::of_ring(self.next, (self.known() as usize).min(count.most().max(1)))
    }

    /// The number that must be readable before `least` numbers, or the whole ring, can be read.
    fn target(&self, least: u64) -> u64 {
        self.next.wrapping_add(least.min(self.items.size() as u64) - 1)
    }

    /// Looks how far the reader can read.
    #[inline(always)]
    fn look(&mut self) {
        if !self.ended {
            // All before `end` is known to be there.
            self.end = self.source.last(self.end).wrapping_add(1);
            self.found = self.known();
        }
    }

    /// Pauses before a look if the last look found a few items, as more are being written right
    /// now.
    ///
    /// A reader that looks again at once takes cache lines away from the producers for every few
    /// items, also the lines that are written next, because the processor prefetches them; each
    /// item then takes ten times as long. The pause grows with the number of items found, and there
    /// is none where single items arrive now and then. It also helps a reader that would park at
    /// once: without it, a message through a ring of four producers took three times as long (105
    /// ns instead of 32), because the reader parked after every few items.
    #[inline(always)]
    fn let_them_write(&self) {
        if self.found.wrapping_sub(2) < MANY - 2 {
            (0..(self.found * 2).min(LONGEST)).for_each(|_| spin_loop());
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_for_more(&mut self, least: u64, until: Option<Instant>) -> Result<(), WaitError> {
        // A cancelled reader has read nothing: it forgets the numbers that it has seen.
        self.end = self.next;
        if self.ended && !is_cancelled() {
            return Err(WaitError::Closed);
        }
        let mut target = self.target(least);
        loop {
            let waited = self.source.wait_until(target, self.next, until, self.strategy);
            // A wait in a blocking call is not refused when its task is cancelled. It may find
            // numbers that a single producer has published while this reader was told of the end.
            if self.ended {
                return self.learn(waited.and(Err(WaitError::Closed)));
            }
            match self.left_before(target, &waited) {
                Some(last) => target = last,
                None => return self.learn(waited),
            }
        }
    }

    /// Returns the last number before `target` that may still be read, if the wait for `target` was
    /// told of the end and there is such a number.
    ///
    /// That number need not be readable yet: of several readers of the stage before, one may have
    /// ended, and another may still have to give back what the first one has read.
    fn left_before(&self, target: u64, waited: &Result<u64, WaitError>) -> Option<u64> {
        if *waited != Err(WaitError::Closed) {
            return None;
        }
        // No number from `end` on will ever be readable.
        let (mut first, mut end) = (self.next, target);
        while first != end {
            let middle = first.wrapping_add(end.wrapping_sub(first) / 2);
            match self.source.try_until(middle, self.next) {
                Some(Err(_)) => end = middle,
                _ => first = middle.wrapping_add(1),
            }
        }
        (end != self.next).then(|| end.wrapping_sub(1))
    }

    pub(super) async fn wait_async(
        &mut self,
        count: Count,
    ) -> Result<SequenceRange<u64>, WaitError> {
        if self.ended {
            return Err(WaitError::Closed);
        }
        let least = least(count);
        if self.known() < least {
            let mut target = self.target(least);
            let waited = loop {
                let waited = self.source.wait_async(target, self.next).await;
                match self.left_before(target, &waited) {
                    Some(last) => target = last,
                    None => break waited,
                }
            };
            self.learn(waited)?;
        }
        Ok(self.first(count))
    }

    #[inline(always)]
    fn learn(&mut self, waited: Result<u64, WaitError>) -> Result<(), WaitError> {
        let last = waited.inspect_err(|why| {
            if *why == WaitError::Closed {
                self.ended = true;
                self.position.finish();
            }
        })?;
        self.end = last.wrapping_add(1);
        self.found = self.known();
        Ok(())
    }

    /// Returns what can be read without waiting.
    #[inline(always)]
    pub(super) fn try_wait(&mut self, count: Count) -> Result<SequenceRange<u64>, TryRecvError> {
        let least = least(count);
        if self.known() < least {
            self.look();
        }
        if self.known() < least {
            self.try_for_more(least)?;
        }
        Ok(self.first(count))
    }

    /// Looks again after a look that found too few: there are new numbers, not enough yet, or it is
    /// the end.
    #[inline(never)]
    fn try_for_more(&mut self, least: u64) -> Result<(), TryRecvError> {
        if self.ended {
            return Err(TryRecvError::Closed);
        }
        let mut target = self.target(least);
        loop {
            let answer = self.source.try_until(target, self.next).ok_or(TryRecvError::Empty)?;
            match self.left_before(target, &answer) {
                Some(last) => target = last,
                None => return self.learn(answer).map_err(|_| TryRecvError::Closed),
            }
        }
    }

    /// Gives back numbers that were read.
    #[inline(always)]
    pub(super) fn give_back(&mut self, numbers: SequenceRange<u64>) {
        debug_assert!(numbers.start() == self.next, "batches are given back in order");
        self.next = numbers.end();
        self.position.publish(self.next.wrapping_sub(1));
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        self.position.finish();
    }
}

/// The least count of numbers in a batch.
#[inline(always)]
fn least(count: Count) -> u64 {
    count.least().max(1) as u64
}
