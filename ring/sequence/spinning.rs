//! When a waiter that [spins](super::WaitStrategy::Spin) does better to park.
//!
//! A spin is worth its processor only while whoever makes progress has another one. Where more threads spin than there are processors, each of them
//! spins through its time slice while the one that could make progress is not scheduled: a ring then moves some items in each time slice, and no more.
//! So a waiter that has spun for its **budget** counts itself until its wait is over, and parks if as many wait in this way as there are processors. Its spin was
//! in vain then, and the next budget of the waiters of that side of the primitive is half of it; what comes during a spin doubles the budget again, up to the
//! first one. While there are processors enough no waiter parks, however long it spins.
//!
//! Waiters that have parked count as well as those that still spin. One of them may be the one that makes progress next, and a spinner would keep the processor from it.
//!
//! All of this is advice: it decides how long a waiter looks before it parks, and nothing else. So its words are relaxed.

use crate::shim::{is_simulated, processors};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// What those who wait for one side of a primitive have learned.
#[derive(Default)]
pub(super) struct Learned {
    /// What is waited for comes from the worker of those who wait, as far as is known: then it comes when they let it run.
    near: AtomicBool,
    /// How often the budget has been halved.
    halved: AtomicU32,
}

impl Learned {
    /// The turns of a spin before the waiter asks whether it is one too many.
    const MOST: u32 = 1024;
    /// It is never halved to less.
    const LEAST: u32 = 16;

    pub(super) fn is_near(&self) -> bool {
        self.near.load(Ordering::Relaxed)
    }

    /// What was waited for has come, to a waiter that was spinning.
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

    /// A spin has ended without what was waited for.
    pub(super) fn in_vain(&self) {
        let halved = self.halved.load(Ordering::Relaxed);
        // Of two at once one may not count.
        if Learned::MOST >> halved > Learned::LEAST {
            self.halved.store(halved + 1, Ordering::Relaxed);
        }
    }
}

/// The waiters that have spun for their budget, in the whole process.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A wait that spins, from its begin to its end.
#[derive(Default)]
pub(super) struct Spinning {
    counts: bool,
}

impl Spinning {
    /// Counts it, when its budget is used up. Returns whether there are too many. For a task on one of so many workers, or for a plain thread.
    pub(super) fn is_one_too_many(&mut self, workers: Option<usize>) -> bool {
        if !self.counts {
            self.counts = true;
            WAITING.fetch_add(1, Ordering::Relaxed);
        }
        // The tasks of a single worker give way to each other: none needs another processor. In a simulation the count would be that of other tests.
        let several = workers != Some(1);
        several && (is_simulated() || WAITING.load(Ordering::Relaxed) >= counted_processors())
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        if self.counts {
            WAITING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Those of the machine, which are looked up once.
fn counted_processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(processors)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_spin_in_vain_halves_the_budget_and_one_that_finds_something_doubles_it() {
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
    fn a_wait_counts_once_and_until_it_is_over() {
        let many = counted_processors();
        let mut waits: Vec<_> = (0..many).map(|_| Spinning::default()).collect();
        // Others may wait in the same process.
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
