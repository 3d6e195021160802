//! Models of the tree of guards, run by ci/loom.sh.
//!
//! All threads of a model have the same thread number, so models of a root's slots pass numbers by
//! hand. The guards of children are counted in words only.

mod slots;

use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::check::{
    Baton, ORDERS, ORDERS_AND_FENCES, Stage, beside, explore, explore_to_the_end, models,
};
use crate::shim::thread::spawn;
use crate::shutdown::completion::{ShutdownCompletion, StopListener};
use crate::shutdown::guard::Guard;
use crate::shutdown::guards::count_guards;
use crate::shutdown::node::Node;
use crate::shutdown::node_ref::NodeRef;
use crate::shutdown::stop::stop;
use crate::shutdown::word::{Arrival, CHILD, GUARD};
use std::mem::forget;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering as Plain};
use std::task::{Context, Poll, Wake, Waker};

/// A handle, like `Swansong`.
struct Handle(NodeRef);

impl Handle {
    fn root() -> Handle {
        Handle(Node::root(false))
    }

    fn child(&self) -> Handle {
        Handle(Node::child(&self.0))
    }

    fn guard(&self) -> Guard {
        Guard::new(&self.0, Location::caller())
    }

    fn is_complete(&self) -> bool {
        self.0.word.look().is_complete()
    }

    fn other(&self) -> Handle {
        self.0.add_handle();
        Handle(self.0.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // If the checker ends an execution early, the handles stay as they are.
        if !crate::shim::panicking() {
            Node::release_handle(&self.0);
        }
    }
}

/// The first guard of a grandchild is made while the root is stopped.
fn first_guard_and_stop(guard: fn(&Handle) -> Guard) {
    let root = Handle::root();
    let child = root.child();
    let below = child.child();
    let watcher = root.other();
    let worker = spawn(move || {
        let guard = guard(&below);
        // All ancestors count the guard while it exists.
        assert!(!watcher.is_complete(), "complete while a guard exists");
        assert!(!child.is_complete(), "complete while a guard exists");
        drop(guard);
        // These are dropped after the stop: their end is not the subject.
        (below, watcher, child)
    });
    stop(&root.0);
    drop(worker.join().unwrap());
    assert!(root.is_complete(), "not complete without guards");
    assert_eq!(count_guards(&root.0), 0);
}

/// Sets ARRIVED after counting only one level up.
fn guard_counted_one_level_up(handle: &Handle) -> Guard {
    let (node, parent) = (&handle.0, handle.0.parent.as_ref().unwrap());
    // ARRIVED owns a reference to each node.
    if node.word.arrive(GUARD) == Arrival::Alone && node.word.set_arrived() {
        forget(node.clone());
        if parent.word.arrive(CHILD) == Arrival::Alone && parent.word.set_arrived() {
            forget(parent.clone());
        }
    }
    // SAFETY: the guard has been counted in the word.
    unsafe { Guard::counted(node, Location::caller()) }
}

models! {
    fn loom_a_first_guard_below_is_counted_above_before_it_exists() =
        explore_to_the_end(2, || first_guard_and_stop(Handle::guard));

    fn loom_negative_a_guard_exists_before_it_is_counted_above() =
        explore(3, || first_guard_and_stop(guard_counted_one_level_up)),
        fails: "complete while a guard exists";
}

/// If a thread counts a guard and then stops the root, the stop waits for that guard.
#[test]
fn loom_the_stop_waits_for_a_guard_that_was_counted_before() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let below = root.child().child();
        let goes = Stage::new(AtomicBool::new(false));
        let worker = spawn(move || {
            let guard = below.guard();
            goes.store(true, Ordering::Release);
            drop(guard);
            // Dropped after the stop: its end is not the subject.
            below
        });
        let seen = count_guards(&root.0) == 1;
        stop(&root.0);
        if seen && root.is_complete() {
            assert!(goes.load(Ordering::Acquire), "complete while a counted guard exists");
        }
        drop(worker.join().unwrap());
    });
}

/// Two threads make the first guards of two siblings at once.
#[test]
fn loom_two_first_guards_arrive_once() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let child = root.child();
        let (one, two) = (child.child(), child.child());
        stop(&root.0);
        let other = spawn(move || drop(two.guard()));
        let guard = one.guard();
        assert!(!root.is_complete(), "complete while a guard exists");
        other.join().unwrap();
        assert!(!root.is_complete(), "complete while a guard exists");
        drop(guard);
        assert!(root.is_complete(), "not complete without guards");
    });
}

/// The last two guards are dropped while the root is stopped. The waiter is woken.
#[test]
fn loom_dropping_the_last_guard_wakes_the_waiter() {
    explore_to_the_end(3, || {
        let root = Handle::root();
        let child = root.child();
        let guards = [child.guard(), child.guard()];
        let mut completion = Completion::new(&root);
        let threads = guards.map(|guard| spawn(move || drop(guard)));
        stop(&root.0);
        completion.poll();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(completion.is_told(), "the waiter for the completion was not woken");
    });
}

/// A late guard is made and dropped, while the drop of the last earlier guard notifies the waiter.
#[test]
fn loom_dropping_a_late_guard_wakes_the_waiter() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let child = root.child();
        let guard = child.guard();
        stop(&root.0);
        let mut completion = Completion::new(&root);
        completion.poll();
        assert!(!completion.ready, "complete while a guard exists");
        beside(move || drop(guard), || drop(child.guard()));
        assert!(completion.is_told(), "the waiter for the completion was not woken");
    });
}

/// A completion that is polled, and the number of calls to its waker.
struct Completion {
    completion: ShutdownCompletion,
    calls: std::sync::Arc<Calls>,
    ready: bool,
}

#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Plain::Relaxed);
    }
}

impl Completion {
    fn new(handle: &Handle) -> Completion {
        Completion {
            completion: ShutdownCompletion::new(&handle.0),
            calls: std::sync::Arc::default(),
            ready: false,
        }
    }

    fn poll(&mut self) {
        let waker = Waker::from(std::sync::Arc::clone(&self.calls));
        let polled = Pin::new(&mut self.completion).poll(&mut Context::from_waker(&waker));
        self.ready |= polled == Poll::Ready(());
    }

    /// Returns whether the completion was ready at once, or was woken and is ready now.
    fn is_told(&mut self) -> bool {
        if !self.ready && self.calls.0.load(Plain::Relaxed) > 0 {
            self.poll();
        }
        self.ready
    }
}

/// Work under the last guard happens before whatever follows the completion. A waiter for it is
/// woken.
fn work_and_completion() {
    let root = Handle::root();
    let child = root.child();
    let work = Stage::new(Baton::new());
    let guard = child.guard();
    let worker = spawn(move || {
        work.write();
        drop(guard);
    });
    stop(&root.0);
    let mut completion = Completion::new(&root);
    completion.poll();
    if completion.ready || root.is_complete() {
        assert_eq!(work.read(), 1);
    }
    worker.join().unwrap();
    assert!(completion.is_told(), "the waiter for the completion was not woken");
}

models! {
    fn loom_work_under_a_guard_is_seen_after_the_completion() =
        explore_to_the_end(3, work_and_completion);

    fn loom_negative_a_word_without_order() = explore(3, work_and_completion),
        without ORDERS in "shutdown/word.rs", fails;
}

/// A node that never had a guard is complete as soon as it is stopped, without leaving its parent.
#[test]
fn loom_a_waiter_for_a_node_that_never_had_a_guard_is_woken() {
    explore_to_the_end(3, || {
        let root = Handle::root();
        let child = root.child();
        let stopper = root.other();
        let mut completion = Completion::new(&child);
        beside(move || stop(&stopper.0), || completion.poll());
        assert!(completion.is_told(), "the waiter for the completion was not woken");
    });
}

/// Three threads give up their references to a node. Two of them make another reference first. The
/// thread that gets the node sees what the others have done.
fn last_reference() {
    let node = Node::make(None, false);
    let give_up = |node: NodeRef, write: fn(&Node)| {
        write(&node);
        if let Some(node) = node.into_inner() {
            // The cells: loom checks that no other access is concurrent.
            (node.index.get(), node.todo.take());
            return 1;
        }
        0
    };
    let writes: [fn(&Node); 2] = [|node| node.todo.set(None), |node| node.index.set(0)];
    let threads = writes.map(|write| {
        let node = node.clone();
        spawn(move || {
            let another = node.clone();
            give_up(node, |_| {}) + give_up(another, write)
        })
    });
    let got = give_up(node, |_| {});
    let got = threads.into_iter().fold(got, |got, thread| got + thread.join().unwrap());
    assert_eq!(got, 1, "exactly one thread must get the node");
}

models! {
    fn loom_one_reference_is_the_last_and_sees_what_all_have_done() =
        explore_to_the_end(3, last_reference);

    fn loom_negative_references_without_order() = explore(3, last_reference),
        without ORDERS_AND_FENCES in "shutdown/node_ref.rs", fails;
}

/// Of two handles that are dropped at once, one is the last.
#[test]
fn loom_the_last_of_two_handles_stops_the_root() {
    explore_to_the_end(3, || {
        let root = Handle::root();
        let node = root.0.clone();
        let other = root.other();
        beside(move || drop(other), || drop(root));
        assert!(node.is_stopped(), "the root was not stopped");
    });
}

#[test]
fn loom_a_stopped_thread_sees_what_was_done_before_the_stop() {
    explore_to_the_end(3, || {
        let root = Handle::root();
        let done = Stage::new(Baton::new());
        let other = root.other();
        let stopped = spawn(move || {
            if other.0.is_stopped() {
                assert_eq!(done.read(), 1);
            }
        });
        done.write();
        stop(&root.0);
        stopped.join().unwrap();
    });
}

#[test]
fn loom_a_child_that_is_made_during_the_stop_is_stopped() {
    explore_to_the_end(3, || {
        let root = Handle::root();
        let sibling = root.child();
        let parent = root.other();
        let maker = spawn(move || {
            let child = parent.child();
            let below = child.child();
            (child, below)
        });
        stop(&root.0);
        assert!(sibling.0.is_stopped(), "a child has not been stopped");
        let (child, below) = maker.join().unwrap();
        assert!(child.0.is_stopped(), "a child has not been stopped");
        assert!(below.0.is_stopped(), "a child of a child has not been stopped");
    });
}

/// The last handle is dropped while an interrupt asks for a guard.
#[test]
fn loom_a_guard_made_while_the_last_handle_goes_is_counted_or_refused() {
    explore_to_the_end(3, || {
        let root = Handle::root();
        let child = root.child();
        let interrupt = StopListener::new(&child.0);
        let asks = spawn(move || {
            let guard = interrupt.guard();
            (interrupt, guard)
        });
        drop(child);
        let (interrupt, guard) = asks.join().unwrap();
        assert_eq!(count_guards(&root.0), u64::from(guard.is_some()));
        assert_eq!(
            interrupt.counted(),
            u64::from(guard.is_some()),
            "the word counts a guard that was refused"
        );
        assert_ne!(
            interrupt.is_stopped(),
            guard.is_some(),
            "the node must either count a guard or have ended"
        );
        stop(&root.0);
        assert_ne!(root.is_complete(), guard.is_some());
        drop(guard);
        assert!(root.is_complete(), "not complete without guards");
    });
}

/// The last handles of a node and of its child are dropped at once, and a guard of the child, too.
#[test]
fn loom_a_chain_is_collected_by_the_last_thread() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let child = root.child();
        let below = child.child();
        let guard = below.guard();
        let one = spawn(move || drop(child));
        let two = spawn(move || drop(guard));
        drop(below);
        one.join().unwrap();
        two.join().unwrap();
        assert!(root.0.state.lock().children.is_empty(), "a child is left in the list");
    });
}

/// The last handle and the last guard are dropped at once. Whichever thread ends the node, an
/// interrupt that sees the end also sees the work under the guard.
#[test]
fn loom_an_interrupt_that_ends_sees_work_under_the_last_guard() {
    explore_to_the_end(3, || {
        let root = Handle::root();
        let child = root.child();
        let work = Stage::new(Baton::new());
        let (guard, interrupt) = (child.guard(), StopListener::new(&child.0));
        let worker = spawn(move || {
            work.write();
            drop(guard);
        });
        let drops = spawn(move || drop(child));
        if interrupt.is_stopped() {
            assert_eq!(work.read(), 1);
        }
        worker.join().unwrap();
        drops.join().unwrap();
    });
}

/// Children are dropped while their parent is stopped.
#[test]
fn loom_children_may_be_dropped_while_they_are_stopped() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let children = [root.child(), root.child(), root.child()];
        let guard = children[1].guard();
        let goes = spawn(move || {
            drop(guard);
            drop(children);
        });
        stop(&root.0);
        goes.join().unwrap();
        assert!(root.is_complete(), "not complete without guards");
    });
}
