//! States, refusals, and the current coroutine.

use crate::common::prelude::*;
use crate::{Plain, suspended};
use cygnet::coroutine::{self, Coroutine, Current, ResumeError, Resumed, State, Yielder};
use std::rc::Weak;
use std::thread;

#[test]
fn a_coroutine_goes_from_created_through_suspended_to_finished() {
    let co = Rc::new_cyclic(|me: &Weak<Coroutine<(), State, State>>| {
        let me = me.clone();
        Coroutine::new(move |yielder, ()| {
            let me = me.upgrade().unwrap();
            yielder.suspend(me.state());
            me.state()
        })
    });
    assert_eq!(co.state(), State::Created);
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(State::Running)));
    assert_eq!(co.state(), State::Suspended);
    assert!(!co.is_finished());
    assert_eq!(co.resume(()), Ok(Resumed::Returned(State::Running)));
    assert_eq!(co.state(), State::Finished);
    assert!(co.is_finished());
}

#[test]
fn a_finished_coroutine_gives_the_input_back() {
    let co = Coroutine::<String, (), ()>::new(|_, _| ());
    co.resume("first".into()).unwrap();
    let error = co.resume("second".into()).unwrap_err();
    assert_eq!(error.state(), State::Finished);
    assert!(error.to_string().contains("finished"));
    assert_eq!(error.into_input(), "second");
}

#[test]
fn an_ancestor_in_the_chain_of_resumes_is_running_and_gives_the_input_back() {
    let outer = Rc::new_cyclic(|me: &Weak<Coroutine<u32, (), u32>>| {
        let me = me.clone();
        Coroutine::new(move |_, _| {
            let inner = Coroutine::<u32, (), _>::new(move |_, n| {
                let ancestor = me.upgrade().unwrap();
                assert_eq!(ancestor.state(), State::Running);
                ancestor.resume(n + 1)
            });
            match inner.resume(1).unwrap().returned().unwrap() {
                Err(ResumeError::Running(input)) => input,
                other => panic!("{other:?}"),
            }
        })
    });
    assert_eq!(outer.resume(0), Ok(Resumed::Returned(2)));
}

#[test]
fn debug_tells_name_and_state() {
    let co = Coroutine::builder().name("walker").create(|_, ()| ()).unwrap();
    let _: &Plain = &co;
    let said = format!("{co:?}");
    assert!(said.contains("walker") && said.contains("Created"), "{said}");
}

#[test]
fn outside_of_any_the_thread_is_its_own_main_coroutine_for_good() {
    let main = coroutine::current();
    assert!(main.is_main() && main.name().is_none());
    assert_eq!(coroutine::current().id(), main.id());
    let other = thread::spawn(coroutine::current).join().unwrap();
    assert!(other.is_main());
    assert_ne!(other.id(), main.id());
}

#[test]
fn current_follows_resumes_and_suspensions() {
    let main = coroutine::current();
    let inner = Rc::new(Coroutine::new(|yielder: &Yielder<(), Current>, ()| {
        yielder.suspend(coroutine::current());
        yielder.suspend(coroutine::current());
    }));
    let theirs = inner.clone();
    let outer = Coroutine::new(move |yielder: &Yielder<(), (Current, Current)>, ()| {
        let seen = theirs.resume(()).unwrap().yielded().unwrap();
        yielder.suspend((coroutine::current(), seen));
    });
    let (outside, inside) = outer.resume(()).unwrap().yielded().unwrap();
    assert_eq!((outside.id(), inside.id()), (outer.id(), inner.id()));
    assert_eq!(coroutine::current(), main);
    // Now by another resumer than before.
    assert_eq!(inner.resume(()).unwrap().yielded().unwrap().id(), inner.id());
    assert_eq!(coroutine::current(), main);
    outer.resume(()).unwrap();
    assert_eq!(coroutine::current(), main);
}

#[test]
fn the_main_coroutine_is_current_again_after_a_panic_and_after_a_drop() {
    let main = coroutine::current();
    let bad = Plain::new(|_, ()| resume_unwind(Box::new("planted")));
    panic_of(|| bad.resume(()));
    assert_eq!(coroutine::current(), main);
    drop(suspended(|yielder, ()| yielder.suspend(())));
    assert_eq!(coroutine::current(), main);
}

#[test]
fn no_two_ids_are_equal() {
    let make = || Plain::new(|_, ()| ());
    let mut ids: Vec<u64> = (0..100).map(|_| make().id()).collect();
    ids.extend(thread::spawn(move || make().id()).join());
    ids.push(coroutine::current().id());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 102);
}
