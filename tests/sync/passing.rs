//! Those who run take a free `Mutex`, `RwLock` or `Semaphore`, or a value or a place of a channel,
//! past those who wait, and for how long.

use crate::common::{give_way_until, runtime, with, within};
use crate::{until_waiting, waiting};
use cygnet::sync::{Mutex, Receiver, RwLock, Semaphore, Sender, bounded};
use cygnet::{LocalTask, scope, sleep, spawn, spawn_local, yield_now};
use std::fmt::{self, Debug, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

/// What one has who is inside.
trait Held {}

impl<T> Held for T {}

type Guard<'a> = Box<dyn Held + 'a>;

/// What one has alone.
trait Lock: Debug + Send + Sync + 'static {
    fn new() -> Self;

    fn lock(&self) -> Guard<'_>;

    fn try_lock(&self) -> Option<Guard<'_>>;

    fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>>;
}

impl Lock for Mutex<()> {
    fn new() -> Self {
        Mutex::new(())
    }

    fn lock(&self) -> Guard<'_> {
        Box::new(Mutex::lock(self).unwrap())
    }

    fn try_lock(&self) -> Option<Guard<'_>> {
        Mutex::try_lock(self).map(|guard| Box::new(guard) as Guard<'_>)
    }

    fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>> {
        Box::pin(async { Box::new(Mutex::lock_async(self).await) as Guard<'_> })
    }
}

impl Lock for RwLock<()> {
    fn new() -> Self {
        RwLock::new(())
    }

    fn lock(&self) -> Guard<'_> {
        Box::new(self.write().unwrap())
    }

    fn try_lock(&self) -> Option<Guard<'_>> {
        self.try_write().map(|guard| Box::new(guard) as Guard<'_>)
    }

    fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>> {
        Box::pin(async { Box::new(self.write_async().await) as Guard<'_> })
    }
}

impl Lock for Semaphore {
    fn new() -> Self {
        Semaphore::new(1)
    }

    fn lock(&self) -> Guard<'_> {
        Box::new(self.acquire().unwrap())
    }

    fn try_lock(&self) -> Option<Guard<'_>> {
        self.try_acquire().map(|permit| Box::new(permit) as Guard<'_>)
    }

    fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>> {
        Box::pin(async { Box::new(self.acquire_async(1).await.unwrap()) as Guard<'_> })
    }
}

/// A channel with one value, which is what one has.
struct Values {
    back: Sender<()>,
    from: Receiver<()>,
    _other: Receiver<()>,
}

impl Debug for Values {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.from.fmt(f)
    }
}

struct Taken<'a>(&'a Values);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.back.try_send(()).unwrap();
    }
}

impl Lock for Values {
    fn new() -> Self {
        let (back, from) = bounded(1);
        back.try_send(()).unwrap();
        Values { back, _other: from.clone(), from }
    }

    fn lock(&self) -> Guard<'_> {
        self.from.recv().unwrap();
        Box::new(Taken(self))
    }

    fn try_lock(&self) -> Option<Guard<'_>> {
        self.from.try_recv().ok().map(|()| Box::new(Taken(self)) as Guard<'_>)
    }

    fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>> {
        Box::pin(async {
            self.from.recv_async().await.unwrap();
            Box::new(Taken(self)) as Guard<'_>
        })
    }
}

/// A channel with one place, which is what one has.
struct Places {
    to: Sender<()>,
    _other: Sender<()>,
    back: Receiver<()>,
}

impl Debug for Places {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.to.fmt(f)
    }
}

struct Filled<'a>(&'a Places);

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        self.0.back.try_recv().unwrap();
    }
}

impl Lock for Places {
    fn new() -> Self {
        let (to, back) = bounded(1);
        Places { _other: to.clone(), to, back }
    }

    fn lock(&self) -> Guard<'_> {
        self.to.send(()).unwrap();
        Box::new(Filled(self))
    }

    fn try_lock(&self) -> Option<Guard<'_>> {
        self.to.try_send(()).ok().map(|()| Box::new(Filled(self)) as Guard<'_>)
    }

    fn lock_async(&self) -> Pin<Box<dyn Future<Output = Guard<'_>> + '_>> {
        Box::pin(async {
            self.to.send_async(()).await.unwrap();
            Box::new(Filled(self)) as Guard<'_>
        })
    }
}

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
            $(#[test] fn $test() { super::$test::<super::Values>() })*
        }
        mod places {
            $(#[test] fn $test() { super::$test::<super::Places>() })*
        }
    };
}

with_each_lock! {
    who_is_passed_gets_it_in_the_end
    one_that_does_not_answer_its_call_keeps_the_others_waiting_for_a_while_only
    one_that_was_called_gets_it_from_one_that_holds_its_worker
    where_nothing_may_wait_one_that_was_called_is_passed
    one_that_was_called_and_is_cancelled_passes_the_call_on
}

/// One task has it whenever another one runs, and unlocks it for a moment only. The others get it
/// all the same.
fn who_is_passed_gets_it_in_the_end<L: Lock>() {
    with(&[1, 2, 3], |rt| {
        let (lock, been) = (Arc::new(L::new()), Arc::new(AtomicUsize::new(0)));
        let greedy = {
            let (lock, been) = (Arc::clone(&lock), Arc::clone(&been));
            rt.spawn(move || {
                let mut held = lock.lock();
                while been.load(Ordering::Relaxed) < 2 {
                    drop(held);
                    held = lock.lock();
                    yield_now().unwrap();
                }
            })
        };
        let modest = [(); 2].map(|()| {
            let (lock, been) = (Arc::clone(&lock), Arc::clone(&been));
            rt.spawn(move || {
                let _held = lock.lock();
                been.fetch_add(1, Ordering::Relaxed);
            })
        });
        modest.into_iter().for_each(|task| task.join().unwrap());
        greedy.join().unwrap();
    });
}

/// The one that was called computes on, or is a future that nobody polls: those behind it are let
/// in nevertheless.
fn one_that_does_not_answer_its_call_keeps_the_others_waiting_for_a_while_only<L: Lock>() {
    with(&[2], |rt| {
        let (lock, been) = (Arc::new(L::new()), Arc::new(AtomicUsize::new(0)));
        let mut cx = Context::from_waker(Waker::noop());
        let held = lock.try_lock().unwrap();
        let mut sleepy = lock.lock_async();
        assert!(sleepy.as_mut().poll(&mut cx).is_pending());
        let waits = {
            let (lock, been) = (Arc::clone(&lock), Arc::clone(&been));
            rt.spawn(move || {
                let _held = lock.lock();
                been.fetch_add(1, Ordering::Relaxed);
            })
        };
        until_waiting(&*lock, 2);
        drop(held);
        // It goes past the one that was called, and past the queue, so many times and no more.
        let mut passes = 0;
        while let Some(_held) = lock.try_lock()
            && been.load(Ordering::Relaxed) == 0
        {
            passes += 1;
            assert!(passes < 10_000, "the one in the queue is passed for ever");
        }
        waits.join().unwrap();
        assert!(sleepy.as_mut().poll(&mut cx).is_ready());
        drop(sleepy);
        assert_eq!(waiting(&*lock), 0);
        assert!(lock.try_lock().is_some());
    });
}

/// A task of the running task's worker that waits for it, and counts when it has it.
fn waits_here<L: Lock>(lock: &Arc<L>, been: &Arc<AtomicUsize>) -> LocalTask<()> {
    let (mine, been) = (Arc::clone(lock), Arc::clone(been));
    let task = spawn_local(move || {
        let _held = mine.lock();
        been.fetch_add(1, Ordering::Relaxed);
    });
    give_way_until(|| waiting(&**lock) == 1);
    task
}

/// A task that does nothing but lock it has the worker on which the one that was called would run.
fn one_that_was_called_gets_it_from_one_that_holds_its_worker<L: Lock>() {
    let by_task = |lock: &L| drop(lock.lock());
    let by_future = |lock: &L| drop(cygnet::wait(lock.lock_async()).unwrap());
    with(&[1, 2, 3], |rt| {
        rt.block_on(|| {
            for has in [by_task as fn(&L), by_future] {
                let (lock, been) = (Arc::new(L::new()), Arc::new(AtomicUsize::new(0)));
                let held = lock.lock();
                let called = waits_here(&lock, &been);
                drop(held);
                let is_passed = |_: &i32| {
                    has(&lock);
                    been.load(Ordering::Relaxed) == 0
                };
                let passes = (0..10_000).take_while(is_passed).count();
                assert!((1..10_000).contains(&passes), "it is passed for ever");
                called.join().unwrap();
            }
        });
    });
}

/// It is free, and who may not give way takes it, however often others have been passed.
fn where_nothing_may_wait_one_that_was_called_is_passed<L: Lock>() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            let (lock, been) = (Arc::new(L::new()), Arc::new(AtomicUsize::new(0)));
            let held = lock.lock();
            let called = waits_here(&lock, &been);
            drop(held);
            cygnet::no_suspend(|| {
                for _ in 0..2_000 {
                    drop(lock.lock());
                    drop(cygnet::wait(lock.lock_async()).unwrap());
                }
            });
            assert_eq!(been.load(Ordering::Relaxed), 0);
            called.join().unwrap();
        });
    });
}

fn one_that_was_called_and_is_cancelled_passes_the_call_on<L: Lock>() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            let lock = Arc::new(L::new());
            let held = lock.lock();
            let mut called = lock.lock_async();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(called.as_mut().poll(&mut cx).is_pending());
            let next = {
                let lock = Arc::clone(&lock);
                spawn(move || drop(lock.lock()))
            };
            give_way_until(|| waiting(&*lock) == 2);
            drop(held);
            assert_eq!(waiting(&*lock), 1, "the first one is called, and no other");
            drop(called);
            next.join().unwrap();
            assert!(lock.try_lock().is_some());
        });
    });
}

/// There are more of them than can be called at a time, and those that have been called are not
/// polled.
#[test]
fn where_no_more_can_be_called_permits_are_handed_over() {
    let semaphore = Semaphore::new(0);
    let mut cx = Context::from_waker(Waker::noop());
    let mut waits: Vec<_> = (0..40).map(|_| Box::pin(semaphore.acquire_async(1))).collect();
    assert!(waits.iter_mut().all(|wait| wait.as_mut().poll(&mut cx).is_pending()));
    semaphore.add_permits(20);
    assert_eq!(waiting(&semaphore), 20, "there are permits for as many");
    semaphore.add_permits(30);
    assert_eq!(waiting(&semaphore), 0, "there are permits for all");
    assert!(waits.into_iter().rev().all(|mut wait| wait.as_mut().poll(&mut cx).is_ready()));
    assert_eq!(semaphore.available_permits(), 50);
}

#[test]
fn where_no_more_can_be_called_readers_are_let_in() {
    let lock = RwLock::new(());
    let mut cx = Context::from_waker(Waker::noop());
    let writes = lock.try_write().unwrap();
    let mut waits: Vec<_> = (0..40).map(|_| Box::pin(lock.read_async())).collect();
    assert!(waits.iter_mut().all(|wait| wait.as_mut().poll(&mut cx).is_pending()));
    drop(writes);
    assert_eq!(waiting(&lock), 0, "nobody is inside who excludes them");
    assert!(waits.into_iter().rev().all(|mut wait| wait.as_mut().poll(&mut cx).is_ready()));
    assert!(lock.try_write().is_some());
}

/// One permit is for a waiter that was called, does not come, and has been passed often; the other
/// one is free.
#[test]
fn nobody_gives_way_where_there_are_permits_for_both() {
    within(|| {
        let rt = runtime(1);
        rt.block_on(|| {
            let semaphore = Semaphore::new(2);
            let mut cx = Context::from_waker(Waker::noop());
            let (one, two) = (semaphore.acquire().unwrap(), semaphore.acquire().unwrap());
            let mut called = Box::pin(semaphore.acquire_async(1));
            assert!(called.as_mut().poll(&mut cx).is_pending());
            drop(one);
            (0..2_000).for_each(|_| drop(semaphore.try_acquire()));
            drop(two);
            let ends = AtomicBool::new(false);
            scope(|s| {
                // Somebody is ready on this worker all the time.
                s.spawn(|| {
                    while !ends.load(Ordering::Relaxed) {
                        yield_now().unwrap();
                    }
                });
                (0..10).for_each(|_| yield_now().unwrap());
                drop(semaphore.acquire().unwrap());
                ends.store(true, Ordering::Relaxed);
            });
            assert!(called.as_mut().poll(&mut cx).is_ready());
        });
    });
}

/// There is always one inside, so the writer is never called.
#[test]
fn a_writer_is_not_passed_for_long_by_readers_that_overlap() {
    const READ: Duration = Duration::from_millis(5);
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let (lock, ends, reads) =
                (RwLock::new(()), AtomicBool::new(false), AtomicUsize::new(0));
            scope(|s| {
                for i in 0..3 {
                    let (lock, ends, reads) = (&lock, &ends, &reads);
                    s.spawn(move || {
                        sleep(READ / 3 * i).unwrap();
                        while !ends.load(Ordering::Relaxed) {
                            let _inside = lock.read().unwrap();
                            reads.fetch_add(1, Ordering::Relaxed);
                            sleep(READ).unwrap();
                        }
                    });
                }
                sleep(READ * 2).unwrap();
                let before = reads.load(Ordering::Relaxed);
                let written = lock.write().unwrap();
                let passed = reads.load(Ordering::Relaxed) - before;
                ends.store(true, Ordering::Relaxed);
                drop(written);
                assert!(passed < 100, "the writer was passed by {passed} readers");
            });
        });
    });
}
