//! What is known of a program while it runs, in plain numbers: who was started, cancelled and has ended, who holds what, and what was sent and
//! received. Tasks of a simulation run on one thread, and are left at calls of the library alone; so what is noted before a call was so before it.

use cygnet::sync::{Mutex, Receiver, RwLock, Semaphore, Sender};
use cygnet::{CancelHandle, Unparker, sim};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex, OnceLock};
use std::time::{Duration, Instant};

/// What may go by between the moment a timer is set for and the one at which everybody is told: a tick is 65 microseconds.
const TICK: Duration = Duration::from_millis(1);

/// A task, or a scope in one.
#[derive(Default, Debug)]
struct Node {
    parent: Option<usize>,
    /// Somebody has begun to cancel it, or may have.
    may: bool,
    /// Somebody has cancelled it.
    is: bool,
    /// So many do so at this moment; and others may.
    cancelling: usize,
    others: bool,
    /// By when it is cancelled.
    deadline: Option<Instant>,
    /// Sections that ignore a cancel from above.
    ignores: usize,
    /// Tasks below it that are not over.
    below: usize,
    /// The value that it has returned.
    value: Option<u64>,
    /// It has unwound itself.
    unwound: bool,
}

/// What is known of a wait before it begins.
#[derive(Clone, Copy)]
pub(super) enum Told {
    /// It may go on, or be cut short if there is a cause.
    Perhaps,
    /// It is cut short: the time of a scope around it is over.
    Late,
    /// It is cut short: somebody has cancelled it, and is back.
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
    /// No call of the library is made under these locks: it would suspend.
    pub(super) handles: StdMutex<Vec<(usize, Arc<CancelHandle>)>>,
    pub(super) parked: StdMutex<Vec<Unparker>>,

    pub(super) mutexes: [Mutex<u64>; 2],
    pub(super) rwlock: RwLock<u64>,
    pub(super) semaphore: Semaphore,
    /// Who is inside: of each mutex, those who read, and those who write; permits in use.
    pub(super) inside: [AtomicUsize; 5],
    /// How often each mutex, and the lock for writing, was held to the end.
    pub(super) sections: [AtomicUsize; 3],

    pub(super) sender: Sender<u64>,
    pub(super) receiver: Receiver<u64>,
    serial: AtomicUsize,
    /// What was sent and not received.
    under_way: StdMutex<BTreeSet<u64>>,
    pub(super) received: AtomicUsize,

    /// What is not as it must be: the first that was found.
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

    /// A scope of that task, or in that scope.
    pub(super) fn region(&self, above: usize) -> usize {
        self.add(Some(above))
    }

    /// A scope that is cancelled after some time.
    pub(super) fn timed_region(&self, above: usize) -> usize {
        let region = self.region(above);
        self.may_be_cancelled(region);
        region
    }

    /// Called in such a scope, at its beginning: so its time is over no later than this one.
    pub(super) fn time_runs(&self, region: usize, time: Duration) {
        let deadline = sim::now() + time;
        self.node(region).deadline = Some(deadline);
    }

    fn above(&self, node: usize) -> Vec<usize> {
        let nodes = self.nodes.lock().unwrap();
        std::iter::successors(Some(node), |&n| nodes[n].parent).collect()
    }

    /// Cancels it, with all that is below, by `cancel`.
    pub(super) fn cancel(&self, node: usize, cancel: impl FnOnce()) {
        let above = self.node(node).parent;
        let mut it = self.node(node);
        it.may = true;
        it.cancelling += 1;
        drop(it);
        cancel();
        // Who finds that another is about it does not wait until all have been told: so not before the last one is back.
        let others = above.is_some_and(|above| self.has_a_cause(above)) || self.ends.load(Relaxed);
        let mut it = self.node(node);
        it.cancelling -= 1;
        it.is |= it.cancelling == 0 && !it.others && !others;
    }

    /// Somebody may cancel it, whenever that is.
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

    /// Whether the caller's next wait must tell it so. If not, it still may.
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

    /// A wait of the caller in `node` was not cut short: so it could know nothing, or others are about to tell it at this moment. Two cancels of tasks
    /// of which the one is below the other share the work, and the one may be back before the other has done its part.
    #[track_caller]
    pub(super) fn may_not_know(&self, told: Told, node: usize) {
        // The only worker is not about anything else while a task runs there.
        let at_once = match told {
            Told::Perhaps => return,
            Told::Late => self.workers == 1 && !self.ends.load(Relaxed),
            Told::Cancelled => self.workers == 1,
        };
        // Others may stand aside for some thousand steps.
        let is_told = || {
            sim::thread::yield_now();
            cygnet::is_cancelled()
        };
        let soon = !at_once && (0..100_000).any(|_| is_told());
        assert!(soon, "it is cancelled, and does not know: {}", self.describe(node));
    }

    /// A node, and what is known of those above it.
    fn describe(&self, node: usize) -> String {
        let nodes = self.nodes.lock().unwrap();
        let above = std::iter::successors(Some(node), |&n| nodes[n].parent);
        let texts = above.map(|n| format!("{n}: {:?}", nodes[n]));
        texts.collect::<Vec<_>>().join(", below ")
    }

    /// From now on, and until what is returned goes, that one ignores what comes from above.
    pub(super) fn ignore(self: &Arc<Self>, node: usize) -> Ignoring {
        self.node(node).ignores += 1;
        Ignoring(Arc::clone(self), node)
    }

    /// All tasks below it are over, as it is at an end that waits for them.
    #[track_caller]
    pub(super) fn nothing_is_below(&self, node: usize) {
        assert_eq!(self.node(node).below, 0, "tasks below {node} have outlived its end");
    }

    /// A task's number, which goes with its closure.
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

    /// One that was not sent before.
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

    /// Something is not as it must be.
    pub(super) fn fails(&self, what: String) {
        let _ = self.failure.set(what);
    }

    /// Of the tasks.
    pub(super) fn nothing_has_failed(&self) {
        assert_eq!(self.failure.get(), None, "a task has found something");
    }

    /// What must be so when all is over.
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

/// Something whose drop is counted.
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

/// Somebody is inside of something until it goes.
pub(super) struct Inside<'a>(&'a AtomicUsize, usize);

impl<'a> Inside<'a> {
    /// With so many others at the most.
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
