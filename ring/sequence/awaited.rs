//! The wait for something that is found by looking, before anybody is told of it: blocking, and as a future.

use super::spinning::{Learned, Spinning};
use super::strategy::WaitStrategy;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{Entering, Manner, WaitNode, Waitable, enter_node};
use crate::shim::time::Instant;
use crate::sync::WaitError;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// The answers. Sequencers have others for claims.
pub(super) const PUBLISHED: u32 = 0;
pub(super) const CLOSED: u32 = u32::MAX;

/// How an object is waited for.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) strategy: WaitStrategy,
    /// A wait that is cut short closes it.
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

/// Waits as its strategy says: `look` is the answer, if there is one at this moment.
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

/// The same with a node of the caller's, where a grant may leave something.
#[track_caller]
pub(super) fn wait_at<W: Awaited>(
    source: W,
    node: Pin<&WaitNode>,
    until: Option<Instant>,
    look: impl FnMut() -> Option<u32>,
) -> Result<u32, WaitError> {
    let Options { strategy, terminal } = source.options();
    // Who is cancelled is turned away, also from what is there.
    let mut spinning = Spinning::default();
    let spun = if is_cancelled() {
        Ok(None)
    } else {
        strategy.spin(source.learned(), &mut spinning, until, look)
    };
    let waited = spun.and_then(|found| match found {
        Some(answer) => Ok(answer),
        None => enter_node(&source, node, Manner::Until(until), None),
    });
    waited.map_err(|short| {
        if terminal {
            source.close();
        }
        WaitError::of(short)
    })
}

/// The same as a future.
pub(super) struct Awaiting<W: Awaited + Copy> {
    entering: Entering<W>,
    source: W,
    /// It has been polled, and was not ready.
    waits: bool,
}

impl<W: Awaited + Copy> Awaiting<W> {
    #[track_caller]
    pub(super) fn new(source: W, token: u64) -> Awaiting<W> {
        let entering = Entering::new(source, token, Location::caller());
        Awaiting { entering, source, waits: false }
    }

    pub(super) fn source(&self) -> W {
        self.source
    }

    /// What a grant has left in the node, after the answer.
    pub(super) fn token(&self) -> u64 {
        self.entering.token()
    }

    /// Ready with the answer.
    pub(super) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        // SAFETY: `entering` is pinned with the whole, the others are not.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
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
