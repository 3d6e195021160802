//! The handle by which a body suspends its coroutine.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use super::link::Link;
use super::transfer::Request;
use crate::retire::passage::Continuation;

/// A value on its way from one side to the other.
///
/// There is no tag. The writer switches to the other side at once, and the reader takes the value
/// out before anything else. The reader knows from how it was reached what the slot holds: the body
/// was resumed, not dismissed, so it is an input; or the resumer finds the body suspended, not
/// finished, so it is an output; or the body has come back otherwise and has not finished, so it is
/// a request.
pub(super) union Passed<In, Out, Ret> {
    pub(super) nothing: (),
    pub(super) input: ManuallyDrop<In>,
    pub(super) output: ManuallyDrop<Out>,
    /// Lies in the frame of the body, which is suspended.
    pub(super) request: *const Cell<Option<Request<In, Out, Ret>>>,
}

/// The handle by which the body of a coroutine suspends.
///
/// The body gets a reference when it starts. It takes `In` and gives `Out`. `Ret` is what the body
/// returns, and so does each coroutine to which it [transfers](Yielder::transfer).
#[repr(C)]
pub struct Yielder<In, Out, Ret = ()> {
    pub(super) link: Link,
    pub(super) passed: Cell<Passed<In, Out, Ret>>,
}

impl<In, Out, Ret> Yielder<In, Out, Ret> {
    /// Suspends the coroutine: returns `value` to its resumer and waits to be resumed.
    ///
    /// Returns the input of the next [`Coroutine::resume`](super::Coroutine::resume). Only the
    /// coroutine is suspended, not the thread or the task that it runs on.
    ///
    /// If the coroutine is dropped instead of resumed, its stack is unwound from here, as by a
    /// panic that no hook reports. Code between here and the body's root must let that unwinding
    /// pass; [the module's documentation](super#dropping) says what happens otherwise.
    ///
    /// # Panics
    ///
    /// * If the caller is not the body, but another coroutine or a task that has got hold of the
    ///   reference.
    /// * Inside [`no_suspend`](crate::no_suspend), if the body has called that.
    /// * Inside a call that must return first, if the body has made that call:
    ///   [`wait`](crate::wait()), [`select!`](crate::select!), [`scope`](crate::scope()),
    ///   [`join`](crate::join()), a [parallel loop](crate::par) and the others that [the
    ///   module](super#limits) lists.
    /// * While the thread is panicking: in a destructor while a panic unwinds the body, and in a
    ///   body that was resumed by a destructor during a panic. As with any destructor, a panic that
    ///   leaves it during unwinding ends the process, after the message of this panic has been
    ///   printed.
    /// * If the body has caught the unwinding of its own drop and goes on to suspend. If it catches
    ///   this panic too and suspends once more, the process is aborted with a message.
    ///
    /// # Cost
    ///
    /// One switch: a few nanoseconds. Nothing is allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// use cygnet::coroutine::{Coroutine, Resumed};
    ///
    /// let average = Coroutine::new(|yielder, first: f64| {
    ///     let (mut sum, mut count) = (first, 1.0);
    ///     loop {
    ///         sum += yielder.suspend(sum / count);
    ///         count += 1.0;
    ///     }
    /// });
    /// # let _: &Coroutine<f64, f64, ()> = &average;
    /// assert!(matches!(average.resume(10.0), Ok(Resumed::Yielded(10.0))));
    /// assert!(matches!(average.resume(20.0), Ok(Resumed::Yielded(15.0))));
    /// ```
    #[inline]
    pub fn suspend(&self, value: Out) -> In {
        let suspending = self.link.prepare_to_suspend();
        self.passed.set(Passed { output: ManuallyDrop::new(value) });
        // SAFETY: only the value has been stored since the call above.
        match unsafe { suspending.suspend() } {
            Continuation::GoOn => {}
            Continuation::Unwind => self.link.unwind_from_here(),
        }
        // SAFETY: the body has just been resumed, not dismissed.
        unsafe { self.take_input() }
    }

    /// Takes the input of the resumption that has continued the body.
    ///
    /// # Safety
    /// The caller is the body, which has just been resumed, not dismissed. It has not taken the
    /// input yet.
    #[inline(always)]
    pub(super) unsafe fn take_input(&self) -> In {
        // SAFETY: by contract the resumer has put an input there. It waits, so this access is the
        // only one.
        unsafe { ManuallyDrop::take(&mut (*self.passed.as_ptr()).input) }
    }

    /// Takes the output that the body has suspended with.
    ///
    /// # Safety
    /// The caller is the resumer, and the body has just suspended.
    #[inline(always)]
    pub(super) unsafe fn take_output(&self) -> Out {
        // SAFETY: by contract the body has put an output there. It does not run, so this access is
        // the only one.
        unsafe { ManuallyDrop::take(&mut (*self.passed.as_ptr()).output) }
    }
}

debug! {
    impl<In, Out, Ret> Yielder<In, Out, Ret> as this {
        id: this.link.id,
        name: this.link.name.as_deref(),
        ..
    }
}
