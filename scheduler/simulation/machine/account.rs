//! Where the time of a machine goes: by thread, and by places in the source where threads wait for
//! cache lines.

use std::collections::BTreeMap;
use std::panic::Location;

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
pub(crate) struct Account {
    /// Time of `sim::compute`.
    pub(crate) computing: u64,
    /// Other time on a core. [`closed`](Account::closed) takes computing and searching out of it.
    pub(crate) working: u64,
    /// Time on a core in search of work.
    pub(crate) searching: u64,
    pub(crate) queueing: u64,
    pub(crate) sleeping: u64,
    doing: Doing,
    since: u64,
    /// While the thread looks for work: its time on a core and its computing before that.
    search: Option<(u64, u64)>,
}

impl Account {
    pub(super) fn begin(&mut self, at: u64) {
        self.now_does(Doing::Sleeping, at);
    }

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
    pub(super) fn closed(mut self, end: u64) -> Account {
        self.searches(false, end);
        self.now_does(Doing::Nothing, end);
        self.working -= self.computing + self.searching;
        self
    }
}

/// The time that a place in the source has lost by waiting for cache lines and barriers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) times: u64,
    pub(crate) lost: u64,
}

impl Place {
    pub(super) fn lost(&mut self, time: u64) {
        self.times += 1;
        self.lost += time;
    }
}

/// All that a machine counts in a run.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) accounts: Vec<Account>,
    /// Sorted by the time lost, the largest first.
    pub(crate) places: Vec<(&'static Location<'static>, Place)>,
    pub(crate) moves: u64,
    pub(crate) barriers: u64,
    pub(crate) wakes: u64,
}

impl Tally {
    pub(super) fn new(
        accounts: Vec<Account>,
        places: &BTreeMap<&'static Location<'static>, Place>,
        moves: u64,
        barriers: u64,
        wakes: u64,
    ) -> Tally {
        let mut places: Vec<_> = places.iter().map(|(at, place)| (*at, *place)).collect();
        // The sort is stable, so equal ones stay in the order of their places.
        places.sort_by_key(|(_, place)| std::cmp::Reverse(place.lost));
        Tally { accounts, places, moves, barriers, wakes }
    }
}
