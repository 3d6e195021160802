//! Bare coroutines, without a runtime and inside tasks.
#![cfg(not(loom))]

mod chain;
#[path = "../common/mod.rs"]
mod common;
mod dropping;
mod iterators;
mod many;
mod own_stacks;
mod panics;
mod scoped;
mod sendable;
mod stack;
mod state;
mod tasks;
mod the_end_of_a_thread;
mod transfers;
mod transfers_at_random;
mod values;

use common::prelude::*;
use cygnet::coroutine::{Coroutine, Resumed, Yielder};
use std::process::Output;

/// A coroutine without values.
type Plain = Coroutine<(), (), ()>;

type Log = Rc<RefCell<Vec<u32>>>;

/// Writes its number down when it is dropped.
struct Tell(u32, Log);

impl Drop for Tell {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

/// A log, and a value that writes 1 into it when it is dropped.
fn logged() -> (Log, Tell) {
    let log = Log::default();
    (log.clone(), Tell(1, log))
}

/// A coroutine that has been resumed once, and has suspended.
fn suspended<Ret: 'static>(
    body: impl FnOnce(&Yielder<(), (), Ret>, ()) -> Ret + 'static,
) -> Coroutine<(), (), Ret> {
    let co = Coroutine::new(body);
    assert!(matches!(co.resume(()), Ok(Resumed::Yielded(()))));
    co
}

/// The panic of a suspension inside a call that must return first.
const MUST_RETURN_FIRST: &str = "inside a call that must return first";

/// Runs the calling test's `body` in a process of its own, and returns how that ended.
fn again(body: impl FnOnce()) -> Output {
    let name = rerun::test_of(&body);
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
