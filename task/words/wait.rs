//! The wait word: how a task or thread sleeps, and how exactly one other party wakes it.
//!
//! # Protocol
//!
//! A waiter first registers with what it waits for (a join word, a list). It then publishes PARKED
//! with one compare-and-swap, and leaves the processor. The party that **clears PARKED** has woken
//! the waiter, and must put it back into its home's queue, or unpark the thread. No other party may
//! do that. PARKED is one bit of one word, so there is exactly one such party: a grant, an unpark,
//! a wake, or an interruption.
//!
//! * A **grant** comes from the primitive, at most once for each registration. It either finds the
//!   waiter parked, and clears PARKED, or sets NOTIFIED. The waiter must collect NOTIFIED before it
//!   leaves the wait, as the granting thread may use the record until then.
//! * An **unpark** ends a wait of kind `Unpark`. Otherwise it is kept as TOKEN.
//! * A **wake**, by the waker of a future, ends a wait of kind `Wake`. Otherwise it is kept as
//!   WOKEN. It is a token of its own kind: wakers are foreign code, may be called at any time,
//!   also for futures that are long gone, and must not use up an unpark.
//! * An **interruption** ends a wait that may be cut short. It clears PARKED and leaves CUT, so the
//!   waiter knows that no grant woke it, and takes its registration back. If the registration is
//!   gone already, a grant is under way, and the waiter waits for it, shielded. The canceller has
//!   marked a node of the tree before (scheduler/cancel/mod.rs), and the waiter looks at that node
//!   after it has published its wait. The wait word itself does not remember a cancel.
//! * An external task ([`crate::scheduler::life::external`]) waits **before its start**, in no
//!   queue. The party that settles it clears PARKED together with OUTSIDE. It finds nothing to
//!   clear if an interruption was faster. The same is true if the task has started long ago and
//!   waits like any other task, in a destructor.
//!
//! # No wake-up is lost
//!
//! A grant and an unpark change the same word as the waiter's publication, so one of the two sees
//! the other. So does an interruption that finds the waiter parked. If it does not, the waiter
//! publishes later and then looks at its node. It sees the mark, which was made before: both are in
//! the total order of SeqCst.
//!
//! Orderings: publishing is `Release`, because the waker reads where the waiter's context is.
//! Waking is `AcqRel`: the waiter sees what the waker did before, through the queue that carries it
//! home.

use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{Bug, has, load_in_total_order};

const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;
const TOKEN: u32 = 4;
/// The present wait may not be interrupted.
const SHIELD: u32 = 16;
/// An unpark ends the present wait.
const UNPARKS: u32 = 32;
/// The wait was interrupted.
const CUT: u32 = 64;
/// The wait is that of an external task before its start. Set only together with PARKED.
const OUTSIDE: u32 = 128;
/// A waker was called while no wait of kind `Wake` was parked.
const WOKEN: u32 = 256;
/// A call of a waker ends the present wait.
const POLLS: u32 = 512;
/// The bits that are kept over waits that they do not end.
const KEPT: u32 = TOKEN | WOKEN;

/// The kinds of waits, by what ends them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitKind {
    /// A grant or an interruption.
    Grant,
    /// An unpark or an interruption.
    Unpark,
    /// A call of a waker, or an interruption.
    Wake,
    /// A grant only.
    Structured,
}

/// The result of publishing a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Publish {
    /// The waiter must leave the processor now.
    Parked,
    /// The grant or the token was there already and has been collected.
    Ready,
}

/// The party that woke a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    Granted,
    Interrupted,
}

/// The wait word of a task record or a thread.
pub(crate) struct WaitWord(AtomicU32);

impl WaitWord {
    #[inline]
    pub(crate) fn new() -> Self {
        WaitWord(AtomicU32::new(0))
    }

    /// Publishes a wait. Called by the waiter, which looks before and after whether it is
    /// cancelled.
    #[inline(always)]
    pub(crate) fn publish(&self, kind: WaitKind) -> Publish {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let kept = word & KEPT;
            let (new, answer) = match kind {
                WaitKind::Unpark if word & TOKEN != 0 => (kept & !TOKEN, Publish::Ready),
                WaitKind::Unpark => (kept | PARKED | UNPARKS, Publish::Parked),
                WaitKind::Wake if word & WOKEN != 0 => (kept & !WOKEN, Publish::Ready),
                WaitKind::Wake => (kept | PARKED | POLLS, Publish::Parked),
                _ if word & NOTIFIED != 0 => (kept, Publish::Ready),
                WaitKind::Grant => (kept | PARKED, Publish::Parked),
                WaitKind::Structured => (kept | PARKED | SHIELD, Publish::Parked),
            };
            // In the total order, like the load that the waiter makes next.
            // MUTANT(wait.publish): relaxed, split
            match self.0.compare_exchange_weak(word, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return answer,
                Err(now) => word = now,
            }
        }
    }

    /// Publishes the wait of an external task before its start. Called before any party other than
    /// a canceller knows the task.
    pub(crate) fn publish_outside(&self, may_be_cut: bool) {
        let shield = if may_be_cut { 0 } else { SHIELD };
        // In the total order, as in `publish`.
        let before = self.0.swap(PARKED | OUTSIDE | shield, Ordering::SeqCst);
        debug_assert_eq!(before, 0, "it has waited before");
    }

    /// Ends the wait of an external task before its start. Returns `true` if this call has ended
    /// it; then the caller has the task in hand.
    pub(crate) fn take_from_outside(&self) -> bool {
        let take = |word| (word & OUTSIDE != 0).then_some(word & !(PARKED | OUTSIDE));
        // MUTANT(wait.outside): split
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).is_ok()
    }

    /// Delivers the grant. Returns `true` if the caller must put the waiter back to work.
    #[inline]
    pub(crate) fn grant(&self) -> bool {
        let kept = if has(Bug::LostWake) { 0 } else { NOTIFIED };
        let grant = |word| Some(if word & PARKED != 0 { word & !PARKED } else { word | kept });
        // MUTANT(wait.grant): acquire, release, split
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grant);
        before.is_ok_and(|before| before & PARKED != 0)
    }

    /// Ends a park, or leaves a token for the next one. Returns `true` if the caller must put the
    /// waiter back to work.
    #[inline]
    pub(crate) fn unpark(&self) -> bool {
        self.wake_or_keep(UNPARKS, TOKEN)
    }

    /// Leaves the call of a waker. Returns `true` if the caller must put the waiter back to work.
    pub(crate) fn wake(&self) -> bool {
        self.wake_or_keep(POLLS, WOKEN)
    }

    /// Takes back the call that a waker has left. Returns whether there was one; then the caller
    /// sees what was done before that call.
    pub(crate) fn forget_wakes(&self) -> bool {
        let woken = self.0.load(Ordering::Relaxed) & WOKEN != 0;
        if woken {
            // MUTANT(wait.forget): relaxed, split
            self.0.fetch_and(!WOKEN, Ordering::AcqRel);
        }
        woken
    }

    #[inline(always)]
    fn wake_or_keep(&self, waits: u32, left: u32) -> bool {
        let wakes = |word| word & (PARKED | waits) == PARKED | waits;
        let leave = |word| Some(if wakes(word) { word & !PARKED } else { word | left });
        // MUTANT(wait.token): acquire, release, split
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, leave).is_ok_and(wakes)
    }

    /// Interrupts the present wait, if it may be interrupted. Returns `true` if the caller must put
    /// the waiter back to work. In the total order, after what the caller has announced before.
    pub(crate) fn interrupt(&self) -> bool {
        // MUTANT(wait.cut.look): relaxed
        let mut word = load_in_total_order(&self.0);
        while word & (PARKED | SHIELD) == PARKED {
            let new = (word & !(PARKED | OUTSIDE)) | CUT;
            // MUTANT(wait.cut): split
            match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Returns what ended the wait. Called by the waiter when it runs again.
    #[inline]
    pub(crate) fn woken(&self) -> Woken {
        let word = self.0.load(Ordering::Acquire);
        debug_assert!(word & PARKED == 0, "a waiter runs that nobody has woken");
        if word & CUT != 0 { Woken::Interrupted } else { Woken::Granted }
    }

    #[inline]
    pub(crate) fn is_parked(&self) -> bool {
        self.0.load(Ordering::Acquire) & PARKED != 0
    }

    /// Returns whether the task is parked in a wait of kind `Wake`.
    pub(crate) fn is_polling(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (PARKED | POLLS) == PARKED | POLLS
    }

    /// Returns whether an unpark is kept for the next wait of kind `Unpark`.
    pub(crate) fn has_token(&self) -> bool {
        self.0.load(Ordering::Relaxed) & TOKEN != 0
    }

    /// Returns whether a grant has come before the wait was published.
    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::Relaxed) & NOTIFIED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cut_ends_a_wait_once_and_leaves_the_next_one_alone() {
        let w = WaitWord::new();
        assert!(!w.interrupt(), "nobody waits");
        assert_eq!(w.publish(WaitKind::Unpark), Publish::Parked);
        assert!(w.interrupt());
        assert!(!w.interrupt());
        assert_eq!(w.woken(), Woken::Interrupted);
        assert!(!w.unpark());
        assert_eq!(w.publish(WaitKind::Unpark), Publish::Ready, "the token is kept");
        assert_eq!(w.publish(WaitKind::Unpark), Publish::Parked);
        assert!(w.unpark());
        assert_eq!(w.woken(), Woken::Granted);
    }

    #[test]
    fn a_structured_wait_is_not_cut() {
        let w = WaitWord::new();
        assert_eq!(w.publish(WaitKind::Structured), Publish::Parked);
        assert!(!w.interrupt());
        assert!(w.grant());
        assert_eq!(w.woken(), Woken::Granted);
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked, "nor is the next one");
    }

    #[test]
    fn a_waker_and_an_unpark_do_not_use_each_other_up() {
        let w = WaitWord::new();
        assert!(!w.wake() && !w.wake() && !w.unpark());
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked);
        assert!(!w.wake() && !w.unpark());
        assert!(w.grant());
        assert_eq!(w.publish(WaitKind::Wake), Publish::Ready);
        assert_eq!(w.publish(WaitKind::Wake), Publish::Parked);
        assert!(!w.unpark());
        assert!(w.wake());
        assert_eq!(w.woken(), Woken::Granted);
        assert_eq!(w.publish(WaitKind::Unpark), Publish::Ready);
        assert_eq!(w.publish(WaitKind::Unpark), Publish::Parked);
        assert!(!w.wake());
        assert!(w.interrupt());
        assert!(w.forget_wakes() && !w.forget_wakes());
        assert_eq!(w.publish(WaitKind::Wake), Publish::Parked);
        assert!(w.interrupt());
        assert_eq!(w.woken(), Woken::Interrupted);
    }

    #[test]
    fn an_external_task_is_taken_once_and_not_out_of_a_later_wait() {
        for may_be_cut in [true, false] {
            let w = WaitWord::new();
            w.publish_outside(may_be_cut);
            assert_eq!(w.interrupt(), may_be_cut);
            assert_eq!(w.take_from_outside(), !may_be_cut);
            assert!(!w.take_from_outside());
            assert!(!w.is_notified());
            // It has started, and waits in a destructor.
            assert_eq!(w.publish(WaitKind::Structured), Publish::Parked);
            assert!(!w.take_from_outside());
            assert!(w.is_parked());
        }
    }
}
