//! The state that keeps a group open for new members.
//!
//! A linked group is a part of its scope, which waits for it; only the handle closes it.
//!
//! A detached group must not hold up the end of its runtime, as its handle may be forgotten, or may
//! lie with the very thread that waits for that end. So a cancel closes it, whether the cancel
//! comes from a call or from the end of the runtime: by a hook on the group's node. A spawn that is
//! in progress at that moment is inside a [`Rundown`], and the group is settled by the last spawn
//! to leave, or by the hook. The group's node and the runtime stay alive while a spawn is inside; a
//! spawn that is refused touches neither.

use crate::scheduler::cancel::hook::Body;
use crate::scheduler::life::external::{OnCancel, Outside};
use crate::scheduler::life::rundown::Rundown;
use crate::task::cause::Cause;
use std::sync::{Arc, OnceLock};

/// The hold of a group; see the module's documentation.
pub(super) enum Hold {
    Linked(Outside<()>),
    Detached(Arc<Gate>),
}

/// The shared part of a detached group's hold.
pub(super) struct Gate {
    outside: Outside<()>,
    rundown: Rundown,
    /// The cause, if a cancel closed the group. Set before the rundown is closed.
    closed_by: OnceLock<Arc<Cause>>,
}

impl Gate {
    /// Returns the cause of the cancel that closed the group.
    pub(super) fn cause(&self) -> Arc<Cause> {
        Arc::clone(self.closed_by.get().expect("its handle, which we have, has not closed it"))
    }

    /// Closes the rundown: no spawn gets in any more.
    fn close(&self) {
        if self.rundown.close() {
            settle(&self.outside);
        }
    }
}

/// Ends the task of a group whose members are counted.
fn settle(outside: &Outside<()>) {
    let settled = outside.settle(Ok(()));
    debug_assert!(settled.is_ok(), "a cancel does not end a group's task, and one caller does");
}

/// The hook on a detached group.
struct Close(Arc<Gate>);

impl Body for Close {
    fn on_cancel(self: Box<Self>, cause: Arc<Cause>) {
        // Called once, and set nowhere else.
        let _ = self.0.closed_by.set(cause);
        self.0.close();
    }
}

/// The right to use the node of a group. The group stays open while this exists.
pub(super) struct Entered<'a>(Option<&'a Gate>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0
            && gate.rundown.leave()
        {
            settle(&gate.outside);
        }
    }
}

impl Hold {
    /// Makes the hold of a new group: a linked one if a cancel does nothing to its task, or a
    /// detached one if a cancel is to [tell](OnCancel::Tell).
    pub(super) fn new(outside: Outside<()>, on_cancel: OnCancel) -> Hold {
        if on_cancel == OnCancel::Wait {
            return Hold::Linked(outside);
        }
        let (rundown, closed_by) = (Rundown::new(), OnceLock::new());
        let gate = Arc::new(Gate { outside, rundown, closed_by });
        gate.outside.hang(Box::new(Close(Arc::clone(&gate)))).keep();
        Hold::Detached(gate)
    }

    /// Returns the effect of a cancel on the task of a group of the same kind.
    pub(super) fn on_cancel(&self) -> OnCancel {
        match self {
            Hold::Linked(_) => OnCancel::Wait,
            Hold::Detached(_) => OnCancel::Tell,
        }
    }

    pub(super) fn outside(&self) -> &Outside<()> {
        match self {
            Hold::Linked(outside) => outside,
            Hold::Detached(gate) => &gate.outside,
        }
    }

    /// Enters the group, to use its node.
    ///
    /// # Errors
    /// The gate, if a cancel has closed it.
    pub(super) fn enter(&self) -> Result<Entered<'_>, &Arc<Gate>> {
        match self {
            Hold::Linked(_) => Ok(Entered(None)),
            Hold::Detached(gate) if gate.rundown.enter() => Ok(Entered(Some(gate))),
            Hold::Detached(gate) => Err(gate),
        }
    }

    /// Closes the group: no more members come from outside it.
    pub(super) fn close(&self) {
        match self {
            Hold::Linked(outside) => settle(outside),
            Hold::Detached(gate) => gate.close(),
        }
    }
}
