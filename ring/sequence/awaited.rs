//! Waits for a condition that a waiter can check for itself: it looks first, as its strategy says,
//! and then queues for a wake-up. Blocking, and as a future.

use super::arithmetic::{Sequence, Word};
use super::spinning::{Learned, Spinning};
use super::strategy::WaitStrategy;
use crate::runtime::is_cancelled;
use crate::scheduler::wait::waiters::{WaitFuture, WaitMode, WaitNode, Waitable, enter_node};
use crate::shim::time::Instant;
use crate::sync::WaitError;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::{Pin, pin};

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
    fn manner(&self) -> (Options, &Learned);

    fn close(&self);
}

/// A source of published numbers, which readers wait for.
pub(super) trait Numbers: Awaited {
    type Number: Sequence;

    /// Returns the last published number.
    fn published(&self) -> Self::Number;

    /// Returns the answer of a wait for `target`, if it is decided.
    fn answer(&self, target: Self::Number) -> Option<u32>;

    /// Returns the token of a node that waits for `target`.
    fn token(&self, target: Self::Number) -> u64 {
        target.to_word()
    }
}

/// Returns the last number published in `source`, once `target` is published there.
#[track_caller]
#[inline]
pub(super) fn wait_until<N: Numbers>(
    source: &N,
    target: N::Number,
    until: Option<Instant>,
) -> Result<N::Number, WaitError> {
    wait_as(source, target, until, None)
}

/// Does the same as [`wait_until`], and waits as `strategy` says instead of the object's strategy.
#[track_caller]
#[inline(always)]
pub(super) fn wait_as<N: Numbers>(
    source: &N,
    target: N::Number,
    until: Option<Instant>,
    strategy: Option<WaitStrategy>,
) -> Result<N::Number, WaitError> {
    let last = source.published();
    if !last.precedes(target) && !is_cancelled() {
        Ok(last)
    } else {
        wait_for(source, target, until, strategy)
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn wait_for<N: Numbers>(
    source: &N,
    target: N::Number,
    until: Option<Instant>,
    strategy: Option<WaitStrategy>,
) -> Result<N::Number, WaitError> {
    let node = pin!(WaitNode::new(source.token(target), Location::caller()));
    let answer = wait_at(source, node.as_ref(), until, strategy, || source.answer(target))?;
    outcome(source, answer)
}

/// Does the same as [`wait_until`] without waiting: returns `None` if the number may still come.
pub(super) fn try_until<N: Numbers>(
    source: &N,
    target: N::Number,
) -> Option<Result<N::Number, WaitError>> {
    source.answer(target).map(|answer| outcome(source, answer))
}

/// Does the same as [`wait_until`] as a future, which begins to wait with its first poll.
pub(super) async fn wait_async<N: Numbers>(
    source: &N,
    target: N::Number,
    location: &'static Location<'static>,
) -> Result<N::Number, WaitError> {
    let (answer, _) = wait_as_future(source, source.token(target), location).await;
    outcome(source, answer)
}

fn outcome<N: Numbers>(source: &N, answer: u32) -> Result<N::Number, WaitError> {
    if answer == PUBLISHED { Ok(source.published()) } else { Err(WaitError::Closed) }
}

/// Waits as `strategy` says, or else as the object's strategy does. `look` returns the answer if
/// there is one now. A grant may leave a value in the node.
#[track_caller]
pub(super) fn wait_at<W: Awaited>(
    source: &W,
    node: Pin<&WaitNode>,
    until: Option<Instant>,
    strategy: Option<WaitStrategy>,
    look: impl FnMut() -> Option<u32>,
) -> Result<u32, WaitError> {
    let (Options { strategy: default, terminal }, learned) = source.manner();
    let strategy = strategy.unwrap_or(default);
    // A cancelled task is refused, even if there is an answer.
    let mut spinning = Spinning::default();
    let spun =
        if is_cancelled() { Ok(None) } else { strategy.spin(learned, &mut spinning, until, look) };
    let waited = spun.and_then(|found| match found {
        Some(answer) => Ok(answer),
        None => enter_node(source, node, WaitMode::Until(until), None),
    });
    waited.map_err(|short| {
        if terminal {
            source.close();
        }
        WaitError::of(short)
    })
}

/// Waits as a future. Returns the answer, and what the grant has left in the node.
pub(super) async fn wait_as_future<W: Awaited>(
    source: &W,
    token: u64,
    location: &'static Location<'static>,
) -> (u32, u64) {
    let mut wait = pin!(WaitFuture::new(source, token, location));
    let mut pending = Pending { source, waits: false };
    let answer = poll_fn(|cx| {
        let polled = wait.as_mut().poll(cx);
        pending.waits = polled.is_pending();
        polled
    });
    (answer.await, wait.token())
}

/// Closes a terminal source when a future is dropped that waits.
struct Pending<'a, W: Awaited> {
    source: &'a W,
    /// The last poll was pending.
    waits: bool,
}

impl<W: Awaited> Drop for Pending<'_, W> {
    fn drop(&mut self) {
        if self.waits && self.source.manner().0.terminal {
            self.source.close();
        }
    }
}
