//! Even shares: spreads tasks that wait before they compute over the workers, class by class.
//!
//! # Counts and shares
//!
//! A worker counts the fibers that run tasks of each class of spawn places, and publishes the
//! counts in its [`Census`](crate::scheduler::balance::census::Census), which it alone writes.
//! Before it begins one more task of a class that is to be spread (habits.rs), it compares. It
//! begins no more tasks of a class than an even share of all the tasks of that class that it sees,
//! including the fresh ones. The remainder of an even division goes to the workers with the fewest.
//! The counts of other workers are read without order: they are advice, and a wrong one costs
//! balance.
//!
//! # Offers
//!
//! A worker that has its share *offers* the task: it puts the task into its public deque, notes the
//! class in its census, and *invites* workers that have less than their share, whether they rest or
//! compute (queue/inbox.rs). It then stands back from the class as soon as it comes to its main
//! fiber (spread.rs). An invited worker takes one offered task when its own task waits or checks
//! in, and then invites itself again; a ready task of its own comes between two offered ones.
//!
//! A searcher that has its share leaves the deque of an offering worker alone. Otherwise searchers
//! would pass its tasks to each other, and the invited worker would find none. No worker sleeps
//! through an offered task: an offer wakes a sleeper as any push into a public deque does, and a
//! worker that lies down looks at all deques, whatever their owners offer. So a searcher that has
//! its share does not sleep either. It stands back as if the tasks were its own, then tolerates one
//! more than its share, and takes the task. An offered task therefore waits a bounded time for a
//! worker with less than its share, even if its owner computes for ever or may not begin anything,
//! unless all other workers compute, too.
//!
//! The note in the census is removed when the worker comes to its main fiber without having to
//! stand back, or hands over other tasks. The note is a hint, as the counts are.

use crate::scheduler::balance::habits::Class;
use crate::scheduler::queue::item::Item;
use crate::scheduler::queue::public::BATCH;
use crate::scheduler::worker::fiber::{Observation, Observed};
use crate::scheduler::worker::remote::Remote;
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::atomic::Ordering;
use crate::shim::point;
use crate::shim::time::{Instant, now};
use crate::task::record::{JoinedAtHome, Record};
use crate::task::reference::{RunRef, TaskRef};
use crossbeam_deque::Steal;
use std::ptr::{self};

/// A class with at most this many tasks is left together: two tasks may be a pair that wake each
/// other all the time.
const PAIR: usize = 2;

/// The share of a class that each worker may have: `whole` tasks, and one more for some workers if
/// the division leaves a `rest`.
struct Share {
    whole: usize,
    rest: bool,
    /// The count of the worker with the fewest.
    least: u8,
}

impl Share {
    /// Whether a worker that has `mine` tasks may have one more. The remainder goes first to the
    /// workers with the fewest.
    fn exceeds(&self, mine: u8) -> bool {
        let count = usize::from(mine);
        count < self.whole || self.rest && count == self.whole && mine <= self.least
    }
}

impl Worker {
    /// Observes the task that a fiber is made for, if there is anything to be learnt from it.
    #[inline]
    pub(crate) fn observe(&self, fiber: &Fiber, task: &Record) {
        let shared = self.shared();
        fiber.observation.set(Observation::Ignored);
        if shared.workers() > 1 && !task.traits.migratable {
            let class = shared.habits.class_of(task);
            if !shared.habits.is_learnt(class) || self.balance.accounts.is_sample() {
                self.observe_since(fiber, task, class, Some(now()));
            }
        }
    }

    #[cold]
    fn observe_since(&self, fiber: &Fiber, task: &Record, class: Class, began: Option<Instant>) {
        self.count(class, 1);
        fiber.observation.set(Observation::Task(Observed {
            class: class.0,
            task,
            began,
            waited: began.is_none(),
            hasty: None,
            idle: self.balance.idle_time.get(),
            parks: self.counters().parks.get(),
        }));
    }

    fn count(&self, class: Class, more: i8) {
        let census = &self.remote.census;
        let count = census.get(class).saturating_add_signed(more);
        census.set(class, count);
        if count == 0 {
            self.balance.accounts.forget_tolerance(class);
        }
    }

    /// Ends the observation: the observed task on the running fiber has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_crowd(&self, fiber: &Fiber, task: Observed) {
        fiber.observation.set(Observation::None);
        self.count(Class(task.class), -1);
        if let Some(began) = task.began {
            let idle = self.balance.idle_time.get().saturating_sub(task.idle);
            let parks = self.counters().parks.get() - task.parks;
            self.shared().habits.learn_end(&task, now() - began, idle, parks);
        }
    }

    /// Learns that the task on the running fiber waits, while no other is ready.
    #[inline]
    pub(crate) fn learn_wait(&self) {
        let fiber = self.fiber();
        let known = match fiber.observation.get() {
            Observation::None => false,
            Observation::Ignored => true,
            Observation::Task(task) => task.waited && ptr::eq(task.task, fiber.task.get()),
        };
        if !known {
            self.learn_wait_of_task(fiber);
        }
    }

    #[cold]
    #[inline(never)]
    fn learn_wait_of_task(&self, fiber: &Fiber) {
        let shared = self.shared();
        if ptr::eq(fiber, self.fibers.main.get()) || shared.workers() == 1 {
            return;
        }
        let Some(task) = fiber.waiting_task().map(TaskRef::get) else { return };
        // A task that its joiner has called counts with the joiner.
        if task.traits.migratable || task.at_home.get() == JoinedAtHome::Called {
            return;
        }
        let class = shared.habits.class_of(task);
        match fiber.observation.get() {
            Observation::Task(mut observed) if ptr::eq(observed.task, task) => {
                observed.waited = true;
                if let Some(began) = observed.began
                    && self.counters().parks.get() == observed.parks + 1
                {
                    observed.hasty = Some(shared.habits.learn_wait(class, now() - began));
                }
                fiber.observation.set(Observation::Task(observed));
            }
            // A task that a loop has started, or that was called on the stack of another.
            before if !shared.habits.is_learnt(class) => {
                if let Observation::Task(other) = before {
                    self.count(Class(other.class), -1);
                }
                self.observe_since(fiber, task, class, None);
            }
            _ => {}
        }
    }

    /// Whether a claimed fresh task should be begun here. If not, the caller offers it to the other
    /// workers, and this worker stands back as soon as it comes to its main fiber.
    #[inline(always)]
    pub(crate) fn keeps(&self, task: &RunRef) -> bool {
        !self.shared().habits.any_spreads() || self.weigh(task)
    }

    /// As [`keeps`](Worker::keeps), for a task that a loop is about to start: observes the task and
    /// returns it, or offers it to the other workers.
    #[cold]
    #[inline(never)]
    pub(crate) fn kept_on_loop(&self, task: RunRef) -> Option<RunRef> {
        if !self.keeps(&task) {
            self.offer_to_others(task);
            return None;
        }
        if !task.traits.needs_own_stack()
            && self.shared().habits.spreads(self.shared().habits.class_of(&task))
        {
            self.observe(self.fiber(), &task);
        }
        Some(task)
    }

    /// Whether a child may be called on the stack of its parent, where it is not counted.
    #[inline(always)]
    pub(crate) fn may_call(&self, child: &Record) -> bool {
        let habits = &self.shared().habits;
        !habits.any_spreads() || !habits.spreads(habits.class_of(child))
    }

    #[inline(never)]
    fn weigh(&self, task: &RunRef) -> bool {
        let class = self.shared().habits.class_of(task);
        !self.shared().habits.spreads(class) || self.has_room(class, 1) || self.cannot_share(task)
    }

    /// Whether this worker has less than its share of a class. `more` tasks of it are in its hand.
    #[inline(never)]
    pub(crate) fn has_room(&self, class: Class, more: usize) -> bool {
        let mine = self.remote.census.get(class);
        let tolerated =
            mine == 0 || mine == u8::MAX || mine < self.balance.accounts.tolerated(class);
        tolerated || self.share(class, more).exceeds(mine)
    }

    /// An even share of a class: of the tasks that have been begun, that are offered, and that may
    /// be among the fresh ones here.
    ///
    /// The tasks that have been begun are counted first. So a task that is begun meanwhile may be
    /// missed, which makes the share smaller for a moment. It is not counted twice, which would let
    /// one worker take another's share.
    fn share(&self, class: Class, more: usize) -> Share {
        let (mut begun, mut least) = (0, u8::MAX);
        for remote in self.shared().remotes() {
            let count = remote.census.get(class);
            begun += usize::from(count);
            least = least.min(count);
        }
        let offers = |remote: &&Remote| remote.census.offered() == Some(class);
        let lengths = |remote: &Remote| remote.private.len() + remote.thief.len();
        let offered: usize = self.others().filter(offers).map(lengths).sum();
        let all = begun + offered + self.remote.private.len() + self.queues.deque.len() + more;
        if all <= PAIR {
            return Share { whole: usize::MAX, rest: false, least };
        }
        let workers = self.shared().workers();
        Share { whole: all / workers, rest: !all.is_multiple_of(workers), least }
    }

    /// Whether a task cannot be started elsewhere, or other rules hold since stacks are short.
    fn cannot_share(&self, task: &RunRef) -> bool {
        let shared = self.shared();
        task.traits.local
            || shared.workers() == 1
            || self.memory.exhausted.get()
            || shared.pressure.load(Ordering::Relaxed)
            || shared.is_closing()
    }

    /// Puts a claimed task that is not kept here where other workers find it, and invites the
    /// workers that have less than their share.
    #[cold]
    #[inline(never)]
    pub(crate) fn offer_to_others(&self, task: RunRef) {
        let class = self.shared().habits.class_of(&task);
        self.balance.standing_back.stand_back_for(class);
        self.announce_offer(Some(class));
        if self.queues.deque.len() < BATCH {
            task.unclaim();
            point();
            self.queues.deque.push(Item::fresh(task));
        } else {
            // To grow the deque would cost kilobytes of the stack that we happen to stand on.
            self.requeue(task);
        }
        self.invite_others(class);
        // The invited workers may be computing. A sleeper that has its share takes the task after a
        // while.
        self.shared().idle.notify(self.shared(), false);
    }

    /// Tells the other workers what this worker offers from now on.
    #[inline]
    pub(crate) fn announce_offer(&self, class: Option<Class>) {
        if self.remote.census.offered() != class {
            self.change_offer(class);
        }
    }

    #[cold]
    fn change_offer(&self, class: Option<Class>) {
        let before = self.remote.census.offer(class);
        let offering = &self.shared().offering;
        match (before, class) {
            (None, Some(_)) => _ = offering.fetch_add(1, Ordering::Relaxed),
            (Some(_), None) => _ = offering.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Whether any worker offers tasks. Searchers ask this again and again, so the word lies apart
    /// from words that change with each task.
    #[inline]
    pub(crate) fn anyone_offers(&self) -> bool {
        self.shared().offering.load(Ordering::Relaxed) > 0
    }

    /// Takes a task that another worker offers, claimed, if this worker has less than its share of
    /// such tasks. If it has its share, it is to stand back from them as if they were its own.
    pub(crate) fn take_offered(&self) -> Option<RunRef> {
        if !self.anyone_offers() {
            return None;
        }
        for remote in self.others() {
            let Some(class) = remote.census.offered() else { continue };
            point();
            if remote.thief.is_empty() {
                continue;
            }
            if !self.has_room(class, 0) {
                self.balance.standing_back.stand_back_for(class);
            } else if let Steal::Success(item) = remote.thief.steal()
                && let Some(record) = self.open(item)
            {
                return Some(record);
            }
        }
        None
    }

    /// Whether another worker offers tasks of this class.
    pub(crate) fn is_offered(&self, class: Class) -> bool {
        self.others()
            .any(|remote| remote.census.offered() == Some(class) && !remote.thief.is_empty())
    }

    /// Invites workers with less than their share of a class, as many as there are tasks left here.
    pub(crate) fn invite_others(&self, class: Class) {
        let shared = self.shared();
        let share = self.share(class, 0);
        let mut left = self.queues.deque.len() + self.remote.private.len();
        for remote in self.others().filter(|remote| share.exceeds(remote.census.get(class))) {
            if left == 0 {
                break;
            }
            left -= 1;
            if remote.inbox.invite() {
                shared.idle.notify_worker(shared, remote.index);
            }
        }
    }

    /// The number of tasks of a class that the other workers have.
    pub(crate) fn elsewhere(&self, class: Class) -> u32 {
        self.others().map(|remote| u32::from(remote.census.get(class))).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Share;

    #[test]
    fn the_remainder_of_even_shares_goes_to_the_workers_with_fewest() {
        // Six tasks on four workers.
        let share = |least| Share { whole: 1, rest: true, least };
        assert_eq!([0, 1, 2].map(|mine| share(0).exceeds(mine)), [true, false, false]);
        assert_eq!([0, 1, 2].map(|mine| share(1).exceeds(mine)), [true, true, false]);
        let even = Share { whole: 2, rest: false, least: 0 };
        assert_eq!([0, 1, 2, 3].map(|mine| even.exceeds(mine)), [true, true, false, false]);
    }
}
