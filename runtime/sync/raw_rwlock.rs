//! The lock of an [`RwLock`](super::RwLock): how many read, whether one writes, and those who wait.
//!
//! The word is the number of readers and two flags. As long as QUEUED is not set everybody enters by a compare-and-swap. It is
//! set under the lock of the queue, by who is about to enter that, and then nobody enters but by being granted, from
//! the front of the queue: a writer alone, readers as many as stand there together. So neither is starved, and the order
//! is that of coming.
//!
//! Who leaves takes itself off the word first, by one update. If that leaves it free, and QUEUED was set, it takes the
//! lock of the queue and serves it. Two may come to that one after the other; the later one finds what there is to do, or
//! nothing. Nobody is forgotten: who enters the queue has set QUEUED in the very word in which it saw somebody
//! inside, and the last of those sees it when it leaves.

use crate::scheduler::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::{Mutex, MutexGuard, const_fn};
use std::sync::PoisonError;

/// Somebody is in the queue.
const QUEUED: usize = 1;
const WRITER: usize = 2;
const READER: usize = 4;
/// So many readers the word has room for; the rest is for those who would overflow it at the same moment.
const MOST: usize = usize::MAX / 2;

/// What a node asks for.
pub(super) const READ: u64 = 0;
pub(super) const WRITE: u64 = 1;

pub(super) struct RawRwLock {
    word: AtomicUsize,
    queue: Mutex<WaitList>,
}

impl RawRwLock {
    const_fn! {
        pub(super) const fn new() -> RawRwLock {
            RawRwLock { word: AtomicUsize::new(0), queue: Mutex::new(WaitList::new()) }
        }
    }

    /// Enters, if nobody is inside that excludes it, and nobody waits.
    #[inline(always)]
    pub(super) fn try_lock(&self, what: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while let Some(new) = entered(word, what) {
            // PROOF(rwlock.lock): relaxed, split
            match self.word.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Leaves.
    ///
    /// # Safety
    /// The caller is inside, as that.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self, what: u64) {
        let mine = if what == WRITE { WRITER } else { READER };
        // PROOF(rwlock.unlock): relaxed, split
        let before = self.word.fetch_sub(mine, Ordering::Release);
        if before - mine == QUEUED {
            self.serve_queue();
        }
    }

    /// A writer becomes a reader; others who wait to read behind nobody come in, too.
    ///
    /// # Safety
    /// The caller is inside, as a writer.
    pub(super) unsafe fn downgrade(&self) {
        // PROOF(rwlock.downgrade): relaxed, split
        let before = self.word.fetch_add(READER - WRITER, Ordering::Release);
        if before & QUEUED != 0 {
            self.serve_queue();
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_queue(&self) {
        let mut wakes = Wakes::default();
        let mut queue = self.state();
        self.serve(&mut queue, &mut wakes);
        drop(queue);
        wakes.deliver();
    }

    /// Grants from the front of the queue what can be. Under its lock.
    fn serve(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        while let Some(what) = queue.first().map(|first| first.token.get()) {
            // Others leave meanwhile; nobody else enters.
            let word = self.word.load(Ordering::Relaxed);
            let (free, mine) = match what {
                WRITE => (word & !QUEUED == 0, WRITER),
                _ => (word & WRITER == 0 && word < MOST, READER),
            };
            if !free {
                return;
            }
            // Acquire: what those who have left did. The grant carries it on.
            // PROOF(rwlock.serve): relaxed, split
            self.word.fetch_add(mine, Ordering::Acquire);
            queue.grant_first(0).into_iter().for_each(|wake| wakes.add(wake));
        }
        // PROOF(rwlock.served): split
        self.word.fetch_and(!QUEUED, Ordering::Relaxed);
    }

    /// How many read; nothing if one writes.
    pub(super) fn readers(&self) -> Option<usize> {
        let word = self.word.load(Ordering::Relaxed);
        (word & WRITER == 0).then_some(word / READER)
    }
}

/// The word when one has entered, if that is possible.
#[inline(always)]
fn entered(word: usize, what: u64) -> Option<usize> {
    match what {
        WRITE => (word == 0).then_some(WRITER),
        _ => (word & (WRITER | QUEUED) == 0 && word < MOST).then(|| word + READER),
    }
}

impl Waitable for RawRwLock {
    type State = WaitList;

    fn what(&self) -> &'static str {
        "a reader-writer lock"
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, _: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let inside = entered(word, node.token.get());
            let new = inside.unwrap_or(word | QUEUED);
            // PROOF(rwlock.enter): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return inside.map(|_| 0),
                Err(now) => word = now,
            }
        }
    }

    fn left(&self, queue: &mut WaitList, wakes: &mut Wakes) {
        // A writer that has gone may have kept readers waiting.
        // PROOF(rwlock.left): skip
        self.serve(queue, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        // SAFETY: it was granted to the node.
        unsafe { self.unlock(node.token.get()) };
    }
}
