//! A worker: what one thread of the pool owns, and the part of it that other threads may touch.
//!
//! The owner's part consists of plain cells. It is reached only through [`Worker::current`], on the
//! worker's own thread. The rest is [`Remote`].

pub(crate) mod clockwork;
pub(crate) mod fairness;
pub(crate) mod fiber;
pub(crate) mod fibers;
pub(crate) mod ids;
pub(crate) mod memory;
pub(crate) mod queues;
pub(crate) mod release;
pub(crate) mod remote;
pub(crate) mod shared;
pub(crate) mod switch;
pub(crate) mod thread;

use crate::asm;
use crate::retire::queue::{Custodian, RetireQueue};
use crate::scheduler::balance::census::Census;
use crate::scheduler::balance::state::Balance;
use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::queue::fork_list::ForkList;
use crate::scheduler::queue::inbox::Inbox;
use crate::scheduler::queue::private_deque::PrivateDeque;
use crate::scheduler::steal::idle::Sleeper;
use crate::scheduler::steal::loot::Loot;
use crate::scheduler::steal::neighbours::Place;
use crate::scheduler::timers::timer::Timers;
use crate::scheduler::wait::isolations::Isolations;
use crate::scheduler::worker::clockwork::Clockwork;
use crate::scheduler::worker::fairness::Fairness;
use crate::scheduler::worker::fiber::FiberOf;
use crate::scheduler::worker::fibers::Fibers;
use crate::scheduler::worker::ids::{Ids, Random};
use crate::scheduler::worker::memory::Memory;
use crate::scheduler::worker::queues::Queues;
use crate::scheduler::worker::remote::{Counters, Remote};
use crate::scheduler::worker::shared::{Config, Shared};
use crate::shim::Numbers;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::task::reference::{Ready, TaskRef};
use crate::task::words::tree::{Node, WorkerNumber};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::ptr;

/// A fiber of a worker.
pub(crate) type Fiber = FiberOf<Worker>;

/// See the module's documentation.
///
/// The fields that each fork uses of the owner's part of the fork list come first, at offsets that
/// fit into one byte of an instruction: with larger offsets a fork takes a tenth longer. (The
/// boundary and the node lie further up.)
#[repr(C)]
pub(crate) struct Worker {
    pub(crate) remote: Remote,
    /// Set by the worker's thread, which keeps the target alive.
    pub(crate) shared: Cell<*const Shared>,
    /// The innermost node of the running task; null between tasks.
    pub(crate) node: Cell<*const Node>,
    /// The number of sections that forbid suspension around the running code.
    pub(crate) forbidden: Cell<u32>,
    pub(crate) fibers: Fibers<Worker>,
    pub(crate) queues: Queues,
    pub(crate) fairness: Fairness,
    pub(crate) memory: Memory,
    pub(crate) ids: Ids,
    pub(crate) random: Random,
    pub(crate) balance: Balance,
    pub(crate) clockwork: Clockwork,
    /// The request in the fork list is the worker's own.
    pub(crate) own_request: Cell<bool>,
    /// The last loot, if the worker has not rested since.
    pub(crate) loot: Cell<Option<Loot>>,
    pub(crate) isolations: Isolations,
    /// How many more attempts to lock a mutex look at it first.
    pub(crate) wary: Cell<u8>,
    pub(crate) place: Place,
}

impl Worker {
    pub(crate) fn new(index: usize, config: &Config) -> Worker {
        static NUMBERS: Numbers = Numbers::from(1);
        let queues = Queues::new();
        Worker {
            remote: Remote {
                private: PrivateDeque::new(),
                forks: ForkList::new(),
                inbox: CachePadded::new(Inbox::new()),
                thief: queues.deque.thief(),
                sleeper: Sleeper::new(),
                timers: Timers::new(),
                live: AtomicU32::new(0),
                counters: CachePadded::new(Counters::default()),
                census: CachePadded::new(Census::new()),
                retired: RetireQueue::new(),
                // After four billion workers the numbers repeat. A worker that lives that long is
                // not expected.
                number: (NUMBERS.take(1) as u32).max(1),
                index,
            },
            shared: Cell::new(ptr::null()),
            node: Cell::new(ptr::null()),
            forbidden: Cell::new(0),
            fibers: Fibers::new(),
            queues,
            fairness: Fairness::new(),
            memory: Memory::new(config.stack_class, config.workers),
            ids: Ids::default(),
            random: Random::new(),
            balance: Balance::new(),
            clockwork: Clockwork::default(),
            own_request: Cell::new(false),
            loot: Cell::new(None),
            isolations: Isolations::default(),
            wary: Cell::new(0),
            place: Place::default(),
        }
    }

    /// The worker that the calling thread is.
    ///
    /// The reference is valid while the caller stays on this thread: a task that may migrate asks
    /// again after each suspension.
    #[inline(always)]
    pub(crate) fn current<'a>() -> Option<&'a Worker> {
        // SAFETY: the word is null or was set by the worker's thread, which clears it before the
        // worker goes.
        unsafe { asm::thread_word().cast::<Worker>().as_ref() }
    }

    /// As [`current`](Worker::current), for code that always runs on a worker's thread.
    ///
    /// # Safety
    /// The calling thread is a worker's.
    #[inline(always)]
    pub(crate) unsafe fn current_unchecked<'a>() -> &'a Worker {
        // SAFETY: the calling thread is a worker's by contract, so the word was set by this thread,
        // which clears it before the worker goes.
        unsafe { &*asm::thread_word().cast::<Worker>() }
    }

    #[inline]
    pub(crate) fn number(&self) -> WorkerNumber {
        self.remote.number
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: set at the start of the thread, which holds a count until its end.
        unsafe { &*self.shared.get() }
    }

    /// The remote parts of the other workers, beginning with the next one.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Remote> {
        self.others_from(self.remote.index)
    }

    /// The remote parts of the other workers among `count` neighbours, which are chosen at random.
    pub(crate) fn some_others(&self, count: usize) -> impl Iterator<Item = &Remote> + Clone {
        let shared = self.shared();
        let (workers, me) = (shared.workers(), self.remote.index);
        let start = self.random.next() as usize % workers;
        let some = (start..start + count).map(move |at| at % workers);
        some.filter(move |worker| *worker != me).map(|worker| shared.remote(worker))
    }

    /// The remote parts of other workers: of `count` neighbours in each neighbourhood of this
    /// worker, which are chosen at random.
    pub(crate) fn some_neighbours(&self, count: usize) -> impl Iterator<Item = &Remote> {
        let (shared, me) = (self.shared(), self.remote.index);
        let near = shared.neighbourhoods.near(&self.place);
        let some = near
            .flat_map(move |workers| workers.round_from(self.random.next() as usize).take(count));
        some.filter(move |worker| *worker != me).map(|worker| shared.remote(worker))
    }

    fn others_from(&self, start: usize) -> impl Iterator<Item = &Remote> {
        let (shared, me) = (self.shared(), self.remote.index);
        let round = shared.remotes().cycle().skip(start).take(shared.workers());
        round.filter(move |remote| remote.index != me)
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.remote.counters
    }

    #[inline]
    pub(crate) fn retired(&self) -> Custodian<'_> {
        // SAFETY: this is the worker's own thread, and the queue is closed when the worker goes.
        unsafe { Custodian::of(self.remote.retired) }
    }

    #[inline]
    pub(crate) fn fiber(&self) -> &Fiber {
        // SAFETY: set whenever a fiber is switched to, which lives while it runs.
        unsafe { &*self.fibers.running.get() }
    }

    #[inline]
    pub(crate) fn main(&self) -> &Fiber {
        // SAFETY: the main fiber lives as long as the worker's thread.
        unsafe { &*self.fibers.main.get() }
    }

    /// The running task; `None` on the loop itself. The reference is for code that runs in the
    /// task.
    #[inline]
    pub(crate) fn task(&self) -> Option<TaskRef<'_>> {
        self.innermost_node()?.task()
    }

    /// The node that the running task is in; `None` between tasks. The reference is for code that
    /// runs in the node.
    #[inline(always)]
    pub(crate) fn innermost_node(&self) -> Option<LiveNode<'_>> {
        let node = self.node.get();
        // SAFETY: not null, and so the node of the running task or of a scope on its stack, which
        // does not end before the code that runs in it.
        (!node.is_null()).then(|| unsafe { LiveNode::new(node) })
    }

    /// As [`innermost_node`](Worker::innermost_node), for a caller that runs in a task.
    #[inline(always)]
    pub(crate) fn running_node(&self) -> LiveNode<'_> {
        debug_assert!(!self.node.get().is_null(), "no task runs");
        // SAFETY: not null while a task runs. The node is that of the running task or of a scope on
        // its stack, which does not end before the code that runs in it.
        unsafe { LiveNode::new(self.node.get()) }
    }

    /// The root of the worker's runtime, for a caller that runs in a task.
    pub(crate) fn root_of_task(&self) -> LiveNode<'_> {
        debug_assert!(!self.node.get().is_null(), "no task runs");
        // SAFETY: the root does not end before the running task.
        unsafe { LiveNode::new(&raw const self.shared().root.node) }
    }

    /// The fiber of a task that is ready to go on.
    #[inline(always)]
    pub(crate) fn fiber_of<'a>(task: &Ready) -> &'a Fiber {
        let place = ptr::with_exposed_provenance::<Fiber>(task.place.load(Ordering::Relaxed));
        // SAFETY: a task that has a fiber notes it in `place` before it waits or is queued as
        // ready, and a suspended fiber stays where it is.
        unsafe { &*place }
    }

    /// Gives the tasks that come last their turn. This is also the time for periodic work.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_owed_turn(&self) {
        self.fairness.give_turn();
        self.housekeeping();
    }

    /// Takes a fiber in: it is one of this worker's from now on.
    pub(crate) fn adopt(&self, fiber: &Fiber) {
        fiber.worker.set(ptr::from_ref(self));
        let live = &self.remote.live;
        live.store(live.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Gives up a fiber that ends or moves to another worker.
    pub(crate) fn disown(&self) {
        let live = &self.remote.live;
        live.store(live.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    pub(crate) fn live(&self) -> u32 {
        self.remote.live.load(Ordering::Relaxed)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: the worker's thread has ended or never begun, so the drop is the owner now, and
        // runs once.
        unsafe { RetireQueue::close(self.remote.retired, &self.memory.records) };
    }
}
