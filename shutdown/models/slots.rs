//! Models of a root's slots and of its guards.

use super::{Handle, explore_to_the_end};
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::check::{Baton, ORDERS_AND_FENCES, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::shutdown::node::Node;
use crate::shutdown::slots::{Slots, ThreadNumber};
use crate::shutdown::stop::stop;

/// The owner of a slot and another thread count in it while it is frozen.
fn count_and_freeze() {
    let (slots, stopped) = (Stage::new(Slots::new()), Stage::new(AtomicBool::new(false)));
    let (owner, stranger) = (ThreadNumber::of_model(2), ThreadNumber::of_model(4));
    // Both numbers select the same slot.
    assert!(slots.add(owner, 1, &stopped));
    let counts = |number| move || u64::from(slots.add(number, 1, &stopped));
    let threads = [spawn(counts(owner)), spawn(counts(stranger))];
    stopped.store(true, Ordering::SeqCst);
    let sum = slots.freeze();
    let counted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(sum, 1 + counted, "a guard is lost, or counted twice");
    // SAFETY: the threads have ended.
    unsafe {
        slots.end();
        stopped.end();
    }
}

#[test]
fn loom_each_guard_is_counted_in_the_slots_or_in_the_word() {
    explore_to_the_end(3, count_and_freeze);
}

#[test]
#[should_panic(expected = "a guard is lost")]
fn loom_negative_slots_without_order() {
    plant("shutdown/slots.rs", ORDERS_AND_FENCES);
    explore(3, count_and_freeze);
}

/// A thread claims a slot while it is frozen.
#[test]
fn loom_a_new_owner_of_a_slot_sees_the_stop_or_is_seen() {
    explore_to_the_end(3, || {
        let (slots, stopped) = (Stage::new(Slots::new()), Stage::new(AtomicBool::new(false)));
        let counts = spawn(move || u64::from(slots.add(ThreadNumber::of_model(2), 1, &stopped)));
        stopped.store(true, Ordering::SeqCst);
        let sum = slots.freeze();
        assert_eq!(sum, counts.join().unwrap(), "a guard is lost, or counted twice");
        // SAFETY: the thread has ended.
        unsafe {
            slots.end();
            stopped.end();
        }
    });
}

/// Two threads try to own a slot, and one succeeds.
#[test]
fn loom_one_of_two_threads_claims_a_slot() {
    explore_to_the_end(3, || {
        let (slots, stopped) = (Stage::new(Slots::new()), Stage::new(AtomicBool::new(false)));
        let counts = |number| {
            spawn(move || u64::from(slots.add(ThreadNumber::of_model(number), 1, &stopped)))
        };
        let threads = [counts(2), counts(4)];
        let counted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(counted, 2, "the slots were frozen too early");
        assert_eq!(slots.freeze(), 2, "a guard is lost, or counted twice");
        // SAFETY: the threads have ended.
        unsafe {
            slots.end();
            stopped.end();
        }
    });
}

/// A guard is dropped by a thread that does not own the slot, while the slot is frozen.
#[test]
fn loom_the_freezing_thread_sees_work_done_before_a_drop() {
    explore_to_the_end(3, || {
        let (slots, stopped) = (Stage::new(Slots::new()), Stage::new(AtomicBool::new(false)));
        let work = Stage::new(Baton::new());
        assert!(
            slots.add(ThreadNumber::of_model(2), 1, &stopped),
            "the slots were frozen too early"
        );
        let drops = spawn(move || {
            work.write();
            slots.add(ThreadNumber::of_model(4), 1u64.wrapping_neg(), &stopped)
        });
        stopped.store(true, Ordering::SeqCst);
        let sum = slots.freeze();
        if sum == 0 {
            assert_eq!(work.read(), 1);
        }
        assert_eq!(drops.join().unwrap(), sum == 0, "a guard is lost, or counted twice");
        // SAFETY: the thread has ended.
        unsafe {
            slots.end();
            stopped.end();
            work.end();
        }
    });
}

/// Guards of a root are made on one thread and dropped on another while the root is stopped.
#[test]
fn loom_a_root_is_complete_when_its_guards_are_gone() {
    explore_to_the_end(2, || {
        let root = Handle::root();
        let (here, there) = (ThreadNumber::of_model(1), ThreadNumber::of_model(2));
        // SAFETY: the pointer comes from the handle, and the node counts a guard for this call.
        let leave = |node: usize, number| unsafe { Node::leave(node as *const Node, number) };
        let node = root.0.as_ptr();
        // SAFETY: the pointer comes from the handle, which keeps the node alive.
        assert!(unsafe { Node::enter(node, here) } && unsafe { Node::enter(node, here) });
        let address = node.expose_provenance();
        let other = spawn(move || leave(address, there));
        stop(&root.0);
        assert!(!root.is_complete(), "complete while a guard exists");
        leave(address, here);
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
        let [owner, other, stranger] = [1, 2, 4].map(ThreadNumber::of_model);
        let node = root.0.as_ptr();
        for number in [owner, other] {
            // Each number claims a slot.
            // SAFETY: the pointer comes from the handle, which keeps the node alive.
            assert!(unsafe { Node::enter(node, number) });
            // SAFETY: the guard was counted just now.
            unsafe { Node::leave(node, number) };
        }
        let address = node.expose_provenance();
        let hands_on = spawn(move || {
            let node = address as *const Node;
            // SAFETY: the pointer comes from the handle, which outlives this thread. The second
            // call gives up the guard that the first one has counted.
            unsafe {
                assert!(Node::enter(node, owner));
                Node::leave(node, stranger);
            }
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
        let slots = Stage::new(Slots::new());
        let running = Stage::new(AtomicBool::new(false));
        let (owner, stranger) = (ThreadNumber::of_model(2), ThreadNumber::of_model(4));
        let many = 1 << 60;
        assert!(slots.add(owner, many, &running));
        for _ in 0..2 {
            assert!(
                slots.add(stranger, (many / 2).wrapping_neg(), &running),
                "the slots were frozen too early"
            );
        }
        assert_eq!(slots.sum(), 0);
        // SAFETY: no other thread has used them.
        unsafe {
            slots.end();
            running.end();
        }
    });
}

/// A thread without a number claims no slot.
#[test]
fn loom_a_thread_without_a_number_owns_no_slot() {
    explore_to_the_end(2, || {
        let (slots, stopped) = (Stage::new(Slots::new()), Stage::new(AtomicBool::new(false)));
        let counts = || spawn(move || u64::from(slots.add(ThreadNumber::NONE, 1, &stopped)));
        let threads = [counts(), counts()];
        stopped.store(true, Ordering::SeqCst);
        let sum = slots.freeze();
        let counted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, counted, "a guard is lost, or counted twice");
        // SAFETY: the threads have ended.
        unsafe {
            slots.end();
            stopped.end();
        }
    });
}
