//! Stacks that users bring.

use std::ptr::NonNull;

use super::CreateError;
use super::stacks::Place;

/// Memory for the stack of one coroutine, which the user owns.
///
/// [`Builder::create_on`](super::Builder::create_on) makes a coroutine on it. The coroutine owns
/// the value and drops it when its body has ended, or when it is dropped before it has started. The
/// value of a coroutine that never ends, for instance a [forgotten](std::mem::forget) one, is never
/// dropped.
///
/// # Safety
///
/// From the call of `create_on` until the value is dropped, which may be never:
///
/// * [`memory`](Stack::memory) returns the same range each time, wherever the value is moved.
/// * The range can be read and written by the pointer, and nothing else accesses it. So the pointer
///   does not come from a reference, and the value has the memory in no field that owns it, such as
///   a `Box` or a `Vec`: to move or to borrow that is an access.
/// * The [`guard`](Stack::guard) has as many bytes as it says, and any access to them faults.
/// * The range is no part of the stack of a thread, of a task or of another coroutine.
/// * Code that overflows the stack touches the guard before anything below it. A guard of 4 KiB, on
///   AArch64 of 64 KiB, is enough for code that probes its stack, as Rust does. If there is no
///   guard, no code on the stack ever needs more than the range; so what makes such a value should
///   be an `unsafe fn`. A panic message needs up to 8 KiB of stack, with a stack trace 24 KiB. The
///   range also has to hold the unwinding of a coroutine that is dropped while it is suspended, and
///   signal handlers that have no stack of their own. In a task the body must then not wait, join
///   or end a scope: a worker calls wakers, hooks and other tasks on the stack of a task that waits.
///
/// # Examples
///
/// ```
/// use std::ptr::NonNull;
/// use cygnet::coroutine::{Builder, Coroutine, Stack};
///
/// /// A stack without a guard.
/// struct Buffer(NonNull<[u8]>);
///
/// impl Buffer {
///     /// # Safety
///     /// The coroutine that gets the buffer never needs more stack than `len` bytes: see [`Stack`].
///     unsafe fn new(len: usize) -> Buffer {
///         Buffer(NonNull::from(Box::leak(vec![0; len].into_boxed_slice())))
///     }
/// }
///
/// impl Drop for Buffer {
///     fn drop(&mut self) {
///         // SAFETY: the pointer comes from a box, and the coroutine has ended.
///         drop(unsafe { Box::from_raw(self.0.as_ptr()) });
///     }
/// }
///
/// // SAFETY: the buffer is on the heap, only this value knows of it, and it is large enough by the
/// // contract of `new`.
/// unsafe impl Stack for Buffer {
///     fn memory(&self) -> NonNull<[u8]> {
///         self.0
///     }
/// }
///
/// // SAFETY: the body calls nothing but `suspend`.
/// let stack = unsafe { Buffer::new(64 << 10) };
/// let adder = Builder::new().create_on(stack, |yielder, a: u32| a + yielder.suspend(()))?;
/// let adder: Coroutine<u32, (), u32> = adder;
/// assert_eq!(adder.stack_size(), 64 << 10);
/// adder.resume(3).unwrap();
/// assert_eq!(adder.resume(4).unwrap().returned(), Some(7));
/// # Ok::<(), cygnet::coroutine::CreateError>(())
/// ```
pub unsafe trait Stack {
    /// Returns the memory of the stack: at least 16 KiB, of any alignment.
    fn memory(&self) -> NonNull<[u8]>;

    /// Returns the number of bytes directly below the memory that fault when they are touched. By
    /// default, 0.
    ///
    /// Where a runtime has installed its handler, the report of an overflow names the coroutine if
    /// the fault lies in these bytes.
    fn guard(&self) -> usize {
        0
    }
}

/// A stack that a user has brought, and that a coroutine owns.
///
/// Dropping it drops the user's value. No frame is on the stack then.
pub(super) struct UserStack(Box<dyn Stack>);

impl UserStack {
    /// Takes a stack that must have at least `needed` bytes.
    pub(super) fn new(
        stack: impl Stack + 'static,
        needed: usize,
    ) -> Result<(UserStack, Place), CreateError> {
        let stack = UserStack(Box::new(stack));
        let memory = stack.0.memory();
        if memory.len() < needed {
            return Err(CreateError::StackTooSmall { bytes: memory.len(), needed });
        }
        #[cfg(cygnet_asan)]
        stack.unpoison();
        let bottom = memory.cast::<u8>().as_ptr();
        let end = bottom.wrapping_add(memory.len());
        let guard = bottom.addr().saturating_sub(stack.0.guard())..bottom.addr();
        Ok((stack, Place { bottom, end, top: end, guard, size: memory.len() }))
    }

    /// Tells AddressSanitizer to forget the frames that were left on the stack.
    #[cfg(cygnet_asan)]
    fn unpoison(&self) {
        let memory = self.0.memory();
        crate::retire::stack::unpoison(memory.cast().as_ptr(), memory.len());
    }
}

#[cfg(cygnet_asan)]
impl Drop for UserStack {
    fn drop(&mut self) {
        self.unpoison();
    }
}
