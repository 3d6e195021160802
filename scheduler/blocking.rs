//! The threads for calls that block.
//!
//! Jobs go through a channel; a thread is started when a job finds no idle one and there are fewer
//! than the bound; an idle thread leaves after a while. A job lives on the stack of the task that waits
//! for it, until its join word is done.

use crate::retire::join::{Finished, JoinWord};
use crate::retire::outcome::{Payload, quietly};
use crate::scheduler::complete::wake;
use crate::shim::atomic::{AtomicIsize, AtomicUsize, Ordering};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// Threads at most.
const BOUND: usize = 256;
/// After so long without a job a thread ends.
const PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    /// The pool whose job the thread is doing, by its counts.
    static SERVED: Cell<*const Counts> = const { Cell::new(ptr::null()) };
}

type Closure<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A closure to be run on another thread, and its end.
pub(crate) struct Job<'a> {
    closure: UnsafeCell<Option<Closure<'a>>>,
    panic: UnsafeCell<Option<Payload>>,
    pub(crate) end: JoinWord,
}

impl<'a> Job<'a> {
    pub(crate) fn new(f: impl FnOnce() + Send + 'a) -> Job<'a> {
        Job {
            closure: UnsafeCell::new(Some(Box::new(f))),
            panic: UnsafeCell::new(None),
            end: JoinWord::new(false),
        }
    }

    /// Runs the closure and keeps its panic.
    pub(crate) fn run(&self) {
        // SAFETY: one thread runs a job, and its owner looks only after the end.
        let closure = unsafe { (*self.closure.get()).take() };
        let panic = closure.and_then(quietly);
        // SAFETY: as above.
        unsafe { *self.panic.get() = panic };
    }

    pub(crate) fn into_panic(self) -> Option<Payload> {
        self.panic.into_inner()
    }
}

/// A job's address, on its way to the thread that runs it.
struct Sent(*const Job<'static>);

// SAFETY: the closure is Send, and the job stays where it is until it is done.
unsafe impl Send for Sent {}

/// The pool of one runtime.
pub(crate) struct BlockingPool {
    sender: Sender<Sent>,
    receiver: Receiver<Sent>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Those that there are or that are being started, for the bound.
    threads: AtomicUsize,
    /// Those that will certainly look for a job: started, and not about to leave.
    serving: AtomicUsize,
    /// Idle threads less queued jobs. A job takes its thread out of this number before it is sent, so
    /// none is ever promised to two.
    spare: AtomicIsize,
}

impl BlockingPool {
    pub(crate) fn new() -> BlockingPool {
        let (sender, receiver) = unbounded();
        BlockingPool { sender, receiver, counts: Arc::new(Counts::default()) }
    }

    /// Queues a job and sees to a thread for it. If there is none and none can be started, the caller
    /// runs it: better slow than not at all.
    ///
    /// # Safety
    /// The job, and what it borrows, stays until its end is done.
    pub(crate) unsafe fn submit(&self, job: &Job<'_>) {
        let counts = &self.counts;
        let spare = counts.spare.fetch_sub(1, Ordering::AcqRel);
        // Not the number of all threads, in which others count what they have yet to start in vain. One
        // that serves finds the job: it looks at `spare` after it has left `serving`.
        if spare <= 0 && !self.start_thread() && counts.serving.load(Ordering::Acquire) == 0 {
            counts.spare.fetch_add(1, Ordering::AcqRel);
            job.run();
            // Nobody else knows the job.
            let finished = job.end.finish();
            debug_assert!(matches!(finished, Finished::Unclaimed));
            return;
        }
        let address = std::ptr::from_ref(job).cast::<Job<'static>>();
        if self.sender.send(Sent(address)).is_err() {
            unreachable!("the pool holds a receiver");
        }
    }

    /// Whether the caller is in a job of this pool, for whose end a task waits.
    pub(crate) fn is_served_here(&self) -> bool {
        ptr::eq(SERVED.get(), Arc::as_ptr(&self.counts))
    }

    fn start_thread(&self) -> bool {
        let counts = Arc::clone(&self.counts);
        if counts.threads.fetch_add(1, Ordering::AcqRel) >= BOUND {
            counts.threads.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        let receiver = self.receiver.clone();
        let started = std::thread::Builder::new().name("cygnet-blocking".to_owned()).spawn({
            let counts = Arc::clone(&counts);
            move || serve(&receiver, &counts)
        });
        if started.is_err() {
            counts.threads.fetch_sub(1, Ordering::AcqRel);
        }
        started.is_ok()
    }
}

fn serve(jobs: &Receiver<Sent>, counts: &Counts) {
    counts.serving.fetch_add(1, Ordering::AcqRel);
    loop {
        counts.spare.fetch_add(1, Ordering::AcqRel);
        let job = loop {
            if let Ok(Sent(job)) = jobs.recv_timeout(PATIENCE) {
                break job;
            }
            // Leave only if no job has been promised this thread. Out of `serving` first: a submitter
            // whose job this does not see finds us gone.
            counts.serving.fetch_sub(1, Ordering::AcqRel);
            let leaves = |spare: isize| (spare > 0).then(|| spare - 1);
            if counts.spare.fetch_update(Ordering::AcqRel, Ordering::Acquire, leaves).is_ok() {
                counts.threads.fetch_sub(1, Ordering::AcqRel);
                return;
            }
            counts.serving.fetch_add(1, Ordering::AcqRel);
        };
        SERVED.set(counts);
        // SAFETY: its owner keeps it until the end.
        unsafe { perform(job) };
        SERVED.set(ptr::null());
    }
}

/// # Safety
/// The job is there until its end is done.
unsafe fn perform(job: *const Job<'static>) {
    // SAFETY: passed on.
    let job = unsafe { &*job };
    job.run();
    // The owner may leave, and the job be gone, as soon as the word is done.
    if let Finished::Waiter(waiter) = job.end.finish() {
        wake(waiter);
    }
}
