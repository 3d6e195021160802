//! Runs models under loom.
//!
//! A model is a closure that starts its threads, joins them and asserts. Its negative control is
//! the same model with a fault, as a test that must panic. The fault is planted in the source by
//! [`plant`], or the model itself leaves out a step.

use super::alloc::take_live;
use super::plant::{Kind, Plant, sow};
use super::thread::prepare;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// All interleavings.
pub(crate) const ALL: usize = usize::MAX;
/// The kinds of operation that have a memory order.
pub(crate) const ORDERS: &[Kind] = &[Kind::Load, Kind::Store, Kind::Update];
pub(crate) const FENCES: &[Kind] = &[Kind::Fence];
pub(crate) const ORDERS_AND_FENCES: &[Kind] = &[Kind::Load, Kind::Store, Kind::Update, Kind::Fence];

/// Runs the model in every interleaving with at most `preemptions` preemptions (or
/// LOOM_MAX_PREEMPTIONS, if that is less), and prints the number of executions.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
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
            prepare();
            model();
            assert_eq!(take_live(), 0, "memory is left over");
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

/// The state that the threads of a model share. It is not dropped when the checker ends an
/// execution early, where loom's objects must not be touched any more.
pub(crate) struct Stage<T: 'static>(&'static T);

impl<T> Stage<T> {
    pub(crate) fn new(value: T) -> Stage<T> {
        Stage(Box::leak(Box::new(value)))
    }

    /// Drops the shared state.
    ///
    /// # Safety
    /// No copy of the `Stage` is used any more.
    pub(crate) unsafe fn end(self) {
        // SAFETY: `new` has leaked the box, and by contract no copy is used any more.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.0).cast_mut()) });
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
