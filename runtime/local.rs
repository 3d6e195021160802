//! Task-locals: values bound for the extent of a call, seen by the task and by the children that it
//! spawns meanwhile.
//!
//! The bindings of a task are a chain of shared nodes, the innermost first; a child starts with its
//! parent's chain, at the cost of one reference count, and only if there is one.

use crate::retire::chain::Pin;
use crate::runtime::here;
use crate::scheduler::worker::Worker;
use crate::task::record::Record;
use std::any::Any;
use std::fmt;
use std::ptr;
use std::sync::Arc;

pub(crate) type Chain = Option<Arc<dyn Any + Send + Sync>>;

/// One binding, whatever it holds.
struct Binding {
    key: *const (),
    value: Arc<dyn Any + Send + Sync>,
    outer: Chain,
}

// SAFETY: the key is an address that is compared and never followed; the rest is Send and Sync.
unsafe impl Send for Binding {}
// SAFETY: as above.
unsafe impl Sync for Binding {}

impl Drop for Binding {
    fn drop(&mut self) {
        // A long chain must not be dropped by recursion.
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

/// A place for a value that belongs to a task: a `static`, bound by [`TaskLocal::scope`].
///
/// Children see the values that were bound where they were spawned. Tasks spawned from outside (by
/// [`Runtime`](crate::Runtime) or [`Handle`](crate::Handle)) begin with none, as does the closure
/// of [`blocking`](crate::blocking()). A value is dropped by the last that has it: the call of
/// [`TaskLocal::scope`] that bound it, or a task that was spawned in there, when its closure has ended;
/// on the thread where that happens, and before the task's parent ends. Handles keep no value.
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
    // Not zero-sized: two statics must have two addresses.
    _address: u8,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for TaskLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskLocal { .. }")
    }
}

impl<T: Send + Sync + 'static> TaskLocal<T> {
    /// A task-local without a value. For a `static`.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> TaskLocal<T> {
        TaskLocal { _address: 0, value: std::marker::PhantomData }
    }

    fn key(&'static self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Binds `value` while `f` runs, for the calling task and the children that it spawns in `f`
    /// (which keep it for their whole life). Bindings nest; the innermost is seen.
    ///
    /// Does not suspend by itself. Costs two allocations, and one more at a task's first binding;
    /// each spawn of a child in `f` then costs an allocation and a locked instruction more.
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
        // Those that are open see the bindings of the task when they become public.
        if !worker.remote.forks.is_clear() {
            worker.publish_forks();
        }
        // SAFETY: the running task.
        let task = unsafe { task.as_ref() };
        let _pin = Pin::innermost();
        let outer = chain(task).clone();
        let binding: Arc<dyn Any + Send + Sync> =
            Arc::new(Binding { key: self.key(), value: Arc::new(value), outer: outer.clone() });
        set_chain(task, Some(binding));
        // Also when `f` unwinds.
        struct Restore<'a>(&'a Record, Chain);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                set_chain(self.0, self.1.take());
            }
        }
        let _restore = Restore(task, outer);
        f()
    }

    /// Calls `f` with the value, if there is one (outside a task there is none).
    ///
    /// Does not suspend by itself. Costs a few locked instructions for each binding that is passed
    /// on the way.
    ///
    /// ```
    /// static NAME: cygnet::TaskLocal<String> = cygnet::TaskLocal::new();
    /// assert!(NAME.with(|name| name.is_none()));
    /// ```
    pub fn with<R>(&'static self, f: impl FnOnce(Option<&T>) -> R) -> R {
        let task = Worker::current().and_then(Worker::task);
        // SAFETY: the running task.
        let mut next = task.and_then(|task| chain(unsafe { task.as_ref() }).clone());
        while let Some(node) = next {
            let Ok(binding) = node.downcast::<Binding>() else { break };
            if binding.key == self.key() {
                // Held by our count while `f` runs.
                let value = Arc::clone(&binding.value);
                return f(value.downcast_ref::<T>());
            }
            next = binding.outer.clone();
        }
        f(None)
    }
}

fn chain(task: &Record) -> &Chain {
    static NONE: Chain = None;
    match task.extras() {
        // SAFETY: the chain belongs to whoever runs the task, which is the caller; it is replaced
        // only by `set_chain`, on the same thread, while no reference is out.
        Some(extras) => unsafe { &*extras.locals.get() },
        None => &NONE,
    }
}

fn set_chain(task: &Record, chain: Chain) {
    let place = task.node.extras_or_new().locals.get();
    // SAFETY: as in `chain`.
    let old = unsafe { ptr::replace(place, chain) };
    // A destructor of a user's; the chain is whole again by now.
    drop(old);
}

/// The chain that a child begins with.
#[inline]
pub(crate) fn inherit(parent: &Record) -> Chain {
    // Most tasks have none.
    let extras = parent.extras()?;
    // SAFETY: as in `chain`; here by itself, as each spawn looks.
    unsafe { (*extras.locals.get()).clone() }
}
