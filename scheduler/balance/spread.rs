//! Spreading starts, so that pinning does not cost balance.
//!
//! A started task stays on its worker. Where tasks wait before they compute, the worker that starts
//! a task thereby decides which worker computes later: a worker that starts a thousand in the time
//! that another takes to wake up has them all. So a worker does not start a task on a new fiber if
//! it has [`SLACK`] more unfinished ones than some other worker. It **stands back**: it offers its
//! fresh tasks in public, wakes a worker, and does nothing but look for ready tasks, as long as the
//! other workers make progress. If they make none for [`PATIENCE`] (they compute, or the machine
//! has no processor for them), it tolerates the imbalance, and twice as much the next time. If
//! ready tasks keep it from standing back at all, it starts a fresh task at every second of their
//! turns.
//!
//! Tasks that run to their end without waiting take no new fiber, and are not affected. The numbers
//! of the other workers are read without order: they are advice.

use crate::scheduler::balance::standing_back::{Excess, NoProgress, SLACK};
use crate::scheduler::queue::private_deque::Portion;
use crate::scheduler::queue::public::BATCH;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::spin_loop;
use crate::shim::thread;
use crate::shim::time::{Duration, Instant, now};

/// How long a worker that stands back waits for the others to start a task.
const PATIENCE: Duration = Duration::from_micros(100);
/// The time after which a worker that stands back invites the others again.
const INVITES: Duration = Duration::from_micros(50);
/// If the wait for progress was interrupted for longer than this, it begins anew.
const MOMENT: Duration = Duration::from_millis(1);
/// How long a worker spins before it yields the processor at each turn.
const POLITE: Duration = Duration::from_micros(2);

impl Worker {
    /// Whether a fresh task may be started here on a new fiber. If not, the worker soon comes to
    /// its main fiber, and stands back.
    #[inline]
    pub(crate) fn may_start(&self) -> bool {
        self.live() <= self.balance.standing_back.allowed.get() || self.compare()
    }

    /// Whether this worker should stand back while the others have time to take the tasks it
    /// offers.
    pub(crate) fn is_to_stand_back(&self) -> bool {
        self.balance.standing_back.excess.get().is_some() && !self.is_kept_waiting()
    }

    /// Whether this worker should have stood back for long, and has not come to it.
    pub(crate) fn is_kept_waiting(&self) -> bool {
        match self.balance.standing_back.excess.get() {
            None => false,
            Some(Excess::Fibers) => true,
            Some(Excess::Class(class)) => {
                let since = self.balance.standing_back.since.get();
                since.is_some_and(|since| now() - since >= self.shared().habits.patience(class))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn compare(&self) -> bool {
        let shared = self.shared();
        if shared.workers() == 1 {
            self.balance.standing_back.allowed.set(u32::MAX);
            return true;
        }
        // Local tasks cannot be started elsewhere. Other rules hold where stacks are short.
        if !self.queues.local.borrow().is_empty()
            || self.memory.exhausted.get()
            || shared.pressure.load(Ordering::Relaxed)
            || shared.is_closing()
        {
            return true;
        }
        let level = self.least().saturating_add(SLACK);
        let fair = self.live() <= level;
        if fair {
            self.balance.standing_back.allowed.set(level);
            self.balance.standing_back.step.set(SLACK);
            self.balance.standing_back.interrupted.set(None);
        }
        if !fair {
            self.balance.standing_back.excess.set(Some(Excess::Fibers));
        } else if self.balance.standing_back.excess.get() == Some(Excess::Fibers) {
            self.balance.standing_back.excess.set(None);
        }
        fair
    }

    /// The number of fibers of the other worker that has the fewest.
    fn least(&self) -> u32 {
        self.others().map(|other| other.live.load(Ordering::Relaxed)).min().unwrap_or(u32::MAX)
    }

    /// Stands back, if this worker has found that it should. Called on its main fiber, while not
    /// among the searchers. Returns `false` if it need not stand back.
    pub(crate) fn stand_back(&self) -> bool {
        let Some(excess) = self.balance.standing_back.excess.take() else {
            self.balance.standing_back.since.set(None);
            self.announce_offer(None);
            return false;
        };
        if self.wait_for_others(excess) {
            self.balance.standing_back.since.set(None);
        }
        true
    }

    /// Waits until the others have caught up, or have made no progress for long. Returns `false` if
    /// tasks of this worker are ready before that.
    fn wait_for_others(&self, excess: Excess) -> bool {
        let shared = self.shared();
        let start = now();
        let mut no_progress = self.no_progress(excess, start);
        let mut invited = start;
        loop {
            if self.queues.deque.is_empty() && !self.remote.private.is_empty() {
                self.hand_over(1, Portion { takers: 1, most: BATCH });
                shared.idle.notify(shared, true);
            }
            if self.remote.timers.want_looks() {
                self.look_at_clock();
            }
            let (time, progress) = (now(), self.progress(excess));
            if self.has_ready() {
                self.balance.standing_back.interrupted.set(Some((no_progress, time)));
                return false;
            }
            if shared.is_stopping() {
                return true;
            }
            let offered_elsewhere =
                matches!(excess, Excess::Class(class) if self.is_offered(class));
            if !self.has_fresh() && !offered_elsewhere {
                self.balance.standing_back.interrupted.set(Some((no_progress, time)));
                return true;
            }
            let (even, patience) = match excess {
                Excess::Fibers => (self.live() <= progress.saturating_add(SLACK / 2), PATIENCE),
                Excess::Class(class) => (self.has_room(class, 0), shared.habits.patience(class)),
            };
            if even {
                return true;
            }
            if no_progress.lasts(progress, time) >= patience {
                self.tolerate(excess);
                self.announce_offer(None);
                return true;
            }
            if time - start < POLITE {
                spin_loop();
                continue;
            }
            if let Excess::Class(class) = excess
                && time - invited >= INVITES
                && self.remote.census.offered() == Some(class)
            {
                // If an inbox held something else, there was no room for an invitation.
                self.invite_others(class);
                invited = time;
            }
            thread::yield_now();
        }
    }

    /// A number that grows as other workers take the tasks that this worker leaves to them.
    fn progress(&self, excess: Excess) -> u32 {
        match excess {
            Excess::Fibers => self.least(),
            Excess::Class(class) => self.elsewhere(class),
        }
    }

    /// Continues the last wait for progress if that was a moment ago. Meanwhile another worker that
    /// stands back may have stolen this worker's tasks, and lost them again; or tasks of this
    /// worker may be woken again and again. If each interruption began a new wait, no worker would
    /// ever have stood back for long enough.
    fn no_progress(&self, excess: Excess, time: Instant) -> NoProgress {
        match self.balance.standing_back.interrupted.take() {
            // The interruption itself does not count.
            Some((no_progress, last)) if no_progress.excess == excess && time - last < MOMENT => {
                NoProgress { since: time - (last - no_progress.since), ..no_progress }
            }
            _ => NoProgress { excess, most: self.progress(excess), since: time },
        }
    }

    fn tolerate(&self, excess: Excess) {
        match excess {
            Excess::Fibers => {
                let step = self.balance.standing_back.step.get();
                self.balance.standing_back.allowed.set(self.live().saturating_add(step));
                self.balance.standing_back.step.set(step.saturating_mul(2));
            }
            Excess::Class(class) => {
                self.balance.accounts.tolerate(class, self.remote.census.get(class))
            }
        }
    }
}
