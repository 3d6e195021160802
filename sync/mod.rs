//! What tasks, plain threads and futures wait for together.
//!
//! Each of these can be used from a task (which waits beside its coroutine), from a plain thread (which blocks) and as
//! a future on any executor, in any mix, and belongs to no runtime. Who waits is served in the order of coming, unless its page says
//! otherwise. No wait allocates, but for what the first one of a task, or of a thread, leaves for all later ones: where a
//! cancel finds the task, and the word that the thread waits by.
//!
//! **Cancellation is total**: a wait that is cancelled, times out, or is dropped as a future leaves the primitive as if it
//! had never begun. A task that is cancelled is turned away on entry, also from what is free; one that is cancelled
//! while it is being served passes on what it was given.
//!
//! **What is handed over is had before its new owner runs.** Inside of a scope that waits for
//! [descendants only](crate::Wait::DescendantsOnly) a lock that a stranger of the same worker has waited for goes to that
//! one, which does not run before the scope ends: who waits for the lock in there waits for ever.
//!
//! | | |
//! | --- | --- |
//! | [`Mutex`] | one at a time; nobody is passed for long, and with [`fifo`](Mutex::fifo) nobody at all |
//! | [`RwLock`] | many that read, or one that writes |
//! | [`Condvar`] | for something to become so that a mutex guards |
//! | [`Semaphore`] | so many at a time |
//! | [`Event`] | is set or not; many wait for it |
//! | [`Barrier`] | so many wait for each other |
//! | [`bounded`], [`unbounded`] | channels: values that go from many to many |
//! | [`oneshot()`] | one value that goes from one to one |
//! | [`broadcast()`] | values that go from many to each of many |
//! | [`watch()`] | the last value, and the wait for the next one |
//! | [`OnceCell`], [`Lazy`] | made once, by whoever comes first |
//! | [`ring`](crate::ring) | items that are written and read in place, in batches, by stages |

mod barrier;
mod broadcast;
mod channel;
mod condvar;
mod errors;
mod event;
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
mod watch;

pub use barrier::{Barrier, BarrierPassed, BarrierWait};
pub use broadcast::{
    BroadcastReceiver, BroadcastRecv, BroadcastRecvError, BroadcastSender, BroadcastTryRecvError,
    broadcast,
};
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

/// With the feature `futures`: the ends of a channel as a `Stream` and a `Sink`, the traits of the futures crates. See
/// [`Receiver::into_stream`] and [`Sender::into_sink`].
#[cfg(feature = "futures")]
pub mod streams {
    pub use super::channel::streams::{RecvStream, SendSink, SinkError};
}

use crate::shim::time::{Duration, Instant, now};

/// When so much time is over; none if that never comes.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    now().checked_add(time)
}
