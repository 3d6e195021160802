//! The chain of coroutines that have resumed one another, which each suspension restores.

use crate::common::prelude::*;
use crate::{MUST_RETURN_FIRST, Plain, suspended};
use cygnet::coroutine::{Coroutine, Resumed, Yielder, current};
use cygnet::no_suspend;

type Counter = Coroutine<(), u32, ()>;

fn counter() -> Rc<Counter> {
    let count = |yielder: &Yielder<(), u32>, ()| (0..1000).for_each(|n| yielder.suspend(n));
    Rc::new(Coroutine::new(count))
}

fn next(counter: &Counter) -> u32 {
    counter.resume(()).unwrap().yielded().unwrap()
}

#[test]
fn a_coroutine_may_be_resumed_by_the_thread_and_by_others_in_turn() {
    let shared = counter();
    let inner = shared.clone();
    let middle = suspended(move |yielder, ()| {
        let me = current();
        loop {
            next(&inner);
            assert_eq!(current(), me);
            yielder.suspend(());
            assert_eq!(current(), me);
        }
    });
    let main = current();
    let outer = suspended(move |yielder, ()| {
        loop {
            middle.resume(()).unwrap();
            yielder.suspend(());
        }
    });
    for round in 0..10 {
        assert_eq!(next(&shared), 2 * round + 2);
        assert_eq!(current(), main);
        outer.resume(()).unwrap();
        assert_eq!(current(), main);
    }
}

#[test]
fn two_coroutines_inside_of_a_third_take_turns() {
    let co = Coroutine::<(), u32, ()>::new(|yielder, ()| {
        let (evens, odds) = (counter(), counter());
        for _ in 0..100 {
            yielder.suspend(2 * next(&evens));
            yielder.suspend(2 * next(&odds) + 1);
        }
    });
    (0..200).for_each(|n| assert_eq!(next(&co), n));
    assert_eq!(co.resume(()), Ok(Resumed::Returned(())));
}

#[test]
fn a_body_may_suspend_again_when_it_is_no_longer_pinned() {
    fn body(yielder: &Yielder<(), u32>, (): ()) {
        for n in 0..10 {
            no_suspend(|| no_suspend(|| ()));
            yielder.suspend(n);
            let refused = panic_of(|| no_suspend(|| yielder.suspend(99)));
            assert!(refused.contains(MUST_RETURN_FIRST), "{refused}");
        }
    }
    let co = Counter::new(body);
    (0..10).for_each(|n| assert_eq!(next(&co), n));
    let outer = Plain::new(|_, ()| {
        let co = Counter::new(body);
        (0..10).for_each(|n| assert_eq!(next(&co), n));
    });
    outer.resume(()).unwrap();
}

#[test]
fn an_inner_coroutine_of_a_pinned_one_may_suspend_and_the_pinned_one_may_not() {
    let co = Plain::new(|yielder, ()| {
        let inner = counter();
        no_suspend(|| {
            (0..10).for_each(|n| assert_eq!(next(&inner), n));
            assert!(panic_of(|| yielder.suspend(())).contains(MUST_RETURN_FIRST));
        });
        yielder.suspend(());
    });
    assert_eq!(co.resume(()), Ok(Resumed::Yielded(())));
    assert_eq!(co.resume(()), Ok(Resumed::Returned(())));
}

#[test]
fn a_pin_does_not_let_an_unwound_body_suspend() {
    let seen = Rc::new(RefCell::new(String::new()));
    let told = seen.clone();
    drop(suspended(move |yielder, ()| {
        let unwinding = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        assert!(unwinding.is_err());
        no_suspend(|| ());
        *told.borrow_mut() = panic_of(|| yielder.suspend(()));
    }));
    assert!(seen.borrow().contains("unwound because it was dropped"), "{}", seen.borrow());
}

#[test]
fn a_coroutine_inside_another_is_unwound_and_the_other_goes_on() {
    let co = Counter::new(|yielder, ()| {
        for n in 0..5 {
            drop(suspended(|yielder, ()| yielder.suspend(())));
            yielder.suspend(n);
        }
    });
    (0..5).for_each(|n| assert_eq!(next(&co), n));
}
