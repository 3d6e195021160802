//! The simulation face: what the machine decides elsewhere is decided by a [`Controller`] here.
//!
//! A controller is installed for one OS thread, and plays all **virtual threads** on it, of which one runs at a time. Each access to an atomic or a lock is
//! a [`point`] at which it may run another one; what blocks gives the OS thread to another one; the clock is virtual; randomness comes from a seed. On threads
//! without a controller everything behaves as on the `std` face.
//!
//! Order between accesses is always that of one machine that does one thing at a time: what weak orderings may do is loom's business.
//!
//! What two virtual threads do to each other through anything that is not of this face, such as a lock of `std`'s or a `static`, the controller does not
//! see. One that blocks that way blocks the OS thread.

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc as StdArc;

pub(crate) mod atomic;
mod line;
mod local;
mod sync;
pub(crate) mod thread;
pub(crate) mod time;

pub(crate) use line::Line;
pub(crate) use local::{Key, thread_local};
pub(crate) use std::cell::Cell;
pub(crate) use std::sync::Arc;
pub(crate) use std::thread::panicking;
pub(crate) use sync::{Condvar, Mutex, MutexGuard};
pub(crate) use thread::VirtualThread;

use super::{Access, Bug, Fault};
use time::Duration;

pub(crate) mod unmodelled {
    //! What loom's models leave out.
    pub(crate) use super::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use super::thread;
}

pub(crate) mod alloc {
    //! The memory of records.
    pub(crate) use std::alloc::{alloc, dealloc};
}

/// What a simulator answers on behalf of the machine. All calls come from the OS thread that it is installed on.
pub(crate) trait Controller {
    /// May run other virtual threads, and then comes back.
    fn point(&self, place: &'static Location<'static>);

    /// As [`point`](Self::point), right before the caller makes this access.
    fn access(&self, access: Access, address: usize, place: &'static Location<'static>);

    /// Charges the caller for an access on a machine that is modelled. Without one, this is no point.
    fn charge(&self, access: Access, address: usize, place: &'static Location<'static>);

    /// As [`point`](Self::point), and the caller has nothing to do before others have run.
    fn give_way(&self, turn: Turn, place: &'static Location<'static>);

    /// Runs others until somebody calls [`wake`](Self::wake) with the same word, or until that time: whether it was woken.
    fn wait(&self, on: usize, until: Option<Duration>, place: &'static Location<'static>) -> bool;

    /// Lets one go on who waits for this word, or all of them.
    fn wake(&self, on: usize, all: bool);

    /// The virtual time since the start of the run.
    fn now(&self) -> Duration;

    /// The running thread has gone over so many items of a parallel loop.
    fn computed(&self, items: usize);

    /// The running thread computes for `time`.
    fn compute(&self, time: Duration, place: &'static Location<'static>);

    /// The running thread begins to search for work, or ends its search.
    fn searches(&self, begins: bool);

    /// The number of processors.
    fn processors(&self) -> usize;

    /// The turns for which a thread spins on a held lock before it sleeps.
    fn spins(&self) -> u32;

    /// The next number of the seeded stream.
    fn random(&self) -> u64;

    /// Whether this is to go wrong now.
    fn fault(&self, fault: Fault) -> bool;

    /// Whether the library has this mistake.
    fn has(&self, bug: Bug) -> bool;

    /// The next `count` numbers of the sequence that belongs to this key, counted from 0 in each run.
    fn numbers(&self, key: usize, count: u64) -> u64;

    /// Remembers what the running thread waits for, until [`waits_no_more`](Self::waits_no_more) with the same number.
    fn waits(&self, describe: Box<dyn Fn() -> String>) -> u64;

    /// The wait of this number is over.
    fn waits_no_more(&self, number: u64);

    /// The virtual thread that runs.
    fn current(&self) -> StdArc<VirtualThread>;

    /// Starts one.
    fn spawn(&self, name: Option<String>, body: Box<dyn FnOnce()>) -> StdArc<VirtualThread>;
}

/// A turn of a loop that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Spin,
    /// The turn offers the processor to another thread.
    Yield,
}

std::thread_local! {
    static CONTROLLER: std::cell::RefCell<Option<Rc<dyn Controller>>> =
        const { std::cell::RefCell::new(None) };
}

/// Installs (or removes) the controller of this thread; returns the one before.
pub(crate) fn install(controller: Option<Rc<dyn Controller>>) -> Option<Rc<dyn Controller>> {
    CONTROLLER.replace(controller)
}

/// That of this thread. None while its thread-locals are destroyed.
fn controller() -> Option<Rc<dyn Controller>> {
    CONTROLLER.try_with(|controller| controller.borrow().clone()).ok().flatten()
}

/// Panics if that thread is simulated, and the caller is none of the same simulation.
#[track_caller]
pub(crate) fn assert_reachable(thread: &thread::Thread) {
    if let thread::Thread::Virtual(thread) = thread {
        thread.controller();
    }
}

/// Whether the caller is simulated.
pub(crate) fn is_simulated() -> bool {
    controller().is_some()
}

pub(crate) fn entropy() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    match controller() {
        Some(controller) => controller.random(),
        None => RandomState::new().hash_one(0_u64),
    }
}

/// A place where others may run.
#[track_caller]
pub(crate) fn point() {
    if let Some(controller) = controller() {
        controller.point(Location::caller());
    }
}

/// A point right before an access.
#[track_caller]
fn access(access: Access, address: usize) {
    if let Some(controller) = controller() {
        controller.access(access, address, Location::caller());
    }
}

/// Charges the caller for an access, on a machine.
#[track_caller]
fn charge(access: Access, address: usize) {
    if let Some(controller) = controller() {
        controller.charge(access, address, Location::caller());
    }
}

/// Returns `true` in a simulation, whose threads need no barrier because one OS thread plays them all.
#[track_caller]
pub(crate) fn barrier_is_simulated() -> bool {
    access(Access::Barrier, 0);
    is_simulated()
}

/// The number of processors of the simulation that the caller is in, if it is in one.
pub(crate) fn simulated_processors() -> Option<usize> {
    controller().map(|controller| controller.processors())
}

/// Returns `true` if spinning may be worth while. In a simulation by seeds it is not: each turn takes
/// a microsecond there, and many more if no other thread can run.
pub(crate) fn may_spin() -> bool {
    controller().is_none_or(|controller| controller.spins() > 0)
}

/// Notes that the calling thread searches for work, until the returned guard is dropped.
pub(crate) fn searches() -> Searches {
    if let Some(controller) = controller() {
        controller.searches(true);
    }
    Searches(())
}

/// See [`searches`].
pub(crate) struct Searches(());

impl Drop for Searches {
    fn drop(&mut self) {
        if let Some(controller) = controller() {
            controller.searches(false);
        }
    }
}

/// A turn of a loop that waits for somebody else.
#[track_caller]
pub(crate) fn spin_loop() {
    match controller() {
        Some(controller) => controller.give_way(Turn::Spin, Location::caller()),
        None => std::hint::spin_loop(),
    }
}

/// Whether this is to go wrong now.
pub(crate) fn fault(fault: Fault) -> bool {
    controller().is_some_and(|controller| controller.fault(fault))
}

/// Whether the library has this mistake.
pub(crate) fn has(bug: Bug) -> bool {
    controller().is_some_and(|controller| controller.has(bug))
}

/// The next `count` numbers of the sequence of this key in the run; none outside of one.
pub(crate) fn numbers(key: usize, count: u64) -> Option<u64> {
    controller().map(|controller| controller.numbers(key, count))
}

/// Says what the caller waits for, as long as what is returned lives.
pub(crate) fn waits<'a>(describe: impl Fn() -> String + 'a) -> Waits<'a> {
    let number = controller().map(|controller| {
        let describe: Box<dyn Fn() -> String + 'a> = Box::new(describe);
        // SAFETY: it is forgotten before what it borrows goes: see the drop of what is returned, which nobody forgets.
        controller.waits(unsafe {
            std::mem::transmute::<Box<dyn Fn() -> String + 'a>, Box<dyn Fn() -> String>>(describe)
        })
    });
    Waits { number, borrows: std::marker::PhantomData }
}

/// See [`waits`].
pub(crate) struct Waits<'a> {
    number: Option<u64>,
    borrows: std::marker::PhantomData<&'a ()>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && let Some(controller) = controller()
        {
            controller.waits_no_more(number);
        }
    }
}
