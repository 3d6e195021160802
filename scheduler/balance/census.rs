//! How many tasks of each class a worker has, as others see it.

use crate::scheduler::balance::habits::{CLASSES, Class};
use crate::shim::atomic::{AtomicU8, Ordering};

/// What others see of the tasks of a worker.
pub(crate) struct Census {
    /// Its coroutines for each class. Counts stop at 255, where nothing is spread any more.
    counts: [AtomicU8; CLASSES],
    /// The class that it has too many of, and offers in public; or [`NONE`].
    offered: AtomicU8,
}

/// No class.
const NONE: u8 = u8::MAX;

impl Census {
    pub(crate) fn new() -> Census {
        Census { counts: std::array::from_fn(|_| AtomicU8::new(0)), offered: AtomicU8::new(NONE) }
    }

    pub(crate) fn get(&self, class: Class) -> u8 {
        self.counts[usize::from(class.0)].load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, class: Class, count: u8) {
        self.counts[usize::from(class.0)].store(count, Ordering::Relaxed);
    }

    /// Whether there is nothing, as at the end of a runtime.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// What is offered.
    pub(crate) fn offered(&self) -> Option<Class> {
        let class = self.offered.load(Ordering::Relaxed);
        (class != NONE).then_some(Class(class))
    }

    /// Says what is offered from now on. Returns what was before.
    pub(super) fn offer(&self, class: Option<Class>) -> Option<Class> {
        let before = self.offered();
        if before != class {
            self.offered.store(class.map_or(NONE, |class| class.0), Ordering::Relaxed);
        }
        before
    }
}
