//! The pool of threads for calls that block.
//!
//! A task that makes such a call puts a [`Job`] into the pool's queue and waits. A *pool thread*
//! takes the job out, runs it and wakes the task. Jobs leave the queue first in, first out. The
//! pool starts a thread when a job finds no idle one, up to a bound. A thread that has been idle
//! for a while ends. A call costs two switches of the kernel in any case, so the pool need not be
//! fast: one lock guards all its state, and idle threads wait on one condition variable.
//!
//! # Which threads are idle
//!
//! A thread is *idle* from its start, or from the end of its last job, until it takes a job or
//! leaves. All these steps, except running a job, happen under the lock. An idle thread looks into
//! the queue before it goes to sleep, after each wake, and before it leaves. The look and the
//! decision happen under the same hold of the lock, and the thread takes the job that it finds. A
//! thread that has run a job becomes idle *before* it wakes the job's owner. So a task that makes
//! one call after another needs one thread.
//!
//! # No job is forgotten
//!
//! `submit` handles a job in one of four ways:
//!
//! * If more threads are idle than jobs are queued, the job is queued and one thread is notified.
//! * Otherwise a new thread is started, which is idle at once, and the job is queued.
//! * If the bound is reached, or the system refuses a thread, the job is queued for the threads
//!   that exist.
//! * If no thread exists either, the caller runs the job.
//!
//! Invariant: at least as many idle threads are awake, or have a notification under way, as jobs
//! are queued, unless all idle threads are awake already. Each step keeps the invariant:
//!
//! * A notification that comes when no thread sleeps is lost, but then all idle threads are awake.
//! * A thread goes to sleep, or leaves, only when the queue is empty. A thread whose keep-alive
//!   time has passed still takes a job that it finds.
//! * A thread that leaves is no longer counted as idle when the lock is free again, so the next job
//!   does not rely on it.
//! * A thread that takes a job, and leaves more jobs in the queue than there are idle threads,
//!   starts another thread. So jobs for which the system refused a thread get one each as soon as
//!   the system grants threads again.
//!
//! If no thread is idle, every thread is running a job and looks into the queue after it. So a job
//! waits for ever only if all threads run jobs that never end, for instance because they wait for
//! that job. The caller has to avoid this; the documentation of `blocking` says so.
//!
//! # Taking a job back
//!
//! `submit` returns a ticket. While no thread has taken the job, its owner may remove the job from
//! the queue by the ticket. Removal is a step under the lock, so each job is either run or taken
//! back, and a job that was taken back leaves nothing in the queue.
//!
//! # Closing the pool
//!
//! A runtime closes its pool after its last task has ended. A task waits for each job, so the queue
//! is empty then and no job comes later. All threads leave, and `close` joins them. A thread that
//! leaves earlier stores its own join handle in the pool and joins the thread that left before
//! it. So at most one thread that has left is not joined yet, and `close` joins that one too.

mod cores;
mod job;

pub(crate) use cores::Cores;
pub(crate) use job::Job;

use crate::shim::unmodelled::thread::{self, JoinHandle};
use crate::shim::unmodelled::{Condvar, Mutex};
use crate::shim::{Fault, fault, thread_local};
use crate::task::words::join::Waiter;
use crate::task::words::tree::{Node, Verdict};
use job::Sent;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a pool.
pub(crate) struct PoolConfig {
    /// The bound on the number of threads; at least 1.
    pub(crate) max_threads: usize,
    /// How long a thread stays idle before it ends.
    pub(crate) keep_alive: Duration,
    pub(crate) thread_name: String,
    /// Wakes the owner of a job that has ended.
    pub(crate) wake: fn(Waiter),
    /// The cores that the threads may run on, if workers are bound to fewer.
    pub(crate) cores: Option<Cores>,
}

/// The threads for [blocking calls](crate::blocking()), and their queue. All numbers are from the
/// same moment.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| cygnet::blocking(|| ()));
/// let blocking = rt.metrics().blocking;
/// assert_eq!((blocking.threads, blocking.idle, blocking.queued, blocking.done), (1, 1, 0, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingMetrics {
    /// Closures that wait for a thread now.
    pub queued: usize,
    /// Threads that exist now, never more than
    /// [`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads).
    pub threads: usize,
    /// Threads without a closure to run; included in `threads`.
    pub idle: usize,
    /// Closures that have returned or panicked.
    pub done: u64,
    /// Closures that their callers ran, because no thread could be started; included in `done`.
    pub in_place: u64,
}

/// The owner's right to take a job back. See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What a pool thread is doing.
#[derive(Clone, Copy)]
struct PoolThread {
    /// The pool it belongs to.
    pool: *const Pool,
    /// The node that waits for the job that the thread runs; null between jobs.
    node: *const Node,
}

thread_local! {
    static POOL_THREAD: Cell<PoolThread> =
        const { Cell::new(PoolThread { pool: ptr::null(), node: ptr::null() }) };
}

/// Returns whether the calling thread runs a job of a task that is cancelled.
pub(crate) fn is_cancelled_here() -> bool {
    // SAFETY: null, or the node that waits for the job that calls this function, and that lives
    // until the job has ended.
    let node = unsafe { POOL_THREAD.get().node.as_ref() };
    // The node was linked before the job was queued, so a cancel from above is in its own word.
    node.is_some_and(|node| node.verdict() == Verdict::Cancelled)
}

/// Returns whether the calling thread runs a job, for which a task waits.
pub(crate) fn runs_job() -> bool {
    !POOL_THREAD.get().node.is_null()
}

/// The pool of one runtime. See the module's documentation.
pub(crate) struct BlockingPool(Arc<Pool>);

struct Pool {
    config: PoolConfig,
    state: Mutex<State>,
    /// Tells idle threads of a job, or of the end.
    news: Condvar,
}

#[derive(Default)]
struct State {
    queue: BTreeMap<Ticket, Sent>,
    /// The number of jobs queued so far.
    tickets: u64,
    /// The threads that have not left, by number.
    threads: BTreeMap<u64, JoinHandle<()>>,
    /// The number of threads started so far.
    started: u64,
    idle: usize,
    /// The last thread that has left.
    left: Option<JoinHandle<()>>,
    closed: bool,
    /// Jobs that have been run.
    done: u64,
    /// The jobs among them that their callers ran.
    in_place: u64,
}

impl BlockingPool {
    pub(crate) fn new(config: PoolConfig) -> BlockingPool {
        BlockingPool(Arc::new(Pool { config, state: Mutex::default(), news: Condvar::new() }))
    }

    /// Queues a job, and notifies or starts a thread for it if that is needed. Returns the ticket
    /// to take the job back by. If no thread exists and none can be started, runs the job in place
    /// and returns `None`: better slow than not at all.
    ///
    /// # Safety
    /// The job, and what it borrows, stays in place until its end is recorded, or until it is taken
    /// back.
    pub(crate) unsafe fn submit(&self, job: &Job<'_>) -> Option<Ticket> {
        let pool = &self.0;
        let mut state = pool.state.lock();
        debug_assert!(!state.closed, "a task has outlived its runtime");
        let spare = state.idle > state.queue.len();
        if !spare && !pool.start_thread(&mut state) && state.threads.is_empty() {
            drop(state);
            job.run();
            let mut state = pool.state.lock();
            state.done += 1;
            state.in_place += 1;
            return None;
        }
        let ticket = Ticket(state.tickets);
        state.tickets += 1;
        // SAFETY: the caller keeps the job until its end, or takes it back out of the queue.
        state.queue.insert(ticket, unsafe { Sent::new(job) });
        drop(state);
        // MUTANT(blocking.notify): false
        if spare {
            pool.news.notify_one();
        }
        Some(ticket)
    }

    /// Takes a job out of the queue. Returns `false` if a thread has taken the job: then the caller
    /// must wait for its end.
    pub(crate) fn take_back(&self, ticket: Ticket) -> bool {
        self.0.state.lock().queue.remove(&ticket).is_some()
    }

    pub(crate) fn metrics(&self) -> BlockingMetrics {
        let state = self.0.state.lock();
        BlockingMetrics {
            queued: state.queue.len(),
            threads: state.threads.len(),
            idle: state.idle,
            done: state.done,
            in_place: state.in_place,
        }
    }

    /// Returns whether the calling thread runs a job of this pool, which a task waits for.
    pub(crate) fn runs_job_here(&self) -> bool {
        self.is_of_this_thread() && runs_job()
    }

    fn is_of_this_thread(&self) -> bool {
        ptr::eq(POOL_THREAD.get().pool, &*self.0)
    }

    /// Ends the threads and joins them. No task of the runtime may be left.
    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        debug_assert!(state.queue.is_empty(), "a runtime has ended before one of its jobs");
        state.closed = true;
        let threads = mem::take(&mut state.threads);
        let left = state.left.take();
        drop(state);
        self.0.news.notify_all();
        if self.is_of_this_thread() {
            // The caller is the destructor of a thread-local that kept the runtime. The thread
            // cannot join itself, and the other threads may be joining this one.
            return;
        }
        for thread in threads.into_values().chain(left) {
            // A pool thread does not unwind: the panic of a job is kept in the job.
            let _ = thread.join();
        }
    }
}

impl Pool {
    /// Starts a thread unless the bound is reached, and returns whether one was started.
    // Under the lock: every thread that is counted exists.
    fn start_thread(self: &Arc<Pool>, state: &mut State) -> bool {
        let config = &self.config;
        if state.threads.len() >= config.max_threads || fault(Fault::Thread) {
            return false;
        }
        let number = state.started;
        let pool = Arc::clone(self);
        let started = thread::Builder::new()
            .name(format!("{}-blocking", config.thread_name))
            .spawn(move || pool.run_jobs(number));
        let Ok(thread) = started else { return false };
        state.threads.insert(number, thread);
        state.started += 1;
        state.idle += 1;
        true
    }

    /// The body of a pool thread.
    fn run_jobs(self: &Arc<Pool>, number: u64) {
        let pool = Arc::as_ptr(self);
        POOL_THREAD.set(PoolThread { pool, node: ptr::null() });
        if let Some(cores) = &self.config.cores {
            cores.allow();
        }
        while let Some(sent) = self.next_job(number) {
            POOL_THREAD.set(PoolThread { pool, node: sent.job().node });
            sent.job().run();
            POOL_THREAD.set(PoolThread { pool, node: ptr::null() });
            let mut state = self.state.lock();
            state.done += 1;
            state.idle += 1;
            drop(state);
            if let Some(owner) = sent.finish() {
                (self.config.wake)(owner);
            }
        }
    }

    /// Waits for a job. Returns `None` if the thread is to end. The calling thread is idle.
    fn next_job(self: &Arc<Pool>, number: u64) -> Option<Sent> {
        let mut state = self.state.lock();
        let mut late = false;
        loop {
            // MUTANT(blocking.leave.look): first if late { break; }
            if let Some((_, job)) = state.queue.pop_first() {
                state.idle -= 1;
                if state.idle < state.queue.len() {
                    // The system has refused a thread for one of these jobs, and may grant it now.
                    self.start_thread(&mut state);
                }
                return Some(job);
            }
            if late || state.closed {
                break;
            }
            (state, late) = self.news.wait_timeout(state, self.config.keep_alive);
        }
        state.idle -= 1;
        // The thread's own handle is missing if the pool has been closed.
        let before = state.threads.remove(&number).and_then(|me| state.left.replace(me));
        drop(state);
        if let Some(before) = before {
            // A pool thread does not unwind, as in `close`.
            let _ = before.join();
        }
        None
    }
}
