//! Parallel loops that say one thing about all items, and loops that end with the first error.

use crate::common::prelude::*;
use cygnet::par;
use std::cmp;

const SIZES: [usize; 9] = [0, 1, 2, 3, 7, 63, 100, 1_000, 10_007];

#[test]
fn sums_counts_and_extremes_are_those_of_the_serial_loop() {
    in_task_and_many(|_| {
        for n in SIZES {
            let numbers: Vec<u64> = (0..n as u64).map(|i| i * 7_919 % 1_009).collect();
            let is_even = |n: &u64| n.is_multiple_of(2);
            assert_eq!(par::sum(&numbers), Ok(numbers.iter().sum::<u64>()));
            assert_eq!(
                par::count(&numbers, is_even),
                Ok(numbers.iter().filter(|n| is_even(n)).count())
            );
            assert_eq!(par::min(&numbers), Ok(numbers.iter().min()));
            assert_eq!(par::max(numbers.clone()), Ok(numbers.iter().copied().max()));
        }
        assert_eq!(par::sum::<_, f64>(&[0.5, 0.25]), Ok(0.75));
        assert!(par::sum::<_, i32>(0..0) == Ok(0));
    });
}

/// Compared by the first part alone.
#[derive(Clone, Copy, Debug)]
struct Keyed(usize, usize);

impl PartialEq for Keyed {
    fn eq(&self, other: &Keyed) -> bool {
        self.0 == other.0
    }
}

impl Eq for Keyed {}

impl PartialOrd for Keyed {
    fn partial_cmp(&self, other: &Keyed) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Keyed {
    fn cmp(&self, other: &Keyed) -> cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

#[test]
fn of_equal_items_the_first_is_the_least_and_the_last_the_greatest() {
    in_task_and_many(|_| {
        for n in SIZES {
            let items: Vec<_> = (0..n).map(|i| Keyed(i % 3, i)).collect();
            let place = |found: Option<&Keyed>| found.map(|item| item.1);
            assert_eq!(place(par::min(&items).unwrap()), place(items.iter().min()));
            assert_eq!(place(par::max(&items).unwrap()), place(items.iter().max()));
        }
    });
}

#[test]
fn a_position_is_that_of_the_first_item_among_many() {
    in_task_and_many(|_| {
        for n in SIZES {
            for step in [1, 3, 64, 5_000] {
                for from in [0, n / 2, n.saturating_sub(1), n] {
                    let is_it = |i: usize| i >= from && (i - from).is_multiple_of(step);
                    let expected = (0..n).position(is_it);
                    assert_eq!(par::position(0..n, is_it), Ok(expected));
                    let items: Vec<_> = (0..n).collect();
                    assert_eq!(par::position(&items, |i| is_it(*i)), Ok(expected));
                }
            }
        }
        // These end only because an item is found.
        assert_eq!(par::position(0..=u64::MAX, |n| n >= 10_000), Ok(Some(10_000)));
        assert_eq!(par::position(0u128.., |n| n == 999), Ok(Some(999)));
        // The unlooked-at ones are dropped.
        let drops = Drops::new();
        let items: Vec<_> = (0..1_000).map(|i| (i, drops.guard())).collect();
        assert_eq!(par::position(items, |(i, _)| i == 300), Ok(Some(300)));
        assert_eq!(drops.count(), 1_000);
    });
}

#[derive(PartialEq, Debug)]
enum Oops {
    Item(usize),
    Cancelled,
}

impl From<Cancelled> for Oops {
    fn from(_: Cancelled) -> Oops {
        Oops::Cancelled
    }
}

#[test]
fn a_loop_of_calls_that_may_fail_ends_with_an_error_of_one_of_them() {
    in_task_and_many(|_| {
        let fails_at =
            |bad: usize| move |n: usize| if n == bad { Err(Oops::Item(n)) } else { Ok(n) };
        for n in SIZES {
            assert_eq!(par::try_for_each(0..n, |i| fails_at(n)(i).map(drop)), Ok(()));
            let sum = par::try_map_reduce(0..n, || 0, fails_at(n), |a, b| a + b);
            assert_eq!(sum, Ok((0..n).sum()));
            for bad in [0, n / 2, n.saturating_sub(1)] {
                let expected = if n == 0 { Ok(0) } else { Err(Oops::Item(bad)) };
                let sum = par::try_map_reduce(0..n, || 0, fails_at(bad), |a, b| a + b);
                assert_eq!(sum.map(|_| 0), expected);
                let each = par::try_for_each(0..n, |i| fails_at(bad)(i).map(drop));
                assert_eq!(each.map(|()| 0), expected);
            }
        }
        // These end only because a call fails.
        let error =
            par::try_for_each(
                0..=u64::MAX,
                |n| if n < 1_000 { Ok(()) } else { Err(Oops::Item(1)) },
            );
        assert_eq!(error, Err(Oops::Item(1)));
        let text = par::try_map_reduce(
            b'a'..=b'e',
            String::new,
            |c| Ok::<_, Oops>(char::from(c).to_string()),
            |a, b| a + &b,
        );
        assert_eq!(text.unwrap(), "abcde", "in order");
    });
}

#[test]
fn what_was_reduced_and_the_errors_that_are_not_returned_are_dropped_once() {
    in_task_and_many(|_| {
        for n in [1, 2, 10, 1_000] {
            let drops = Drops::new();
            let made = Count::new();
            let guard = || {
                made.up();
                drops.guard()
            };
            struct Failed<G>(Option<G>);
            impl<G> From<Cancelled> for Failed<G> {
                fn from(_: Cancelled) -> Failed<G> {
                    Failed(None)
                }
            }
            let map = |i: usize| if i % 7 == 6 { Err(Failed(Some(guard()))) } else { Ok(guard()) };
            let result = par::try_map_reduce(0..n, guard, map, |a, b| {
                drop(a);
                b
            });
            assert_eq!(result.is_ok(), n < 7);
            assert_eq!(drops.count() + 1, made.get(), "all but the result");
            drop(result);
            assert_eq!(drops.count(), made.get());
        }
    });
}

#[test]
fn panics_and_cancels_end_these_loops_like_all_others() {
    in_task_and_many(|_| {
        let bad = |n: usize| assert!(n != 700, "an item");
        panics_with("an item", || {
            par::count(0..1_000, |n| {
                n == {
                    bad(n);
                    3
                }
            })
        });
        panics_with("an item", || {
            par::position(0..1_000, |n| {
                n == {
                    bad(n);
                    800
                }
            })
        });
        panics_with("an item", || {
            par::try_for_each(0..1_000, |n| {
                bad(n);
                Ok::<(), Oops>(())
            })
        });
        panics_with("a sum", || {
            par::try_map_reduce(0..1_000, || 0, Ok::<_, Oops>, |_, _| panic!("a sum"))
        });
        spawn(|| {
            cancel_handle().cancel("enough");
            assert!(par::sum::<_, u32>(0..10_u32).is_err() && par::min(&[1]).is_err());
            assert!(par::position(0.., |n: u64| n == 3).is_err());
            assert_eq!(par::try_for_each(0..10, |_| Ok(())), Err(Oops::Cancelled));
            assert_eq!(par::try_map_reduce(0..10, || 0, Ok, |a, b| a + b), Err(Oops::Cancelled));
        })
        .join()
        .unwrap();
        // Cancelled on the way.
        spawn(|| {
            let handle = cancel_handle();
            let looked = AtomicUsize::new(0);
            let result = par::try_map_reduce(
                0..usize::MAX,
                || 0,
                |n| {
                    if looked.fetch_add(1, Ordering::Relaxed) == 1_000 {
                        handle.clone().cancel("enough");
                    }
                    Ok::<usize, Oops>(n)
                },
                usize::max,
            );
            assert_eq!(result, Err(Oops::Cancelled));
        })
        .join()
        .unwrap();
    });
}
