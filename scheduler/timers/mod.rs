//! Timers: they end sleeps, cancel scopes at their deadlines, and wake futures.
//!
//! | file | contents |
//! | --- | --- |
//! | `timer`, `wheel`, `tick` | a timer; the timers of one worker; their clock |
//! | `fire` | setting and firing timers |
//! | `limit`, `deadline` | the time limits of scopes |
//! | `alarm` | the timer of a future |
//! | `rest`, `timekeeper` | how a worker rests; which worker sees to the timers of busy ones |
//!
//! # Where a timer is, and what may touch it
//!
//! A [`Timer`](timer::Timer) lies on the stack of the task that has set it. It is entered in the
//! [`wheel`] of that task's worker, under the wheel's lock. *Firing* a wheel takes out the timers
//! that are due and acts on them under the lock: it grants the wait of a sleeping task, or marks
//! the overdue node and interrupts the wait of its task. Work that must not be done under
//! a lock (queueing woken tasks, walking through the tree, calling wakers) follows after it, and
//! touches no timer. The task that has set a timer takes it out under the same lock before its
//! frame goes ([`Timer::unset`](timer::Timer::unset)); after that nothing touches the timer. The
//! timer of a future lies in the future, and may be set by any thread on any worker: see
//! [`alarm`].
//!
//! The wheel belongs to the worker and not to the runtime, so tasks that sleep and wake at home
//! share no wheel with other workers. But any thread may fire it: its worker may be in a long
//! computation, while the tasks that a timeout is to cancel run elsewhere.
//!
//! # What fires a wheel, and when
//!
//! `next` is a tick before which nothing in the wheel is due. Setting an earlier timer lowers it,
//! and firing brings it up to date. Taking a timer out leaves it as it is, so `next` may be too
//! low. The wheel is fired by:
//!
//! * **Its worker**, as long as the wheel is not empty: when the worker decides what runs next,
//!   and when the running task checks in. It looks at the clock at every eighth of these
//!   occasions, or at each one if they come slowly (`Worker::look_at_clock`). It also looks before
//!   it rests, and rests no longer than to `next`. A number beside the wheel (`clock`) tells the
//!   worker that it has to look. Setting a timer raises it, and only the worker puts it back to
//!   zero, both under the lock: so the worker does not take a wheel for empty that is not.
//! * **A task below a deadline** that asks whether it is cancelled. It looks at the deadlines
//!   above itself ([`fire_if_overdue`]), so a single worker suffices, even if it is busy with that
//!   very task.
//! * **A worker that has nothing to do.** On its way to rest it fires what is overdue in the
//!   wheels of the workers that are awake. One of the resting workers is the **timekeeper**: it
//!   rests no longer than to the lowest `next` of the workers that are awake.
//!
//! # Why no timer is left to a worker that stays busy
//!
//! The promise holds if another worker rests. Three parties take part, each with a fence between a
//! store and a load:
//!
//! 1. A worker that sets a timer, or that gets up and goes on to something else with a timer in
//!    its wheel: it lowers `next`, or says that it is awake; *fences*; reads until when the
//!    timekeeper rests ([`Timekeeper`](timekeeper::Timekeeper)) and which workers sleep, and wakes
//!    one if the timekeeper would get up too late.
//! 2. A worker that lies down: it enters the list of sleepers; *fences* (`Idle::rest`); reads the
//!    `next` of the workers that are awake, and plans anew if one of them is due before
//!    the timekeeper gets up.
//! 3. A timekeeper that goes on to something else: it says so; *fences*; reads the `next` of the
//!    workers that are awake, and wakes another worker if it must.
//!
//! To read the `next` of all workers would cost as many cache lines. A set says which workers may
//! have timers (`Timekeeper::note_timers_of`). A worker enters it when it has a new timer,
//! before the fence of 1. It leaves it when it lies down, under the lock of its wheel, if no
//! timer is set. So a worker outside of the set has no timer that a reader would have to see.
//!
//! Of 1 and 2, one sees the other, and so it is with 1 and 3. As long as a worker searches, no
//! worker is woken: a searcher is relied on like a timekeeper. Foreign code (a hook, a waker) may
//! take its time, so a worker that calls it goes on to something else, and is no searcher any more.
//!
//! # Why no timer that a foreign thread sets is missed
//!
//! A foreign thread may set a timer on a worker that does not notice. The thread lowers `next` and
//! raises `clock`; *fences*; and reads whether that worker sleeps.
//!
//! * **The worker sleeps.** It is woken, and plans anew. A worker that lies down says so;
//!   *fences*; and reads its own `next` too (`Worker::must_plan_anew`). Of this pair one sees the
//!   other.
//! * **The worker is on its way to rest.** By the same pair it sees the timer, or it plans later
//!   still.
//! * **The worker is busy, or gets up to be busy.** The thread then does what a worker does that
//!   sets a timer: it reads until when the timekeeper rests, and wakes a sleeper if that is too
//!   late. The timekeeper must then see that the timer's worker does not rest. A worker that gets
//!   up says so (`rests`); *fences*; and reads `next` and `clock` before it goes on to
//!   anything. If its fence comes first in the total order, then a worker that the thread wakes,
//!   or that lies down after the thread has looked, sees that the timer's worker does not rest.
//!   Otherwise the timer's worker sees the timer, and makes sure that a timekeeper sees to it,
//!   as in the section before.
//!
//! # Workers that rest briefly
//!
//! A worker that looks only for the work of descendants, is blocked, or finds no stack rests for
//! some milliseconds at a time (`Worker::time_to_next`). It counts as awake, and is woken in the
//! same way. A timer that is set in the moment in which it lies down may be late by as much.

mod alarm;
mod deadline;
mod fire;
pub(crate) mod limit;
#[cfg(all(test, loom))]
mod models;
mod rest;
pub(crate) mod tick;
pub(crate) mod timekeeper;
pub(crate) mod timer;
mod wheel;

pub(crate) use alarm::{Alarm, Ended};
pub(crate) use deadline::fire_if_overdue;
