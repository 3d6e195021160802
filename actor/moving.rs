//! Actors that move: the state may be sent to other workers.
//!
//! # Steps
//!
//! Between two messages the state lies in the mailbox: the actor *rests*, and has no stack. Its
//! task is an [external one](crate::scheduler::life::external), which the last step settles with
//! the state. The sender of a message takes the state out of the mailbox and spawns a *step* with
//! it, a task below the actor's, which runs on the first worker that comes to it.
//!
//! The step runs the messages that are there, puts the state back, and ends. If other tasks are
//! ready on its worker, or after a number of messages, it hands the remaining messages to a new
//! step, which may run elsewhere. It does not yield while it has the state: it would have to come
//! back to its worker.
//!
//! A message may give a handle of its task away (a cancel handle, an unparker, a lease), or hang a
//! hook on its task. The task then runs no other message ([`is_as_new`]): a late cancel or unpark
//! does not reach one, and the hook is not told of the cancel of another one.
//! Such a cancel does not end the actor either, as only a cancel of the actor's own task does.
//!
//! # Ownership of the state
//!
//! At any time exactly one of these has the state, and is its only user:
//!
//! * the mailbox, under its lock, if there are no messages and the actor is open;
//! * a step that has been spawned and has not ended;
//! * the actor's task, at the end.
//!
//! The last of them settles the task with the state ([`Rests::end`]). That is one of: a step that
//! finds the actor stopped and no messages; the caller that stops a resting actor; a step that is
//! cancelled, or dropped before it has begun. A step in which a message panics settles the task
//! with the panic instead. A cancel of the task stops the actor by a hook. So the task is settled
//! in each case, once.
//!
//! A message is put into the mailbox under the same lock under which a step looks for the next
//! message and puts the state back. So no message is left in the mailbox of a resting actor.

use super::{Mailbox, Message, Post, close, stop};
use crate::runtime::local::{self, Nesting};
use crate::runtime::promise::external_child;
use crate::runtime::{ScopeLease, Task, current_id, here, is_cancelled};
use crate::scheduler::cancel::hook::Body;
use crate::scheduler::life::external::{OnCancel, Outside, hang};
use crate::scheduler::spans::{Carried, carried};
use crate::scheduler::worker::Worker;
use crate::task::cause::Cause;
use crate::task::outcome::{Failure, Outcome, drop_quietly};
use crate::task::reference::TaskRef;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, MutexGuard};

/// The number of messages that a step runs at most.
const MESSAGES: usize = 32;

/// The state, and the other things that a step needs.
pub(super) struct Resting<S> {
    state: S,
    /// The right to settle the actor's task.
    outside: Outside<S>,
    /// The lease with which steps are spawned.
    lease: ScopeLease,
    /// The place where the actor was spawned.
    at: &'static Location<'static>,
    /// The task-local bindings of the task that has spawned the actor.
    locals: Nesting,
    /// The span in which the actor was spawned.
    span: Option<Carried>,
}

/// A [`Resting`], for code that does not know that the state may be sent to another worker.
pub(super) trait Rests<S>: Send {
    /// Goes on with the messages, or ends if the actor has been stopped.
    fn go_on(self: Box<Self>, mailbox: &Arc<Mailbox<S>>, stopped: bool);

    /// Settles the actor's task with the state.
    fn end(self: Box<Self>);
}

fn settle<S>(outside: &Outside<S>, outcome: Outcome<S>) {
    let settled = outside.settle(outcome);
    debug_assert!(settled.is_ok(), "a cancel does not end the task, and it is settled once");
}

impl<S: Send + 'static> Rests<S> for Resting<S> {
    fn go_on(self: Box<Self>, mailbox: &Arc<Mailbox<S>>, stopped: bool) {
        if stopped {
            return self.end();
        }
        let (lease, at) = (self.lease.clone(), self.at);
        let (locals, span) = (self.locals.clone(), self.span.clone());
        let step = Step::new(mailbox, self);
        lease.spawn_step(at, locals, span, move || step.run());
    }

    fn end(self: Box<Self>) {
        let Resting { state, outside, lease: _lease, locals, span, .. } = *self;
        // First: on a plain thread, the actor's task and its parent may end as soon as the task is
        // settled and the lease is gone. The destructor of a value may panic.
        drop_quietly((locals, span));
        settle(&outside, Ok(state));
    }
}

/// The hook on the task of an actor.
struct Stop<S>(Arc<Mailbox<S>>);

impl<S: Send + 'static> Body for Stop<S> {
    /// Drops no messages: a resting actor has none, and a step drops them when it sees the cancel.
    fn on_cancel(self: Box<Self>, _: Arc<Cause>) {
        stop(&self.0, self.0.lock());
    }
}

/// Starts an actor whose messages may run on any worker. Returns its task.
#[track_caller]
pub(super) fn start<S: Send + 'static>(mailbox: &Arc<Mailbox<S>>, state: S) -> Task<S> {
    let (task, outside) = external_child("TaskActor::start", OnCancel::Tell, None);
    if outside.is_cancelled() {
        // The actor never starts. The mailbox is closed before the state is dropped, as the state's
        // destructor may call the actor.
        close(mailbox);
        return task;
    }
    let (_, spawner) = here("TaskActor::start");
    let resting = Box::new(Resting {
        state,
        lease: ScopeLease::new(outside.shared(), outside.live_node()),
        outside,
        at: Location::caller(),
        locals: local::inherit(&spawner),
        span: carried(),
    });
    Step::new(mailbox, resting).rest();
    hang(task.record(), Box::new(Stop(Arc::clone(mailbox)))).keep();
    task
}

/// Returns whether a step's task may run another message: no other party can cancel or unpark the
/// task, none has done so, and no hook is left on it. Called by the step between two messages.
fn is_as_new(task: TaskRef<'_>) -> bool {
    // Handles and unparkers are references, and a lease is a child. They are looked for first: a
    // cancel or an unpark by one of them comes before its release, and so is seen here.
    task.is_last(1)
        && !task.node.has_children()
        && !task.cold().is_some_and(|cold| cold.children().has_children())
        && !task.node.word().is_marked()
        && !task.wait.has_token()
}

/// A step; see the module's documentation.
struct Step<S: Send + 'static> {
    mailbox: Arc<Mailbox<S>>,
    /// Messages that the step has taken out of the mailbox. It takes all at once: with a lock
    /// acquisition for each message it would contend with the senders.
    taken: VecDeque<Message<S>>,
    /// `None` when the step is over.
    resting: Option<Box<Resting<S>>>,
}

impl<S: Send + 'static> Step<S> {
    fn new(mailbox: &Arc<Mailbox<S>>, resting: Box<Resting<S>>) -> Step<S> {
        let mailbox = Arc::clone(mailbox);
        Step { mailbox, taken: VecDeque::new(), resting: Some(resting) }
    }

    fn run(mut self) {
        for _ in 0..MESSAGES {
            let Some(message) = self.next() else { return self.rest() };
            let resting = self.resting.as_mut().expect("the step is not over");
            let state = &mut resting.state;
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| message(state))) {
                self.close();
                let resting = self.resting.take().expect("the step is not over");
                let Resting { state, outside, lease: _lease, .. } = *resting;
                drop_quietly(state);
                settle(&outside, Err(Failure::from(payload)));
                return;
            }
            // Checked between two messages, so that a message which only computes need not check.
            // A cancel of the step alone was meant for the message that has just ended.
            if is_cancelled() && resting.outside.is_cancelled() {
                return;
            }
            let worker = Worker::current().expect("a step runs on a worker");
            // The ready tasks run next, and the remaining messages may run elsewhere.
            if worker.has_ready() || !worker.task().is_some_and(is_as_new) {
                break;
            }
        }
        self.rest();
    }

    fn next(&mut self) -> Option<Message<S>> {
        if self.taken.is_empty() {
            let mut post = self.mailbox.lock();
            post.owner = current_id();
            mem::swap(&mut self.taken, &mut post.messages);
        }
        self.taken.pop_front()
    }

    /// Puts the remaining messages back into the mailbox.
    fn put_back(&mut self) -> MutexGuard<'_, Post<S>> {
        let mut post = self.mailbox.lock();
        post.owner = None;
        if !self.taken.is_empty() {
            self.taken.append(&mut post.messages);
            mem::swap(&mut self.taken, &mut post.messages);
        }
        post
    }

    fn close(&mut self) {
        drop(self.put_back());
        close(&self.mailbox);
    }

    /// Puts the state into the mailbox, unless there are messages or the actor has been stopped.
    fn rest(mut self) {
        let resting = self.resting.take().expect("the step is not over");
        let mut post = self.put_back();
        if post.messages.is_empty() && post.open {
            post.resting = Some(resting);
            return;
        }
        let stopped = post.messages.is_empty();
        drop(post);
        resting.go_on(&self.mailbox, stopped);
    }
}

/// For a step that is cancelled, or that never begins.
impl<S: Send + 'static> Drop for Step<S> {
    fn drop(&mut self) {
        if let Some(resting) = self.resting.take() {
            self.close();
            resting.end();
        }
    }
}
