//! A worker's census: how many tasks of each class it has, published to the other workers.

use crate::scheduler::balance::habits::{CLASSES, Class};
use crate::shim::atomic::{AtomicU8, Ordering};

/// The tasks of a worker, as the other workers see them.
pub(crate) struct Census {
    /// The worker's fibers, by class. Counts stop at 255, where nothing is spread any more.
    counts: [AtomicU8; CLASSES],
    /// The class that the worker has too many tasks of, and offers in public; or [`NONE`].
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

    /// Whether all counts are zero, as at the end of a runtime.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// The class that the worker offers.
    pub(crate) fn offered(&self) -> Option<Class> {
        let class = self.offered.load(Ordering::Relaxed);
        (class != NONE).then_some(Class(class))
    }

    /// Sets the class that is offered from now on. Returns the previous one.
    pub(super) fn offer(&self, class: Option<Class>) -> Option<Class> {
        let before = self.offered();
        if before != class {
            self.offered.store(class.map_or(NONE, |class| class.0), Ordering::Relaxed);
        }
        before
    }
}
