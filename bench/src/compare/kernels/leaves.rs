//! A few forks with much work below each.

use crate::compare::prelude::*;

/// Performs leaves that take 1, 2, 3 ... times `unit`, with forks that halve the list of leaves.
/// Returns the number of performed leaves.
pub fn uneven<F: Fork>(scope: &mut F::Scope<'_>, unit: Work, first: u64, last: u64) -> u64 {
    if first == last {
        unit.times(first).run(first);
        return 1;
    }
    let middle = first.midpoint(last);
    let (a, b) = F::join(
        scope,
        |s| uneven::<F>(s, unit, first, middle),
        |s| uneven::<F>(s, unit, middle + 1, last),
    );
    a + b
}

/// A fork of two leaves that take the same time.
pub fn pair<F: Fork>(scope: &mut F::Scope<'_>, work: Work) -> u64 {
    let (a, b) = F::join(scope, |_| work.run(1), |_| work.run(3));
    u64::from(a != b) + 1
}

/// A fork of two closures that do nothing.
#[inline]
pub fn nothing<F: Fork>(scope: &mut F::Scope<'_>) {
    F::join(scope, |_| (), |_| ());
}

#[cfg(test)]
mod tests {
    use super::super::Serial;
    use super::*;

    #[test]
    fn each_leaf_is_done_once() {
        assert_eq!(uneven::<Serial>(&mut (), Work::NONE, 1, 8), 8);
        assert_eq!(uneven::<Serial>(&mut (), Work::NONE, 5, 5), 1);
    }

    #[test]
    fn a_pair_is_two() {
        assert_eq!(pair::<Serial>(&mut (), Work { steps: 3 }), 2);
    }
}
