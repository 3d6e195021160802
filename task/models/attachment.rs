//! What is attached to a node, by two at once.

use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::attachment::Attachment;
use std::sync::Arc;

/// A value, written by who makes it.
struct Value(usize, Baton);

// SAFETY: the baton is watched by the checker.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

fn two_attach() {
    let place = Stage::new(Attachment::none());
    let attach = move |number| {
        let value = Value(number, Baton::new());
        value.1.write();
        let there = place.get_or_attach(Arc::new(value));
        let Value(number, baton) = there.downcast_ref().expect("a value");
        assert_eq!(baton.read(), 1);
        *number
    };
    let other = spawn(move || attach(1));
    assert_eq!(attach(2), other.join().unwrap(), "each has what it has attached itself");
    // SAFETY: the thread has ended.
    unsafe { place.end() };
}

#[test]
fn loom_what_is_attached_first_stays() {
    explore(ALL, two_attach);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_an_attachment_without_order() {
    plant("task/attachment.rs", ORDERS);
    explore(ALL, two_attach);
}
