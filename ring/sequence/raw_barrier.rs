//! The word behind a [`SequenceBarrier`](super::SequenceBarrier), and those who wait for it.
//!
//! # Who may touch what
//!
//! * `published`: stored by the one who publishes, read by all.
//! * The lists, and what stands in `wanted`: under the lock. In the lists are waits ([`WaitNode`]), and **watchers**: objects whose own waiters
//!   wait for several barriers at once (a group, the room of a sequencer). A watcher is told when the number has come that it has *armed*
//!   itself for, once, and whenever the barrier ends. It is called without a lock; it may hold its own lock while it arms
//!   itself here, so that is taken before this one.
//! * `wanted`: the nearest number that somebody in the lists waits for; far away, if nobody does. Read by who publishes.
//!
//! # No wake-up is lost
//!
//! Who publishes stores the number, then loads `wanted`. Who waits puts its number into `wanted`, then loads what is published. Between the two steps
//! the one has a light fence, and the other a heavy one ([`shim::asymmetric`](crate::shim::asymmetric)); or both have a full one, if who waits
//! parks at once ([`Fences`]). So the one sees that it is wanted, or the other sees that it is there. `wanted` is never further away than what any in the lists waits for, whatever is stored there later. So publishing
//! costs a store and a load, and what it costs to be exact is paid by who is about to park.
//!
//! An end is stored before the lock is taken: who has entered before is in the list, who enters later sees it.
//!
//! # Orderings
//!
//! `published` is stored with release and loaded with acquire: it carries what was written before. `wanted` carries nothing: who finds it reached takes
//! the lock. The end is loaded before `published`: who is told that it has ended has seen all that was published before.

use super::arithmetic::{Sequence, nearest};
use super::awaited::{CLOSED, Options, PUBLISHED};
use super::spinning::Learned;
use super::strategy::WaitStrategy;
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::asymmetric::{heavy, is_one_sided, light, prepare};
use crate::shim::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use crate::shim::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, Weak};

pub(super) struct RawBarrier<S> {
    published: CachePadded<AtomicU64>,
    watched: CachePadded<Watched>,
    state: Mutex<State>,
    pub(super) options: Options,
    fences: Fences,
    pub(super) learned: Learned,
    _sequence: PhantomData<S>,
}

/// What who publishes looks at.
struct Watched {
    wanted: AtomicU64,
    end: AtomicU8,
}

/// How a barrier has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum End {
    Open,
    /// What is published stands.
    Finished,
    /// All waits have ended.
    Closed,
}

pub(super) struct State {
    /// Their tokens are the numbers.
    waiters: WaitList,
    watchers: Vec<Armed>,
}

/// One that waits for several barriers.
pub(super) trait Watcher: Send + Sync {
    /// A number has come that it was armed for, or the barrier has ended.
    fn progress(&self);
}

struct Armed {
    watcher: Weak<dyn Watcher>,
    /// The number, as a word.
    at: Option<u64>,
}

/// Who pays for finding each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fences {
    /// Who publishes and who waits, each some nanoseconds: where waits are many.
    Both,
    /// Who waits, some microseconds: where they are few, as it has looked for long before.
    Waiters,
}

impl Fences {
    /// To be asked after [`prepare`].
    pub(super) fn of(strategy: WaitStrategy) -> Fences {
        if strategy == WaitStrategy::Park || !is_one_sided() {
            Fences::Both
        } else {
            Fences::Waiters
        }
    }

    /// That of who publishes something, before it looks whether somebody waits.
    #[inline(always)]
    #[track_caller]
    pub(super) fn publisher(self) {
        // MUTANT(barrier.publish.fence): skip
        if self == Fences::Waiters { light() } else { fence(Ordering::SeqCst) }
    }

    /// That of who has said that it waits, before it looks a last time.
    #[track_caller]
    pub(super) fn waiter(self) {
        // MUTANT(barrier.wait.fence): skip
        if self == Fences::Both { fence(Ordering::SeqCst) } else { heavy() }
    }
}

impl<S: Sequence> RawBarrier<S> {
    pub(super) fn new(last: S) -> RawBarrier<S> {
        prepare();
        RawBarrier {
            published: CachePadded::new(AtomicU64::new(last.to_word())),
            watched: CachePadded::new(Watched {
                wanted: AtomicU64::new(far(last).to_word()),
                end: AtomicU8::new(End::Open as u8),
            }),
            state: Mutex::new(State { waiters: WaitList::new(), watchers: Vec::new() }),
            options: Options::default(),
            fences: Fences::of(WaitStrategy::default()),
            learned: Learned::default(),
            _sequence: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn published(&self) -> S {
        // MUTANT(barrier.published): relaxed
        S::from_word(self.published.load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(super) fn publish(&self, to: S) -> bool {
        if !S::from_word(self.published.load(Ordering::Relaxed)).precedes(to) {
            return false;
        }
        // MUTANT(barrier.publish): relaxed
        self.published.store(to.to_word(), Ordering::Release);
        self.fences().publisher();
        if !to.precedes(S::from_word(self.watched.wanted.load(Ordering::Relaxed))) {
            self.tell();
        }
        true
    }

    #[inline(always)]
    pub(super) fn fences(&self) -> Fences {
        self.fences
    }

    /// Before it is used.
    pub(super) fn set_options(&mut self, options: Options) {
        self.options = options;
        self.fences = Fences::of(options.strategy);
    }

    /// Wakes those whose number has come, or all who cannot be served any more.
    #[cold]
    #[inline(never)]
    fn tell(&self) {
        let mut wakes = Wakes::default();
        let mut state = self.lock();
        state.waiters.grant_those(|node| self.answer(target_of(node)), &mut wakes);
        let ended = self.ended() != End::Open;
        let last = self.published();
        let mut told: Vec<Arc<dyn Watcher>> = Vec::new();
        for armed in &mut state.watchers {
            let come = armed.at.is_some_and(|at| !last.precedes(S::from_word(at)));
            if come || ended {
                armed.at = None;
                told.extend(armed.watcher.upgrade());
            }
        }
        self.want(&state);
        drop(state);
        wakes.deliver();
        told.iter().for_each(|watcher| watcher.progress());
    }

    /// What a wait comes to, if it is decided.
    pub(super) fn answer(&self, target: S) -> Option<u32> {
        let ended = self.ended() != End::Open;
        if !self.published().precedes(target) { Some(PUBLISHED) } else { ended.then_some(CLOSED) }
    }

    pub(super) fn ended(&self) -> End {
        // MUTANT(barrier.ended): relaxed
        match self.watched.end.load(Ordering::Acquire) {
            0 => End::Open,
            1 => End::Finished,
            _ => End::Closed,
        }
    }

    pub(super) fn end(&self, end: End) {
        // The order cannot be missed in a model, where the light fence of a publish is a full one.
        // MUTANT(barrier.end): split
        if self.watched.end.fetch_max(end as u8, Ordering::AcqRel) < end as u8 {
            self.tell();
        }
    }

    /// Says under the lock what is wanted now.
    fn want(&self, state: &State) {
        let last = self.published();
        let waiters = state.waiters.iter().map(target_of::<S>);
        let watchers = state.watchers.iter().filter_map(|armed| armed.at.map(S::from_word));
        let wanted = nearest(waiters.chain(watchers), last).unwrap_or(far(last));
        self.watched.wanted.store(wanted.to_word(), Ordering::Relaxed);
    }

    /// One more that will be told of an end, and of what it arms itself for.
    pub(super) fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.lock().watchers.push(Armed { watcher, at: None });
    }

    pub(super) fn forget(&self, watcher: &Weak<dyn Watcher>) {
        let mut state = self.lock();
        state.watchers.retain(|armed| !armed.watcher.ptr_eq(watcher));
        self.want(&state);
    }

    /// The watcher is told when this number has come. Afterwards it has the fence of who waits, and looks: it may be there.
    pub(super) fn arm(&self, watcher: &Weak<dyn Watcher>, at: S) {
        let mut state = self.lock();
        for armed in &mut state.watchers {
            if armed.watcher.ptr_eq(watcher) {
                armed.at = Some(at.to_word());
            }
        }
        self.want(&state);
    }

    /// Where waits are, as text.
    pub(super) fn places(&self) -> Vec<String> {
        self.lock().waiters.places()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What nobody waits for, for as long as possible.
fn far<S: Sequence>(last: S) -> S {
    last.offset((2 * S::LARGEST_RING - 1).cast_signed())
}

fn target_of<S: Sequence>(node: &WaitNode) -> S {
    S::from_word(node.token.get())
}

impl<S: Sequence> Waitable for RawBarrier<S> {
    type State = State;

    fn what(&self) -> &'static str {
        "a number of a barrier"
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.lock()
    }

    fn waiters(state: &mut State) -> &mut WaitList {
        &mut state.waiters
    }

    fn try_enter(&self, state: &mut State, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let target = target_of(node);
        if let Some(answer) = self.answer(target) {
            return Some(answer);
        }
        let wanted = S::from_word(self.watched.wanted.load(Ordering::Relaxed));
        if target.precedes(wanted) {
            self.watched.wanted.store(target.to_word(), Ordering::Relaxed);
        }
        self.fences().waiter();
        // MUTANT(barrier.enter.look): with None
        let answer = self.answer(target);
        if answer.is_some() {
            self.want(state);
        }
        answer
    }

    fn left(&self, state: &mut State, _: &mut Wakes) {
        self.want(state);
    }

    /// Nothing was taken.
    fn give_back(&self, _: &WaitNode) {}
}
