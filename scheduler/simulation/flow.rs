//! A virtual thread as its player sees it: a flow of control that is left and gone on with.

use super::panic_count;
use crate::asm;
use crate::retire::context::Context;
use crate::shim::VirtualThread;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// Room for a thread's own code, as much as a thread of `std` has; tasks have stacks of their own. Only touched pages cost memory.
const STACK: usize = 2 << 20;
const PAGE: usize = 64 << 10;

/// The stack of a virtual thread: what is below it faults.
struct FlowStack(memmap2::MmapMut);

impl FlowStack {
    fn new() -> FlowStack {
        let map = memmap2::MmapOptions::new().len(STACK + PAGE).map_anon();
        let map = map.expect("cygnet: no memory for the stack of a simulated thread");
        // SAFETY: the lowest part of a mapping that is ours, which nobody uses.
        let guarded =
            unsafe { libc::mprotect(map.as_ptr().cast_mut().cast(), PAGE, libc::PROT_NONE) };
        assert_eq!(guarded, 0, "cygnet: no guard for the stack of a simulated thread");
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
    /// Stacks to be used again.
    static STACKS: RefCell<Vec<FlowStack>> = const { RefCell::new(Vec::new()) };
}

/// Whether a flow can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Ready,
    /// It could go on, but the machine lets it wait.
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
    /// When it goes on at the latest, if the clock lets it.
    pub(super) fn until(self) -> Option<Duration> {
        match self {
            State::Late { at } => Some(at),
            State::Waiting { until, .. } => until,
            State::Ready | State::Ended => None,
        }
    }
}

pub(super) struct Flow {
    context: Context,
    stack: Option<FlowStack>,
    /// The words that the library keeps for each thread, while it does not run.
    words: Cell<(*mut u8, *mut u8)>,
    /// How many panics of it are under way, while it does not run.
    panics: Cell<usize>,
    /// Written by the [`Roster`](super::roster::Roster) alone.
    pub(super) state: Cell<State>,
    /// Somebody has ended its wait, and not the clock.
    pub(super) woken: Cell<bool>,
    pub(super) thread: Arc<VirtualThread>,
    body: Cell<Option<Box<dyn FnOnce()>>>,
    /// What is asked who goes on after its end.
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
            body: Cell::new(None),
            next_after_end: Cell::new(None),
        }
    }

    /// One that begins with `body`.
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
                // SAFETY: the stack is new or has no frames any more; the flow stays where it is until it has ended.
                context: unsafe { Context::on_part(bottom, top, top, enter, data) },
                stack: Some(stack),
                thread,
                body: Cell::new(Some(body)),
                next_after_end: Cell::new(Some(simulation)),
                ..Flow::of_host()
            }
        })
    }

    /// Leaves this flow for another one, and comes back when somebody leaves for this one.
    ///
    /// # Safety
    /// This flow runs, the other one is suspended or new, and both stay.
    pub(super) unsafe fn leave_for(&self, other: &Flow) {
        self.words.set((asm::thread_word(), asm::nesting_word()));
        asm::set_thread_word(ptr::null_mut());
        asm::set_nesting_word(ptr::null_mut());
        self.panics.set(panic_count::exchange(0));
        // SAFETY: the caller's contract is the one of `switch`.
        unsafe { self.context.switch(&other.context) };
        panic_count::exchange(self.panics.get());
        let (thread, chain) = self.words.get();
        asm::set_thread_word(thread);
        asm::set_nesting_word(chain);
    }

    /// Keeps the stack of a flow that has ended for another one.
    pub(super) fn recycle(mut self) {
        debug_assert_eq!(self.state.get(), State::Ended);
        #[cfg(cygnet_tsan)]
        self.context.end();
        STACKS.with_borrow_mut(|stacks| stacks.extend(self.stack.take()));
    }

    /// The thread's own name, or one made of its number.
    pub(super) fn name(&self) -> String {
        self.thread.name.clone().unwrap_or_else(|| format!("thread {}", self.thread.number))
    }

    pub(super) fn describe(&self) -> String {
        let name = self.name();
        match self.state.get() {
            State::Ready | State::Late { .. } => format!("{name} could go on"),
            State::Ended => format!("{name} has ended"),
            State::Waiting { place, until: None, .. } => format!("{name} waits at {place}"),
            State::Waiting { place, until: Some(until), .. } => {
                format!("{name} waits at {place}, until {until:?} at most")
            }
        }
    }
}

/// Where every virtual thread begins.
unsafe extern "C" fn enter(data: *mut u8, message: usize) {
    // SAFETY: `data` is the flow that has just begun, which stays until its end.
    let flow = unsafe { &*data.cast::<Flow>() };
    // SAFETY: the first thing it does.
    unsafe { flow.context.arrive(message) };
    let body = flow.body.take().expect("a flow begins once");
    body();
    flow.thread.end();
    let simulation = flow.next_after_end.get().expect("set when it was made");
    // SAFETY: the host keeps it until all flows have ended.
    let next = unsafe { (*simulation).end_of_flow() };
    // SAFETY: no frame of this flow is used again; the other one is suspended or new, and stays.
    unsafe { flow.context.leave(&(*next).context) }
}
