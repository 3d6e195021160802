//! Numbers that wrap around, and ranges of them.

use crate::common::panic_of;
use cygnet::ring::sequence::{Sequence, SequenceRange};

#[test]
fn the_initial_number_is_the_one_before_zero() {
    fn check<S: Sequence>(zero: S) {
        assert_eq!(S::INITIAL.next(), zero);
        assert_eq!(zero.offset(-1), S::INITIAL);
        assert!(S::INITIAL.precedes(zero));
        assert!(!zero.precedes(S::INITIAL));
        assert!(!zero.precedes(zero));
    }
    check(0_u8);
    check(0_u16);
    check(0_u32);
    check(0_u64);
    check(0_usize);
}

#[test]
fn of_two_numbers_less_than_half_of_all_apart_one_precedes_the_other() {
    for a in 0..=u8::MAX {
        for far in 1..=127_u8 {
            let b = a.wrapping_add(far);
            assert!(a.precedes(b) && !b.precedes(a), "{a} {b}");
            assert_eq!((b.difference(a), a.difference(b)), (isize::from(far), -isize::from(far)));
            assert_eq!(a.offset(isize::from(far)), b);
        }
    }
    assert_eq!(3_u64.difference(u64::MAX - 1), 5);
    assert_eq!((u64::MAX - 1).difference(3), -5);
    assert_eq!(u8::LARGEST_RING, 64);
    assert_eq!(usize::LARGEST_RING, 1 << (usize::BITS - 2));
}

#[test]
fn a_range_goes_on_past_the_largest_number() {
    let range = SequenceRange::new(253_u8, 6);
    let numbers = [253, 254, 255, 0, 1, 2];
    assert_eq!(range.into_iter().collect::<Vec<_>>(), numbers);
    assert_eq!(range.into_iter().rev().collect::<Vec<_>>(), [2, 1, 0, 255, 254, 253]);
    assert_eq!(range.into_iter().len(), 6);
    assert_eq!((range.start(), range.end(), range.len()), (253, 3, 6));
    assert_eq!((range.first(), range.last()), (Some(253), Some(2)));
    for (index, number) in numbers.into_iter().enumerate() {
        assert!(range.contains(number));
        assert_eq!(range.get(index), Some(number));
    }
    assert!(!range.contains(252) && !range.contains(3));
    assert_eq!(range.get(6), None);
    assert_eq!(range.take(4).last(), Some(0));
    assert_eq!(range.skip(4).into_iter().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(range.take(100), range);
    assert!(range.skip(100).is_empty());
    assert_eq!(format!("{range:?}"), "253..3");
}

#[test]
fn an_empty_range_has_no_numbers() {
    let range = SequenceRange::new(7_u32, 0);
    assert_eq!((range.first(), range.last(), range.get(0)), (None, None, None));
    assert_eq!((range.start(), range.end()), (7, 7));
    assert!(range.is_empty() && !range.contains(7));
    assert_eq!(range.into_iter().next(), None);
    assert_eq!(range.into_iter().next_back(), None);
}

#[test]
fn a_range_of_more_than_can_be_told_apart_panics() {
    assert_eq!(SequenceRange::new(9_u8, 128).len(), 128);
    let said = panic_of(|| SequenceRange::new(9_u8, 129));
    assert_eq!(said, "cygnet: a range of 129 numbers is longer than twice the largest ring");
}
