//! Locks, permits, barriers, condition variables, used by tasks, plain threads and futures
//! together.

use std::collections::VecDeque;

use cygnet::sync::{Barrier, Condvar, Event, Mutex, RwLock, RwLockWriteGuard, Semaphore};

use super::prelude::*;

/// Cancels some of the tasks, and waits for all of them.
fn disturb(rng: &mut Rng, tasks: Vec<Task<()>>) {
    for task in &tasks {
        if rng.one_in(6) {
            cancel(task);
            thread::sleep(rng.micros(50));
        }
    }
    tasks.into_iter().for_each(|task| _ = outcome(task.join()));
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
    let spawned = p.spawn_each(tasks, |_, mut rng| {
        let (pair, done) = (pair.clone(), done.clone());
        move || {
            for _ in 0..times {
                let (mut after, way) = (rng.split(), rng.below(8));
                let guard = match way {
                    0 => in_time(pair.lock_timeout(limit(&mut rng, 100))),
                    1 => {
                        let Ok(mut guard) = cygnet::wait(pair.lock_async()) else { return };
                        step(&mut guard, &done, &mut || drop(pause(&mut after)));
                        continue;
                    }
                    2 => Ok(pair.try_lock()),
                    _ => pair.lock().map(Some).map_err(WaitError::from),
                };
                let Ok(guard) = guard else { return };
                let Some(mut guard) = guard else { continue };
                step(&mut guard, &done, &mut || drop(pause(&mut after)));
                if way > 2 && rng.one_in(200) {
                    panic_as_planned();
                }
            }
        }
    });
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
    let spawned = p.spawn_each(tasks, |_, mut rng| {
        let (pair, written) = (pair.clone(), written.clone());
        move || {
            for _ in 0..times {
                if rng.one_in(3) {
                    let Ok(mut guard) = pair.write() else { return };
                    guard.0 += 1;
                    drop(pause(&mut rng));
                    guard.1 += 1;
                    written.fetch_add(1, Ordering::Relaxed);
                    if rng.one_in(2) {
                        let guard = RwLockWriteGuard::downgrade(guard);
                        assert_eq!(guard.0, guard.1);
                    }
                    continue;
                }
                let guard = match rng.one_in(3) {
                    true => pair.read_timeout(limit(&mut rng, 200)),
                    false => pair.read().map_err(WaitError::from),
                };
                let Ok(guard) = in_time(guard) else { return };
                let Some(guard) = guard else { continue };
                let seen = guard.0;
                assert_eq!(guard.1, seen, "a reader sees a half-finished write");
                drop(pause(&mut rng));
                assert_eq!((guard.0, guard.1), (seen, seen), "a writer came during the read");
            }
        }
    });
    disturb(&mut p.rng, spawned);
    let written = written.load(Ordering::Relaxed);
    assert_eq!(*pair.try_write().expect("it is free"), (written, written));
}

pub(crate) fn semaphore(p: &mut Program) {
    let permits = p.rng.count(1, 5);
    let (tasks, times) = (p.rng.between(1, 10), p.rng.between(1, 20));
    let semaphore = Arc::new(Semaphore::new(permits));
    let held = Arc::new(AtomicU64::new(0));
    let spawned = p.spawn_each(tasks, |_, mut rng| {
        let (semaphore, held) = (semaphore.clone(), held.clone());
        move || {
            for _ in 0..times {
                let many = rng.count(1, permits);
                let permit = match rng.below(3) {
                    0 => semaphore.acquire_many(many),
                    1 => semaphore.acquire_timeout(many, limit(&mut rng, 200)),
                    _ => match cygnet::wait(semaphore.acquire_async(many)) {
                        Ok(permit) => permit,
                        Err(_) => return,
                    },
                };
                let Ok(permit) = in_time(permit) else { return };
                let Some(permit) = permit else { continue };
                let before = held.fetch_add(many as u64, Ordering::Relaxed);
                assert!(before + many as u64 <= permits as u64, "too many permits");
                drop(pause(&mut rng));
                held.fetch_sub(many as u64, Ordering::Relaxed);
                drop(permit);
            }
        }
    });
    disturb(&mut p.rng, spawned);
    assert_eq!(semaphore.available_permits(), permits, "all permits must come back");
}

pub(crate) fn barrier(p: &mut Program) {
    let (tasks, rounds) = (p.rng.count(1, 8), p.rng.between(1, 10));
    let shared = Arc::new((Barrier::new(tasks + 1), Event::new()));
    let (leaders, arrived) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let pass = move |shared: &(Barrier, Event), round: u64| {
        arrived.fetch_add(1, Ordering::Relaxed);
        if shared.0.wait().expect(UNDISTURBED).is_leader() {
            leaders.fetch_add(1, Ordering::Relaxed);
        }
        let (came, led) = (arrived.load(Ordering::Relaxed), leaders.load(Ordering::Relaxed));
        assert!(came >= (round + 1) * (tasks as u64 + 1), "the barrier opened before all had come");
        assert!(led <= round + 2, "{led} leaders in round {round}");
    };
    let spawned = p.spawn_each(tasks as u64, |_, mut rng| {
        let (shared, pass) = (shared.clone(), pass.clone());
        move || {
            for round in 0..rounds {
                drop(pause(&mut rng));
                pass(&shared, round);
            }
            shared.1.wait().expect("it will be set");
        }
    });
    for round in 0..rounds {
        stall(&mut p.rng);
        pass(&shared, round);
    }
    shared.1.set();
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
    let producing = p.spawn_each(producers, |producer, mut rng| {
        let queue = queue.clone();
        move || {
            let (state, more, less) = &*queue;
            for item in 0..items {
                drop(pause(&mut rng));
                let mut guard = state.lock().expect(UNDISTURBED);
                less.wait_while(&mut guard, |state| state.0.len() >= room).expect(UNDISTURBED);
                guard.0.push_back(producer * 1000 + item);
                drop(guard);
                more.notify_one();
            }
        }
    });
    let takers = p.rng.between(1, 3);
    let taking = p.spawn_each(takers, |_, mut rng| {
        let queue = queue.clone();
        move || take(&queue, &mut rng)
    });
    producing.into_iter().for_each(|task| value(task.join()));
    let sum: u64 = taking.into_iter().map(|task| value(task.join())).sum();
    let of = |producer| items * producer * 1000 + items * (items - 1) / 2;
    assert_eq!(sum, (0..producers).map(of).sum::<u64>());
}

/// Takes items until there are no more to come. Returns their sum.
fn take((state, more, less): &Queue, rng: &mut Rng) -> u64 {
    let mut sum = 0;
    let mut guard = state.lock().expect(UNDISTURBED);
    while guard.1 > 0 {
        if let Some(item) = guard.0.pop_front() {
            guard.1 -= 1;
            sum += item;
            less.notify_one();
        } else if rng.one_in(2) {
            more.wait(&mut guard).expect(UNDISTURBED);
        } else {
            in_time(more.wait_timeout(&mut guard, limit(rng, 500))).expect(UNDISTURBED);
        }
    }
    more.notify_all();
    sum
}
