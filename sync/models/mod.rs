//! Models of waits for the primitives, run by ci/loom.sh. A task of a model is a thread with a wait
//! word and a processor, which a waker wakes. Its waits repeat the steps of `enter_as_task` in
//! scheduler/wait/waiters.

mod rwlock;
mod semaphore;

use super::called::{CALL, EnterCalled};
use super::event::{RawEvent, SET};
use super::holder::Holder;
use super::raw_mutex::{BEHIND, RawMutex};
use crate::scheduler::wait::waiters::{Enqueue, WaitNode, Waitable, Who, leave, queue};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::models::Processor;
use crate::task::words::wait::{Publish, WaitKind, WaitWord, Woken};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A task of a model.
pub(crate) struct Task {
    word: WaitWord,
    processor: Processor,
}

struct Grants(Stage<Task>);

// SAFETY: the wait word is shared by design. The rest is used by the test's own thread only,
// because all threads of a model run on it.
unsafe impl Send for Grants {}
// SAFETY: the wait word is shared by design, and the rest is used by the test's own thread only.
unsafe impl Sync for Grants {}

impl Wake for Grants {
    fn wake(self: Arc<Self>) {
        self.0.resume_if(self.0.word.grant());
    }
}

impl Task {
    pub(crate) fn new() -> Stage<Task> {
        Stage::new(Task { word: WaitWord::new(), processor: Processor::new() })
    }

    fn resume_if(&self, duty: bool) {
        if duty {
            self.processor.resume();
        }
    }

    /// Called by the task's thread, before any other thread knows the task.
    pub(crate) fn introduce(&self) {
        self.processor.introduce();
    }

    pub(crate) fn interrupt(&self) {
        self.resume_if(self.word.interrupt());
    }

    /// Leaves the processor, and returns what ended the wait.
    fn wait(&self, kind: WaitKind) -> Woken {
        match self.word.publish(kind) {
            Publish::Ready => Woken::Granted,
            Publish::Parked => {
                self.processor.suspend();
                self.word.woken()
            }
        }
    }

    /// Ends the task, which must not have a grant left over for a later wait.
    pub(crate) fn end(this: Stage<Task>) {
        assert!(!this.word.is_notified(), "a grant is left over");
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { this.end() };
    }
}

/// Waits for `source` as a task does. Returns the answer, or `None` if the wait was cut short.
pub(crate) fn enter<W: Waitable>(task: Stage<Task>, source: &W, token: u64) -> Option<u32> {
    enter_and(task, source, token, true, None)
}

/// Like [`enter`], with two additions. If `gives_back` is false, a cut task does not give back what
/// it was granted, which is a fault. `queued` is called once the node is in the queue.
pub(crate) fn enter_and<W: Waitable>(
    task: Stage<Task>,
    source: &W,
    token: u64,
    gives_back: bool,
    queued: Option<&mut dyn FnMut()>,
) -> Option<u32> {
    let node = pin!(WaitNode::new(token, Location::caller()));
    enter_node(task, source, node.as_ref(), gives_back, queued)
}

/// Like [`enter_and`], with the caller's own node, in which a grant may leave a value.
pub(crate) fn enter_node<W: Waitable>(
    task: Stage<Task>,
    source: &W,
    node: Pin<&WaitNode>,
    gives_back: bool,
    queued: Option<&mut dyn FnMut()>,
) -> Option<u32> {
    let who = || Who::Future(Waker::from(Arc::new(Grants(task))));
    // SAFETY: the node is taken out of the list, or granted, before this frame ends.
    match unsafe { queue(source, node, who, true, queued) } {
        Enqueue::Answer(answer) => return Some(answer),
        Enqueue::Granted => return Some(node.answer()),
        _ => {}
    }
    if task.wait(WaitKind::Grant) == Woken::Interrupted {
        if leave(source, node) {
            return None;
        }
        assert_eq!(task.wait(WaitKind::Structured), Woken::Granted);
        if source.stands() {
            return Some(node.answer());
        }
        if gives_back {
            source.give_back(&node);
        }
        return None;
    }
    Some(node.answer())
}

/// Waits for `source` like a task that may be called. A called task tries `comes`, and returns to
/// the queue if that fails.
pub(crate) fn enter_or_come<W: Waitable>(
    task: Stage<Task>,
    source: &W,
    token: u64,
    call: u32,
    comes: impl Fn() -> bool,
) -> Option<u32> {
    let node = pin!(WaitNode::new(token, Location::caller()));
    loop {
        let answer = enter_node(task, source, node.as_ref(), true, None)?;
        if answer != call || comes() {
            return Some(answer);
        }
    }
}

struct Locked {
    mutex: RawMutex,
    value: Baton,
}

impl Locked {
    fn new(fair: bool) -> Stage<Locked> {
        Stage::new(Locked { mutex: RawMutex::new(fair), value: Baton::new() })
    }

    /// Does the same as `Mutex::lock`. `mark` is BEHIND for a task that hogs the mutex, and
    /// otherwise 0.
    fn lock(&self, task: Stage<Task>, holder: Holder, mark: u64) -> bool {
        task.introduce();
        if mark == 0 && self.mutex.try_lock(holder) {
            return true;
        }
        let comes = || self.mutex.answer_call(holder);
        enter_or_come(task, &self.mutex, holder.number() | mark, CALL, comes).is_some()
    }

    /// Locks the mutex, uses the value, and unlocks. Returns `true` if the task got the mutex.
    fn visit(&self, task: Stage<Task>, number: u64) -> bool {
        self.visit_as(task, number, 0)
    }

    fn visit_as(&self, task: Stage<Task>, number: u64, mark: u64) -> bool {
        let holder = Holder::from_number(number << 3);
        let locked = self.lock(task, holder, mark);
        if locked {
            self.value.write();
            // SAFETY: `holder` has locked the mutex.
            unsafe { self.mutex.unlock(holder) };
        }
        locked
    }

    fn end(this: Stage<Locked>, uses: usize) {
        assert_eq!(this.value.read(), uses);
        assert!(this.mutex.holder().is_none(), "the mutex is still locked at the end");
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { this.end() };
    }
}

/// `count` tasks lock and unlock the mutex once each.
fn visitors(fair: bool, count: u64) {
    let locked = Locked::new(fair);
    let others: Vec<_> = (1..count)
        .map(|number| {
            let task = Task::new();
            (task, spawn(move || locked.visit(task, number)))
        })
        .collect();
    let mine = Task::new();
    assert!(locked.visit(mine, count));
    for (task, visitor) in others {
        assert!(visitor.join().unwrap());
        Task::end(task);
    }
    Task::end(mine);
    Locked::end(locked, count as usize);
}

#[test]
fn loom_a_mutex_has_one_holder_and_loses_no_waiter() {
    explore(ALL, || visitors(false, 2));
}

#[test]
fn loom_a_fair_mutex_has_one_holder_and_is_handed_over() {
    explore(ALL, || visitors(true, 2));
}

/// A called waiter returns to the queue, because the third task was faster.
#[test]
fn loom_barging_into_a_mutex_loses_no_waiter() {
    explore(3, || visitors(false, 3));
}

/// A task that hogs the mutex queues up behind a called waiter, even while the mutex is free.
#[test]
fn loom_a_hog_behind_a_called_waiter_gets_the_mutex() {
    explore(3, || {
        let (locked, holder) = (Locked::new(false), Holder::from_number(24));
        let (called, hog) = (Task::new(), Task::new());
        assert!(locked.mutex.try_lock(holder));
        let waiter = spawn(move || locked.visit(called, 1));
        let unlocks = spawn(move || {
            locked.value.write();
            // SAFETY: `holder` has locked the mutex.
            unsafe { locked.mutex.unlock(holder) };
        });
        assert!(locked.visit_as(hog, 2, BEHIND));
        assert!(waiter.join().unwrap());
        unlocks.join().unwrap();
        Task::end(called);
        Task::end(hog);
        Locked::end(locked, 3);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_mutex_without_order() {
    plant("sync/raw_mutex.rs", ORDERS);
    explore(3, || visitors(false, 2));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_fair_mutex_without_order() {
    plant("sync/raw_mutex.rs", ORDERS);
    explore(3, || visitors(true, 2));
}

/// One of three tasks is cut at any moment. It gets the mutex, or is refused and leaves it to the
/// others.
fn a_cut_of_a_wait(fair: bool) {
    explore(3, move || {
        let (locked, holder) = (Locked::new(fair), Holder::from_number(16));
        let (cut, next) = (Task::new(), Task::new());
        assert!(locked.mutex.try_lock(holder));
        let refused = spawn(move || !locked.visit(cut, 1));
        let unlocks = spawn(move || {
            locked.value.write();
            // SAFETY: `holder` has locked the mutex.
            unsafe { locked.mutex.unlock(holder) };
        });
        // Perhaps during the hand-over.
        cut.interrupt();
        assert!(locked.visit(next, 2), "a waiter that was not cut was refused");
        let refused = refused.join().unwrap();
        unlocks.join().unwrap();
        Task::end(cut);
        Task::end(next);
        Locked::end(locked, 3 - usize::from(refused));
    });
}

#[test]
fn loom_a_cut_wait_loses_neither_the_mutex_nor_the_next_waiter() {
    a_cut_of_a_wait(false);
}

#[test]
fn loom_a_cut_wait_loses_neither_a_fair_mutex_nor_the_next_waiter() {
    a_cut_of_a_wait(true);
}

/// A future that is dropped during its grant gives the mutex back, or passes the call on.
fn a_future_is_dropped(fair: bool) {
    explore(ALL, move || {
        let (locked, holder) = (Locked::new(fair), Holder::from_number(16));
        assert!(locked.mutex.try_lock(holder));
        let dropper = spawn(move || {
            let mut waits =
                pin!(EnterCalled::new(&locked.mutex, Holder::FUTURE.number(), Location::caller()));
            let mut cx = Context::from_waker(Waker::noop());
            match waits.as_mut().poll(&mut cx) {
                Poll::Ready(_) => {
                    locked.value.write();
                    // SAFETY: the future is ready, and so has locked the mutex.
                    unsafe { locked.mutex.unlock(Holder::FUTURE) };
                    true
                }
                Poll::Pending => false,
            }
        });
        locked.value.write();
        // SAFETY: `holder` has locked the mutex.
        unsafe { locked.mutex.unlock(holder) };
        let used = dropper.join().unwrap();
        Locked::end(locked, 1 + usize::from(used));
    });
}

#[test]
fn loom_a_dropped_future_passes_the_call_on() {
    a_future_is_dropped(false);
}

#[test]
fn loom_a_dropped_future_gives_back_its_grant() {
    a_future_is_dropped(true);
}

/// An event, and a value that is written before the event is set.
struct Announced {
    event: RawEvent,
    value: Baton,
}

fn set_and_wait() {
    let announced = Stage::new(Announced { event: RawEvent::new(), value: Baton::new() });
    let task = Task::new();
    let waits = spawn(move || {
        task.introduce();
        let answer = match announced.event.answer() {
            None => enter(task, &announced.event, 0),
            answer => answer,
        };
        assert_eq!(answer, Some(SET));
        assert_eq!(announced.value.read(), 1);
    });
    announced.value.write();
    announced.event.open(SET);
    waits.join().unwrap();
    Task::end(task);
    // SAFETY: the threads of the model have ended, so no copy is used any more.
    unsafe { announced.end() };
}

#[test]
fn loom_a_set_releases_a_caller_that_waits_or_is_about_to() {
    explore(ALL, set_and_wait);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_an_event_without_order() {
    plant("sync/event.rs", ORDERS);
    explore(3, set_and_wait);
}

/// A set, a reset and a cut race. The wait ends once, and a set that finds the waiter stays valid.
#[test]
fn loom_a_wait_ends_once_in_a_race_of_set_reset_and_cut() {
    explore(ALL, || {
        let event = Stage::new(RawEvent::new());
        let task = Task::new();
        let waits = spawn(move || {
            task.introduce();
            enter(task, &*event, 0)
        });
        let cuts = spawn(move || task.interrupt());
        event.open(SET);
        event.reset();
        cuts.join().unwrap();
        // The waiter may have come too late for the first set.
        event.open(SET);
        if let Some(answer) = waits.join().unwrap() {
            assert_eq!(answer, SET);
        }
        assert!(event.state().waiters.is_empty(), "a waiter is left in the queue");
        Task::end(task);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe { event.end() };
    });
}

/// A waker that is called between the entry of a node and its wait begins a wait of its own. Each
/// of the two waits collects its own grant.
#[test]
fn loom_a_wait_inside_the_entry_of_another_gets_its_own_grant() {
    explore(ALL, || {
        let (outer, inner) = (Stage::new(RawEvent::new()), Stage::new(RawEvent::new()));
        let (value, task) = (Stage::new(Baton::new()), Task::new());
        let waits = spawn(move || {
            task.introduce();
            let mut waker = || {
                assert_eq!(enter(task, &*inner, 0), Some(SET));
                assert_eq!(value.read(), 1);
            };
            assert_eq!(enter_and(task, &*outer, 0, true, Some(&mut waker)), Some(SET));
        });
        outer.open(SET);
        value.write();
        inner.open(SET);
        waits.join().unwrap();
        Task::end(task);
        // SAFETY: the threads of the model have ended, so no copy is used any more.
        unsafe {
            value.end();
            inner.end();
            outer.end();
        }
    });
}
