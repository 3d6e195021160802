//! Coroutines that are sent to another thread before they start.

use crate::common::prelude::*;
use crate::{Log, Tell};
use cygnet::coroutine::{self, Builder, Coroutine, CreateError, Resumed, State, Unstarted};
use std::sync::mpsc;
use std::thread;

/// Tells the thread on which it is dropped.
struct Where(mpsc::Sender<thread::ThreadId>);

impl Drop for Where {
    fn drop(&mut self) {
        self.0.send(thread::current().id()).unwrap();
    }
}

/// Yields numbers from one up to what it was resumed with first, and returns where it has run.
fn counting() -> Unstarted<u32, u32, thread::ThreadId> {
    let body = Builder::new().create_sendable(|yielder, end: u32| {
        for n in 1..=end {
            assert_eq!(yielder.suspend(n), end);
        }
        thread::current().id()
    });
    body.unwrap()
}

fn run(unstarted: Unstarted<u32, u32, thread::ThreadId>) {
    let co = unstarted.into_coroutine();
    for n in 1..=3 {
        assert_eq!(co.resume(3), Ok(Resumed::Yielded(n)));
    }
    assert_eq!(co.resume(3), Ok(Resumed::Returned(thread::current().id())));
}

#[test]
fn it_runs_on_the_thread_that_takes_it() {
    run(counting());
    let unstarted = counting();
    thread::spawn(move || run(unstarted)).join().unwrap();
    let unstarted = counting();
    runtime(2).block_on(|| spawn(move || run(unstarted)).join().unwrap());
}

#[test]
fn id_name_and_size_are_those_of_the_coroutine() {
    let unstarted = Builder::new()
        .name("traveller")
        .stack_size(1 << 20)
        .create_sendable(|_, ()| coroutine::current().id());
    let unstarted: Unstarted<(), (), u64> = unstarted.unwrap();
    let (id, size) = (unstarted.id(), unstarted.stack_size());
    assert_eq!(unstarted.name(), Some("traveller"));
    assert!(format!("{unstarted:?}").contains("traveller"));
    let there = thread::spawn(move || {
        let co = unstarted.into_coroutine();
        assert_eq!((co.name(), co.state()), (Some("traveller"), State::Created));
        assert_eq!(co.resume(()), Ok(Resumed::Returned(co.id())));
        (co.id(), co.stack_size())
    });
    assert_eq!(there.join().unwrap(), (id, size));
}

#[test]
fn values_and_results_need_not_be_sendable() {
    let unstarted = Builder::new().create_sendable(|yielder, first: Rc<u32>| {
        let second = yielder.suspend(first.clone());
        Tell(*first + *second, Log::default())
    });
    let unstarted: Unstarted<Rc<u32>, Rc<u32>, Tell> = unstarted.unwrap();
    let there = thread::spawn(move || {
        let co = unstarted.into_coroutine();
        assert_eq!(co.resume(Rc::new(1)).unwrap().yielded(), Some(Rc::new(1)));
        co.resume(Rc::new(2)).unwrap().returned().unwrap().0
    });
    assert_eq!(there.join().unwrap(), 3);
}

#[test]
fn one_that_never_starts_drops_its_body_where_it_is_dropped() {
    let (sender, receiver) = mpsc::channel();
    let make = || {
        let tells = Where(sender.clone());
        let made = Builder::new().create_sendable(move |_, ()| drop(tells));
        let made: Unstarted<(), (), ()> = made.unwrap();
        made
    };
    drop(make());
    assert_eq!(receiver.recv(), Ok(thread::current().id()));
    for take in [false, true] {
        let unstarted = make();
        let there = thread::spawn(move || {
            while_unwinding(
                || if take { drop(unstarted.into_coroutine()) } else { drop(unstarted) },
            );
            thread::current().id()
        });
        assert_eq!(receiver.recv(), Ok(there.join().unwrap()));
    }
    drop(sender);
    assert!(receiver.recv().is_err(), "each is dropped once");
}

#[test]
fn a_panic_of_a_capture_s_destructor_surfaces_in_the_drop() {
    let bomb = OnDrop(|| panic!("planted"));
    let made = Builder::new().create_sendable(move |_, ()| drop(bomb));
    let made: Unstarted<(), (), ()> = made.unwrap();
    assert_eq!(panic_of(move || drop(made)), "planted");
}

#[test]
fn a_size_out_of_bounds_is_refused() {
    let refused = Builder::new().stack_size(100).create_sendable(|_, ()| ());
    let refused: Result<Unstarted<(), (), ()>, _> = refused;
    assert_eq!(refused.unwrap_err(), CreateError::StackSize { asked: 100 });
}

/// Returns the address of a variable on the coroutine's stack.
fn address(co: &Coroutine<(), (), usize>) -> usize {
    co.resume(()).unwrap().returned().unwrap()
}

fn local() -> usize {
    let local = std::hint::black_box(0_u8);
    (&raw const local).addr()
}

#[test]
fn its_stack_is_kept_warm_by_the_thread_where_it_has_ended() {
    let sent = Builder::new().create_sendable(|_, ()| local()).unwrap();
    let there = thread::spawn(move || {
        let sent = address(&sent.into_coroutine());
        let next = Coroutine::new(|_, ()| local());
        // The frames of two bodies differ by less than a page.
        assert!(address(&next).abs_diff(sent) < 4096);
    });
    there.join().unwrap();
}

#[test]
fn threads_that_send_them_to_and_fro_lose_no_stack() {
    const THREADS: usize = 4;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
    thread::scope(|s| {
        for (me, receiver) in receivers.into_iter().enumerate() {
            let senders = senders.clone();
            s.spawn(move || {
                for n in 0..300 {
                    senders[(me + n) % THREADS].send(counting()).unwrap();
                    // Some stay unstarted, some are suspended for a while.
                    let Ok(unstarted) = receiver.try_recv() else { continue };
                    match n % 3 {
                        0 => drop(unstarted),
                        1 => run(unstarted),
                        _ => drop(unstarted.into_coroutine().resume(1)),
                    }
                }
                drop(senders);
                receiver.into_iter().for_each(run);
            });
        }
        drop(senders);
    });
}
