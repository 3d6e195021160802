//! The programs: each a small tree of tasks that uses a part of the library, and checks its own result.
//!
//! A check that fails is an `assert`, in whatever task or thread: the panic hook keeps the text of every panic that no program has
//! planned, also if it is caught on its way.

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

use cygnet::{Handle, Task};

use super::rng::Rng;

/// What a program is run with.
pub(crate) struct Program {
    /// The runtime that it runs on.
    pub(crate) handle: Handle,
    /// Another one.
    pub(crate) other: Handle,
    pub(crate) rng: Rng,
}

impl Program {
    /// A task of the runtime's root.
    #[track_caller]
    fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Task<T> {
        match self.handle.spawn(f) {
            Ok(task) => task,
            Err(_) => panic!("the runtime of a program ends after it"),
        }
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

/// All of them, each drawn as often as the others.
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
    "watch", "one value for one, for all, and the last one", channels::others;
    "select", "the first of several futures, until all values have come", select::run;
    "ring", "a ring of items with stages, whose sum comes out at the end", rings::ring;
    "sequence", "several producers of numbers, some of which are given back", rings::sequence;
    "group", "groups whose members fail, panic or are cancelled", groups::group;
    "actor", "an actor with callers of all kinds", groups::actor;
    "several", "all, any, and all until the first failure", groups::several;
    "promise", "promises that foreign threads keep, break, or come too late for", outside::promises;
    "wake", "parked tasks, woken by foreign threads and by nobody in particular", outside::wakes;
    "blocking", "calls that block, borrowed and spawned", outside::blocking;
    "block-on", "roots from several threads, and children on another runtime", outside::roots;
    "detached", "tasks without a handle, told apart by what they inherit", outside::detached;
    "end", "a runtime of its own that is dropped or shut down with tasks in flight", ends::ends;
    "stacks", "a runtime of its own with too few stacks", ends::stacks;
};

/// What is not in the mix: programs that go wrong, to see that it is noticed.
pub(crate) const PLANTED: &[Kind] = kinds! {
    "leak", "forgets some memory each time", planted::leak;
    "hang", "waits for an event that nobody sets", planted::hang;
    "wrong", "miscounts", planted::wrong;
};

/// Among them the one with this name.
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

    /// With what does not come from the command: the drawing of a round is tested there.
    #[test]
    fn every_kind_comes_out_right_a_few_times() {
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
