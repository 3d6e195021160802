//! Actors: a task that owns a state, with a mailbox in front of it.

mod moving;

use crate::runtime::errors::Cancelled;
use crate::runtime::park::{checkpoint, current_id};
use crate::runtime::spawn::spawn;
use crate::runtime::task::{Task, TaskId};
use crate::scheduler::life::complete::wake;
use crate::scheduler::wait::no_suspend::assert_may_wait;
use crate::scheduler::wait::park::await_end_anywhere;
use crate::scheduler::worker::Worker;
use crate::task::outcome::{drop_payload, quietly};
use crate::task::words::join::{Finished, JoinWord};
use crate::task::words::wait::WaitKind;
use moving::Rests;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The address of an actor: a task that owns a state and runs messages on it, one after the other.
///
/// A message is a closure that gets the state. It may wait, like any code of a task; the other
/// messages wait behind it. The mailbox has no bound.
///
/// An actor of [`TaskActor::spawn`] moves: its messages run in tasks below its own, each on any
/// worker that has nothing else to do, and often on that of the sender. The current task of a
/// message, with its [`cancel_handle`](crate::cancel_handle()) and its
/// [`unparker`](crate::unparker()), then serves that message alone. An actor of [`TaskActor::new`]
/// stays in the task that runs it.
///
/// The actor **stops** on [`TaskActor::stop`], or when the last address is dropped: it takes no
/// more messages, runs the ones in the mailbox, and its task ends with the state as its result. If
/// its task is **cancelled**, the actor ends after the current message and drops the others. In
/// each case, and when a message panics, a caller that waits for an answer which will not come gets
/// an error.
///
/// ```
/// use cygnet::TaskActor;
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     let (account, owner) = TaskActor::spawn(100);
///     account.send(|balance| *balance += 20).unwrap();
///     let left = account.call(|balance| {
///         *balance -= 50;
///         *balance
///     });
///     assert_eq!(left.unwrap(), 70);
///     account.stop();
///     assert_eq!(owner.join().unwrap(), 70);
/// });
/// ```
pub struct TaskActor<S> {
    mailbox: Arc<Mailbox<S>>,
}

type Message<S> = Box<dyn FnOnce(&mut S) + Send>;

struct Mailbox<S> {
    state: Mutex<Post<S>>,
}

struct Post<S> {
    messages: VecDeque<Message<S>>,
    /// The number of addresses.
    addresses: usize,
    /// The mailbox takes messages.
    open: bool,
    /// The task that runs a message or waits for one.
    owner: Option<TaskId>,
    /// The state of a moving actor that has nothing to do.
    resting: Option<Box<dyn Rests<S>>>,
    /// Set while the actor waits for a message: it waits for the end of this word, and the sender
    /// that takes the word out ends it. The wait uses no permit, as permits belong to the waits of
    /// messages.
    waits: Option<Arc<JoinWord>>,
}

/// An actor that no task runs yet. See [`TaskActor::new`].
#[must_use = "nobody runs the actor's messages before run is called"]
pub struct ActorBody<S> {
    // Closed before the state is dropped, as the state's destructor may call the actor.
    inlet: Inlet<S>,
    state: S,
}

/// The receiving end of the mailbox. Closes it when dropped.
struct Inlet<S>(Arc<Mailbox<S>>);

/// The error of sending to an actor that takes no more messages. Holds the message.
pub struct ActorEnded<F>(
    /// The message.
    pub F,
);

/// The reason why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The actor has ended, has panicked in this very message, or is cancelled.
    Ended,
    /// The calling task is cancelled. The message is not run, unless it had already begun.
    Cancelled(Cancelled),
    /// The caller is the actor itself, which cannot wait for its own answer.
    OwnCall,
}

impl<S> Mailbox<S> {
    fn post(&self) -> MutexGuard<'_, Post<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the mailbox and drops the messages in it.
    fn close(&self) {
        let mut post = self.post();
        post.open = false;
        let left = std::mem::take(&mut post.messages);
        post.owner = None;
        drop(post);
        // Dropping a message runs foreign code, and tells a waiting caller. A panic in one drop
        // must not keep the other callers from being told.
        for message in left {
            if let Some(payload) = quietly(|| drop(message)) {
                drop_payload(payload);
            }
        }
    }
}

/// Makes an actor that waits or rests go on, outside the lock.
fn notify<S>(mailbox: &Arc<Mailbox<S>>, mut post: MutexGuard<'_, Post<S>>) {
    let (waits, resting) = (post.waits.take(), post.resting.take());
    let stopped = post.messages.is_empty();
    drop(post);
    if let Some(waits) = waits {
        end(&waits);
    }
    if let Some(resting) = resting {
        resting.go_on(mailbox, stopped);
    }
}

/// Ends the wait for `word`.
fn end(word: &JoinWord) {
    if let Finished::Waiter(waiter) = word.finish() {
        wake(waiter);
    }
}

impl<S: Send + 'static> TaskActor<S> {
    /// Makes an actor with this state, run by a child of the calling task. Returns the actor's
    /// address and that task, whose result is the state.
    ///
    /// Dropping the [`Task`] cancels the actor. Does not suspend. Costs as much as
    /// [`spawn`](crate::spawn()) and two allocations. See [`TaskActor`] for an example.
    ///
    /// # Panics
    /// If called outside a task; use [`TaskActor::new`] there.
    #[track_caller]
    pub fn spawn(state: S) -> (TaskActor<S>, Task<S>) {
        let (actor, body) = TaskActor::new(state);
        let at = Location::caller();
        (actor, spawn(move || body.run_anywhere(at)))
    }
}

impl<S> TaskActor<S> {
    /// Makes an actor with this state, to be run by the task that calls [`ActorBody::run`].
    ///
    /// Can be called anywhere. Does not suspend. Costs an allocation.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// let (log, body) = cygnet::TaskActor::new(Vec::new());
    /// let owner = rt.spawn(|| body.run());
    /// for line in 0..3 {
    ///     log.send(move |lines| lines.push(line)).unwrap(); // from a plain thread
    /// }
    /// drop(log);
    /// assert_eq!(owner.join().unwrap(), [0, 1, 2]);
    /// ```
    pub fn new(state: S) -> (TaskActor<S>, ActorBody<S>) {
        let post = Post {
            messages: VecDeque::new(),
            addresses: 1,
            open: true,
            owner: None,
            resting: None,
            waits: None,
        };
        let mailbox = Arc::new(Mailbox { state: Mutex::new(post) });
        let inlet = Inlet(Arc::clone(&mailbox));
        (TaskActor { mailbox }, ActorBody { inlet, state })
    }

    /// Sends a message, without waiting for it to be run.
    ///
    /// Can be called anywhere. Does not suspend. Costs an allocation and a lock acquisition, and a
    /// wake-up or a spawn if the actor has nothing to do. See [`TaskActor`] for an example.
    ///
    /// # Errors
    /// [`ActorEnded`] with the message, if the actor takes no more messages.
    pub fn send<F>(&self, message: F) -> Result<(), ActorEnded<F>>
    where
        F: FnOnce(&mut S) + Send + 'static,
    {
        let mut post = self.mailbox.post();
        if !post.open {
            drop(post);
            return Err(ActorEnded(message));
        }
        post.messages.push_back(Box::new(message));
        notify(&self.mailbox, post);
        Ok(())
    }

    /// Sends a message and waits for its result.
    ///
    /// Suspends the calling task, or blocks a plain thread. Costs as much as [`TaskActor::send`],
    /// and an allocation. See [`TaskActor`] for an example.
    ///
    /// # Errors
    /// [`CallError::Ended`] if the actor has ended, ends before it has come to the message, or ends
    /// with the message. [`CallError::OwnCall`] if the actor calls itself. [`CallError::Cancelled`]
    /// if the calling task is cancelled.
    ///
    /// # Cancellation
    /// If the task is cancelled before the call, the message is not sent. If it is cancelled during
    /// the call, an answer that has already come is returned nevertheless; a message that the actor
    /// has not come to is not run.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), and where a worker's thread may not wait: see
    /// [`Task::join`].
    pub fn call<F, R>(&self, message: F) -> Result<R, CallError>
    where
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        if assert_may_wait().is_err() {
            return Err(CallError::Cancelled(Cancelled::here()));
        }
        if let Some(worker) = Worker::current()
            && let Some(task) = worker.task()
            && worker.is_interrupted()
        {
            worker.give_way(task);
            return Err(CallError::Cancelled(Cancelled::here()));
        }
        let me = current_id();
        if me.is_some() && self.mailbox.post().owner == me {
            return Err(CallError::OwnCall);
        }
        let answer = Arc::new(Answer { given: JoinWord::new(false), value: Mutex::new(None) });
        let reply = Reply(Arc::clone(&answer));
        let message = move |state: &mut S| {
            if !reply.0.given.is_detached() {
                let value = message(state);
                *reply.0.slot() = Some(value);
            }
        };
        if self.send(message).is_err() {
            return Err(CallError::Ended);
        }
        let cut = await_end_anywhere(&answer.given, WaitKind::Grant).is_err();
        // An answer that has come by now is not lost.
        if cut && answer.given.detach() {
            return Err(CallError::Cancelled(Cancelled::here()));
        }
        let value = answer.slot().take();
        value.ok_or(CallError::Ended)
    }

    /// Stops the actor: it takes no more messages, and ends when it has run the ones in the
    /// mailbox.
    ///
    /// Can be called anywhere. Does not suspend. Costs a lock acquisition.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let (actor, owner) = cygnet::TaskActor::spawn(1);
    /// actor.send(|n| *n += 1).unwrap();
    /// actor.stop();
    /// assert!(actor.send(|n| *n += 1).is_err());
    /// assert_eq!(owner.join().unwrap(), 2);
    /// # });
    /// ```
    pub fn stop(&self) {
        let mut post = self.mailbox.post();
        post.open = false;
        notify(&self.mailbox, post);
    }

    /// Returns whether the actor takes no more messages. Does not suspend. Costs a lock
    /// acquisition.
    pub fn is_stopped(&self) -> bool {
        !self.mailbox.post().open
    }
}

impl<S> ActorBody<S> {
    /// Runs the actor's messages until it stops or the calling task is cancelled, and returns the
    /// state.
    ///
    /// Suspends while there are no messages. See [`TaskActor::new`] for an example.
    ///
    /// # Panics
    /// If a message panics. If called outside a task.
    pub fn run(self) -> S {
        let ActorBody { inlet, mut state } = self;
        let me = current_id().expect("cygnet: ActorBody::run was called outside a task");
        inlet.0.post().owner = Some(me);
        while let Some(message) = inlet.next() {
            message(&mut state);
        }
        drop(inlet);
        state
    }
}

impl<S> Inlet<S> {
    /// Waits for the next message. `None` if there will be none.
    fn next(&self) -> Option<Message<S>> {
        // Checked between two messages, so that a message which only computes need not check.
        let mut cancelled = checkpoint().is_err();
        loop {
            let mut post = self.0.post();
            if cancelled {
                post.waits = None;
                return None;
            }
            if let Some(message) = post.messages.pop_front() {
                return Some(message);
            }
            if !post.open {
                return None;
            }
            let waits = Arc::new(JoinWord::new(false));
            post.waits = Some(Arc::clone(&waits));
            drop(post);
            cancelled = await_end_anywhere(&waits, WaitKind::Grant).is_err();
        }
    }
}

impl<S> Drop for Inlet<S> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The answer that a caller waits for.
struct Answer<R> {
    given: JoinWord,
    value: Mutex<Option<R>>,
}

impl<R> Answer<R> {
    fn slot(&self) -> MutexGuard<'_, Option<R>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the caller when it is dropped, with or without an answer.
struct Reply<R>(Arc<Answer<R>>);

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        end(&self.0.given);
    }
}

impl<S> Clone for TaskActor<S> {
    fn clone(&self) -> TaskActor<S> {
        self.mailbox.post().addresses += 1;
        TaskActor { mailbox: Arc::clone(&self.mailbox) }
    }
}

impl<S> Drop for TaskActor<S> {
    fn drop(&mut self) {
        let mut post = self.mailbox.post();
        post.addresses -= 1;
        if post.addresses == 0 {
            post.open = false;
            notify(&self.mailbox, post);
        }
    }
}

impl<S> UnwindSafe for TaskActor<S> {}
impl<S> RefUnwindSafe for TaskActor<S> {}

impl<S> fmt::Debug for TaskActor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskActor").field("stopped", &self.is_stopped()).finish()
    }
}

impl<S> fmt::Debug for ActorBody<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ActorBody { .. }")
    }
}

impl<F> fmt::Debug for ActorEnded<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ActorEnded(..)")
    }
}

impl<F> fmt::Display for ActorEnded<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the actor takes no more messages")
    }
}

impl<F> std::error::Error for ActorEnded<F> {}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Ended => f.write_str("the actor has ended without an answer"),
            CallError::Cancelled(cancelled) => cancelled.fmt(f),
            CallError::OwnCall => f.write_str("an actor cannot wait for its own answer"),
        }
    }
}

impl std::error::Error for CallError {}
