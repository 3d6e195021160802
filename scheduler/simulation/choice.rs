//! Who goes on: at random, or by a plan.

use super::random::Stream;
use super::set::Set;

/// Says who goes on at each point.
pub(crate) enum Chooser {
    Random(Random),
    Planned(Planned),
}

/// A thread is left, now and then, for one of the others.
pub(crate) struct Random {
    stream: Stream,
    /// Of 65,536 points, so many.
    rate: u16,
    aside: Option<Aside>,
}

/// At one of so many points a thread is put aside.
const ASIDE: usize = 100;

/// Threads that stand still for long, each at one point, while others come far: all the same rate of switches does not do that, and some mistakes show only then.
#[derive(Default)]
struct Aside {
    point: u64,
    /// At which point each may go on. It does so sooner if nobody else can.
    until: Vec<u64>,
}

/// A point at which another thread could have gone on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// The how many-eth of the run.
    pub(crate) at: u64,
    /// Who could have.
    pub(crate) others: Vec<usize>,
    /// The running one could not go on: to choose is no preemption.
    pub(crate) must: bool,
}

/// Threads run until they have to wait, but for what the plan says.
pub(crate) struct Planned {
    /// At which points who goes on, in their order.
    plan: Vec<(u64, usize)>,
    next: usize,
    point: u64,
    choices: Vec<Choice>,
    /// It has named one who could not go on.
    misfit: bool,
}

impl Chooser {
    /// Seeds differ in how often they leave a thread: at every second point, or at one of some thousand. The odd ones put threads aside, too.
    pub(crate) fn random(seed: u64) -> Chooser {
        let stream = Stream::new(seed, 0);
        let rate = 1 << (4 + stream.below(12));
        let aside = (seed % 2 == 1).then(Aside::default);
        Chooser::Random(Random { stream, rate, aside })
    }

    pub(crate) fn planned(plan: Vec<(u64, usize)>) -> Chooser {
        Chooser::Planned(Planned { plan, next: 0, point: 0, choices: Vec::new(), misfit: false })
    }

    /// Who goes on where `me` could.
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

    /// Who goes on where `me` gives way or cannot.
    pub(super) fn when_it_must(&mut self, me: usize, others: &Set) -> usize {
        match self {
            Chooser::Random(random) => {
                random.pass();
                random.one_of(others)
            }
            // The next one round the circle, so that none is passed for ever.
            Chooser::Planned(planned) => planned.choose(others, true).unwrap_or_else(|| {
                others
                    .iter()
                    .find(|&other| other > me)
                    .or(others.iter().next())
                    .expect("somebody can")
            }),
        }
    }

    /// Whether the plan is not one of this program: it names somebody who could not go on, or points that the run, which has ended, has not come to.
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
    /// A point has come.
    fn pass(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.point += 1;
        }
    }

    /// Whether another one goes on though `me` could.
    fn leaves(&mut self, me: usize) -> bool {
        self.pass();
        if let Some(aside) = &mut self.aside
            && self.stream.below(ASIDE) == 0
        {
            aside.put(me, 1 << (4 + self.stream.below(9)));
            return true;
        }
        self.stream.happens(self.rate)
    }

    fn one_of(&self, others: &Set) -> usize {
        let is_free = |other: &usize| self.aside.as_ref().is_none_or(|aside| aside.is_free(*other));
        let free =
            if self.aside.is_none() { others.len() } else { others.iter().filter(is_free).count() };
        let one = if free == 0 {
            others.iter().nth(self.stream.below(others.len()))
        } else {
            others.iter().filter(is_free).nth(self.stream.below(free))
        };
        one.expect("one of those who were counted")
    }
}

impl Aside {
    fn put(&mut self, thread: usize, points: u64) {
        self.until.resize(self.until.len().max(thread + 1), 0);
        self.until[thread] = self.point + points;
    }

    fn is_free(&self, thread: usize) -> bool {
        self.until.get(thread).is_none_or(|&until| until <= self.point)
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
