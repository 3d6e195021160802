//! The private deque: its owner against thieves, and against sleepers that request work.

use super::{Dormitory, Tasks};
use crate::scheduler::queue::private_deque::{PUBLIC, Portion, PrivateDeque};
use crate::scheduler::steal::idle::Rest;
use crate::shim::asymmetric::heavy;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::check::{FENCES, ORDERS_AND_FENCES, Stage, beside, explore, models, plant};
use crate::shim::thread::spawn;
use crate::task::reference::{RunRef, TaskRef};
use std::ops::Range;

struct Yard<const N: usize> {
    private: PrivateDeque,
    tasks: Tasks<N>,
    dormitory: Dormitory<1>,
    /// Tasks in the owner's public deque.
    public: AtomicUsize,
}

impl<const N: usize> Yard<N> {
    fn new() -> Stage<Yard<N>> {
        Stage::new(Yard {
            private: PrivateDeque::new(),
            tasks: Tasks::new(),
            dormitory: Dormitory::new(),
            public: AtomicUsize::new(0),
        })
    }

    /// Pushes these tasks, and makes room if the ring is full.
    fn push(&self, tasks: Range<usize>) {
        for task in tasks {
            if self.private.push(self.tasks.spawn(task)) {
                self.private.take_request(|| true);
            }
        }
    }

    /// Pushes `count` tasks like a worker. Pops the first `popped` of them right after their push.
    fn push_and_serve(this: Stage<Self>, count: usize, popped: usize, fences: bool) {
        for task in 0..count {
            if this.private.push(this.tasks.spawn(task)) {
                serve_requests(this, fences);
            }
            if task < popped {
                this.pop();
            }
        }
    }

    fn steal(&self, most: usize) -> usize {
        self.private.steal(most, |record| {
            self.tasks.take(record);
        })
    }

    fn pop(&self) -> bool {
        let popped = self.private.pop();
        popped.map(|record| self.tasks.take(record)).is_some()
    }

    /// Takes a task, unless a thief has taken it.
    fn take(&self, task: usize) {
        if let Some(run) = self.private.take(self.tasks.task(task)) {
            self.tasks.take(run);
        }
    }

    fn end(this: Stage<Yard<N>>) {
        while this.pop() {}
        this.tasks.end();
    }
}

/// Explores what happens in a yard whose owner has pushed the first `count` tasks.
fn in_yard<const N: usize>(
    preemptions: usize,
    count: usize,
    model: impl Fn(Stage<Yard<N>>) + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let yard = Yard::<N>::new();
        yard.push(0..count);
        model(yard);
        Yard::end(yard);
    });
}

/// As `in_yard`: a thief steals `most` tasks while the owner acts.
fn against_a_thief<const N: usize>(
    count: usize,
    most: usize,
    owner: impl Fn(Stage<Yard<N>>) + Send + Sync + 'static,
) {
    in_yard::<N>(3, count, move |yard| {
        beside(move || yard.steal(most), || owner(yard));
    });
}

/// The owner pushes and pops while a thief steals.
fn pop_and_steal() {
    against_a_thief::<2>(0, 2, |yard| {
        yard.push(0..2);
        yard.pop();
        yard.pop();
    });
}

/// An empty ring still has a stale pointer to a task that is in a public queue now. The owner does
/// not mistake this task for its newest one.
#[test]
fn loom_a_stale_pointer_in_an_empty_private_deque_is_not_taken() {
    in_yard::<4>(0, 0, |yard| {
        for task in 0..4 {
            let full = yard.private.push(yard.tasks.spawn(task));
            if let 1 | 2 = task {
                // Taken from the middle, so that the ring does not grow.
                let below = yard.private.take(yard.tasks.task(task - 1));
                yard.tasks.take(below.expect("it is in the middle"));
            }
            if full {
                yard.private.take_request(|| true);
            }
        }
        while yard.pop() {}
        let last = yard.tasks.task(3);
        last.place.store(PUBLIC, Ordering::Relaxed);
        assert!(yard.private.take_newest(last).is_none());
        assert!(yard.private.is_empty());
    });
}

/// Two tasks in different private deques have the same place.
#[test]
fn loom_a_task_of_another_private_deque_is_not_taken() {
    explore(0, || {
        let (here, elsewhere) = (Yard::<1>::new(), Yard::<1>::new());
        here.push(0..1);
        elsewhere.push(0..1);
        let theirs = elsewhere.tasks.task(0);
        let taken = here.private.take(theirs).or_else(|| here.private.take_newest(theirs));
        assert!(taken.is_none(), "a task of another private deque was taken");
        Yard::end(here);
        Yard::end(elsewhere);
    });
}

models! {
    fn loom_each_item_of_a_private_deque_is_taken_once() = pop_and_steal();

    fn loom_negative_a_private_deque_without_fences() = pop_and_steal(),
        without FENCES in "scheduler/queue/private_deque.rs", fails: "Causality violation";

    /// The owner only pushes. Its store of `tail` makes the task visible without any fence.
    fn loom_a_pushed_task_is_visible_without_a_fence() = push_and_steal(),
        without FENCES in "scheduler/queue/private_deque.rs";

    fn loom_negative_a_private_deque_without_order() = push_and_steal(),
        without ORDERS_AND_FENCES in "scheduler/queue/private_deque.rs", fails: "times that task";
}

/// A way for the owner to take its newest task.
type Take = for<'a> fn(&'a PrivateDeque, TaskRef<'a>) -> Option<RunRef>;

/// The owner takes the newer of two tasks. A thief takes the older one, which it sees without any
/// fence.
fn lower_and_steal(take: Take) {
    plant("scheduler/queue/private_deque.rs", FENCES);
    against_a_thief::<2>(0, 1, move |yard| {
        yard.push(0..2);
        let newest = take(&yard.private, yard.tasks.task(1));
        yard.tasks.take(newest.expect("a thief takes the older one"));
    });
}

models! {
    fn loom_the_task_below_a_popped_one_is_visible_without_a_fence() =
        lower_and_steal(|private, _| private.pop());

    fn loom_the_task_below_the_newest_is_visible_without_a_fence() =
        lower_and_steal(|private, task| private.take_newest(task));

    fn loom_the_task_below_a_taken_one_is_visible_without_a_fence() =
        lower_and_steal(|private, task| private.take(task));
}

fn push_and_steal() {
    against_a_thief::<1>(0, 1, |yard| yard.push(0..1));
}

#[test]
fn loom_two_thieves_do_not_take_the_same_item() {
    in_yard::<3>(2, 3, |yard| {
        let thieves = [(); 2].map(|()| spawn(move || yard.steal(2)));
        yard.pop();
        thieves.into_iter().for_each(|t| {
            t.join().unwrap();
        });
    });
}

/// A parent takes its children, the newest one first.
#[test]
fn loom_the_newest_child_is_taken_once() {
    against_a_thief::<2>(2, 2, |yard| {
        for task in [1, 0] {
            if let Some(run) = yard.private.take_newest(yard.tasks.task(task)) {
                yard.tasks.take(run);
            }
        }
    });
}

/// A parent takes its children, the older one first: from the middle, then from the top.
fn take_and_steal() {
    against_a_thief::<2>(2, 2, |yard| {
        yard.take(0);
        yard.take(1);
    });
}

models! {
    fn loom_a_child_in_the_middle_is_taken_once() = take_and_steal();

    fn loom_negative_a_child_in_the_middle_without_fences() = take_and_steal(),
        without FENCES in "scheduler/queue/private_deque.rs", fails: "Causality violation";
}

/// The ring has four slots here: the fifth push moves the items into a larger one.
#[test]
fn loom_a_thief_finds_the_tasks_that_a_growing_private_deque_moves() {
    against_a_thief::<5>(3, 2, |yard| {
        yard.push(3..5);
        yard.take(0);
    });
}

#[test]
fn loom_a_full_private_deque_squeezes_out_the_gaps() {
    against_a_thief::<5>(3, 1, |yard| {
        yard.take(1);
        yard.take(2);
        yard.push(3..5);
    });
}

#[test]
fn loom_a_task_that_is_handed_over_is_not_stolen() {
    against_a_thief::<3>(3, 1, |yard| {
        yard.private.hand_over(2, Portion::HALF, |record| _ = yard.tasks.take(record));
    });
}

/// A request for work comes while the owner serves requests. It is served now, or is still there at
/// the next check.
#[test]
fn loom_a_request_to_a_private_deque_is_served_or_stays() {
    in_yard::<1>(3, 1, |yard| {
        let asker = spawn(move || yard.private.request());
        let answered = yard.private.take_request(|| true);
        asker.join().unwrap();
        assert!(yard.private.take_request(|| true) || answered, "a request is lost");
    });
}

/// An owner with a request continues to push while a thief reads the tasks that it steals.
#[test]
fn loom_an_owner_that_pushes_on_leaves_a_thief_the_tasks_it_takes() {
    in_yard::<7>(3, 3, |yard| {
        yard.private.request();
        let thief = spawn(move || yard.steal(2));
        for task in 3..7 {
            if yard.private.push(yard.tasks.spawn(task)) {
                yard.private.take_request(|| true);
                yard.private.request();
            }
        }
        thief.join().unwrap();
    });
}

/// Like `Worker::serve_requests`, the owner of a lone task does not serve a request, unless the
/// ring is full of tasks that a thief is about to read.
#[test]
fn loom_an_owner_of_a_lone_task_leaves_a_thief_the_tasks_it_takes() {
    in_yard::<5>(3, 3, |yard| {
        for task in 0..2 {
            let run = yard.private.take(yard.tasks.task(task));
            yard.tasks.take(run.expect("no thief has come yet"));
        }
        yard.private.request();
        let thief = spawn(move || yard.steal(2));
        for task in 3..5 {
            if yard.private.push(yard.tasks.spawn(task))
                && !(yard.private.len() == 1 && yard.private.has_room())
            {
                yard.private.take_request(|| true);
            }
        }
        thief.join().unwrap();
    });
}

#[test]
fn loom_a_task_handed_over_from_the_newest_end_is_not_stolen() {
    against_a_thief::<3>(3, 1, |yard| {
        yard.private.hand_over_newest(2, Portion::HALF, |record| _ = yard.tasks.take(record));
    });
}

/// A request for work comes while the owner frees the memory of a ring that was once large.
#[test]
fn loom_a_request_to_a_private_deque_that_is_trimmed_stays() {
    in_yard::<64>(2, 64, |yard| {
        while yard.pop() {}
        assert!(yard.private.exceeds_bound(), "there is nothing to trim");
        beside(move || yard.private.request(), || yard.private.trim());
        assert!(yard.private.take_request(|| true), "a request is lost");
    });
}

/// A worker requests work and goes to sleep. Meanwhile another worker spawns tasks, and then does
/// not look at its private deque again. A task that stays in the deque must be found. The first
/// `popped` tasks are popped right after their spawn. If `asked`, an earlier request was left by a
/// worker that has left.
fn ask_and_push<const N: usize>(popped: usize, asked: bool, fences: bool) {
    let yard = Yard::<N>::new();
    if asked {
        yard.private.request();
    }
    beside(move || sleep_until_found(yard), || Yard::push_and_serve(yard, N, popped, fences));
    Yard::end(yard);
}

/// Sleeps until there is a task to take.
fn sleep_until_found<const N: usize>(yard: Stage<Yard<N>>) {
    // Like the look in `Searcher::rest`.
    let look = || {
        if yard.dormitory.idle.anyone_searching() {
            return false;
        }
        yard.private.request();
        heavy();
        yard.public.load(Ordering::Relaxed) > 0 || !yard.private.is_empty()
    };
    let take = || yard.public.load(Ordering::Acquire) > 0 || yard.steal(1) > 0;
    yard.dormitory.sleep_until(look, take);
}

/// Like `Worker::serve_requests`.
fn serve_requests<const N: usize>(yard: Stage<Yard<N>>, fences: bool) {
    if !yard.private.take_request(|| true) {
        return;
    }
    yard.private.hand_over(2, Portion::HALF, |record| {
        yard.tasks.take(record);
        yard.public.fetch_add(1, Ordering::Release);
    });
    if fences {
        yard.dormitory.idle.notify(&yard.dormitory, false);
    } else {
        yard.dormitory.idle.wake_one(&yard.dormitory, false);
    }
}

models! {
    fn loom_a_request_before_a_sleep_is_seen_by_the_next_push() =
        explore(3, || ask_and_push::<1>(0, false, true));

    fn loom_a_request_before_a_sleep_is_seen_by_one_of_two_pushes() =
        explore(3, || ask_and_push::<2>(0, false, true));

    fn loom_a_request_that_is_used_up_wakes_the_sleeper() =
        explore(3, || ask_and_push::<2>(1, false, true));

    fn loom_a_request_of_another_worker_counts_as_ones_own() =
        explore(3, || ask_and_push::<2>(1, true, true));

    fn loom_negative_a_served_request_without_a_fence() =
        explore(3, || ask_and_push::<2>(1, true, false)), fails: "deadlock";

    fn loom_negative_a_push_that_does_not_fence_before_it_looks_for_a_request() =
        explore(3, || ask_and_push::<1>(0, false, true)),
        without FENCES in "scheduler/queue/private_deque.rs", fails: "deadlock";
}

/// A thread that sees that a worker rests also sees the tasks that this worker pushed before,
/// without a fence: see `Idle::barrier`.
#[test]
fn loom_the_tasks_of_a_resting_worker_are_seen_with_its_rest() {
    plant("scheduler/queue/private_deque.rs", FENCES);
    in_yard::<1>(3, 0, |yard| {
        let owner = spawn(move || {
            yard.push(0..1);
            let idle = &yard.dormitory.idle;
            idle.rest(&yard.dormitory, 0, Rest::Sleep, || true);
        });
        let rests = yard.dormitory.idle.resting() > 0;
        assert!(!rests || !yard.private.is_empty(), "the task of a resting worker is not seen");
        owner.join().unwrap();
    });
}

/// A sleeper relies on a searcher, which stops while a worker spawns two tasks and then runs for
/// long without spawning. The later one of searcher and worker wakes the sleeper.
fn leave_and_push(barrier: bool) {
    let yard = Yard::<2>::new();
    assert!(yard.dormitory.idle.start_searching(2), "another worker is counted as searching");
    let searcher = spawn(move || {
        // Like `Searcher::leave_searchers`.
        let idle = &yard.dormitory.idle;
        if !idle.stop_searching() || idle.resting() == 0 {
            return;
        }
        let asks = idle.anyone_asleep();
        if asks {
            yard.private.request();
        }
        let left = || !yard.private.is_empty();
        if left()
            || asks && barrier && {
                heavy();
                left()
            }
        {
            idle.wake_one(&yard.dormitory, false);
        }
    });
    beside(move || sleep_until_found(yard), || Yard::push_and_serve(yard, 2, 0, true));
    searcher.join().unwrap();
    Yard::end(yard);
}

models! {
    fn loom_a_searcher_that_stops_does_not_miss_a_push() = explore(2, || leave_and_push(true));

    fn loom_negative_a_searcher_that_stops_without_a_barrier() =
        explore(2, || leave_and_push(false)), fails: "deadlock";
}
