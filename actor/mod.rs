//! Actors: a task that owns a state, with a mailbox in front of it.
//!
//! An answer, and the wait for a message, are [oneshots](crate::sync::oneshot()). The mailbox is no
//! channel, for two reasons. A refused message goes back to its sender as the closure that it was,
//! and a channel of boxed messages could give back only the box. And the sender of a message takes
//! the resting state of a moving actor under the lock under which it sends (see [`moving`]).

mod moving;

use crate::runtime::{Cancelled, Task, TaskId, checkpoint, current_id};
use crate::scheduler::wait::no_suspend::assert_may_wait;
use crate::scheduler::worker::Worker;
use crate::shim::real::{Mutex, MutexGuard};
use crate::sync::{OneshotSender, WaitError, oneshot};
use crate::task::outcome::{drop_all, drop_payload};
use moving::Rests;
use std::collections::VecDeque;
use std::sync::Arc;

/// The address of an actor: a task that owns a state and runs messages on it, one after the other.
///
/// A message is a closure that gets the state. It may wait, like any code of a task; the other
/// messages wait behind it. The mailbox has no bound.
///
/// An actor of [`TaskActor::start`] moves: its messages run in tasks below its own, each on any
/// worker that has nothing else to do, and often on that of the sender. A
/// [`cancel_handle`](crate::cancel_handle()), an [`unparker`](crate::unparker()) or a
/// [`lease`](crate::lease()) that a message takes of its current task then concerns that message
/// alone. An actor of [`TaskActor::new`] stays in the task that runs it.
///
/// The actor **stops** on [`TaskActor::stop`], or when the last address is dropped: it takes no
/// more messages, runs the ones in the mailbox, and its task ends with the state as its result. If
/// its task is **cancelled**, the actor ends after the current message and drops the others. In
/// each case, and when a message panics, a caller that waits for an answer which will not come gets
/// an error.
///
/// An actor that moves also ends with its state, and drops its messages, if the kernel refuses
/// memory for the stack on which the next messages should run. Its [`Task`] does not tell that from
/// a stop. [`Builder::on_panic`](crate::Builder::on_panic) is told that there was no stack.
///
/// ```
/// use cygnet::TaskActor;
///
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// rt.block_on(|| {
///     let (account, owner) = TaskActor::start(100);
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

type Mailbox<S> = Mutex<Post<S>>;

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
    /// Set while an actor that does not move waits for a message. (It does not park, as an unpark
    /// belongs to the waits of messages.)
    waits: Option<OneshotSender<()>>,
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

/// Closes the mailbox and drops the messages in it.
fn close<S>(mailbox: &Mailbox<S>) {
    let mut post = mailbox.lock();
    post.open = false;
    let left = std::mem::take(&mut post.messages);
    post.owner = None;
    drop(post);
    // Dropping a message runs foreign code, and tells a waiting caller. A panic in one drop must
    // not keep the other callers from being told.
    drop_all(left).into_iter().for_each(drop_payload);
}

/// Makes an actor that waits or rests go on, outside the lock.
fn notify<S>(mailbox: &Arc<Mailbox<S>>, mut post: MutexGuard<'_, Post<S>>) {
    let (waits, resting) = (post.waits.take(), post.resting.take());
    let stopped = post.messages.is_empty();
    drop(post);
    if let Some(waits) = waits {
        let _ = waits.send(());
    }
    if let Some(resting) = resting {
        resting.go_on(mailbox, stopped);
    }
}

/// Stops an actor: it takes no more messages.
fn stop<S>(mailbox: &Arc<Mailbox<S>>, mut post: MutexGuard<'_, Post<S>>) {
    post.open = false;
    notify(mailbox, post);
}

impl<S: Send + 'static> TaskActor<S> {
    /// Makes an actor with this state, run by a child of the calling task. Returns the actor's
    /// address and that task, whose result is the state.
    ///
    /// Dropping the [`Task`] cancels the actor. Does not suspend. Costs as much as a
    /// [`promise`](crate::promise()) and a [`lease`](crate::lease()), and some allocations; the
    /// task has no stack. See [`TaskActor`] for an example.
    ///
    /// # Panics
    /// If called outside a task; use [`TaskActor::new`] there.
    #[track_caller]
    pub fn start(state: S) -> (TaskActor<S>, Task<S>) {
        let actor = TaskActor::unowned();
        let task = moving::start(&actor.mailbox, state);
        (actor, task)
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
        let actor = TaskActor::unowned();
        let inlet = Inlet(Arc::clone(&actor.mailbox));
        (actor, ActorBody { inlet, state })
    }

    /// Makes the first address of an actor.
    fn unowned() -> TaskActor<S> {
        let post = Post {
            messages: VecDeque::new(),
            addresses: 1,
            open: true,
            owner: None,
            resting: None,
            waits: None,
        };
        TaskActor { mailbox: Arc::new(Mutex::new(post)) }
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
        let mut post = self.mailbox.lock();
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
        if me.is_some() && self.mailbox.lock().owner == me {
            return Err(CallError::OwnCall);
        }
        let (reply, mut answer) = oneshot();
        let message = move |state: &mut S| {
            if !reply.is_closed() {
                let _ = reply.send(message(state));
            }
        };
        if self.send(message).is_err() {
            return Err(CallError::Ended);
        }
        match answer.recv() {
            Ok(value) => Ok(value),
            Err(WaitError::Closed) => Err(CallError::Ended),
            Err(_) => {
                // An answer that has come by now is not lost.
                answer.close();
                answer.try_recv().map_err(|_| CallError::Cancelled(Cancelled::here()))
            }
        }
    }

    /// Stops the actor: it takes no more messages, and ends when it has run the ones in the
    /// mailbox.
    ///
    /// Can be called anywhere. Does not suspend. Costs a lock acquisition.
    ///
    /// ```
    /// # let rt = cygnet::Runtime::builder().workers(1).build().unwrap();
    /// # rt.block_on(|| {
    /// let (actor, owner) = cygnet::TaskActor::start(1);
    /// actor.send(|n| *n += 1).unwrap();
    /// actor.stop();
    /// assert!(actor.send(|n| *n += 1).is_err());
    /// assert_eq!(owner.join().unwrap(), 2);
    /// # });
    /// ```
    pub fn stop(&self) {
        stop(&self.mailbox, self.mailbox.lock());
    }

    /// Returns whether the actor takes no more messages. Does not suspend. Costs a lock
    /// acquisition.
    pub fn is_stopped(&self) -> bool {
        !self.mailbox.lock().open
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
    pub fn run(mut self) -> S {
        let me = current_id().expect("cygnet: ActorBody::run was called outside a task");
        self.inlet.0.lock().owner = Some(me);
        // If a message panics, the fields are dropped in their order.
        while let Some(message) = self.inlet.next() {
            message(&mut self.state);
        }
        drop(self.inlet);
        self.state
    }
}

impl<S> Inlet<S> {
    /// Waits for the next message. `None` if there will be none.
    fn next(&self) -> Option<Message<S>> {
        // Checked between two messages, so that a message which only computes need not check.
        let mut cancelled = checkpoint().is_err();
        loop {
            let mut post = self.0.lock();
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
            let (waits, mut notified) = oneshot();
            post.waits = Some(waits);
            drop(post);
            cancelled = notified.recv().is_err();
        }
    }
}

impl<S> Drop for Inlet<S> {
    fn drop(&mut self) {
        close(&self.0);
    }
}

impl<S> Clone for TaskActor<S> {
    fn clone(&self) -> TaskActor<S> {
        self.mailbox.lock().addresses += 1;
        TaskActor { mailbox: Arc::clone(&self.mailbox) }
    }
}

impl<S> Drop for TaskActor<S> {
    fn drop(&mut self) {
        let mut post = self.mailbox.lock();
        post.addresses -= 1;
        if post.addresses == 0 {
            stop(&self.mailbox, post);
        }
    }
}

unwind_safe! { impl<S> TaskActor<S> }

debug! { impl<S> TaskActor<S> as this { stopped: this.is_stopped() } }

debug! { impl<S> ActorBody<S> { .. } }

error! { impl<F> ActorEnded(..): "the actor takes no more messages" }

error! {
    impl CallError: |this, f| match this {
        CallError::Ended => f.write_str("the actor has ended without an answer"),
        CallError::Cancelled(cancelled) => cancelled.fmt(f),
        CallError::OwnCall => f.write_str("an actor cannot wait for its own answer"),
    }, source: this.cancelled()
}

impl CallError {
    /// Returns why the calling task was cancelled, if it was. Does not suspend.
    pub fn cancelled(&self) -> Option<&Cancelled> {
        match self {
            CallError::Cancelled(cancelled) => Some(cancelled),
            CallError::Ended | CallError::OwnCall => None,
        }
    }
}

impl From<Cancelled> for CallError {
    fn from(cancelled: Cancelled) -> CallError {
        CallError::Cancelled(cancelled)
    }
}
