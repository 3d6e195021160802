//! The ring of a bounded channel: values pass through it without a lock, as long as nobody has to wait.
//!
//! After D. Vyukov's bounded queue for many producers and consumers (1024cores.net, 2010): a position that only grows for
//! each end, and in each slot a stamp that says for which position it is free, or filled. Ours has two things more: who
//! waits is served first, and in the order of coming; and who waits is granted a *permit* (see the module above).
//!
//! # The words
//!
//! `tail` is the senders' word, `head` the receivers'. Each holds, in one word, so that one compare-and-swap decides on all:
//!
//! * the **position** of the next value that is put, or taken, modulo 2^46;
//! * how many **permits** are out at this end: places that are reserved, values that are promised;
//! * **WAITED**: somebody is in the list of this end, or about to enter it. Who comes meanwhile does not pass;
//! * **CLOSED**, in `tail` alone: nothing is put any more.
//!
//! The distance of the positions is the number of values there. At any time it is no more than the capacity less the reserved
//! places, and no less than the promised values: who moves a word has seen room or a value for itself with that very word,
//! and the other word only moves the other way.
//!
//! # Who may touch what when
//!
//! * A slot: whoever has moved the position past it, until its stamp says that it is done. Who comes to the slot earlier waits
//!   for the stamp, for as long as a value takes to be moved (or the thread that moves it has lost its processor).
//! * The lists, and WAITED, and a grant of a permit: under the lock.
//! * A position: by anybody while WAITED is clear; by who has a permit at any time, which uses the permit up in the same step.
//!
//! # No wake-up is lost
//!
//! Who enters a list says so (`senders_wait`, `receivers_wait`: words of their own, which nobody else writes, so they cost
//! who passes no more than a load); sets WAITED, after which nobody passes; and then looks at the other end's position a
//! last time. Who moves a position looks afterwards whether somebody waits at the other end, and if so grants under the
//! lock. The two updates and the two loads are all in the one total order, so one of the two sees the other. The stamp comes
//! after the position, so who is granted a value may find it still on its way, and waits for the stamp.
//!
//! # Who does not wait
//!
//! WAITED is also set while one enters who will be served at once, or is about to be. There may be more than for that one, so
//! who only tries, and sees a place or a value that nobody has a permit for, asks for a permit itself, under the lock.
//!
//! # The end
//!
//! Closing sets CLOSED, and then takes the lock: who has entered before is told of the end by that, who enters later sees it.

use super::shared::{CLOSED as TOLD_CLOSED, Ends, PERMIT, Tried};
use crate::scheduler::waiters::Wakes;
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::shim::time::Duration;
use crate::shim::{Cell, load_in_total_order, spin_loop, thread};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;

const WAITED: u64 = 1;
const CLOSED: u64 = 2;
const ONE_PERMIT: u64 = 1 << 2;
const PERMITS: u32 = 16;
const ONE_POSITION: u64 = ONE_PERMIT << PERMITS;
/// The largest capacity: so many permits can be out at one end.
const LARGEST: usize = (1 << PERMITS) - 1;
/// Slots are made at once, so no more than this many bytes of them.
const BYTES: usize = 1 << 20;
/// Turns of waiting for a stamp before others may have the processor.
const POLITE: u32 = 64;
/// Turns before the thread sleeps between two looks, and for how long.
const PATIENT: u32 = 1_000;
const NAP: Duration = Duration::from_micros(50);

fn permits(word: u64) -> i64 {
    (word / ONE_PERMIT % (1 << PERMITS)).cast_signed()
}

/// How far the position of `to` is ahead of that of `from`. Words that were read one after the other may say that a head
/// is ahead of its tail.
fn distance(from: u64, to: u64) -> i64 {
    let position = |word| word / ONE_POSITION * ONE_POSITION;
    position(to).wrapping_sub(position(from)).cast_signed() >> ONE_POSITION.ilog2()
}

struct Slot<T> {
    /// The position for which it is free, or filled: see `free` and `filled`.
    stamp: AtomicU64,
    value: Cell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    #[cold]
    fn await_stamp(&self, stamp: u64) {
        let mut turns = 0;
        while self.stamp.load(Ordering::Acquire) != stamp {
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

/// What senders move.
struct Tail {
    word: AtomicU64,
    /// A position of `head` that somebody has seen, so that not everybody has to look there.
    head_seen: AtomicU64,
}

pub(super) struct Ring<T> {
    tail: CachePadded<Tail>,
    head: CachePadded<AtomicU64>,
    senders_wait: CachePadded<AtomicBool>,
    receivers_wait: AtomicBool,
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
        let (word, head_seen) = (AtomicU64::new(start), AtomicU64::new(start));
        Ring {
            tail: CachePadded::new(Tail { word, head_seen }),
            head: CachePadded::new(AtomicU64::new(start)),
            senders_wait: CachePadded::new(AtomicBool::new(false)),
            receivers_wait: AtomicBool::new(false),
            capacity: capacity as i64,
            slots: (0..slots as u64).map(slot).collect(),
        }
    }

    fn slot(&self, word: u64) -> &Slot<T> {
        let position = (word / ONE_POSITION) as usize;
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Waits until the slot of this position has this stamp.
    #[inline]
    fn await_stamp(&self, word: u64, stamp: u64) -> &Slot<T> {
        let slot = self.slot(word);
        // PROOF(ring.stamp.read): relaxed
        if slot.stamp.load(Ordering::Acquire) != stamp {
            slot.await_stamp(stamp);
        }
        slot
    }

    /// Moves a value into the slot of a position, for who has moved the tail past it.
    fn write(&self, word: u64, value: T) {
        let slot = self.await_stamp(word, free(word));
        slot.value.set(MaybeUninit::new(value));
        // PROOF(ring.stamp.filled): relaxed
        slot.stamp.store(filled(word), Ordering::Release);
    }

    /// Moves the value out of the slot of a position, for who has moved the head past it.
    fn read(&self, word: u64) -> T {
        let slot = self.await_stamp(word, filled(word));
        let value = slot.value.replace(MaybeUninit::uninit());
        let lap = self.slots.len() as u64 * ONE_POSITION;
        // PROOF(ring.stamp.free): relaxed
        slot.stamp.store(free(word.wrapping_add(lap)), Ordering::Release);
        // SAFETY: it was filled, and is taken out once: whoever has moved the head past it is one.
        unsafe { value.assume_init() }
    }

    /// Whether there is a place for one more that has no permit.
    fn has_room(&self, tail: u64) -> bool {
        let room = |head| distance(head, tail) + permits(tail) < self.capacity;
        if room(self.tail.head_seen.load(Ordering::Relaxed)) {
            return true;
        }
        let head = load_in_total_order(&*self.head);
        self.tail.head_seen.store(head, Ordering::Relaxed);
        room(head)
    }

    /// Whether there is a value for one more that has no permit.
    fn has_value(&self, head: u64) -> bool {
        let first = &self.slot(head).stamp;
        if permits(head) == 0 && first.load(Ordering::Acquire) == filled(head) {
            return true;
        }
        distance(head, load_in_total_order(&self.tail.word)) > permits(head)
    }

    /// Puts a value in, if there is a place and nobody waits for one. It is taken out of `value` if it was.
    #[inline]
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        let mut tail = self.tail.word.load(Ordering::Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Tried::Closed;
            }
            let has_room = self.has_room(tail);
            if tail & WAITED != 0 || !has_room {
                let now = self.tail.word.load(Ordering::Relaxed);
                if now == tail {
                    return if has_room { Tried::Behind } else { Tried::Later };
                }
                tail = now;
                continue;
            }
            // PROOF(ring.put): relaxed, split
            match self.tail.word.compare_exchange_weak(
                tail,
                tail.wrapping_add(ONE_POSITION),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => tail = now,
            }
        }
        self.write(tail, value.take().expect("it is put once"));
        Tried::Done(())
    }

    /// The same with a permit, which is used up.
    pub(super) fn put_by_permit(&self, value: &mut Option<T>) -> Tried<()> {
        let mut tail = self.tail.word.load(Ordering::Relaxed);
        loop {
            let moved = if tail & CLOSED == 0 { ONE_POSITION } else { 0 };
            // PROOF(ring.put_by_permit): split
            match self.tail.word.compare_exchange_weak(
                tail,
                tail.wrapping_add(moved) - ONE_PERMIT,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) if moved == 0 => return Tried::Closed,
                Ok(_) => break,
                Err(now) => tail = now,
            }
        }
        self.write(tail, value.take().expect("it is put once"));
        Tried::Done(())
    }

    /// Takes a value out, if there is one that is not promised, and nobody waits for one.
    #[inline]
    pub(super) fn try_take(&self) -> Tried<T> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head & WAITED != 0 || !self.has_value(head) {
                let tail = load_in_total_order(&self.tail.word);
                let now = self.head.load(Ordering::Relaxed);
                if now == head {
                    let over = tail & CLOSED != 0 && distance(head, tail) == 0;
                    let behind = head & WAITED != 0 && distance(head, tail) > permits(head);
                    return match (over, behind) {
                        (true, _) => Tried::Closed,
                        (false, true) => Tried::Behind,
                        (false, false) => Tried::Later,
                    };
                }
                head = now;
                continue;
            }
            // PROOF(ring.take): relaxed, split
            match self.head.compare_exchange_weak(
                head,
                head.wrapping_add(ONE_POSITION),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        Tried::Done(self.read(head))
    }

    /// The same with a permit, which is used up.
    pub(super) fn take_by_permit(&self) -> T {
        // PROOF(ring.take_by_permit): split
        self.read(self.head.fetch_add(ONE_POSITION - ONE_PERMIT, Ordering::SeqCst))
    }

    /// Whether somebody waits to send, for who has just taken something.
    #[inline]
    pub(super) fn senders_wait(&self) -> bool {
        // PROOF(ring.senders.look): relaxed
        load_in_total_order(&*self.senders_wait)
    }

    /// Whether somebody waits to receive, for who has just put something.
    #[inline]
    pub(super) fn receivers_wait(&self) -> bool {
        // PROOF(ring.receivers.look): relaxed
        load_in_total_order(&self.receivers_wait)
    }

    /// A place for one that does not wait, after those who do; or the end. Under the lock, as all below.
    pub(super) fn reserve_now(&self, ends: &mut Ends, wakes: &mut Wakes) -> Option<u32> {
        self.reserve(ends, wakes);
        let answer = self.enter_sender(ends);
        self.sender_left(ends);
        answer
    }

    /// A value for one that does not wait, after those who do; or the end.
    pub(super) fn promise_now(&self, ends: &mut Ends, wakes: &mut Wakes) -> Option<u32> {
        self.promise(ends, wakes);
        let answer = self.enter_receiver(ends);
        self.receiver_left(ends);
        answer
    }

    /// Takes what a sender asks for, if it may have it at once. Afterwards it is in the list, or [`Ring::sender_left`] is
    /// called.
    pub(super) fn enter_sender(&self, ends: &mut Ends) -> Option<u32> {
        let first = ends.senders.is_empty();
        if first {
            self.senders_wait.swap(true, Ordering::SeqCst);
            // PROOF(ring.enter_sender.waited): split
            self.tail.word.fetch_or(WAITED, Ordering::SeqCst);
        }
        let answer = if self.is_closed() {
            Some(TOLD_CLOSED)
        } else if first && self.reserve_one() {
            Some(PERMIT)
        } else {
            None
        };
        if answer.is_some() {
            self.sender_left(ends);
        }
        answer
    }

    /// The same of a receiver.
    pub(super) fn enter_receiver(&self, ends: &mut Ends) -> Option<u32> {
        let first = ends.receivers.is_empty();
        if first {
            self.receivers_wait.swap(true, Ordering::SeqCst);
            // PROOF(ring.enter_receiver.waited): split
            self.head.fetch_or(WAITED, Ordering::SeqCst);
        }
        let answer = if first && self.promise_one() {
            Some(PERMIT)
        } else if self.is_over() {
            Some(TOLD_CLOSED)
        } else {
            None
        };
        if answer.is_some() {
            self.receiver_left(ends);
        }
        answer
    }

    /// A sender is no longer in the list, or was not entered.
    pub(super) fn sender_left(&self, ends: &mut Ends) {
        if ends.senders.is_empty() {
            self.senders_wait.store(false, Ordering::Relaxed);
            self.tail.word.fetch_and(!WAITED, Ordering::Relaxed);
        }
    }

    /// The same of a receiver.
    pub(super) fn receiver_left(&self, ends: &mut Ends) {
        if ends.receivers.is_empty() {
            self.receivers_wait.store(false, Ordering::Relaxed);
            self.head.fetch_and(!WAITED, Ordering::Relaxed);
        }
    }

    // Who has a permit may move the word in the midst of these two, but uses the permit up as he does: the sum, on which it
    // depends, stays.

    /// A place for a permit, if there is one. While WAITED is set.
    fn reserve_one(&self) -> bool {
        let room = self.has_room(load_in_total_order(&self.tail.word));
        if room {
            // PROOF(ring.reserve): split
            self.tail.word.fetch_add(ONE_PERMIT, Ordering::Relaxed);
        }
        room
    }

    /// A value for a permit, if there is one. While WAITED is set.
    fn promise_one(&self) -> bool {
        let value = self.has_value(load_in_total_order(&*self.head));
        if value {
            // PROOF(ring.promise): split
            self.head.fetch_add(ONE_PERMIT, Ordering::Relaxed);
        }
        value
    }

    /// Gives the places that are free to the first who wait for one, or tells all of the end.
    pub(super) fn reserve(&self, ends: &mut Ends, wakes: &mut Wakes) {
        if ends.senders.is_empty() {
            return;
        }
        if self.is_closed() {
            ends.senders.grant_all(TOLD_CLOSED, wakes);
        }
        while !ends.senders.is_empty() && self.reserve_one() {
            ends.senders.grant_first(PERMIT).into_iter().for_each(|wake| wakes.add(wake));
        }
        self.sender_left(ends);
    }

    /// Gives the values that are there to the first who wait for one, or tells all of the end.
    pub(super) fn promise(&self, ends: &mut Ends, wakes: &mut Wakes) {
        if ends.receivers.is_empty() {
            return;
        }
        while !ends.receivers.is_empty() && self.promise_one() {
            ends.receivers.grant_first(PERMIT).into_iter().for_each(|wake| wakes.add(wake));
        }
        if self.is_over() {
            ends.receivers.grant_all(TOLD_CLOSED, wakes);
        }
        self.receiver_left(ends);
    }

    /// Takes the permit of a sender back.
    pub(super) fn unreserve(&self, ends: &mut Ends, wakes: &mut Wakes) {
        self.tail.word.fetch_sub(ONE_PERMIT, Ordering::SeqCst);
        // PROOF(ring.unreserve.next): skip
        self.reserve(ends, wakes);
    }

    /// Takes the permit of a receiver back.
    pub(super) fn unpromise(&self, ends: &mut Ends, wakes: &mut Wakes) {
        self.head.fetch_sub(ONE_PERMIT, Ordering::SeqCst);
        // PROOF(ring.unpromise.next): skip
        self.promise(ends, wakes);
    }

    pub(super) fn close(&self, ends: &mut Ends, wakes: &mut Wakes) {
        // PROOF(ring.close): split
        self.tail.word.fetch_or(CLOSED, Ordering::SeqCst);
        self.reserve(ends, wakes);
        self.promise(ends, wakes);
    }

    pub(super) fn is_closed(&self) -> bool {
        load_in_total_order(&self.tail.word) & CLOSED != 0
    }

    /// Whether nothing will ever be received any more.
    fn is_over(&self) -> bool {
        // In this order: a closed one gets no more.
        self.is_closed() && self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        // In this order, or it would be as if there were less than nothing.
        let head = load_in_total_order(&*self.head);
        let len = distance(head, load_in_total_order(&self.tail.word));
        // Meanwhile some may have been taken, and others put.
        len.clamp(0, self.capacity).unsigned_abs() as usize
    }

    /// What lies there. After the last receiver has gone, whose permits may have been forgotten.
    pub(super) fn drain(&self) -> Vec<T> {
        let mut values = Vec::new();
        while self.len() > 0 {
            values.push(self.read(self.head.fetch_add(ONE_POSITION, Ordering::SeqCst)));
        }
        values
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        drop(self.drain());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LARGEST, ONE_POSITION, Ring, Tried};

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
