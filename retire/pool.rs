//! The warm stacks of one worker.
//!
//! Owner only: plain memory, no atomics. What has just been used is handed out first, as its pages
//! are resident and its top lines may still be in the cache.

use std::array;

use super::guard::{discard, page_size};
use super::memory::StackMemory;
use super::stack::{Stack, StackClass, StackExhausted};

/// What a stack that stays warm keeps resident after a trim, at most.
const KEPT_TOP: usize = 16 << 10;
/// The last stacks used keep all that they touched: a worker that naps between jobs would otherwise
/// pay a page fault for each page of each job.
const KEPT_WHOLE: usize = 4;
/// Stacks given back by one call of `trim`: about a third of a millisecond.
const BATCH: usize = 1024;

/// Warm stacks, by class.
pub(crate) struct StackPool {
    warm: [Warm; StackClass::COUNT],
    /// Stacks of the default class that stay warm over a trim.
    bound: usize,
}

#[derive(Default)]
struct Warm {
    stacks: Vec<Stack>,
    /// Stacks that this pool has fetched and not given back, warm or in use. `stacks` has capacity
    /// for them all, so that `put` never allocates.
    fetched: usize,
}

impl StackPool {
    /// An empty pool that keeps `bound` stacks of the default class or smaller over a [`trim`], and
    /// of larger ones what fits into the same address space.
    ///
    /// [`trim`]: StackPool::trim
    pub(crate) fn new(bound: usize) -> StackPool {
        StackPool { warm: array::from_fn(|_| Warm::default()), bound }
    }

    /// The stack put last, or else a fresh one.
    #[inline]
    pub(crate) fn take(
        &mut self,
        class: StackClass,
        memory: &StackMemory,
    ) -> Result<Stack, StackExhausted> {
        match self.warm[class.index()].stacks.pop() {
            Some(stack) => {
                #[cfg(cygnet_asan)]
                stack.unpoison();
                Ok(stack)
            }
            None => self.fetch(class, memory),
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch(&mut self, class: StackClass, memory: &StackMemory) -> Result<Stack, StackExhausted> {
        let stack = memory.take(class)?;
        let warm = &mut self.warm[class.index()];
        warm.fetched += 1;
        // Called when `stacks` is empty, so this is what the capacity becomes.
        warm.stacks.reserve(warm.fetched);
        Ok(stack)
    }

    /// Keeps the stack for later. The caller may still be running on it, as long as it leaves it
    /// before this pool's owner does anything else: nothing on it is touched.
    ///
    /// Does not allocate if the stack came from this pool.
    #[inline]
    pub(crate) fn put(&mut self, mut stack: Stack) {
        stack.shallow = false;
        self.warm[stack.class().index()].stacks.push(stack);
    }

    /// How many stacks are warm.
    pub(crate) fn warm(&self) -> usize {
        self.warm.iter().map(|warm| warm.stacks.len()).sum()
    }

    /// Gives back what is above the bound, oldest first, a batch at a time, and the deep parts of
    /// what stays. True if more is left: the caller looks for work and comes again.
    ///
    /// Never called from one of these stacks.
    #[must_use = "true means that there is more to trim"]
    pub(crate) fn trim(&mut self, memory: &StackMemory) -> bool {
        let mut more = false;
        for (index, warm) in self.warm.iter_mut().enumerate() {
            let ratio = index.saturating_sub(StackClass::DEFAULT.index());
            let bound = self.bound.checked_shr(ratio as u32).unwrap_or(0);
            let whole = if ratio == 0 { KEPT_WHOLE } else { 0 };
            more |= warm.trim(memory, bound, whole);
        }
        more
    }

    /// Gives back everything. Never called from one of these stacks.
    pub(crate) fn drain(&mut self, memory: &StackMemory) {
        for warm in &mut self.warm {
            let stacks = std::mem::take(&mut warm.stacks);
            warm.fetched = warm.fetched.saturating_sub(stacks.len());
            warm.stacks.reserve_exact(warm.fetched);
            memory.give_back(stacks);
        }
    }
}

impl Warm {
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
    /// Makes all but the top of a stack without frames non-resident. It is not asked first whether
    /// there is anything to discard: the question (`mincore`) costs as much as the answer.
    fn discard_depth(&mut self) {
        if std::mem::replace(&mut self.shallow, true) {
            return;
        }
        let kept = KEPT_TOP.next_multiple_of(page_size());
        let Some(len) = self.class().usable().checked_sub(kept).filter(|&len| len > 0) else {
            return;
        };
        // SAFETY: the stack is warm, so it holds no frame; the range is a whole number of pages
        // from its bottom, inside it.
        unsafe { discard(self.bottom(), len) };
    }
}
