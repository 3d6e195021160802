//! A worker that has nothing to do: it searches, backs off and sleeps.
//!
//! A searcher looks into the injector and into the public deques of the others, beginning at a
//! random worker. From its second turn on it first looks at some of its neighbours (neighbours.rs).
//! If a worker has only private work, the searcher makes a request, and an owner that spawns serves
//! it at its next push. An owner that does not answer within a few microseconds is in a long
//! computation. The searcher then takes by force: with a membarrier, which costs both sides 3 us or
//! more (`PATIENCE`), so the loot must be worth it.
//!
//! idle.rs tells which workers may search, and why none sleeps through work.

use crate::scheduler::queue::public::BATCH;
use crate::scheduler::stacks::exhaustion;
use crate::scheduler::steal::idle::{FEW, Rest, Roused};
use crate::scheduler::steal::loot::Loot;
use crate::scheduler::steal::stand_by::{linger, stand_by};
use crate::scheduler::steal::tidy::Tidiness;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::remote::Remote;
use crate::shim::atomic::Ordering;
use crate::shim::spin_until;
use crate::shim::thread;
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{Fault, fault, point, searches, spin_loop};
use crossbeam_deque::Steal;
use std::mem;

/// How long a searcher waits for an answer before it takes by force: as long as taking by force
/// takes on average, between these bounds. That is 3 us on a physical machine, and more than 20 us
/// on some virtual ones. Both the searcher and the owner lose that time.
const PATIENCE: Duration = Duration::from_micros(3);
const LONGEST_PATIENCE: Duration = Duration::from_micros(50);
/// How long a worker searches before it yields the processor at each turn, and how long it searches
/// at all.
const POLITE: Duration = Duration::from_micros(2);
const SEARCH: Duration = Duration::from_micros(20);
/// The end of a search that waits for an answer. A forced steal comes before it: otherwise a worker
/// that computes would keep its tasks.
const LONGEST_WAIT: Duration = Duration::from_micros(80);
const _: () = assert!(LONGEST_PATIENCE.as_micros() < LONGEST_WAIT.as_micros());
/// The upper bound for a worker whose last loot lasted half as long: most likely there is more of
/// that kind soon.
const LONGEST_SEARCH: Duration = Duration::from_micros(40);
/// The length of a search if all others rest, so that work can only come from outside.
const SEARCH_ALONE: Duration = Duration::from_micros(5);
/// How long a worker waits for a task of its own to be woken before it searches.
pub(super) const LINGER: Duration = Duration::from_micros(20);
/// How many times in a row a worker waits for its own tasks without a search.
const AWAITED: u8 = 16;
/// Forced steals that may come back empty before the search is given up: tasks that come and go
/// within `PATIENCE` are too short to steal.
const VAIN: u32 = 2;
/// The most workers that a searcher wakes when it has found more than it needs.
const RECRUITS: usize = 2;
const FIRST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// Bounds of a nap during stack exhaustion.
const FIRST_FAMINE: Duration = Duration::from_micros(100);
const LONGEST_FAMINE: Duration = Duration::from_millis(16);

/// A request that waits for its answer.
struct Asked {
    victim: usize,
    since: Instant,
    spawned: u64,
}

/// The state that a worker keeps from one search to the next.
#[derive(Default)]
pub(crate) struct Searcher {
    /// The next nap, if the last loot was short.
    nap: Duration,
    /// Tasks that all workers had spawned when the last nap began.
    spawned: u64,
    /// How long taking by force takes, on average.
    force: Duration,
    /// The next nap, if there are no stacks.
    famine: Duration,
    /// How long the last loot has lasted, if this worker has not rested since.
    lasted: Duration,
    /// Already counted as searching, by the waker.
    counted: bool,
    /// The number of searches in a row that ended because a task of this worker had been woken.
    awaited: u8,
    tidiness: Tidiness,
}

/// The number of workers that a searcher looks at in one turn.
fn probes(workers: usize) -> usize {
    if workers <= FEW { workers } else { workers.ilog2() as usize }
}

impl Searcher {
    pub(crate) fn new() -> Searcher {
        Searcher { spawned: u64::MAX, force: PATIENCE, ..Searcher::default() }
    }

    /// Finds work for `worker`, which has none, or sleeps until there may be some.
    pub(crate) fn search_or_sleep(&mut self, worker: &Worker) {
        let _searches = searches();
        let start = now();
        self.find_or_sleep(worker, start);
        worker.balance.idle_time.set(worker.balance.idle_time.get() + (now() - start));
    }

    /// `time` is the present.
    fn find_or_sleep(&mut self, worker: &Worker, time: Instant) {
        worker.fire_overdue(|| ());
        if worker.isolations.any() {
            self.leave_searchers(worker);
            if !worker.shared().pressure.load(Ordering::Relaxed) {
                self.counted |= worker.search_member() == Some(Roused::ToSearch);
            } else if !worker.find_member_under_pressure() {
                self.starve(worker);
            }
            self.leave_searchers(worker);
            return;
        }
        if worker.memory.exhausted.get() {
            self.leave_searchers(worker);
            if exhaustion::relieve(worker, self.famine) {
                self.famine = Duration::ZERO;
                return;
            }
            self.starve(worker);
            // Woken to search or not, this worker leaves the count: it is the others that have
            // stacks.
            self.leave_searchers(worker);
            return;
        }
        self.judge_loot(worker, time);
        if worker.stand_back() {
            return;
        }
        if self.nap.is_zero() && self.search(worker) {
            return;
        }
        self.leave_searchers(worker);
        self.rest(worker);
        // Woken to search: do that now. A worker that ran anything while counted as a searcher
        // would keep every other worker asleep.
        if self.counted {
            self.search(worker);
            self.leave_searchers(worker);
        }
    }

    fn judge_loot(&mut self, worker: &Worker, time: Instant) {
        let Some(loot) = worker.loot.take() else { return };
        if loot.is_done(worker.live()) && loot.was_short(time) {
            self.nap_longer(worker);
        } else {
            self.nap = Duration::ZERO;
            self.lasted = loot.lasted(time);
            // The loot was worth stealing: perhaps there is some for a napping worker, too. Each
            // wakes the next.
            worker.shared().idle.wake_napper(worker.shared());
        }
    }

    /// Doubles the nap, up to a bound that grows with the number of napping workers: together they
    /// need only so many looks per millisecond.
    fn nap_longer(&mut self, worker: &Worker) {
        let longest = LONGEST_NAP * worker.shared().idle.napping().max(1);
        self.nap = (self.nap * 2).clamp(FIRST_NAP, longest);
    }

    /// Returns `true` if there is something to run now.
    fn search(&mut self, worker: &Worker) -> bool {
        // Probably a task of our own is woken again. A worker that leaves the searchers has to look
        // for work on behalf of the sleepers, which costs more than this wait. But a worker that
        // never searched would leave all work to the others.
        if !self.counted && (1..AWAITED).contains(&self.awaited) && worker.live() > 0 {
            spin_until(LINGER, || {
                worker.has_ready() || worker.has_fresh() || worker.shared().is_stopping()
            });
            if worker.has_ready() {
                self.awaited += 1;
                return true;
            }
        }
        self.awaited = 0;
        let shared = worker.shared();
        if !self.counted && !shared.idle.start_searching(shared.workers()) {
            let polls = shared.workers() <= FEW || !shared.has_processors;
            let called = if polls { linger(worker) } else { stand_by(worker) };
            if !called {
                return worker.has_ready() || worker.has_fresh();
            }
        }
        self.counted = true;
        let start = now();
        shared.neighbourhoods.note(worker.remote.index, &worker.place);
        let probes = probes(shared.workers());
        // None at the first turn: the neighbours of a worker that was called just now have been
        // called as well, and have nothing yet.
        let mut near_probes = 0;
        let patience = self.patience(shared.workers());
        let mut asked: Option<Asked> = None;
        let mut vain = 0;
        let mut has_requested = false;
        let found = loop {
            if worker.has_ready() || worker.has_fresh() {
                self.awaited = u8::from(worker.has_ready());
                break true;
            }
            let (near, probed) = (worker.some_neighbours(near_probes), worker.some_others(probes));
            if Searcher::steal_public(worker, near.chain(probed.clone())) {
                break true;
            }
            near_probes = shared.workers().ilog2() as usize;
            let time = now();
            match asked {
                Some(Asked { victim, since, spawned }) if time - since >= patience => {
                    asked = None;
                    if self.take_by_force(worker, victim, spawned) {
                        break true;
                    }
                    vain += 1;
                    if vain == VAIN {
                        self.nap_longer(worker);
                        break false;
                    }
                }
                // Among many workers, the searcher asks another one now. Among few, it keeps
                // waiting, and so finds out that the victim's tasks come and go (`VAIN`).
                Some(Asked { victim, .. })
                    if shared.workers() > FEW && !shared.remote(victim).has_private() =>
                {
                    asked = None;
                }
                Some(_) => {}
                None => {
                    asked = self.ask(probed.clone(), time);
                    if asked.is_none() && !mem::replace(&mut has_requested, true) {
                        // A loop that could share its remaining iterations looks for requests. A
                        // task that forks now and then notices one when it forks.
                        probed.for_each(Remote::request);
                    }
                    let alone = shared.idle.away() + 1 >= shared.workers();
                    let limit = if alone { SEARCH_ALONE } else { self.patient(worker, SEARCH) };
                    if asked.is_none() && (time - start >= limit || shared.workers() == 1) {
                        break false;
                    }
                }
            }
            if shared.is_stopping() || time - start >= LONGEST_WAIT {
                break false;
            }
            if time - start >= POLITE { thread::yield_now() } else { spin_loop() }
        };
        if found {
            // The next thing that this worker takes is a task from its own deque or the injector,
            // unless it has something that comes before: that task might wait for the very task.
            let before = worker.has_ready()
                || worker.queues.has_dedicated()
                || !worker.remote.private.is_empty()
                || !worker.queues.local.borrow().is_empty();
            let next = usize::from(!before);
            Searcher::recruit(worker, next);
            self.leave_searchers_for(worker, next);
        }
        found
    }

    /// Leaves the searchers, if counted, and wakes a worker if work is left.
    fn leave_searchers(&mut self, worker: &Worker) {
        self.leave_searchers_for(worker, 0);
    }

    /// As `leave_searchers`. `next` is the number of tasks in the injector or in the worker's own
    /// deque that this worker takes next: `Worker::run_until_idle` makes sure that it does.
    fn leave_searchers_for(&mut self, worker: &Worker, next: usize) {
        if !mem::replace(&mut self.counted, false) {
            return;
        }
        let shared = worker.shared();
        if !shared.idle.stop_searching() {
            return;
        }
        // A worker that has set a timer meanwhile has woken no worker, and relied on this one.
        worker.clockwork.keeps_time.set(true);
        if shared.idle.resting() == 0 {
            return;
        }
        let left = || {
            shared.injector.len() + worker.queues.deque.len() > next
                || worker.others().any(|r| !r.thief.is_empty())
                || shared.remotes().any(Remote::has_private)
        };
        let ask = || shared.remotes().for_each(Remote::request);
        if shared.idle.look_after_search(shared.workers() - 1, ask, left) {
            // Wakes as the producer would have done without a searcher. This worker takes from its
            // own deque before the injector.
            let injected = next.saturating_sub(worker.queues.deque.len());
            shared.idle.wake_one(shared, shared.injector.len() > injected);
        } else {
            worker.queues.takes_next.set(next > 0);
        }
    }

    /// Wakes sleepers if there is more work where the loot came from. Each of them does the same,
    /// so the number of workers that have something to do doubles from step to step. `next` is as for
    /// `leave_searchers_for`.
    fn recruit(worker: &Worker, next: usize) {
        let shared = worker.shared();
        // Few workers are awake soon if each wakes the next, and the tasks of a pipeline, of which
        // each has its share, are better left to those who are invited.
        let helps = shared.workers() > FEW && shared.has_processors;
        if !helps || !shared.idle.anyone_asleep() {
            return;
        }
        let mine = worker.queues.deque.len().saturating_sub(next);
        let victim = worker.loot.get().and_then(|loot| loot.victim);
        let left = victim.map_or(0, |victim| shared.remote(victim).stealable(RECRUITS));
        shared.idle.recruit(shared, (mine + left).min(RECRUITS), shared.workers());
    }

    fn steal_public<'a>(worker: &Worker, probed: impl Iterator<Item = &'a Remote>) -> bool {
        if let Some(record) = worker.take_offered() {
            looted(worker, 1, None);
            worker.run_next(record);
            return true;
        }
        let anyone_offers = worker.anyone_offers();
        for remote in probed {
            if anyone_offers && remote.census.offered().is_some() {
                continue;
            }
            // A Retry means that another thief is at it: move on to the next victim.
            point();
            if remote.thief.is_empty() || fault(Fault::Steal) {
                continue;
            }
            let (from, most) = (&remote.thief, BATCH / 2);
            if !worker.may_start() {
                if from.steal_batch(&worker.queues.deque, most) {
                    looted(worker, 0, Some(remote.index));
                    return true;
                }
            } else if let Steal::Success(item) =
                from.steal_batch_and_pop(&worker.queues.deque, most)
            {
                looted(worker, 1, Some(remote.index));
                let first = worker.open(item).or_else(|| worker.next_public());
                first.into_iter().for_each(|first| worker.run_next_or_offer(first));
                return true;
            }
        }
        false
    }

    /// Makes a request of the first worker that has private work.
    fn ask<'a>(
        &self,
        mut probed: impl Iterator<Item = &'a Remote>,
        since: Instant,
    ) -> Option<Asked> {
        let victim = probed.find(|remote| remote.has_private())?;
        victim.request();
        Some(Asked { victim: victim.index, since, spawned: victim.counters.spawned.get() })
    }

    /// How long to wait for an answer. The more workers the barrier of a forced steal interrupts,
    /// the longer.
    fn patience(&self, workers: usize) -> Duration {
        let interrupted = (workers / FEW).max(1) as u32;
        (self.force.clamp(PATIENCE, LONGEST_PATIENCE) * interrupted).min(LONGEST_PATIENCE)
    }

    /// How long to look out for work: `time`, or twice as long as the last loot has lasted if that
    /// is longer. Where the workers share the processors, the others can use the time better.
    fn patient(&self, worker: &Worker, time: Duration) -> Duration {
        if worker.shared().has_processors {
            (self.lasted * 2).clamp(time, LONGEST_SEARCH)
        } else {
            time
        }
    }

    /// Steals from the private deque or fork list of a worker that has not answered. `spawned` is
    /// the number of tasks that it had spawned at the time of the request.
    fn take_by_force(&mut self, worker: &Worker, victim: usize, spawned: u64) -> bool {
        let remote = worker.shared().remote(victim);
        if !remote.has_private() {
            return false;
        }
        let silent = remote.counters.spawned.get() == spawned && remote.private.is_requested();
        let (keeps, mut kept) = (worker.may_start(), None);
        let start = now();
        let mut taken = remote.private.steal(BATCH / 2, |record| match kept {
            None if keeps => kept = Some(record),
            _ => worker.push_public(record),
        });
        if taken == 0 && worker.steal_fork(remote, |_| true) {
            taken = 1;
            kept = if keeps { worker.next_public() } else { None };
        }
        self.force = (self.force * 7 + (now() - start)) / 8;
        worker.counters().rescues.add(1);
        if taken > 0 {
            looted(worker, usize::from(kept.is_some()), Some(victim));
            kept.into_iter().for_each(|first| worker.run_next_or_offer(first));
            if silent {
                // The victim computes, and would not have come to these tasks soon: they are not to
                // be judged by their length.
                worker.loot.set(None);
                self.nap = Duration::ZERO;
            }
        }
        taken > 0
    }

    /// Rests while there are tasks, here or at another worker, but no stacks.
    fn starve(&mut self, worker: &Worker) {
        self.famine = (self.famine * 2).clamp(FIRST_FAMINE, LONGEST_FAMINE);
        let rested = exhaustion::rest(worker, self.famine);
        if rested.is_none() || worker.has_ready() {
            self.famine = Duration::ZERO;
        }
        self.counted |= rested == Some(Roused::ToSearch);
    }

    fn rest(&mut self, worker: &Worker) {
        let shared = worker.shared();
        if shared.pressure.load(Ordering::Relaxed) {
            return self.starve(worker);
        }
        self.famine = Duration::ZERO;
        self.lasted = Duration::ZERO;
        // After a nap in which no worker has spawned anything comes sleep, unless a worker still
        // has private work.
        let mut is_busy = || {
            let spawned = worker.others().map(|r| r.counters.spawned.get()).sum();
            let spawned_before = mem::replace(&mut self.spawned, spawned);
            spawned != spawned_before || worker.others().any(Remote::has_private)
        };
        let rest = if !self.nap.is_zero() && is_busy() {
            // While others spawn, nap may follow nap for ever.
            if self.tidiness.is_due() {
                self.tidiness.tidy(worker);
            }
            Rest::Nap(self.nap)
        } else {
            self.nap = Duration::ZERO;
            self.tidiness.tidy(worker).map_or(Rest::Sleep, Rest::SleepFor)
        };
        let naps = matches!(rest, Rest::Nap(_));
        let planned = worker.plan_rest(rest);
        worker.counters().sleeps.add(1);
        let roused = shared.idle.rest(shared, worker.remote.index, planned, || {
            if worker.has_ready()
                || worker.has_fresh() && !worker.memory.exhausted.get()
                || worker.must_plan_anew()
                || shared.is_stopping()
                || shared.pressure.load(Ordering::Relaxed)
            {
                return true;
            }
            if shared.workers() == 1 || naps {
                return false;
            }
            let public = || worker.others().any(|r| !r.thief.is_empty());
            let ask = || worker.others().for_each(Remote::request);
            let private = || worker.others().any(Remote::has_private);
            shared.idle.look_before_sleep(shared.workers(), public, ask, private)
        });
        self.counted |= roused == Roused::ToSearch;
        worker.remote.timers.end_rest();
        // Whether woken to search or not, leave the count first: foreign code may be called, and
        // while a counted worker runs it no other worker is woken.
        worker.fire_overdue(|| self.leave_searchers(worker));
        if let Rest::Nap(time) = rest {
            // One more look; short loot makes the next nap longer.
            self.nap = Duration::ZERO;
            let found = self.search(worker);
            self.leave_searchers(worker);
            self.nap = if found && worker.loot.get().is_none() { Duration::ZERO } else { time };
            if !found {
                self.nap_longer(worker);
            }
        }
    }
}

/// Records a steal. `besides` is the number of stolen items that are not in the deque.
fn looted(worker: &Worker, besides: usize, victim: Option<usize>) {
    worker.counters().steals.add(1);
    let items = worker.queues.deque.len() + besides;
    worker.loot.set(Some(Loot::new(items, worker.live(), victim)));
}
