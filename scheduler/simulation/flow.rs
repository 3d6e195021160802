//! A virtual thread as the simulation sees it: a flow of control that is left and resumed.

use super::panic_count;
use crate::asm::{self, Words};
use crate::retire::context::Context;
use crate::scheduler::spans;
use crate::shim::VirtualThread;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// The size of a virtual thread's stack, the same as that of a `std` thread. Tasks have their own
/// stacks. Only touched pages cost memory.
const STACK: usize = 2 << 20;
const PAGE: usize = 64 << 10;

/// The stack of a virtual thread, with a guard below it.
struct FlowStack(memmap2::MmapMut);

impl FlowStack {
    fn new() -> FlowStack {
        let map = memmap2::MmapOptions::new().len(STACK + PAGE).map_anon();
        let map = map.expect("cygnet: no memory for the stack of a simulated thread");
        // SAFETY: this is the lowest part of a new mapping, and no code uses it.
        let guarded =
            unsafe { libc::mprotect(map.as_ptr().cast_mut().cast(), PAGE, libc::PROT_NONE) };
        assert_eq!(guarded, 0, "cygnet: cannot protect the guard of a simulated thread's stack");
        FlowStack(map)
    }

    fn bottom(&self) -> *mut u8 {
        self.0.as_ptr().wrapping_add(PAGE).cast_mut()
    }

    fn top(&self) -> *mut u8 {
        self.bottom().wrapping_add(STACK)
    }
}

thread_local! {
    /// The stacks of ended flows, to be reused.
    static STACKS: RefCell<Vec<FlowStack>> = const { RefCell::new(Vec::new()) };
}

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Ready,
    /// The flow becomes ready at this time, because of a fault or by the machine's decision.
    Late {
        at: Duration,
    },
    Waiting {
        on: usize,
        until: Option<Duration>,
        place: &'static Location<'static>,
    },
    Ended,
}

impl State {
    /// Returns the time at which the flow becomes ready by itself, if there is one.
    pub(super) fn until(self) -> Option<Duration> {
        match self {
            State::Late { at } => Some(at),
            State::Waiting { until, .. } => until,
            State::Ready | State::Ended => None,
        }
    }
}

/// A flow of control: the context of a virtual thread or of the host.
pub(super) struct Flow {
    context: Context,
    stack: Option<FlowStack>,
    /// While the flow does not run: the words that the library keeps for each thread.
    words: Cell<(*mut u8, *mut u8)>,
    /// While the flow does not run: the number of its panics in progress.
    panics: Cell<usize>,
    /// Written by the [`Roster`](super::roster::Roster) alone.
    pub(super) state: Cell<State>,
    /// The flow's wait was ended by another thread, not by the clock.
    pub(super) woken: Cell<bool>,
    pub(super) thread: Arc<VirtualThread>,
    /// The flow runs.
    runs: Cell<bool>,
    body: Cell<Option<Box<dyn FnOnce()>>>,
    /// The simulation, which picks the flow that runs after the end of this one.
    next_after_end: Cell<Option<*const super::Simulation>>,
}

impl Flow {
    pub(super) fn of_host() -> Flow {
        Flow {
            context: Context::of_thread(),
            stack: None,
            words: Cell::new((ptr::null_mut(), ptr::null_mut())),
            state: Cell::new(State::Ready),
            woken: Cell::new(false),
            panics: Cell::new(0),
            thread: VirtualThread::new(usize::MAX, None),
            runs: Cell::new(true),
            body: Cell::new(None),
            next_after_end: Cell::new(None),
        }
    }

    /// Makes a flow that begins with `body`.
    pub(super) fn new(
        thread: Arc<VirtualThread>,
        body: Box<dyn FnOnce()>,
        simulation: *const super::Simulation,
    ) -> std::rc::Rc<Flow> {
        let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(FlowStack::new);
        let (bottom, top) = (stack.bottom(), stack.top());
        std::rc::Rc::new_cyclic(|flow: &std::rc::Weak<Flow>| {
            let data = flow.as_ptr().cast_mut().cast();
            Flow {
                // SAFETY: the stack is new, or has no frames any more. The flow is not moved before
                // it has ended.
                context: unsafe { Context::on_part(bottom, top, top, enter, data) },
                stack: Some(stack),
                thread,
                runs: Cell::new(false),
                body: Cell::new(Some(body)),
                next_after_end: Cell::new(Some(simulation)),
                ..Flow::of_host()
            }
        })
    }

    /// Leaves this flow, which is running, for another one. Returns when a flow is left for this
    /// one.
    pub(super) fn leave_for(&self, other: &Flow) {
        assert!(self.runs.replace(false), "a flow that does not run was left");
        assert_ne!(other.state.get(), State::Ended, "a flow was continued after its end");
        other.runs.set(true);
        let spans = spans::leave();
        let words = Words::here();
        self.words.set((words.worker(), words.nesting()));
        asm::set_thread_word(ptr::null_mut());
        words.clear_nesting();
        self.panics.set(panic_count::exchange(0));
        // SAFETY: this flow was running. The other one was not, as only one flow runs at a time,
        // and has not ended, so it is suspended or new. The references keep both.
        unsafe { self.context.switch(&other.context) };
        panic_count::exchange(self.panics.get());
        let (thread, chain) = self.words.get();
        asm::set_thread_word(thread);
        Words::here().set_nesting(chain);
        spans.enter_again();
    }

    /// Keeps the stack of an ended flow, to be reused.
    pub(super) fn recycle(mut self) {
        debug_assert_eq!(self.state.get(), State::Ended);
        #[cfg(cygnet_tsan)]
        self.context.end();
        STACKS.with_borrow_mut(|stacks| stacks.extend(self.stack.take()));
    }

    /// Returns the thread's name, or one made from its number.
    pub(super) fn name(&self) -> String {
        self.thread.name.clone().unwrap_or_else(|| format!("thread {}", self.thread.number))
    }

    pub(super) fn describe(&self) -> String {
        let name = self.name();
        match self.state.get() {
            State::Ready | State::Late { .. } => format!("{name} is ready"),
            State::Ended => format!("{name} has ended"),
            State::Waiting { place, until: None, .. } => format!("{name} waits at {place}"),
            State::Waiting { place, until: Some(until), .. } => {
                format!("{name} waits at {place}, until {until:?} at most")
            }
        }
    }
}

/// The entry function of every virtual thread.
unsafe extern "C" fn enter(data: *mut u8, message: usize) {
    // SAFETY: `data` is the flow that has just begun, which stays alive until its end.
    let flow = unsafe { &*data.cast::<Flow>() };
    // SAFETY: this is the first action of the flow.
    unsafe { flow.context.arrive(message) };
    let body = flow.body.take().expect("a flow begins once");
    body();
    flow.thread.end();
    let simulation = flow.next_after_end.get().expect("a flow of a thread has its simulation");
    // SAFETY: the host keeps the simulation until all flows have ended, and the simulation keeps
    // the flows.
    let next = unsafe { &*(*simulation).end_of_flow() };
    next.runs.set(true);
    // SAFETY: no frame of this flow is used again. The next flow is suspended or new, and stays
    // alive.
    unsafe { flow.context.leave(&next.context) }
}
