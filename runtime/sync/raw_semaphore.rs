//! The count of a [`Semaphore`](super::Semaphore), and those who wait for a part of it.
//!
//! The word is the number of free permits and two flags. As long as QUEUED is not set everybody changes it by a
//! compare-and-swap. QUEUED is set under the lock of the queue, by who is about to enter it, and from then on the word is
//! changed under that lock alone; who gives permits back serves the queue from its front, as far as they go, and takes
//! QUEUED away with the last of it. So nobody comes past those who wait, and one that asks for many is not starved by those who
//! ask for few. A permit that is given back before QUEUED was set is seen by who sets it; afterwards it comes by way of the lock.

use crate::scheduler::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::{Mutex, MutexGuard, const_fn};
use std::sync::PoisonError;

/// Somebody is in the queue.
const QUEUED: usize = 1;
/// Nobody gets any more.
const SHUT: usize = 2;
const ONE: usize = 4;

/// The answer to who has got what it asked for, and to who has not.
pub(super) const GRANTED: u32 = 0;
pub(super) const CLOSED: u32 = 1;

pub(super) struct RawSemaphore {
    word: AtomicUsize,
    queue: Mutex<WaitList>,
}

impl RawSemaphore {
    /// So many permits there may be.
    pub(super) const MOST: usize = usize::MAX / ONE;

    const_fn! {
        /// For at most `MOST`.
        pub(super) const fn new(permits: usize) -> RawSemaphore {
            RawSemaphore {
                word: AtomicUsize::new(permits * ONE),
                queue: Mutex::new(WaitList::new()),
            }
        }
    }

    pub(super) fn free(&self) -> usize {
        self.word.load(Ordering::Relaxed) / ONE
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & SHUT != 0
    }

    /// Takes so many, if they are there and nobody waits.
    #[inline]
    pub(super) fn try_acquire(&self, permits: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // Who asks for none passes by nobody.
            let passes = word & QUEUED != 0 && permits > 0;
            if word & SHUT != 0 || passes || word / ONE < permits {
                return false;
            }
            let new = word - permits * ONE;
            // PROOF(semaphore.acquire): relaxed, split
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Adds so many, and serves those who wait; false if there would be more than `MOST`.
    #[inline]
    pub(super) fn release(&self, permits: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & QUEUED == 0 {
            let Some(new) = add(word, permits) else { return false };
            // PROOF(semaphore.release): relaxed, split
            match self.word.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        self.release_to_queue(permits)
    }

    #[cold]
    #[inline(never)]
    fn release_to_queue(&self, permits: usize) -> bool {
        let mut wakes = Wakes::default();
        let mut queue = self.state();
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let Some(new) = add(word, permits) else { return false };
            // Others change it if the queue has become empty meanwhile.
            // PROOF(semaphore.queue): acquire, split
            match self.word.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word & QUEUED != 0 {
            self.serve(&mut queue, &mut wakes);
        }
        drop(queue);
        wakes.deliver();
        true
    }

    /// Grants from the front of the queue what is there. Under its lock, with QUEUED set.
    fn serve(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(first) = queue.first() {
            let asked = first.token.get() as usize * ONE;
            let answer = match word {
                _ if word & SHUT != 0 => CLOSED,
                _ if word >= asked => GRANTED,
                _ => break,
            };
            if answer == GRANTED {
                word -= asked;
            }
            queue.grant_first(answer).into_iter().for_each(|wake| wakes.add(wake));
        }
        if queue.is_empty() {
            word &= !QUEUED;
        }
        // Release: what came with the permits that are left.
        // PROOF(semaphore.serve): relaxed
        self.word.store(word, Ordering::Release);
    }

    /// Grants nobody anything any more.
    pub(super) fn close(&self) {
        let mut wakes = Wakes::default();
        let mut queue = self.state();
        // With it, so that nobody else changes the word.
        // PROOF(semaphore.close): split
        self.word.fetch_or(SHUT | QUEUED, Ordering::AcqRel);
        self.serve(&mut queue, &mut wakes);
        drop(queue);
        wakes.deliver();
    }
}

/// The word with so many more permits.
#[inline(always)]
fn add(word: usize, permits: usize) -> Option<usize> {
    permits.checked_mul(ONE).and_then(|permits| word.checked_add(permits))
}

impl Waitable for RawSemaphore {
    type State = WaitList;

    fn what(&self) -> &'static str {
        "permits of a semaphore"
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, _: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let asked = node.token.get() as usize * ONE;
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (new, answer) = match word {
                _ if word & SHUT != 0 => return Some(CLOSED),
                _ if asked == 0 => return Some(GRANTED),
                _ if word & QUEUED != 0 => return None,
                _ if word >= asked => (word - asked, Some(GRANTED)),
                _ => (word | QUEUED, None),
            };
            // PROOF(semaphore.enter): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return answer,
                Err(now) => word = now,
            }
        }
    }

    fn left(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        // What was left over for the one that has gone may do for the next.
        // PROOF(semaphore.left): skip
        self.serve(queue, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        if node.answer() == GRANTED {
            // Where so many were added meanwhile that there is no room, they stay away, as those of a permit do.
            let _ = self.release(node.token.get() as usize);
        }
    }
}
