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
use crate::retire::nesting::{Pin, innermost};
use crate::scheduler::life::complete::{release_parent, release_run};
use crate::scheduler::life::fork_frame::{Fork, Public};
use crate::scheduler::life::scope_frame::task_of;
use crate::scheduler::life::spawn::Terms;
use crate::scheduler::queue::fork_list::{Left, Link};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::release;
use crate::scheduler::worker::remote::Remote;
use crate::shim::atomic::Ordering;
use crate::task::cold::ColdData;
use crate::task::outcome::{Payload, drop_payload, quietly};
use crate::task::record::{Origin, Phase, Record, Traits};
use crate::task::words::tree::Node;
use std::cell::UnsafeCell;
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
    first: UnsafeCell<MaybeUninit<A>>,
}

union ForkPayload<B, R> {
    closure: ManuallyDrop<B>,
    outcome: ManuallyDrop<Result<R, Payload>>,
}

impl<B: FnOnce() -> R, R, A> ForkOf<B, R, A> {
    #[inline(always)]
    fn new(node: *const Node, b: B) -> ForkOf<B, R, A> {
        let public = UnsafeCell::new(MaybeUninit::uninit());
        ForkOf {
            fork: Fork { link: Link::new(), node, call: Self::call, public },
            payload: UnsafeCell::new(ForkPayload { closure: ManuallyDrop::new(b) }),
            first: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// # Safety
    /// The closure is still there, and is the caller's.
    #[inline(always)]
    unsafe fn take_closure(&self) -> B {
        // SAFETY: the closure is there, and is taken once, by the contract.
        unsafe { ManuallyDrop::take(&mut (*self.payload.get()).closure) }
    }

    /// # Safety
    /// The outcome is there, and is the caller's.
    unsafe fn take_outcome(&self) -> Result<R, Payload> {
        // SAFETY: the outcome is there, and is taken once, by the contract.
        unsafe { ManuallyDrop::take(&mut (*self.payload.get()).outcome) }
    }

    /// Returns the result of the second half, which may have been called elsewhere, or resumes its
    /// panic.
    #[cold]
    #[inline(never)]
    fn finish(&self) -> R {
        finish(NonNull::from(self).cast());
        // SAFETY: stored before the call above returned.
        unsafe { self.take_outcome() }.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Resumes the panic of the first half after the second half has ended.
    #[cold]
    #[inline(never)]
    fn fail(&self, payload: Payload) -> ! {
        finish(NonNull::from(self).cast());
        // SAFETY: stored before the call above returned.
        match unsafe { self.take_outcome() } {
            Ok(value) => {
                if let Some(second) = quietly(|| drop(value)) {
                    drop_payload(second);
                }
            }
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
                // SAFETY: only the owner uses this field.
                unsafe { (*self.first.get()).write(first) };
                let second = self.call_second();
                // SAFETY: written above. It has no destructor, so none is missed if `b` has
                // panicked.
                (unsafe { (*self.first.get()).assume_init_read() }, second)
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
            return unsafe { self.take_closure() }();
        }
        self.finish()
    }

    /// # Safety
    /// The fork is the start of a `ForkOf<B, R, A>`. The closure is there, and is the caller's.
    unsafe fn call(fork: NonNull<Fork>) {
        // SAFETY: the contract names the type.
        let this = unsafe { fork.cast::<Self>().as_ref() };
        // SAFETY: the contract gives us the closure.
        let b = unsafe { this.take_closure() };
        let outcome = catch_unwind(AssertUnwindSafe(b));
        // SAFETY: the closure was taken, and its memory is still ours.
        unsafe { (*this.payload.get()).outcome = ManuallyDrop::new(outcome) };
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
        unsafe { call_cold(finish_push, fork.as_ptr().cast()) };
    }
    cell.call_both(a)
}

/// Slow path of a push: work is requested, the fork list is closed, or the join is in a bare
/// coroutine.
///
/// # Safety
/// The worker of this thread has just pushed it.
#[cold]
unsafe extern "C" fn finish_push(fork: *mut u8) {
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
fn finish(fork: NonNull<Fork>) {
    // SAFETY: the fork lies in the frame that calls this.
    let fork_ref = unsafe { fork.as_ref() };
    let worker = Worker::current().expect("a join is on a worker");
    // `call_second` may have popped the fork already. A second pop stores the same value again.
    // SAFETY: the fork was pushed, and the joins in the first half are over.
    let private =
        unsafe { worker.remote.forks.pop(fork_ref) || worker.remote.forks.settle(fork_ref) };
    if private {
        // SAFETY: the fork was private to the end, so its closure is still there, and ours.
        return unsafe { (fork_ref.call)(fork) };
    }
    let public = fork_ref.public.get();
    // SAFETY: written under the lock of the fork list, which the owner has had since. No reference
    // to the whole is made, since the proxy may write another field at this moment.
    let proxy = unsafe { (*public.cast::<Public>()).proxy };
    if let Some(proxy) = proxy
        && !worker.revoke(proxy)
    {
        worker.await_proxy(proxy);
    }
    // SAFETY: the proxy, if there was one, has ended, and its writes happen before this.
    let public = unsafe { (*public).assume_init_read() };
    if !public.called {
        // SAFETY: the proxy has not called the closure and never will, so the closure is ours.
        unsafe { (fork_ref.call)(fork) };
    }
    drop(public.pin);
}

/// Makes a fork public: gives it a proxy, which the caller must queue. Returns `None` if the fork
/// cannot have one.
///
/// For the owner or a thief, under the lock of the fork list.
fn make_public(worker: &Worker, fork: NonNull<Fork>) -> Option<NonNull<Record>> {
    // SAFETY: a fork in the list is alive, and its owner does not return past it without the lock.
    let fork_ref = unsafe { fork.as_ref() };
    // SAFETY: the fork has a node. Once it is public, its owner waits for the proxy's end.
    let proxy = (!fork_ref.node.is_null()).then(|| unsafe { worker.new_proxy(fork_ref) });
    let public = Public { proxy, called: false, pin: None };
    // SAFETY: we have the lock, and the fork was private, so this field is ours.
    unsafe { (*fork_ref.public.get()).write(public) };
    proxy
}

/// The closure of a proxy.
struct Proxy(NonNull<Fork>);

impl Proxy {
    fn call(self) {
        // SAFETY: the owner waits for the proxy's end, or has claimed the proxy, which then never
        // calls this.
        let fork = unsafe { self.0.as_ref() };
        // SAFETY: this worker has claimed the proxy, and runs it once.
        unsafe { (fork.call)(self.0) };
        let public = fork.public.get().cast::<Public>();
        // SAFETY: the fork is public, and its owner reads this field after the proxy's end. No
        // reference to the whole is made, since the owner may use the other fields at this moment.
        unsafe { (*public).called = true };
    }
}

impl Worker {
    /// Makes the proxy of a fork, without queueing it.
    ///
    /// # Safety
    /// The fork has a node, and is alive until the proxy has ended.
    unsafe fn new_proxy(&self, fork: &Fork) -> NonNull<Record> {
        let closure = Proxy(NonNull::from(fork));
        let task = task_of(fork.node).expect("a fork has a task");
        // SAFETY: the task has not ended: it runs, or waits for a call that it has made.
        let task = unsafe { task.as_ref() };
        let terms = Terms {
            spawned_at: task.spawned_at,
            // The same class of stack as the fork would have been called on.
            traits: Traits {
                origin: Origin::Called,
                stack_class: task.traits.stack_class,
                ..Traits::default()
            },
            // SAFETY: a fork in the list sees the present task-local bindings of its task. The
            // task empties the fork list before it changes the bindings, and cannot return past a
            // fork that we are making public.
            cold: unsafe { inherited(task) },
            detached: false,
        };
        // SAFETY: the fork is alive until the proxy has ended, and so is the node, which belongs
        // to an outer frame.
        unsafe { self.new_task(fork.node, move || closure.call(), terms) }
    }

    fn finish_push(&self, fork: &Fork) {
        self.serve_requests();
        let in_coroutine = !innermost().is_null();
        if in_coroutine || !self.remote.forks.is_open() {
            self.publish_forks();
        }
        if !in_coroutine {
            return;
        }
        let public = fork.public.get().cast::<Public>();
        // SAFETY: the fork is public by now, so the field is written, and only the owner uses
        // `pin`.
        unsafe { (*public).pin = Some(Pin::innermost()) };
    }

    /// Makes all forks public. Their proxies become fresh tasks of this worker.
    #[cold]
    #[inline(never)]
    pub(crate) fn publish_forks(&self) {
        let mut asked = false;
        self.remote.forks.publish(|fork| {
            if let Some(proxy) = make_public(self, fork)
                && self.remote.private.push(proxy)
            {
                asked |=
                    self.remote.private.serve_requests(|| self.shared().idle.anyone_searching());
            }
        });
        if asked {
            self.answer();
        }
    }

    /// Makes all forks public and takes them out of the fork list, because the running coroutine
    /// is about to be left.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_forks(&self) -> Left {
        self.publish_forks();
        self.remote.forks.leave()
    }

    /// Hands over the oldest fork, even if it is the only one, unlike a task in the private deque:
    /// if the hand-over was not worth it, the owner soon gets there and takes the fork back.
    ///
    /// The thief of a fork comes back for the next one. While it asked and waited for an answer, a
    /// task that makes one fork after the other would compute alone. So as long as the owner finds
    /// its public deque empty, it goes on offering without being asked: the request stands until a
    /// push finds something in the deque.
    pub(crate) fn offer_fork(&self) {
        let stocked = !self.queues.deque.is_empty();
        if self.offers_on.replace(false) && stocked {
            return;
        }
        let given = self.remote.forks.give_oldest(|fork| {
            let proxy = make_public(self, fork);
            self.publish(proxy.expect("a fork that is given away has a node"));
        });
        if given && !stocked {
            self.offers_on.set(true);
            self.remote.forks.request_from_self();
        }
    }

    /// Steals the oldest fork of another worker by force, if its node is `wanted`.
    pub(crate) fn steal_fork(
        &self,
        from: &Remote,
        wanted: impl FnOnce(*const Node) -> bool,
    ) -> bool {
        from.forks.steal(wanted, |fork| {
            let proxy = make_public(self, fork);
            self.publish(proxy.expect("a fork that is given away has a node"));
        })
    }

    /// Takes back a proxy that has not started, and ends it. Returns `false` if it has started.
    fn revoke(&self, proxy: NonNull<Record>) -> bool {
        if !self.claim_elsewhere(proxy) {
            return false;
        }
        // SAFETY: claimed, so its run reference is ours, as is the handle's.
        let task = unsafe { proxy.as_ref() };
        task.begin();
        task.set_phase(Phase::Finished);
        let retired = self.retired().as_ptr().expose_provenance();
        task.place.store(retired, Ordering::Relaxed);
        let left = release_parent(self.number(), task.node.parent);
        debug_assert!(left.is_none(), "the parent runs, it cannot have ended");
        // SAFETY: both references are ours. The closure was not called, and has no destructor.
        unsafe { release_run(self, proxy, 2) };
        true
    }

    /// Waits for the end of a proxy that was started, or that ended because there was no stack for
    /// it.
    fn await_proxy(&self, proxy: NonNull<Record>) {
        let joiner = self.task().expect("a fork has a task");
        // SAFETY: alive by the handle's reference, which is ours.
        self.await_fork(joiner, unsafe { &proxy.as_ref().join });
        // SAFETY: the handle's reference is ours. The outcome is `()`, or a failure without a
        // destructor.
        unsafe { release(proxy, 1) };
    }
}

/// The task-local bindings that a proxy inherits from the task that forks.
///
/// # Safety
/// The task's bindings of task-locals do not change meanwhile.
unsafe fn inherited(task: &Record) -> Option<Box<ColdData>> {
    // SAFETY: the contract says that the bindings do not change meanwhile.
    let locals = unsafe { (*task.cold()?.locals.get()).clone() }?;
    Some(Box::new(ColdData::with(None, Some(locals))))
}
