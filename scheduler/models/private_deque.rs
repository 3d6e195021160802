//! The private deque: its owner against thieves, and against sleepers who ask.

use super::{Dormitory, Tasks};
use crate::scheduler::queue::private_deque::{PUBLIC, Portion, PrivateDeque};
use crate::scheduler::steal::idle::{Rest, Roused};
use crate::shim::asymmetric::heavy;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::check::{FENCES, ORDERS_AND_FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::record::Record;
use std::ptr::NonNull;

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

    /// Pushes the first so many tasks; makes room if the ring is full.
    fn push(&self, count: usize) {
        for task in 0..count {
            if self.private.push(self.tasks.spawn(task)) {
                self.private.serve_requests(|| true);
            }
        }
    }

    /// Pushes as a worker does, and takes the first ones again at once.
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

    fn end(this: Stage<Yard<N>>) {
        while this.pop() {}
        this.tasks.end();
        // SAFETY: the threads have ended.
        unsafe { this.end() };
    }
}

/// The owner pushes and pops; a thief comes.
fn pop_and_steal() {
    let yard = Yard::<2>::new();
    let thief = spawn(move || yard.steal(2));
    yard.push(2);
    yard.pop();
    yard.pop();
    thief.join().unwrap();
    Yard::end(yard);
}

/// A task that another worker has published is not taken for the newest one because an empty ring still
/// points to it from an earlier life.
#[test]
fn loom_what_an_empty_private_deque_still_holds_is_not_taken() {
    explore(0, || {
        let yard = Yard::<4>::new();
        for task in 0..4 {
            let full = yard.private.push(yard.tasks.spawn(task));
            if let 1 | 2 = task {
                // From the middle, so that the ring need not grow.
                let below = yard.tasks.records[task - 1];
                assert!(yard.private.take(below));
                yard.tasks.take(below);
            }
            if full {
                yard.private.serve_requests(|| true);
            }
        }
        while yard.pop() {}
        let last = yard.tasks.records[3];
        // SAFETY: freed at the end.
        unsafe { last.as_ref() }.place.store(PUBLIC, Ordering::Relaxed);
        assert!(!yard.private.take_newest(last));
        assert!(yard.private.is_empty());
        Yard::end(yard);
    });
}

/// The place of a task in another private deque is that of another task here.
#[test]
fn loom_what_lies_elsewhere_is_not_taken_here() {
    explore(0, || {
        let (here, elsewhere) = (Yard::<1>::new(), Yard::<1>::new());
        here.push(1);
        elsewhere.push(1);
        let theirs = elsewhere.tasks.records[0];
        assert!(!here.private.take(theirs), "what lies elsewhere has been taken");
        assert!(!here.private.take_newest(theirs), "what lies elsewhere has been taken");
        Yard::end(here);
        Yard::end(elsewhere);
    });
}

#[test]
fn loom_each_item_of_a_private_deque_is_taken_once() {
    explore(3, pop_and_steal);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_private_deque_without_fences() {
    plant("scheduler/queue/private.rs", FENCES);
    explore(3, pop_and_steal);
}

/// The owner only pushes: no fence carries what its `tail` hands over.
#[test]
fn loom_a_pushed_task_is_handed_over_without_a_fence() {
    plant("scheduler/queue/private.rs", FENCES);
    explore(3, push_and_steal);
}

#[test]
#[should_panic(expected = "times that task")]
fn loom_negative_a_private_deque_that_does_not_hand_over() {
    plant("scheduler/queue/private.rs", ORDERS_AND_FENCES);
    explore(3, push_and_steal);
}

/// How the owner takes the newest one.
type Take = fn(&PrivateDeque, NonNull<Record>) -> bool;

/// The owner takes the newest of two; a thief takes the older one, which no fence carries to it.
fn lower_and_steal(take: Take) {
    plant("scheduler/queue/private.rs", FENCES);
    explore(3, move || {
        let yard = Yard::<2>::new();
        let thief = spawn(move || yard.steal(1));
        yard.push(2);
        let newest = yard.tasks.records[1];
        assert!(take(&yard.private, newest));
        yard.tasks.take(newest);
        thief.join().unwrap();
        Yard::end(yard);
    });
}

#[test]
fn loom_what_is_below_a_popped_task_is_handed_over_without_a_fence() {
    lower_and_steal(|private, _| private.pop().is_some());
}

#[test]
fn loom_what_is_below_the_newest_task_is_handed_over_without_a_fence() {
    lower_and_steal(PrivateDeque::take_newest);
}

#[test]
fn loom_what_is_below_a_taken_task_is_handed_over_without_a_fence() {
    lower_and_steal(PrivateDeque::take);
}

fn push_and_steal() {
    let yard = Yard::<1>::new();
    let thief = spawn(move || yard.steal(1));
    yard.push(1);
    thief.join().unwrap();
    Yard::end(yard);
}

#[test]
fn loom_two_thieves_do_not_take_the_same_item() {
    explore(2, || {
        let yard = Yard::<3>::new();
        yard.push(3);
        let thieves = [(); 2].map(|()| spawn(move || yard.steal(2)));
        yard.pop();
        thieves.into_iter().for_each(|t| {
            t.join().unwrap();
        });
        Yard::end(yard);
    });
}

/// A parent takes its children, the newest one first.
#[test]
fn loom_the_newest_child_is_taken_once() {
    explore(3, || {
        let yard = Yard::<2>::new();
        yard.push(2);
        let thief = spawn(move || yard.steal(2));
        for task in [1, 0] {
            let record = yard.tasks.records[task];
            if yard.private.take_newest(record) {
                yard.tasks.take(record);
            }
        }
        thief.join().unwrap();
        Yard::end(yard);
    });
}

/// A parent takes its children, the older one first: from the middle, then from the top.
fn take_and_steal() {
    let yard = Yard::<2>::new();
    yard.push(2);
    let thief = spawn(move || yard.steal(2));
    for task in 0..2 {
        let record = yard.tasks.records[task];
        if yard.private.take(record) {
            yard.tasks.take(record);
        }
    }
    thief.join().unwrap();
    Yard::end(yard);
}

#[test]
fn loom_a_child_in_the_middle_is_taken_once() {
    explore(3, take_and_steal);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_child_in_the_middle_without_fences() {
    plant("scheduler/queue/private.rs", FENCES);
    explore(3, take_and_steal);
}

/// The ring has four slots here: the fifth push moves the items into a larger one.
#[test]
fn loom_a_thief_finds_what_a_growing_private_deque_moves() {
    explore(3, || {
        let yard = Yard::<5>::new();
        yard.push(3);
        let thief = spawn(move || yard.steal(2));
        for task in 3..5 {
            if yard.private.push(yard.tasks.spawn(task)) {
                yard.private.serve_requests(|| true);
            }
        }
        let oldest = yard.tasks.records[0];
        if yard.private.take(oldest) {
            yard.tasks.take(oldest);
        }
        thief.join().unwrap();
        Yard::end(yard);
    });
}

#[test]
fn loom_a_full_private_deque_squeezes_out_the_gaps() {
    explore(3, || {
        let yard = Yard::<5>::new();
        yard.push(3);
        let thief = spawn(move || yard.steal(1));
        for task in [1, 2] {
            let record = yard.tasks.records[task];
            if yard.private.take(record) {
                yard.tasks.take(record);
            }
        }
        for task in 3..5 {
            if yard.private.push(yard.tasks.spawn(task)) {
                yard.private.serve_requests(|| true);
            }
        }
        thief.join().unwrap();
        Yard::end(yard);
    });
}

#[test]
fn loom_what_is_handed_over_is_not_stolen() {
    explore(3, || {
        let yard = Yard::<3>::new();
        yard.push(3);
        let thief = spawn(move || yard.steal(1));
        yard.private.hand_over(2, Portion::HALF, |record| {
            yard.tasks.take(record);
        });
        thief.join().unwrap();
        Yard::end(yard);
    });
}

/// A request that comes while the owner takes one back, or finds none.
#[test]
fn loom_a_request_to_a_private_deque_is_answered_or_stays() {
    explore(3, || {
        let yard = Yard::<1>::new();
        yard.push(1);
        let asker = spawn(move || yard.private.request());
        let answered = yard.private.serve_requests(|| true);
        asker.join().unwrap();
        assert!(yard.private.serve_requests(|| true) || answered, "a request is lost");
        Yard::end(yard);
    });
}

/// An owner that is asked goes on pushing while a thief reads what it takes.
#[test]
fn loom_an_owner_that_does_not_wait_for_a_thief_leaves_it_what_it_takes() {
    explore(3, || {
        let yard = Yard::<7>::new();
        yard.push(3);
        yard.private.request();
        let thief = spawn(move || yard.steal(2));
        for task in 3..7 {
            if yard.private.push(yard.tasks.spawn(task)) {
                yard.private.serve_requests(|| true);
                yard.private.request();
            }
        }
        thief.join().unwrap();
        Yard::end(yard);
    });
}

/// As `Worker::attend`: an owner does not attend to a lone task, unless the ring is full of what a
/// thief is about to read.
#[test]
fn loom_an_owner_with_a_lone_task_leaves_a_thief_what_it_takes() {
    explore(3, || {
        let yard = Yard::<5>::new();
        yard.push(3);
        for task in 0..2 {
            let record = yard.tasks.records[task];
            assert!(yard.private.take(record));
            yard.tasks.take(record);
        }
        yard.private.request();
        let thief = spawn(move || yard.steal(2));
        for task in 3..5 {
            if yard.private.push(yard.tasks.spawn(task))
                && !(yard.private.len() == 1 && yard.private.has_room())
            {
                yard.private.serve_requests(|| true);
            }
        }
        thief.join().unwrap();
        Yard::end(yard);
    });
}

#[test]
fn loom_what_is_handed_over_from_the_newest_on_is_not_stolen() {
    explore(3, || {
        let yard = Yard::<3>::new();
        yard.push(3);
        let thief = spawn(move || yard.steal(1));
        yard.private.hand_over_newest(2, Portion::HALF, |record| {
            yard.tasks.take(record);
        });
        thief.join().unwrap();
        Yard::end(yard);
    });
}

/// One that comes while the owner gives back the memory of a ring that was once large.
#[test]
fn loom_a_request_to_a_private_deque_that_is_trimmed_stays() {
    explore(2, || {
        let yard = Yard::<64>::new();
        yard.push(64);
        while yard.pop() {}
        assert!(yard.private.exceeds_bound(), "there is nothing to trim");
        let asker = spawn(move || yard.private.request());
        yard.private.trim();
        asker.join().unwrap();
        assert!(yard.private.serve_requests(|| true), "a request is lost");
        Yard::end(yard);
    });
}

/// A worker asks and goes to sleep while another spawns and then does not look at its private deque any more:
/// a task that stays in it must not stay unseen. Before that, so many are spawned and taken again; and
/// perhaps somebody has asked already, and has gone.
fn ask_and_push<const N: usize>(popped: usize, asked: bool, fences: bool) {
    let yard = Yard::<N>::new();
    if asked {
        yard.private.request();
    }
    let sleeper = spawn(move || sleep_until_found(yard));
    Yard::push_and_serve(yard, N, popped, fences);
    sleeper.join().unwrap();
    Yard::end(yard);
}

/// Sleeps until there is something to take.
fn sleep_until_found<const N: usize>(yard: Stage<Yard<N>>) {
    let idle = &yard.dormitory.idle;
    yard.dormitory.sleepers[0].introduce();
    loop {
        // As the look in `Searcher::rest`.
        let roused = idle.rest(&yard.dormitory, 0, Rest::Sleep, || {
            if idle.anyone_searching() {
                return false;
            }
            yard.private.request();
            heavy();
            yard.public.load(Ordering::Relaxed) > 0 || !yard.private.is_empty()
        });
        let found = yard.public.load(Ordering::Acquire) > 0 || yard.steal(1) > 0;
        if roused == Roused::ToSearch {
            idle.stop_searching();
        }
        if found {
            return;
        }
    }
}

/// As `Worker::attend`.
fn serve_requests<const N: usize>(yard: Stage<Yard<N>>, fences: bool) {
    if !yard.private.serve_requests(|| true) {
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

#[test]
fn loom_a_request_before_a_sleep_is_seen_by_the_next_push() {
    explore(3, || ask_and_push::<1>(0, false, true));
}

#[test]
fn loom_a_request_before_a_sleep_is_seen_by_one_of_two_pushes() {
    explore(3, || ask_and_push::<2>(0, false, true));
}

#[test]
fn loom_a_request_that_is_used_up_wakes_the_sleeper() {
    explore(3, || ask_and_push::<2>(1, false, true));
}

#[test]
fn loom_a_request_of_another_is_as_good_as_ones_own() {
    explore(3, || ask_and_push::<2>(1, true, true));
}

/// What one that rests has pushed before is seen by who sees that it rests, without a fence: see `Idle::barrier`.
#[test]
fn loom_what_one_has_pushed_is_seen_with_its_rest() {
    plant("scheduler/queue/private.rs", FENCES);
    explore(3, || {
        let yard = Yard::<1>::new();
        let owner = spawn(move || {
            yard.push(1);
            let idle = &yard.dormitory.idle;
            idle.rest(&yard.dormitory, 0, Rest::Sleep, || true);
        });
        let rests = yard.dormitory.idle.resting() > 0;
        assert!(!rests || !yard.private.is_empty(), "it rests, and its task is not seen");
        owner.join().unwrap();
        Yard::end(yard);
    });
}

/// A sleeper relies on a searcher, which leaves while a worker spawns two tasks and then runs a long
/// leaf: whoever of the two is later wakes the sleeper.
fn leave_and_push(barrier: bool) {
    let yard = Yard::<2>::new();
    assert!(yard.dormitory.idle.start_searching(2), "somebody searches already");
    let searcher = spawn(move || {
        // As `Searcher::settle_count`.
        let idle = &yard.dormitory.idle;
        idle.stop_searching();
        if idle.resting() == 0 {
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
    let sleeper = spawn(move || sleep_until_found(yard));
    Yard::push_and_serve(yard, 2, 0, true);
    sleeper.join().unwrap();
    searcher.join().unwrap();
    Yard::end(yard);
}

#[test]
fn loom_a_searcher_that_leaves_does_not_miss_a_push() {
    explore(2, || leave_and_push(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_searcher_that_leaves_without_a_barrier() {
    explore(2, || leave_and_push(false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_an_answer_without_a_fence() {
    explore(3, || ask_and_push::<2>(1, true, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_push_that_does_not_fence_before_it_looks_for_a_request() {
    plant("scheduler/queue/private.rs", FENCES);
    explore(3, || ask_and_push::<1>(0, false, true));
}
