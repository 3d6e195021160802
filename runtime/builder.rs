//! Building a runtime, and its end.

use crate::coroutine;
use crate::retire::overflow::{self, Description, Reporter};
use crate::retire::stack::{DEFAULT_SIZE, StackClass};
use crate::runtime::errors::{BuildError, JoinError, SpawnError};
use crate::runtime::handle::Handle;
use crate::runtime::metrics::Metrics;
use crate::runtime::payload::panic_text;
use crate::runtime::task::{Task, TaskId};
use crate::scheduler::blocking::{Cores, PoolConfig};
use crate::scheduler::life::complete::wake;
use crate::scheduler::worker::shared::{Config, OnPanic, Shared};
use crate::scheduler::worker::thread::{self, ThreadConfig};
use crate::shim::unmodelled::thread::{Builder as ThreadBuilder, JoinHandle};
use crate::shim::{is_simulated, processors};
use crate::task::outcome::Payload;
use crate::task::record::Record;
use std::fmt;
use std::io;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

/// Whose guard an address belongs to. Runs in a signal handler on the faulting thread.
fn describe(address: usize) -> Option<Description> {
    coroutine::describe_overflow(address).or_else(|| thread::describe(address))
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// What [`Builder::on_panic`] is told of a panic that nobody joined.
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
    /// The panic's text; a sentence in brackets if it carried something else.
    pub fn message(&self) -> &str {
        panic_text(self.payload)
    }

    /// What the panic carried, to be downcast.
    pub fn payload(&self) -> &(dyn std::any::Any + Send) {
        &**self.payload
    }

    /// The identity of the task.
    pub fn task(&self) -> TaskId {
        TaskId(self.task.id())
    }

    /// The task's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.task.name()
    }

    /// Where the task was spawned: the caller of `spawn`, `block_on` and the like.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.task.spawned_at
    }
}

impl fmt::Debug for PanicReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicReport")
            .field("task", &self.task().0)
            .field("name", &self.name())
            .field("spawned_at", &format_args!("{}", self.spawned_at()))
            .field("message", &self.message())
            .finish()
    }
}

/// Settings of a runtime to be built. Nothing is checked before [`Builder::build`].
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
    on_start: Option<Hook>,
    on_stop: Option<Hook>,
    on_panic: Option<OnPanic>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.workers)
            .field("stack_size", &self.stack_size)
            .field("max_stacks", &self.max_stacks)
            .field("thread_name", &self.thread_name)
            .field("max_blocking_threads", &self.max_blocking_threads)
            .field("blocking_keep_alive", &self.blocking_keep_alive)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The most workers that a runtime may have.
    pub const MAX_WORKERS: usize = crate::scheduler::MAX_WORKERS;

    /// One worker for each core that the process may use, stacks of 64 KiB, no bound on their
    /// number, up to 256 threads for calls that block, which end after 5 s without one, workers not
    /// pinned, overflows reported, no hooks.
    pub fn new() -> Builder {
        Builder {
            workers: None,
            // The frames of instrumented code are several times as large.
            stack_size: DEFAULT_SIZE * if cfg!(any(cygnet_asan, cygnet_tsan)) { 4 } else { 1 },
            max_stacks: None,
            thread_name: "cygnet".to_owned(),
            max_blocking_threads: 256,
            blocking_keep_alive: Duration::from_secs(5),
            pin_workers: false,
            overflow_report: true,
            guard_report: false,
            on_start: None,
            on_stop: None,
            on_panic: None,
        }
    }

    /// The number of workers, each a thread. 1 to [`Builder::MAX_WORKERS`].
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// Bytes of a task's stack: 16 KiB to 1 GiB, rounded up to a power of two. On x86_64 its guard
    /// of 4 KiB is part of them. Only the pages that a task touches take memory.
    ///
    /// For single tasks see [`TaskBuilder::stack_size`](crate::TaskBuilder::stack_size).
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// The most stacks that may exist at a time, those that workers keep warm included; at least
    /// one for each worker.
    ///
    /// While none is to be had, fresh tasks stay queued, and those that a task waits for are run on
    /// what is left of its stack (at least 12 KiB and a quarter). If that does not help either, and
    /// every coroutine waits for such a task, it ends with
    /// [`JoinError::NoStack`].
    pub fn max_stacks(mut self, stacks: usize) -> Builder {
        self.max_stacks = Some(stacks);
        self
    }

    /// The name of the workers' threads; each gets `-` and its number behind it, and those for calls
    /// that block `-blocking`. (Linux shows 15 bytes.)
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.thread_name = name.into();
        self
    }

    /// The most threads that there may be at a time for [calls that block](crate::blocking()); 1 at
    /// least. They are started when they are needed, so a great number costs nothing by itself.
    ///
    /// A call that finds all of them in others waits for its turn. Calls that wait for each other need
    /// as many threads as there are such calls at a time.
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
    pub fn max_blocking_threads(mut self, threads: usize) -> Builder {
        self.max_blocking_threads = threads;
        self
    }

    /// How long a thread for [calls that block](crate::blocking()) stays when it has none; then it
    /// ends. Of no time: it ends if none is queued. Of `Duration::MAX`: it stays as long as the
    /// runtime.
    pub fn blocking_keep_alive(mut self, time: Duration) -> Builder {
        self.blocking_keep_alive = time;
        self
    }

    /// Pins each worker to a core of its own, as far as there are so many. Needs the feature `pin`,
    /// without which `build` fails if this is set. Threads for [calls that block](crate::blocking())
    /// run where the caller of `build` may.
    pub fn pin_workers(mut self, pin: bool) -> Builder {
        self.pin_workers = pin;
        self
    }

    /// Whether a stack overflow is reported (by a handler for SIGSEGV and SIGBUS) before the
    /// process ends. On by default; for hosts that own these signals it can be turned off.
    ///
    /// The report names the task, the place of its spawn, the size of its stack and the knob. Every other fault goes to the
    /// handler that was there before. With or without it, an overflow meets the guard and never
    /// other memory.
    pub fn overflow_report(mut self, report: bool) -> Builder {
        self.overflow_report = report;
        self
    }

    /// Whether the runtime's [`Swansong`](crate::shutdown::Swansong), and all below it, keep where and when each guard was made, so that the report
    /// of [`Runtime::shutdown`] names the places of the guards that were late. Off by default, as it costs what
    /// [`Swansong::with_guard_report`](crate::shutdown::Swansong::with_guard_report) says for each guard. Tasks started by [`spawn_guarded`](Runtime::spawn_guarded) are named in any case.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).guard_report(true).build().unwrap();
    /// let _guard = rt.swansong().guard();
    /// let report = rt.swansong().guard_report();
    /// assert_eq!(report.entries()[0].location().file(), file!());
    /// ```
    pub fn guard_report(mut self, report: bool) -> Builder {
        self.guard_report = report;
        self
    }

    /// Called on each worker's thread before its first task, outside any task. A panic in it is
    /// caught and goes no further. Not for the threads of [calls that block](crate::blocking()),
    /// which come and go.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Builder {
        self.on_start = Some(Arc::new(hook));
        self
    }

    /// Called on each worker's thread after its last task, outside any task. A panic in it is
    /// caught and goes no further. Not for the threads of [calls that block](crate::blocking()).
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Builder {
        self.on_stop = Some(Arc::new(hook));
        self
    }

    /// Called for each panic that nobody can take any more: the task's handle was detached or
    /// dropped. Panics of tasks in a [`scope`](crate::scope()) go to the scope instead.
    ///
    /// Runs on the worker where the task ended, or where a worker drops the handle of a task that
    /// had ended; a handle dropped on a plain thread drops the panic with it, unreported. The hook
    /// must not suspend; a panic in it is caught. Without a hook there is what std's panic hook has
    /// printed.
    pub fn on_panic(mut self, hook: impl Fn(&PanicReport<'_>) + Send + Sync + 'static) -> Builder {
        self.on_panic = Some(Box::new(move |payload, task| hook(&PanicReport { payload, task })));
        self
    }

    /// Starts the runtime: one thread for each worker. Stacks are not taken before there are tasks.
    ///
    /// # Errors
    /// [`BuildError`] says which setting is out of bounds or what the system refused; what had been
    /// started has ended by then.
    ///
    /// ```
    /// let error = cygnet::Runtime::builder().workers(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "a runtime has 1 to 4096 workers, not 0 (Builder::workers)");
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
        let reporter = if self.overflow_report {
            Some(overflow::install(describe).map_err(BuildError::OverflowReport)?)
        } else {
            None
        };
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
                on_start: self.on_start.clone(),
                on_stop: self.on_stop.clone(),
                overflow_report: self.overflow_report,
            };
            let core = cores.as_ref().map(|cores| cores[index % cores.len()]);
            let started = ThreadBuilder::new().name(format!("{}-{index}", self.thread_name)).spawn(
                move || {
                    // A simulated worker would bind the thread that all run on, beyond its run.
                    if let Some(core) = core.filter(|_| !is_simulated()) {
                        pin(core);
                    }
                    thread::main(&shared, index, &config);
                },
            );
            match started {
                Ok(thread) => runtime.threads.push(thread),
                // The drop of `runtime` ends those that run.
                Err(error) => return Err(BuildError::Thread(error)),
            }
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
    // A refusal leaves the worker where the system puts it.
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
/// Takes no more tasks, drops those that have not started, makes every wait of the others return
/// [`Cancelled`](crate::Cancelled) (structured ones go on), waits for their end without limit, and
/// ends the threads. After ten seconds, and each minute from then on, it says on stderr that it
/// waits. The calling thread is blocked.
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let waiting = rt.spawn(|| cygnet::park());
/// drop(rt);
/// match waiting.join() {
///     Ok(waited) => assert_eq!(waited.unwrap_err().to_string(), "the task is cancelled: the runtime ends"),
///     Err(error) => assert!(matches!(error, cygnet::JoinError::NotStarted(_))),
/// }
/// ```
///
/// One of its own tasks must not drop it, nor a call of [`blocking`](crate::blocking) by one, as it
/// would wait for itself: that panics (while unwinding, prints the sentence instead), and the runtime
/// goes on and is leaked. A runtime that is forgotten goes on too.
pub struct Runtime {
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) reporter: Option<Reporter>,
    /// Nothing is left to be done by a drop.
    pub(super) ended: bool,
}

// Between any two steps that could panic it is in order.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime with the settings of [`Builder::new`]: one worker for each core.
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

    /// Settings to build a runtime with. See [`Builder`] for an example.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A handle to spawn tasks with, for other threads. It does not keep the runtime going. Does not
    /// suspend. One locked instruction. See [`Handle`] for an example.
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// The number of workers. A load.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// assert_eq!(rt.workers(), 2);
    /// ```
    pub fn workers(&self) -> usize {
        self.shared.workers()
    }

    /// What the workers have counted so far. Does not suspend. Takes a lock for the count of stacks, and
    /// an allocation. See [`Metrics`] for an example.
    pub fn metrics(&self) -> Metrics {
        Metrics::read(&self.shared)
    }

    /// Runs `f` as a task and waits for its end. It may borrow from the caller, who waits in any
    /// case: a plain thread blocks, a task (of this or another runtime) is suspended, or runs `f`
    /// in place.
    ///
    /// Suspends (structured). From a plain thread it costs an allocation, a wake of a worker and a
    /// wake back; from a task of the same runtime what [`spawn`](crate::spawn()) and [`Task::join`]
    /// cost.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let words = vec!["a", "b"];
    /// assert_eq!(rt.block_on(|| words.concat()), "ab");
    /// ```
    ///
    /// # Panics
    /// With the panic of `f`; inside [`no_suspend`](crate::no_suspend), if called by a task; if the
    /// runtime is ending (which a task of it can see); with the text of [`NoStack`](crate::NoStack) if
    /// there is no stack for `f`, and never will be.
    #[track_caller]
    pub fn block_on<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.handle_ref().block_on(f)
    }

    /// As [`Runtime::block_on`], with the panic of `f` as a value.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let error = rt.try_block_on(|| -> () { panic!("no luck") }).unwrap_err();
    /// assert_eq!(error.to_string(), "the task panicked: no luck");
    /// ```
    ///
    /// # Errors
    /// [`JoinError::Panicked`], [`JoinError::NotStarted`] if the runtime is ending, or on a worker's thread
    /// between tasks while it is panicking, or [`JoinError::NoStack`] if there is no stack for `f`, and never will be.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), if called by a task.
    #[track_caller]
    pub fn try_block_on<F, T>(&self, f: F) -> Result<T, JoinError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.handle_ref().try_block_on(f)
    }

    /// Spawns a task from outside: a child of the runtime's root. See [`Handle::spawn`] for its
    /// cost. Does not suspend.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let task = rt.spawn(|| 6 * 7);
    /// assert_eq!(task.join().unwrap(), 42); // a plain thread blocks
    /// ```
    ///
    /// # Panics
    /// Never: a runtime that can be named has not ended.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.handle_ref().spawn(f) {
            Ok(task) => task,
            Err(SpawnError(_)) => unreachable!("a runtime ends when it is dropped"),
        }
    }

    fn handle_ref(&self) -> Handle {
        self.handle()
    }
}
