//! Coroutines that may be sent before they start.

use super::{Coroutine, stacks};

/// A coroutine that has not started and may be sent to another thread.
///
/// Made by [`Builder::create_sendable`](super::Builder::create_sendable). The thread that calls
/// [`into_coroutine`](Unstarted::into_coroutine) keeps the coroutine. Dropping an `Unstarted` drops
/// the body, on any thread.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
/// use std::thread;
/// use cygnet::coroutine::Coroutine;
///
/// let words = vec!["made", "here", "run", "there"];
/// let sendable = Coroutine::builder().create_sendable(move |yielder, ()| {
///     // What the body makes may be tied to the thread.
///     words.into_iter().for_each(|word| yielder.suspend(Rc::from(word)));
/// })?;
/// # let _: &cygnet::coroutine::Unstarted<(), Rc<str>, ()> = &sendable;
/// let there = thread::spawn(move || {
///     let words: Vec<_> = sendable.into_coroutine().into_iter().collect();
///     words.join(" ")
/// });
/// assert_eq!(there.join().unwrap(), "made here run there");
/// # Ok::<(), cygnet::coroutine::CreateError>(())
/// ```
///
/// The body must be `Send`:
///
/// ```compile_fail,E0277
/// use cygnet::coroutine::{Builder, Unstarted};
///
/// let local = std::rc::Rc::new(1);
/// let refused = Builder::new().create_sendable(move |_, ()| *local);
/// let refused: Unstarted<(), (), i32> = refused.unwrap();
/// ```
#[must_use = "the coroutine has not started, and is dropped with its body"]
pub struct Unstarted<In, Out, Ret> {
    /// `None` only during the drop.
    coroutine: Option<Coroutine<In, Out, Ret>>,
}

// SAFETY: the coroutine has not started, so nothing lives on its stack, and there are no values of
// the three types. Its body is `Send`, by the contract of `new`, and the memory of its stack and of
// its block is not tied to a thread. Its cells are not shared: the only reference is this one.
unsafe impl<In, Out, Ret> Send for Unstarted<In, Out, Ret> {}

impl<In, Out, Ret> Unstarted<In, Out, Ret> {
    /// # Safety
    /// The coroutine has not started, its body is `Send`, and its stack comes from
    /// [`stacks::take_for_any_thread`].
    pub(super) unsafe fn new(coroutine: Coroutine<In, Out, Ret>) -> Unstarted<In, Out, Ret> {
        Unstarted { coroutine: Some(coroutine) }
    }

    fn adopt(&mut self) -> Option<Coroutine<In, Out, Ret>> {
        let coroutine = self.coroutine.take();
        if coroutine.is_some() {
            stacks::adopt();
        }
        coroutine
    }

    fn coroutine(&self) -> &Coroutine<In, Out, Ret> {
        self.coroutine.as_ref().expect("it is there until the drop")
    }

    /// Returns the coroutine, which belongs to the calling thread from now on.
    ///
    /// # Cost
    ///
    /// A few nanoseconds. Nothing is allocated.
    pub fn into_coroutine(mut self) -> Coroutine<In, Out, Ret> {
        self.adopt().expect("it is there until the drop")
    }

    /// Returns the id that the coroutine has and keeps. A load.
    pub fn id(&self) -> u64 {
        self.coroutine().id()
    }

    /// Returns the name that the coroutine was created with. A load.
    pub fn name(&self) -> Option<&str> {
        self.coroutine().name()
    }

    /// Returns the size of the stack in bytes, which is at least the size asked for. A load.
    pub fn stack_size(&self) -> usize {
        self.coroutine().stack_size()
    }
}

impl<In, Out, Ret> Drop for Unstarted<In, Out, Ret> {
    fn drop(&mut self) {
        drop(self.adopt());
    }
}

debug! {
    impl<In, Out, Ret> Unstarted<In, Out, Ret> as this { id: this.id(), name: this.name(), .. }
}
