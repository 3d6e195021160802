//! Panics of bodies and of resumers.

use crate::common::prelude::*;
use crate::{MUST_RETURN_FIRST, Plain, again, assert_aborted, logged};
use cygnet::coroutine::{Coroutine, ResumeError, Resumed, State};
use std::thread;

#[test]
fn a_panic_surfaces_in_resume_and_finishes_the_coroutine() {
    let (log, tell) = logged();
    let co = Plain::new(move |yielder, ()| {
        let _tell = tell;
        yielder.suspend(());
        resume_unwind(Box::new("planted"));
    });
    co.resume(()).unwrap();
    assert_eq!(panic_of(|| co.resume(())), "planted");
    assert_eq!(*log.borrow(), [1]);
    assert_eq!(co.state(), State::Finished);
    assert_eq!(co.resume(()), Err(ResumeError::Finished(())));
}

#[test]
fn a_panic_passes_through_a_chain_of_resumes() {
    let co = Plain::new(|_, ()| {
        let inner = Plain::new(|_, ()| resume_unwind(Box::new("planted")));
        inner.resume(()).unwrap();
    });
    assert_eq!(panic_of(|| co.resume(())), "planted");
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

/// The result of a resume, or the text of its panic.
type Outcome = Result<Resumed<bool, bool>, String>;

/// Resumes `co` in a destructor while a panic unwinds the thread.
fn resumed_during_a_panic(co: &Coroutine<(), bool, bool>) -> Outcome {
    let resumed = while_unwinding(|| catch_unwind(AssertUnwindSafe(|| co.resume(()).unwrap())));
    assert!(!thread::panicking());
    resumed.map_err(|payload| text(&*payload).to_owned())
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
    let output = again(|| {
        let co = Coroutine::new(|yielder, ()| {
            let _suspends = OnDrop(|| yielder.suspend(true));
            panic!("the second panic");
        });
        let _ = resumed_during_a_panic(&co);
    });
    assert_aborted(&output, "must run to its end");
}

#[test]
fn a_destructor_that_suspends_while_a_panic_unwinds_the_body_aborts_with_a_sentence() {
    let output = again(|| {
        let co = Plain::new(|yielder, ()| {
            let _suspends = OnDrop(|| yielder.suspend(()));
            panic!("planted");
        });
        let _ = co.resume(());
    });
    assert_aborted(&output, "must not suspend while a panic unwinds its coroutine");
}

#[test]
fn another_coroutine_that_has_got_hold_of_the_yielder_cannot_suspend_its_owner() {
    let co = Plain::new(|yielder, ()| {
        Plain::scoped(
            |_, ()| yielder.suspend(()),
            |inner| {
                panics_with("from outside of its coroutine", || inner.resume(()));
            },
        );
    });
    assert_eq!(co.resume(()), Ok(Resumed::Returned(())));
}

#[test]
fn a_body_cannot_suspend_inside_of_its_own_no_suspend() {
    let show = || {
        let co = Plain::new(|yielder, ()| {
            for _ in 0..2 {
                let said = panic_of(|| no_suspend(|| yielder.suspend(())));
                assert!(said.contains(MUST_RETURN_FIRST), "{said}");
                yielder.suspend(());
            }
        });
        // A section of the resumer does not matter.
        assert_eq!(no_suspend(|| co.resume(())), Ok(Resumed::Yielded(())));
        if cygnet::current_id().is_some() {
            yield_now().unwrap();
        }
        assert_eq!(co.resume(()), Ok(Resumed::Yielded(())));
        assert_eq!(no_suspend(|| co.resume(())), Ok(Resumed::Returned(())));
    };
    show();
    Runtime::builder().workers(1).build().unwrap().block_on(show);
}
