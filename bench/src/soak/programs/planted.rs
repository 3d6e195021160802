//! Programs that go wrong on purpose.

use cygnet::sync::Event;

use super::Program;

/// Bytes forgotten per run.
const FORGOTTEN: usize = 100 << 10;

pub(crate) fn leak(p: &mut Program) {
    p.handle.block_on(|| std::mem::forget(std::hint::black_box(vec![1u8; FORGOTTEN])));
}

pub(crate) fn hang(p: &mut Program) {
    let event = Event::new();
    let task = cygnet::task().name("waits for ever");
    p.handle.block_on(move || {
        cygnet::scope(|s| drop(task.spawn_in(s, || event.wait())));
    });
}

pub(crate) fn wrong(p: &mut Program) {
    let sum = p.handle.block_on(|| cygnet::join(|| 1, || 2));
    assert_eq!(sum.0 + sum.1, 4, "planted");
}
