//! Threads outside the runtime: promises, wake-ups, blocking calls, roots of plain threads.

use std::sync::atomic::AtomicBool;

use cygnet::sync::Event;
use cygnet::{ChildOn, TaskLocal, Unparker};

use super::prelude::*;

pub(crate) fn promises(p: &mut Program) {
    let count = p.rng.below(12);
    let mut rng = p.rng.split();
    p.handle.block_on(move || {
        let mut keepers = Vec::new();
        let mut tasks = Vec::new();
        for number in 0..count {
            let (promise, task) = cygnet::promise();
            let (fate, mut own) = (rng.below(5), rng.split());
            if fate == 0 {
                Fault::Cancel.count();
                task.cancel("no longer needed");
            }
            keepers.push(thread::spawn(move || {
                stall(&mut own);
                if fate == 1 {
                    Fault::Abandoned.count();
                    drop(promise);
                } else {
                    assert_eq!(promise.complete(number).is_err(), fate == 0);
                }
            }));
            if fate == 2 {
                Fault::Drop.count();
                task.detach();
            } else {
                tasks.push((number, fate, task));
            }
        }
        for (number, fate, task) in tasks {
            match (fate, task.join()) {
                (0, Err(error)) => assert!(error.cancelled().is_some(), "{error}"),
                (1, Err(JoinError::Abandoned)) => {}
                (_, result) => assert_eq!(value(result), number),
            }
        }
        for keeper in keepers {
            value(cygnet::spawn_blocking(move || keeper.join().is_ok()).join());
        }
    });
}

pub(crate) fn wakes(p: &mut Program) {
    let (tasks, wakes) = (p.rng.count(1, 6), p.rng.between(1, 30));
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..tasks).map(|_| AtomicU64::new(0)).collect());
    let (tell, told) = mpsc::channel::<(usize, Unparker)>();
    let parked = p.spawn_each(tasks as u64, |number, mut rng| {
        let (words, tell) = (words.clone(), tell.clone());
        move || {
            let number = number as usize;
            tell.send((number, cygnet::unparker())).expect("it is received");
            drop(tell);
            let mut seen = 0;
            while seen < wakes {
                // An earlier unpark has left its permit, so no wake-up is missed.
                cygnet::park().expect(UNDISTURBED);
                let now = words[number].load(Ordering::Acquire);
                assert!((seen..=wakes).contains(&now));
                seen = now;
                drop(pause(&mut rng));
            }
        }
    });
    drop(tell);
    let unparkers: Vec<_> = told.iter().collect();
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        if p.rng.one_in(2) {
            let mut rng = p.rng.split();
            let (unparkers, over) = (&unparkers, &over);
            s.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    Fault::Unpark.count();
                    rng.pick(unparkers).1.unpark();
                    thread::sleep(rng.micros(100));
                }
            });
        }
        for (number, unparker) in &unparkers {
            let (word, mut rng) = (&words[*number], p.rng.split());
            s.spawn(move || {
                for _ in 0..wakes {
                    word.fetch_add(1, Ordering::Release);
                    unparker.unpark();
                    if rng.one_in(6) {
                        stall(&mut rng);
                    }
                }
            });
        }
        parked.into_iter().for_each(|task| value(task.join()));
        over.store(true, Ordering::Relaxed);
    });
    // An unpark after the end of its task does nothing.
    unparkers.iter().for_each(|(_, unparker)| unparker.unpark());
}

pub(crate) fn blocking(p: &mut Program) {
    let (count, done) = (p.rng.between(1, 8), AtomicU64::new(0));
    let (rng, done) = (&mut p.rng, &done);
    p.handle.block_on(move || {
        cygnet::scope(|s| {
            for _ in 0..count {
                let mut own = rng.split();
                s.spawn(move || {
                    let back = cygnet::blocking(|| {
                        stall(&mut own);
                        done.fetch_add(1, Ordering::Relaxed)
                    });
                    assert!(back < count);
                });
            }
        });
        let spawned: Vec<_> = (0..count)
            .map(|number| {
                let mut own = rng.split();
                let task = cygnet::spawn_blocking(move || {
                    stall(&mut own);
                    if number % 3 == 2 { panic_as_planned() } else { number }
                });
                if rng.one_in(5) {
                    Fault::Cancel.count();
                    task.cancel("before it begins, or too late");
                }
                task
            })
            .collect();
        for (number, task) in spawned.into_iter().enumerate() {
            let number = number as u64;
            let back = outcome(task.join());
            assert!(back.is_none_or(|back| back == number && number % 3 != 2));
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), count);
}

pub(crate) fn roots(p: &mut Program) {
    let (count, tally) = (p.rng.between(1, 5), Tally::default());
    thread::scope(|s| {
        for number in 0..count {
            let (handle, other) = (p.handle.clone(), p.other.clone());
            let (mut rng, tally) = (p.rng.split(), &tally);
            s.spawn(move || {
                stall(&mut rng);
                let bad = rng.one_in(5);
                let (mut own, there) = (rng.split(), rng.one_in(3));
                let root = handle.try_block_on(move || {
                    let _present = tally.enter();
                    drop(pause(&mut own));
                    if bad {
                        panic_as_planned();
                    }
                    if there {
                        let child = cygnet::task().spawn_in(ChildOn(&other), move || number * 2);
                        return value(child.expect(ENDS_LATER).join());
                    }
                    // A root inside a root: on the other runtime.
                    other.block_on(|| number * 2)
                });
                match root {
                    Ok(back) => assert!(!bad && back == number * 2),
                    Err(JoinError::Panicked(payload)) => assert!(bad && payload.is::<Planned>()),
                    Err(error) => panic!("an uncancelled root ended with an error: {error}"),
                }
            });
        }
    });
    assert_eq!(tally.assert_balanced(), count);
}

static INHERITED: TaskLocal<u64> = TaskLocal::new();

pub(crate) fn detached(p: &mut Program) {
    let (count, leaving) = (p.rng.between(1, 20), Leaving::new());
    let last = leaving.ticket();
    let sum = Arc::new(AtomicU64::new(0));
    let all_there = Arc::new(Event::new());
    let mark = p.rng.next() >> 32;
    p.handle.block_on(|| {
        INHERITED.scope(mark, || {
            for _ in 0..count {
                let (sum, event, mut rng) = (sum.clone(), all_there.clone(), p.rng.split());
                let ticket = last.clone();
                let task = if rng.one_in(2) { cygnet::spawn } else { cygnet::spawn_now };
                let body: Box<dyn FnOnce() + Send> = Box::new(move || {
                    let _last = ticket;
                    drop(pause(&mut rng));
                    event.wait().expect("it will be set");
                    INHERITED.with(|value| sum.fetch_add(*value.expect("set"), Ordering::Relaxed));
                });
                task(body).detach();
            }
            cygnet::yield_now().expect(UNDISTURBED);
            all_there.set();
        });
    });
    drop(last);
    leaving.wait();
    let sum = sum.load(Ordering::Relaxed);
    assert_eq!(sum, count * mark, "each task must run once, with the inherited value");
}
