//! Models of barriers, groups and sequencers, run by ci/loom.sh. They use the task of sync/models.

mod ring;

use super::awaited::{CLOSED, Numbers, Options, PUBLISHED};
use super::barrier::SequenceBarrier;
use super::raw_barrier::End;
use super::raw_group::RawGroup;
use crate::scheduler::wait::waiters::{WaitFuture, Waitable};
use crate::shim::check::{ALL, Baton, FENCES, ORDERS, Stage, beside, explore, models};
use crate::shim::thread::spawn;
use crate::sync::models::{Task, enter};
use std::panic::Location;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Waits as a task. Returns the answer, or `None` if the wait was cancelled.
fn waits<W: Waitable>(task: Stage<Task>, source: &W, token: u64) -> Option<u32> {
    task.introduce();
    enter(task, source, token)
}

/// One thread writes and publishes, another waits and reads.
fn publish_and_wait() {
    let barrier = Stage::new(SequenceBarrier::<u64>::new());
    let (task, item) = (Task::new(), Stage::new(Baton::new()));
    let reader = spawn(move || {
        assert_eq!(waits(task, barrier.raw(), 1), Some(PUBLISHED));
        item.write();
    });
    barrier.publish(0);
    item.write();
    barrier.publish(1);
    reader.join().unwrap();
}

models! {
    fn loom_a_publish_that_races_a_wait_ends_it() = explore(3, publish_and_wait);

    fn loom_negative_a_barrier_without_fences() = explore(3, publish_and_wait),
        without FENCES in "ring/sequence/raw_barrier.rs", fails;

    fn loom_negative_a_barrier_without_order() = explore(3, publish_and_wait),
        without ORDERS in "ring/sequence/raw_barrier.rs", fails;
}

/// The waiter for the nearest number is cancelled while that number, and the next one, are
/// published.
#[test]
fn loom_a_wait_cancelled_during_a_publish_leaves_no_trace() {
    explore(2, || {
        let barrier = Stage::new(SequenceBarrier::<u64>::new());
        let (near, far) = (Task::new(), Task::new());
        let waiter = |task, target| spawn(move || waits(task, barrier.raw(), target));
        let cut = waiter(near, 0);
        let other = waiter(far, 1);
        near.interrupt();
        barrier.publish(0);
        barrier.publish(1);
        assert!(matches!(cut.join().unwrap(), None | Some(PUBLISHED)));
        assert_eq!(other.join().unwrap(), Some(PUBLISHED));
    });
}

/// A close, a publish, and two waiters.
#[test]
fn loom_a_close_ends_all_waits_of_a_barrier() {
    explore(2, || {
        let barrier = Stage::new(SequenceBarrier::<u64>::new());
        let tasks = [Task::new(), Task::new()];
        let waiters = [0, 5].map(|target| {
            let task = tasks[usize::from(target > 0)];
            spawn(move || waits(task, barrier.raw(), target))
        });
        beside(move || barrier.close(), || barrier.publish(0));
        let [near, far] = waiters.map(|waiter| waiter.join().unwrap());
        assert!(matches!(near, Some(PUBLISHED | CLOSED)));
        assert_eq!(far, Some(CLOSED));
    });
}

/// A thread that sees the end also sees the numbers published before it.
#[test]
fn loom_numbers_published_before_the_end_stay_published() {
    explore(ALL, || {
        let barrier = Stage::new(SequenceBarrier::<u64>::new());
        let ends = spawn(move || {
            barrier.publish(0);
            barrier.close();
        });
        assert!(matches!(barrier.raw().answer(0), None | Some(PUBLISHED)));
        ends.join().unwrap();
        assert_eq!(barrier.raw().answer(0), Some(PUBLISHED));
    });
}

/// A finish and a close race. The barrier is closed, whichever comes first.
#[test]
fn loom_a_barrier_that_is_finished_and_closed_is_closed() {
    explore(ALL, || {
        let barrier = Stage::new(SequenceBarrier::<u64>::new());
        beside(move || barrier.finish(), || barrier.close());
        assert_eq!(barrier.raw().ended(), End::Closed);
    });
}

fn group() -> ([SequenceBarrier<u64>; 2], Stage<Arc<RawGroup<u64>>>) {
    let members = [SequenceBarrier::new(), SequenceBarrier::new()];
    let group = RawGroup::new(Box::new(members.clone()), Options::default());
    (members, Stage::new(group))
}

/// Two members publish at once, and one task waits for both.
fn members_and_wait() {
    let ([a, b], group) = group();
    let task = Task::new();
    let waiter = spawn(move || waits(task, &**group, 0));
    beside(move || b.publish(0), || a.publish(0));
    assert_eq!(waiter.join().unwrap(), Some(PUBLISHED));
}

models! {
    fn loom_a_group_waits_for_all_its_members() = explore(2, members_and_wait);

    fn loom_negative_a_group_without_a_fence() = explore(3, members_and_wait),
        without FENCES in "ring/sequence/raw_group.rs", fails;
}

/// Two tasks wait for a group, and one of them is cancelled. One member publishes, the other is
/// closed.
#[test]
fn loom_a_closed_member_ends_the_wait_of_its_group() {
    explore(2, || {
        let ([a, b], group) = group();
        let tasks = [Task::new(), Task::new()];
        let waiters = tasks.map(|task| spawn(move || waits(task, &**group, 1)));
        a.publish(0);
        tasks[0].interrupt();
        b.close();
        let [cut, other] = waiters.map(|waiter| waiter.join().unwrap());
        assert!(matches!(cut, None | Some(CLOSED)));
        assert_eq!(other, Some(CLOSED));
    });
}

/// Two futures wait for consecutive numbers of a group. The watcher that serves the first must also
/// look for the second: a member that was not armed for the second number may publish it meanwhile.
#[test]
fn loom_a_group_that_serves_one_waiter_looks_for_the_next() {
    explore(3, || {
        let ([a, b], group) = group();
        a.publish(0);
        let mut cx = Context::from_waker(Waker::noop());
        let mut waiters = [0, 1].map(|target| {
            let mut waiter = Box::pin(WaitFuture::new(&**group, target, Location::caller()));
            assert!(waiter.as_mut().poll(&mut cx).is_pending());
            waiter
        });
        beside(move || a.publish(1), || b.publish(1));
        for waiter in &mut waiters {
            assert_eq!(
                waiter.as_mut().poll(&mut cx),
                Poll::Ready(PUBLISHED),
                "the waiter is not told"
            );
        }
    });
}
