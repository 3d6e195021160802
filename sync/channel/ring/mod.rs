//! The ring of a channel with room. Values pass through it without a lock as long as no caller has
//! to wait, and the ring does not [overflow](super::overflow).
//!
//! After D. Vyukov's bounded queue for many producers and consumers (1024cores.net, 2010): each end
//! has a position that only grows, and each slot has a stamp that says for which position the slot
//! is free or filled. Two things are added: waiters can be granted *permits* (see
//! [`line`](super::line)), and each end sees whether the other end has waiters. The [layout of the
//! words](super::word) is described with them.
//!
//! The distance of the two positions is the number of values in the channel. It is never greater
//! than the capacity less the reserved places, and never smaller than the number of promised
//! values: a caller that moves a word has seen room, or a value, beside that very word, and the
//! other word can only move in its favour. So an earlier view of the other word suffices if it
//! shows room. (A ring that [overflows](super::overflow) may lack one promised value while the lock
//! is held.)
//!
//! # Contention
//!
//! A caller that finds an end uncontended moves its position by a compare-and-swap. If many callers
//! come at once, most of these fail, and each failure takes the word from a caller that would
//! succeed. So after a failure the end is *contended* for a while: each caller then claims a permit
//! by one addition, and uses it up by another. A claim that finds nothing is taken back. Until
//! then, other callers see a place or a value less, and one that enters a line in that time may be
//! left waiting. Therefore the claimer serves the line afterwards, as if it had freed something.
//!
//! A claimer may find, when it moves the tail, that the channel has been closed. Receivers may have
//! been told of the end by then, so the claimer leaves its slot *void*. A receiver that reads a
//! void slot finds no value.
//!
//! # Access rules
//!
//! * A slot belongs to the caller that has moved the position past it, until that caller writes the
//!   stamp. A caller that comes to the slot earlier waits for the stamp. This takes as long as
//!   moving a value does, or longer if the thread that moves it has been preempted.
//! * The lines, STRICT and the notices are changed under the lock, which is also held to grant a
//!   permit to a waiter. The one exception is the [seat](super::line): a notice that is 0 or the
//!   address of a node may be changed to the other by anybody.
//! * Any caller may move a position while STRICT is clear. The owner of a permit may do so at any
//!   time, and uses up the permit in the same step. Void slots are skipped, and `drain` empties the
//!   ring, whatever STRICT says.
//!
//! # No wake-up is lost
//!
//! A waiter is announced in the notice of its end, and also by STRICT if it is the first one and
//! may not be passed. Then it looks at the other end's position a last time. A caller that moves a
//! position looks at the other end's notice afterwards, and serves the line under the lock if more
//! is free than waiters have been called. The two updates and the two loads are all in the one
//! total order, so at least one of the two callers sees the other. The stamp is written after the
//! position, so the owner of a promised value may find it still on its way, and waits for the
//! stamp.
//!
//! Values that have overflowed wait for places just as senders do. Whoever has the lock announces
//! them, looks for places afterwards, and looks for waiting receivers when it has moved any.
//!
//! # Callers that only try
//!
//! STRICT may be set while more is free than the first waiter will take. A caller that only tries,
//! and sees a place or a value without a permit, asks for a permit itself, under the lock.
//!
//! # The end
//!
//! Closing sets CLOSED, and then takes the lock and serves both lines. Waiters that entered earlier
//! are told of the end, or find the receivers' line strict. Later ones see CLOSED.

mod overflowing;
mod slot;
pub(super) mod supply;

use super::end::End;
use super::errors::{Refused, Tried};
use super::line::{CALL_FROM_SEAT, MOVED, PASSES, Receivers, Senders, Side};
use super::word::{
    CLOSED, LARGEST, LineState, Notice, ONE_PERMIT, ONE_POSITION, STRICT, distance, permits,
};
use crate::scheduler::wait::waiters::{WaitNode, Wake};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Cell, load_in_total_order};
use crate::sync::passing::HOGS;
use slot::{Slot, VOID, filled, free};
use std::mem::MaybeUninit;
use std::ptr;

/// All slots are allocated at once, so they may take at most this many bytes.
const BYTES: usize = 1 << 20;
/// The bytes of a ring that overflows, and the fewest and the most slots. In a model it has one.
const SMALL_BYTES: usize = 1 << 11;
const FEWEST: usize = if cfg!(loom) { 1 } else { 8 };
const MOST: usize = if cfg!(loom) { 1 } else { 64 };
pub(super) struct Ring<T> {
    tail: End,
    head: End,
    capacity: i64,
    /// The channel has room for more values.
    overflows: bool,
    /// Their number is a power of two, so that a mask turns a position into an index.
    slots: Box<[Slot<T>]>,
}

// SAFETY: the ring owns its values, and `T: Send` lets them move to another thread.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: by the access rules of the module, a slot has one owner at a time, and only the owner
// touches its value. A value is moved in and out, and never borrowed, so `T: Send` suffices.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// Makes the ring of a channel with this capacity, or one that overflows, if the capacity is
    /// too large for its slots to be allocated at once. Returns `None` if the channel has no room.
    pub(super) fn new(capacity: usize) -> Option<Ring<T>> {
        if capacity == 0 {
            return None;
        }
        let slots = capacity.min(LARGEST).next_power_of_two();
        let bytes = slots.checked_mul(size_of::<Slot<T>>());
        if capacity <= LARGEST && bytes.is_some_and(|bytes| bytes <= BYTES) {
            return Some(Ring::starting_at(0, capacity, slots));
        }
        let most = (SMALL_BYTES / size_of::<Slot<T>>()).clamp(FEWEST, MOST);
        let slots = slots.min(1 << most.ilog2());
        let mut ring = Ring::starting_at(0, capacity.min(slots), slots);
        ring.overflows = capacity > slots;
        Some(ring)
    }

    /// Makes a ring that begins at the position of `start`, which is a multiple of the number of
    /// slots.
    fn starting_at(start: u64, capacity: usize, slots: usize) -> Ring<T> {
        let slot = |position: u64| Slot {
            stamp: AtomicU64::new(free(start.wrapping_add(position * ONE_POSITION))),
            value: Cell::new(MaybeUninit::uninit()),
        };
        Ring {
            tail: End::starting_at(start),
            head: End::starting_at(start),
            capacity: capacity as i64,
            overflows: false,
            slots: (0..slots as u64).map(slot).collect(),
        }
    }

    /// Returns the end of this side, and the end of the other.
    #[inline]
    fn ends<S: Side>(&self) -> (&End, &End) {
        if S::SENDS { (&self.tail, &self.head) } else { (&self.head, &self.tail) }
    }

    /// Returns whether the channel has room for more values.
    #[inline]
    pub(super) fn overflows(&self) -> bool {
        self.overflows
    }

    /// Returns how many places (senders) or values (receivers) there are by these words, that of
    /// the side and that of the other.
    #[inline]
    fn amount<S: Side>(&self, mine: u64, other: u64) -> i64 {
        if S::SENDS { self.capacity - distance(other, mine) } else { distance(mine, other) }
    }

    fn slot(&self, word: u64) -> &Slot<T> {
        let position = (word / ONE_POSITION) as usize;
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Moves a value into the slot of a position. The caller has moved the tail past it.
    fn write(&self, word: u64, value: T) {
        let slot = self.slot(word);
        slot.await_stamp(free(word));
        slot.value.set(MaybeUninit::new(value));
        // MUTANT(ring.stamp.filled): relaxed
        slot.stamp.store(filled(word), Ordering::Release);
    }

    /// Moves the value out of the slot of a position. The caller has moved the head past it.
    /// Returns `Missed` if the slot is void, which happens only on a closed channel.
    fn read(&self, word: u64) -> Tried<T> {
        let slot = self.slot(word);
        let is_void = slot.await_stamp(filled(word)) & VOID != 0;
        let value = (!is_void).then(|| slot.value.replace(MaybeUninit::uninit()));
        let lap = self.slots.len() as u64 * ONE_POSITION;
        // MUTANT(ring.stamp.free): relaxed
        slot.stamp.store(free(word.wrapping_add(lap)), Ordering::Release);
        // SAFETY: the stamp says that the slot is filled and not void, so there is a value. Only
        // one caller moves the head past the position, so the value is taken out once.
        value.map(|value| unsafe { value.assume_init() }).ok_or(Refused::Missed)
    }

    /// Returns whether there is a place or a value without a permit, judged by this word of the
    /// side.
    #[inline]
    fn has<S: Side>(&self, word: u64) -> bool {
        let (mine, other) = self.ends::<S>();
        let has = |other| self.amount::<S>(word, other) > permits(word);
        if S::SENDS {
            return mine.sees(other, has);
        }
        let stamp = &self.slot(word).stamp;
        if permits(word) == 0 && stamp.load(Ordering::Acquire) == filled(word) {
            return true;
        }
        has(mine.load_other(other))
    }

    /// Moves the position of the side on, if something is free and no waiter must have it first.
    /// Returns the word before, whose slot belongs to the caller then. `Later` stands for whatever
    /// [`why`](Ring::why) says.
    #[inline]
    fn advance<S: Side>(&self) -> Tried<u64> {
        let (mine, _) = self.ends::<S>();
        if mine.is_contended() {
            return Err(Refused::Missed);
        }
        let word = mine.word.load(Ordering::Relaxed);
        if word & (CLOSED | STRICT) != 0 || !self.has::<S>(word) {
            return Err(Refused::Later);
        }
        let new = word.wrapping_add(ONE_POSITION);
        // MUTANT(ring.advance): relaxed, split
        match mine.word.compare_exchange(word, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => Ok(word),
            Err(_) => {
                mine.contend();
                Err(Refused::Missed)
            }
        }
    }

    /// Puts a value in, if there is a place and no waiter must have it first. Empties `value` on
    /// success.
    #[inline]
    pub(super) fn try_put(&self, value: &mut Option<T>) -> Tried<()> {
        let tail = self.advance::<Senders>()?;
        self.write(tail, value.take().expect("a value is put once"));
        Ok(())
    }

    /// Takes a value out, if there is one without a permit and no waiter must have it first.
    #[inline]
    pub(super) fn try_take(&self) -> Tried<T> {
        self.read(self.advance::<Receivers>()?)
    }

    /// Reserves a place, or promises a value, to the caller, by one update however many callers
    /// come at once. If this fails, the caller serves the waiters of its side.
    pub(super) fn claim<S: Side>(&self) -> bool {
        let (mine, _) = self.ends::<S>();
        mine.claim(|word| word & (CLOSED | STRICT) == 0 && self.has::<S>(word))
    }

    /// Returns why the position of the side was not moved.
    #[inline]
    pub(super) fn why<S: Side>(&self) -> Refused {
        let (mine, other) = self.ends::<S>();
        let word = load_in_total_order(&*mine.word);
        let seen = mine.load_other(other);
        match self.amount::<S>(word, seen) {
            amount if (word | seen) & CLOSED != 0 && (S::SENDS || amount == 0) => Refused::Closed,
            amount if amount <= permits(word) => {
                // By the same look at the tail: values move from beyond the ring into it.
                let has_overflowed = !S::SENDS && self.overflows && seen & STRICT != 0;
                if has_overflowed { Refused::Beyond } else { Refused::Later }
            }
            _ if word & STRICT != 0 => Refused::Behind,
            _ => Refused::Missed,
        }
    }

    /// Returns whether the position of the side might be moved, or never will be again.
    #[inline]
    pub(super) fn has_news<S: Side>(&self) -> bool {
        !matches!(self.why::<S>(), Refused::Later)
    }

    /// Puts the value of the cell in, or takes one out into the cell, with a permit, which is used
    /// up. Puts nothing if the channel has been closed.
    pub(super) fn by_permit<S: Side>(&self, cell: &mut Option<T>) -> Tried<()> {
        let (mine, _) = self.ends::<S>();
        // MUTANT(ring.by_permit): split
        let word = mine.word.fetch_add(ONE_POSITION - ONE_PERMIT, Ordering::SeqCst);
        if !S::SENDS {
            *cell = Some(self.read(word)?);
            return Ok(());
        }
        if word & CLOSED != 0 {
            // Receivers may have been told of the end.
            let slot = self.slot(word);
            slot.await_stamp(free(word));
            slot.stamp.store(filled(word) | VOID, Ordering::Release);
            self.skip_void();
            return Err(Refused::Closed);
        }
        self.write(word, cell.take().expect("a value is put once"));
        Ok(())
    }

    /// Frees the void slots at the head, as long as no permit is out: there may be no receiver left
    /// to do so.
    fn skip_void(&self) {
        loop {
            let head = load_in_total_order(&*self.head.word);
            let is_void = self.slot(head).stamp.load(Ordering::Acquire) == filled(head) | VOID;
            if permits(head) > 0 || !is_void {
                return;
            }
            if self.pass(head) {
                let void = self.read(head);
                debug_assert!(void.is_err(), "there is a value in a void slot");
            }
        }
    }

    /// Moves the head past the next slot, if it still equals `head`.
    fn pass(&self, head: u64) -> bool {
        let new = head.wrapping_add(ONE_POSITION);
        let (done, seen) = (Ordering::SeqCst, Ordering::Relaxed);
        // MUTANT(ring.pass): split
        self.head.word.compare_exchange(head, new, done, seen).is_ok()
    }

    /// Returns whether a caller of the other side, which has freed a place or put a value in, has
    /// to serve the waiters of this side.
    #[inline]
    pub(super) fn calls<S: Side>(&self) -> bool {
        let (mine, other) = self.ends::<S>();
        let line = mine.waiters.read();
        line.waits()
            && (line.seated::<S>().is_some() || {
                let moved = load_in_total_order(&*other.word);
                // An upper bound: since the other side saw the word of this side, it can only have
                // moved on.
                let seen = other.other_seen.load(Ordering::Relaxed);
                is_to_be_served(line, moved, self.amount::<S>(seen, moved), || {
                    let now = other.load_other(mine);
                    self.amount::<S>(now, moved) - permits(now)
                })
            })
    }

    /// Gives a value to the receiver in the seat, if no other value comes before it and no sender
    /// waits. Otherwise calls the receiver. Empties `value` and returns `true` on success.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&self, node: *const WaitNode, value: &mut Option<T>) -> bool {
        if !self.head.waiters.take::<Receivers>(node) {
            return false;
        }
        // Not before the receiver is taken: it might be told of the end meanwhile, and sit down
        // again.
        let tail = load_in_total_order(&*self.tail.word);
        // MUTANT(ring.hand_over.closed): with true
        let may_put = tail & (CLOSED | STRICT) == 0;
        // The same position: the ring is empty.
        // MUTANT(ring.hand_over.empty): with true
        let is_next = (load_in_total_order(&*self.head.word) ^ tail) < ONE_POSITION;
        // What is handed over moves no position, so it would pass them for ever.
        // MUTANT(ring.hand_over.passes): with false
        let passes = self.tail.waiters.read().waits();
        let hands_over = may_put && is_next && !passes;
        if !hands_over {
            self.call::<Receivers>(node).deliver();
            return false;
        }
        // SAFETY: this call has taken the node out of its seat, so its waiter stays until the wake
        // is delivered, and does not use its cell before. A receiver in the seat has a cell for a
        // value of this channel, and none in it.
        unsafe {
            ptr::write((*node).cell.get().cast(), value.take());
            WaitNode::grant_seated(node, MOVED).deliver();
        }
        true
    }

    /// Calls the waiter in the seat of the side, if there is one.
    pub(super) fn call_seated<S: Side>(&self) -> Option<Wake> {
        let waiters = self.seat::<S>();
        let node = waiters.read().seated::<S>()?;
        waiters.take::<S>(node).then(|| self.call::<S>(node))
    }

    /// Calls a waiter that the caller has taken out of the seat of the side.
    fn call<S: Side>(&self, node: *const WaitNode) -> Wake {
        let (mine, other) = self.ends::<S>();
        // With a flag, as 0 means that nobody is on the way.
        let since = other.word.load(Ordering::Relaxed) | STRICT;
        mine.called_since.store(since, Ordering::Relaxed);
        // SAFETY: the caller has taken the node out of its seat.
        unsafe { WaitNode::grant_seated(node, CALL_FROM_SEAT) }
    }

    /// Notes that a waiter which was called from the seat has come, or never will.
    #[inline]
    pub(super) fn came_from_seat<S: Side>(&self) {
        self.ends::<S>().0.called_since.store(0, Ordering::Relaxed);
    }

    /// Returns whether a waiter that was called from the seat has been passed so often that the
    /// caller should let others of its executor run.
    pub(super) fn is_hogged<S: Side>(&self) -> bool {
        let (mine, other) = self.ends::<S>();
        let since = mine.called_since.load(Ordering::Relaxed);
        // MUTANT(ring.hogged): false
        since != 0 && distance(since, other.word.load(Ordering::Relaxed)) >= HOGS.into()
    }

    pub(super) fn seat<S: Side>(&self) -> &Notice {
        &self.ends::<S>().0.waiters
    }

    /// Returns whether a receiver waits.
    pub(super) fn receivers_wait(&self) -> bool {
        self.head.waiters.read().waits()
    }

    /// Makes both ends contended.
    #[cfg(test)]
    pub(super) fn contend(&self) {
        self.tail.contend();
        self.head.contend();
    }

    /// Returns whether many callers of the side come at once.
    pub(super) fn many<S: Side>(&self) -> bool {
        self.ends::<S>().0.is_contended()
    }

    /// Refuses all further puts. The caller then serves both lines.
    pub(super) fn close(&self) {
        // MUTANT(ring.close): split
        self.tail.word.fetch_or(CLOSED, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        load_in_total_order(&*self.tail.word) & CLOSED != 0
    }

    pub(super) fn len(&self) -> usize {
        // The head first: in the other order the length would often come out negative.
        let head = load_in_total_order(&*self.head.word);
        let len = distance(head, load_in_total_order(&*self.tail.word));
        // Between the two loads, values may have been taken and others put.
        len.clamp(0, self.capacity).unsigned_abs() as usize
    }

    /// Takes out all values. Used when the last receiver is gone, which may have left permits
    /// unused, and when the ring is dropped. A late sender may skip its void slot at the same time.
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

/// Returns whether a caller that has moved the word of one end has to serve the line of the other
/// end, given the notice of that line: if it is strict, if too many values have passed it, or if
/// more is `free` than waiters have been called. `free` is not evaluated if `most`, an upper bound
/// of its result, is no more than that. A negative `most` says nothing: it was computed from a
/// position seen so long ago that the positions have wrapped around.
fn is_to_be_served(line: LineState, word: u64, most: i64, free: impl FnOnce() -> i64) -> bool {
    line.is_strict()
        || line.passed(word) >= PASSES
        || !(0..=line.called()).contains(&most) && free() > line.called()
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        drop(self.drain());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::word::{LARGEST, ONE_POSITION};
    use super::{Refused, Ring};

    #[test]
    fn positions_wrap_around() {
        for capacity in [1, 3, 4] {
            let slots = 4;
            let ring =
                Ring::starting_at(0u64.wrapping_sub(slots as u64 * ONE_POSITION), capacity, slots);
            let mut received = 0;
            for sent in 0..100 {
                if let Err(Refused::Later) = ring.try_put(&mut Some(sent)) {
                    assert_eq!(ring.len(), capacity);
                    let Ok(value) = ring.try_take() else { panic!("the ring is full") };
                    assert_eq!(value, received);
                    received += 1;
                    assert!(ring.try_put(&mut Some(sent)).is_ok());
                }
                assert_eq!(ring.len(), sent + 1 - received);
            }
            assert_eq!(ring.drain(), (received..100).collect::<Vec<_>>());
            assert!(matches!(ring.try_take(), Err(Refused::Later)));
        }
    }

    #[test]
    fn a_ring_that_cannot_be_allocated_at_once_overflows() {
        for capacity in [1, 2, 3, 1024, LARGEST] {
            assert!(!Ring::<u64>::new(capacity).unwrap().overflows(), "{capacity}");
        }
        for capacity in [LARGEST + 1, usize::MAX - 1, usize::MAX] {
            assert!(Ring::<u64>::new(capacity).unwrap().overflows(), "{capacity}");
        }
        assert!(Ring::<[u8; 4096]>::new(1024).unwrap().overflows());
        let large = Ring::<[u8; 300 << 10]>::new(3).unwrap();
        assert_eq!((large.overflows(), large.slots.len()), (false, 4), "as many as are needed");
        assert!(Ring::<u64>::new(0).is_none());
    }
}
