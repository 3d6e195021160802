//! The face under the loom model checker.
//!
//! loom has no clock and no names for its threads; models drive the protocols below the scheduler,
//! which need neither. It follows accesses through its own cells and atomics, and lacks three things
//! that are added here:
//!
//! * **The end of an atomic.** When one is dropped every access to it must have happened before, and
//!   none may follow. So whoever frees what others still touch is found, although the memory itself
//!   is the real allocator's ([`Quarantine`] keeps it readable for a while).
//! * **Planted faults** ([`plant`]): a model's negative control weakens one kind of operation in one
//!   source file, so that the protocol's source need not know of it.
//! * **Parking** that is told apart from waiting for a lock: loom's own `unpark` would let a thread
//!   pass that is blocked on a mutex.
//!
//! What loom itself does not do: SeqCst *accesses* count as AcqRel, and a SeqCst fence
//! synchronises with every earlier one, so data that only a pair of fences carries looks
//! handed over. Protocols must rely on neither (see the idiom in the shim's users).

pub(crate) use loom::cell::Cell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::Arc;

pub(crate) mod alloc {
    //! The memory of records, watched: what is freed twice panics, what is left over is counted.
    //! (loom's own watch ends the process when a model fails.)

    use std::alloc::Layout;
    use std::cell::RefCell;
    use std::collections::HashSet;

    thread_local! {
        // All threads of a model run on the test's own thread.
        static LIVE: RefCell<HashSet<usize>> = RefCell::default();
    }

    /// # Safety
    /// As for `std`'s.
    pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        let memory = unsafe { std::alloc::alloc(layout) };
        LIVE.with_borrow_mut(|live| live.insert(memory.addr()));
        memory
    }

    /// # Safety
    /// As for `std`'s.
    pub(crate) unsafe fn dealloc(memory: *mut u8, layout: Layout) {
        let known = LIVE.with_borrow_mut(|live| live.remove(&memory.addr()));
        assert!(known, "memory is freed twice");
        // SAFETY: passed on.
        unsafe { std::alloc::dealloc(memory, layout) }
    }

    /// Starts to count anew; the number of pieces that were left.
    #[cfg(test)]
    pub(crate) fn take_live() -> usize {
        LIVE.take().len()
    }
}

pub(crate) mod plant {
    //! Faults that a negative control plants.

    use std::cell::Cell;
    use std::panic::Location;
    use std::sync::atomic::Ordering;

    /// A kind of operation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Kind {
        Load,
        Store,
        /// Read-modify-write.
        Update,
        Fence,
    }

    /// All operations of these kinds in this source file have no order.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Plant {
        pub(crate) file: &'static str,
        pub(crate) kinds: &'static [Kind],
    }

    thread_local! {
        // All threads of a model run on the test's own thread.
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants a fault for what this test explores from now on.
    #[cfg(test)]
    pub(crate) fn sow(plant: Plant) {
        PLANTED.set(Some(plant));
    }

    #[track_caller]
    pub(super) fn weakens(kind: Kind) -> bool {
        let file = Location::caller().file();
        let planted = PLANTED.get();
        planted.is_some_and(|plant| plant.kinds.contains(&kind) && file.ends_with(plant.file))
    }

    #[track_caller]
    pub(super) fn order(kind: Kind, order: Ordering) -> Ordering {
        if weakens(kind) { Ordering::Relaxed } else { order }
    }
}

pub(crate) mod atomic {
    //! Atomic types and fences, as loom models them, with an end.
    pub(crate) use std::sync::atomic::Ordering;

    use super::plant::{Kind, order, weakens};
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32 as Mark;
    use std::thread::panicking;

    thread_local! {
        static LIVE: Cell<isize> = const { Cell::new(0) };
    }

    /// How many atomics there are, for a model that wants to see all gone.
    #[cfg(test)]
    pub(crate) fn live_atomics() -> isize {
        LIVE.get()
    }

    const ALIVE: u32 = 0xa11c_e5ed;
    const DEAD: u32 = 0xdead_dead;

    #[track_caller]
    pub(crate) fn fence(order: Ordering) {
        if !weakens(Kind::Fence) {
            loom::sync::atomic::fence(order);
        }
    }

    macro_rules! atomic {
        ($name:ident $(<$t:ident>)?, $value:ty, $end:expr) => {
            pub(crate) struct $name $(<$t>)? {
                inner: loom::sync::atomic::$name $(<$t>)?,
                mark: Mark,
            }

            #[allow(dead_code, reason = "each type is used by some protocol, no protocol uses all")]
            impl $(<$t>)? $name $(<$t>)? {
                #[track_caller]
                pub(crate) fn new(value: $value) -> Self {
                    let inner = loom::sync::atomic::$name::new(value);
                    LIVE.set(LIVE.get() + 1);
                    $name { inner, mark: Mark::new(ALIVE) }
                }

                #[track_caller]
                fn touch(&self) -> &loom::sync::atomic::$name $(<$t>)? {
                    let mark = self.mark.load(Ordering::Relaxed);
                    assert_eq!(mark, ALIVE, "an atomic is used after its end");
                    &self.inner
                }

                #[track_caller]
                pub(crate) fn load(&self, o: Ordering) -> $value {
                    self.touch().load(order(Kind::Load, o))
                }

                #[track_caller]
                pub(crate) fn store(&self, value: $value, o: Ordering) {
                    self.touch().store(value, order(Kind::Store, o));
                }

                #[track_caller]
                pub(crate) fn swap(&self, value: $value, o: Ordering) -> $value {
                    self.touch().swap(value, order(Kind::Update, o))
                }

                #[track_caller]
                pub(crate) fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    let success = order(Kind::Update, success);
                    let failure = order(Kind::Update, failure);
                    self.touch().compare_exchange(from, to, success, failure)
                }

                /// Does not fail without reason: to try again is what all callers do.
                #[track_caller]
                pub(crate) fn compare_exchange_weak(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.compare_exchange(from, to, success, failure)
                }
            }

            impl $(<$t>)? Drop for $name $(<$t>)? {
                #[track_caller]
                fn drop(&mut self) {
                    if panicking() {
                        return; // the checker has found something and is not there any more
                    }
                    self.touch();
                    $end(&mut self.inner);
                    self.mark.store(DEAD, Ordering::Relaxed);
                    LIVE.set(LIVE.get() - 1);
                }
            }
        };
    }

    macro_rules! number {
        ($name:ident, $value:ty) => {
            atomic!($name, $value, |a: &mut loom::sync::atomic::$name| a.with_mut(|_| ()));

            #[allow(dead_code, reason = "as above")]
            impl $name {
                #[track_caller]
                pub(crate) fn fetch_add(&self, value: $value, o: Ordering) -> $value {
                    self.touch().fetch_add(value, order(Kind::Update, o))
                }

                #[track_caller]
                pub(crate) fn fetch_sub(&self, value: $value, o: Ordering) -> $value {
                    self.touch().fetch_sub(value, order(Kind::Update, o))
                }

                #[track_caller]
                pub(crate) fn fetch_or(&self, value: $value, o: Ordering) -> $value {
                    self.touch().fetch_or(value, order(Kind::Update, o))
                }

                #[track_caller]
                pub(crate) fn fetch_and(&self, value: $value, o: Ordering) -> $value {
                    self.touch().fetch_and(value, order(Kind::Update, o))
                }

                #[track_caller]
                pub(crate) fn fetch_max(&self, value: $value, o: Ordering) -> $value {
                    self.touch().fetch_max(value, order(Kind::Update, o))
                }
            }

            impl Default for $name {
                #[track_caller]
                fn default() -> Self {
                    $name::new(0)
                }
            }
        };
    }

    // Has no `with_mut`. SAFETY: it is exclusively ours; loom checks that nobody still stores to it.
    atomic!(AtomicBool, bool, |a: &mut loom::sync::atomic::AtomicBool| unsafe { a.unsync_load() });
    atomic!(AtomicPtr<T>, *mut T, |a: &mut loom::sync::atomic::AtomicPtr<T>| a.with_mut(|_| ()));
    number!(AtomicU8, u8);
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);
    number!(AtomicUsize, usize);
}

pub(crate) mod thread {
    //! Threads of a model.
    #[cfg(test)]
    pub(crate) use loom::thread::spawn;
    pub(crate) use loom::thread::yield_now;

    use super::atomic::{AtomicBool, Ordering};
    use std::cell::Cell;
    use std::mem::ManuallyDrop;
    use std::sync::Arc;

    /// A thread, to be woken.
    #[derive(Clone)]
    pub(crate) struct Thread(Arc<Parking>);

    struct Parking {
        thread: loom::thread::Thread,
        /// Without an end: the last clone may go anywhere.
        token: ManuallyDrop<AtomicBool>,
        parked: Cell<bool>,
    }

    loom::thread_local! {
        static PARKING: Thread = Thread(Arc::new(Parking {
            thread: loom::thread::current(),
            token: ManuallyDrop::new(AtomicBool::new(false)),
            parked: Cell::new(false),
        }));
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            // An update, since loom does not see that a plain store comes after the update before it.
            self.0.token.swap(true, Ordering::Release);
            // Nobody else has run since: loom switches before an operation, not after it.
            if self.0.parked.get() {
                self.0.thread.unpark();
            }
        }
    }

    pub(crate) fn current() -> Thread {
        PARKING.with(Thread::clone)
    }

    /// Never returns early: whoever calls it has no other way to go on.
    pub(crate) fn park() {
        let Thread(parking) = current();
        while !parking.token.swap(false, Ordering::Acquire) {
            parking.parked.set(true);
            loom::thread::park();
            parking.parked.set(false);
        }
    }
}

pub(crate) mod time {
    //! The clock: loom has none, so this one is `std`'s and no model may depend on it.
    pub(crate) use std::time::{Duration, Instant};

    pub(crate) fn now() -> Instant {
        Instant::now()
    }
}

pub(crate) fn entropy() -> u64 {
    0x9e37_79b9_7f4a_7c15
}

pub(crate) fn point() {}

/// An allocator that gives memory back late, so that a use after the end finds the mark of death in
/// place and not somebody else's data.
#[cfg(test)]
struct Quarantine {
    ring: std::cell::UnsafeCell<[(*mut u8, std::alloc::Layout); Quarantine::LEN]>,
    next: std::sync::atomic::AtomicUsize,
    busy: std::sync::atomic::AtomicBool,
}

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: Quarantine = Quarantine::new();

#[cfg(test)]
mod quarantine {
    use super::Quarantine;
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    impl Quarantine {
        pub(super) const LEN: usize = 1 << 12;
        /// Records and queues are small, and the checker's own tables need not wait.
        const LARGEST: usize = 2048;

        pub(super) const fn new() -> Quarantine {
            Quarantine {
                ring: UnsafeCell::new([(std::ptr::null_mut(), Layout::new::<u8>()); Self::LEN]),
                next: AtomicUsize::new(0),
                busy: AtomicBool::new(false),
            }
        }
    }

    // SAFETY: the ring is used under `busy` alone; its pointers are freed by whoever takes them out.
    unsafe impl Sync for Quarantine {}

    // SAFETY: all memory comes from the system's allocator, and each piece goes back to it once, with
    // its own layout: when it leaves the ring.
    unsafe impl GlobalAlloc for Quarantine {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: passed on.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            if layout.size() > Self::LARGEST {
                // SAFETY: passed on.
                unsafe { System.dealloc(memory, layout) };
                return;
            }
            while self.busy.swap(true, Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let at = self.next.load(Ordering::Relaxed);
            self.next.store((at + 1) % Self::LEN, Ordering::Relaxed);
            // SAFETY: `busy` is ours.
            let (old, old_layout) =
                unsafe { std::mem::replace(&mut (*self.ring.get())[at], (memory, layout)) };
            self.busy.store(false, Ordering::Release);
            if !old.is_null() {
                // SAFETY: it came from `alloc` with this layout, and has just left the ring.
                unsafe { System.dealloc(old, old_layout) };
            }
        }
    }
}
