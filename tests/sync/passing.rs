//! Running callers take a free `Mutex`, `RwLock` or `Semaphore`, or a value or a place of a
//! channel, past the waiters, but not for ever.

use crate::common::prelude::*;
use crate::{Held, Places, Values};
use cygnet::sync::{Mutex, RwLock, Semaphore};
use std::fmt::Debug;

type Guard<'a> = Box<dyn Held + 'a>;

/// A primitive that has one holder at a time.
trait Lock: Debug + Send + Sync + 'static {
    fn new() -> Self;

    fn lock(&self) -> Guard<'_>;

    fn try_lock(&self) -> Option<Guard<'_>>;

    fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>>;
}

/// Implements `Lock`: how to make it, to lock it, to try to, and to lock it as a future.
macro_rules! lock {
    ($lock:ty, $new:expr, |$me:ident| $wait:expr, $try:expr, $soon:expr) => {
        impl Lock for $lock {
            fn new() -> Self {
                $new
            }

            fn lock(&self) -> Guard<'_> {
                let $me = self;
                Box::new($wait.unwrap())
            }

            fn try_lock(&self) -> Option<Guard<'_>> {
                let $me = self;
                $try.map(|guard| Box::new(guard) as Guard<'_>)
            }

            fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>> {
                let $me = self;
                Box::pin(async { Box::new($soon) as Guard<'_> })
            }
        }
    };
}

lock!(
    Mutex<()>,
    Mutex::new(()),
    |me| Mutex::lock(me),
    Mutex::try_lock(me),
    Mutex::lock_async(me).await
);
lock!(RwLock<()>, RwLock::new(()), |me| me.write(), me.try_write(), me.write_async().await);
lock!(
    Semaphore,
    Semaphore::new(1),
    |me| me.acquire(),
    me.try_acquire(),
    me.acquire_async(1).await.unwrap()
);
lock!(
    Values,
    {
        let values = Values::empty(bounded(1));
        drop(values.taken());
        values
    },
    |me| me.from.recv().map(|()| me.taken()),
    me.from.try_recv().ok().map(|()| me.taken()),
    me.from.recv_async().await.map(|()| me.taken()).unwrap()
);
lock!(
    Places,
    Places::free(),
    |me| me.to.send(()).map(|()| me.filled()),
    me.to.try_send(()).ok().map(|()| me.filled()),
    me.to.send_async(()).await.map(|()| me.filled()).unwrap()
);

/// Gives each test a name for each lock.
macro_rules! with_each_lock {
    ($($test:ident)*) => {
        mod mutex {
            $(#[test] fn $test() { super::$test::<cygnet::sync::Mutex<()>>() })*
        }
        mod rwlock {
            $(#[test] fn $test() { super::$test::<cygnet::sync::RwLock<()>>() })*
        }
        mod semaphore {
            $(#[test] fn $test() { super::$test::<cygnet::sync::Semaphore>() })*
        }
        mod values {
            $(#[test] fn $test() { super::$test::<crate::Values>() })*
        }
        mod places {
            $(#[test] fn $test() { super::$test::<crate::Places>() })*
        }
    };
}

with_each_lock! {
    a_passed_waiter_gets_the_lock_in_the_end
    a_called_waiter_that_does_not_run_delays_the_others_only_briefly
    a_called_waiter_gets_the_lock_from_the_task_that_has_its_worker
    a_caller_that_must_not_suspend_passes_a_called_waiter
}

/// One task holds it whenever another one runs, and unlocks it only for a moment.
fn a_passed_waiter_gets_the_lock_in_the_end<L: Lock>() {
    with(&[1, 2, 3], |rt| {
        let (lock, been) = (Arc::new(L::new()), Count::new());
        let greedy = rt.spawn(own(&lock, move |lock| {
            let mut held = lock.lock();
            while been.get() < 2 {
                drop(held);
                held = lock.lock();
                yield_now().unwrap();
            }
        }));
        let modest = || rt.spawn(visit(&lock, been));
        join_all([modest(), modest(), greedy]);
    });
}

/// The waiter that was called is a future that is not polled. The waiters behind it are let in all
/// the same.
fn a_called_waiter_that_does_not_run_delays_the_others_only_briefly<L: Lock>() {
    with(&[2], |rt| {
        let (lock, been) = (Arc::new(L::new()), Count::new());
        let held = lock.try_lock().unwrap();
        let mut sleepy = begun(lock.lock_async());
        let waits = rt.spawn(visit(&lock, been));
        until_waiting(&lock, 2);
        drop(held);
        // This thread passes the waiter that was called, and the queue, a limited number of times.
        let mut passes = 0;
        while let Some(_held) = lock.try_lock()
            && been.get() == 0
        {
            passes += 1;
            assert!(passes < 10_000, "the waiter in the queue is passed for ever");
        }
        waits.join().unwrap();
        assert!(poll_once(sleepy.as_mut()).is_ready());
        drop(sleepy);
        assert_eq!(waiting(&lock), 0);
        assert!(lock.try_lock().is_some());
    });
}

/// Returns a closure that locks once, and counts that.
fn visit<L: Lock>(lock: &Arc<L>, been: Count) -> impl FnOnce() + Send + use<L> {
    own(lock, move |lock| {
        let _held = lock.lock();
        been.up();
    })
}

/// Spawns a task on the running task's worker that waits for the lock, and counts when it has it.
fn waits_here<L: Lock>(lock: &Arc<L>, been: Count) -> LocalTask<()> {
    let task = spawn_local(visit(lock, been));
    give_way_until(|| waiting(lock) == 1);
    task
}

/// A task that locks all the time has the worker on which the called waiter would run.
fn a_called_waiter_gets_the_lock_from_the_task_that_has_its_worker<L: Lock>() {
    let by_task = |lock: &L| drop(lock.lock());
    let by_future = |lock: &L| drop(cygnet::wait(lock.lock_async()).unwrap());
    in_task_with(&[1, 2, 3], |_| {
        for has in [by_task as fn(&L), by_future] {
            let (lock, been) = (Arc::new(L::new()), Count::new());
            let held = lock.lock();
            let called = waits_here(&lock, been);
            drop(held);
            let is_passed = |_: &i32| {
                has(&lock);
                been.get() == 0
            };
            let passes = (0..10_000).take_while(is_passed).count();
            assert!((1..10_000).contains(&passes), "the waiter is passed for ever");
            called.join().unwrap();
        }
    });
}

/// A task waits alone, and is called. Futures take the place before it, a limited number of times.
#[test]
fn a_called_task_that_waited_alone_gets_a_place_from_the_futures_of_its_worker() {
    in_task_with(&[1], |_| {
        let (to, from) = bounded(1);
        let (to, begun) = (Arc::new(to), Flag::new());
        to.send(()).unwrap();
        let called = spawn_local(own(&to, move |to| (begun.set(), to.send(()).unwrap())));
        give_way_until(|| begun.get());
        let is_passed = |_: &i32| {
            from.try_recv().unwrap();
            poll_once(Box::pin(to.send_async(())).as_mut()).is_ready()
        };
        let passes = (0..10_000).take_while(is_passed).count();
        assert!((1..10_000).contains(&passes), "the waiter is passed for ever");
        called.join().unwrap();
    });
}

/// The lock is free, and a caller that must not give way takes it however often it has passed
/// others.
fn a_caller_that_must_not_suspend_passes_a_called_waiter<L: Lock>() {
    in_task_with(&[1], |_| {
        let (lock, been) = (Arc::new(L::new()), Count::new());
        let held = lock.lock();
        let called = waits_here(&lock, been);
        drop(held);
        cygnet::no_suspend(|| {
            for _ in 0..2_000 {
                drop(lock.lock());
                drop(cygnet::wait(lock.lock_async()).unwrap());
            }
        });
        assert_eq!(been.get(), 0);
        called.join().unwrap();
    });
}

/// More waiters than can be called at a time, and the called ones are not polled.
#[test]
fn permits_are_handed_over_where_no_more_waiters_can_be_called() {
    let semaphore = Semaphore::new(0);
    let waits: Vec<_> = (0..40).map(|_| begun(semaphore.acquire_async(1))).collect();
    semaphore.add_permits(20);
    assert_eq!(waiting(&semaphore), 20, "there are permits for as many");
    semaphore.add_permits(30);
    assert_eq!(waiting(&semaphore), 0, "there are permits for all");
    assert!(waits.into_iter().rev().all(|wait| poll_once(wait).is_ready()));
    assert_eq!(semaphore.available_permits(), 50);
}

#[test]
fn readers_are_let_in_where_no_more_waiters_can_be_called() {
    let lock = RwLock::new(());
    let writes = lock.try_write().unwrap();
    let waits: Vec<_> = (0..40).map(|_| begun(lock.read_async())).collect();
    drop(writes);
    assert_eq!(waiting(&lock), 0, "no writer is inside");
    assert!(waits.into_iter().rev().all(|wait| poll_once(wait).is_ready()));
    assert!(lock.try_write().is_some());
}

/// One permit is kept for a called waiter that does not come and has been passed often. The other
/// one is free.
#[test]
fn a_caller_does_not_give_way_if_there_are_permits_for_both() {
    in_task_with(&[1], |_| {
        let semaphore = Semaphore::new(2);
        let (one, two) = (semaphore.acquire().unwrap(), semaphore.acquire().unwrap());
        let mut called = begun(semaphore.acquire_async(1));
        drop(one);
        (0..2_000).for_each(|_| drop(semaphore.try_acquire()));
        drop(two);
        let ends = Flag::new();
        scope(|s| {
            // This task is ready on the worker all the time.
            s.spawn(|| ends.wait());
            yields(10);
            drop(semaphore.acquire().unwrap());
            ends.set();
        });
        assert!(poll_once(called.as_mut()).is_ready());
    });
}

/// A reader is inside all the time, so the writer is never called.
#[test]
fn overlapping_readers_do_not_pass_a_writer_for_long() {
    const READ: Duration = Duration::from_millis(5);
    in_task_with(&[1, 2], |_| {
        let (lock, ends, reads) = (RwLock::new(()), Flag::new(), Count::new());
        let read = |i| {
            sleep(READ / 3 * i).unwrap();
            while !ends.get() {
                let _inside = lock.read().unwrap();
                reads.up();
                sleep(READ).unwrap();
            }
        };
        scope(|s| {
            (0..3).for_each(|i| drop(s.spawn(move || read(i))));
            sleep(READ * 2).unwrap();
            let before = reads.get();
            let written = lock.write().unwrap();
            let passed = reads.get() - before;
            ends.set();
            drop(written);
            assert!(passed < 100, "the writer was passed by {passed} readers");
        });
    });
}

/// A called sender does not come. Values are handed to a receiver past the sender behind it.
#[test]
fn a_sender_behind_a_called_one_is_passed_a_bounded_number_of_times() {
    in_task_with(&[1], |_| {
        let (to, from) = bounded(1);
        let from = Arc::new(from);
        to.send(0).unwrap();
        let [first, mut second] = [1, 2].map(|value| begun(to.send_async(value)));
        from.try_recv().unwrap(); // calls `first`, which is not polled
        let receiver = spawn_local(own(&from, |from| while from.recv() != Ok(9) {}));
        let is_passed = |_: &i32| {
            give_way_until(|| to.try_send(3).is_ok());
            cygnet::yield_now().unwrap();
            poll_once(second.as_mut()).is_pending()
        };
        assert!((0..50_000).take_while(is_passed).count() < 50_000, "it is passed for ever");
        drop((first, second));
        to.send(9).unwrap();
        receiver.join().unwrap();
    });
}
