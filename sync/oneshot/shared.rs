//! What the two ends of a oneshot share: one word, the value, and a list of waiters.
//!
//! # The word
//!
//! ```text
//!  OPEN --send------------------------------------------------> ENDED and SENT
//!   |
//!   +-- the sender goes, or the receiver closes the channel or goes --> ENDED
//! ```
//!
//! * [`ENDED`] is set once, by a compare-and-swap. That step decides between a send and a close.
//! * [`SENT`] is set in the same step, if a value is there.
//! * [`LISTED`]: somebody may wait in the list.
//! * [`ALONE`]: one of the two ends is gone. The other one frees the memory.
//! * The address of the receiver's node, while the channel is open and the receiver *sits*: a task
//!   or thread that waits for the value puts it there by a compare-and-swap from 0, and need not
//!   look again. Whoever takes it out has the node: the receiver that gives up; the end that sets
//!   ENDED, which calls the receiver; or the holder of the lock, which lets it enter the list.
//!   ENDED and LISTED are clear in an address, as nodes are aligned. SENT and ALONE are used only
//!   when ENDED is set, and no address is there.
//!
//! # Who touches what
//!
//! The value belongs to the sender until it sets SENT, and then to the receiver, which waits
//! through an exclusive reference. A sender that finds ENDED takes its value back. A sender that
//! ends the channel sets ALONE in the same step, unless somebody is in the list: mostly one step
//! sends the value, finds the receiver and gives the sender's half of the memory up.
//!
//! # No wake-up is lost
//!
//! Futures, senders that wait for the end, and a receiver that finds the word taken wait in the
//! list. A waiter sets LISTED under the lock of the list, and learns by the same step whether the
//! channel is still open. The step that sets ENDED returns the word before it: with a node, it
//! calls that one; with LISTED, it takes the lock, and calls all. A called waiter looks at the word
//! again. The end is final, so it finds what it was called for, and a waiter that is cancelled has
//! nothing to give back.

use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes, Who, with_wakes};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{Cell, Mutex, MutexGuard};
use crate::sync::channel::TryRecvError;
use std::pin::Pin;
use std::ptr::{self, NonNull};

const ENDED: u64 = 1;
const LISTED: u64 = 2;
const SENT: u64 = 4;
const ALONE: u64 = 8;

/// The only answer: the waiter is called, and looks again.
const CALL: u32 = 0;

const _: () = assert!(align_of::<WaitNode>() > LISTED as usize);

pub(crate) struct Shared<T> {
    word: AtomicU64,
    value: Cell<Option<T>>,
    list: Mutex<WaitList>,
}

// SAFETY: the value has one owner at a time, as the module says, and moves from the sender to the
// receiver. It is never borrowed, so `T: Send` suffices.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn new() -> Shared<T> {
        let (word, list) = (AtomicU64::new(0), Mutex::new(WaitList::new()));
        Shared { word, value: Cell::new(None), list }
    }

    /// Returns whether the channel has left OPEN. The caller then sees what was done before that.
    pub(super) fn has_ended(&self) -> bool {
        // MUTANT(oneshot.ended): relaxed
        self.word.load(Ordering::Acquire) & ENDED != 0
    }

    /// Returns whether a value has been sent.
    pub(super) fn has_value(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (ENDED | SENT) == ENDED | SENT
    }

    /// Ends the channel, with this value if any, and calls the waiters. Returns whether `alone`,
    /// which is 0 or ALONE, was set in the same step: then a sender may not use the memory any
    /// more. If the channel has ended already, returns the value. Only the sender brings one.
    fn end(&self, value: Option<T>, alone: u64) -> Result<bool, Option<T>> {
        let mut word = self.word.load(Ordering::Relaxed);
        if word & ENDED != 0 {
            return Err(value);
        }
        let mut flags = ENDED;
        if value.is_some() {
            self.value.set(value);
            flags |= SENT;
        }
        loop {
            let left = if word & LISTED == 0 { alone } else { 0 };
            let new = word & LISTED | flags | left;
            // MUTANT(oneshot.end): relaxed, split
            match self.word.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.call(word);
                    return Ok(left != 0);
                }
                Err(now) if now & ENDED != 0 => {
                    return Err(if flags & SENT != 0 { self.value.take() } else { None });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Calls those who waited when the word was this one. Does not touch the memory unless somebody
    /// was in the list.
    fn call(&self, before: u64) {
        if before & !LISTED != 0 {
            let node = ptr::with_exposed_provenance((before & !LISTED) as usize);
            // SAFETY: the step of the caller has taken the node out of its seat.
            unsafe { WaitNode::grant_seated(node, CALL) }.deliver();
        }
        if before & LISTED != 0 {
            with_wakes(&self.list, |list, wakes| list.grant_all(CALL, wakes));
        }
    }

    /// Sends a value, and stays.
    #[cfg(all(test, loom))]
    pub(super) fn send(&self, value: T) -> Result<(), Option<T>> {
        self.end(Some(value), 0).map(drop)
    }

    /// Closes the channel, if it is open.
    pub(super) fn close(&self) {
        let _ = self.end(None, 0);
    }

    /// Takes the value if it is there. For the receiver alone.
    pub(super) fn take(&self) -> Result<T, TryRecvError> {
        // MUTANT(oneshot.take): relaxed
        let word = self.word.load(Ordering::Acquire);
        match word {
            _ if word & ENDED == 0 => Err(TryRecvError::Empty),
            _ if word & SENT == 0 => Err(TryRecvError::Closed),
            _ => self.value.take().ok_or(TryRecvError::Closed),
        }
    }

    /// Ends the channel for a sender that goes, with the value that it sends, if any. Returns the
    /// value if the channel has ended already.
    ///
    /// # Safety
    /// The memory is that of [`oneshot`](super::oneshot). The sender goes once, and does not use
    /// the memory any more.
    pub(super) unsafe fn sender_goes(
        this: NonNull<Self>,
        value: Option<T>,
    ) -> Result<(), Option<T>> {
        // SAFETY: the sender has not gone yet, so the memory is there.
        let sent = unsafe { this.as_ref() }.end(value, ALONE);
        if sent.as_ref().is_ok_and(|is_gone| *is_gone) {
            return Ok(());
        }
        // SAFETY: this is the sender's last use.
        unsafe { Shared::go(this) };
        sent.map(drop)
    }

    /// Closes the channel for a receiver that goes, and returns the value in it.
    ///
    /// # Safety
    /// The memory is that of [`oneshot`](super::oneshot). The receiver goes once, and does not use
    /// the memory any more.
    pub(super) unsafe fn receiver_goes(this: NonNull<Self>) -> Option<T> {
        // SAFETY: the receiver has not gone yet, so the memory is there.
        let shared = unsafe { this.as_ref() };
        shared.close();
        let value = shared.take().ok();
        // SAFETY: this is the receiver's last use.
        unsafe { Shared::go(this) };
        value
    }

    /// Frees the memory, if the other end is gone.
    ///
    /// # Safety
    /// The memory is that of a box. Each end calls this once at most, as its last use.
    unsafe fn go(this: NonNull<Self>) {
        // SAFETY: one of the two ends frees the memory, the other one has not, as it is gone.
        let word = unsafe { &this.as_ref().word };
        // Whoever finds the flag sees all that the other end has done.
        // MUTANT(oneshot.alone): relaxed
        let is_alone = word.load(Ordering::Acquire) & ALONE != 0
            // MUTANT(oneshot.go): relaxed, split
            || word.fetch_or(ALONE, Ordering::AcqRel) & ALONE != 0;
        if is_alone {
            // SAFETY: the other end is gone, and this is the last use of this one.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// Returns the locations in the code where callers wait. A receiver that sits enters the list.
    pub(super) fn locations(&self) -> Vec<String> {
        let mut list = self.list.lock();
        let sits = |word: u64| word & ENDED == 0 && word & !LISTED != 0;
        let (done, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        let to_list = |word| sits(word).then_some(LISTED);
        // MUTANT(oneshot.admit): split
        if let Ok(word) = self.word.fetch_update(done, seen, to_list) {
            let node = ptr::with_exposed_provenance::<WaitNode>((word & !LISTED) as usize);
            // SAFETY: this call has taken the node out of its seat. It is pinned, and its waiter
            // stays until it is granted, or has taken the node out under the lock, which we have.
            list.push(unsafe { Pin::new_unchecked(&*node) }, false);
        }
        list.locations()
    }
}

/// A oneshot as one of its ends waits for the end of it.
pub(crate) struct EndOf<'a, T> {
    shared: &'a Shared<T>,
    /// The caller is the receiver.
    receives: bool,
}

impl<'a, T> EndOf<'a, T> {
    pub(super) fn for_receiver(shared: &'a Shared<T>) -> EndOf<'a, T> {
        EndOf { shared, receives: true }
    }

    pub(super) fn for_sender(shared: &'a Shared<T>) -> EndOf<'a, T> {
        EndOf { shared, receives: false }
    }
}

impl<T> Waitable for EndOf<'_, T> {
    type State = WaitList;

    fn what(&self) -> &'static str {
        if self.receives { "the value of a oneshot" } else { "the end of a oneshot's receiver" }
    }

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.shared.list.lock()
    }

    fn waiters(list: &mut WaitList) -> &mut WaitList {
        list
    }

    #[cold]
    #[inline(never)]
    fn try_enter(&self, _: &mut WaitList, _: &WaitNode, _: &mut Wakes) -> Option<u32> {
        // MUTANT(oneshot.enter): relaxed, split
        let before = self.shared.word.fetch_or(LISTED, Ordering::AcqRel);
        (before & ENDED != 0).then_some(CALL)
    }

    #[inline]
    fn sit(&self, node: &WaitNode, who: impl FnOnce() -> Who) -> bool {
        self.receives
            && node.sit(who(), |node| {
                let (node, seen) = (node.expose_provenance() as u64, Ordering::Relaxed);
                // MUTANT(oneshot.sit): relaxed
                self.shared.word.compare_exchange(0, node, Ordering::Release, seen).is_ok()
            })
    }

    #[inline]
    fn stand_up(&self, node: &WaitNode) -> bool {
        node.stand_up(|node| {
            let node = node.addr() as u64;
            let is_here = |word: u64| (word & !LISTED == node).then_some(word & LISTED);
            // MUTANT(oneshot.stand_up): split
            self.shared.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_here).is_ok()
        })
    }

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}
