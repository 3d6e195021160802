//! Models of rings with many producers.

use super::waits;
use crate::ring::sequence::arithmetic::Sequence;
use crate::ring::sequence::awaited::{CLOSED, Options, PUBLISHED};
use crate::ring::sequence::barrier::SequenceBarrier;
use crate::ring::sequence::claims::{Claims, Count};
use crate::ring::sequence::raw_multi::{RawMulti, Reads, Room};
use crate::scheduler::wait::waiters::{Entering, WaitNode, Waitable, Wakes};
use crate::shim::check::{Baton, FENCES, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::sync::models::{Task, enter_node};
use std::ops::Range;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

const ONE: Count = Count { least: 1, most: 1 };

fn ring(size: usize) -> (SequenceBarrier<u64>, Arc<RawMulti<u64>>) {
    let read = SequenceBarrier::new();
    let ring = RawMulti::new(Box::new([read.clone()]), size, Options::default());
    (read, ring)
}

/// As a producer does: none, if it was cut short.
fn claim(ring: &RawMulti<u64>, task: Stage<Task>) -> Option<Range<u64>> {
    task.introduce();
    ring.claims.claim_at_once(ONE).or_else(|| {
        let node = pin!(WaitNode::new(ONE.to_token(), Location::caller()));
        let count = enter_node(task, &Room(ring), node.as_ref(), true, None)?;
        assert_eq!(count, 1, "the ring is closed");
        Some(handed_over(node.token.get(), count))
    })
}

fn handed_over(token: u64, answer: u32) -> Range<u64> {
    Claims::<u64>::handed_over(token, answer)
}

/// Claims as a producer that has come too late for the fast path: under the lock, without a wait.
fn claim_under_the_lock(ring: &RawMulti<u64>) -> Range<u64> {
    let (room, node) = (Room(ring), WaitNode::new(ONE.to_token(), Location::caller()));
    let mut wakes = Wakes::default();
    let answer = room.try_enter(&mut room.state(), &node, &mut wakes);
    wakes.deliver();
    handed_over(node.token.get(), answer.expect("there is room"))
}

/// There is room.
fn produce_one(ring: &RawMulti<u64>) {
    let indexes = ring.claims.try_claim(ONE).unwrap();
    ring.publish(indexes);
}

/// Two producers publish out of order, and one waits to read both.
fn producers_and_reader() {
    let (_read, ring) = ring(2);
    let (task, items) = (Task::new(), Stage::new([Baton::new(), Baton::new()]));
    let reader = spawn({
        let ring = Arc::clone(&ring);
        move || {
            assert_eq!(waits(task, &Reads(&ring), 2), Some(PUBLISHED));
            items.iter().for_each(|item| _ = item.write());
        }
    });
    let produce = move |ring: &RawMulti<u64>| {
        let indexes = ring.claims.try_claim(ONE).unwrap();
        items[indexes.start as usize].write();
        ring.publish(indexes);
    };
    let other = spawn({
        let ring = Arc::clone(&ring);
        move || produce(&ring)
    });
    produce(&ring);
    other.join().unwrap();
    reader.join().unwrap();
    Task::end(task);
    // SAFETY: the threads have ended.
    unsafe { items.end() };
}

#[test]
fn loom_who_reads_has_all_that_two_have_published() {
    explore(2, producers_and_reader);
}

#[test]
#[should_panic]
fn loom_negative_stamps_without_fences() {
    plant("ring/sequence/stamps.rs", FENCES);
    explore(2, producers_and_reader);
}

#[test]
#[should_panic]
fn loom_negative_stamps_without_order() {
    plant("ring/sequence/stamps.rs", ORDERS);
    explore(2, producers_and_reader);
}

/// One waits for the first number; the gap is moved by another, who comes to wait for the second, while both are published.
#[test]
fn loom_who_moves_the_gap_serves_those_behind_it() {
    explore(2, || {
        let (_read, ring) = ring(2);
        let tasks = [Task::new(), Task::new()];
        let readers = [1, 2].map(|wanted| {
            let (ring, task) = (Arc::clone(&ring), tasks[wanted - 1]);
            spawn(move || waits(task, &Reads(&ring), wanted as u64))
        });
        produce_one(&ring);
        produce_one(&ring);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Some(PUBLISHED));
        }
        tasks.into_iter().for_each(Task::end);
    });
}

/// Two producers wait for two places, and one of them is cut: what it does not have the other has.
fn two_producers_of_which_one_is_cut() {
    let (read, ring) = ring(2);
    produce_one(&ring);
    produce_one(&ring);
    let tasks = [Task::new(), Task::new()];
    let [cut, other] = tasks.map(|task| {
        let ring = Arc::clone(&ring);
        spawn(move || claim(&ring, task).map(|indexes| indexes.start))
    });
    tasks[0].cut();
    read.publish(1);
    let numbers = (cut.join().unwrap(), other.join().unwrap());
    let skipped = ring.stamps.frontier_from(2) == 3;
    match numbers {
        (None, Some(2)) => assert!(!skipped && ring.claims.has_room(), "room was lost"),
        // It was handed over, and given back when there was a later one.
        (None, Some(3)) => assert!(skipped && !ring.claims.has_room(), "there is a hole"),
        (Some(2), Some(3)) | (Some(3), Some(2)) => assert!(!skipped && !ring.claims.has_room()),
        _ => panic!("{numbers:?}"),
    }
    tasks.into_iter().for_each(Task::end);
}

#[test]
fn loom_of_two_producers_the_one_that_is_cut_has_no_number() {
    explore(2, two_producers_of_which_one_is_cut);
}

/// A producer claims under the lock, and another one beside it. There is room for one of them.
#[test]
fn loom_nobody_claims_more_than_there_is_room_for() {
    explore(3, || {
        let (_read, ring) = ring(2);
        produce_one(&ring);
        let beside = spawn({
            let ring = Arc::clone(&ring);
            move || ring.claims.claim_at_once(ONE)
        });
        let mut cx = Context::from_waker(Waker::noop());
        let mut waits = pin!(Entering::new(Room(&ring), ONE.to_token(), Location::caller()));
        let polled = waits.as_mut().poll(&mut cx);
        let beside = beside.join().unwrap();
        assert!(polled.is_ready() != beside.is_some(), "{beside:?} {polled:?}");
        assert_eq!(ring.claims.next(), 2);
    });
}

/// A claim is given up while another producer comes to wait for its place.
fn give_up_and_wait() {
    let (_read, ring) = ring(1);
    let (task, item) = (Task::new(), Stage::new(Baton::new()));
    let indexes = ring.claims.try_claim(ONE).unwrap();
    let other = spawn({
        let ring = Arc::clone(&ring);
        move || {
            let indexes = claim(&ring, task).unwrap();
            item.write();
            indexes.start
        }
    });
    item.write();
    ring.give_up(indexes);
    assert_eq!(other.join().unwrap(), 0, "the number is the next one");
    Task::end(task);
    // SAFETY: the threads have ended.
    unsafe { item.end() };
}

#[test]
fn loom_a_claim_that_is_given_up_is_had_by_who_waits() {
    explore(3, give_up_and_wait);
}

#[test]
#[should_panic]
fn loom_negative_claims_without_order() {
    plant("ring/sequence/claims.rs", ORDERS);
    explore(3, give_up_and_wait);
}

/// The older of two claims is given up while the newer one is, too.
#[test]
fn loom_two_claims_that_are_given_up_leave_no_hole() {
    explore(3, || {
        let (_read, ring) = ring(2);
        let older = ring.claims.try_claim(ONE).unwrap();
        let newer = ring.claims.try_claim(ONE).unwrap();
        let other = spawn({
            let ring = Arc::clone(&ring);
            move || ring.give_up(older)
        });
        ring.give_up(newer);
        other.join().unwrap();
        let next = ring.claims.next();
        assert_eq!(ring.stamps.frontier_from(0), next, "all before the next one are published");
    });
}

/// One claims, uses the place, and gives it up, while another does so: the word is the same as before when that one claims.
#[test]
fn loom_a_place_that_comes_back_comes_with_what_was_done_there() {
    explore(3, || {
        let (_read, ring) = ring(1);
        let item = Stage::new(Baton::new());
        let visit = move |ring: &RawMulti<u64>| {
            if let Some(indexes) = ring.claims.try_claim(ONE) {
                item.write();
                ring.give_up(indexes);
            }
        };
        let other = spawn({
            let ring = Arc::clone(&ring);
            move || visit(&ring)
        });
        visit(&ring);
        other.join().unwrap();
        // SAFETY: the threads have ended.
        unsafe { item.end() };
    });
}

/// One has seen what was read, and so has room another one who has not looked: with all that was done by who has read.
#[test]
fn loom_room_that_one_has_seen_is_had_by_another() {
    explore(2, || {
        let (read, ring) = ring(2);
        let items = Stage::new([Baton::new(), Baton::new()]);
        produce_one(&ring);
        produce_one(&ring);
        let produce = move |ring: &RawMulti<u64>| {
            if let Some(indexes) = ring.claims.try_claim(ONE) {
                items[indexes.start as usize % 2].write();
            }
        };
        let producer = || {
            let ring = Arc::clone(&ring);
            spawn(move || produce(&ring))
        };
        let producers = [producer(), producer()];
        items.iter().for_each(|item| _ = item.write());
        read.publish(1);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        // SAFETY: the threads have ended.
        unsafe { items.end() };
    });
}

/// Numbers of eight bits: who claims has read no older one than those who have claimed up to there, or it would take it for a newer one.
#[test]
fn loom_narrow_numbers_are_never_read_a_round_too_late() {
    explore(2, || {
        const SIZE: usize = u8::LARGEST_RING;
        const ALL_OF_IT: Count = Count { least: SIZE as u32, most: SIZE as u32 };
        let read = SequenceBarrier::<u8>::new();
        let ring = RawMulti::<u8>::new(Box::new([read.clone()]), SIZE, Options::default());
        let claim = |ring: &RawMulti<u8>| ring.claims.try_claim(ALL_OF_IT);
        assert!(claim(&ring).is_some());
        let reader = spawn({
            let read = read.clone();
            move || (1..=3).for_each(|round| _ = read.publish((round * SIZE - 1) as u8))
        });
        let other = spawn({
            let ring = Arc::clone(&ring);
            move || (0..3).for_each(|_| _ = claim(&ring))
        });
        claim(&ring);
        reader.join().unwrap();
        other.join().unwrap();
        assert!(ring.claims.next() <= 4 * SIZE as u64, "it has claimed what was not read");
    });
}

/// The older claim is taken back while two claim under the lock: whoever claims goes on where the word is.
#[test]
fn loom_a_claim_is_taken_back_while_others_claim_under_the_lock() {
    explore(2, || {
        let (_read, ring) = ring(4);
        let older = ring.claims.try_claim(ONE).unwrap();
        let gives_up = spawn({
            let ring = Arc::clone(&ring);
            move || ring.give_up(older)
        });
        let beside = spawn({
            let ring = Arc::clone(&ring);
            move || {
                let indexes = claim_under_the_lock(&ring);
                ring.publish(indexes);
            }
        });
        let indexes = claim_under_the_lock(&ring);
        ring.publish(indexes);
        gives_up.join().unwrap();
        beside.join().unwrap();
        assert_eq!(ring.stamps.frontier_from(0), ring.claims.next(), "there is a hole");
    });
}

/// Two claims are given up that are not the newest, at once: who sees the stamps knows that there are such, and how far.
#[test]
fn loom_who_sees_what_was_given_up_knows_that_it_was() {
    explore(3, || {
        let (_read, ring) = ring(2);
        let gives_up = [0..1, 1..2].map(|indexes| {
            let ring = Arc::clone(&ring);
            spawn(move || _ = ring.stamps.skip(indexes))
        });
        if ring.stamps.frontier_from(0) > 0 {
            assert!(!ring.stamps.has_no_skips_from(0), "it takes a skipped one for an item");
        }
        gives_up.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!ring.stamps.has_no_skips_from(1), "the later one is forgotten");
        assert!(ring.stamps.has_no_skips_from(2));
    });
}

/// Who finds that it is closed has what was published before.
#[test]
fn loom_what_producers_have_published_before_a_close_stands() {
    explore(3, || {
        let (_read, ring) = ring(1);
        let closes = spawn({
            let ring = Arc::clone(&ring);
            move || {
                produce_one(&ring);
                ring.close();
            }
        });
        assert!(matches!(ring.answer(1, 0), None | Some(PUBLISHED)));
        closes.join().unwrap();
    });
}

/// A close races a producer that waits for room, a reader, and a publish.
#[test]
fn loom_a_close_ends_the_waits_of_both_sides() {
    explore(2, || {
        let (_read, ring) = ring(1);
        let indexes = ring.claims.try_claim(ONE).unwrap();
        let tasks = [Task::new(), Task::new()];
        let producer = spawn({
            let ring = Arc::clone(&ring);
            let task = tasks[0];
            move || waits(task, &Room(&ring), ONE.to_token())
        });
        let reader = spawn({
            let ring = Arc::clone(&ring);
            let task = tasks[1];
            move || waits(task, &Reads(&ring), 1)
        });
        let closer = spawn({
            let ring = Arc::clone(&ring);
            move || ring.close()
        });
        ring.publish(indexes);
        closer.join().unwrap();
        assert_eq!(producer.join().unwrap(), Some(CLOSED));
        assert_eq!(reader.join().unwrap(), Some(PUBLISHED), "what was claimed before the close");
        tasks.into_iter().for_each(Task::end);
    });
}

/// The last claim ends, one way or the other, while the ring does, and a reader waits for more.
fn the_last_claim_ends(ends: fn(&RawMulti<u64>, Range<u64>)) {
    explore(2, move || {
        let (_read, ring) = ring(1);
        let indexes = ring.claims.try_claim(ONE).unwrap();
        let task = Task::new();
        let reader = spawn({
            let ring = Arc::clone(&ring);
            move || waits(task, &Reads(&ring), 2)
        });
        let finishes = spawn({
            let ring = Arc::clone(&ring);
            move || ring.finish()
        });
        ends(&ring, indexes);
        finishes.join().unwrap();
        assert_eq!(reader.join().unwrap(), Some(CLOSED));
        assert!(ring.is_finished());
        Task::end(task);
    });
}

#[test]
fn loom_who_waits_for_the_end_is_told_when_the_last_claim_is_published() {
    the_last_claim_ends(|ring, indexes| _ = ring.publish(indexes));
}

#[test]
fn loom_who_waits_for_the_end_is_told_when_the_last_claim_is_taken_back() {
    the_last_claim_ends(RawMulti::give_up);
}

/// One claims and publishes while the ring ends. What a reader that was told of the end had then is all.
#[test]
fn loom_who_is_told_of_the_end_has_all_that_was_claimed() {
    explore(3, || {
        let (_read, ring) = ring(1);
        let produces = spawn({
            let ring = Arc::clone(&ring);
            move || ring.claims.try_claim(ONE).into_iter().for_each(|one| _ = ring.publish(one))
        });
        let finishes = spawn({
            let ring = Arc::clone(&ring);
            move || ring.finish()
        });
        let told = ring.answer(1, 0) == Some(CLOSED);
        produces.join().unwrap();
        finishes.join().unwrap();
        let frontier = ring.stamps.frontier_from(0);
        assert!(!(told && frontier > 0), "it was told too soon");
        assert_eq!((frontier, ring.is_finished()), (ring.claims.next(), true));
    });
}
