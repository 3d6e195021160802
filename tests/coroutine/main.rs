//! Bare coroutines, without a runtime.
#![cfg(not(loom))]

mod dropping;
mod many;
mod panics;
#[path = "../common/rerun.rs"]
mod rerun;
mod scoped;
mod stack;
mod state;
mod tasks;
mod the_end_of_a_thread;
mod values;

use std::any;
use std::cell::RefCell;
use std::panic::UnwindSafe;
use std::process::Output;
use std::rc::Rc;

use cygnet::coroutine::{
    Builder, Coroutine, CreateError, Current, ResumeError, Resumed, State, Yielder,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};

// What may cross threads and panics.
assert_not_impl_any!(Coroutine<(), (), ()>: Send, Sync);
assert_not_impl_any!(&'static Yielder<(), ()>: Send, Sync);
assert_impl_all!(Coroutine<(), (), ()>: Unpin, std::fmt::Debug);
assert_impl_all!(Builder: Send, Sync, Unpin, Clone, UnwindSafe);
assert_impl_all!(Current: Send, Sync, Unpin, Clone, UnwindSafe);
assert_impl_all!(CreateError: Send, Sync, Copy, std::error::Error);
assert_impl_all!(ResumeError<()>: Send, Sync, Copy, std::error::Error);
assert_not_impl_any!(ResumeError<Rc<()>>: Send, Sync);
assert_impl_all!(Resumed<(), ()>: Send, Sync, Copy);
assert_impl_all!(State: Send, Sync, Copy);

type Log = Rc<RefCell<Vec<u32>>>;

/// Writes its number down when it is dropped.
struct Tell(u32, Log);

impl Drop for Tell {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

/// What a body is told that suspends inside of such a call.
const MUST_RETURN_FIRST: &str = "inside a call that must return first";

/// What a panic said.
fn message(payload: &(dyn any::Any + Send)) -> &str {
    match payload.downcast_ref::<String>() {
        Some(text) => text,
        None => payload.downcast_ref::<&str>().expect("a panic with a message"),
    }
}

/// Runs `body` in a process of its own, as the test `name`, and tells how that ended.
fn again(name: &str, body: impl FnOnce()) -> Output {
    if rerun::role().is_some() {
        body();
        std::process::exit(0);
    }
    // A backtrace would be taken on stacks that are small on purpose.
    rerun::run(rerun::command(name, "child").env_remove("RUST_BACKTRACE"))
}

fn assert_aborted(output: &Output, sentence: &str) {
    use std::os::unix::process::ExitStatusExt;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains(sentence), "{said}");
}
