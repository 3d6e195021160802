//! The ring of a bounded channel: values pass through it without a lock, as long as nobody has to wait.
//!
//! After D. Vyukov's bounded queue for many producers and consumers (1024cores.net, 2010): each end has a position that only
//! grows, and each slot a stamp that says for which position it is free, or filled. Two things are added: those who wait can
//! be granted *permits* (see [`line`](super::line)), and each end sees whether somebody waits at the other end.
//! The [layout of the words](super::word) is described beside them.
//!
//! The distance of the two positions is the number of values that lie there. At any time it is no greater than the capacity less the
//! reserved places, and no smaller than the number of promised values: whoever moves a word has seen room or a value with
//! that very word, and the other word only moves the other way. So a word of the other end that was seen earlier will do
//! if there was room at that time.
//!
//! # Many at once
//!
//! Whoever finds an end free moves its position by a compare-and-swap. If many come at once most of them fail, and each
//! failure takes the word from somebody who would succeed. So after a failure the end is *contended* for a while: there
//! everybody claims a permit by one addition, and uses it up by another. A claim that finds nothing is taken back. Until then it
//! looks to others as if there were a place, or a value, less; one that enters a line meanwhile may
//! be left waiting. Therefore the claimer serves the line afterwards as if it had freed something.
//!
//! A claimer may find that the channel has been closed when it moves the tail. Receivers may have been told of the end
//! by then, so it leaves its slot *void*, and whoever reads that slot finds no value.
//!
//! # Who may touch what when
//!
//! * A slot: whoever has moved the position past it, until its stamp says that this is done. Whoever comes to the slot earlier
//!   waits for the stamp, for as long as it takes to move a value (or the thread that moves it has lost its processor).
//! * The lines, STRICT, and the notices: under the lock. So is the grant of a permit.
//! * A position: by anybody while STRICT is clear; by the owner of a permit at any time, which uses the permit up in the same
//!   step.
//!
//! # No wake-up is lost
//!
//! A waiter is announced: in the notice of its end, and by STRICT if it is the first one and is not to be passed. Then it
//! looks at the other end's position a last time. Whoever moves a position looks at the other end's notice afterwards, and serves the
//! line under the lock if more is free than waiters have been called. The two updates and the two loads are all in
//! the one total order, so one of the two sees the other. The stamp comes after the position, so the owner of a promised
//! value may find it still on its way, and waits for the stamp.
//!
//! # Those who only try
//!
//! STRICT may be set while there is more than the first waiter will have. Whoever only tries, and sees a place or a value that nobody
//! has a permit for, asks for a permit itself, under the lock.
//!
//! # The end
//!
//! Closing sets CLOSED, and then takes the lock and serves both lines: those who have entered before are told of the end, or
//! find the receivers' line strict; those who enter later see CLOSED.

use super::end::End;
use super::line::{PASSES, Supply};
use super::shared::Tried;
use super::word::{
    CLOSED, LARGEST, Notice, ONE_PERMIT, ONE_POSITION, STRICT, Told, distance, permits,
};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::time::Duration;
use crate::shim::{Cell, load_in_total_order, spin_loop, thread};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;

/// Slots are made at once, so no more than this many bytes of them.
const BYTES: usize = 1 << 20;
/// Turns of waiting for a stamp before others may have the processor.
const POLITE: u32 = 64;
/// Turns before the thread sleeps between two looks, and for how long.
const PATIENT: u32 = 1_000;
const NAP: Duration = Duration::from_micros(50);

/// In a stamp that says filled: there is no value, and will be none.
const VOID: u64 = 1 << 63;

struct Slot<T> {
    /// The position for which it is free, or filled: see `free` and `filled`.
    stamp: AtomicU64,
    value: Cell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    /// Waits until the stamp is this one, apart from VOID.
    #[inline]
    fn await_stamp(&self, stamp: u64) -> u64 {
        // MUTANT(ring.stamp.read): relaxed
        let now = self.stamp.load(Ordering::Acquire);
        if now & !VOID == stamp { now } else { self.keep_looking(stamp) }
    }

    #[cold]
    fn keep_looking(&self, stamp: u64) -> u64 {
        let mut turns = 0;
        loop {
            let now = self.stamp.load(Ordering::Acquire);
            if now & !VOID == stamp {
                return now;
            }
            match turns {
                0..POLITE => spin_loop(),
                POLITE..PATIENT => thread::yield_now(),
                // Who has lost its processor may have lost it to this thread, whose priority is higher.
                _ => thread::sleep(NAP),
            }
            turns = turns.saturating_add(1);
        }
    }
}

/// The stamp of a slot that is free for the position in the word.
fn free(word: u64) -> u64 {
    word / ONE_POSITION * 2
}

/// The stamp of a slot that holds the value of this position.
fn filled(word: u64) -> u64 {
    free(word) + 1
}

pub(super) struct Ring<T> {
    tail: End,
    head: End,
    /// Of those who wait for places.
    senders: CachePadded<Notice>,
    /// Of those who wait for values.
    receivers: CachePadded<Notice>,
    capacity: i64,
    /// A power of two, so that a position leads to its slot.
    slots: Box<[Slot<T>]>,
}

// SAFETY: a slot has one owner at a time, as said above; values pass from thread to thread.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above; nobody gets at a value in a slot by a shared reference.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// None for a capacity that asks for another kind of channel: none, or a very large one.
    pub(super) fn new(capacity: usize) -> Option<Ring<T>> {
        if capacity == 0 || capacity > LARGEST {
            return None;
        }
        let slots = capacity.next_power_of_two();
        if slots.checked_mul(size_of::<Slot<T>>()).is_none_or(|bytes| bytes > BYTES) {
            return None;
        }
        Some(Ring::starting_at(0, capacity, slots))
    }

    /// Begins at the position of this word, which is a multiple of the number of slots.
    fn starting_at(start: u64, capacity: usize, slots: usize) -> Ring<T> {
        let slot = |position: u64| Slot {
            stamp: AtomicU64::new(free(start.wrapping_add(position * ONE_POSITION))),
            value: Cell::new(MaybeUninit::uninit()),
        };
        Ring {
            tail: End::starting_at(start),
            head: End::starting_at(start),
            senders: CachePadded::new(Notice::new()),
            receivers: CachePadded::new(Notice::new()),
            capacity: capacity as i64,
            slots: (0..slots as u64).map(slot).collect(),
        }
    }

    fn slot(&self, word: u64) -> &Slot<T> {
        let position = (word / ONE_POSITION) as usize;
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Moves a value into the slot of a position, for who has moved the tail past it.
    fn write(&self, word: u64, value: T) {
        let slot = self.slot(word);
        slot.await_stamp(free(word));
        slot.value.set(MaybeUninit::new(value));
        // MUTANT(ring.stamp.filled): relaxed
        slot.stamp.store(filled(word), Ordering::Release);
    }

    /// Moves the value out of the slot of a position, for who has moved the head past it. There is none if the slot is
    /// void.
    fn read(&self, word: u64) -> Option<T> {
        let slot = self.slot(word);
        let is_void = slot.await_stamp(filled(word)) & VOID != 0;
        let value = (!is_void).then(|| slot.value.replace(MaybeUninit::uninit()));
        let lap = self.slots.len() as u64 * ONE_POSITION;
        // MUTANT(ring.stamp.free): relaxed
        slot.stamp.store(free(word.wrapping_add(lap)), Ordering::Release);
        // SAFETY: the slot is filled and not void, and its value is taken out once: one has moved the head past it.
        value.map(|value| unsafe { value.assume_init() })
    }

    /// Whether there is a place that has no permit, beside a tail.
    #[inline]
    fn has_room(&self, tail: u64) -> bool {
        let room = |head| distance(head, tail) + permits(tail) < self.capacity;
        self.tail.sees(&self.head, room)
    }

    /// Whether there is a value that has no permit, beside a head.
    #[inline]
    fn has_value(&self, head: u64) -> bool {
        let stamp = &self.slot(head).stamp;
        if permits(head) == 0 && stamp.load(Ordering::Acquire) == filled(head) {
            return true;
        }
        distance(head, self.head.look(&self.tail)) > permits(head)
    }

    /// Puts a value in, if there is a place and nobody is to have it first. It is taken out of `value` if it was.
    #[inline]
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        if self.tail.is_contended() {
            return Tried::Missed;
        }
        let tail = self.tail.word.load(Ordering::Relaxed);
        if tail & (CLOSED | STRICT) != 0 || !self.has_room(tail) {
            return self.why_nothing_was_put();
        }
        let new = tail.wrapping_add(ONE_POSITION);
        // MUTANT(ring.put): relaxed, split
        match self.tail.word.compare_exchange(tail, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => {
                self.write(tail, value.take().expect("it is put once"));
                Tried::Done(())
            }
            Err(_) => {
                self.tail.contend();
                Tried::Missed
            }
        }
    }

    /// Reserves a place, by one update however many come at once; if there is none, the caller serves those who wait for one.
    pub(super) fn claim_place(&self) -> bool {
        self.tail.claim(|tail| tail & (CLOSED | STRICT) == 0 && self.has_room(tail))
    }

    #[cold]
    pub(super) fn why_nothing_was_put(&self) -> Tried<()> {
        let tail = load_in_total_order(&*self.tail.word);
        match (tail & CLOSED != 0, self.has_room(tail), tail & STRICT != 0) {
            (true, _, _) => Tried::Closed,
            (false, false, _) => Tried::Later,
            (false, true, true) => Tried::Behind,
            (false, true, false) => Tried::Missed,
        }
    }

    /// The same with a permit, which is used up. Not if the channel has been closed.
    pub(super) fn put_by_permit(&self, value: &mut Option<T>) -> bool {
        let used = ONE_POSITION - ONE_PERMIT;
        // MUTANT(ring.put_by_permit): split
        let tail = self.tail.word.fetch_add(used, Ordering::SeqCst);
        if tail & CLOSED != 0 {
            // Receivers may have been told of the end.
            let slot = self.slot(tail);
            slot.await_stamp(free(tail));
            slot.stamp.store(filled(tail) | VOID, Ordering::Release);
            self.skip_void();
            return false;
        }
        self.write(tail, value.take().expect("it is put once"));
        true
    }

    /// Frees void slots that come next and that nobody has a permit for: perhaps nobody receives any more.
    fn skip_void(&self) {
        loop {
            let head = load_in_total_order(&*self.head.word);
            let is_void = self.slot(head).stamp.load(Ordering::Acquire) == filled(head) | VOID;
            if permits(head) > 0 || !is_void {
                return;
            }
            if self.pass(head) {
                let void = self.read(head);
                debug_assert!(void.is_none(), "there is a value in a void slot");
            }
        }
    }

    /// Moves the head past the next slot, if it is still this one.
    fn pass(&self, head: u64) -> bool {
        let new = head.wrapping_add(ONE_POSITION);
        let (done, seen) = (Ordering::SeqCst, Ordering::Relaxed);
        // MUTANT(ring.pass): split
        self.head.word.compare_exchange(head, new, done, seen).is_ok()
    }

    /// Takes a value out, if there is one that is not promised, and nobody is to have it first.
    #[inline]
    pub(super) fn try_take(&self) -> Tried<T> {
        if self.head.is_contended() {
            return Tried::Missed;
        }
        let head = self.head.word.load(Ordering::Relaxed);
        if head & STRICT != 0 || !self.has_value(head) {
            return self.why_nothing_was_taken();
        }
        let new = head.wrapping_add(ONE_POSITION);
        // MUTANT(ring.take): relaxed, split
        match self.head.word.compare_exchange(head, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => self.read(head).map_or(Tried::Missed, Tried::Done),
            Err(_) => {
                self.head.contend();
                Tried::Missed
            }
        }
    }

    /// Has a value promised, as [`claim_place`](Ring::claim_place) reserves a place.
    pub(super) fn claim_value(&self) -> bool {
        self.head.claim(|head| head & STRICT == 0 && self.has_value(head))
    }

    #[cold]
    pub(super) fn why_nothing_was_taken(&self) -> Tried<T> {
        let head = load_in_total_order(&*self.head.word);
        let tail = load_in_total_order(&*self.tail.word);
        match (distance(head, tail), head & STRICT != 0) {
            (0, _) if tail & CLOSED != 0 => Tried::Closed,
            (values, _) if values <= permits(head) => Tried::Later,
            (_, true) => Tried::Behind,
            (_, false) => Tried::Missed,
        }
    }

    /// The same with a permit, which is used up. There may be none, if the channel is closed.
    pub(super) fn take_by_permit(&self) -> Tried<T> {
        let used = ONE_POSITION - ONE_PERMIT;
        // MUTANT(ring.take_by_permit): split
        let head = self.head.word.fetch_add(used, Ordering::SeqCst);
        self.read(head).map_or(Tried::Missed, Tried::Done)
    }

    /// Whether the caller, who has freed a place, is to serve those who wait for one.
    #[inline]
    pub(super) fn calls_senders(&self) -> bool {
        let told = self.senders.read();
        told.waits() && {
            let head = load_in_total_order(&*self.head.word);
            // The tail may have moved on since it was seen, so there is no more room than that.
            let seen = self.head.other_seen.load(Ordering::Relaxed);
            is_to_be_served(told, head, self.capacity - distance(head, seen), || {
                let tail = self.head.look(&self.tail);
                self.capacity - distance(head, tail) - permits(tail)
            })
        }
    }

    /// Whether the caller, who has put in a value, is to serve those who wait for one.
    #[inline]
    pub(super) fn calls_receivers(&self) -> bool {
        let told = self.receivers.read();
        told.waits() && {
            let tail = load_in_total_order(&*self.tail.word);
            let seen = self.tail.other_seen.load(Ordering::Relaxed);
            is_to_be_served(told, tail, distance(seen, tail), || {
                let head = self.tail.look(&self.head);
                distance(head, tail) - permits(head)
            })
        }
    }

    /// Whether somebody waits to receive.
    pub(super) fn receivers_wait(&self) -> bool {
        self.receivers.read().waits()
    }

    /// As if many came at once.
    #[cfg(test)]
    pub(super) fn contend(&self) {
        self.tail.contend();
        self.head.contend();
    }

    /// Whether many senders come at once.
    pub(super) fn many_send(&self) -> bool {
        self.tail.is_contended()
    }

    /// Whether many receivers come at once.
    pub(super) fn many_receive(&self) -> bool {
        self.head.is_contended()
    }

    /// Nothing is put any more. The caller serves both lines then.
    pub(super) fn close(&self) {
        // MUTANT(ring.close): split
        self.tail.word.fetch_or(CLOSED, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        load_in_total_order(&*self.tail.word) & CLOSED != 0
    }

    pub(super) fn len(&self) -> usize {
        // In this order, or it would be as if there were less than nothing.
        let head = load_in_total_order(&*self.head.word);
        let len = distance(head, load_in_total_order(&*self.tail.word));
        // Meanwhile some may have been taken, and others put.
        len.clamp(0, self.capacity).unsigned_abs() as usize
    }

    /// Takes out all values that lie in the channel. Called after the last receiver has gone, which may have left permits
    /// unused. A sender that comes too late may free its void slot meanwhile.
    pub(super) fn drain(&self) -> Vec<T> {
        let mut values = Vec::new();
        loop {
            let head = load_in_total_order(&*self.head.word);
            if distance(head, load_in_total_order(&*self.tail.word)) <= 0 {
                return values;
            }
            if self.pass(head) {
                values.extend(self.read(head));
            }
        }
    }
}

/// Whether a line of which one was told so is to be served, by who has moved the word of the other end: if more is `free` than
/// waiters have been called. That cannot be if the `most` that may be is no more. (It is below zero if the position
/// that it was reckoned from was seen so long ago that the positions have come round.)
fn is_to_be_served(told: Told, word: u64, most: i64, free: impl FnOnce() -> i64) -> bool {
    told.is_strict()
        || told.passed(word) >= PASSES
        || !(0..=told.called()).contains(&most) && free() > told.called()
}

/// What senders wait for.
pub(super) struct Places<'a, T>(pub(super) &'a Ring<T>);

impl<T> Supply for Places<'_, T> {
    fn free(&self) -> usize {
        let tail = load_in_total_order(&*self.0.tail.word);
        let head = load_in_total_order(&*self.0.head.word);
        (self.0.capacity - distance(head, tail) - permits(tail)).max(0).unsigned_abs() as usize
    }

    fn set_aside(&mut self) -> bool {
        self.0.tail.claim(|tail| tail & CLOSED == 0 && self.0.has_room(tail))
    }

    fn take_back(&mut self) {
        self.0.tail.word.fetch_sub(ONE_PERMIT, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.0.is_closed()
    }

    fn is_strict(&self) -> bool {
        false
    }

    fn position(&self) -> u64 {
        self.0.head.word.load(Ordering::Relaxed)
    }

    fn announce(&self, told: Told) {
        self.0.tail.set_strict(told.is_strict());
        self.0.senders.write(told);
    }
}

/// What receivers wait for.
pub(super) struct Values<'a, T>(pub(super) &'a Ring<T>);

impl<T> Supply for Values<'_, T> {
    fn free(&self) -> usize {
        let head = load_in_total_order(&*self.0.head.word);
        let tail = load_in_total_order(&*self.0.tail.word);
        (distance(head, tail) - permits(head)).max(0).unsigned_abs() as usize
    }

    fn set_aside(&mut self) -> bool {
        self.0.head.claim(|head| self.0.has_value(head))
    }

    fn take_back(&mut self) {
        self.0.head.word.fetch_sub(ONE_PERMIT, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        // In this order: a closed one gets no more.
        self.0.is_closed() && self.0.len() == 0
    }

    fn is_strict(&self) -> bool {
        self.0.is_closed()
    }

    fn position(&self) -> u64 {
        self.0.tail.word.load(Ordering::Relaxed)
    }

    fn announce(&self, told: Told) {
        self.0.head.set_strict(told.is_strict());
        self.0.receivers.write(told);
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        drop(self.drain());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::word::{LARGEST, ONE_POSITION};
    use super::{Ring, Tried};

    #[test]
    fn positions_go_on_past_their_end() {
        for capacity in [1, 3, 4] {
            let slots = 4;
            let ring =
                Ring::starting_at(0u64.wrapping_sub(slots as u64 * ONE_POSITION), capacity, slots);
            let mut received = 0;
            for sent in 0..100 {
                if let Tried::Later = ring.try_put(&mut Some(sent)) {
                    assert_eq!(ring.len(), capacity);
                    let Tried::Done(value) = ring.try_take() else { panic!("it is full") };
                    assert_eq!(value, received);
                    received += 1;
                    assert!(matches!(ring.try_put(&mut Some(sent)), Tried::Done(())));
                }
                assert_eq!(ring.len(), sent + 1 - received);
            }
            assert_eq!(ring.drain(), (received..100).collect::<Vec<_>>());
            assert!(matches!(ring.try_take(), Tried::Later));
        }
    }

    #[test]
    fn a_ring_is_made_for_a_capacity_that_can_be_had_at_once() {
        for capacity in [1, 2, 3, 1024, LARGEST] {
            assert!(Ring::<u64>::new(capacity).is_some(), "{capacity}");
        }
        for capacity in [0, LARGEST + 1, usize::MAX - 1, usize::MAX] {
            assert!(Ring::<u64>::new(capacity).is_none(), "{capacity}");
        }
        assert!(Ring::<[u8; 4096]>::new(1024).is_none());
    }
}
