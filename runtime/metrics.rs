//! Counters of a runtime's workers, threads and stacks.

use crate::runtime::task::TaskId;
use crate::scheduler::blocking::BlockingMetrics;
use crate::scheduler::worker::remote::Remote;
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::Ordering;
use std::fmt::{self, Write as _};
use std::panic::Location;

/// Counters of one worker since its start, and what it has now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Tasks started.
    pub tasks: u64,
    /// Started tasks that their joiner called in place; included in `tasks`.
    pub in_place: u64,
    /// Tasks spawned.
    pub spawned: u64,
    /// Times that the worker took work from another worker.
    pub steals: u64,
    /// Waits that parked a task.
    pub parks: u64,
    /// Switches from one coroutine to another.
    pub switches: u64,
    /// Times that the worker went to sleep.
    pub sleeps: u64,
    /// Attempts to take work from a busy worker by force.
    pub rescues: u64,
    /// Coroutines that are started and unfinished now.
    pub coroutines: u64,
    /// Timers set on this worker now: sleeping tasks, timeouts, and futures that wait for a time.
    pub timers: u64,
    /// Retired task records that other threads have returned and the worker has not yet taken back:
    /// the current length of its retire queue, which is bounded.
    pub retiring: u64,
    /// Retired task records that the worker has taken back from its retire queue.
    pub retired: u64,
    /// Retired task records that found the retire queue full and were freed by the thread that
    /// dropped the last reference.
    pub retire_overflows: u64,
}

impl WorkerMetrics {
    fn read(remote: &Remote) -> WorkerMetrics {
        let counters = &remote.counters;
        // SAFETY: the queue outlives the worker that it belongs to.
        let retire = unsafe { remote.retired.as_ref() }.counters();
        WorkerMetrics {
            tasks: counters.dispatched.get() + counters.in_place.get(),
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

/// Counters of a runtime. While the runtime works, they are read at slightly different moments.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     for _ in 0..10 {
///         cygnet::spawn(|| ()).join().unwrap();
///     }
/// });
/// assert_eq!(rt.metrics().tasks(), 11); // with the root of block_on
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The counters of each worker, by its number.
    pub workers: Vec<WorkerMetrics>,
    /// Tasks spawned from outside: by threads that are not workers, or as children of the root.
    pub injected: u64,
    /// Stacks that exist now, in use or kept warm.
    pub stacks: usize,
    /// The largest number of stacks that existed at a time.
    pub stacks_high_water: usize,
    /// The threads for blocking calls.
    pub blocking: BlockingMetrics,
    /// Unfinished tasks that go on although they have been told many times of their cancellation,
    /// 64 at most.
    pub unresponsive: Vec<UnresponsiveTask>,
}

/// A task that goes on although it has been told of its cancellation a hundred times: it calls
/// waits or checkpoints in a loop and ignores their error. Each of these calls gives way to other
/// tasks, so the task does not hold up its worker. It does hold up its parent and the end of its
/// runtime. Dropping the runtime names the task on stderr after 10 s.
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
    /// The identity of the task.
    pub id: TaskId,
    /// The name of the task, if it has one.
    pub name: Option<String>,
    /// Where the task was spawned.
    pub spawned_at: &'static Location<'static>,
    /// How often the task has been told that it is cancelled.
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
                refusals: task.cold().map_or(0, |cold| cold.refusals.load(Ordering::Relaxed)),
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
            blocking: shared.blocking.metrics(),
            unresponsive: UnresponsiveTask::all(shared),
        }
    }

    /// Returns the tasks started by all workers: a sum over [`Metrics::workers`].
    pub fn tasks(&self) -> u64 {
        self.workers.iter().map(|w| w.tasks).sum()
    }

    /// Returns the timers set on all workers: a sum over [`Metrics::workers`].
    pub fn timers(&self) -> u64 {
        self.workers.iter().map(|w| w.timers).sum()
    }

    /// Returns the steals of all workers: a sum over [`Metrics::workers`].
    pub fn steals(&self) -> u64 {
        self.workers.iter().map(|w| w.steals).sum()
    }

    /// Describes unfinished work, for the report of a runtime's end that takes long.
    pub(crate) fn unfinished(&self) -> String {
        let started: u64 = self.workers.iter().map(|w| w.coroutines).sum();
        let mut sentence = format!("{started} coroutines have been started and have not ended");
        let BlockingMetrics { queued, threads, idle, .. } = self.blocking;
        if threads > idle || queued > 0 {
            let running = threads - idle;
            let _ = write!(sentence, "; {running} blocking calls run and {queued} are queued");
        }
        for (n, task) in self.unresponsive.iter().enumerate() {
            let before = if n == 0 { ". These go on although they are cancelled: " } else { "; " };
            let _ = write!(sentence, "{before}{task}");
        }
        sentence
    }
}
