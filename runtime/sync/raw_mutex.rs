//! The lock of a [`Mutex`](super::Mutex): a word that says who holds it, and those who wait.
//!
//! # The word
//!
//! ```text
//! FREE <--lock, unlock--> holder --who comes--> holder | QUEUED --unlock--> first of the queue (| QUEUED)
//!                                                     |
//!                                                     +--unlock, nobody is left--> FREE
//! ```
//!
//! FREE becomes a holder, and a holder FREE, by a compare-and-swap of whoever it is. QUEUED is set under the lock of the
//! queue by who is about to enter it, and from then on only the holder changes the word, under that lock: it hands over to
//! the first of the queue, which **is** the holder from that moment on, long before it runs. So nobody can come in between,
//! and the order is that of coming.
//!
//! * No wake-up is lost: who enters the queue has set QUEUED under its lock. An unlock before that leaves FREE, which the
//!   same compare-and-swap finds; one after it fails to make it FREE, and takes the lock of the queue.
//! * The last one that leaves the queue without a grant leaves QUEUED behind: the next unlock finds nobody, and makes it FREE.
//! * Orderings: FREE is written with release and taken with acquire. A hand-over is carried by the grant (see
//!   `scheduler/waiters`); the word is only a name then.

use super::holder::Holder;
use crate::scheduler::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Bug, Mutex, MutexGuard, const_fn, has};
use std::sync::PoisonError;

const FREE: u64 = 0;
/// Somebody is in the queue, or was.
const QUEUED: u64 = 1;

pub(super) struct RawMutex {
    word: AtomicU64,
    queue: Mutex<WaitList>,
}

impl RawMutex {
    const_fn! {
        pub(super) const fn new() -> RawMutex {
            RawMutex { word: AtomicU64::new(FREE), queue: Mutex::new(WaitList::new()) }
        }
    }

    /// Takes it if it is free.
    #[inline(always)]
    pub(super) fn try_lock(&self, holder: Holder) -> bool {
        // PROOF(mutex.lock): relaxed, split
        self.word
            .compare_exchange(FREE, holder.number(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives it to the next, or makes it free.
    ///
    /// # Safety
    /// The holder holds it.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self, holder: Holder) {
        let word = holder.number();
        // PROOF(mutex.unlock): relaxed, split
        if self.word.compare_exchange(word, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.hand_over();
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_over(&self) {
        let mut queue = self.state();
        let next = queue.first().map(|next| next.token.get());
        let wake = queue.grant_first(0);
        let word = match next {
            None => FREE,
            Some(_) if has(Bug::DoubleGrant) && queue.is_empty() => FREE,
            Some(next) if queue.is_empty() => next,
            Some(next) => next | QUEUED,
        };
        // PROOF(mutex.hand_over): relaxed
        self.word.store(word, Ordering::Release);
        drop(queue);
        if let Some(wake) = wake {
            wake.deliver();
        }
    }

    /// Who holds it.
    pub(super) fn holder(&self) -> Option<Holder> {
        let word = self.word.load(Ordering::Relaxed);
        (word != FREE).then(|| Holder::from_number(word & !QUEUED))
    }
}

impl Waitable for RawMutex {
    type State = WaitList;

    fn what(&self) -> &'static str {
        "a mutex"
    }

    fn owner(&self) -> Option<String> {
        self.holder().map(|holder| format!("{holder:?}"))
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
            let new = match word {
                FREE => node.token.get(),
                _ if word & QUEUED != 0 => return None,
                _ => word | QUEUED,
            };
            // PROOF(mutex.enter): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return (word == FREE).then_some(0),
                Err(now) => word = now,
            }
        }
    }

    fn give_back(&self, node: &WaitNode) {
        if has(Bug::LeakedLock) {
            return;
        }
        // SAFETY: it was handed over to the node.
        unsafe { self.unlock(Holder::from_number(node.token.get())) };
    }
}
