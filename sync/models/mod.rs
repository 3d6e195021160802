//! Models of waits for the primitives, run by ci/loom.sh. A task of a model is a thread with a wait
//! word and a processor, which a waker wakes. Its waits repeat the steps of `enter_as_task` in
//! scheduler/wait/waiters.

mod rwlock;
mod semaphore;
pub(super) mod slot;

use super::called::{CALL, EnterCalled};
use super::event::{Event, SET};
use super::holder::Holder;
use super::raw_mutex::{BEHIND, RawMutex};
use crate::scheduler::wait::waiters::{Enqueue, WaitFuture, WaitNode, Waitable, Who, leave, queue};
use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, models};
use crate::shim::panicking;
use crate::shim::thread::spawn;
use crate::task::models::Processor;
use crate::task::words::wait::{Publish, WaitKind, WaitWord, Woken};
use std::ops::Deref;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

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
}

impl Drop for Task {
    /// The end of a model leaves no grant over for a later wait.
    fn drop(&mut self) {
        assert!(panicking() || !self.word.is_notified(), "a grant is left over");
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
    // The node is taken out of the list, or granted, before this frame ends.
    match queue(source, node, who, true, queued) {
        Enqueue::Answer(answer) => return Some(answer),
        Enqueue::Granted => return Some(node.answer()),
        _ => {}
    }
    if task.wait(WaitKind::Grant) == Woken::Interrupted {
        if leave(source, node) {
            return None;
        }
        assert_eq!(task.wait(WaitKind::Structured), Woken::Granted);
        if source.stands(&node) {
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

/// The future of a wait for `source` that is in the queue.
pub(super) fn queued<W: Waitable>(source: W, token: u64) -> Pin<Box<WaitFuture<W>>> {
    let mut waits = Box::pin(WaitFuture::new(source, token, Location::caller()));
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    waits
}

/// The primitive of a model, and a value for its threads.
pub(crate) struct Subject<P> {
    primitive: P,
    pub(crate) value: Baton,
}

impl<P> Deref for Subject<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.primitive
    }
}

/// The primitive of a model as its threads share it.
pub(crate) type Of<P> = Stage<Subject<P>>;

/// A primitive of which something must hold at the end of a model.
pub(crate) trait Modelled: Sized + 'static {
    /// What the model knows of the end.
    type End;

    fn assert_end(subject: &Subject<Self>, end: Self::End);
}

/// Makes a primitive: a function, or one with its argument.
pub(crate) trait Make<P> {
    fn make(&self) -> P;
}

impl<P, F: Fn() -> P> Make<P> for F {
    fn make(&self) -> P {
        self()
    }
}

impl<P, A: Copy, F: Fn(A) -> P> Make<P> for (F, A) {
    fn make(&self) -> P {
        self.0(self.1)
    }
}

/// Explores a model of a primitive and some tasks. The model joins its threads.
pub(crate) fn explore_with<P: Modelled, const TASKS: usize>(
    preemptions: usize,
    make: impl Make<P> + Send + Sync + 'static,
    model: impl Fn(Of<P>, [Stage<Task>; TASKS]) -> P::End + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let subject = Stage::new(Subject { primitive: make.make(), value: Baton::new() });
        let tasks = [(); TASKS].map(|()| Task::new());
        let end = model(subject, tasks);
        P::assert_end(&subject, end);
    });
}

impl Modelled for RawMutex {
    /// How often the value was used.
    type End = usize;

    fn assert_end(mutex: &Subject<RawMutex>, uses: usize) {
        assert_eq!(mutex.value.read(), uses);
        assert!(mutex.holder().is_none(), "the mutex is still locked at the end");
    }
}

impl Subject<RawMutex> {
    /// Does the same as `Mutex::lock`. `mark` is BEHIND for a task that hogs the mutex, and
    /// otherwise 0.
    fn lock(&self, task: Stage<Task>, holder: Holder, mark: u64) -> bool {
        task.introduce();
        if mark == 0 && self.try_lock(holder) {
            return true;
        }
        let comes = || self.answer_call(holder);
        enter_or_come(task, &self.primitive, holder.number() | mark, CALL, comes).is_some()
    }

    /// Locks the mutex, uses the value, and unlocks. Returns `true` if the task got the mutex.
    fn visit(&self, task: Stage<Task>, number: u64) -> bool {
        self.visit_as(task, number, 0)
    }

    fn visit_as(&self, task: Stage<Task>, number: u64, mark: u64) -> bool {
        let holder = Holder::from_number(number << 3);
        let locked = self.lock(task, holder, mark);
        if locked {
            // SAFETY: `holder` has locked the mutex.
            unsafe { self.use_and_unlock(holder) };
        }
        locked
    }

    /// # Safety
    /// `holder` has locked the mutex.
    unsafe fn use_and_unlock(&self, holder: Holder) {
        self.value.write();
        // SAFETY: by contract, `holder` has locked the mutex.
        unsafe { self.unlock(holder) };
    }
}

/// Tasks lock and unlock the mutex once each.
fn visitors<const TASKS: usize>(preemptions: usize, fair: bool) {
    explore_with(preemptions, (RawMutex::new, fair), |mutex, tasks: [Stage<Task>; TASKS]| {
        let visits = |number| move || mutex.visit(tasks[number], number as u64 + 1);
        let others: Vec<_> = (1..TASKS).map(|number| spawn(visits(number))).collect();
        assert!(visits(0)());
        others.into_iter().for_each(|other| assert!(other.join().unwrap()));
        TASKS
    });
}

models! {
    fn loom_a_mutex_has_one_holder_and_loses_no_waiter() = visitors::<2>(ALL, false);

    fn loom_a_fair_mutex_has_one_holder_and_is_handed_over() = visitors::<2>(ALL, true);

    /// A called waiter returns to the queue, because the third task was faster.
    fn loom_barging_into_a_mutex_loses_no_waiter() = visitors::<3>(3, false);

    fn loom_negative_a_mutex_without_order() = visitors::<2>(3, false),
        without ORDERS in "sync/raw_mutex.rs", fails: "Causality violation";

    fn loom_negative_a_fair_mutex_without_order() = visitors::<2>(3, true),
        without ORDERS in "sync/raw_mutex.rs", fails: "Causality violation";
}

/// A task that hogs the mutex queues up behind a called waiter, even while the mutex is free.
#[test]
fn loom_a_hog_behind_a_called_waiter_gets_the_mutex() {
    explore_with(3, (RawMutex::new, false), |mutex, [called, hog]| {
        let holder = Holder::from_number(24);
        assert!(mutex.try_lock(holder));
        let waiter = spawn(move || mutex.visit(called, 1));
        // SAFETY: `holder` has locked the mutex.
        let unlocks = spawn(move || unsafe { mutex.use_and_unlock(holder) });
        assert!(mutex.visit_as(hog, 2, BEHIND));
        assert!(waiter.join().unwrap());
        unlocks.join().unwrap();
        3
    });
}

/// One of three tasks is cut at any moment. It gets the mutex, or is refused and leaves it to the
/// others.
fn a_cut_of_a_wait(fair: bool) {
    explore_with(3, (RawMutex::new, fair), |mutex, [cut, next]| {
        let holder = Holder::from_number(16);
        assert!(mutex.try_lock(holder));
        let refused = spawn(move || !mutex.visit(cut, 1));
        // SAFETY: `holder` has locked the mutex.
        let unlocks = spawn(move || unsafe { mutex.use_and_unlock(holder) });
        // Perhaps during the hand-over.
        cut.interrupt();
        assert!(mutex.visit(next, 2), "a waiter that was not cut was refused");
        let refused = refused.join().unwrap();
        unlocks.join().unwrap();
        3 - usize::from(refused)
    });
}

models! {
    fn loom_a_cut_wait_loses_neither_the_mutex_nor_the_next_waiter() = a_cut_of_a_wait(false);

    fn loom_a_cut_wait_loses_neither_a_fair_mutex_nor_the_next_waiter() = a_cut_of_a_wait(true);
}

/// A future that is dropped during its grant gives the mutex back, or passes the call on.
fn a_future_is_dropped(fair: bool) {
    explore_with(ALL, (RawMutex::new, fair), |mutex, []| {
        let holder = Holder::from_number(16);
        assert!(mutex.try_lock(holder));
        let dropper = spawn(move || {
            let future = Holder::FUTURE;
            let waits = pin!(EnterCalled::new(&**mutex, future.number(), Location::caller()));
            let locked = waits.poll(&mut Context::from_waker(Waker::noop())).is_ready();
            if locked {
                // SAFETY: the future is ready, and so has locked the mutex.
                unsafe { mutex.use_and_unlock(future) };
            }
            locked
        });
        // SAFETY: `holder` has locked the mutex.
        unsafe { mutex.use_and_unlock(holder) };
        1 + usize::from(dropper.join().unwrap())
    });
}

models! {
    fn loom_a_dropped_future_passes_the_call_on() = a_future_is_dropped(false);

    fn loom_a_dropped_future_gives_back_its_grant() = a_future_is_dropped(true);
}

impl Modelled for Event {
    type End = ();

    fn assert_end(event: &Subject<Event>, (): ()) {
        assert!(event.state().waiters.is_empty(), "a waiter is left in the queue");
    }
}

/// A value is written before the event is set.
fn set_and_wait(preemptions: usize) {
    explore_with(preemptions, Event::new, |event, [task]| {
        let waits = spawn(move || {
            task.introduce();
            let answer = event.answer().or_else(|| enter(task, &**event, 0));
            assert_eq!(answer, Some(SET));
            assert_eq!(event.value.read(), 1);
        });
        event.value.write();
        event.end_waits(SET);
        waits.join().unwrap();
    });
}

models! {
    fn loom_a_set_releases_a_caller_that_waits_or_is_about_to() = set_and_wait(ALL);

    fn loom_negative_an_event_without_order() = set_and_wait(3),
        without ORDERS in "sync/event.rs", fails: "Causality violation";
}

/// A set, a reset and a cut race. The wait ends once, and a set that finds the waiter stays valid.
#[test]
fn loom_a_wait_ends_once_in_a_race_of_set_reset_and_cut() {
    explore_with(ALL, Event::new, |event, [task]| {
        let waits = spawn(move || {
            task.introduce();
            enter(task, &**event, 0)
        });
        let cuts = spawn(move || task.interrupt());
        event.end_waits(SET);
        event.reset();
        cuts.join().unwrap();
        // The waiter may have come too late for the first set.
        event.end_waits(SET);
        if let Some(answer) = waits.join().unwrap() {
            assert_eq!(answer, SET);
        }
    });
}

/// A waker that is called between the entry of a node and its wait begins a wait of its own. Each
/// of the two waits collects its own grant.
#[test]
fn loom_a_wait_inside_the_entry_of_another_gets_its_own_grant() {
    explore_with(ALL, Event::new, |inner, [task]| {
        let outer = Stage::new(Event::new());
        let waits = spawn(move || {
            task.introduce();
            let mut waker = || {
                assert_eq!(enter(task, &**inner, 0), Some(SET));
                assert_eq!(inner.value.read(), 1);
            };
            assert_eq!(enter_and(task, &*outer, 0, true, Some(&mut waker)), Some(SET));
        });
        outer.end_waits(SET);
        inner.value.write();
        inner.end_waits(SET);
        waits.join().unwrap();
    });
}
