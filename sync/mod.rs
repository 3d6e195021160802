//! Synchronisation primitives and channels for tasks, plain threads and futures.
//!
//! Each primitive can be used from a task (which leaves its worker to others while it waits), from
//! a plain thread (which blocks) and as a future on any executor, in any mix. None belongs to a
//! runtime. Waiters are served in order of arrival unless the type's page says otherwise. Waits do
//! not allocate, except that the first attempt to wait of a task or thread sets up a structure that
//! its later waits reuse: where a cancel finds the task, or the word that the thread blocks on.
//!
//! **Cancellation is total.** A wait that is cancelled, times out, or is dropped as a future leaves
//! the primitive as if the wait had never begun. A cancelled task gets the error on entry even if
//! the primitive is free. If a task is cancelled after it was granted a lock, a permit or a
//! notification, the grant goes to the next waiter. A task that would have to wait while its thread
//! is panicking gets the same error as a cancelled one.
//!
//! **A hand-over takes effect before the new owner runs.** While a scope is open that waits for
//! [descendants only](crate::Wait::DescendantsOnly), its worker runs only tasks of that scope and
//! their children. A lock that is handed over to another task of that worker is therefore held
//! until the scope ends, and a wait for the lock inside the scope never returns.
//!
//! | item | purpose |
//! | --- | --- |
//! | [`Mutex`] | one holder at a time; barging is bounded, and absent with [`fifo`](Mutex::fifo) |
//! | [`RwLock`] | many readers or one writer |
//! | [`Condvar`] | waits for a condition on a value that a mutex guards |
//! | [`Semaphore`] | a limited number of permits |
//! | [`Event`] | a flag to wait for: unset, set or closed |
//! | [`Barrier`] | a meeting point for a fixed number of callers |
//! | [`bounded`], [`unbounded`] | multi-producer, multi-consumer channels |
//! | [`oneshot()`] | a channel for a single value |
//! | [`broadcast()`] | a channel that delivers each value to every receiver |
//! | [`watch()`] | the latest value, and a wait for the next one |
//! | [`OnceCell`], [`Lazy`] | a value initialised once, by the first caller |
//! | [`ring`](crate::ring) | rings with items written and read in place, in batches, by stages |

// The protocols of the locks are in `raw_mutex`, `raw_rwlock` and `raw_semaphore`; the latter two
// are kinds of `counted`. All share `called` and `passing`, and `holder` is the task, thread or
// future that holds a lock.
// Broadcasts and watches share `slot`.
mod barrier;
mod broadcast;
mod called;
mod channel;
mod condvar;
mod counted;
mod errors;
mod event;
mod future;
mod guard;
mod holder;
#[cfg(all(test, loom))]
pub(crate) mod models;
mod mutex;
mod once;
mod oneshot;
mod passing;
mod raw_mutex;
mod raw_rwlock;
mod raw_semaphore;
mod rwlock;
mod semaphore;
mod slot;
mod watch;

pub use barrier::{Barrier, BarrierPassed, BarrierWait};
pub use broadcast::{BroadcastReceiver, BroadcastRecv, BroadcastSender, broadcast};
pub use channel::{
    Receiver, RecvFuture, SendError, SendFuture, Sender, TryRecvError, TrySendError, bounded,
    unbounded,
};
pub use condvar::Condvar;
pub use errors::WaitError;
pub use event::{Event, EventWait};
pub use mutex::{AsyncMutexGuard, Mutex, MutexGuard, MutexLock};
pub use once::{Lazy, OnceCell};
pub use oneshot::{OneshotClosed, OneshotReceiver, OneshotRecv, OneshotSender, oneshot};
pub use rwlock::{
    AsyncRwLockReadGuard, AsyncRwLockWriteGuard, RwLock, RwLockRead, RwLockReadGuard, RwLockWrite,
    RwLockWriteGuard,
};
pub use semaphore::{Permit, Semaphore, SemaphoreAcquire};
pub use watch::{WatchChanged, WatchReceiver, WatchSender, watch};

/// The ends of a channel as a `Stream` and a `Sink`, the traits of the futures crates (feature
/// `futures`). See [`Receiver::into_stream`] and [`Sender::into_sink`].
#[cfg(feature = "futures")]
pub mod streams {
    pub use super::channel::streams::{RecvStream, SendSink, SinkError};
}

use crate::shim::time::{Duration, Instant, now};

/// Returns the instant `time` from now, or `None` if it is out of range.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    now().checked_add(time)
}
