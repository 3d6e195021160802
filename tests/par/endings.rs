//! Parallel loops that end early, by a hit, a cancellation or a panic, and the values that they
//! drop then.

use crate::common::drops::Guard;
use crate::common::prelude::*;
use crate::{Active, Meanwhile, cancelled_meanwhile};
use cygnet::par::{IntoSource, Source};

#[test]
fn a_search_ends_when_something_is_found() {
    in_task_and_many(|_| {
        // The first three end only because something is found.
        let found = par::find_any(0..=u64::MAX, |n| n % 1_000 == 999).unwrap().unwrap();
        assert_eq!(found % 1_000, 999);
        assert_eq!(par::any(0..=u128::MAX, |n| n % 7 == 6), Ok(true));
        assert_eq!(par::all(i64::MIN..i64::MAX, |n| n % 100 != 0), Ok(false));
        assert_eq!(par::find_any(0..1_000, |_| false), Ok(None));
        assert_eq!(par::find_any(&[1, 2, 3], |n| **n == 2), Ok(Some(&2)));
    });
}

#[test]
fn one_worker_looks_at_no_item_after_a_hit() {
    in_task_with(&[1], |_| {
        let looked = AtomicUsize::new(0);
        let hit = |n: usize| {
            looked.fetch_add(1, Ordering::Relaxed);
            n == 10_000
        };
        assert_eq!(par::any(0..1_000_000_000, hit), Ok(true));
        assert_eq!(looked.into_inner(), 10_001);
    });
}

#[test]
fn a_vector_drops_each_item_once_however_its_loop_ends() {
    in_task(|_| {
        for n in [1, 2, 10, 1_000] {
            let vector = |drops: &Drops| -> Vec<(usize, Guard)> {
                (0..n).map(|i| (i, drops.guard())).collect()
            };
            let drops = Drops::new();
            par::for_each(vector(&drops), drop).unwrap();
            assert_eq!(drops.count(), n);

            let drops = Drops::new();
            let found = par::find_any(vector(&drops), |item| item.0 == n / 2).unwrap().unwrap();
            assert_eq!((found.0, drops.count()), (n / 2, n - 1));
            drop(found);
            assert_eq!(drops.count(), n);

            let drops = Drops::new();
            let kept = par::map_collect(vector(&drops), |item| item).unwrap();
            assert!(kept.iter().map(|item| item.0).eq(0..n));
            assert_eq!(drops.count(), 0);
            drop(kept);
            assert_eq!(drops.count(), n);

            let drops = Drops::new();
            let text = panic_of(|| {
                par::for_each(vector(&drops), |item| assert!(item.0 != n / 2, "in the middle"))
            });
            assert_eq!((text.as_str(), drops.count()), ("in the middle", n));
        }
    });
}

#[test]
fn a_panic_stops_other_workers_and_drops_each_result_once() {
    in_task_and_many(|_| {
        for bad in [0, 1, 5, 77, 999] {
            let drops = Drops::new();
            let guard = |n| {
                assert!(n != bad, "item {n}");
                drops.guard()
            };
            let text = panic_of(|| par::map_collect(0..1_000, guard));
            assert_eq!((text, drops.left()), (format!("item {bad}"), 0));
            let identity = || drops.guard();
            let text = panic_of(|| {
                par::fold_reduce(0..1_000, identity, |_, n| guard(n), |_, _| drops.guard())
            });
            assert_eq!((text, drops.left()), (format!("item {bad}"), 0));
        }
        // Only the panic ends this loop.
        let text = panic_of(|| par::for_each(0..=u64::MAX, |n| assert!(n != 10_000, "found")));
        assert_eq!(text, "found");
    });
}

#[test]
fn a_panic_is_thrown_after_the_last_call_has_ended() {
    in_task(|_| {
        for _ in 0..scaled(100) {
            let active = Active::default();
            let text = panic_of(|| {
                par::for_each(0..=u64::MAX, |n| {
                    assert!(n % 1_000 != 500, "stop");
                    active.during(common::spin_loop);
                })
            });
            assert_eq!((text.as_str(), active.count()), ("stop", 0));
        }
    });
}

#[test]
fn all_items_may_panic() {
    in_task(|_| {
        for n in [1, 2, 100, 10_000] {
            assert_eq!(panic_of(|| par::for_each(0..n, |_| panic!("each"))), "each");
            let never = |n: usize| -> usize { panic!("{n}") };
            panic_of(|| par::map_collect(0..n, never));
        }
        assert_eq!(par::map_collect(0..3, |n| n), Ok(vec![0, 1, 2]));
    });
}

#[test]
fn a_panic_of_identity_or_reduce_is_thrown() {
    in_task(|_| {
        let identity = || -> Guard { panic!("identity") };
        let text =
            panic_of(|| par::fold_reduce(0..10, identity, |guard, _| guard, |guard, _| guard));
        assert_eq!(text, "identity");
        // `reduce` is called for each item, wherever the parts meet.
        let drops = Drops::new();
        let guard = || drops.guard();
        let reduce = |_, _| -> Guard { panic!("reduce") };
        let text = panic_of(|| par::map_reduce(0..10, guard, |_| guard(), reduce));
        assert_eq!((text.as_str(), drops.left()), ("reduce", 0));
    });
}

/// A source that counts the calls of its methods, iterator and destructor, and panics in one of
/// them.
struct Faulty<S> {
    items: Option<S>,
    calls: Arc<AtomicUsize>,
    bad: usize,
}

impl<S> Faulty<S> {
    fn call(&self) {
        assert!(self.calls.fetch_add(1, Ordering::Relaxed) != self.bad, "faulty");
    }

    fn part<T>(&self, items: T) -> Faulty<T> {
        Faulty { items: Some(items), calls: self.calls.clone(), bad: self.bad }
    }
}

impl<S: Source> Source for Faulty<S> {
    type Item = S::Item;
    type Iter = Faulty<S::Iter>;

    fn size(&self) -> usize {
        self.call();
        self.items.as_ref().unwrap().size()
    }

    fn split_at(mut self, n: usize) -> (Self, Self) {
        self.call();
        let (front, back) = self.items.take().unwrap().split_at(n);
        (self.part(front), self.part(back))
    }

    fn items(mut self) -> Self::Iter {
        self.call();
        let items = self.items.take().unwrap().items();
        self.part(items)
    }

    fn at_least(&self) -> usize {
        self.call();
        1
    }
}

impl<I: Iterator> Iterator for Faulty<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.call();
        self.items.as_mut().unwrap().next()
    }
}

impl<S> Drop for Faulty<S> {
    fn drop(&mut self) {
        // A panic here would leak the result of the function that has taken the source apart.
        if self.items.is_some() && !std::thread::panicking() {
            self.call();
        }
    }
}

#[test]
fn a_source_may_panic_in_any_call_and_items_and_results_are_dropped_once() {
    in_task(|_| {
        let n = scaled(200);
        for bad in (0..2 * n).chain([usize::MAX]) {
            let (items, drops) = (Drops::new(), Drops::new());
            let all: Vec<_> = (0..n).map(|i| (i, items.guard())).collect();
            let calls = Arc::new(AtomicUsize::new(0));
            let source = Faulty { items: Some(all.into_source()), calls: calls.clone(), bad };
            let loop_ = AssertUnwindSafe(|| {
                let results = par::map_collect(source, |(i, _guard)| (i, drops.guard())).unwrap();
                assert!(results.into_iter().map(|result| result.0).eq(0..n));
            });
            let panicked = catch_unwind(loop_).is_err();
            assert_eq!(panicked, calls.load(Ordering::Relaxed) > bad);
            assert_eq!((items.count(), drops.left()), (n, 0));
        }
    });
}

#[test]
fn a_panic_of_identity_on_another_worker_stops_the_first_one() {
    in_task_with(&[2, 3, 8], |_| {
        let caller = common::thread::current().id();
        let panicked = AtomicBool::new(false);
        let identity = || {
            let elsewhere = common::thread::current().id() != caller;
            // Once: else the others' halves would panic, one after the other, until nothing is
            // left.
            assert!(!elsewhere || panicked.swap(true, Ordering::SeqCst), "identity");
        };
        // Nothing else would end it.
        let fold = |(), n| {
            std::hint::black_box(n);
            common::spin_loop();
        };
        let text = panic_of(|| par::fold_reduce(0..=u64::MAX, identity, fold, |(), ()| ()));
        assert_eq!(text, "identity");
    });
}

#[test]
fn a_cancelled_loop_ends_with_an_error_after_its_last_call() {
    let run = |meanwhile: &Meanwhile| {
        let active = Active::default();
        let result = par::for_each(0..=u64::MAX, |_| {
            active.during(|| {
                meanwhile.begins();
                common::spin_loop();
            });
        });
        (result.is_err(), active.count())
    };
    cancelled_meanwhile(&[1, 2, 3, 8, MANY], run, |ended| assert_eq!(ended, (true, 0)));
}

#[test]
fn a_cancelled_loop_drops_its_results_and_the_items_not_taken() {
    let run = |meanwhile: &Meanwhile| {
        let drops = Drops::new();
        let items: Vec<_> = (0..10_000).map(|_| drops.guard()).collect();
        // The first item of each part goes on until the cancellation is there.
        let result = par::map_collect(items, |item| {
            meanwhile.begins();
            while !is_cancelled() && drops.made() < 10_002 {
                drops.guard();
                let _ = yield_now();
            }
            (item, drops.guard())
        });
        (result.map(|results| results.len()), drops.left())
    };
    cancelled_meanwhile(&[1, 2, 8], run, |(result, left)| {
        // With so few items the loop may have run to its end.
        assert!(matches!(result, Err(Cancelled { .. }) | Ok(10_000)));
        assert_eq!(left, 0);
    });
}

#[test]
fn a_hit_is_dropped_if_the_destructor_of_another_item_panics() {
    in_task(|_| {
        for found in 0..20 {
            for bomb in 0..20 {
                let drops = Drops::new();
                let armed = |i| i == bomb && i != found;
                let item = |i| (i, drops.guard(), armed(i).then(|| Bomb("bomb")));
                let items: Vec<_> = (0..20).map(item).collect();
                let search = AssertUnwindSafe(|| par::find_any(items, |item| item.0 == found));
                let found = catch_unwind(search);
                assert!(found.is_err() || bomb == found.unwrap().unwrap().unwrap().0);
                assert_eq!(drops.count(), 20);
            }
        }
    });
}

#[test]
fn a_cancelled_loop_drops_each_result_if_the_destructor_of_one_panics() {
    let run = |meanwhile: &Meanwhile| {
        let drops = Drops::new();
        let caller = common::thread::current().id();
        let planted = AtomicBool::new(false);
        let text = panic_of(|| {
            par::map_collect(0..10_000_000u32, |_| {
                let elsewhere = common::thread::current().id() != caller;
                let first = elsewhere && !planted.swap(true, Ordering::SeqCst);
                // The second half has a result by now, which must be dropped.
                if !elsewhere && planted.load(Ordering::SeqCst) {
                    meanwhile.begins();
                }
                spin_until(|| elsewhere || planted.load(Ordering::SeqCst));
                if !first && !cygnet::is_cancelled() {
                    let _ = yield_now();
                }
                (drops.guard(), first.then(|| Bomb("bomb")))
            })
        });
        (text, drops.left())
    };
    cancelled_meanwhile(&[2, 3, 8], run, |ended| assert_eq!(ended, ("bomb".to_owned(), 0)));
}

#[test]
fn a_cancellation_reaches_parts_whose_caller_has_nothing_left_but_to_wait() {
    let run = |meanwhile: &Meanwhile| {
        par::for_each(0..1_000_000, |n| match n {
            // The caller is through with its half when the other half has been taken.
            0 => spin_until(|| meanwhile.begun.load(Ordering::SeqCst)),
            1..500_000 => {}
            _ => {
                meanwhile.begins();
                meanwhile.spin_until_cancelled();
            }
        })
    };
    cancelled_meanwhile(&[2, 3, 8], run, |result| assert!(result.is_err()));
}

#[test]
fn splitting_a_vector_beyond_its_end_panics_and_drops_each_item_once() {
    for n in [3, usize::MAX] {
        let drops = Drops::new();
        let items: Vec<Guard> = (0..3).map(|_| drops.guard()).collect();
        let (first, rest) = items.into_source().split_at(1);
        panics_with("cannot be split at n > size()", || rest.split_at(n));
        drop(first);
        assert_eq!(drops.count(), 3);
    }
}
