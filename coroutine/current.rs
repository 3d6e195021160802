//! Which coroutine this thread is in.
//!
//! `retire::chain` points to the innermost running coroutine, and from each a pointer leads to the one
//! that resumed it: the *chain*. It is empty on a thread's own stack, that is in its main coroutine,
//! and on a task's.

use crate::shim::thread_local;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
// Not the shim's: these are names, no protocol, and a static must be made at compile time.
use std::sync::atomic::{AtomicU64, Ordering};

use super::link::Link;
use crate::retire::chain;
use crate::retire::overflow::Description;

/// What this module keeps for each thread. Without a destructor, so that it can be read as long as
/// the thread lives.
struct Thread {
    /// The id of the main coroutine; 0 until somebody asks.
    main_id: Cell<u64>,
    ending: Cell<Ending>,
}

/// How far this thread is from the destruction of its thread-local values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    NobodyAsked,
    NotYet,
    Begun,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            main_id: Cell::new(0),
            ending: Cell::new(Ending::NobodyAsked),
        }
    };
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

pub(super) fn new_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// The innermost running coroutine, or null.
#[inline(always)]
pub(super) fn innermost() -> *const Link {
    chain::innermost().cast()
}

/// Makes another one the innermost.
#[inline(always)]
pub(super) fn set_innermost(link: *const Link) {
    chain::set_innermost(link.cast());
}

/// Makes `link` the innermost one; the thread's worker, or null, and the one that was the innermost.
#[inline(always)]
pub(super) fn enter(link: *const Link) -> (*mut u8, *const Link) {
    let (worker, outer) = chain::enter(link.cast());
    (worker, outer.cast())
}

/// Whose guard this is, if it belongs to a coroutine that runs on this thread. Async-signal-safe.
pub(crate) fn describe_overflow(fault_address: usize) -> Option<Description> {
    let mut next = innermost();
    // A resumer too: the last frame before the switch may be the one that does not fit.
    // SAFETY: a coroutine in the chain of the running thread is alive, and so is its name.
    while let Some(link) = unsafe { next.as_ref() } {
        if link.guard.contains(&fault_address) {
            let name = link.name().unwrap_or_default();
            return Some(Description {
                kind: "coroutine",
                name: name.as_ptr(),
                name_len: name.len(),
                id: link.id,
                spawned_at: None,
                stack_size: link.stack_size,
                guard: link.guard.clone(),
            });
        }
        next = link.resumed_by.get();
    }
    None
}

/// Whether the destructors of this thread's thread-local values have begun to run.
#[inline(always)]
pub(super) fn thread_is_ending() -> bool {
    THREAD.with(|thread| thread.ending.get()) == Ending::Begun
}

/// Sees to it that [`thread_is_ending`] will be true in time. To be called after a thread-local value
/// with a destructor has been made.
#[inline]
pub(super) fn notice_the_end_of_this_thread() {
    THREAD.with(|thread| {
        if thread.ending.get() == Ending::NobodyAsked {
            thread.ending.set(Ending::NotYet);
            super::thread_end::call_before_destructors(|| {
                THREAD.with(|thread| thread.ending.set(Ending::Begun));
            });
        }
    });
}

/// The coroutine that the caller is in.
///
/// Keeps no coroutine alive: it is a name tag, and its methods are loads. See [`current()`] for an
/// example.
#[derive(Clone)]
pub struct Current {
    id: u64,
    name: Option<Arc<str>>,
    main: bool,
}

/// The coroutine that the caller is in: the innermost running one, or else the thread's main
/// coroutine.
///
/// Every thread is the main coroutine of itself. It gets its id when it is first asked for it and
/// keeps it as long as it lives; it has no name and can neither be resumed nor suspended. In a task
/// of a runtime, outside of any bare coroutine, it is the main coroutine of the worker's thread.
///
/// # Cost
///
/// A few instructions; one atomic increment if the coroutine has a name, or on the first call in a
/// thread.
///
/// # Examples
///
/// ```
/// use cygnet::coroutine::{self, Coroutine, Current};
///
/// let main = coroutine::current();
/// assert!(main.is_main());
///
/// let walker: Coroutine<(), (), Current> =
///     Coroutine::builder().name("walker").create(|_, ()| coroutine::current())?;
/// let inside = walker.resume(()).unwrap().returned().unwrap();
/// assert_eq!(inside.name(), Some("walker"));
/// assert_eq!(inside.id(), walker.id());
/// assert_eq!(coroutine::current(), main);
/// # Ok::<(), coroutine::CreateError>(())
/// ```
pub fn current() -> Current {
    // SAFETY: a coroutine in the chain of the running thread is alive.
    match unsafe { innermost().as_ref() } {
        Some(link) => Current { id: link.id, name: link.name.clone(), main: false },
        None => THREAD.with(|thread| {
            if thread.main_id.get() == 0 {
                thread.main_id.set(new_id());
            }
            Current { id: thread.main_id.get(), name: None, main: true }
        }),
    }
}

impl Current {
    /// Its id, which no other coroutine of this process has or will have.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name it was created with.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it is the main coroutine of a thread.
    pub fn is_main(&self) -> bool {
        self.main
    }
}

impl PartialEq for Current {
    fn eq(&self, other: &Current) -> bool {
        self.id == other.id
    }
}

impl Eq for Current {}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("id", &self.id)
            .field("name", &self.name())
            .field("main", &self.main)
            .finish()
    }
}
