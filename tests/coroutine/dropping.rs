//! What becomes of a coroutine that is dropped before its end.

use crate::{Log, Tell, again, assert_aborted, message};
use cygnet::coroutine::{Coroutine, Yielder};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind, set_hook};
use std::rc::Rc;
use std::{mem, thread};

/// Suspends, and keeps the unwinding from going further.
fn suspend_and_swallow(yielder: &Yielder<(), ()>) {
    let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
}

#[test]
fn before_the_start_the_closure_is_dropped() {
    let log = Log::default();
    let tell = Tell(1, log.clone());
    let co = Coroutine::<(), (), ()>::new(move |_, ()| drop(tell));
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
        unreachable!("nobody resumes it");
    }
    let log = Log::default();
    let (inside, one) = (log.clone(), Tell(1, log.clone()));
    let co = Coroutine::new(move |yielder, ()| {
        let _one = one;
        let _two = Tell(2, inside.clone());
        deeper(yielder, &inside);
    });
    co.resume(()).unwrap();
    drop(co);
    assert_eq!(*log.borrow(), [4, 3, 2, 1]);
    assert!(!thread::panicking());
    assert_eq!(Rc::strong_count(&log), 1);
}

#[test]
fn the_panic_hook_is_not_called() {
    let output = again("dropping::the_panic_hook_is_not_called", || {
        set_hook(Box::new(|_| println!("the hook was called")));
        let co = Coroutine::new(|yielder, ()| yielder.suspend(()));
        co.resume(()).unwrap();
        drop(co);
        println!("dropped");
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("dropped") && !said.contains("the hook"), "{said}");
}

#[test]
fn it_works_while_the_thread_is_panicking() {
    let log = Log::default();
    let tell = Tell(1, log.clone());
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let co = Coroutine::new(move |yielder, ()| {
            let _tell = tell;
            yielder.suspend(());
        });
        co.resume(()).unwrap();
        resume_unwind(Box::new("planted"));
    }));
    assert_eq!(message(&*unwound.unwrap_err()), "planted");
    assert_eq!(*log.borrow(), [1]);
    assert!(!thread::panicking());
}

#[test]
fn destructors_may_use_other_coroutines_meanwhile() {
    struct UsesAnother(Log);
    impl Drop for UsesAnother {
        fn drop(&mut self) {
            let tell = Tell(1, self.0.clone());
            // While its thread unwinds, a coroutine runs to its end.
            let co = Coroutine::<(), (), ()>::new(move |_, ()| drop(tell));
            co.resume(()).unwrap();
            self.0.borrow_mut().push(2);
        }
    }
    let log = Log::default();
    let inside = UsesAnother(log.clone());
    let co = Coroutine::new(move |yielder, ()| {
        let _inside = inside;
        yielder.suspend(());
    });
    co.resume(()).unwrap();
    drop(co);
    assert_eq!(*log.borrow(), [1, 2]);
}

#[test]
fn the_result_of_a_body_that_swallows_the_unwinding_is_dropped() {
    let log = Log::default();
    let tell = Tell(1, log.clone());
    let co = Coroutine::new(move |yielder, ()| {
        suspend_and_swallow(yielder);
        tell
    });
    co.resume(()).unwrap();
    drop(co);
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn the_panic_of_a_body_that_swallows_the_unwinding_surfaces_in_the_drop() {
    let co = Coroutine::<(), (), ()>::new(|yielder, ()| {
        suspend_and_swallow(yielder);
        resume_unwind(Box::new("planted"));
    });
    co.resume(()).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| drop(co))).unwrap_err();
    assert_eq!(message(&*payload), "planted");
}

#[test]
fn such_a_panic_is_contained_while_the_thread_is_panicking() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            // A payload whose destructor panics. That second one is leaked, so it has no size.
            resume_unwind(Box::new(()));
        }
    }
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let co = Coroutine::<(), (), ()>::new(|yielder, ()| {
            suspend_and_swallow(yielder);
            resume_unwind(Box::new(Bomb));
        });
        co.resume(()).unwrap();
        resume_unwind(Box::new("planted"));
    }));
    assert_eq!(message(&*unwound.unwrap_err()), "planted");
    assert!(!thread::panicking());
}

#[test]
fn a_body_that_swallows_the_unwinding_and_suspends_panics() {
    let co = Coroutine::new(|yielder, ()| {
        suspend_and_swallow(yielder);
        yielder.suspend(());
    });
    co.resume(()).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| drop(co))).unwrap_err();
    assert!(message(&*payload).contains("it can never be resumed again"));
}

#[test]
fn a_body_that_never_stops_suspending_aborts_with_a_sentence() {
    let name = "dropping::a_body_that_never_stops_suspending_aborts_with_a_sentence";
    let output = again(name, || {
        let co = Coroutine::builder().name("stubborn").create(|yielder, ()| {
            loop {
                suspend_and_swallow(yielder);
            }
        });
        let co: Coroutine<(), (), ()> = co.unwrap();
        co.resume(()).unwrap();
        drop(co);
    });
    assert_aborted(&output, "(stubborn) was dropped, has caught the unwinding");
}

#[test]
fn a_destructor_that_panics_meanwhile_aborts() {
    let output = again("dropping::a_destructor_that_panics_meanwhile_aborts", || {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("planted");
            }
        }
        let co = Coroutine::new(|yielder, ()| {
            let _bomb = Bomb;
            yielder.suspend(());
        });
        co.resume(()).unwrap();
        drop(co);
    });
    assert_aborted(&output, "panic in a destructor during cleanup");
}

#[test]
fn a_destructor_that_suspends_meanwhile_aborts_with_a_sentence() {
    let name = "dropping::a_destructor_that_suspends_meanwhile_aborts_with_a_sentence";
    let output = again(name, || {
        struct Suspends<'a>(&'a Yielder<(), ()>);
        impl Drop for Suspends<'_> {
            fn drop(&mut self) {
                self.0.suspend(());
            }
        }
        let co = Coroutine::new(|yielder, ()| {
            let _suspends = Suspends(yielder);
            yielder.suspend(());
        });
        co.resume(()).unwrap();
        drop(co);
    });
    assert_aborted(&output, "while its coroutine is unwound because it was dropped");
}

#[test]
fn the_unwinding_of_one_is_an_ordinary_panic_in_another() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let dropped = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        let caught = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        sender.send(caught.unwrap_err()).unwrap();
    });
    dropped.resume(()).unwrap();
    drop(dropped);
    let payload = receiver.recv().unwrap();
    let other = Coroutine::<(), (), ()>::new(move |_, ()| resume_unwind(payload));
    assert!(catch_unwind(AssertUnwindSafe(|| other.resume(()))).is_err());
    assert!(other.is_finished());
}

#[test]
fn a_closure_whose_destructor_panics_lets_that_pass() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any("planted");
        }
    }
    let bomb = Bomb;
    let co = Coroutine::<(), (), ()>::new(move |_, ()| drop(bomb));
    let payload = catch_unwind(AssertUnwindSafe(|| drop(co))).unwrap_err();
    assert_eq!(message(&*payload), "planted");
}

#[test]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_forgotten_coroutine_runs_no_destructor() {
    let log = Log::default();
    let tell = Tell(1, log.clone());
    let co = Coroutine::new(move |yielder, ()| {
        let _tell = tell;
        yielder.suspend(());
    });
    co.resume(()).unwrap();
    mem::forget(co);
    assert!(log.borrow().is_empty());
}
