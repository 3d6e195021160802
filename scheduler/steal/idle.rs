//! Which workers sleep and search, and why no worker sleeps through work.
//!
//! # States of a worker
//!
//! *active* (runs tasks) -> *searching* (looks at the queues of others) -> *sleeping*, or *napping*
//! (sleeping with a timeout, see below) -> woken. At most half of the workers search, and of many
//! workers only a few: their searchers take cache lines from those who work. A worker that finds
//! enough of them searching waits for 5 to 40 us before it sleeps, since a task of its own is often
//! just being woken. Of few workers it *lingers*, and polls the count of searchers. Of many it
//! *stands by*: it counts as asleep, but keeps its processor, and so is up 0.1 us after it is woken
//! instead of 8. Where the workers share the processors, all of them linger.
//!
//! # No wake-up is lost
//!
//! Work appears in five places. In each, both sides store, fence and load, so either the producer
//! sees the sleeper or the sleeper sees the work:
//!
//! * **Injector, public deques.** Producer: push; fence; if there are sleepers and no searcher,
//!   wake one. Sleeper: enter the set; fence; look.
//! * **A batch in transit** to a deque, from the injector or (without a search) from a victim's
//!   deque. Producer: push to the deque; then as for a public deque. Sleeper: enter the set;
//!   fence; look.
//! * **Inbox, `given_away` or wheel of one worker.** Producer: store; fence; if the worker's state
//!   is ASLEEP, wake it. Sleeper: state = ASLEEP; fence; look.
//! * **A private deque or a fork list.** Producer: store the tail or the newest fork; light fence;
//!   load the request. Sleeper: make a request of every worker; membarrier (or a fence, if all
//!   others rest: [`Idle::barrier`]); look.
//! * **The end of the runtime.** Producer: flag; wake all. Sleeper: enter the set; fence; look.
//!
//! **A producer relies on a searcher.** If a worker searches, the producer wakes no other. The last
//! searcher that stops, with or without loot, first leaves the count, *fences*, and looks once
//! more. If work is left, it wakes the next worker. A searcher that leaves others behind need not
//! look: its update of the count hands on what it has pushed, down to the last one. A waker counts
//! the woken worker as searching, on its behalf, so that a second producer does not wake another
//! one. A producer that asks whether any worker searches reads a flag, which changes less often
//! than the count. A searcher that enters sets the flag, if it is not set. The last searcher clears
//! it when it has left the count, before its fence. So the flag may be clear for a while although a
//! worker searches, which costs wake-ups. It is never set when all searchers have looked for the
//! last time: the searcher that has set it leaves the count later, and thus before the last one.
//!
//! **Recruits.** A searcher that has found more than it needs wakes up to two sleepers while it is
//! still counted, if there are many workers and each has a processor. Each of them does the same,
//! so the number of workers that have something to do doubles from step to step. No promise
//! depends on this.
//!
//! **A sleeper relies on a searcher.** While a worker searches, a worker that lies down makes no
//! requests and leaves them to the searcher. So a searcher that stops and finds a sleeper makes the
//! requests in the sleeper's stead, with a membarrier and a look. It sends them to every private
//! deque and every fork list, *its own too*: the searcher may have found a task of its own that was
//! woken, and that spawns from then on.
//!
//! **An owner relies on a searcher.** An owner that finds a request while its private deque holds a
//! lone task does not hand the task over. The request stands, and the owner wakes no worker. The
//! owner reads the count of searchers after its push, so the searcher leaves the count after the
//! push. If there is a sleeper by then, that searcher looks for the task behind a membarrier.
//!
//! # Naps
//!
//! A thief whose loot was gone within 600 ns, or 100 ns per item, does more harm than good: it
//! takes cache lines from a worker that alone would have been done sooner. Such a thief naps, and
//! makes no requests of private deques. The nap doubles up to a millisecond for each napping
//! worker, so that all of them together look about once in a millisecond. The thief goes on napping
//! while some worker goes on spawning, or has an item left in its private deque. Otherwise it goes
//! to sleep. An idle runtime has no timer.
//!
//! A napping worker is woken for its own inbox. It is also woken by a producer that has pushed into
//! the injector from outside, or by a searcher that leaves an item there, if no worker is asleep
//! and none searches. A thief whose loot was worth stealing wakes the next napping worker.
//!
//! # The sets
//!
//! Each state of rest has a set with a bit for each worker. A worker enters its set when it lies
//! down, and leaves it when it gets up. A waker that takes a worker out has chosen it to search, and
//! has counted it. So a worker that gets up, for whatever reason, and is not in its set any more,
//! is a searcher. A worker that is woken for its inbox stays in its set until it is up. If it is
//! chosen meanwhile, it searches first, finds its own task, and leaves the count.

use crate::scheduler::worker_set::WorkerSet;
use crate::shim::asymmetric::heavy;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::shim::{Bug, assert_reachable, has, spin_until, thread};
use crossbeam_utils::CachePadded;
use std::sync::OnceLock;
use std::time::Duration;

/// Up to this number of workers, all may look at all others, and at what all of them change.
pub(crate) const FEW: usize = 8;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// The sleeping place of one worker.
pub(crate) struct Sleeper {
    state: AtomicU32,
    thread: OnceLock<thread::Thread>,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper { state: AtomicU32::new(AWAKE), thread: OnceLock::new() }
    }

    /// Registers the worker's thread. Called before the worker sleeps for the first time.
    pub(crate) fn introduce(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// Panics if the worker is simulated and the caller is not: the effect of such a call comes at
    /// a different time in each run.
    pub(crate) fn assert_reachable(&self) {
        self.thread.get().into_iter().for_each(assert_reachable);
    }

    fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ASLEEP
    }

    fn rouse(&self) {
        self.state.store(AWAKE, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sleeps until roused. For the worker's thread, in state ASLEEP.
    fn sleep(&self, rest: Rest) {
        match rest {
            Rest::Sleep => {
                while self.state.load(Ordering::Acquire) == ASLEEP {
                    thread::park();
                }
            }
            Rest::StandBy(time) => {
                spin_until(time, || self.state.load(Ordering::Acquire) != ASLEEP);
            }
            Rest::Nap(time) | Rest::SleepFor(time) | Rest::BlockedFor(time) => park_timeout(time),
        }
    }
}

#[cfg(not(loom))]
fn park_timeout(timeout: Duration) {
    thread::park_timeout(timeout);
}

#[cfg(loom)]
fn park_timeout(_: Duration) {
    thread::yield_now();
}

/// The workers that sleep and search.
pub(crate) struct Idle {
    /// Workers that any work wakes: those that have kept their processors come first.
    standing_by: WorkerSet,
    asleep: WorkerSet,
    /// Workers that only the injector wakes, and only if no worker is asleep.
    napping: WorkerSet,
    searching: CachePadded<AtomicU32>,
    /// Whether any worker searches, for those who only ask that: the count changes all the time.
    anyone_searches: CachePadded<AtomicBool>,
    /// Workers that rest while they are blocked, and are in no set.
    blocked: CachePadded<AtomicU32>,
}

/// How a worker lies down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    Sleep,
    Nap(Duration),
    /// As `Sleep`, with a timeout.
    SleepFor(Duration),
    /// As `SleepFor`, but the thread keeps its processor, so that it gets up sooner.
    StandBy(Duration),
    /// In no set: wakes at [`Idle::notify_worker`], or at the timeout, and never to search.
    BlockedFor(Duration),
}

impl Rest {
    /// The same rest, for `time` at most.
    pub(crate) fn at_most(self, time: Duration) -> Rest {
        match self {
            Rest::Sleep => Rest::SleepFor(time),
            Rest::SleepFor(longest) => Rest::SleepFor(longest.min(time)),
            Rest::StandBy(longest) => Rest::StandBy(longest.min(time)),
            Rest::Nap(longest) => Rest::Nap(longest.min(time)),
            Rest::BlockedFor(longest) => Rest::BlockedFor(longest.min(time)),
        }
    }
}

/// The reason why a rest ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Roused {
    /// Chosen to search, and already counted as a searcher.
    ToSearch,
    /// Woken for its own inbox or by the timeout, or found something itself.
    ForItself,
}

impl Idle {
    pub(crate) fn new(workers: usize) -> Idle {
        Idle {
            standing_by: WorkerSet::new(workers),
            asleep: WorkerSet::new(workers),
            napping: WorkerSet::new(workers),
            searching: CachePadded::default(),
            anyone_searches: CachePadded::new(AtomicBool::new(false)),
            blocked: CachePadded::default(),
        }
    }

    /// Enters the searchers. Returns `false` if enough of `workers` search already.
    pub(crate) fn start_searching(&self, workers: usize) -> bool {
        if self.searching() >= most_searchers(workers) {
            return false;
        }
        self.count_searcher();
        true
    }

    fn count_searcher(&self) {
        // MUTANT(idle.count.enter): split
        let first = self.searching.fetch_add(1, Ordering::Relaxed) == 0;
        // The last searcher of before may be about to clear it, or may have done so since.
        if first || !self.anyone_searching() {
            self.anyone_searches.store(true, Ordering::Relaxed);
        }
    }

    /// Counts the first searcher. Returns `false` if there is one.
    fn count_first_searcher(&self) -> bool {
        let relaxed = Ordering::Relaxed;
        // MUTANT(idle.wake.claim): split
        let first = self.searching.compare_exchange(0, 1, relaxed, relaxed).is_ok();
        if first {
            self.anyone_searches.store(true, relaxed);
        }
        first
    }

    /// Leaves the searchers. Returns whether no searcher is left: the caller then looks once more
    /// for work that is left. If it finds any, it calls [`Idle::wake_one`].
    #[must_use]
    pub(crate) fn stop_searching(&self) -> bool {
        // MUTANT(idle.count.leave): split, relaxed
        let last = self.searching.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            self.anyone_searches.store(false, Ordering::Relaxed);
        }
        // MUTANT(idle.leave.fence): skip
        fence(Ordering::SeqCst);
        last
    }

    pub(crate) fn anyone_asleep(&self) -> bool {
        !self.standing_by.is_empty() || !self.asleep.is_empty()
    }

    /// Takes out a worker that any work wakes.
    fn take_sleeper(&self) -> Option<usize> {
        self.standing_by.take().or_else(|| self.asleep.take())
    }

    /// Whether any work would wake more than half of `workers`. A guess.
    pub(crate) fn most_sleep(&self, workers: usize) -> bool {
        WorkerSet::count([&self.standing_by, &self.asleep]) * 2 > workers
    }

    pub(crate) fn napping(&self) -> u32 {
        self.napping.len() as u32
    }

    /// The number of workers that sleep or nap without a processor.
    pub(crate) fn away(&self) -> usize {
        WorkerSet::count([&self.asleep, &self.napping])
    }

    pub(crate) fn resting(&self) -> usize {
        WorkerSet::count([&self.standing_by, &self.asleep, &self.napping])
    }

    /// Whether all workers but one rest, also while they are blocked. A guess.
    pub(crate) fn all_rest_but_one(&self, sleepers: usize) -> bool {
        self.resting() + self.blocked.load(Ordering::Relaxed) as usize + 1 >= sleepers
    }

    /// Wakes a worker for public work. Called after the push.
    ///
    /// `nappers`: whether the work is worth waking a napping worker.
    pub(crate) fn notify(&self, sleepers: &impl Sleepers, nappers: bool) {
        // MUTANT(idle.notify.fence): skip
        fence(Ordering::SeqCst);
        self.wake_one(sleepers, nappers);
    }

    /// Wakes one worker to search, if no worker searches.
    pub(crate) fn wake_one(&self, sleepers: &impl Sleepers, nappers: bool) {
        loop {
            let resting = self.anyone_asleep() || nappers && !self.napping.is_empty();
            if !resting || self.anyone_searching() {
                return;
            }
            // Counted on behalf of the worker to be woken, before it is chosen.
            if !self.count_first_searcher() {
                return;
            }
            let chosen = self.take_sleeper();
            let chosen = if nappers { chosen.or_else(|| self.napping.take()) } else { chosen };
            if rouse(sleepers, chosen) {
                return;
            }
            // The workers in the set have got up by themselves. Meanwhile another producer may
            // have seen our count and left its item to the worker that we did not find: look again.
            let _ = self.stop_searching();
            // MUTANT(idle.wake.again): first return
        }
    }

    /// Wakes up to `most` sleepers to search, besides those who search, as long as less than half
    /// of `workers` do.
    pub(crate) fn recruit(&self, sleepers: &impl Sleepers, most: usize, workers: usize) {
        for _ in 0..most {
            if !self.anyone_asleep() || self.searching() * 2 >= workers {
                return;
            }
            self.count_searcher();
            if !rouse(sleepers, self.take_sleeper()) {
                self.withdraw(sleepers);
                return;
            }
        }
    }

    /// Wakes one napping worker to search, if no worker searches.
    pub(crate) fn wake_napper(&self, sleepers: &impl Sleepers) {
        if self.napping.is_empty() || !self.count_first_searcher() {
            return;
        }
        if !rouse(sleepers, self.napping.take()) {
            self.withdraw(sleepers);
        }
    }

    /// Takes back the count of a worker that was to be woken, and was not found.
    fn withdraw(&self, sleepers: &impl Sleepers) {
        let _ = self.stop_searching();
        // For an item that a producer has left to us meanwhile.
        // MUTANT(idle.wake_napper.again): skip
        self.wake_one(sleepers, true);
    }

    /// The number of workers that search, or have been woken to.
    pub(crate) fn searching(&self) -> usize {
        self.searching.load(Ordering::Relaxed) as usize
    }

    /// Whether any worker searches, or has been woken to.
    pub(crate) fn anyone_searching(&self) -> bool {
        self.anyone_searches.load(Ordering::Relaxed)
    }

    /// A barrier in all workers that do not rest, between the caller's requests and its look at
    /// their pushes. `others` is the number of workers that may rest, including the caller if it
    /// has lain down.
    ///
    /// If all of them rest, a fence suffices. A worker that gets up by now is out of its set,
    /// *fences*, and reads the request at its next push. So either it sees the request, or the
    /// caller sees that it does not rest. The earlier pushes of a resting worker are visible with
    /// its count.
    pub(crate) fn barrier(&self, others: usize) {
        // MUTANT(idle.barrier.fence): skip
        fence(Ordering::SeqCst);
        if self.resting() < others {
            heavy();
        }
    }

    /// The last look of a searcher that has left the count while workers rest. Returns whether any
    /// work is left. `left` looks at all public queues and at all private work. `ask` makes a
    /// request of every private deque and fork list, the searcher's own too: a worker that lay down
    /// while the searcher was counted has left that to it, and the searcher may have found a task
    /// that spawns.
    pub(crate) fn look_after_search(
        &self,
        others: usize,
        ask: impl FnOnce(),
        left: impl Fn() -> bool,
    ) -> bool {
        let asks = self.anyone_asleep();
        if asks {
            // MUTANT(idle.after_search.ask): skip
            ask();
        }
        // A push that the first look misses may also have missed the request. A push that the
        // second look misses has seen the request: the barrier between the two looks ensures that,
        // as in `look_before_sleep`.
        left()
            // MUTANT(idle.after_search.again): false
            || asks && {
                // MUTANT(idle.after_search.barrier): skip
                self.barrier(others);
                left()
            }
    }

    /// The look of a worker that has lain down, at all work but its own. Returns whether there is
    /// any. `ask` makes a request of all other workers, and `private` looks at their private deques
    /// and fork lists.
    pub(crate) fn look_before_sleep(
        &self,
        workers: usize,
        public: impl Fn() -> bool,
        ask: impl FnOnce(),
        private: impl FnOnce() -> bool,
    ) -> bool {
        // A searcher looks again when it stops, and wakes us if work is left.
        if self.anyone_searching() {
            return false;
        }
        if public() {
            return true;
        }
        // MUTANT(idle.before_sleep.ask): skip
        ask();
        // From here on, each of their pushes sees the request.
        // MUTANT(idle.before_sleep.barrier): skip
        self.barrier(workers);
        public() || private()
    }

    /// Wakes `worker` if it sleeps, after a push or store that only this worker reads. Returns
    /// whether it was asleep.
    pub(crate) fn notify_worker(&self, sleepers: &impl Sleepers, worker: usize) -> bool {
        // MUTANT(idle.notify_worker.fence): skip
        fence(Ordering::SeqCst);
        if !sleepers.sleeper(worker).is_asleep() {
            return false;
        }
        // The worker itself leaves the set. If it is chosen to search as well until it is up, it
        // does so first.
        sleepers.sleeper(worker).rouse();
        true
    }

    /// Lies down until roused, unless `look` finds something after the announcement.
    pub(crate) fn rest(
        &self,
        sleepers: &impl Sleepers,
        worker: usize,
        rest: Rest,
        look: impl FnOnce() -> bool,
    ) -> Roused {
        let me = sleepers.sleeper(worker);
        me.state.store(ASLEEP, Ordering::Relaxed);
        let set = match rest {
            Rest::StandBy(_) => Some(&self.standing_by),
            Rest::Sleep | Rest::SleepFor(_) => Some(&self.asleep),
            Rest::Nap(_) => Some(&self.napping),
            Rest::BlockedFor(_) => None,
        };
        match set {
            Some(set) => set.insert(worker),
            None => _ = self.blocked.fetch_add(1, Ordering::Relaxed),
        }
        // MUTANT(idle.rest.fence): skip
        fence(Ordering::SeqCst);
        // MUTANT(idle.rest.look): true
        if has(Bug::NoLookBeforeSleep) || !look() {
            me.sleep(rest);
        }
        let chosen = if let Some(set) = set {
            // MUTANT(idle.rest.chosen): false
            !set.remove(worker)
        } else {
            self.blocked.fetch_sub(1, Ordering::Relaxed);
            false
        };
        // Before this worker pushes anything: see `barrier`.
        fence(Ordering::SeqCst);
        me.state.store(AWAKE, Ordering::Relaxed);
        if chosen { Roused::ToSearch } else { Roused::ForItself }
    }
}

/// The most workers that begin to search at a time.
fn most_searchers(workers: usize) -> usize {
    workers.div_ceil(2).min(1 + workers.ilog2() as usize * 3 / 2)
}

/// Rouses a worker that was taken out of a set, and is counted as searching already.
fn rouse(sleepers: &impl Sleepers, chosen: Option<usize>) -> bool {
    chosen.into_iter().for_each(|worker| sleepers.sleeper(worker).rouse());
    chosen.is_some()
}

/// Finds the sleeping place of a worker by its index.
pub(crate) trait Sleepers {
    fn sleeper(&self, worker: usize) -> &Sleeper;
}
