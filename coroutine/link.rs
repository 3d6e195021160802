//! The part of a coroutine that does not depend on the types of its values: its place in the chain
//! of running coroutines, and the two switches.
//!
//! # Access
//!
//! Everything belongs to one thread, so there are cells and no atomics. The two sides never run at
//! the same time: a store before a switch is visible to the other side after it.
//!
//! | state | resumer's side | body's side |
//! | --- | --- | --- |
//! | Created, Suspended | may resume, unwind, drop | does not run |
//! | Running | waits in `resume` or `unwind` | runs, or waits for one that it has resumed |
//! | Running, [reserved](Reserved) | resumes it as soon as destructors have run | does not run |
//! | Finished | may drop | is gone, its stack in the pool |
//!
//! # The chain
//!
//! A resumption lengthens the [`Chain`] of the thread, and a suspension restores it. In the usual
//! case, outside of other coroutines and not on a worker's thread, both are short:
//!
//! * A resumption tests three words at once: the chain is empty, the thread is not special, and the
//!   coroutine is not occupied. It stores the new chain and switches.
//! * A suspension compares the chain with the coroutine, which tells at once that the coroutine is
//!   the innermost one, that it is not pinned or being unwound, and that the rest of the chain is
//!   empty. It stores an empty chain and switches.
//!
//! Otherwise the chain is tagged, and `resumed_by` keeps its rest.

use std::cell::Cell;
use std::hint::cold_path;
use std::ops::Range;
use std::sync::Arc;
use std::{panic, ptr};

use super::current;
use crate::asm::Words;
use crate::retire::nesting::Chain;
use crate::retire::passage::{Continuation, Passage, Return};
use crate::scheduler::worker::Worker;
use crate::shim::abort_with;

/// The state of a coroutine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// The coroutine has a stack, and its body has not been called.
    Created,
    /// The body runs, or waits for another coroutine that it has resumed.
    Running,
    /// The body waits in [`Yielder::suspend`](super::Yielder::suspend) or
    /// [`Yielder::transfer`](super::Yielder::transfer).
    Suspended,
    /// The body has returned or panicked. The stack is gone.
    Finished,
}

/// How far a body has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    Begun,
    Ended,
}

/// Whether a body may suspend.
///
/// Never while its thread is panicking, no matter where the panic began. The standard library
/// counts the panics in progress on a thread, but tells only whether there is one. So a body that a
/// destructor resumes during an unwinding looks the same as a body that has begun a second panic of
/// its own. If the latter left its stack, its panic would never end, and the thread would count as
/// panicking for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspension {
    IfNotPanicking,
    /// The coroutine is being unwound because it was dropped.
    Never,
    /// Like `Never`, and the body has tried to suspend once.
    NeverAgain,
}

/// The payload that unwinds a coroutine which is dropped before its end. Only this module can make
/// one.
struct Dismissed;

/// The part of a coroutine that is independent of its types; see the module's documentation.
///
/// The passage comes first, and begins with the pin count: a pointer to that is one to the whole.
#[repr(C)]
pub(super) struct Link {
    pub(super) passage: Passage,
    /// The rest of the chain while running, else empty.
    pub(super) resumed_by: Cell<Chain>,
    progress: Cell<Progress>,
    suspension: Cell<Suspension>,
    /// The coroutine certainly ends before anything that it borrows, for instance a thread-local
    /// value.
    pub(super) scoped: bool,
    pub(super) id: u64,
    pub(super) name: Option<Arc<str>>,
    /// The size of the stack as the user knows it, and the guard below it.
    pub(super) stack_size: usize,
    pub(super) guard: Range<usize>,
}

impl Link {
    pub(super) fn new(
        passage: Passage,
        name: Option<Arc<str>>,
        stack_size: usize,
        guard: Range<usize>,
        scoped: bool,
    ) -> Link {
        Link {
            passage,
            resumed_by: Cell::new(Chain::EMPTY),
            progress: Cell::new(Progress::New),
            suspension: Cell::new(Suspension::IfNotPanicking),
            scoped,
            id: current::new_id(),
            name,
            stack_size,
            guard,
        }
    }

    /// Returns the state.
    pub(super) fn state(&self) -> State {
        match (self.passage.occupied() == 0, self.progress.get()) {
            (_, Progress::Ended) => State::Finished,
            (false, _) => State::Running,
            (true, Progress::New) => State::Created,
            (true, Progress::Begun) => State::Suspended,
        }
    }

    /// Notes that the body begins.
    pub(super) fn begin(&self) {
        self.progress.set(Progress::Begun);
    }

    /// Returns whether the body may go on. It may not if it could be in the middle of using a
    /// thread-local value that has been destroyed.
    #[inline(always)]
    pub(super) fn may_go_on(&self) -> bool {
        !current::thread_is_ending() || self.scoped
    }

    /// Prepares a resumption, which must follow at once. Returns `None` if the coroutine cannot be
    /// resumed now.
    #[inline(always)]
    pub(super) fn try_resume(&self) -> Option<Resuming<'_>> {
        let words = Words::here();
        let mut chain = Chain::of(ptr::from_ref(self).cast());
        if words.nesting_or_special() | self.passage.occupied() != 0 {
            cold_path();
            let rest = Chain::read(words);
            if words.special() | self.passage.occupied() != 0 && !self.may_be_resumed(words) {
                return None;
            }
            if !rest.is_empty() {
                self.resumed_by.set(rest);
                chain = chain.tagged();
            }
        }
        Some(Resuming { link: self, words, chain })
    }

    /// Returns whether the coroutine can be resumed now.
    #[inline]
    pub(super) fn can_be_resumed(&self) -> bool {
        self.passage.occupied() == 0 && (self.may_go_on() || self.progress.get() == Progress::New)
    }

    /// Makes the coroutine, which is new or suspended, appear to run until the guard is dropped.
    #[inline]
    pub(super) fn reserve(&self) -> Reserved<'_> {
        debug_assert!(self.can_be_resumed());
        self.passage.set_occupied(true);
        Reserved(self)
    }

    /// Returns whether the coroutine can be resumed now. If the thread is a worker's, tells it.
    #[cold]
    #[inline(never)]
    fn may_be_resumed(&self, words: Words) -> bool {
        if !self.can_be_resumed() {
            return false;
        }
        // SAFETY: the word is null or points to this thread's worker, which clears it before it
        // goes.
        if let Some(worker) = unsafe { words.worker().cast::<Worker>().as_ref() } {
            // A join must not leave a fork in the fork list where a join that comes later would
            // find it.
            worker.remote.forks.request_from_self();
        }
        true
    }

    /// Runs the body, which is suspended, so that it unwinds its stack.
    ///
    /// # Safety
    /// The state is Suspended, and everything that the body borrows is still there. `self` stays at
    /// its address until this returns.
    pub(super) unsafe fn unwind(&self) -> Return {
        let Resuming { words, chain, .. } =
            self.try_resume().expect("the body is suspended and may go on");
        self.suspension.set(Suspension::Never);
        self.passage.pins().forbid_suspension();
        chain.tagged().write(words);
        // SAFETY: the coroutine is suspended, and it cannot be resumed again before this returns,
        // as it is occupied from the switch on. By contract it may run. A coroutine stays on its
        // thread.
        unsafe { self.passage.unwind() }
    }

    /// Restores the chain that this coroutine was added to.
    #[inline(always)]
    fn restore_chain(&self, words: Words) {
        self.resumed_by.replace(Chain::EMPTY).write(words);
    }

    /// Unwinds the body. For the body, if it is continued to be unwound.
    #[cold]
    #[inline(never)]
    pub(super) fn unwind_from_here(&self) -> ! {
        // `resume_unwind` does not call the panic hook: nothing has gone wrong.
        panic::resume_unwind(Box::new(Dismissed))
    }

    /// Returns whether `payload` is the one by which `unwind` has brought the body to its end.
    pub(super) fn was_unwound_by(&self, payload: &(dyn std::any::Any + Send)) -> bool {
        // The body may have caught the payload of another coroutine and thrown it again. That is a
        // panic like any other.
        self.suspension.get() != Suspension::IfNotPanicking && payload.is::<Dismissed>()
    }

    /// Prepares a suspension, which must follow at once. Panics unless the caller is the body and
    /// may leave its stack suspended.
    #[inline(always)]
    pub(super) fn prepare_to_suspend(&self) -> Suspending<'_> {
        if crate::shim::panicking() {
            self.refuse_to_suspend();
        }
        let me = ptr::from_ref(self).cast();
        let words = Words::here();
        let chain = Chain::read(words);
        if chain.is_untagged(me) {
            // Not copied from the word where `try_resume` has left it: each switch would have to
            // wait until the one before has done the same.
            words.clear_nesting();
        } else {
            cold_path();
            if !ptr::eq(chain.innermost(), me) || !self.passage.pins().is_free() {
                self.refuse_to_suspend();
            }
            self.restore_chain(words);
        }
        Suspending(self)
    }

    #[cold]
    #[inline(never)]
    fn refuse_to_suspend(&self) -> ! {
        if !ptr::eq(current::innermost(), self) {
            panic!(
                "Yielder::suspend or Yielder::transfer was called from outside of its coroutine: \
                 only the body itself can suspend, not another coroutine or a task that runs \
                 inside it"
            );
        }
        if self.passage.pins().is_pinned() {
            panic!(
                "Yielder::suspend or Yielder::transfer was called inside a call that must return \
                 first, in the task or thread where it began: no_suspend, wait, select!, scope, \
                 join, a parallel loop, timeout, shield, ignore_cancellation, TaskLocal::scope or \
                 send_modify"
            );
        }
        match self.suspension.get() {
            Suspension::NeverAgain => fatal(
                "was dropped, has caught the unwinding and keeps suspending instead of ending",
                self,
            ),
            Suspension::Never => {
                self.suspension.set(Suspension::NeverAgain);
                panic!(
                    "Yielder::suspend or Yielder::transfer was called while its coroutine is \
                     unwound because it was dropped: it can never be resumed again"
                )
            }
            Suspension::IfNotPanicking => panic!(
                "Yielder::suspend or Yielder::transfer was called while its thread is panicking: a \
                 destructor must not suspend while a panic unwinds its coroutine, and a coroutine \
                 that is resumed during a panic must run to its end"
            ),
        }
    }

    /// Leaves the body's stack for ever.
    ///
    /// # Safety
    /// The caller is the root of the body, which is the innermost coroutine, and no destructor of a
    /// frame on its stack has still to run.
    pub(super) unsafe fn leave(&self) -> ! {
        self.progress.set(Progress::Ended);
        self.restore_chain(Words::here());
        // SAFETY: this flow is the running one, and its frames are not used again, by contract. The
        // resumer waits in `resume` or `unwind`, and frees the stack and the core.
        unsafe { self.passage.leave() }
    }

    /// Forgets the flow of control. Only a sanitizer keeps state about it.
    #[cfg(cygnet_tsan)]
    pub(super) fn retire(&self) {
        self.passage.end();
    }
}

/// A coroutine that can be resumed, at this moment.
pub(super) struct Resuming<'a> {
    link: &'a Link,
    words: Words,
    chain: Chain,
}

impl Resuming<'_> {
    /// Runs the body until it suspends or ends.
    ///
    /// # Safety
    /// Everything that the body borrows is still there. The link stays at its address until this
    /// returns. Nothing has been resumed or suspended since [`Link::try_resume`].
    #[inline(always)]
    pub(super) unsafe fn resume(self) -> Return {
        self.chain.write(self.words);
        // SAFETY: the coroutine was new or suspended, by the check in `try_resume`, and it cannot
        // be resumed again before this returns, as it is occupied now. By contract it may run. A
        // coroutine stays on its thread.
        unsafe { self.link.passage.resume() }
    }
}

/// The right of a running body to suspend, at this moment.
pub(super) struct Suspending<'a>(&'a Link);

impl Suspending<'_> {
    /// Switches from the body to its resumer. Returns when the coroutine is continued.
    ///
    /// # Safety
    /// Nothing has been resumed or suspended since [`Link::prepare_to_suspend`].
    #[inline(always)]
    pub(super) unsafe fn suspend(self) -> Continuation {
        // SAFETY: the body was the innermost coroutine, so it is the running flow, and its resumer
        // waits in `resume` or `unwind`. The coroutine is not dropped before its body has ended.
        unsafe { self.0.passage.suspend() }
    }

    /// Switches from the body to its resumer like [`suspend`](Suspending::suspend), but the
    /// resumer's call returns [`Return::Otherwise`].
    ///
    /// # Safety
    /// That of [`suspend`](Suspending::suspend).
    #[inline(always)]
    pub(super) unsafe fn suspend_otherwise(self) -> Continuation {
        // SAFETY: as in `suspend`, the body is the running flow by its contract, and its resumer
        // waits in `resume` or `unwind`. The coroutine is not dropped before its body has ended.
        unsafe { self.0.passage.suspend_otherwise() }
    }
}

/// A coroutine that nobody can resume or unwind meanwhile.
pub(super) struct Reserved<'a>(&'a Link);

impl Drop for Reserved<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.passage.set_occupied(false);
    }
}

/// Aborts the process with a message: going on would free memory that is in use.
#[cold]
pub(super) fn fatal(what: &str, link: &Link) -> ! {
    let name = link.name.as_deref().unwrap_or("unnamed");
    abort_with(&format!("coroutine {} ({name}) {what}", link.id))
}
