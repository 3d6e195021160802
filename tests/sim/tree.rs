//! The tree of tasks beside a reference in plain code. Tasks spawn, cancel, drop handles, shield
//! and ignore at planned times of a virtual clock, so it is known to the moment which task is told
//! of a cancel and when each task ends.

use crate::common::prelude::*;
use proptest::prelude::{any, *};
use std::sync::atomic::Ordering::Relaxed;

/// The reaction of a task to a cancel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Ends at once.
    Obeys,
    /// Cleans up for some ticks.
    Shields(u64),
    /// Takes no notice before its end, nor do the tasks below it.
    Ignores,
}

/// An action of a task at a planned time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    Spawn(usize),
    /// Cancels one of its children.
    Cancel(usize),
    Drop(usize),
    Detach(usize),
}

#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    workers: usize,
    kinds: Vec<Kind>,
    /// Of each task, in order of time. No two deeds have the same time.
    deeds: Vec<Vec<(u64, Deed)>>,
    /// When each task returns, if nothing ends it before.
    returns: Vec<u64>,
    /// Whether each task joins the children that it has handles of, before it returns.
    joins: Vec<bool>,
}

/// When a task is told of a cancel, and when it returns: 0 for never.
type Fate = (u64, u64);

/// Times are multiples of a tick, which is longer than a timer's grain and than everything that
/// happens at once.
const TICK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Unborn,
    Works,
    /// Cleans up until that time.
    Shielded(u64),
    Joins,
    Returned,
    /// Has returned, and so have all its children.
    Over,
}

/// The reference.
struct Plain<'a> {
    plan: &'a Plan,
    phase: Vec<Phase>,
    parent: Vec<Option<usize>>,
    /// Has been cancelled, which it may ignore.
    cancelled: Vec<bool>,
    /// Children that it has handles of.
    handles: Vec<Vec<usize>>,
    next: Vec<usize>,
    fates: Vec<Fate>,
}

impl Plain<'_> {
    fn run(plan: &Plan) -> (Vec<Fate>, u64) {
        let count = plan.kinds.len();
        let mut it = Plain {
            plan,
            phase: vec![Phase::Unborn; count],
            parent: vec![None; count],
            cancelled: vec![false; count],
            handles: vec![Vec::new(); count],
            next: vec![0; count],
            fates: vec![(0, 0); count],
        };
        it.phase[0] = Phase::Works;
        for now in 1.. {
            while (0..count).any(|task| it.step(task, now)) {}
            if it.phase[0] == Phase::Over {
                return (it.fates, now);
            }
        }
        unreachable!("time has no end")
    }

    /// Returns whether its own cancel, or one from above, has reached the task.
    fn is_told(&self, task: usize) -> bool {
        // Inside of the section that ignores cancels.
        let ignores = self.plan.kinds[task] == Kind::Ignores
            && matches!(self.phase[task], Phase::Works | Phase::Joins);
        let above = |&parent: &usize| self.is_told(parent);
        !ignores && (self.cancelled[task] || self.parent[task].as_ref().is_some_and(above))
    }

    /// Does the next action of the task at this moment. Returns `false` if there is none.
    fn step(&mut self, task: usize, now: u64) -> bool {
        match self.phase[task] {
            Phase::Unborn | Phase::Over => return false,
            Phase::Works | Phase::Joins if self.is_told(task) => {
                self.fates[task].0 = now;
                match self.plan.kinds[task] {
                    Kind::Shields(time) => self.phase[task] = Phase::Shielded(now + time),
                    _ => self.returns(task, now),
                }
            }
            Phase::Works => match self.plan.deeds[task].get(self.next[task]) {
                Some(&(at, deed)) if at <= now => {
                    self.next[task] += 1;
                    self.does(task, deed);
                }
                None if self.plan.returns[task] <= now => match self.plan.joins[task] {
                    true => self.phase[task] = Phase::Joins,
                    false => self.returns(task, now),
                },
                _ => return false,
            },
            Phase::Shielded(until) if until <= now => self.returns(task, now),
            Phase::Joins if self.handles[task].iter().all(|&it| self.phase[it] == Phase::Over) => {
                self.returns(task, now);
            }
            Phase::Returned => {
                let below = |it: &usize| self.parent[*it] == Some(task);
                let over = |it: usize| self.phase[it] == Phase::Over;
                if !(0..self.phase.len()).filter(below).all(over) {
                    return false;
                }
                self.phase[task] = Phase::Over;
            }
            _ => return false,
        }
        true
    }

    fn does(&mut self, task: usize, deed: Deed) {
        match deed {
            Deed::Spawn(child) => {
                self.phase[child] = Phase::Works;
                self.parent[child] = Some(task);
                self.handles[task].push(child);
            }
            Deed::Cancel(child) if self.handles[task].contains(&child) => {
                self.cancelled[child] = true;
            }
            Deed::Drop(child) if self.handles[task].contains(&child) => {
                self.handles[task].retain(|it| *it != child);
                self.cancelled[child] = true;
            }
            Deed::Detach(child) => self.handles[task].retain(|it| *it != child),
            Deed::Cancel(_) | Deed::Drop(_) => {}
        }
    }

    /// Ends the closure, which drops the handles that the task has left.
    fn returns(&mut self, task: usize, now: u64) {
        // The section is over, and a cancel that has come meanwhile takes effect.
        self.phase[task] = Phase::Returned;
        if self.plan.kinds[task] == Kind::Ignores && self.is_told(task) {
            self.fates[task].0 = now;
        }
        self.fates[task].1 = now;
        for child in std::mem::take(&mut self.handles[task]) {
            self.cancelled[child] = true;
        }
    }
}

/// The same tree by the library.
struct Tree {
    plan: Plan,
    start: Instant,
    fates: Vec<(AtomicU64, AtomicU64)>,
}

impl Tree {
    fn run(plan: &Plan) -> (Vec<Fate>, u64) {
        let fates = plan.kinds.iter().map(|_| Default::default()).collect();
        let tree = Arc::new(Tree { plan: plan.clone(), start: sim::now(), fates });
        let rt = runtime(plan.workers);
        let own = Arc::clone(&tree);
        rt.block_on(move || own.body(0));
        let over = tree.now();
        drop(rt);
        let fate = |(told, returned): &(AtomicU64, AtomicU64)| {
            (told.load(Relaxed), returned.load(Relaxed))
        };
        (tree.fates.iter().map(fate).collect(), over)
    }

    fn now(&self) -> u64 {
        ((sim::now() - self.start).as_nanos() / TICK.as_nanos()) as u64
    }

    fn body(self: &Arc<Self>, task: usize) -> usize {
        let mut children = Vec::new();
        let kind = self.plan.kinds[task];
        let is_told = match kind {
            Kind::Ignores => {
                ignore_cancellation(|| assert!(!self.work(task, &mut children))).unwrap();
                cygnet::is_cancelled()
            }
            _ => self.work(task, &mut children),
        };
        if is_told {
            self.fates[task].0.store(self.now(), Relaxed);
            if let Kind::Shields(time) = kind {
                shield(TICK * 100_000, || sleep(TICK * time as u32).unwrap()).unwrap();
            }
        }
        self.fates[task].1.store(self.now(), Relaxed);
        task
    }

    /// Returns whether the task was cut short.
    fn work(self: &Arc<Self>, task: usize, children: &mut Vec<(usize, Task<usize>)>) -> bool {
        let until = |time: u64| sleep_until(self.start + TICK * time as u32);
        for &(at, deed) in &self.plan.deeds[task] {
            if until(at).is_err() {
                return true;
            }
            let find = |child| children.iter().position(|(it, _)| *it == child);
            match deed {
                Deed::Spawn(child) => {
                    let own = Arc::clone(self);
                    children.push((child, spawn(move || own.body(child))));
                }
                Deed::Cancel(child) => _ = find(child).map(|at| children[at].1.cancel("planned")),
                Deed::Drop(child) => _ = find(child).map(|at| children.swap_remove(at)),
                Deed::Detach(child) => {
                    _ = find(child).map(|at| children.swap_remove(at).1.detach())
                }
            }
        }
        if until(self.plan.returns[task]).is_err() {
            return true;
        }
        while self.plan.joins[task]
            && let Some((child, task)) = children.pop()
        {
            match task.join() {
                // A cancel that reaches both may end the child first, and then the join returns its
                // result.
                Ok(value) => {
                    assert_eq!(value, child);
                    if cygnet::is_cancelled() {
                        return true;
                    }
                }
                Err(error) if error.is_cancelled() => return true,
                Err(error) => panic!("{error}"),
            }
        }
        false
    }
}

/// Deeds are this many ticks apart. The end of a shield comes in between.
const APART: u64 = 40;

fn plans() -> impl Strategy<Value = Plan> {
    let kind = prop_oneof![
        3 => Just(Kind::Obeys),
        2 => Just(Kind::Shields(0)),
        1 => Just(Kind::Ignores)
    ];
    // Each task with its parent.
    let tasks = proptest::collection::vec((kind, any::<usize>(), any::<bool>()), 1..12);
    let deeds = proptest::collection::vec((any::<usize>(), 0..4_usize), 0..25);
    (0..1_000_u64, 1..4_usize, tasks, deeds).prop_map(|(seed, workers, tasks, others)| {
        let count = tasks.len();
        let parents: Vec<_> =
            tasks.iter().enumerate().map(|(n, (_, any, _))| any % n.max(1)).collect();
        // All tasks are spawned, and other things happen to some in between.
        let spawns = (1..count).map(|child| (parents[child], Some(Deed::Spawn(child))));
        let mut order: Vec<_> = spawns.collect();
        for (any, what) in others {
            let deed = (count > 1).then(|| {
                let child = 1 + any % (count - 1).max(1);
                let deeds: [fn(usize) -> Deed; 4] =
                    [Deed::Cancel, Deed::Cancel, Deed::Drop, Deed::Detach];
                (parents[child], Some(deeds[what](child)))
            });
            // Or a task returns.
            let at = any / 97 % (order.len() + 1);
            order.insert(at, deed.filter(|_| any % 5 > 0).unwrap_or((any / 7 % count, None)));
        }
        let mut plan = Plan {
            seed,
            workers,
            kinds: tasks.iter().map(|(kind, ..)| *kind).collect(),
            deeds: vec![Vec::new(); count],
            returns: (0..count as u64).map(|n| APART * (order.len() as u64 + 2 + n)).collect(),
            joins: tasks.iter().map(|(_, _, joins)| *joins).collect(),
        };
        for (n, kind) in plan.kinds.iter_mut().enumerate() {
            if let Kind::Shields(time) = kind {
                // Sums of few of them differ from each other, and from the times of deeds.
                *time = 1 + (1 << (n % 5)) + APART * n as u64;
            }
        }
        for (n, (task, deed)) in order.into_iter().enumerate() {
            let at = APART * (n as u64 + 1);
            match deed {
                _ if plan.returns[task] < at => {}
                Some(deed) => plan.deeds[task].push((at, deed)),
                None => plan.returns[task] = at,
            }
        }
        plan
    })
}

proptest! {
    #![proptest_config(crate::random::config(400))]

    #[test]
    fn trees_do_what_the_plain_reference_says(plan in plans()) {
        let mut fates = None;
        sim::run(plan.seed, || fates = Some(Tree::run(&plan))).unwrap();
        prop_assert_eq!(fates.unwrap(), Plain::run(&plan));
    }
}
