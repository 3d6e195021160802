//! The coroutines of a worker: the one that runs, the main one, and a ring of all others.

use crate::scheduler::worker::coroutine::Coroutine;
use std::cell::Cell;
use std::ptr;

/// See the module's documentation. `W` is the worker, of which this module knows nothing.
pub(crate) struct Coroutines<W> {
    /// The coroutine that runs.
    pub(crate) running: Cell<*const Coroutine<W>>,
    /// The coroutine that the worker's thread is.
    pub(crate) main: Cell<*const Coroutine<W>>,
    /// A coroutine whose loop has nothing to do, suspended and out of the ring.
    pub(crate) spare: Cell<*const Coroutine<W>>,
    /// The spare one is to end.
    pub(crate) dismissing: Cell<bool>,
    /// All coroutines but main, in a ring without a head.
    ring: Cell<*const Coroutine<W>>,
    /// A guest that has ended; main sees to its host.
    pub(crate) vacated: Cell<*const Coroutine<W>>,
    /// The coroutine that has just ended, for the sanitizer.
    #[cfg(cygnet_tsan)]
    pub(crate) departed: Cell<*const Coroutine<W>>,
}

impl<W> Coroutines<W> {
    pub(crate) fn new() -> Coroutines<W> {
        Coroutines {
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

    /// Enters a coroutine into the worker's ring.
    pub(super) fn adopt(&self, strand: &Coroutine<W>) {
        let strand_ptr = ptr::from_ref(strand);
        // SAFETY: coroutines in the ring are alive.
        match unsafe { self.ring.get().as_ref() } {
            None => {
                strand.next.set(strand_ptr);
                strand.previous.set(strand_ptr);
            }
            Some(first) => {
                let last = first.previous.get();
                strand.next.set(first);
                strand.previous.set(last);
                first.previous.set(strand_ptr);
                // SAFETY: coroutines in the ring are alive.
                unsafe { &*last }.next.set(strand_ptr);
            }
        }
        self.ring.set(strand_ptr);
    }

    /// Takes a coroutine out of the ring.
    pub(super) fn disown(&self, strand: &Coroutine<W>) {
        let (next, previous) = (strand.next.get(), strand.previous.get());
        if ptr::eq(next, strand) {
            self.ring.set(ptr::null());
        } else {
            // SAFETY: coroutines in the ring are alive.
            unsafe { &*next }.previous.set(previous);
            // SAFETY: coroutines in the ring are alive.
            unsafe { &*previous }.next.set(next);
            if ptr::eq(self.ring.get(), strand) {
                self.ring.set(next);
            }
        }
    }

    /// Calls `f` for each coroutine in the ring, which `f` must not change.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Coroutine<W>)) {
        let first = self.ring.get();
        let mut at = first;
        // SAFETY: coroutines in the ring are alive.
        while let Some(strand) = unsafe { at.as_ref() } {
            f(strand);
            at = strand.next.get();
            if at == first {
                break;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn members(coroutines: &Coroutines<()>) -> usize {
        let mut count = 0;
        coroutines.for_each(|_| count += 1);
        count
    }

    #[test]
    fn a_ring_has_what_was_adopted_and_not_disowned() {
        let coroutines = Coroutines::new();
        let all: Vec<_> = (0..4).map(|_| Coroutine::of_thread(ptr::null::<()>())).collect();
        for (index, coroutine) in all.iter().enumerate() {
            coroutines.adopt(coroutine);
            assert_eq!(members(&coroutines), index + 1);
        }
        // The head, one in the middle, and the last one.
        for (index, left) in [(3, 3), (1, 2), (0, 1), (2, 0)] {
            coroutines.disown(&all[index]);
            coroutines.for_each(|member| assert!(!ptr::eq(member, &all[index])));
            assert_eq!(members(&coroutines), left);
        }
    }
}
