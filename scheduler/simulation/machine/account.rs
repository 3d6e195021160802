//! Where the time of a machine goes: by thread, and by places in the source where threads wait for
//! cache lines.

use crate::scheduler::simulation::Run;
use std::panic::Location;
use std::time::Duration;

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Doing {
    /// The thread has not begun, or has ended.
    #[default]
    Nothing,
    /// The thread has a core.
    Working,
    /// The thread can run, and all cores are taken.
    Queueing,
    Sleeping,
}

/// The time of one thread, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Account {
    /// Time of `sim::compute`.
    computing: u64,
    /// Other time on a core. [`closed`](Account::closed) takes computing and searching out of it.
    working: u64,
    /// Time on a core in search of work.
    searching: u64,
    queueing: u64,
    sleeping: u64,
    doing: Doing,
    since: u64,
    /// While the thread looks for work: its time on a core and its computing before that.
    search: Option<(u64, u64)>,
}

impl Account {
    pub(super) fn now_does(&mut self, doing: Doing, at: u64) {
        let time = at.saturating_sub(self.since);
        match self.doing {
            Doing::Nothing => {}
            Doing::Working => self.working += time,
            Doing::Queueing => self.queueing += time,
            Doing::Sleeping => self.sleeping += time,
        }
        (self.doing, self.since) = (doing, at);
    }

    /// The whole time on a core up to `at`.
    fn on_core(&self, at: u64) -> u64 {
        let now = if self.doing == Doing::Working { at.saturating_sub(self.since) } else { 0 };
        self.working + now
    }

    pub(super) fn searches(&mut self, begins: bool, at: u64) {
        let on_core = self.on_core(at);
        if begins {
            self.search = Some((on_core, self.computing));
        } else if let Some((before, computed)) = self.search.take() {
            self.searching += on_core - before - (self.computing - computed);
        }
    }

    pub(super) fn computes(&mut self, time: u64) {
        self.computing += time;
    }

    /// The account at the end of the run, where computing, working and searching do not overlap.
    pub(super) fn closed(mut self, name: String, end: u64) -> ThreadTimes {
        self.searches(false, end);
        self.now_does(Doing::Nothing, end);
        let time = Duration::from_nanos;
        ThreadTimes {
            name,
            computing: time(self.computing),
            working: time(self.working - self.computing - self.searching),
            searching: time(self.searching),
            queueing: time(self.queueing),
            sleeping: time(self.sleeping),
        }
    }
}

/// The result of a run on a [`Machine`](crate::sim::Machine). Its `Display` output is a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measured {
    /// The steps, the threads and the whole time of the run. To time a part of the program, read
    /// [`now`](crate::sim::now) in it.
    pub run: Run,
    /// The times of the virtual threads: first the program's own, then workers and others in the
    /// order in which they were started.
    pub threads: Vec<ThreadTimes>,
    /// The places in the source that lost time by waiting for cache lines and barriers, the largest
    /// loss first.
    pub places: Vec<LostTime>,
    /// How often a cache line moved between cores.
    pub moves: u64,
    /// How often a thread issued a barrier of all cores.
    pub barriers: u64,
    /// How often a sleeping thread was woken.
    pub wakes: u64,
}

/// The times of a virtual thread on a [`Machine`](crate::sim::Machine).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadTimes {
    /// The thread's name. A worker has the name that its runtime gives it.
    pub name: String,
    /// The time that the thread spent in [`compute`](crate::sim::compute).
    pub computing: Duration,
    /// The time that the thread spent in the library, except for searching.
    pub working: Duration,
    /// The time that the thread spent searching for work.
    pub searching: Duration,
    /// The time for which the thread could have run but had no core.
    pub queueing: Duration,
    /// The time for which the thread slept.
    pub sleeping: Duration,
}

/// A place in the source at which threads waited for cache lines or for a barrier.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LostTime {
    /// The place in the source.
    pub location: &'static Location<'static>,
    /// How often threads waited here.
    pub times: u64,
    /// How long threads waited here, in total.
    pub lost: Duration,
}
