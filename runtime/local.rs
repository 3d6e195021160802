//! Task-locals: values bound for the duration of a call, visible to the task and to the children
//! that it spawns during the call.
//!
//! The bindings of a task are a chain of shared nodes, the innermost first. A child starts with its
//! parent's chain. That costs one reference count, and nothing if the chain is empty.

use crate::retire::nesting::Pin;
use crate::runtime::here;
use crate::scheduler::worker::Worker;
use crate::task::record::Record;
use std::any::Any;
use std::ptr;
use std::sync::Arc;

pub(crate) type Nesting = Option<Arc<dyn Any + Send + Sync>>;

/// One binding, of a value of any type.
struct Binding {
    key: *const (),
    value: Arc<dyn Any + Send + Sync>,
    outer: Nesting,
}

// SAFETY: the key is an address that is compared and never dereferenced; the other fields are
// `Send` and `Sync`.
unsafe impl Send for Binding {}
// SAFETY: the key is an address that is compared and never dereferenced; the other fields are
// `Send` and `Sync`.
unsafe impl Sync for Binding {}

impl Drop for Binding {
    fn drop(&mut self) {
        // Dropped in a loop: recursion along a long chain would overflow the stack.
        let mut next = self.outer.take();
        while let Some(node) = next {
            let Ok(node) = node.downcast::<Binding>() else { return };
            match Arc::into_inner(node) {
                Some(mut binding) => next = binding.outer.take(),
                None => return,
            }
        }
    }
}

/// A task-local variable: a `static`, bound to a value by [`TaskLocal::scope`].
///
/// Children see the values that were bound where they were spawned. Tasks spawned from outside (by
/// [`Runtime`](crate::Runtime) or [`Handle`](crate::Handle)) and the closure of
/// [`blocking`](crate::blocking()) start with none.
///
/// A value is shared by the call of [`TaskLocal::scope`] that bound it and the tasks spawned in
/// that call. The last of them to finish (for a task, to finish its closure) drops the value, on
/// the thread where that happens and before the task's parent ends. Handles keep no value alive.
///
/// ```
/// static REQUEST: cygnet::TaskLocal<u64> = cygnet::TaskLocal::new();
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     REQUEST.scope(7, || {
///         let child = cygnet::spawn(|| REQUEST.with(|id| *id.unwrap()));
///         assert_eq!(child.join().unwrap(), 7);
///     });
///     assert!(REQUEST.with(|id| id.is_none()));
/// });
/// ```
pub struct TaskLocal<T: 'static> {
    // Makes the type non-zero-sized, so that two statics have different addresses.
    _address: u8,
    value: std::marker::PhantomData<fn() -> T>,
}

debug! { impl<T> TaskLocal<T> { .. } }

impl<T: Send + Sync + 'static> TaskLocal<T> {
    /// Makes a task-local without a value, for a `static`.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> TaskLocal<T> {
        TaskLocal { _address: 0, value: std::marker::PhantomData }
    }

    fn key(&'static self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Binds `value` while `f` runs, for the calling task and the children spawned in `f`, which
    /// keep the binding until they end. Bindings nest, and the innermost one is visible.
    ///
    /// Does not suspend by itself. Costs two allocations, and a third at a task's first binding.
    /// Each spawn of a child in `f` costs one more allocation and locked instruction.
    ///
    /// ```
    /// static DEPTH: cygnet::TaskLocal<u32> = cygnet::TaskLocal::new();
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let inner = DEPTH.scope(1, || DEPTH.scope(2, || DEPTH.with(|depth| *depth.unwrap())));
    /// assert_eq!(inner, 2);
    /// # });
    /// ```
    ///
    /// # Panics
    /// Outside a task.
    #[track_caller]
    pub fn scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        let (worker, task) = here("TaskLocal::scope");
        // Open forks see the task's bindings when they are made public, so they are made public
        // before the binding changes.
        if !worker.remote.forks.is_clear() {
            worker.make_forks_public();
        }
        let task = task.get();
        let _pin = Pin::innermost();
        let outer = inherit(task);
        let binding: Arc<dyn Any + Send + Sync> =
            Arc::new(Binding { key: self.key(), value: Arc::new(value), outer: outer.clone() });
        set_nesting(task, Some(binding));
        // Also restores the bindings when `f` unwinds.
        struct Restore<'a>(&'a Record, Nesting);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                set_nesting(self.0, self.1.take());
            }
        }
        let _restore = Restore(task, outer);
        f()
    }

    /// Calls `f` with the value, or with `None` if there is no binding; outside a task there never
    /// is.
    ///
    /// Does not suspend by itself. Costs a few locked instructions for each binding that the search
    /// passes.
    ///
    /// ```
    /// static NAME: cygnet::TaskLocal<String> = cygnet::TaskLocal::new();
    /// assert!(NAME.with(|name| name.is_none()));
    /// ```
    pub fn with<R>(&'static self, f: impl FnOnce(Option<&T>) -> R) -> R {
        let task = Worker::current().and_then(Worker::task);
        let mut next = task.and_then(|task| inherit(&task));
        while let Some(node) = next {
            let Ok(binding) = node.downcast::<Binding>() else { break };
            if binding.key == self.key() {
                // This count keeps the value alive while `f` runs.
                let value = Arc::clone(&binding.value);
                return f(value.downcast_ref::<T>());
            }
            next = binding.outer.clone();
        }
        f(None)
    }
}

fn set_nesting(task: &Record, chain: Nesting) {
    let place = task.node.cold_or_new().locals.get();
    // SAFETY: only the thread that runs the task uses its chain, and no reference to it exists
    // here.
    let old = unsafe { ptr::replace(place, chain) };
    // May run user code; the chain is consistent by now.
    drop(old);
}

/// Replaces the chain of the running task. Destructors of the user may run.
pub(crate) fn rebind(chain: Nesting) {
    let (_, task) = here("local::rebind");
    set_nesting(&task, chain);
}

/// The chain of the running task, with which its children start.
#[inline]
pub(crate) fn inherit(task: &Record) -> Nesting {
    // Most tasks have none.
    let cold = task.cold()?;
    // SAFETY: the caller runs the task, so no other thread uses its chain. Only `set_nesting`
    // replaces the chain, on the same thread.
    unsafe { (*cold.locals.get()).clone() }
}
