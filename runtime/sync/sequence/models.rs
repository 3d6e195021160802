//! Models of barriers and sequencers; run by ci/loom.sh. A task is that of runtime/sync/models.rs.

use super::awaited::{CLOSED, Options, PUBLISHED};
use super::barrier::SequenceBarrier;
use super::claims::Count;
use super::raw_group::RawGroup;
use super::raw_multi::{RawMulti, Reads, Room};
use crate::runtime::sync::models::{Task, enter};
use crate::scheduler::waiters::{WaitNode, Waitable, Wakes};
use crate::shim::check::{Baton, FENCES, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// Waits as a task; the answer, if it was not cut short.
fn waits<W: Waitable>(task: Stage<Task>, source: &W, token: u64) -> Option<u32> {
    task.introduce();
    enter(task, source, token)
}

/// One writes and publishes, another waits and reads.
fn publish_and_wait() {
    let barrier = SequenceBarrier::<u64>::new();
    let (task, item) = (Task::new(), Stage::new(Baton::new()));
    let reader = spawn({
        let barrier = barrier.clone();
        move || {
            assert_eq!(waits(task, barrier.raw(), 1), Some(PUBLISHED));
            item.write();
        }
    });
    barrier.publish(0);
    item.write();
    barrier.publish(1);
    reader.join().unwrap();
    Task::end(task);
    // SAFETY: the threads have ended.
    unsafe { item.end() };
}

#[test]
fn loom_a_publish_that_races_a_wait_ends_it() {
    explore(3, publish_and_wait);
}

#[test]
#[should_panic]
fn loom_negative_a_barrier_without_fences() {
    plant("runtime/sync/sequence/raw_barrier.rs", FENCES);
    explore(3, publish_and_wait);
}

#[test]
#[should_panic]
fn loom_negative_a_barrier_without_order() {
    plant("runtime/sync/sequence/raw_barrier.rs", ORDERS);
    explore(3, publish_and_wait);
}

/// The one that waits for the nearest number is cancelled while that, and the next one, is published.
#[test]
fn loom_a_cancel_that_races_a_publish_is_as_if_it_had_not_waited() {
    explore(2, || {
        let barrier = SequenceBarrier::<u64>::new();
        let (near, far) = (Task::new(), Task::new());
        let waiter = |task: Stage<Task>, target| {
            let barrier = barrier.clone();
            spawn(move || waits(task, barrier.raw(), target))
        };
        let cut = waiter(near, 0);
        let other = waiter(far, 1);
        near.cut();
        barrier.publish(0);
        barrier.publish(1);
        assert!(matches!(cut.join().unwrap(), None | Some(PUBLISHED)));
        assert_eq!(other.join().unwrap(), Some(PUBLISHED));
        Task::end(near);
        Task::end(far);
    });
}

/// A close, a publish, and two who wait.
#[test]
fn loom_a_close_ends_all_waits_of_a_barrier() {
    explore(2, || {
        let barrier = SequenceBarrier::<u64>::new();
        let tasks = [Task::new(), Task::new()];
        let waiters = [0, 5].map(|target| {
            let (barrier, task) = (barrier.clone(), tasks[usize::from(target > 0)]);
            spawn(move || waits(task, barrier.raw(), target))
        });
        let closer = spawn({
            let barrier = barrier.clone();
            move || barrier.close()
        });
        barrier.publish(0);
        closer.join().unwrap();
        let [near, far] = waiters.map(|waiter| waiter.join().unwrap());
        assert!(matches!(near, Some(PUBLISHED | CLOSED)));
        assert_eq!(far, Some(CLOSED));
        tasks.into_iter().for_each(Task::end);
    });
}

fn group() -> ([SequenceBarrier<u64>; 2], Arc<RawGroup<u64>>) {
    let members = [SequenceBarrier::new(), SequenceBarrier::new()];
    let group = RawGroup::new(Box::new(members.clone()), Options::default());
    (members, group)
}

/// Two members publish at once, and one waits for both.
fn members_and_wait() {
    let ([a, b], group) = group();
    let task = Task::new();
    let waiter = spawn({
        let group = Arc::clone(&group);
        move || waits(task, &*group, 0)
    });
    let other = spawn(move || b.publish(0));
    a.publish(0);
    other.join().unwrap();
    assert_eq!(waiter.join().unwrap(), Some(PUBLISHED));
    Task::end(task);
}

#[test]
fn loom_a_group_waits_for_all_its_members() {
    explore(3, members_and_wait);
}

#[test]
#[should_panic]
fn loom_negative_a_group_without_a_fence() {
    plant("runtime/sync/sequence/raw_group.rs", FENCES);
    explore(3, members_and_wait);
}

/// Two wait for a group, one of them is cut, another one for a member; and a member is closed.
#[test]
fn loom_a_closed_member_ends_the_wait_of_its_group() {
    explore(2, || {
        let ([a, b], group) = group();
        let tasks = [Task::new(), Task::new()];
        let waiters = tasks.map(|task| {
            let group = Arc::clone(&group);
            spawn(move || waits(task, &*group, 1))
        });
        a.publish(0);
        tasks[0].cut();
        b.close();
        let [cut, other] = waiters.map(|waiter| waiter.join().unwrap());
        assert!(matches!(cut, None | Some(CLOSED)));
        assert_eq!(other, Some(CLOSED));
        tasks.into_iter().for_each(Task::end);
    });
}

const ONE: Count = Count { least: 1, most: 1 };

fn ring(size: usize) -> (SequenceBarrier<u64>, Arc<RawMulti<u64>>) {
    let read = SequenceBarrier::new();
    let ring = RawMulti::new(Box::new([read.clone()]), size, Options::default());
    (read, ring)
}

/// As a producer does: none, if it was cut short.
fn claim(ring: &RawMulti<u64>, task: Stage<Task>) -> Option<Range<u64>> {
    task.introduce();
    let at_once = ring.claims.try_claim(ONE).or_else(|| ring.claims.claim_beside_them(ONE));
    at_once.or_else(|| {
        let count = enter(task, &Room(ring), ONE.to_token())?;
        assert_eq!(count, 1, "the ring is closed");
        Some(ring.claim_reserved(count))
    })
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
    plant("runtime/sync/sequence/stamps.rs", FENCES);
    explore(2, producers_and_reader);
}

#[test]
#[should_panic]
fn loom_negative_stamps_without_order() {
    plant("runtime/sync/sequence/stamps.rs", ORDERS);
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
        for _ in 0..2 {
            let indexes = ring.claims.try_claim(ONE).unwrap();
            ring.publish(indexes);
        }
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Some(PUBLISHED));
        }
        tasks.into_iter().for_each(Task::end);
    });
}

/// Two producers wait for two places, and one of them is cut: what it does not have the other has.
fn two_producers_of_which_one_is_cut() {
    let (read, ring) = ring(2);
    for _ in 0..2 {
        let indexes = ring.claims.try_claim(ONE).unwrap();
        ring.publish(indexes);
    }
    let tasks = [Task::new(), Task::new()];
    let [cut, other] = tasks.map(|task| {
        let ring = Arc::clone(&ring);
        spawn(move || claim(&ring, task).map(|indexes| indexes.start))
    });
    tasks[0].cut();
    read.publish(1);
    let numbers = (cut.join().unwrap(), other.join().unwrap());
    assert!(matches!(numbers, (None, Some(2)) | (Some(2), Some(3)) | (Some(3), Some(2))));
    assert!(ring.claims.has_room() == numbers.0.is_none(), "room was lost, or there is too much");
    tasks.into_iter().for_each(Task::end);
}

#[test]
fn loom_of_two_producers_the_one_that_is_cut_has_no_number() {
    explore(2, two_producers_of_which_one_is_cut);
}

/// Room has been granted to one, who claims; another claims beside it, and a third one as soon as the way is free. There is room for two.
#[test]
fn loom_nobody_claims_more_than_there_is_room_for() {
    explore(3, || {
        let (_read, ring) = ring(2);
        let (room, node) = (Room(&ring), WaitNode::new(ONE.to_token(), Location::caller()));
        let mut wakes = Wakes::default();
        assert_eq!(room.try_enter(&mut room.state(), &node, &mut wakes), Some(1));
        wakes.deliver();
        let served = spawn({
            let ring = Arc::clone(&ring);
            move || ring.claim_reserved(1)
        });
        let beside = spawn({
            let ring = Arc::clone(&ring);
            move || ring.claims.claim_beside_them(ONE)
        });
        let free = ring.claims.try_claim(ONE);
        let claimed = [Some(served.join().unwrap()), beside.join().unwrap(), free];
        assert!(claimed.iter().flatten().count() <= 2, "{claimed:?}");
        assert!(ring.claims.next() <= 2);
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
    plant("runtime/sync/sequence/claims.rs", ORDERS);
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
        assert!(matches!(reader.join().unwrap(), Some(PUBLISHED | CLOSED)));
        tasks.into_iter().for_each(Task::end);
    });
}
