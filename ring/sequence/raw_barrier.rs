//! The state behind a [`SequenceBarrier`](super::SequenceBarrier), and its waiters.
//!
//! # Who may touch what
//!
//! * `published`: stored by the publisher, read by all.
//! * The lists, and the value of `wanted`: under the lock. The lists hold waits ([`WaitNode`]) and
//!   **watchers**: objects with waiters of their own, which wait for several barriers at once (a
//!   group, the room of a sequencer). A watcher is called once when the number has come that it has
//!   *armed* itself for, and whenever the barrier ends. It is called without the lock of the
//!   barrier. It may hold its own lock while it arms itself here, so its lock is taken before the
//!   barrier's.
//! * `wanted`: the nearest number that a wait or a watcher in the lists waits for, or a number far
//!   away if there is none. Read by the publisher.
//!
//! # No wake-up is lost
//!
//! The publisher stores the number, and then loads `wanted`. The waiter puts its number into
//! `wanted`, and then loads `published`. Between its two steps the publisher has a light fence and
//! the waiter a heavy one ([`shim::asymmetric`](crate::shim::asymmetric)), or both have a full one
//! if waiters park at once ([`Fences`]). So the publisher sees that the number is wanted, or the
//! waiter sees that it is published. `wanted` is never further away than any number in the lists,
//! whichever thread stores it later. A publish without waiters therefore costs a store and a load,
//! and the cost of exactness falls on the waiter that is about to park.
//!
//! An end is stored before the lock is taken: a waiter that has entered before is in the list, and
//! a waiter that enters later sees the end.
//!
//! # Orderings
//!
//! `published` is stored with release and loaded with acquire: it carries what was written before.
//! `wanted` carries nothing, as a publisher that finds its number wanted takes the lock. The end is
//! loaded before `published`: a waiter that is told of the end has seen everything that was
//! published before.

use super::arithmetic::{Sequence, nearest};
use super::awaited::{Awaited, CLOSED, Numbers, Options, PUBLISHED};
use super::spinning::Learned;
use super::strategy::WaitStrategy;
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes, with_wakes};
use crate::shim::asymmetric::{heavy, is_one_sided, light, prepare};
use crate::shim::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use crate::shim::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

pub(super) struct RawBarrier<S> {
    published: CachePadded<AtomicU64>,
    watched: CachePadded<Watched>,
    state: Mutex<State>,
    options: Options,
    pub(super) fences: Fences,
    learned: Learned,
    _sequence: PhantomData<S>,
}

/// The fields that the publisher reads.
struct Watched {
    wanted: AtomicU64,
    end: AtomicU8,
}

/// Whether and how a barrier has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum End {
    Open,
    /// No more is published. Published numbers stand.
    Finished,
    /// All waits have ended.
    Closed,
}

pub(super) struct State {
    /// The token of a waiter is its number.
    waiters: WaitList,
    watchers: Vec<Armed>,
}

/// An object that waits for several barriers.
pub(super) trait Watcher: Send + Sync {
    /// Called when the number has come that the watcher was armed for, or the barrier has ended.
    fn progress(&self);
}

struct Armed {
    watcher: Weak<dyn Watcher>,
    /// The number, as a word, while armed.
    at: Option<u64>,
}

/// Which side pays for the publisher and the waiter to find each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fences {
    /// Both sides, some nanoseconds each: for frequent waits.
    Both,
    /// The waiter, some microseconds: for rare waits, which begin only after a long look.
    Waiters,
}

impl Fences {
    /// Chooses the fences for a strategy. To be called after [`prepare`].
    pub(super) fn of(strategy: WaitStrategy) -> Fences {
        if strategy == WaitStrategy::Park || !is_one_sided() {
            Fences::Both
        } else {
            Fences::Waiters
        }
    }

    /// The fence of a publisher, between its store and its look for waiters.
    #[inline(always)]
    #[track_caller]
    pub(super) fn publisher(self) {
        // MUTANT(barrier.publish.fence): skip
        if self == Fences::Waiters { light() } else { fence(Ordering::SeqCst) }
    }

    /// The fence of a waiter, between announcing its wait and its last look.
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
    pub(super) fn publish(&self, to: S) -> bool {
        if !S::from_word(self.published.load(Ordering::Relaxed)).precedes(to) {
            return false;
        }
        // MUTANT(barrier.publish): relaxed
        self.published.store(to.to_word(), Ordering::Release);
        self.fences.publisher();
        if !to.precedes(S::from_word(self.watched.wanted.load(Ordering::Relaxed))) {
            self.tell();
        }
        true
    }

    /// Changes the options, before the first use.
    pub(super) fn change_options(&mut self, to: impl FnOnce(Options) -> Options) {
        self.options = to(self.options);
        self.fences = Fences::of(self.options.strategy);
    }

    /// Wakes the waiters that have an answer now, and calls the watchers that are due.
    #[cold]
    #[inline(never)]
    fn tell(&self) {
        let mut due: Vec<Arc<dyn Watcher>> = Vec::new();
        with_wakes(&self.state, |state, wakes| {
            state.waiters.grant_those(|node| self.answer(target_of(node)), wakes);
            let ended = self.ended() != End::Open;
            let last = self.published();
            for armed in &mut state.watchers {
                let come = armed.at.is_some_and(|at| !last.precedes(S::from_word(at)));
                if come || ended {
                    armed.at = None;
                    due.extend(armed.watcher.upgrade());
                }
            }
            self.want(state);
        });
        due.iter().for_each(|watcher| watcher.progress());
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
        // A model does not detect a weaker order, as the light fence of a publish is a full one
        // there.
        // MUTANT(barrier.end): split
        if self.watched.end.fetch_max(end as u8, Ordering::AcqRel) < end as u8 {
            self.tell();
        }
    }

    /// Under the lock: stores the nearest wanted number.
    fn want(&self, state: &State) {
        let last = self.published();
        let waiters = state.waiters.iter().map(target_of::<S>);
        let watchers = state.watchers.iter().filter_map(|armed| armed.at.map(S::from_word));
        let wanted = nearest(waiters.chain(watchers), last).unwrap_or(far(last));
        self.watched.wanted.store(wanted.to_word(), Ordering::Relaxed);
    }

    /// Adds a watcher. It is called at the end, and for the numbers that it arms itself for.
    pub(super) fn watch(&self, watcher: Weak<dyn Watcher>) {
        let watchers = &mut self.state().watchers;
        // The watchers that are gone are forgotten here, so that there are never many.
        watchers.retain(|armed| armed.watcher.strong_count() > 0);
        watchers.push(Armed { watcher, at: None });
    }

    /// Has the watcher called when `at` has come. The caller must then run the waiter's fence and
    /// look again, as the number may have come already.
    pub(super) fn arm(&self, watcher: &Weak<dyn Watcher>, at: S) {
        let mut state = self.state();
        for armed in &mut state.watchers {
            if armed.watcher.ptr_eq(watcher) {
                armed.at = Some(at.to_word());
            }
        }
        self.want(&state);
    }

    /// The locations in the code that wait, as text.
    pub(super) fn locations(&self) -> Vec<String> {
        self.state().waiters.locations()
    }
}

/// The value of `wanted` without waits: the number that takes longest to be reached.
fn far<S: Sequence>(last: S) -> S {
    last.offset((2 * S::LARGEST_RING - 1).cast_signed())
}

pub(super) fn target_of<S: Sequence>(node: &WaitNode) -> S {
    S::from_word(node.token.get())
}

impl<S: Sequence> Numbers for RawBarrier<S> {
    type Number = S;

    #[inline(always)]
    fn published(&self) -> S {
        // MUTANT(barrier.published): relaxed
        S::from_word(self.published.load(Ordering::Acquire))
    }

    fn answer(&self, target: S) -> Option<u32> {
        let ended = self.ended() != End::Open;
        if !self.published().precedes(target) { Some(PUBLISHED) } else { ended.then_some(CLOSED) }
    }
}

impl<S: Sequence> Awaited for RawBarrier<S> {
    fn manner(&self) -> (Options, &Learned) {
        (self.options, &self.learned)
    }

    fn close(&self) {
        self.end(End::Closed);
    }
}

impl<S: Sequence> Waitable for RawBarrier<S> {
    type State = State;
    const WHAT: &'static str = "a number of a barrier";

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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
        self.fences.waiter();
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

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}
