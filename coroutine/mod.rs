//! Bare coroutines: functions that can suspend and resume.
//!
//! A [`Coroutine`] has a stack of its own. [`resume`](Coroutine::resume) runs its body on that
//! stack until the body [suspends](Yielder::suspend), from however deep in its calls, or returns;
//! values pass both ways. No scheduler is involved: a coroutine runs on the thread of its resumer,
//! while the resumer waits. No runtime is needed, but coroutines also work inside a task.
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
//! [`Coroutine::new`] requires `'static`, as a suspended body must be able to rely on its values
//! for ever. It does not help that a forgotten coroutine never runs again: its body may be
//! suspended inside [`std::thread::scope`]. The threads of that scope then use borrowed data until
//! a call returns that now never does. The same holds for values that are passed in.
//! [`Coroutine::scoped`] may borrow, as it guarantees that the coroutine has ended.
//!
//! # Dropping
//!
//! * Before its start: the closure is dropped.
//! * Suspended: the stack is unwound, as by a panic, so that the destructors of its locals run,
//!   once, innermost first. The panic hook is not called. This also works while the dropping thread
//!   is panicking itself. It costs a microsecond or two, and a little for each frame.
//! * If the body catches the unwinding and returns: the result is dropped.
//! * If the body catches the unwinding and panics: the drop panics with that payload, unless the
//!   thread is panicking already. In that case the hook has reported the panic, and it goes no
//!   further.
//! * If the body catches the unwinding and suspends: that call panics. At the second attempt the
//!   process is aborted with a message.
//! * A panic of a destructor during the unwinding, and unwinding out of a function that does not
//!   allow it (`extern "C"`), end the process, as always in Rust.
//! * In a program built with `panic = "abort"` nothing can be unwound. The stack is leaked with
//!   everything on it, as by [`std::mem::forget`]. The borrows of a scoped coroutine end, so
//!   dropping it aborts the process with a message instead. Let coroutines run to their end in such
//!   programs.
//!
//! [`std::mem::forget`] leaks the stack and everything on it.
//!
//! # The end of a thread
//!
//! When a thread ends, its thread-local values are destroyed in an order that no code controls, and
//! code that was suspended inside [`LocalKey::with`](std::thread::LocalKey::with) must not see a
//! value that is gone. So there is a point in the destruction after which a suspended coroutine
//! cannot be resumed ([`ResumeError::ThreadEnding`]), and dropping it leaks its stack instead of
//! unwinding it: just before the values are destroyed that were in use before the thread's first
//! coroutine. Only some C libraries report this point; glibc does. The rule concerns only
//! coroutines that are kept in thread-local values themselves.
//!
//! Values first used later are destroyed earlier, latest first, and no C library reports that. So
//! do not keep a coroutine in a thread-local value if it may be suspended inside `with` of another
//! one. This is the case of a callback with per-thread state in the
//! [contract](crate#the-thread-rule): the coroutine may be unwound after the other value has gone.
//!
//! # Limits
//!
//! * A coroutine stays on the thread it was created on: it is neither `Send` nor `Sync`.
//! * A body cannot suspend inside a call that must return first, in the task or thread where it
//!   began. [`scope`](crate::scope()), [`timeout`](crate::timeout()), [`shield`](crate::shield()),
//!   [`ignore_cancellation`](crate::ignore_cancellation()) and
//!   [`TaskLocal::scope`](crate::TaskLocal::scope) change the task until they return.
//!   [`join`](crate::join()), a [parallel loop](crate::par), [`wait`](crate::wait()) and
//!   [`select!`](crate::select!) rely on it until then; so the `poll` of a future that the body
//!   waits for cannot suspend the body. A suspension in any of these calls panics.
//! * A body cannot suspend while its thread is panicking. A destructor that runs during a panic may
//!   resume a coroutine, which must then run to its end.
//! * As with all stackful coroutines that are safe to use, nothing stops a body from suspending
//!   inside a callback of code that keeps per-thread state for the callback's extent, for instance
//!   the initialiser of a thread-local value or `LocalKey::with`. Other code on the thread sees
//!   that state until the body goes on. It is undefined behaviour to forget a coroutine that has
//!   borrowed a thread-local value and shares it with a scoped thread, and then to end the thread.
//! * Code that overflows its stack is stopped by the guard: the process ends by a signal, with a
//!   report that names the coroutine if a runtime has installed its handler.
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
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use crate::retire::passage::{Passage, Return};
use crate::retire::stack::{Stack, StackClass};
use crate::task::outcome::drop_payload;

pub use builder::Builder;
pub(crate) use current::describe_overflow;
pub use current::{Current, current};
pub use error::{CreateError, ResumeError};
pub use link::State;
use link::{Link, fatal};
use yielder::Passed;
pub use yielder::Yielder;

/// The progress of a coroutine when [`Coroutine::resume`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resumed<Out, Ret> {
    /// The coroutine has suspended with this value and can be resumed.
    Yielded(Out),
    /// The coroutine's body has returned this value.
    Returned(Ret),
}

impl<Out, Ret> Resumed<Out, Ret> {
    /// Returns the value that the coroutine has suspended with. See [`Coroutine::scoped`] for an
    /// example.
    pub fn yielded(self) -> Option<Out> {
        match self {
            Resumed::Yielded(value) => Some(value),
            Resumed::Returned(_) => None,
        }
    }

    /// Returns the value that the body has returned. See [`Coroutine::resume`] for an example.
    pub fn returned(self) -> Option<Ret> {
        match self {
            Resumed::Yielded(_) => None,
            Resumed::Returned(value) => Some(value),
        }
    }
}

/// A function on a stack of its own.
///
/// It takes `In` each time it is resumed, gives `Out` each time it suspends, and returns `Ret` in
/// the end. See [the module's documentation](self).
///
/// A coroutine belongs to its thread:
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
    /// Owned. A pointer rather than a box, as a running body has references into the core, too.
    whole: NonNull<Whole<In, Out, Ret, dyn Captures>>,
}

/// The state of a coroutine, at an address that does not change, and its body.
#[repr(C)]
struct Whole<In, Out, Ret, Body: ?Sized> {
    core: Core<In, Out, Ret>,
    /// A `Cell<Option<F>>`, full until the start.
    body: Body,
}

/// The state of a coroutine, apart from its body. The link comes first, so that one register points
/// to all of them.
#[repr(C)]
struct Core<In, Out, Ret> {
    yielder: Yielder<In, Out>,
    /// `Some` until the coroutine has ended.
    stack: Cell<Option<Stack>>,
    /// `Some` from the coroutine's end until the resumer takes the result.
    result: Cell<Option<thread::Result<Ret>>>,
}

/// The type of any body, erased: the only thing left to do with it is to drop it.
trait Captures {}

impl<T> Captures for T {}

impl Coroutine<(), (), ()> {
    /// Returns settings for a coroutine of any type; [`Builder::create`] makes it. See [`Builder`]
    /// for an example.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<In, Out, Ret> Coroutine<In, Out, Ret> {
    /// Makes a coroutine without a name and with the usual stack of 64 KiB.
    ///
    /// The body starts when the coroutine is resumed for the first time. Its second argument is the
    /// input of that call.
    ///
    /// # Panics
    ///
    /// If there is no memory for its stack; [`Builder::create`] returns an error instead.
    ///
    /// # Cost
    ///
    /// The same as for [`Builder::create`].
    ///
    /// # Examples
    ///
    /// The body cannot borrow from its surroundings; with [`Coroutine::scoped`] it can.
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

    /// Makes a coroutine that may borrow, and passes it to `with`. When `with` ends, the coroutine
    /// is dropped; if it is suspended then, it is unwound.
    ///
    /// # Panics
    ///
    /// Like [`Coroutine::new`], if there is no memory for the stack; [`Builder::scoped`] returns an
    /// error instead. If `with` panics, or the body while it is unwound.
    ///
    /// # Cost
    ///
    /// The same as for [`Builder::create`], and that of a drop if the coroutine is suspended at the
    /// end.
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
    /// The values that the body borrows cannot be used otherwise before the end:
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
    /// Everything that `F`, `In`, `Out` and `Ret` borrow is 'static; or `scoped` is true and the
    /// coroutine is dropped, not forgotten, before the borrows end.
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
        let memory = Box::<Whole<In, Out, Ret, Cell<Option<F>>>>::new_uninit();
        let whole = NonNull::from(Box::leak(memory)).cast::<Whole<In, Out, Ret, Cell<Option<F>>>>();
        let entry = root::<In, Out, Ret, F>;
        // SAFETY: the stack has just been taken, so nothing lives on it. When the entry is called,
        // `whole` has been written.
        let passage = unsafe { Passage::on_stack(&stack, entry, whole.as_ptr().cast()) };
        let link = Link::new(passage, name, class.size(), stack.guard(), scoped);
        let core = Core {
            yielder: Yielder { link, passed: Cell::new(Passed { nothing: () }) },
            stack: Cell::new(Some(stack)),
            result: Cell::new(None),
        };
        // SAFETY: the memory is a box for exactly this type, and nothing has been written to it
        // yet.
        unsafe { whole.write(Whole { core, body: Cell::new(Some(body)) }) };
        type Pointer<'f, In, Out, Ret> = NonNull<Whole<In, Out, Ret, dyn Captures + 'f>>;
        // SAFETY: the two types differ in a lifetime only, and the caller answers for that
        // lifetime.
        let whole = unsafe {
            mem::transmute::<Pointer<'_, In, Out, Ret>, Pointer<'static, In, Out, Ret>>(whole)
        };
        Ok(Coroutine { whole })
    }

    #[inline(always)]
    fn core(&self) -> &Core<In, Out, Ret> {
        // SAFETY: the core was made by `create` and lives as long as `self`. Until the drop there
        // are only shared references to it.
        unsafe { &self.whole.as_ref().core }
    }

    #[inline(always)]
    fn link(&self) -> &Link {
        &self.core().yielder.link
    }

    /// Runs the coroutine until it suspends or returns.
    ///
    /// A first call starts the body with `input`. A later call makes [`Yielder::suspend`], in which
    /// the body waits, return `input`. The caller waits meanwhile. Coroutines may resume others, to
    /// any depth.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Running`] if the coroutine tries to resume itself or one that has resumed it,
    /// [`ResumeError::Finished`] if its body has ended, and [`ResumeError::ThreadEnding`] if it is
    /// suspended and [its thread is ending](self#the-end-of-a-thread). The error gives `input`
    /// back, and nothing has happened.
    ///
    /// # Panics
    ///
    /// If the body panics, the panic is resumed in the caller. The panic hook has reported it, and
    /// the coroutine is finished. This includes a body that is resumed while the thread is
    /// panicking and then suspends instead of running to its end: unless the destructor that
    /// resumed it catches that panic, it ends the process.
    ///
    /// # Cost
    ///
    /// Two switches, there and back, and a few loads and stores: some nanoseconds. Nothing is
    /// allocated. The first call touches the stack, and the last one gives it back.
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
        let Some(resuming) = link.try_resume() else {
            return Err(refusal(link.state(), input));
        };
        let passed = &core.yielder.passed;
        passed.set(Passed { input: ManuallyDrop::new(input) });
        // SAFETY: what the body borrows is still there: by the contract of `create`, and for
        // thread-local values by `may_go_on`. This borrow of `self` keeps the core alive.
        match unsafe { resuming.resume() } {
            Return::Suspended => {
                // SAFETY: the body has just suspended, so it has put an output there. It does not
                // run, so this access is the only one.
                let output = unsafe { ManuallyDrop::take(&mut (*passed.as_ptr()).output) };
                Ok(Resumed::Yielded(output))
            }
            Return::Ended => Ok(Resumed::Returned(core.finish())),
        }
    }

    /// Returns the state of the coroutine. Two loads.
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

    /// Returns whether the body has returned or panicked. Two loads.
    pub fn is_finished(&self) -> bool {
        self.state() == State::Finished
    }

    /// Returns the coroutine's id, which no other coroutine of this process has or will have. A
    /// load. See [`current()`] for an example.
    pub fn id(&self) -> u64 {
        self.link().id
    }

    /// Returns the name that the coroutine was created with. A load. See [`Builder`] for an
    /// example.
    pub fn name(&self) -> Option<&str> {
        self.link().name.as_deref()
    }

    /// Returns the size of the stack in bytes, which is at least the size asked for. A load. See
    /// [`Builder`] for an example.
    pub fn stack_size(&self) -> usize {
        self.link().stack_size
    }
}

impl<In, Out, Ret> Core<In, Out, Ret> {
    /// Releases the stack of a body that has ended, and returns or throws its result.
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

    /// Unwinds a suspended body. Returns `false` if that is impossible; everything must then stay
    /// as it is for ever.
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
        // SAFETY: the body is suspended and may go on: what it borrows is there by the contract of
        // `create`, and thread-local values by `may_go_on`. The caller, a destructor, keeps the
        // core alive.
        match unsafe { link.unwind() } {
            Return::Ended => true,
            Return::Suspended => fatal("came back from its unwinding without having ended", link),
        }
    }
}

impl<In, Out, Ret> Drop for Coroutine<In, Out, Ret> {
    // A copy is dropped, so that the compiler can keep the pointer in a register up to the drop. If
    // a reference to `self` were passed, each resumption would load the pointer anew.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `self` is being dropped, and the copy is not dropped.
        unsafe { Coroutine::end(ManuallyDrop::new(Coroutine { whole: self.whole })) }
    }
}

impl<In, Out, Ret> Coroutine<In, Out, Ret> {
    /// Ends the body and frees the coroutine.
    ///
    /// # Safety
    /// Neither the coroutine nor a copy of it is used again.
    #[inline(never)]
    unsafe fn end(this: ManuallyDrop<Self>) {
        let core = this.core();
        match core.yielder.link.state() {
            State::Created | State::Finished => {}
            State::Suspended if core.unwind() => {}
            State::Suspended => return,
            // A running coroutine is borrowed by the `resume` that runs it, so it cannot be
            // dropped.
            State::Running => fatal("is dropped while it is running", &core.yielder.link),
        }
        core.release();
        let result = core.result.take();
        // SAFETY: the pointer comes from a box of this layout. The body has ended or was never
        // called, so there is no other user of the core, by contract.
        drop(unsafe { Box::from_raw(this.whole.as_ptr()) });
        match result {
            // The panic hook has reported this panic.
            Some(Err(payload)) if crate::shim::panicking() => drop_payload(payload),
            Some(Err(payload)) => resume_unwind(payload),
            Some(Ok(_)) | None => {}
        }
    }
}

debug! {
    impl<In, Out, Ret> Coroutine<In, Out, Ret> as this {
        id: this.id(),
        name: this.name(),
        state: this.state(),
        ..
    }
}

/// Returns why [`Coroutine::resume`] refuses to run.
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
/// `whole` is the whole of the coroutine, with a body and an input. This is the first switch to the
/// coroutine.
unsafe extern "C" fn root<In, Out, Ret, F>(whole: *mut u8, message: usize)
where
    F: FnOnce(&Yielder<In, Out>, In) -> Ret,
{
    // SAFETY: `whole` has this type by contract, and the resumer or dropper of the coroutine waits
    // until this flow has left, so it stays alive.
    let Whole { core, body } = unsafe { &*whole.cast::<Whole<In, Out, Ret, Cell<Option<F>>>>() };
    let link = &core.yielder.link;
    // SAFETY: this is the first switch to the coroutine, by contract, and `message` came with it.
    unsafe { link.passage.arrive(message) };
    link.begin();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let body = body.take().expect("a body is called once");
        // SAFETY: the coroutine has just been resumed for the first time, so there is an input: a
        // coroutine that is dropped before that never starts.
        let input = unsafe { ManuallyDrop::take(&mut (*core.yielder.passed.as_ptr()).input) };
        body(&core.yielder, input)
    }));
    match result {
        Err(payload) if link.was_unwound_by(&*payload) => {}
        result => core.result.set(Some(result)),
    }
    // SAFETY: this is the root of the body, and none of its variables has a destructor still to
    // run. Each coroutine that the body has resumed has come back, so the body is the innermost
    // one.
    unsafe { link.leave() }
}
