//! What one can wait for: the stop, and the completion.

use super::guard::Guard;
use super::node::Node;
use super::node_ref::NodeRef;
use super::stop::{ForEnd, ForStop};
use crate::scheduler::wait::no_suspend::assert_may_wait;
use crate::scheduler::wait::waiters::{Entering, Manner, Waitable, enter_and};
use crate::shim::atomic::Ordering;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A wait that has begun, for something that is so once and for all.
type Begun<W> = Pin<Box<Entering<W>>>;

/// Polls a wait, which begins with the first poll that comes here.
fn poll<W: Waitable>(
    begun: &mut Option<Begun<W>>,
    source: impl FnOnce() -> W,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let new = || Box::pin(Entering::new(source(), 0, Location::caller()));
    let polled = begun.get_or_insert_with(new).as_mut().poll(cx);
    if polled.is_ready() {
        *begun = None;
    }
    polled.map(|_| ())
}

/// Blocks the calling thread, or parks the calling task, until it is so.
#[track_caller]
fn block<W: Waitable>(source: &W) {
    // In the middle of an unwinding what is structured holds the worker, also between tasks: there is nothing else to answer.
    let _ = assert_may_wait();
    match enter_and(source, 0, Manner::Structured, None) {
        Ok(_) => {}
        Err(_) => unreachable!("a structured wait is not cut short"),
    }
}

/// The future of the end of a shutdown: ready when the [`Swansong`](super::Swansong) is stopped, and neither it nor any below it has a
/// [`Guard`]. Then it stays ready, also if guards are made later.
///
/// It does not stop anything by itself, and keeps the `Swansong` from its end as long as it is there.
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

    /// Waits for it: a task parks, a plain thread blocks. In async code, await it instead.
    ///
    /// A task that is cancelled goes on waiting; [`wait(completion)`](crate::wait()) is the wait that is cut short.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), and on a worker's thread between tasks, if it would have to wait. While the thread
    /// panics it holds the worker instead.
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

/// The future of the stop of a [`Swansong`](super::Swansong): ready as soon as that is stopped, whatever guards there are. It keeps the
/// `Swansong` from its end as long as it is there.
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

    /// Waits for it: a task parks, a plain thread blocks. In async code, await it instead.
    ///
    /// A task that is cancelled goes on waiting; [`wait(shutting_down)`](crate::wait()) is the wait that is cut short.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend), and on a worker's thread between tasks, if it would have to wait. While the thread
    /// panics it holds the worker instead.
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

/// What an interrupt has of its `Swansong`: it looks whether that is stopped, and is woken when it is. It does not keep it from its end, which
/// is as good as a stop.
pub(crate) struct StopListener {
    node: NodeRef,
    begun: Option<Begun<ForStop<NodeRef>>>,
    /// A clone of the waker that is kept in the list: who polls with it again takes no lock.
    waker: Option<Waker>,
}

impl StopListener {
    pub(super) fn new(node: &NodeRef) -> StopListener {
        StopListener { node: node.clone(), begun: None, waker: None }
    }

    /// A second one for the same, which is woken by itself.
    #[cfg(any(feature = "futures-io", all(feature = "tokio", not(loom))))]
    pub(crate) fn another(&self) -> StopListener {
        StopListener::new(&self.node)
    }

    /// One load.
    #[inline(always)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.node.is_stopped()
    }

    /// Ready if it is stopped; else the waker is called when it will be.
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
        // Not if the clone panics, nor if the poll does.
        self.waker = None;
        let waker = cx.waker().clone();
        let polled = poll(&mut self.begun, || ForStop(self.node.clone()), cx);
        if polled.is_pending() {
            self.waker = Some(waker);
        } else {
            // Whoever stops it says so in the word first, and may not have come to this yet: what has ended here has ended.
            self.node.stopped.store(true, Ordering::SeqCst);
        }
        polled
    }

    /// A guard of the same `Swansong`; none if that has ended.
    #[track_caller]
    pub(crate) fn guard(&self) -> Option<Guard> {
        Guard::try_new(&self.node, Location::caller())
    }

    /// The guards that are counted in the node's word.
    #[cfg(all(test, loom))]
    pub(super) fn counted(&self) -> u64 {
        self.node.word.look().guards().0
    }

    pub(crate) fn is_same(&self, other: &StopListener) -> bool {
        self.node.is_same(&other.node)
    }
}
