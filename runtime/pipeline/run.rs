//! How a pipeline runs.
//!
//! # Steps
//!
//! Every step is a task of one scope, which is spawned to do one thing: to take the next item from the source, or to take an item
//! that has waited for a stage through it. From there it carries its item through the stages behind, until the item has to wait,
//! or has come to the end. Steps do not call each other, so the stack is as deep as the pipeline has stages.
//!
//! # Rights
//!
//! Two things are used by one task at a time, and each of them is its own right to be used: who has taken it out of its place
//! has it alone, without a lock, also while it waits.
//!
//! * **The iterator of the source**, whose place is [`Run::source`]. There is one source step at most.
//! * **The closure of a serial or ordered stage**, whose place is the stage's door. It is taken by an item that finds it there (in an
//!   ordered stage: whose turn it is); it is given along, by way of a spawned step, to the item that waits next; it is put back if none
//!   does.
//!
//! # No item is forgotten at a stage
//!
//! Arrival and leaving are critical sections of the door's lock. *Serial:* an item is left in the queue only while the closure is away,
//! so a task that has the closure has yet to leave, and looks at the queue when it does. *Ordered:* an item is left only if it is not its
//! turn. Items have consecutive numbers and none is filtered out, so the item whose turn it is comes to the stage sooner or later: it is in
//! the stage, or before it; and when it leaves, the turn is the next one's: which is taken from the queue if it is there, and takes
//! the closure by itself if it comes later. The items between the turn and a number that waits are all in flight, which limits the queue.
//!
//! # No source is forgotten
//!
//! [`Run::in_flight`] counts the items. A source step that has taken an item puts the iterator back and *then* adds one: if that makes
//! the count the limit it leaves the source at rest, else it spawns the next source step. A task whose item has come to the end subtracts
//! one, and if the count *was* the limit, the source is at rest, and it spawns the source step. Only source steps add, of which there is none while the
//! source is at rest: so the count meets the limit once for each rest, and one task alone sees that. The count is added to and
//! subtracted from by acquire-release operations, and the iterator goes through a lock in addition: the new source step finds it in its place.
//!
//! A source that has no more items is not asked again: no source step is spawned, and the count, below the limit at that moment,
//! does not come to it any more.
//!
//! # The end
//!
//! Each of the tasks there are either ends an item, or leaves it where somebody is to fetch it, or stops the run; so when the scope has no task left and nothing
//! has stopped the run, all items have come to the end. To stop is to record why, which only the first one does ([`Run::stop`]), to raise
//! [`Run::is_stopped`], and to cancel the scope: steps that have not started never do, and drop their items; the waits of others are cut out; and each
//! looks at the flag before it calls a closure. If the calling task is cancelled, so is the scope, without a record. Whoever finds the run stopped drops the item
//! that it has, and spawns nothing. What is left in the stages is dropped after the end of the scope.

use crate::retire::cause::{Cause, Reason};
use crate::retire::outcome::{Payload, Unwound, drop_payload, quietly};
use crate::runtime::errors::{Cancelled, JoinError};
use crate::runtime::here;
use crate::runtime::pipeline::board::{Board, Place};
use crate::runtime::pipeline::stages::Step;
use crate::runtime::scope::{Scope, scope};
use crate::runtime::several::TaskError;
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::worker::Worker;
use crate::shim::Mutex;
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::shim::spin_until;
use crate::shim::time::Duration;
use crossbeam_utils::CachePadded;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::PoisonError;

/// So many items are in flight for each worker, by default.
const FOR_EACH_WORKER: usize = 4;
/// So many items are in flight at least, by default.
const AT_LEAST: usize = 16;
/// So long a task waits for the next place on the board before it ends.
const LINGER: Duration = Duration::from_micros(5);

/// What a run starts from.
#[derive(Clone, Copy)]
pub struct Start {
    limit: usize,
    workers: usize,
    /// Stages for one item at a time that have been gone over, from the last one.
    stages: u32,
    is_cancelled: bool,
    place: &'static Location<'static>,
}

impl Start {
    /// The calling task's, with so many items in flight.
    ///
    /// # Panics
    /// Outside a task.
    #[track_caller]
    pub(super) fn here(what: &str, in_flight: Option<usize>) -> Start {
        let (worker, _) = here(what);
        // SAFETY: that of the running task, or of a scope on its stack, which does not end before the call.
        let is_cancelled = is_cancelled(unsafe { &*worker.node.get() });
        let workers = worker.shared().workers();
        let limit = in_flight.unwrap_or((FOR_EACH_WORKER * workers).max(AT_LEAST));
        Start { limit, workers, stages: 0, is_cancelled, place: Location::caller() }
    }

    /// Whether several stages have one place.
    fn shares_places(&self) -> bool {
        self.stages > Place::STAGES
    }

    /// The place of a stage for one item at a time. They ask from the last stage to the first.
    pub(super) fn next_place(&mut self) -> Place {
        self.stages += 1;
        Place::of_stage(self.stages - 1)
    }
}

/// What steps ask of their pipeline, whatever its source.
pub trait Flow<'scope, E>: Copy + Send + 'scope {
    /// Whether no step may begin any more.
    fn is_stopped(self) -> bool;

    /// Stops the pipeline for an error.
    fn failed(self, error: E);

    /// Stops the pipeline for a panic.
    fn panicked(self, payload: Payload);

    /// Says that there is work in a place, which the caller has made sure of.
    fn announce(self, place: Place);

    /// Whether something else is to have its turn on this worker. Then an item is left where that is possible, and its task ends.
    fn gives_way(self) -> bool;

    /// An item has come to the end.
    fn has_ended(self);
}

/// What all steps of a pipeline share, in the frame of the call.
struct Run<I, N, E> {
    first: N,
    /// The iterator of the source, if no step has it.
    source: Mutex<Option<Box<Supply<I>>>>,
    board: CachePadded<Board>,
    start: Start,
    /// The items that have been taken from the source, and have not come to the end.
    in_flight: CachePadded<AtomicUsize>,
    is_stopped: AtomicBool,
    /// Set once.
    stop: Mutex<Option<Stop<E>>>,
}

/// The source.
struct Supply<I> {
    items: I,
    /// How many have been taken.
    taken: usize,
    /// The iterator has said that there are no more.
    is_exhausted: bool,
}

/// Why a pipeline was stopped.
enum Stop<E> {
    Failed(E),
    Panicked(Payload),
}

/// A run, as its steps see it.
struct Course<'scope, 'env, I, N, E> {
    scope: &'scope Scope<'scope, 'env>,
    run: &'scope Run<I, N, E>,
}

impl<I, N, E> Clone for Course<'_, '_, I, N, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, N, E> Copy for Course<'_, '_, I, N, E> {}

impl<'scope, 'env, I, N, E> Course<'scope, 'env, I, N, E>
where
    I: Iterator<Item: Send> + Send,
    N: Step<I::Item, E>,
    E: Send,
{
    /// A task with the invitation: does what there is to do, one place of the board after the other.
    fn carry_on(self) {
        let mut place = self.accept();
        while let Some(at) = place {
            match at {
                Place::SOURCE => self.take(),
                _ if self.run.first.serve(self, at) && self.run.start.shares_places() => {
                    self.announce(at);
                }
                _ => {}
            }
            // If there is anything on the board, somebody is invited.
            if self.is_stopped() || self.gives_way() {
                return;
            }
            place = self.run.board.next();
            if place.is_none() && self.run.board.invite_oneself() {
                place = self.accept();
            }
        }
    }

    /// The next place for whoever has the invitation, which is then gone or somebody else's.
    fn accept(self) -> Option<Place> {
        let board = &self.run.board;
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some((place, goes_on)) = board.accept() {
                if goes_on {
                    self.invite();
                }
                return Some(place);
            }
            self.linger();
            if board.leave() {
                return None;
            }
        }
    }

    /// Waits for a moment for a place on the board. To end, and to be woken or to steal the next invitation, takes longer than most steps.
    fn linger(self) {
        let run = self.run;
        let Some(worker) = Worker::current().filter(|_| run.start.workers > 1) else { return };
        spin_until(LINGER, || {
            run.board.has_places()
                || run.in_flight.load(Ordering::Relaxed) == 0
                || run.is_stopped.load(Ordering::Relaxed)
                || worker.has_ready()
                || worker.has_fresh()
        });
    }

    /// Spawns a task with the invitation.
    fn invite(self) {
        self.scope.spawn(move || {
            if let Some(payload) = quietly(|| self.carry_on()) {
                self.panicked(payload);
            }
        });
        if self.run.start.workers > 1
            && let Some(worker) = Worker::current()
        {
            offer(worker);
        }
    }

    /// Takes an item from the source, and carries it on.
    fn take(self) {
        let run = self.run;
        let place = || run.source.lock().unwrap_or_else(PoisonError::into_inner);
        let mut supply = place().take().expect("the source is in one place of the board");
        // Caught here, as the iterator is not to be dropped by an unwinding.
        let next = catch_unwind(AssertUnwindSafe(|| supply.items.next()));
        let number = supply.taken;
        supply.taken += 1;
        supply.is_exhausted = matches!(next, Ok(None));
        *place() = Some(supply);
        match next {
            Ok(Some(item)) => {
                // Release: of the source, for whoever ends the rest that might begin here.
                if run.in_flight.fetch_add(1, Ordering::AcqRel) + 1 < run.start.limit {
                    self.announce(Place::SOURCE);
                }
                run.first.carry(self, number, item);
            }
            Ok(None) => {}
            Err(payload) => self.panicked(payload),
        }
    }

    fn stop(self, why: Stop<E>) {
        let mut stop = self.run.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if stop.is_none() {
            *stop = Some(why);
            drop(stop);
            self.end_steps();
            return;
        }
        drop(stop);
        match why {
            Stop::Failed(error) => drop(error),
            Stop::Panicked(payload) => drop_payload(payload),
        }
    }

    fn end_steps(self) {
        // Relaxed: says that no more need be done, and hands nothing over.
        self.run.is_stopped.store(true, Ordering::Relaxed);
        self.scope.cancel_for(Cause::new(Reason::SiblingFailed, Some(self.run.start.place)));
    }
}

impl<'scope, 'env, I, N, E> Flow<'scope, E> for Course<'scope, 'env, I, N, E>
where
    I: Iterator<Item: Send> + Send,
    N: Step<I::Item, E>,
    E: Send,
{
    #[inline]
    fn is_stopped(self) -> bool {
        self.run.is_stopped.load(Ordering::Relaxed) || is_cancelled(self.scope.node())
    }

    #[cold]
    fn failed(self, error: E) {
        // What fails after a cancellation most likely does so for that reason.
        if self.is_stopped() {
            return drop(error);
        }
        self.stop(Stop::Failed(error));
    }

    #[cold]
    fn panicked(self, payload: Payload) {
        // A step that unwinds because the calling task is cancelled does what it is told.
        if payload.is::<Unwound>() && self.is_stopped() {
            return drop_payload(payload);
        }
        self.stop(Stop::Panicked(payload));
    }

    #[inline]
    fn announce(self, place: Place) {
        if self.run.board.announce(place) {
            self.invite();
        }
    }

    #[inline]
    fn gives_way(self) -> bool {
        Worker::current().is_some_and(|worker| worker.check_in())
    }

    #[inline]
    fn has_ended(self) {
        // Acquire: of the source, if it is at rest.
        if self.run.in_flight.fetch_sub(1, Ordering::AcqRel) == self.run.start.limit {
            self.announce(Place::SOURCE);
        }
    }
}

/// Puts what lies in this worker's front where others may take it without asking, and wakes one if there is somebody to wake. What
/// a front has alone is otherwise kept for its spawner, who does not come to it soon here.
fn offer(worker: &Worker) {
    let shared = worker.shared();
    worker.remote.front.hand_over(1, 1, |record| worker.publish(record));
    shared.idle.notify(shared, true);
}

/// Runs a pipeline: what comes out of `items` goes to `first`.
pub(super) fn run<I, N, E>(items: I, first: N, start: Start) -> Result<(), TaskError<E>>
where
    I: Iterator<Item: Send> + Send,
    N: Step<I::Item, E>,
    E: Send,
{
    if start.is_cancelled {
        drop((items, first));
        return Err(cancelled());
    }
    let supply = Box::new(Supply { items, taken: 0, is_exhausted: false });
    let mut run = Run {
        first,
        source: Mutex::new(Some(supply)),
        board: CachePadded::new(Board::new()),
        start,
        in_flight: CachePadded::new(AtomicUsize::new(0)),
        is_stopped: AtomicBool::new(false),
        stop: Mutex::new(None),
    };
    let steps = catch_unwind(AssertUnwindSafe(|| {
        scope(|scope| {
            let course = Course { scope, run: &run };
            course.announce(Place::SOURCE);
        });
    }));
    // What the caller has given a destructor goes before there is a result, which would be leaked by a panic.
    let left = run.first.clear();
    let Run { first, source, in_flight, stop, .. } = run;
    let supply = source.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_exhausted = supply.as_ref().is_some_and(|supply| supply.is_exhausted);
    let is_through = is_exhausted && in_flight.load(Ordering::Relaxed) == 0;
    let dropped = [quietly(|| drop(first)), quietly(|| drop(supply))];
    let panics = [steps.err(), left].into_iter().chain(dropped).flatten();
    match stop.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Stop::Failed(error)) => {
            panics.for_each(drop_payload);
            Err(TaskError::Failed(error))
        }
        Some(Stop::Panicked(payload)) => {
            panics.for_each(drop_payload);
            resume_unwind(payload)
        }
        None => {
            if let Some(payload) = first_of(panics) {
                resume_unwind(payload);
            }
            if is_through { Ok(()) } else { Err(cancelled()) }
        }
    }
}

fn cancelled<E>() -> TaskError<E> {
    TaskError::Join(JoinError::Cancelled(Cancelled::here()))
}

/// The first of several panics, of which the others are dropped.
pub(super) fn first_of(mut panics: impl Iterator<Item = Payload>) -> Option<Payload> {
    let first = panics.next();
    panics.for_each(drop_payload);
    first
}
