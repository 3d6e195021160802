//! The stages of a pipeline: as they are put together, and as items go through them.
//!
//! While a pipeline is put together each stage has the ones before it inside ([`Stages`]). For the
//! run that is turned inside out: each [`Step`] has the ones behind it inside, so that the compiler
//! knows all that an item still has before it.

use crate::runtime::pipeline::board::Place;
use crate::runtime::pipeline::run::{self, Flow, Start};
use crate::runtime::several::TaskError;
use crate::shim::{Mutex, MutexGuard};
use crate::task::outcome::{Payload, drop_all, quietly};
use crossbeam_utils::CachePadded;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

/// A source and the stages behind it, for a [`Pipeline`](crate::Pipeline) whose errors are `E`.
/// Only this library implements it.
pub trait Stages<E>: Sealed {
    /// What comes out of the last stage.
    type Item: Send;

    /// Runs them, with what comes behind them.
    #[doc(hidden)]
    fn run<N: Step<Self::Item, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>>;
}

pub trait Sealed: Sized {}

/// What an item of type `T` still has before it.
pub trait Step<T, E>: Sync {
    /// Carries an item on, with its number in the order of the source, until it has to wait or has
    /// come to the end.
    fn carry<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, number: usize, item: T);

    /// Does what there is to do in a place of the board that the caller has taken off: carries an
    /// item on that has waited there, if there is one. Returns whether there was.
    fn serve<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, place: Place) -> bool;

    /// Drops the items that are left, and the closures that can be, after the last task. The first
    /// panic, if any.
    fn clear(&mut self) -> Option<Payload>;
}

/// The iterator.
pub(super) struct Source<I>(pub(super) I);

impl<I> Sealed for Source<I> {}

impl<I: Iterator<Item: Send> + Send, E: Send> Stages<E> for Source<I> {
    type Item = I::Item;

    fn run<N: Step<I::Item, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>> {
        run::run(self.0, next, start)
    }
}

/// Behind the last stage.
pub(super) struct End;

impl<E> Step<(), E> for End {
    #[inline]
    fn carry<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, _: usize, (): ()) {
        flow.has_ended();
    }

    fn serve<'scope, X: Flow<'scope, E>>(&'scope self, _: X, _: Place) -> bool {
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

impl<S, F> Sealed for Parallel<S, F> {}

impl<S, F, U, E> Stages<E> for Parallel<S, F>
where
    S: Stages<E>,
    F: Fn(S::Item) -> Result<U, E> + Sync,
    U: Send,
{
    type Item = U;

    fn run<N: Step<U, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>> {
        self.before.run(ParallelStep { f: self.f, next, items: PhantomData }, start)
    }
}

struct ParallelStep<T, F, N> {
    f: F,
    next: N,
    items: PhantomData<fn(T)>,
}

impl<T, U, F, N, E> Step<T, E> for ParallelStep<T, F, N>
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
    fn serve<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, place: Place) -> bool {
        self.next.serve(flow, place)
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

impl<S, F, Q> Sealed for Single<S, F, Q> {}

impl<S, F, U, E, Q> Stages<E> for Single<S, F, Q>
where
    S: Stages<E>,
    F: FnMut(S::Item) -> Result<U, E> + Send,
    U: Send,
    Q: Queue<S::Item>,
{
    type Item = U;

    fn run<N: Step<U, E>>(self, next: N, start: &mut Start) -> Result<(), TaskError<E>> {
        let step = boxed::<S::Item, _, _, Q>(self.f, start, next);
        self.before.run(step, start)
    }
}

/// A stage for one item at a time, in cache lines of its own, and in an allocation of its own: else
/// a stage would be passed by value through as many frames as there are stages before it.
type Boxed<T, F, N, Q> = Box<CachePadded<SingleStep<T, F, N, Q>>>;

// Apart from the function that calls the one for the stages before, whose frame should be small.
#[inline(never)]
fn boxed<T, F, N, Q: Default>(f: F, start: &mut Start, next: N) -> Boxed<T, F, N, Q> {
    let (place, is_landing) = start.next_place();
    let door = Mutex::new(Door { f: Some(Box::new(f)), queue: Q::default() });
    Box::new(CachePadded::new(SingleStep { door, place, is_landing, next, items: PhantomData }))
}

struct SingleStep<T, F, N, Q> {
    door: Mutex<Door<F, Q>>,
    place: Place,
    /// Items are put into the queue in any case, so that the stack gets no deeper: the calls for
    /// the stages behind are nested.
    is_landing: bool,
    next: N,
    items: PhantomData<fn(T)>,
}

/// The entrance of a stage for one item at a time. Locked for a few instructions, never while a
/// closure or a destructor of the user runs.
struct Door<F, Q> {
    /// The closure, which is the right to be in the stage. `None` while an item is in the stage.
    f: Option<Box<F>>,
    queue: Q,
}

impl<T, F, N, Q> SingleStep<T, F, N, Q> {
    fn door(&self) -> MutexGuard<'_, Door<F, Q>> {
        // Nothing that can panic is done with it.
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, U, F, N, E, Q> Step<T, E> for Boxed<T, F, N, Q>
where
    T: Send,
    F: FnMut(T) -> Result<U, E> + Send,
    N: Step<U, E>,
    Q: Queue<T>,
{
    #[inline]
    fn carry<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, number: usize, item: T) {
        let stays = self.is_landing || flow.gives_way();
        let mut door = self.door();
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
    fn serve<'scope, X: Flow<'scope, E>>(&'scope self, flow: X, place: Place) -> bool {
        if self.next.serve(flow, place) {
            return true;
        }
        if place != self.place {
            return false;
        }
        let mut door = self.door();
        // Another one may have been here in the meantime, if the place is that of several stages.
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
        let door = step.door.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (f, queue) = (door.f.take(), take(&mut door.queue));
        let panics = [drop_all(queue.into_items()), quietly(|| drop(f)), step.next.clear()];
        run::first_of(panics.into_iter().flatten())
    }
}

impl<T, F, N, Q> SingleStep<T, F, N, Q> {
    /// Takes an item through the stage and on. The caller has the closure, so nobody else is in the
    /// stage.
    #[inline]
    fn pass<'scope, U, E, X>(&'scope self, flow: X, number: usize, item: T, mut f: Box<F>)
    where
        T: Send,
        F: FnMut(T) -> Result<U, E> + Send,
        N: Step<U, E>,
        Q: Queue<T>,
        X: Flow<'scope, E>,
    {
        if flow.is_stopped() {
            self.door().f = Some(f);
            return;
        }
        // Caught here, as the closure is not to be dropped by an unwinding.
        match catch_unwind(AssertUnwindSafe(|| f(item))) {
            Ok(Ok(item)) => {
                let mut door = self.door();
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
                self.door().f = Some(f);
                flow.failed(error);
            }
            Err(payload) => {
                self.door().f = Some(f);
                flow.panicked(payload);
            }
        }
    }
}

/// The items that wait for a stage.
pub(super) trait Queue<T>: Default + Send {
    /// Whether an item that comes may go on at once, if nobody is in the stage.
    fn is_next(&self, number: usize) -> bool;

    /// Keeps an item that has come.
    fn put(&mut self, number: usize, item: T);

    /// Whether the next item waits.
    fn is_ready(&self) -> bool;

    /// The next item and its number, if it waits.
    fn take(&mut self) -> Option<(usize, T)>;

    /// An item leaves the stage.
    fn leave(&mut self);

    /// All that wait.
    fn into_items(self) -> impl Iterator<Item = T>;
}

/// The queue of a serial stage: the item that has come first is next.
pub(super) struct Arrivals<T>(VecDeque<(usize, T)>);

impl<T> Default for Arrivals<T> {
    fn default() -> Arrivals<T> {
        Arrivals(VecDeque::new())
    }
}

impl<T: Send> Queue<T> for Arrivals<T> {
    #[inline]
    fn is_next(&self, _: usize) -> bool {
        self.0.is_empty()
    }

    #[inline]
    fn put(&mut self, number: usize, item: T) {
        self.0.push_back((number, item));
    }

    #[inline]
    fn is_ready(&self) -> bool {
        !self.0.is_empty()
    }

    #[inline]
    fn take(&mut self) -> Option<(usize, T)> {
        self.0.pop_front()
    }

    #[inline]
    fn leave(&mut self) {}

    fn into_items(self) -> impl Iterator<Item = T> {
        self.0.into_iter().map(|(_, item)| item)
    }
}

/// The queue of an ordered stage: items are next in the order of the source.
pub(super) struct InTurn<T> {
    /// The number of the item that is in the stage, or is to be.
    turn: usize,
    /// That item, if it waits, and those behind it, each at the distance of its number. All items
    /// between are in flight, so these are not more than may be.
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
