//! The coroutine that a thread is in.
//!
//! `retire::nesting` points to the innermost running coroutine, and each coroutine points to the
//! one that resumed it: the *chain*. The chain is empty on a thread's own stack, that is, in the
//! thread's main coroutine, and on a task's stack.

use crate::shim::thread_local;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
// Not the shim's: ids are names and take part in no protocol, and a static must be
// const-initialised.
use std::sync::atomic::{AtomicU64, Ordering};

use super::link::Link;
use crate::asm::mark_thread_as_special;
use crate::retire::nesting;
use crate::retire::overflow::Description;

/// The per-thread state of this module. It has no destructor, so it can be read as long as the
/// thread lives.
struct Thread {
    /// The id of the main coroutine; 0 until it is asked for.
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
    nesting::innermost().cast()
}

/// Describes the coroutine of this thread's chain that has its guard at `fault_address`, if there
/// is one. Async-signal-safe.
pub(crate) fn describe_overflow(fault_address: usize) -> Option<Description> {
    let mut next = innermost();
    // The loop looks at resumers too: the last frame before the switch may be the one that does not
    // fit.
    // SAFETY: a coroutine in the chain of the running thread is alive, and so is its name.
    while let Some(link) = unsafe { next.as_ref() } {
        if link.guard.contains(&fault_address) {
            let name = link.name.as_deref().unwrap_or_default();
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
        next = link.resumed_by.get().innermost().cast();
    }
    None
}

/// Returns whether the destructors of this thread's thread-local values have begun to run.
#[inline(always)]
pub(super) fn thread_is_ending() -> bool {
    THREAD.with(|thread| thread.ending.get()) == Ending::Begun
}

/// Arranges for [`thread_is_ending`] to become true in time. To be called after a thread-local
/// value with a destructor has been made.
#[inline]
pub(super) fn notice_the_end_of_this_thread() {
    THREAD.with(|thread| {
        if thread.ending.get() == Ending::NobodyAsked {
            thread.ending.set(Ending::NotYet);
            super::thread_end::call_before_destructors(begin_the_end);
        }
    });
}

extern "C" fn begin_the_end(_: *mut c_void) {
    THREAD.with(|thread| thread.ending.set(Ending::Begun));
    mark_thread_as_special();
}

/// A description of the coroutine that a caller was in.
///
/// Does not keep the coroutine alive; its methods are loads. See [`current()`] for an example.
#[derive(Clone)]
pub struct Current {
    id: u64,
    name: Option<Arc<str>>,
    main: bool,
}

/// Returns the coroutine that the caller is in: the innermost running one, or else the thread's
/// main coroutine.
///
/// Every thread is its own main coroutine. The main coroutine gets an id at the first call and
/// keeps it as long as the thread lives. It has no name and can neither be resumed nor suspended.
/// In a task of a runtime, outside any bare coroutine, the result is the main coroutine of the
/// worker's thread.
///
/// # Cost
///
/// A few instructions. One atomic increment if the coroutine has a name, or at the first call in a
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
        None => Current { id: main_id(), name: None, main: true },
    }
}

/// Returns the id of this thread's main coroutine.
// Not inlined: a caller in a migratable task could keep the word's address while it changes
// threads.
#[inline(never)]
fn main_id() -> u64 {
    THREAD.with(|thread| {
        if thread.main_id.get() == 0 {
            thread.main_id.set(new_id());
        }
        thread.main_id.get()
    })
}

impl Current {
    /// Returns the coroutine's id, which no other coroutine of this process has or will have.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the name that the coroutine was created with.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns whether this is the main coroutine of a thread.
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

debug! { impl Current as this { id: this.id, name: this.name(), main: this.main } }
