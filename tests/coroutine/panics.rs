//! Panics of bodies and of resumers.

use crate::{Log, MUST_RETURN_FIRST, Tell, again, assert_aborted, message};
use cygnet::coroutine::{Coroutine, ResumeError, Resumed, State, Yielder};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

#[test]
fn a_panic_surfaces_in_resume_and_finishes_the_coroutine() {
    let log = Log::default();
    let tell = Tell(1, log.clone());
    let co = Coroutine::<(), (), ()>::new(move |yielder, ()| {
        let _tell = tell;
        yielder.suspend(());
        resume_unwind(Box::new("planted"));
    });
    co.resume(()).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| co.resume(()))).unwrap_err();
    assert_eq!(message(&*payload), "planted");
    assert_eq!(*log.borrow(), [1]);
    assert_eq!(co.state(), State::Finished);
    assert_eq!(co.resume(()), Err(ResumeError::Finished(())));
}

#[test]
fn a_panic_passes_through_a_chain_of_resumes() {
    let co = Coroutine::<(), (), ()>::new(|_, ()| {
        let inner = Coroutine::<(), (), ()>::new(|_, ()| resume_unwind(Box::new("planted")));
        inner.resume(()).unwrap();
    });
    let payload = catch_unwind(AssertUnwindSafe(|| co.resume(()))).unwrap_err();
    assert_eq!(message(&*payload), "planted");
    assert!(!thread::panicking());
}

#[test]
fn a_body_may_catch_its_own_panics_and_go_on() {
    let co = Coroutine::<(), bool, ()>::new(|yielder, ()| {
        let caught = catch_unwind(|| resume_unwind(Box::new("planted")));
        yielder.suspend(caught.is_err());
        yielder.suspend(thread::panicking());
    });
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(true)));
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(false)));
}

/// Where a coroutine has got, or what the panic said that came out of it.
type Outcome = Result<Resumed<bool, bool>, String>;

/// Resumes its coroutine when it is dropped, and writes down how that went.
struct Resumes<'a>(&'a Coroutine<(), bool, bool>, &'a Cell<Option<Outcome>>);

impl Drop for Resumes<'_> {
    fn drop(&mut self) {
        let resumed = catch_unwind(AssertUnwindSafe(|| self.0.resume(()).unwrap()));
        self.1.set(Some(resumed.map_err(|payload| message(&*payload).to_owned())));
    }
}

/// What becomes of `co` if a destructor resumes it while a panic unwinds the thread.
fn resumed_during_a_panic(co: &Coroutine<(), bool, bool>) -> Outcome {
    let outcome = Cell::new(None);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _resumes = Resumes(co, &outcome);
        resume_unwind(Box::new("planted"));
    }));
    assert_eq!(message(&*unwound.unwrap_err()), "planted");
    assert!(!thread::panicking());
    outcome.take().expect("the destructor has run")
}

#[test]
fn a_destructor_of_a_panicking_resumer_may_run_a_coroutine_to_its_end() {
    let fresh = Coroutine::new(|_, ()| thread::panicking());
    assert_eq!(resumed_during_a_panic(&fresh), Ok(Resumed::Returned(true)));
    let suspended = Coroutine::new(|yielder, ()| {
        yielder.suspend(thread::panicking());
        thread::panicking()
    });
    assert_eq!(suspended.resume(()), Ok(Resumed::Yielded(false)));
    assert_eq!(resumed_during_a_panic(&suspended), Ok(Resumed::Returned(true)));
    assert_eq!(suspended.state(), State::Finished);
}

/// The body could be in the middle of a panic of its own, which would then never end.
#[test]
fn a_body_that_is_resumed_during_a_panic_cannot_suspend() {
    let co = Coroutine::new(|yielder, ()| {
        yielder.suspend(true);
        yielder.suspend(true);
        true
    });
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(true)));
    let said = resumed_during_a_panic(&co).unwrap_err();
    assert!(said.contains("must run to its end"), "{said}");
    assert_eq!(co.state(), State::Finished);
}

#[test]
fn a_body_that_is_refused_a_suspension_during_a_panic_may_catch_that_and_return() {
    let co = Coroutine::new(|yielder, ()| {
        catch_unwind(AssertUnwindSafe(|| yielder.suspend(true))).is_err()
    });
    assert_eq!(resumed_during_a_panic(&co), Ok(Resumed::Returned(true)));
}

#[test]
fn a_suspension_in_a_second_panic_aborts_with_a_sentence() {
    let name = "panics::a_suspension_in_a_second_panic_aborts_with_a_sentence";
    let output = again(name, || {
        struct Suspends<'a>(&'a Yielder<(), bool>);
        impl Drop for Suspends<'_> {
            fn drop(&mut self) {
                self.0.suspend(true);
            }
        }
        let co = Coroutine::new(|yielder, ()| {
            let _suspends = Suspends(yielder);
            panic!("the second panic");
        });
        let _ = resumed_during_a_panic(&co);
    });
    assert_aborted(&output, "must run to its end");
}

#[test]
fn a_destructor_that_suspends_while_a_panic_unwinds_the_body_aborts_with_a_sentence() {
    let name = "panics::a_destructor_that_suspends_while_a_panic_unwinds_the_body_aborts_with_a_\
                sentence";
    let output = again(name, || {
        struct Suspends<'a>(&'a Yielder<(), ()>);
        impl Drop for Suspends<'_> {
            fn drop(&mut self) {
                self.0.suspend(());
            }
        }
        let co = Coroutine::<(), (), ()>::new(|yielder, ()| {
            let _suspends = Suspends(yielder);
            panic!("planted");
        });
        let _ = co.resume(());
    });
    assert_aborted(&output, "must not suspend while a panic unwinds its coroutine");
}

#[test]
fn another_coroutine_that_has_got_hold_of_the_yielder_cannot_suspend_its_owner() {
    let co = Coroutine::<(), (), ()>::new(|yielder, ()| {
        Coroutine::<(), (), ()>::scoped(
            |_, ()| yielder.suspend(()),
            |inner| {
                let said = catch_unwind(AssertUnwindSafe(|| inner.resume(()))).unwrap_err();
                assert!(message(&*said).contains("from outside of its coroutine"));
            },
        );
    });
    assert_eq!(co.resume(()), Ok(Resumed::Returned(())));
}

#[test]
fn a_body_cannot_suspend_inside_of_its_own_no_suspend() {
    let co = Coroutine::<(), (), ()>::new(|yielder, ()| {
        let section = || cygnet::no_suspend(|| yielder.suspend(()));
        let said = catch_unwind(AssertUnwindSafe(section)).unwrap_err();
        assert!(message(&*said).contains(MUST_RETURN_FIRST));
        yielder.suspend(());
    });
    // The resumer's is none of its business.
    assert_eq!(cygnet::no_suspend(|| co.resume(())), Ok(Resumed::Yielded(())));
    assert_eq!(co.resume(()), Ok(Resumed::Returned(())));
}
