//! What the workers count.

use crate::runtime::task::TaskId;
use crate::scheduler::blocking::Counts;
use crate::scheduler::worker::remote::Remote;
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use std::fmt::{self, Write as _};
use std::panic::Location;

/// What one worker has counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Tasks started.
    pub tasks: u64,
    /// Of these, tasks called in place by the one that joined them.
    pub in_place: u64,
    /// Tasks spawned.
    pub spawned: u64,
    /// Times that it took work from another worker.
    pub steals: u64,
    /// Waits that had to wait.
    pub parks: u64,
    /// Switches from one coroutine to another.
    pub switches: u64,
    /// Times that it lay down to sleep.
    pub sleeps: u64,
    /// Attempts to take work from a busy worker by force.
    pub rescues: u64,
    /// Started, unfinished coroutines at this moment.
    pub coroutines: u64,
    /// Timers that are set on it at this moment: tasks that sleep, timeouts, and futures that wait for a time.
    pub timers: u64,
    /// Dead records on their way home at this moment (the retire queue's backlog, bounded).
    pub retiring: u64,
    /// Dead records that have come home so far.
    pub retired: u64,
    /// Dead records that found the retire queue full and were freed where they died.
    pub retire_overflows: u64,
}

impl WorkerMetrics {
    fn read(remote: &Remote) -> WorkerMetrics {
        let counters = &remote.counters;
        // SAFETY: the queue lives at least as long as the worker that it belongs to.
        let retire = unsafe { remote.retired.as_ref() }.counters();
        WorkerMetrics {
            tasks: counters.tasks.get() + counters.in_place.get(),
            in_place: counters.in_place.get(),
            spawned: counters.spawned.get(),
            steals: counters.steals.get(),
            parks: counters.parks.get(),
            switches: counters.switches.get(),
            sleeps: counters.sleeps.get(),
            rescues: counters.rescues.get(),
            coroutines: remote.live.load(Ordering::Relaxed).into(),
            timers: remote.timers.len() as u64,
            retiring: retire.backlog as u64,
            retired: retire.drained,
            retire_overflows: retire.overflowed as u64,
        }
    }
}

/// The threads for calls that block, and their queue: see [`blocking`](crate::blocking()). All numbers are of one
/// moment.
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
    /// Closures that wait for a thread, at this moment.
    pub queued: usize,
    /// Threads, at this moment. Never more than
    /// [`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads).
    pub threads: usize,
    /// Of these, threads that run no closure.
    pub idle: usize,
    /// Closures that have been run to their end, or panic, so far.
    pub done: u64,
    /// Of these, closures that were run by their callers, as no thread could be had.
    pub in_place: u64,
}

impl BlockingMetrics {
    fn read(shared: &Shared) -> BlockingMetrics {
        let Counts { queued, threads, idle, done, in_place } = shared.blocking.counts();
        BlockingMetrics { queued, threads, idle, done, in_place }
    }
}

/// What a runtime has counted. The numbers of a running runtime are of slightly different moments.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     for _ in 0..10 {
///         cygnet::spawn(|| ()).join().unwrap();
///     }
/// });
/// assert_eq!(rt.metrics().tasks(), 11); // the root of block_on is one
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// By worker.
    pub workers: Vec<WorkerMetrics>,
    /// Tasks spawned from outside.
    pub injected: u64,
    /// Stacks that exist, in use or warm.
    pub stacks: usize,
    /// The most stacks that ever existed at a time.
    pub stacks_high_water: usize,
    /// The threads for calls that block.
    pub blocking: BlockingMetrics,
    /// Unfinished tasks that go on although they have been told many times that they are cancelled.
    pub unresponsive: Vec<UnresponsiveTask>,
}

/// A task that goes on although it has been told a hundred times that it is cancelled: it calls waits or checkpoints in a
/// loop, and ignores their error. Each such call gives way to others, so it does not hold its worker; it holds up its
/// parent, and the end of its runtime, whose drop names it on stderr after 10 s.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
/// rt.block_on(|| {
///     let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
///     let stopped = stop.clone();
///     let deaf = cygnet::task().name("deaf").spawn(move || {
///         while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
///             let _ = cygnet::yield_now();
///         }
///     });
///     cygnet::yield_to(&deaf).unwrap();
///     deaf.cancel("enough");
///     let unresponsive = || cygnet::Handle::current().metrics().unresponsive;
///     while unresponsive().is_empty() {
///         cygnet::yield_now().unwrap();
///     }
///     assert_eq!(unresponsive()[0].name.as_deref(), Some("deaf"));
///     stop.store(true, std::sync::atomic::Ordering::Relaxed);
///     deaf.join().unwrap();
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnresponsiveTask {
    /// Its identity.
    pub id: TaskId,
    /// The name it was given, if any.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
    /// How often it has been told.
    pub refusals: u32,
}

impl UnresponsiveTask {
    fn all(shared: &Shared) -> Vec<UnresponsiveTask> {
        let mut found = Vec::new();
        shared.unresponsive.for_each(|task| {
            found.push(UnresponsiveTask {
                id: TaskId(task.id()),
                name: task.name().map(str::to_owned),
                spawned_at: task.spawned_at,
                refusals: task.extras().map_or(0, |extras| extras.refusals.load(Ordering::Relaxed)),
            });
        });
        found
    }
}

impl fmt::Display for UnresponsiveTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("task ")?;
        if let Some(name) = &self.name {
            write!(f, "`{name}` ")?;
        }
        let UnresponsiveTask { id, spawned_at, refusals, .. } = self;
        write!(f, "(id {id}, spawned at {spawned_at}), told {refusals} times")
    }
}

impl Metrics {
    pub(crate) fn read(shared: &Shared) -> Metrics {
        let stacks = shared.stacks.counters();
        Metrics {
            workers: shared.remotes().map(WorkerMetrics::read).collect(),
            injected: shared.injected.load(Ordering::Relaxed),
            stacks: stacks.live,
            stacks_high_water: stacks.high_water,
            blocking: BlockingMetrics::read(shared),
            unresponsive: UnresponsiveTask::all(shared),
        }
    }

    /// Tasks started by all workers. A sum of [`Metrics::workers`].
    pub fn tasks(&self) -> u64 {
        self.workers.iter().map(|w| w.tasks).sum()
    }

    /// Timers that are set on all workers. Likewise.
    pub fn timers(&self) -> u64 {
        self.workers.iter().map(|w| w.timers).sum()
    }

    /// Steals of all workers. Likewise.
    pub fn steals(&self) -> u64 {
        self.workers.iter().map(|w| w.steals).sum()
    }

    /// A sentence for those who wait for a runtime's end.
    pub(crate) fn unfinished(&self) -> String {
        let started: u64 = self.workers.iter().map(|w| w.coroutines).sum();
        let mut sentence = format!("{started} coroutines have been started and have not ended");
        let BlockingMetrics { queued, threads, idle, .. } = self.blocking;
        if threads > idle || queued > 0 {
            let running = threads - idle;
            let _ = write!(sentence, "; of calls that block {running} run and {queued} are queued");
        }
        for (n, task) in self.unresponsive.iter().enumerate() {
            let before = if n == 0 { ". These go on although they are cancelled: " } else { "; " };
            let _ = write!(sentence, "{before}{task}");
        }
        sentence
    }
}
