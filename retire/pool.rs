//! The warm stacks of one worker.
//!
//! A pool is plain memory without atomics, and only its owner uses it. It hands out the last stack
//! that was put, because the pages of that stack are resident and its top lines may still be in the
//! cache.

use std::array;

use super::guard::{Pages, page_size};
use super::memory::StackMemory;
use super::stack::{Stack, StackClass, StackExhausted};

/// The bytes below its end that a warm stack keeps resident after a trim, at most.
const KEPT_TOP: usize = 16 << 10;
/// The number of stacks of a class, the ones used last, that keep all pages they have touched. A
/// worker that naps between jobs would otherwise pay a page fault for each page of each job.
const KEPT_WHOLE: usize = 4;
/// The largest number of fresh stacks fetched beyond the requested one.
const FETCH: usize = 15;
/// Stacks given back by one call of `trim`, which takes about a third of a millisecond.
const BATCH: usize = 1024;

/// Warm stacks, by class.
pub(crate) struct StackPool {
    warm: [Warm; StackClass::COUNT],
    /// Stacks of the default class that stay warm over a trim.
    bound: usize,
    /// The least number of fresh stacks that a fetch asks for beyond the requested one.
    reserve: usize,
    /// The number of calls of `take`, modulo 2^64.
    takes: u64,
}

#[derive(Default)]
/// The warm stacks of one class.
struct Warm {
    /// The stack put last is at the end.
    stacks: Vec<Stack>,
    /// Stacks that this pool has fetched and not given back, warm or in use. `stacks` has capacity
    /// for all of them, so that `put` never allocates.
    fetched: usize,
}

impl StackPool {
    /// Creates an empty pool.
    ///
    /// Over a [`trim`](StackPool::trim) it keeps `bound` stacks of the default class and of each
    /// smaller one. Of each larger class it keeps as many as fit into the same address space.
    pub(crate) fn new(bound: usize) -> StackPool {
        StackPool { warm: array::from_fn(|_| Warm::default()), bound, reserve: 0, takes: 0 }
    }

    /// Makes each fetch a large one. For one of many pools, which would otherwise wait for each
    /// other at the memory's lock when all of them begin to be used. The price: a runtime that ends
    /// soon has more stacks to give back, and its slab has too many guards to be kept for the next.
    pub(crate) fn for_a_crowd(self) -> StackPool {
        StackPool { reserve: FETCH, ..self }
    }

    /// Takes the stack put last, or else a fresh one.
    #[inline]
    pub(crate) fn take(
        &mut self,
        class: StackClass,
        memory: &StackMemory,
    ) -> Result<Stack, StackExhausted> {
        self.takes = self.takes.wrapping_add(1);
        match self.warm[class.index()].stacks.pop() {
            Some(stack) => {
                #[cfg(cygnet_asan)]
                stack.unpoison();
                Ok(stack)
            }
            None => self.fetch(class, memory),
        }
    }

    /// Takes a fresh stack, and some more for later.
    #[cold]
    #[inline(never)]
    fn fetch(&mut self, class: StackClass, memory: &StackMemory) -> Result<Stack, StackExhausted> {
        let warm = &mut self.warm[class.index()];
        // As many extra stacks as the pool has, up to `FETCH`, so that a few tasks cause few
        // fetches.
        let wanted = warm.fetched.clamp(self.reserve, FETCH);
        let (stack, extra) = memory.take_several(class, wanted)?;
        warm.fetched += 1 + extra.len();
        // The vector is empty here, so its capacity becomes `fetched`.
        warm.stacks.reserve(warm.fetched);
        // The lowest address is taken next: adjacent stacks share page tables.
        warm.stacks.extend(extra.into_iter().rev());
        Ok(stack)
    }

    /// Keeps the stack for later. Does not touch the memory of the stack, so the caller may still
    /// be running on it, provided that it leaves the stack before the pool is used again.
    ///
    /// Does not allocate if the stack came from this pool.
    #[inline]
    pub(crate) fn put(&mut self, mut stack: Stack) {
        stack.set_shallow(false);
        self.warm[stack.class().index()].stacks.push(stack);
    }

    /// Returns the number of calls of `take` so far. Its growth over an interval is an upper bound
    /// on the stacks that were needed at once during the interval.
    pub(crate) fn takes(&self) -> u64 {
        self.takes
    }

    /// Returns the number of warm stacks.
    pub(crate) fn warm(&self) -> usize {
        self.warm.iter().map(|warm| warm.stacks.len()).sum()
    }

    /// Gives back the stacks above the bound, one batch per call, and then discards the depth of
    /// most of the stacks that stay. Returns `true` if more stacks are left to give back: the
    /// caller looks for work and calls again.
    ///
    /// `in_use` is the number of stacks that the worker has needed recently. At least that many of
    /// each class stay, with all pages that they have touched.
    ///
    /// Must not be called on one of the pool's stacks.
    #[must_use = "true means that there is more to trim"]
    pub(crate) fn trim(&mut self, memory: &StackMemory, in_use: usize) -> bool {
        let mut more = false;
        for (index, warm) in self.warm.iter_mut().enumerate() {
            let (bound, whole) = kept(self.bound, index);
            more |= warm.trim(memory, bound.max(in_use), whole.max(in_use));
        }
        more
    }

    /// Returns whether a `trim` with `in_use` 0 would give anything back. Costs up to one load for
    /// each warm stack within the bound.
    pub(crate) fn exceeds_bound(&self) -> bool {
        self.warm.iter().enumerate().any(|(index, warm)| {
            let (bound, whole) = kept(self.bound, index);
            let deep = warm.stacks.len().saturating_sub(whole);
            warm.stacks.len() > bound || !warm.stacks[..deep].iter().all(Stack::is_shallow)
        })
    }

    /// Gives back all warm stacks. Must not be called on one of them.
    pub(crate) fn drain(&mut self, memory: &StackMemory) {
        for warm in &mut self.warm {
            memory.give_back(warm.take_all());
        }
    }

    /// Gives back all warm stacks when the owner ends. If at most `KEPT_WHOLE` of them are of the
    /// default class, the memory of these is not discarded.
    pub(crate) fn close(&mut self, memory: &StackMemory) {
        let few = &mut self.warm[StackClass::DEFAULT.index()];
        if few.stacks.len() <= KEPT_WHOLE {
            memory.give_back_warm(few.take_all());
        }
        self.drain(memory);
    }
}

/// Returns how many stacks of a class stay warm if `bound` of the default class do, and how many of
/// them keep all pages that they have touched.
fn kept(bound: usize, class: usize) -> (usize, usize) {
    let ratio = class.saturating_sub(StackClass::DEFAULT.index());
    let bound = bound.checked_shr(ratio as u32).unwrap_or(0);
    (bound, if ratio == 0 { KEPT_WHOLE } else { 0 })
}

impl Warm {
    /// Removes all stacks. Keeps capacity for the fetched stacks that are in use.
    fn take_all(&mut self) -> Vec<Stack> {
        let stacks = std::mem::take(&mut self.stacks);
        self.fetched = self.fetched.saturating_sub(stacks.len());
        self.stacks.reserve_exact(self.fetched);
        stacks
    }

    /// Does the work of `StackPool::trim` for one class, of which `bound` stacks stay, `whole` of
    /// them with all pages that they have touched.
    fn trim(&mut self, memory: &StackMemory, bound: usize, whole: usize) -> bool {
        let surplus = self.stacks.len().saturating_sub(bound);
        if surplus > 0 {
            let end = self.stacks.len() - bound;
            let count = surplus.min(BATCH);
            memory.give_back(self.stacks.drain(end - count..end));
            self.fetched = self.fetched.saturating_sub(count);
        }
        if surplus > BATCH {
            return true;
        }
        if self.stacks.capacity() > 4 * (self.fetched + bound) {
            self.stacks.shrink_to(self.fetched);
        }
        let deep = self.stacks.len().saturating_sub(whole);
        for stack in &mut self.stacks[..deep] {
            stack.discard_depth();
        }
        false
    }
}

impl Stack {
    /// Makes all but the top of the stack non-resident. Does not ask first whether there is
    /// anything to discard: asking (`mincore`) costs as much as discarding.
    fn discard_depth(&mut self) {
        if self.is_shallow() {
            return;
        }
        self.set_shallow(true);
        let kept = KEPT_TOP.next_multiple_of(page_size());
        let Some(len) = self.class().usable().checked_sub(kept).filter(|&len| len > 0) else {
            return;
        };
        // SAFETY: the stack is warm, so it holds no frame, and its handle owns the memory. The
        // range begins at its bottom, ends inside it and is a whole number of pages.
        unsafe { Pages::new(self.bottom(), len) }.discard();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CLASS: StackClass = StackClass::DEFAULT;

    fn unlimited(bound: usize) -> (StackMemory, StackPool) {
        (StackMemory::new(None), StackPool::new(bound))
    }

    /// Fetches `count` stacks and puts them all. Returns their bottoms in that order.
    fn fill(pool: &mut StackPool, memory: &StackMemory, count: usize) -> Vec<*mut u8> {
        let stacks: Vec<_> = (0..count).map(|_| pool.take(CLASS, memory).unwrap()).collect();
        let bottoms = stacks.iter().map(Stack::bottom).collect();
        stacks.into_iter().for_each(|stack| pool.put(stack));
        bottoms
    }

    fn trim_all(pool: &mut StackPool, memory: &StackMemory) -> usize {
        let mut calls = 1;
        while pool.trim(memory, 0) {
            calls += 1;
            assert!(calls < 1_000);
        }
        calls
    }

    fn is_zero(at: *mut u8) -> bool {
        // SAFETY: the tests read only from stacks that they or their pool own, which are mapped.
        unsafe { at.read() == 0 }
    }

    fn write_one(at: *mut u8) {
        // SAFETY: the tests write only to stacks that they or their pool own. No frame lives there.
        unsafe { at.write(1) };
    }

    #[test]
    fn the_stack_put_last_is_taken_first() {
        let (memory, mut pool) = unlimited(8);
        let bottoms = fill(&mut pool, &memory, 5);
        for &bottom in bottoms.iter().rev() {
            let stack = pool.take(CLASS, &memory).unwrap();
            assert_eq!(stack.bottom(), bottom);
        }
    }

    #[test]
    fn fresh_stacks_are_fetched_several_at_a_time_unless_limited() {
        let fetched = |memory: StackMemory, count: usize| {
            let mut pool = StackPool::new(8);
            fill(&mut pool, &memory, count);
            let fetched = memory.counters().live;
            assert_eq!(fetched, pool.warm());
            pool.drain(&memory);
            assert_eq!(memory.counters().live, 0);
            fetched
        };
        assert_eq!(fetched(StackMemory::new(None), 1), 1);
        for count in [2, 10, 100, 2_000] {
            let several = fetched(StackMemory::new(None), count);
            assert!((count..=count + FETCH).contains(&several), "{several} for {count}");
            assert_eq!(fetched(StackMemory::new(Some(10_000)), count), count);
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn one_of_many_pools_fetches_many_stacks_at_once() {
        use crate::retire::guard::GuardKind;

        // Slabs of another class than the default have no guards from a runtime before.
        let small = StackClass::for_size(16 << 10).unwrap();
        assert!(small < CLASS);
        let memory = StackMemory::new(None);
        let mut pool = StackPool::new(8).for_a_crowd();
        let stack = pool.take(small, &memory).unwrap();
        pool.put(stack);
        let markers = GuardKind::of_this_kernel() == GuardKind::Marker;
        assert_eq!(pool.warm(), if markers { 1 + FETCH } else { 1 });
        pool.drain(&memory);
        assert_eq!(memory.counters().live, 0);
    }

    #[test]
    fn classes_do_not_mix() {
        let (memory, mut pool) = unlimited(8);
        fill(&mut pool, &memory, 1);
        let large = StackClass::for_size(1 << 20).unwrap();
        let stack = pool.take(large, &memory).unwrap();
        assert_eq!(stack.class(), large);
        assert_eq!(pool.warm(), 1);
        pool.put(stack);
        pool.drain(&memory);
    }

    #[test]
    fn putting_a_stack_touches_nothing_on_it() {
        let (memory, mut pool) = unlimited(0);
        let stack = pool.take(CLASS, &memory).unwrap();
        let (bottom, last) = (stack.bottom(), stack.limit_top().wrapping_sub(1));
        write_one(bottom);
        write_one(last);
        pool.put(stack);
        assert!(!is_zero(bottom) && !is_zero(last));
        pool.drain(&memory);
    }

    #[test]
    fn putting_fetched_stacks_never_grows_the_list() {
        let (memory, mut pool) = unlimited(2);
        let index = CLASS.index();
        for count in [1, 7, 300, 40] {
            let stacks: Vec<_> = (0..count).map(|_| pool.take(CLASS, &memory).unwrap()).collect();
            // A few stacks stay in use over a trim.
            let capacity = pool.warm[index].stacks.capacity();
            let mut stacks = stacks.into_iter();
            stacks.by_ref().take(count / 2).for_each(|stack| pool.put(stack));
            assert_eq!(pool.warm[index].stacks.capacity(), capacity);
            trim_all(&mut pool, &memory);
            let capacity = pool.warm[index].stacks.capacity();
            stacks.for_each(|stack| pool.put(stack));
            assert_eq!(pool.warm[index].stacks.capacity(), capacity);
            trim_all(&mut pool, &memory);
        }
        pool.drain(&memory);
        assert_eq!(memory.counters().live, 0);
    }

    #[test]
    fn a_trim_keeps_the_stacks_used_last_and_runs_in_batches() {
        for (count, calls) in [(10, 1), (2 * BATCH + 10, 3)] {
            let (memory, mut pool) = unlimited(3);
            let bottoms = fill(&mut pool, &memory, count);
            assert_eq!(trim_all(&mut pool, &memory), calls);
            assert_eq!((pool.warm(), memory.counters().live), (3, 3));
            for &bottom in bottoms.iter().rev().take(3) {
                assert_eq!(pool.take(CLASS, &memory).unwrap().bottom(), bottom);
            }
        }
    }

    #[test]
    fn the_stack_put_last_stays_warm_between_the_batches_of_a_trim() {
        let (memory, mut pool) = unlimited(3);
        let bottoms = fill(&mut pool, &memory, BATCH + 10);
        assert!(pool.trim(&memory, 0));
        let stack = pool.take(CLASS, &memory).unwrap();
        assert_eq!(stack.bottom(), bottoms[bottoms.len() - 1]);
        pool.put(stack);
        pool.drain(&memory);
        assert_eq!(memory.counters().live, 0);
    }

    #[test]
    fn a_trim_discards_depth_except_of_the_stacks_used_last() {
        let (memory, mut pool) = unlimited(KEPT_WHOLE + 2);
        let stacks: Vec<_> =
            (0..KEPT_WHOLE + 2).map(|_| pool.take(CLASS, &memory).unwrap()).collect();
        let ends: Vec<_> = stacks
            .iter()
            .map(|stack| (stack.bottom(), stack.limit_top().wrapping_sub(KEPT_TOP)))
            .collect();
        for &(bottom, kept) in &ends {
            write_one(bottom);
            write_one(kept);
        }
        stacks.into_iter().for_each(|stack| pool.put(stack));
        trim_all(&mut pool, &memory);
        for (index, &(bottom, kept)) in ends.iter().enumerate() {
            assert_eq!(is_zero(bottom), index < 2, "stack {index}");
            assert!(!is_zero(kept), "stack {index}");
        }
        // A stack that has not been used since is not discarded again.
        write_one(ends[0].0);
        trim_all(&mut pool, &memory);
        assert!(!is_zero(ends[0].0));
        pool.drain(&memory);
    }

    #[test]
    fn large_stacks_are_bounded_by_address_space_and_not_by_number() {
        let (memory, mut pool) = unlimited(8);
        let larger = StackClass::from_index(CLASS.index() + 2);
        let huge = StackClass::from_index(CLASS.index() + 8);
        for class in [larger, huge] {
            let stacks: Vec<_> = (0..5).map(|_| pool.take(class, &memory).unwrap()).collect();
            stacks.into_iter().for_each(|stack| pool.put(stack));
        }
        trim_all(&mut pool, &memory);
        assert_eq!(pool.warm[larger.index()].stacks.len(), 2);
        assert_eq!(pool.warm[huge.index()].stacks.len(), 0);
        pool.drain(&memory);
    }

    #[test]
    fn a_failed_take_returns_the_reason_and_changes_nothing() {
        let memory = StackMemory::new(Some(1));
        let mut pool = StackPool::new(8);
        let stack = pool.take(CLASS, &memory).unwrap();
        let reason = pool.take(CLASS, &memory).unwrap_err();
        assert_eq!(reason, StackExhausted::Limit);
        pool.put(stack);
        let stack = pool.take(CLASS, &memory).unwrap();
        memory.give_back([stack]);
    }
}
