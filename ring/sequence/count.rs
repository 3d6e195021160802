use std::ops::{RangeFrom, RangeFull, RangeInclusive, RangeToInclusive};

/// How many numbers or items a call asks for: a count, or a range of counts.
///
/// | written | the call takes |
/// | --- | --- |
/// | `8` | exactly 8 |
/// | `..=8` | as many as there are, up to 8, and waits until there is one |
/// | `4..=8` | the same, but waits until there are 4 |
/// | `4..`, `..` | the same without an upper limit |
///
/// A call for a range waits until there are enough for its lower end, and then takes what there is,
/// up to its upper end. A count of more than a whole ring stands for the whole ring. A lower end of
/// 0 counts as 1, so that a call for a range does not come back with nothing; only `0` and `..=0`
/// ask for none.
///
/// ```
/// use cygnet::ring::sequence::{MultiProducerSequencer, SequenceBarrier, TryClaimError};
///
/// let ring = MultiProducerSequencer::new(SequenceBarrier::<u64>::new(), 8);
/// let held = ring.claim(5).unwrap();
/// assert_eq!(ring.try_claim(4).unwrap_err(), TryClaimError::Full);
/// assert_eq!(ring.try_claim(..=4).unwrap().range().len(), 3);
/// assert_eq!(ring.try_claim(2..).unwrap().range().len(), 3);
/// assert_eq!(ring.try_claim(0).unwrap().range().len(), 0);
/// # drop(held);
/// ```
///
/// # Panics
/// A range that ends before its start, such as `8..=4`, cannot be made into a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    least: usize,
    most: usize,
}

impl Count {
    /// The count that the call waits for. At least 1, unless [`most`](Self::most) is 0.
    #[inline(always)]
    pub(crate) fn least(self) -> usize {
        self.least
    }

    /// The largest count that the call takes.
    #[inline(always)]
    pub(crate) fn most(self) -> usize {
        self.most
    }

    #[inline(always)]
    fn of(least: usize, most: usize) -> Count {
        Count { least: least.max(1).min(most), most }
    }
}

#[cold]
#[inline(never)]
fn refuse(range: &RangeInclusive<usize>) -> ! {
    panic!("cygnet: no count is in {range:?}: the start of a range must not exceed its end")
}

impl From<usize> for Count {
    #[inline(always)]
    fn from(count: usize) -> Count {
        Count { least: count, most: count }
    }
}

impl From<RangeToInclusive<usize>> for Count {
    #[inline(always)]
    fn from(range: RangeToInclusive<usize>) -> Count {
        Count::of(1, range.end)
    }
}

impl From<RangeInclusive<usize>> for Count {
    #[inline(always)]
    fn from(range: RangeInclusive<usize>) -> Count {
        if range.is_empty() {
            refuse(&range);
        }
        Count::of(*range.start(), *range.end())
    }
}

impl From<RangeFrom<usize>> for Count {
    #[inline(always)]
    fn from(range: RangeFrom<usize>) -> Count {
        Count::of(range.start, usize::MAX)
    }
}

impl From<RangeFull> for Count {
    #[inline(always)]
    fn from(_: RangeFull) -> Count {
        Count::of(1, usize::MAX)
    }
}
