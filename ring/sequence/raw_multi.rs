//! What producers and readers of a ring share: what is [claimed](super::claims), and what is [published](super::stamps).

use super::arithmetic::Sequence;
use super::awaited::{Awaited, CLOSED, Options};
use super::barrier::SequenceBarrier;
use super::claims::{Claims, Count, RolledBack};
use super::raw_barrier::Watcher;
use super::raw_group::minimum;
use super::spinning::Learned;
use super::stamps::{Reading, Stamps};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes};
use crate::shim::MutexGuard;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

pub(super) struct RawMulti<S: Sequence> {
    pub(super) claims: Claims<S>,
    pub(super) stamps: Stamps,
    /// Those who read before the readers that make room: without one of them nothing comes to these any more.
    before: OnceLock<Box<[SequenceBarrier<S>]>>,
    /// This one.
    watcher: Weak<dyn Watcher>,
    pub(super) options: Options,
    /// Of producers, and of readers.
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

    /// One whose first number is this.
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

    /// Says who reads. Once, before anybody claims.
    pub(super) fn set_readers(
        &self,
        readers: Box<[SequenceBarrier<S>]>,
        before: Box<[SequenceBarrier<S>]>,
    ) {
        self.claims.set_readers(readers);
        assert!(self.before.set(before).is_ok(), "it is said once");
        self.all_readers().for_each(|reader| reader.raw().watch(self.watcher.clone()));
        // They may have been closed before.
        self.progress();
    }

    fn all_readers(&self) -> impl Iterator<Item = &SequenceBarrier<S>> {
        let before = self.before.get().into_iter().flatten();
        self.claims.readers().iter().chain(before)
    }

    /// The last number that is published, for who knows that all up to `known` are. For readers: who is further behind than a ring's size finds
    /// the numbers that were read meanwhile to be published.
    #[inline]
    pub(super) fn published_from(&self, known: S) -> S {
        let from = self.index_after(known);
        self.claims.number(self.stamps.frontier_from(from).wrapping_sub(1))
    }

    /// The index of the number after this one.
    #[inline]
    pub(super) fn index_after(&self, known: S) -> u64 {
        // Narrow numbers are near what is claimed next; wide ones are what they are.
        let near = if S::LARGEST_RING > u32::MAX as usize { 0 } else { self.claims.next() };
        self.claims.index(known, near).saturating_add(1).max(0).cast_unsigned()
    }

    /// Publishes what was claimed, for who has claimed it. Returns `false` if it was closed because a reader had gone.
    #[inline(always)]
    pub(super) fn publish(&self, indexes: Range<u64>) -> bool {
        if self.stamps.publish(indexes) {
            self.tell();
        }
        !self.stamps.is_deserted()
    }

    /// Gives up what was claimed, for who has claimed it.
    #[cold]
    pub(super) fn give_up(&self, indexes: Range<u64>) {
        match self.claims.roll_back(&indexes) {
            RolledBack::Done => {}
            RolledBack::ForOthers => {
                self.grant_room();
                // MUTANT(multi.rolled_back.ended): false
                if self.is_closed() {
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

    /// Wakes the readers whose number is published, or will never be.
    #[cold]
    #[inline(never)]
    fn tell(&self) {
        let mut wakes = Wakes::default();
        let mut reading = self.stamps.lock();
        self.stamps.settle(&mut reading, None, &mut wakes, || self.claims.next());
        drop(reading);
        wakes.deliver();
    }

    /// What a reader's wait comes to, if it is decided: see [`Stamps::answer`].
    pub(super) fn answer(&self, wanted: u64, from: u64) -> Option<u32> {
        self.stamps.answer(wanted, from, || self.claims.next())
    }

    /// Claims for those who wait what there is room for.
    fn grant_room(&self) {
        let mut wakes = Wakes::default();
        let mut waiters = self.claims.lock();
        self.claims.grant(&mut waiters, &self.watcher, &mut wakes);
        drop(waiters);
        wakes.deliver();
    }

    /// Whether nothing is claimed any more.
    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        self.claims.is_ended()
    }

    /// Whether that is so, and all that was claimed is published or given back.
    pub(super) fn is_finished(&self) -> bool {
        self.is_closed() && {
            let next = self.claims.next();
            self.frontier(next) == next
        }
    }

    /// The index before which all are published, if `next` is claimed next. For who knows nothing else.
    pub(super) fn frontier(&self, next: u64) -> u64 {
        self.stamps.frontier_from(next.saturating_sub(self.stamps.size() as u64))
    }

    /// Lets nobody claim any more. Readers are told of the end when they have what was claimed before.
    pub(super) fn finish(&self) {
        let mut wakes = Wakes::default();
        // First the claims: what is claimed next only falls then, and readers may ask for it.
        self.claims.end(&mut wakes);
        self.stamps.close();
        wakes.deliver();
        self.tell();
    }

    /// The same for who knows that no claim is in hand. Claims that are not published were forgotten, and are given up.
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

/// Called when somebody who reads has got on, or has ended.
impl<S: Sequence> Watcher for RawMulti<S> {
    fn progress(&self) {
        if self.all_readers().any(SequenceBarrier::is_finished) && !self.is_closed() {
            self.stamps.desert();
            self.close();
        } else {
            self.grant_room();
        }
    }
}

impl<S: Sequence> Drop for RawMulti<S> {
    fn drop(&mut self) {
        self.all_readers().for_each(|reader| reader.raw().forget(&self.watcher));
    }
}

/// The sequencer, to be waited for by producers: for room.
pub(super) struct Room<'a, S: Sequence>(pub(super) &'a RawMulti<S>);

/// The sequencer, to be waited for by readers: for what is published.
pub(super) struct Reads<'a, S: Sequence>(pub(super) &'a RawMulti<S>);

macro_rules! common {
    ($($name:ident: $side:literal),*) => {$(
        impl<S: Sequence> Clone for $name<'_, S> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<S: Sequence> Copy for $name<'_, S> {}

        impl<S: Sequence> Awaited for $name<'_, S> {
            fn options(&self) -> Options {
                self.0.options
            }

            fn learned(&self) -> &Learned {
                &self.0.learned[$side]
            }

            fn close(&self) {
                self.0.close();
            }
        }
    )*};
}

common! { Room: 0, Reads: 1 }

impl<S: Sequence> Waitable for Room<'_, S> {
    type State = WaitList;

    fn what(&self) -> &'static str {
        "room of a sequencer"
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.0.claims.lock()
    }

    fn waiters(waiters: &mut WaitList) -> &mut WaitList {
        waiters
    }

    fn try_enter(&self, waiters: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        self.0.claims.enter(waiters, node, &self.0.watcher)
    }

    /// The next one may need less.
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

    fn what(&self) -> &'static str {
        "a number of a sequencer"
    }

    fn state(&self) -> MutexGuard<'_, Reading> {
        self.0.stamps.lock()
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

    /// Nothing was taken.
    fn give_back(&self, _: &WaitNode) {}
}

impl Count {
    /// What a sequencer of this size is asked for: no more than it has.
    pub(super) fn capped(least: usize, most: usize, size: usize) -> Count {
        Count { least: least.min(size) as u32, most: most.min(size) as u32 }
    }
}
