//! Panics of bodies and of resumers.

use crate::{Log, Tell, again, assert_aborted, message};
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

#[test]
fn destructors_of_a_panicking_resumer_may_resume() {
    struct Resumes<'a>(&'a Coroutine<(), bool, ()>, &'a Cell<u32>);
    impl Drop for Resumes<'_> {
        fn drop(&mut self) {
            assert_eq!(self.0.resume(()), Ok(Resumed::Yielded(true)));
            self.1.set(self.1.get() + 1);
        }
    }
    let co = Coroutine::new(|yielder, ()| {
        loop {
            yielder.suspend(thread::panicking());
        }
    });
    let resumed = Cell::new(0);
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(false)));
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _last = Resumes(&co, &resumed);
        let _first = Resumes(&co, &resumed);
        resume_unwind(Box::new("planted"));
    }));
    assert_eq!(message(&*unwound.unwrap_err()), "planted");
    assert_eq!(resumed.get(), 2);
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(false)));
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
    assert_aborted(&output, "while a panic unwinds its coroutine");
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
        assert!(message(&*said).contains("inside no_suspend"));
        yielder.suspend(());
    });
    // The resumer's is none of its business.
    assert_eq!(cygnet::no_suspend(|| co.resume(())), Ok(Resumed::Yielded(())));
    assert_eq!(co.resume(()), Ok(Resumed::Returned(())));
}
