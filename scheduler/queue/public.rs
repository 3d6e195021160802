//! The public queues, from which every worker may take.
//!
//! They are crossbeam-deque's. A simulated machine does not see the accesses inside that crate, so
//! each call here declares the accesses that it makes to shared cache lines (as of crossbeam-deque
//! 0.8). Outside a simulation the declarations compile to nothing. The two indices of a deque share
//! one line; the two of an injector have a line each.

use crate::scheduler::queue::item::Item;
use crate::shim::{Access, Line};
use crossbeam_deque::Steal;

/// The most items that an owner hands over: it fills its public deque up to this number. A thief
/// takes half of it.
pub(crate) const BATCH: usize = 64;

/// A worker's public deque, which the owner pops newest first.
pub(crate) struct Deque {
    real: crossbeam_deque::Worker<Item>,
    line: Line,
}

impl Deque {
    pub(crate) fn new() -> Deque {
        Deque { real: crossbeam_deque::Worker::new_lifo(), line: Line::new() }
    }

    pub(crate) fn thief(&self) -> Thief {
        Thief { real: self.real.stealer(), line: self.line.clone() }
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn push(&self, item: Item) {
        self.line.access(Access::Store);
        self.real.push(item);
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn pop(&self) -> Option<Item> {
        self.line.access(Access::Load);
        if self.real.is_empty() {
            return None;
        }
        self.line.access(Access::Store);
        self.line.access(Access::Fence);
        self.real.pop()
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn len(&self) -> usize {
        self.line.access(Access::Load);
        self.real.len()
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.access(Access::Load);
        self.real.is_empty()
    }
}

/// The thieves' side of a [`Deque`], which yields the oldest item first.
pub(crate) struct Thief {
    real: crossbeam_deque::Stealer<Item>,
    line: Line,
}

impl Thief {
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn len(&self) -> usize {
        self.line.access(Access::Load);
        self.real.len()
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.access(Access::Load);
        self.real.is_empty()
    }

    /// Steals one item.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn steal(&self) -> Steal<Item> {
        self.line.access(Access::Load);
        let stolen = self.real.steal();
        self.access_to_steal();
        stolen
    }

    /// Steals half of the items, at most `most`. Returns one and moves the others to `to`.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn steal_batch_and_pop(&self, to: &Deque, most: usize) -> Steal<Item> {
        self.line.access(Access::Load);
        let before = to.real.len();
        let stolen = self.real.steal_batch_with_limit_and_pop(&to.real, most);
        self.access_to_steal_into(to, before, 1);
        stolen
    }

    /// Steals half of the items, at most `most`, and moves them to `to`. Returns `true` if there
    /// were any.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn steal_batch(&self, to: &Deque, most: usize) -> bool {
        self.line.access(Access::Load);
        let before = to.real.len();
        let stolen = self.real.steal_batch_with_limit(&to.real, most).is_success();
        self.access_to_steal_into(to, before, 0);
        stolen
    }

    #[cfg_attr(feature = "sim", track_caller)]
    fn access_to_steal(&self) {
        self.line.access(Access::Fence);
        self.line.access(Access::Update);
    }

    /// From a deque whose owner pops the newest item, crossbeam takes a batch one item at a time.
    #[cfg_attr(feature = "sim", track_caller)]
    fn access_to_steal_into(&self, to: &Deque, before: usize, besides: usize) {
        let count = to.real.len() - before + besides;
        (0..count.max(1)).for_each(|_| self.access_to_steal());
        to.line.access(Access::Store);
    }
}

/// Steals items until `open` makes something of one. Returns `None` if no item is left.
#[inline(always)]
pub(crate) fn steal_until<T>(
    steal: impl Fn() -> Steal<Item>,
    mut open: impl FnMut(Item) -> Option<T>,
) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(item) => {
                if let Some(opened) = open(item) {
                    return Some(opened);
                }
            }
            Steal::Retry => std::hint::spin_loop(),
            Steal::Empty => return None,
        }
    }
}

/// A FIFO queue that all threads push to and all workers take from.
pub(crate) struct Injector {
    real: crossbeam_deque::Injector<Item>,
    head: Line,
    tail: Line,
}

impl Injector {
    pub(crate) fn new() -> Injector {
        Injector { real: crossbeam_deque::Injector::new(), head: Line::new(), tail: Line::new() }
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn push(&self, item: Item) {
        self.tail.access(Access::Update);
        self.real.push(item);
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn steal(&self) -> Steal<Item> {
        self.access_to_steal();
        self.real.steal()
    }

    /// Steals half of the items, at most `most`. Returns one and moves the others to `to`.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn steal_batch_and_pop(&self, to: &Deque, most: usize) -> Steal<Item> {
        self.access_to_steal();
        to.line.access(Access::Store);
        self.real.steal_batch_with_limit_and_pop(&to.real, most)
    }

    #[cfg_attr(feature = "sim", track_caller)]
    fn access_to_steal(&self) {
        self.tail.access(Access::Load);
        self.head.access(Access::Fence);
        self.head.access(Access::Update);
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn len(&self) -> usize {
        self.head.access(Access::Load);
        self.tail.access(Access::Load);
        self.real.len()
    }

    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.access(Access::Load);
        self.tail.access(Access::Load);
        self.real.is_empty()
    }
}
