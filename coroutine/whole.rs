//! The block of a coroutine: its state, its body, and the first frame on its stack.

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use super::Coroutine;
use super::link::{Link, fatal};
use super::stacks::{OwnedStack, Place};
use super::yielder::{Passed, Yielder};
use crate::retire::passage::{Passage, Return};

/// The state of a coroutine, at an address that does not change, and its body.
#[repr(C)]
pub(super) struct Whole<In, Out, Ret, Body: ?Sized> {
    pub(super) core: Core<In, Out, Ret>,
    /// A `Cell<Option<F>>`, full until the start.
    pub(super) body: Body,
}

/// The state of a coroutine, apart from its body. The link comes first, so that one register points
/// to all of them.
#[repr(C)]
pub(super) struct Core<In, Out, Ret> {
    pub(super) yielder: Yielder<In, Out, Ret>,
    /// `Some` until the coroutine has ended.
    stack: Cell<Option<OwnedStack>>,
    /// `Some` from the coroutine's end until the resumer takes the result.
    pub(super) result: Cell<Option<thread::Result<Ret>>>,
}

/// The type of any body, erased: the only thing left to do with it is to drop it.
pub(super) trait Captures {}

impl<T> Captures for T {}

impl<In, Out, Ret> Coroutine<In, Out, Ret> {
    /// # Safety
    /// Everything that `F`, `In`, `Out` and `Ret` borrow is 'static; or `scoped` is true and the
    /// coroutine is dropped, not forgotten, before the borrows end. The place is that of the stack.
    pub(super) unsafe fn create<F>(
        name: Option<Arc<str>>,
        (stack, place): (OwnedStack, Place),
        scoped: bool,
        body: F,
    ) -> Coroutine<In, Out, Ret>
    where
        F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret,
    {
        let memory = Box::<Whole<In, Out, Ret, Cell<Option<F>>>>::new_uninit();
        let whole = NonNull::from(Box::leak(memory)).cast::<Whole<In, Out, Ret, Cell<Option<F>>>>();
        let entry = root::<In, Out, Ret, F>;
        let Place { bottom, end, top, guard, size } = place;
        let data = whole.as_ptr().cast();
        // SAFETY: the place is that of the stack, by contract, and has room for the first frame.
        // The stack has not been used since it was taken, so nothing lives on it. When the entry is
        // called, `whole` has been written.
        let passage = unsafe { Passage::on_part(bottom, end, top, entry, data) };
        let link = Link::new(passage, name, size, guard, scoped);
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
        Coroutine { whole }
    }
}

impl<In, Out, Ret> Core<In, Out, Ret> {
    /// Releases the stack of a body that has ended, and returns or throws its result.
    pub(super) fn finish(&self) -> Ret {
        let result = self.result.take().expect("a body that has ended left its result");
        drop(self.take_stack());
        match result {
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Takes the stack, which holds no frames, to be given back.
    pub(super) fn take_stack(&self) -> Option<OwnedStack> {
        let stack = self.stack.take();
        #[cfg(cygnet_tsan)]
        if stack.is_some() {
            self.yielder.link.retire();
        }
        stack
    }

    /// Unwinds a suspended body. Returns `false` if that is impossible; everything must then stay
    /// as it is for ever.
    pub(super) fn unwind(&self) -> bool {
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
            // The body cannot transfer while it is unwound, so it has ended.
            Return::Otherwise => true,
            Return::Suspended => fatal("came back from its unwinding without having ended", link),
        }
    }
}

/// The first frame on the stack of a coroutine.
///
/// # Safety
/// `whole` is the whole of the coroutine, with a body and an input. This is the first switch to the
/// coroutine.
unsafe extern "C" fn root<In, Out, Ret, F>(whole: *mut u8, message: usize)
where
    F: FnOnce(&Yielder<In, Out, Ret>, In) -> Ret,
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
        // SAFETY: the coroutine has just been resumed for the first time: one that is dropped
        // before that never starts.
        let input = unsafe { core.yielder.take_input() };
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
