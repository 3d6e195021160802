//! `SequenceBarrierGroup`: as far as the last of its members.

use crate::common::{panic_of, with_each};
use crate::{poll_once, until_waiting, waiting};
use cygnet::ring::sequence::{SequenceBarrier, SequenceBarrierGroup, WaitStrategy};
use cygnet::sync::WaitError;
use std::task::Poll;
use std::time::Duration;

fn members<const N: usize>() -> ([SequenceBarrier<u8>; N], SequenceBarrierGroup<u8>) {
    let members = std::array::from_fn(|_| SequenceBarrier::new());
    let group = SequenceBarrierGroup::new(members.clone());
    (members, group)
}

#[test]
fn a_group_has_got_as_far_as_the_last_of_its_members() {
    for strategy in [WaitStrategy::Park, WaitStrategy::SpinThenPark, WaitStrategy::Spin] {
        with_each(|rt| {
            let ([a, b, c], group) = members();
            let group = group.with_strategy(strategy);
            let task = rt.spawn({
                let group = group.clone();
                move || [2, 5].map(|target| group.wait_until_published(target))
            });
            a.publish(7);
            b.publish(3);
            assert_eq!(group.last_published(), u8::MAX);
            c.publish(4);
            crate::common::thread::yield_now();
            b.publish(6);
            c.publish(5);
            let [first, second] = task.join().unwrap();
            assert!((3..=5).contains(&first.unwrap()));
            assert_eq!(second, Ok(5));
            assert_eq!(group.last_published(), 5);
        });
    }
}

#[test]
fn numbers_of_members_on_both_sides_of_zero_are_compared() {
    let ([a, b], group) = members();
    for number in [40, 80, 120, 160, 200, 240] {
        assert!(a.publish(number) && b.publish(number));
    }
    a.publish(2);
    b.publish(254);
    assert_eq!(group.last_published(), 254);
    assert_eq!(group.wait_until_published(250), Ok(254));
    assert!(poll_once(group.wait_async(1)).is_pending());
    b.publish(1);
    assert_eq!(group.last_published(), 1);
}

#[test]
fn a_closed_member_ends_all_waits_of_the_group_and_no_others() {
    with_each(|rt| {
        let ([a, b], group) = members();
        let waits = |target| {
            let group = group.clone();
            rt.spawn(move || group.wait_until_published(target))
        };
        let of_group = [waits(1), waits(3)];
        let of_member = rt.spawn({
            let b = b.clone();
            move || b.wait_until_published(3)
        });
        until_waiting(&group, 2);
        until_waiting(&b, 1);
        // Also one that has published it.
        a.publish(1);
        a.close();
        for task in of_group {
            assert_eq!(task.join().unwrap(), Err(WaitError::Closed));
        }
        assert!(group.is_closed() && !b.is_closed());
        assert_eq!(waiting(&b), 1);
        b.publish(3);
        assert_eq!(of_member.join().unwrap(), Ok(3));
        // What all have published is had.
        assert_eq!(group.wait_until_published(1), Ok(1));
        assert_eq!(group.wait_until_published(2), Err(WaitError::Closed));
    });
}

#[test]
fn a_finished_member_ends_waits_for_more_than_it_has_published() {
    with_each(|rt| {
        let ([a, b], group) = members();
        let waits = |target| {
            let group = group.clone();
            rt.spawn(move || group.wait_until_published(target))
        };
        let (near, far) = (waits(3), waits(4));
        until_waiting(&group, 2);
        a.publish(3);
        a.finish();
        assert_eq!(far.join().unwrap(), Err(WaitError::Closed));
        assert_eq!(waiting(&group), 1);
        b.publish(9);
        assert_eq!(near.join().unwrap(), Ok(3));
    });
}

#[test]
fn to_close_a_group_closes_its_members() {
    with_each(|rt| {
        let ([a, b, c], group) = members();
        let tasks = [&a, &b, &c].map(|member| {
            let member = member.clone();
            rt.spawn(move || member.wait_until_published(0))
        });
        group.close();
        for task in tasks {
            assert_eq!(task.join().unwrap(), Err(WaitError::Closed));
        }
        assert!(a.is_closed() && b.is_closed() && c.is_closed());
        assert_eq!(group.wait_until_published(0), Err(WaitError::Closed));
    });
}

#[test]
fn a_wait_of_a_group_that_is_cut_short_disturbs_nobody() {
    with_each(|rt| {
        let ([a, b], group) = members();
        let other_group = SequenceBarrierGroup::new([b.clone(), a.clone()]);
        let others = [
            rt.spawn({
                let group = group.clone();
                move || group.wait_until_published(2)
            }),
            rt.spawn(move || other_group.wait_until_published(2)),
            rt.spawn({
                let a = a.clone();
                move || a.wait_until_published(2)
            }),
        ];
        until_waiting(&group, 1);
        let cut = rt.spawn({
            let group = group.clone();
            move || group.wait_until_published(1)
        });
        until_waiting(&group, 2);
        cut.cancel("enough");
        assert!(matches!(cut.join().unwrap(), Err(WaitError::Cancelled(_))));
        let time = Duration::from_millis(1);
        assert_eq!(group.wait_timeout(1, time), Err(WaitError::TimedOut));
        assert!(poll_once(group.wait_async(0)).is_pending());
        assert!(!group.is_closed());
        a.publish(2);
        b.publish(1);
        b.publish(2);
        for task in others {
            assert_eq!(task.join().unwrap(), Ok(2));
        }
        assert_eq!(poll_once(group.wait_async(2)), Poll::Ready(Ok(2)));
    });
}

#[test]
fn a_terminal_group_closes_its_members() {
    let ([a, b], group) = members();
    let group = group.terminal();
    assert_eq!(group.wait_timeout(0, Duration::from_millis(1)), Err(WaitError::TimedOut));
    assert!(a.is_closed() && b.is_closed());
}

#[test]
fn a_group_without_members_panics() {
    let said = panic_of(|| SequenceBarrierGroup::<u8>::new([]));
    assert_eq!(said, "cygnet: a group of barriers needs at least one member");
}
