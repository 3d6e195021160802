//! Coroutines in and around the destructors of thread-local values.

use cygnet::coroutine::{Coroutine, ResumeError};
use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;

/// Does something when the thread-local value that it is in is destroyed.
#[derive(Default)]
struct AtEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

thread_local! {
    static AT_END: RefCell<AtEnd> = RefCell::default();
    static TEXT: String = String::from("borrowed");
}

fn at_end(action: impl FnOnce() + 'static) {
    AT_END.with_borrow_mut(|slot| slot.0 = Some(Box::new(action)));
}

/// Makes this thread's stack pool, after the value that is to use it at the end: it goes before.
fn use_the_pool() {
    drop(Coroutine::<(), (), ()>::new(|_, ()| ()));
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
fn what_may_use_a_value_that_is_gone_is_neither_resumed_nor_unwound() {
    struct Uses<'a>(&'a str);
    impl Drop for Uses<'_> {
        fn drop(&mut self) {
            unreachable!("the value is gone: {}", self.0);
        }
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Made before the value that the coroutine borrows, thus destroyed after it.
        at_end(|| ());
        let co = Coroutine::<u32, (), ()>::new(|yielder, _| {
            TEXT.with(|text| {
                let _uses = Uses(text);
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

#[test]
fn what_ends_before_that_is_unwound_as_ever() {
    struct Tells(mpsc::Sender<&'static str>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send("unwound").unwrap();
        }
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let co = Coroutine::<(), (), ()>::new(|yielder, ()| {
            let _tells = Tells(sender);
            yielder.suspend(());
        });
        co.resume(()).unwrap();
    });
    assert_eq!(receiver.recv(), Ok("unwound"));
}
