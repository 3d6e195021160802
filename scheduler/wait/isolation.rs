//! Waits during which a worker runs nothing but descendants.
//!
//! A task that holds a lock of std's, or anything else that belongs to its thread, over a wait can be
//! blocked for good by a outsider: one that its worker runs meanwhile, on the same thread, and that asks
//! for the same lock. `scope_with` and `join_with` open a scope that **isolates**: from its opening to its
//! end the task's worker starts and continues only the scope's *members*, its owner and whatever descends from
//! it. Whatever the members wait for in there is done by members, and none of them waits for a outsider.
//!
//! # It spreads
//!
//! A descendant that runs on another worker isolates that one too, from its start to its end: else a
//! outsider could block that worker, with the descendant suspended below it, and the owner would wait for
//! it for ever. So a node knows whether it lies under such a scope ([`Isolation`], inherited), and a
//! worker counts, for each such scope, those of the members that have been started on it and have not ended. As
//! only members are started, the scopes of a worker are nested one in the other; the innermost counts.
//!
//! # What becomes of the outsiders
//!
//! The fresh ones that lie in the worker's own queues go to the injector, for others. Those that have been
//! started here are kept with the scope that keeps them waiting, once they are met in the run queue, and go
//! back there when it is lifted: so each is looked at once, and not at every decision. Local tasks stay in
//! their queue.
//!
//! # Order of service
//!
//! As without a isolation: ready members, then fresh ones; at each 61st decision the fresh ones come first, the
//! oldest of one queue after the other, so that none waits for ever behind members that yield all the time.
//!
//! # Why the members do not get lost
//!
//! A worker that is blocked by a outsider runs no members, but some that nobody has started may lie in its
//! queues. There is no event that tells of it. So a isolated worker with nothing to do does not only rest
//! like others, to be woken when something appears, but looks itself, every now and then: it takes one task
//! at a time out of the public deques, and private deques and forks by force, keeps what is members, and leaves the
//! rest to all. Between two looks it sleeps up to [`LONGEST`].
//!
//! It sleeps in the list of those whom a producer wakes, as what is produced may be members. What it leaves wakes
//! the next one in that list, who may be isolated too. So one that was woken in vain is not in the list the
//! next time: else two of them would keep each other awake as long as a outsider lies in the injector.
//!
//! # When no stack can be had
//!
//! As without a isolation (scheduler/stacks/exhaustion.rs), but that members alone are guests here. Outsiders that are
//! kept hold their stacks meanwhile, and nobody expects anything of them.
//!
//! Out of its reach are tasks that cannot change workers: a local task, or one that has been started, of a
//! worker that is blocked, or of this one and no members. Kin that wait for such a task wait for ever, which is
//! the documented limit; after [`PATIENCE`] the worker says so on stderr.
//!
//! A migratable task stays where it is as long as its worker is isolated, and so do those that are spawned
//! as such below the scope.

use crate::scheduler::life::scope_frame::ScopeFrame;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::queue::run_queue::RunQueue;
use crate::scheduler::steal::idle::{Rest, Roused};
use crate::scheduler::wait::blocking_wait::{GivenAway, next_injected};
use crate::scheduler::wait::isolations::{IsolatedScope, SHORTEST};
use crate::scheduler::worker::release::claimed;
use crate::scheduler::worker::remote::Remote;
use crate::scheduler::worker::{Fiber, Worker};
use crate::shim::atomic::Ordering;
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{say, spin_loop, thread};
use crate::task::record::{Phase, Record};
use crate::task::words::tree::{Isolation, Node, NodeKind};
use crossbeam_deque::Steal;
use std::ptr::{self, NonNull};

/// How long a look lasts, and a request waits for its answer.
const LOOK: Duration = Duration::from_micros(20);
const ANSWER: Duration = Duration::from_micros(3);
const LONGEST: Duration = Duration::from_millis(10);
/// Of outsiders taken from one deque in one look, at most.
const OUTSIDERS: usize = 16;
/// After so long without anything to do a worker says whom it keeps waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// The innermost scope that isolates, at or above a node that lies under one.
fn isolating(mut node: *const Node) -> *const Node {
    loop {
        // SAFETY: the ancestors of an unfinished task are alive, and one of them isolates.
        let node_ref = unsafe { &*node };
        if node_ref.isolation() == Isolation::Here {
            return node;
        }
        node = node_ref.parent;
    }
}

/// Whether a node lies under a scope.
fn descends_from(mut node: *const Node, scope: *const Node) -> bool {
    // SAFETY: the ancestors of an unfinished task are alive.
    while let Some(node_ref) = unsafe { node.as_ref() } {
        if ptr::eq(node, scope) {
            return true;
        }
        if node_ref.isolation() == Isolation::None {
            return false;
        }
        node = node_ref.parent;
    }
    false
}

impl Worker {
    /// One of a scope's members begins here, or its owner opens it.
    #[cold]
    #[inline(never)]
    pub(crate) fn isolate(&self, scope: *const Node) {
        let mut scopes = self.isolations.scopes.borrow_mut();
        match scopes.iter_mut().find(|isolated| ptr::eq(isolated.scope, scope)) {
            Some(isolated) => isolated.members += 1,
            None => scopes.push(IsolatedScope { scope, members: 1, kept: RunQueue::new() }),
        }
        self.isolations.any.set(true);
        self.isolations.found();
    }

    /// It has ended, or its owner closes it.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_isolation(&self, scope: *const Node) {
        let mut scopes = self.isolations.scopes.borrow_mut();
        let entry = scopes.iter().position(|isolated| ptr::eq(isolated.scope, scope));
        let index = entry.expect("what is lifted has been isolated");
        scopes[index].members -= 1;
        if scopes[index].members == 0 {
            let isolated = scopes.remove(index);
            self.queues.ready.put_first(&isolated.kept);
        }
        self.isolations.any.set(!scopes.is_empty());
    }

    /// A task under a scope that isolates begins here.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_isolated(&self, task: &Record) {
        self.isolate(isolating(task.node.parent));
    }

    /// It has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_isolated(&self, task: &Record) {
        self.end_isolation(isolating(task.node.parent));
    }

    /// Whether a task that lies in a queue, or is claimed, may run here at present.
    pub(crate) fn may_run(&self, record: NonNull<Record>) -> bool {
        !self.isolations.any() || self.is_member(record)
    }

    /// Whether a task may run as long as the innermost isolation stands.
    fn is_member(&self, record: NonNull<Record>) -> bool {
        let scope = self.isolations.innermost();
        // SAFETY: members that run here, or the owner, have not ended, so the scope is open.
        let owns = match unsafe { &*scope }.kind {
            // SAFETY: a node of kind Scope is the start of its frame.
            NodeKind::Scope => unsafe { (*scope.cast::<ScopeFrame>()).owner() == record },
            _ => false,
        };
        // SAFETY: in a queue of ours, or claimed: it has not ended.
        owns || descends_from(unsafe { record.as_ref() }.node.parent, scope)
    }

    /// What `pick` does under a isolation: the coroutine to run next. What others have sent has been taken
    /// in.
    #[cold]
    #[inline(never)]
    pub(crate) fn pick_member(&self) -> *const Fiber {
        if self.fairness.tick() {
            // As in `pick`: the turn of fresh ones, before those that yield all the time.
            self.serve_owed();
            if let Some(fiber) = self.next_neglected_member().and_then(|record| self.begin(record))
            {
                self.isolations.found();
                return fiber;
            }
            if self.memory.exhausted.get()
                && !ptr::eq(self.fibers.running.get(), self.fibers.main.get())
            {
                return self.fibers.main.get();
            }
        }
        if let Some(record) = self.next_ready_member() {
            // SAFETY: a ready task has not ended.
            let task = unsafe { record.as_ref() };
            task.set_phase(Phase::Running);
            self.isolations.found();
            return ptr::with_exposed_provenance(task.place.load(Ordering::Relaxed));
        }
        let Some(fiber) = self.next_member().and_then(|record| self.begin(record)) else {
            return self.fibers.main.get();
        };
        self.isolations.found();
        fiber
    }

    /// The first ready task that is members. Outsiders before it are kept waiting.
    fn next_ready_member(&self) -> Option<NonNull<Record>> {
        while let Some(record) = self.queues.ready.pop() {
            if self.is_member(record) {
                return Some(record);
            }
            self.isolations.keep_waiting(record);
        }
        None
    }

    /// Fresh members that lie here or in the injector, claimed. Outsiders that lie here go to the injector.
    pub(crate) fn next_member(&self) -> Option<NonNull<Record>> {
        let mut given = GivenAway::default();
        let found = self.next_member_here(&mut given);
        given.queue(self);
        found.or_else(|| self.next_injected_member())
    }

    /// Likewise, of those that the usual order may never reach: each queue has its turn, and its oldest one
    /// comes first.
    pub(in crate::scheduler) fn next_neglected_member(&self) -> Option<NonNull<Record>> {
        let mut given = GivenAway::default();
        let turn = self.fairness.turn.get();
        self.fairness.turn.set(turn.wrapping_add(1));
        let found = (0..4).find_map(|i| match turn.wrapping_add(i) % 4 {
            0 => self.next_local_member(),
            1 => self.next_injected_member(),
            2 => loop {
                match self.remote.thief.steal() {
                    Steal::Success(item) => {
                        if let Some(record) = self.open_member(item, &mut given) {
                            break Some(record);
                        }
                    }
                    Steal::Retry => spin_loop(),
                    Steal::Empty => break None,
                }
            },
            _ => loop {
                match self.next_oldest() {
                    Some(record) if !self.is_member(record) => given.fresh.push(record),
                    found => break found,
                }
            },
        });
        given.queue(self);
        found
    }

    fn next_injected_member(&self) -> Option<NonNull<Record>> {
        let wanted = |record| self.is_member(record).then_some(());
        next_injected(self, wanted).map(|(record, ())| record)
    }

    /// What an item holds, if that is fresh and members; claimed.
    fn open_member(&self, item: Item, given: &mut GivenAway) -> Option<NonNull<Record>> {
        match claimed(item)? {
            Runnable::Fresh(record) if self.is_member(record) => return Some(record),
            Runnable::Fresh(record) => given.fresh.push(record),
            Runnable::Started(record) => given.started.push(record),
        }
        None
    }

    fn next_member_here(&self, given: &mut GivenAway) -> Option<NonNull<Record>> {
        if let Some(record) = NonNull::new(self.queues.dedicated.replace(ptr::null()).cast_mut()) {
            if self.is_member(record) {
                return Some(record);
            }
            given.fresh.push(record);
        }
        if self.remote.private.is_requested() {
            self.serve_requests();
        }
        while let Some(record) = self.remote.private.pop() {
            if self.is_member(record) {
                return Some(record);
            }
            given.fresh.push(record);
        }
        while let Some(item) = self.queues.deque.pop() {
            if let Some(record) = self.open_member(item, given) {
                return Some(record);
            }
        }
        self.next_local_member()
    }

    fn next_local_member(&self) -> Option<NonNull<Record>> {
        let mut local = self.queues.local.borrow_mut();
        // A stale entry is of a task that may have ended: it is claimed before it is looked at.
        for index in 0..local.len() {
            // SAFETY: the queue holds a reference.
            let task = unsafe { local[index].as_ref() };
            if task.claim() {
                if self.is_member(local[index]) {
                    return local.remove(index);
                }
                task.unclaim();
            }
        }
        None
    }

    /// What a isolated worker does when it has nothing: looks for members elsewhere, or sleeps until there may
    /// be some. On the main coroutine, and not among the searchers.
    pub(crate) fn search_member(&self) -> Option<Roused> {
        if self.has_ready() {
            return None; // a timer that was due a moment ago, and members or not: `pick` knows
        }
        let given_away = self.shared().given_away.load(Ordering::Acquire);
        // One that has been found and waits for a stack is enough.
        if self.queues.dedicated.get().is_null() && self.look_for_member() {
            self.isolations.found();
            return None;
        }
        self.note_idleness();
        let time = self.isolations.sleep.get().max(SHORTEST);
        self.isolations.sleep.set((time * 2).min(LONGEST));
        let rest =
            if self.isolations.vain.take() { Rest::BlockedFor(time) } else { Rest::SleepFor(time) };
        let rest = self.time_to_next().map_or(rest, |time| rest.at_most(time));
        let shared = self.shared();
        self.counters().sleeps.add(1);
        let roused = shared.idle.rest(shared, self.remote.index, rest, || {
            self.has_ready_besides_queue()
                || shared.is_stopping()
                || shared.given_away.load(Ordering::Relaxed) != given_away
        });
        self.isolations.vain.set(roused == Roused::ToSearch);
        Some(roused)
    }

    /// As `search_kin`, where some worker can get no stack, but that it does not sleep: see `exhaustion`. True if
    /// there is something to run now.
    pub(crate) fn find_member_under_pressure(&self) -> bool {
        let stack = !self.memory.exhausted.get() && self.queues.dedicated.get().is_null();
        let found = stack && self.look_for_member();
        if found {
            self.isolations.found();
        } else {
            self.note_idleness();
        }
        found
    }

    /// There is nothing to do: says so after a while.
    fn note_idleness(&self) {
        let since = self.isolations.idle_since.get().unwrap_or_else(now);
        self.isolations.idle_since.set(Some(since));
        if now() - since >= PATIENCE && !self.isolations.reported.replace(true) {
            self.report_outsiders();
        }
    }

    /// Finds members of the innermost scope at other workers; true if there is something to run now.
    fn look_for_member(&self) -> bool {
        let shared = self.shared();
        let others = || shared.remotes().filter(|remote| remote.index != self.remote.index);
        let mut given = GivenAway::default();
        let start = now();
        let mut asked: Option<Instant> = None;
        let found = loop {
            if self.has_ready_besides_queue() || !shared.injector.is_empty() && self.keep_injected()
            {
                break true;
            }
            if others().any(|remote| self.take_public_member(remote, &mut given)) {
                break true;
            }
            match asked {
                None if others().any(Remote::has_private) => {
                    others().filter(|remote| remote.has_private()).for_each(Remote::request);
                    asked = Some(now());
                }
                Some(since) if now() - since >= ANSWER => {
                    asked = None;
                    let mut by_force = others().filter(|remote| remote.has_private());
                    if by_force.any(|remote| self.take_private_member(remote, &mut given)) {
                        break true;
                    }
                }
                _ => {}
            }
            if now() - start >= LOOK {
                break false;
            }
            if asked.is_none() { thread::yield_now() } else { spin_loop() }
        };
        given.queue(self);
        found
    }

    fn keep(&self, record: NonNull<Record>) -> bool {
        debug_assert!(self.queues.dedicated.get().is_null());
        self.queues.dedicated.set(record.as_ptr());
        true
    }

    fn keep_injected(&self) -> bool {
        self.next_injected_member().is_some_and(|record| self.keep(record))
    }

    /// Takes tasks out of another's public deque, one at a time, until one is members.
    fn take_public_member(&self, from: &Remote, given: &mut GivenAway) -> bool {
        for _ in 0..OUTSIDERS {
            // Retry means that another thief is at it.
            let Steal::Success(item) = from.thief.steal() else { return false };
            if let Some(record) = self.open_member(item, given) {
                return self.keep(record);
            }
        }
        false
    }

    /// Takes the oldest task of a private deque, or the oldest fork, by force.
    fn take_private_member(&self, from: &Remote, given: &mut GivenAway) -> bool {
        self.counters().rescues.add(1);
        let mut found = None;
        from.private.steal(1, |record| found = Some(record));
        let Some(record) = found else {
            let scope = self.isolations.innermost();
            return self.steal_fork(from, |node| descends_from(node, scope));
        };
        // SAFETY: just taken out of a private deque, whose items are ours to start.
        unsafe { record.as_ref() }.set_phase(Phase::Running);
        if self.is_member(record) {
            return self.keep(record);
        }
        given.fresh.push(record);
        false
    }

    /// Says on stderr who is kept waiting, if it may be they who are waited for.
    fn report_outsiders(&self) {
        let alone = self.shared().workers() == 1;
        let fresh = if alone { self.shared().injector.len() } else { 0 };
        let mut outsiders = self.queues.local.borrow().len() + fresh;
        self.isolations.for_each_kept(|_| outsiders += 1);
        if outsiders == 0 {
            return;
        }
        let scope = self.isolations.innermost();
        // SAFETY: the scope is open, as in `is_kin`.
        let owner = unsafe { (*scope.cast::<ScopeFrame>()).owner() };
        // SAFETY: the owner of an open scope has not ended.
        let owner = unsafe { owner.as_ref() };
        say(&format!(
            "cygnet: a wait for descendants only, of task {} ({}, spawned at {}), has kept {outsiders} ready \
             task(s) of worker {} waiting for {} s; if a descendant waits for one of them, both wait for ever",
            owner.id(),
            owner.name().unwrap_or("without a name"),
            owner.spawned_at,
            self.remote.index,
            PATIENCE.as_secs(),
        ));
    }
}
