//! Decides when a waiter that [spins](super::WaitStrategy::Spin) should park.
//!
//! Spinning is worth its processor only while the party that makes progress has another one. If
//! more threads spin than there are processors, each of them spins through its time slice while the
//! thread that could make progress is not scheduled, and a ring then moves a few items per time
//! slice.
//!
//! So a waiter that has spun for its **budget** is counted until its wait is over, and parks if the
//! count has reached the number of processors. Its spin has failed then, and the next budget of the
//! waiters on that side of the primitive is halved. Each spin that succeeds doubles the budget
//! again, up to the initial one. While there are enough processors no waiter parks, however long it
//! spins.
//!
//! Waiters that have parked are counted as well. One of them may be the next to make progress, and
//! a spinner would keep the processor from it.
//!
//! All of this is advice: it only decides how long a waiter looks before it parks. So the atomics
//! are relaxed.

use crate::shim::{is_simulated, processors_at_first};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// What the waiters on one side of a primitive have learned from earlier waits.
#[derive(Default)]
pub(super) struct Learned {
    /// As far as is known, progress comes from a task on the waiter's own worker. It then comes
    /// only when the waiter lets that task run.
    near: AtomicBool,
    /// The number of times that the budget has been halved.
    halved: AtomicU32,
}

impl Learned {
    /// The initial budget: the turns of a spin before the waiter checks whether there are too many.
    const MOST: u32 = 1024;
    /// The smallest budget.
    const LEAST: u32 = 16;

    pub(super) fn is_near(&self) -> bool {
        self.near.load(Ordering::Relaxed)
    }

    /// Records that a spin has succeeded.
    pub(super) fn found(&self, near: bool) {
        if self.is_near() != near {
            self.near.store(near, Ordering::Relaxed);
        }
        let halved = self.halved.load(Ordering::Relaxed);
        if halved > 0 {
            self.halved.store(halved - 1, Ordering::Relaxed);
        }
    }

    pub(super) fn budget(&self) -> u32 {
        Learned::MOST >> self.halved.load(Ordering::Relaxed)
    }

    /// Records that a spin has failed.
    pub(super) fn in_vain(&self) {
        let halved = self.halved.load(Ordering::Relaxed);
        // One of two concurrent updates may be lost.
        if Learned::MOST >> halved > Learned::LEAST {
            self.halved.store(halved + 1, Ordering::Relaxed);
        }
    }
}

/// The waiters in the whole process that have spun for their budget.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A spinning wait, from its start to its end.
#[derive(Default)]
pub(super) struct Spinning {
    counts: bool,
}

impl Spinning {
    /// Counts the wait when its budget is used up, and returns `true` if there are too many.
    /// `workers` is the number of workers of the task's runtime, or `None` for a plain thread.
    pub(super) fn is_one_too_many(&mut self, workers: Option<usize>) -> bool {
        if !self.counts {
            self.counts = true;
            WAITING.fetch_add(1, Ordering::Relaxed);
        }
        // The tasks of a single worker yield to each other, and need no other processor. In a
        // simulation the count would include the waits of other tests.
        let several = workers != Some(1);
        several && (is_simulated() || WAITING.load(Ordering::Relaxed) >= processors_at_first())
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        if self.counts {
            WAITING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_failed_spin_halves_the_budget_and_a_successful_one_doubles_it() {
        let learned = Learned::default();
        let budgets = |change: fn(&Learned)| {
            let next = |_| {
                change(&learned);
                learned.budget()
            };
            (0..8).map(next).collect::<Vec<_>>()
        };
        assert_eq!(learned.budget(), Learned::MOST);
        assert_eq!(budgets(Learned::in_vain), [512, 256, 128, 64, 32, 16, 16, 16]);
        assert_eq!(
            budgets(|learned| learned.found(true)),
            [32, 64, 128, 256, 512, 1024, 1024, 1024]
        );
        assert!(learned.is_near());
        learned.found(false);
        assert!(!learned.is_near());
    }

    #[test]
    fn a_spinning_wait_is_counted_once_until_it_ends() {
        let many = processors_at_first();
        let mut waits: Vec<_> = (0..many).map(|_| Spinning::default()).collect();
        // Other tests may wait in the same process.
        for wait in &mut waits {
            wait.is_one_too_many(None);
            wait.is_one_too_many(None);
        }
        assert!(WAITING.load(Ordering::Relaxed) >= many);
        assert!(waits[0].is_one_too_many(None) && waits[0].is_one_too_many(Some(2)));
        assert!(!waits[0].is_one_too_many(Some(1)), "a single worker has its processor");
        let counted = waits.iter().filter(|wait| wait.counts).count();
        assert_eq!(counted, many);
    }
}
