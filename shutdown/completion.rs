//! The waits for the stop and for the completion.

use super::guard::Guard;
use super::node::Node;
use super::node_ref::NodeRef;
use super::waiting::{ForEnd, ForStop};
use crate::scheduler::wait::no_suspend::assert_may_wait;
use crate::scheduler::wait::waiters::{WaitFuture, WaitMode, Waitable, enter_and};
use crate::shim::atomic::Ordering;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A wait that has begun, for an event that happens once.
type Begun<W> = Pin<Box<WaitFuture<W>>>;

/// Polls a wait. The first poll begins it.
fn poll<W: Waitable>(
    begun: &mut Option<Begun<W>>,
    source: impl FnOnce() -> W,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let new = || Box::pin(WaitFuture::new(source(), 0, Location::caller()));
    let polled = begun.get_or_insert_with(new).as_mut().poll(cx);
    if polled.is_ready() {
        *begun = None;
    }
    polled.map(|_| ())
}

/// Blocks the calling thread, or parks the calling task, until the event happens.
#[track_caller]
fn block<W: Waitable>(source: &W) {
    // An error means that the thread unwinds between tasks. The wait goes ahead and holds the
    // worker, since this function cannot return early.
    let _ = assert_may_wait();
    match enter_and(source, 0, WaitMode::Structured, None) {
        Ok(_) => {}
        Err(_) => unreachable!("a structured wait is not cut short"),
    }
}

/// A future of the end of a shutdown.
///
/// It is ready when the [`Swansong`](super::Swansong) is stopped and neither it nor any of its
/// descendants has a [`Guard`]. It stays ready even if guards are made later. It does not stop
/// anything, and keeps the `Swansong` from ending while it exists.
pub struct ShutdownCompletion {
    node: NodeRef,
    begun: Option<Begun<ForEnd<NodeRef>>>,
    over: bool,
}

impl ShutdownCompletion {
    pub(super) fn new(node: &NodeRef) -> ShutdownCompletion {
        node.add_holder();
        ShutdownCompletion { node: node.clone(), begun: None, over: false }
    }

    /// Waits for the completion: a task parks, a plain thread blocks. In async code, await it
    /// instead.
    ///
    /// # Cancellation
    /// A cancelled task goes on waiting. To be cut short by a cancel, use
    /// [`wait(completion)`](crate::wait()).
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks. A thread that is unwinding does not panic, and holds the worker instead.
    #[track_caller]
    pub fn block(self) {
        if !self.over && !self.node.word.look().is_complete() {
            block(&ForEnd(&*self.node));
        }
    }
}

impl Future for ShutdownCompletion {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.over {
            this.over = this.node.word.look().is_complete()
                || poll(&mut this.begun, || ForEnd(this.node.clone()), cx).is_ready();
        }
        if this.over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for ShutdownCompletion {
    fn drop(&mut self) {
        self.begun = None;
        Node::release_holder(&self.node);
    }
}

/// A future that is ready as soon as a [`Swansong`](super::Swansong) is stopped, regardless of
/// guards. It keeps the `Swansong` from ending while it exists.
#[must_use = "it says nothing unless it is waited for"]
pub struct ShuttingDown {
    node: NodeRef,
    begun: Option<Begun<ForStop<NodeRef>>>,
}

impl ShuttingDown {
    pub(super) fn new(node: &NodeRef) -> ShuttingDown {
        node.add_holder();
        ShuttingDown { node: node.clone(), begun: None }
    }

    /// Waits for the stop: a task parks, a plain thread blocks. In async code, await it instead.
    ///
    /// # Cancellation
    /// A cancelled task goes on waiting. To be cut short by a cancel, use
    /// [`wait(shutting_down)`](crate::wait()).
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks. A thread that is unwinding does not panic, and holds the worker instead.
    #[track_caller]
    pub fn block(self) {
        if !self.node.is_stopped() {
            block(&ForStop(&*self.node));
        }
    }
}

impl Future for ShuttingDown {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.node.is_stopped() {
            return Poll::Ready(());
        }
        poll(&mut this.begun, || ForStop(this.node.clone()), cx)
    }
}

impl Drop for ShuttingDown {
    fn drop(&mut self) {
        self.begun = None;
        Node::release_holder(&self.node);
    }
}

macro_rules! common {
    ($name:ident, $what:literal) => {
        impl UnwindSafe for $name {}
        impl RefUnwindSafe for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($what)
                    .field("stopped", &self.node.is_stopped())
                    .finish_non_exhaustive()
            }
        }
    };
}

common!(ShutdownCompletion, "ShutdownCompletion");
common!(ShuttingDown, "ShuttingDown");
common!(StopListener, "StopListener");

/// An interrupt's connection to its `Swansong`: looks whether it is stopped, and is woken by the
/// stop. It does not keep the `Swansong` from ending, which has the effect of a stop.
pub(crate) struct StopListener {
    node: NodeRef,
    begun: Option<Begun<ForStop<NodeRef>>>,
    /// A clone of the waker in the list. A poll with the same waker takes no lock.
    waker: Option<Waker>,
}

impl StopListener {
    pub(super) fn new(node: &NodeRef) -> StopListener {
        StopListener { node: node.clone(), begun: None, waker: None }
    }

    /// Makes a second listener for the same `Swansong`, which is woken independently.
    #[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
    pub(crate) fn another(&self) -> StopListener {
        StopListener::new(&self.node)
    }

    /// Returns whether the `Swansong` is stopped or has ended. One load.
    #[inline(always)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.node.is_stopped()
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

    #[cold]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Stays `None` if the clone or the poll panics.
        self.waker = None;
        let waker = cx.waker().clone();
        let polled = poll(&mut self.begun, || ForStop(self.node.clone()), cx);
        if polled.is_pending() {
            self.waker = Some(waker);
        } else {
            // The word may say so before the stopping thread sets this flag. Later looks must see
            // the end, too.
            self.node.stopped.store(true, Ordering::SeqCst);
        }
        polled
    }

    /// Makes a guard of the same `Swansong`. Returns `None` if the `Swansong` has ended.
    #[track_caller]
    pub(crate) fn guard(&self) -> Option<Guard> {
        Guard::try_new(&self.node, Location::caller())
    }

    /// The number of guards in the node's word.
    #[cfg(all(test, loom))]
    pub(super) fn counted(&self) -> u64 {
        self.node.word.look().guards().0
    }

    pub(crate) fn is_same(&self, other: &StopListener) -> bool {
        self.node.is_same(&other.node)
    }
}
