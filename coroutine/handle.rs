//! The handle of a coroutine.

use std::mem::ManuallyDrop;
use std::panic::resume_unwind;
use std::ptr::NonNull;

use super::link::{Link, fatal};
use super::whole::{Captures, Core, Whole};
use super::yielder::{Passed, Yielder};
use super::{Builder, ResumeError, Resumed, State};
use crate::retire::passage::Return;
use crate::task::outcome::drop_payload;

/// A function on a stack of its own.
///
/// It takes `In` each time it is resumed, gives `Out` each time it suspends, and returns `Ret` in
/// the end. See [the module's documentation](super).
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
    pub(super) whole: NonNull<Whole<In, Out, Ret, dyn Captures>>,
}

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
        F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret + 'static,
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
        body: impl FnOnce(&Yielder<In, Out, Ret>, In) -> Ret,
        with: impl FnOnce(&Coroutine<In, Out, Ret>) -> T,
    ) -> T {
        Builder::new().scoped(body, with).unwrap_or_else(|error| panic!("{error}"))
    }

    #[inline(always)]
    pub(super) fn core(&self) -> &Core<In, Out, Ret> {
        // SAFETY: the core was made by `create` and lives as long as `self`. Until the drop there
        // are only shared references to it.
        unsafe { &self.whole.as_ref().core }
    }

    #[inline(always)]
    pub(super) fn link(&self) -> &Link {
        &self.core().yielder.link
    }

    /// Runs the coroutine until it suspends or returns.
    ///
    /// A first call starts the body with `input`. A later call makes [`Yielder::suspend`], in which
    /// the body waits, return `input`. The caller waits meanwhile. Coroutines may resume others, to
    /// any depth. If the body [transfers](Yielder::transfer) to another coroutine, the call
    /// returns, or panics, when that one suspends or ends.
    ///
    /// # Errors
    ///
    /// [`ResumeError::Running`] if the coroutine tries to resume itself or one that has resumed it,
    /// [`ResumeError::Finished`] if its body has ended, and [`ResumeError::ThreadEnding`] if it is
    /// suspended and [its thread is ending](super#the-end-of-a-thread). The error gives `input`
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
            // SAFETY: the body has just suspended.
            Return::Suspended => Ok(Resumed::Yielded(unsafe { core.yielder.take_output() })),
            Return::Otherwise => Ok(core.back_otherwise()),
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
    /// load. See [`current()`](super::current()) for an example.
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
        let stack = core.take_stack();
        let result = core.result.take();
        // SAFETY: the pointer comes from a box of this layout. The body has ended or was never
        // called, so there is no other user of the core, by contract.
        drop(unsafe { Box::from_raw(this.whole.as_ptr()) });
        drop(stack);
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

/// Returns why a coroutine in this state cannot be resumed.
#[cold]
pub(super) fn refusal<In>(state: State, input: In) -> ResumeError<In> {
    match state {
        State::Created | State::Suspended => ResumeError::ThreadEnding(input),
        State::Running => ResumeError::Running(input),
        State::Finished => ResumeError::Finished(input),
    }
}
