//! An attachment: two threads attach a value at the same time.

use crate::shim::check::{ALL, Baton, ORDERS, Stage, explore, models};
use crate::shim::thread::spawn;
use crate::task::attachment::Attachment;
use std::sync::Arc;

/// A value. The thread that makes it writes the baton.
struct Value(usize, Baton);

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
    assert_eq!(attach(2), other.join().unwrap(), "the two threads see different values");
}

models! {
    fn loom_the_first_attached_value_stays() = explore(ALL, two_attach);

    fn loom_negative_an_attachment_without_order() = explore(ALL, two_attach),
        without ORDERS in "task/attachment.rs", fails: "Causality violation";
}
