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
//! A body can also give its place to another coroutine: see [`Yielder::transfer`].
//!
//! A coroutine that takes no input is an iterator over what it yields: see [`Iter`].
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
//! * A coroutine stays on the thread it was created on: it is neither `Send` nor `Sync`. Only one
//!   that has not started may be sent, if it was made for that: see [`Unstarted`].
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
//!   report that names the coroutine if a runtime has installed its handler. The guard of a
//!   [`Stack`] that a user brings is the user's responsibility.
//! * After `fork`, the child has the coroutines of the forking thread; they work there.

mod builder;

mod current;
mod error;
mod handle;
mod iter;
mod link;
mod stacks;
mod thread_end;
mod transfer;
mod unstarted;
mod user_stack;
mod whole;
mod yielder;

#[cfg(all(test, not(loom)))]
mod tests;

pub use builder::Builder;
pub(crate) use current::describe_overflow;
pub use current::{Current, current};
pub use error::{CreateError, ResumeError};
pub use handle::Coroutine;
pub use iter::{IntoIter, Iter};
pub use link::State;
pub use unstarted::Unstarted;
pub use user_stack::Stack;
pub use yielder::Yielder;

/// The progress of a coroutine when [`Coroutine::resume`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resumed<Out, Ret> {
    /// The coroutine, or one to which it has [transferred](Yielder::transfer), has suspended with
    /// this value. The coroutine can be resumed.
    Yielded(Out),
    /// The body of the coroutine, or of one to which it has [transferred](Yielder::transfer), has
    /// returned this value.
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
