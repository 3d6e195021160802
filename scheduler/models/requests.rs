//! Requests to a worker that has a private deque and a fork list. One who lies down asks both, or relies on a
//! searcher that does when it stops; of a push and one who lies down at least one sees the other.
//!
//! (private_deque.rs has the same for a private deque alone.)

use super::{Dormitory, Tasks};
use crate::scheduler::queue::fork_list::{ForkList, Forked, Link};
use crate::scheduler::queue::private_deque::{Portion, PrivateDeque};
use crate::scheduler::steal::idle::{Rest, Roused};
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::check::{FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::words::tree::Node;
use std::cell::Cell;
use std::ptr::{self, NonNull};

struct Fork(Link);

// SAFETY: the only field.
unsafe impl Forked for Fork {
    fn link(&self) -> &Link {
        &self.0
    }

    fn node(&self) -> *const Node {
        ptr::dangling()
    }
}

/// The owner's part, and one who sleeps.
struct Yard<const TASKS: usize> {
    private: PrivateDeque,
    tasks: Tasks<TASKS>,
    forks: ForkList<Fork>,
    /// On a stack, which grows down.
    frames: [Fork; 2],
    /// ForkList that were made public; written under the lock of the fork list.
    taken: Cell<usize>,
    /// The one who sleeps, and the owner.
    dormitory: Dormitory<2>,
    /// What is in the owner's public deque.
    public: AtomicUsize,
    /// As in `Worker`. The owner's.
    offers_on: Cell<bool>,
}

// SAFETY: the one cell is used under a lock, the other by the owner, or after the threads have ended.
unsafe impl<const TASKS: usize> Sync for Yard<TASKS> {}

/// What a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum But {
    Nothing,
    /// The fence of an answer, before it looks for sleepers.
    FenceOfAnswer,
    /// The request of a searcher that stops to its own private deque and row.
    OwnRequest,
    /// The barrier between its requests and its last look.
    Barrier,
    /// Its looks.
    Looks,
}

impl<const TASKS: usize> Yard<TASKS> {
    fn new() -> Stage<Yard<TASKS>> {
        let yard = Stage::new(Yard {
            private: PrivateDeque::new(),
            tasks: Tasks::new(),
            forks: ForkList::new(),
            frames: [Fork(Link::new()), Fork(Link::new())],
            taken: Cell::new(0),
            dormitory: Dormitory::new(),
            public: AtomicUsize::new(0),
            offers_on: Cell::new(false),
        });
        yard.forks.anchor();
        yard
    }

    /// As `Remote::ask`.
    fn request(&self) {
        self.private.request();
        self.forks.request();
    }

    /// As `Remote::has_private`.
    fn has_private(&self) -> bool {
        !self.private.is_empty() || !self.forks.is_empty()
    }

    fn spawn(&self, task: usize, but: But) {
        if self.private.push(self.tasks.spawn(task)) {
            self.serve_requests(but);
        }
    }

    fn fork(&self, fork: usize, but: But) {
        // SAFETY: it ends in `end_join`.
        if unsafe { self.forks.push(NonNull::from(&self.frames[1 - fork])) } {
            self.serve_requests(but);
        }
    }

    /// As `Worker::attend` and `Worker::answer`.
    fn serve_requests(&self, but: But) {
        let searched = || self.dormitory.idle.anyone_searching();
        let lone = self.private.len() == 1 && self.forks.is_clear();
        if lone && self.private.has_room() && searched() {
            return;
        }
        let asked = self.private.serve_requests(searched);
        let asked = self.forks.serve_requests() || asked;
        if !asked {
            return;
        }
        let given = self.private.hand_over(2, Portion::HALF, |record| {
            self.tasks.take(record);
            self.public.fetch_add(1, Ordering::Release);
        });
        if given == 0 {
            self.offer_fork();
        }
        if but == But::FenceOfAnswer {
            self.dormitory.idle.wake_one(&self.dormitory, false);
        } else {
            self.dormitory.idle.notify(&self.dormitory, false);
        }
    }

    /// As `Worker::offer_fork`.
    fn offer_fork(&self) {
        let stocked = self.public.load(Ordering::Relaxed) > 0;
        if self.offers_on.replace(false) && stocked {
            return;
        }
        let given = self.forks.give_oldest(|_| {
            self.taken.set(self.taken.get() + 1);
            self.public.fetch_add(1, Ordering::Release);
        });
        if given && !stocked {
            self.offers_on.set(true);
            self.forks.request_from_self();
        }
    }

    /// The end of a join; whether the fork is its owner's.
    fn end_join(&self, fork: usize) -> bool {
        let fork = &self.frames[1 - fork];
        // SAFETY: the newest one.
        unsafe { self.forks.pop(fork) || self.forks.settle(fork) }
    }

    /// As `Searcher::take_by_force`.
    fn steal(&self) -> bool {
        let stolen = self.private.steal(1, |record| {
            self.tasks.take(record);
        });
        stolen > 0 || self.forks.steal(|_| true, |_| self.taken.set(self.taken.get() + 1))
    }

    /// Sleeps until there is something to take.
    fn sleep_until_found(&self) {
        let idle = &self.dormitory.idle;
        self.dormitory.sleepers[0].introduce();
        loop {
            let roused = idle.rest(&self.dormitory, 0, Rest::Sleep, || {
                let public = || self.public.load(Ordering::Relaxed) > 0;
                idle.look_before_sleep(2, public, || self.request(), || self.has_private())
            });
            let found = self.public.load(Ordering::Acquire) > 0 || self.steal();
            if roused == Roused::ToSearch {
                idle.stop_searching();
            }
            if found {
                return;
            }
        }
    }

    /// As `Searcher::leave_search`, on the owner itself or on another worker.
    fn stop_searching(&self, own: bool, but: But) {
        let idle = &self.dormitory.idle;
        idle.stop_searching();
        if idle.resting() == 0 {
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
            // The same without the barrier, and so without a second look.
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

    /// All tasks were taken once; the forks were taken, or their owner has called them.
    fn end(this: Stage<Yard<TASKS>>, forks: usize, called: usize) {
        while let Some(record) = this.private.pop() {
            this.tasks.take(record);
        }
        this.tasks.end();
        assert!(this.forks.is_clear());
        assert_eq!(this.taken.get() + called, forks);
        // SAFETY: the threads have ended.
        unsafe { this.end() };
    }
}

/// What the owner does until another worker takes something off it.
#[derive(Clone, Copy)]
enum Does {
    /// ForkList, and computes.
    Fork,
    /// ForkList within a fork, and computes.
    ForkTwice,
    /// Has called the second half itself before anybody came, and forks again.
    ForkAgain,
    /// Spawns a task and takes it back, then forks.
    SpawnAndFork,
    /// Spawns a task, and computes.
    Spawn,
    /// ForkList, and calls the second half itself; then spawns a task, and computes.
    ForkAndSpawn,
}

/// A worker lies down while another one forks and then computes: somebody must take what it has. Perhaps
/// somebody else has asked already, and has gone.
fn request_and_fork<const TASKS: usize>(does: Does, asked: bool, but: But) {
    let yard = Yard::<TASKS>::new();
    if asked {
        yard.request();
    }
    let sleeper = spawn(move || yard.sleep_until_found());
    own(yard, does, but, || sleeper.join().unwrap());
}

/// The owner's part; `compute` ends when the sleeper has found something.
fn own<const TASKS: usize>(yard: Stage<Yard<TASKS>>, does: Does, but: But, compute: impl FnOnce()) {
    let mut open = 0;
    let (mut forks, mut called) = (0, 0);
    let mut fork = |open: &mut usize| {
        yard.fork(*open, but);
        *open += 1;
        forks += 1;
    };
    let mut end_join = |open: &mut usize| {
        *open -= 1;
        called += usize::from(yard.end_join(*open));
    };
    match does {
        Does::Fork => fork(&mut open),
        Does::ForkTwice => {
            fork(&mut open);
            fork(&mut open);
        }
        Does::ForkAgain => {
            fork(&mut open);
            end_join(&mut open);
            fork(&mut open);
        }
        Does::SpawnAndFork => {
            yard.spawn(0, but);
            if let Some(record) = yard.private.pop() {
                yard.tasks.take(record);
            }
            fork(&mut open);
        }
        Does::Spawn => yard.spawn(0, but),
        Does::ForkAndSpawn => {
            fork(&mut open);
            end_join(&mut open);
            yard.spawn(0, but);
        }
    }
    compute();
    while open > 0 {
        end_join(&mut open);
    }
    Yard::end(yard, forks, called);
}

#[test]
fn loom_a_request_before_a_sleep_is_seen_by_the_next_fork() {
    explore(3, || request_and_fork::<0>(Does::Fork, false, But::Nothing));
}

#[test]
fn loom_a_request_before_a_sleep_is_seen_by_one_of_two_forks() {
    explore(3, || request_and_fork::<0>(Does::ForkTwice, false, But::Nothing));
}

#[test]
fn loom_a_request_that_a_fork_has_used_up_wakes_the_sleeper() {
    explore(3, || request_and_fork::<0>(Does::ForkAgain, false, But::Nothing));
}

#[test]
fn loom_a_request_of_another_to_a_row_is_as_good_as_ones_own() {
    explore(2, || request_and_fork::<0>(Does::ForkAgain, true, But::Nothing));
}

/// The answer takes both requests back, whichever of the two was noticed.
#[test]
fn loom_a_spawn_answers_for_the_forks_and_a_fork_for_the_tasks() {
    explore(2, || request_and_fork::<1>(Does::SpawnAndFork, false, But::Nothing));
    explore(2, || request_and_fork::<1>(Does::ForkAndSpawn, true, But::Nothing));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_fork_that_does_not_fence_before_it_looks_for_a_request() {
    plant("scheduler/queue/fork_list.rs", FENCES);
    explore(3, || request_and_fork::<0>(Does::Fork, false, But::Nothing));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_an_answer_without_a_fence() {
    // A spawn, as the answer of a fork that is handed over leaves the request standing.
    explore(2, || request_and_fork::<1>(Does::SpawnAndFork, true, But::FenceOfAnswer));
}

/// A worker was counted as searching, and what it has found is a task of its own. Another one lies down,
/// and leaves the asking to it, perhaps.
fn find_ones_own<const TASKS: usize>(does: Does, but: But) {
    let yard = Yard::<TASKS>::new();
    assert!(yard.dormitory.idle.start_searching(2), "somebody searches already");
    let sleeper = spawn(move || yard.sleep_until_found());
    yard.stop_searching(true, but);
    own(yard, does, but, || sleeper.join().unwrap());
}

#[test]
fn loom_a_searcher_that_forks_itself_has_asked_itself() {
    explore(3, || find_ones_own::<0>(Does::Fork, But::Nothing));
}

#[test]
fn loom_a_searcher_that_spawns_itself_has_asked_itself() {
    explore(2, || find_ones_own::<1>(Does::ForkAndSpawn, But::Nothing));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_searcher_that_asks_all_others() {
    explore(3, || find_ones_own::<0>(Does::Fork, But::OwnRequest));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_searcher_that_leaves_without_a_fence() {
    plant("scheduler/steal/idle.rs", FENCES);
    explore(3, || find_ones_own::<0>(Does::Fork, But::Nothing));
}

/// A worker lies down and relies on a searcher, which leaves while a third one forks or spawns.
fn leave_meanwhile<const TASKS: usize>(does: Does, asked: bool, but: But) {
    let yard = Yard::<TASKS>::new();
    if asked {
        yard.request();
    }
    assert!(yard.dormitory.idle.start_searching(2), "somebody searches already");
    let searcher = spawn(move || yard.stop_searching(false, but));
    let sleeper = spawn(move || yard.sleep_until_found());
    own(yard, does, but, || {
        sleeper.join().unwrap();
        searcher.join().unwrap();
    });
}

#[test]
fn loom_a_searcher_that_leaves_does_not_miss_a_fork() {
    explore(2, || leave_meanwhile::<0>(Does::Fork, false, But::Nothing));
}

/// The owner finds itself asked, and leaves a lone task to the searcher.
#[test]
fn loom_a_searcher_that_leaves_does_not_miss_a_lone_task() {
    explore(2, || leave_meanwhile::<1>(Does::Spawn, true, But::Nothing));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_searcher_that_misses_a_lone_task() {
    explore(2, || leave_meanwhile::<1>(Does::Spawn, true, But::Looks));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_a_searcher_that_leaves_a_row_without_a_barrier() {
    explore(2, || leave_meanwhile::<0>(Does::Fork, false, But::Barrier));
}

/// The owner rests too, gets up and forks, while another worker lies down, or a searcher on whom that one
/// relies leaves: the two find all others at rest, and make no barrier, perhaps.
fn get_up_and_fork(searcher: bool) {
    let yard = Yard::<0>::new();
    let idle = &yard.dormitory.idle;
    let searcher = searcher.then(|| {
        assert!(idle.start_searching(3), "somebody searches already");
        spawn(move || yard.stop_searching(false, But::Nothing))
    });
    let sleeper = spawn(move || yard.sleep_until_found());
    yard.dormitory.sleepers[1].introduce();
    idle.rest(&yard.dormitory, 1, Rest::Sleep, || true);
    own(yard, Does::Fork, But::Nothing, || {
        sleeper.join().unwrap();
        searcher.map(|thread| thread.join().unwrap());
    });
}

#[test]
fn loom_one_that_gets_up_and_forks_is_not_missed() {
    explore(3, || get_up_and_fork(false));
}

#[test]
fn loom_one_that_gets_up_and_forks_is_not_missed_by_a_searcher_that_leaves() {
    explore(2, || get_up_and_fork(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_negative_one_that_gets_up_without_a_fence() {
    plant("scheduler/steal/idle.rs", FENCES);
    explore(3, || get_up_and_fork(false));
}
