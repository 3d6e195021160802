//! Where the time of a machine goes: what each thread does, and at which places of the source it waits for cache lines.

use std::collections::BTreeMap;
use std::panic::Location;

/// What a thread does at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Doing {
    /// It has not begun, or has ended.
    #[default]
    Nothing,
    /// It has a core.
    Working,
    /// It could go on, and all cores are taken.
    Queueing,
    Sleeping,
}

/// The time of one thread, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Account {
    /// What the program has computed.
    pub(crate) computing: u64,
    /// What the library has done on a core besides.
    pub(crate) working: u64,
    /// What it has spent of that in search of work.
    pub(crate) searching: u64,
    pub(crate) queueing: u64,
    pub(crate) sleeping: u64,
    doing: Doing,
    since: u64,
    /// It looks for work; how much time was on its core before, and what it has computed since.
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

    /// How long it has had a core by now.
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

    /// As it is at the end of the run: computing, working and searching apart from each other.
    pub(super) fn closed(mut self, end: u64) -> Account {
        self.searches(false, end);
        self.now_does(Doing::Nothing, end);
        self.working -= self.computing + self.searching;
        self
    }
}

/// What a place of the source has lost by waiting for cache lines and barriers.
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

/// All that a machine has counted.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) accounts: Vec<Account>,
    /// Those that have lost most come first.
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
        // Stable: of equal ones, by their place.
        places.sort_by_key(|(_, place)| std::cmp::Reverse(place.lost));
        Tally { accounts, places, moves, barriers, wakes }
    }
}
