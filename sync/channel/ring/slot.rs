//! A slot of a [`Ring`](super::Ring), and its stamp. The ring says who may touch it when.

use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::time::Duration;
use crate::shim::{Cell, spin_loop, thread};
use crate::sync::channel::word::ONE_POSITION;
use std::mem::MaybeUninit;

/// Looks before the thread yields between two looks.
const POLITE: u32 = 64;
/// Looks before the thread sleeps between two looks, and the length of that sleep.
const PATIENT: u32 = 1_000;
const NAP: Duration = Duration::from_micros(50);

/// Flag of a stamp that says filled: the slot has no value, and will get none.
pub(super) const VOID: u64 = 1 << 63;

pub(super) struct Slot<T> {
    /// The position for which the slot is free or filled, as encoded by `free` and `filled`.
    pub(super) stamp: AtomicU64,
    pub(super) value: Cell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    /// Waits until the stamp equals `stamp`, apart from VOID, and returns it.
    #[inline]
    pub(super) fn await_stamp(&self, stamp: u64) -> u64 {
        // MUTANT(ring.stamp.read): relaxed
        let now = self.stamp.load(Ordering::Acquire);
        if now & !VOID == stamp { now } else { self.keep_looking(stamp) }
    }

    #[cold]
    fn keep_looking(&self, stamp: u64) -> u64 {
        look_until(|| {
            let now = self.stamp.load(Ordering::Acquire);
            (now & !VOID == stamp).then_some(now)
        })
    }
}

/// Calls `look` until it returns something. Another thread is about to see to that.
pub(super) fn look_until<R>(mut look: impl FnMut() -> Option<R>) -> R {
    let mut turns = 0;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        match turns {
            0..POLITE => spin_loop(),
            POLITE..PATIENT => thread::yield_now(),
            // This thread may have preempted the other one, if its priority is higher.
            _ => thread::sleep(NAP),
        }
        turns = turns.saturating_add(1);
    }
}

/// Returns the stamp of a slot that is free for the position in the word.
pub(super) fn free(word: u64) -> u64 {
    word / ONE_POSITION * 2
}

/// Returns the stamp of a slot that holds the value of the position in the word.
pub(super) fn filled(word: u64) -> u64 {
    free(word) + 1
}
