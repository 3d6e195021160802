//! Fork-join: calls two closures; another worker may take the second one meanwhile.
//!
//! # The life of a fork
//!
//! ```text
//!  join(a, b)      b lies in a record on the stack, entered in the fork list (`fork_list`)
//!     |
//!     a is called
//!     |
//!     +-- still in the fork list ------------------------> b is called, like any function
//!     |
//!     +-- public: a thief wanted work, or the task parked
//!            |
//!            +-- its proxy lies unclaimed ---------> claimed, ended uncalled; b is called
//!            +-- its proxy runs, or has run -------> wait for the proxy's end; take b's outcome
//! ```
//!
//! A fork that is made public gets a **proxy**: a task record like any other, a child of the node
//! that forked. Its closure holds only a pointer to the fork. The proxy lies in the queues of
//! fresh tasks, and is claimed, run and counted like them. Only the worker that has claimed the
//! proxy follows the pointer, and the fork's owner does not return before the proxy has ended. A
//! stale queue entry touches only the proxy.
//!
//! `b` runs exactly once. The owner calls it if it has popped the fork or claimed the proxy, or if
//! the proxy has ended without calling it (its runtime ends, or there was no stack for it).
//! Otherwise the proxy calls it. The outcome of `b` is written into the fork before the proxy's
//! end, and read after it.
//!
//! # Why no other task runs on top of a join
//!
//! A task that waits for a fork of its own parks like any other. It calls nothing but that very
//! fork.
//!
//! # The contents of a private fork
//!
//! The links, the closure, the node, and a function that calls the closure: that is all the hot
//! path writes. [`Public`] is written when the fork becomes public, under the lock of the fork
//! list. The owner reads it after it has had that lock.

use crate::asm::call_cold;
use crate::retire::nesting::{Pin, is_inside};
use crate::scheduler::life::complete::{release_both, uncount_in_parent};
use crate::scheduler::life::fork_frame::{Fork, Public};
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::life::spawn::{Lasting, Terms};
use crate::scheduler::queue::fork_list::{Left, Link};
use crate::scheduler::run_loop::call::drop_locals;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::HandleRef;
use crate::scheduler::worker::remote::Remote;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::task::cold::ColdData;
use crate::task::outcome::{Payload, drop_payload, drop_quietly};
use crate::task::record::{Origin, Phase, Traits};
use crate::task::reference::RunRef;
use crate::task::words::tree::Node;
use std::cell::{Cell, UnsafeCell};
use std::hint::cold_path;
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

/// A fork with its closure, later its outcome.
#[repr(C)]
struct ForkOf<B, R, A> {
    fork: Fork,
    payload: UnsafeCell<ForkPayload<B, R>>,
    /// The result of the first half, if it is small. In a register it would have to be saved by
    /// each call, even by a call that forks nothing.
    first: Cell<MaybeUninit<A>>,
}

union ForkPayload<B, R> {
    closure: ManuallyDrop<B>,
    outcome: ManuallyDrop<Result<R, Payload>>,
}

impl<B: FnOnce() -> R, R, A> ForkOf<B, R, A> {
    #[inline(always)]
    fn new(node: *const Node, b: B) -> ForkOf<B, R, A> {
        let public = Cell::new(MaybeUninit::uninit());
        ForkOf {
            fork: Fork { link: Link::new(), node, call: Self::call_closure, public },
            payload: UnsafeCell::new(ForkPayload { closure: ManuallyDrop::new(b) }),
            first: Cell::new(MaybeUninit::uninit()),
        }
    }

    /// The outcome of the second half, which may have been called elsewhere, after its end. Called
    /// once.
    fn outcome(&self) -> Result<R, Payload> {
        ensure_called(NonNull::from(self).cast());
        // SAFETY: stored before the call above returned. Each join ends by `result` or `fail`, of
        // which each calls this once.
        unsafe { ManuallyDrop::take(&mut (*self.payload.get()).outcome) }
    }

    /// Returns the result of the second half, which may have been called elsewhere, or resumes its
    /// panic.
    #[cold]
    #[inline(never)]
    fn result(&self) -> R {
        self.outcome().unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Resumes the panic of the first half after the second half has ended.
    #[cold]
    #[inline(never)]
    fn fail(&self, payload: Payload) -> ! {
        match self.outcome() {
            Ok(value) => drop_quietly(value),
            Err(second) => drop_payload(second),
        }
        resume_unwind(payload)
    }

    /// Calls both halves, the second one here or elsewhere.
    #[inline(always)]
    fn call_both(&self, a: impl FnOnce() -> A) -> (A, R) {
        match catch_unwind(AssertUnwindSafe(a)) {
            Ok(first) if const { size_of::<A>() > size_of::<usize>() || needs_drop::<A>() } => {
                (first, self.call_second())
            }
            Ok(first) => {
                self.first.set(MaybeUninit::new(first));
                let second = self.call_second();
                // It has no destructor, so none is missed if `b` has panicked.
                let first = self.first.replace(MaybeUninit::uninit());
                // SAFETY: written above, and only the owner uses this field.
                (unsafe { first.assume_init() }, second)
            }
            Err(payload) => self.fail(payload),
        }
    }

    #[inline(always)]
    fn call_second(&self) -> R {
        // SAFETY: the join began on a worker's thread, and a task moves only to threads of other
        // workers.
        let worker = unsafe { Worker::current_unchecked() };
        // SAFETY: the fork was pushed, and the joins in the first half are over.
        if unsafe { worker.remote.forks.pop(&self.fork) } {
            // SAFETY: the fork was private to the end, so the closure is still there, and ours.
            return unsafe { ManuallyDrop::take(&mut (*self.payload.get()).closure) }();
        }
        self.result()
    }

    /// # Safety
    /// The fork is the start of a `ForkOf<B, R, A>`. The closure is there, and is the caller's.
    unsafe fn call_closure(fork: NonNull<Fork>) {
        // SAFETY: the contract names the type, and gives us the closure: no other thread uses the
        // payload during this call.
        let payload = unsafe { &mut *fork.cast::<Self>().as_ref().payload.get() };
        // SAFETY: the closure is there, by the contract.
        let b = unsafe { ManuallyDrop::take(&mut payload.closure) };
        payload.outcome = ManuallyDrop::new(catch_unwind(AssertUnwindSafe(b)));
    }
}

/// Calls `a`, and calls `b` here or on another worker. Returns both results after both have ended.
///
/// # Panics
/// With the panic of `a`, else with that of `b`. If called on a thread that is not a worker's.
#[inline(always)]
#[track_caller]
pub(crate) fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let Some(worker) = Worker::current() else { outside() };
    let cell = ForkOf::<B, RB, RA>::new(worker.node.get(), b);
    // A pointer to the whole cell, since it is followed to the payload too.
    let fork = NonNull::from(&cell).cast::<Fork>();
    // SAFETY: the fork is popped before this function ends, and all joins inside `a` end before
    // that.
    if unsafe { worker.remote.forks.push(fork) } {
        cold_path();
        // SAFETY: the worker of this thread has just pushed it.
        unsafe { call_cold(finish_push_on_worker, fork.as_ptr().cast()) };
    }
    cell.call_both(a)
}

/// Slow path of a push: work is requested, the fork list is closed, or the join is in a bare fiber.
///
/// # Safety
/// The worker of this thread has just pushed it.
#[cold]
unsafe extern "C" fn finish_push_on_worker(fork: *mut u8) {
    // SAFETY: the contract says that a worker runs here, and that the fork was just pushed.
    let (worker, fork) = unsafe { (Worker::current_unchecked(), &*fork.cast::<Fork>()) };
    worker.finish_push(fork);
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside() -> ! {
    panic!(
        "cygnet: join was called outside a runtime; call it inside Runtime::block_on or inside a \
         spawned task"
    )
}

/// Ensures that the closure of a fork has been called when this returns, by the proxy or here. For
/// the newest fork, after its first half has returned or panicked.
#[cold]
#[inline(never)]
fn ensure_called(fork: NonNull<Fork>) {
    // SAFETY: the fork lies in the frame that calls this.
    let fork_ref = unsafe { fork.as_ref() };
    let worker = Worker::current().expect("a join is on a worker");
    // `call_second` may have popped the fork already. A second pop stores the same value again.
    // SAFETY: the fork was pushed, and the joins in the first half are over.
    let private =
        unsafe { worker.remote.forks.pop(fork_ref) || worker.remote.forks.resolve(fork_ref) };
    let public = (!private).then(|| {
        // SAFETY: written under the lock of the fork list, which the owner has had since.
        let public = unsafe { fork_ref.public() };
        if let Some(proxy) = public.proxy.take() {
            worker.end_proxy(proxy);
        }
        public
    });
    // Relaxed: the proxy, if there was one, has ended, and its writes happen before this.
    if !public.is_some_and(|public| public.called.load(Ordering::Relaxed)) {
        // SAFETY: the fork was private to the end, or its proxy has not called the closure and
        // never will. So the closure is still there, and ours.
        unsafe { (fork_ref.call)(fork) };
    }
    drop(public.and_then(|public| public.pin.take()));
}

/// Makes a fork public: gives it a proxy, which the caller must queue. Returns `None` if the fork
/// cannot have one, because it has no node, or its node cannot count another child: then the owner
/// calls its closure. Does not panic: the owner may have published a wait, and a thief is between
/// two tasks.
///
/// For the owner or a thief, under the lock of the fork list.
fn make_public(worker: &Worker, fork: NonNull<Fork>) -> Option<RunRef> {
    // SAFETY: a fork in the list is alive, and its owner does not return past it without the lock.
    let fork_ref = unsafe { fork.as_ref() };
    let has_node = !fork_ref.node.is_null();
    let made = has_node.then(|| new_proxy(worker, fork_ref, Proxy(fork))).flatten();
    let (run, proxy) = made.unzip();
    let (proxy, called, pin) = (Cell::new(proxy), AtomicBool::new(false), Cell::new(None));
    fork_ref.public.set(MaybeUninit::new(Public { proxy, called, pin }));
    run
}

/// Makes the proxy of a fork that has a node and becomes public, without queueing it. Returns
/// `None` if the node has too many children.
fn new_proxy(worker: &Worker, fork: &Fork, closure: Proxy) -> Option<(RunRef, HandleRef<()>)> {
    let node = fork.live_node();
    let task = node.task().expect("a fork has a task");
    // SAFETY: a fork in the list sees the present task-local bindings of its task. The task empties
    // the fork list before it changes the bindings, and cannot return past a fork that we are
    // making public.
    let locals = task.cold().and_then(|cold| unsafe { (*cold.locals.get()).clone() });
    let terms = Terms {
        spawned_at: task.spawned_at,
        // The same class of stack as the fork would have been called on.
        traits: Traits {
            origin: Origin::Called,
            stack_class: task.traits.stack_class,
            ..Traits::default()
        },
        cold: locals.map(|locals| Box::new(ColdData::with(None, Some(locals)))),
    };
    // SAFETY: the fork is public, so its owner waits for the proxy's end. The closure of the fork
    // and its result are Send.
    let lasting = unsafe { Lasting::promised() };
    worker.try_new_task(node, move || closure.run(), lasting, terms)
}

/// The closure of a proxy.
struct Proxy(NonNull<Fork>);

impl Proxy {
    fn run(self) {
        // SAFETY: the owner waits for the proxy's end, or has claimed the proxy, which then never
        // calls this.
        let fork = unsafe { self.0.as_ref() };
        // SAFETY: this worker has claimed the proxy, and runs it once.
        unsafe { (fork.call)(self.0) };
        // SAFETY: the fork became public before its proxy was queued. Its owner reads the flag
        // after the proxy's end.
        unsafe { fork.public() }.called.store(true, Ordering::Relaxed);
    }
}

impl Worker {
    fn finish_push(&self, fork: &Fork) {
        self.serve_requests();
        let in_bare_coroutine = is_inside();
        if in_bare_coroutine || !self.remote.forks.is_open() {
            self.make_forks_public();
        }
        if !in_bare_coroutine {
            return;
        }
        // SAFETY: the fork is public by now.
        unsafe { fork.public() }.pin.set(Some(Pin::innermost()));
    }

    /// Makes all forks public. Their proxies become fresh tasks of this worker.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_forks_public(&self) {
        let mut asked = false;
        self.remote.forks.make_all_public(|fork| {
            if let Some(proxy) = make_public(self, fork)
                && self.remote.private.push(proxy)
            {
                asked |= self.remote.private.take_request(|| self.shared().idle.anyone_searching());
            }
        });
        if asked {
            self.answer();
        }
    }

    /// Makes all forks public and takes them out of the fork list, because the running fiber is
    /// about to be left.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_forks(&self) -> Left {
        self.make_forks_public();
        self.remote.forks.leave()
    }

    /// Hands over the oldest fork, even if it is the only one, unlike a task in the private deque:
    /// if the hand-over was not worth it, the owner soon gets there and takes the fork back.
    ///
    /// The thief of a fork comes back for the next one. While it asked and waited for an answer, a
    /// task that makes one fork after the other would compute alone. So as long as the owner finds
    /// its public deque empty, it goes on handing forks over unasked: the request stands until a
    /// push finds something in the deque.
    pub(crate) fn hand_over_fork(&self) {
        let stocked = !self.queues.deque.is_empty();
        if self.own_request.replace(false) && stocked {
            return;
        }
        let mut given = false;
        self.remote.forks.give_oldest(|fork| given = self.give(fork));
        if given && !stocked {
            self.own_request.set(true);
            self.remote.forks.request_from_self();
        }
    }

    /// Steals the oldest fork of another worker by force, if its node is `wanted`.
    pub(crate) fn steal_fork(
        &self,
        from: &Remote,
        wanted: impl FnOnce(LiveNode<'_>) -> bool,
    ) -> bool {
        let wanted = |node: *const Node| {
            // SAFETY: called under the lock of the fork list with the node of a fork, which is not
            // null. The owner of the fork runs in the node, and does not return past the fork
            // without that lock.
            wanted(unsafe { LiveNode::new(node) })
        };
        let mut stolen = false;
        from.forks.steal(wanted, |fork| stolen = self.give(fork));
        stolen
    }

    /// Makes a fork public, and puts its proxy, if it gets one, into this worker's public deque.
    /// Returns whether it got one.
    fn give(&self, fork: NonNull<Fork>) -> bool {
        let proxy = make_public(self, fork);
        proxy.map(|proxy| self.push_public(proxy)).is_some()
    }

    /// Takes back a proxy that has not started, and ends it. Waits for the end of a proxy that was
    /// started, or that ended because there was no stack for it. Its outcome is `()`, or a failure
    /// without a destructor.
    fn end_proxy(&self, proxy: HandleRef<()>) {
        let Some(run) = self.claim_elsewhere(proxy.task()) else {
            let joiner = self.task().expect("a fork has a task");
            return self.await_fork(joiner, &proxy.join);
        };
        run.begin();
        run.set_phase(Phase::Finished);
        // A stale queue entry may keep the record. The task that forks, which runs here, has the
        // same bindings, so no value is dropped.
        if let Some(cold) = run.cold() {
            drop_locals(cold);
        }
        uncount_in_parent(self, &run);
        // The closure was not called, and has no destructor.
        release_both(self, run, proxy);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Worker;
    use crate::shim::time::{Duration, now};
    use crate::sync::Event;

    /// In a runtime of two workers, in a node with as many children as it can count.
    fn in_a_full_node(f: impl FnOnce() + Send) {
        let rt = crate::Runtime::builder().workers(2).build().unwrap();
        rt.block_on(|| {
            crate::scope(|_| {
                let node = Worker::current().unwrap().running_node();
                node.fill();
                f();
                node.empty();
            });
        });
    }

    #[test]
    fn forks_too_many_are_called_by_their_owner_which_waits_meanwhile() {
        fn waits_below(forks: u32) -> u32 {
            if forks == 0 {
                let event = Event::new();
                assert!(event.wait_timeout(Duration::from_millis(1)).is_err());
                return 0;
            }
            let (below, one) = crate::join(|| waits_below(forks - 1), || 1);
            below + one
        }
        in_a_full_node(|| assert_eq!(waits_below(5), 5));
    }

    #[test]
    fn forks_too_many_are_not_stolen() {
        fn computes_below(forks: u32) -> u32 {
            if forks == 0 {
                let until = now() + Duration::from_micros(50);
                while now() < until {}
                return 1;
            }
            let half = || computes_below(forks - 1);
            let (a, b) = crate::join(half, half);
            a + b
        }
        in_a_full_node(|| assert_eq!(computes_below(10), 1 << 10));
    }
}
