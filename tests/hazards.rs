//! Hazards that pinning does not remove: a thread does one thing at a time, and a worker does not.
//! Two interleavings break code that relies on it, although neither that code nor the tasks are
//! unsafe. These tests are ignored: they show what no signature can prevent. Beside each is a test
//! that `no_suspend` prevents it. See docs/soundness.md.
//!
//! ```sh
//! cargo test -p cygnet --test hazards -- --ignored
//! ```

mod common;

use common::prelude::*;
use std::sync::Mutex;

/// A value that records its drop.
struct Precious(Rc<Cell<bool>>);

impl Precious {
    fn new() -> Precious {
        Precious(Rc::new(Cell::new(true)))
    }

    /// Tells whether the value is alive, and outlives it.
    fn life(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.0)
    }
}

impl Drop for Precious {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The first task suspends in the initialiser. The second task finds no value, makes one of its
/// own, and borrows it over a suspension. Then the initialiser of the first task ends, and puts its
/// value into the same place.
#[test]
#[ignore = "a known hazard: suspension inside the initialiser of a thread-local"]
fn a_suspended_initialiser_lets_a_value_go_that_is_borrowed() {
    thread_local! {
        static VALUE: Precious = {
            if FIRST.swap(false, Ordering::Relaxed) {
                // Until the other task has made its value and borrowed it.
                give_way_until(|| BORROWED.load(Ordering::Relaxed));
            }
            Precious::new()
        };
    }
    static FIRST: AtomicBool = AtomicBool::new(true);
    static BORROWED: AtomicBool = AtomicBool::new(false);
    within(|| {
        let gone = runtime(1).block_on(|| {
            let first = spawn(|| VALUE.with(|value| value.life().get()));
            give_way_until(|| !FIRST.load(Ordering::Relaxed));
            let second = spawn(|| {
                VALUE.with(|value| {
                    let alive = value.life();
                    BORROWED.store(true, Ordering::Relaxed);
                    (0..10).for_each(|_| yield_now().unwrap());
                    // `value` is borrowed to here, but has been dropped. It is not used any more.
                    !alive.get()
                })
            });
            first.join().unwrap();
            second.join().unwrap()
        });
        assert!(gone, "the hazard has gone: mend docs/soundness.md and the contract");
    });
}

#[test]
fn no_suspend_turns_a_suspension_in_an_initialiser_into_a_panic() {
    thread_local! {
        static VALUE: Precious = no_suspend(|| {
            yield_now().unwrap();
            Precious::new()
        });
    }
    in_task_with(&[1], |_| {
        panics_with("inside no_suspend", || VALUE.with(|value| value.life().get()));
    });
}

scoped_tls::scoped_thread_local!(static CONTEXT: Precious);

/// Two tasks of one worker set a scoped thread-local, and take turns: the extents are not nested.
/// The first task ends first and drops its value. The second task, at its end, restores what it has
/// found, the address of that value.
#[test]
#[ignore = "a known hazard: suspension inside the extent of a scoped thread-local"]
fn extents_that_are_not_nested_leave_the_address_of_a_value_that_has_gone() {
    let step = AtomicBool::new(false);
    within(|| {
        let left = runtime(1).block_on(|| {
            cygnet::scope(|s| {
                let first = s.spawn(|| {
                    let value = Precious::new();
                    CONTEXT.set(&value, || give_way_until(|| step.load(Ordering::Relaxed)));
                });
                give_way_until(|| CONTEXT.is_set());
                let second = s.spawn(|| {
                    let value = Precious::new();
                    CONTEXT.set(&value, || {
                        step.store(true, Ordering::Relaxed);
                        first.join().unwrap();
                    });
                });
                second.join().unwrap();
            });
            // Outside of both extents. The value behind the address has been dropped, and is not
            // used.
            CONTEXT.is_set()
        });
        assert!(left, "the hazard has gone: mend docs/soundness.md and the contract");
    });
}

#[test]
fn no_suspend_turns_a_suspension_in_such_an_extent_into_a_panic() {
    in_task_with(&[1], |_| {
        let value = Precious::new();
        panics_with("inside no_suspend", || {
            CONTEXT.set(&value, || no_suspend(|| yield_now().unwrap()))
        });
        assert!(!CONTEXT.is_set());
    });
}

/// The third place of the contract. The thread counts as panicking there, so a wait that may be cut
/// short is, and a structured wait holds the worker: no other task runs inside the hook, which
/// might panic itself.
#[test]
fn a_wait_in_a_panic_hook_does_not_leave_it() {
    in_own_process(|| {
        static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
        static OTHERS: AtomicBool = AtomicBool::new(false);
        std::panic::set_hook(Box::new(|_| {
            let waits = [park().is_err(), yield_now().is_ok(), blocking(|| true)];
            let left = OTHERS.load(Ordering::Relaxed);
            SEEN.lock().unwrap().push(format!("{waits:?}, others have run: {left}"));
        }));
        within(|| {
            let drops = Drops::new();
            runtime(1).block_on(|| {
                let panics: Task<()> = spawn(drops.around(|| panic!("for the hook")));
                let other = spawn(|| OTHERS.store(true, Ordering::Relaxed));
                assert!(panics.join().is_err());
                other.join().unwrap();
            });
            assert_eq!(drops.count(), 1);
        });
        let _ = std::panic::take_hook();
        assert_eq!(*SEEN.lock().unwrap(), ["[true, true, true], others have run: false"]);
    });
}
