//! Those who wait at one end of a channel: senders for places, or receivers for values.
//!
//! # Who is served, and how
//!
//! A waiter is *called*, as those for a [semaphore](crate::sync::raw_semaphore) are: it is
//! woken, and tries then to put or take a value. Until it comes, its place or value is free, and
//! whoever runs may have it. If it finds nothing, it returns to the *front* of the line. So a value
//! does not lie idle until the worker of a sleeping receiver has woken up, nor a place while a
//! sender sleeps.
//!
//! Three things bound for how long a waiter can be passed:
//!
//! * A called waiter that comes in vain half a millisecond after it first did so is *overdue*.
//! * Once 4,096 values have passed a line since somebody was called from it, or came, its first
//!   waiter is overdue. The called ones may be kept by workers that compute; or each value may have
//!   been taken before its sender could look whether somebody waits.
//! * A task that sends or receives in a loop checks in now and then
//!   ([`check_in`](crate::scheduler::run_loop::check_in)), so a called waiter of its own worker comes. A
//!   future returns `Pending` once if 1,024 values have passed.
//!
//! While the first waiter is overdue the line is *strict*: nobody passes, and what becomes free is
//! set aside for that waiter, which is granted a *permit*. A line is always strict where those who
//! wait have to meet (a channel without room), and that of the receivers once the channel is
//! closed: they are then told of the end when the last value has been taken.
//!
//! # No wake-up is lost
//!
//! The invariant: *while the line is not empty, no more is free than waiters have been called; if
//! the line is strict, nothing is*. Four steps may break it. Each of them serves the line, under
//! the lock of the channel:
//!
//! * something becomes free: whoever has freed it looks whether somebody waits;
//! * a called waiter comes, or is cancelled on its way;
//! * a waiter leaves the line;
//! * a permit is given back.
//!
//! A waiter enters the line in the step that finds nothing. Where values pass without the lock, it
//! is announced first ([`Supply::announce`]), and then looks a last time; whoever frees something
//! looks for an announcement afterwards. Both are in the one total order, so one of the two sees
//! the other. What is free may be overestimated meanwhile: then a waiter is called in vain.
//!
//! # An end that one uses
//!
//! As long as an end has a single handle, and never two have waited there, a waiter is granted a
//! permit at once. Hardly anybody could pass it, and a waiter that comes with a permit need not
//! serve the line.

use super::word::{Told, distance};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Wakes};
use crate::shim::time::{Instant, now};
use crate::sync::passing::{self, HOGS};

/// The answer of a grant of a permit, ...
pub(super) const PERMIT: u32 = 0;
/// ... of one that tells of the end, ...
pub(super) const CLOSED: u32 = 1;
/// ... and of one that calls the waiter.
pub(super) const CALL: u32 = 2;

/// So many values may pass a line while nobody is served. In a model too many to hide a lost
/// wake-up.
pub(super) const PASSES: i64 = if cfg!(loom) { 8 } else { passing::PASSES as i64 };

/// Set in a node's token: the waiter is not passed any more.
const OVERDUE: u64 = 1;

/// The places of a channel, or the values that lie there. Used under the lock of the channel.
pub(super) trait Supply {
    /// How many there are that nobody has a permit for, or more.
    fn free(&self) -> usize;

    /// Sets one aside for a permit, if there is one.
    fn set_aside(&mut self) -> bool;

    /// Takes a permit back.
    fn take_back(&mut self);

    /// Whether nothing will ever be free again.
    fn is_over(&self) -> bool;

    /// Whether no waiter is passed.
    fn is_strict(&self) -> bool;

    /// How many have become free by now, as a position.
    fn position(&self) -> u64;

    /// Makes the state of the line known to those who come without the lock.
    fn announce(&self, told: Told);
}

/// What is waited for in a channel of either kind. A `dyn Supply` would be shorter, and adds a tenth to
/// the instructions of a wait.
pub(super) enum Either<R, Q> {
    Ring(R),
    Queue(Q),
}

macro_rules! either {
    ($self:ident, $supply:ident => $value:expr) => {
        match $self {
            Either::Ring($supply) => $value,
            Either::Queue($supply) => $value,
        }
    };
}

impl<R: Supply, Q: Supply> Supply for Either<R, Q> {
    #[inline]
    fn free(&self) -> usize {
        either!(self, supply => supply.free())
    }

    #[inline]
    fn set_aside(&mut self) -> bool {
        either!(self, supply => supply.set_aside())
    }

    #[inline]
    fn take_back(&mut self) {
        either!(self, supply => supply.take_back());
    }

    #[inline]
    fn is_over(&self) -> bool {
        either!(self, supply => supply.is_over())
    }

    #[inline]
    fn is_strict(&self) -> bool {
        either!(self, supply => supply.is_strict())
    }

    #[inline]
    fn position(&self) -> u64 {
        either!(self, supply => supply.position())
    }

    #[inline]
    fn announce(&self, told: Told) {
        either!(self, supply => supply.announce(told));
    }
}

pub(crate) struct Line {
    waiting: WaitList,
    /// Those who have been called and have not come yet.
    called: usize,
    /// The position at which the line began, or one of them was served last, or has come.
    since: u64,
    /// Several use this end, or have done so.
    is_shared: bool,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { waiting: WaitList::new(), called: 0, since: 0, is_shared: false }
    }

    /// Another handle of this end is there.
    pub(super) fn is_cloned(&mut self) {
        self.is_shared = true;
    }

    pub(super) fn waiting(&mut self) -> &mut WaitList {
        &mut self.waiting
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn places(&self) -> Vec<String> {
        self.waiting.places()
    }

    /// Whether newcomers do not pass.
    pub(super) fn is_strict(&self, supply: &impl Supply) -> bool {
        self.waiting.first().is_some_and(|first| is_overdue(first) || supply.is_strict())
    }

    /// Whether called waiters have been passed so often that the caller may have their executor.
    pub(super) fn is_hogged(&self, supply: &impl Supply) -> bool {
        // MUTANT(line.hogged): false
        self.called > 0 && distance(self.since, supply.position()) >= HOGS.into()
    }

    fn announce(&self, supply: &impl Supply) {
        supply.announce(match self.waiting.is_empty() {
            true => Told::NOBODY,
            false => Told::new(self.is_strict(supply), self.called, self.since),
        });
    }

    /// Gives a node what it asks for, or tells it of the end. Otherwise the caller pushes the node,
    /// or calls [`serve`](Line::serve).
    pub(super) fn enter(&mut self, supply: &mut impl Supply, node: &WaitNode) -> Option<u32> {
        self.is_shared |= !self.waiting.is_empty();
        if self.waiting.is_empty() && self.called == 0 {
            self.since = supply.position();
        }
        let was_strict = self.is_strict(supply);
        let is_first = returns(node) || self.waiting.is_empty();
        let may_take = returns(node) || !was_strict;
        let is_strict = match is_first {
            true => is_overdue(node) || supply.is_strict(),
            false => was_strict,
        };
        supply.announce(Told::new(is_strict, self.called, self.since));
        // One that fails to set aside what was free a moment ago hides something from others meanwhile, so it looks again.
        let mut served = false;
        while may_take && !served && supply.free() > 0 && !supply.is_over() {
            served = supply.set_aside();
        }
        let answer = match served {
            true => PERMIT,
            false if supply.is_over() => CLOSED,
            false => return None,
        };
        self.announce(supply);
        Some(answer)
    }

    /// Calls waiters, or grants them permits, or tells all of the end.
    pub(super) fn serve(&mut self, supply: &mut impl Supply, wakes: &mut Wakes) {
        loop {
            while let Some(answer) = self.answer_first(supply) {
                self.waiting.grant_first(answer).into_iter().for_each(|wake| wakes.add(wake));
                self.called += usize::from(answer == CALL);
                if answer == CALL || !self.waiting.is_empty() {
                    self.since = supply.position();
                }
            }
            if let Some(first) = self.waiting.first()
                && !is_overdue(first)
                && distance(self.since, supply.position()) >= PASSES
            {
                first.token.set(OVERDUE);
                continue;
            }
            if !self.waiting.is_empty() && supply.is_over() {
                self.waiting.grant_all(CLOSED, wakes);
            }
            self.announce(supply);
            // Something may have become free before that was known.
            let kept = if self.is_strict(supply) { 0 } else { self.called };
            if self.waiting.is_empty() || supply.free() <= kept {
                return;
            }
        }
    }

    /// What to say to the first waiter at present. Sets aside what it is granted.
    fn answer_first(&self, supply: &mut impl Supply) -> Option<u32> {
        self.waiting.first()?;
        let free = supply.free();
        if !self.is_shared || self.is_strict(supply) {
            return (free > 0 && supply.set_aside()).then_some(PERMIT);
        }
        (free > self.called).then_some(CALL)
    }

    /// Sets one aside for the caller, who does not wait, if there is more than waiters are to have.
    pub(super) fn ask(&mut self, supply: &mut impl Supply, wakes: &mut Wakes) -> bool {
        self.serve(supply, wakes);
        let got = !self.is_strict(supply) && supply.set_aside();
        if !got {
            // It may have hidden something from others meanwhile.
            self.serve(supply, wakes);
        }
        got
    }

    /// A permit is not used.
    pub(super) fn take_back(&mut self, supply: &mut impl Supply, wakes: &mut Wakes) {
        supply.take_back();
        // MUTANT(line.take_back): skip
        self.serve(supply, wakes);
    }

    /// A called waiter has come, for a permit.
    #[cfg(feature = "futures")]
    pub(super) fn came_for_permit(&mut self, supply: &mut impl Supply, wakes: &mut Wakes) -> bool {
        let got = supply.set_aside();
        self.came(supply, wakes);
        got
    }

    /// A called waiter has come, or will not.
    pub(super) fn came(&mut self, supply: &mut impl Supply, wakes: &mut Wakes) {
        self.called -= 1;
        self.since = supply.position();
        if !self.waiting.is_empty() {
            // MUTANT(line.came): skip
            self.serve(supply, wakes);
        }
    }
}

/// Whether a node was called in vain.
pub(super) fn returns(node: &WaitNode) -> bool {
    node.answer() == CALL
}

/// Since when a waiter has been passed.
#[derive(Default)]
pub(super) struct Passed(Option<Instant>);

impl Passed {
    /// Notes that a called waiter has found nothing.
    pub(super) fn again(&mut self, node: &WaitNode) {
        if passing::is_overdue(*self.0.get_or_insert_with(now)) {
            node.token.set(OVERDUE);
        }
    }
}

fn is_overdue(node: &WaitNode) -> bool {
    node.token.get() & OVERDUE != 0
}
