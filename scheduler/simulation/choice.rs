//! Who goes on: at random, or by a plan.

use super::random::Stream;

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
    /// Seeds differ in how often they leave a thread: at every second point, or at one of some thousand.
    pub(crate) fn random(seed: u64) -> Chooser {
        let stream = Stream::new(seed, 0);
        let rate = 1 << (4 + stream.below(12));
        Chooser::Random(Random { stream, rate })
    }

    pub(crate) fn planned(plan: Vec<(u64, usize)>) -> Chooser {
        Chooser::Planned(Planned { plan, next: 0, point: 0, choices: Vec::new(), misfit: false })
    }

    /// Who goes on where `me` could.
    pub(super) fn at_point(&mut self, me: usize, others: &[usize]) -> usize {
        match self {
            Chooser::Random(random) if random.stream.happens(random.rate) => {
                others[random.stream.below(others.len())]
            }
            Chooser::Random(_) => me,
            Chooser::Planned(planned) => planned.choose(others, false).unwrap_or(me),
        }
    }

    /// Who goes on where `me` gives way or cannot.
    pub(super) fn when_it_must(&mut self, me: usize, others: &[usize]) -> usize {
        match self {
            Chooser::Random(random) => others[random.stream.below(others.len())],
            // The next one round the circle, so that none is passed for ever.
            Chooser::Planned(planned) => planned
                .choose(others, true)
                .unwrap_or_else(|| *others.iter().find(|&&other| other > me).unwrap_or(&others[0])),
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

impl Planned {
    fn choose(&mut self, others: &[usize], must: bool) -> Option<usize> {
        let at = self.point;
        self.point += 1;
        if let Some(&(planned, to)) = self.plan.get(self.next)
            && planned == at
        {
            self.next += 1;
            self.misfit |= !others.contains(&to);
            return others.contains(&to).then_some(to);
        }
        if self.next == self.plan.len() {
            self.choices.push(Choice { at, others: others.to_vec(), must });
        }
        None
    }
}
