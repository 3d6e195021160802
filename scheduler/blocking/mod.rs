//! The threads for calls that block.
//!
//! A task that makes such a call puts a [`Job`] into a queue, first in first out, and waits. A *pool thread* takes it
//! out, runs it and wakes the task. Threads are started when a job finds none that is idle, up to a bound; one that has found
//! nothing to do for a while ends. A call costs two switches of the kernel in any case, so this need not be fast: one lock
//! guards all there is, and idle threads wait on one condition variable.
//!
//! # Who is idle
//!
//! A thread is *idle* from when it is started, or has run its job, until it takes a job or leaves. All of these but the running
//! of jobs are steps under the lock. An idle thread looks into the queue before it sleeps, before it sleeps again,
//! and before it leaves, under the same hold of the lock; it takes what it finds. A thread becomes idle *before* the
//! owner of the job that it has run is told: so whoever makes one call after another needs one thread.
//!
//! # No job is forgotten
//!
//! A job is put in
//!
//! * with a notification, if there are more idle threads than jobs in the queue;
//! * else with a new thread, which is idle at once;
//! * else, if the bound is reached or the system refuses a thread, for one of the threads that there are;
//! * not at all if there is none: then the caller runs it.
//!
//! So at all times at least as many idle threads are awake, or are about to be woken by a notification, as there are jobs in
//! the queue, or all idle ones are: each step keeps that up. A notification that comes when nobody sleeps is lost, but then
//! all idle ones are awake. A thread goes to sleep, or leaves, only when the queue is empty. A time that is up does not matter
//! to one that finds a job; and one that leaves has been counted out, under the lock, before the next job counts the idle ones.
//!
//! A thread that takes a job out and leaves more of them than there are idle threads starts another one. So those that were
//! refused a thread get one each, one after the other, as soon as the system has given one again.
//!
//! And if none is idle, each thread is in a job, and looks into the queue after it. So a job waits for ever only if all
//! threads are in jobs that never end, which may be so because they wait for that job: this is the caller's to avoid,
//! and is in the documentation of `blocking`.
//!
//! # Taken back
//!
//! Who has put a job in has a ticket, and may take the job out by it as long as no thread has. That, too, is a
//! step under the lock, so it is either run or taken back.
//!
//! # The end
//!
//! A runtime closes its pool when its last task has ended, so the queue is empty and nobody adds to it: every job is
//! waited for by a task. Then all threads leave, and are joined. A thread that has left before has given the handle
//! by which it is joined to the next one that leaves, which joins it, or to the end: so at most one is kept.

mod cores;
mod job;

pub(crate) use cores::Cores;
pub(crate) use job::Job;

use crate::retire::tree::{Node, Verdict};
use crate::shim::unmodelled::thread::{self, JoinHandle};
use crate::shim::unmodelled::{Condvar, Mutex, MutexGuard};
use crate::shim::{Fault, fault, thread_local};
use job::Sent;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// What a pool is made with.
pub(crate) struct PoolConfig {
    /// At least 1.
    pub(crate) max_threads: usize,
    /// After so long without a job a thread ends.
    pub(crate) keep_alive: Duration,
    pub(crate) thread_name: String,
    /// Where the threads may run, if workers are bound to fewer cores.
    pub(crate) cores: Option<Cores>,
}

/// What there is at a moment.
pub(crate) struct Counts {
    pub(crate) queued: usize,
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) done: u64,
    pub(crate) in_place: u64,
}

/// The right to take a job out of the queue again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What a pool thread does.
#[derive(Clone, Copy)]
struct Served {
    /// The pool it belongs to.
    pool: *const Pool,
    /// The node that waits for the job that it is in; null between jobs.
    node: *const Node,
}

thread_local! {
    static SERVED: Cell<Served> =
        const { Cell::new(Served { pool: ptr::null(), node: ptr::null() }) };
}

/// Whether the thread is in a job for a task that is cancelled.
pub(crate) fn is_cancelled_here() -> bool {
    // SAFETY: null, or a node that waits for the job that calls this.
    let node = unsafe { SERVED.get().node.as_ref() };
    // It was linked before the job was queued, so there is nobody else to ask.
    node.is_some_and(|node| node.verdict() == Verdict::Cancelled)
}

/// The pool of one runtime. See the module's documentation.
pub(crate) struct BlockingPool(Arc<Pool>);

struct Pool {
    config: PoolConfig,
    state: Mutex<State>,
    /// For idle threads: a job, or the end.
    news: Condvar,
}

#[derive(Default)]
struct State {
    queue: BTreeMap<Ticket, Sent>,
    /// Jobs queued so far.
    tickets: u64,
    /// Those that have not left, by number.
    threads: BTreeMap<u64, JoinHandle<()>>,
    /// Threads started so far.
    started: u64,
    idle: usize,
    /// The last that has left.
    left: Option<JoinHandle<()>>,
    closed: bool,
    done: u64,
    /// Of these, run by their callers.
    in_place: u64,
}

impl BlockingPool {
    pub(crate) fn new(config: PoolConfig) -> BlockingPool {
        BlockingPool(Arc::new(Pool { config, state: Mutex::default(), news: Condvar::new() }))
    }

    /// Queues a job and sees to a thread for it. If there is none and none can be started, the caller
    /// runs it, and there is no ticket: better slow than not at all.
    ///
    /// # Safety
    /// The job, and what it borrows, stays until its end is done, or it is taken back.
    pub(crate) unsafe fn submit(&self, job: &Job<'_>) -> Option<Ticket> {
        let pool = &self.0;
        let mut state = pool.lock();
        debug_assert!(!state.closed, "a task has outlived its runtime");
        let spare = state.idle > state.queue.len();
        if !spare && !pool.start_thread(&mut state) && state.threads.is_empty() {
            drop(state);
            job.run();
            let mut state = pool.lock();
            state.done += 1;
            state.in_place += 1;
            return None;
        }
        let ticket = Ticket(state.tickets);
        state.tickets += 1;
        state.queue.insert(ticket, Sent::new(job));
        drop(state);
        // PROOF(blocking.notify): false
        if spare {
            pool.news.notify_one();
        }
        Some(ticket)
    }

    /// Takes a job out of the queue; false if a thread has done so. Then its end is to be waited for.
    pub(crate) fn take_back(&self, ticket: Ticket) -> bool {
        self.0.lock().queue.remove(&ticket).is_some()
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = self.0.lock();
        Counts {
            queued: state.queue.len(),
            threads: state.threads.len(),
            idle: state.idle,
            done: state.done,
            in_place: state.in_place,
        }
    }

    /// Whether the caller is in a job of this pool, for whose end a task waits.
    pub(crate) fn is_served_here(&self) -> bool {
        self.is_of_this_thread() && !SERVED.get().node.is_null()
    }

    fn is_of_this_thread(&self) -> bool {
        ptr::eq(SERVED.get().pool, &*self.0)
    }

    /// Sends the threads home and waits for their end. No task is left.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        debug_assert!(state.queue.is_empty(), "a runtime has ended before one of its jobs");
        state.closed = true;
        let threads = mem::take(&mut state.threads);
        let left = state.left.take();
        drop(state);
        self.0.news.notify_all();
        if self.is_of_this_thread() {
            // In the destructor of a thread-local that has kept the runtime. Others may wait for the end of this thread.
            return;
        }
        for thread in threads.into_values().chain(left) {
            // It does not unwind.
            let _ = thread.join();
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread, unless there are as many as may be; false if there is none more.
    // Under the lock: what is counted is there.
    fn start_thread(self: &Arc<Pool>, state: &mut State) -> bool {
        let config = &self.config;
        if state.threads.len() >= config.max_threads || fault(Fault::Thread) {
            return false;
        }
        let number = state.started;
        let pool = Arc::clone(self);
        let started = thread::Builder::new()
            .name(format!("{}-blocking", config.thread_name))
            .spawn(move || pool.serve(number));
        let Ok(thread) = started else { return false };
        state.threads.insert(number, thread);
        state.started += 1;
        state.idle += 1;
        true
    }

    /// The body of a pool thread.
    fn serve(self: &Arc<Pool>, number: u64) {
        let pool = Arc::as_ptr(self);
        SERVED.set(Served { pool, node: ptr::null() });
        if let Some(cores) = &self.config.cores {
            cores.allow();
        }
        while let Some(sent) = self.next_job(number) {
            // SAFETY: taken out of the queue just now, by this thread alone.
            let job = unsafe { sent.open() };
            SERVED.set(Served { pool, node: job.node });
            job.run();
            SERVED.set(Served { pool, node: ptr::null() });
            let mut state = self.lock();
            state.done += 1;
            state.idle += 1;
            drop(state);
            // SAFETY: it has run, and nothing of it is used any more.
            unsafe { sent.finish() };
        }
    }

    /// A job for an idle thread; none if it is to end.
    fn next_job(self: &Arc<Pool>, number: u64) -> Option<Sent> {
        let mut state = self.lock();
        let mut late = false;
        loop {
            // PROOF(blocking.leave.look): first if late { break; }
            if let Some((_, job)) = state.queue.pop_first() {
                state.idle -= 1;
                if state.idle < state.queue.len() {
                    // One was refused, and may be had now.
                    self.start_thread(&mut state);
                }
                return Some(job);
            }
            if late || state.closed {
                break;
            }
            let waited = self.news.wait_timeout(state, self.config.keep_alive);
            let (woken, time) = waited.unwrap_or_else(PoisonError::into_inner);
            (state, late) = (woken, time.timed_out());
        }
        state.idle -= 1;
        // Its own handle is not there if the pool has been closed.
        let before = state.threads.remove(&number).and_then(|me| state.left.replace(me));
        drop(state);
        if let Some(before) = before {
            // As in `close`.
            let _ = before.join();
        }
        None
    }
}
