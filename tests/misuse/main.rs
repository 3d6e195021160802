//! cygnet given wrong values, called in wrong places, forgotten, or short of something. The tables
//! are in docs/misuse.md.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod handles;
mod limits;
mod panics;
mod rings;
mod unwindings;

use common::prelude::*;

/// In a task of the only worker: has the worker drop the result of `make` between tasks.
fn drop_a_result_between_tasks<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) {
    let (begun, go) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let (begins, may_end) = (begun.clone(), go.clone());
    let parent = spawn(move || {
        // The child ends after the parent's closure, and so ends the parent.
        let child = spawn(move || {
            begins.set();
            may_end.wait().unwrap();
        });
        child.detach();
        make()
    });
    begun.wait().unwrap();
    parent.detach();
    go.set();
}
