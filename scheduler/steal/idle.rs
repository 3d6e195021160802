//! Which workers sleep and search, and why no worker sleeps through work.
//!
//! # States of a worker
//!
//! *active* (runs tasks) -> *searching* (looks at every queue; at most half of the workers) ->
//! *sleeping*, or *napping* (sleeping with a timeout, see below) -> woken. A worker that finds half
//! of the workers searching lingers for 5 to 40 us before it sleeps, since a task of its own is
//! often just being woken.
//!
//! # No wake-up is lost
//!
//! Work appears in five places. In each, both sides store, fence and load, so either the producer
//! sees the sleeper or the sleeper sees the work:
//!
//! * **Injector, public deques.** Producer: push; fence; if there are sleepers and no searcher,
//!   wake one. Sleeper: enter the list; fence; look.
//! * **A batch in transit** to a deque, from the injector or (without a search) from a victim's
//!   deque. Producer: push to the deque; then as for a public deque. Sleeper: enter the list;
//!   fence; look.
//! * **Inbox, `given_away` or wheel of one worker.** Producer: store; fence; if the worker's state
//!   is ASLEEP, wake it. Sleeper: state = ASLEEP; fence; look.
//! * **A private deque or a fork list.** Producer: store the tail or the newest fork; light fence;
//!   load the request. Sleeper: make a request of every worker; membarrier (or a fence, if all
//!   others rest: [`Idle::barrier`]); look.
//! * **The end of the runtime.** Producer: flag; wake all. Sleeper: enter the list; fence; look.
//!
//! **A producer relies on a searcher.** If a worker searches, the producer wakes no other. A
//! searcher that stops, with or without loot, first leaves the count, *fences*, and looks once
//! more. If work is left, it wakes the next worker. So workers are woken one at a time, and each
//! wakes the next. A waker counts the woken worker as searching, on its behalf, so that a second
//! producer does not wake another one.
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
//! The lists are behind a mutex: a worker that enters or leaves one pays for a futex call anyway.

use crate::shim::asymmetric::heavy;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::shim::{Bug, Mutex, assert_reachable, has, thread};
use std::sync::OnceLock;
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
    /// Workers that any work wakes.
    asleep: Vec<usize>,
    /// Workers that only the injector wakes, and only if no worker is asleep.
    napping: Vec<usize>,
    /// Workers taken off a list to search. They are counted already, and not up yet.
    chosen: Vec<usize>,
}

impl Lists {
    fn remove(&mut self, worker: usize) {
        self.asleep.retain(|w| *w != worker);
        self.napping.retain(|w| *w != worker);
    }
}

/// The workers that sleep and search.
#[derive(Default)]
pub(crate) struct Idle {
    lists: Mutex<Lists>,
    /// Lengths of the first two lists, to be read without the lock. They share one word: with two
    /// loads, a worker that gets up and lies down again in between would be counted twice.
    lengths: AtomicU64,
    searching: AtomicU32,
    /// Workers that rest while they are blocked, and are in no list.
    blocked: AtomicU32,
}

/// The numbers of sleeping and napping workers.
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
    /// As `Sleep`, with a timeout.
    SleepFor(Duration),
    /// In no list: wakes at [`Idle::notify_worker`], or at the timeout, and never to search.
    BlockedFor(Duration),
}

impl Rest {
    /// The same rest, for `time` at most.
    pub(crate) fn at_most(self, time: Duration) -> Rest {
        match self {
            Rest::Sleep => Rest::SleepFor(time),
            Rest::SleepFor(longest) => Rest::SleepFor(longest.min(time)),
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
    fn store_lengths(&self, lists: &Lists) {
        let (asleep, napping) = (lists.asleep.len() as u32, lists.napping.len() as u32);
        // Release: an observer that counts a worker as resting sees all that it pushed before. See
        // `barrier`.
        // MUTANT(idle.lengths.published): relaxed
        self.lengths.store(Lengths { asleep, napping }.word(), Ordering::Release);
    }

    fn lengths(&self, order: Ordering) -> Lengths {
        Lengths::of(self.lengths.load(order))
    }

    /// Enters the searchers. Returns `false` if half of `workers` search already.
    pub(crate) fn start_searching(&self, workers: usize) -> bool {
        if self.searching.load(Ordering::Relaxed) as usize * 2 >= workers {
            return false;
        }
        // MUTANT(idle.count.enter): split
        self.searching.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Leaves the searchers. The caller then looks once more for work that is left. If it finds
    /// any, it calls [`Idle::wake_one`].
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
            let Lengths { asleep, napping } = self.lengths(Ordering::Relaxed);
            let resting = asleep + if nappers { napping } else { 0 };
            if resting == 0 || self.searching.load(Ordering::Relaxed) > 0 {
                return;
            }
            // Counted on behalf of the worker to be woken, before it is chosen.
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
            // The workers in the list have got up by themselves. Meanwhile another producer may
            // have seen our count and left its item to the worker that we did not find: look again.
            self.stop_searching();
            // MUTANT(idle.wake.again): first return
        }
    }

    /// Wakes one napping worker to search, if no worker searches.
    pub(crate) fn wake_napper(&self, sleepers: &impl Sleepers) {
        let relaxed = Ordering::Relaxed;
        // MUTANT(idle.wake_napper.claim): split
        if self.napping() == 0 || self.searching.compare_exchange(0, 1, relaxed, relaxed).is_err() {
            return;
        }
        if !self.rouse(sleepers, |lists| lists.napping.pop()) {
            self.stop_searching();
            // For an item that a producer has left to us meanwhile.
            // MUTANT(idle.wake_napper.again): skip
            self.wake_one(sleepers, true);
        }
    }

    /// Rouses the worker that `choose` takes from the lists; it is counted as searching already.
    fn rouse(
        &self,
        sleepers: &impl Sleepers,
        choose: impl FnOnce(&mut Lists) -> Option<usize>,
    ) -> bool {
        let mut lists = self.lists.lock();
        let chosen = choose(&mut lists);
        lists.chosen.extend(chosen);
        self.store_lengths(&lists);
        drop(lists);
        if let Some(worker) = chosen {
            sleepers.sleeper(worker).rouse();
        }
        chosen.is_some()
    }

    /// The number of workers that search, or have been woken to.
    pub(crate) fn searching(&self) -> usize {
        self.searching.load(Ordering::Relaxed) as usize
    }

    /// Whether any worker searches, or has been woken to.
    pub(crate) fn anyone_searching(&self) -> bool {
        self.searching() > 0
    }

    /// A barrier in all workers that do not rest, between the caller's requests and its look at
    /// their pushes. `others` is the number of workers that may rest, including the caller if it
    /// has lain down.
    ///
    /// If all of them rest, a fence suffices. A worker that gets up by now is out of its list,
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
        let mut lists = self.lists.lock();
        lists.remove(worker);
        self.store_lengths(&lists);
        drop(lists);
        // `wake_one` may have chosen this worker meanwhile. To rouse it twice does no harm.
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
            let mut lists = self.lists.lock();
            match rest {
                Rest::Sleep | Rest::SleepFor(_) => lists.asleep.push(worker),
                Rest::Nap(_) => lists.napping.push(worker),
                Rest::BlockedFor(_) => _ = self.blocked.fetch_add(1, Ordering::Relaxed),
            }
            self.store_lengths(&lists);
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
        if matches!(rest, Rest::BlockedFor(_)) {
            self.blocked.fetch_sub(1, Ordering::Relaxed);
        }
        let mut lists = self.lists.lock();
        lists.remove(worker);
        let before = lists.chosen.len();
        // MUTANT(idle.rest.chosen): skip
        lists.chosen.retain(|w| *w != worker);
        let chosen = lists.chosen.len() < before;
        self.store_lengths(&lists);
        drop(lists);
        // Before this worker pushes anything: see `barrier`.
        fence(Ordering::SeqCst);
        me.state.store(AWAKE, Ordering::Relaxed);
        if chosen { Roused::ToSearch } else { Roused::ForItself }
    }
}

/// Finds the sleeping place of a worker by its index.
pub(crate) trait Sleepers {
    fn sleeper(&self, worker: usize) -> &Sleeper;
}
