//! Runs models under loom.
//!
//! A model is a closure that starts its threads, joins them and asserts. Its negative control is
//! the same model with a fault, as a test that must panic. The fault is planted in the source by
//! [`plant`], or the model itself leaves out a step. [`models`] declares both.

use super::alloc::take_live;
use super::atomic::live_atomics;
use super::plant::{Kind, Plant, sow};
use super::thread::{prepare, running, spawn};
use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// All interleavings.
pub(crate) const ALL: usize = usize::MAX;
/// The kinds of operation that have a memory order.
pub(crate) const ORDERS: &[Kind] = &[Kind::Load, Kind::Store, Kind::Update];
pub(crate) const UPDATES: &[Kind] = &[Kind::Update];
pub(crate) const FENCES: &[Kind] = &[Kind::Fence];
pub(crate) const ORDERS_AND_FENCES: &[Kind] = &[Kind::Load, Kind::Store, Kind::Update, Kind::Fence];

/// Runs the model in every interleaving with at most `preemptions` preemptions (or
/// LOOM_MAX_PREEMPTIONS, if that is less), and prints the number of executions. At the end of each
/// of them the threads have ended, and the memory of records is free.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    explore_and(preemptions, model, |_| ());
}

/// Like [`explore`], and checks that each execution ends all atomics that it has made.
pub(crate) fn explore_to_the_end(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    explore_and(preemptions, model, |left| assert_eq!(left, 0, "atomics are left over"));
}

/// Calls `there` on another thread and `here` on this one, and returns when both have ended.
pub(crate) fn beside<T: 'static, R>(there: impl FnOnce() -> T + 'static, here: impl FnOnce() -> R) {
    let other = spawn(there);
    here();
    other.join().unwrap();
}

fn explore_and(
    preemptions: usize,
    model: impl Fn() + Send + Sync + 'static,
    check: fn(atomics_left: isize),
) {
    let start = Instant::now();
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    let bound = builder.preemption_bound.unwrap_or(ALL).min(preemptions);
    builder.preemption_bound = (bound != ALL).then_some(bound);
    builder.max_branches = 10_000;
    builder.check({
        let executions = Arc::clone(&executions);
        move || {
            executions.fetch_add(1, Ordering::Relaxed);
            take_live();
            // What an execution that was ended early has left is leaked.
            let _ = STAGES.take();
            prepare();
            let before = live_atomics();
            model();
            assert_eq!(running(), 0, "a thread is not joined");
            drop(ManuallyDrop::into_inner(STAGES.take()));
            assert_eq!(take_live(), 0, "memory is left over");
            check(live_atomics() - before);
        }
    });
    let this = std::thread::current();
    println!(
        "explored {}: {} executions, {:.1} s, preemptions: {}",
        this.name().unwrap_or("?"),
        executions.load(Ordering::Relaxed),
        start.elapsed().as_secs_f64(),
        if bound == ALL { "all".to_owned() } else { bound.to_string() }
    );
}

/// Removes the memory order from these kinds of operation in this source file, for this test.
///
/// # Panics
/// If there is no such file: nothing would be removed, and a negative control would prove nothing.
pub(crate) fn plant(file: &'static str, kinds: &'static [Kind]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    assert!(path.is_file(), "{file} is not a source file, so no fault can be planted in it");
    sow(Plant { file, kinds });
}

/// Declares tests that consist of one exploration each: models and their negative controls. A
/// control is explored without the memory order of some operations of a source file, or explores a
/// variant of the model. It fails, with the message given.
macro_rules! models {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident() = $explore:expr
            $(, without $kinds:ident in $file:literal)? $(, fails $(: $message:literal)?)?;
    )+) => {$(
        $(#[$attribute])*
        #[test]
        $(#[should_panic $((expected = $message))?])?
        fn $name() {
            $($crate::shim::check::plant($file, $kinds);)?
            $explore;
        }
    )+};
}
pub(crate) use models;

/// The state that the threads of a model share, which is dropped when they have ended. It is not
/// dropped when the checker ends an execution early, where loom's objects must not be touched any
/// more.
pub(crate) struct Stage<T: 'static>(&'static T);

/// The owner of a [`Stage`]'s value.
struct Owned(*mut dyn Any);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `Stage::new` made the pointer from a box, and this is its one owner. It is
        // dropped when the model has returned and its threads have ended, so that no copy of the
        // `Stage` is used any more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

thread_local! {
    // All threads of a model run on the test's own thread.
    static STAGES: RefCell<ManuallyDrop<Vec<Owned>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

impl<T> Stage<T> {
    pub(crate) fn new(value: T) -> Stage<T> {
        let value = Box::into_raw(Box::new(value));
        STAGES.with_borrow_mut(|stages| stages.push(Owned(value)));
        // SAFETY: the value lives until its `Owned` is dropped, after the last use of this `Stage`
        // and its copies.
        Stage(unsafe { &*value })
    }
}

impl<T> Clone for Stage<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Stage<T> {}

impl<T> Deref for Stage<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

/// An object that only one thread at a time may own. The protocol under test passes it on.
pub(crate) struct Baton(loom::cell::UnsafeCell<usize>);

// SAFETY: loom checks that the accesses of different threads do not overlap.
unsafe impl Send for Baton {}
// SAFETY: loom checks that the accesses of different threads do not overlap.
unsafe impl Sync for Baton {}

impl Baton {
    #[track_caller]
    pub(crate) fn new() -> Baton {
        Baton(loom::cell::UnsafeCell::new(0))
    }

    /// Writes to the object and returns the number of earlier writes.
    #[track_caller]
    pub(crate) fn write(&self) -> usize {
        // SAFETY: loom checks that every other access happens before or after this one.
        self.0.with_mut(|uses| unsafe {
            *uses += 1;
            *uses - 1
        })
    }

    /// Reads the object and returns the number of writes so far.
    #[track_caller]
    pub(crate) fn read(&self) -> usize {
        // SAFETY: loom checks that every write happens before or after this read.
        self.0.with(|uses| unsafe { *uses })
    }
}
