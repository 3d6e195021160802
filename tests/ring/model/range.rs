//! Numbers, and ranges of them.

use super::{Wrapping, near_an_edge};
use crate::choices::Choices;
use cygnet::ring::sequence::SequenceRange;

pub(super) fn run<S: Wrapping>(choices: &mut Choices<'_>) {
    let start = near_an_edge::<S>(choices);
    let len = choices.below(129);
    compare_numbers::<S>(start, choices);
    let mut range = SequenceRange::new(S::of(start), len);
    let mut plain: Vec<i128> = (start..start + len as i128).collect();
    while !choices.is_over() {
        let count = choices.below(140);
        match choices.below(3) {
            0 => {
                range = range.take(count);
                plain.truncate(count);
            }
            1 => {
                range = range.skip(count);
                plain.drain(..count.min(plain.len()));
            }
            _ => from_both_ends(range, &plain, choices),
        }
        compare(range, &plain);
    }
}

fn compare_numbers<S: Wrapping>(a: i128, choices: &mut Choices<'_>) {
    // Less than half of all numbers apart, where the order of two numbers is defined.
    let far = (1_i128 << (S::BITS - 1)) - 1;
    let by = if choices.one_in(2) { far } else { choices.below(128) as i128 };
    let by = if choices.one_in(2) { -by } else { by };
    let (from, to) = (S::of(a), S::of(a + by));
    assert_eq!(to.difference(from) as i128, by);
    assert_eq!(from.difference(to) as i128, -by);
    assert_eq!(from.offset(by as isize), to);
    assert_eq!((from.precedes(to), to.precedes(from)), (by > 0, by < 0));
    assert_eq!(from.next(), S::of(a + 1));
}

fn compare<S: Wrapping>(range: SequenceRange<S>, plain: &[i128]) {
    let number = |n: &i128| S::of(*n);
    assert_eq!((range.len(), range.is_empty()), (plain.len(), plain.is_empty()));
    assert_eq!(
        (range.first(), range.last()),
        (plain.first().map(number), plain.last().map(number))
    );
    assert_eq!(range.end(), range.start().offset(plain.len() as isize));
    for index in [0, 1, plain.len() / 2, plain.len().saturating_sub(1), plain.len()] {
        assert_eq!(range.get(index), plain.get(index).map(number));
    }
    if let (Some(first), Some(last)) = (plain.first(), plain.last()) {
        let (before, after) = (S::of(first - 1), S::of(last + 1));
        assert!(plain.iter().all(|n| range.contains(S::of(*n))));
        assert!(!range.contains(before) && !range.contains(after));
    }
    assert!(range.into_iter().eq(plain.iter().map(number)));
    assert!(range.into_iter().rev().eq(plain.iter().rev().map(number)));
}

/// Compares the iterator, from either end.
fn from_both_ends<S: Wrapping>(range: SequenceRange<S>, plain: &[i128], choices: &mut Choices<'_>) {
    let (mut numbers, mut plain) = (range.into_iter(), plain.iter());
    for _ in 0..choices.below(16) {
        assert_eq!(numbers.len(), plain.len());
        if choices.one_in(2) {
            assert_eq!(numbers.next_back(), plain.next_back().map(|n| S::of(*n)));
        } else {
            assert_eq!(numbers.next(), plain.next().map(|n| S::of(*n)));
        }
    }
}
