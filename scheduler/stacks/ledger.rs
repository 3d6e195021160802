//! The ledger of a runtime: its starving workers, and the stacks beyond the limit. `exhaustion`
//! explains its use.

use crate::shim::Mutex;

/// The wait that an extra stack is for. Waits are told apart by ids, which are not used again, as
/// addresses are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtraFor {
    /// The wait of the task with this id.
    WaitOf(u64),
    /// The wait for the end of the task with this id.
    EndOf(u64),
    /// All waits of futures.
    Futures,
}

/// The entries, under the lock.
#[derive(Default)]
struct Entries {
    /// The number of workers that starve.
    starving: usize,
    /// The waits in whose names extra stacks exist.
    extras: Vec<ExtraFor>,
}

/// The ledger under its lock.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Entries>);

impl Ledger {
    /// Notes that a worker begins (or stops) to starve. `tell` is told, under the lock, whether any
    /// worker starves now.
    pub(super) fn note(&self, begins: bool, tell: impl FnOnce(bool)) {
        let mut entries = self.0.lock();
        if begins {
            entries.starving += 1;
        } else {
            entries.starving -= 1;
        }
        tell(entries.starving > 0);
    }

    /// Enters an extra stack in the name of `wait`. Returns `false` if the wait has one already.
    pub(super) fn enter(&self, wait: ExtraFor) -> bool {
        let mut entries = self.0.lock();
        // MUTANT(exhaustion.one_extra): true
        let new = !entries.extras.contains(&wait);
        if new {
            entries.extras.push(wait);
        }
        new
    }

    /// Strikes the entry of an extra stack that has been given back.
    pub(super) fn strike(&self, wait: ExtraFor) {
        let mut entries = self.0.lock();
        let entry = entries.extras.iter().position(|entered| *entered == wait);
        entries.extras.swap_remove(entry.expect("the extra stack was entered"));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_last_worker_that_stops_starving_ends_the_pressure() {
        let (ledger, pressure) = (Ledger::default(), Cell::new(false));
        for (begins, after) in [(true, true), (true, true), (false, true), (false, false)] {
            ledger.note(begins, |any| pressure.set(any));
            assert_eq!(pressure.get(), after);
        }
    }

    #[test]
    fn a_wait_has_one_extra_stack_at_a_time() {
        let ledger = Ledger::default();
        let waits =
            [ExtraFor::WaitOf(8), ExtraFor::EndOf(8), ExtraFor::WaitOf(16), ExtraFor::Futures];
        assert!(waits.into_iter().all(|wait| ledger.enter(wait)));
        assert!(!waits.into_iter().any(|wait| ledger.enter(wait)));
        ledger.strike(ExtraFor::WaitOf(8));
        assert!(ledger.enter(ExtraFor::WaitOf(8)) && !ledger.enter(ExtraFor::EndOf(8)));
    }
}
