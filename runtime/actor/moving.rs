//! Actors that move: the state may be sent to other workers.
//!
//! # Steps
//!
//! Between two messages the state lies in the mailbox: the actor *rests*, and has no stack but that
//! of its owner, which only waits for the end. The sender of a message takes the state out and
//! spawns a *step* with it, a task below the owner, which runs on the first worker that comes to
//! it.
//!
//! The step runs the messages that are there, puts the state back, and ends. If other tasks are
//! ready on its worker, or after a number of messages, it hands the remaining messages to a new
//! step, which may run elsewhere. It does not yield while it has the state: it would have to come
//! back to its worker.
//!
//! # Ownership of the state
//!
//! At any time exactly one of these has the state, and is its only user:
//!
//! * the mailbox, under its lock, if there are no messages and the actor is open;
//! * a step that has been spawned and has not ended;
//! * the owner, at the end.
//!
//! The last of them sends the state back to the owner ([`Rests::end`]). That is one of: a step that
//! finds the actor stopped and no messages; the caller that stops a resting actor; a step that is
//! cancelled, or dropped before it has begun; the owner itself, if it is cancelled while the actor
//! rests. A step in which a message panics sends the panic instead. So the owner's wait ends in
//! each case, once.
//!
//! A message is put into the mailbox under the same lock under which a step looks for the next
//! message and puts the state back. So no message is left in the mailbox of a resting actor.

use super::{ActorBody, Mailbox, Message, Post, end};
use crate::runtime::here;
use crate::runtime::lease::{ScopeLease, lease};
use crate::runtime::local::{self, Nesting};
use crate::runtime::park::{current_id, is_cancelled};
use crate::scheduler::wait::park::await_end_anywhere;
use crate::scheduler::worker::Worker;
use crate::task::outcome::{Payload, drop_payload, quietly};
use crate::task::words::join::JoinWord;
use crate::task::words::wait::WaitKind;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of messages that a step runs at most.
const MESSAGES: usize = 32;

/// The state, and the other things that a step needs.
pub(super) struct Resting<S> {
    state: S,
    /// The lease with which steps are spawned.
    lease: ScopeLease,
    owner: Arc<Owner<S>>,
    /// The place where the actor was spawned.
    at: &'static Location<'static>,
    /// The owner's bindings of task-locals.
    locals: Nesting,
}

/// A [`Resting`], for code that does not know that the state may be sent to another worker.
pub(super) trait Rests<S>: Send {
    /// Goes on with the messages, or ends if the actor has been stopped.
    fn go_on(self: Box<Self>, mailbox: &Arc<Mailbox<S>>, stopped: bool);

    /// Sends the state back to the owner.
    fn end(self: Box<Self>);
}

/// The outcome that the owner waits for.
struct Owner<S> {
    over: JoinWord,
    outcome: Mutex<Option<Result<S, Payload>>>,
}

impl<S> Owner<S> {
    fn outcome(&self) -> MutexGuard<'_, Option<Result<S, Payload>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Send + 'static> Rests<S> for Resting<S> {
    fn go_on(self: Box<Self>, mailbox: &Arc<Mailbox<S>>, stopped: bool) {
        if stopped {
            return self.end();
        }
        let (lease, at, locals) = (self.lease.clone(), self.at, self.locals.clone());
        let step = Step::new(mailbox, self);
        lease.spawn_step(at, locals, move || step.run());
    }

    fn end(self: Box<Self>) {
        let Resting { state, lease, owner, .. } = *self;
        owner.send(lease, Ok(state));
    }
}

impl<S> Owner<S> {
    /// Ends the owner's wait. The lease holds the owner's node open until the outcome is there.
    fn send(&self, lease: ScopeLease, outcome: Result<S, Payload>) {
        *self.outcome() = Some(outcome);
        drop(lease);
        end(&self.over);
    }
}

impl<S: Send + 'static> ActorBody<S> {
    /// Like [`run`](ActorBody::run), but each message may run on another worker.
    pub(super) fn run_anywhere(self, at: &'static Location<'static>) -> S {
        let ActorBody { inlet, state } = self;
        let (_, task) = here("TaskActor::spawn");
        let owner = Arc::new(Owner { over: JoinWord::new(false), outcome: Mutex::new(None) });
        let resting = Box::new(Resting {
            state,
            lease: lease(),
            owner: Arc::clone(&owner),
            at,
            // SAFETY: the task is the running one.
            locals: local::inherit(unsafe { task.as_ref() }),
        });
        Step::new(&inlet.0, resting).rest();
        if await_end_anywhere(&owner.over, WaitKind::Grant).is_err() {
            inlet.0.close();
            let resting = inlet.0.post().resting.take();
            resting.into_iter().for_each(Rests::end);
            let ended = await_end_anywhere(&owner.over, WaitKind::Structured);
            debug_assert!(ended.is_ok(), "a structured wait was cut short");
        }
        // Closed before the state is dropped, as the state's destructor may call the actor.
        drop(inlet);
        let outcome = owner.outcome().take();
        outcome
            .expect("sent before the wait was over")
            .unwrap_or_else(|payload| resume_unwind(payload))
    }
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
                let Resting { state, lease, owner, .. } = *resting;
                if let Some(second) = quietly(|| drop(state)) {
                    drop_payload(second);
                }
                return owner.send(lease, Err(payload));
            }
            // Checked between two messages, so that a message which only computes need not check.
            if is_cancelled() {
                return;
            }
            // The ready tasks run next, and the remaining messages may run elsewhere.
            if Worker::current().is_some_and(|worker| worker.has_ready()) {
                break;
            }
        }
        self.rest();
    }

    fn next(&mut self) -> Option<Message<S>> {
        if self.taken.is_empty() {
            let mut post = self.mailbox.post();
            post.owner = current_id();
            mem::swap(&mut self.taken, &mut post.messages);
        }
        self.taken.pop_front()
    }

    /// Puts the remaining messages back into the mailbox.
    fn put_back(&mut self) -> MutexGuard<'_, Post<S>> {
        let mut post = self.mailbox.post();
        post.owner = None;
        if !self.taken.is_empty() {
            self.taken.append(&mut post.messages);
            mem::swap(&mut self.taken, &mut post.messages);
        }
        post
    }

    fn close(&mut self) {
        drop(self.put_back());
        self.mailbox.close();
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
