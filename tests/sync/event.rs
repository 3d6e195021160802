//! `Event`: set, reset and closed, in any order with waits.

use crate::common::prelude::*;

#[test]
fn a_wait_ends_whether_the_event_is_set_before_or_after_it_begins() {
    with_each(|rt| {
        let event = Arc::new(Event::new());
        assert_eq!(format!("{event:?}"), "Event { set: false, closed: false, waiting: [] }");
        let before = waits(rt, &event, |event| event.wait());
        assert!(!event.is_set());
        event.set();
        event.set();
        assert!(event.is_set());
        assert_eq!(before.join().unwrap(), Ok(()));
        assert_eq!(rt.block_on(|| event.wait()), Ok(()));
        assert_eq!((event.wait(), block_on(event.wait_async())), (Ok(()), Ok(())));
        assert!(event.reset());
        assert!(!event.reset());
        let after = waits(rt, &event, |event| event.wait());
        event.set();
        assert_eq!(after.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_set_reaches_all_waiters_even_if_it_is_reset_at_once() {
    with_each(|rt| {
        let event = Arc::new(Event::new());
        let mine = || Arc::clone(&event);
        let tasks = [(); 100].map(|()| mine()).map(|event| rt.spawn(move || event.wait()));
        thread::scope(|s| {
            let thread = s.spawn(|| event.wait());
            let future = s.spawn(|| block_on(event.wait_async()));
            until_waiting(&event, 102);
            event.set();
            event.reset();
            assert_eq!((thread.join().unwrap(), future.join().unwrap()), (Ok(()), Ok(())));
        });
        tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), Ok(())));
        assert_eq!((waiting(&event), event.is_set()), (0, false));
    });
}

#[test]
fn closing_ends_all_waits_and_a_set_event_stays_set() {
    with_each(|rt| {
        let event = Arc::new(Event::new());
        let task = waits(rt, &event, |event| event.wait());
        event.close();
        event.close();
        assert_eq!(task.join().unwrap(), Err(WaitError::Closed));
        assert!(event.is_closed() && !event.is_set());
        event.set();
        assert!(!event.is_set() && !event.reset());
        assert_eq!(event.wait_timeout(LONG), Err(WaitError::Closed));
        assert_eq!(block_on(event.wait_async()), Err(WaitError::Closed));

        let set = Event::new();
        set.set();
        set.close();
        assert!(set.is_closed() && set.is_set() && !set.reset());
        assert_eq!(set.wait(), Ok(()));
    });
}

#[test]
fn a_future_is_woken_by_the_waker_of_its_last_poll() {
    let event = Event::new();
    let waits = begun(event.wait_async());
    thread::scope(|s| {
        let waits = s.spawn(|| block_on(waits));
        // Nothing shows from here whether the other thread has polled it yet.
        event.set();
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
    event.reset();
    let set = begun(event.wait_async());
    event.set();
    event.reset();
    assert_eq!(poll_once(set), Poll::Ready(Ok(())), "its set is not lost by the reset");
}

#[test]
fn a_waiter_sees_what_was_written_before_the_set() {
    in_task_with(&[2, 8], |_| {
        for _ in 0..scaled_in_debug(2_000) {
            let (event, data) = (Event::new(), AtomicUsize::new(0));
            crowd(4, |i| {
                if i == 3 {
                    data.store(1, Ordering::Relaxed);
                    event.set();
                }
                event.wait().unwrap();
                assert_eq!(data.load(Ordering::Relaxed), 1);
            });
        }
    });
}
