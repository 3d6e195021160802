//! The coroutines of a worker: the running one, the main one, and a ring of all others.

use crate::scheduler::worker::fiber::FiberOf;
use std::cell::Cell;
use std::ptr;

/// See the module's documentation. `W` is the worker, of which this layer knows nothing.
pub(crate) struct Fibers<W> {
    /// The running coroutine.
    pub(crate) running: Cell<*const FiberOf<W>>,
    /// The main coroutine, which is the worker's thread itself.
    pub(crate) main: Cell<*const FiberOf<W>>,
    /// A suspended coroutine with an idle loop; it is not in the ring.
    pub(crate) spare: Cell<*const FiberOf<W>>,
    /// The spare coroutine is to end.
    pub(crate) dismissing: Cell<bool>,
    /// All coroutines but the main one, in a ring without a head.
    ring: Cell<*const FiberOf<W>>,
    /// A guest that has ended. The main coroutine releases its host.
    pub(crate) vacated: Cell<*const FiberOf<W>>,
    /// The coroutine that has just ended, for the sanitizer.
    #[cfg(cygnet_tsan)]
    pub(crate) departed: Cell<*const FiberOf<W>>,
}

impl<W> Fibers<W> {
    pub(crate) fn new() -> Fibers<W> {
        Fibers {
            running: Cell::new(ptr::null()),
            main: Cell::new(ptr::null()),
            spare: Cell::new(ptr::null()),
            dismissing: Cell::new(false),
            ring: Cell::new(ptr::null()),
            vacated: Cell::new(ptr::null()),
            #[cfg(cygnet_tsan)]
            departed: Cell::new(ptr::null()),
        }
    }

    /// Puts a coroutine into the ring.
    pub(super) fn adopt(&self, fiber: &FiberOf<W>) {
        let fiber_ptr = ptr::from_ref(fiber);
        // SAFETY: coroutines in the ring are alive.
        match unsafe { self.ring.get().as_ref() } {
            None => {
                fiber.next.set(fiber_ptr);
                fiber.previous.set(fiber_ptr);
            }
            Some(first) => {
                let last = first.previous.get();
                fiber.next.set(first);
                fiber.previous.set(last);
                first.previous.set(fiber_ptr);
                // SAFETY: coroutines in the ring are alive.
                unsafe { &*last }.next.set(fiber_ptr);
            }
        }
        self.ring.set(fiber_ptr);
    }

    /// Takes a coroutine out of the ring.
    pub(super) fn disown(&self, fiber: &FiberOf<W>) {
        let (next, previous) = (fiber.next.get(), fiber.previous.get());
        if ptr::eq(next, fiber) {
            self.ring.set(ptr::null());
        } else {
            // SAFETY: coroutines in the ring are alive.
            unsafe { &*next }.previous.set(previous);
            // SAFETY: coroutines in the ring are alive.
            unsafe { &*previous }.next.set(next);
            if ptr::eq(self.ring.get(), fiber) {
                self.ring.set(next);
            }
        }
    }

    /// Calls `f` for each coroutine in the ring, which `f` must not change.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&FiberOf<W>)) {
        let first = self.ring.get();
        let mut at = first;
        // SAFETY: coroutines in the ring are alive.
        while let Some(fiber) = unsafe { at.as_ref() } {
            f(fiber);
            at = fiber.next.get();
            if at == first {
                break;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn members(fibers: &Fibers<()>) -> usize {
        let mut count = 0;
        fibers.for_each(|_| count += 1);
        count
    }

    #[test]
    fn a_ring_has_what_was_adopted_and_not_disowned() {
        let fibers = Fibers::new();
        let all: Vec<_> = (0..4).map(|_| FiberOf::of_thread(ptr::null::<()>())).collect();
        for (index, coroutine) in all.iter().enumerate() {
            fibers.adopt(coroutine);
            assert_eq!(members(&fibers), index + 1);
        }
        // The head, one in the middle, and the last one.
        for (index, left) in [(3, 3), (1, 2), (0, 1), (2, 0)] {
            fibers.disown(&all[index]);
            fibers.for_each(|member| assert!(!ptr::eq(member, &all[index])));
            assert_eq!(members(&fibers), left);
        }
    }
}
