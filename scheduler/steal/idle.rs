//! Who sleeps, who searches, and how nobody sleeps through work.
//!
//! # States of a worker
//!
//! *active* (runs tasks) -> *searching* (looks at every queue; at most half of the workers) ->
//! *sleeping*, or *napping* (sleeping with a timeout, see below) -> woken. One that finds half of them
//! searching lingers for 5 to 40 us before it sleeps: often one of them is just being woken.
//!
//! # No wake is lost
//!
//! Work appears in five places. For each there is a pair "store, fence, load" on both sides, so that
//! either the producer sees the sleeper or the sleeper sees the work:
//!
//! | where | producer | sleeper |
//! | --- | --- | --- |
//! | injector, public deques | push; fence; `sleepers > 0` and nobody searching: wake one | enter the list; fence; look |
//! | a batch from the injector, or a victim's deque without a search, to a deque | push to the deque; as above | as above |
//! | inbox, cut request of one worker | push; fence; its state is ASLEEP: wake it | state = ASLEEP; fence; look |
//! | a private deque, a fork list | store tail; (light fence); load limit | ask every one; membarrier (a fence, if all others rest); look |
//! | end of the runtime | flag; wake all | enter the list; fence; look |
//!
//! "Nobody searching" suffices, since a searcher that stops, with or without loot, first leaves the
//! count, *fences*, and looks once more: if work is left it wakes the next one; so one is
//! woken at a time and it wakes the next. A waker counts the woken one as searching on its behalf, so
//! that a second producer does not wake another.
//!
//! A sleeper relies on a searcher in the same way: as long as somebody searches it asks nobody, and leaves
//! that to the searcher. So one that stops and finds somebody asleep asks in the sleeper's stead, with a
//! membarrier and a look. It asks every private deque and every fork list, *its own too*: what it has found may
//! be a task of its own that has been woken, and that spawns from then on.
//!
//! An owner that finds itself asked relies on a searcher, too, if its private deque holds a lone task,
//! which is not handed over: the request stands, and nobody is woken. It sees the count after its
//! push, so the searcher leaves the count after that; and if somebody sleeps by then, that searcher
//! looks for the task behind a membarrier.
//!
//! # Naps
//!
//! A thief whose loot was gone within 600 ns, or 100 ns for each item, does more harm than good: it takes
//! cache lines from a worker that would have been done sooner alone. It naps, unasked by private deques, for a
//! time that doubles up to a millisecond for each worker that naps, so that all of them together look about
//! once in a millisecond. It does so as long as some worker goes on spawning, or has something left in its
//! private deque; else it goes to sleep in earnest. An idle runtime has no timer.
//!
//! One that naps is woken for its own inbox, and by a producer that has put something into the injector
//! from outside, or a searcher that leaves something there, if nobody is asleep and nobody searches. And one
//! whose loot was worth it wakes the next.
//!
//! The lists are behind a mutex: entering and leaving one costs a futex call anyway.

use crate::shim::asymmetric::heavy;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::shim::{Bug, Mutex, MutexGuard, assert_reachable, has, thread};
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

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

    /// Introduces the worker's thread. Before it sleeps for the first time.
    pub(crate) fn introduce(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// Panics if its worker is simulated, and the caller is not: what that does comes at another time in each run.
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
    fn sleep(&self, timeout: Option<Duration>) {
        match timeout {
            None => {
                while self.state.load(Ordering::Acquire) == ASLEEP {
                    thread::park();
                }
            }
            Some(timeout) => park_timeout(timeout),
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

#[derive(Default)]
struct Lists {
    /// Woken by any work.
    asleep: Vec<usize>,
    /// Woken by the injector only, if nobody is asleep.
    napping: Vec<usize>,
    /// Taken off a list to search, already counted, and not up yet.
    chosen: Vec<usize>,
}

impl Lists {
    fn remove(&mut self, worker: usize) {
        self.asleep.retain(|w| *w != worker);
        self.napping.retain(|w| *w != worker);
    }
}

/// Which workers sleep and search.
pub(crate) struct Idle {
    lists: Mutex<Lists>,
    /// Lengths of the first two lists, for a look without the lock. In one word: read one after the other, one
    /// who gets up and lies down again meanwhile would be counted twice.
    lengths: AtomicU64,
    searching: AtomicU32,
}

/// How many sleep, and how many nap.
#[derive(Clone, Copy)]
struct Lengths {
    asleep: u32,
    napping: u32,
}

impl Lengths {
    fn of(word: u64) -> Lengths {
        Lengths { asleep: word as u32, napping: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.napping) << 32 | u64::from(self.asleep)
    }
}

/// How a worker lies down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    Sleep,
    Nap(Duration),
    /// As one that sleeps, or when the time is up.
    SleepFor(Duration),
    /// Wakes for its own inbox only, or when the time is up.
    BlockedFor(Duration),
}

impl Rest {
    /// The same, for `time` at most.
    pub(crate) fn at_most(self, time: Duration) -> Rest {
        match self {
            Rest::Sleep => Rest::SleepFor(time),
            Rest::SleepFor(longest) => Rest::SleepFor(longest.min(time)),
            Rest::Nap(longest) => Rest::Nap(longest.min(time)),
            Rest::BlockedFor(longest) => Rest::BlockedFor(longest.min(time)),
        }
    }
}

/// What ended a rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Roused {
    /// Chosen to search; already counted.
    ToSearch,
    /// For its own inbox, or the time is up, or it found something itself.
    ForItself,
}

impl Idle {
    pub(crate) fn new() -> Idle {
        Idle {
            lists: Mutex::new(Lists::default()),
            lengths: AtomicU64::new(0),
            searching: AtomicU32::new(0),
        }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, lists: &Lists) {
        let (asleep, napping) = (lists.asleep.len() as u32, lists.napping.len() as u32);
        // Release: who is counted has pushed what it has pushed. See `barrier`.
        // MUTANT(idle.lengths.published): relaxed
        self.lengths.store(Lengths { asleep, napping }.word(), Ordering::Release);
    }

    fn lengths(&self, order: Ordering) -> Lengths {
        Lengths::of(self.lengths.load(order))
    }

    /// Enters the searchers, unless half of `workers` search already.
    pub(crate) fn start_searching(&self, workers: usize) -> bool {
        if self.searching.load(Ordering::Relaxed) as usize * 2 >= workers {
            return false;
        }
        // MUTANT(idle.count.enter): split
        self.searching.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Leaves the searchers. The caller then looks once more for work that is left, and passes what
    /// it finds to [`Idle::wake_one`].
    pub(crate) fn stop_searching(&self) {
        // MUTANT(idle.count.leave): split
        self.searching.fetch_sub(1, Ordering::Relaxed);
        // MUTANT(idle.leave.fence): skip
        fence(Ordering::SeqCst);
    }

    pub(crate) fn anyone_asleep(&self) -> bool {
        self.lengths(Ordering::Relaxed).asleep > 0
    }

    pub(crate) fn napping(&self) -> u32 {
        self.lengths(Ordering::Relaxed).napping
    }

    pub(crate) fn resting(&self) -> usize {
        // MUTANT(idle.lengths.read): relaxed
        let Lengths { asleep, napping } = self.lengths(Ordering::Acquire);
        (asleep + napping) as usize
    }

    /// Public work has appeared: somebody shall look for it. After the push.
    ///
    /// `nappers`: whether the work is worth waking one that naps.
    pub(crate) fn notify(&self, sleepers: &impl Sleepers, nappers: bool) {
        // MUTANT(idle.notify.fence): skip
        fence(Ordering::SeqCst);
        self.wake_one(sleepers, nappers);
    }

    /// Wakes one worker to search, if nobody searches.
    pub(crate) fn wake_one(&self, sleepers: &impl Sleepers, nappers: bool) {
        loop {
            let Lengths { asleep, napping } = self.lengths(Ordering::Relaxed);
            let resting = asleep + if nappers { napping } else { 0 };
            if resting == 0 || self.searching.load(Ordering::Relaxed) > 0 {
                return;
            }
            // Counted on behalf of the one to be woken, before it is chosen.
            // MUTANT(idle.wake.claim): split
            if self.searching.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err()
            {
                return;
            }
            let chosen = |lists: &mut Lists| match lists.asleep.pop() {
                None if nappers => lists.napping.pop(),
                chosen => chosen,
            };
            if self.rouse(sleepers, chosen) {
                return;
            }
            // Those in the list have got up by themselves. Meanwhile another producer may have seen
            // our count and left its item to the one we did not find: look again.
            self.stop_searching();
            // MUTANT(idle.wake.again): first return
        }
    }

    /// Wakes one that naps to search, if nobody searches.
    pub(crate) fn wake_napper(&self, sleepers: &impl Sleepers) {
        let relaxed = Ordering::Relaxed;
        // MUTANT(idle.wake_napper.claim): split
        if self.napping() == 0 || self.searching.compare_exchange(0, 1, relaxed, relaxed).is_err() {
            return;
        }
        if !self.rouse(sleepers, |lists| lists.napping.pop()) {
            self.stop_searching();
            // For what was left to us meanwhile.
            // MUTANT(idle.wake_napper.again): skip
            self.wake_one(sleepers, true);
        }
    }

    /// Rouses the one that is chosen from the lists, already counted as searching.
    fn rouse(
        &self,
        sleepers: &impl Sleepers,
        choose: impl FnOnce(&mut Lists) -> Option<usize>,
    ) -> bool {
        let mut lists = self.lists();
        let chosen = choose(&mut lists);
        lists.chosen.extend(chosen);
        self.publish(&lists);
        drop(lists);
        if let Some(worker) = chosen {
            sleepers.sleeper(worker).rouse();
        }
        chosen.is_some()
    }

    /// How many search, or have been woken to.
    pub(crate) fn searching(&self) -> usize {
        self.searching.load(Ordering::Relaxed) as usize
    }

    /// Whether anybody searches, or has been woken to.
    pub(crate) fn anyone_searching(&self) -> bool {
        self.searching() > 0
    }

    /// A barrier in all workers that do not rest, between requests that the caller has made and a look
    /// at what they have pushed. `others` is how many may rest, the caller too if it has lain down.
    ///
    /// If all rest, a fence will do: one that gets up by now is out of its list, *fences*, and reads the
    /// requests at its next push; either it sees them, or we see that it does not rest. And what one that
    /// rests had pushed before is seen with its count.
    pub(crate) fn barrier(&self, others: usize) {
        // MUTANT(idle.barrier.fence): skip
        fence(Ordering::SeqCst);
        if self.resting() < others {
            heavy();
        }
    }

    /// What a searcher does that has left the count while somebody rests: whether anything is left. `left` is a look at all public
    /// queues and at what is private to anybody; `ask` asks every private deque and fork list, one's own too: who lay down while the
    /// searcher was counted has left that to it, and what it has found may be a task that spawns.
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
        // A push that the first look has missed may have missed the request; one that the second look
        // misses has not: there is a barrier between the two, as in `look_before_sleep`.
        left()
            // MUTANT(idle.after_search.again): false
            || asks && {
                // MUTANT(idle.after_search.barrier): skip
                self.barrier(others);
                left()
            }
    }

    /// What one looks for that has lain down, besides what is its own: whether there is something. `ask` asks the others, and
    /// `private` is a look at what they have in their private deques and rows of forks.
    pub(crate) fn look_before_sleep(
        &self,
        workers: usize,
        public: impl Fn() -> bool,
        ask: impl FnOnce(),
        private: impl FnOnce() -> bool,
    ) -> bool {
        // Whoever searches looks again when it stops, and wakes us if work is left.
        if self.anyone_searching() {
            return false;
        }
        if public() {
            return true;
        }
        // MUTANT(idle.before_sleep.ask): skip
        ask();
        // What they push from now on they notice the request with.
        // MUTANT(idle.before_sleep.barrier): skip
        self.barrier(workers);
        public() || private()
    }

    /// Something has been put where only `worker` looks. After the push. Whether it was asleep.
    pub(crate) fn notify_worker(&self, sleepers: &impl Sleepers, worker: usize) -> bool {
        // MUTANT(idle.notify_worker.fence): skip
        fence(Ordering::SeqCst);
        if !sleepers.sleeper(worker).is_asleep() {
            return false;
        }
        let mut lists = self.lists();
        lists.remove(worker);
        self.publish(&lists);
        drop(lists);
        // It may have been chosen by `wake_one` meanwhile: roused twice is roused.
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
        {
            let mut lists = self.lists();
            match rest {
                Rest::Sleep | Rest::SleepFor(_) => lists.asleep.push(worker),
                Rest::Nap(_) => lists.napping.push(worker),
                Rest::BlockedFor(_) => {}
            }
            self.publish(&lists);
        }
        // MUTANT(idle.rest.fence): skip
        fence(Ordering::SeqCst);
        // MUTANT(idle.rest.look): true
        if has(Bug::NoLookBeforeSleep) || !look() {
            me.sleep(match rest {
                Rest::Sleep => None,
                Rest::Nap(time) | Rest::SleepFor(time) | Rest::BlockedFor(time) => Some(time),
            });
        }
        let mut lists = self.lists();
        lists.remove(worker);
        let before = lists.chosen.len();
        // MUTANT(idle.rest.chosen): skip
        lists.chosen.retain(|w| *w != worker);
        let chosen = lists.chosen.len() < before;
        self.publish(&lists);
        drop(lists);
        // Before it pushes anything: see `barrier`.
        fence(Ordering::SeqCst);
        me.state.store(AWAKE, Ordering::Relaxed);
        if chosen { Roused::ToSearch } else { Roused::ForItself }
    }
}

/// Finds the sleeping place of a worker by its index.
pub(crate) trait Sleepers {
    fn sleeper(&self, worker: usize) -> &Sleeper;
}
