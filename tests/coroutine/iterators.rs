//! Coroutines as iterators over what they yield.

use crate::common::prelude::*;
use crate::{logged, suspended};
use cygnet::coroutine::{Coroutine, IntoIter, State};
use std::iter::FusedIterator;
use std::rc::Weak;
use std::sync::mpsc;
use std::thread;

/// Yields the numbers below `end`, and returns their number.
fn below(end: u32) -> Coroutine<(), u32, u32> {
    Coroutine::new(move |yielder, ()| {
        (0..end).for_each(|n| yielder.suspend(n));
        end
    })
}

#[test]
fn an_iterator_gives_what_is_yielded_and_then_what_is_returned() {
    for end in [0, 1, 10] {
        let mut iter = below(end).into_iter();
        assert_eq!(iter.by_ref().collect::<Vec<_>>(), (0..end).collect::<Vec<_>>());
        assert_eq!(iter.returned(), Some(end));
    }
}

#[test]
fn a_loop_over_a_reference_leaves_the_coroutine_where_it_stands() {
    let co = below(6);
    co.resume(()).unwrap();
    for n in &co {
        if n == 3 {
            break;
        }
    }
    assert_eq!(co.state(), State::Suspended);
    let mut rest = co.into_iter();
    assert_eq!(rest.by_ref().collect::<Vec<_>>(), [4, 5]);
    assert_eq!(rest.returned(), Some(6));
}

#[test]
fn an_iterator_stays_at_its_end() {
    fn at_the_end(iter: &mut impl FusedIterator<Item = u32>) {
        assert_eq!(iter.size_hint(), (0, None));
        assert_eq!(iter.by_ref().count(), 2);
        assert_eq!(iter.size_hint(), (0, Some(0)));
        assert_eq!((iter.next(), iter.next()), (None, None));
    }
    at_the_end(&mut below(2).into_iter());
    at_the_end(&mut below(2).iter());
}

#[test]
fn an_iterator_over_a_finished_coroutine_is_empty_and_has_no_result() {
    let co = below(1);
    assert_eq!(co.iter().count(), 1);
    let mut iter = co.iter();
    assert_eq!(iter.next(), None);
    assert_eq!(iter.returned(), None);
    let mut iter = co.into_iter();
    assert_eq!(iter.next(), None);
    assert_eq!(iter.returned(), None);
}

#[test]
fn there_is_no_result_before_the_end() {
    let mut iter = below(2).into_iter();
    assert_eq!(iter.next(), Some(0));
    assert_eq!(iter.returned(), None);
}

#[test]
fn an_iterator_that_is_dropped_unwinds_its_coroutine_and_a_borrowing_one_does_not() {
    let (log, tell) = logged();
    let co = suspended(move |yielder, ()| {
        let _tell = tell;
        loop {
            yielder.suspend(());
        }
    });
    let _: &Coroutine<(), (), ()> = &co;
    assert_eq!(co.iter().next(), Some(()));
    assert!(log.borrow().is_empty());
    let mut iter = co.into_iter();
    assert_eq!(iter.next(), Some(()));
    drop(iter);
    assert_eq!(*log.borrow(), [1]);
}

#[test]
fn a_panic_of_the_body_goes_to_next_and_ends_the_iterator() {
    let mut iter = Coroutine::<(), u32, ()>::new(|yielder, ()| {
        yielder.suspend(1);
        resume_unwind(Box::new("planted"));
    })
    .into_iter();
    assert_eq!(iter.next(), Some(1));
    assert_eq!(panic_of(|| iter.next()), "planted");
    assert_eq!((iter.next(), iter.returned()), (None, None));
}

#[test]
fn a_body_that_asks_an_iterator_over_itself_panics() {
    let co = Rc::new_cyclic(|me: &Weak<Coroutine<(), String, ()>>| {
        let me = me.clone();
        Coroutine::new(move |yielder, ()| {
            let said = panic_of(|| me.upgrade().unwrap().iter().next());
            yielder.suspend(said);
        })
    });
    let said = co.iter().next().unwrap();
    assert!(said.contains("a running coroutine cannot be resumed"), "{said}");
}

/// As with a resumption, the body must run to its end.
#[test]
fn a_body_that_yields_to_an_iterator_during_a_panic_panics() {
    let mut iter = below(1).into_iter();
    let said = while_unwinding(|| panic_of(|| iter.next()));
    assert!(said.contains("must run to its end"), "{said}");
    assert_eq!((iter.next(), iter.returned()), (None, None));
}

#[test]
fn an_iterator_in_a_cancelled_task_goes_on() {
    let (sender, receiver) = mpsc::channel();
    runtime(1).block_on(move || {
        let begun = Arc::new(Event::new());
        let begins = begun.clone();
        let task = spawn(move || {
            begins.set();
            assert!(park().is_err());
            sender.send(below(10).into_iter().sum::<u32>()).unwrap();
        });
        begun.wait().unwrap();
        task.cancel("test");
        let _ = task.join();
    });
    assert_eq!(receiver.recv(), Ok(45));
}

#[test]
#[cfg(target_env = "gnu")]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn an_iterator_over_a_suspended_coroutine_panics_in_a_thread_that_is_ending() {
    struct AtEnd(Option<IntoIter<u32, u32>>, Option<mpsc::Sender<String>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let (iter, sender) = (self.0.as_mut().unwrap(), self.1.take().unwrap());
            sender.send(panic_of(|| iter.next())).unwrap();
        }
    }
    thread_local! {
        static AT_END: RefCell<AtEnd> = const { RefCell::new(AtEnd(None, None)) };
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Made before the thread's first coroutine, thus destroyed after the thread has begun to
        // end.
        AT_END.with_borrow_mut(|at_end| at_end.1 = Some(sender));
        let mut iter = below(5).into_iter();
        assert_eq!(iter.next(), Some(0));
        AT_END.with_borrow_mut(|at_end| at_end.0 = Some(iter));
    });
    let said = receiver.recv().unwrap();
    assert!(said.contains("destructor of a thread-local value"), "{said}");
}
