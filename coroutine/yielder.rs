//! The handle by which a body suspends its coroutine.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use super::link::Link;
use crate::retire::passage::Continuation;

/// A value on its way from one side to the other.
///
/// There is no tag. The writer switches to the other side at once, and the reader takes the value
/// out before anything else. The reader knows from how it was reached what the slot holds: the body
/// was resumed, not dismissed, so it is an input; or the resumer finds the body suspended, not
/// finished, so it is an output.
pub(super) union Passed<In, Out> {
    pub(super) nothing: (),
    pub(super) input: ManuallyDrop<In>,
    pub(super) output: ManuallyDrop<Out>,
}

/// The handle by which the body of a coroutine suspends.
///
/// The body gets a reference when it starts. It takes `In` and gives `Out`.
#[repr(C)]
pub struct Yielder<In, Out> {
    pub(super) link: Link,
    pub(super) passed: Cell<Passed<In, Out>>,
}

impl<In, Out> Yielder<In, Out> {
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
        // SAFETY: the body has just been resumed, not dismissed, so there is an input. The resumer
        // waits, so this access is the only one.
        unsafe { ManuallyDrop::take(&mut (*self.passed.as_ptr()).input) }
    }
}

debug! {
    impl<In, Out> Yielder<In, Out> as this { id: this.link.id, name: this.link.name.as_deref(), .. }
}
