//! The wait word: how one task or thread sleeps and how exactly one other party wakes it.
//!
//! # Protocol
//!
//! A waiter first makes itself known to what it waits for (a join word, a list), then publishes
//! PARKED with one compare-and-swap, then leaves the processor. Whoever **clears PARKED** has woken
//! it and must put it back into its home's queue (or unpark the thread); nobody else may. Since
//! PARKED is one bit of one word, that is one party: a grant, an unpark, or a cancel.
//!
//! * A **grant** comes from the primitive, at most once for each registration, and finds the
//!   waiter parked (clears PARKED) or not (sets NOTIFIED, which the waiter must collect before it
//!   may leave the wait: until then the granter may still touch the record).
//! * An **unpark** ends a wait of kind `Permit` and is kept as TOKEN otherwise.
//! * A **wake**, of a future's waker, ends a wait of kind `Wake` and is kept as WOKEN otherwise. It is a permit of its own kind: wakers
//!   are foreign, may be called at any time and for what is long over, and must not use up an unpark.
//! * A **cut** ends a wait that may be cut short: it clears PARKED and leaves CUT, so that the waiter knows
//!   that no grant woke it and that it must take its registration back. If the registration is gone already, a
//!   grant is under way, and the waiter waits for it (shielded). Who cuts has marked a node of the tree before
//!   (scheduler/cancel/mod.rs), and the waiter looks at the node when it has published: no word of this kind
//!   remembers a cancel.
//!
//! * An external task ([`crate::scheduler::life::external`]) waits **before its start**, outside of all queues. Whoever
//!   settles it clears PARKED together with OUTSIDE, and finds nothing to clear any more if a cut was faster, or when
//!   the task has long started, and may wait as any other (in a destructor).
//!
//! * A **shield** can be put over a parked wait by its home worker while a guest uses the waiter's
//!   stack, and taken off again; a cut that came meanwhile (it leaves LATE) is then made.
//!
//! No wake is lost: a grant and an unpark change the same word as the waiter's publication, so one of
//! the two sees the other. A cut does so if it finds the waiter parked; if not, then the waiter, which
//! publishes and then looks at its node, sees the mark that was made before (both in the total order of
//! SeqCst). Orderings: publishing is `Release` (the waker reads the place where
//! the waiter's context is), waking is `AcqRel` (what the waker did before is seen by the waiter,
//! through the queue that carries it home).

use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{Bug, has, load_in_total_order};

const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;
const TOKEN: u32 = 4;
/// A cut has found the wait shielded.
const LATE: u32 = 8;
/// The wait under way may not be cut short.
const SHIELD: u32 = 16;
/// The wait under way ends with an unpark.
const PERMIT: u32 = 32;
/// The wait was cut short.
const CUT: u32 = 64;
/// The wait is that of an external task before its start. Only together with PARKED.
const OUTSIDE: u32 = 128;
/// A waker was called outside of a wait for it.
const WOKEN: u32 = 256;
/// The wait under way ends with a call of a waker.
const POLLS: u32 = 512;
/// What is kept over waits that it does not end.
const KEPT: u32 = TOKEN | WOKEN;

/// What ends a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitKind {
    /// A grant or a cut.
    Grant,
    /// An unpark or a cut.
    Permit,
    /// A call of a waker, or a cut.
    Wake,
    /// A grant, and nothing else.
    Structured,
}

/// What publishing a wait came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Publish {
    /// The waiter must leave the processor now.
    Parked,
    /// The grant or the permit was there already and has been collected.
    Ready,
}

/// What woke a waiter.
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

    /// Publishes a wait. For the waiter only, who looks whether it is cancelled before and after.
    #[inline]
    pub(crate) fn publish(&self, kind: WaitKind) -> Publish {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let kept = word & KEPT;
            let (new, answer) = match kind {
                WaitKind::Permit if word & TOKEN != 0 => (kept & !TOKEN, Publish::Ready),
                WaitKind::Permit => (kept | PARKED | PERMIT, Publish::Parked),
                WaitKind::Wake if word & WOKEN != 0 => (kept & !WOKEN, Publish::Ready),
                WaitKind::Wake => (kept | PARKED | POLLS, Publish::Parked),
                _ if word & NOTIFIED != 0 => (kept, Publish::Ready),
                WaitKind::Grant => (kept | PARKED, Publish::Parked),
                WaitKind::Structured => (kept | PARKED | SHIELD, Publish::Parked),
            };
            // In the total order, as what the waiter looks at next.
            // MUTANT(wait.publish): relaxed, split
            match self.0.compare_exchange_weak(word, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return answer,
                Err(now) => word = now,
            }
        }
    }

    /// Publishes the wait of an external task before its start. Before anybody but cancels knows it.
    pub(crate) fn publish_outside(&self, may_be_cut: bool) {
        let shield = if may_be_cut { 0 } else { SHIELD };
        // In the total order, as in `publish`.
        let before = self.0.swap(PARKED | OUTSIDE | shield, Ordering::SeqCst);
        debug_assert_eq!(before, 0, "it has waited before");
    }

    /// Ends such a wait; true if the caller has the task in hand. It does nothing if somebody else has ended it.
    pub(crate) fn take_from_outside(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & OUTSIDE != 0 {
            let new = word & !(PARKED | OUTSIDE);
            // MUTANT(wait.outside): split
            match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Delivers the grant; true if the caller must put the waiter back to work.
    #[inline]
    pub(crate) fn grant(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let kept = if has(Bug::LostWake) { 0 } else { NOTIFIED };
            let new = if word & PARKED != 0 { word & !PARKED } else { word | kept };
            // MUTANT(wait.grant): acquire, release, split
            match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return word & PARKED != 0,
                Err(now) => word = now,
            }
        }
    }

    /// Leaves a permit; true if the caller must put the waiter back to work.
    #[inline]
    pub(crate) fn unpark(&self) -> bool {
        self.permit(PERMIT, TOKEN)
    }

    /// The same of a waker.
    pub(crate) fn wake(&self) -> bool {
        self.permit(POLLS, WOKEN)
    }

    /// Takes back what a waker has left, if one has; whether that is so. What was done before its call is seen then.
    pub(crate) fn forget_wakes(&self) -> bool {
        let woken = self.0.load(Ordering::Relaxed) & WOKEN != 0;
        if woken {
            // MUTANT(wait.forget): relaxed, split
            self.0.fetch_and(!WOKEN, Ordering::AcqRel);
        }
        woken
    }

    #[inline(always)]
    fn permit(&self, waits: u32, left: u32) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let wakes = word & (PARKED | waits) == PARKED | waits;
            let new = if wakes { word & !PARKED } else { word | left };
            // MUTANT(wait.permit): acquire, release, split
            match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return wakes,
                Err(now) => word = now,
            }
        }
    }

    /// Cuts the present wait short, if it may be; true if the caller must put the waiter back to work. In
    /// the total order, after what the caller has announced before.
    pub(crate) fn interrupt(&self) -> bool {
        // MUTANT(wait.cut.look): relaxed
        let mut word = load_in_total_order(&self.0);
        while word & PARKED != 0 && word & LATE == 0 {
            let cuts = word & SHIELD == 0;
            let new = if cuts { (word & !(PARKED | OUTSIDE)) | CUT } else { word | LATE };
            // MUTANT(wait.cut): split
            match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return cuts,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Keeps a parked waiter from being woken by a cut; says whether that is new, or nothing if the
    /// waiter is not parked any more.
    ///
    /// For its home worker, which wants to use the waiter's stack meanwhile. A grant must be out of
    /// the question, and the wait must not be one for a permit or a waker.
    pub(crate) fn shield(&self) -> Option<bool> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & (PARKED | PERMIT | POLLS) == PARKED {
            // MUTANT(wait.shield): split
            match self.0.compare_exchange_weak(
                word,
                word | SHIELD,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(word & SHIELD == 0),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Takes the shield from a wait that had none of its own; true if a cut came meanwhile, has now been
    /// made, and the caller must put the waiter back to work.
    pub(crate) fn unshield(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & PARKED != 0 {
            let cuts = word & LATE != 0;
            let bare = word & !(SHIELD | LATE);
            let new = if cuts { (bare & !PARKED) | CUT } else { bare };
            // MUTANT(wait.unshield): split
            match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return cuts,
                Err(now) => word = now,
            }
        }
        // Granted: whatever is left of the word's bits is replaced by the next wait.
        false
    }

    /// What ended the wait. For the waiter, once it runs again.
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

    /// Whether a grant has come before the wait was published.
    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::Relaxed) & NOTIFIED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_grant_wakes_a_parked_waiter_once() {
        let w = WaitWord::new();
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked);
        assert!(w.grant());
        assert_eq!(w.woken(), Woken::Granted);
    }

    #[test]
    fn a_grant_before_the_wait_is_collected_by_it() {
        let w = WaitWord::new();
        assert!(!w.grant());
        assert_eq!(w.publish(WaitKind::Grant), Publish::Ready);
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked);
    }

    #[test]
    fn an_unpark_before_the_park_is_kept_and_does_not_add_up() {
        let w = WaitWord::new();
        assert!(!w.unpark());
        assert!(!w.unpark());
        assert_eq!(w.publish(WaitKind::Permit), Publish::Ready);
        assert_eq!(w.publish(WaitKind::Permit), Publish::Parked);
        assert!(w.unpark());
    }

    #[test]
    fn an_unpark_does_not_end_another_kind_of_wait_but_is_kept() {
        let w = WaitWord::new();
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked);
        assert!(!w.unpark());
        assert!(w.grant());
        assert_eq!(w.publish(WaitKind::Permit), Publish::Ready);
    }

    #[test]
    fn a_cut_ends_a_wait_once_and_leaves_the_next_one_alone() {
        let w = WaitWord::new();
        assert!(!w.interrupt(), "nobody waits");
        assert_eq!(w.publish(WaitKind::Permit), Publish::Parked);
        assert!(w.interrupt());
        assert!(!w.interrupt());
        assert_eq!(w.woken(), Woken::Interrupted);
        assert!(!w.unpark());
        assert_eq!(w.publish(WaitKind::Permit), Publish::Ready, "the permit is kept");
        assert_eq!(w.publish(WaitKind::Permit), Publish::Parked);
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
    fn a_cut_under_a_shield_is_made_when_the_shield_is_taken_off() {
        let w = WaitWord::new();
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked);
        assert_eq!(w.shield(), Some(true));
        assert_eq!(w.shield(), Some(false));
        assert!(!w.interrupt());
        assert!(!w.interrupt());
        assert!(w.unshield());
        assert_eq!(w.woken(), Woken::Interrupted);
    }

    #[test]
    fn a_grant_under_a_shield_wakes_and_leaves_nothing_to_take_off() {
        let w = WaitWord::new();
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked);
        assert_eq!(w.shield(), Some(true));
        assert!(w.grant());
        assert!(!w.unshield());
        assert_eq!(w.woken(), Woken::Granted);
    }

    #[test]
    fn a_wait_for_a_permit_or_none_at_all_takes_no_shield() {
        let w = WaitWord::new();
        assert_eq!(w.shield(), None);
        assert_eq!(w.publish(WaitKind::Permit), Publish::Parked);
        assert_eq!(w.shield(), None);
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
        assert_eq!(w.shield(), None);
        assert!(!w.unpark());
        assert!(w.wake());
        assert_eq!(w.woken(), Woken::Granted);
        assert_eq!(w.publish(WaitKind::Permit), Publish::Ready);
        assert_eq!(w.publish(WaitKind::Permit), Publish::Parked);
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

    #[test]
    fn a_grant_that_comes_after_the_cut_is_collected_by_a_structured_wait() {
        let w = WaitWord::new();
        assert_eq!(w.publish(WaitKind::Grant), Publish::Parked);
        assert!(w.interrupt());
        assert!(!w.grant());
        assert_eq!(w.publish(WaitKind::Structured), Publish::Ready);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::shim::{Arc, thread};

    /// An external task: whoever clears PARKED has it to itself, the one that settles it or a cancel; also if the
    /// cancel comes when it is about to be published.
    #[test]
    fn loom_an_external_task_is_settled_or_cut() {
        use crate::shim::atomic::{AtomicBool, Ordering};
        use crate::shim::load_in_total_order;
        loom::model(|| {
            let shared = Arc::new((WaitWord::new(), AtomicBool::new(false)));
            let canceller = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // The mark of its node.
                    shared.1.swap(true, Ordering::SeqCst);
                    shared.0.interrupt()
                })
            };
            let (word, mark) = &*shared;
            word.publish_outside(true);
            let by_publisher = load_in_total_order(mark) && word.interrupt();
            let settler = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.0.take_from_outside())
            };
            let settled = settler.join().unwrap();
            let cut = canceller.join().unwrap();
            let winners = [by_publisher, settled, cut].into_iter().filter(|won| *won).count();
            assert_eq!(winners, 1, "by the publisher {by_publisher}, settled {settled}, cut {cut}");
        });
    }

    /// Exactly one party wakes a shielded waiter whose wait is cut at any moment.
    #[test]
    fn loom_a_cut_and_a_shield_wake_once() {
        loom::model(|| {
            let word = Arc::new(WaitWord::new());
            assert_eq!(word.publish(WaitKind::Grant), Publish::Parked);
            let cutter = {
                let word = Arc::clone(&word);
                thread::spawn(move || word.interrupt())
            };
            let shielded = word.shield();
            let by_unshield = shielded == Some(true) && word.unshield();
            let by_cutter = cutter.join().unwrap();
            if by_cutter || by_unshield {
                assert!(by_cutter != by_unshield, "woken twice");
                assert_eq!(word.woken(), Woken::Interrupted);
            } else {
                // Never: the cut is over, and no shield is left.
                panic!("the cut is lost");
            }
        });
    }
}
