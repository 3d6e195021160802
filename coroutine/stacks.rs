//! The stacks of bare coroutines: one memory for the process, and a pool of warm stacks for each
//! thread.
//!
//! A coroutine that has started never leaves its thread, so its stack goes to the pool of that
//! thread: the one that it was taken from, or the one that has adopted it. A stack of a user's goes
//! back to its user.

use crate::shim::thread_local;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::OnceLock;

use super::user_stack::UserStack;
use super::{CreateError, current};
use crate::retire::memory::StackMemory;
use crate::retire::pool::StackPool;
use crate::retire::stack::{Stack, StackClass};

/// Warm stacks of the default size that a thread keeps over a trim.
const KEPT: usize = 32;
/// With more warm stacks than this, a thread trims its pool as soon as a stack comes back.
const TOO_MANY: usize = 2 * KEPT;
/// With more warm stacks than this, a thread trims its pool when no coroutine is left on it. A
/// program that makes one generator after the other reuses fewer.
const A_HANDFUL: usize = 8;
/// Larger stacks are not kept warm: the pages they have touched would stay resident.
const LARGEST_WARM: usize = 256 << 10;

static MEMORY: OnceLock<StackMemory> = OnceLock::new();

thread_local! {
    static POOL: RefCell<Pool> = {
        // The first access after this registers the destructor of the pool. The notice of the
        // thread's end is registered after that, and so comes before the destructor.
        RefCell::new(Pool { stacks: StackPool::new(KEPT), in_use: 0 })
    };
}

/// The warm stacks of one thread.
struct Pool {
    stacks: StackPool,
    in_use: usize,
}

fn memory() -> &'static StackMemory {
    // Unlimited: the memory itself is the bound.
    MEMORY.get_or_init(|| StackMemory::new(None))
}

fn is_pooled(class: StackClass) -> bool {
    class.stride() <= LARGEST_WARM
}

/// A stack that a coroutine owns. Dropping it, when it holds no frame, gives it back. A coroutine
/// that can never end must leak it.
#[allow(dead_code)] // Each is there to be dropped.
pub(super) enum OwnedStack {
    Pooled(PooledStack),
    User(UserStack),
}

/// The addresses of a stack.
pub(super) struct Place {
    pub(super) bottom: *mut u8,
    pub(super) end: *mut u8,
    /// Where frames start.
    pub(super) top: *mut u8,
    pub(super) guard: Range<usize>,
    /// The size as the user knows it.
    pub(super) size: usize,
}

/// A stack of the library.
pub(super) struct PooledStack(ManuallyDrop<Stack>);

impl PooledStack {
    fn owned(stack: Stack) -> (OwnedStack, Place) {
        let place = Place {
            bottom: stack.bottom(),
            end: stack.limit_top(),
            top: stack.top(),
            guard: stack.guard(),
            size: stack.class().size(),
        };
        (OwnedStack::Pooled(PooledStack(ManuallyDrop::new(stack))), place)
    }
}

impl Drop for PooledStack {
    fn drop(&mut self) {
        // SAFETY: the value is being dropped, so the handle is not used again.
        give_back(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// Takes a stack of the class, for a coroutine of this thread.
pub(super) fn take(class: StackClass) -> Result<(OwnedStack, Place), CreateError> {
    take_handle(class).map(PooledStack::owned)
}

/// Asks for the notice of this thread's end, for a coroutine that takes no stack from here.
///
/// The pool has a destructor, which keeps the library loaded until the notice.
#[inline(never)]
pub(super) fn notice_the_end_of_this_thread() {
    // An error means that the thread is ending and its pool has gone.
    let _ = POOL.try_with(|_| current::notice_the_end_of_this_thread());
}

// Not inlined, and neither are `adopt` and `give_back`: a caller in a migratable task could keep
// the pool's address while it changes threads.
#[inline(never)]
fn take_handle(class: StackClass) -> Result<Stack, CreateError> {
    let pooled = POOL.try_with(|pool| {
        current::notice_the_end_of_this_thread();
        let pool = &mut *pool.borrow_mut();
        let stack = if is_pooled(class) {
            pool.stacks.take(class, memory())?
        } else {
            memory().take(class)?
        };
        pool.in_use += 1;
        Ok(stack)
    });
    match pooled {
        Ok(answer) => answer,
        // The thread is ending and its pool has gone.
        Err(_) => Ok(memory().take(class)?),
    }
}

/// Takes a stack of the class, for a coroutine that may start on another thread. That thread calls
/// [`adopt`] before the stack is given back there.
///
/// The stack does not come from the pool of this thread, which keeps room for the stacks that it
/// expects back.
pub(super) fn take_for_any_thread(class: StackClass) -> Result<(OwnedStack, Place), CreateError> {
    Ok(PooledStack::owned(memory().take(class)?))
}

/// Notes that a stack from [`take_for_any_thread`] is now of this thread.
#[inline(never)]
pub(super) fn adopt() {
    // An error means that the thread is ending and its pool has gone.
    let _ = POOL.try_with(|pool| {
        current::notice_the_end_of_this_thread();
        pool.borrow_mut().in_use += 1;
    });
}

/// Takes back a stack without live frames. Not called from that stack.
#[inline(never)]
fn give_back(stack: Stack) {
    let mut stack = Some(stack);
    // An error means that the thread is ending and its pool has gone.
    let _ = POOL.try_with(|pool| pool.borrow_mut().put(&mut stack));
    memory().give_back(stack);
}

impl Pool {
    /// Takes the stack out of the option if the pool keeps it.
    fn put(&mut self, stack: &mut Option<Stack>) {
        self.in_use -= 1;
        if let Some(stack) = stack.take_if(|stack| is_pooled(stack.class())) {
            self.stacks.put(stack);
        }
        let warm = self.stacks.warm();
        if warm > TOO_MANY || (self.in_use == 0 && warm > A_HANDFUL) {
            // Every stack in the pool is unused, and the caller does not run on one of them.
            while self.stacks.trim(memory(), 0) {}
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stacks.drain(memory());
    }
}
