//! The join word: which waiter waits for the end of a task, and which side drops its outcome.
//!
//! # States
//!
//! ```text
//! EMPTY --register--> waiter --take back--> EMPTY
//!   |                    |
//!   +------ finish ------+----> DONE       the handle, or the waiter, has the outcome
//!   +------ detach -----------> DETACHED   the finisher drops the outcome
//! ```
//!
//! There is one handle, so at most one waiter; the waker of an earlier poll is taken back first.
//! The swap to DONE decides: the waiter that stood in the word is the finisher's to wake, and may
//! not leave its wait before the wake has arrived. DONE and DETACHED are final. DONE is written
//! with `Release` and read with `Acquire`, which hands the outcome over.

use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::task::outcome::drop_quietly;
use crate::task::record::Record;
use crate::task::reference::WaiterRef;
use crate::task::thread_waiter::ThreadWaiter;
use std::ptr::NonNull;
use std::task::Waker;

const EMPTY: usize = 0;
const DONE: usize = 1;
const DETACHED: usize = 2;
const TAG: usize = 7;
const TASK: usize = 3;
const THREAD: usize = 4;
const WAKER: usize = 5;
const POOL_THREAD: usize = 6;

/// A waiter for the end of a task.
pub(crate) enum Waiter {
    /// A task.
    Task(WaiterRef),
    /// A thread; its record stays alive while it waits.
    Thread(*const ThreadWaiter),
    /// A thread that runs a blocking call of a task, which waits for that.
    PoolThread(*const ThreadWaiter),
    /// A future, by its waker, which is owned.
    Waker(Box<Waker>),
}

impl Waiter {
    fn encode(self) -> usize {
        match self {
            Waiter::Task(task) => task.into_pointer().as_ptr() as usize | TASK,
            Waiter::Thread(p) => p as usize | THREAD,
            Waiter::PoolThread(p) => p as usize | POOL_THREAD,
            Waiter::Waker(b) => Box::into_raw(b) as usize | WAKER,
        }
    }

    fn decode(word: usize) -> Option<Waiter> {
        let address = word & !TAG;
        match word & TAG {
            // SAFETY: as with the box below: the reference that `encode` gave up is ours, once.
            TASK => NonNull::new(address as *mut Record)
                .map(|task| Waiter::Task(unsafe { WaiterRef::from_pointer(task) })),
            THREAD => Some(Waiter::Thread(address as *const ThreadWaiter)),
            POOL_THREAD => Some(Waiter::PoolThread(address as *const ThreadWaiter)),
            WAKER => {
                // SAFETY: the word came out of the cell by a swap or a successful exchange, so the
                // box that `encode` leaked into it is ours, once.
                Some(Waiter::Waker(unsafe { Box::from_raw(address as *mut Waker) }))
            }
            _ => None,
        }
    }
}

/// The kind of waiter that is registered, as other parties see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Registered {
    /// No waiter, or the task has ended.
    Nobody,
    /// A task, to be compared but not followed, as it may be gone.
    Task(*const Record),
    Thread,
    PoolThread,
    Waker,
}

/// What the finisher found in the word.
pub(crate) enum Finished {
    /// No waiter; the handle will find DONE.
    Unclaimed,
    /// The handle is gone: the caller drops the outcome.
    Detached,
    /// The waiter, to be woken.
    Waiter(Waiter),
}

/// See the module's documentation.
pub(crate) struct JoinWord(AtomicUsize);

impl JoinWord {
    #[inline]
    pub(crate) fn new(detached: bool) -> Self {
        JoinWord(AtomicUsize::new(if detached { DETACHED } else { EMPTY }))
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // MUTANT(join.is_done): relaxed
        self.0.load(Ordering::Acquire) == DONE
    }

    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DETACHED
    }

    /// Returns the kind of the registered waiter.
    pub(crate) fn registered(&self) -> Registered {
        let word = self.0.load(Ordering::Relaxed);
        match word & TAG {
            TASK => Registered::Task((word & !TAG) as *const Record),
            THREAD => Registered::Thread,
            POOL_THREAD => Registered::PoolThread,
            WAKER => Registered::Waker,
            _ => Registered::Nobody,
        }
    }

    /// Records the end.
    pub(crate) fn finish(&self) -> Finished {
        // Relaxed: the handle has done nothing that the finisher would have to see.
        if self.0.load(Ordering::Relaxed) == DETACHED {
            return Finished::Detached;
        }
        // MUTANT(join.finish): acquire, release, split
        let before = self.0.swap(DONE, Ordering::AcqRel);
        if before == DETACHED {
            // `detach` was faster, and leaves the outcome to the finisher. The word is not read
            // again.
            return Finished::Detached;
        }
        match Waiter::decode(before) {
            Some(waiter) => Finished::Waiter(waiter),
            None => Finished::Unclaimed,
        }
    }

    /// Returns whether there is no waiter. The answer is final for a caller that has the handle and
    /// runs the task.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == EMPTY
    }

    /// Records the end for a caller that owns the handle and runs the task, so that no other thread
    /// looks at the word.
    pub(crate) fn finish_unshared(&self) {
        let before = self.0.load(Ordering::Acquire);
        if before != EMPTY {
            // A waker of an earlier poll of the handle that is being joined.
            discard(before);
        }
        self.0.store(DONE, Ordering::Release);
    }

    /// Registers the handle's waiter for a task that starts on the waiter's own worker, which
    /// neither of the two leaves. While the registration stands, no other thread changes the word,
    /// so this takes no locked instruction. The word must be [empty](JoinWord::is_empty).
    #[inline]
    pub(crate) fn register_at_home(&self, waiter: WaiterRef) {
        debug_assert!(self.is_empty());
        self.0.store(Waiter::Task(waiter).encode(), Ordering::Release);
    }

    /// Takes back a registration of `register_at_home` before the task has started.
    pub(crate) fn unregister_at_home(&self) {
        self.0.store(EMPTY, Ordering::Release);
    }

    /// Records the end for a waiter of `register_at_home` that is still registered. Called on that
    /// worker.
    #[inline]
    pub(crate) fn finish_at_home(&self) -> WaiterRef {
        let waiter = Waiter::decode(self.0.load(Ordering::Relaxed));
        self.0.store(DONE, Ordering::Release);
        match waiter {
            Some(Waiter::Task(waiter)) => waiter,
            _ => unreachable!("the joiner has registered"),
        }
    }

    /// Registers the handle's waiter. Gives it back if the task has ended.
    pub(crate) fn register(&self, waiter: Waiter) -> Result<(), Waiter> {
        let mut before = self.0.load(Ordering::Acquire);
        while before != EMPTY && before != DONE {
            // The waker of an earlier poll of the same handle. Its destructor may wait; that wait
            // is over before the caller's begins, so the grants of the two are not mixed up.
            // MUTANT(join.renew): split
            match self.0.compare_exchange(before, EMPTY, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    discard(before);
                    before = self.0.load(Ordering::Acquire);
                }
                Err(now) => before = now,
            }
        }
        if before == DONE {
            return Err(waiter);
        }
        let word = waiter.encode();
        // MUTANT(join.register): release, split
        match self.0.compare_exchange(EMPTY, word, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            // The task has ended: the caller has the only handle, so no other waiter can stand
            // here.
            Err(_) => Err(Waiter::decode(word).expect("just encoded")),
        }
    }

    /// Takes a registration back. Returns `false` if the finisher has it.
    pub(crate) fn take_back(&self) -> bool {
        self.replace(EMPTY)
    }

    /// Gives up the handle's claim to the outcome. Returns `false` if the task has ended; then the
    /// caller drops the outcome.
    pub(crate) fn detach(&self) -> bool {
        self.replace(DETACHED)
    }

    /// Discards what stands here, unless the task has ended.
    fn replace(&self, by: usize) -> bool {
        let by = |before| (before != DONE).then_some(by);
        // MUTANT(join.replace): split
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, by).map(discard).is_ok()
    }
}

/// Drops a registration that was taken out. A waker is foreign code, and its destructor may panic.
fn discard(word: usize) {
    drop_quietly(Waiter::decode(word));
}
