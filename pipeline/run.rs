//! The protocol by which a pipeline runs.
//!
//! # Carriers
//!
//! A *step* is a call of a stage's closure, or of the source's iterator. A *carrier* is a task of
//! the scope that does steps. It takes an item from the source, or an item that waits for a stage,
//! and carries it from there through as many stages as it can. If the item has to wait for a stage,
//! the carrier leaves it there and looks for another one.
//!
//! All carriers are alike, and hold nothing of the pipeline between two items. So a carrier may end
//! after each item, and does so when its worker has something else to do. Carriers do not call each
//! other, so a stack is as deep as the pipeline has stages. In a long pipeline the items change
//! carriers at some of the stages, which bounds that depth.
//!
//! A carrier in which a closure waits stays on its worker, with one item. That does not hold up the
//! stages before and behind: fresh carriers come for them, on any worker.
//!
//! # Rights
//!
//! Two kinds of objects are used by one carrier at a time. Possession of the object is the right to
//! use it: the carrier that has taken it out is the only user, and holds no lock while user code
//! runs, which may wait.
//!
//! * **The iterator of the source.** It is kept in [`Run::source`].
//! * **The closure of a serial or ordered stage.** It is kept at the stage's *door* (stages.rs).
//!
//! # The board
//!
//! The [`Board`] is one word: a bit for each place with work that no carrier has taken, and a bit
//! for the *invitation*. There is work at the source if it has more items and there is room for
//! one, and at a stage if no item is in it and its next item waits.
//!
//! One task holds the invitation and has to look at the board. The holder is a fresh carrier that
//! has been spawned and has not begun, or one that lingers (see below). **If there is a place on
//! the board, the invitation exists**:
//!
//! * [`Board::announce`] sets both bits at once. If the invitation did not exist, the caller spawns
//!   the carrier that has it.
//! * The holder takes a place off by [`Board::accept`]. If other places are left, the invitation
//!   goes on to a carrier that the holder spawns. If none is left, the same operation removes the
//!   invitation.
//! * A carrier without the invitation takes places off by [`Board::next`]. It touches the
//!   invitation only by [`Board::invite_oneself`], which makes one if there is neither place nor
//!   invitation.
//! * The holder gives up by [`Board::leave`], which fails as long as there is a place.
//!
//! So a carrier without the invitation may end at any time. One spawned carrier now and then is
//! enough to bring in all workers, one after the other, as each of them brings in the next. As long
//! as all workers have enough to do, one carrier lies in a queue, and nothing is spawned.
//!
//! A carrier that finds nothing *lingers* for some microseconds with the invitation, on a runtime
//! with several workers. Most steps are shorter than it takes to end, to search, and to steal the
//! next carrier.
//!
//! # No item is forgotten at a stage
//!
//! Arrival and leaving are critical sections of the door's lock. If the closure is at the door and
//! the arriving item is next, the item takes the closure and goes in. Otherwise it is put into the
//! queue. A carrier that puts an item into the queue, or puts the closure back, checks under the
//! same lock whether the closure is there and the next item waits. If both hold, it announces the
//! stage.
//!
//! *Serial:* the next item is the first in the queue. So each queued item has been announced, or
//! another item is in the stage and its carrier checks when it leaves. *Ordered:* the next item has
//! the number of the turn. Items have consecutive numbers and none is filtered out, so the item of
//! the turn is in the stage, in the queue, or on its way. If it is in the queue, it has been
//! announced, either on its arrival or when the item before it left. All items between the turn and
//! a waiting number are in flight, which bounds the queue.
//!
//! The carrier that takes a place off the board may find that an item which has just arrived has
//! gone in. Then there is nothing to do, and the carrier of that item checks when it leaves. From
//! the 63rd stage on, stages share places. A carrier that has worked at one of them announces the
//! place again, so that the others are checked, too.
//!
//! # No source is forgotten
//!
//! [`Run::in_flight`] counts the items. A carrier that has taken an item from the source puts the
//! iterator back and *then* adds one. If the new count is below the limit, the carrier announces
//! the source; if it is the limit, the source *rests*. A carrier whose item has reached the end
//! subtracts one, and announces the source if the count *was* the limit.
//!
//! Only a carrier that has taken an item adds, and none can while the source rests. So the count
//! meets the limit once for each rest, and exactly one carrier sees it leave the limit. The
//! operations on the count are acquire and release, and the iterator goes through a lock in
//! addition, so the next carrier finds the iterator there.
//!
//! A source without further items is not announced again: the count was below the limit then, and
//! never reaches it again.
//!
//! # The end
//!
//! A carrier ends when the board is empty, when the invitation exists, or when the run is stopped.
//! So when the scope has no task left and the run is not stopped, the board is empty. Every
//! remaining item would be in a stage with a carrier, or announced; so all items have reached the
//! end.
//!
//! Stopping the run means three things: to record the reason, which only the first stop does
//! ([`Run::stop`]), to raise [`Run::is_stopped`], and to cancel the scope. Carriers that have not
//! begun never begin, waits of the others return an error, and every carrier checks the flag before
//! it calls a closure. If the calling task is cancelled, the scope is cancelled too, and no reason
//! is recorded. A carrier that finds the run stopped drops its item and ends. The items that remain
//! in the stages are dropped after the end of the scope.

use crate::pipeline::board::{Board, Place};
use crate::pipeline::stages::Step;
use crate::runtime::{
    Cancelled, JoinError, Scope, TaskError, here, is_cancelled as is_cancelled_here, scope,
};
use crate::scheduler::cancel::is_cancelled;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::shim::time::Duration;
use crate::shim::{Mutex, spin_until};
use crate::task::cause::{Cause, Reason};
use crate::task::outcome::{Payload, Unwound, drop_payload, first_of, quietly};
use crossbeam_utils::CachePadded;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

/// The default number of items in flight for each worker.
const FOR_EACH_WORKER: usize = 4;
/// The default lower bound of the number of items in flight.
const AT_LEAST: usize = 16;
/// The number of serial and ordered stages for which calls are nested at most.
const FLIGHT: u32 = 16;
/// The time for which a carrier waits for the next place on the board before it ends.
const LINGER: Duration = Duration::from_micros(5);

/// The parameters of a run.
#[derive(Clone, Copy)]
pub struct Start {
    limit: usize,
    workers: usize,
    /// The number of stages for one item at a time that have been counted so far, from the last
    /// one.
    stages: u32,
    is_cancelled: bool,
    location: &'static Location<'static>,
}

impl Start {
    /// Returns the parameters for the calling task, with `in_flight` items or the default.
    ///
    /// # Panics
    /// Outside a task.
    #[track_caller]
    pub(super) fn here(what: &str, in_flight: Option<usize>) -> Start {
        let (worker, _) = here(what);
        let is_cancelled = is_cancelled(worker.running_node());
        let workers = worker.shared().workers();
        let limit = in_flight.unwrap_or((FOR_EACH_WORKER * workers).max(AT_LEAST));
        Start { limit, workers, stages: 0, is_cancelled, location: Location::caller() }
    }

    /// Returns whether several stages share a place.
    fn shares_places(&self) -> bool {
        self.stages > Place::STAGES
    }

    /// Returns the place of a stage for one item at a time, and whether the stack must end there.
    /// To be called for each such stage, from the last one to the first.
    pub(super) fn next_place(&mut self) -> (Place, bool) {
        let behind = self.stages;
        self.stages += 1;
        (Place::of_stage(behind), self.stages.is_multiple_of(FLIGHT))
    }
}

/// The interface of a run to its stages, independent of the source.
pub trait Flow<'scope, E>: Copy + Send + 'scope {
    /// Returns whether no step may begin any more.
    fn is_stopped(self) -> bool;

    /// Stops the pipeline for an error.
    fn failed(self, error: E);

    /// Stops the pipeline for a panic.
    fn panicked(self, payload: Payload);

    /// Records that there is work in a place, and spawns a carrier if necessary. The caller has
    /// checked that there is work.
    fn announce(self, place: Place);

    /// Returns whether something else must run on this worker. The carrier then leaves its item at
    /// the next opportunity, and ends.
    fn gives_way(self) -> bool;

    /// Records that an item has reached the end: one fewer is in flight.
    fn has_ended(self);
}

/// The state shared by all carriers of a pipeline, in the frame of the call.
struct Run<I, N, E> {
    first: N,
    /// The source; `None` while a carrier has it.
    source: Mutex<Option<Box<Supply<I>>>>,
    board: CachePadded<Board>,
    start: Start,
    /// The number of items that have been taken from the source and have not reached the end.
    in_flight: CachePadded<AtomicUsize>,
    is_stopped: AtomicBool,
    /// Set once.
    stop: Mutex<Option<Stop<E>>>,
}

/// The source.
struct Supply<I> {
    items: I,
    /// The number of items that have been taken.
    taken: usize,
    /// The iterator has returned `None`.
    is_exhausted: bool,
}

/// The reason for which a pipeline was stopped.
enum Stop<E> {
    Failed(E),
    Panicked(Payload),
}

/// A run from the perspective of its carriers.
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
    /// Runs a carrier, which begins with the invitation: does the work in one place of the board
    /// after the other.
    fn carry_on(self) {
        let mut place = self.accept();
        while let Some(at) = place {
            match at {
                Place::SOURCE => self.take(),
                _ if self.run.first.work_at(self, at) && self.run.start.shares_places() => {
                    self.announce(at);
                }
                _ => {}
            }
            // Ending here is safe: if there is a place on the board, there is an invitation. (A
            // step can have its own task cancelled, and that must not cut the waits of other
            // items.)
            if self.is_stopped() || is_cancelled_here() || self.gives_way() {
                return;
            }
            place = self.run.board.next();
            if place.is_none() && self.run.board.invite_oneself() {
                place = self.accept();
            }
        }
    }

    /// Returns the next place for the holder of the invitation. The caller holds the invitation no
    /// more: it is gone, or another carrier has it.
    fn accept(self) -> Option<Place> {
        let board = &self.run.board;
        while !self.is_stopped() {
            if let Some((place, goes_on)) = board.accept() {
                if goes_on {
                    self.invite();
                }
                return Some(place);
            }
            self.linger();
            if board.leave() {
                break;
            }
        }
        None
    }

    /// Waits a moment for a place to appear on the board.
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

    /// Spawns a carrier with the invitation.
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
        let source = || run.source.lock();
        let mut supply = source().take().expect("the source is in one place of the board");
        // Caught here, as an unwinding must not drop the iterator.
        let next = catch_unwind(AssertUnwindSafe(|| supply.items.next()));
        let number = supply.taken;
        supply.taken += 1;
        supply.is_exhausted = matches!(next, Ok(None));
        *source() = Some(supply);
        match next {
            Ok(Some(item)) => {
                // Release: publishes the source to the carrier that ends the rest which might begin
                // here.
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
        let mut stop = self.run.stop.lock();
        if stop.is_none() {
            *stop = Some(why);
            drop(stop);
            // Relaxed: the flag only says that no more need be done, and publishes nothing else.
            self.run.is_stopped.store(true, Ordering::Relaxed);
            self.scope.cancel_for(Cause::new(Reason::SiblingFailed, Some(self.run.start.location)));
            return;
        }
        drop(stop);
        match why {
            Stop::Failed(error) => drop(error),
            Stop::Panicked(payload) => drop_payload(payload),
        }
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
        // An error after a cancellation is most likely a consequence of it.
        if self.is_stopped() {
            return drop(error);
        }
        self.stop(Stop::Failed(error));
    }

    #[cold]
    fn panicked(self, payload: Payload) {
        // A step that unwinds because the calling task is cancelled only follows the cancellation.
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
        // Acquire: makes the source visible if it is at rest.
        if self.run.in_flight.fetch_sub(1, Ordering::AcqRel) == self.run.start.limit {
            self.announce(Place::SOURCE);
        }
    }
}

/// Moves a fresh task of this worker to where other workers take it without asking, and wakes one
/// of them if all idle workers sleep. The worker's queue of fresh tasks would keep a single task
/// for the worker itself, which is about to carry an item on.
fn offer(worker: &Worker) {
    let shared = worker.shared();
    worker.next_oldest().into_iter().for_each(|record| worker.push_public(record));
    shared.idle.notify(shared, true);
}

/// Runs a pipeline: passes the items of `items` to `first`.
pub(super) fn run<I, N, E>(items: I, first: N, start: &Start) -> Result<(), TaskError<E>>
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
        start: *start,
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
    // Values with a user's destructor are dropped before there is a result, which a panic would
    // leak.
    let left = run.first.clear();
    let Run { first, source, in_flight, stop, .. } = run;
    let supply = source.into_inner();
    let is_exhausted = supply.as_ref().is_some_and(|supply| supply.is_exhausted);
    let is_through = is_exhausted && in_flight.load(Ordering::Relaxed) == 0;
    let dropped = [quietly(|| drop(first)), quietly(|| drop(supply))];
    let panics = [steps.err(), left].into_iter().chain(dropped).flatten();
    match stop.into_inner() {
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
