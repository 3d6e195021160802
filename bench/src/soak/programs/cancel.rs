//! Cancellation at random moments, of tasks in all kinds of waits.

use std::future::pending;

use cygnet::ring::sequence::SequenceBarrier;
use cygnet::sync::{Barrier, Event, Mutex, Receiver, RwLock, Semaphore, Sender, bounded};

use super::prelude::*;

/// Objects of waits that never succeed. Afterwards they must be as if no task had waited.
struct Things {
    mutex: Mutex<()>,
    lock: RwLock<()>,
    semaphore: Semaphore,
    event: Event,
    barrier: Barrier,
    full: (Sender<u64>, Receiver<u64>),
    empty: (Sender<u64>, Receiver<u64>),
    numbers: SequenceBarrier<u64>,
    tally: Tally,
    hooks: AtomicU64,
    told: Arc<AtomicU64>,
}

impl Things {
    fn new() -> Things {
        let full = bounded(1);
        full.0.try_send(7).expect("there is room");
        Things {
            mutex: Mutex::new(()),
            lock: RwLock::new(()),
            semaphore: Semaphore::new(1),
            event: Event::new(),
            barrier: Barrier::new(1 << 20),
            full,
            empty: bounded(0),
            numbers: SequenceBarrier::new(),
            tally: Tally::default(),
            hooks: AtomicU64::new(0),
            told: Arc::default(),
        }
    }

    /// Waits in one of 14 ways until the task is cancelled. Returns whether the wait ended by
    /// cancellation.
    fn wait(&self, rng: &mut Rng) -> bool {
        match rng.below(14) {
            0 => cygnet::park().is_err(),
            1 => cygnet::sleep(LONG).is_err(),
            2 => self.mutex.lock().is_err(),
            3 => self.lock.read().is_err(),
            4 => self.lock.write().is_err(),
            5 => self.semaphore.acquire_many(2).is_err(),
            6 => self.event.wait_timeout(LONG).is_err(),
            7 => self.barrier.wait().is_err(),
            8 => self.full.0.send(8).is_err_and(|error| error.into_inner() == 8),
            9 => self.empty.1.recv().is_err(),
            10 => self.numbers.wait_until_published(3).is_err(),
            11 => cygnet::wait(pending::<()>()).is_err(),
            12 => {
                let first = cygnet::select! {
                    _ = self.event.wait_async() => (),
                    _ = self.empty.1.recv_async() => (),
                    _ = cygnet::sleep_async(LONG) => (),
                };
                first.is_err()
            }
            _ => {
                while cygnet::checkpoint().is_ok() {
                    spin(Duration::from_micros(10));
                    if cygnet::yield_now().is_err() {
                        break;
                    }
                }
                true
            }
        }
    }

    /// Checks the objects when no task waits for them and nothing is held.
    fn assert_untouched(&self) {
        assert!(self.mutex.try_lock().is_some(), "the mutex is still locked");
        assert!(self.lock.try_write().is_some(), "the lock is still held");
        assert_eq!(self.semaphore.available_permits(), 1);
        assert_eq!((self.full.1.try_recv(), self.full.1.len()), (Ok(7), 0));
        assert!(self.empty.1.try_recv().is_err() && self.empty.1.is_empty());
        let (hooks, told) = (self.hooks.load(Ordering::Relaxed), self.told.load(Ordering::Relaxed));
        assert!(told <= hooks, "{hooks} hooks were called {told} times");
    }
}

/// A task that spawns a few tasks like itself and then waits until it is cancelled.
fn grow(things: &Arc<Things>, mut rng: Rng, depth: u64, ticket: &mpsc::Sender<()>) {
    let _present = things.tally.enter();
    let mut handles = Vec::new();
    if depth > 0 {
        for _ in 0..rng.below(5) {
            let (things, own, ticket) = (Arc::clone(things), rng.split(), ticket.clone());
            let task = cygnet::spawn(move || grow(&things, own, depth - 1, &ticket));
            match rng.below(6) {
                0 => {
                    Fault::Drop.count();
                    drop(task);
                }
                1 => task.detach(),
                2 => {
                    cancel(&task);
                    handles.push(task);
                }
                _ => handles.push(task),
            }
        }
    }
    let hook = rng.one_in(3).then(|| {
        things.hooks.fetch_add(1, Ordering::Relaxed);
        let told = Arc::clone(&things.told);
        cygnet::on_cancel(move |_| _ = told.fetch_add(1, Ordering::Relaxed))
    });
    match handles.pop() {
        Some(task) if rng.one_in(6) => _ = outcome(task.join()),
        _ => assert!(things.wait(&mut rng), "a wait ended without a cancellation"),
    }
    drop(hook);
    if rng.one_in(3)
        && let Err(cancelled) = cygnet::checkpoint()
    {
        Fault::Unwind.count();
        cancelled.unwind();
    }
}

pub(crate) fn tree(p: &mut Program) {
    let (things, leaving) = (Arc::new(Things::new()), Leaving::new());
    let held = (things.mutex.lock(), things.lock.write());
    let root = {
        let (things, rng, ticket) = (Arc::clone(&things), p.rng.split(), leaving.ticket());
        let depth = p.rng.between(1, 3);
        p.spawn(move || grow(&things, rng, depth, &ticket))
    };
    match p.rng.below(3) {
        0 => {}
        1 => thread::sleep(p.rng.micros(1500)),
        _ => spin(p.rng.micros(300)),
    }
    let way = p.rng.below(4);
    if way == 0 {
        Fault::Drop.count();
        drop(root);
    } else {
        Fault::Cancel.count();
        let handle = (way < 3).then(|| root.cancel_handle());
        match handle {
            None => root.cancel("enough"),
            Some(handle) if way == 1 => {
                thread::spawn(move || handle.cancel("from a thread")).join().expect("it cancels");
            }
            Some(handle) => p.handle.block_on(move || handle.cancel("from a task")),
        }
        outcome(root.join());
    }
    leaving.wait();
    drop(held);
    things.tally.assert_balanced();
    things.assert_untouched();
}

pub(crate) fn deadlines(p: &mut Program) {
    let tally = Tally::default();
    let mut rng = p.rng.split();
    p.handle.block_on(|| limited(&tally, &mut rng, 2));
    tally.assert_balanced();
}

fn limited(tally: &Tally, rng: &mut Rng, depth: u32) {
    let (before, time) = (tally.begun(), limit(rng, 1500));
    let done = cygnet::timeout(time, || {
        let _present = tally.enter();
        cygnet::scope(|s| {
            for _ in 0..rng.below(5) {
                let mut own = rng.split();
                s.spawn(move || {
                    let _present = tally.enter();
                    match own.below(4) {
                        0 if depth > 0 => limited(tally, &mut own, depth - 1),
                        1 => assert!(cygnet::sleep(LONG).is_err()),
                        2 => assert!(cygnet::park().is_err()),
                        _ => drop(pause(&mut own)),
                    }
                });
            }
            drop(pause(rng));
        });
    });
    // The body's value is there, whether the timeout has passed or not.
    done.unwrap_or_else(cygnet::Late::into_inner);
    assert!(tally.begun() > before);
}

pub(crate) fn shields(p: &mut Program) {
    let count = p.rng.between(1, 6);
    let (tidied, tally) = (Arc::new(AtomicU64::new(0)), Arc::new(Tally::default()));
    let tasks = p.spawn_each(count, |_, mut own| {
        let (tidied, tally) = (tidied.clone(), tally.clone());
        move || {
            let _present = tally.enter();
            if own.one_in(2) {
                let kept = cygnet::ignore_cancellation(|| {
                    cygnet::sleep(own.micros(300)).expect("cancellation is put off");
                    cygnet::yield_now().expect("cancellation is put off");
                });
                // `kept` is an error if the cancellation came first.
                drop(kept);
            }
            assert!(cygnet::park().is_err(), "only cancellation ends the park");
            let child = cygnet::shield(LONG, || {
                cygnet::sleep(own.micros(300)).expect("the shield keeps cancellation out");
                value(cygnet::spawn(|| 1).join())
            });
            tidied.fetch_add(child.expect("the shield's time limit is long"), Ordering::Relaxed);
        }
    });
    thread::sleep(p.rng.micros(800));
    tasks.iter().for_each(cancel);
    let ended = tasks.into_iter().filter_map(|task| outcome(task.join())).count() as u64;
    assert_eq!(tidied.load(Ordering::Relaxed), ended);
    assert_eq!(tally.assert_balanced(), ended, "a task that began did not reach its end");
}
