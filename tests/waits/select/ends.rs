//! The ends of a `select!` without a winner: a cancel, a time limit, a panic, or a place where
//! nothing may wait.

use crate::common::prelude::*;
use cygnet::sync::{Mutex, Semaphore};

#[test]
fn a_cancel_ends_a_select_and_drops_the_futures_before_it_returns() {
    with_each(|rt| {
        let (sender, receiver) = bounded(0);
        let (event, drops) = (Arc::new(Event::new()), Drops::new());
        let task = {
            let (receiver, event, drops) = (receiver.clone(), Arc::clone(&event), drops.clone());
            rt.spawn(move || {
                let guard = drops.guard();
                let ended = select! {
                    value = receiver.recv_async() => value.unwrap(),
                    _ = event.wait_async() => 0,
                    _ = async { let _guard = guard; pending::<()>().await } => 1,
                };
                (ended, drops.left(), waiting(&receiver) + waiting(&event))
            })
        };
        eventually("it waits", || waiting(&receiver) == 1 && waiting(&event) == 1);
        task.cancel("enough");
        let (ended, left, waits) = task.join().unwrap();
        assert_eq!(*ended.unwrap_err().reason(), Reason::Explicit("enough".into()));
        assert_eq!((left, waits), (0, 0));
        assert!(sender.try_send(1).is_err(), "a receiver seems to wait");
    });
}

#[test]
fn a_cancelled_task_is_turned_away_also_from_what_is_ready() {
    with_each(|rt| {
        rt.block_on(|| {
            let (sender, receiver) = unbounded();
            sender.send(1).unwrap();
            let drops = Drops::new();
            let guard = drops.guard();
            let cancelled = timeout(Duration::from_secs(10_000), || {
                cygnet::scope(|s| {
                    s.cancel("before");
                    let chosen = select! {
                        value = receiver.recv_async() => value.unwrap(),
                        _ = async { let _guard = guard; } => 2,
                    };
                    // Neither is there a turn for `else`.
                    let otherwise = select! { _ = ready(()), if false => 3, else => 4 };
                    (chosen, otherwise)
                })
            });
            let (chosen, otherwise) = cancelled.unwrap();
            assert_eq!(*chosen.unwrap_err().reason(), Reason::Explicit("before".into()));
            assert!(otherwise.is_err());
            assert_eq!((receiver.len(), drops.left()), (1, 0));
            assert_eq!(select! { value = receiver.recv_async() => value }, Ok(Ok(1)));
        });
        // Of oneself, in a handler.
        let twice = rt.block_on(|| {
            let first = select! { _ = ready(()) => cancel_handle().cancel("by itself") };
            (first, select! { _ = ready(()) => () })
        });
        assert!(twice.0.is_ok() && twice.1.is_err());
    });
}

#[test]
fn a_time_limit_around_a_select_leaves_nothing_behind() {
    in_task(|_| {
        let (sender, receiver) = bounded::<u8>(0);
        let (event, mutex, semaphore) = (Event::new(), Mutex::new(()), Semaphore::new(0));
        let held = mutex.lock().unwrap();
        let late = timeout(Duration::from_millis(2), || {
            select! {
                _ = receiver.recv_async() => (),
                _ = event.wait_async() => (),
                _ = mutex.lock_async() => (),
                _ = semaphore.acquire_async(1) => (),
            }
        });
        let ended = late.unwrap_err().into_inner();
        assert_eq!(*ended.unwrap_err().reason(), Reason::Deadline);
        assert_eq!(waiting(&receiver) + waiting(&event) + waiting(&semaphore), 0);
        drop(held);
        assert!(mutex.try_lock().is_some());
        semaphore.add_permits(1);
        assert_eq!(semaphore.available_permits(), 1);
        assert!(sender.try_send(1).is_err());
    });
}

#[test]
fn a_panic_of_a_future_drops_the_others_and_passes_on() {
    with_each(|rt| {
        let (drops, event) = (Drops::new(), Event::new());
        let (guard, other) = (drops.guard(), drops.guard());
        let said = panic_of(|| {
            rt.block_on(|| {
                select! {
                    biased;
                    _ = async { let _guard = guard; pending::<()>().await } => (),
                    _ = event.wait_async() => (),
                    _ = async { panic!("in a poll") } => (),
                    _ = async { let _guard = other; } => unreachable!("it was polled"),
                }
            })
        });
        assert_eq!((said.as_str(), drops.left(), waiting(&event)), ("in a poll", 0, 0));
        // Of the destructor of one that has lost: what the other one gave is dropped with it.
        let guard = drops.guard();
        let said = panic_of(|| {
            rt.block_on(|| {
                let panics = OnDrop(|| panic!("in a drop"));
                select! {
                    _ = async { let _panics = panics; pending::<()>().await } => (),
                    _guard = async { guard } => unreachable!("it comes before the handler"),
                }
            })
        });
        assert_eq!((said.as_str(), drops.left()), ("in a drop", 0));
    });
}

#[test]
fn without_a_branch_that_is_enabled_there_is_an_else_or_a_panic() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let no = std::hint::black_box(false);
            let otherwise = select! {
                _ = pending::<()>(), if no => 1,
                _ = ready(()), if no => 2,
                else => 3,
            };
            assert_eq!(otherwise, Ok(3));
            panics_with("all branches are disabled", || {
                select! { _ = ready(()), if no => () }.is_ok()
            });
        });
        // A thread, too.
        let no = std::hint::black_box(false);
        assert_eq!(select! { _ = pending::<()>(), if no => 1, else => 2 }, Ok(2));
    });
}

#[test]
fn where_nothing_may_wait_a_branch_must_be_ready() {
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let event = Event::new();
            let at_once = || select! { _ = event.wait_async() => 1, _ = ready(()) => 2 };
            assert_eq!(no_suspend(at_once), Ok(2));
            panics_with("no_suspend", || {
                no_suspend(|| select! { _ = event.wait_async() => () }.is_ok())
            });
            assert_eq!(waiting(&event), 0);
        });
        let selects = || while_unwinding(|| select! { _ = ready(()) => () });
        assert_eq!(*rt.block_on(selects).unwrap_err().reason(), Reason::Unwinding);
    });
}

#[test]
fn between_tasks_a_branch_must_be_ready() {
    within(|| {
        let (said, heard) = mpsc::channel();
        let rt = Runtime::builder()
            .workers(1)
            .on_thread_start(move |_| {
                assert!(Handle::try_current().is_some());
                assert_eq!(select! { _ = ready(()) => 1 }, Ok(1));
                let event = Event::new();
                let refused = panic_of(|| select! { _ = event.wait_async() => () }.is_ok());
                assert_eq!(waiting(&event), 0);
                let _ = said.send(refused);
            })
            .build()
            .unwrap();
        assert_eq!(rt.block_on(|| 7), 7);
        let said = heard.recv().unwrap();
        assert!(said.contains("outside of its tasks"), "{said}");
    });
}
