//! The waits for the stop and for the completion.

use super::guard::Guard;
use super::node::Node;
use super::node_ref::NodeRef;
use super::waiting::{END, STOP, Wait};
use crate::scheduler::wait::no_suspend::assert_may_wait;
use crate::scheduler::wait::waiters::WaitMode;
use crate::shim::atomic::Ordering;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A wait that is a holder of its node: the node does not end before it.
struct Holder<const WHICH: bool> {
    wait: Wait<WHICH>,
    over: bool,
}

impl<const WHICH: bool> Holder<WHICH> {
    fn new(node: &NodeRef) -> Holder<WHICH> {
        node.add_holder();
        Holder { wait: Wait::new(node), over: false }
    }

    #[track_caller]
    fn block(self) {
        if !self.over && !self.wait.is_over() {
            // An error means that the thread unwinds between tasks. The wait goes ahead and holds
            // the worker, since this function cannot return early.
            let _ = assert_may_wait();
            self.wait.block(WaitMode::Structured);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.over = self.over || self.wait.is_over() || self.wait.poll(cx).is_ready();
        if self.over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<const WHICH: bool> Drop for Holder<WHICH> {
    fn drop(&mut self) {
        self.wait.cancel();
        Node::release_holder(self.wait.node());
    }
}

macro_rules! holder {
    ($(#[$doc:meta])* $name:ident, $which:expr) => {
        $(#[$doc])*
        pub struct $name(Holder<{ $which }>);

        impl $name {
            pub(super) fn new(node: &NodeRef) -> $name {
                $name(Holder::new(node))
            }

            /// Waits until this future is ready: a task parks, a plain thread blocks. In async
            /// code, await it instead.
            ///
            /// # Cancellation
            /// A cancelled task goes on waiting. To be cut short by a cancel, use
            /// [`wait`](crate::wait()) with this future.
            ///
            /// # Panics
            /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's
            /// thread between tasks. A thread that is unwinding does not panic, and holds the
            /// worker instead.
            #[track_caller]
            pub fn block(self) {
                self.0.block();
            }
        }

        impl Future for $name {
            type Output = ();

            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
                self.0.poll(cx)
            }
        }

        debug! { impl $name as this { stopped: this.0.wait.node().is_stopped(), .. } }
    };
}

holder! {
    /// A future of the end of a shutdown.
    ///
    /// It is ready when the [`Swansong`](super::Swansong) is stopped and neither it nor any of its
    /// descendants has a [`Guard`]. It stays ready even if guards are made later. It does not stop
    /// anything, and keeps the `Swansong` from ending while it exists.
    ShutdownCompletion, END
}

holder! {
    /// A future that is ready as soon as a [`Swansong`](super::Swansong) is stopped, regardless of
    /// guards. It keeps the `Swansong` from ending while it exists.
    #[must_use = "it says nothing unless it is waited for"]
    ShuttingDown, STOP
}

/// An interrupt's connection to its `Swansong`: looks whether it is stopped, and is woken by the
/// stop. It does not keep the `Swansong` from ending, which has the effect of a stop.
pub(crate) struct StopListener {
    wait: Wait<STOP>,
    /// A clone of the waker in the list. A poll with the same waker takes no lock.
    waker: Option<Waker>,
    /// The listener of writes, which wait beside other calls. Made when a write waits first.
    #[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
    of_writes: Option<Box<StopListener>>,
}

impl StopListener {
    pub(super) fn new(node: &NodeRef) -> StopListener {
        StopListener {
            wait: Wait::new(node),
            waker: None,
            #[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
            of_writes: None,
        }
    }

    /// Returns whether the `Swansong` is stopped or has ended. One load.
    #[inline(always)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.wait.node().is_stopped()
    }

    /// Returns ready if the `Swansong` is stopped. Otherwise the stop will call the waker.
    pub(crate) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if self.is_stopped() {
            return Poll::Ready(());
        }
        if known {
            return Poll::Pending;
        }
        self.register(cx)
    }

    /// Polls the stop for a write that has to wait. Another call of the same value may wait, too,
    /// and is woken independently.
    #[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
    #[inline(never)]
    pub(crate) fn poll_stopped_of_writes(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let new = || Box::new(StopListener::new(self.wait.node()));
        self.of_writes.get_or_insert_with(new).poll_stopped(cx)
    }

    #[cold]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Stays `None` if the clone or the poll panics.
        self.waker = None;
        let waker = cx.waker().clone();
        let polled = self.wait.poll(cx);
        if polled.is_pending() {
            self.waker = Some(waker);
        } else {
            // The word may say so before the stopping thread sets this flag. Later looks must see
            // the end, too.
            self.wait.node().stopped.store(true, Ordering::SeqCst);
        }
        polled
    }

    /// Makes a guard of the same `Swansong`. Returns `None` if the `Swansong` has ended.
    #[track_caller]
    pub(crate) fn guard(&self) -> Option<Guard> {
        Guard::try_new(self.wait.node(), Location::caller())
    }

    /// The number of guards in the node's word.
    #[cfg(all(test, loom))]
    pub(super) fn counted(&self) -> u64 {
        self.wait.node().word.look().guards()
    }

    pub(crate) fn is_same(&self, other: &StopListener) -> bool {
        self.wait.node() == other.wait.node()
    }
}
