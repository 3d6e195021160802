//! Symmetric transfer: a body gives its place to another coroutine.
//!
//! A body that transfers suspends with a [`Request`] for its resumer, which resumes the other
//! coroutine instead of returning. So there is one frame of [`Coroutine::resume`], however often
//! the coroutines transfer in it, and it costs the usual way between a coroutine and its resumer
//! nothing: a request comes by the same entrance of the switch as the end of a body.
//!
//! # What stays alive
//!
//! The first coroutine of such a resumption is borrowed by the caller of `resume`. Each other one
//! is owned by the frame of `resume` while it runs there: the request passes an [`Rc`] of it. A
//! borrow would not do. It would lie in the frame of the body that has transferred, and another
//! coroutine may resume that body, which may then drop what it has lent.
//!
//! # When the last owner is the resumption itself
//!
//! A coroutine that transfers after all other owners have gone can never be resumed again. It is
//! dropped, and so unwound, before the next one is resumed. The destructors may use any coroutine,
//! so the next one is [reserved](super::link::Reserved) meanwhile: it was resumable when its
//! transfer was granted, and still is.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use super::handle::refusal;
use super::whole::Core;
use super::yielder::{Passed, Yielder};
use super::{Coroutine, ResumeError, Resumed, State};
use crate::retire::passage::{Continuation, Return};

/// What a body that transfers asks of its resumer: to resume `to` with this input.
pub(super) struct Request<In, Out, Ret> {
    to: Rc<Coroutine<In, Out, Ret>>,
    input: In,
}

impl<In, Out, Ret> Yielder<In, Out, Ret> {
    /// Suspends the coroutine and runs another one in its place.
    ///
    /// `to` gets `input`, as by [`Coroutine::resume`]. When `to` suspends or returns, its value
    /// goes to the resumer of this coroutine, whose call returns it. If `to` panics, that call
    /// panics. `to` may transfer too, also back to this coroutine: a ring of coroutines takes turns
    /// in a single call of [`Coroutine::resume`], whose stack does not grow with the number of
    /// transfers.
    ///
    /// This coroutine is suspended meanwhile, like any other, and anyone may resume it. `transfer`
    /// then returns the input of that resumption or transfer. If this coroutine is dropped instead,
    /// its stack is unwound from here.
    ///
    /// After `to` has returned, the resumer's call has given [`Resumed::Returned`], although this
    /// coroutine has not finished.
    ///
    /// The resumption owns `to` while `to` runs in it. If there is no other owner when `to`
    /// suspends or transfers, `to` is dropped, and so unwound. So a coroutine can end by a
    /// transfer. A panic of a destructor at that moment goes to the resumer. A transfer does not
    /// take place then: its input is dropped, and its target too, or it stays as it was if it has
    /// another owner. Where panics abort, the coroutine is leaked instead: see
    /// [dropping](super#dropping).
    ///
    /// Coroutines that own one another in a circle, as those of a ring do while they are suspended
    /// in a transfer, are leaked when nobody else owns them, like anything that [`Rc`]s own in a
    /// circle. Let one of them end, or drop what it owns.
    ///
    /// A scoped coroutine can transfer, but no other one can transfer to it, as it cannot be owned
    /// in this way.
    ///
    /// # Errors
    ///
    /// Those of [`Coroutine::resume`] if `to` cannot be resumed now. They give `input` back, but
    /// not `to`, and this coroutine has not been suspended. [`ResumeError::Running`] includes the
    /// case that `to` is this coroutine.
    ///
    /// # Panics
    ///
    /// Like [`suspend`](Yielder::suspend), if the coroutine must not suspend here and now, and `to`
    /// can be resumed. `input` is dropped.
    ///
    /// # Cost
    ///
    /// Two switches, by way of the resumer's frame, and the change of owners: a little more than
    /// twice as much as a resumption and the suspension that ends it. Nothing is allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use cygnet::coroutine::{Coroutine, Resumed};
    ///
    /// let second = Rc::new(Coroutine::new(|yielder, n: u32| {
    ///     yielder.suspend(10 * n);
    ///     n
    /// }));
    /// let other = second.clone();
    /// let first = Coroutine::new(move |yielder, n| yielder.transfer(other, n + 1).unwrap());
    /// // The value comes from the second coroutine, which has run in place of the first.
    /// assert_eq!(first.resume(1), Ok(Resumed::Yielded(20)));
    /// assert_eq!(first.resume(7), Ok(Resumed::Returned(7)));
    /// assert_eq!(second.resume(0), Ok(Resumed::Returned(2)));
    /// ```
    #[inline]
    pub fn transfer(
        &self,
        to: Rc<Coroutine<In, Out, Ret>>,
        input: In,
    ) -> Result<In, ResumeError<In>> {
        if !to.link().can_be_resumed() {
            return Err(refusal(to.state(), input));
        }
        let request = Cell::new(Some(Request { to, input }));
        let suspending = self.link.prepare_to_suspend();
        self.passed.set(Passed { request: &raw const request });
        // SAFETY: only a pointer has been stored since the call above.
        match unsafe { suspending.suspend_otherwise() } {
            Continuation::GoOn => {}
            Continuation::Unwind => self.link.unwind_from_here(),
        }
        // SAFETY: the body has just been resumed, not dismissed.
        Ok(unsafe { self.take_input() })
    }
}

impl<In, Out, Ret> Core<In, Out, Ret> {
    /// Completes a resumption of this coroutine from which it has come back by
    /// [`Return::Otherwise`]: its body has ended, or has transferred.
    #[cold]
    #[inline(never)]
    pub(super) fn back_otherwise(&self) -> Resumed<Out, Ret> {
        // The coroutine that runs in the place of this one.
        let mut deputy: Option<Rc<Coroutine<In, Out, Ret>>> = None;
        loop {
            let core = deputy.as_deref().map_or(self, Coroutine::core);
            if core.yielder.link.state() == State::Finished {
                return Resumed::Returned(core.finish());
            }
            // SAFETY: the coroutine has just come back otherwise and has not finished.
            let Request { to, input } = unsafe { core.take_request() };
            let left = deputy.replace(to);
            let core = deputy.as_deref().map_or(self, Coroutine::core);
            if left.is_some() {
                let _reserved = core.yielder.link.reserve();
                drop(left);
            }
            // SAFETY: the deputy is owned here while it runs.
            if let Return::Suspended = unsafe { core.resume_requested(input) } {
                // SAFETY: the body has just suspended.
                let output = unsafe { core.yielder.take_output() };
                // The last owner unwinds it, which may panic: before the result is made, which the
                // compiler would leak.
                drop(deputy);
                return Resumed::Yielded(output);
            }
        }
    }

    /// Takes what the body asks for.
    ///
    /// # Safety
    /// The caller is the resumer, to whom the body has just come back by [`Return::Otherwise`]
    /// without having ended.
    unsafe fn take_request(&self) -> Request<In, Out, Ret> {
        // SAFETY: by contract the body is suspended in `transfer`, and so has put a pointer there.
        let request = unsafe { (*self.yielder.passed.as_ptr()).request };
        // SAFETY: the pointer is to a variable in the frame of `transfer`, which is suspended.
        let request = unsafe { &*request };
        request.take().expect("a request is taken once")
    }

    /// Resumes a coroutine that another one has asked for.
    ///
    /// # Safety
    /// The coroutine can be resumed, and stays alive until this returns.
    unsafe fn resume_requested(&self, input: In) -> Return {
        let resuming =
            self.yielder.link.try_resume().expect("it could be resumed when it was asked for");
        self.yielder.passed.set(Passed { input: ManuallyDrop::new(input) });
        // SAFETY: what the body borrows is still there: by the contract of `create`, and for
        // thread-local values by `may_go_on`. The core stays alive, by contract.
        unsafe { resuming.resume() }
    }
}
