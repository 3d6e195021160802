use super::state::{Changing, NOTHING, Numbered, Shared};
use crate::scheduler::wait::waiters::WaitFuture;
use crate::sync::WaitError;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Waits for a value that is newer than `seen`.
struct Newer<'a, T> {
    shared: &'a Shared<T>,
    seen: u64,
    entering: WaitFuture<Changing<'a, T>>,
}

impl<'a, T> Newer<'a, T> {
    fn new(shared: &'a Shared<T>, seen: u64, place: &'static Location<'static>) -> Newer<'a, T> {
        let entering = WaitFuture::new(Changing { shared, seen }, 0, place);
        Newer { shared, seen, entering }
    }
}

impl<T> Future for Newer<'_, T> {
    type Output = Result<Numbered<T>, WaitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (shared, seen) = (self.shared, self.seen);
        // SAFETY: `entering` is pinned together with `self`.
        let entering = unsafe { self.map_unchecked_mut(|this| &mut this.entering) };
        entering.poll(cx).map(|_| shared.newer(seen).map_err(|_| WaitError::Closed))
    }
}

/// The future of [`WatchReceiver::changed_async`](super::WatchReceiver::changed_async).
#[must_use = "futures do nothing unless they are polled"]
pub struct WatchChanged<'a, T> {
    seen: &'a mut u64,
    newer: Newer<'a, T>,
}

impl<'a, T> WatchChanged<'a, T> {
    #[track_caller]
    pub(super) fn new(shared: &'a Shared<T>, seen: &'a mut u64) -> WatchChanged<'a, T> {
        let newer = Newer::new(shared, *seen, Location::caller());
        WatchChanged { seen, newer }
    }
}

impl<T> Future for WatchChanged<'_, T> {
    /// The only error is [`WaitError::Closed`].
    type Output = Result<Arc<T>, WaitError>;

    /// # Panics
    /// If polled after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Arc<T>, WaitError>> {
        // SAFETY: `newer` is the only pinned field, and nothing moves it.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: `newer` is pinned together with `self`.
        let newer = unsafe { Pin::new_unchecked(&mut this.newer) };
        newer.poll(cx).map_ok(|(value, version)| {
            *this.seen = version;
            value
        })
    }
}

impl<T> fmt::Debug for WatchChanged<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchChanged").finish_non_exhaustive()
    }
}

/// Waits until `so` returns `true` for a value, beginning with the one that is there.
pub(super) async fn wait_for<T>(
    shared: &Shared<T>,
    seen: &mut u64,
    place: &'static Location<'static>,
    mut so: impl FnMut(&T) -> bool,
) -> Result<Arc<T>, WaitError> {
    let mut judged = NOTHING;
    loop {
        let (value, version) = Newer::new(shared, judged, place).await?;
        if so(&value) {
            *seen = version;
            return Ok(value);
        }
        judged = version;
    }
}
