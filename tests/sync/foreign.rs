//! Foreign code that the primitives call: wakers that wait, re-enter and panic, and writers of
//! debug output.

use crate::common::prelude::*;
use cygnet::sync::{AsyncMutexGuard, Barrier, Condvar, Mutex, broadcast, watch};
use std::fmt::Write;
use std::task::{RawWaker, RawWakerVTable};

/// Locks `mutex` for no particular task or thread.
fn held<T>(mutex: &Mutex<T>) -> AsyncMutexGuard<'_, T> {
    block_on(mutex.lock_async())
}

#[test]
fn a_waker_called_by_a_condvar_in_a_task_may_notify_but_opens_no_scope() {
    with(&[2], |rt| {
        let pair = Arc::new((Mutex::new(()), Condvar::new()));
        let said = Arc::new(common::Mutex::new(None));
        let mut guard = held(&pair.0);
        let waits =
            |pair: Arc<(Mutex<()>, Condvar)>| pair.1.wait(&mut pair.0.lock().unwrap()).is_ok();
        let task = rt.spawn(own(&pair, waits));
        until_waiting(&pair.0, 1);
        let waker = calling_once(own(&(Arc::clone(&pair), Arc::clone(&said)), |(pair, said)| {
            // On the stack of the task that is about to wait for this notification.
            pair.1.notify_one();
            // A scope would wait for its children in the middle of the task's own wait.
            *said.lock().unwrap() = Some(panic_of(|| scope(|_| ())));
        }));
        let next = begun_by(pair.0.lock_async(), &waker);
        drop(guard);
        eventually("it is called", || said.lock().unwrap().is_some());
        let said = said.lock().unwrap().take().unwrap();
        assert!(said.contains("outside a task"), "{said}");
        drop(next);
        assert!(task.join().unwrap());
        guard = held(&pair.0);
        drop(guard);
    });
}

#[test]
fn a_waker_called_by_a_condvar_on_a_thread_has_its_own_waits() {
    within(|| {
        let pair = Arc::new((Mutex::new(()), Condvar::new()));
        let other = Arc::new(Mutex::new(()));
        let _held = held(&other);
        let (tell, told) = mpsc::channel();
        let guard = held(&pair.0);
        thread::scope(|s| {
            let waits = s.spawn(|| pair.1.wait(&mut pair.0.lock().unwrap()).is_ok());
            until_waiting(&pair.0, 1);
            let waker = calling_once(own(
                &(Arc::clone(&pair), Arc::clone(&other)),
                move |(pair, other)| {
                    pair.1.notify_one();
                    tell.send(other.lock_timeout(Duration::from_millis(5)).err()).unwrap();
                },
            ));
            let next = begun_by(pair.0.lock_async(), &waker);
            drop(guard);
            assert_eq!(told.recv().unwrap(), Some(WaitError::TimedOut), "it is locked");
            drop(next);
            assert!(waits.join().unwrap());
        });
        assert_eq!(waiting(&pair.1), 0);
    });
}

#[test]
fn a_waker_called_by_an_entering_receiver_has_its_own_waits() {
    within(|| {
        let (to, from) = bounded(0);
        let other = Arc::new(Mutex::new(()));
        let _held = held(&other);
        let (tell, told) = mpsc::channel();
        let waker = calling_once(own(&(to.clone(), Arc::clone(&other)), move |(to, other)| {
            // The close ends the very wait that is about to begin.
            to.close();
            tell.send(other.lock_timeout(Duration::from_millis(5)).err()).unwrap();
        }));
        let mut sends = begun_by(to.send_async(1), &waker);
        thread::scope(|s| {
            let receives = s.spawn(|| from.recv());
            assert_eq!(told.recv().unwrap(), Some(WaitError::TimedOut), "it is locked");
            assert_eq!(receives.join().unwrap(), Err(WaitError::Closed));
        });
        assert!(matches!(poll_once(sends.as_mut()), Poll::Ready(Err(_))));
        assert_eq!(waiting(&to), 0);
    });
}

/// Waiters that are woken before the lock is released for others.
const BATCH: usize = 64;

#[test]
fn a_set_in_progress_is_not_turned_into_a_close() {
    let event = Arc::new(Event::new());
    let waker = calling_once(own(&event, |mine| {
        assert!(mine.reset());
        mine.close();
    }));
    let mut waits = vec![begun_by(event.wait_async(), &waker)];
    waits.extend((1..2 * BATCH).map(|_| begun(event.wait_async())));
    event.set();
    for wait in &mut waits {
        assert_eq!(poll_once(wait.as_mut()), Poll::Ready(Ok(())));
    }
    assert_eq!(event.wait(), Err(WaitError::Closed));
}

#[test]
fn a_notification_goes_past_the_waiters_that_are_being_notified() {
    struct Both(Mutex<()>, Condvar);
    static BOTH: Both = Both(Mutex::new(()), Condvar::new());
    let wait = |waker: &Waker| begun_by(BOTH.1.wait_async(held(&BOTH.0)), waker);
    let late = Arc::new(common::Mutex::new(None));
    let waker = calling_once(own(&late, move |late| {
        // This waiter comes last, and is the only one that is not notified yet.
        *late.lock().unwrap() = Some(wait(Waker::noop()));
        BOTH.1.notify_one();
    }));
    let mut waits = vec![wait(&waker)];
    waits.extend((1..2 * BATCH).map(|_| wait(Waker::noop())));
    BOTH.1.notify_all();
    let late = late.lock().unwrap().take().expect("the waker was called");
    assert!(poll_once(late).is_ready());
    waits.iter_mut().for_each(|wait| assert!(poll_once(wait.as_mut()).is_ready()));
    assert!(!BOTH.1.notify_one());
}

#[test]
fn wakers_may_use_the_channel_that_calls_them() {
    within(|| {
        let (to, mut from) = watch(0);
        let waker = calling_once(own(&to, |to| {
            assert_eq!((to.get(), to.receivers()), (1, 1));
            to.send(2);
        }));
        let mut waits = begun_by(from.changed_async(), &waker);
        to.send(1);
        assert_eq!(poll_once(waits.as_mut()), Poll::Ready(Ok(Arc::new(2))));

        let (to, mut from) = broadcast(1);
        let mut other = to.subscribe();
        let waker = calling_once(own(&to, |to| assert_eq!(to.send(2), Ok(2))));
        let mut waits = begun_by(from.recv_async(), &waker);
        assert_eq!(to.send(1), Ok(2));
        assert!(
            matches!(poll_once(waits.as_mut()), Poll::Ready(Err(_))),
            "the second value has driven it out"
        );
        assert_eq!((other.try_recv().is_err(), other.try_recv()), (true, Ok(2)));

        let (to, mut from) = oneshot();
        let to = Arc::new(to);
        let waker = calling_once(own(&to, |to| assert!(to.is_closed() && waiting(&to) == 0)));
        let mut waits = begun_by(to.closed_async(), &waker);
        from.close();
        assert!(poll_once(waits.as_mut()).is_ready());
        drop(waits);
        assert_eq!(Arc::into_inner(to).unwrap().send(1), Err(1));
    });
}

/// More waiters than are called at a time, and a panic in the middle.
#[test]
fn a_waker_that_panics_does_not_keep_others_from_being_called() {
    within(|| {
        let (to, from) = watch(0);
        let mut all: Vec<_> = (0..2 * BATCH).map(|_| from.clone()).collect();
        let mut waits: Vec<_> = all.iter_mut().map(|from| Box::pin(from.changed_async())).collect();
        let called = Arc::new(AtomicBool::new(false));
        for (i, wait) in waits.iter_mut().enumerate() {
            let called = Arc::clone(&called);
            let waker = calling_once(move || match i {
                3 => panic!("in a waker"),
                _ if i == 2 * BATCH - 1 => called.store(true, Ordering::Relaxed),
                _ => {}
            });
            assert!(poll_by(wait, &waker).is_pending());
        }
        to.send(1);
        assert!(called.load(Ordering::Relaxed));
        for wait in &mut waits {
            assert_eq!(poll_once(wait.as_mut()), Poll::Ready(Ok(Arc::new(1))));
        }
    });
}

thread_local!(static PANICS: Cell<bool> = const { Cell::new(false) });

/// A waker that panics when it is dropped, if told so.
fn panics_when_dropped() -> Waker {
    fn raw() -> RawWaker {
        RawWaker::new(std::ptr::null(), &TABLE)
    }
    fn dropped() {
        assert!(!PANICS.get(), "the destructor of a waker");
    }
    static TABLE: RawWakerVTable =
        RawWakerVTable::new(|_| raw(), |_| dropped(), |_| (), |_| dropped());
    // SAFETY: the waker has no data, and the functions of its table may be called on any thread.
    unsafe { Waker::from_raw(raw()) }
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_loses_nothing() {
    within(|| {
        let waker = panics_when_dropped();
        let with_panics = |f: &mut dyn FnMut()| {
            PANICS.set(true);
            let payload = payload_of(f);
            PANICS.set(false);
            assert!(payload.is_none(), "it goes no further");
        };
        let mutex = Mutex::new(());
        let mut locks = Box::pin(mutex.lock_async());
        with_panics(&mut || drop(poll_by(&mut locks, &waker)));
        drop(locks);
        assert!(!mutex.is_locked(), "the lost wait has unlocked it");
        let barrier = Barrier::new(2);
        thread::scope(|s| {
            let other = s.spawn(|| barrier.wait_timeout(LONG).is_ok());
            until_waiting(&barrier, 1);
            let mut last = Box::pin(barrier.wait_async());
            with_panics(&mut || assert!(poll_by(&mut last, &waker).is_ready()));
            assert!(other.join().unwrap());
        });
        let (to, mut from) = broadcast(1);
        to.send(1).unwrap();
        let mut receives = Box::pin(from.recv_async());
        with_panics(&mut || assert_eq!(poll_by(&mut receives, &waker), Poll::Ready(Ok(1))));
        // The waker of an earlier poll.
        let event = Event::new();
        let mut waits = pin!(event.wait_async());
        let mut poll = || waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        assert!(poll());
        with_panics(&mut || assert!(poll()));
    });
}

#[test]
fn a_writer_of_debug_output_may_use_the_mutex() {
    struct Uses<'a>(&'a Mutex<()>, usize);
    impl Write for Uses<'_> {
        fn write_str(&mut self, _: &str) -> std::fmt::Result {
            self.1 += waiting(self.0);
            Ok(())
        }
    }
    with(&[1], |rt| {
        let mutex = Arc::new(Mutex::new(()));
        let guard = held(&mutex);
        let task = waits(rt, &mutex, |mutex| mutex.lock().is_ok());
        let mut uses = Uses(&mutex, 0);
        write!(uses, "{mutex:?}").unwrap();
        assert!(uses.1 > 0);
        drop(guard);
        assert!(task.join().unwrap());
    });
}
