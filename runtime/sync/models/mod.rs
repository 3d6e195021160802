//! Models of who waits for a primitive; run by ci/loom.sh. A task is a thread with a wait word and a processor, which a waker
//! wakes; what it does repeats the lines of `enter_as_task` in scheduler/waiters.

mod rwlock;
mod semaphore;

use super::event::{RawEvent, SET};
use super::holder::Holder;
use super::raw_mutex::RawMutex;
use crate::retire::models::Processor;
use crate::retire::wait::{Publish, WaitKind, WaitWord, Woken};
use crate::scheduler::waiters::{Entering, Entry, WaitNode, Waitable, Who, leave, queue};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A task of a model.
pub(super) struct Task {
    word: WaitWord,
    processor: Processor,
}

struct Grants(Stage<Task>);

// SAFETY: its words are shared by design, the rest is of the test's own thread, which all threads of a model run on.
unsafe impl Send for Grants {}
// SAFETY: as above.
unsafe impl Sync for Grants {}

impl Wake for Grants {
    fn wake(self: Arc<Self>) {
        self.0.resume_if(self.0.word.grant());
    }
}

impl Task {
    pub(super) fn new() -> Stage<Task> {
        Stage::new(Task { word: WaitWord::new(), processor: Processor::new() })
    }

    fn resume_if(&self, duty: bool) {
        if duty {
            self.processor.resume();
        }
    }

    /// For its thread, before anybody knows it.
    pub(super) fn introduce(&self) {
        self.processor.introduce();
    }

    pub(super) fn cut(&self) {
        self.resume_if(self.word.cut());
    }

    /// Leaves the processor, and says what it came back for.
    fn wait(&self, kind: WaitKind) -> Woken {
        match self.word.publish(kind) {
            Publish::Ready => Woken::Granted,
            Publish::Parked => {
                self.processor.suspend();
                self.word.woken()
            }
        }
    }

    /// No grant is left over for a later wait.
    pub(super) fn end(this: Stage<Task>) {
        assert!(!this.word.is_notified(), "a grant is left over");
        // SAFETY: the threads have ended.
        unsafe { this.end() };
    }
}

/// Waits for `source` as a task does; the answer, if it was not cut short.
pub(super) fn enter<W: Waitable>(task: Stage<Task>, source: &W, token: u64) -> Option<u32> {
    enter_and(task, source, token, true, None)
}

/// The same; it may have a fault, that what was granted is not given back, and may do something when it is in the queue.
pub(super) fn enter_and<W: Waitable>(
    task: Stage<Task>,
    source: &W,
    token: u64,
    gives_back: bool,
    queued: Option<&mut dyn FnMut()>,
) -> Option<u32> {
    let node = pin!(WaitNode::new(token, Location::caller()));
    enter_node(task, source, node.as_ref(), gives_back, queued)
}

/// The same with a node of the caller's, where a grant may leave something.
pub(super) fn enter_node<W: Waitable>(
    task: Stage<Task>,
    source: &W,
    node: Pin<&WaitNode>,
    gives_back: bool,
    queued: Option<&mut dyn FnMut()>,
) -> Option<u32> {
    let who = || Who::Future(Waker::from(Arc::new(Grants(task))));
    // SAFETY: it is taken out, or granted, before this frame goes.
    match unsafe { queue(source, node, who, true, queued) } {
        Entry::Answer(answer) => return Some(answer),
        Entry::Granted => return Some(node.answer()),
        _ => {}
    }
    if task.wait(WaitKind::Grant) == Woken::Cut {
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

struct Locked {
    mutex: RawMutex,
    value: Baton,
}

impl Locked {
    fn new() -> Stage<Locked> {
        Stage::new(Locked { mutex: RawMutex::new(), value: Baton::new() })
    }

    fn lock(&self, task: Stage<Task>, holder: Holder) -> bool {
        task.introduce();
        self.mutex.try_lock(holder) || enter(task, &self.mutex, holder.number()).is_some()
    }

    /// Locks, uses the value, unlocks; whether it had the chance.
    fn visit(&self, task: Stage<Task>, number: u64) -> bool {
        let holder = Holder::from_number(number << 2);
        let locked = self.lock(task, holder);
        if locked {
            self.value.write();
            // SAFETY: locked above.
            unsafe { self.mutex.unlock(holder) };
        }
        locked
    }

    fn end(this: Stage<Locked>, uses: usize) {
        assert_eq!(this.value.read(), uses);
        assert!(this.mutex.holder().is_none(), "it is locked by one that is gone");
        // SAFETY: the threads have ended.
        unsafe { this.end() };
    }
}

fn two_visitors() {
    let (locked, one, other) = (Locked::new(), Task::new(), Task::new());
    let visitor = spawn(move || locked.visit(one, 1));
    assert!(locked.visit(other, 2));
    assert!(visitor.join().unwrap());
    Task::end(one);
    Task::end(other);
    Locked::end(locked, 2);
}

#[test]
fn loom_a_mutex_has_one_holder_and_is_handed_over() {
    explore(ALL, two_visitors);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_mutex_without_order() {
    plant("runtime/sync/raw_mutex.rs", ORDERS);
    explore(3, two_visitors);
}

/// One of three is cut at any moment: it has the mutex, or is refused and leaves it to the others.
#[test]
fn loom_a_cut_of_a_wait_for_a_mutex_loses_neither_it_nor_the_next() {
    explore(3, || {
        let (locked, holder) = (Locked::new(), Holder::from_number(12));
        let (cut, next) = (Task::new(), Task::new());
        assert!(locked.mutex.try_lock(holder));
        let refused = spawn(move || !locked.visit(cut, 1));
        let unlocks = spawn(move || {
            locked.value.write();
            // SAFETY: locked above.
            unsafe { locked.mutex.unlock(holder) };
        });
        // While it is handed over, perhaps.
        cut.cut();
        assert!(locked.visit(next, 2), "it was not cut");
        let refused = refused.join().unwrap();
        unlocks.join().unwrap();
        Task::end(cut);
        Task::end(next);
        Locked::end(locked, 3 - usize::from(refused));
    });
}

/// A future that is dropped while it is being granted gives the mutex back.
#[test]
fn loom_a_future_that_is_dropped_gives_back_what_it_was_granted() {
    explore(ALL, || {
        let (locked, holder) = (Locked::new(), Holder::from_number(12));
        assert!(locked.mutex.try_lock(holder));
        let dropper = spawn(move || {
            let number = Holder::FUTURE.number();
            let mut waits = pin!(Entering::new(&locked.mutex, number, Location::caller()));
            let mut cx = Context::from_waker(Waker::noop());
            match waits.as_mut().poll(&mut cx) {
                Poll::Ready(_) => {
                    locked.value.write();
                    // SAFETY: ready.
                    unsafe { locked.mutex.unlock(Holder::FUTURE) };
                    true
                }
                Poll::Pending => false,
            }
        });
        locked.value.write();
        // SAFETY: locked above.
        unsafe { locked.mutex.unlock(holder) };
        let used = dropper.join().unwrap();
        Locked::end(locked, 1 + usize::from(used));
    });
}

/// An event, and what is done before it is set.
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
    // SAFETY: the threads have ended.
    unsafe { announced.end() };
}

#[test]
fn loom_a_set_of_an_event_reaches_who_waits_or_is_about_to() {
    explore(ALL, set_and_wait);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_an_event_without_order() {
    plant("runtime/sync/event.rs", ORDERS);
    explore(3, set_and_wait);
}

/// A set, a reset and a cut: who waits ends in one way, and a set that it was there for is not taken from it.
#[test]
fn loom_a_set_that_is_reset_and_a_cut_end_a_wait_once() {
    explore(ALL, || {
        let event = Stage::new(RawEvent::new());
        let task = Task::new();
        let waits = spawn(move || {
            task.introduce();
            enter(task, &*event, 0)
        });
        let cuts = spawn(move || task.cut());
        event.open(SET);
        event.reset();
        cuts.join().unwrap();
        // It may have come too late for the first one.
        event.open(SET);
        if let Some(answer) = waits.join().unwrap() {
            assert_eq!(answer, SET);
        }
        assert!(event.state().waiters.is_empty(), "somebody is left in the queue");
        Task::end(task);
        // SAFETY: the threads have ended.
        unsafe { event.end() };
    });
}

/// A waker that is called between the entry of a node and its wait begins a wait of its own: each of the two collects its
/// own grant.
#[test]
fn loom_a_wait_inside_of_the_entry_of_another_has_its_own_grant() {
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
        // SAFETY: the threads have ended.
        unsafe {
            value.end();
            inner.end();
            outer.end();
        }
    });
}
