//! Bare coroutines: functions that can be left in the middle and continued.
//!
//! A [`Coroutine`] has a stack of its own. [`resume`](Coroutine::resume) runs its body on it until the
//! body [suspends](Yielder::suspend), from however deep in its calls, or returns; values pass both
//! ways. Nobody schedules it: it runs on the thread of whoever resumes it, while that one waits. No
//! runtime is needed; inside a task of one, a coroutine works as well.
//!
//! ```
//! use cygnet::coroutine::{Coroutine, Resumed};
//!
//! let countdown = Coroutine::new(|yielder, from: u32| {
//!     for n in (1..=from).rev() {
//!         yielder.suspend(n);
//!     }
//!     "lift-off"
//! });
//! assert_eq!(countdown.resume(2), Ok(Resumed::Yielded(2)));
//! assert_eq!(countdown.resume(0), Ok(Resumed::Yielded(1)));
//! assert_eq!(countdown.resume(0), Ok(Resumed::Returned("lift-off")));
//! assert!(countdown.resume(0).is_err());
//! ```
//!
//! # Borrowing
//!
//! [`Coroutine::new`] asks for `'static`: what a suspended body holds must never go away. That a
//! forgotten coroutine does not run again is no excuse. Its body may be inside of
//! [`std::thread::scope`], whose threads run on, and use what was borrowed, until a call ends that now
//! never does. The same holds for values that are passed in. [`Coroutine::scoped`] may borrow, as it
//! makes certain that the coroutine has ended.
//!
//! # Dropping
//!
//! * Before its start: the closure is dropped.
//! * Suspended: the stack is unwound, as by a panic, so that the destructors of its locals run, once,
//!   innermost first; the panic hook is not called. This works also while the dropping thread is
//!   panicking itself. It costs a microsecond or two, and a little for each frame.
//! * If the body catches the unwinding and returns: the result is dropped.
//! * If it catches the unwinding and panics: the drop panics with that, unless the thread is panicking
//!   already; then the panic has been reported by the hook and goes no further.
//! * If it catches the unwinding and suspends: that call panics; at the second attempt the process is
//!   aborted with a sentence.
//! * A panic of a destructor during the unwinding, and unwinding out of a function that does not allow
//!   it (`extern "C"`), end the process, as always in Rust.
//! * In a program built with `panic = "abort"` nothing can be unwound: the stack is leaked with all that
//!   it holds, like by [`std::mem::forget`]; a scoped coroutine, whose loans end, aborts the process
//!   with a sentence. Let coroutines run to their end there.
//!
//! [`std::mem::forget`] leaks the stack and what is on it.
//!
//! # The end of a thread
//!
//! When a thread ends, its thread-local values are destroyed in an order that nobody controls, and
//! code that was suspended inside of [`LocalKey::with`](std::thread::LocalKey::with) must not see a
//! value that is gone. So once the destruction has come to the values that were in use before the
//! thread's first coroutine (where the C library tells: glibc does), a suspended coroutine
//! cannot be resumed ([`ResumeError::ThreadEnding`]), and dropping it leaks its stack instead of
//! unwinding it. This concerns only coroutines that are kept in thread-local values themselves.
//!
//! Values first used later are destroyed earlier, latest first, and no C library tells of that. So do
//! not keep a coroutine in a thread-local value if it may be suspended inside `with` of another one:
//! that is the case of a callback with per-thread state in the [contract](crate#the-thread-rule), and
//! the coroutine may be unwound after the other value has gone.
//!
//! # Limits
//!
//! * A coroutine stays on the thread it was created on: it is neither `Send` nor `Sync`.
//! * A body cannot suspend inside a call that must return first, in the task or thread where it
//!   began: [`scope`](crate::scope()), [`timeout`](crate::timeout()), [`shield`](crate::shield()),
//!   [`ignore_cancellation`](crate::ignore_cancellation()) and
//!   [`TaskLocal::scope`](crate::TaskLocal::scope) change the task until they return;
//!   [`join`](crate::join()), a [parallel loop](crate::par), [`wait`](crate::wait()) and
//!   [`select!`](crate::select!) rely on it until then. So the `poll` of a future that the body waits
//!   for cannot suspend the body. A suspension there panics.
//! * A body cannot suspend while its thread is panicking. A destructor that runs during a panic may
//!   resume a coroutine, which must then run to its end.
//! * As with all stackful coroutines that are safe to use, nothing stops a body from suspending inside
//!   a callback of code that keeps state per thread for the callback's extent, the initialiser of a
//!   thread-local value or `LocalKey::with` for instance. Others see that state until the body goes on. To forget a
//!   coroutine that has borrowed a thread-local value and shares it with a scoped thread, and then to
//!   end the thread, is undefined behaviour.
//! * Code that overflows its stack is stopped by the guard: the process ends by a signal, with a report
//!   that names the coroutine if a runtime has installed its handler.
//! * After `fork`, the child has the coroutines of the forking thread; they work there.

mod builder;
mod current;
mod error;
mod link;
mod stacks;
mod thread_end;
mod yielder;

#[cfg(all(test, not(loom)))]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use crate::retire::context::Context;
use crate::retire::stack::{Stack, StackClass};
use crate::task::outcome::drop_payload;

pub use builder::Builder;
pub(crate) use current::describe_overflow;
pub use current::{Current, current};
pub use error::{CreateError, ResumeError};
pub use link::State;
use link::{Link, fatal};
use yielder::Transfer;
pub use yielder::Yielder;

/// How far a coroutine has come when [`Coroutine::resume`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resumed<Out, Ret> {
    /// It has suspended, with this value, and can be resumed.
    Yielded(Out),
    /// Its body has returned this value.
    Returned(Ret),
}

impl<Out, Ret> Resumed<Out, Ret> {
    /// The value it has suspended with. See [`Coroutine::scoped`] for an example.
    pub fn yielded(self) -> Option<Out> {
        match self {
            Resumed::Yielded(value) => Some(value),
            Resumed::Returned(_) => None,
        }
    }

    /// The value its body has returned. See [`Coroutine::resume`] for an example.
    pub fn returned(self) -> Option<Ret> {
        match self {
            Resumed::Yielded(_) => None,
            Resumed::Returned(value) => Some(value),
        }
    }
}

/// A function on a stack of its own, which takes `In` each time it is resumed, gives `Out` each time
/// it suspends, and returns `Ret` in the end. See [the module's documentation](self).
///
/// It belongs to its thread:
///
/// ```compile_fail,E0277
/// let coroutine = cygnet::coroutine::Coroutine::<(), (), ()>::new(|_, ()| ());
/// std::thread::spawn(move || coroutine.resume(()));
/// ```
///
/// ```compile_fail,E0277
/// let coroutine = cygnet::coroutine::Coroutine::<(), (), ()>::new(|_, ()| ());
/// std::thread::scope(|s| s.spawn(|| coroutine.resume(())).join());
/// ```
pub struct Coroutine<In, Out, Ret> {
    /// Owned. A pointer and not a box, as a running body has references into it, too.
    core: NonNull<Core<In, Out, Ret, dyn Captures>>,
}

/// What a coroutine owns, at an address that does not change.
struct Core<In, Out, Ret, Body: ?Sized> {
    yielder: Yielder<In, Out>,
    /// Until it has ended.
    stack: Cell<Option<Stack>>,
    /// From its end until the resumer takes it.
    result: Cell<Option<thread::Result<Ret>>>,
    /// A `Cell<Option<F>>`, full until the start.
    body: Body,
}

/// Anything; all that is left of the type of a body is how to drop it.
trait Captures {}

impl<T> Captures for T {}

impl Coroutine<(), (), ()> {
    /// Settings for a coroutine of any type; [`Builder::create`] makes it. See [`Builder`] for an
    /// example.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<In, Out, Ret> Coroutine<In, Out, Ret> {
    /// Makes a coroutine without a name and with the usual stack of 64 KiB. Its body starts when it is
    /// resumed for the first time; `In` of that first call is its second argument.
    ///
    /// # Panics
    ///
    /// If there is no memory for its stack; [`Builder::create`] returns an error instead.
    ///
    /// # Cost
    ///
    /// As [`Builder::create`].
    ///
    /// # Examples
    ///
    /// It cannot borrow from its surroundings; [`Coroutine::scoped`] can.
    ///
    /// ```compile_fail,E0597
    /// use cygnet::coroutine::Coroutine;
    ///
    /// let local = String::from("gone too early");
    /// let text = local.as_str();
    /// let coroutine = Coroutine::<(), (), usize>::new(move |_, ()| text.len());
    /// ```
    pub fn new<F>(body: F) -> Coroutine<In, Out, Ret>
    where
        F: FnOnce(&Yielder<In, Out>, In) -> Ret + 'static,
        In: 'static,
        Out: 'static,
        Ret: 'static,
    {
        Builder::new().create(body).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Makes a coroutine that may borrow, and passes it to `with`. When that ends, the coroutine is
    /// dropped: if it is suspended then, it is unwound.
    ///
    /// # Panics
    ///
    /// As [`Coroutine::new`]; [`Builder::scoped`] returns an error instead. And with a panic of `with`,
    /// or of the body while it is unwound.
    ///
    /// # Cost
    ///
    /// As [`Builder::create`], and what a drop costs if it is suspended at the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use cygnet::coroutine::Coroutine;
    ///
    /// let words = vec!["a", "stack", "each"];
    /// let mut lengths = Vec::new();
    /// Coroutine::scoped(
    ///     |yielder, ()| words.iter().for_each(|word| yielder.suspend(word.len())),
    ///     |coroutine| {
    ///         while let Some(length) = coroutine.resume(()).unwrap().yielded() {
    ///             lengths.push(length);
    ///         }
    ///     },
    /// );
    /// assert_eq!(lengths, [1, 5, 4]);
    /// ```
    ///
    /// What it lends to the body cannot be used by others before the end:
    ///
    /// ```compile_fail,E0502
    /// use cygnet::coroutine::Coroutine;
    ///
    /// let mut words = vec!["a", "stack", "each"];
    /// Coroutine::<(), &str, ()>::scoped(
    ///     |yielder, ()| words.iter().for_each(|word| yielder.suspend(word)),
    ///     |coroutine| {
    ///         coroutine.resume(()).unwrap();
    ///         words.clear();
    ///     },
    /// );
    /// ```
    pub fn scoped<T>(
        body: impl FnOnce(&Yielder<In, Out>, In) -> Ret,
        with: impl FnOnce(&Coroutine<In, Out, Ret>) -> T,
    ) -> T {
        Builder::new().scoped(body, with).unwrap_or_else(|error| panic!("{error}"))
    }

    /// # Safety
    /// What `F`, `In`, `Out` and `Ret` borrow is 'static, or `scoped` is true and the coroutine is
    /// dropped before the loans end; not forgotten.
    unsafe fn create<F>(
        name: Option<Arc<str>>,
        class: StackClass,
        scoped: bool,
        body: F,
    ) -> Result<Coroutine<In, Out, Ret>, CreateError>
    where
        F: FnOnce(&Yielder<In, Out>, In) -> Ret,
    {
        let stack = stacks::take(class)?;
        let memory = Box::<Core<In, Out, Ret, Cell<Option<F>>>>::new_uninit();
        let core = NonNull::from(Box::leak(memory)).cast::<Core<In, Out, Ret, Cell<Option<F>>>>();
        let (top, entry) = (stack.top(), root::<In, Out, Ret, F>);
        // SAFETY: the stack has just been taken, so nothing lives on it. When the entry is called,
        // `core` has been written.
        let context = unsafe { Context::on_stack(&stack, top, entry, core.as_ptr().cast()) };
        let link = Link::new(context, name, class.size(), stack.guard(), scoped);
        let whole = Core {
            yielder: Yielder { link, transfer: Transfer::new() },
            stack: Cell::new(Some(stack)),
            result: Cell::new(None),
            body: Cell::new(Some(body)),
        };
        // SAFETY: the memory is that of a box for just this type.
        unsafe { core.write(whole) };
        type Pointer<'f, In, Out, Ret> = NonNull<Core<In, Out, Ret, dyn Captures + 'f>>;
        // SAFETY: the two types differ in a lifetime, which the caller sees to.
        let core = unsafe {
            mem::transmute::<Pointer<'_, In, Out, Ret>, Pointer<'static, In, Out, Ret>>(core)
        };
        Ok(Coroutine { core })
    }

    #[inline(always)]
    fn core(&self) -> &Core<In, Out, Ret, dyn Captures> {
        // SAFETY: it was made by `create` and lives as long as `self`. Only shared references to it
        // exist before it is dropped.
        unsafe { self.core.as_ref() }
    }

    #[inline(always)]
    fn link(&self) -> &Link {
        &self.core().yielder.link
    }

    /// Runs the coroutine until it suspends or returns: starts its body with `input`, or lets the
    /// [`Yielder::suspend`] that it waits in return `input`.
    ///
    /// The caller waits meanwhile. Coroutines may resume others, to any depth.
    ///
    /// # Errors
    ///
    /// If it is running, which is so if it tries to resume itself or one that has resumed it; or if it
    /// has finished; or if it is suspended and [its thread is ending](self#the-end-of-a-thread). The
    /// error gives `input` back, and nothing has happened.
    ///
    /// # Panics
    ///
    /// With the panic of the body, if that panics; it has been reported by the panic hook, and the
    /// coroutine is finished. That includes the panic of a body that is resumed while the thread is
    /// panicking, and suspends instead of running to its end: in a destructor that does not catch it,
    /// it ends the process.
    ///
    /// # Cost
    ///
    /// Two switches with the way back, and a few loads and stores: some nanoseconds. Nothing is
    /// allocated. The first one touches the stack, and the last one gives it back.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use cygnet::coroutine::{Coroutine, ResumeError, State};
    ///
    /// let ouroboros = Rc::new_cyclic(|weak: &std::rc::Weak<Coroutine<&str, (), bool>>| {
    ///     let weak = weak.clone();
    ///     Coroutine::new(move |_, _| {
    ///         let me = weak.upgrade().unwrap();
    ///         me.resume("tail") == Err(ResumeError::Running("tail"))
    ///     })
    /// });
    /// assert_eq!(ouroboros.resume("head").unwrap().returned(), Some(true));
    /// assert_eq!(ouroboros.state(), State::Finished);
    /// ```
    #[inline]
    pub fn resume(&self, input: In) -> Result<Resumed<Out, Ret>, ResumeError<In>> {
        let core = self.core();
        let link = &core.yielder.link;
        if !link.may_be_resumed() {
            return Err(refusal(link.state(), input));
        }
        // SAFETY: the body does not run, and has taken its last input first thing.
        unsafe { core.yielder.transfer.put_input(input) };
        // SAFETY: the state allows it; what the body borrows is there by the contract of `create`, and
        // as to thread-local values by `may_go_on`. This borrow of `self` keeps the core.
        unsafe { link.enter() };
        if link.state() != State::Suspended {
            return Ok(Resumed::Returned(core.finish()));
        }
        // SAFETY: it has just suspended.
        Ok(Resumed::Yielded(unsafe { core.yielder.transfer.take_output() }))
    }

    /// Where it is in its life. A load.
    ///
    /// # Examples
    ///
    /// ```
    /// use cygnet::coroutine::{Coroutine, State};
    ///
    /// let twice = Coroutine::<(), (), ()>::new(|yielder, ()| yielder.suspend(()));
    /// assert_eq!(twice.state(), State::Created);
    /// twice.resume(()).unwrap();
    /// assert_eq!(twice.state(), State::Suspended);
    /// twice.resume(()).unwrap();
    /// assert_eq!(twice.state(), State::Finished);
    /// ```
    pub fn state(&self) -> State {
        self.link().state()
    }

    /// Whether its body has returned or panicked. A load.
    pub fn is_finished(&self) -> bool {
        self.state() == State::Finished
    }

    /// Its id, which no other coroutine of this process has or will have. A load. See
    /// [`current()`] for an example.
    pub fn id(&self) -> u64 {
        self.link().id
    }

    /// The name it was created with. A load. See [`Builder`] for an example.
    pub fn name(&self) -> Option<&str> {
        self.link().name()
    }

    /// The size of its stack in bytes, which is at least what was asked for. A load. See [`Builder`] for
    /// an example.
    pub fn stack_size(&self) -> usize {
        self.link().stack_size
    }
}

impl<In, Out, Ret, Body: ?Sized> Core<In, Out, Ret, Body> {
    /// Takes leave of a body that has ended.
    #[cold]
    #[inline(never)]
    fn finish(&self) -> Ret {
        self.release();
        match self.result.take().expect("a body that has ended left its result") {
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Gives back the stack, which holds no frames.
    fn release(&self) {
        if let Some(stack) = self.stack.take() {
            #[cfg(cygnet_tsan)]
            self.yielder.link.retire();
            stacks::give_back(stack);
        }
    }

    /// Ends a suspended body. False if that cannot be: then all of it must stay as it is for ever.
    fn unwind(&self) -> bool {
        let link = &self.yielder.link;
        if cfg!(panic = "abort") && link.scoped {
            fatal(
                "was left suspended by the end of its scope and cannot be unwound in a program built \
                 with panic=abort",
                link,
            );
        }
        if cfg!(panic = "abort") || !link.may_go_on() {
            return false;
        }
        // SAFETY: as in `resume`. The caller, a destructor, keeps the core.
        unsafe { link.unwind() };
        true
    }
}

impl<In, Out, Ret> Drop for Coroutine<In, Out, Ret> {
    fn drop(&mut self) {
        let core = self.core();
        match core.yielder.link.state() {
            State::Created | State::Finished => {}
            State::Suspended if core.unwind() => {}
            State::Suspended => return,
            // Whoever runs it is in `resume`, which borrows the coroutine.
            State::Running => fatal("is dropped while it is running", &core.yielder.link),
        }
        core.release();
        let result = core.result.take();
        // SAFETY: it comes from a box of this layout, and nobody uses it any more: the body has ended
        // or was never called.
        drop(unsafe { Box::from_raw(self.core.as_ptr()) });
        match result {
            // The hook has reported it.
            Some(Err(payload)) if crate::shim::panicking() => drop_payload(payload),
            Some(Err(payload)) => resume_unwind(payload),
            Some(Ok(_)) | None => {}
        }
    }
}

impl<In, Out, Ret> fmt::Debug for Coroutine<In, Out, Ret> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coroutine")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// Why [`Coroutine::resume`] does nothing.
#[cold]
fn refusal<In>(state: State, input: In) -> ResumeError<In> {
    match state {
        State::Created | State::Suspended => ResumeError::ThreadEnding(input),
        State::Running => ResumeError::Running(input),
        State::Finished => ResumeError::Finished(input),
    }
}

/// The first frame on the stack of a coroutine.
///
/// # Safety
/// `core` is the coroutine's, complete, with a full body and an input; this is the first switch to it.
unsafe extern "C" fn root<In, Out, Ret, F>(core: *mut u8, message: usize)
where
    F: FnOnce(&Yielder<In, Out>, In) -> Ret,
{
    // SAFETY: that is what it is, and whoever resumes or drops the coroutine waits until this flow has
    // left.
    let core = unsafe { &*core.cast::<Core<In, Out, Ret, Cell<Option<F>>>>() };
    let link = &core.yielder.link;
    // SAFETY: passed on.
    unsafe { link.begin(message) };
    let result = catch_unwind(AssertUnwindSafe(|| {
        let body = core.body.take().expect("a body is called once");
        // SAFETY: it has just been resumed for the first time: what is only dropped never starts.
        let input = unsafe { core.yielder.transfer.take_input() };
        body(&core.yielder, input)
    }));
    match result {
        Err(payload) if link.was_unwound_by(&*payload) => {}
        result => core.result.set(Some(result)),
    }
    // SAFETY: no variable of this frame, the only one left, has a destructor that is still to run.
    unsafe { link.end() }
}
