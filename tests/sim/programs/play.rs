//! Tasks that play a plan, and compare what they are told with the record.

use super::plan::{Handling, How, Step, Thing};
use super::world::{Alive, Inside, Ticket, World};
use crate::choices::planted;
use cygnet::sync::{WaitError, oneshot};
use cygnet::{Cancelled, JoinError, Late, Task};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The payload of a planned panic. No hook is called for it.
pub(super) struct Planned;

/// The result of a task.
pub(super) struct Outcome {
    pub(super) node: usize,
    pub(super) value: u64,
    _alive: Alive,
}

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Counts the end of a task's closure, however that comes.
struct Ended<'a>(&'a World);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

/// The closure of a task.
pub(super) fn body(world: &Arc<World>, ticket: &Ticket, steps: Vec<Step>) -> Outcome {
    world.begun.fetch_add(1, Relaxed);
    let _ended = Ended(world);
    let player = Player::new(world, ticket.node, ticket.node);
    let value = match catch_unwind(AssertUnwindSafe(|| player.play_to_the_end(steps))) {
        Ok(value) => value,
        Err(payload) => {
            // A panic with a text was not planned, and could be dropped with the task.
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()));
            text.into_iter().for_each(|text| world.fails(text));
            resume_unwind(payload)
        }
    };
    world.returns(ticket.node, value);
    Outcome { node: ticket.node, value, _alive: Alive::new(world) }
}

/// A child. The drop of its handle cancels it.
struct Child<'a> {
    world: &'a Arc<World>,
    node: usize,
    task: Option<Task<Outcome>>,
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.world.cancel(self.node, || drop(task));
        }
    }
}

/// The player of one task, or of one half of a fork.
struct Player<'a> {
    world: &'a Arc<World>,
    task: usize,
    /// The innermost scope.
    node: usize,
    children: Vec<Child<'a>>,
}

impl<'a> Player<'a> {
    fn new(world: &'a Arc<World>, task: usize, node: usize) -> Player<'a> {
        Player { world, task, node, children: Vec::new() }
    }

    fn play_to_the_end(mut self, steps: Vec<Step>) -> u64 {
        let value = self.play(steps);
        // Every second child is joined.
        while let Some(child) = self.children.pop() {
            if self.children.len().is_multiple_of(2) {
                self.join(child);
            }
        }
        value
    }

    /// Returns how many steps it has taken.
    fn play(&mut self, steps: Vec<Step>) -> u64 {
        let mut taken = 0;
        for step in steps {
            taken += 1;
            let told = self.world.must_be_told(self.node);
            if !cygnet::is_cancelled() {
                self.world.may_not_know(told, self.node);
            }
            match step {
                Step::Checkpoint if self.waited(cygnet::checkpoint).is_err() => break,
                step => taken += self.step(step),
            }
        }
        taken
    }

    /// Plays in a scope of this task.
    fn play_in(&mut self, region: usize, steps: Vec<Step>) -> u64 {
        let outer = std::mem::replace(&mut self.node, region);
        let taken = self.play(steps);
        self.node = outer;
        taken
    }

    fn play_timed(&mut self, region: usize, time: u64, steps: Vec<Step>) -> u64 {
        self.world.time_runs(region, millis(time));
        self.play_in(region, steps)
    }

    /// A wait that only a cancel cuts short: always, if the cancel came before, and never without a
    /// cause.
    #[track_caller]
    fn waited<T>(&self, wait: impl FnOnce() -> Result<T, Cancelled>) -> Result<T, Cancelled> {
        let told = self.world.must_be_told(self.node);
        let result = wait();
        match &result {
            Ok(_) => self.world.may_not_know(told, self.node),
            Err(_) => self.world.must_have_a_cause(self.node),
        }
        result
    }

    /// The same for a wait that may be late, or find the channel closed.
    #[track_caller]
    fn tried<T>(&self, wait: impl FnOnce() -> Result<T, WaitError>) -> Result<T, WaitError> {
        let told = self.world.must_be_told(self.node);
        let result = wait();
        match &result {
            Err(WaitError::Cancelled(_)) => self.world.must_have_a_cause(self.node),
            _ => self.world.may_not_know(told, self.node),
        }
        result
    }

    fn step(&mut self, step: Step) -> u64 {
        let world = self.world;
        match step {
            Step::Yield => drop(self.waited(cygnet::yield_now)),
            Step::Checkpoint => {}
            Step::Sleep(time) => {
                let start = cygnet::sim::now();
                if self.waited(|| cygnet::sleep(millis(time))).is_ok() {
                    assert!(cygnet::sim::now() - start >= millis(time), "it woke too soon");
                }
            }
            Step::Park => {
                let unparker = cygnet::unparker();
                world.parked.lock().unwrap().push(unparker);
                let region = world.timed_region(self.node);
                let _ = cygnet::timeout(millis(2), || {
                    world.time_runs(region, millis(2));
                    let outer = std::mem::replace(&mut self.node, region);
                    let _ = self.waited(cygnet::park);
                    self.node = outer;
                });
            }
            Step::UnparkAny(which) => {
                let mut parked = world.parked.lock().unwrap();
                let at = which.checked_rem(parked.len());
                let unparker = at.map(|at| parked.swap_remove(at));
                drop(parked);
                unparker.inspect(cygnet::Unparker::unpark);
            }
            Step::CancelAny(which) => {
                let handles = world.handles.lock().unwrap();
                let handle = which.checked_rem(handles.len()).map(|at| handles[at].clone());
                drop(handles);
                if let Some((node, handle)) = handle {
                    world.cancel(node, || handle.cancel("anybody"));
                }
            }
            Step::Spawn(how, steps) => self.spawn(how, steps),
            Step::Handle(handling) => self.handle(handling),
            Step::Scope { children, own, cancels } => return self.scope(children, own, cancels),
            Step::Fork(left, right) => {
                let (task, node) = (self.task, self.node);
                let (left, right) = cygnet::join(
                    || Player::new(world, task, node).play_to_the_end(left),
                    || Player::new(world, task, node).play_to_the_end(right),
                );
                return left + right;
            }
            Step::Hold(thing, limit, steps) => return self.hold(thing, limit, steps),
            Step::Send(limit) => {
                let value = world.new_value();
                let sent = self.tried(|| {
                    let sent = match limit {
                        None => world.sender.send(value),
                        Some(time) => world.sender.send_timeout(value, millis(time)),
                    };
                    sent.map_err(|error| {
                        let why = error.reason().clone();
                        world.not_sent(value, error.into_inner());
                        why
                    })
                });
                assert_ne!(sent, Err(WaitError::Closed), "it is closed after all tasks");
            }
            Step::Receive(time) => {
                if let Ok(value) = self.tried(|| world.receiver.recv_timeout(millis(time))) {
                    world.has_received(value);
                }
            }
            Step::Oneshot(steps) => {
                let (sender, mut receiver) = oneshot();
                let ticket = world.ticket(Some(self.node));
                let (node, own) = (ticket.node, Arc::clone(world));
                let task = cygnet::spawn(move || {
                    let outcome = body(&own, &ticket, steps);
                    let _ = sender.send(node);
                    outcome
                });
                if let Ok(from) = self.tried(|| receiver.recv()) {
                    assert_eq!(from, node);
                }
                self.children.push(Child { world, node, task: Some(task) });
            }
            Step::Timeout(time, steps) => {
                let region = world.timed_region(self.node);
                return self.in_time(region, time, |it| {
                    cygnet::timeout(millis(time), || it.play_timed(region, time, steps))
                });
            }
            Step::Shield(time, steps) => {
                let outer = world.region(self.node);
                let ignoring = world.ignore(outer);
                let region = world.timed_region(outer);
                let taken = self.in_time(region, time, |it| {
                    cygnet::shield(millis(time), || it.play_timed(region, time, steps))
                });
                drop(ignoring);
                return taken;
            }
            Step::Ignore(steps) => {
                let taken = self.waited(|| {
                    // To the end of the call, which tells the tasks below of a cancel that came
                    // meanwhile.
                    let _ignoring = world.ignore(self.node);
                    cygnet::ignore_cancellation(|| {
                        Player::new(world, self.task, self.node).play_to_the_end(steps)
                    })
                });
                return taken.unwrap_or(0);
            }
            Step::Blocking => assert_eq!(cygnet::blocking(|| 6 * 7), 42),
            Step::Loop(count) => {
                let sum = AtomicUsize::new(0);
                let add = |n| _ = sum.fetch_add(n, Relaxed);
                if self.caused(cygnet::par::for_each(0..count, add)) {
                    assert_eq!(sum.into_inner(), count * count.saturating_sub(1) / 2);
                }
            }
            Step::Panic => resume_unwind(Box::new(Planned)),
            Step::Unwind => {
                if let Err(cancelled) = self.waited(cygnet::checkpoint) {
                    world.unwinds(self.task);
                    cancelled.unwind();
                }
            }
        }
        0
    }

    /// Returns whether a call ran to its end. If not, there must be a cause.
    #[track_caller]
    fn caused(&self, result: Result<(), Cancelled>) -> bool {
        if result.is_err() {
            self.world.must_have_a_cause(self.node);
        }
        result.is_ok()
    }

    #[track_caller]
    fn in_time(
        &mut self,
        region: usize,
        time: u64,
        play: impl FnOnce(&mut Self) -> Result<u64, Late<u64>>,
    ) -> u64 {
        let start = cygnet::sim::now();
        let result = play(self);
        self.world.nothing_is_below(region);
        result.unwrap_or_else(|late| {
            assert!(cygnet::sim::now() - start >= millis(time), "it is said to be late");
            late.into_inner()
        })
    }

    fn spawn(&mut self, how: How, steps: Vec<Step>) {
        let world = self.world;
        let above = if matches!(how, How::Unscoped) { None } else { Some(self.node) };
        let ticket = world.ticket(above);
        let (node, own) = (ticket.node, Arc::clone(world));
        let body = move || body(&own, &ticket, steps);
        let task = match how {
            How::Spawn => cygnet::spawn(body),
            How::Now => cygnet::spawn_now(body),
            How::OwnStack => cygnet::task().stack_size(1 << 20).unwrap().spawn(body),
            // SAFETY: what it holds over its suspensions is Send: it holds no guards of locks.
            How::Migratable => unsafe { cygnet::task().migratable() }.spawn(body),
            How::Unscoped => cygnet::spawn_unscoped(body),
            How::Guarded => cygnet::task().guard(&cygnet::Handle::current().swansong()).spawn(body),
        };
        world.keep(node, task.cancel_handle());
        self.children.push(Child { world, node, task: Some(task) });
    }

    fn handle(&mut self, handling: Handling) {
        let Some(mut child) = self.children.pop() else { return };
        match handling {
            Handling::Join => self.join(child),
            Handling::Cancel => {
                let task = child.task.as_ref().expect("it was not joined");
                self.world.cancel(child.node, || task.cancel("its parent"));
                self.join(child);
            }
            Handling::Drop => drop(child),
            Handling::Detach => child.task.take().expect("it was not joined").detach(),
        }
    }

    #[track_caller]
    fn join(&self, mut child: Child<'_>) {
        let (world, node) = (self.world, child.node);
        let task = child.task.take().expect("it is joined once");
        let told = world.must_be_told(self.node);
        // A join that is cut short drops its handle, and so cancels the child, even an unscoped
        // one.
        if world.has_a_cause(self.node) || world.is_unscoped(node) {
            world.may_be_cancelled(node);
        }
        let result = task.join();
        if let Err(JoinError::Cancelled(_)) = result {
            return world.must_have_a_cause(self.node);
        }
        world.may_not_know(told, self.node);
        world.nothing_is_below(node);
        match result {
            Ok(outcome) => {
                assert_eq!(outcome.node, node);
                world.must_have_returned(node, outcome.value);
            }
            Err(JoinError::Panicked(payload)) => assert!(payload.is::<Planned>()),
            Err(JoinError::NotStarted(_)) => world.must_have_a_cause(node),
            Err(JoinError::Unwound(_)) => world.must_have_unwound(node),
            Err(other) => panic!("the end of {node}: {other}"),
        }
    }

    fn scope(&mut self, children: Vec<Vec<Step>>, own: Vec<Step>, cancels: bool) -> u64 {
        let world = self.world;
        let region = world.region(self.node);
        let taken = cygnet::scope(|s| {
            for steps in children {
                let ticket = world.ticket(Some(region));
                let task = s.spawn(move || body(world, &ticket, steps).value);
                if cancels {
                    drop(task);
                }
            }
            let taken = self.play_in(region, own);
            if cancels {
                world.cancel(region, || s.cancel("its owner"));
                let _ = self.play_in(region, vec![Step::Yield]);
            }
            taken
        });
        world.nothing_is_below(region);
        taken
    }

    fn hold(&mut self, thing: Thing, limit: Option<u64>, steps: Vec<Step>) -> u64 {
        let world = self.world;
        let time = limit.map(millis);
        // Waits with or without a time limit.
        macro_rules! wait {
            ($of:expr, $wait:ident($($count:expr)?), $timeout:ident) => {{
                let wait = || match time {
                    None => $of.$wait($($count)?).map_err(WaitError::from),
                    Some(time) => $of.$timeout($($count,)? time),
                };
                match self.tried(wait) {
                    Ok(guard) => guard,
                    Err(_) => return 0,
                }
            }};
        }
        match thing {
            Thing::Mutex(which) => {
                let mut guard = Some(wait!(world.mutexes[which], lock(), lock_timeout));
                let _inside = Inside::new(&world.inside[which], 1, 0);
                let before = **guard.as_ref().expect("it was had");
                if planted("fuzz_programs") {
                    // The lock is not held during the steps.
                    guard = None;
                }
                let taken = self.play(steps);
                // The guard stays until the section is over.
                if let Some(guard) = &mut guard {
                    **guard = before + 1;
                    world.sections[which].fetch_add(1, Relaxed);
                }
                taken
            }
            Thing::Read => {
                let guard = wait!(world.rwlock, read(), read_timeout);
                assert_eq!(world.inside[3].load(Relaxed), 0, "somebody writes");
                let _inside = Inside::new(&world.inside[2], 1, usize::MAX);
                let before = *guard;
                let taken = self.play(steps);
                assert_eq!(*guard, before);
                taken
            }
            Thing::Write => {
                let mut guard = wait!(world.rwlock, write(), write_timeout);
                assert_eq!(world.inside[2].load(Relaxed), 0, "somebody reads");
                let _inside = Inside::new(&world.inside[3], 1, 0);
                let before = *guard;
                let taken = self.play(steps);
                *guard = before + 1;
                world.sections[2].fetch_add(1, Relaxed);
                taken
            }
            Thing::Permits(count) => {
                let _permit = wait!(world.semaphore, acquire_many(count), acquire_timeout);
                let _inside = Inside::new(&world.inside[4], count, 2 - count);
                self.play(steps)
            }
        }
    }
}
