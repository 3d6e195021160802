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
//! A worker that looks for the work of descendants only, is blocked, or finds no stack rests for some milliseconds at a time
//! ([`Worker::time_to_next`]), counts among those who are awake, and is woken likewise; in the moment in which it lies down
//! it may miss a timer for as long.

mod alarm;
mod deadline;
mod fire;
pub(crate) mod limit;
#[cfg(all(test, loom))]
mod models;
mod rest;
pub(crate) mod tick;
pub(crate) mod timer;
pub(crate) mod watch;
mod wheel;

pub(crate) use alarm::{Alarm, Ended};
pub(crate) use deadline::fire_if_overdue;
