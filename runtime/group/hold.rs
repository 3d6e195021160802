//! What keeps a group open for members to come.
//!
//! A linked group is a part of its scope, which waits for it: the handle alone closes it. A detached one must not hold up the
//! end of its runtime, as its handle may lie with the very thread that waits for that end, or be forgotten. So a
//! cancel closes it, whether it comes from a call or from that end: a hook on the group's node. What spawns into it at
//! that moment is inside a [`Rundown`], and the group is settled by the last of those to leave, or by the hook. Its node,
//! and the runtime, are there for whoever is inside; whoever is refused touches neither.

use crate::scheduler::cancel::hook::Body;
use crate::scheduler::life::external::{OnCancel, Outside};
use crate::scheduler::life::rundown::Rundown;
use crate::task::cause::Cause;
use std::sync::{Arc, OnceLock};

/// See the module's documentation.
pub(super) enum Hold {
    Linked(Outside<()>),
    Detached(Arc<Gate>),
}

/// That of a detached group.
pub(super) struct Gate {
    outside: Outside<()>,
    rundown: Rundown,
    /// Why it was closed, if that was by a cancel. Set before that.
    closed_by: OnceLock<Arc<Cause>>,
}

impl Gate {
    /// Lets nobody in any more.
    fn close(&self) {
        if self.rundown.close() {
            self.settle();
        }
    }

    fn settle(&self) {
        let settled = self.outside.settle(Ok(()));
        debug_assert!(settled.is_ok(), "a cancel does not end it, and one is the last");
    }
}

/// The hook on a detached group.
struct Close(Arc<Gate>);

impl Body for Close {
    fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
        // Called once, and nobody else sets it.
        let _ = self.0.closed_by.set(cause);
        self.0.close();
    }

    fn on_cleanup(self: Box<Self>) {}
}

/// The right to use the node of a group, which is open as long as this is there.
pub(super) struct Entered<'a>(Option<&'a Gate>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0
            && gate.rundown.leave()
        {
            gate.settle();
        }
    }
}

/// A detached group that takes no more members.
pub(super) struct Closed<'a>(&'a Arc<Gate>);

impl Closed<'_> {
    /// Why.
    pub(super) fn cause(&self) -> Arc<Cause> {
        Arc::clone(self.0.closed_by.get().expect("its handle, which we have, has not closed it"))
    }

    /// That of a group below it, which has none of its own.
    pub(super) fn hold(&self) -> Hold {
        Hold::Detached(Arc::clone(self.0))
    }
}

impl Hold {
    /// The hold of a new detached group, on its record, made to [tell](OnCancel::Tell).
    pub(super) fn detached(outside: Outside<()>) -> Hold {
        let (rundown, closed_by) = (Rundown::new(), OnceLock::new());
        let gate = Arc::new(Gate { outside, rundown, closed_by });
        gate.outside.hang(Box::new(Close(Arc::clone(&gate)))).keep();
        Hold::Detached(gate)
    }

    pub(super) fn outside(&self) -> &Outside<()> {
        match self {
            Hold::Linked(outside) => outside,
            Hold::Detached(gate) => &gate.outside,
        }
    }

    /// Goes in, to use the group's node.
    ///
    /// # Errors
    /// What was closed, by a cancel.
    pub(super) fn enter(&self) -> Result<Entered<'_>, Closed<'_>> {
        match self {
            Hold::Linked(_) => Ok(Entered(None)),
            Hold::Detached(gate) if gate.rundown.enter() => Ok(Entered(Some(gate))),
            Hold::Detached(gate) => Err(Closed(gate)),
        }
    }

    /// How to make a group of the same kind: what a cancel does to its task, and its hold.
    pub(super) fn kind(&self) -> (OnCancel, fn(Outside<()>) -> Hold) {
        match self {
            Hold::Linked(_) => (OnCancel::Wait, Hold::Linked),
            Hold::Detached(_) => (OnCancel::Tell, Hold::detached),
        }
    }

    /// No more members come from outside of it.
    pub(super) fn close(&self) {
        match self {
            Hold::Linked(outside) => {
                let settled = outside.settle(Ok(()));
                debug_assert!(
                    settled.is_ok(),
                    "a cancel does not end it, and nobody else settles it"
                );
            }
            Hold::Detached(gate) => gate.close(),
        }
    }
}
