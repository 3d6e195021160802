//! The auto traits and the lifetime bounds of every public type. What must not compile is in the
//! documentation of the types, as `compile_fail` examples.
//!
//! `Task<T>` and `ScopedTask<T>` are `Send` and `Sync` if `T: Send` (a shared handle gives out
//! nothing of `T`); `LocalTask<T>` is neither, whatever `T` is.

use cygnet::{
    BuildError, Builder, Cancelled, Handle, JoinError, LocalTask, Metrics, NoStack, PanicReport,
    Runtime, Scope, ScopedTask, SpawnError, Task, TaskBuilder, TaskId, TaskLocal, Unparker,
    WorkerMetrics, YieldTo,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::cell::Cell;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

/// Neither `Send` nor `Sync`.
type Neither = Rc<u8>;
/// `Send` and not `Sync`.
type SendOnly = Cell<u8>;

assert_impl_all!(Runtime: Send, Sync, Unpin, Debug);
assert_not_impl_any!(Runtime: Clone);
assert_impl_all!(Builder: Send, Unpin, Debug, Default);
assert_impl_all!(Handle: Send, Sync, Unpin, Clone, Debug);

assert_impl_all!(Task<u8>: Send, Sync, Unpin, Debug, Future);
assert_impl_all!(Task<SendOnly>: Send, Sync, Unpin);
assert_not_impl_any!(Task<Neither>: Send, Sync);
assert_impl_all!(Task<Neither>: Unpin, Debug);
assert_not_impl_any!(Task<u8>: Clone);

assert_impl_all!(LocalTask<u8>: Unpin, Debug);
assert_not_impl_any!(LocalTask<u8>: Send, Sync, Clone);
assert_not_impl_any!(LocalTask<Neither>: Send, Sync);

assert_impl_all!(ScopedTask<'static, u8>: Send, Sync, Unpin, Debug);
assert_impl_all!(ScopedTask<'static, SendOnly>: Send, Sync);
assert_not_impl_any!(ScopedTask<'static, Neither>: Send, Sync);
assert_not_impl_any!(ScopedTask<'static, u8>: Clone);

// Tasks in a scope may spawn siblings.
assert_impl_all!(Scope<'static, 'static>: Sync, Debug);

assert_impl_all!(Unparker: Send, Sync, Unpin, Clone, Debug);
assert_impl_all!(TaskBuilder: Send, Sync, Unpin, Debug, Default);
assert_impl_all!(TaskId: Send, Sync, Unpin, Copy, Ord, std::hash::Hash, Debug, Display, UnwindSafe);
assert_impl_all!(TaskLocal<u8>: Send, Sync, Unpin, Debug);
// Only the key: the values are bound by those who may hold them.
assert_impl_all!(TaskLocal<SendOnly>: Send, Sync);

assert_impl_all!(JoinError: Send, Unpin, Debug, Display);
// A payload is whatever a panic carried.
assert_not_impl_any!(JoinError: Sync);
assert_impl_all!(NoStack: Send, Sync, Copy, Error, UnwindSafe, RefUnwindSafe);
assert_impl_all!(Cancelled: Send, Sync, Copy, Eq, Error, UnwindSafe, RefUnwindSafe);
assert_impl_all!(BuildError: Send, Sync, Unpin, Error);
assert_impl_all!(SpawnError<SendOnly>: Send, Debug, Display);
assert_not_impl_any!(SpawnError<SendOnly>: Sync);
assert_not_impl_any!(SpawnError<Neither>: Send, Sync);
assert_impl_all!(PanicReport<'static>: Unpin, Debug);
assert_impl_all!(Metrics: Send, Sync, Unpin, Clone, Eq, Debug, Default, UnwindSafe);
assert_impl_all!(WorkerMetrics: Send, Sync, Unpin, Clone, Eq, Debug, Default, UnwindSafe);
assert_impl_all!(YieldTo: Send, Sync, Copy, Eq, Debug, UnwindSafe);

/// Handles may cross `catch_unwind`: nothing of a task's state is seen through them half-changed.
#[test]
fn handles_are_unwind_safe() {
    fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<Handle>();
    check::<Runtime>();
    check::<Task<SendOnly>>();
    check::<ScopedTask<'static, SendOnly>>();
    check::<Unparker>();
}

/// These compile, or not: nothing is run.
#[test]
fn lifetime_bounds_are_as_wide_as_they_may_be() {
    #[allow(dead_code)]
    fn a_scoped_handle_is_covariant<'short, 'long: 'short>(
        task: ScopedTask<'long, &'long str>,
    ) -> ScopedTask<'short, &'short str> {
        task
    }

    #[allow(dead_code)]
    fn a_task_is_covariant<'short>(task: Task<&'static str>) -> Task<&'short str> {
        task
    }

    #[allow(dead_code)]
    fn block_on_borrows(rt: &Runtime, numbers: &mut [u8]) -> usize {
        rt.block_on(|| {
            numbers[0] = 1;
            numbers.len()
        })
    }

    #[allow(dead_code)]
    fn a_scoped_task_borrows_and_returns_borrows(text: &str) -> &str {
        cygnet::scope(|s| s.spawn(|| &text[1..]).join().unwrap())
    }
}
