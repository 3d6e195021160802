//! The choosers: which thread runs next, at random or by a plan.

use super::random::Stream;
use super::set::Set;

/// Picks the thread that runs next at each point.
pub(crate) enum Chooser {
    Random(Random),
    Planned(Planned),
}

/// Leaves the running thread at random for one of the others.
pub(crate) struct Random {
    stream: Stream,
    /// The number of points, out of 65,536, at which a thread is left.
    rate: u16,
    /// Threads are put aside: each stands still at one point for a long time while others make
    /// progress. A uniform rate of switches does not do that, and some bugs show only then.
    puts_aside: bool,
    point: u64,
    /// For each thread that was put aside, the point from which it may run again. It runs earlier
    /// if no other thread can.
    until: Vec<u64>,
}

/// A thread is put aside at one of this many points.
const ASIDE: usize = 100;

/// A point at which another thread could have run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// The number of the point within the run.
    pub(crate) at: u64,
    /// The other ready threads.
    pub(crate) others: Vec<usize>,
    /// The running thread waited or gave way, so another choice is no preemption.
    pub(crate) must: bool,
}

/// Runs each thread until it waits or gives way, except at the points of a plan.
pub(crate) struct Planned {
    /// Pairs of a point and the thread that runs next there, in the order of the points.
    plan: Vec<(u64, usize)>,
    next: usize,
    point: u64,
    choices: Vec<Choice>,
    /// The plan has named a thread that was not ready.
    misfit: bool,
}

impl Chooser {
    /// Makes a random chooser. Seeds differ in how often they leave a thread: from every second
    /// point to one point in some thousands. Odd seeds put threads aside too.
    pub(crate) fn random(seed: u64) -> Chooser {
        let stream = Stream::new(seed, 0);
        let rate = 1 << (4 + stream.below(12));
        let puts_aside = seed % 2 == 1;
        Chooser::Random(Random { stream, rate, puts_aside, point: 0, until: Vec::new() })
    }

    pub(crate) fn planned(plan: Vec<(u64, usize)>) -> Chooser {
        Chooser::Planned(Planned { plan, next: 0, point: 0, choices: Vec::new(), misfit: false })
    }

    /// Returns the thread that runs next at a point at which `me` could continue.
    pub(super) fn at_point(&mut self, me: usize, others: &Set) -> usize {
        match self {
            Chooser::Random(random) => {
                if random.leaves(me) {
                    random.one_of(others)
                } else {
                    me
                }
            }
            Chooser::Planned(planned) => planned.choose(others, false).unwrap_or(me),
        }
    }

    /// Returns the thread that runs next when `me` waits or gives way.
    pub(super) fn when_it_must(&mut self, me: usize, others: &Set) -> usize {
        match self {
            Chooser::Random(random) => {
                random.point += 1;
                random.one_of(others)
            }
            // Round robin, so that no thread starves.
            Chooser::Planned(planned) => planned.choose(others, true).unwrap_or_else(|| {
                others
                    .iter()
                    .find(|&other| other > me)
                    .or(others.iter().next())
                    .expect("the caller has checked that another thread is ready")
            }),
        }
    }

    /// Returns whether the plan does not fit this program: it has named a thread that was not
    /// ready, or the run has `ended` before a point of the plan.
    pub(super) fn is_misfit(&self, ended: bool) -> bool {
        match self {
            Chooser::Random(_) => false,
            Chooser::Planned(planned) => {
                planned.misfit || (ended && planned.next < planned.plan.len())
            }
        }
    }

    pub(super) fn take_choices(&mut self) -> Vec<Choice> {
        match self {
            Chooser::Random(_) => Vec::new(),
            Chooser::Planned(planned) => std::mem::take(&mut planned.choices),
        }
    }
}

impl Random {
    /// Decides whether another thread runs although `me` could continue.
    fn leaves(&mut self, me: usize) -> bool {
        self.point += 1;
        if self.puts_aside && self.stream.below(ASIDE) == 0 {
            self.until.resize(self.until.len().max(me + 1), 0);
            self.until[me] = self.point + (1 << (4 + self.stream.below(9)));
            return true;
        }
        self.stream.happens(self.rate)
    }

    fn one_of(&self, others: &Set) -> usize {
        let is_free =
            |&other: &usize| self.until.get(other).is_none_or(|&until| until <= self.point);
        let all_free = self.until.is_empty();
        let free = if all_free { others.len() } else { others.iter().filter(is_free).count() };
        let one = if free == 0 {
            others.iter().nth(self.stream.below(others.len()))
        } else {
            others.iter().filter(is_free).nth(self.stream.below(free))
        };
        one.expect("the index is below the number of threads")
    }
}

impl Planned {
    fn choose(&mut self, others: &Set, must: bool) -> Option<usize> {
        let at = self.point;
        self.point += 1;
        if let Some(&(planned, to)) = self.plan.get(self.next)
            && planned == at
        {
            self.next += 1;
            self.misfit |= !others.contains(to);
            return others.contains(to).then_some(to);
        }
        if self.next == self.plan.len() {
            self.choices.push(Choice { at, others: others.iter().collect(), must });
        }
        None
    }
}
