//! Programs of rayon's users.

use super::{Outcome, run};
use cygnet::{join, par, scope};

/// The sum of numbers, and the first error among texts.
#[test]
fn texts_are_parsed_and_summed() -> Outcome {
    let total = |texts: &'static [&'static str]| {
        run(|| par::try_map_reduce(texts, || 0, |text| Ok(text.parse::<u32>()?), |a, b| a + b))
    };
    assert_eq!(total(&["1", "2"])?, run(|| Ok(par::sum::<_, u32>(&[1, 2])?))?);
    assert!(total(&["1", "two"]).is_err());
    Ok(())
}

/// What each thread has counted.
#[test]
fn each_worker_tells_what_it_has_counted() -> Outcome {
    use std::cell::Cell;
    thread_local! { static COUNT: Cell<usize> = const { Cell::new(0) } }
    let rt = cygnet::Runtime::builder().workers(3).build()?;
    rt.block_on(|| par::for_each(0..100, |_| COUNT.set(COUNT.get() + 1)))?;
    assert_eq!(rt.handle().broadcast(|_| COUNT.take()).into_iter().sum::<usize>(), 100);
    Ok(())
}

/// The sum of squares of a slice.
#[test]
fn squares_are_summed() -> Outcome {
    let numbers: Vec<u64> = (1..=1_000).collect();
    let sum = run(|| Ok(par::map_reduce(&numbers, || 0, |n| n * n, |a, b| a + b)?))?;
    assert_eq!(sum, 333_833_500);
    Ok(())
}

/// Quicksort by joins.
#[test]
fn a_slice_is_sorted_by_joins() -> Outcome {
    fn sort(slice: &mut [u32]) {
        let Some((&mut pivot, _)) = slice.split_last_mut() else { return };
        let mut smaller = 0;
        for i in 0..slice.len() {
            if slice[i] < pivot {
                slice.swap(i, smaller);
                smaller += 1;
            }
        }
        slice.swap(smaller, slice.len() - 1);
        let (left, right) = slice.split_at_mut(smaller);
        join(|| sort(left), || sort(&mut right[1..]));
    }

    let mut numbers: Vec<u32> = (0..1_000).map(|n| n * 7_919 % 1_009).collect();
    let mut expected = numbers.clone();
    expected.sort_unstable();
    run(|| {
        sort(&mut numbers);
        Ok(())
    })?;
    assert_eq!(numbers, expected);
    Ok(())
}

/// A tree is visited by tasks that borrow it.
#[test]
fn a_tree_is_visited_in_a_scope() -> Outcome {
    struct Tree {
        value: u64,
        children: Vec<Tree>,
    }

    fn sum(tree: &Tree) -> u64 {
        let mut sums = vec![0; tree.children.len()];
        scope(|s| {
            for (sum_of_child, child) in sums.iter_mut().zip(&tree.children) {
                s.spawn(move || *sum_of_child = sum(child));
            }
        });
        tree.value + sums.into_iter().sum::<u64>()
    }

    let leaf = |value| Tree { value, children: Vec::new() };
    let tree =
        Tree { value: 1, children: vec![leaf(2), Tree { value: 3, children: vec![leaf(4)] }] };
    assert_eq!(run(|| Ok(sum(&tree)))?, 10);
    Ok(())
}

/// Items are changed in place, in chunks.
#[test]
fn chunks_are_changed_in_place() -> Outcome {
    let mut pixels = vec![1_u8; 1_000];
    run(|| {
        par::for_each(par::chunks_mut(&mut pixels, 64), |row| row.fill(7))?;
        Ok(())
    })?;
    assert!(pixels.iter().all(|pixel| *pixel == 7));
    Ok(())
}

/// The first match ends the search.
#[test]
fn a_search_ends_with_the_first_match() -> Outcome {
    let found = run(|| Ok(par::find_any(0..100_000_u32, |n| n % 9_973 == 9_972)?))?;
    assert!(found.is_some_and(|n| n % 9_973 == 9_972));
    Ok(())
}

/// A vector is sorted, and mapped to another one.
#[test]
fn a_vector_is_sorted_and_mapped() -> Outcome {
    let lengths = run(|| {
        let mut words = ["stealing", "work", "coroutines"].map(String::from);
        par::sort_unstable(&mut words)?;
        Ok(par::map_collect(&words, |word| word.len())?)
    })?;
    assert_eq!(lengths, [10, 8, 4]);
    Ok(())
}
