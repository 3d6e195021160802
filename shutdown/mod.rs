//! Graceful shutdown: begin no new work, and finish the work in progress.
//!
//! A [`Swansong`] announces the stop, and knows when everything has finished. Work that must be
//! finished holds a [`Guard`]. Work that may end at any time, such as a wait for the next request,
//! is wrapped in an [`Interrupt`]. None of this needs a runtime: tasks, plain threads and futures
//! on any executor can share a `Swansong`.
//!
//! ```
//! use cygnet::shutdown::Swansong;
//!
//! let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
//! let swansong = Swansong::new();
//! let (sender, requests) = cygnet::sync::bounded(4);
//! let server = rt.spawn({
//!     let swansong = swansong.clone();
//!     move || {
//!         let mut answered = 0;
//!         // Until the stop, or the end of the channel.
//!         for request in swansong.interrupt(requests.iter()) {
//!             let _guard = swansong.guard();
//!             answered += request; // .. the work ..
//!         }
//!         answered
//!     }
//! });
//! (1..=3).for_each(|request| sender.send(request).unwrap());
//! drop(sender);
//! assert_eq!(server.join().unwrap(), 6);
//! swansong.shut_down().block();
//! assert!(swansong.state().is_complete());
//! ```
//!
//! # The tree
//!
//! [`Swansong::child`] makes a `Swansong` for a part of the work. Stopping a child stops only that
//! part. Stopping the parent also stops the child, and the parent's completion waits for the
//! child's guards. A child without guards delays nothing.
//!
//! The names and signatures are those of the crate [swansong](https://docs.rs/swansong/0.3.7) 0.3,
//! so its users change only a `use` line. docs/spec/shutdown.md lists the differences.

// The files:
//
// | file | contents |
// | --- | --- |
// | `node`, `node_ref` | a node of the tree: its guards, its place and its end; its references |
// | `word` | the guards, children and state of a node, in one word |
// | `slots` | the guards of a running root, by threads |
// | `stop` | stopping a node and all nodes below it |
// | `waiting`, `completion` | the waits for the stop and for the completion |
// | `guard`, `guarded` | guards, and values with guards |
// | `interrupt`, `io` | values that end with the stop; readers and writers |
// | `guards`, `report` | counts and reports of the guards of a tree |
// | `joined`, `work`, `runtime` | the nodes of scopes, tasks and runtimes |
// | `within` | shutdowns with a time limit |
// | `signals` | shutdowns by signals (feature `signals`) |
// | `models` | loom models |

mod completion;
mod guard;
mod guarded;
mod guards;
mod interrupt;
mod io;
mod joined;
#[cfg(all(test, loom))]
mod models;
mod node;
mod node_ref;
mod report;
mod runtime;
#[cfg(all(feature = "signals", not(loom)))]
mod signals;
mod slots;
mod stop;
mod waiting;
mod within;
mod word;
mod work;

pub use completion::{ShutdownCompletion, ShuttingDown};
pub use guard::Guard;
pub use guarded::Guarded;
pub use interrupt::Interrupt;
pub use joined::{TaskGuard, current};
pub use report::{GuardReport, GuardReportEntry};
#[cfg(all(feature = "signals", not(loom)))]
pub use signals::on_signals;
pub use within::ShutdownReport;

pub(crate) use joined::{of_runtime, stop_runtime};
pub(crate) use within::Shutdown;

pub(crate) use completion::StopListener;

use guards::count_guards;
use node::Node;
use node_ref::NodeRef;
use std::future::IntoFuture;
use std::panic::Location;
use stop::stop;

/// A handle to work that is shut down together. Clones are handles to the same work. See the
/// [module](self).
///
/// Dropping the last handle of a root [shuts it down](Swansong::shut_down). A child whose last
/// handle is dropped goes on while it has guards, completions or children, until its parent is
/// stopped. Without any of these it ends, and so do its interrupts.
#[derive(PartialEq, Eq)]
pub struct Swansong {
    node: NodeRef,
}

/// The progress of a [`Swansong`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShutdownState {
    /// Not stopped.
    Running,
    /// Stopped, with guards of its own or of its descendants.
    ShuttingDown,
    /// Stopped, without guards.
    Complete,
}

impl ShutdownState {
    /// Returns whether this is [`Running`](ShutdownState::Running).
    #[must_use]
    pub fn is_running(&self) -> bool {
        *self == ShutdownState::Running
    }

    /// Returns whether this is [`ShuttingDown`](ShutdownState::ShuttingDown).
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        *self == ShutdownState::ShuttingDown
    }

    /// Returns whether this is [`Complete`](ShutdownState::Complete).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        *self == ShutdownState::Complete
    }
}

impl Swansong {
    /// Makes a new root, which is running.
    ///
    /// Allocates 1 to 16 KiB, depending on the number of processors, so that threads which make
    /// guards seldom share a cache line.
    #[must_use]
    pub fn new() -> Swansong {
        Swansong { node: Node::root(false) }
    }

    /// Makes a new root that records where and when each guard is made, for
    /// [`guard_report`](Swansong::guard_report). Its descendants record this, too.
    ///
    /// A guard then costs a look at the clock, and a lock acquisition when it is made and another
    /// when it is dropped. All guards of one `Swansong` share the lock. Memory is allocated for
    /// about every sixth guard that exists at a time, and kept for later guards. For the `Swansong`
    /// of a runtime see [`Builder::guard_report`](crate::Builder::guard_report).
    #[must_use]
    pub fn with_guard_report() -> Swansong {
        Swansong { node: Node::root(true) }
    }

    /// Stops this and its descendants: their interrupts end. The returned completion is ready when
    /// the last guard is gone.
    ///
    /// Does not suspend, and runs no task or future in place, but calls wakers. Costs some 10 ns
    /// per child, and a few microseconds for a root.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    ///
    /// let swansong = Swansong::new();
    /// let guard = swansong.child().guard();
    /// let completion = swansong.shut_down();
    /// assert!(swansong.state().is_shutting_down());
    /// drop(guard);
    /// completion.block();
    /// ```
    pub fn shut_down(&self) -> ShutdownCompletion {
        stop(&self.node);
        ShutdownCompletion::new(&self.node)
    }

    /// Waits until this has been shut down and all guards are gone. See
    /// [`ShutdownCompletion::block`].
    ///
    /// The handle is dropped before the wait, as by the [future](#impl-IntoFuture-for-Swansong). If
    /// it is the last handle of a root, this stops the root, so the wait ends.
    ///
    /// # Panics
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or on a worker's thread
    /// between tasks.
    #[track_caller]
    pub fn block_on_shutdown_completion(self) {
        self.into_future().block();
    }

    /// Returns the state. One load.
    #[must_use]
    pub fn state(&self) -> ShutdownState {
        match self.node.word.look() {
            look if look.is_complete() => ShutdownState::Complete,
            look if look.is_stopped() => ShutdownState::ShuttingDown,
            _ => ShutdownState::Running,
        }
    }

    /// Returns a future that is ready as soon as this is stopped, by whichever call.
    pub fn shutting_down(&self) -> ShuttingDown {
        ShuttingDown::new(&self.node)
    }

    /// Makes a guard: the shutdown of this and of all its ancestors is not complete until the guard
    /// is dropped.
    ///
    /// A stopped `Swansong` gives guards, too. They do not make a completion unready that was
    /// ready. [`try_guard`](Swansong::try_guard) refuses after the stop.
    ///
    /// Does not suspend or lock. Allocates only for the first guard of a running child, and for a
    /// guard of a stopped `Swansong` that has none: such a guard is also counted in the ancestors,
    /// up to the first one that counts something already. A root [with a
    /// report](Swansong::with_guard_report) costs more.
    #[must_use = "a guard that is dropped at once guards nothing"]
    #[track_caller]
    #[inline]
    pub fn guard(&self) -> Guard {
        Guard::new(&self.node, Location::caller())
    }

    /// Makes a guard, or returns `None` if this or one of its ancestors is stopped, so that no new
    /// work begins. Costs one more load than [`guard`](Swansong::guard), and one per ancestor.
    ///
    /// ```
    /// let swansong = cygnet::shutdown::Swansong::new();
    /// let guard = swansong.try_guard().unwrap();
    /// swansong.shut_down();
    /// assert!(swansong.try_guard().is_none());
    /// # drop(guard);
    /// ```
    #[must_use]
    #[track_caller]
    #[inline]
    pub fn try_guard(&self) -> Option<Guard> {
        let guard = Guard::new(&self.node, Location::caller());
        // The look comes after the guard is made, so the stop waits for a guard that is returned.
        // The ancestors are included: a stop on its way down may have completed there, since this
        // node was empty.
        (!self.node.is_stopped_here_or_above()).then_some(guard)
    }

    /// Attaches a guard to a value, such as a future that must finish. The guard is dropped with
    /// the value. See [`Guarded`].
    #[must_use = "a guard that is dropped at once guards nothing"]
    #[track_caller]
    pub fn guarded<T>(&self, value: T) -> Guarded<T> {
        Guarded::new(self.guard(), value)
    }

    /// Makes a value end with the stop: a future, an iterator, a receiver, a reader or a writer.
    /// See [`Interrupt`].
    #[must_use = "nothing is interrupted but what is used through this"]
    pub fn interrupt<T>(&self, value: T) -> Interrupt<T> {
        Interrupt::new(StopListener::new(&self.node), value)
    }

    /// Returns the number of guards of this and of its descendants. Handles and interrupts do not
    /// count.
    ///
    /// If guards come and go meanwhile, the result may match no single moment. Takes time
    /// proportional to the number of descendants.
    #[must_use]
    pub fn guard_count(&self) -> usize {
        usize::try_from(count_guards(&self.node)).unwrap_or(usize::MAX)
    }

    /// Lists the guards by the places where they were made, for a shutdown that takes too long.
    ///
    /// Places are known below a root that was made by
    /// [`with_guard_report`](Swansong::with_guard_report), and below the root of a runtime with
    /// [`Builder::guard_report`](crate::Builder::guard_report). Elsewhere the report has the number
    /// of guards, and the tasks with a [`TaskBuilder::guard`](crate::TaskBuilder::guard), which are
    /// always known.
    ///
    /// ```
    /// use cygnet::shutdown::Swansong;
    ///
    /// let swansong = Swansong::with_guard_report();
    /// let _guard = swansong.child().guard();
    /// let report = swansong.guard_report();
    /// assert_eq!(report.entries()[0].location().file(), file!());
    /// println!("{report}");
    /// ```
    #[must_use]
    pub fn guard_report(&self) -> GuardReport {
        GuardReport::new(&self.node)
    }

    /// Makes a new `Swansong` below this one: see [the tree](self#the-tree). It is stopped if this
    /// one is.
    ///
    /// Does not suspend. Costs an allocation and a lock acquisition, regardless of the number of
    /// children, and sometimes the growth of the parent's list of children.
    #[must_use]
    pub fn child(&self) -> Swansong {
        Swansong { node: Node::child(&self.node) }
    }
}

default! { impl Swansong }

impl Clone for Swansong {
    fn clone(&self) -> Swansong {
        self.node.add_handle();
        Swansong { node: self.node.clone() }
    }
}

impl Drop for Swansong {
    fn drop(&mut self) {
        Node::release_handle(&self.node);
    }
}

debug! { impl Swansong as this { state: this.state(), guards: this.guard_count() } }

/// Awaiting a `Swansong` waits for its completion, and does not stop it. The handle is dropped
/// first: if it is the last one of a root, this stops the root.
impl IntoFuture for Swansong {
    type Output = ();
    type IntoFuture = ShutdownCompletion;

    fn into_future(self) -> ShutdownCompletion {
        ShutdownCompletion::new(&self.node)
    }
}
