//! The state that the producers and readers of a ring share: the [claimed](super::claims) and the
//! [published](super::stamps) numbers.

use super::arithmetic::Sequence;
use super::awaited::{Awaited, CLOSED, Numbers, Options};
use super::barrier::SequenceBarrier;
use super::claims::{Claims, RolledBack};
use super::raw_barrier::Watcher;
use super::raw_group::minimum;
use super::spinning::Learned;
use super::stamps::{Reading, Stamps};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes, with_wakes};
use crate::shim::MutexGuard;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

pub(super) struct RawMulti<S: Sequence> {
    pub(super) claims: Claims<S>,
    pub(super) stamps: Stamps,
    /// The readers of earlier stages. If one of them ends, nothing reaches the last stage.
    before: OnceLock<Box<[SequenceBarrier<S>]>>,
    /// This sequencer.
    watcher: Weak<dyn Watcher>,
    pub(super) options: Options,
    /// For the producers, and for the readers.
    learned: [Learned; 2],
}

impl<S: Sequence> RawMulti<S> {
    pub(super) fn new(
        readers: Box<[SequenceBarrier<S>]>,
        size: usize,
        options: Options,
    ) -> Arc<RawMulti<S>> {
        let multi = RawMulti::without_readers(minimum(&readers).next(), size, options);
        multi.set_readers(readers, Box::default());
        multi
    }

    /// Creates a sequencer with the first number `base`.
    pub(super) fn without_readers(base: S, size: usize, options: Options) -> Arc<RawMulti<S>> {
        Arc::new_cyclic(|this: &Weak<RawMulti<S>>| RawMulti {
            claims: Claims::new(base, size),
            stamps: Stamps::new(size, options.strategy),
            before: OnceLock::new(),
            watcher: this.clone(),
            options,
            learned: [Learned::default(), Learned::default()],
        })
    }

    /// Sets the readers. Called once, before the first claim.
    pub(super) fn set_readers(
        &self,
        readers: Box<[SequenceBarrier<S>]>,
        before: Box<[SequenceBarrier<S>]>,
    ) {
        self.claims.set_readers(readers);
        assert!(self.before.set(before).is_ok(), "the readers are set once");
        self.all_readers().for_each(|reader| reader.raw().watch(self.watcher.clone()));
        // The readers may have been closed before they were watched.
        self.progress();
    }

    fn all_readers(&self) -> impl Iterator<Item = &SequenceBarrier<S>> {
        let before = self.before.get().into_iter().flatten();
        self.claims.readers().iter().chain(before)
    }

    /// Returns the last published number. The caller, a reader, knows that all numbers up to
    /// `known` are published. For a caller more than a ring's size behind, the numbers that were
    /// read meanwhile count as published.
    #[inline]
    pub(super) fn published_from(&self, known: S) -> S {
        let from = self.index_after(known);
        self.claims.number(self.stamps.frontier_from(from).wrapping_sub(1))
    }

    /// The index of the number after `known`.
    #[inline]
    pub(super) fn index_after(&self, known: S) -> u64 {
        // A narrow number wraps around, and is taken to be near the index that is claimed next. A
        // wide number does not wrap around.
        let near = if S::LARGEST_RING > u32::MAX as usize { 0 } else { self.claims.next() };
        self.claims.index(known, near).saturating_add(1).max(0).cast_unsigned()
    }

    /// Publishes a claim of the caller's. Returns `false` if the sequencer was closed because a
    /// reader had ended.
    #[inline(always)]
    pub(super) fn publish(&self, indexes: Range<u64>) -> bool {
        if self.stamps.publish(indexes) {
            self.tell();
        }
        !self.stamps.is_deserted()
    }

    /// Gives up a claim of the caller's.
    #[cold]
    pub(super) fn give_up(&self, indexes: Range<u64>) {
        match self.claims.roll_back(&indexes) {
            RolledBack::Done => {}
            RolledBack::ForOthers => {
                self.grant_room();
                // MUTANT(multi.rolled_back.ended): false
                if self.claims.is_ended() {
                    self.tell();
                }
            }
            RolledBack::No => self.skip(indexes),
        }
    }

    fn skip(&self, indexes: Range<u64>) {
        if self.stamps.skip(indexes) {
            self.tell();
        }
    }

    /// Wakes the readers that wait for a number which is published now, or never will be.
    #[cold]
    #[inline(never)]
    fn tell(&self) {
        with_wakes(&self.stamps.reading, |reading, wakes| {
            self.stamps.settle(reading, None, wakes, || self.claims.next())
        });
    }

    fn grant_room(&self) {
        with_wakes(&self.claims.waiters, |waiters, wakes| {
            self.claims.grant(waiters, &self.watcher, wakes);
        });
    }

    /// Returns `true` if later claims are refused, and everything claimed is published or given
    /// back.
    pub(super) fn is_finished(&self) -> bool {
        self.claims.is_ended() && {
            let next = self.claims.next();
            self.frontier(next) == next
        }
    }

    /// Returns the index before which everything is published. `next` is the index that is claimed
    /// next; the caller knows nothing else.
    pub(super) fn frontier(&self, next: u64) -> u64 {
        self.stamps.frontier_from(next.saturating_sub(self.stamps.size() as u64))
    }

    /// Refuses later claims. Readers are told of the end when they have everything that was claimed
    /// before.
    pub(super) fn finish(&self) {
        let mut wakes = Wakes::default();
        // The claims end first: from then on the index that is claimed next only falls, and readers
        // may rely on it.
        self.claims.end(&mut wakes);
        self.stamps.close();
        wakes.deliver();
        self.tell();
    }

    /// Refuses later claims, and gives up unpublished ones. The caller knows that no claim is in
    /// hand, so unpublished claims were forgotten.
    pub(super) fn finish_without_claims(&self) {
        self.finish();
        let next = self.claims.next();
        let mut index = self.frontier(next);
        while index < next {
            self.skip(index..index + 1);
            index = self.stamps.frontier_from(index);
        }
    }

    /// Closes both sides.
    pub(super) fn close(&self) {
        self.finish();
        self.claims.readers().iter().for_each(SequenceBarrier::close);
    }
}

/// Called when a reader has made progress or has ended.
impl<S: Sequence> Watcher for RawMulti<S> {
    fn progress(&self) {
        if self.all_readers().any(SequenceBarrier::is_finished) && !self.claims.is_ended() {
            self.stamps.desert();
            self.close();
        } else {
            self.grant_room();
        }
    }
}

/// The sequencer as producers wait for it: for room.
pub(super) struct Room<'a, S: Sequence>(pub(super) &'a RawMulti<S>);

/// The sequencer as a reader waits for it: for published numbers. The reader knows that all numbers
/// up to the second field are published.
pub(super) struct Reads<'a, S: Sequence>(pub(super) &'a RawMulti<S>, pub(super) S);

macro_rules! awaited {
    ($($name:ident: $side:literal),*) => {$(
        impl<S: Sequence> Awaited for $name<'_, S> {
            fn manner(&self) -> (Options, &Learned) {
                (self.0.options, &self.0.learned[$side])
            }

            fn close(&self) {
                self.0.close();
            }
        }
    )*};
}

awaited! { Room: 0, Reads: 1 }

impl<S: Sequence> Numbers for Reads<'_, S> {
    type Number = S;

    #[inline]
    fn published(&self) -> S {
        self.0.published_from(self.1)
    }

    fn answer(&self, target: S) -> Option<u32> {
        let (wanted, from) = (self.token(target), self.0.index_after(self.1));
        self.0.stamps.answer(wanted, from, || self.0.claims.next())
    }

    fn token(&self, target: S) -> u64 {
        self.0.index_after(target)
    }
}

impl<S: Sequence> Waitable for Room<'_, S> {
    type State = WaitList;
    const WHAT: &'static str = "room of a sequencer";

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.0.claims.waiters.lock()
    }

    fn waiters(waiters: &mut WaitList) -> &mut WaitList {
        waiters
    }

    fn try_enter(&self, waiters: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        self.0.claims.enter(waiters, node, &self.0.watcher)
    }

    /// The next waiter may need less room.
    fn left(&self, waiters: &mut WaitList, wakes: &mut Wakes) {
        self.0.claims.grant(waiters, &self.0.watcher, wakes);
    }

    fn give_back(&self, node: &WaitNode) {
        if node.answer() != CLOSED {
            let indexes = Claims::<S>::handed_over(node.token.get(), node.answer());
            self.0.give_up(indexes);
        }
    }
}

impl<S: Sequence> Waitable for Reads<'_, S> {
    type State = Reading;
    const WHAT: &'static str = "a number of a sequencer";

    fn state(&self) -> MutexGuard<'_, Reading> {
        self.0.stamps.reading.lock()
    }

    fn waiters(reading: &mut Reading) -> &mut WaitList {
        &mut reading.waiters
    }

    fn try_enter(&self, reading: &mut Reading, node: &WaitNode, wakes: &mut Wakes) -> Option<u32> {
        let next = || self.0.claims.next();
        self.0.stamps.settle(reading, Some(node.token.get()), wakes, next)
    }

    fn left(&self, reading: &mut Reading, wakes: &mut Wakes) {
        self.0.stamps.settle(reading, None, wakes, || self.0.claims.next());
    }

    /// A reader's grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}
