//! A backtrace that is captured in a task shows the task's own frames, and ends.

use crate::common::prelude::*;
use std::backtrace::Backtrace;

#[inline(never)]
fn innermost_of_the_test() -> String {
    let trace = Backtrace::force_capture().to_string();
    // Not a tail call.
    std::hint::black_box(trace)
}

#[inline(never)]
fn recursive_of_the_test(depth: usize) -> String {
    let trace = if depth == 0 { innermost_of_the_test() } else { recursive_of_the_test(depth - 1) };
    std::hint::black_box(trace)
}

/// The trace has the test's frames, as often as they were called, and an end.
fn assert_whole(trace: &str, recursions: usize) {
    // The debug information has the module's path, or does not.
    let frames_of = |name| trace.lines().filter(|line| line.ends_with(name)).count();
    assert_eq!(frames_of("innermost_of_the_test"), 1, "{trace}");
    assert_eq!(frames_of("recursive_of_the_test"), recursions, "{trace}");
    let frames = trace.lines().filter(|line| line.trim_start().starts_with(char::is_numeric));
    // A trace without an end would go on through garbage.
    assert!(frames.count() < 200 + recursions, "{trace}");
    assert!(trace.contains("trampoline"), "it does not come to the coroutine's root:\n{trace}");
}

#[test]
fn a_backtrace_in_a_task_shows_its_frames_and_ends_at_the_coroutine_s_root() {
    with_each(|rt| {
        rt.block_on(|| {
            // On a stack of its own, since it is not joined before it has started.
            let task = spawn(|| {
                yield_now().unwrap();
                recursive_of_the_test(5)
            });
            give_way_until(|| task.is_finished());
            assert_whole(&task.join().unwrap(), 6);
        });
        assert_whole(&rt.block_on(|| recursive_of_the_test(0)), 1);
    });
}

#[test]
fn a_backtrace_in_a_child_that_is_called_in_place_shows_the_parent_s_frames_too() {
    #[inline(never)]
    fn parent_of_the_test() -> String {
        std::hint::black_box(spawn(|| recursive_of_the_test(1)).join().unwrap())
    }
    with(&[1], |rt| {
        let trace = rt.block_on(parent_of_the_test);
        assert_whole(&trace, 2);
        assert!(trace.contains("parent_of_the_test"), "{trace}");
    });
}

#[test]
fn a_backtrace_in_every_kind_of_task_is_whole() {
    in_task(|_| {
        assert_whole(&scope(|s| s.spawn(|| recursive_of_the_test(1)).join().unwrap()), 2);
        assert_whole(&cygnet::spawn_local(|| recursive_of_the_test(1)).join().unwrap(), 2);
        let large = cygnet::task().stack_size(1 << 20).unwrap();
        assert_whole(&large.spawn(|| recursive_of_the_test(20)).join().unwrap(), 21);
        // SAFETY: it holds nothing over a suspension.
        let migratable = unsafe { cygnet::task().migratable() }.spawn(|| recursive_of_the_test(1));
        assert_whole(&migratable.join().unwrap(), 2);
        let elsewhere = blocking(|| recursive_of_the_test(1));
        assert!(elsewhere.contains("innermost_of_the_test") && !elsewhere.contains("trampoline"));
    });
}

#[test]
fn a_backtrace_in_a_destructor_during_unwinding_is_whole() {
    in_task(|_| assert_whole(&while_unwinding(|| recursive_of_the_test(1)), 2));
}
