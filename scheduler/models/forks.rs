//! The row of forks: its owner, who returns past a fork, against thieves that follow a pointer to it.

use crate::retire::tree::Node;
use crate::scheduler::forks::{Forked, Forks};
use crate::shim::Cell;
use crate::shim::check::{FENCES, ORDERS_AND_FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use std::ptr::{self, NonNull};

/// A fork of the model: its body is touched by whoever runs it, and by its owner when it comes and goes.
struct Fork {
    body: Cell<usize>,
    /// Who made it public has said so, under the lock.
    public: Cell<bool>,
    node: *const Node,
}

// SAFETY: loom's cells report what two threads use at once.
unsafe impl Sync for Fork {}

impl Forked for Fork {
    fn node(&self) -> *const Node {
        self.node
    }
}

struct Yard<const N: usize> {
    forks: Forks<Fork>,
    row: [Fork; N],
    stolen: [Cell<usize>; N],
}

impl<const N: usize> Yard<N> {
    fn new() -> Stage<Yard<N>> {
        let fork = || Fork { body: Cell::new(0), public: Cell::new(false), node: ptr::dangling() };
        Stage::new(Yard {
            forks: Forks::new(),
            row: [(); N].map(|()| fork()),
            stolen: [(); N].map(|()| Cell::new(0)),
        })
    }

    fn push(&self, fork: usize) -> usize {
        self.row[fork].body.set(1);
        self.row[fork].public.set(false);
        let (place, attention) = self.forks.push(NonNull::from(&self.row[fork]));
        if attention {
            self.publish();
        }
        place
    }

    /// As `make_public`: it follows the pointer, under the lock.
    fn take(&self, fork: NonNull<Fork>) {
        // SAFETY: what is to be shown.
        let fork = unsafe { fork.as_ref() };
        fork.public.set(true);
        fork.body.set(fork.body.get() + 1);
        let index = self.row.iter().position(|f| ptr::eq(f, fork)).expect("one of ours");
        self.stolen[index].set(self.stolen[index].get() + 1);
    }

    fn steal(&self) -> bool {
        self.forks.steal(|_| true, |fork| self.take(fork))
    }

    fn publish(&self) {
        self.forks.publish(|fork| self.take(fork));
    }

    /// The end of a join: the fork is gone afterwards, whoever has run it. Whether it was the owner's.
    fn end_join(&self, fork: usize, place: usize) -> bool {
        let ours = self.forks.pop(place) || self.forks.settle(place);
        assert_ne!(ours, self.row[fork].public.get(), "a fork that nobody runs, or two do");
        assert_eq!(self.row[fork].body.replace(0), if ours { 1 } else { 2 });
        ours
    }

    fn end(this: Stage<Yard<N>>) {
        assert!(this.forks.is_clear());
        // SAFETY: the threads have ended.
        unsafe { this.end() };
    }
}

/// Two nested joins; a thief comes.
fn nested_joins() {
    let yard = Yard::<2>::new();
    let thief = spawn(move || yard.steal());
    let places = [yard.push(0), yard.push(1)];
    let inner = yard.end_join(1, places[1]);
    let outer = yard.end_join(0, places[0]);
    assert_eq!(thief.join().unwrap(), !(inner && outer));
    Yard::end(yard);
}

#[test]
fn loom_each_fork_runs_once() {
    explore(3, nested_joins);
}

#[test]
#[should_panic]
fn loom_negative_a_row_without_fences() {
    plant("scheduler/forks.rs", FENCES);
    explore(3, nested_joins);
}

#[test]
#[should_panic]
fn loom_negative_a_row_that_does_not_hand_over() {
    plant("scheduler/forks.rs", ORDERS_AND_FENCES);
    explore(3, || {
        let yard = Yard::<1>::new();
        let thief = spawn(move || yard.steal());
        let place = yard.push(0);
        thief.join().unwrap();
        yard.end_join(0, place);
        Yard::end(yard);
    });
}

/// One join after the other, in the same place and at the same address: a thief that comes late takes the
/// fork that is there.
#[test]
fn loom_a_place_is_used_again() {
    explore(3, || {
        let yard = Yard::<1>::new();
        let thief = spawn(move || usize::from(yard.steal()) + usize::from(yard.steal()));
        let mut taken = 0;
        for _ in 0..2 {
            let place = yard.push(0);
            taken += usize::from(!yard.end_join(0, place));
        }
        assert_eq!(thief.join().unwrap(), taken);
        Yard::end(yard);
    });
}

#[test]
fn loom_two_thieves_do_not_take_the_same_fork() {
    explore(2, || {
        let yard = Yard::<2>::new();
        let places = [yard.push(0), yard.push(1)];
        let thieves = [(); 2].map(|()| spawn(move || yard.steal()));
        let inner = yard.end_join(1, places[1]);
        let outer = yard.end_join(0, places[0]);
        let stolen = thieves.map(|t| usize::from(t.join().unwrap())).iter().sum::<usize>();
        assert_eq!(stolen, usize::from(!inner) + usize::from(!outer));
        Yard::end(yard);
    });
}

/// The coroutine is left with a join open, another one forks meanwhile, and the first comes back.
fn left_and_found_again() {
    let yard = Yard::<3>::new();
    let thief = spawn(move || yard.steal());
    let outer = yard.push(0);
    let inner = yard.push(1);
    yard.publish();
    let head = yard.forks.leave();
    assert!(yard.forks.is_clear());
    let other = yard.push(2);
    yard.end_join(2, other);
    yard.forks.come_back(head);
    assert!(!yard.end_join(1, inner));
    let again = yard.push(1);
    yard.end_join(1, again);
    assert!(!yard.end_join(0, outer));
    thief.join().unwrap();
    Yard::end(yard);
}

#[test]
fn loom_a_coroutine_finds_its_places_again() {
    explore(2, left_and_found_again);
}

/// More joins than the row has places.
#[test]
fn loom_a_full_row_makes_the_rest_public() {
    explore(2, || {
        let yard = Yard::<5>::new();
        let thief = spawn(move || yard.steal());
        let places: [usize; 5] = std::array::from_fn(|fork| yard.push(fork));
        for fork in (0..5).rev() {
            yard.end_join(fork, places[fork]);
        }
        thief.join().unwrap();
        Yard::end(yard);
    });
}

/// The join that fills the row, where all others are public already: the thief finds it before its owner
/// has made it public.
#[test]
fn loom_the_highest_place_is_made_public_once() {
    explore(2, || {
        let yard = Yard::<4>::new();
        let places: [usize; 2] = std::array::from_fn(|fork| yard.push(fork));
        yard.publish();
        let thief = spawn(move || yard.steal());
        let last = yard.push(2);
        let beyond = yard.push(3);
        yard.end_join(3, beyond);
        yard.end_join(2, last);
        for fork in (0..2).rev() {
            yard.end_join(fork, places[fork]);
        }
        thief.join().unwrap();
        Yard::end(yard);
    });
}

/// The owner gives the oldest one away when it is asked; a thief takes by force at the same time.
#[test]
fn loom_a_fork_is_given_or_stolen() {
    explore(2, || {
        let yard = Yard::<3>::new();
        let places = [yard.push(0), yard.push(1)];
        let thief = spawn(move || yard.steal());
        let given = yard.forks.give_oldest(|fork| yard.take(fork));
        let inner = yard.end_join(1, places[1]);
        let outer = yard.end_join(0, places[0]);
        let stolen = thief.join().unwrap();
        assert_eq!(
            usize::from(given) + usize::from(stolen),
            usize::from(!inner) + usize::from(!outer)
        );
        Yard::end(yard);
    });
}
