//! Requests for work to a worker with a private deque and a fork list.
//!
//! A worker that goes to sleep sends a request to both, or relies on a searcher that does so when
//! it stops. Of a push and a worker that goes to sleep, at least one sees the other. The model in
//! private_deque.rs covers a private deque alone.

use self::Does::{EndJoin, Fork, Pop, Spawn};
use super::{Dormitory, Tasks};
use crate::scheduler::queue::fork_list::{ForkList, Forked, Link};
use crate::scheduler::queue::private_deque::{Portion, PrivateDeque};
use crate::scheduler::steal::idle::Rest;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::check::{FENCES, Stage, explore, models};
use crate::shim::thread::spawn;
use crate::task::words::tree::Node;
use std::cell::Cell;
use std::ptr::{self, NonNull};

struct Frame(Link);

// SAFETY: the only field.
unsafe impl Forked for Frame {
    fn link(&self) -> &Link {
        &self.0
    }

    fn node(&self) -> *const Node {
        ptr::dangling()
    }
}

/// An owner with its two queues, and a sleeper.
struct Yard<const TASKS: usize> {
    private: PrivateDeque,
    tasks: Tasks<TASKS>,
    forks: ForkList<Frame>,
    /// The forks, in a stack that grows down.
    frames: [Frame; 2],
    /// The number of forks that were made public. Written under the lock of the fork list.
    taken: Cell<usize>,
    /// The sleeper is worker 0, the owner is worker 1.
    dormitory: Dormitory<2>,
    /// The number of items in the owner's public deque.
    public: AtomicUsize,
    /// As in `Worker`. Used only by the owner.
    own_request: Cell<bool>,
}

/// The step that a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum But {
    Nothing,
    /// The fence of an owner that serves a request, before it looks for sleepers.
    FenceOfAnswer,
    /// The request of a stopping searcher to its own private deque and fork list.
    OwnRequest,
    /// The barrier of a stopping searcher between its requests and its last look.
    Barrier,
    /// The looks of a stopping searcher.
    Looks,
}

impl<const TASKS: usize> Yard<TASKS> {
    fn new() -> Stage<Yard<TASKS>> {
        let yard = Stage::new(Yard {
            private: PrivateDeque::new(),
            tasks: Tasks::new(),
            forks: ForkList::new(),
            frames: [Frame(Link::new()), Frame(Link::new())],
            taken: Cell::new(0),
            dormitory: Dormitory::new(),
            public: AtomicUsize::new(0),
            own_request: Cell::new(false),
        });
        yard.forks.anchor();
        yard
    }

    /// Like `Remote::request`.
    fn request(&self) {
        self.private.request();
        self.forks.request();
    }

    /// Like `Remote::has_private`.
    fn has_private(&self) -> bool {
        !self.private.is_empty() || !self.forks.is_empty()
    }

    fn spawn(&self, task: usize, but: But) {
        if self.private.push(self.tasks.spawn(task)) {
            self.serve_requests(but);
        }
    }

    fn fork(&self, fork: usize, but: But) {
        // SAFETY: the fork is alive until its `end_join`, which takes it off.
        if unsafe { self.forks.push(NonNull::from(&self.frames[1 - fork])) } {
            self.serve_requests(but);
        }
    }

    /// Like `Worker::serve_requests` and `Worker::answer`.
    fn serve_requests(&self, but: But) {
        let searched = || self.dormitory.idle.anyone_searching();
        let lone = self.private.len() == 1 && self.forks.is_clear();
        if lone && self.private.has_room() && searched() {
            return;
        }
        let asked = self.private.take_request(searched);
        let asked = self.forks.take_request() || asked;
        if !asked {
            return;
        }
        let given = self.private.hand_over(2, Portion::HALF, |record| {
            self.tasks.take(record);
            self.public.fetch_add(1, Ordering::Release);
        });
        if given == 0 {
            self.hand_over_fork();
        }
        if but == But::FenceOfAnswer {
            self.dormitory.idle.wake_one(&self.dormitory, false);
        } else {
            self.dormitory.idle.notify(&self.dormitory, false);
        }
    }

    /// Like `Worker::hand_over_fork`.
    fn hand_over_fork(&self) {
        let stocked = self.public.load(Ordering::Relaxed) > 0;
        if self.own_request.replace(false) && stocked {
            return;
        }
        let given = self.forks.give_oldest(|_| {
            self.taken.set(self.taken.get() + 1);
            self.public.fetch_add(1, Ordering::Release);
        });
        if given && !stocked {
            self.own_request.set(true);
            self.forks.request_from_self();
        }
    }

    /// Ends a join. Returns whether its owner runs the fork.
    fn end_join(&self, fork: usize) -> bool {
        let fork = &self.frames[1 - fork];
        // SAFETY: this is the newest fork.
        unsafe { self.forks.pop(fork) || self.forks.resolve(fork) }
    }

    /// Like `Searcher::take_by_force`.
    fn steal(&self) -> bool {
        let stolen = self.private.steal(1, |record| {
            self.tasks.take(record);
        });
        stolen > 0 || self.forks.steal(|_| true, |_| self.taken.set(self.taken.get() + 1))
    }

    /// Sleeps until there is something to take.
    fn sleep_until_found(&self) {
        let look = || {
            let public = || self.public.load(Ordering::Relaxed) > 0;
            let idle = &self.dormitory.idle;
            idle.look_before_sleep(2, public, || self.request(), || self.has_private())
        };
        let take = || self.public.load(Ordering::Acquire) > 0 || self.steal();
        self.dormitory.sleep_until(look, take);
    }

    /// Like `Searcher::leave_searchers`, on the owner itself if `own`, else on another worker.
    fn stop_searching(&self, own: bool, but: But) {
        let idle = &self.dormitory.idle;
        if !idle.stop_searching() || idle.resting() == 0 {
            return;
        }
        let left = || self.public.load(Ordering::Relaxed) > 0 || self.has_private();
        let others = if own { 1 } else { 2 };
        let asks_itself = !(own && but == But::OwnRequest);
        let ask = || {
            if asks_itself {
                self.request()
            }
        };
        let found = match but {
            // Like `look_after_search` without the barrier, and so without the second look.
            But::Barrier => {
                if idle.anyone_asleep() {
                    ask();
                }
                left()
            }
            But::Looks => {
                ask();
                false
            }
            _ => idle.look_after_search(others, ask, left),
        };
        if found {
            idle.wake_one(&self.dormitory, false);
        }
    }

    fn pop(&self) -> bool {
        self.private.pop().map(|run| self.tasks.take(run)).is_some()
    }

    /// Asserts that each task was taken once, and that each fork was taken, or called by its owner.
    fn end(this: Stage<Yard<TASKS>>, forks: usize, called: usize) {
        while this.pop() {}
        this.tasks.end();
        assert!(this.forks.is_clear());
        assert_eq!(this.taken.get() + called, forks);
    }
}

/// An action of the owner, before it computes until another worker has taken something.
#[derive(Clone, Copy)]
enum Does {
    /// Forks, within the forks that are open.
    Fork,
    /// Ends the innermost join, and calls the second half itself if no other worker has taken it.
    EndJoin,
    /// Spawns a task.
    Spawn,
    /// Takes the newest task back.
    Pop,
}

/// A worker goes to sleep while the owner acts and then computes. The worker must find the owner's
/// task or fork. If `asked`, an earlier request was left by a worker that has left.
fn request_and_fork<const TASKS: usize>(actions: &'static [Does], asked: bool, but: But) {
    let yard = Yard::<TASKS>::new();
    if asked {
        yard.request();
    }
    let sleeper = spawn(move || yard.sleep_until_found());
    own(yard, actions, but, || sleeper.join().unwrap());
}

/// The owner's part. `compute` returns when the sleeper has found something.
fn own<const TASKS: usize>(
    yard: Stage<Yard<TASKS>>,
    actions: &[Does],
    but: But,
    compute: impl FnOnce(),
) {
    let (mut open, mut forks, mut called) = (0, 0, 0);
    let mut end_join = |open: &mut usize| {
        *open -= 1;
        called += usize::from(yard.end_join(*open));
    };
    for action in actions {
        match action {
            Fork => {
                yard.fork(open, but);
                open += 1;
                forks += 1;
            }
            EndJoin => end_join(&mut open),
            Spawn => yard.spawn(0, but),
            Pop => _ = yard.pop(),
        }
    }
    compute();
    while open > 0 {
        end_join(&mut open);
    }
    Yard::end(yard, forks, called);
}

models! {
    fn loom_a_request_before_a_sleep_is_seen_by_the_next_fork() =
        explore(3, || request_and_fork::<0>(&[Fork], false, But::Nothing));

    fn loom_a_request_before_a_sleep_is_seen_by_one_of_two_forks() =
        explore(3, || request_and_fork::<0>(&[Fork, Fork], false, But::Nothing));

    fn loom_a_request_that_a_fork_has_served_wakes_the_sleeper() =
        explore(3, || request_and_fork::<0>(&[Fork, EndJoin, Fork], false, But::Nothing));

    fn loom_a_request_of_another_to_a_fork_list_counts_as_ones_own() =
        explore(2, || request_and_fork::<0>(&[Fork, EndJoin, Fork], true, But::Nothing));

    fn loom_negative_a_fork_that_does_not_fence_before_it_looks_for_a_request() =
        explore(3, || request_and_fork::<0>(&[Fork], false, But::Nothing)),
        without FENCES in "scheduler/queue/fork_list.rs", fails: "deadlock";

    /// A spawn comes first, because an owner that hands a fork over leaves the request standing.
    fn loom_negative_a_served_request_without_a_fence() =
        explore(2, || request_and_fork::<1>(&[Spawn, Pop, Fork], true, But::FenceOfAnswer)),
        fails: "deadlock";
}

/// The owner takes back the requests to both queues, whichever of the two it has noticed.
#[test]
fn loom_a_spawn_serves_the_forks_request_and_a_fork_the_tasks() {
    explore(2, || request_and_fork::<1>(&[Spawn, Pop, Fork], false, But::Nothing));
    explore(2, || request_and_fork::<1>(&[Fork, EndJoin, Spawn], true, But::Nothing));
}

/// The owner is counted as searching, and stops because it has found a task of its own. A worker
/// that goes to sleep may have left the requests to this searcher.
fn find_ones_own<const TASKS: usize>(actions: &'static [Does], but: But) {
    let yard = Yard::<TASKS>::new();
    assert!(yard.dormitory.idle.start_searching(2), "another worker is counted as searching");
    let sleeper = spawn(move || yard.sleep_until_found());
    yard.stop_searching(true, but);
    own(yard, actions, but, || sleeper.join().unwrap());
}

models! {
    fn loom_a_searcher_that_forks_has_sent_itself_a_request() =
        explore(3, || find_ones_own::<0>(&[Fork], But::Nothing));

    fn loom_a_searcher_that_spawns_has_sent_itself_a_request() =
        explore(2, || find_ones_own::<1>(&[Fork, EndJoin, Spawn], But::Nothing));

    fn loom_negative_a_searcher_that_sends_itself_no_request() =
        explore(3, || find_ones_own::<0>(&[Fork], But::OwnRequest)), fails: "deadlock";

    fn loom_negative_a_searcher_that_stops_without_a_fence() =
        explore(3, || find_ones_own::<0>(&[Fork], But::Nothing)),
        without FENCES in "scheduler/steal/idle.rs", fails: "deadlock";
}

/// A worker goes to sleep and relies on a searcher, which stops while the owner forks or spawns.
fn leave_meanwhile<const TASKS: usize>(actions: &'static [Does], asked: bool, but: But) {
    let yard = Yard::<TASKS>::new();
    if asked {
        yard.request();
    }
    assert!(yard.dormitory.idle.start_searching(2), "another worker is counted as searching");
    let searcher = spawn(move || yard.stop_searching(false, but));
    let sleeper = spawn(move || yard.sleep_until_found());
    own(yard, actions, but, || {
        sleeper.join().unwrap();
        searcher.join().unwrap();
    });
}

models! {
    fn loom_a_searcher_that_stops_does_not_miss_a_fork() =
        explore(2, || leave_meanwhile::<0>(&[Fork], false, But::Nothing));

    /// The owner finds a request, and leaves its lone task to the searcher.
    fn loom_a_searcher_that_stops_does_not_miss_a_lone_task() =
        explore(2, || leave_meanwhile::<1>(&[Spawn], true, But::Nothing));

    fn loom_negative_a_searcher_that_misses_a_lone_task() =
        explore(2, || leave_meanwhile::<1>(&[Spawn], true, But::Looks)), fails: "deadlock";

    fn loom_negative_a_searcher_that_stops_without_a_barrier() =
        explore(2, || leave_meanwhile::<0>(&[Fork], false, But::Barrier)), fails: "deadlock";
}

/// The owner rests, gets up and forks while another worker goes to sleep or, if `searcher`, a
/// searcher on which that worker relies stops. The two may find all others at rest, and then make
/// no barrier.
fn get_up_and_fork(searcher: bool) {
    let yard = Yard::<0>::new();
    let idle = &yard.dormitory.idle;
    let searcher = searcher.then(|| {
        assert!(idle.start_searching(3), "another worker is counted as searching");
        spawn(move || yard.stop_searching(false, But::Nothing))
    });
    let sleeper = spawn(move || yard.sleep_until_found());
    yard.dormitory.sleepers[1].introduce();
    idle.rest(&yard.dormitory, 1, Rest::Sleep, || true);
    own(yard, &[Fork], But::Nothing, || {
        sleeper.join().unwrap();
        searcher.map(|thread| thread.join().unwrap());
    });
}

models! {
    fn loom_a_worker_that_gets_up_and_forks_is_not_missed() = explore(3, || get_up_and_fork(false));

    fn loom_a_worker_that_gets_up_and_forks_is_not_missed_by_a_searcher() =
        explore(2, || get_up_and_fork(true));

    fn loom_negative_a_worker_that_gets_up_without_a_fence() =
        explore(3, || get_up_and_fork(false)),
        without FENCES in "scheduler/steal/idle.rs", fails: "deadlock";
}
