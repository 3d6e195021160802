//! Coroutines in and around the destructors of thread-local values.

use crate::common::prelude::*;
use crate::own_stacks::Guarded;
use crate::{Plain, suspended};
use cygnet::coroutine::{Builder, Coroutine, ResumeError, Resumed, Unstarted, Yielder};
use std::sync::mpsc;
use std::thread;

/// Calls its function when its thread-local value is destroyed.
#[derive(Default)]
struct AtEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|action| action());
    }
}

thread_local! {
    static AT_END: RefCell<AtEnd> = RefCell::default();
    static TEXT: String = String::from("borrowed");
}

fn at_end(action: impl FnOnce() + 'static) {
    AT_END.with_borrow_mut(|slot| slot.0 = Some(Box::new(action)));
}

/// Makes this thread's stack pool after `AT_END`, so the pool is destroyed before the actions use
/// it.
fn use_the_pool() {
    drop(Plain::new(|_, ()| ()));
}

#[test]
fn a_new_coroutine_may_run_to_its_end() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        at_end(move || {
            let co = Coroutine::<u32, (), u32>::new(|_, n| n + 1);
            sender.send(co.resume(1).unwrap().returned()).unwrap();
        });
        use_the_pool();
    });
    assert_eq!(receiver.recv(), Ok(Some(2)));
}

#[test]
fn one_from_another_thread_may_be_taken_and_run_to_its_end() {
    let (sender, receiver) = mpsc::channel();
    let unstarted = Coroutine::builder().create_sendable(|_, n: u32| n + 1);
    let unstarted: Unstarted<u32, (), u32> = unstarted.unwrap();
    thread::spawn(move || {
        at_end(move || {
            let co = unstarted.into_coroutine();
            sender.send(co.resume(1).unwrap().returned()).unwrap();
        });
        use_the_pool();
    });
    assert_eq!(receiver.recv(), Ok(Some(2)));
}

#[test]
fn a_scoped_coroutine_may_suspend_and_go_on() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        at_end(move || {
            Coroutine::<u32, u32, u32>::scoped(
                |yielder, n| yielder.suspend(n) + n,
                |co| {
                    co.resume(1).unwrap();
                    sender.send(co.resume(2).unwrap().returned()).unwrap();
                },
            );
        });
        use_the_pool();
    });
    assert_eq!(receiver.recv(), Ok(Some(3)));
}

#[test]
#[cfg(target_env = "gnu")]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_coroutine_that_may_use_a_destroyed_value_is_neither_resumed_nor_unwound() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Made before the value that the coroutine borrows, thus destroyed after it.
        at_end(|| ());
        let co = Coroutine::<u32, (), ()>::new(|yielder, _| {
            TEXT.with(|text| {
                let _uses = OnDrop(|| unreachable!("the value is gone: {text}"));
                yielder.suspend(());
                unreachable!("the value is gone: {text}");
            });
        });
        co.resume(0).unwrap();
        at_end(move || {
            sender.send(co.resume(7)).unwrap();
            drop(co);
        });
    })
    .join()
    .unwrap();
    assert_eq!(receiver.recv(), Ok(Err(ResumeError::ThreadEnding(7))));
}

/// The thread has no other coroutine, and takes no stack from the library.
#[test]
#[cfg(target_env = "gnu")]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn a_coroutine_on_a_stack_of_the_user_s_learns_of_the_end_of_its_thread() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        at_end(|| ());
        let body = |yielder: &Yielder<u32, ()>, _: u32| {
            TEXT.with(|text| {
                let _uses = OnDrop(|| unreachable!("the value is gone: {text}"));
                yielder.suspend(());
                unreachable!("the value is gone: {text}");
            });
        };
        let co = Builder::new().create_on(Guarded::new(), body).unwrap();
        co.resume(0).unwrap();
        at_end(move || {
            sender.send(co.resume(7)).unwrap();
            drop(co);
        });
    })
    .join()
    .unwrap();
    assert_eq!(receiver.recv(), Ok(Err(ResumeError::ThreadEnding(7))));
}

#[test]
#[cfg(target_env = "gnu")]
#[cfg_attr(cygnet_asan, ignore = "leaks on purpose")]
fn nobody_can_transfer_to_a_coroutine_that_may_use_a_destroyed_value() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        at_end(|| ());
        let to = Rc::new(Coroutine::<u32, (), u32>::new(|yielder, _| yielder.suspend(())));
        to.resume(0).unwrap();
        at_end(move || {
            Coroutine::<u32, (), u32>::scoped(
                |yielder, n| {
                    sender.send(yielder.transfer(to, n)).unwrap();
                    let new = Rc::new(Coroutine::new(|_, n| n + 1));
                    yielder.transfer(new, n).unwrap()
                },
                |co| assert_eq!(co.resume(7), Ok(Resumed::Returned(8))),
            );
        });
    })
    .join()
    .unwrap();
    assert_eq!(receiver.recv(), Ok(Err(ResumeError::ThreadEnding(7))));
}

#[test]
fn a_coroutine_dropped_before_the_end_of_its_thread_is_unwound() {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        drop(suspended(|yielder, ()| {
            let _tells = OnDrop(move || sender.send("unwound").unwrap());
            yielder.suspend(());
        }));
    });
    assert_eq!(receiver.recv(), Ok("unwound"));
}
