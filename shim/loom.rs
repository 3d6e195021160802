//! The face under the loom model checker.
//!
//! loom has no clock and no names for its threads; models drive the protocols below the scheduler,
//! which need neither. It follows accesses through its own cells and atomics. This face makes up
//! for its shortcomings:
//!
//! * **Completeness if a thread loads and then updates.** To know which orders are worth trying,
//!   loom remembers one last access to each atomic. A thread's own load thus hides the loads of
//!   others from its compare-and-swap, and whole classes of interleavings are never tried. Here
//!   each access first takes its `turn`, an update of a companion atomic without order, so that any
//!   two accesses to an atomic count as dependent. The access itself then is no choice of its own,
//!   except for loads, which may return old values. This costs executions, and finds most of the
//!   faults that the negative controls plant.
//! * **A total order of stores.** loom keeps a partial order, which it may forget to extend when a
//!   store is read, and then lets a thread read a value that it has seen overwritten. Here a store
//!   first looks at the newest one: stores are ordered as they are executed.
//! * **The end of an atomic.** Every access to an atomic must happen before its drop, and none may
//!   follow. This finds code that frees memory which other threads still use, although the memory
//!   itself comes from the real allocator ([`Quarantine`] keeps it readable for a while).
//! * **Planted faults** ([`plant`]): a model's negative control weakens one kind of operation in
//!   one source file, so that the protocol's source need not know of it.
//! * **Parking** that is told apart from waiting for a lock: loom's own `unpark` would let a thread
//!   pass that is blocked on a mutex.
//!
//! Limits that remain: SeqCst *accesses* count as AcqRel. A SeqCst fence synchronises with every
//! earlier one, so data that only a pair of fences carries looks published (a model can plant the
//! absence of the fences to check this). An atomic remembers its last seven stores. A preemption
//! bound is a bound.

pub(crate) use super::unsimulated::*;
pub(crate) use loom::cell::Cell;
pub(crate) use loom::hint::spin_loop;
pub(crate) use std::sync::Arc;
pub(crate) use std::thread::panicking;
pub(crate) use std::thread_local;

super::locks::locks!([] loom::sync);

pub(crate) mod unmodelled {
    //! Threads and locks that models leave out: here, too, the types of `std`. In a simulation they
    //! are simulated.
    pub(crate) use crate::shim::real::{Condvar, Mutex};
    pub(crate) use std::thread;
}

pub(crate) mod alloc {
    //! The memory of records, watched: a double free panics, and leaked pieces are counted. (loom's
    //! own watch ends the process when a model fails.)

    use std::alloc::Layout;
    use std::cell::RefCell;
    use std::collections::HashSet;

    thread_local! {
        // All threads of a model run on the test's own thread.
        static LIVE: RefCell<HashSet<usize>> = RefCell::default();
    }

    /// # Safety
    /// The contract of [`std::alloc::alloc`].
    pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `std::alloc::alloc`.
        let memory = unsafe { std::alloc::alloc(layout) };
        LIVE.with_borrow_mut(|live| live.insert(memory.addr()));
        memory
    }

    /// # Safety
    /// The contract of [`std::alloc::dealloc`].
    pub(crate) unsafe fn dealloc(memory: *mut u8, layout: Layout) {
        let known = LIVE.with_borrow_mut(|live| live.remove(&memory.addr()));
        assert!(known, "memory is freed twice");
        // SAFETY: the caller keeps the contract of `std::alloc::dealloc`, and the memory has not
        // been freed yet.
        unsafe { std::alloc::dealloc(memory, layout) }
    }

    /// Restarts the count. Returns the number of pieces that had not been freed.
    #[cfg(test)]
    pub(crate) fn take_live() -> usize {
        LIVE.take().len()
    }
}

pub(crate) mod plant {
    //! Faults planted by negative controls.

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

    /// A fault: all operations of these kinds in this source file have no order.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Plant {
        pub(crate) file: &'static str,
        pub(crate) kinds: &'static [Kind],
    }

    thread_local! {
        // All threads of a model run on the test's own thread.
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants a fault in the executions that this test explores from now on.
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
    //! Atomic types and fences as loom models them, with a check of their end.
    pub(crate) use std::sync::atomic::Ordering;

    use super::plant::{Kind, order, weakens};
    use loom::sync::atomic::AtomicBool as Turn;
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32 as Canary;
    use std::thread::panicking;

    thread_local! {
        static LIVE: Cell<isize> = const { Cell::new(0) };
    }

    /// Returns the number of live atomics, for a model that checks that all are gone.
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

    /// Runs an operation before which no other thread need run, since its turn has just been taken.
    #[track_caller]
    fn alone<T>(operation: impl FnOnce() -> T) -> T {
        loom::stop_exploring();
        let result = operation();
        loom::explore();
        result
    }

    macro_rules! atomic {
        ($name:ident $(<$t:ident>)?, $value:ty: $($update:ident),*; $see:expr, $end:expr) => {
            pub(crate) struct $name $(<$t>)? {
                inner: loom::sync::atomic::$name $(<$t>)?,
                /// Updated before every access, so that any two accesses count as dependent (see
                /// the face's documentation).
                turn: Turn,
                canary: Canary,
            }

            #[allow(dead_code, reason = "each type is used by some protocol, no protocol uses all")]
            impl $(<$t>)? $name $(<$t>)? {
                #[track_caller]
                pub(crate) fn new(value: $value) -> Self {
                    let inner = loom::sync::atomic::$name::new(value);
                    LIVE.set(LIVE.get() + 1);
                    $name { inner, turn: Turn::new(false), canary: Canary::new(ALIVE) }
                }

                #[track_caller]
                fn touch(&self) -> &loom::sync::atomic::$name $(<$t>)? {
                    let canary = self.canary.load(Ordering::Relaxed);
                    assert_eq!(canary, ALIVE, "an atomic is used after its end");
                    self.turn.swap(false, Ordering::Relaxed);
                    &self.inner
                }

                #[track_caller]
                pub(crate) fn load(&self, o: Ordering) -> $value {
                    self.touch().load(order(Kind::Load, o))
                }

                #[track_caller]
                pub(crate) fn store(&self, value: $value, o: Ordering) {
                    let o = order(Kind::Store, o);
                    let inner = self.touch();
                    alone(|| {
                        // So that this store comes after all stores so far.
                        let _ = $see(inner);
                        inner.store(value, o);
                    });
                }

                $(
                    #[track_caller]
                    pub(crate) fn $update(&self, value: $value, o: Ordering) -> $value {
                        let o = order(Kind::Update, o);
                        let inner = self.touch();
                        alone(|| inner.$update(value, o))
                    }
                )*

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
                    let inner = self.touch();
                    alone(|| inner.compare_exchange(from, to, success, failure))
                }

                loops! { $value }
            }

            impl $(<$t>)? Drop for $name $(<$t>)? {
                #[track_caller]
                fn drop(&mut self) {
                    if panicking() {
                        return; // the checker has found something and is not there any more
                    }
                    let canary = self.canary.load(Ordering::Relaxed);
                    assert_eq!(canary, ALIVE, "an atomic ends twice");
                    $end(&mut self.inner);
                    self.canary.store(DEAD, Ordering::Relaxed);
                    LIVE.set(LIVE.get() - 1);
                }
            }
        };
    }

    macro_rules! number {
        ($name:ident, $value:ty) => {
            atomic!(
                $name,
                $value: swap, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max;
                |a: &loom::sync::atomic::$name| a.compare_exchange(
                    <$value>::MAX - 1,
                    <$value>::MAX - 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed
                ),
                |a: &mut loom::sync::atomic::$name| a.with_mut(|_| ())
            );

            impl Default for $name {
                #[track_caller]
                fn default() -> Self {
                    $name::new(0)
                }
            }
        };
    }

    // loom's type has no `with_mut`, and a bool has no value that never occurs.
    atomic!(
        AtomicBool,
        bool: swap;
        |_: &loom::sync::atomic::AtomicBool| (),
        // SAFETY: the access is exclusive by `&mut`. loom checks that no store is concurrent with
        // it.
        |a: &mut loom::sync::atomic::AtomicBool| unsafe { a.unsync_load() }
    );
    atomic!(
        AtomicPtr<T>,
        *mut T: swap;
        |a: &loom::sync::atomic::AtomicPtr<T>| {
            let nowhere = std::ptr::without_provenance_mut(1);
            a.compare_exchange(nowhere, nowhere, Ordering::Relaxed, Ordering::Relaxed)
        },
        |a: &mut loom::sync::atomic::AtomicPtr<T>| a.with_mut(|_| ())
    );
    number!(AtomicU8, u8);
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);
    number!(AtomicUsize, usize);
}

pub(crate) mod thread {
    //! Threads of a model.
    pub(crate) use loom::thread::yield_now;

    #[cfg(test)]
    thread_local! {
        // All threads of a model run on the test's own thread.
        static RUNNING: Cell<usize> = const { Cell::new(0) };
    }

    #[cfg(test)]
    pub(crate) fn spawn<T: 'static>(
        f: impl FnOnce() -> T + 'static,
    ) -> loom::thread::JoinHandle<T> {
        RUNNING.set(RUNNING.get() + 1);
        loom::thread::spawn(|| {
            let result = f();
            RUNNING.set(RUNNING.get() - 1);
            result
        })
    }

    /// Returns how many threads of the model have not ended.
    #[cfg(test)]
    pub(crate) fn running() -> usize {
        RUNNING.get()
    }

    /// Yields: time does not pass in a model.
    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }

    use super::atomic::{AtomicBool, Ordering};
    use std::cell::{Cell, OnceCell, RefCell};
    use std::mem::ManuallyDrop;
    use std::sync::Arc;

    /// A handle for waking a thread.
    #[derive(Clone)]
    pub(crate) struct Thread(Arc<Parking>);

    struct Parking {
        thread: OnceCell<loom::thread::Thread>,
        /// Never dropped: the last clone may be dropped at any time.
        token: ManuallyDrop<AtomicBool>,
        parked: Cell<bool>,
    }

    loom::thread_local! {
        static PARKING: Thread = {
            let place = PLACES.with_borrow_mut(Vec::pop).expect("a place for each thread");
            let _ = place.0.thread.set(loom::thread::current());
            place
        };
    }

    thread_local! {
        // All threads of a model run on the test's own thread.
        static PLACES: RefCell<Vec<Thread>> = const { RefCell::new(Vec::new()) };
    }

    /// Makes the places where threads park. To be called first in a model: loom does not see how a
    /// place would be published to other threads (a `OnceLock`), so all places exist before the
    /// threads.
    #[cfg(test)]
    pub(crate) fn prepare() {
        RUNNING.set(0);
        let place = || {
            Thread(Arc::new(Parking {
                thread: OnceCell::new(),
                token: ManuallyDrop::new(AtomicBool::new(false)),
                parked: Cell::new(false),
            }))
        };
        PLACES.set((0..loom::MAX_THREADS).map(|_| place()).collect());
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            // An update, since loom does not see that a plain store comes after the update before
            // it.
            self.0.token.swap(true, Ordering::Release);
            // No other thread has run since: loom switches before an operation, not after it.
            if self.0.parked.get() {
                self.0.thread.get().expect("set by the thread itself").unpark();
            }
        }
    }

    pub(crate) fn current() -> Thread {
        PARKING.with(Thread::clone)
    }

    /// Parks the thread. Never returns early, as a caller has no other way to go on.
    pub(crate) fn park() {
        let Thread(parking) = current();
        while !parking.token.swap(false, Ordering::Acquire) {
            parking.parked.set(true);
            loom::thread::park();
            parking.parked.set(false);
        }
    }
}

pub(crate) fn entropy() -> u64 {
    0x9e37_79b9_7f4a_7c15
}

/// An allocator that frees memory late, so that a use after the end finds the canary `DEAD` in
/// place instead of other data.
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
        /// The largest size that is kept. Records and queues are small, and the checker's own
        /// tables need not wait.
        const LARGEST: usize = 2048;

        pub(super) const fn new() -> Quarantine {
            Quarantine {
                ring: UnsafeCell::new([(std::ptr::null_mut(), Layout::new::<u8>()); Self::LEN]),
                next: AtomicUsize::new(0),
                busy: AtomicBool::new(false),
            }
        }
    }

    // SAFETY: the ring is accessed only under `busy`, and a pointer that is taken out of it is
    // freed once, by the thread that took it out.
    unsafe impl Sync for Quarantine {}

    // SAFETY: all memory comes from the system's allocator, and each piece goes back to it once,
    // with its own layout, when it leaves the ring.
    unsafe impl GlobalAlloc for Quarantine {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller keeps the contract of `alloc`, which is that of the system's
            // allocator.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            if layout.size() > Self::LARGEST {
                // SAFETY: the memory came from the system's allocator with this layout, by the
                // caller's contract.
                unsafe { System.dealloc(memory, layout) };
                return;
            }
            while self.busy.swap(true, Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let at = self.next.load(Ordering::Relaxed);
            self.next.store((at + 1) % Self::LEN, Ordering::Relaxed);
            // SAFETY: `busy` is held, so this access to the ring is the only one.
            let (old, old_layout) =
                unsafe { std::mem::replace(&mut (*self.ring.get())[at], (memory, layout)) };
            self.busy.store(false, Ordering::Release);
            if !old.is_null() {
                // SAFETY: the memory came from `alloc` with this layout, and has just left the
                // ring, so it is freed once.
                unsafe { System.dealloc(old, old_layout) };
            }
        }
    }
}
