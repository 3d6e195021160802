//! A worker: what one thread of the pool owns, and the part of it that others may touch.
//!
//! The owner's part consists of plain cells; it is reached only through [`Worker::current`], on the
//! worker's own thread. The rest is [`Remote`].

pub(crate) mod coroutine;
pub(crate) mod release;
pub(crate) mod remote;
pub(crate) mod shared;
pub(crate) mod thread;

use crate::asm;
use crate::retire::pool::StackPool;
use crate::retire::queue::RetireQueue;
use crate::retire::record_pool::RecordPool;
use crate::retire::stack::StackClass;
use crate::scheduler::balance::census::Census;
use crate::scheduler::balance::habits::Accounts;
use crate::scheduler::balance::standing_back::Spread;
use crate::scheduler::life::scope_frame::task_of;
use crate::scheduler::queue::forks::Forks;
use crate::scheduler::queue::front::Front;
use crate::scheduler::queue::inbox::Inbox;
use crate::scheduler::queue::public::Deque;
use crate::scheduler::queue::run_queue::RunQueue;
use crate::scheduler::run_loop::check_ins::CheckIns;
use crate::scheduler::steal::idle::Sleeper;
use crate::scheduler::steal::loot::Loot;
use crate::scheduler::timers::timer::Timers;
use crate::scheduler::wait::restrictions::Restrictions;
use crate::scheduler::worker::coroutine::Coroutine;
use crate::scheduler::worker::remote::{Counters, Remote};
use crate::scheduler::worker::shared::Shared;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{self, Numbers};
use crate::task::record::Record;
use crate::task::words::tree::{Node, WorkerNumber};
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// A coroutine of a worker.
pub(crate) type Strand = Coroutine<Worker>;

/// Warm stacks that a sleeping worker keeps.
const WARM_STACKS: usize = 64;
/// Scheduling decisions between two that serve those first who come last.
const PERIOD: u32 = 60;
/// Ids are fetched from the global counter in blocks.
const ID_BLOCK: u64 = 1024;

/// Who is served when a task gives way unasked: the two kinds take turns, so that neither keeps the other
/// waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The ready ones.
    Ready,
    /// One of the fresh ones that come last, at the next switch.
    Neglected,
    /// The ready ones again, after a neglected one.
    ReadyAgain,
}

/// See the module's documentation.
///
/// First comes what each fork uses of its owner's part of the row, at offsets that fit into a byte of an
/// instruction: with others a fork takes a tenth longer. (The boundary and the node lie further up.)
#[repr(C)]
pub(crate) struct Worker {
    pub(crate) remote: Remote,
    /// Set by the worker's thread, which keeps it alive.
    pub(crate) shared: Cell<*const Shared>,
    /// The coroutine that runs.
    pub(crate) current: Cell<*const Strand>,
    /// The innermost node of the task that runs; null between tasks.
    pub(crate) node: Cell<*const Node>,
    pub(crate) main: Cell<*const Strand>,
    pub(crate) ready: RunQueue,
    /// Fresh tasks that nobody may steal. Not linked through the records, so that the entry of a task
    /// that is claimed in place can stay, stale.
    pub(crate) local: RefCell<VecDeque<NonNull<Record>>>,
    pub(crate) deque: Deque,
    pub(crate) stacks: RefCell<StackPool>,
    /// A coroutine whose loop has nothing to do, suspended and out of the ring.
    pub(crate) spare: Cell<*const Strand>,
    /// The spare one is to end.
    pub(crate) dismissing: Cell<bool>,
    pub(crate) records: RecordPool,
    /// All coroutines but main, a ring without a head.
    pub(crate) strands: Cell<*const Strand>,
    /// A task that needs a stack of its own and waits for the loop to leave its.
    pub(crate) dedicated: Cell<*const Record>,
    pub(crate) class: StackClass,
    /// The coroutine that has just ended, for the sanitizer.
    #[cfg(cygnet_tsan)]
    pub(crate) departed: Cell<*const Strand>,
    /// How many sections that forbid suspension the running task is in.
    pub(crate) forbidden: Cell<u32>,
    /// No stack could be had; cleared when one came free.
    pub(crate) exhausted: Cell<bool>,
    /// A guest that has ended; main sees to its host.
    pub(crate) vacated: Cell<*const Strand>,
    /// Decisions until those who come last are owed a turn.
    tick: Cell<u32>,
    pub(crate) spread: Spread,
    pub(crate) accounts: Accounts,
    /// Others have invited it to take what they offer.
    pub(crate) invited: Cell<bool>,
    /// It has done so at the last invitation: a ready task comes before the next.
    pub(crate) took_offered: Cell<bool>,
    /// For how long it has had nothing to run.
    pub(crate) idle_time: Cell<Duration>,
    /// The request that the row of forks shows is its own.
    pub(crate) offers_on: Cell<bool>,
    /// As a searcher that left it has told nobody of one task in the injector or its own deque, which it
    /// takes next.
    pub(crate) takes_next: Cell<bool>,
    /// It has handed tasks over, and has not had to run them itself.
    pub(crate) shares: Cell<bool>,
    /// It joins its children in the order in which it has spawned them, so it hands over the
    /// newest.
    pub(crate) joins_oldest: Cell<bool>,
    /// From the first index of its front to the second one lie tasks that are spread (crowd.rs), and
    /// that it joins in that order too. It begins the oldest of them first, after those that have
    /// been pushed since: so neighbours stay together, which often have to do with each other.
    pub(crate) spread_at: Cell<(usize, usize)>,
    /// The first of the ready tasks comes before all others: it was stolen just now.
    pub(crate) has_next: Cell<bool>,
    /// What it has stolen last, if it has not rested since.
    pub(crate) loot: Cell<Option<Loot>>,
    pub(crate) restrictions: Restrictions,
    /// When it looked at the clock last, and when it is up at the latest, in ticks.
    pub(crate) looked: Cell<u64>,
    pub(crate) up_at: Cell<u64>,
    /// It watches the timers of others, or has been taken for one that soon looks at them.
    pub(crate) watches: Cell<bool>,
    /// Whose turn it is among those who come last.
    pub(crate) turn: Cell<u32>,
    /// Whose turn it is when a task that could go on for ever gives way.
    pub(crate) next_turn: Cell<Turn>,
    pub(crate) check_ins: CheckIns,
    /// Times that a task would have given way unasked.
    pub(crate) offers: Cell<u32>,
    /// The next id, and the end of the block.
    next_id: Cell<u64>,
    ids_end: Cell<u64>,
    random: Cell<u64>,
}

impl Worker {
    pub(crate) fn new(index: usize, class: StackClass) -> Worker {
        static NUMBERS: Numbers = Numbers::from(1);
        let deque = Deque::new();
        Worker {
            remote: Remote {
                front: Front::new(),
                forks: Forks::new(),
                inbox: CachePadded::new(Inbox::new()),
                thief: deque.thief(),
                sleeper: Sleeper::new(),
                timers: Timers::new(),
                live: AtomicU32::new(0),
                counters: CachePadded::new(Counters::default()),
                census: CachePadded::new(Census::new()),
                retired: RetireQueue::new(),
                // After four billion workers numbers come again; a live one by then has not ended.
                number: (NUMBERS.take(1) as u32).max(1),
                index,
            },
            shared: Cell::new(ptr::null()),
            current: Cell::new(ptr::null()),
            node: Cell::new(ptr::null()),
            main: Cell::new(ptr::null()),
            ready: RunQueue::new(),
            local: RefCell::new(VecDeque::new()),
            forbidden: Cell::new(0),
            deque,
            stacks: RefCell::new(StackPool::new(WARM_STACKS)),
            spare: Cell::new(ptr::null()),
            dismissing: Cell::new(false),
            records: RecordPool::default(),
            strands: Cell::new(ptr::null()),
            dedicated: Cell::new(ptr::null()),
            class,
            #[cfg(cygnet_tsan)]
            departed: Cell::new(ptr::null()),
            exhausted: Cell::new(false),
            vacated: Cell::new(ptr::null()),
            tick: Cell::new(PERIOD),
            spread: Spread::new(),
            accounts: Accounts::new(),
            invited: Cell::new(false),
            took_offered: Cell::new(false),
            idle_time: Cell::new(Duration::ZERO),
            offers_on: Cell::new(false),
            takes_next: Cell::new(false),
            shares: Cell::new(false),
            joins_oldest: Cell::new(false),
            spread_at: Cell::new((0, 0)),
            has_next: Cell::new(false),
            loot: Cell::new(None),
            restrictions: Restrictions::default(),
            looked: Cell::new(0),
            up_at: Cell::new(0),
            watches: Cell::new(false),
            turn: Cell::new(0),
            next_turn: Cell::new(Turn::Ready),
            check_ins: CheckIns::new(),
            offers: Cell::new(0),
            next_id: Cell::new(0),
            ids_end: Cell::new(0),
            random: Cell::new(shim::entropy() | 1),
        }
    }

    /// The worker that the calling thread is.
    ///
    /// The reference is good as long as the caller stays on this thread: a task that may change
    /// threads asks anew after each suspension.
    #[inline(always)]
    pub(crate) fn current<'a>() -> Option<&'a Worker> {
        // SAFETY: the word is null or was set by the worker's thread, which clears it before the
        // worker goes.
        unsafe { asm::thread_word().cast::<Worker>().as_ref() }
    }

    /// As `current`, for code that runs on a worker's thread in any case.
    ///
    /// # Safety
    /// That.
    #[inline(always)]
    pub(crate) unsafe fn current_unchecked<'a>() -> &'a Worker {
        // SAFETY: passed on; the rest as in `current`.
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

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.remote.counters
    }

    #[inline]
    pub(crate) fn retired(&self) -> NonNull<RetireQueue> {
        self.remote.retired
    }

    #[inline]
    pub(crate) fn strand(&self) -> &Strand {
        // SAFETY: set whenever a coroutine is switched to, which lives while it runs.
        unsafe { &*self.current.get() }
    }

    #[inline]
    pub(crate) fn main(&self) -> &Strand {
        // SAFETY: the main coroutine lives as long as the worker's thread.
        unsafe { &*self.main.get() }
    }

    /// The task that runs; none on the loop itself.
    #[inline]
    pub(crate) fn task(&self) -> Option<NonNull<Record>> {
        task_of(self.node.get())
    }

    /// Counts a scheduling decision; true if those who come last are owed a turn. It stays true until
    /// they have had it: were it a matter of one moment, two places that count in step could always
    /// leave it to each other.
    #[inline(always)]
    pub(crate) fn tick(&self) -> bool {
        let left = self.tick.get();
        if left > 0 {
            self.tick.set(left - 1);
        }
        left == 0
    }

    /// Whether a turn is owed, without counting a decision.
    pub(crate) fn is_owed(&self) -> bool {
        self.tick.get() == 0
    }

    /// Those who come last get their turn now. Also the time for what is due now and then.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_owed(&self) {
        self.tick.set(PERIOD);
        self.housekeeping();
    }

    #[inline]
    pub(crate) fn next_id(&self) -> u64 {
        let mut next = self.next_id.get();
        if next == self.ids_end.get() {
            next = fetch_ids(ID_BLOCK);
            self.ids_end.set(next + ID_BLOCK);
        }
        self.next_id.set(next + 1);
        next
    }

    /// A number for choices that need no quality (xorshift64*, Vigna 2016).
    pub(crate) fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Enters a coroutine into the worker's ring.
    pub(crate) fn adopt(&self, strand: &Strand) {
        strand.worker.set(ptr::from_ref(self));
        let strand_ptr = ptr::from_ref(strand);
        // SAFETY: coroutines in the ring are alive.
        match unsafe { self.strands.get().as_ref() } {
            None => {
                strand.next.set(strand_ptr);
                strand.previous.set(strand_ptr);
            }
            Some(first) => {
                let last = first.previous.get();
                strand.next.set(first);
                strand.previous.set(last);
                first.previous.set(strand_ptr);
                // SAFETY: coroutines in the ring are alive.
                unsafe { &*last }.next.set(strand_ptr);
            }
        }
        self.strands.set(strand_ptr);
        let live = &self.remote.live;
        live.store(live.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Takes a coroutine out of the ring.
    pub(crate) fn disown(&self, strand: &Strand) {
        let (next, previous) = (strand.next.get(), strand.previous.get());
        if ptr::eq(next, strand) {
            self.strands.set(ptr::null());
        } else {
            // SAFETY: coroutines in the ring are alive.
            unsafe { &*next }.previous.set(previous);
            // SAFETY: as above.
            unsafe { &*previous }.next.set(next);
            if ptr::eq(self.strands.get(), strand) {
                self.strands.set(next);
            }
        }
        let live = &self.remote.live;
        live.store(live.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Calls `f` for each coroutine in the ring, which `f` must not change.
    pub(crate) fn for_each_strand(&self, mut f: impl FnMut(&Strand)) {
        let first = self.strands.get();
        let mut at = first;
        // SAFETY: coroutines in the ring are alive.
        while let Some(strand) = unsafe { at.as_ref() } {
            f(strand);
            at = strand.next.get();
            if at == first {
                break;
            }
        }
    }

    pub(crate) fn live(&self) -> u32 {
        self.remote.live.load(Ordering::Relaxed)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: the worker's thread has ended or never begun: this is the owner now, once.
        unsafe { RetireQueue::close(self.remote.retired, &self.records) };
    }
}

/// Takes `n` ids from the process's counter.
pub(crate) fn fetch_ids(n: u64) -> u64 {
    static NEXT: Numbers = Numbers::from(1);
    NEXT.take(n)
}
