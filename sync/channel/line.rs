//! The waiters at one end of a channel: senders that wait for a *place*, which is room for one
//! value, or receivers that wait for a value.
//!
//! # How a waiter is served
//!
//! A waiter is *called*, as in a [semaphore](crate::sync::raw_semaphore): it is woken, and then
//! tries to put or take a value itself. Until it comes, its place or value stays free, and any
//! running caller may take it. This is *barging*. A called waiter that finds nothing returns to the
//! *front* of the line. So no value lies idle until the worker of a sleeping receiver has woken up,
//! and no place until a sleeping sender has.
//!
//! Three rules bound how long a waiter can be passed:
//!
//! * A called waiter that finds nothing half a millisecond after it first did so is *overdue*.
//! * Once 4,096 values have passed a line since a waiter was last called, or last came, the first
//!   waiter is overdue. Called waiters may be held up by workers that compute, or each value may
//!   have been taken before its sender could look for waiters.
//! * A task that sends or receives in a loop checks in now and then
//!   ([`check_in`](crate::scheduler::run_loop::check_in)), so a called waiter of its own worker
//!   comes. A future returns `Pending` once if 1,024 values have passed called waiters.
//!
//! While the first waiter is overdue, the line is *strict*: no caller passes, and what becomes free
//! is set aside for that waiter, which is granted a *permit*. Both lines of a channel without room
//! are always strict, because senders and receivers have to meet there. The receivers' line of a
//! closed channel is strict as well: receivers are told of the end when the last value has been
//! taken.
//!
//! # No wake-up is lost
//!
//! The invariant: *while the line is not empty, no more is free than waiters have been called; if
//! the line is strict, nothing is free*. Four steps may break it, and each then serves the line
//! under the lock of the channel, or calls the waiter in the seat (see below):
//!
//! * Something becomes free: the caller that has freed it looks for waiters.
//! * A called waiter comes, or is cancelled on its way.
//! * A waiter leaves the line.
//! * A permit is given back.
//!
//! A waiter enters the line in the step that finds nothing. Where values pass without the lock, the
//! waiter is first announced ([`Supply::announce`]), and then looks a last time; a caller that
//! frees something looks for an announcement afterwards. Both are in the one total order, so at
//! least one of the two sees the other. In the meantime more may seem free than is; then a called
//! waiter finds nothing.
//!
//! # An end with one user
//!
//! As long as an end has a single handle, and two waiters have never met in the line, hardly any
//! caller could pass a waiter. Two things are then cheaper:
//!
//! * **The seat.** At an end of a ring, a task or thread that finds the line empty waits without
//!   the lock (not a sender beside a ring that overflows, as those use the lock anyway): it puts
//!   the address of its node into the notice, by a compare-and-swap from 0, and then looks a last
//!   time. Whoever takes the address out again has the node. That is the waiter itself when it
//!   gives up, or a caller that has freed something and answers [`CALL_FROM_SEAT`], both by a
//!   compare-and-swap to 0. Or it is the holder of the lock, who blocks the seat by a swap before
//!   it changes an empty line, and lets the node enter the line ([`Line::admit`]). The announcement
//!   of an empty line frees the seat. Nobody else writes over a seat that is not blocked. No
//!   wake-up is lost: the waiter looks after it has sat down, and a caller that frees something
//!   looks at the notice afterwards, where it finds the waiter, or a blocked seat, and then comes
//!   for the lock.
//! * A waiter in the line is granted a permit at once. It need not serve the line when it comes.
//!
//! A sender that finds a receiver in the seat **hands its value over**: it takes the node out, and
//! if the ring is open and empty and no sender waits, it moves the value into the receiver's cell
//! and answers [`MOVED`]. The value counts as received, even if the receiver is cancelled before it
//! runs. While the sender looks, the receiver is in its hands, so it cannot be told of the end
//! before. The value passes none whose send had returned before this send began: such a value is
//! counted in the tail that this sender reads, and has been taken if the head has come as far. If
//! another value is put in after that, its send overlaps with this one, so their order is free.
//!
//! A waiter that was called from the seat tries to put or take a value like any caller. It counts
//! as one that has left: what was freed for it stays free until somebody takes it, and whoever
//! waits later finds it at the last look. So it has nothing to give back if it is cancelled. If it
//! finds nothing, it enters the line at the front. Each end notes when a waiter was called from its
//! seat, so that a future that goes on passing it returns `Pending` once, as above.

use super::word::{LineState, distance};
use crate::scheduler::wait::waiters::{WaitList, WaitNode, Wake, Wakes};
use crate::shim::time::{Instant, now};
use crate::sync::passing::{self, HOGS};
use std::pin::Pin;
use std::ptr;

/// The answer that grants a permit.
pub(super) const PERMIT: u32 = 0;
/// The answer that tells a waiter of the end.
pub(super) const CLOSED: u32 = 1;
/// The answer that calls a waiter.
pub(super) const CALL: u32 = 2;

/// The answer that tells a waiter that its value has been moved.
pub(super) const MOVED: u32 = 3;
/// The answer that calls the waiter in the seat, who is then not counted as called.
pub(super) const CALL_FROM_SEAT: u32 = 4;

/// Values that may pass a line while no waiter is served. In a model, more than could hide a lost
/// wake-up.
pub(super) const PASSES: i64 = if cfg!(loom) { 8 } else { passing::PASSES as i64 };

/// Set in a node's token: the waiter may not be passed any more.
const OVERDUE: u64 = 1;

/// One side of a channel, with the end that its callers use and the line in which they wait.
pub(super) trait Side {
    type Other: Side;

    /// Names what the callers wait for, for reports.
    const WHAT: &'static str;
    /// The callers send. Those of the other side receive.
    const SENDS: bool;

    fn line(ends: &mut Ends) -> &mut Line;
}

pub(super) struct Senders;

impl Side for Senders {
    type Other = Receivers;

    const WHAT: &'static str = "room in a channel";
    const SENDS: bool = true;

    fn line(ends: &mut Ends) -> &mut Line {
        &mut ends.senders
    }
}

pub(super) struct Receivers;

impl Side for Receivers {
    type Other = Senders;

    const WHAT: &'static str = "a value of a channel";
    const SENDS: bool = false;

    fn line(ends: &mut Ends) -> &mut Line {
        &mut ends.receivers
    }
}

/// What the callers of a side wait for: the places of a channel, or its values. Requires the
/// channel's lock.
pub(super) trait Supply {
    /// Returns how many have no permit out, or a greater number.
    fn free(&self) -> usize;

    /// Sets one aside for a permit. Returns `false` if there is none.
    fn set_aside(&mut self) -> bool;

    /// Takes a permit back.
    fn take_back(&mut self);

    /// Returns whether nothing will ever be free again.
    fn is_over(&self) -> bool;

    /// Returns whether no waiter may be passed, overdue or not.
    fn is_strict(&self) -> bool;

    /// Returns how many more will come to those that are called, when the present ones are gone.
    fn beyond(&self) -> usize {
        0
    }

    /// Returns whether a waiter that has the end for itself is granted a permit at once. A permit
    /// that is used late hides what comes after it, if that is [`beyond`](Supply::beyond).
    fn grants_at_once(&self) -> bool {
        true
    }

    /// Returns how many have become free so far, as a position.
    fn position(&self) -> u64;

    /// Blocks the seat until the line is announced as empty, and returns the node in it.
    fn block_seat(&mut self) -> Option<*const WaitNode> {
        None
    }

    /// Announces the state of the line, where callers come without the lock.
    fn announce(&self, _state: LineState) {}
}

/// The waiters at both ends. Under the lock.
pub(crate) struct Ends {
    pub(super) senders: Line,
    pub(super) receivers: Line,
}

pub(crate) struct Line {
    waiting: WaitList,
    /// Waiters that have been called and have not come yet.
    called: usize,
    /// The position at which the line began, a waiter was last served, or a called waiter last
    /// came.
    since: u64,
    /// Several callers use this end, or have done so.
    is_shared: bool,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { waiting: WaitList::new(), called: 0, since: 0, is_shared: false }
    }

    /// Notes that this end has got another handle.
    pub(super) fn is_cloned(&mut self) {
        self.is_shared = true;
    }

    pub(super) fn waiting(&mut self) -> &mut WaitList {
        &mut self.waiting
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn locations(&self) -> Vec<String> {
        self.waiting.locations()
    }

    /// Returns whether newcomers must queue up.
    pub(super) fn is_strict<P: Supply + ?Sized>(&self, supply: &P) -> bool {
        self.waiting.first().is_some_and(|first| is_overdue(first) || supply.is_strict())
    }

    /// Returns whether called waiters have been passed so often that the caller should let others
    /// of its executor run.
    pub(super) fn is_hogged<P: Supply + ?Sized>(&self, supply: &P) -> bool {
        // MUTANT(line.hogged): false
        self.called > 0 && distance(self.since, supply.position()) >= HOGS.into()
    }

    pub(super) fn announce<P: Supply + ?Sized>(&self, supply: &P) {
        supply.announce(match self.waiting.is_empty() {
            true if self.is_shared => LineState::NO_SEAT,
            true => LineState::EMPTY,
            false => LineState::new(self.is_strict(supply), self.called, self.since),
        });
    }

    /// Lets the waiter in the seat enter the line. Must run before the line is changed, unless it
    /// is known not to be empty: then the seat is blocked. The caller announces the line
    /// afterwards.
    pub(super) fn admit<P: Supply + ?Sized>(&mut self, supply: &mut P) {
        if !self.waiting.is_empty() {
            return;
        }
        if let Some(node) = supply.block_seat() {
            self.since = supply.position();
            // SAFETY: the node is pinned, and the waiter stays until it is granted, or has taken
            // the node out under the lock, which the caller has.
            self.waiting.push(unsafe { Pin::new_unchecked(&*node) }, false);
        }
    }

    /// Gives a node what it asks for, or tells it of the end, and returns the answer. If there is
    /// none, the caller pushes the node, or, if the node may not wait, calls
    /// [`serve`](Line::serve).
    pub(super) fn enter<P: Supply + ?Sized>(
        &mut self,
        supply: &mut P,
        node: &WaitNode,
    ) -> Option<u32> {
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
        supply.announce(LineState::new(is_strict, self.called, self.since));
        // A failed `set_aside` hides something from other callers for a moment, so this tries again
        // while something is free.
        let mut served = false;
        while may_take && !served && supply.free() > 0 && !supply.is_over() {
            served = supply.set_aside();
        }
        let answer = match served {
            true => PERMIT,
            false if supply.is_over() => CLOSED,
            // MUTANT(line.enter.beyond): false
            false if may_take && !is_strict && supply.beyond() > self.called => {
                self.called += 1;
                CALL
            }
            false => return None,
        };
        self.announce(supply);
        Some(answer)
    }

    /// Calls waiters, grants them permits, or tells all of them of the end.
    pub(super) fn serve<P: Supply + ?Sized>(&mut self, supply: &mut P, wakes: &mut Wakes) {
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
            // Something may have become free before the announcement.
            let kept = if self.is_strict(supply) { 0 } else { self.called };
            if self.waiting.is_empty() || supply.free() <= kept {
                return;
            }
        }
    }

    /// Grants a permit to a waiter that has the end for itself. Returns `None` if there is no such
    /// waiter, or nothing for it; then the caller calls [`serve`](Line::serve).
    pub(super) fn serve_alone<P: Supply + ?Sized>(&mut self, supply: &mut P) -> Option<Wake> {
        let grants = !self.is_shared && supply.grants_at_once();
        if !grants || self.waiting.is_empty() || !supply.set_aside() {
            return None;
        }
        let wake = self.waiting.grant_first(PERMIT);
        self.announce(supply);
        wake
    }

    /// Moves a value from the caller's cell to that of the first waiter, or from there to the
    /// caller's, if the waiter has a cell. The lines of a channel without room alone allow this.
    ///
    /// # Safety
    /// The cells of the waiters of this line are of type `Option<T>`.
    pub(super) unsafe fn meet<T>(&mut self, cell: &mut Option<T>) -> Option<Wake> {
        let theirs = self.waiting.first()?.cell.get().cast::<Option<T>>();
        if theirs.is_null() {
            return None;
        }
        // SAFETY: the type is the caller's obligation. The waiter neither uses its cell nor leaves
        // its frame while it is in the line, whose lock we have; the caller is not in the line.
        unsafe { ptr::swap(theirs, cell) };
        self.waiting.grant_first(MOVED)
    }

    /// Returns the answer that the first waiter can be given now. Sets aside what a permit stands
    /// for.
    fn answer_first<P: Supply + ?Sized>(&self, supply: &mut P) -> Option<u32> {
        self.waiting.first()?;
        let free = supply.free();
        if !self.is_shared && supply.grants_at_once() || self.is_strict(supply) {
            return (free > 0 && supply.set_aside()).then_some(PERMIT);
        }
        (free + supply.beyond() > self.called).then_some(CALL)
    }

    /// Sets one aside for a caller that does not wait, if there is more than the waiters are to
    /// have.
    pub(super) fn ask<P: Supply + ?Sized>(&mut self, supply: &mut P, wakes: &mut Wakes) -> bool {
        self.serve(supply, wakes);
        let got = !self.is_strict(supply) && supply.set_aside();
        if !got {
            // The failed attempt may have hidden something from other callers, and from one that
            // has sat down since.
            // MUTANT(line.ask.admit): skip
            self.admit(supply);
            self.serve(supply, wakes);
        }
        got
    }

    /// Takes back a permit that was not used.
    pub(super) fn take_back<P: Supply + ?Sized>(&mut self, supply: &mut P, wakes: &mut Wakes) {
        supply.take_back();
        // MUTANT(line.take_back): skip
        self.serve(supply, wakes);
    }

    /// Notes that a called waiter has come, and returns whether it gets a permit.
    #[cfg(feature = "futures")]
    pub(super) fn came_for_permit<P: Supply + ?Sized>(
        &mut self,
        supply: &mut P,
        wakes: &mut Wakes,
    ) -> bool {
        let got = supply.set_aside();
        self.came(supply, wakes);
        got
    }

    /// Notes that a called waiter has come, or never will.
    pub(super) fn came<P: Supply + ?Sized>(&mut self, supply: &mut P, wakes: &mut Wakes) {
        self.called -= 1;
        self.since = supply.position();
        if !self.waiting.is_empty() {
            // MUTANT(line.came): skip
            self.serve(supply, wakes);
        }
    }
}

/// Returns whether a node was called, and is back without a value or a place.
pub(super) fn returns(node: &WaitNode) -> bool {
    matches!(node.answer(), CALL | CALL_FROM_SEAT)
}

/// Since when a waiter has been passed.
#[derive(Default)]
pub(super) struct Passed(Option<Instant>);

impl Passed {
    /// Notes that a called waiter has found nothing, and makes it overdue if that has gone on too
    /// long.
    pub(super) fn again(&mut self, node: &WaitNode) {
        if passing::is_overdue(*self.0.get_or_insert_with(now)) {
            node.token.set(OVERDUE);
        }
    }
}

fn is_overdue(node: &WaitNode) -> bool {
    node.token.get() & OVERDUE != 0
}
