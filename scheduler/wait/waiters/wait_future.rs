//! The same wait as a future, for any executor.

use super::list::{Stage, Who};
use super::{WaitNode, Waitable, Wakes, leave};
use crate::task::outcome::{drop_payload, quietly};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Asks for something, and waits for it. A future that is dropped before it was ready leaves nothing behind: it leaves the
/// list, or gives back what it was granted. One that is forgotten leaks its place there, with what may come to be granted to
/// it; its memory stays, as it is pinned.
pub(crate) struct WaitFuture<W: Waitable> {
    source: W,
    node: WaitNode,
    progress: Progress,
}

/// What this side knows.
#[derive(PartialEq, Eq)]
enum Progress {
    New,
    /// The node has been entered, and may have been granted.
    Queued,
    Over,
}

// SAFETY: the node is touched under the lock of the primitive, which is shared.
unsafe impl<W: Waitable + Send> Send for WaitFuture<W> {}
// SAFETY: as above; nothing is done by a shared reference.
unsafe impl<W: Waitable + Sync> Sync for WaitFuture<W> {}

impl<W: Waitable> WaitFuture<W> {
    pub(crate) fn new(source: W, token: u64, place: &'static Location<'static>) -> WaitFuture<W> {
        WaitFuture { source, node: WaitNode::new(token, place), progress: Progress::New }
    }

    /// What is waited for.
    pub(crate) fn source(&self) -> &W {
        &self.source
    }

    /// The node's token: what a grant has left there, after the answer.
    pub(crate) fn token(&self) -> u64 {
        self.node.token.get()
    }

    /// Its node, which is in no list when it has given its answer.
    pub(crate) fn node(&self) -> &WaitNode {
        &self.node
    }

    /// Makes one that has given its answer new, to ask once more.
    pub(crate) fn renew(self: Pin<&mut Self>) {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        debug_assert!(this.progress == Progress::Over, "it still waits");
        // The node is in no list, and known to nobody: it was granted, or has never been entered.
        this.progress = Progress::New;
    }

    /// Ready with the answer.
    ///
    /// # Panics
    /// After its end.
    pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        // SAFETY: the node stays where it is.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.progress != Progress::Over, "cygnet: a future was polled after its end");
        // SAFETY: pinned with the whole.
        let node = unsafe { Pin::new_unchecked(&this.node) };
        // Wakers are foreign code: cloned and dropped without the lock.
        let mut waker = Who::Future(cx.waker().clone());
        let mut wakes = Wakes::default();
        let mut state = this.source.state();
        let answer = match this.progress {
            Progress::New => {
                let answer = this.source.try_enter(&mut state, &node, &mut wakes);
                if answer.is_none() {
                    waker = node.replace_who(waker);
                    // SAFETY: it leaves the list when this is dropped, at the latest.
                    unsafe { W::waiters(&mut state).push(node, this.source.comes_back(&node)) };
                    this.progress = Progress::Queued;
                }
                answer
            }
            // MUTANT(waiters.poll.look): false
            Progress::Queued if node.stage() == Stage::Granted => Some(node.answer()),
            Progress::Queued => {
                waker = node.replace_who(waker);
                None
            }
            Progress::Over => unreachable!("asked above"),
        };
        drop(state);
        wakes.deliver();
        // A panic of its destructor goes no further: what was granted would be lost on its way.
        if let Some(payload) = quietly(|| drop(waker)) {
            drop_payload(payload);
        }
        match answer {
            Some(answer) => {
                this.progress = Progress::Over;
                Poll::Ready(answer)
            }
            None => Poll::Pending,
        }
    }
}

impl<W: Waitable> Drop for WaitFuture<W> {
    fn drop(&mut self) {
        if self.progress != Progress::Queued {
            return;
        }
        // SAFETY: it is not moved any more.
        let node = unsafe { Pin::new_unchecked(&self.node) };
        // MUTANT(waiters.drop.gives_back): false
        if !leave(&self.source, node) {
            self.source.give_back(&self.node);
        }
    }
}
