//! What a [`Ring`] has for the waiters of one side: its places, or its values.

use super::Ring;
use crate::scheduler::wait::waiters::WaitNode;
use crate::shim::atomic::Ordering;
use crate::shim::load_in_total_order;
use crate::sync::channel::line::{Side, Supply};
use crate::sync::channel::word::{CLOSED, LineState, ONE_PERMIT, permits};
use std::marker::PhantomData;

/// A ring as the [`Supply`] of one side.
pub(in crate::sync::channel) struct OfRing<'a, T, S> {
    pub(in crate::sync::channel) ring: &'a Ring<T>,
    /// How many values have overflowed.
    pub(in crate::sync::channel) beyond: usize,
    pub(in crate::sync::channel) side: PhantomData<S>,
}

impl<T, S: Side> Supply for OfRing<'_, T, S> {
    fn free(&self) -> usize {
        let (mine, other) = self.ring.ends::<S>();
        let word = load_in_total_order(&*mine.word);
        let amount = self.ring.amount::<S>(word, load_in_total_order(&*other.word));
        (amount - permits(word)).max(0).unsigned_abs() as usize
    }

    fn set_aside(&mut self) -> bool {
        let (mine, _) = self.ring.ends::<S>();
        mine.claim(|word| word & CLOSED == 0 && self.ring.has::<S>(word))
    }

    fn take_back(&mut self) {
        self.ring.ends::<S>().0.word.fetch_sub(ONE_PERMIT, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        // In this order: a closed ring that is found empty stays empty.
        self.ring.is_closed() && (S::SENDS || self.ring.len() == 0)
    }

    fn is_strict(&self) -> bool {
        !S::SENDS && self.ring.is_closed()
    }

    fn beyond(&self) -> usize {
        if S::SENDS { 0 } else { self.beyond }
    }

    fn grants_at_once(&self) -> bool {
        S::SENDS || !self.ring.overflows
    }

    fn position(&self) -> u64 {
        self.ring.ends::<S>().1.word.load(Ordering::Relaxed)
    }

    fn block_seat(&mut self) -> Option<*const WaitNode> {
        self.ring.seat::<S>().block_seat().seated::<S>()
    }

    fn announce(&self, line: LineState) {
        let (mine, _) = self.ring.ends::<S>();
        mine.set_strict(line.is_strict());
        mine.waiters.write(line);
    }
}
