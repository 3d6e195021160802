//! Parallel loops that run to their ends: each kind of source, each size, order, nesting, and turns
//! for other tasks.

use crate::common::prelude::*;
use crate::common::thread::{self, ThreadId};
use cygnet::coroutine::Coroutine;
use cygnet::par::{self, IntoSource, Source};

/// Sizes with and without whole halves, below and above the first chunks.
const SIZES: [usize; 12] = [0, 1, 2, 3, 4, 7, 8, 10, 63, 100, 1_000, 10_007];

/// The items that a loop over `source` visits, sorted.
fn seen<S: IntoSource>(source: S) -> Vec<S::Item>
where
    S::Item: Ord + Send,
{
    let all = Mutex::new(Vec::new());
    par::for_each(source, |item| all.lock().unwrap().push(item)).unwrap();
    let mut all = all.into_inner().unwrap();
    all.sort();
    all
}

#[test]
fn every_item_of_every_kind_of_source_has_one_turn() {
    in_task_and_many(|_| {
        for n in SIZES {
            let numbers: Vec<usize> = (0..n).collect();
            assert_eq!(seen(0..n), numbers);
            assert_eq!(seen(1..=n).len(), n);
            assert!(seen(&numbers).into_iter().eq(&numbers));
            assert!(seen(&numbers[..]).into_iter().eq(&numbers));
            assert_eq!(seen(numbers.clone()), numbers);
            assert_eq!(seen(par::at_least(5, 0..n)), numbers);
            assert!(seen(par::zip(0..n, &numbers)).into_iter().eq(numbers.iter().enumerate()));
            assert!(seen(par::zip(&numbers, 7..)).into_iter().eq(numbers.iter().zip(7..)));
            assert!(seen(par::enumerate(&numbers)).into_iter().eq(numbers.iter().enumerate()));
            let sum = par::map_reduce(par::enumerate(0..n), || 0, |(i, n)| i + n, |a, b| a + b);
            assert_eq!(sum, Ok(n * n.saturating_sub(1)));
            assert!(seen(par::chunks(&numbers, 3)).into_iter().eq(numbers.chunks(3)));
            let mut doubled = numbers.clone();
            par::for_each(&mut doubled, |n| *n *= 2).unwrap();
            par::for_each(&mut doubled[..], |n| *n += 1).unwrap();
            par::for_each(par::chunks_mut(&mut doubled, 7), |part| {
                part.iter_mut().for_each(|n| *n -= 1);
            })
            .unwrap();
            assert!(doubled.iter().copied().eq((0..n).map(|n| 2 * n)));
        }
        let mut array = [1, 2, 3];
        par::for_each(&mut array, |n| *n += 1).unwrap();
        assert!(seen(&array).into_iter().eq(&[2, 3, 4]));
        let mut boxed: Box<[u8]> = vec![1, 2, 3].into();
        par::for_each(&mut boxed, |n| *n += 1).unwrap();
        assert!(seen(&boxed).into_iter().eq(&[2, 3, 4]));
    });
}

#[test]
fn ranges_of_every_integer_go_to_their_limits() {
    fn sum<S: IntoSource>(source: S) -> i64
    where
        S::Item: TryInto<i64, Error: std::fmt::Debug>,
    {
        par::map_reduce(source, || 0, |n| n.try_into().unwrap(), |a, b| a + b).unwrap()
    }
    in_task(|_| {
        assert_eq!(sum(i8::MIN..i8::MAX), -128 - 127);
        assert_eq!(sum(i8::MIN..=i8::MAX), -128);
        assert_eq!(sum(-100..100i8), -100);
        assert_eq!(sum(0..=u8::MAX), 255 * 128);
        assert_eq!(sum(i16::MIN..=i16::MAX), -32_768);
        assert_eq!(sum(0..=u16::MAX), 65_535 * 32_768);
        assert_eq!(sum(-5..=5i32), 0);
        assert_eq!(sum(u32::MAX - 1..=u32::MAX), 2 * i64::from(u32::MAX) - 1);
        assert_eq!(sum(i64::MAX - 1..i64::MAX), i64::MAX - 1);
        assert_eq!(seen(u64::MAX - 2..=u64::MAX), [u64::MAX - 2, u64::MAX - 1, u64::MAX]);
        assert_eq!(seen(usize::MAX..=usize::MAX), [usize::MAX]);
        assert_eq!(seen(isize::MIN..=isize::MIN), [isize::MIN]);
        assert_eq!(seen(u128::MAX - 1..=u128::MAX), [u128::MAX - 1, u128::MAX]);
        assert_eq!(seen(i128::MIN..i128::MIN + 1), [i128::MIN]);
    });
}

#[test]
#[expect(clippy::reversed_empty_ranges)]
fn empty_sources_call_no_closure() {
    in_task(|_| {
        let never = |_: u32| -> u32 { panic!("there is nothing") };
        par::for_each(5..5, |n| assert_eq!(never(n), 0)).unwrap();
        par::for_each(5..=3, |n| assert_eq!(never(n), 0)).unwrap();
        assert_eq!(par::map_reduce(7..0, || 3, never, |a, b| a + b), Ok(3));
        assert_eq!(par::map_collect(Vec::new(), never), Ok(vec![]));
        assert_eq!(par::map_collect(par::chunks(&[0u8; 0], 4), <[u8]>::len), Ok(vec![]));
        assert_eq!(par::find_any(0..0, |_| true), Ok(None));
        assert_eq!(par::any(&[0u8; 0], |_| true), Ok(false));
        assert_eq!(par::all(0..0, |_| false), Ok(true));
    });
}

#[test]
fn results_are_collected_and_reduced_in_order() {
    in_task_and_many(|_| {
        for n in SIZES {
            let squares: Vec<_> = (0..n).map(|n| n * n).collect();
            assert_eq!(par::map_collect(0..n, |n| n * n).unwrap(), squares);
            let text = |n: usize| format!("{n},");
            let serial: String = (0..n).map(text).collect();
            let join = |a: String, b: String| a + &b;
            assert_eq!(par::map_reduce(0..n, String::new, text, join).unwrap(), serial);
            let fold = |mut all: Vec<usize>, n| {
                all.push(n);
                all
            };
            let append = |mut a: Vec<usize>, mut b| {
                a.append(&mut b);
                a
            };
            let all = par::fold_reduce(0..n, Vec::new, fold, append).unwrap();
            assert!(all.into_iter().eq(0..n));
        }
    });
}

#[test]
fn a_long_loop_that_is_shared_gives_what_a_serial_one_gives() {
    in_task_and_many(|_| {
        let n = scaled_in_debug(1_000_000) as u64;
        let work = |n: u64| (0..n % 20).fold(n, |x, i| x.rotate_left(5) ^ i);
        let serial = (0..n).map(work).fold(0, u64::wrapping_add);
        for _ in 0..5 {
            assert_eq!(par::map_reduce(0..n, || 0, work, u64::wrapping_add), Ok(serial));
            let results = par::map_collect(0..n, work).unwrap();
            assert!(results.into_iter().eq((0..n).map(work)));
        }
    });
}

#[test]
fn items_without_a_size_are_counted() {
    in_task(|_| {
        for n in SIZES {
            assert_eq!(par::map_collect(0..n, |_| ()).unwrap().len(), n);
            let units = vec![(); n];
            let one = |(): &()| 1;
            assert_eq!(par::map_reduce(&units, || 0, one, |a, b| a + b), Ok(n));
            assert_eq!(seen(units).len(), n);
        }
        let many = vec![(); usize::MAX];
        assert_eq!(par::any(many, |()| true), Ok(true));
    });
}

#[test]
fn chunks_are_those_of_std_whatever_their_size() {
    in_task(|_| {
        let numbers: Vec<u32> = (0..1_000).collect();
        for size in [1, 2, 999, 1_000, 1_001, usize::MAX] {
            let chunks = par::chunks(&numbers, size);
            let parts = par::map_collect(chunks.clone(), <[u32]>::to_vec).unwrap();
            assert!(parts.iter().map(Vec::as_slice).eq(numbers.chunks(size)));
            let mut copy = numbers.clone();
            let lengths = par::map_collect(par::chunks_mut(&mut copy, size), |part| {
                part.fill(7);
                part.len()
            });
            assert!(lengths.unwrap().into_iter().eq(numbers.chunks(size).map(<[u32]>::len)));
            assert!(copy.iter().all(|&n| n == 7));
        }
        struct NoClone;
        assert_eq!(par::chunks(&[NoClone, NoClone], 1).clone().size(), 2);
        assert!(panic_of(|| par::chunks(&numbers, 0)).contains("parts of 0 elements"));
        let text = panic_of(|| par::chunks_mut(&mut [1], 0).size());
        assert!(text.contains("parts of 0 elements"));
    });
}

#[test]
fn a_zip_is_as_long_as_the_shorter_side() {
    in_task(|_| {
        let letters = ['a', 'b', 'c'];
        assert!(seen(par::zip(0..=u64::MAX, &letters)).into_iter().eq((0..).zip(&letters)));
        assert_eq!(seen(par::zip(vec![1, 2, 3, 4, 5], 0..2)), [(1, 0), (2, 1)]);
    });
}

#[test]
fn an_open_range_ends_with_the_largest_number_of_its_type() {
    in_task(|_| {
        assert_eq!(seen(250u8..), [250, 251, 252, 253, 254, 255]);
        assert_eq!(seen(par::zip(126i8.., vec!['a', 'b', 'c'])), [(126, 'a'), (127, 'b')]);
        assert_eq!(par::any(0u64.., |n| n == 10_000), Ok(true));
    });
}

#[test]
fn no_part_has_fewer_items_than_the_minimum() {
    in_task(|_| {
        let parts = Mutex::new(Vec::new());
        let count = |n, _| n + 1;
        let reduce = |a: usize, b: usize| {
            parts.lock().unwrap().extend([a, b]);
            a + b
        };
        let all = par::fold_reduce(par::at_least(100, 0..1_234), || 0, count, reduce);
        assert_eq!(all, Ok(1_234));
        assert!(parts.into_inner().unwrap().iter().all(|&n| n >= 100));
        // A source that is smaller than the minimum is one part.
        assert_eq!(seen(par::at_least(usize::MAX, 0..10)).len(), 10);
        assert_eq!(seen(par::at_least(0, 0..10)).len(), 10);
    });
}

#[test]
fn loops_nest_and_run_in_the_tasks_of_a_scope() {
    in_task_and_many(|_| {
        let total = Count::new();
        let nested = || {
            par::for_each(0..20usize, |i| {
                let inner = par::map_reduce(0..i, || 0, |j| j, |a, b| a + b).unwrap();
                assert_eq!(inner, i * i.saturating_sub(1) / 2);
                par::for_each(0..i, |_| total.up()).unwrap();
            })
            .unwrap();
        };
        nested();
        scope(|s| (0..10).for_each(|_| drop(s.spawn(nested))));
        assert_eq!(total.get(), 11 * 190);
    });
}

#[test]
fn an_item_may_spawn_wait_and_yield() {
    in_task(|_| {
        let sum = par::map_reduce(
            0..200u64,
            || 0,
            |n| {
                yield_now().unwrap();
                spawn(move || n).join().unwrap()
            },
            |a, b| a + b,
        );
        assert_eq!(sum, Ok(199 * 100));
    });
}

#[test]
fn several_workers_share_a_loop_of_few_long_items() {
    // One worker may be through with two halves of two items before another one begins, so of eight
    // items four have to run at the same time.
    let cases: [(&[usize], usize, usize); 2] = [(&[2, 3, 8], 2, 2), (&[8], 8, 4)];
    for (workers, items, together) in cases {
        in_task_with(workers, |_| {
            let here = Count::new();
            par::for_each(0..items, |_| here.meet(together)).unwrap();
        });
    }
}

#[test]
fn ready_coroutines_get_through_during_a_loop() {
    in_task_with(&[1], |_| {
        let steps = Count::new();
        // A local task stays on the worker of the loop.
        let walker = cygnet::spawn_local(move || {
            for _ in 0..50 {
                steps.up();
                yield_now().unwrap();
            }
        });
        give_way_until(|| steps.get() > 0);
        // This loop ends only if the coroutine goes on.
        let through = |_: u64| {
            common::spin_loop();
            steps.get() == 50
        };
        assert_eq!(par::any(0..=u64::MAX, through), Ok(true));
        walker.join().unwrap();
    });
}

/// A reference that any thread may hold and only its own thread may use, as several crates offer
/// it. It brings a yielder, which is not `Sync`, into a loop.
struct Bound<'a, T>(&'a T, ThreadId);

// SAFETY: `get` refuses every thread but the one that made the reference.
unsafe impl<T> Sync for Bound<'_, T> {}

impl<'a, T> Bound<'a, T> {
    fn new(value: &'a T) -> Bound<'a, T> {
        Bound(value, thread::current().id())
    }

    fn get(&self) -> &'a T {
        assert_eq!(thread::current().id(), self.1);
        self.0
    }
}

#[test]
fn a_bare_coroutine_is_not_left_in_the_middle_of_a_loop() {
    in_task(|_| {
        let coroutine = Coroutine::new(|yielder, ()| {
            let yielder = Bound::new(yielder);
            let refusals = AtomicUsize::new(0);
            // A suspended loop could be resumed by another task, after this one has ended.
            let refused = || {
                panics_with("inside a call that must return first", || yielder.get().suspend(0));
                refusals.fetch_add(1, Ordering::Relaxed)
            };
            // The caller itself visits the first item.
            let first = |n| n == 0 && refused() == 0;
            par::for_each(0..1_000, |n| assert_eq!(first(n), n == 0)).unwrap();
            yielder.get().suspend(1);
            let here = || thread::current().id() == yielder.1;
            let identity = || if here() { refused() } else { 0 };
            par::fold_reduce(0..1, identity, |_, _| 0, |_, _| 0).unwrap();
            par::sort_unstable_by(&mut [2, 1], |a: &u8, b| {
                refused();
                a.cmp(b)
            })
            .unwrap();
            assert!(refusals.into_inner() >= 3);
            yielder.get().suspend(2);
        });
        assert_eq!(coroutine.resume(()).unwrap().yielded(), Some(1));
        // A loop of the resumer does not keep the coroutine from suspending.
        let coroutine = Bound::new(&coroutine);
        let next = |_| coroutine.get().resume(()).unwrap().yielded();
        assert_eq!(par::map_collect(0..1, next).unwrap(), [Some(2)]);
        assert!(coroutine.get().resume(()).unwrap().returned().is_some());
    });
}

/// A source with a wrong size: each of its parts has `has` items.
struct Liar {
    says: usize,
    has: usize,
}

impl Source for Liar {
    type Item = usize;
    type Iter = std::ops::Range<usize>;

    fn size(&self) -> usize {
        self.says
    }

    fn split_at(self, n: usize) -> (Liar, Liar) {
        (Liar { says: n, has: self.has }, Liar { says: self.says - n, has: self.has })
    }

    fn items(self) -> std::ops::Range<usize> {
        0..self.has
    }
}

#[test]
fn a_source_that_lies_about_its_size_does_no_harm() {
    in_task(|_| {
        let drops = Drops::new();
        let guard = |_| drops.guard();
        panics_with("fewer items than its size says", || {
            par::map_collect(Liar { says: 1_000, has: 1 }, guard)
        });
        let results = par::map_collect(Liar { says: 100, has: 1_000 }, guard).unwrap();
        assert_eq!(results.len(), 100);
        drop(results);
        assert_eq!(drops.left(), 0);
        par::for_each(Liar { says: 1_000, has: 1 }, drop).unwrap();
    });
}

#[test]
fn more_items_than_a_vector_holds_are_a_clear_panic() {
    in_task_with(&[1], |_| {
        panics_with("more items than a Vec can hold", || par::map_collect(0..=u64::MAX, |n| n));
        panics_with("capacity overflow", || par::map_collect(0..u64::MAX / 2, |n| n));
    });
}
