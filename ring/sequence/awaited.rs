//! Waits for a condition that a waiter can check for itself: it looks first, as its strategy says,
//! and then queues for a wake-up. Blocking, and as a future.

use super::spinning::{Learned, Spinning};
use super::strategy::WaitStrategy;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{WaitFuture, WaitMode, WaitNode, Waitable, enter_node};
use crate::shim::time::Instant;
use crate::sync::WaitError;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// Answers of a wait. Sequencers have others for claims.
pub(super) const PUBLISHED: u32 = 0;
pub(super) const CLOSED: u32 = u32::MAX;

/// How an object is waited for.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) strategy: WaitStrategy,
    /// A wait that is cut short closes the object.
    pub(super) terminal: bool,
}

pub(super) trait Awaited: Waitable {
    fn options(&self) -> Options;

    fn learned(&self) -> &Learned;

    fn close(&self);
}

impl<W: Awaited> Awaited for &W {
    fn options(&self) -> Options {
        (**self).options()
    }

    fn learned(&self) -> &Learned {
        (**self).learned()
    }

    fn close(&self) {
        (**self).close();
    }
}

/// Waits as the object's strategy says. `look` returns the answer if there is one now.
#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn wait_for<W: Awaited>(
    source: W,
    token: u64,
    until: Option<Instant>,
    look: impl FnMut() -> Option<u32>,
) -> Result<u32, WaitError> {
    let node = pin!(WaitNode::new(token, Location::caller()));
    wait_at(source, node.as_ref(), until, look)
}

/// Does the same as [`wait_for`] with a node of the caller's, in which a grant may leave a value.
#[track_caller]
pub(super) fn wait_at<W: Awaited>(
    source: W,
    node: Pin<&WaitNode>,
    until: Option<Instant>,
    look: impl FnMut() -> Option<u32>,
) -> Result<u32, WaitError> {
    let Options { strategy, terminal } = source.options();
    // A cancelled task is refused, even if there is an answer.
    let mut spinning = Spinning::default();
    let spun = if is_cancelled() {
        Ok(None)
    } else {
        strategy.spin(source.learned(), &mut spinning, until, look)
    };
    let waited = spun.and_then(|found| match found {
        Some(answer) => Ok(answer),
        None => enter_node(&source, node, WaitMode::Until(until), None),
    });
    waited.map_err(|short| {
        if terminal {
            source.close();
        }
        WaitError::of(short)
    })
}

/// A wait as a future.
pub(super) struct Awaiting<W: Awaited + Copy> {
    entering: WaitFuture<W>,
    source: W,
    /// The last poll was pending.
    waits: bool,
}

impl<W: Awaited + Copy> Awaiting<W> {
    #[track_caller]
    pub(super) fn new(source: W, token: u64) -> Awaiting<W> {
        let entering = WaitFuture::new(source, token, Location::caller());
        Awaiting { entering, source, waits: false }
    }

    pub(super) fn source(&self) -> W {
        self.source
    }

    /// What a grant has left in the node. For use after the answer.
    pub(super) fn token(&self) -> u64 {
        self.entering.token()
    }

    /// Polls for the answer.
    pub(super) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        // SAFETY: `entering` is pinned with `self`, and is not moved. The other fields are not
        // pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `entering` is pinned with `self`, which is never moved.
        let polled = unsafe { Pin::new_unchecked(&mut this.entering) }.poll(cx);
        this.waits = polled.is_pending();
        polled
    }
}

impl<W: Awaited + Copy> Drop for Awaiting<W> {
    fn drop(&mut self) {
        if self.waits && self.source.options().terminal {
            self.source.close();
        }
    }
}
