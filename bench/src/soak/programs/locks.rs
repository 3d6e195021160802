//! Locks, permits, barriers, condition variables, used by tasks, plain threads and futures
//! together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use cygnet::Task;
use cygnet::sync::{Barrier, Condvar, Event, Mutex, RwLock, Semaphore, WaitError};

use super::Program;
use super::aids::{outcome, pause, stall, value};
use crate::soak::faults::{Fault, panic_as_planned};
use crate::soak::rng::Rng;

/// Cancels some of the tasks, and returns the results of all.
fn disturb<T>(rng: &mut Rng, tasks: Vec<Task<T>>) -> Vec<Option<T>> {
    for task in &tasks {
        if rng.one_in(6) {
            Fault::Cancel.count();
            task.cancel("at a random moment");
            thread::sleep(rng.micros(50));
        }
    }
    tasks.into_iter().map(|task| outcome(task.join())).collect()
}

pub(crate) fn mutex(p: &mut Program) {
    let (tasks, times) = (p.rng.between(1, 8), p.rng.between(1, 40));
    let (pair, done) = (Arc::new(Mutex::new((0, 0))), Arc::new(AtomicU64::new(0)));
    let step = |pair: &mut (u64, u64), done: &AtomicU64, between: &mut dyn FnMut()| {
        assert_eq!(pair.0, pair.1, "the lock must be exclusive");
        pair.0 += 1;
        done.fetch_add(1, Ordering::Relaxed);
        between();
        pair.1 += 1;
    };
    let spawned = (0..tasks).map(|_| {
        let (pair, done, mut rng) = (pair.clone(), done.clone(), p.rng.split());
        p.spawn(move || {
            for _ in 0..times {
                let mut after = rng.split();
                let mut between = || drop(pause(&mut after));
                match rng.below(8) {
                    0 => {
                        Fault::Timeout.count();
                        match pair.lock_timeout(rng.micros(100)) {
                            Ok(mut guard) => step(&mut guard, &done, &mut between),
                            Err(WaitError::TimedOut) => {}
                            Err(_) => return,
                        }
                    }
                    1 => {
                        let Ok(mut guard) = cygnet::wait(pair.lock_async()) else { return };
                        step(&mut guard, &done, &mut between);
                    }
                    2 => {
                        let Some(mut guard) = pair.try_lock() else { continue };
                        step(&mut guard, &done, &mut between);
                    }
                    _ => {
                        let Ok(mut guard) = pair.lock() else { return };
                        step(&mut guard, &done, &mut between);
                        if rng.one_in(200) {
                            panic_as_planned();
                        }
                    }
                }
            }
        })
    });
    let spawned: Vec<_> = spawned.collect();
    thread::scope(|s| {
        for _ in 0..p.rng.below(3) {
            let mut rng = p.rng.split();
            let (pair, done) = (&pair, &done);
            s.spawn(move || {
                for _ in 0..times / 2 {
                    let mut guard = pair.lock().expect("a thread is not cancelled");
                    step(&mut guard, done, &mut || stall(&mut rng.clone()));
                    drop(guard);
                    rng.next();
                }
            });
        }
        disturb(&mut p.rng, spawned);
    });
    let done = done.load(Ordering::Relaxed);
    assert_eq!(*pair.try_lock().expect("it is free"), (done, done));
}

pub(crate) fn rwlock(p: &mut Program) {
    let (tasks, times) = (p.rng.between(2, 8), p.rng.between(1, 30));
    let pair = Arc::new(RwLock::new((0u64, 0u64)));
    let written = Arc::new(AtomicU64::new(0));
    let spawned: Vec<_> = (0..tasks)
        .map(|_| {
            let (pair, written, mut rng) = (pair.clone(), written.clone(), p.rng.split());
            p.spawn(move || {
                for _ in 0..times {
                    if rng.one_in(3) {
                        let Ok(mut guard) = pair.write() else { return };
                        guard.0 += 1;
                        drop(pause(&mut rng));
                        guard.1 += 1;
                        written.fetch_add(1, Ordering::Relaxed);
                        if rng.one_in(2) {
                            let guard = cygnet::sync::RwLockWriteGuard::downgrade(guard);
                            assert_eq!(guard.0, guard.1);
                        }
                    } else {
                        Fault::Timeout.count();
                        let guard = if rng.one_in(3) {
                            pair.read_timeout(rng.micros(200))
                        } else {
                            pair.read().map_err(WaitError::from)
                        };
                        match guard {
                            Ok(guard) => {
                                let seen = guard.0;
                                assert_eq!(guard.1, seen, "a reader sees a half-finished write");
                                drop(pause(&mut rng));
                                assert_eq!(
                                    (guard.0, guard.1),
                                    (seen, seen),
                                    "a writer came during the read"
                                );
                            }
                            Err(WaitError::TimedOut) => {}
                            Err(_) => return,
                        }
                    }
                }
            })
        })
        .collect();
    disturb(&mut p.rng, spawned);
    let written = written.load(Ordering::Relaxed);
    assert_eq!(*pair.try_write().expect("it is free"), (written, written));
}

pub(crate) fn semaphore(p: &mut Program) {
    let permits = p.rng.count(1, 5);
    let (tasks, times) = (p.rng.between(1, 10), p.rng.between(1, 20));
    let semaphore = Arc::new(Semaphore::new(permits));
    let held = Arc::new(AtomicU64::new(0));
    let spawned: Vec<_> = (0..tasks)
        .map(|_| {
            let (semaphore, held, mut rng) = (semaphore.clone(), held.clone(), p.rng.split());
            p.spawn(move || {
                for _ in 0..times {
                    let many = rng.count(1, permits);
                    let permit = match rng.below(3) {
                        0 => semaphore.acquire_many(many),
                        1 => {
                            Fault::Timeout.count();
                            semaphore.acquire_timeout(many, rng.micros(200))
                        }
                        _ => match cygnet::wait(semaphore.acquire_async(many)) {
                            Ok(permit) => permit,
                            Err(_) => return,
                        },
                    };
                    match permit {
                        Ok(permit) => {
                            let before = held.fetch_add(many as u64, Ordering::Relaxed);
                            assert!(before + many as u64 <= permits as u64, "too many permits");
                            drop(pause(&mut rng));
                            held.fetch_sub(many as u64, Ordering::Relaxed);
                            drop(permit);
                        }
                        Err(WaitError::TimedOut) => {}
                        Err(_) => return,
                    }
                }
            })
        })
        .collect();
    disturb(&mut p.rng, spawned);
    assert_eq!(semaphore.available_permits(), permits, "all permits must come back");
}

pub(crate) fn barrier(p: &mut Program) {
    let (tasks, rounds) = (p.rng.count(1, 8), p.rng.between(1, 10));
    let shared = Arc::new((Barrier::new(tasks + 1), AtomicU64::new(0), Event::new()));
    let (leaders, arrived) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let arrived = Arc::new(arrived);
    let pass = move |shared: &(Barrier, AtomicU64, Event), round: u64| {
        arrived.fetch_add(1, Ordering::Relaxed);
        if shared.0.wait().expect("it is never cancelled").is_leader() {
            leaders.fetch_add(1, Ordering::Relaxed);
        }
        let (came, led) = (arrived.load(Ordering::Relaxed), leaders.load(Ordering::Relaxed));
        assert!(came >= (round + 1) * (tasks as u64 + 1), "the barrier opened before all had come");
        assert!(led <= round + 2, "{led} leaders in round {round}");
        (came, led)
    };
    let spawned: Vec<_> = (0..tasks)
        .map(|_| {
            let (shared, pass, mut rng) = (shared.clone(), pass.clone(), p.rng.split());
            p.spawn(move || {
                for round in 0..rounds {
                    drop(pause(&mut rng));
                    pass(&shared, round);
                }
                shared.2.wait().expect("it will be set");
            })
        })
        .collect();
    for round in 0..rounds {
        stall(&mut p.rng);
        pass(&shared, round);
    }
    shared.2.set();
    spawned.into_iter().for_each(|task| value(task.join()));
}

/// A queue with a lock and two condition variables: the items, and the number still to be taken.
type Queue = (Mutex<(VecDeque<u64>, u64)>, Condvar, Condvar);

pub(crate) fn condvar(p: &mut Program) {
    let (producers, items) = (p.rng.between(1, 4), p.rng.between(1, 40));
    let room = p.rng.count(1, 4);
    let queue: Queue = (Mutex::default(), Condvar::new(), Condvar::new());
    queue.0.try_lock().expect("it is free").1 = producers * items;
    let queue = Arc::new(queue);
    let producing: Vec<_> = (0..producers)
        .map(|producer| {
            let (queue, mut rng) = (queue.clone(), p.rng.split());
            p.spawn(move || {
                let (state, more, less) = &*queue;
                for item in 0..items {
                    drop(pause(&mut rng));
                    let mut guard = state.lock().expect("it is never cancelled");
                    less.wait_while(&mut guard, |state| state.0.len() >= room)
                        .expect("it is never cancelled");
                    guard.0.push_back(producer * 1000 + item);
                    drop(guard);
                    more.notify_one();
                }
            })
        })
        .collect();
    let taking: Vec<_> = (0..p.rng.between(1, 3))
        .map(|_| {
            let (queue, mut rng) = (queue.clone(), p.rng.split());
            p.spawn(move || take(&queue, &mut rng))
        })
        .collect();
    producing.into_iter().for_each(|task| value(task.join()));
    let sum: u64 = taking.into_iter().map(|task| value(task.join())).sum();
    let of = |producer| items * producer * 1000 + items * (items - 1) / 2;
    assert_eq!(sum, (0..producers).map(of).sum::<u64>());
}

/// Takes items until there are no more to come. Returns their sum.
fn take((state, more, less): &Queue, rng: &mut Rng) -> u64 {
    let mut sum = 0;
    let mut guard = state.lock().expect("it is never cancelled");
    while guard.1 > 0 {
        if let Some(item) = guard.0.pop_front() {
            guard.1 -= 1;
            sum += item;
            less.notify_one();
        } else if rng.one_in(2) {
            more.wait(&mut guard).expect("it is never cancelled");
        } else {
            Fault::Timeout.count();
            let wait = more.wait_timeout(&mut guard, rng.micros(500));
            assert!(matches!(wait, Ok(()) | Err(WaitError::TimedOut)), "{wait:?}");
        }
    }
    more.notify_all();
    sum
}
