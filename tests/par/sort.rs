//! The parallel sort beside std's: all shapes, comparisons that are no order, panics, cancellation.

use crate::common::prelude::*;
use crate::{Meanwhile, cancelled_meanwhile};
use std::cmp::{Ordering, Reverse};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// More elements than a sort leaves in one piece while no worker asks for work. Fewer where each
/// comparison takes many times as long.
fn many() -> usize {
    if cfg!(cygnet_tsan) || emulated() { 10_000 } else { 50_000 }
}

/// Numbers without a pattern.
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random(seed | 1);
    move || random.seed()
}

/// The shapes on which sorts are known to fail.
fn shapes(n: u64) -> Vec<(&'static str, Vec<u64>)> {
    let mut next = random(n);
    let mut organ: Vec<u64> = (0..n / 2).collect();
    organ.extend((0..n - n / 2).rev());
    let mut nearly: Vec<u64> = (0..n).collect();
    for _ in 0..n / 100 {
        let (a, b) = (next() % n, next() % n);
        nearly.swap(a as usize, b as usize);
    }
    vec![
        ("random", (0..n).map(|_| next()).collect()),
        ("few values", (0..n).map(|_| next() % 4).collect()),
        ("some values", (0..n).map(|_| next() % 1_000).collect()),
        ("equal", vec![7; n as usize]),
        ("one differs", (0..n).map(|i| u64::from(i == n / 3)).collect()),
        ("sorted", (0..n).collect()),
        ("reversed", (0..n).rev().collect()),
        ("reversed with equals", (0..n).rev().map(|i| i / 3).collect()),
        ("sawtooth", (0..n).map(|i| i % 1_000).collect()),
        ("falling teeth", (0..n).map(|i| 1_000 - i % 1_000).collect()),
        ("organ pipes", organ),
        (
            "sorted, random tail",
            (0..n).map(|i| if i < n - n / 8 { i } else { next() % n }).collect(),
        ),
        ("nearly sorted", nearly),
    ]
}

#[test]
fn every_shape_and_size_comes_out_as_from_std() {
    in_task(|_| {
        let sizes = [0, 1, 2, 3, 20, 1_023, 1_024, 1_025, many()];
        // Where a million elements do not take seconds.
        let large = (!cfg!(debug_assertions)).then(|| scaled(1_000_000));
        for n in sizes.into_iter().chain(large) {
            for (shape, numbers) in shapes(n as u64) {
                let mut expected = numbers.clone();
                expected.sort_unstable();
                let mut sorted = numbers.clone();
                par::sort_unstable(&mut sorted).unwrap();
                assert!(sorted == expected, "{n} numbers, {shape}");
                sorted.clone_from(&numbers);
                par::sort_unstable_by(&mut sorted, |a, b| b.cmp(a)).unwrap();
                expected.reverse();
                assert!(sorted == expected, "{n} numbers, {shape}, backwards");
            }
        }
    });
}

#[test]
fn equal_elements_stay_in_order() {
    in_task_and_many(|_| {
        for n in [0, 1, 2, 3, 20, 1_000, many(), scaled_in_debug(300_001)] {
            for (shape, numbers) in shapes(n as u64) {
                for least in [1, 1_000] {
                    let key = |x: &(u64, usize)| x.0 / least;
                    let mut sorted: Vec<_> = numbers.iter().copied().zip(0..).collect();
                    let mut expected = sorted.clone();
                    expected.sort_by_key(key);
                    par::sort_by_key(&mut sorted, key).unwrap();
                    assert!(sorted == expected, "{n} numbers, {shape}");
                    expected.sort_by_key(|x| Reverse(key(x)));
                    par::sort_by(&mut sorted, |a, b| key(b).cmp(&key(a))).unwrap();
                    assert!(sorted == expected, "{n} numbers, {shape}, backwards");
                }
            }
        }
    });
}

#[test]
fn large_elements_are_sorted_by_keys_also_by_many_workers() {
    in_task_and_many(|_| {
        let mut next = random(3);
        let mut large: Vec<(u64, [u64; 7], String)> = (0..scaled_in_debug(100_000))
            .map(|_| (next() % 5_000, [next(); 7], String::new()))
            .collect();
        let sum =
            |v: &[(u64, [u64; 7], String)]| v.iter().fold(0u64, |sum, x| sum.wrapping_add(x.1[0]));
        let before = sum(&large);
        par::sort_unstable_by_key(&mut large, |x| Reverse(x.0)).unwrap();
        assert!(large.is_sorted_by_key(|x| Reverse(x.0)));
        assert_eq!(sum(&large), before);
        par::sort_by_key(&mut large, |x| x.1[0]).unwrap();
        assert!(large.is_sorted_by_key(|x| x.1[0]));
        assert_eq!(sum(&large), before);
        // These are left to std in smaller pieces.
        let mut larger: Vec<_> = (0..20_000u32).map(|i| (i * 7_919 % 1_009, [i; 63])).collect();
        par::sort_by_key(&mut larger, |x| x.0).unwrap();
        assert!(larger.is_sorted_by_key(|x| (x.0, x.1[0])));
        let mut units = vec![(); 100_000];
        par::sort_unstable(&mut units).unwrap();
        par::sort(&mut units).unwrap();
    });
}

#[test]
fn the_number_of_comparisons_is_bounded_for_every_shape() {
    in_task_with(&[1, 2], |_| {
        let n = scaled_in_debug(1_000_000) as u64;
        for (shape, mut numbers) in shapes(n) {
            let comparisons = AtomicU64::new(0);
            let compare = |a: &u64, b: &u64| {
                comparisons.fetch_add(1, Relaxed);
                a.cmp(b)
            };
            let mut same = numbers.clone();
            par::sort_unstable_by(&mut numbers, compare).unwrap();
            let (unstable, bound) = (comparisons.load(Relaxed), 3 * n * u64::from(n.ilog2()));
            par::sort_by(&mut same, compare).unwrap();
            let stable = comparisons.load(Relaxed) - unstable;
            assert!(unstable.max(stable) < bound, "{shape}: {unstable}, {stable} for {n} numbers");
        }
    });
}

/// Sorts by a comparison that is no order. The sort may panic, as std's does, but must leave a
/// permutation.
fn assert_harmless(n: usize, compare: impl Fn(&u64, &u64) -> Ordering + Sync) {
    let mut next = random(11);
    let mut numbers: Vec<u64> = (0..n).map(|_| next()).collect();
    let mut expected = numbers.clone();
    let mut same = numbers.clone();
    let _ = catch_unwind(AssertUnwindSafe(|| par::sort_unstable_by(&mut numbers, &compare)));
    let _ = catch_unwind(AssertUnwindSafe(|| par::sort_by(&mut same, &compare)));
    numbers.sort_unstable();
    same.sort_unstable();
    expected.sort_unstable();
    assert!(numbers == expected && same == expected, "elements were lost");
}

#[test]
fn a_comparison_that_is_no_order_leaves_a_permutation() {
    in_task(|_| {
        let n = scaled_in_debug(200_000);
        assert_harmless(n, |_, _| Ordering::Less);
        assert_harmless(n, |_, _| Ordering::Equal);
        assert_harmless(n, |_, _| Ordering::Greater);
        let state = AtomicU64::new(1);
        assert_harmless(n, |_, _| {
            let x = state.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.store(x, Relaxed);
            [Ordering::Less, Ordering::Equal, Ordering::Greater][(x >> 33) as usize % 3]
        });
        let turn = AtomicUsize::new(0);
        assert_harmless(n, |_, _| {
            if turn.fetch_add(1, Relaxed).is_multiple_of(2) {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        });
        // Not transitive.
        assert_harmless(n, |a, b| (a % 3).cmp(&((b + 1) % 3)));
    });
}

#[test]
fn a_panic_of_the_comparison_leaves_a_permutation_and_drops_nothing_twice() {
    in_task(|_| {
        // A sort makes some 15 comparisons for each element. A stable one merges last.
        let [few, more] = [many(), 5 * many()];
        let anywhere =
            [1, 100, few, 4 * few, 8 * few].map(|bad| [(few, bad, false), (few, bad, true)]);
        let in_merges = [29, 30, 31, 32].map(|half| (more, half * more / 2, true));
        // Fewer elements have fewer merges.
        let in_merges = in_merges.into_iter().filter(|_| few == 50_000 && !in_simulation());
        for (n, bad, is_stable) in anywhere.into_iter().flatten().chain(in_merges) {
            let (drops, mut next) = (Drops::new(), random(5));
            let mut items: Vec<_> = (0..n).map(|i| (next(), i, drops.guard())).collect();
            let count = AtomicUsize::new(0);
            let text = panic_of(|| {
                let compare = |a: &(u64, usize, _), b: &(u64, usize, _)| {
                    assert!(count.fetch_add(1, Relaxed) != bad, "compared often");
                    a.0.cmp(&b.0)
                };
                if is_stable {
                    par::sort_by(&mut items, compare)
                } else {
                    par::sort_unstable_by(&mut items, compare)
                }
            });
            assert_eq!((text.as_str(), drops.count()), ("compared often", 0));
            let mut numbers: Vec<_> = items.iter().map(|item| item.1).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..n));
            drop(items);
            assert_eq!(drops.count(), n);
        }
    });
}

/// Returns how far down the stack a sort of `n` elements calls its comparison, in a task that has
/// used most of its stack.
///
/// Seven eighths of the elements come to the left of each pivot, the worst division that counts as
/// even.
fn depth_of_an_uneven_sort(n: usize) -> usize {
    fn here() -> usize {
        let local = std::hint::black_box(0u8);
        std::ptr::from_ref(&local).addr()
    }
    #[inline(never)]
    fn below(address: usize, then: &mut dyn FnMut()) {
        let room = std::hint::black_box([0u8; 1 << 10]);
        if here() < address {
            then()
        } else {
            below(address, then)
        }
        std::hint::black_box(&room);
    }
    let mut next = random(9);
    // In cells: std's sort makes no promise for elements that change during a comparison.
    let mut numbers: Vec<Cell<u64>> = (0..n).map(|_| Cell::new(next())).collect();
    let (state, lowest) = (AtomicU64::new(1), AtomicUsize::new(usize::MAX));
    let (pivot, in_a_row) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let top = here() - (160 << 10);
    below(top, &mut || {
        par::sort_unstable_by(&mut numbers, |a, b| {
            lowest.fetch_min(here(), Relaxed);
            let second = std::ptr::from_ref(b).addr();
            let same = pivot.swap(second, Relaxed) == second;
            let run = if same { in_a_row.load(Relaxed) + 1 } else { 0 };
            in_a_row.store(run, Relaxed);
            if run < 64 {
                return a.cmp(b);
            }
            let x = state.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.store(x, Relaxed);
            if (x >> 33) % 1_000 < 870 { Ordering::Less } else { Ordering::Greater }
        })
        .unwrap();
    });
    top - lowest.into_inner()
}

#[test]
fn an_uneven_sort_on_a_full_stack_goes_no_deeper_with_two_workers() {
    if common::SANITIZED || emulated() {
        return; // frames are several times as large, or the sort takes as many times as long
    }
    let depths = [1, 2].map(|workers| {
        let depth = AtomicUsize::new(0);
        within(|| {
            let rt = Runtime::builder().workers(workers).stack_size(256 << 10).build().unwrap();
            let (begun, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
            // A task keeps the other worker busy.
            let deep = scope_on(&rt, |s| {
                for _ in 1..workers {
                    s.spawn(|| {
                        begun.fetch_add(1, SeqCst);
                        eventually("the sort has ended", || ended.load(SeqCst));
                    });
                }
                spin_until(|| begun.load(SeqCst) + 1 >= workers);
                let depth = depth_of_an_uneven_sort(1 << 19);
                ended.store(true, SeqCst);
                depth
            });
            depth.store(deep, SeqCst);
        });
        depth.into_inner()
    });
    // A few forks may be open, with large frames in a debug build. Without a bound the sort goes
    // twice as deep, in a debug build four times.
    let halves = if cfg!(debug_assertions) { 4 } else { 3 };
    assert!(depths[1] * 2 < depths[0] * halves, "{depths:?}");
}

/// Returns whether a sort that is cancelled meanwhile fails, and whether it leaves a permutation.
fn cut_short(meanwhile: &Meanwhile, is_stable: bool) -> (bool, bool) {
    let mut next = random(1);
    let mut numbers: Vec<u64> = (0..4 * many()).map(|_| next()).collect();
    let mut expected = numbers.clone();
    let compare = |a: &u64, b: &u64| {
        meanwhile.begins();
        // So pieces are left that must not be begun.
        meanwhile.spin_until_cancelled();
        a.cmp(b)
    };
    let result = if is_stable {
        par::sort_by(&mut numbers, compare)
    } else {
        par::sort_unstable_by(&mut numbers, compare)
    };
    numbers.sort_unstable();
    expected.sort_unstable();
    (result.is_err(), numbers == expected)
}

#[test]
fn a_cancelled_sort_ends_with_an_error_and_a_permutation() {
    let sorts: [fn(&Meanwhile) -> _; 2] = [|m| cut_short(m, false), |m| cut_short(m, true)];
    for sort in sorts {
        cancelled_meanwhile(&[1, 2, 8], sort, |ended| assert_eq!(ended, (true, true)));
    }
}
