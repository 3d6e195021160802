//! What a task is told of its cancel.

use crate::runtime;
use cygnet::sim::{self, Options};
use cygnet::sync::oneshot;
use cygnet::{is_cancelled, spawn, yield_now};

/// Calls itself in place, or has somebody steal it, `depth` times, and then `f`.
fn nested(depth: usize, f: impl FnOnce() + Send + 'static) {
    if depth == 0 {
        f();
    } else {
        let _ = spawn(move || nested(depth - 1, f)).join();
    }
}

/// An ancestor that another worker links just then looks for a moment as if it were not cancelled: what is above it is marked, and the walk has not come to it.
#[test]
fn who_was_told_of_a_cancel_is_not_told_otherwise_later() {
    sim::check(&Options::new().seeds(0..4_000), || {
        let rt = runtime(2);
        for depth in [1, 4, 10] {
            let (about_to, mut waits) = oneshot();
            let (tell, mut told) = oneshot();
            let parent = rt.spawn(move || {
                nested(depth, move || {
                    about_to.send(()).unwrap();
                    while yield_now().is_ok() {}
                    let _ = tell.send(is_cancelled() && yield_now().is_err() && is_cancelled());
                });
            });
            waits.recv().unwrap();
            drop(parent);
            assert!(told.recv().unwrap(), "it is cancelled no more");
        }
    });
}
