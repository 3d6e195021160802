//! Graceful shutdown: no new work is begun, and what is in progress is finished.
//!
//! [`Swansong`] says when to stop, and knows when all is done. Work that must be finished holds a [`Guard`]; what may end at any time, as a wait
//! for the next request, is wrapped in an [`Interrupt`]. None of it needs a runtime: tasks, plain threads and futures on any executor take part
//! together.
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
//! [`Swansong::child`] names a part of the work. To stop it stops nothing else; the stop of the parent stops it too, and the parent waits for
//! its guards. A child without guards is nothing to wait for.
//!
//! The names and signatures are those of the crate [swansong](https://docs.rs/swansong/0.3.7) 0.3: who uses that changes a `use` line. What
//! differs is told in docs/shutdown.md.

mod completion;
mod guard;
mod guarded;
mod interrupt;
mod joined;
#[cfg(all(test, loom))]
mod models;
mod node;
mod node_ref;
mod report;
mod runtime;
mod slots;
mod stop;
mod within;
mod word;

pub use completion::{ShutdownCompletion, ShuttingDown};
pub use guard::Guard;
pub use guarded::Guarded;
pub use interrupt::Interrupt;
pub use joined::current;
pub use report::{GuardReport, GuardReportEntry};
pub use within::ShutdownReport;

pub(crate) use joined::{of_runtime, stop_runtime};
pub(crate) use within::Shutdown;

pub(crate) use completion::StopListener;

use node::{Node, count_guards};
use node_ref::NodeRef;
use std::fmt;
use std::future::IntoFuture;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use stop::stop;

/// A handle to some work that is shut down together; clones are handles to the same. See the [module](self).
///
/// When the last handle of a root goes, that is a [`shut_down`](Swansong::shut_down): nobody is left who could say so. A child goes on until its
/// parent is stopped, if it has guards; without handles and guards it ends, and so do its interrupts.
pub struct Swansong {
    node: NodeRef,
}

impl UnwindSafe for Swansong {}
impl RefUnwindSafe for Swansong {}

/// How far a [`Swansong`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShutdownState {
    /// It is not stopped.
    Running,
    /// It is stopped, and there are guards, in it or below it.
    ShuttingDown,
    /// It is stopped, and there are no guards.
    Complete,
}

impl ShutdownState {
    /// Whether it is [`Running`](ShutdownState::Running).
    #[must_use]
    pub fn is_running(&self) -> bool {
        *self == ShutdownState::Running
    }

    /// Whether it is [`ShuttingDown`](ShutdownState::ShuttingDown).
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        *self == ShutdownState::ShuttingDown
    }

    /// Whether it is [`Complete`](ShutdownState::Complete).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        *self == ShutdownState::Complete
    }
}

impl Swansong {
    /// A new root, which runs. Costs an allocation of 128 bytes and more for each processor, so that threads that make guards
    /// do not meet.
    #[must_use]
    pub fn new() -> Swansong {
        Swansong { node: Node::root(false) }
    }

    /// A new root that keeps, for itself and all below it, where and when each guard was made, for [`guard_report`](Swansong::guard_report). A guard
    /// then costs a look at the clock, and a lock when it is made and when it is dropped, which threads share that make guards of the same Swansong.
    /// Memory is allocated for about every sixth guard that exists at a time, and kept for later ones. For the Swansong of a runtime see
    /// [`Builder::guard_report`](crate::Builder::guard_report).
    #[must_use]
    pub fn with_guard_report() -> Swansong {
        Swansong { node: Node::root(true) }
    }

    /// Stops it, and all below it: their interrupts end. What is returned is ready when the last guard is gone.
    ///
    /// Does not suspend; runs no task and no future in place, but calls wakers. Costs some 10 ns for each child, and on a root a few
    /// microseconds.
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

    /// Waits until it has been shut down, and all guards are gone. See [`ShutdownCompletion::block`]. As by its
    /// [future](#impl-IntoFuture-for-Swansong) the handle goes first: that of a root with no other is stopped by this, and not waited for in vain.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn block_on_shutdown_completion(self) {
        let completion = self.into_future();
        completion.block();
    }

    /// How far it is. One load.
    #[must_use]
    pub fn state(&self) -> ShutdownState {
        let look = self.node.word.look();
        if !look.is_stopped() {
            ShutdownState::Running
        } else if look.is_empty() {
            ShutdownState::Complete
        } else {
            ShutdownState::ShuttingDown
        }
    }

    /// The future of its stop, by whomever.
    pub fn shutting_down(&self) -> ShuttingDown {
        ShuttingDown::new(&self.node)
    }

    /// A guard: the shutdown, of this and of all above it, is not complete before that is dropped. Also one of a `Swansong` that is stopped
    /// is a guard, though it does not make a completion unready that was ready; [`try_guard`](Swansong::try_guard) refuses then.
    ///
    /// Does not suspend, takes no lock, allocates nothing, but for the first one of a child that runs, or of one that is stopped: that counts
    /// itself in those above it, as far up as these are empty too. A root that [keeps places](Swansong::with_guard_report) costs more.
    #[must_use = "a guard that is dropped at once guards nothing"]
    #[track_caller]
    #[inline]
    pub fn guard(&self) -> Guard {
        Guard::new(&self.node, Location::caller())
    }

    /// The same, or `None` if it is stopped, or one above it: no new work is begun. Costs a load more for each of those.
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
        // Afterwards: one that is given away before the stop is waited for. By all above: a stop that is on its way down may have completed
        // there, as nothing was here.
        (!self.node.is_stopped_here_or_above()).then_some(guard)
    }

    /// A value with a guard, which goes when the value goes: see [`Guarded`]. For a future that is to be finished, for instance.
    #[must_use = "a guard that is dropped at once guards nothing"]
    #[track_caller]
    pub fn guarded<T>(&self, value: T) -> Guarded<T> {
        Guarded::new(self.guard(), value)
    }

    /// A value that ends with the stop: a future, an iterator, a receiver, what can be read and written, .. See [`Interrupt`].
    #[must_use = "nothing is interrupted but what is used through this"]
    pub fn interrupt<T>(&self, value: T) -> Interrupt<T> {
        Interrupt::new(StopListener::new(&self.node), value)
    }

    /// The number of guards, of this and of all below it. Handles and interrupts do not count.
    ///
    /// While guards come and go it is that of no one moment. Takes time in proportion to the nodes below.
    #[must_use]
    pub fn guard_count(&self) -> usize {
        usize::try_from(count_guards(&self.node)).unwrap_or(usize::MAX)
    }

    /// Which guards there are, by the places where they were made: for a shutdown that takes too long. The places are known of a root that was
    /// made by [`with_guard_report`](Swansong::with_guard_report), of that of a runtime with
    /// [`Builder::guard_report`](crate::Builder::guard_report), and of what is below these. From others there are their number, and the tasks
    /// that were started by [`spawn_guarded`](Swansong::spawn_guarded), which are known in any case.
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

    /// A new `Swansong` below this one: see [the tree](self#the-tree). Stopped if this is.
    ///
    /// Does not suspend. Costs an allocation and a lock, whatever the number of children.
    #[must_use]
    pub fn child(&self) -> Swansong {
        Swansong { node: Node::child(&self.node) }
    }
}

impl Default for Swansong {
    fn default() -> Swansong {
        Swansong::new()
    }
}

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

impl PartialEq for Swansong {
    fn eq(&self, other: &Swansong) -> bool {
        self.node.is_same(&other.node)
    }
}

impl Eq for Swansong {}

impl fmt::Debug for Swansong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swansong")
            .field("state", &self.state())
            .field("guards", &self.guard_count())
            .finish()
    }
}

/// To await a handle is to await the end of its shutdown. The handle goes: that of a root with no other is stopped by this.
impl IntoFuture for Swansong {
    type Output = ();
    type IntoFuture = ShutdownCompletion;

    fn into_future(self) -> ShutdownCompletion {
        ShutdownCompletion::new(&self.node)
    }
}
