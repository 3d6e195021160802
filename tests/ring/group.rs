//! `SequenceBarrierGroup`: its progress is that of its slowest member.

use crate::common::prelude::*;
use crate::with_each_strategy;
use cygnet::ring::sequence::{SequenceBarrier, SequenceBarrierGroup};

fn members<const N: usize>() -> ([SequenceBarrier<u8>; N], SequenceBarrierGroup<u8>) {
    let members = std::array::from_fn(|_| SequenceBarrier::new());
    let group = SequenceBarrierGroup::new(members.clone());
    (members, group)
}

/// Q10.
#[test]
fn a_group_has_published_what_all_its_members_have() {
    with_each_strategy(|rt, strategy| {
        let ([a, b, c], group) = members();
        let group = group.with_strategy(strategy);
        let task =
            rt.spawn(own(&group, |group| [2, 5].map(|target| group.wait_until_published(target))));
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

#[test]
fn members_on_both_sides_of_zero_are_compared() {
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

/// Q9, Q11, Q12.
#[test]
fn a_closed_member_ends_all_waits_of_its_group_and_no_others() {
    with_each(|rt| {
        let ([a, b], group) = members();
        let of_group =
            [1, 3].map(|target| waits(rt, &group, move |group| group.wait_until_published(target)));
        let of_member = waits(rt, &b, |b| b.wait_until_published(3));
        // The member that is closed has published the first target.
        a.publish(1);
        a.close();
        assert_eq!(join_all(of_group), vec![Err(WaitError::Closed); 2]);
        assert!(group.is_closed() && !b.is_closed());
        assert_eq!(waiting(&b), 1);
        b.publish(3);
        assert_eq!(of_member.join().unwrap(), Ok(3));
        // What all members have published is still available.
        assert_eq!(group.wait_until_published(1), Ok(1));
        assert_eq!(group.wait_until_published(2), Err(WaitError::Closed));
    });
}

/// Q11.
#[test]
fn a_finished_member_ends_waits_for_more_than_it_published() {
    with_each(|rt| {
        let ([a, b], group) = members();
        let [near, far] =
            [3, 4].map(|target| waits(rt, &group, move |group| group.wait_until_published(target)));
        a.publish(3);
        a.finish();
        assert_eq!(far.join().unwrap(), Err(WaitError::Closed));
        assert_eq!(waiting(&group), 1);
        b.publish(9);
        assert_eq!(near.join().unwrap(), Ok(3));
    });
}

/// Q9.
#[test]
fn closing_a_group_closes_its_members() {
    with_each(|rt| {
        let ([a, b, c], group) = members();
        let tasks = [&a, &b, &c]
            .map(|member| rt.spawn(own(member, |member| member.wait_until_published(0))));
        group.close();
        assert_eq!(join_all(tasks), vec![Err(WaitError::Closed); 3]);
        assert!(a.is_closed() && b.is_closed() && c.is_closed());
        assert_eq!(group.wait_until_published(0), Err(WaitError::Closed));
    });
}

#[test]
fn a_wait_of_a_group_that_is_cut_short_disturbs_no_other() {
    with_each(|rt| {
        let ([a, b], group) = members();
        let other_group = SequenceBarrierGroup::new([b.clone(), a.clone()]);
        let others = [
            waits(rt, &group, |group| group.wait_until_published(2)),
            rt.spawn(move || other_group.wait_until_published(2)),
            rt.spawn(own(&a, |a| a.wait_until_published(2))),
        ];
        let cut = waits(rt, &group, |group| group.wait_until_published(1));
        cut.cancel("enough");
        assert!(matches!(cut.join().unwrap(), Err(WaitError::Cancelled(_))));
        assert_eq!(group.wait_timeout(1, MOMENT), Err(WaitError::TimedOut));
        assert!(poll_once(group.wait_async(0)).is_pending());
        assert!(!group.is_closed());
        a.publish(2);
        b.publish(1);
        b.publish(2);
        assert_eq!(join_all(others), vec![Ok(2); 3]);
        assert_eq!(poll_once(group.wait_async(2)), Poll::Ready(Ok(2)));
    });
}

#[test]
fn a_terminal_group_closes_its_members() {
    let ([a, b], group) = members();
    let group = group.terminal();
    assert_eq!(group.wait_timeout(0, MOMENT), Err(WaitError::TimedOut));
    assert!(a.is_closed() && b.is_closed());
}

#[test]
fn a_group_without_members_panics() {
    let said = panic_of(|| SequenceBarrierGroup::<u8>::new([]));
    assert_eq!(said, "cygnet: a group of barriers needs at least one member");
}
