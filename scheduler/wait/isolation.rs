//! Isolation: waits during which a worker runs only descendants.
//!
//! A task may hold a lock of std's, or another resource of its thread, across a wait. If its
//! worker then runs another task on the same thread that asks for the same lock, that task blocks
//! the thread, and neither of them ever continues. `scope_with` and `join_with` can open a scope
//! that **isolates** the task's worker: from the opening of the scope to its end, the worker
//! starts and continues only *members* of the scope, which are its owner and the descendants of
//! the scope. All other tasks are *outsiders*. Inside the scope, members wait only for what
//! members do, and never for an outsider (but see *Limits*).
//!
//! # Isolation spreads
//!
//! A descendant that runs on another worker isolates that worker too, from its start to its end.
//! Otherwise an outsider could block that worker while the descendant is suspended there, and the
//! owner would wait for the descendant for ever. So each node inherits whether it lies under an
//! isolating scope ([`Isolation`]). A worker counts, for each such scope, the members that were
//! started on it and have not ended. Since only members are started, the isolating scopes of a
//! worker are nested. The innermost one decides.
//!
//! # What happens to outsiders
//!
//! * Fresh outsiders in the worker's own queues go to the injector, for other workers.
//! * Started outsiders are moved to the isolating scope when the worker meets them in the run
//!   queue, and back to the run queue when the isolation ends. So each is examined once, and not
//!   at every decision.
//! * Local tasks stay in their queue.
//!
//! # Order of service
//!
//! Same as without isolation: ready members come before fresh ones. At each 61st decision the
//! fresh ones come first, the oldest of each queue in turn, so that none waits for ever behind
//! members that yield all the time.
//!
//! # Why no member is lost
//!
//! A worker that is blocked by an outsider runs no members, but its queues may contain fresh
//! members. No event tells of them. So an isolated worker with nothing to do does not only rest
//! until a producer wakes it, but also looks for members itself now and then. It takes tasks, one
//! at a time, out of public deques, and by force out of private deques and fork lists. It keeps a
//! member, and gives outsiders away to all workers. Between two looks it sleeps for at most
//! [`LONGEST`].
//!
//! It sleeps in the list from which producers wake workers, since what is produced may be a
//! member. An outsider that it leaves in the injector wakes the next worker in that list, which
//! may be isolated too. So a worker that was woken and has found nothing stays out of the list
//! the next time. Otherwise two isolated workers would keep each other awake as long as an
//! outsider lies in the injector.
//!
//! # When no stack is available
//!
//! Same as without isolation (scheduler/stacks/exhaustion.rs), except that the worker looks only at
//! members. Outsiders that are kept hold their stacks meanwhile.
//!
//! # Limits
//!
//! The worker cannot reach tasks that cannot change workers: local or started tasks of a blocked
//! worker, and local or started outsiders of its own. A member that waits for such a task waits
//! for ever. This is the documented limit; after [`PATIENCE`] the worker reports it on stderr.
//!
//! A migratable task stays on its worker as long as the worker is isolated. So does a task that
//! is spawned as migratable below the scope.

use crate::scheduler::life::live_node::LiveNode;
use crate::scheduler::queue::item::{Item, Runnable};
use crate::scheduler::queue::public::steal_until;
use crate::scheduler::queue::run_queue::RunQueue;
use crate::scheduler::steal::idle::{Rest, Roused};
use crate::scheduler::wait::blocking_wait::{GivenAway, next_injected};
use crate::scheduler::wait::isolations::{IsolatedScope, SHORTEST};
use crate::scheduler::worker::Worker;
use crate::scheduler::worker::release::{claim, claimed, queued};
use crate::scheduler::worker::remote::Remote;
use crate::scheduler::worker::switch::NextFiber;
use crate::shim::atomic::Ordering;
use crate::shim::time::{Duration, Instant, now};
use crate::shim::{say, spin_loop, thread};
use crate::task::record::Phase;
use crate::task::reference::{Ready, RunRef};
use crate::task::words::tree::{Isolation, Node};
use crossbeam_deque::Steal;
use std::ptr;

/// How long a look lasts.
const LOOK: Duration = Duration::from_micros(20);
/// How long a request for work waits for its answer.
const ANSWER: Duration = Duration::from_micros(3);
/// The longest sleep between two looks.
const LONGEST: Duration = Duration::from_millis(10);
/// The most tasks that are taken from one public deque before another one is tried.
const OUTSIDERS: usize = 16;
/// The idle time after which a worker reports the outsiders that it keeps waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the innermost isolating scope at or above a node that lies under one.
fn isolating(node: LiveNode<'_>) -> *const Node {
    node.up_to(|node| node.isolation() == Isolation::Here).pointer()
}

/// Returns whether `node` is `scope`, which isolates, or lies under it.
fn descends_from(node: LiveNode<'_>, scope: LiveNode<'_>) -> bool {
    let scope = scope.pointer();
    node.up_to(|node| node.is(scope) || node.isolation() == Isolation::None).is(scope)
}

impl Worker {
    /// Counts a member of a scope, which begins here, or the owner, which opens the scope.
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

    /// Uncounts a member, which has ended, or the owner, which closes the scope. The last one
    /// ends the isolation by this scope.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_isolation(&self, scope: *const Node) {
        let mut scopes = self.isolations.scopes.borrow_mut();
        let entry = scopes.iter().position(|isolated| ptr::eq(isolated.scope, scope));
        let index = entry.expect("the scope isolates this worker");
        scopes[index].members -= 1;
        if scopes[index].members == 0 {
            let isolated = scopes.remove(index);
            self.queues.ready.put_first(&isolated.kept);
        }
        self.isolations.any.set(!scopes.is_empty());
    }

    /// Isolates the worker for a task that begins here under an isolating scope.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_isolated(&self, task: &RunRef) {
        self.isolate(isolating(LiveNode::parent_of_run(task)));
    }

    /// Undoes `begin_isolated` when the task has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_isolated(&self, task: &RunRef) {
        self.end_isolation(isolating(LiveNode::parent_of_run(task)));
    }

    /// Returns whether a queued or claimed task, which has this node, may run here at present.
    pub(crate) fn may_run<'a>(&self, node: impl Into<LiveNode<'a>>) -> bool {
        !self.isolations.any() || self.is_member(node)
    }

    /// Returns whether the task that has this node is a member of the innermost isolating scope.
    fn is_member<'a>(&self, node: impl Into<LiveNode<'a>>) -> bool {
        let node = node.into();
        let Some(scope) = self.isolations.innermost() else { return false };
        scope.task() == node.task()
            || node.parent().is_some_and(|above| descends_from(above, scope))
    }

    /// Returns the fiber to run next, as `pick` does without isolation. The caller has
    /// emptied the inbox.
    #[cold]
    #[inline(never)]
    pub(crate) fn pick_member(&self) -> NextFiber {
        if self.fairness.tick() {
            // As in `pick`, fresh tasks now come before tasks that yield all the time.
            self.give_owed_turn();
            if let Some(fiber) = self.next_neglected_member().and_then(|record| self.begin(record))
            {
                self.isolations.found();
                return fiber;
            }
            if self.must_look_for_awaited() {
                return NextFiber::main(self);
            }
        }
        if let Some(task) = self.next_ready_member() {
            task.set_phase(Phase::Running);
            self.isolations.found();
            return NextFiber::of(task);
        }
        let Some(fiber) = self.next_member().and_then(|record| self.begin(record)) else {
            return NextFiber::main(self);
        };
        self.isolations.found();
        fiber
    }

    /// Returns the first ready member. The outsiders before it are kept waiting.
    fn next_ready_member(&self) -> Option<Ready> {
        while let Some(record) = self.queues.ready.pop() {
            if self.is_member(&record) {
                return Some(record);
            }
            self.isolations.keep_waiting(record);
        }
        None
    }

    /// Takes a fresh member out of this worker's queues or the injector, and claims it. Outsiders
    /// that are met in this worker's queues go to the injector.
    pub(crate) fn next_member(&self) -> Option<RunRef> {
        let mut given = GivenAway::default();
        let found = self.next_member_here(&mut given);
        given.queue(self);
        found.or_else(|| self.next_injected_member())
    }

    /// Same as `next_member`, for tasks that the usual order may never reach: each queue has its
    /// turn, and its oldest task comes first.
    pub(in crate::scheduler) fn next_neglected_member(&self) -> Option<RunRef> {
        let mut given = GivenAway::default();
        let turn = self.fairness.turn.get();
        self.fairness.turn.set(turn.wrapping_add(1));
        let found = (0..4).find_map(|i| match turn.wrapping_add(i) % 4 {
            0 => self.next_local_member(),
            1 => self.next_injected_member(),
            2 => {
                let open = |item| self.open_member(item, &mut given);
                steal_until(|| self.remote.thief.steal(), open)
            }
            _ => loop {
                match self.next_oldest() {
                    Some(record) if !self.is_member(&record) => given.fresh.push(record),
                    found => break found,
                }
            },
        });
        given.queue(self);
        found
    }

    fn next_injected_member(&self) -> Option<RunRef> {
        let wanted = |task: &RunRef| self.is_member(task).then_some(());
        next_injected(self, wanted).map(|(record, ())| record)
    }

    /// Claims the task of an item, and returns it if it is a fresh member. Any other task goes to
    /// `given`.
    fn open_member(&self, item: Item, given: &mut GivenAway) -> Option<RunRef> {
        match claimed(item)? {
            Runnable::Fresh(record) if self.is_member(&record) => return Some(record),
            Runnable::Fresh(record) => given.fresh.push(record),
            Runnable::Started(record) => given.started.push(record),
        }
        None
    }

    fn next_member_here(&self, given: &mut GivenAway) -> Option<RunRef> {
        if let Some(record) = self.queues.dedicated.take() {
            if self.is_member(&record) {
                return Some(record);
            }
            given.fresh.push(record);
        }
        if self.remote.private.is_requested() {
            self.serve_requests();
        }
        while let Some(record) = self.remote.private.pop() {
            if self.is_member(&record) {
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

    fn next_local_member(&self) -> Option<RunRef> {
        let mut local = self.queues.local.borrow_mut();
        // The task of a stale entry may have ended, so a task is claimed before it is examined.
        // Stale entries stay: to release one may run a destructor of the user. The entries that
        // are passed go to the back, and come back to the front in the end.
        for passed in 0..local.len() {
            let back = match claim(local.pop_front()?) {
                Ok(task) if self.is_member(&task) => {
                    local.rotate_right(passed);
                    return Some(task);
                }
                Ok(task) => {
                    task.unclaim();
                    queued(task)
                }
                Err(stale) => stale,
            };
            local.push_back(back);
        }
        None
    }

    /// Looks for members at other workers, or sleeps until there may be some. For an isolated
    /// worker that has nothing to do, on its main fiber. The worker is not counted as a
    /// searcher. Returns `None` if it has not slept.
    pub(crate) fn search_member(&self) -> Option<Roused> {
        if self.has_ready() {
            return None; // a timer has woken a task; `pick` decides whether it is a member
        }
        let given_away = self.shared().given_away.load(Ordering::Acquire);
        // A member that was found and waits for a stack is enough.
        if !self.queues.has_dedicated() && self.look_for_member() {
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

    /// Same as `search_member` when some worker cannot get a stack, but does not sleep: see
    /// `exhaustion`. Returns `true` if there is something to run now.
    pub(crate) fn find_member_under_pressure(&self) -> bool {
        let stack = !self.memory.exhausted.get() && !self.queues.has_dedicated();
        let found = stack && self.look_for_member();
        if found {
            self.isolations.found();
        } else {
            self.note_idleness();
        }
        found
    }

    /// Notes that there is nothing to do, and reports it after [`PATIENCE`].
    fn note_idleness(&self) {
        let since = self.isolations.idle_since.get().unwrap_or_else(now);
        self.isolations.idle_since.set(Some(since));
        if now() - since >= PATIENCE && !self.isolations.reported.replace(true) {
            self.report_outsiders();
        }
    }

    /// Looks for members of the innermost scope at other workers. Returns `true` if there is
    /// something to run now.
    fn look_for_member(&self) -> bool {
        let shared = self.shared();
        let mut given = GivenAway::default();
        let start = now();
        let mut asked: Option<Instant> = None;
        let found = loop {
            if self.has_ready_besides_queue() || !shared.injector.is_empty() && self.keep_injected()
            {
                break true;
            }
            if self.others().any(|remote| self.take_public_member(remote, &mut given)) {
                self.counters().steals.add(1);
                break true;
            }
            match asked {
                None if self.others().any(Remote::has_private) => {
                    self.others().filter(|remote| remote.has_private()).for_each(Remote::request);
                    asked = Some(now());
                }
                Some(since) if now() - since >= ANSWER => {
                    asked = None;
                    let mut by_force = self.others().filter(|remote| remote.has_private());
                    if by_force.any(|remote| self.take_private_member(remote, &mut given)) {
                        self.counters().steals.add(1);
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

    fn keep(&self, task: RunRef) -> bool {
        debug_assert!(!self.queues.has_dedicated());
        self.queues.dedicated.set(Some(task));
        true
    }

    fn keep_injected(&self) -> bool {
        self.next_injected_member().is_some_and(|record| self.keep(record))
    }

    /// Takes tasks out of another worker's public deque, one at a time, until one is a member.
    fn take_public_member(&self, from: &Remote, given: &mut GivenAway) -> bool {
        for _ in 0..OUTSIDERS {
            // `Retry` means that another thief takes from the deque.
            let Steal::Success(item) = from.thief.steal() else { return false };
            if let Some(record) = self.open_member(item, given) {
                return self.keep(record);
            }
        }
        false
    }

    /// Takes the oldest task of a private deque by force, or else the oldest fork.
    fn take_private_member(&self, from: &Remote, given: &mut GivenAway) -> bool {
        self.counters().rescues.add(1);
        let mut found = None;
        from.private.steal(1, |record| found = Some(record));
        let Some(record) = found else {
            let scope = self.isolations.innermost();
            return self.steal_fork(from, |node| scope.is_some_and(|at| descends_from(node, at)));
        };
        record.set_phase(Phase::Running);
        if self.is_member(&record) {
            return self.keep(record);
        }
        given.fresh.push(record);
        false
    }

    /// Reports on stderr how many outsiders are kept waiting, if a member may wait for one of
    /// them.
    fn report_outsiders(&self) {
        let alone = self.shared().workers() == 1;
        let fresh = if alone { self.shared().injector.len() } else { 0 };
        let mut outsiders = self.queues.local.borrow().len() + fresh;
        self.isolations.for_each_kept(|_| outsiders += 1);
        if outsiders == 0 {
            return;
        }
        let scope = self.isolations.innermost();
        let Some(owner) = scope.and_then(LiveNode::task) else { return };
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
