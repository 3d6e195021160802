//! The programs: each is a small tree of tasks that uses a part of the library and checks its own
//! result.
//!
//! The checks are `assert`s, which may fail in any task or thread: the panic hook records every
//! unplanned panic, even if it is caught on its way.

mod aids;
mod cancel;
mod channels;
mod ends;
mod fork;
mod groups;
mod locks;
mod outside;
mod planted;
mod rings;
mod select;

/// What every program needs.
mod prelude {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
    pub(super) use std::sync::{Arc, mpsc};
    pub(super) use std::thread;
    pub(super) use std::time::Duration;

    pub(super) use cygnet::sync::WaitError;
    pub(super) use cygnet::{JoinError, Task};

    pub(super) use super::super::faults::{Fault, Planned, is_planned, panic_as_planned};
    pub(super) use super::aids::*;
    pub(super) use super::{ENDS_LATER, Program};
    pub(super) use crate::measure::rng::Rng;
    pub(super) use crate::measure::work::spin;
}

use cygnet::{Handle, Task};

use crate::measure::rng::Rng;

/// Holds for both runtimes of a program.
pub(crate) const ENDS_LATER: &str = "a runtime ends after its programs";

/// The environment of a program.
pub(crate) struct Program {
    /// The runtime on which the program runs.
    pub(crate) handle: Handle,
    /// Another runtime.
    pub(crate) other: Handle,
    pub(crate) rng: Rng,
}

impl Program {
    /// Spawns a task below the runtime's root.
    #[track_caller]
    fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        self.handle.spawn(f).expect(ENDS_LATER)
    }

    /// Spawns `count` tasks below the runtime's root. Each gets its number and random numbers of
    /// its own.
    #[track_caller]
    fn spawn_each<T, F>(&mut self, count: u64, mut body: impl FnMut(u64, Rng) -> F) -> Vec<Task<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let spawn = |number| {
            let rng = self.rng.split();
            self.spawn(body(number, rng))
        };
        (0..count).map(spawn).collect()
    }
}

/// A kind of program.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&mut Program),
}

macro_rules! kinds {
    ($($name:literal, $what:literal, $run:path;)*) => {
        &[$(Kind { name: $name, what: $what, run: $run },)*]
    };
}

/// All kinds, with equal probability.
pub(crate) const KINDS: &[Kind] = kinds! {
    "join", "a random tree of forks, whose sum is known", fork::joins;
    "par", "parallel loops, reductions, searches and sorts over random sizes", fork::loops;
    "scope", "nested scopes of borrowing tasks, none of which outlives its scope", fork::scopes;
    "panic", "tasks of which some panic, joined, in a scope, and detached", fork::panics;
    "cancel", "a tree of tasks in all kinds of waits, cancelled at a random moment", cancel::tree;
    "deadline", "time limits around tasks that take longer, nested", cancel::deadlines;
    "shield", "cancelled tasks that put things in order", cancel::shields;
    "mutex", "a mutex between tasks, threads and futures", locks::mutex;
    "rwlock", "readers and writers of a pair that must be equal", locks::rwlock;
    "semaphore", "permits, which are never more than there are", locks::semaphore;
    "barrier", "a barrier that is passed again and again, and an event", locks::barrier;
    "condvar", "a queue of a mutex and condition variables", locks::condvar;
    "channel", "channels with and without room; each value is received once", channels::channel;
    "watch", "oneshot, broadcast and watch channels", channels::others;
    "select", "the first of several futures, until all values have come", select::run;
    "ring", "a ring of items with stages, whose sum comes out at the end", rings::ring;
    "sequence", "several producers of numbers, some of which are given back", rings::sequence;
    "group", "groups whose members fail, panic or are cancelled", groups::group;
    "actor", "an actor with callers of all kinds", groups::actor;
    "several", "all, any, and all until the first failure", groups::several;
    "promise", "promises that foreign threads keep, break, or come too late for", outside::promises;
    "wake", "parked tasks, woken by foreign threads, and woken spuriously", outside::wakes;
    "blocking", "calls that block, borrowed and spawned", outside::blocking;
    "block-on", "roots from several threads, and children on another runtime", outside::roots;
    "detached", "tasks without a handle, identified by an inherited value", outside::detached;
    "end", "a runtime of its own that is dropped or shut down with tasks in flight", ends::ends;
    "stacks", "a runtime of its own with too few stacks", ends::stacks;
};

/// Programs outside the mix that go wrong on purpose, to check that their faults are noticed.
pub(crate) const PLANTED: &[Kind] = kinds! {
    "leak", "forgets some memory each time", planted::leak;
    "hang", "waits for an event that is never set", planted::hang;
    "wrong", "miscounts", planted::wrong;
};

/// Finds the planted kind of that name.
pub(crate) fn planted(name: &str) -> Option<&'static Kind> {
    PLANTED.iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_of_their_own() {
        let mut names: Vec<_> = KINDS.iter().chain(PLANTED).map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len() + PLANTED.len());
    }

    /// The drawing of programs is tested with the command. Here each kind runs with a few seeds.
    #[test]
    fn every_kind_passes_with_a_few_seeds() {
        super::super::faults::install_panic_hook();
        let runtime = cygnet::Runtime::builder().workers(2).build().unwrap();
        let other = cygnet::Runtime::builder().workers(1).build().unwrap();
        for kind in KINDS {
            for seed in 0..6 {
                let (handle, other) = (runtime.handle(), other.handle());
                (kind.run)(&mut Program { handle, other, rng: Rng::new(seed) });
            }
        }
    }
}
