//! Timers: who sleeps, what is to be cancelled when its time is up, and which futures wait for it.
//!
//! # Where a timer is, and who may touch it
//!
//! A [`Timer`] lies on the stack of the task that has set it, in the [`wheel`] of that task's worker, under the
//! wheel's lock. Whoever *fires* the wheel takes out what is due and acts on it under the lock: it grants the
//! wait of one who sleeps, or marks the node whose time is up and cuts the wait of its task. What must not be
//! done under a lock (to queue who was woken, to walk through the tree, to call a waker) follows after it, and touches no timer.
//! Who has set a timer takes it out before its frame goes, under the same lock ([`Timers::unset`]): after that
//! nobody touches it. That of a future lies in the future, and may be set, from anywhere, on any worker: see [`alarm`].
//!
//! The wheel is the worker's, and not the runtime's, so that no two workers share it where tasks sleep and
//! wake at home. But anybody may fire it: its worker may be in a long computation, while the tasks that a
//! timeout is to cancel run elsewhere.
//!
//! # Who fires it when
//!
//! `next` is a tick before which nothing in the wheel is due. It is lowered by who sets an earlier timer, and
//! brought up to date by who fires; a timer that was taken out leaves it as it is, so it may be too low.
//!
//! * Its worker, when it decides what runs next, and when the running task checks in, as long as the wheel is not
//!   empty: it looks at the clock at each eighth of these, or at each one if they come slowly
//!   ([`Worker::look_at_clock`]); and before it rests, which
//!   it does no longer than to `next`. That it has to look is a number beside the wheel (`clock`), which who sets a timer
//!   raises, and the worker alone puts back to zero, both under the lock: so the worker does not take for empty what is
//!   not.
//! * A task below a deadline that asks whether it is cancelled: it looks at the deadlines above itself
//!   ([`fire_if_overdue`]), so that one worker alone will do, busy with that very task.
//! * A worker that has nothing to do: on its way to rest it fires whatever is overdue in the wheels of those
//!   who are awake. One of those who rest **watches**: it rests no longer than to the lowest `next` of those who
//!   are awake.
//!
//! **No timer is left to a worker that is busy for ever**, if another one rests. A worker that sets a timer, or gets
//! up and goes on to something else with one in its wheel, lowers `next`, or says that it is awake; *fences*;
//! reads until when somebody watches ([`Watch`]), and who sleeps, and wakes one if that is too late. One who lies down
//! is entered among those who sleep; *fences* (`Idle::rest`); reads the `next` of those who are awake, and plans
//! anew if one of them is earlier than what is watched. One who has watched and goes on to something else says so;
//! *fences*; reads them too, and wakes another one. Of each pair one sees the other. As long as somebody searches nobody
//! is woken: a searcher is relied on like one who watches. Foreign code (a hook, a waker) may take its time: who calls it goes
//! on to something else, and is no searcher any more.
//!
//! **Nor is one that a foreign thread sets**, on a worker that knows nothing of it. The thread lowers `next` and raises
//! `clock`; *fences*; and reads whether that worker sleeps.
//!
//! * It does: it is woken, and plans anew. One who lies down says so; *fences*; reads its own `next` too
//!   ([`Worker::must_plan_anew`]). Of this pair one sees the other.
//! * It does not, and is on its way to rest: it sees the timer, as above, or plans later still.
//! * It does not, and is busy, or gets up to be so. The thread goes on as a worker does who sets a timer: it reads until
//!   when somebody watches, and wakes one who sleeps if that is too late. Who watches must see then that the worker does
//!   not rest. One who gets up says so (`rests`); *fences*; and reads `next` and `clock` before it goes on to anything. If
//!   its fence comes first in the one total order, whoever is woken by the thread, or lies down after the thread has
//!   looked, sees that it does not rest; else it sees the timer, and that somebody watches it is its own affair, as above.
//!
//! A worker that looks for the work of descendants only, is held, or finds no stack rests for some milliseconds at a time
//! ([`Worker::time_to_next`]), counts among those who are awake, and is woken likewise; in the moment in which it lies down
//! it may miss a timer for as long.

mod alarm;
mod deadline;
#[cfg(all(test, loom))]
mod models;
mod watch;
mod wheel;

pub(crate) use alarm::{Alarm, Ended};
pub(crate) use deadline::{Limit, fire_if_overdue};
pub(crate) use watch::Watch;

use crate::scheduler::cancel::{Woken, mark_overdue};
use crate::scheduler::life::complete::wake_future;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::shim::time::{Duration, Instant, now, zero};
use crate::shim::{Cell, Mutex, MutexGuard};
use crate::task::branch::Branch;
use crate::task::record::Record;
use crate::task::words::tree::Node;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::PoisonError;
use std::task::Waker;
use wheel::{Entry, Wheel};

/// The length of a tick is 2 to this power, in nanoseconds: 65.5 us.
const TICK: u32 = 16;
/// So many are fired before others may have the lock.
const BATCH: usize = 64;
/// No tick: nothing is due.
const NEVER: u64 = u64::MAX;

/// A time on the clock of the timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tick(u64);

impl Tick {
    /// It never comes.
    pub(crate) const NEVER: Tick = Tick(NEVER);

    fn nanoseconds(time: Instant) -> u128 {
        time.saturating_duration_since(zero()).as_nanos()
    }

    /// The first one that is not before `time`.
    pub(crate) fn not_before(time: Instant) -> Tick {
        Tick(u64::try_from(Tick::nanoseconds(time).div_ceil(1 << TICK)).unwrap_or(NEVER - 1))
    }

    /// That of the present.
    pub(crate) fn now() -> Tick {
        Tick((Tick::nanoseconds(now()) >> TICK) as u64)
    }

    /// Its number, for one who keeps it in an atomic.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn numbered(number: u64) -> Tick {
        Tick(number)
    }

    /// How long it is from an earlier one to this one.
    pub(crate) fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0).saturating_mul(1 << TICK))
    }

    /// How long it is until then.
    pub(crate) fn time_left(self) -> Duration {
        let at = u128::from(self.0) << TICK;
        let left = at.saturating_sub(Tick::nanoseconds(now()));
        Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
    }
}

/// What a timer does.
pub(crate) enum Action {
    /// Grants the wait of a task.
    Wake(NonNull<Record>),
    /// Cancels a scope that has a deadline.
    Cancel(NonNull<Node>),
    /// Says that the time of one wait of a task is over, and cuts it short.
    Expire(NonNull<Record>, NonNull<AtomicBool>),
    /// Wakes a future.
    Call(Cell<Option<Waker>>),
}

/// See the module's documentation.
#[repr(C)]
pub(crate) struct Timer {
    /// First, so that an entry is its timer.
    entry: Entry,
    action: Action,
}

impl Timer {
    pub(crate) fn new(at: Tick, action: Action) -> Timer {
        Timer { entry: Entry::new(at.0), action }
    }
}

/// The timers that were set on one worker.
pub(crate) struct Timers {
    wheel: Mutex<Wheel>,
    /// Nothing is due before this tick.
    next: AtomicU64,
    /// How many decisions until their worker looks at the clock; 0 if it need not. Set to 0 by the worker alone, under the
    /// lock.
    clock: AtomicU32,
    /// Their worker rests, and gets up when something is due.
    rests: AtomicBool,
    /// No future's timer is set any more. Under the lock.
    closed: AtomicBool,
}

// SAFETY: what the wheel points to is used under its lock alone.
unsafe impl Send for Timers {}
// SAFETY: as above.
unsafe impl Sync for Timers {}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            wheel: Mutex::new(Wheel::new()),
            next: AtomicU64::new(NEVER),
            clock: AtomicU32::new(0),
            rests: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    fn wheel(&self) -> MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is due before this.
    #[inline]
    pub(crate) fn next(&self) -> Tick {
        Tick(self.next.load(Ordering::Relaxed))
    }

    /// Whether their worker has to look at the clock.
    #[inline(always)]
    pub(crate) fn want_looks(&self) -> bool {
        self.clock.load(Ordering::Relaxed) != 0
    }

    /// How many are set.
    pub(crate) fn len(&self) -> usize {
        self.wheel().len()
    }

    /// Sets a timer; true if it is due before all others.
    ///
    /// # Safety
    /// It is not set, and what it acts on is there, until `unset` has been called for it.
    unsafe fn set(&self, timer: Pin<&Timer>) -> bool {
        // SAFETY: passed on.
        unsafe { self.enter(&mut self.wheel(), timer) }
    }

    /// # Safety
    /// As for `set`.
    unsafe fn enter(&self, wheel: &mut Wheel, timer: Pin<&Timer>) -> bool {
        let entry = NonNull::from(timer.get_ref()).cast::<Entry>();
        let at = timer.entry.at();
        // SAFETY: passed on.
        unsafe { wheel.insert(entry) };
        let first = at < self.next.load(Ordering::Relaxed);
        if first {
            self.next.store(at, Ordering::Relaxed);
        }
        if !self.want_looks() {
            self.clock.store(1, Ordering::Relaxed);
        }
        first
    }

    /// Takes a timer out; false if it has fired. Nobody touches it any more, or what it acts on on its behalf.
    pub(crate) fn unset(&self, timer: &Timer) -> bool {
        // SAFETY: it was set here, or has fired.
        unsafe { self.wheel().remove(&timer.entry) }
    }

    /// Fires what is due. From anywhere.
    pub(crate) fn fire(&self, now: Tick) {
        if self.next() > now {
            return;
        }
        let woken = Woken::default();
        let mut wakers = Vec::new();
        loop {
            // Those below them are cancelled without the lock.
            let mut overdue: Vec<(NonNull<Branch>, *const Node)> = Vec::new();
            let mut wheel = self.wheel();
            let done = wheel.advance(now.0, BATCH, |entry| {
                // SAFETY: entries are their timers, which are there as long as we have the lock.
                let timer = unsafe { entry.cast::<Timer>().as_ref() };
                match &timer.action {
                    // SAFETY: so is what they act on.
                    Action::Wake(task) => unsafe { woken.grant(*task) },
                    Action::Cancel(node) => {
                        // SAFETY: as above.
                        let node = unsafe { node.as_ref() };
                        overdue.extend(mark_overdue(node, &woken));
                    }
                    // SAFETY: as above.
                    Action::Expire(task, over) => unsafe { woken.expire(*task, over.as_ref()) },
                    Action::Call(waker) => wakers.extend(waker.replace(None)),
                }
            });
            self.next.store(wheel.next().unwrap_or(NEVER), Ordering::Relaxed);
            drop(wheel);
            woken.queue();
            for (branch, origin) in overdue {
                // SAFETY: marked above, and the handle is ours.
                unsafe { woken.walk(branch, origin) };
            }
            if done {
                break;
            }
        }
        if let Some(worker) = Worker::current()
            && (woken.has_hooks() || !wakers.is_empty())
        {
            worker.leave_clock_to_others();
        }
        woken.finish();
        wakers.into_iter().for_each(wake_future);
    }

    /// The worker need not look at the clock any more, if nothing is set; whether it is so.
    fn stop_clock(&self) -> bool {
        let _wheel = self.wheel();
        let empty = self.next() == Tick::NEVER;
        if empty {
            self.clock.store(0, Ordering::Relaxed);
        }
        empty
    }

    /// Brings `next` up to date; what it is then.
    fn settle(&self) -> Tick {
        let wheel = self.wheel();
        let next = wheel.next().unwrap_or(NEVER);
        self.next.store(next, Ordering::Relaxed);
        Tick(next)
    }
}

impl Worker {
    /// Sets a timer on this worker.
    ///
    /// # Safety
    /// As for [`Timers::set`].
    pub(crate) unsafe fn set_timer(&self, timer: Pin<&Timer>) {
        // SAFETY: passed on.
        if unsafe { self.remote.timers.set(timer) } {
            let shared = self.shared();
            shared.watch.ensure(&shared.idle, shared, Tick(timer.entry.at()));
        }
    }

    /// Looks at the clock now and then, and fires what is due on this worker. For one whose wheel may not be
    /// empty.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_clock(&self) {
        /// Between two looks, if decisions come fast.
        const SELDOM: u32 = 8;
        let timers = &self.remote.timers;
        let left = timers.clock.load(Ordering::Relaxed);
        if left > 1 {
            timers.clock.store(left - 1, Ordering::Relaxed);
            return;
        }
        let (now, before) = (Tick::now(), self.looked.get());
        self.looked.set(now.0);
        if timers.next() <= now {
            timers.fire(now);
        }
        // One that is set from now on says so again.
        if timers.next() == Tick::NEVER && timers.stop_clock() {
            return;
        }
        let slow = now.0.saturating_sub(before) > 1;
        timers.clock.store(if slow { 1 } else { SELDOM }, Ordering::Relaxed);
    }
}
