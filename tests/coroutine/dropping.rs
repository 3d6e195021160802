//! Coroutines that are dropped before their ends.

use crate::common::prelude::*;
use crate::{Log, Plain, Tell, again, assert_aborted, logged, suspended};
use cygnet::coroutine::{Coroutine, Yielder};
use std::panic::{panic_any, set_hook};
use std::{mem, thread};

/// Suspends, and keeps the unwinding from going further.
fn suspend_and_swallow<Ret>(yielder: &Yielder<(), (), Ret>) {
    let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
}

/// Drops a coroutine that holds the value, while a panic unwinds the thread.
fn drop_while_panicking<T: 'static>(value: T, body: impl FnOnce(&Yielder<(), ()>, T) + 'static) {
    let co = suspended(move |yielder, ()| body(yielder, value));
    while_unwinding(|| drop(co));
    assert!(!thread::panicking());
}

#[test]
fn before_the_start_the_closure_is_dropped() {
    let (log, tell) = logged();
    let co = Plain::new(move |_, ()| drop(tell));
    assert!(log.borrow().is_empty());
    drop(co);
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn a_suspended_body_is_unwound_once_and_innermost_first() {
    fn deeper(yielder: &Yielder<(), ()>, log: &Log) {
        let _three = Tell(3, log.clone());
        let _four = Tell(4, log.clone());
        yielder.suspend(());
        unreachable!("it is never resumed");
    }
    let (log, one) = logged();
    let inside = log.clone();
    drop(suspended(move |yielder, ()| {
        let _one = one;
        let _two = Tell(2, inside.clone());
        deeper(yielder, &inside);
    }));
    assert_eq!(*log.borrow(), [4, 3, 2, 1]);
    assert!(!thread::panicking());
    assert_eq!(Rc::strong_count(&log), 1);
}

#[test]
fn the_panic_hook_is_not_called() {
    let output = again(|| {
        set_hook(Box::new(|_| println!("the hook was called")));
        drop(suspended(|yielder, ()| yielder.suspend(())));
        println!("dropped");
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("dropped") && !said.contains("the hook"), "{said}");
}

#[test]
fn a_coroutine_may_be_dropped_while_the_thread_is_panicking() {
    let (log, tell) = logged();
    drop_while_panicking(tell, |yielder, tell| {
        yielder.suspend(());
        drop(tell);
    });
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn destructors_may_use_other_coroutines_meanwhile() {
    let log = Log::default();
    let inside = log.clone();
    drop(suspended(move |yielder, ()| {
        let _uses_another = OnDrop(|| {
            let tell = Tell(1, inside.clone());
            // A coroutine runs to its end while the thread unwinds.
            Plain::new(move |_, ()| drop(tell)).resume(()).unwrap();
            inside.borrow_mut().push(2);
        });
        yielder.suspend(());
    }));
    assert_eq!(*log.borrow(), [1, 2]);
}

#[test]
fn the_result_of_a_body_that_swallows_the_unwinding_is_dropped() {
    let (log, tell) = logged();
    drop(suspended(move |yielder, ()| {
        suspend_and_swallow(yielder);
        tell
    }));
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn the_panic_of_a_body_that_swallows_the_unwinding_surfaces_in_the_drop() {
    let co = suspended(|yielder, ()| -> () {
        suspend_and_swallow(yielder);
        resume_unwind(Box::new("planted"));
    });
    assert_eq!(panic_of(|| drop(co)), "planted");
}

#[test]
fn such_a_panic_is_contained_while_the_thread_is_panicking() {
    drop_while_panicking((), |yielder, ()| {
        suspend_and_swallow(yielder);
        // The destructor of the payload panics. The second payload is leaked, so it has no size.
        panic_any(OnDrop(|| resume_unwind(Box::new(()))));
    });
}

#[test]
fn a_body_that_swallows_the_unwinding_and_suspends_panics() {
    let co = suspended(|yielder, ()| {
        suspend_and_swallow(yielder);
        yielder.suspend(());
    });
    assert!(panic_of(|| drop(co)).contains("it can never be resumed again"));
}

#[test]
fn a_body_that_never_stops_suspending_aborts_with_a_sentence() {
    let output = again(|| {
        let co = Coroutine::builder().name("stubborn").create(|yielder, ()| {
            loop {
                suspend_and_swallow(yielder);
            }
        });
        let co: Plain = co.unwrap();
        co.resume(()).unwrap();
        drop(co);
    });
    assert_aborted(&output, "(stubborn) was dropped, has caught the unwinding");
}

#[test]
fn a_destructor_that_panics_meanwhile_aborts() {
    let output = again(|| {
        drop(suspended(|yielder, ()| {
            let _bomb = OnDrop(|| panic!("planted"));
            yielder.suspend(());
        }));
    });
    assert_aborted(&output, "panic in a destructor during cleanup");
}

#[test]
fn a_destructor_that_suspends_meanwhile_aborts_with_a_sentence() {
    let output = again(|| {
        drop(suspended(|yielder, ()| {
            let _suspends = OnDrop(|| yielder.suspend(()));
            yielder.suspend(());
        }));
    });
    assert_aborted(&output, "while its coroutine is unwound because it was dropped");
}

#[test]
fn the_unwinding_of_one_is_an_ordinary_panic_in_another() {
    let (sender, receiver) = std::sync::mpsc::channel();
    drop(suspended(move |yielder, ()| {
        let caught = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        sender.send(caught.unwrap_err()).unwrap();
    }));
    let payload = receiver.recv().unwrap();
    let other = Plain::new(move |_, ()| resume_unwind(payload));
    assert!(catch_unwind(AssertUnwindSafe(|| other.resume(()))).is_err());
    assert!(other.is_finished());
}

#[test]
fn a_panic_in_the_destructor_of_a_closure_surfaces_in_the_drop() {
    let bomb = OnDrop(|| panic_any("planted"));
    let co = Plain::new(move |_, ()| drop(bomb));
    assert_eq!(panic_of(|| drop(co)), "planted");
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_forgotten_coroutine_runs_no_destructor() {
    let (log, tell) = logged();
    mem::forget(suspended(move |yielder, ()| {
        let _tell = tell;
        yielder.suspend(());
    }));
    assert!(log.borrow().is_empty());
}

/// The body panics while it is unwound, after its coroutine has brought a value.
#[test]
fn a_value_that_was_made_before_the_drop_panics_is_dropped() {
    let value = Rc::new(());
    let panics = |yielder: &Yielder<(), ()>, ()| {
        let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        panic!("planted");
    };
    let scoped = catch_unwind(AssertUnwindSafe(|| {
        Coroutine::scoped(panics, |coroutine| {
            coroutine.resume(()).unwrap();
            Rc::clone(&value)
        })
    }));
    assert!(scoped.is_err());
    assert_eq!(Rc::strong_count(&value), 1);
}
