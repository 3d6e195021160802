//! The simulation face: a [`Controller`] makes the decisions that the machine makes otherwise.
//!
//! A controller is installed for one OS thread and plays all **virtual threads** on it, one at a
//! time. Each access to an atomic or a lock is a [`point`] at which the controller may run another
//! virtual thread. A blocking call gives the OS thread to another virtual thread. The clock is
//! virtual, and randomness comes from a seed. On threads without a controller everything behaves as
//! on the `std` face.
//!
//! Accesses are sequentially consistent, as on a machine that does one thing at a time. The effects
//! of weak orderings are left to loom.
//!
//! The controller does not see interactions of virtual threads through anything outside this face,
//! such as a lock of `std` or a `static`. A virtual thread that blocks there blocks the OS thread.

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
pub(crate) use std::alloc;
pub(crate) use std::cell::Cell;
pub(crate) use std::sync::Arc;
pub(crate) use std::thread::panicking;
pub(crate) use sync::{Condvar, Mutex, MutexGuard};
pub(crate) use thread::VirtualThread;

use super::{Access, Bug, Fault};
use time::Duration;

pub(crate) mod unmodelled {
    //! Threads and locks that loom's models leave out.
    pub(crate) use super::sync::{Condvar, Mutex};
    pub(crate) use super::thread;
}

/// The simulator, which answers in place of the machine. All calls come from the OS thread that it
/// is installed on.
pub(crate) trait Controller {
    /// May run other virtual threads before it returns.
    fn point(&self, place: &'static Location<'static>);

    /// Like [`point`](Self::point), right before the caller makes this access.
    fn access(&self, access: Access, address: usize, place: &'static Location<'static>);

    /// Charges the caller for an access, if a machine is modelled. Runs no other thread if none is
    /// modelled.
    fn charge(&self, access: Access, address: usize, place: &'static Location<'static>);

    /// Like [`point`](Self::point), for a caller that has nothing to do before others have run.
    fn give_way(&self, turn: Turn, place: &'static Location<'static>);

    /// Runs other virtual threads until [`wake`](Self::wake) is called with the same word or the
    /// time `until` is reached. Returns whether the thread was woken.
    fn wait(&self, on: usize, until: Option<Duration>, place: &'static Location<'static>) -> bool;

    /// Wakes one thread that waits on this word, or all of them.
    fn wake(&self, on: usize, all: bool);

    /// Returns the virtual time since the start of the run.
    fn now(&self) -> Duration;

    /// Notes that the running thread has gone over `items` items of a parallel loop.
    fn computed(&self, items: usize);

    /// Lets the running thread compute for `time`.
    fn compute(&self, time: Duration, place: &'static Location<'static>);

    /// Notes that the running thread begins to search for work, or ends its search.
    fn searches(&self, begins: bool);

    /// Returns the number of processors.
    fn processors(&self) -> usize;

    /// Returns the number of sockets, among which the processors are divided in their order.
    fn sockets(&self) -> usize;

    /// Returns the processor of the running thread.
    fn processor(&self) -> usize;

    /// Returns the number of turns for which a thread spins on a held lock before it sleeps.
    fn spins(&self) -> u32;

    /// Returns the next number of the seeded stream.
    fn random(&self) -> u64;

    /// Returns whether to inject this fault now.
    fn fault(&self, fault: Fault) -> bool;

    /// Returns whether this bug is planted in the library.
    fn has(&self, bug: Bug) -> bool;

    /// Reserves the next `count` numbers of the sequence of `key` and returns the first. Each run
    /// counts from 0.
    fn numbers(&self, key: usize, count: u64) -> u64;

    /// Records what the running thread waits for, until [`waits_no_more`](Self::waits_no_more) is
    /// called with the returned number.
    fn waits(&self, describe: Box<dyn Fn() -> String>) -> u64;

    /// Removes the record of the wait with this number.
    fn waits_no_more(&self, number: u64);

    /// Returns the running virtual thread.
    fn current(&self) -> StdArc<VirtualThread>;

    /// Starts a virtual thread.
    fn spawn(&self, name: Option<String>, body: Box<dyn FnOnce()>) -> StdArc<VirtualThread>;
}

/// The kind of turn in a waiting loop.
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

/// Installs or removes the controller of this thread. Returns the previous one.
pub(crate) fn install(controller: Option<Rc<dyn Controller>>) -> Option<Rc<dyn Controller>> {
    CONTROLLER.replace(controller)
}

/// Returns the controller of this thread. `None` while its thread-locals are destroyed.
fn controller() -> Option<Rc<dyn Controller>> {
    CONTROLLER.try_with(|controller| controller.borrow().clone()).ok().flatten()
}

/// Panics if `thread` is simulated and the caller is not part of the same simulation.
#[track_caller]
pub(crate) fn assert_reachable(thread: &thread::Thread) {
    if let thread::Kind::Virtual(thread) = &thread.0 {
        thread.controller();
    }
}

/// Returns whether the caller is simulated.
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

/// A point at which a simulation may run another thread.
#[track_caller]
pub(crate) fn point() {
    if let Some(controller) = controller() {
        controller.point(Location::caller());
    }
}

/// A point at which a simulation may run another thread, right before an access.
#[track_caller]
fn access(access: Access, address: usize) {
    if let Some(controller) = controller() {
        controller.access(access, address, Location::caller());
    }
}

/// Charges the caller for an access, if a machine is modelled.
#[track_caller]
fn charge(access: Access, address: usize) {
    if let Some(controller) = controller() {
        controller.charge(access, address, Location::caller());
    }
}

/// Returns `true` in a simulation, whose threads need no barrier because one OS thread plays them
/// all.
#[track_caller]
pub(crate) fn barrier_is_simulated() -> bool {
    access(Access::Barrier, 0);
    is_simulated()
}

/// Returns the number of processors of the simulation that the caller is in, if it is in one.
pub(crate) fn simulated_processors() -> Option<usize> {
    controller().map(|controller| controller.processors())
}

/// Returns the number of sockets among which the processors of the simulation that the caller is in
/// are divided, if it is in one.
pub(crate) fn simulated_sockets() -> Option<usize> {
    controller().map(|controller| controller.sockets())
}

/// Returns the processor of the simulation that runs the caller, if it is in one.
pub(crate) fn simulated_processor() -> Option<usize> {
    controller().map(|controller| controller.processor())
}

/// Returns `true` if spinning may be worth while. It is not in a simulation by seeds: each turn
/// takes a microsecond there, and many more if no other thread can run.
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

/// A turn of a loop that waits for another thread.
#[track_caller]
pub(crate) fn spin_loop() {
    match controller() {
        Some(controller) => controller.give_way(Turn::Spin, Location::caller()),
        None => std::hint::spin_loop(),
    }
}

/// Returns whether a simulation injects this fault now.
pub(crate) fn fault(fault: Fault) -> bool {
    controller().is_some_and(|controller| controller.fault(fault))
}

/// Returns whether a simulation has planted this bug.
pub(crate) fn has(bug: Bug) -> bool {
    controller().is_some_and(|controller| controller.has(bug))
}

/// Reserves the next `count` numbers of this key's sequence in the simulated run. `None` outside a
/// simulation.
pub(crate) fn numbers(key: usize, count: u64) -> Option<u64> {
    controller().map(|controller| controller.numbers(key, count))
}

/// Notes what the caller waits for, until the returned guard is dropped.
pub(crate) fn waits<'a>(describe: impl Fn() -> String + 'a) -> Waits<'a> {
    let number = controller().map(|controller| {
        let describe: Box<dyn Fn() -> String + 'a> = Box::new(describe);
        // SAFETY: the drop of the returned guard, which carries the lifetime `'a` and is never
        // forgotten, makes the controller discard the closure. So the closure goes before anything
        // that it borrows.
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
