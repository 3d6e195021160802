//! The fork list: its owner, which returns past a fork, against thieves, which follow a pointer to
//! it.

use crate::scheduler::queue::fork_list::{ForkList, Forked, Left, Link};
use crate::shim::Cell;
use crate::shim::check::{FENCES, ORDERS_AND_FENCES, Stage, beside, explore, models, plant};
use crate::shim::thread::spawn;
use crate::task::words::tree::Node;
use std::ptr::{self, NonNull};

/// A fork. Its body is written by the thread that runs it, and by its owner at the push and at the
/// end of the join.
#[repr(C)]
struct Fork {
    link: Link,
    body: Cell<usize>,
    /// Set under the lock by the thread that makes the fork public.
    public: Cell<bool>,
    node: *const Node,
}

// SAFETY: the link is the first field of a `repr(C)` struct.
unsafe impl Forked for Fork {
    fn link(&self) -> &Link {
        &self.link
    }

    fn node(&self) -> *const Node {
        self.node
    }
}

struct Yard<const N: usize> {
    forks: ForkList<Fork>,
    /// The fork list of another worker.
    other: ForkList<Fork>,
    frames: [Fork; N],
    /// Each fork has a higher address than the one before it, as with two joins in one frame or on
    /// two stacks.
    upwards: bool,
    stolen: [Cell<usize>; N],
}

impl<const N: usize> Yard<N> {
    fn new() -> Stage<Yard<N>> {
        Yard::laid_out(false)
    }

    fn laid_out(upwards: bool) -> Stage<Yard<N>> {
        let fork = || Fork {
            link: Link::new(),
            body: Cell::new(0),
            public: Cell::new(false),
            node: ptr::dangling(),
        };
        let yard = Stage::new(Yard {
            forks: ForkList::new(),
            other: ForkList::new(),
            frames: [(); N].map(|()| fork()),
            upwards,
            stolen: [(); N].map(|()| Cell::new(0)),
        });
        yard.forks.anchor();
        yard.other.anchor();
        yard
    }

    /// Returns the fork with this number. Stacks grow down, so newer forks have lower addresses
    /// unless `upwards` is set.
    fn frame(&self, fork: usize) -> &Fork {
        &self.frames[if self.upwards { fork } else { N - 1 - fork }]
    }

    fn push(&self, fork: usize) {
        let frame = self.frame(fork);
        frame.body.set(1);
        frame.public.set(false);
        // SAFETY: the fork is alive until its `end_join`, which takes it off.
        if unsafe { self.forks.push(NonNull::from(frame)) } {
            self.make_all_public();
        }
    }

    /// Takes a fork, like `make_public`: follows the pointer under the lock.
    fn take(&self, fork: NonNull<Fork>) {
        // SAFETY: the fork is alive, which is what the model checks.
        let fork = unsafe { fork.as_ref() };
        fork.public.set(true);
        fork.body.set(fork.body.get() + 1);
        let index = self.frames.iter().position(|f| ptr::eq(f, fork)).expect("one of ours");
        self.stolen[index].set(self.stolen[index].get() + 1);
    }

    fn steal(&self) -> bool {
        self.forks.steal(|_| true, |fork| self.take(fork))
    }

    fn make_all_public(&self) {
        self.forks.make_all_public(|fork| self.take(fork));
    }

    /// Ends a join. Afterwards the fork is gone. Returns whether its owner runs it.
    fn end_join(&self, fork: usize) -> bool {
        self.end_join_in(&self.forks, fork)
    }

    fn end_join_in(&self, forks: &ForkList<Fork>, fork: usize) -> bool {
        let frame = self.frame(fork);
        // SAFETY: this is the newest fork.
        let ours = unsafe { forks.pop(frame) || forks.resolve(frame) };
        assert_ne!(ours, frame.public.get(), "a fork is run by no thread, or by two");
        assert_eq!(frame.body.replace(0), if ours { 1 } else { 2 });
        ours
    }

    /// Ends the joins of forks 1 and 0. Returns how many of the two their owner does not run.
    fn end_both(&self) -> usize {
        usize::from(!self.end_join(1)) + usize::from(!self.end_join(0))
    }

    fn end(this: Stage<Yard<N>>) {
        assert!(this.forks.is_clear() && this.forks.is_empty());
    }
}

/// Two nested joins, and a thief.
fn nested_joins(upwards: bool) {
    let yard = Yard::<2>::laid_out(upwards);
    let thief = spawn(move || yard.steal());
    yard.push(0);
    yard.push(1);
    let inner = yard.end_join(1);
    let outer = yard.end_join(0);
    assert_eq!(thief.join().unwrap(), !(inner && outer));
    Yard::end(yard);
}

models! {
    fn loom_each_fork_runs_once() = explore(3, || nested_joins(false));

    fn loom_each_fork_runs_once_whatever_its_address() = explore(3, || nested_joins(true));

    fn loom_negative_a_fork_list_without_fences() = explore(3, || nested_joins(false)),
        without FENCES in "scheduler/queue/fork_list.rs", fails;
}

#[test]
#[should_panic]
fn loom_negative_a_fork_list_without_order() {
    plant("scheduler/queue/fork_list.rs", ORDERS_AND_FENCES);
    explore(3, || {
        let yard = Yard::<1>::new();
        beside(move || yard.steal(), || yard.push(0));
        yard.end_join(0);
        Yard::end(yard);
    });
}

/// The thief sees the fork below a popped one without any fence.
#[test]
fn loom_the_fork_below_a_popped_one_is_visible_without_a_fence() {
    plant("scheduler/queue/fork_list.rs", FENCES);
    explore(3, || {
        let yard = Yard::<2>::new();
        let thief = spawn(move || yard.steal());
        yard.push(0);
        yard.push(1);
        assert!(yard.end_join(1));
        let stolen = thief.join().unwrap();
        assert_eq!(yard.end_join(0), !stolen);
        Yard::end(yard);
    });
}

/// The outer fork is public already. A thief is about to take the inner fork while the owner takes
/// off the inner one and then the outer one. The owner must not mistake either of them for private.
fn one_public_and_one_sought(upwards: bool) {
    let yard = Yard::<2>::laid_out(upwards);
    yard.push(0);
    yard.make_all_public();
    let thief = spawn(move || yard.steal());
    yard.push(1);
    let inner = yard.end_join(1);
    assert!(!yard.end_join(0));
    assert_eq!(thief.join().unwrap(), !inner);
    Yard::end(yard);
}

#[test]
fn loom_a_public_fork_is_not_hidden_by_one_that_a_thief_takes() {
    explore(3, || one_public_and_one_sought(false));
    explore(3, || one_public_and_one_sought(true));
}

/// One join after the other, in these frames, and a thief that comes `steals` times.
fn one_join_after_the_other<const N: usize>(frames: &'static [usize], steals: usize) {
    let yard = Yard::<N>::new();
    let thief = spawn(move || (0..steals).filter(|_| yard.steal()).count());
    let mut taken = 0;
    for &fork in frames {
        yard.push(fork);
        taken += usize::from(!yard.end_join(fork));
    }
    assert_eq!(thief.join().unwrap(), taken);
    Yard::end(yard);
}

models! {
    /// Two forks at the same address: a late thief takes the second one.
    fn loom_a_frame_is_used_again() = explore(3, || one_join_after_the_other::<1>(&[0, 0], 2));

    /// The bottom's link to the fork that the thief has seen is stale.
    fn loom_a_stale_link_is_not_followed() =
        explore(3, || one_join_after_the_other::<2>(&[0, 1, 0], 1));
}

#[test]
fn loom_two_thieves_do_not_take_the_same_fork() {
    explore(2, || {
        let yard = Yard::<2>::new();
        yard.push(0);
        yard.push(1);
        let thieves = [(); 2].map(|()| spawn(move || yard.steal()));
        let taken = yard.end_both();
        let stolen = thieves.map(|t| usize::from(t.join().unwrap())).iter().sum::<usize>();
        assert_eq!(stolen, taken);
        Yard::end(yard);
    });
}

/// A fiber suspends with open joins, another one forks meanwhile, and the first one resumes on the
/// same worker or, if `elsewhere`, on another one.
fn left_and_found_again(elsewhere: bool) {
    let yard = Yard::<3>::new();
    let thief = spawn(move || {
        yard.steal();
        yard.other.steal(|_| true, |fork| yard.take(fork));
    });
    yard.push(0);
    yard.push(1);
    yard.make_all_public();
    let left: Left = yard.forks.leave();
    assert!(yard.forks.is_clear());
    yard.push(2);
    yard.end_join(2);
    let forks = if elsewhere { &yard.other } else { &yard.forks };
    // SAFETY: the fork list is clear.
    unsafe { forks.come_back(left) };
    assert!(!yard.end_join_in(forks, 1));
    yard.frame(1).body.set(1);
    yard.frame(1).public.set(false);
    // SAFETY: the fork is alive until its `end_join_in` below.
    unsafe { forks.push(NonNull::from(yard.frame(1))) };
    yard.end_join_in(forks, 1);
    assert!(!yard.end_join_in(forks, 0));
    assert!(forks.is_clear() && forks.is_empty());
    thief.join().unwrap();
    Yard::end(yard);
}

models! {
    fn loom_a_fiber_finds_its_forks_again() = explore(2, || left_and_found_again(false));

    fn loom_a_fiber_finds_its_forks_again_on_another_worker() =
        explore(2, || left_and_found_again(true));
}

/// A thief looks into a fork and does not take it. The owner overwrites the fork only after that
/// look.
#[test]
fn loom_a_look_into_an_unwanted_fork_ends_before_the_fork_does() {
    explore(3, || {
        let yard = Yard::<1>::new();
        let thief = spawn(move || {
            let wanted = |_| yard.frame(0).body.get() == 0;
            yard.forks.steal(wanted, |fork| yard.take(fork))
        });
        for _ in 0..2 {
            yard.push(0);
            assert!(yard.end_join(0));
        }
        assert!(!thief.join().unwrap());
        Yard::end(yard);
    });
}

/// The owner serves a request and gives its oldest fork away, while a thief steals.
#[test]
fn loom_a_fork_is_given_or_stolen() {
    explore(2, || {
        let yard = Yard::<2>::new();
        yard.push(0);
        yard.push(1);
        let thief = spawn(move || yard.steal());
        let given = yard.forks.give_oldest(|fork| yard.take(fork));
        let taken = yard.end_both();
        assert_eq!(usize::from(given) + usize::from(thief.join().unwrap()), taken);
        Yard::end(yard);
    });
}
