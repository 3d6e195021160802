//! Models of rings with several producers.

use super::waits;
use crate::ring::sequence::arithmetic::Sequence;
use crate::ring::sequence::awaited::{CLOSED, Numbers, Options, PUBLISHED};
use crate::ring::sequence::barrier::SequenceBarrier;
use crate::ring::sequence::claims::{Claims, Request};
use crate::ring::sequence::raw_multi::{RawMulti, Reads, Room};
use crate::scheduler::wait::waiters::{WaitFuture, WaitNode, Waitable, Wakes};
use crate::shim::check::{Baton, FENCES, ORDERS, Stage, beside, explore, models};
use crate::shim::thread::spawn;
use crate::sync::models::{Task, enter_node};
use std::ops::Range;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

const ONE: Request = Request { least: 1, most: 1 };

/// A ring, and the barrier of its reader.
fn ring<S: Sequence>(size: usize) -> (SequenceBarrier<S>, Stage<Arc<RawMulti<S>>>) {
    let read = SequenceBarrier::new();
    let ring = RawMulti::new(Box::new([read.clone()]), size, Options::default());
    (read, Stage::new(ring))
}

/// Claims as a producer does. Returns `None` if the wait was cancelled.
fn claim(ring: &RawMulti<u64>, task: Stage<Task>) -> Option<Range<u64>> {
    task.introduce();
    ring.claims.claim_at_once(ONE).or_else(|| {
        let node = pin!(WaitNode::new(ONE.to_token(), Location::caller()));
        let count = enter_node(task, &Room(ring), node.as_ref(), true, None)?;
        assert_eq!(count, 1, "the ring is closed");
        Some(Claims::<u64>::handed_over(node.token.get(), count))
    })
}

/// Claims like a producer that was too late for the fast path: under the lock, without waiting.
fn claim_under_the_lock(ring: &RawMulti<u64>) -> Range<u64> {
    let (room, node) = (Room(ring), WaitNode::new(ONE.to_token(), Location::caller()));
    let mut wakes = Wakes::default();
    let answer = room.try_enter(&mut room.state(), &node, &mut wakes);
    wakes.deliver();
    Claims::<u64>::handed_over(node.token.get(), answer.expect("there is room"))
}

/// Claims and publishes one number. There is room.
fn produce_one(ring: &RawMulti<u64>) {
    let indexes = ring.claims.try_claim(ONE).unwrap();
    ring.publish(indexes);
}

/// Two producers publish out of order, and a reader waits for both numbers.
fn producers_and_reader() {
    let (_, ring) = ring::<u64>(2);
    let (task, items) = (Task::new(), Stage::new([Baton::new(), Baton::new()]));
    let reader = spawn(move || {
        assert_eq!(waits(task, &Reads(&ring, 0), 2), Some(PUBLISHED));
        items.iter().for_each(|item| _ = item.write());
    });
    let produce = move || {
        let indexes = ring.claims.try_claim(ONE).unwrap();
        items[indexes.start as usize].write();
        ring.publish(indexes);
    };
    beside(produce, produce);
    reader.join().unwrap();
}

models! {
    fn loom_a_reader_sees_what_two_producers_published() = explore(2, producers_and_reader);

    fn loom_negative_stamps_without_fences() = explore(2, producers_and_reader),
        without FENCES in "ring/sequence/stamps.rs", fails;

    fn loom_negative_stamps_without_order() = explore(2, producers_and_reader),
        without ORDERS in "ring/sequence/stamps.rs", fails;
}

/// One reader waits for the first number. The other reader may move the gap, as it waits for the
/// second, while both numbers are published.
#[test]
fn loom_a_reader_that_moves_the_gap_serves_the_others() {
    explore(2, || {
        let (_, ring) = ring::<u64>(2);
        let tasks = [Task::new(), Task::new()];
        let readers = [1, 2].map(|wanted| {
            let task = tasks[wanted - 1];
            spawn(move || waits(task, &Reads(&ring, 0), wanted as u64))
        });
        produce_one(&ring);
        produce_one(&ring);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Some(PUBLISHED));
        }
    });
}

/// Two producers wait for two slots, and one of them is cancelled. The other one gets a number in
/// any case.
#[test]
fn loom_a_cancelled_producer_gets_no_number() {
    explore(2, || {
        let (read, ring) = ring::<u64>(2);
        produce_one(&ring);
        produce_one(&ring);
        let tasks = [Task::new(), Task::new()];
        let number = |task| spawn(move || claim(&ring, task).map(|indexes| indexes.start));
        let [cut, other] = tasks.map(number);
        tasks[0].interrupt();
        read.publish(1);
        let numbers = (cut.join().unwrap(), other.join().unwrap());
        let skipped = ring.stamps.frontier_from(2) == 3;
        match numbers {
            (None, Some(2)) => assert!(!skipped && ring.claims.has_room(), "room was lost"),
            // The number was handed over, and given back after a later one was claimed.
            (None, Some(3)) => assert!(skipped && !ring.claims.has_room(), "there is a hole"),
            (Some(2), Some(3)) | (Some(3), Some(2)) => assert!(!skipped && !ring.claims.has_room()),
            _ => panic!("{numbers:?}"),
        }
    });
}

/// A producer claims under the lock, and another one without it. There is room for one of them.
#[test]
fn loom_claims_never_exceed_the_room() {
    explore(3, || {
        let (_, ring) = ring::<u64>(2);
        produce_one(&ring);
        let beside = spawn(move || ring.claims.claim_at_once(ONE));
        let mut cx = Context::from_waker(Waker::noop());
        let mut waits = pin!(WaitFuture::new(Room(&ring), ONE.to_token(), Location::caller()));
        let polled = waits.as_mut().poll(&mut cx);
        let beside = beside.join().unwrap();
        assert!(polled.is_ready() != beside.is_some(), "{beside:?} {polled:?}");
        assert_eq!(ring.claims.next(), 2);
    });
}

/// A claim is given up while another producer starts to wait for its slot.
fn give_up_and_wait() {
    let (_, ring) = ring::<u64>(1);
    let (task, item) = (Task::new(), Stage::new(Baton::new()));
    let indexes = ring.claims.try_claim(ONE).unwrap();
    let other = spawn(move || {
        let indexes = claim(&ring, task).unwrap();
        item.write();
        indexes.start
    });
    item.write();
    ring.give_up(indexes);
    assert_eq!(other.join().unwrap(), 0, "the number is the next one");
}

models! {
    fn loom_a_given_up_claim_goes_to_the_waiting_producer() = explore(3, give_up_and_wait);

    fn loom_negative_claims_without_order() = explore(3, give_up_and_wait),
        without ORDERS in "ring/sequence/claims.rs", fails;
}

/// The older and the newer of two claims are given up at the same time.
#[test]
fn loom_two_given_up_claims_leave_no_hole() {
    explore(3, || {
        let (_, ring) = ring::<u64>(2);
        let older = ring.claims.try_claim(ONE).unwrap();
        let newer = ring.claims.try_claim(ONE).unwrap();
        beside(move || ring.give_up(older), || ring.give_up(newer));
        let next = ring.claims.next();
        assert_eq!(ring.stamps.frontier_from(0), next, "all before the next one are published");
    });
}

/// Two producers claim the same slot, use it, and give it up. When the second one claims, the word
/// may have the same value as before the first claim.
#[test]
fn loom_a_claim_sees_the_accesses_of_a_rolled_back_claim() {
    explore(3, || {
        let (_, ring) = ring::<u64>(1);
        let item = Stage::new(Baton::new());
        let visit = move || {
            if let Some(indexes) = ring.claims.try_claim(ONE) {
                item.write();
                ring.give_up(indexes);
            }
        };
        beside(visit, visit);
    });
}

/// One producer may find room by loading the reader's progress, and the other by loading `limit`.
/// Both must see what the reader did before it published.
#[test]
fn loom_a_producer_may_use_room_that_another_one_found() {
    explore(2, || {
        let (read, ring) = ring::<u64>(2);
        let items = Stage::new([Baton::new(), Baton::new()]);
        produce_one(&ring);
        produce_one(&ring);
        let produce = move || {
            if let Some(indexes) = ring.claims.try_claim(ONE) {
                items[indexes.start as usize % 2].write();
            }
        };
        let producers = [spawn(produce), spawn(produce)];
        items.iter().for_each(|item| _ = item.write());
        read.publish(1);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
}

/// Numbers of eight bits. A claiming producer must not load progress older than earlier claims
/// relied on, as it would take that for newer progress.
#[test]
fn loom_stale_progress_of_narrow_numbers_makes_no_room() {
    explore(2, || {
        const SIZE: usize = u8::LARGEST_RING;
        const ALL_OF_IT: Request = Request { least: SIZE as u32, most: SIZE as u32 };
        let (read, ring) = ring::<u8>(SIZE);
        let claim = move || ring.claims.try_claim(ALL_OF_IT);
        assert!(claim().is_some());
        let reader =
            spawn(move || (1..=3).for_each(|round| _ = read.publish((round * SIZE - 1) as u8)));
        let other = spawn(move || (0..3).for_each(|_| _ = claim()));
        claim();
        reader.join().unwrap();
        other.join().unwrap();
        assert!(ring.claims.next() <= 4 * SIZE as u64, "claimed past what was read");
    });
}

/// The older claim is rolled back while two producers claim under the lock. A claim starts where
/// the word is.
#[test]
fn loom_a_rollback_races_claims_under_the_lock() {
    explore(2, || {
        let (_, ring) = ring::<u64>(4);
        let older = ring.claims.try_claim(ONE).unwrap();
        let gives_up = spawn(move || ring.give_up(older));
        let claim_and_publish = move || ring.publish(claim_under_the_lock(&ring));
        let beside = spawn(claim_and_publish);
        claim_and_publish();
        gives_up.join().unwrap();
        beside.join().unwrap();
        assert_eq!(ring.stamps.frontier_from(0), ring.claims.next(), "there is a hole");
    });
}

/// Two claims that are not the newest are given up at once. A reader that sees their stamps must
/// see that there are skipped numbers, and how far they go.
#[test]
fn loom_a_reader_that_sees_a_skipped_stamp_knows_of_skips() {
    explore(3, || {
        let (_, ring) = ring::<u64>(2);
        let gives_up = [0..1, 1..2].map(|indexes| spawn(move || _ = ring.stamps.skip(indexes)));
        if ring.stamps.frontier_from(0) > 0 {
            assert!(!ring.stamps.has_no_skips_from(0), "a skipped number looks like an item");
        }
        gives_up.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!ring.stamps.has_no_skips_from(1), "the later one is forgotten");
        assert!(ring.stamps.has_no_skips_from(2));
    });
}

/// A reader that sees the close also sees what was published before it.
#[test]
fn loom_numbers_published_before_a_close_stay_published() {
    explore(3, || {
        let (_, ring) = ring::<u64>(1);
        let closes = spawn(move || {
            produce_one(&ring);
            ring.close();
        });
        assert!(matches!(Reads(&ring, u64::MAX).answer(0), None | Some(PUBLISHED)));
        closes.join().unwrap();
    });
}

/// A close races a producer that waits for room, a reader, and a publish.
#[test]
fn loom_a_close_ends_the_waits_of_both_sides() {
    explore(2, || {
        let (_, ring) = ring::<u64>(1);
        let indexes = ring.claims.try_claim(ONE).unwrap();
        let (produces, reads) = (Task::new(), Task::new());
        let producer = spawn(move || waits(produces, &Room(&ring), ONE.to_token()));
        let reader = spawn(move || waits(reads, &Reads(&ring, 0), 1));
        beside(move || ring.close(), || ring.publish(indexes));
        assert_eq!(producer.join().unwrap(), Some(CLOSED));
        assert_eq!(reader.join().unwrap(), Some(PUBLISHED), "what was claimed before the close");
    });
}

/// The last claim is published or given up while the ring ends and a reader waits for more.
fn the_last_claim_ends(ends: fn(&RawMulti<u64>, Range<u64>)) {
    explore(2, move || {
        let (_, ring) = ring::<u64>(1);
        let indexes = ring.claims.try_claim(ONE).unwrap();
        let task = Task::new();
        let reader = spawn(move || waits(task, &Reads(&ring, 0), 2));
        beside(move || ring.finish(), || ends(&ring, indexes));
        assert_eq!(reader.join().unwrap(), Some(CLOSED));
        assert!(ring.is_finished());
    });
}

models! {
    fn loom_a_reader_is_told_of_the_end_by_the_last_publish() =
        the_last_claim_ends(|ring, indexes| _ = ring.publish(indexes));

    fn loom_a_reader_is_told_of_the_end_by_the_last_rollback() =
        the_last_claim_ends(RawMulti::give_up);
}

/// A producer claims and publishes while the ring ends. A reader that was told of the end must have
/// had everything.
#[test]
fn loom_a_reader_told_of_the_end_has_every_claimed_number() {
    explore(3, || {
        let (_, ring) = ring::<u64>(1);
        let produces = spawn(move || {
            ring.claims.try_claim(ONE).into_iter().for_each(|one| _ = ring.publish(one));
        });
        let finishes = spawn(move || ring.finish());
        let told = Reads(&ring, u64::MAX).answer(0) == Some(CLOSED);
        produces.join().unwrap();
        finishes.join().unwrap();
        let frontier = ring.stamps.frontier_from(0);
        assert!(!(told && frontier > 0), "the reader was told too soon");
        assert_eq!((frontier, ring.is_finished()), (ring.claims.next(), true));
    });
}
