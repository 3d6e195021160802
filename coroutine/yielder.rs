//! The handle by which a body suspends its coroutine.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;

use super::link::Link;

/// The slot through which values pass between the two sides.
///
/// There is no tag. The writer switches to the other side at once, and the reader takes the value
/// out before anything else. The reader knows from how it was reached what the slot holds: the body
/// was resumed, not dismissed, so it is an input; or the resumer finds the body suspended, not
/// finished, so it is an output.
pub(super) struct Transfer<In, Out>(UnsafeCell<Passed<In, Out>>);

union Passed<In, Out> {
    nothing: (),
    input: ManuallyDrop<In>,
    output: ManuallyDrop<Out>,
}

impl<In, Out> Transfer<In, Out> {
    pub(super) fn new() -> Transfer<In, Out> {
        Transfer(UnsafeCell::new(Passed { nothing: () }))
    }

    /// # Safety
    /// The other side is not running, and has taken the previous value.
    #[inline(always)]
    pub(super) unsafe fn put_input(&self, input: In) {
        // SAFETY: the other side is not running, so this access is the only one.
        unsafe { *self.0.get() = Passed { input: ManuallyDrop::new(input) } };
    }

    /// # Safety
    /// The body has been resumed, and has not called this since.
    #[inline(always)]
    pub(super) unsafe fn take_input(&self) -> In {
        // SAFETY: the resumer has put an input there and waits.
        unsafe { ManuallyDrop::take(&mut (*self.0.get()).input) }
    }

    /// # Safety
    /// The other side is not running, and has taken the previous value.
    #[inline(always)]
    pub(super) unsafe fn put_output(&self, output: Out) {
        // SAFETY: the other side is not running, so this access is the only one.
        unsafe { *self.0.get() = Passed { output: ManuallyDrop::new(output) } };
    }

    /// # Safety
    /// The body has suspended, and the resumer has not called this since.
    #[inline(always)]
    pub(super) unsafe fn take_output(&self) -> Out {
        // SAFETY: the body has put an output there and waits.
        unsafe { ManuallyDrop::take(&mut (*self.0.get()).output) }
    }
}

/// The handle by which the body of a coroutine suspends.
///
/// The body gets a reference when it starts. It takes `In` and gives `Out`.
pub struct Yielder<In, Out> {
    pub(super) link: Link,
    pub(super) transfer: Transfer<In, Out>,
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
        self.link.assert_may_suspend();
        // SAFETY: the resumer waits, and the body has taken the last input.
        unsafe { self.transfer.put_output(value) };
        // SAFETY: the assertion above has established that the caller is the body and may suspend.
        unsafe { self.link.suspend() };
        if self.link.is_dismissed() {
            self.link.unwind_from_here();
        }
        // SAFETY: the body has just been resumed, not dismissed, so there is an input.
        unsafe { self.transfer.take_input() }
    }
}

impl<In, Out> fmt::Debug for Yielder<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yielder")
            .field("id", &self.link.id)
            .field("name", &self.link.name())
            .finish_non_exhaustive()
    }
}
