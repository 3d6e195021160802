//! Symmetric transfers: a body gives its place to another coroutine.

use crate::common::prelude::*;
use crate::{Log, MUST_RETURN_FIRST, Tell, again, assert_aborted};
use cygnet::coroutine::{self, Builder, Coroutine, ResumeError, Resumed, State, Yielder};
use std::collections::VecDeque;
use std::rc::Weak;

type Number = Coroutine<u32, u32, u32>;

fn shared(body: impl FnOnce(&Yielder<u32, u32, u32>, u32) -> u32 + 'static) -> Rc<Number> {
    Rc::new(Coroutine::new(body))
}

/// A coroutine that transfers once, and returns what it is then resumed with.
fn transferring(to: &Rc<Number>) -> Rc<Number> {
    let to = to.clone();
    shared(move |yielder, n| yielder.transfer(to, n + 1).unwrap())
}

/// Yields all it gets.
fn echo() -> Rc<Number> {
    shared(|yielder, mut n| {
        loop {
            n = yielder.suspend(n);
        }
    })
}

#[test]
fn what_the_other_one_yields_goes_to_the_resumer_and_both_are_suspended() {
    let other = echo();
    let first = transferring(&other);
    assert_eq!(first.resume(1), Ok(Resumed::Yielded(2)));
    assert_eq!((first.state(), other.state()), (State::Suspended, State::Suspended));
    assert_eq!(other.resume(5), Ok(Resumed::Yielded(5)));
    assert_eq!(first.resume(9), Ok(Resumed::Returned(9)));
    assert_eq!((first.state(), other.state()), (State::Finished, State::Suspended));
}

#[test]
fn what_the_other_one_returns_goes_to_the_resumer_and_the_first_is_suspended() {
    let other = shared(|_, n| 10 * n);
    let first = transferring(&other);
    assert_eq!(first.resume(1), Ok(Resumed::Returned(20)));
    assert_eq!((first.state(), other.state()), (State::Suspended, State::Finished));
    assert_eq!(first.resume(9), Ok(Resumed::Returned(9)));
}

#[test]
fn a_panic_of_the_other_one_goes_to_the_resumer_and_the_first_goes_on() {
    let other = shared(|_, _| resume_unwind(Box::new("planted")));
    let first = transferring(&other);
    assert_eq!(panic_of(|| first.resume(1)), "planted");
    assert_eq!((first.state(), other.state()), (State::Suspended, State::Finished));
    assert_eq!(first.resume(9), Ok(Resumed::Returned(9)));
}

#[test]
fn a_ring_takes_a_million_turns_in_one_resumption() {
    const MEMBERS: usize = 10;
    let ring: Rc<RefCell<Vec<Rc<Number>>>> = Rc::default();
    let members = (0..MEMBERS).map(|me| {
        let ring = ring.clone();
        shared(move |yielder, mut n| {
            while n < 1_000_000 {
                let next = ring.borrow()[(me + 1) % MEMBERS].clone();
                n = yielder.transfer(next, n + 1).unwrap();
            }
            n
        })
    });
    let members: Vec<_> = members.collect();
    ring.borrow_mut().clone_from(&members);
    assert_eq!(members[0].resume(0), Ok(Resumed::Returned(1_000_000)));
    ring.borrow_mut().clear();
    let states = members.iter().map(|member| member.state());
    assert_eq!(states.filter(|&state| state == State::Suspended).count(), MEMBERS - 1);
}

#[test]
fn a_target_that_cannot_be_resumed_gives_the_input_back_and_the_body_goes_on() {
    let finished = shared(|_, n| n);
    finished.resume(0).unwrap();
    let co = Rc::new_cyclic(|me: &Weak<Number>| {
        let me = me.clone();
        Coroutine::new(move |yielder: &Yielder<u32, u32, u32>, n| {
            let itself = me.upgrade().unwrap();
            assert_eq!(yielder.transfer(itself.clone(), n), Err(ResumeError::Running(n)));
            assert_eq!(yielder.transfer(finished, n), Err(ResumeError::Finished(n)));
            // An ancestor, as seen from a coroutine that it has resumed.
            let inner = shared(move |yielder, n| {
                let refused = yielder.transfer(itself, n).unwrap_err();
                assert_eq!(refused.state(), State::Running);
                refused.into_input()
            });
            inner.resume(n + 1).unwrap().returned().unwrap()
        })
    });
    assert_eq!(co.resume(1), Ok(Resumed::Returned(2)));
}

#[test]
fn values_are_moved_and_dropped_once() {
    type Co = Coroutine<Tell, Tell, Tell>;
    let log = Log::default();
    let other: Rc<Co> = Rc::new(Coroutine::new(|yielder, first| {
        let second = yielder.suspend(first);
        drop(yielder.suspend(second));
        unreachable!("it is dropped");
    }));
    let to = other.clone();
    let first: Co = Coroutine::new(move |yielder, n| {
        let n = yielder.transfer(to.clone(), n).unwrap();
        yielder.transfer(to.clone(), n).unwrap()
    });
    for n in 1..=3 {
        drop(first.resume(Tell(n, log.clone())).unwrap());
        assert_eq!(*log.borrow(), (1..=n).collect::<Vec<_>>());
    }
    assert_eq!((first.state(), other.state()), (State::Finished, State::Suspended));
}

#[test]
fn a_coroutine_that_is_dropped_in_its_transfer_is_unwound() {
    let log = Log::default();
    let tell = Tell(1, log.clone());
    let other = echo();
    let to = other.clone();
    let first = shared(move |yielder, n| {
        let _tell = tell;
        yielder.transfer(to.clone(), n).unwrap()
    });
    first.resume(1).unwrap();
    drop(first);
    assert_eq!(*log.borrow(), [1]);
    assert_eq!((other.state(), Rc::strong_count(&other)), (State::Suspended, 1));
}

/// A borrow instead of an `Rc` would be of a coroutine that is gone.
#[test]
fn the_other_one_may_resume_the_first_which_may_drop_it() {
    let slot: Rc<RefCell<Option<Rc<Number>>>> = Rc::default();
    let theirs = slot.clone();
    let first = Rc::new_cyclic(|first: &Weak<Number>| {
        let first = first.clone();
        Coroutine::new(move |yielder: &Yielder<u32, u32, u32>, n| {
            let other = shared(move |yielder, n| {
                let resumed = first.upgrade().unwrap().resume(n);
                assert_eq!(resumed, Ok(Resumed::Returned(n + 1)));
                yielder.suspend(n)
            });
            *theirs.borrow_mut() = Some(other.clone());
            let n = yielder.transfer(other.clone(), n).unwrap();
            assert_eq!(other.state(), State::Running);
            drop(other);
            drop(theirs.take());
            n + 1
        })
    });
    assert_eq!(first.resume(5), Ok(Resumed::Yielded(5)));
    assert_eq!(first.state(), State::Finished);
    assert!(slot.borrow().is_none());
}

type Queue = Rc<RefCell<VecDeque<Rc<Number>>>>;

/// A coroutine that ends by a transfer to the next one of a queue, and drops `held` then. The last
/// one returns what `at_last` does.
fn queued<T: 'static>(
    queue: &Queue,
    held: T,
    at_last: impl FnOnce() -> u32 + 'static,
) -> Rc<Number> {
    let queue = queue.clone();
    shared(move |yielder, n| {
        let _held = held;
        let next = queue.borrow_mut().pop_front();
        let Some(next) = next else { return at_last() };
        let ended = yielder.transfer(next, n + 1);
        unreachable!("nobody can resume it: {ended:?}")
    })
}

#[test]
fn one_that_transfers_and_has_no_other_owner_is_unwound_before_the_next_one_goes_on() {
    let (queue, log) = (Queue::default(), Log::default());
    for n in 1..=5 {
        let seen = log.clone();
        let co = queued(&queue, Tell(n, log.clone()), move || seen.borrow().len() as u32);
        queue.borrow_mut().push_back(co);
    }
    let first = queued(&queue, (), || unreachable!());
    assert_eq!(first.resume(0), Ok(Resumed::Returned(4)));
    assert_eq!(*log.borrow(), [1, 2, 3, 4, 5]);
}

#[test]
fn destructors_at_a_transfer_find_the_target_running() {
    let queue = Queue::default();
    let target = shared(|_, n| n);
    let seen = Rc::new(Cell::new(None));
    let (to, tells) = (target.clone(), seen.clone());
    let at_end = OnDrop(move || tells.set(Some((to.state(), to.resume(7).map_err(|e| e.state())))));
    queue.borrow_mut().extend([queued(&queue, at_end, || unreachable!()), target.clone()]);
    let first = queued(&queue, (), || unreachable!());
    assert_eq!(first.resume(0), Ok(Resumed::Returned(2)));
    assert_eq!(seen.take(), Some((State::Running, Err(State::Running))));
}

#[test]
fn a_panic_of_a_destructor_at_a_transfer_goes_to_the_resumer_and_spares_the_target() {
    let queue = Queue::default();
    let target = echo();
    let orphan = {
        let (to, log) = (target.clone(), Log::default());
        shared(move |yielder, n| {
            let caught = catch_unwind(AssertUnwindSafe(|| yielder.transfer(to, n)));
            drop((caught, log));
            resume_unwind(Box::new("planted"));
        })
    };
    queue.borrow_mut().push_back(orphan);
    let first = queued(&queue, (), || unreachable!());
    assert_eq!(panic_of(|| first.resume(0)), "planted");
    assert_eq!((first.state(), target.state()), (State::Suspended, State::Created));
    assert_eq!((Rc::strong_count(&target), target.resume(3)), (1, Ok(Resumed::Yielded(3))));
}

#[test]
fn one_that_suspends_and_has_no_other_owner_is_unwound() {
    let log = Log::default();
    let tell = Tell(1, log.clone());
    let first = shared(|yielder, n| {
        let other = shared(move |yielder, n| {
            let _tell = tell;
            yielder.suspend(n)
        });
        yielder.transfer(other, n).unwrap()
    });
    assert_eq!(first.resume(5), Ok(Resumed::Yielded(5)));
    assert_eq!(*log.borrow(), [1]);
    assert_eq!(first.resume(6), Ok(Resumed::Returned(6)));
}

#[test]
fn current_is_the_one_that_runs_and_then_the_resumer_again() {
    let outer = Coroutine::<(), (), ()>::new(|_, ()| {
        let me = coroutine::current();
        let other = shared(|_, _| coroutine::current().id() as u32);
        let first = transferring(&other);
        assert_eq!(first.resume(0), Ok(Resumed::Returned(other.id() as u32)));
        assert_eq!(coroutine::current(), me);
        assert_eq!(first.resume(0), Ok(Resumed::Returned(0)));
        assert_eq!(coroutine::current(), me);
    });
    let main = coroutine::current();
    outer.resume(()).unwrap();
    assert_eq!(coroutine::current(), main);
}

#[test]
fn a_scoped_coroutine_may_transfer() {
    let (mut seen, other) = (Vec::new(), echo());
    let to = other.clone();
    Coroutine::scoped(
        |yielder, n| {
            seen.push(yielder.transfer(to.clone(), n).unwrap());
            seen.push(yielder.transfer(to, n).unwrap());
            unreachable!("its scope unwinds it");
        },
        |co: &Number| {
            assert_eq!(co.resume(1), Ok(Resumed::Yielded(1)));
            assert_eq!(co.resume(2), Ok(Resumed::Yielded(1)));
        },
    );
    assert_eq!(seen, [2]);
}

#[test]
fn an_iterator_gives_what_others_yield_in_place_of_its_coroutine() {
    let other = Rc::new(Coroutine::<(), u32, &str>::new(|yielder, ()| {
        yielder.suspend(2);
        "other"
    }));
    let mut iter = Coroutine::new(|yielder, ()| {
        yielder.suspend(1);
        yielder.transfer(other.clone(), ()).unwrap();
        yielder.transfer(other, ()).unwrap();
        "first"
    })
    .into_iter();
    assert_eq!(iter.by_ref().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(iter.returned(), Some("other"));
}

#[test]
fn a_body_cannot_transfer_where_it_cannot_suspend() {
    let co = shared(|yielder, n| {
        let other = echo();
        let transfer = || yielder.transfer(other.clone(), n).map_err(ResumeError::into_input);
        let said = panic_of(|| no_suspend(transfer));
        assert!(said.contains(MUST_RETURN_FIRST), "{said}");
        Coroutine::<(), (), ()>::scoped(
            |_, ()| {
                let said = panic_of(transfer);
                assert!(said.contains("from outside of its coroutine"), "{said}");
            },
            |inner| assert!(inner.resume(()).is_ok()),
        );
        assert_eq!((other.state(), Rc::strong_count(&other)), (State::Created, 1));
        transfer().unwrap()
    });
    assert_eq!(co.resume(5), Ok(Resumed::Yielded(5)));
    assert_eq!(co.resume(6), Ok(Resumed::Returned(6)));
}

#[test]
fn a_body_that_is_unwound_or_resumed_during_a_panic_cannot_transfer() {
    let said = Rc::new(RefCell::new(String::new()));
    let tells = said.clone();
    let dropped = shared(move |yielder, n| {
        let _ = catch_unwind(AssertUnwindSafe(|| yielder.transfer(echo(), n)));
        *tells.borrow_mut() = panic_of(|| yielder.transfer(echo(), n));
        n
    });
    dropped.resume(1).unwrap();
    drop(dropped);
    assert!(said.borrow().contains("it can never be resumed again"), "{}", said.borrow());

    let first = transferring(&echo());
    let said = while_unwinding(|| panic_of(|| first.resume(1)));
    assert!(said.contains("must run to its end"), "{said}");
}

#[test]
fn a_destructor_that_transfers_while_a_panic_unwinds_the_body_aborts_with_a_sentence() {
    let output = again(|| {
        let co = shared(|yielder, n| {
            let _transfers = OnDrop(|| assert!(yielder.transfer(echo(), n).is_ok()));
            panic!("planted");
        });
        let _ = co.resume(1);
    });
    assert_aborted(&output, "must not suspend while a panic unwinds its coroutine");
}

#[test]
fn tasks_may_wait_inside_of_a_coroutine_that_runs_in_place_of_another() {
    runtime(2).block_on(|| {
        crowd(50, |_| {
            let other = shared(|yielder, mut n| {
                loop {
                    let me = coroutine::current();
                    yield_now().unwrap();
                    assert_eq!(coroutine::current(), me);
                    n = yielder.suspend(n);
                }
            });
            let first = shared(move |yielder, mut n| {
                for _ in 0..20 {
                    n = yielder.transfer(other.clone(), n).unwrap();
                }
                n
            });
            for n in 0..20 {
                assert_eq!(first.resume(n), Ok(Resumed::Yielded(n)));
                assert!(coroutine::current().is_main());
            }
            assert_eq!(first.resume(20), Ok(Resumed::Returned(20)));
        });
    });
}

#[test]
fn a_body_cannot_leave_a_scope_of_its_task_half_way_by_a_transfer() {
    runtime(1).block_on(|| {
        let co = shared(|yielder, n| {
            let said = panic_of(|| scope(|_| yielder.transfer(echo(), n).map_err(drop)));
            assert!(said.contains(MUST_RETURN_FIRST), "{said}");
            yielder.transfer(echo(), n).unwrap()
        });
        assert_eq!(co.resume(5), Ok(Resumed::Yielded(5)));
        assert_eq!(co.resume(6), Ok(Resumed::Returned(6)));
    });
}

#[test]
#[cfg_attr(cygnet_tsan, ignore = "ThreadSanitizer delivers signals in its own way")]
fn an_overflow_names_the_one_that_runs() {
    let output = again(|| {
        runtime(1).block_on(|| {
            let abyss = Builder::new().name("abyss").create(|_, _| crate::stack::recurse(0) as u32);
            let first = transferring(&Rc::new(abyss.unwrap()));
            let _ = first.resume(0);
        });
    });
    assert_aborted(&output, "coroutine \"abyss\"");
}
