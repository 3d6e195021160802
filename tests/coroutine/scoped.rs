//! Coroutines that borrow.

use crate::common::prelude::*;
use crate::{Log, Tell};
use cygnet::coroutine::{Builder, Coroutine, CreateError, Resumed};
use std::sync::mpsc;
use std::thread;

#[test]
fn it_borrows_and_is_unwound_at_the_end_of_the_scope() {
    let log = Log::default();
    let mut text = String::from("borrowed");
    let length = Coroutine::<&str, usize, ()>::scoped(
        |yielder, suffix| {
            let _tell = Tell(1, log.clone());
            text.push_str(suffix);
            yielder.suspend(text.len());
            unreachable!("it is never resumed");
        },
        |co| co.resume("!").unwrap().yielded().unwrap(),
    );
    assert_eq!((length, text.as_str()), (9, "borrowed!"));
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn scoped_threads_inside_it_have_ended_when_the_loan_ends() {
    let mut text = String::from("borrowed");
    let borrowed = &text;
    let (sender, receiver) = mpsc::channel::<()>();
    Coroutine::scoped(
        move |yielder, ()| {
            thread::scope(|scope| {
                scope.spawn(move || {
                    // Until the unwinding drops the sender.
                    receiver.recv().unwrap_err();
                    assert_eq!(borrowed, "borrowed");
                });
                let _sender = sender;
                yielder.suspend(());
            });
        },
        |co| co.resume(()).unwrap(),
    );
    text.clear();
}

#[test]
fn it_is_unwound_also_if_the_scope_panics() {
    let log = Log::default();
    let said = panic_of(|| {
        Coroutine::<(), (), ()>::scoped(
            |yielder, ()| {
                let _tell = Tell(1, log.clone());
                yielder.suspend(());
            },
            |co| {
                co.resume(()).unwrap();
                resume_unwind(Box::new("planted"))
            },
        )
    });
    assert_eq!(said, "planted");
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn scopes_nest_and_the_inner_one_ends_first() {
    let log = Log::default();
    let theirs = log.clone();
    let outer = Coroutine::<(), (), ()>::new(move |yielder, ()| {
        let _outside = Tell(2, theirs.clone());
        Coroutine::<(), (), ()>::scoped(
            |yielder, ()| {
                let _inside = Tell(1, theirs.clone());
                yielder.suspend(());
            },
            |inner| {
                inner.resume(()).unwrap();
                yielder.suspend(());
            },
        );
    });
    assert_eq!(outer.resume(()), Ok(Resumed::Yielded(())));
    drop(outer);
    assert_eq!(*log.borrow(), [1, 2]);
}

#[test]
fn a_bad_size_is_an_error_before_anything_is_called() {
    let made = Builder::new()
        .stack_size(1)
        .scoped(|_, ()| unreachable!(), |_: &Coroutine<(), (), ()>| unreachable!());
    assert_eq!(made, Err::<(), _>(CreateError::StackSize { asked: 1 }));
}
