//! A group of barriers that are waited for together: a list of waiters, and a watcher in each
//! member.
//!
//! A waiter enters the group's list, and arms the watcher in each member that has not reached its
//! number. A member that reaches the number, or ends, calls the watcher. The watcher looks again:
//! it grants the waiters with numbers that all members have published, and arms itself for the
//! nearest of the other numbers. So a wait needs no task, and has one node, whatever the number of
//! members. A waiter for a single member is in the list of that member, and is not affected by the
//! group.
//!
//! # The locks
//!
//! The group's lock is taken before a member's, and held while the watcher is armed. A member calls
//! the watcher when its own lock is free, and the watcher then takes the group's lock. So a waiter
//! is in the list before any member that it has armed can look for it there.
//!
//! # No wake-up is lost
//!
//! As in a [barrier](super::raw_barrier): arm, fence, look. The watcher in a member is armed for
//! the nearest number in the list, or has just been called and will look again.

use super::arithmetic::{Sequence, nearest};
use super::awaited::{Awaited, CLOSED, Numbers, Options, PUBLISHED};
use super::barrier::SequenceBarrier;
use super::raw_barrier::{End, Fences, Watcher, target_of};
use super::spinning::Learned;
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Waitable, Wakes, with_wakes};
use crate::shim::{Mutex, MutexGuard};
use std::sync::{Arc, Weak};

pub(super) struct RawGroup<S: Sequence> {
    pub(super) members: Box<[SequenceBarrier<S>]>,
    waiters: Mutex<WaitList>,
    /// This group.
    watcher: Weak<dyn Watcher>,
    pub(super) options: Options,
    learned: Learned,
}

impl<S: Sequence> RawGroup<S> {
    pub(super) fn new(members: Box<[SequenceBarrier<S>]>, options: Options) -> Arc<RawGroup<S>> {
        let group = Arc::new_cyclic(|this: &Weak<RawGroup<S>>| RawGroup {
            members,
            waiters: Mutex::new(WaitList::new()),
            watcher: this.clone(),
            options,
            learned: Learned::default(),
        });
        group.members.iter().for_each(|member| member.raw().watch(group.watcher.clone()));
        group
    }

    pub(super) fn locations(&self) -> Vec<String> {
        self.state().locations()
    }
}

/// The last number that all members have published. There is at least one member.
#[inline(always)]
pub(super) fn minimum<S: Sequence>(members: &[SequenceBarrier<S>]) -> S {
    let mut least = members[0].last_published();
    for member in &members[1..] {
        let last = member.last_published();
        if last.precedes(least) {
            least = last;
        }
    }
    least
}

/// Arms a watcher in all members that have not published `at`. The caller must look again
/// afterwards, as they may have published it meanwhile.
pub(super) fn arm<S: Sequence>(members: &[SequenceBarrier<S>], watcher: &Weak<dyn Watcher>, at: S) {
    for member in members {
        if member.last_published().precedes(at) {
            member.raw().arm(watcher, at);
        }
    }
    let both = members.iter().all(|member| member.raw().fences == Fences::Both);
    // MUTANT(group.arm.fence): skip
    if both { Fences::Both.waiter() } else { Fences::Waiters.waiter() }
}

impl<S: Sequence> Watcher for RawGroup<S> {
    fn progress(&self) {
        with_wakes(&self.waiters, |waiters, wakes| {
            loop {
                waiters.grant_those(|node| self.answer(target_of(node)), wakes);
                let last = self.published();
                let Some(nearest) = nearest(waiters.iter().map(target_of), last) else { break };
                arm(&self.members, &self.watcher, nearest);
                // MUTANT(group.progress.look): true
                if self.answer(nearest).is_none() {
                    break;
                }
            }
        });
    }
}

impl<S: Sequence> Waitable for RawGroup<S> {
    type State = WaitList;
    const WHAT: &'static str = "a number of a group of barriers";

    fn state(&self) -> MutexGuard<'_, WaitList> {
        self.waiters.lock()
    }

    fn waiters(state: &mut WaitList) -> &mut WaitList {
        state
    }

    fn try_enter(&self, waiters: &mut WaitList, node: &WaitNode, _: &mut Wakes) -> Option<u32> {
        let target = target_of(node);
        if let Some(answer) = self.answer(target) {
            return Some(answer);
        }
        let last = self.published();
        let others = waiters.iter().map(target_of);
        let nearest = nearest(others.chain([target]), last).expect("the new target is one");
        arm(&self.members, &self.watcher, nearest);
        // MUTANT(group.enter.look): with None
        self.answer(target)
    }

    /// A grant takes nothing.
    fn give_back(&self, _: &WaitNode) {}
}

impl<S: Sequence> Numbers for RawGroup<S> {
    type Number = S;

    #[inline(always)]
    fn published(&self) -> S {
        minimum(&self.members)
    }

    /// A number that all members have published is an answer, even if some are closed. Otherwise
    /// the wait ends if a member is closed, or has finished before that number.
    fn answer(&self, target: S) -> Option<u32> {
        let (mut reached, mut ended) = (true, false);
        for member in &self.members {
            let end = member.raw().ended();
            let short = member.last_published().precedes(target);
            reached &= !short;
            ended |= end == End::Closed || short && end == End::Finished;
        }
        if reached { Some(PUBLISHED) } else { ended.then_some(CLOSED) }
    }
}

impl<S: Sequence> Awaited for RawGroup<S> {
    fn manner(&self) -> (Options, &Learned) {
        (self.options, &self.learned)
    }

    fn close(&self) {
        self.members.iter().for_each(SequenceBarrier::close);
    }
}
