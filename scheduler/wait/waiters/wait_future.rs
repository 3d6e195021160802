//! A wait for a primitive as a future, for any executor.

use super::list::Who;
use super::{WaitNode, Waitable, Wakes, leave};
use crate::task::outcome::{drop_payload, quietly};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that asks a primitive for something, and waits for it. A future that is dropped
/// before it was ready leaves the list, or gives back what it was granted. A future that is
/// forgotten (`mem::forget`) leaks its place in the list and a grant that it may receive. Its
/// memory stays valid, as it is pinned.
pub(crate) struct WaitFuture<W: Waitable> {
    source: W,
    node: WaitNode,
    progress: Progress,
}

/// What the future knows about its node.
#[derive(PartialEq, Eq)]
enum Progress {
    New,
    /// The node has been entered, and may have been granted meanwhile.
    Queued,
    Over,
}

// SAFETY: other threads touch the node only under the lock of the primitive, as this one does
// while the node is in the list.
unsafe impl<W: Waitable + Send> Send for WaitFuture<W> {}
// SAFETY: as for `Send`. Besides, only code with exclusive access to the future uses its node
// through `&self`.
unsafe impl<W: Waitable + Sync> Sync for WaitFuture<W> {}

impl<W: Waitable> WaitFuture<W> {
    pub(crate) fn new(source: W, token: u64, location: &'static Location<'static>) -> Self {
        WaitFuture { source, node: WaitNode::new(token, location), progress: Progress::New }
    }

    /// Returns the primitive.
    pub(crate) fn source(&self) -> &W {
        &self.source
    }

    /// Returns the node's token. After the answer, this is what the grant has left there.
    pub(crate) fn token(&self) -> u64 {
        self.node.token.get()
    }

    /// Returns the node, which is in no list once the future has given its answer.
    pub(crate) fn node(&self) -> &WaitNode {
        &self.node
    }

    /// Makes a future that has given its answer new, so that it asks once more.
    pub(crate) fn renew(self: Pin<&mut Self>) {
        // SAFETY: nothing is moved out of the pinned future.
        let this = unsafe { self.get_unchecked_mut() };
        debug_assert!(this.progress == Progress::Over, "a future was renewed before it was ready");
        // The node is in no list, and no waker refers to it: it was granted, or was never
        // entered.
        this.progress = Progress::New;
    }

    /// Polls for the answer.
    ///
    /// # Panics
    /// If polled after it was ready.
    pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        // SAFETY: the node is not moved out of the pinned future.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.progress != Progress::Over, "cygnet: a future was polled after its end");
        // SAFETY: the node is pinned together with the future.
        let node = unsafe { Pin::new_unchecked(&this.node) };
        // Wakers are foreign code: they are cloned and dropped without the lock.
        let mut waker = Who::Future(cx.waker().clone());
        let mut wakes = Wakes::default();
        let mut state = this.source.state();
        let answer = match this.progress {
            Progress::New => {
                let answer = this.source.try_enter(&mut state, &node, &mut wakes);
                if answer.is_none() {
                    waker = node.replace_who(waker);
                    W::waiters(&mut state).push(node, this.source.comes_back(&node));
                    this.progress = Progress::Queued;
                }
                answer
            }
            // MUTANT(waiters.poll.look): false
            Progress::Queued if !node.is_listed() => Some(node.answer()),
            Progress::Queued => {
                waker = node.replace_who(waker);
                None
            }
            Progress::Over => unreachable!("the assertion above excludes it"),
        };
        drop(state);
        wakes.deliver();
        // A panic of the waker's destructor is caught: it would lose what was granted.
        quietly(|| drop(waker)).into_iter().for_each(drop_payload);
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
        // SAFETY: the future is being dropped, so its node is not moved any more.
        let node = unsafe { Pin::new_unchecked(&self.node) };
        // MUTANT(waiters.drop.gives_back): false
        if !leave(&self.source, node) {
            self.source.give_back(&self.node);
        }
    }
}
