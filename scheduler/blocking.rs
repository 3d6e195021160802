//! The threads for calls that block.
//!
//! Jobs go through a channel; a thread is started when a job finds no idle one and there are fewer
//! than the bound; an idle thread leaves after a while. A job lives on the stack of the task that waits
//! for it, until its join word is done.

use crate::retire::join::{Finished, JoinWord};
use crate::retire::record::{Payload, quietly};
use crate::scheduler::complete::wake;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::time::Duration;

/// Threads at most.
const BOUND: usize = 256;
/// After so long without a job a thread ends.
const PATIENCE: Duration = Duration::from_secs(5);

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
    threads: AtomicUsize,
    idle: AtomicUsize,
}

impl BlockingPool {
    pub(crate) fn new() -> BlockingPool {
        let (sender, receiver) = unbounded();
        BlockingPool { sender, receiver, counts: Arc::new(Counts::default()) }
    }

    /// Queues a job and sees to a thread for it. If there is none and none can be started, the caller
    /// runs what is queued: better slow than not at all.
    ///
    /// # Safety
    /// The job, and what it borrows, stays until its end is done.
    pub(crate) unsafe fn submit(&self, job: &Job<'_>) {
        let address = std::ptr::from_ref(job).cast::<Job<'static>>();
        if self.sender.send(Sent(address)).is_err() {
            unreachable!("the pool holds a receiver");
        }
        // After the send: a thread that is about to leave uncounts itself before it looks a last
        // time, so either it sees the job or we see that it is gone.
        let counts = &self.counts;
        if counts.idle.load(Ordering::SeqCst) >= self.receiver.len()
            || self.start_thread()
            || counts.threads.load(Ordering::SeqCst) > 0
        {
            return;
        }
        while let Ok(Sent(job)) = self.receiver.try_recv() {
            // SAFETY: its owner keeps it until the end.
            unsafe { perform(job) };
        }
    }

    fn start_thread(&self) -> bool {
        let counts = Arc::clone(&self.counts);
        if counts.threads.fetch_add(1, Ordering::SeqCst) >= BOUND {
            counts.threads.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        let receiver = self.receiver.clone();
        let started = std::thread::Builder::new().name("cygnet-blocking".to_owned()).spawn({
            let counts = Arc::clone(&counts);
            move || serve(&receiver, &counts)
        });
        if started.is_err() {
            counts.threads.fetch_sub(1, Ordering::SeqCst);
        }
        started.is_ok()
    }
}

fn serve(jobs: &Receiver<Sent>, counts: &Counts) {
    loop {
        counts.idle.fetch_add(1, Ordering::SeqCst);
        let job = jobs.recv_timeout(PATIENCE);
        counts.idle.fetch_sub(1, Ordering::SeqCst);
        let Ok(Sent(job)) = job else {
            // A job may have been queued for us at this very moment: leave the count first, look
            // again afterwards.
            counts.threads.fetch_sub(1, Ordering::SeqCst);
            match jobs.try_recv() {
                Ok(Sent(job)) => {
                    counts.threads.fetch_add(1, Ordering::SeqCst);
                    // SAFETY: see below.
                    unsafe { perform(job) };
                    continue;
                }
                Err(_) => return,
            }
        };
        // SAFETY: its owner keeps it until the end.
        unsafe { perform(job) };
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
