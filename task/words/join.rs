//! The join word: who waits for the end of a task, and who disposes of its result.
//!
//! # States
//!
//! ```text
//! EMPTY --register--> waiter --take back--> EMPTY
//!   |                    |
//!   +------ finish ------+----> DONE       the handle (or the waiter) disposes of the result
//!   +------ detach -----------> DETACHED   the finisher disposes of the result
//! ```
//!
//! There is one handle, so one waiter at most: a waker of an earlier poll is taken back first. The swap to DONE decides: whoever stood in the
//! word then is the finisher's to wake, and may not leave its wait before the wake has arrived.
//! DONE and DETACHED are final. Writing DONE is `Release` and reading it `Acquire`: they hand the
//! result over.

use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::task::outcome::{drop_payload, quietly};
use crate::task::record::Record;
use crate::task::thread_waiter::ThreadWaiter;
use std::task::Waker;

const EMPTY: usize = 0;
const DONE: usize = 1;
const DETACHED: usize = 2;
const TAG: usize = 7;
const TASK: usize = 3;
const THREAD: usize = 4;
const WAKER: usize = 5;

/// One that waits for the end of a task.
pub(crate) enum Waiter {
    /// A task; it stays alive while it waits.
    Task(*const Record),
    /// A thread; its record stays alive while it waits.
    Thread(*const ThreadWaiter),
    /// Anything else, by its waker, owned.
    Waker(Box<Waker>),
}

impl Waiter {
    fn encode(self) -> usize {
        match self {
            Waiter::Task(p) => p as usize | TASK,
            Waiter::Thread(p) => p as usize | THREAD,
            Waiter::Waker(b) => Box::into_raw(b) as usize | WAKER,
        }
    }

    fn decode(word: usize) -> Option<Waiter> {
        let address = word & !TAG;
        match word & TAG {
            TASK => Some(Waiter::Task(address as *const Record)),
            THREAD => Some(Waiter::Thread(address as *const ThreadWaiter)),
            WAKER => {
                // SAFETY: the word came out of the cell by a swap or a successful exchange, so the
                // box that `encode` leaked into it is ours, once.
                Some(Waiter::Waker(unsafe { Box::from_raw(address as *mut Waker) }))
            }
            _ => None,
        }
    }
}

/// What a finisher found.
pub(crate) enum Finished {
    /// Nobody waits yet; the handle will find DONE.
    Unclaimed,
    /// The handle is gone: the caller disposes of the result.
    Detached,
    /// This one is to be woken.
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

    /// The task that is registered, to be compared and not followed: it may be gone already.
    pub(crate) fn waiting_task(&self) -> Option<*const Record> {
        let word = self.0.load(Ordering::Relaxed);
        (word & TAG == TASK).then_some((word & !TAG) as *const Record)
    }

    /// Marks the end.
    pub(crate) fn finish(&self) -> Finished {
        // The handle has left nothing that who disposes of the result would have to see.
        if self.0.load(Ordering::Relaxed) == DETACHED {
            return Finished::Detached;
        }
        // MUTANT(join.finish): acquire, release, split
        let before = self.0.swap(DONE, Ordering::AcqRel);
        if before == DETACHED {
            // Lost the race against `detach`, which leaves the result to us; nobody reads the
            // word any more.
            return Finished::Detached;
        }
        match Waiter::decode(before) {
            Some(waiter) => Finished::Waiter(waiter),
            None => Finished::Unclaimed,
        }
    }

    /// Whether nobody waits. Final for a caller who has the handle and runs the task.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == EMPTY
    }

    /// Marks the end where nobody else can look: the caller owns the handle and runs the task.
    pub(crate) fn finish_unshared(&self) {
        let before = self.0.load(Ordering::Acquire);
        if before != EMPTY {
            // A waker of an earlier poll of the handle that is being joined.
            discard(before);
        }
        self.0.store(DONE, Ordering::Release);
    }

    /// Registers the handle's waiter where it is known that this task is started on the waiter's own
    /// worker, and neither leaves it: as long as the registration stands nobody else changes the word,
    /// which takes no locked instruction. For a word that [is empty](JoinWord::is_empty).
    #[inline]
    pub(crate) fn register_at_home(&self, waiter: *const Record) {
        debug_assert!(self.is_empty());
        self.0.store(Waiter::Task(waiter).encode(), Ordering::Release);
    }

    /// Takes such a registration back before the task is started.
    pub(crate) fn unregister_at_home(&self) {
        self.0.store(EMPTY, Ordering::Release);
    }

    /// Marks the end for one who has registered at home and is still there. On that worker.
    #[inline]
    pub(crate) fn finish_at_home(&self) -> *const Record {
        let waiter = self.waiting_task().expect("the joiner has registered");
        self.0.store(DONE, Ordering::Release);
        waiter
    }

    /// Registers the handle's waiter; gives it back if the task has ended.
    pub(crate) fn register(&self, waiter: Waiter) -> Result<(), Waiter> {
        let mut before = self.0.load(Ordering::Acquire);
        while before != EMPTY && before != DONE {
            // A waker of an earlier poll of the same handle. Its destructor may wait itself, which is over
            // before the caller's wait begins: the grants of two waits must not be mixed up.
            // MUTANT(join.replace): split
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
            // The end: there is one handle, and it is in the caller's hand.
            Err(_) => Err(Waiter::decode(word).expect("just encoded")),
        }
    }

    /// Takes a registration back; false if the finisher has it.
    pub(crate) fn take_back(&self) -> bool {
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            if before == DONE {
                return false;
            }
            // MUTANT(join.take_back): split
            match self.0.compare_exchange(before, EMPTY, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    discard(before);
                    return true;
                }
                Err(now) => before = now,
            }
        }
    }

    /// Gives up the handle's claim to the result; false if the task has ended, and the result is
    /// the caller's to dispose of.
    pub(crate) fn detach(&self) -> bool {
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            if before == DONE {
                return false;
            }
            // MUTANT(join.detach): split
            match self.0.compare_exchange(before, DETACHED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    discard(before);
                    return true;
                }
                Err(now) => before = now,
            }
        }
    }
}

/// Drops a registration that was taken out. A waker is foreign code, whose destructor may panic.
fn discard(word: usize) {
    if let Some(payload) = quietly(|| drop(Waiter::decode(word))) {
        drop_payload(payload);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize as Count;
    use std::task::Wake;

    struct Counter(Count);
    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_finisher_gets_the_registered_waker() {
        let counter = Arc::new(Counter(Count::new(0)));
        let word = JoinWord::new(false);
        let waker = || Waiter::Waker(Box::new(Waker::from(counter.clone())));
        assert!(word.register(waker()).is_ok());
        assert!(word.register(waker()).is_ok(), "a second poll replaces the first");
        match word.finish() {
            Finished::Waiter(Waiter::Waker(w)) => w.wake(),
            _ => panic!("the waker is lost"),
        }
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        assert!(word.is_done());
        assert!(word.register(waker()).is_err());
        assert!(!word.detach());
        assert_eq!(Arc::strong_count(&counter), 1, "no waker is left behind");
    }

    #[test]
    fn after_a_detach_the_result_is_the_finishers() {
        let word = JoinWord::new(false);
        assert!(word.detach());
        assert!(matches!(word.finish(), Finished::Detached));
    }

    #[test]
    fn a_registration_can_be_taken_back_until_the_end() {
        let word = JoinWord::new(false);
        assert!(word.register(Waiter::Task(64 as *const Record)).is_ok());
        assert!(word.take_back());
        assert!(matches!(word.finish(), Finished::Unclaimed));
        assert!(!word.take_back());
    }
}
