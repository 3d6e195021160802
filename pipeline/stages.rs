//! The stages of a pipeline: while it is being built, and while items pass through it.
//!
//! While a pipeline is built, each stage contains the ones before it ([`Stages`]). For the run that
//! is turned inside out: each [`Step`] contains the ones behind it, so that the compiler knows the
//! rest of an item's way.

use crate::pipeline::board::Place;
use crate::pipeline::run::{self, Flow, Start};
use crate::runtime::TaskError;
use crate::shim::Mutex;
use crate::task::outcome::{Payload, drop_all, first_of, quietly};
use crossbeam_utils::CachePadded;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A source and the stages behind it, for a [`Pipeline`](crate::Pipeline) with error type `E`. Only
/// this library implements the trait: `Step` and `Start` cannot be named outside.
pub trait Stages<E>: Sized {
    /// The output of the last stage.
    type Item: Send;

    /// Runs the source and the stages, followed by the step `next`.
    #[doc(hidden)]
    fn run<N: Step<Self::Item, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>>;
}

/// The rest of the way of an item of type `T`.
pub trait Step<T, E>: Sync {
    /// Carries an item on until it has to wait or has reached the end. `number` is its position in
    /// the order of the source.
    fn carry<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, number: usize, item: T);

    /// Does the work in a place that the caller has taken off the board: carries on an item that
    /// has waited there, if there is one. Returns whether there was one.
    fn work_at<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, place: Place) -> bool;

    /// Drops the remaining items, and the closures that can be dropped, after the last task.
    /// Returns the first panic, if any.
    fn clear(&mut self) -> Option<Payload>;
}

/// The start of a pipeline: the iterator.
pub(super) struct Source<I>(pub(super) I);

impl<I: Iterator<Item: Send> + Send, E: Send> Stages<E> for Source<I> {
    type Item = I::Item;

    fn run<N: Step<I::Item, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>> {
        run::run(self.0, next, start)
    }
}

/// The end of a pipeline, behind the last stage.
pub(super) struct End;

impl<E> Step<(), E> for End {
    #[inline]
    fn carry<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, _: usize, (): ()) {
        flow.has_ended();
    }

    fn work_at<'scope, X: Flow<'scope, E>>(&'scope self, _: X, _: Place) -> bool {
        false
    }

    fn clear(&mut self) -> Option<Payload> {
        None
    }
}

/// A stage for any number of items at once.
pub(super) struct Parallel<S, F> {
    pub(super) before: S,
    pub(super) f: F,
}

impl<S, F, U, E> Stages<E> for Parallel<S, F>
where
    S: Stages<E>,
    F: Fn(S::Item) -> Result<U, E> + Sync,
    U: Send,
{
    type Item = U;

    fn run<N: Step<U, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>> {
        self.before.run(ParallelStep { f: self.f, next }, start)
    }
}

struct ParallelStep<F, N> {
    f: F,
    next: N,
}

impl<T, U, F, N, E> Step<T, E> for ParallelStep<F, N>
where
    T: Send,
    F: Fn(T) -> Result<U, E> + Sync,
    N: Step<U, E>,
{
    #[inline]
    fn carry<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, number: usize, item: T) {
        if flow.is_stopped() {
            return;
        }
        match (self.f)(item) {
            Ok(item) => self.next.carry(flow, number, item),
            Err(error) => flow.failed(error),
        }
    }

    #[inline]
    fn work_at<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, place: Place) -> bool {
        self.next.work_at(flow, place)
    }

    fn clear(&mut self) -> Option<Payload> {
        self.next.clear()
    }
}

/// A stage for one item at a time. The queue `Q` decides which item is next.
pub(super) struct Single<S, F, Q> {
    before: S,
    f: F,
    queue: PhantomData<fn() -> Q>,
}

impl<S, F, Q> Single<S, F, Q> {
    pub(super) fn new(before: S, f: F) -> Single<S, F, Q> {
        Single { before, f, queue: PhantomData }
    }
}

impl<S, F, U, E, Q> Stages<E> for Single<S, F, Q>
where
    S: Stages<E>,
    F: FnMut(S::Item) -> Result<U, E> + Send,
    U: Send,
    Q: Queue<S::Item>,
{
    type Item = U;

    fn run<N: Step<U, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>> {
        let step = boxed::<_, _, Q>(self.f, start, next);
        self.before.run(step, start)
    }
}

/// A stage for one item at a time, in cache lines of its own and in an allocation of its own.
/// Without the allocation, a stage would be passed by value through as many frames as there are
/// stages before it.
type Boxed<F, N, Q> = Box<CachePadded<SingleStep<F, N, Q>>>;

// Kept apart from its caller, which calls the same function for the stages before and should have a
// small frame.
#[inline(never)]
fn boxed<F, N, Q: Default>(f: F, start: &mut Start, next: N) -> Boxed<F, N, Q> {
    let (place, is_landing) = start.next_place();
    let door = Mutex::new(Door { f: Some(Box::new(f)), queue: Q::default() });
    Box::new(CachePadded::new(SingleStep { door, place, is_landing, next }))
}

struct SingleStep<F, N, Q> {
    door: Mutex<Door<F, Q>>,
    place: Place,
    /// Every item is put into the queue here, so that the stack gets no deeper: the calls for the
    /// stages behind are nested.
    is_landing: bool,
    next: N,
}

/// The entrance of a stage for one item at a time. Locked for a few instructions, never while a
/// closure or a destructor of the user runs.
struct Door<F, Q> {
    /// The closure, which is the right to be in the stage. `None` while an item is in the stage.
    f: Option<Box<F>>,
    queue: Q,
}

impl<T, U, F, N, E, Q> Step<T, E> for Boxed<F, N, Q>
where
    T: Send,
    F: FnMut(T) -> Result<U, E> + Send,
    N: Step<U, E>,
    Q: Queue<T>,
{
    #[inline]
    fn carry<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, number: usize, item: T) {
        let stays = self.is_landing || flow.gives_way();
        let mut door = self.door.lock();
        let Door { f, queue } = &mut *door;
        if !stays && f.is_some() && queue.is_next(number) {
            let f = f.take().expect("it is there");
            drop(door);
            return self.pass(flow, number, item, f);
        }
        queue.put(number, item);
        let is_ready = f.is_some() && queue.is_ready();
        drop(door);
        if is_ready {
            flow.announce(self.place);
        }
    }

    #[inline]
    fn work_at<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, place: Place) -> bool {
        if self.next.work_at(flow, place) {
            return true;
        }
        if place != self.place {
            return false;
        }
        let mut door = self.door.lock();
        // Another carrier may have been here in the meantime, if several stages share the place.
        if door.f.is_none() {
            return false;
        }
        let Some((number, item)) = door.queue.take() else { return false };
        let f = door.f.take().expect("it is there");
        drop(door);
        self.pass(flow, number, item, f);
        true
    }

    fn clear(&mut self) -> Option<Payload> {
        let step = &mut ***self;
        let door = step.door.get_mut();
        let (f, queue) = (door.f.take(), take(&mut door.queue));
        let panics = [drop_all(queue.into_items()), quietly(|| drop(f)), step.next.clear()];
        first_of(panics.into_iter().flatten())
    }
}

impl<F, N, Q> SingleStep<F, N, Q> {
    /// Takes an item through the stage and on. The caller owns the closure, so no other carrier is
    /// in the stage.
    #[inline]
    fn pass<'scope, T, U, E, X>(&'scope self, flow: X, number: usize, item: T, mut f: Box<F>)
    where
        T: Send,
        F: FnMut(T) -> Result<U, E> + Send,
        N: Step<U, E>,
        Q: Queue<T>,
        X: Flow<'scope, E>,
    {
        if flow.is_stopped() {
            self.door.lock().f = Some(f);
            return;
        }
        // Caught here, as an unwinding must not drop the closure.
        match catch_unwind(AssertUnwindSafe(|| f(item))) {
            Ok(Ok(item)) => {
                let mut door = self.door.lock();
                door.f = Some(f);
                door.queue.leave();
                let is_ready = door.queue.is_ready();
                drop(door);
                if is_ready {
                    flow.announce(self.place);
                }
                self.next.carry(flow, number, item);
            }
            Ok(Err(error)) => {
                self.door.lock().f = Some(f);
                flow.failed(error);
            }
            Err(payload) => {
                self.door.lock().f = Some(f);
                flow.panicked(payload);
            }
        }
    }
}

/// The items that wait for a stage.
pub(super) trait Queue<T>: Default + Send {
    /// Returns whether an arriving item may go on at once, if no item is in the stage.
    fn is_next(&self, number: usize) -> bool;

    /// Queues an item that has arrived.
    fn put(&mut self, number: usize, item: T);

    /// Returns whether the next item is waiting.
    fn is_ready(&self) -> bool;

    /// Takes the next item out, with its number, if it is waiting.
    fn take(&mut self) -> Option<(usize, T)>;

    /// Records that an item leaves the stage.
    fn leave(&mut self);

    /// Returns all waiting items.
    fn into_items(self) -> impl Iterator<Item = T>;
}

/// The queue of a serial stage: the item that has arrived first is next.
pub(super) type Arrivals<T> = VecDeque<(usize, T)>;

impl<T: Send> Queue<T> for Arrivals<T> {
    #[inline]
    fn is_next(&self, _: usize) -> bool {
        self.is_empty()
    }

    #[inline]
    fn put(&mut self, number: usize, item: T) {
        self.push_back((number, item));
    }

    #[inline]
    fn is_ready(&self) -> bool {
        !self.is_empty()
    }

    #[inline]
    fn take(&mut self) -> Option<(usize, T)> {
        self.pop_front()
    }

    #[inline]
    fn leave(&mut self) {}

    fn into_items(self) -> impl Iterator<Item = T> {
        self.into_iter().map(|(_, item)| item)
    }
}

/// The queue of an ordered stage: items are next in the order of the source.
pub(super) struct InTurn<T> {
    /// The number of the item that is in the stage, or that goes there next.
    turn: usize,
    /// The item with that number, if it waits, and the items behind it, each at the distance of its
    /// number. All numbers between are in flight, which bounds the length.
    from_turn: VecDeque<Option<T>>,
}

impl<T> Default for InTurn<T> {
    fn default() -> InTurn<T> {
        InTurn { turn: 0, from_turn: VecDeque::new() }
    }
}

impl<T: Send> Queue<T> for InTurn<T> {
    #[inline]
    fn is_next(&self, number: usize) -> bool {
        number == self.turn
    }

    #[inline]
    fn put(&mut self, number: usize, item: T) {
        let at = number - self.turn;
        if at >= self.from_turn.len() {
            self.from_turn.resize_with(at + 1, || None);
        }
        self.from_turn[at] = Some(item);
    }

    #[inline]
    fn is_ready(&self) -> bool {
        matches!(self.from_turn.front(), Some(Some(_)))
    }

    #[inline]
    fn take(&mut self) -> Option<(usize, T)> {
        let item = self.from_turn.front_mut()?.take()?;
        Some((self.turn, item))
    }

    #[inline]
    fn leave(&mut self) {
        self.turn += 1;
        self.from_turn.pop_front();
    }

    fn into_items(self) -> impl Iterator<Item = T> {
        self.from_turn.into_iter().flatten()
    }
}
