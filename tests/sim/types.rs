//! The auto traits and the lifetimes of `sim`, whose scopes and handles borrow as in `std`.

use cygnet::sim::{Explored, Failed, Faults, Options, Reason, Run, thread};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::cell::Cell;
use std::error::Error;
use std::fmt::Debug;

assert_impl_all!(Options: Send, Sync, Clone, Default, Debug);
assert_impl_all!(Faults: Send, Sync, Clone, Default, Debug);
assert_impl_all!(Run: Send, Sync, Copy, Eq, Debug);
assert_impl_all!(Explored: Send, Sync, Copy, Eq, Default, Debug);
assert_impl_all!(Reason: Send, Sync, Clone, Eq, Debug);
assert_impl_all!(Failed: Send, Sync, Clone, Error);
assert_impl_all!(thread::Thread: Send, Sync, Clone, Debug);
// As in `std`: a handle holds the result, and its owner takes it.
assert_impl_all!(thread::JoinHandle<Cell<u8>>: Send, Sync, Debug);
assert_impl_all!(thread::ScopedJoinHandle<'static, Cell<u8>>: Send, Sync);
assert_impl_all!(thread::Scope<'static, 'static>: Send, Sync);
assert_not_impl_any!(thread::JoinHandle<u8>: Clone);

/// These functions compile, or do not. None is run.
#[test]
fn a_thread_of_a_scope_borrows_what_is_outside_and_returns_it() {
    #[allow(dead_code)]
    fn borrows(text: &str) -> &str {
        thread::scope(|s| s.spawn(|| &text[1..]).join().unwrap())
    }

    #[allow(dead_code)]
    fn mutates(numbers: &mut [u8]) {
        thread::scope(|s| {
            numbers.iter_mut().for_each(|number| drop(s.spawn(|| *number += 1)));
        });
    }
}
