//! A record of a program while it runs, in plain numbers: the tasks that were started, cancelled
//! and have ended, the locks that they hold, and the values that were sent and received. Tasks of a
//! simulation run on one thread, which leaves them only at calls of the library. So an entry that
//! is made before a call was true before it.

use cygnet::sync::{Mutex, Receiver, RwLock, Semaphore, Sender};
use cygnet::{CancelHandle, Unparker, sim};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex, OnceLock};
use std::time::{Duration, Instant};

/// The longest time between a deadline and the moment at which all tasks are told. A timer's tick
/// is 65 microseconds.
const TICK: Duration = Duration::from_millis(1);

/// A task, or a scope in one.
#[derive(Default, Debug)]
struct Node {
    parent: Option<usize>,
    /// A cancel has begun, or may have.
    may: bool,
    /// A cancel has returned.
    is: bool,
    /// Cancels under way, and whether there may be others.
    cancelling: usize,
    others: bool,
    /// When it is cancelled.
    deadline: Option<Instant>,
    /// Sections that ignore a cancel from above.
    ignores: usize,
    /// Tasks below it that are not over.
    below: usize,
    /// The value that it has returned.
    value: Option<u64>,
    /// The task has unwound itself.
    unwound: bool,
}

/// The known outcome of a wait before it begins.
#[derive(Clone, Copy)]
pub(super) enum Told {
    /// Success, or a cut if there is a cause.
    Perhaps,
    /// A cut: the time of a scope around it is over.
    Late,
    /// A cut: a cancel has returned.
    Cancelled,
}

pub(super) struct World {
    workers: usize,
    nodes: StdMutex<Vec<Node>>,
    /// Tasks that were spawned, called, and have returned or unwound.
    pub(super) spawned: AtomicUsize,
    pub(super) begun: AtomicUsize,
    pub(super) ended: AtomicUsize,
    /// Closures and results that are not dropped.
    pub(super) alive: AtomicUsize,
    /// The runtime is told to end.
    pub(super) ends: AtomicBool,
    /// No call of the library is made under these locks, since it would suspend.
    pub(super) handles: StdMutex<Vec<(usize, Arc<CancelHandle>)>>,
    pub(super) parked: StdMutex<Vec<Unparker>>,

    pub(super) mutexes: [Mutex<u64>; 2],
    pub(super) rwlock: RwLock<u64>,
    pub(super) semaphore: Semaphore,
    /// The tasks inside each mutex, readers, writers, and permits in use.
    pub(super) inside: [AtomicUsize; 5],
    /// How often each mutex, and the writer's lock, was held to the end of its section.
    pub(super) sections: [AtomicUsize; 3],

    pub(super) sender: Sender<u64>,
    pub(super) receiver: Receiver<u64>,
    serial: AtomicUsize,
    /// Values that were sent and not received.
    under_way: StdMutex<BTreeSet<u64>>,
    pub(super) received: AtomicUsize,

    /// The first deviation that a task has found.
    failure: OnceLock<String>,
}

impl World {
    pub(super) fn new(workers: usize, channel: (Sender<u64>, Receiver<u64>)) -> World {
        let (sender, receiver) = channel;
        World {
            workers,
            nodes: StdMutex::default(),
            spawned: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            alive: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
            handles: StdMutex::default(),
            parked: StdMutex::default(),
            mutexes: [Mutex::new(0), Mutex::fifo(0)],
            rwlock: RwLock::new(0),
            semaphore: Semaphore::new(2),
            inside: Default::default(),
            sections: Default::default(),
            sender,
            receiver,
            serial: AtomicUsize::new(0),
            under_way: StdMutex::default(),
            received: AtomicUsize::new(0),
            failure: OnceLock::new(),
        }
    }

    fn node(&self, node: usize) -> NodeOf<'_> {
        NodeOf { nodes: self.nodes.lock().unwrap(), node }
    }

    fn add(&self, parent: Option<usize>) -> usize {
        let mut nodes = self.nodes.lock().unwrap();
        nodes.push(Node { parent, ..Node::default() });
        nodes.len() - 1
    }

    /// Adds a scope of a task, or in a scope.
    pub(super) fn region(&self, above: usize) -> usize {
        self.add(Some(above))
    }

    /// Adds a scope that is cancelled after some time.
    pub(super) fn timed_region(&self, above: usize) -> usize {
        let region = self.region(above);
        self.may_be_cancelled(region);
        region
    }

    /// Called at the beginning of such a scope, so the scope's time is over no later than this one.
    pub(super) fn time_runs(&self, region: usize, time: Duration) {
        let deadline = sim::now() + time;
        self.node(region).deadline = Some(deadline);
    }

    fn above(&self, node: usize) -> Vec<usize> {
        let nodes = self.nodes.lock().unwrap();
        std::iter::successors(Some(node), |&n| nodes[n].parent).collect()
    }

    /// Cancels a node, with all nodes below it, by `cancel`.
    pub(super) fn cancel(&self, node: usize, cancel: impl FnOnce()) {
        let above = self.node(node).parent;
        let mut it = self.node(node);
        it.may = true;
        it.cancelling += 1;
        drop(it);
        cancel();
        // A cancel that finds another one under way does not wait until all have been told. So the
        // node counts as cancelled only when the last cancel has returned.
        let others = above.is_some_and(|above| self.has_a_cause(above)) || self.ends.load(Relaxed);
        let mut it = self.node(node);
        it.cancelling -= 1;
        it.is |= it.cancelling == 0 && !it.others && !others;
    }

    /// Another cause may cancel the node at any time.
    pub(super) fn may_be_cancelled(&self, node: usize) {
        let mut it = self.node(node);
        it.may = true;
        it.others = true;
    }

    /// The caller was told that it is cancelled.
    #[track_caller]
    pub(super) fn must_have_a_cause(&self, node: usize) {
        assert!(self.has_a_cause(node), "nobody has cancelled {node}, and it is told so");
    }

    pub(super) fn has_a_cause(&self, node: usize) -> bool {
        self.ends.load(Relaxed) || self.above(node).into_iter().any(|n| self.node(n).may)
    }

    pub(super) fn is_unscoped(&self, node: usize) -> bool {
        self.node(node).parent.is_none()
    }

    /// Returns what the caller's next wait must tell it.
    pub(super) fn must_be_told(&self, node: usize) -> Told {
        let now = sim::now();
        let mut told = Told::Perhaps;
        for n in self.above(node) {
            let node = self.node(n);
            if node.ignores > 0 {
                break;
            }
            if node.is {
                return Told::Cancelled;
            }
            if node.deadline.is_some_and(|deadline| deadline + TICK <= now) {
                told = Told::Late;
            }
        }
        told
    }

    /// A wait of the caller in `node` was not cut short. So the caller could know nothing, or is
    /// being told at this moment: the cancels of a task and of one below it share the work, and the
    /// first may be back before the second has done its part.
    #[track_caller]
    pub(super) fn may_not_know(&self, told: Told, node: usize) {
        // The only worker tells no other task while a task runs on it.
        let at_once = match told {
            Told::Perhaps => return,
            Told::Late => self.workers == 1 && !self.ends.load(Relaxed),
            Told::Cancelled => self.workers == 1,
        };
        // Other threads may stand still for some thousand steps.
        let is_told = || {
            sim::thread::yield_now();
            cygnet::is_cancelled()
        };
        let soon = !at_once && (0..100_000).any(|_| is_told());
        assert!(soon, "it is cancelled, and does not know: {}", self.describe(node));
    }

    /// Describes a node and the nodes above it.
    fn describe(&self, node: usize) -> String {
        let nodes = self.nodes.lock().unwrap();
        let above = std::iter::successors(Some(node), |&n| nodes[n].parent);
        let texts = above.map(|n| format!("{n}: {:?}", nodes[n]));
        texts.collect::<Vec<_>>().join(", below ")
    }

    /// Has the node ignore cancels from above until the result is dropped.
    pub(super) fn ignore(self: &Arc<Self>, node: usize) -> Ignoring {
        self.node(node).ignores += 1;
        Ignoring(Arc::clone(self), node)
    }

    /// Asserts that all tasks below the node are over.
    #[track_caller]
    pub(super) fn nothing_is_below(&self, node: usize) {
        assert_eq!(self.node(node).below, 0, "tasks below {node} have outlived its end");
    }

    /// Adds a task. The ticket goes with its closure.
    pub(super) fn ticket(self: &Arc<Self>, parent: Option<usize>) -> Ticket {
        self.spawned.fetch_add(1, Relaxed);
        let node = self.add(parent);
        let above = parent.map_or_else(Vec::new, |parent| self.above(parent));
        above.into_iter().for_each(|n| self.node(n).below += 1);
        Ticket { node, _alive: Alive::new(self) }
    }

    pub(super) fn returns(&self, node: usize, value: u64) {
        self.node(node).value = Some(value);
    }

    #[track_caller]
    pub(super) fn must_have_returned(&self, node: usize, value: u64) {
        assert_eq!(self.node(node).value, Some(value), "another value came from {node}");
    }

    pub(super) fn unwinds(&self, node: usize) {
        self.node(node).unwound = true;
    }

    #[track_caller]
    pub(super) fn must_have_unwound(&self, node: usize) {
        assert!(self.node(node).unwound, "{node} is said to have unwound");
    }

    pub(super) fn keep(&self, node: usize, handle: CancelHandle) {
        self.handles.lock().unwrap().push((node, Arc::new(handle)));
    }

    /// Returns a value that was not sent before.
    pub(super) fn new_value(&self) -> u64 {
        let value = self.serial.fetch_add(1, Relaxed) as u64;
        // Before it is sent: it may be received before the sender goes on.
        assert!(self.under_way.lock().unwrap().insert(value));
        value
    }

    #[track_caller]
    pub(super) fn not_sent(&self, value: u64, came_back: u64) {
        assert_eq!(value, came_back);
        assert!(self.under_way.lock().unwrap().remove(&value), "{value} was sent, and came back");
    }

    #[track_caller]
    pub(super) fn has_received(&self, value: u64) {
        self.received.fetch_add(1, Relaxed);
        assert!(
            self.under_way.lock().unwrap().remove(&value),
            "{value} came twice, or was not sent"
        );
    }

    /// Records a deviation.
    pub(super) fn fails(&self, what: String) {
        let _ = self.failure.set(what);
    }

    /// Asserts that no task has recorded a deviation.
    pub(super) fn nothing_has_failed(&self) {
        assert_eq!(self.failure.get(), None, "a task has found something");
    }

    /// Asserts the state after the end.
    pub(super) fn check(&self) {
        let [spawned, begun, ended, alive] =
            [&self.spawned, &self.begun, &self.ended, &self.alive].map(|n| n.load(Relaxed));
        assert_eq!((begun, alive), (ended, 0), "of {spawned} tasks something is left");
        let nodes = self.nodes.lock().unwrap();
        assert!(nodes.iter().all(|node| node.below == 0 && node.ignores == 0));
        drop(nodes);
        assert!(self.inside.iter().all(|inside| inside.load(Relaxed) == 0), "somebody is inside");
        for (mutex, sections) in self.mutexes.iter().zip(&self.sections) {
            let count = *mutex.try_lock().expect("nobody has it");
            assert_eq!(count, sections.load(Relaxed) as u64, "a section was lost");
        }
        let count = *self.rwlock.try_write().expect("nobody has it");
        assert_eq!(count, self.sections[2].load(Relaxed) as u64, "a section was lost");
        assert_eq!(self.semaphore.available_permits(), 2);
        let under_way = self.under_way.lock().unwrap();
        assert!(under_way.is_empty(), "never received: {under_way:?}");
    }
}

struct NodeOf<'a> {
    nodes: std::sync::MutexGuard<'a, Vec<Node>>,
    node: usize,
}

impl std::ops::Deref for NodeOf<'_> {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.nodes[self.node]
    }
}

impl std::ops::DerefMut for NodeOf<'_> {
    fn deref_mut(&mut self) -> &mut Node {
        &mut self.nodes[self.node]
    }
}

/// Counts as alive until it is dropped.
pub(super) struct Alive(Arc<World>);

impl Alive {
    pub(super) fn new(world: &Arc<World>) -> Alive {
        world.alive.fetch_add(1, Relaxed);
        Alive(Arc::clone(world))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Relaxed);
    }
}

/// See [`World::ticket`].
pub(super) struct Ticket {
    pub(super) node: usize,
    _alive: Alive,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let world = &self._alive.0;
        for n in world.above(self.node).into_iter().skip(1) {
            world.node(n).below -= 1;
        }
    }
}

/// See [`World::ignore`].
pub(super) struct Ignoring(Arc<World>, usize);

impl Drop for Ignoring {
    fn drop(&mut self) {
        self.0.node(self.1).ignores -= 1;
    }
}

/// Counts as inside of a lock until it is dropped.
pub(super) struct Inside<'a>(&'a AtomicUsize, usize);

impl<'a> Inside<'a> {
    /// With at most `others` others.
    #[track_caller]
    pub(super) fn new(inside: &'a AtomicUsize, count: usize, others: usize) -> Inside<'a> {
        let before = inside.fetch_add(count, Relaxed);
        assert!(before <= others, "{before} are inside, and may not be");
        Inside(inside, count)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Relaxed);
    }
}
