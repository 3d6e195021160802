//! The state that the workers of one runtime share.

use crate::retire::memory::StackMemory;
use crate::retire::stack::StackClass;
use crate::scheduler::balance::habits::Habits;
use crate::scheduler::blocking::{BlockingPool, PoolConfig};
use crate::scheduler::cancel::unresponsive::Unresponsive;
use crate::scheduler::life::root::Root;
use crate::scheduler::queue::item::Item;
use crate::scheduler::queue::public::{Injector, steal_until};
use crate::scheduler::stacks::ledger::Ledger;
use crate::scheduler::steal::idle::{Idle, Sleeper, Sleepers};
use crate::scheduler::steal::neighbours::Neighbourhoods;
use crate::scheduler::timers::timekeeper::Timekeeper;
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::claimed;
use crate::scheduler::worker::remote::Remote;
use crate::shim::asymmetric;
use crate::shim::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::shim::processors_at_first;
use crate::shim::{Arc, Mutex, point};
use crate::task::attachment::Attachment;
use crate::task::outcome::Payload;
use crate::task::record::{Phase, Record};
use crate::task::reference::RunRef;
use std::ptr::{self};

/// The settings of a runtime.
pub(crate) struct Config {
    pub(crate) workers: usize,
    pub(crate) stack_class: StackClass,
    pub(crate) max_stacks: Option<usize>,
    pub(crate) on_panic: Option<OnPanic>,
    /// Whether the places of guards are kept, for the shutdown of the runtime.
    pub(crate) guard_report: bool,
}

/// A callback for panics of tasks without a handle: gets the payload and the task's record.
pub(crate) type OnPanic = Box<dyn Fn(&Payload, &Record) + Send + Sync>;

/// A worker in its place. Other threads see only its `remote` part.
pub(crate) struct Seat(Box<Worker>);

// SAFETY: a seat gives out the `remote` part, which is Sync, and a raw pointer for the one thread
// that becomes the worker.
unsafe impl Sync for Seat {}
// SAFETY: nothing in a worker is tied to the thread that built it.
unsafe impl Send for Seat {}

/// See the module's documentation.
pub(crate) struct Shared {
    pub(crate) root: Root,
    pub(crate) injector: Injector,
    pub(crate) idle: Idle,
    /// Which workers are near each other.
    pub(crate) neighbourhoods: Neighbourhoods,
    pub(crate) timekeeper: Timekeeper,
    pub(crate) stacks: StackMemory,
    pub(crate) blocking: BlockingPool,
    pub(crate) config: Config,
    /// Whether each worker has a processor, so that a spinning worker takes no time from the
    /// others.
    pub(crate) has_processors: bool,
    /// Nothing is left to run, and workers leave.
    pub(in crate::scheduler) stopping: AtomicBool,
    /// A worker cannot get a stack (stacks/exhaustion.rs).
    pub(crate) pressure: AtomicBool,
    pub(crate) exhaustion: Ledger,
    pub(crate) unresponsive: Unresponsive,
    /// The habits of the tasks of each spawn place.
    pub(crate) habits: Habits,
    /// The number of workers that offer tasks (balance/crowd.rs).
    pub(crate) offering: AtomicUsize,
    /// Tasks spawned by non-worker threads. Workers count their own.
    pub(crate) injected: AtomicU64,
    /// How often a blocked worker has given tasks away.
    pub(crate) given_away: AtomicU64,
    /// The wheel that the next timer of a future set by a foreign thread goes to.
    pub(crate) next_wheel: AtomicUsize,
    /// Data that the layer above attaches to the root.
    pub(crate) attached: Attachment,
    /// Held by the one blocked worker that may look into the injector.
    pub(crate) injector_turn: Mutex<()>,
    seats: Vec<Seat>,
}

impl Shared {
    /// Returns the worker of this runtime on the calling thread, if there is one.
    pub(crate) fn worker_here(&self) -> Option<&'static Worker> {
        Worker::current().filter(|worker| std::ptr::eq(worker.shared.get(), self))
    }

    pub(crate) fn new(config: Config, blocking: PoolConfig) -> Arc<Shared> {
        asymmetric::prepare();
        let mut shared = Shared {
            root: Root::new(config.workers),
            injector: Injector::new(),
            idle: Idle::new(config.workers),
            neighbourhoods: Neighbourhoods::new(config.workers),
            timekeeper: Timekeeper::new(config.workers),
            stacks: StackMemory::new(config.max_stacks),
            blocking: BlockingPool::new(blocking),
            stopping: AtomicBool::new(false),
            pressure: AtomicBool::new(false),
            exhaustion: Ledger::default(),
            unresponsive: Unresponsive::default(),
            habits: Habits::new(),
            offering: AtomicUsize::new(0),
            injected: AtomicU64::new(0),
            given_away: AtomicU64::new(0),
            next_wheel: AtomicUsize::new(0),
            attached: Attachment::none(),
            injector_turn: Mutex::new(()),
            seats: Vec::new(),
            has_processors: config.workers <= processors_at_first(),
            config,
        };
        let worker = |index| Seat(Box::new(Worker::new(index, &shared.config)));
        shared.seats = (0..shared.config.workers).map(worker).collect();
        shared.remotes().for_each(|remote| remote.forks.anchor());
        let shared = Arc::new(shared);
        // External tasks keep the address, of which `external::queue` makes a counted reference.
        Arc::as_ptr(&shared).expose_provenance();
        shared
    }

    /// One more reference to a runtime.
    ///
    /// # Safety
    /// The pointer is that of an `Arc`, to which a reference exists.
    #[inline]
    pub(crate) unsafe fn kept(shared: *const Shared) -> Arc<Shared> {
        // SAFETY: the caller's contract.
        unsafe {
            Arc::increment_strong_count(shared);
            Arc::from_raw(shared)
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.seats.len()
    }

    pub(crate) fn remote(&self, worker: usize) -> &Remote {
        &self.seats[worker].0.remote
    }

    pub(crate) fn remotes(&self) -> impl Iterator<Item = &Remote> + Clone {
        self.seats.iter().map(|seat| &seat.0.remote)
    }

    /// The whole worker, for the thread that is to become it.
    pub(crate) fn seat(&self, worker: usize) -> *const Worker {
        ptr::from_ref(&*self.seats[worker].0)
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.root.is_closing()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Takes in a fresh task from a non-worker thread.
    pub(crate) fn inject(&self, run: RunRef) {
        run.set_phase(Phase::Ready);
        self.inject_item(Item::fresh(run));
    }

    /// Puts an item where any worker finds it, and wakes one to look.
    pub(crate) fn inject_item(&self, item: Item) {
        point();
        self.injector.push(item);
        self.idle.notify(self, true);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        debug_assert!(
            self.remotes().all(|remote| remote.census.is_empty()),
            "a task has ended and is still counted"
        );
        // No task is left. But an external task that was joined before it lay in the queue has left
        // an entry there, maybe after the last worker's last look.
        let left = steal_until(|| self.injector.steal(), claimed);
        debug_assert!(left.is_none(), "a runtime has ended before one of its tasks");
    }
}

impl Sleepers for Shared {
    fn sleeper(&self, worker: usize) -> &Sleeper {
        &self.remote(worker).sleeper
    }
}
