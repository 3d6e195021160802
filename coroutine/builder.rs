//! Settings for making a coroutine.

use std::sync::Arc;

use super::stacks::{self, OwnedStack};
use super::user_stack::UserStack;
use super::{Coroutine, CreateError, Stack, Unstarted, Yielder};
use crate::retire::stack::{DEFAULT_SIZE, LARGEST, SMALLEST, StackClass};

/// Settings of a coroutine to be created.
///
/// # Examples
///
/// ```
/// use cygnet::coroutine::Coroutine;
///
/// let deep: Coroutine<u32, (), u32> = Coroutine::builder()
///     .name("deep")
///     .stack_size(1 << 20)
///     .create(|_, n| n + 1)?;
/// assert_eq!(deep.name(), Some("deep"));
/// assert!(deep.stack_size() >= 1 << 20);
/// # Ok::<(), cygnet::coroutine::CreateError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing before `create` or `scoped`"]
pub struct Builder {
    name: Option<Arc<str>>,
    stack_size: usize,
}

setters! {
    impl Builder;

    /// Sets the name, for messages and [`current`](super::current()).
    pub fn name(name: impl Into<String>) => Some(name.into().into());

    /// Sets the least size of the stack in bytes, between 16 KiB and 1 GiB. The default is 64 KiB.
    /// It has no meaning for a stack that [the user brings](Builder::create_on).
    ///
    /// The size is rounded up. A guard lies below each stack: code that needs more is stopped by a
    /// fault and never runs into other memory. Only the part that is touched takes memory. A panic
    /// message needs up to 8 KiB of stack, with a stack trace 24 KiB. Large captures and large
    /// values that are passed in or out get extra room.
    pub fn stack_size(bytes: usize) => bytes;
}

impl Builder {
    /// Returns the default settings: no name, and a stack of 64 KiB.
    pub fn new() -> Builder {
        Builder { name: None, stack_size: DEFAULT_SIZE }
    }

    /// Makes the coroutine. Its body starts when it is resumed for the first time. See [`Builder`]
    /// for an example.
    ///
    /// # Errors
    ///
    /// If the stack size is out of bounds, or there is no memory for the stack. `body` is dropped.
    ///
    /// # Cost
    ///
    /// One allocation of the size of the captures, and a stack: about a tenth of a microsecond if
    /// the thread has a warm one, else one or two microseconds, most of it for the first page.
    pub fn create<In, Out, Ret, F>(self, body: F) -> Result<Coroutine<In, Out, Ret>, CreateError>
    where
        F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret + 'static,
        In: 'static,
        Out: 'static,
        Ret: 'static,
    {
        let stack = stacks::take(class(self.stack_size, &body)?)?;
        // SAFETY: the bounds above make everything that the coroutine can borrow 'static. The place
        // is that of the stack.
        Ok(unsafe { Coroutine::create(self.name, stack, false, body) })
    }

    /// Makes the coroutine on a stack that the user brings. See [`Stack`] for an example.
    ///
    /// [`Builder::stack_size`] has no meaning here. The coroutine owns the stack and drops it as
    /// soon as the body has ended. A panic of the stack's destructor goes to the call of
    /// [`resume`](Coroutine::resume), or to the drop, in which the body has ended; what the body
    /// has returned, or panicked with, is then dropped.
    ///
    /// # Errors
    ///
    /// [`CreateError::StackTooSmall`] if the stack has less than 16 KiB and the room that large
    /// captures and large values need. `body` and `stack` are dropped.
    ///
    /// # Cost
    ///
    /// An allocation of the size of the captures, and one of the size of `stack`.
    pub fn create_on<In, Out, Ret, F>(
        self,
        stack: impl Stack + 'static,
        body: F,
    ) -> Result<Coroutine<In, Out, Ret>, CreateError>
    where
        F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret + 'static,
        In: 'static,
        Out: 'static,
        Ret: 'static,
    {
        let needed = SMALLEST.saturating_add(extra(SMALLEST, &body));
        let (stack, place) = UserStack::new(stack, needed)?;
        stacks::notice_the_end_of_this_thread();
        // SAFETY: the bounds above make everything that the coroutine can borrow 'static. The place
        // is that of the stack.
        Ok(unsafe { Coroutine::create(self.name, (OwnedStack::User(stack), place), false, body) })
    }

    /// Makes a coroutine that may be sent to another thread before it starts. See [`Unstarted`] for
    /// an example.
    ///
    /// Only the body must be `Send`. The values that pass in and out, and what the body returns,
    /// stay on the thread where the coroutine runs.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::create`].
    ///
    /// # Cost
    ///
    /// That of [`Builder::create`] without a warm stack: one or two microseconds. The thread on
    /// which the coroutine ends keeps the stack warm, or gives it back.
    pub fn create_sendable<In, Out, Ret, F>(
        self,
        body: F,
    ) -> Result<Unstarted<In, Out, Ret>, CreateError>
    where
        F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret + Send + 'static,
        In: 'static,
        Out: 'static,
        Ret: 'static,
    {
        let stack = stacks::take_for_any_thread(class(self.stack_size, &body)?)?;
        // SAFETY: the bounds above make everything that the coroutine can borrow 'static. The place
        // is that of the stack.
        let coroutine = unsafe { Coroutine::create(self.name, stack, false, body) };
        // SAFETY: the coroutine has just been made, with a body that is `Send` and such a stack.
        Ok(unsafe { Unstarted::new(coroutine) })
    }

    /// Makes a coroutine that may borrow, for the extent of a call: see [`Coroutine::scoped`].
    ///
    /// # Errors
    ///
    /// Those of [`Builder::create`]; `with` is not called then.
    ///
    /// # Panics
    ///
    /// If `with` panics, or the body while it is unwound.
    ///
    /// # Examples
    ///
    /// ```
    /// use cygnet::coroutine::{Builder, Coroutine};
    ///
    /// let text = String::from("borrowed");
    /// let length = Builder::new().stack_size(128 << 10).scoped(
    ///     |_, ()| text.len(),
    ///     |coroutine: &Coroutine<(), (), usize>| coroutine.resume(()).unwrap().returned(),
    /// )?;
    /// assert_eq!(length, Some(8));
    /// # Ok::<(), cygnet::coroutine::CreateError>(())
    /// ```
    pub fn scoped<In, Out, Ret, T>(
        self,
        body: impl FnOnce(&Yielder<In, Out, Ret>, In) -> Ret,
        with: impl FnOnce(&Coroutine<In, Out, Ret>) -> T,
    ) -> Result<T, CreateError> {
        let stack = stacks::take(class(self.stack_size, &body)?)?;
        // SAFETY: the coroutine is dropped when this call ends, also by unwinding. `with` gets a
        // shared reference, so it can neither move the coroutine out nor keep the reference.
        // Everything that the type parameters mention outlives the call. The place is that of the
        // stack.
        let coroutine = unsafe { Coroutine::create(self.name, stack, true, body) };
        let value = with(&coroutine);
        // May panic: before the result is made, which the compiler would leak.
        drop(coroutine);
        Ok(value)
    }
}

default! { impl Builder }

/// Returns the class of a stack of that size, with extra room for large values.
fn class<In, Out, Ret, F>(asked: usize, body: &F) -> Result<StackClass, CreateError>
where
    F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret,
{
    let bytes = asked.saturating_add(extra(asked, body)).min(LARGEST.max(asked));
    StackClass::for_size(bytes.max(asked)).map_err(|_| CreateError::StackSize { asked })
}

/// Returns the room that large values need beyond that of a stack of the size asked for.
fn extra<In, Out, Ret, F>(asked: usize, _: &F) -> usize
where
    F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret,
{
    /// The number of frames that may hold a copy of a value on its way to or from the heap, in a
    /// build without optimisation.
    const COPIES: usize = 8;
    /// The size of a copy: frames with more than the usual alignment are padded.
    const fn room<T>() -> usize {
        if align_of::<T>() > 16 { size_of::<T>() + align_of::<T>() } else { size_of::<T>() }
    }
    let values = [room::<F>(), room::<In>(), room::<Out>(), room::<Ret>()];
    let copies = values.into_iter().fold(0, usize::saturating_add).saturating_mul(COPIES);
    // A few words more or less are the user's responsibility, as everywhere.
    if copies > asked / 16 { copies } else { 0 }
}
