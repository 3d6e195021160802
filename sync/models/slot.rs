//! What the models of a [slot](crate::sync::slot) have in common: a watch, a broadcast.

use super::{Modelled, Subject, Task, enter, explore_with};
use crate::shim::check::{ALL, Stage, beside};
use crate::shim::thread::spawn;
use crate::sync::TryRecvError;
use crate::sync::slot::{Cursor, Slot, SlotWait};

impl<S: 'static> Modelled for Slot<S> {
    type End = ();

    fn assert_end(slot: &Subject<Self>, (): ()) {
        assert!(slot.locations().is_empty(), "a waiter is left in the list");
    }
}

/// Like `slot::receive`. Unless it `leaves` the value, it has a fault: a receiver that is cut takes
/// the value that is there.
pub(in crate::sync) fn receive<S, C: Cursor<S>>(
    task: Stage<Task>,
    slot: &Slot<S>,
    cursor: &mut C,
    leaves: bool,
) -> Result<C::Value, TryRecvError> {
    task.introduce();
    match cursor.next(slot) {
        Err(TryRecvError::Empty) => {}
        tried => return tried,
    }
    if enter(task, &SlotWait::new(slot, cursor), 0).is_none() {
        if !leaves {
            let _ = cursor.next(slot);
        }
        return Err(TryRecvError::Empty);
    }
    let received = cursor.next(slot);
    assert!(!matches!(received, Err(TryRecvError::Empty)), "a called receiver found nothing");
    received
}

/// A value is sent, and a receiver is cut at any moment: it receives the value, or leaves it there.
/// `send` sends 7.
pub(in crate::sync) fn a_value_and_a_cut<S, C>(
    make: fn() -> Slot<S>,
    cursor: fn(&Slot<S>) -> C,
    send: fn(&Slot<S>),
    leaves: bool,
) where
    S: Send + 'static,
    C: Cursor<S, Value: PartialEq + From<usize>> + 'static,
{
    explore_with(ALL, make, move |slot, [task]| {
        let mut mine = cursor(&slot);
        let receives = spawn(move || (receive(task, &slot, &mut mine, leaves), mine));
        // While the call for the value is on its way.
        beside(move || task.interrupt(), || send(&slot));
        let (first, mut mine) = receives.join().unwrap();
        let later = mine.next(&slot);
        match first {
            Ok(value) => assert!(value == 7.into() && later.is_err()),
            Err(_) => assert!(later.is_ok_and(|value| value == 7.into()), "the value is lost"),
        }
    });
}

/// A caller that sees the change without the lock also sees what was done before it.
pub(in crate::sync) fn changed_and_asked<S: Send + 'static>(
    preemptions: usize,
    make: fn() -> Slot<S>,
    change: fn(&Slot<S>),
) {
    explore_with(preemptions, make, move |slot, []| {
        let before = slot.sent();
        let asks = spawn(move || {
            if slot.sent() > before {
                assert_eq!(slot.value.read(), 1);
            }
        });
        slot.value.write();
        change(&slot);
        asks.join().unwrap();
    });
}
