//! Tests of internals: the scheduler's hooks, the report of an overflow, the pool.

use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::whole::Whole;
use super::*;
use crate::retire::nesting::{restore_nesting, suspend_nesting};
use crate::retire::overflow::{AltStack, install};
use crate::retire::rerun::{rerun, role};

#[test]
fn a_chain_that_is_set_aside_leaves_the_thread_outside_of_any_coroutine() {
    let main = current();
    let co = Coroutine::<(), (), ()>::new(|_, ()| {
        let inner = Coroutine::<(), (), ()>::new(|_, ()| {
            let inside = current();
            let saved = suspend_nesting();
            assert!(current().is_main());
            assert!(restore_nesting(saved));
            assert_eq!(current(), inside);
        });
        inner.resume(()).unwrap();
        assert!(!current().is_main());
    });
    co.resume(()).unwrap();
    assert_eq!(current(), main);
}

/// Does what the scheduler does when a task waits inside a coroutine and another task runs
/// meanwhile.
#[test]
fn another_task_may_use_coroutines_while_a_chain_is_set_aside() {
    let other = Rc::new(Coroutine::<u32, u32, ()>::new(|yielder, mut n| {
        loop {
            n = yielder.suspend(n + 1);
        }
    }));
    let shared = other.clone();
    let co = Coroutine::<(), (), ()>::new(move |yielder, ()| {
        let saved = suspend_nesting();
        assert_eq!(shared.resume(1), Ok(Resumed::Yielded(2)));
        assert!(current().is_main());
        let _ = restore_nesting(saved);
        yielder.suspend(());
    });
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(())));
    assert_eq!(other.resume(2), Ok(Resumed::Yielded(3)));
}

#[test]
fn a_task_that_runs_inside_cannot_suspend_the_coroutine() {
    let co = Coroutine::<(), (), ()>::new(|yielder, ()| {
        let saved = suspend_nesting();
        let refused = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        let _ = restore_nesting(saved);
        assert!(refused.is_err());
    });
    assert_eq!(co.resume(()), Ok(Resumed::Returned(())));
}

#[test]
fn only_a_guard_of_the_chain_is_described() {
    let outer = Rc::new(RefCell::new(0..0));
    let seen = outer.clone();
    let co = Builder::new().name("outer").create(move |_, ()| {
        let inner: Coroutine<(), (), ()> = Coroutine::new(move |_, ()| {
            let described = describe_overflow(seen.borrow().start).unwrap();
            assert_eq!(described.stack_size, 64 << 10);
            assert_eq!(described.name_len, "outer".len());
            assert!(describe_overflow(seen.borrow().end).is_none());
        });
        inner.resume(()).unwrap();
    });
    let co: Coroutine<(), (), ()> = co.unwrap();
    let guard = co.link().guard.clone();
    assert!(describe_overflow(guard.start).is_none());
    outer.replace(guard);
    co.resume(()).unwrap();
}

#[test]
#[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
fn an_overflow_is_reported_with_the_name_where_a_runtime_has_installed_its_handler() {
    fn recurse(depth: u64) -> u64 {
        let filler = std::hint::black_box([depth; 32]);
        if depth == u64::MAX { 0 } else { recurse(depth + 1) + filler[0] }
    }
    if role().is_some() {
        let _reporter = install(describe_overflow).unwrap();
        let _stack = AltStack::install().unwrap();
        let co = Builder::new().name("abyss").create(|_, ()| recurse(0)).unwrap();
        let _: &Coroutine<(), (), u64> = &co;
        let _ = co.resume(());
        return;
    }
    let name = concat!(
        "coroutine::tests::",
        "an_overflow_is_reported_with_the_name_where_a_runtime_has_installed_its_handler"
    );
    let output = rerun(name, "child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains("coroutine \"abyss\"") && said.contains("65536 bytes"), "{said}");
}

#[test]
fn a_coroutine_is_one_allocation_of_modest_size() {
    let co = |_: &Yielder<u64, u64, u64>, n: u64| n;
    fn core_of<F: FnOnce(&Yielder<u64, u64, u64>, u64) -> u64>(_: F) -> usize {
        size_of::<Whole<u64, u64, u64, Cell<Option<F>>>>()
    }
    if cfg!(not(any(cygnet_asan, cygnet_tsan))) {
        assert!(core_of(co) <= 200, "{}", core_of(co));
    }
}
