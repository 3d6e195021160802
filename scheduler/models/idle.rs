//! Sleepers, searchers and wakers.

use super::Dormitory;
use crate::scheduler::steal::idle::{Rest, Roused};
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::shim::check::{FENCES, Stage, explore, models};
use crate::shim::thread::{spawn, yield_now};
use crate::shim::time::Duration;
use crate::task::models::Processor;
use std::cell::Cell;

/// A public queue, modelled by a count of its items, and workers that empty it.
struct Pool<const N: usize> {
    dormitory: Dormitory<N>,
    queued: AtomicUsize,
    done: AtomicUsize,
    stopping: AtomicBool,
}

impl<const N: usize> Pool<N> {
    fn new() -> Stage<Pool<N>> {
        Stage::new(Pool {
            dormitory: Dormitory::new(),
            queued: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        })
    }

    fn push(&self, nappers: bool) {
        self.queued.fetch_add(1, Ordering::Release);
        self.dormitory.idle.notify(&self.dormitory, nappers);
    }

    fn is_empty(&self) -> bool {
        self.queued.load(Ordering::Relaxed) == 0
    }

    /// The last look before a rest.
    fn look(&self) -> bool {
        !self.is_empty() || self.stopping.load(Ordering::Acquire)
    }

    fn steal(&self) -> bool {
        let mut queued = self.queued.load(Ordering::Relaxed);
        while queued > 0 {
            let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.queued.compare_exchange(queued, queued - 1, acquire, relaxed) {
                Ok(_) => return true,
                Err(now) => queued = now,
            }
        }
        false
    }

    /// Ends a task. The last one ends the runtime, like `Shared::stop`.
    fn end_task(&self, of: usize) {
        if self.done.fetch_add(1, Ordering::AcqRel) + 1 == of {
            self.stopping.store(true, Ordering::Release);
            for worker in 0..N {
                self.dormitory.idle.notify_worker(&self.dormitory, worker);
            }
        }
    }

    /// Like `Searcher::leave_searchers`.
    fn leave_searchers(&self, counted: &mut bool, look_again: bool) {
        if std::mem::replace(counted, false) {
            let last = self.dormitory.idle.stop_searching();
            if last && look_again && !self.is_empty() {
                self.dormitory.idle.wake_one(&self.dormitory, false);
            }
        }
    }

    /// Works like `thread::main` and `Searcher::search_or_sleep`. `run` is a task.
    fn work(&self, me: usize, rest: Rest, look_again: bool, mut run: impl FnMut()) {
        let idle = &self.dormitory.idle;
        self.dormitory.sleepers[me].introduce();
        let mut counted = false;
        while !self.stopping.load(Ordering::Acquire) {
            if counted || idle.start_searching(N) {
                counted = true;
                let found = self.steal();
                self.leave_searchers(&mut counted, look_again);
                if found {
                    run();
                    continue;
                }
            } else {
                // Another thread is counted, and has not chosen a worker yet. The yield makes loom
                // run that thread.
                yield_now();
            }
            let roused = idle.rest(&self.dormitory, me, rest, || self.look());
            counted |= roused == Roused::ToSearch;
        }
        self.leave_searchers(&mut counted, look_again);
    }

    /// Works like `work`, but searches only when woken to search.
    fn doze(&self, me: usize, look_again: bool, mut run: impl FnMut()) {
        let idle = &self.dormitory.idle;
        self.dormitory.sleepers[me].introduce();
        loop {
            let roused = idle.rest(&self.dormitory, me, Rest::Sleep, || self.look());
            let found = self.steal();
            self.leave_searchers(&mut (roused == Roused::ToSearch), look_again);
            if found {
                run();
            }
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Rests until `take` has found something, first in the way `rest`, and asleep from then on.
    fn rest_until(&self, mut rest: Rest, look: impl Fn() -> bool, take: impl Fn() -> bool) {
        self.dormitory.sleepers[0].introduce();
        let mut found = false;
        while !found {
            let roused = self.dormitory.idle.rest(&self.dormitory, 0, rest, &look);
            found = take();
            self.leave_searchers(&mut (roused == Roused::ToSearch), true);
            rest = Rest::Sleep;
        }
    }

    fn end(this: Stage<Pool<N>>) {
        assert!(this.is_empty());
        assert!(this.dormitory.idle.start_searching(1), "a worker is still counted as searching");
        assert_eq!(this.dormitory.idle.resting(), 0);
    }
}

/// One worker, and a producer of two tasks.
fn one_worker(rest: Rest, look_again: bool) {
    let pool = Pool::<1>::new();
    let producer = spawn(move || {
        pool.push(rest != Rest::Sleep);
        pool.push(rest != Rest::Sleep);
    });
    pool.work(0, rest, look_again, || pool.end_task(2));
    producer.join().unwrap();
    Pool::end(pool);
}

/// A worker gets up and rests again in another way, while a third worker does not rest at all.
#[test]
fn loom_no_resting_worker_is_counted_twice() {
    explore(3, || {
        let dormitory = Stage::new(Dormitory::<3>::new());
        let turns = spawn(move || {
            dormitory.idle.rest(&*dormitory, 1, Rest::SleepFor(Duration::ZERO), || true);
            dormitory.idle.rest(&*dormitory, 1, Rest::Nap(Duration::ZERO), || true);
        });
        dormitory.idle.rest(&*dormitory, 0, Rest::Sleep, || {
            // Otherwise `Idle::barrier` would leave out the third worker.
            assert!(dormitory.idle.resting() <= 2, "counted twice");
            true
        });
        turns.join().unwrap();
    });
}

models! {
    fn loom_a_sleeper_does_not_sleep_through_work() = explore(3, || one_worker(Rest::Sleep, true));

    fn loom_a_napper_is_counted_once() = explore(2, || one_worker(Rest::Nap(Duration::ZERO), true));

    fn loom_negative_a_sleep_without_fences() = explore(3, || one_worker(Rest::Sleep, true)),
        without FENCES in "scheduler/steal/idle.rs", fails: "deadlock";
}

/// Two workers and two tasks, the first of which waits for the second. So both workers are needed,
/// although one is woken at a time.
fn two_workers(look_again: bool) {
    let pool = Pool::<2>::new();
    let (one_has_come, first) = (Stage::new(Cell::new(false)), Stage::new(Processor::new()));
    let meet = move || {
        if one_has_come.replace(true) {
            first.resume();
        } else {
            first.introduce();
            first.suspend();
        }
        pool.end_task(2);
    };
    let workers = [0, 1].map(|worker| spawn(move || pool.doze(worker, look_again, meet)));
    pool.push(false);
    pool.push(false);
    workers.into_iter().for_each(|w| w.join().unwrap());
    Pool::end(pool);
}

models! {
    fn loom_a_searcher_that_stops_before_all_work_is_taken_wakes_the_next() =
        explore(2, || two_workers(true));

    fn loom_negative_a_searcher_that_stops_without_a_look() = explore(2, || two_workers(false)),
        fails: "deadlock";
}

/// A worker is woken for its inbox and chosen to search at the same time. It searches, and is
/// counted once.
#[test]
fn loom_a_worker_may_be_woken_for_two_reasons() {
    explore(2, || {
        let pool = Pool::<1>::new();
        let sent = Stage::new(AtomicBool::new(false));
        let producer = spawn(move || pool.push(false));
        let sender = spawn(move || {
            sent.store(true, Ordering::Release);
            pool.dormitory.idle.notify_worker(&pool.dormitory, 0);
        });
        let idle = &pool.dormitory.idle;
        pool.dormitory.sleepers[0].introduce();
        let mut counted = false;
        let (mut got, mut stolen) = (false, false);
        while !(got && stolen) {
            got |= sent.load(Ordering::Acquire);
            if counted || idle.start_searching(2) {
                counted = true;
                stolen |= pool.steal();
                pool.leave_searchers(&mut counted, true);
            } else {
                yield_now();
            }
            if !(got && stolen) {
                let look = || !got && sent.load(Ordering::Relaxed) || !stolen && !pool.is_empty();
                counted |= idle.rest(&pool.dormitory, 0, Rest::Sleep, look) == Roused::ToSearch;
            }
        }
        pool.leave_searchers(&mut counted, true);
        producer.join().unwrap();
        sender.join().unwrap();
        Pool::end(pool);
    });
}

/// A producer counts the sleeper that it is about to wake, and then finds that the sleeper is up:
/// an active worker, which took the item meanwhile, has woken it for its inbox. The active worker
/// then pushes an item and relies on the count.
#[test]
fn loom_a_waker_that_finds_no_sleeper_looks_again() {
    explore(3, || {
        let pool = Pool::<1>::new();
        // The producer's item is taken before the wake-up.
        let producer = spawn(move || pool.dormitory.idle.notify(&pool.dormitory, false));
        let active = spawn(move || {
            pool.dormitory.idle.notify_worker(&pool.dormitory, 0);
            pool.push(false);
        });
        pool.rest_until(Rest::Sleep, || !pool.is_empty(), || pool.steal());
        producer.join().unwrap();
        active.join().unwrap();
        Pool::end(pool);
    });
}

/// A worker with worthwhile loot counts the napper that it is about to wake, and then finds that
/// the napper is up. By then the napper may have gone to sleep, and a producer has left its item to
/// the counted worker.
#[test]
fn loom_a_waker_that_finds_no_napper_looks_for_the_items_left_to_it() {
    explore(3, || {
        let pool = Pool::<1>::new();
        let tells = spawn(move || pool.dormitory.idle.wake_napper(&pool.dormitory));
        let producer = spawn(move || pool.push(true));
        pool.rest_until(Rest::Nap(Duration::ZERO), || !pool.is_empty(), || pool.steal());
        tells.join().unwrap();
        producer.join().unwrap();
        Pool::end(pool);
    });
}

/// A worker that does not search moves a batch from the injector to its deque, and then computes.
/// During the move, the rest of the batch is in neither queue.
fn a_batch_on_its_way(notifies: bool) {
    let pool = Pool::<1>::new();
    pool.queued.store(1, Ordering::Relaxed);
    let deque = Stage::new(AtomicUsize::new(0));
    let active = spawn(move || {
        if pool.steal() {
            deque.store(1, Ordering::Release);
            if notifies {
                pool.dormitory.idle.notify(&pool.dormitory, false);
            }
        }
    });
    let look = || !pool.is_empty() || deque.load(Ordering::Relaxed) > 0;
    pool.rest_until(Rest::Sleep, look, || pool.steal() || deque.swap(0, Ordering::Acquire) > 0);
    active.join().unwrap();
    Pool::end(pool);
}

models! {
    fn loom_a_batch_is_announced_when_it_has_arrived() = explore(3, || a_batch_on_its_way(true));

    fn loom_negative_a_batch_that_is_not_announced() = explore(3, || a_batch_on_its_way(false)),
        fails: "deadlock";
}

/// Two searchers stop while a worker lies down. One of them has put a task where others find it,
/// and leaves the look to the last one.
fn two_searchers_stop(look_again: bool) {
    let pool = Pool::<1>::new();
    let stop = move |found: usize| {
        assert!(pool.dormitory.idle.start_searching(4), "four workers have two searchers");
        spawn(move || {
            pool.queued.fetch_add(found, Ordering::Relaxed);
            pool.leave_searchers(&mut true, look_again);
        })
    };
    let searchers = [stop(1), stop(0)];
    pool.rest_until(Rest::Sleep, || !pool.is_empty(), || pool.steal());
    searchers.map(|searcher| searcher.join().unwrap());
    Pool::end(pool);
}

models! {
    fn loom_the_last_searcher_sees_what_the_others_have_left() =
        explore(2, || two_searchers_stop(true));

    fn loom_negative_searchers_that_stop_without_a_look() =
        explore(2, || two_searchers_stop(false)), fails: "deadlock";
}
