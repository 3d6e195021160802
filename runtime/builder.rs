//! The builder of runtimes, and the runtime itself.

use crate::coroutine;
use crate::retire::overflow::{self, Description, Reporter};
use crate::retire::stack::{DEFAULT_SIZE, StackClass};
use crate::runtime::errors::{BuildError, JoinError, SpawnError};
use crate::runtime::handle::Handle;
use crate::runtime::metrics::Metrics;
use crate::runtime::task::{Task, TaskId};
use crate::runtime::task_builder::{Guarding, Seal, TaskBuilder, TaskPlace, task};
use crate::scheduler::blocking::{Cores, PoolConfig};
use crate::scheduler::life::complete::wake;
use crate::scheduler::worker::shared::{Config, OnPanic, Shared};
use crate::scheduler::worker::thread::{self, ThreadConfig};
use crate::shim::unmodelled::thread::{Builder as ThreadBuilder, JoinHandle};
use crate::shim::{is_simulated, processors};
use crate::task::outcome::{Payload, panic_text};
use crate::task::record::Record;
use std::io;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Describes the stack that an address in a guard belongs to. Runs in a signal handler on the
/// faulting thread.
fn describe(address: usize) -> Option<Description> {
    coroutine::describe_overflow(address).or_else(|| thread::describe(address))
}

type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// The argument of [`Builder::on_panic`]: a panic that no handle or scope can take any more.
///
/// ```
/// let (said, heard) = std::sync::mpsc::channel();
/// let said = std::sync::Mutex::new(said);
/// let rt = cygnet::Runtime::builder()
///     .workers(1)
///     .on_panic(move |report| said.lock().unwrap().send(report.message().to_owned()).unwrap())
///     .build()
///     .unwrap();
/// rt.block_on(|| cygnet::spawn(|| panic!("lost")).detach());
/// assert_eq!(heard.recv().unwrap(), "lost");
/// ```
pub struct PanicReport<'a> {
    payload: &'a Payload,
    task: &'a Record,
}

impl PanicReport<'_> {
    /// The panic's text, or a placeholder in brackets if its payload is not text.
    pub fn message(&self) -> &str {
        panic_text(self.payload)
    }

    /// The panic's payload, to be downcast.
    pub fn payload(&self) -> &(dyn std::any::Any + Send) {
        &**self.payload
    }

    /// The identity of the task that panicked.
    pub fn task(&self) -> TaskId {
        TaskId(self.task.id())
    }

    /// The name of the task, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.task.name()
    }

    /// Where the task was spawned: the caller of `spawn`, `block_on` or a similar function.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.task.spawned_at
    }
}

debug! {
    impl PanicReport<'_> as this {
        task: this.task().0,
        name: this.name(),
        spawned_at: format_args!("{}", this.spawned_at()),
        message: this.message(),
    }
}

/// The settings of a runtime to be built. They are not checked before [`Builder::build`].
///
/// ```
/// let rt = cygnet::Runtime::builder()
///     .workers(2)
///     .stack_size(128 << 10)
///     .thread_name("compute")
///     .build()
///     .unwrap();
/// assert_eq!(rt.block_on(|| 6 * 7), 42);
/// ```
#[must_use = "nothing is built before build"]
pub struct Builder {
    workers: Option<usize>,
    stack_size: usize,
    max_stacks: Option<usize>,
    thread_name: String,
    max_blocking_threads: usize,
    blocking_keep_alive: Duration,
    pin_workers: bool,
    overflow_report: bool,
    guard_report: bool,
    on_thread_start: Option<Hook>,
    on_thread_stop: Option<Hook>,
    on_panic: Option<OnPanic>,
}

default! { impl Builder }

debug! {
    impl Builder as this {
        workers: this.workers,
        stack_size: this.stack_size,
        max_stacks: this.max_stacks,
        thread_name: this.thread_name,
        max_blocking_threads: this.max_blocking_threads,
        blocking_keep_alive: this.blocking_keep_alive,
        ..
    }
}

impl Builder {
    /// The largest number of workers that a runtime may have.
    pub const MAX_WORKERS: usize = crate::scheduler::MAX_WORKERS;

    /// Creates a builder with the default settings: one worker for each core that the process may
    /// use, stacks of 64 KiB, no limit on their number, at most 256 threads for blocking calls
    /// (each ends after 5 s without a call), workers not pinned, stack overflows reported, no
    /// hooks.
    pub fn new() -> Builder {
        Builder {
            workers: None,
            // Frames of instrumented code are several times as large.
            stack_size: DEFAULT_SIZE * if cfg!(any(cygnet_asan, cygnet_tsan)) { 4 } else { 1 },
            max_stacks: None,
            thread_name: "cygnet".to_owned(),
            max_blocking_threads: 256,
            blocking_keep_alive: Duration::from_secs(5),
            pin_workers: false,
            overflow_report: true,
            guard_report: false,
            on_thread_start: None,
            on_thread_stop: None,
            on_panic: None,
        }
    }
}

setters! {
    impl Builder;

    /// Sets the number of workers, 1 to [`Builder::MAX_WORKERS`]. Each worker is a thread.
    pub fn workers(workers: usize) => Some(workers);

    /// Sets the size of a task's stack in bytes, 16 KiB to 1 GiB, rounded up to a power of two.
    /// Only the pages that a task touches take memory. On x86_64 the guard of 4 KiB is part of the
    /// size.
    ///
    /// [`TaskBuilder::stack_size`](crate::TaskBuilder::stack_size) sets it for a single task.
    pub fn stack_size(bytes: usize) => bytes;

    /// Limits the number of stacks that exist at a time, including the stacks that workers keep
    /// warm. The limit must be at least the number of workers.
    ///
    /// While no stack is free, tasks that have not started stay queued. But a program of waits that
    /// are nested deeper than the limit still ends: while a task waits for the end of others, one
    /// of them may have a stack beyond the limit. So the limit is exceeded by one stack for each
    /// nested wait above a task, and by one in all for a scope whose tasks wait for nothing. All
    /// futures that wait for tasks elsewhere in the tree count as one such task. A wait that is
    /// cancelled, while what it waited for goes on, leaves that stack in use. So does, for a
    /// moment, a wait that has ended.
    pub fn max_stacks(stacks: usize) => Some(stacks);

    /// Sets the name of the workers' threads. A worker's thread has `-` and its number appended,
    /// and a thread for blocking calls has `-blocking`. Linux shows 15 bytes of a name.
    pub fn thread_name(name: impl Into<String>) => name.into();

    /// Limits the number of threads for [blocking calls](crate::blocking()) that exist at a time.
    /// The limit must be at least 1. Threads are started on demand, so a high limit costs nothing
    /// by itself.
    ///
    /// A call that finds all threads busy waits in a queue. Calls that wait for each other need one
    /// thread each at the same time.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).max_blocking_threads(2).build().unwrap();
    /// rt.block_on(|| {
    ///     let calls: Vec<_> = (0..10).map(|n| cygnet::spawn_blocking(move || n)).collect();
    ///     let sum: u32 = calls.into_iter().map(|call| call.join().unwrap()).sum();
    ///     assert_eq!(sum, 45);
    /// });
    /// assert!(rt.metrics().blocking.threads <= 2);
    /// ```
    pub fn max_blocking_threads(threads: usize) => threads;

    /// Sets how long an idle thread for [blocking calls](crate::blocking()) is kept. With a time of
    /// zero, a thread ends as soon as no call is queued. With `Duration::MAX`, it ends with the
    /// runtime.
    pub fn blocking_keep_alive(time: Duration) => time;

    /// Pins each worker to a core; workers share cores only if there are more workers than cores.
    /// Requires the feature `pin`; without it `build` fails if this is set. Threads for [blocking
    /// calls](crate::blocking()) may use every core that the caller of `build` may use.
    pub fn pin_workers(pin: bool) => pin;

    /// Sets whether a stack overflow is reported before the process ends. On by default. The report
    /// needs a handler for SIGSEGV and SIGBUS; a host that owns these signals can turn it off.
    ///
    /// The report names the task, the place of its spawn, the size of its stack and the setting to
    /// change. All other faults go to the handler that was installed before. With or without the
    /// report, an overflow hits the guard and never other memory.
    pub fn overflow_report(report: bool) => report;

    /// Sets whether the runtime's [`Swansong`](crate::shutdown::Swansong) and its descendants
    /// record where and when each guard was made. The report of [`Runtime::shutdown`] then names
    /// the places of the guards that were late. Off by default: each guard costs what
    /// [`Swansong::with_guard_report`](crate::shutdown::Swansong::with_guard_report) says. The
    /// report names tasks with a [`TaskBuilder::guard`] in any case.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).guard_report(true).build().unwrap();
    /// let _guard = rt.swansong().guard();
    /// let report = rt.swansong().guard_report();
    /// assert_eq!(report.entries()[0].location().file(), file!());
    /// ```
    pub fn guard_report(report: bool) => report;

    /// Sets a hook that runs on each worker's thread before its first task, outside any task. It
    /// gets the index of the worker, which [`current_worker`](crate::current_worker) returns there
    /// from then on. A panic in the hook is caught and goes no further. The hook does not run on
    /// the threads of [blocking calls](crate::blocking()), which come and go.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// static STARTED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    ///
    /// let rt = cygnet::Runtime::builder()
    ///     .workers(2)
    ///     .on_thread_start(|index| STARTED.lock().unwrap().push(index))
    ///     .build()
    ///     .unwrap();
    /// drop(rt);
    /// let mut started = STARTED.lock().unwrap();
    /// started.sort();
    /// assert_eq!(*started, [0, 1]);
    /// ```
    pub fn on_thread_start(hook: impl Fn(usize) + Send + Sync + 'static) => Some(Arc::new(hook));

    /// Sets a hook that runs on each worker's thread after its last task, outside any task. It gets
    /// the index of the worker. A panic in the hook is caught and goes no further. The hook does
    /// not run on the threads of [blocking calls](crate::blocking()).
    pub fn on_thread_stop(hook: impl Fn(usize) + Send + Sync + 'static) => Some(Arc::new(hook));

    /// Sets a hook for panics of tasks that can no longer be joined, because their handle was
    /// detached or dropped. Panics of tasks in a [`scope`](crate::scope()) go to the scope instead.
    ///
    /// The hook runs on the worker where the task ended, or, for a task that had ended before, on
    /// the worker that drops its handle. If a plain thread drops the handle of a task that has
    /// ended, the panic is dropped without a report. The hook must not suspend, and a panic in it
    /// is caught. Without a hook, the output of std's panic hook is all that is reported.
    pub fn on_panic(hook: impl Fn(&PanicReport<'_>) + Send + Sync + 'static) =>
        Some(Box::new(move |payload, task| hook(&PanicReport { payload, task })));
}

impl Builder {
    /// Starts the runtime with one thread for each worker. Stacks are allocated when tasks need
    /// them.
    ///
    /// # Errors
    /// [`BuildError`] says which setting is out of bounds or what the system refused. All threads
    /// started by then have ended.
    ///
    /// ```
    /// let error = cygnet::Runtime::builder().workers(0).build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a runtime needs 1 to 4096 workers, not 0 (Builder::workers)"
    /// );
    /// ```
    pub fn build(self) -> Result<Runtime, BuildError> {
        let workers = self.workers.unwrap_or_else(|| processors().min(Self::MAX_WORKERS));
        if !(1..=Self::MAX_WORKERS).contains(&workers) {
            return Err(BuildError::Workers { asked: workers });
        }
        if let Some(asked) = self.max_stacks
            && asked < workers
        {
            return Err(BuildError::MaxStacks { asked, workers });
        }
        if self.max_blocking_threads == 0 {
            return Err(BuildError::MaxBlockingThreads);
        }
        if self.thread_name.contains('\0') {
            let text = "its name contains a NUL byte (Builder::thread_name)";
            return Err(BuildError::Thread(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let stack_class = StackClass::for_size(self.stack_size)?;
        let cores = if self.pin_workers { Some(cores()?) } else { None };
        let reporter = self.overflow_report.then(|| overflow::install(describe)).transpose();
        let reporter = reporter.map_err(BuildError::OverflowReport)?;
        let config = Config {
            workers,
            stack_class,
            max_stacks: self.max_stacks,
            on_panic: self.on_panic,
            guard_report: self.guard_report,
        };
        let blocking = PoolConfig {
            wake,
            max_threads: self.max_blocking_threads,
            keep_alive: self.blocking_keep_alive,
            thread_name: self.thread_name.clone(),
            cores: if self.pin_workers { Cores::of_this_thread() } else { None },
        };
        let shared = Shared::new(config, blocking);
        let mut runtime =
            Runtime { shared, threads: Vec::with_capacity(workers), reporter, ended: false };
        for index in 0..workers {
            let shared = Arc::clone(&runtime.shared);
            let config = ThreadConfig {
                on_start: self.on_thread_start.clone(),
                on_stop: self.on_thread_stop.clone(),
                overflow_report: self.overflow_report,
            };
            let core = cores.as_ref().map(|cores| cores[index % cores.len()]);
            let started = ThreadBuilder::new().name(format!("{}-{index}", self.thread_name)).spawn(
                move || {
                    // Simulated workers share one thread, which would stay pinned after the
                    // simulation.
                    if let Some(core) = core.filter(|_| !is_simulated()) {
                        pin(core);
                    }
                    thread::main(&shared, index, &config);
                },
            );
            // On an error, dropping `runtime` ends the workers that were started.
            runtime.threads.push(started.map_err(BuildError::Thread)?);
        }
        Ok(runtime)
    }
}

#[cfg(feature = "pin")]
fn cores() -> Result<Vec<core_affinity::CoreId>, BuildError> {
    core_affinity::get_core_ids().filter(|cores| !cores.is_empty()).ok_or(BuildError::Pinning)
}

#[cfg(feature = "pin")]
fn pin(core: core_affinity::CoreId) {
    // If the system refuses, the worker runs unpinned.
    let _ = core_affinity::set_for_current(core);
}

#[cfg(not(feature = "pin"))]
fn cores() -> Result<Vec<()>, BuildError> {
    Err(BuildError::Pinning)
}

#[cfg(not(feature = "pin"))]
fn pin((): ()) {}

/// A pool of workers that run tasks.
///
/// # Dropping it
///
/// Dropping a runtime blocks the calling thread until all tasks have ended. The runtime accepts no
/// more tasks and drops the tasks that have not started. Every wait of a started task returns
/// [`Cancelled`](crate::Cancelled), except for structured waits, which go on. There is no time
/// limit: after ten seconds, and each minute from then on, the drop reports on stderr that it is
/// waiting. Then the threads end.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let waiting = rt.spawn(|| cygnet::park());
/// drop(rt);
/// match waiting.join() {
///     Ok(waited) => assert_eq!(
///         waited.unwrap_err().to_string(),
///         "the task is cancelled: the runtime ends"
///     ),
///     Err(error) => assert!(matches!(error, cygnet::JoinError::NotStarted(_))),
/// }
/// ```
///
/// A runtime must not be dropped by one of its own tasks, or by a call of
/// [`blocking`](crate::blocking) made by such a task, because the drop would wait for its own
/// caller. Such a drop panics (while unwinding, it prints the message instead); the runtime goes on
/// and is leaked. A forgotten runtime goes on too.
pub struct Runtime {
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) reporter: Option<Reporter>,
    /// The runtime has ended or was leaked, and a drop has nothing left to do.
    pub(super) ended: bool,
}

// The runtime's state is consistent wherever a panic can leave it.
unwind_safe! { impl Runtime }

debug! { impl Runtime as this { workers: this.workers(), .. } }

impl Runtime {
    /// Creates a runtime with the settings of [`Builder::new`]: one worker for each core.
    ///
    /// ```
    /// let rt = cygnet::Runtime::new()?;
    /// assert_eq!(rt.block_on(|| 6 * 7), 42);
    /// # Ok::<(), cygnet::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> Result<Runtime, BuildError> {
        Builder::new().build()
    }

    /// Returns a builder with the default settings. See [`Builder`] for an example.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns a handle that spawns tasks from other threads. It does not keep the runtime going.
    /// See [`Handle`] for an example. Does not suspend. Costs a locked instruction.
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// The number of workers. Costs a load.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// assert_eq!(rt.workers(), 2);
    /// ```
    pub fn workers(&self) -> usize {
        self.shared.workers()
    }

    /// Returns the workers' counters. See [`Metrics`] for an example. Does not suspend. Costs an
    /// allocation and, for the count of stacks, a lock.
    pub fn metrics(&self) -> Metrics {
        Metrics::read(&self.shared)
    }

    /// Runs `f` as a task and waits for its end. `f` may borrow from the caller, because the wait
    /// is never cut short. A plain thread blocks. A task, of this or another runtime, is suspended
    /// or runs `f` in place.
    ///
    /// Suspends (structured). From a plain thread, costs an allocation, a wake-up of a worker and a
    /// wake-up back; from a task of the same runtime, as much as [`spawn`](crate::spawn()) and
    /// [`Task::join`].
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let words = vec!["a", "b"];
    /// assert_eq!(rt.block_on(|| words.concat()), "ab");
    /// ```
    ///
    /// # Panics
    /// With the panic of `f`; inside [`no_suspend`](crate::no_suspend), if called by a task; if the
    /// runtime is ending (which one of its tasks can observe); with the text of
    /// [`NoStack`](crate::NoStack) if the kernel refuses memory for the stack of `f`.
    #[track_caller]
    pub fn block_on<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.handle().block_on(f)
    }

    /// Runs `f` like [`Runtime::block_on`], and returns a panic of `f` as an error.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let error = rt.try_block_on(|| -> () { panic!("no luck") }).unwrap_err();
    /// assert_eq!(error.to_string(), "the task panicked: no luck");
    /// ```
    ///
    /// # Errors
    /// [`JoinError::Panicked`] if `f` panicked; [`JoinError::NotStarted`] if the runtime is ending,
    /// or if called on a worker's thread between tasks while the thread is panicking;
    /// [`JoinError::NoStack`] if the kernel refuses memory for the stack of `f`.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), if called by a task.
    #[track_caller]
    pub fn try_block_on<F, T>(&self, f: F) -> Result<T, JoinError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.handle().try_block_on(f)
    }

    /// Spawns a task from outside: a child of the runtime's root. Does not suspend. Costs as much
    /// as [`Handle::spawn`].
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let task = rt.spawn(|| 6 * 7);
    /// assert_eq!(task.join().unwrap(), 42); // a plain thread blocks
    /// ```
    ///
    /// # Panics
    /// Never: the runtime cannot end while it is borrowed.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.place(task(), f, Seal)
    }
}

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> TaskPlace<F> for &Runtime {
    type Spawned = Task<T>;

    fn place<G: Guarding>(self, task: TaskBuilder<G>, f: F, seal: Seal) -> Task<T> {
        match self.handle().place(task, f, seal) {
            Ok(task) => task,
            Err(SpawnError(_)) => unreachable!("a runtime ends when it is dropped"),
        }
    }
}
