//! Many open joins, and few stacks.

use super::fib;
use crate::common::prelude::*;

/// A list of either shape: the rest in the first half, or in the second.
fn list(n: usize, rest_first: bool, ended: Count) {
    if n == 0 {
        return;
    }
    let leaf = || ended.up();
    let rest = || list(n - 1, rest_first, ended);
    let ((), ()) = if rest_first { join(rest, leaf) } else { join(leaf, rest) };
}

#[test]
fn a_deep_list_ends_in_either_shape() {
    in_task(|_| {
        for rest_first in [false, true] {
            for depth in [10, 1023, 1024, 1025, 5000] {
                let ended = Count::new();
                scope(|s| {
                    // Some kilobytes for each level in debug builds, under sanitizers more.
                    let deep = task().stack_size(256 << 20).unwrap();
                    deep.spawn_in(s, || list(depth, rest_first, ended));
                });
                assert_eq!(ended.get(), depth);
            }
        }
    });
}

#[test]
fn a_deep_row_is_left_and_found_again() {
    fn deep(n: usize, ended: Count) {
        if n == 0 {
            return;
        }
        if n.is_multiple_of(97) {
            yield_now().unwrap();
        }
        join(|| deep(n - 1, ended), || ended.up());
        if n.is_multiple_of(89) {
            yield_now().unwrap();
            join(|| ended.up(), || yield_now().unwrap());
        }
    }
    in_task(|_| {
        let ended = Count::new();
        scope(|s| {
            for _ in 0..3 {
                let task = task().stack_size(256 << 20).unwrap();
                task.spawn_in(s, || deep(3000, ended));
            }
        });
        assert_eq!(ended.get(), 3 * (3000 + 3000 / 89));
    });
}

#[test]
fn a_list_too_deep_for_its_stack_ends_in_the_report_of_an_overflow() {
    if common::SANITIZED {
        return; // they handle the signal themselves
    }
    let body = || runtime(2).block_on(|| list(1_000_000, true, Count::new()));
    let Some(output) = in_child(body) else { return };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("has overflowed its stack"), "{text}");
}

#[test]
fn with_a_single_stack_nothing_is_lost() {
    within_each([1, 2], |workers| {
        let rt = Runtime::builder().workers(workers).max_stacks(workers).build().unwrap();
        let waits = |n: u64| {
            yields(10);
            fib(n)
        };
        assert_eq!(rt.block_on(|| join(|| waits(10), || waits(12))), (55, 144));
    });
}
