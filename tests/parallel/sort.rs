//! The parallel sort: every shape against std's, comparisons that are no order, panics, cancellation.

use crate::common::mpsc;
use crate::common::{
    self, Drops, emulated, eventually, panic_of, runtime, scaled, scaled_in_debug, with, with_each,
    with_each_and_many, within,
};
use cygnet::{Runtime, par};
use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// More elements than a sort leaves in one piece while nobody is hungry; fewer where each comparison takes many
/// times as long.
fn many() -> usize {
    if cfg!(cygnet_tsan) || emulated() { 10_000 } else { 50_000 }
}

/// Numbers without a pattern (xorshift64, Marsaglia 2003).
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed | 1;
    move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    }
}

/// The shapes that sorts are known to stumble over.
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
    with_each(|rt| {
        rt.block_on(|| {
            let sizes = [0, 1, 2, 3, 20, 1_023, 1_024, 1_025, many()];
            // Where that does not take seconds.
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
    });
}

#[test]
fn many_workers_sort_and_keys_and_large_elements_are_sorted_by() {
    with_each_and_many(|rt| {
        rt.block_on(|| {
            let mut next = random(3);
            let mut large: Vec<(u64, [u64; 7], String)> = (0..scaled_in_debug(100_000))
                .map(|_| (next() % 5_000, [next(); 7], String::new()))
                .collect();
            let sum = |v: &[(u64, [u64; 7], String)]| {
                v.iter().fold(0u64, |sum, x| sum.wrapping_add(x.1[0]))
            };
            let before = sum(&large);
            par::sort_unstable_by_key(&mut large, |x| Reverse(x.0)).unwrap();
            assert!(large.is_sorted_by_key(|x| Reverse(x.0)));
            assert_eq!(sum(&large), before);
            let mut units = vec![(); 100_000];
            par::sort_unstable(&mut units).unwrap();
        });
    });
}

#[test]
fn the_number_of_comparisons_is_bounded_for_every_shape() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let n = scaled_in_debug(1_000_000) as u64;
            for (shape, mut numbers) in shapes(n) {
                let comparisons = AtomicU64::new(0);
                par::sort_unstable_by(&mut numbers, |a, b| {
                    comparisons.fetch_add(1, Relaxed);
                    a.cmp(b)
                })
                .unwrap();
                let (count, bound) = (comparisons.into_inner(), 3 * n * u64::from(n.ilog2()));
                assert!(count < bound, "{shape}: {count} comparisons of {n} numbers");
            }
        });
    });
}

/// Sorts by a comparison that is no order: it may panic (std's does), but must leave a permutation.
fn assert_harmless(n: usize, compare: impl Fn(&u64, &u64) -> Ordering + Sync) {
    let mut next = random(11);
    let mut numbers: Vec<u64> = (0..n).map(|_| next()).collect();
    let mut expected = numbers.clone();
    let sort = std::panic::AssertUnwindSafe(|| par::sort_unstable_by(&mut numbers, compare));
    let _ = std::panic::catch_unwind(sort);
    numbers.sort_unstable();
    expected.sort_unstable();
    assert!(numbers == expected, "elements were lost");
}

#[test]
fn a_comparison_that_is_no_order_leaves_a_permutation() {
    with_each(|rt| {
        rt.block_on(|| {
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
    });
}

#[test]
fn a_panic_of_the_comparison_leaves_a_permutation_and_drops_nothing_twice() {
    with_each(|rt| {
        rt.block_on(|| {
            let n = many();
            // Of some 15 for each element.
            for bad in [1, 100, n, 4 * n, 8 * n] {
                let (drops, mut next) = (Drops::new(), random(5));
                let mut items: Vec<_> = (0..n).map(|i| (next(), i, drops.guard())).collect();
                let count = AtomicUsize::new(0);
                let text = panic_of(|| {
                    par::sort_unstable_by(&mut items, |a, b| {
                        assert!(count.fetch_add(1, Relaxed) != bad, "compared often");
                        a.0.cmp(&b.0)
                    })
                });
                assert_eq!((text.as_str(), drops.count()), ("compared often", 0));
                let mut numbers: Vec<_> = items.iter().map(|item| item.1).collect();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(0..n));
                drop(items);
                assert_eq!(drops.count(), n);
            }
        });
    });
}

/// How far down the stack a sort of `n` elements calls its comparison, by a task that has used most of its stack.
///
/// Seven eighths of the elements come to the left of each pivot, which is the worst that counts as even.
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
    // In cells: std's sort does not look after the order of what may change under its hands.
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
fn a_sort_that_is_cut_unevenly_goes_no_deeper_with_two_workers_where_the_stack_is_half_full() {
    if common::SANITIZED || emulated() {
        return; // frames are several times as large; or it takes as many times as long
    }
    let depths = [1, 2].map(|workers| {
        let depth = AtomicUsize::new(0);
        within(|| {
            let rt = Runtime::builder().workers(workers).stack_size(256 << 10).build().unwrap();
            let (begun, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
            // The other worker has something else to do.
            let deep = rt.block_on(|| {
                cygnet::scope(|s| {
                    for _ in 1..workers {
                        s.spawn(|| {
                            begun.fetch_add(1, SeqCst);
                            eventually("the sort has ended", || ended.load(SeqCst));
                        });
                    }
                    while begun.load(SeqCst) + 1 < workers {
                        common::thread::yield_now();
                    }
                    let depth = depth_of_an_uneven_sort(1 << 19);
                    ended.store(true, SeqCst);
                    depth
                })
            });
            depth.store(deep, SeqCst);
        });
        depth.into_inner()
    });
    // A few forks may be open, whose frames are large where nothing is optimised. (Without a bound it is twice as
    // deep, there four times.)
    let halves = if cfg!(debug_assertions) { 4 } else { 3 };
    assert!(depths[1] * 2 < depths[0] * halves, "{depths:?}");
}

#[test]
fn a_cancelled_sort_ends_with_an_error_and_a_permutation() {
    for workers in [1, 2, 8] {
        within(move || {
            let rt = runtime(workers);
            let (begun, gone) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (sender, receiver) = mpsc::channel();
            let task = rt.spawn({
                let (begun, gone) = (begun.clone(), gone.clone());
                move || {
                    let mut next = random(1);
                    let mut numbers: Vec<u64> = (0..4 * many()).map(|_| next()).collect();
                    let mut expected = numbers.clone();
                    let result = par::sort_unstable_by(&mut numbers, |a, b| {
                        begun.store(true, SeqCst);
                        // Not before the cancellation: so pieces are left that must not be begun.
                        while !gone.load(SeqCst) {
                            common::thread::yield_now();
                        }
                        a.cmp(b)
                    });
                    numbers.sort_unstable();
                    expected.sort_unstable();
                    sender.send((result, numbers == expected)).unwrap();
                }
            });
            eventually("the sort has begun", || begun.load(SeqCst));
            drop(task);
            gone.store(true, SeqCst);
            let (result, permutation) = receiver.recv().unwrap();
            assert_eq!((result.is_err(), permutation), (true, true));
        });
    }
}

#[test]
fn outside_a_task_a_sort_is_a_clear_panic() {
    let text = panic_of(|| par::sort_unstable(&mut [2, 1]));
    assert!(text.contains("par::sort_unstable was called outside a task"), "{text}");
}
