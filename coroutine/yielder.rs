//! The body's end of a coroutine.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;

use super::link::Link;

/// The place for what is on its way from one side to the other.
///
/// Nothing in it says what it holds: whoever writes leaves for the other side at once, and that one knows by
/// how it was reached, and takes it out first thing. The body was resumed (not dismissed): an input. The
/// resumer finds the body suspended (not at its end): an output.
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
    /// The other side does not run, and has taken out what was there.
    #[inline(always)]
    pub(super) unsafe fn put_input(&self, input: In) {
        // SAFETY: the other side does not run, so nobody else uses it.
        unsafe { *self.0.get() = Passed { input: ManuallyDrop::new(input) } };
    }

    /// # Safety
    /// The body has been resumed, and this is the first call since.
    #[inline(always)]
    pub(super) unsafe fn take_input(&self) -> In {
        // SAFETY: the resumer has put it there and waits.
        unsafe { ManuallyDrop::take(&mut (*self.0.get()).input) }
    }

    /// # Safety
    /// As for `put_input`.
    #[inline(always)]
    pub(super) unsafe fn put_output(&self, output: Out) {
        // SAFETY: the other side does not run, so nobody else uses it.
        unsafe { *self.0.get() = Passed { output: ManuallyDrop::new(output) } };
    }

    /// # Safety
    /// The body has suspended, and this is the first call since.
    #[inline(always)]
    pub(super) unsafe fn take_output(&self) -> Out {
        // SAFETY: the body has put it there and waits.
        unsafe { ManuallyDrop::take(&mut (*self.0.get()).output) }
    }
}

/// What the body of a coroutine suspends itself with.
///
/// The body gets a reference when it starts. It takes `In` and gives `Out`.
pub struct Yielder<In, Out> {
    pub(super) link: Link,
    pub(super) transfer: Transfer<In, Out>,
}

impl<In, Out> Yielder<In, Out> {
    /// Goes back to whoever has resumed the coroutine, with a value, and waits to be resumed.
    /// Returns what is passed to [`Coroutine::resume`](super::Coroutine::resume) then.
    ///
    /// This suspends the coroutine, not the thread or the task that it runs on. If it is dropped
    /// instead of resumed, its stack is unwound from here, as by a panic that no hook reports. Code
    /// between here and the body's root must let that pass: what becomes of code that does not is
    /// told in [the module's documentation](super#dropping).
    ///
    /// # Panics
    ///
    /// * When it is called by somebody else than the body: by another coroutine, or a task, that has
    ///   got hold of the reference.
    /// * Inside of [`no_suspend`](crate::no_suspend), if the body has called that.
    /// * Inside a call that must return first, if the body has made that call:
    ///   [`wait`](crate::wait()), [`select!`](crate::select!), [`scope`](crate::scope()),
    ///   [`join`](crate::join()), a [parallel loop](crate::par) and the others that
    ///   [the module](super#limits) lists.
    /// * While the thread is panicking: in a destructor while a panic unwinds the body, and in a body
    ///   that was resumed by a destructor during a panic. As in any destructor, a panic that leaves it
    ///   during unwinding ends the process, after this one's message has been printed.
    /// * If the body has caught the unwinding of its own drop and goes on to suspend. If it catches
    ///   this panic too and suspends once more, the process is aborted with a sentence.
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
        // SAFETY: the resumer waits, and the input is gone.
        unsafe { self.transfer.put_output(value) };
        // SAFETY: it has been asserted that the caller is the body and may suspend.
        unsafe { self.link.suspend() };
        if self.link.is_dismissed() {
            self.link.unwind_from_here();
        }
        // SAFETY: it has just been resumed.
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
