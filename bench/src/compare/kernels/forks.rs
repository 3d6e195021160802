//! The cases that are kernels over [`Fork`]: their sizes, repetition and results.

use super::data::{numbers, quicksort, sum};
use super::{Fork, data, leaves, search, splitmix};
use crate::compare::prelude::*;

/// See the case `join-empty`.
pub fn nothing<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    repeated(setting, |n| time(n, |_| leaves::nothing::<F>(black_box(&mut *scope))))
}

/// See the case `fib`.
pub fn fib<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let n = setting.size(cases::FIB) as u32;
    timed(setting, || search::fib::<F>(scope, black_box(n)))
}

/// See the case `queens`.
pub fn queens<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let n = setting.size(cases::QUEENS) as u32;
    timed(setting, || search::queens::<F>(scope, black_box(n)))
}

/// See the case `tree`.
pub fn tree<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let nodes = setting.size(cases::TREE) as u64;
    timed(setting, || search::tree::<F>(scope, black_box(cases::TREE_SEED), nodes))
}

/// See the case `uneven`.
pub fn uneven<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let unit = setting.work(Duration::from_micros(setting.size(cases::UNEVEN) as u64));
    timed(setting, || leaves::uneven::<F>(scope, unit, 1, cases::UNEVEN_LEAVES))
}

/// See the cases `join-10us` and so on.
pub fn pair<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let work = setting.work(Duration::from_micros(setting.number));
    timed(setting, || leaves::pair::<F>(scope, work))
}

/// See the case `sum`.
pub fn sum_of_numbers<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let numbers = numbers(setting.size(cases::NUMBERS));
    timed(setting, || sum::<F>(scope, black_box(&numbers)))
}

/// See the case `items`.
pub fn items<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let (count, steps) = item_size(setting);
    timed(setting, || data::items::<F>(scope, 0..black_box(count), steps))
}

/// The number of items, and the steps of each item.
pub fn item_size(setting: &Setting) -> (u64, u64) {
    (setting.size(cases::ITEMS) as u64, setting.speed.steps_per_item)
}

/// See the case `quicksort`. The result is a hash of the sorted order.
pub fn sorting<F: Fork>(setting: &Setting, scope: &mut F::Scope<'_>) -> Measured {
    let unsorted: Vec<u32> =
        (0..setting.size(cases::SORTED) as u64).map(|at| (splitmix(at) >> 32) as u32).collect();
    timed_on_copies(
        setting,
        &unsorted,
        |values| quicksort::<F>(scope, values),
        |sorted| {
            assert!(sorted.is_sorted(), "the values are not sorted");
            sorted.iter().fold(0, |hash, &value| splitmix(hash ^ u64::from(value)))
        },
    )
}

/// The entries of a runtime's table for the cases over [`Fork`], and further entries. `$inside`
/// measures a case: it calls its argument where `$fork` can fork.
macro_rules! with_forks {
    ($fork:ty, $inside:path; $($more:tt)*) => {{
        use $crate::compare::kernels::forks;
        &[
            ("join-empty", |s| $inside(s, forks::nothing::<$fork>)),
            ("fib", |s| $inside(s, forks::fib::<$fork>)),
            ("queens", |s| $inside(s, forks::queens::<$fork>)),
            ("tree", |s| $inside(s, forks::tree::<$fork>)),
            ("quicksort", |s| $inside(s, forks::sorting::<$fork>)),
            ("uneven", |s| $inside(s, forks::uneven::<$fork>)),
            ("join-", |s| $inside(s, forks::pair::<$fork>)),
            $($more)*
        ]
    }};
}
pub(in crate::compare) use with_forks;
