//! The part of a worker that other threads may touch.

use crate::retire::queue::RetireQueue;
use crate::scheduler::balance::census::Census;
use crate::scheduler::life::fork_frame::Fork;
use crate::scheduler::queue::fork_list::ForkList;
use crate::scheduler::queue::inbox::Inbox;
use crate::scheduler::queue::private_deque::PrivateDeque;
use crate::scheduler::queue::public::Thief;
use crate::scheduler::steal::idle::Sleeper;
use crate::scheduler::timers::timer::Timers;
use crate::shim::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::task::words::tree::WorkerNumber;
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;

/// A counter that one thread writes and any thread reads.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// For the one thread that writes the counter.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A worker's counters.
#[derive(Default)]
pub(crate) struct Counters {
    /// Tasks started by a loop or on a stack of their own.
    pub(crate) dispatched: Counter,
    /// Of these, tasks that have an extra stack for an ancestor that waits. Not a metric: tells a
    /// worker without stacks whether others still start tasks (stacks/exhaustion.rs).
    pub(crate) extra: Counter,
    /// Tasks called on the stack of another.
    pub(crate) in_place: Counter,
    pub(crate) spawned: Counter,
    pub(crate) steals: Counter,
    pub(crate) parks: Counter,
    pub(crate) switches: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) rescues: Counter,
}

/// The part of a worker that other threads may touch.
#[repr(C)] // see `Worker`
pub(crate) struct Remote {
    pub(crate) forks: ForkList<Fork>,
    pub(crate) private: PrivateDeque,
    pub(crate) inbox: CachePadded<Inbox>,
    pub(crate) thief: Thief,
    pub(crate) sleeper: Sleeper,
    pub(crate) timers: Timers,
    /// Started fibers that have not ended.
    pub(crate) live: AtomicU32,
    pub(crate) counters: CachePadded<Counters>,
    pub(crate) census: CachePadded<Census>,
    /// Shared by design; the worker closes it.
    pub(crate) retired: NonNull<RetireQueue>,
    pub(crate) number: WorkerNumber,
    pub(crate) index: usize,
}

impl Remote {
    /// Whether the worker seems to have private work, which other workers get only by a request or
    /// by force.
    pub(crate) fn has_private(&self) -> bool {
        !self.private.is_empty() || !self.forks.is_empty()
    }

    /// About how many tasks others could steal from the worker, up to `most`. A fork counts as much
    /// as that: it has more below it.
    pub(crate) fn stealable(&self, most: usize) -> usize {
        if self.forks.is_empty() { self.thief.len() + self.private.len() } else { most }
    }

    /// Asks the worker to hand work over, or to wake a sleeper, as soon as it has any.
    pub(crate) fn request(&self) {
        self.private.request();
        self.forks.request();
    }
}
