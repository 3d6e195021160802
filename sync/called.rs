//! Waiters that are *called*: woken, to try again themselves. A mutex, a semaphore and a
//! reader-writer lock share the loops of such a waiter, as a task or thread and as a future.

use super::passing::is_overdue;
use crate::scheduler::wait::interrupted::Interruption;
use crate::scheduler::wait::no_suspend::is_forbidden;
use crate::scheduler::wait::waiters::{WaitFuture, WaitMode, WaitNode, Waitable, enter_node};
use crate::shim::time::{Instant, now};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// The answer that calls a waiter. Any other answer ends its wait.
pub(super) const CALL: u32 = 1;

/// A primitive that calls its waiters.
pub(super) trait Calling: Waitable {
    /// Set in a node's token: the waiter must not be passed again.
    const OVERDUE: u64;

    /// Answers a call on behalf of the waiter. Returns `true` if the waiter got what it asks for.
    fn answer(&self, waiter: &WaitNode) -> bool;

    /// Notes that a called waiter found nothing. If `is_overdue`, it must not be passed again.
    fn note_passed(&self, waiter: &WaitNode, is_overdue: bool) {
        if is_overdue {
            waiter.token.set(waiter.token.get() | Self::OVERDUE);
        }
    }

    /// Returns `true` if called waiters have been passed so often that they may be waiting for the
    /// caller's own worker or executor.
    fn is_hogged(&self) -> bool;

    /// Tries to get what the called waiter asks for, before the call is answered.
    fn watch_for(&self, _waiter: &WaitNode) -> bool {
        false
    }
}

/// Waits until the wait of a node with this token is over. Returns the answer that ended it, which
/// is `CALL` if a call was answered.
///
/// # Errors
/// Same as [`enter_node`].
#[track_caller]
pub(super) fn enter_called<C: Calling>(
    source: &C,
    token: u64,
    mode: WaitMode,
) -> Result<u32, Interruption> {
    let node = pin!(WaitNode::new(token, Location::caller()));
    let since = now();
    loop {
        let answer = enter_node(source, node.as_ref(), mode, None)?;
        if answer != CALL || source.watch_for(&node) || source.answer(&node) {
            return Ok(answer);
        }
        source.note_passed(&node, is_overdue(since));
    }
}

/// The same wait as a future.
pub(super) struct EnterCalled<'a, C: Calling> {
    source: &'a C,
    waiting: WaitFuture<&'a C>,
    /// The time of the first poll.
    since: Option<Instant>,
}

impl<'a, C: Calling> EnterCalled<'a, C> {
    pub(super) fn new(source: &'a C, token: u64, location: &'static Location<'static>) -> Self {
        EnterCalled { source, waiting: WaitFuture::new(source, token, location), since: None }
    }
}

impl<C: Calling> Future for EnterCalled<'_, C> {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        // SAFETY: `waiting` is the only pinned field, and is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `waiting` is pinned together with `self`.
        let mut waiting = unsafe { Pin::new_unchecked(&mut this.waiting) };
        let since = match this.since {
            Some(since) => since,
            None => {
                let since = *this.since.insert(now());
                if this.source.is_hogged() && !is_forbidden() {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                since
            }
        };
        loop {
            match waiting.as_mut().poll(cx) {
                Poll::Ready(CALL) if !this.source.answer(waiting.node()) => {
                    this.source.note_passed(waiting.node(), is_overdue(since));
                    waiting.as_mut().renew();
                }
                polled => return polled,
            }
        }
    }
}
