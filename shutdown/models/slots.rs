//! Models of a root's slots and of its guards.

use super::Handle;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::check::{Baton, ORDERS_AND_FENCES, Stage, explore, explore_to_the_end, models};
use crate::shim::thread::spawn;
use crate::shutdown::node::Node;
use crate::shutdown::slots::{Slots, ThreadNumber};
use crate::shutdown::stop::stop;

/// Slots that are not frozen, and whether their root is stopped.
fn slots() -> (Stage<Slots>, Stage<AtomicBool>) {
    (Stage::new(Slots::new()), Stage::new(AtomicBool::new(false)))
}

/// Threads with these numbers count a guard each while the slots are frozen. `owner` has counted
/// one before.
fn count_and_freeze(owner: Option<ThreadNumber>, numbers: &[ThreadNumber]) {
    let (slots, stopped) = slots();
    let count = move |number| u64::from(slots.add(number, 1, &stopped));
    let before = owner.map_or(0, count);
    let count_beside = |&number| spawn(move || count(number));
    let threads: Vec<_> = numbers.iter().map(count_beside).collect();
    stopped.store(true, Ordering::SeqCst);
    let sum = slots.freeze();
    let counted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(sum, before + counted, "a guard is lost, or counted twice");
}

/// The owner of a slot and another thread, the number of which selects the same slot.
fn owner_and_stranger() {
    let owner = ThreadNumber(2);
    count_and_freeze(Some(owner), &[owner, ThreadNumber(4)]);
}

models! {
    fn loom_each_guard_is_counted_in_the_slots_or_in_the_word() =
        explore_to_the_end(3, owner_and_stranger);

    fn loom_negative_slots_without_order() = explore(3, owner_and_stranger),
        without ORDERS_AND_FENCES in "shutdown/slots.rs", fails: "a guard is lost";

    fn loom_a_new_owner_of_a_slot_sees_the_stop_or_is_seen() =
        explore_to_the_end(3, || count_and_freeze(None, &[ThreadNumber(2)]));

    fn loom_a_thread_without_a_number_owns_no_slot() =
        explore_to_the_end(2, || count_and_freeze(None, &[ThreadNumber::NONE; 2]));
}

/// Two threads try to own a slot, and one succeeds.
#[test]
fn loom_one_of_two_threads_claims_a_slot() {
    explore_to_the_end(3, || {
        let (slots, stopped) = slots();
        let counts =
            |number| spawn(move || u64::from(slots.add(ThreadNumber(number), 1, &stopped)));
        let threads = [counts(2), counts(4)];
        let counted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(counted, 2, "the slots were frozen too early");
        assert_eq!(slots.freeze(), 2, "a guard is lost, or counted twice");
    });
}

/// A guard is dropped by a thread that does not own the slot, while the slot is frozen.
#[test]
fn loom_the_freezing_thread_sees_work_done_before_a_drop() {
    explore_to_the_end(3, || {
        let (slots, stopped) = slots();
        let work = Stage::new(Baton::new());
        assert!(slots.add(ThreadNumber(2), 1, &stopped), "the slots were frozen too early");
        let drops = spawn(move || {
            work.write();
            slots.add(ThreadNumber(4), 1u64.wrapping_neg(), &stopped)
        });
        stopped.store(true, Ordering::SeqCst);
        let sum = slots.freeze();
        if sum == 0 {
            assert_eq!(work.read(), 1);
        }
        assert_eq!(drops.join().unwrap(), sum == 0, "a guard is lost, or counted twice");
    });
}

/// Guards of a root are made on one thread and dropped on another while the root is stopped.
#[test]
fn loom_a_root_is_complete_when_its_guards_are_gone() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let (here, there) = (ThreadNumber(1), ThreadNumber(2));
        assert!(Node::enter(&root.0, here) && Node::enter(&root.0, here));
        let node = root.0.clone();
        let other = spawn(move || {
            // SAFETY: the second guard is given up.
            unsafe { Node::leave(&node, there) };
        });
        stop(&root.0);
        assert!(!root.is_complete(), "complete while a guard exists");
        // SAFETY: the first guard is given up.
        unsafe { Node::leave(&root.0, here) };
        other.join().unwrap();
        assert!(root.is_complete(), "not complete without guards");
    });
}

/// A thread finds the root stopped, makes a guard in the word, and drops it by a number that
/// selects a slot which is not frozen yet.
#[test]
fn loom_a_guard_made_in_the_word_may_be_dropped_in_a_slot() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let [owner, other, stranger] = [1, 2, 4].map(ThreadNumber);
        for number in [owner, other] {
            // Each number claims a slot.
            assert!(Node::enter(&root.0, number));
            // SAFETY: the guard was counted just now.
            unsafe { Node::leave(&root.0, number) };
        }
        let node = root.0.clone();
        let hands_on = spawn(move || {
            assert!(Node::enter(&node, owner));
            // SAFETY: this gives up the guard that was counted just now.
            unsafe { Node::leave(&node, stranger) };
        });
        stop(&root.0);
        hands_on.join().unwrap();
        assert!(root.is_complete(), "not complete without guards");
    });
}

/// For months, one thread makes guards and another drops them.
#[test]
fn loom_a_slot_has_room_for_all_guards_that_other_threads_drop() {
    explore(1, || {
        let (slots, running) = slots();
        let (owner, stranger) = (ThreadNumber(2), ThreadNumber(4));
        let many = 1 << 60;
        assert!(slots.add(owner, many, &running));
        for _ in 0..2 {
            assert!(
                slots.add(stranger, (many / 2).wrapping_neg(), &running),
                "the slots were frozen too early"
            );
        }
        assert_eq!(slots.sum(), 0);
    });
}
