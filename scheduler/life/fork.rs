//! Fork-join: two closures, the second of which another worker may take meanwhile.
//!
//! # The life of a fork
//!
//! ```text
//!  join(a, b)      b lies in a record on the stack, entered in the worker's fork list (`fork_list`)
//!     |
//!     a is called
//!     |
//!     +-- still in the fork list ------------------------> b is called, like any function
//!     |
//!     +-- public: somebody wanted work, or the task parked
//!            |
//!            +-- its proxy lies unclaimed ---------> claimed, ended uncalled; b is called
//!            +-- its proxy runs, or has run -------> wait for the proxy's end; take b's outcome
//! ```
//!
//! A fork that is made public gets a **proxy**: a task record like any other, a child of the node that
//! forked, whose closure holds a pointer to the fork and nothing else. It lies in the queues that fresh
//! tasks lie in, is claimed, run and counted as they are. The pointer is followed by the one who has
//! claimed the proxy, and the fork's owner does not return before that one has ended. A stale entry
//! touches only the proxy.
//!
//! `b` runs exactly once: here, if its owner has popped it or claimed its proxy, or if the proxy has ended
//! without having called it (its runtime ends, or there was no stack for it); else in the proxy. Its outcome
//! is written into the fork before the proxy's end, and read after it.
//!
//! # Why a outsider never runs on top of a join
//!
//! A task that waits for a fork of its own parks like any other. It calls nothing but that very fork.
//!
//! # What is in a fork that is not public
//!
//! The links, the closure, the node, and how to call the one in the name of the other: all that the hot path writes.
//! [`Public`] is written when it becomes public, under the lock of the fork list, and read by the owner after it
//! has had that lock.

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

/// A fork with its closure, then its outcome.
#[repr(C)]
struct ForkOf<B, R, A> {
    fork: Fork,
    payload: UnsafeCell<ForkPayload<B, R>>,
    /// The result of the first half, if it is small: here and not in a register, which would have to be saved
    /// by each call, also one that forks nothing.
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
    /// The closure is the caller's, and still there.
    #[inline(always)]
    unsafe fn take_closure(&self) -> B {
        // SAFETY: passed on.
        unsafe { ManuallyDrop::take(&mut (*self.payload.get()).closure) }
    }

    /// # Safety
    /// The outcome is there, and is the caller's.
    unsafe fn take_outcome(&self) -> Result<R, Payload> {
        // SAFETY: passed on.
        unsafe { ManuallyDrop::take(&mut (*self.payload.get()).outcome) }
    }

    /// The result of the second half, if it may have been called elsewhere; its panic is thrown here.
    #[cold]
    #[inline(never)]
    fn finish(&self) -> R {
        finish(NonNull::from(self).cast());
        // SAFETY: stored before the call above has returned.
        unsafe { self.take_outcome() }.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Throws the panic of the first half, after the second has ended.
    #[cold]
    #[inline(never)]
    fn fail(&self, payload: Payload) -> ! {
        finish(NonNull::from(self).cast());
        // SAFETY: stored before the call above has returned.
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

    /// Calls both halves, the second here or elsewhere.
    #[inline(always)]
    fn call_both(&self, a: impl FnOnce() -> A) -> (A, R) {
        match catch_unwind(AssertUnwindSafe(a)) {
            Ok(first) if const { size_of::<A>() > size_of::<usize>() || needs_drop::<A>() } => {
                (first, self.call_second())
            }
            Ok(first) => {
                // SAFETY: nobody else uses it.
                unsafe { (*self.first.get()).write(first) };
                let second = self.call_second();
                // SAFETY: written above; without a destructor, so there is none to miss if `b` has panicked.
                (unsafe { (*self.first.get()).assume_init_read() }, second)
            }
            Err(payload) => self.fail(payload),
        }
    }

    #[inline(always)]
    fn call_second(&self) -> R {
        // SAFETY: we were on a worker's thread, and a task that changes threads goes to another one.
        let worker = unsafe { Worker::current_unchecked() };
        // SAFETY: it was pushed, and the joins in the first half are over.
        if unsafe { worker.remote.forks.pop(&self.fork) } {
            // SAFETY: nobody else has seen it.
            return unsafe { self.take_closure() }();
        }
        self.finish()
    }

    /// # Safety
    /// The fork is the start of a `ForkOf<B, R, A>`, and the closure is the caller's and still there.
    unsafe fn call(fork: NonNull<Fork>) {
        // SAFETY: passed on.
        let this = unsafe { fork.cast::<Self>().as_ref() };
        // SAFETY: passed on.
        let b = unsafe { this.take_closure() };
        let outcome = catch_unwind(AssertUnwindSafe(b));
        // SAFETY: the closure is gone, and the place still ours.
        unsafe { (*this.payload.get()).outcome = ManuallyDrop::new(outcome) };
    }
}

/// Calls `a`, and `b` here or elsewhere, and returns both results after both have ended.
///
/// # Panics
/// With the panic of `a`, else with that of `b`. On a thread that is not a worker's.
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
    // From the whole of it, as it is followed to the payload too.
    let fork = NonNull::from(&cell).cast::<Fork>();
    // SAFETY: it is popped before this function ends, and what is called in it ends before.
    if unsafe { worker.remote.forks.push(fork) } {
        cold_path();
        // SAFETY: it has just been pushed.
        unsafe { call_cold(finish_push, fork.as_ptr().cast()) };
    }
    cell.call_both(a)
}

/// What a push of a fork is not done with.
///
/// # Safety
/// The worker of this thread has just pushed it.
#[cold]
unsafe extern "C" fn finish_push(fork: *mut u8) {
    // SAFETY: passed on.
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

/// Sees to it that the closure of a fork whose place has come, or one whose first half has panicked, has been
/// called when this returns: by its proxy, or here.
#[cold]
#[inline(never)]
fn finish(fork: NonNull<Fork>) {
    // SAFETY: a fork of the frame that calls this.
    let fork_ref = unsafe { fork.as_ref() };
    let worker = Worker::current().expect("a join is on a worker");
    // SAFETY: it was pushed, and the joins in the first half are over.
    let private =
        unsafe { worker.remote.forks.pop(fork_ref) || worker.remote.forks.settle(fork_ref) };
    if private {
        // SAFETY: popped: nobody else has seen it.
        return unsafe { (fork_ref.call)(fork) };
    }
    let public = fork_ref.public.get();
    // SAFETY: written under the lock of the fork list, which the owner has had since. No reference to the whole is
    // made: the proxy may write another field at this moment.
    let proxy = unsafe { (*public.cast::<Public>()).proxy };
    if let Some(proxy) = proxy
        && !worker.revoke(proxy)
    {
        worker.await_proxy(proxy);
    }
    // SAFETY: the proxy, if there was one, has ended; whatever it wrote happens before.
    let public = unsafe { (*public).assume_init_read() };
    if !public.called {
        // SAFETY: nobody else will.
        unsafe { (fork_ref.call)(fork) };
    }
    drop(public.pin);
}

/// Gives a fork a proxy, which is ready to be queued. `None` if it cannot have one.
///
/// For its owner, or a thief, under the lock of the fork list.
fn make_public(worker: &Worker, fork: NonNull<Fork>) -> Option<NonNull<Record>> {
    // SAFETY: a fork in a fork list is there, and its owner does not pass by it without the lock.
    let fork_ref = unsafe { fork.as_ref() };
    // SAFETY: it has a node, and whoever makes it public has it wait for the proxy's end.
    let proxy = (!fork_ref.node.is_null()).then(|| unsafe { worker.new_proxy(fork_ref) });
    let public = Public { proxy, called: false, pin: None };
    // SAFETY: the lock makes it ours.
    unsafe { (*fork_ref.public.get()).write(public) };
    proxy
}

/// The closure of a proxy.
struct Proxy(NonNull<Fork>);

impl Proxy {
    fn call(self) {
        // SAFETY: its owner waits for the end of the proxy, or has claimed it and never calls this.
        let fork = unsafe { self.0.as_ref() };
        // SAFETY: the proxy was claimed by whoever runs it, and is run once.
        unsafe { (fork.call)(self.0) };
        let public = fork.public.get().cast::<Public>();
        // SAFETY: it is public, and its owner reads this field after the end of the proxy. No reference to the
        // whole is made: the owner may use the other fields at this moment.
        unsafe { (*public).called = true };
    }
}

impl Worker {
    /// Makes the proxy of a fork, and queues it nowhere.
    ///
    /// # Safety
    /// The fork has a node, and is there until the proxy has ended.
    unsafe fn new_proxy(&self, fork: &Fork) -> NonNull<Record> {
        let closure = Proxy(NonNull::from(fork));
        let task = task_of(fork.node).expect("a fork has a task");
        // SAFETY: the task runs, or waits for what it has called.
        let task = unsafe { task.as_ref() };
        let terms = Terms {
            spawned_at: task.spawned_at,
            // On a stack like the one that it would have been called on.
            traits: Traits {
                origin: Origin::Called,
                stack_class: task.traits.stack_class,
                ..Traits::default()
            },
            // SAFETY: forks in a fork list see the bindings that their task has at present: it empties the fork list
            // before it changes them, and cannot pass by a fork that we are making public.
            cold: unsafe { inherited(task) },
            detached: false,
        };
        // SAFETY: what it borrows is there until it has ended, and so is the node, of a frame below.
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
        // SAFETY: written when it was made public, by now; nobody else uses this field.
        unsafe { (*public).pin = Some(Pin::innermost()) };
    }

    /// Makes all forks public: what they stand for becomes fresh tasks of this worker.
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

    /// Makes all forks public and takes them out of the fork list, as the running coroutine is about to be left.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_forks(&self) -> Left {
        self.publish_forks();
        self.remote.forks.leave()
    }

    /// Hands the oldest fork over. Even the only one, unlike a task in the private deque: if it was not worth it, its
    /// owner is soon there and has it back.
    ///
    /// Whoever takes it comes back for the next one, and while it asks and waits for an answer a task that
    /// makes one fork after the other would have computed on alone. So as long as its public deque is found
    /// empty the owner goes on offering, unasked: the request stands until a push finds something there.
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

    /// Takes the oldest fork of another worker by force, if its node is `wanted`.
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

    /// Takes a proxy back that nobody has started, and ends it. False if it has been started.
    fn revoke(&self, proxy: NonNull<Record>) -> bool {
        if !self.claim_elsewhere(proxy) {
            return false;
        }
        // SAFETY: claimed: its run reference is ours, and so is that of the handle.
        let task = unsafe { proxy.as_ref() };
        task.begin();
        task.set_phase(Phase::Finished);
        let retired = self.retired().as_ptr().expose_provenance();
        task.place.store(retired, Ordering::Relaxed);
        let left = release_parent(self.number(), task.node.parent);
        debug_assert!(left.is_none(), "the parent runs, it cannot have ended");
        // SAFETY: both are ours. The closure was not called and has no destructor.
        unsafe { release_run(self, proxy, 2) };
        true
    }

    /// Waits for the end of a proxy that has been started, or was ended for want of a stack.
    fn await_proxy(&self, proxy: NonNull<Record>) {
        let joiner = self.task().expect("a fork has a task");
        // SAFETY: we hold the handle's reference.
        self.await_fork(joiner, unsafe { &proxy.as_ref().join });
        // SAFETY: the handle's reference. Its outcome is `()`, or a failure without a destructor.
        unsafe { release(proxy, 1) };
    }
}

/// What a proxy inherits from the task that forks.
///
/// # Safety
/// The task's bindings of task-locals do not change meanwhile.
unsafe fn inherited(task: &Record) -> Option<Box<ColdData>> {
    // SAFETY: passed on.
    let locals = unsafe { (*task.cold()?.locals.get()).clone() }?;
    Some(Box::new(ColdData::with(None, Some(locals))))
}
