//! Numbers that wrap around, and ranges of them.

use crate::common::prelude::*;
use cygnet::ring::sequence::{Sequence, SequenceRange};

/// Q1.
#[test]
fn the_initial_number_is_the_one_before_zero() {
    fn check<S: Sequence>(zero: S) {
        assert_eq!(S::INITIAL.next(), zero);
        assert_eq!(zero.offset(-1), S::INITIAL);
        assert!(S::INITIAL.precedes(zero));
        assert!(!zero.precedes(S::INITIAL) && !zero.precedes(zero));
    }
    check(0_u8);
    check(0_u16);
    check(0_u32);
    check(0_u64);
    check(0_usize);
}

/// Q2.
#[test]
fn of_two_numbers_less_than_half_apart_one_precedes_the_other() {
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

/// The operations of a range: `model::range` compares all of them with plain numbers.
#[test]
fn a_range_goes_on_past_the_largest_number() {
    let range = SequenceRange::new(253_u8, 6);
    assert_eq!(range.into_iter().collect::<Vec<_>>(), [253, 254, 255, 0, 1, 2]);
    assert_eq!((range.start(), range.end(), range.len()), (253, 3, 6));
    assert_eq!(range.take(100), range);
    assert!(range.skip(100).is_empty());
    assert_eq!(format!("{range:?}"), "253..3");
}

#[test]
fn a_range_longer_than_half_of_all_numbers_panics() {
    assert_eq!(SequenceRange::new(9_u8, 128).len(), 128);
    let said = panic_of(|| SequenceRange::new(9_u8, 129));
    assert_eq!(said, "cygnet: a range of 129 numbers is longer than twice the largest ring");
}
