//! Groups, actors, and `all`, `any` and `all_fail_fast`.

use cygnet::{CallError, TaskActor, TaskError, TaskGroup};

use super::prelude::*;

pub(crate) fn group(p: &mut Program) {
    let tally = Arc::new(Tally::default());
    let mut group = TaskGroup::<(), u64>::fallible_detached(&p.handle).expect(ENDS_LATER);
    let fast = p.rng.one_in(2);
    if fast {
        group = group.fail_fast();
    }
    let (count, mut failing) = (p.rng.between(0, 16), 0);
    let child = p.rng.one_in(3).then(|| group.child::<(), u64>());
    for number in 0..count {
        let (tally, mut rng) = (tally.clone(), p.rng.split());
        let fate = rng.below(10);
        failing += u64::from(fate < 2);
        let member = move || {
            let _present = tally.enter();
            drop(pause(&mut rng));
            match fate {
                0 => Err(number),
                1 => panic_as_planned(),
                _ => Ok(()),
            }
        };
        match &child {
            Some(child) if fate > 1 => child.add(member),
            _ => group.add(member),
        }
    }
    let cancelled = p.rng.one_in(4);
    if cancelled {
        Fault::Cancel.count();
        group.cancel("at a random moment");
    }
    if let Some(child) = child {
        drop(child.join());
    }
    match group.join() {
        Ok(()) => {
            assert!(failing == 0 || cancelled, "the group joined, but {failing} members failed")
        }
        Err(TaskError::Failed(number)) => assert!(number < count && failing > 0),
        Err(TaskError::Join(JoinError::Panicked(payload))) => assert!(payload.is::<Planned>()),
        Err(TaskError::Join(error)) => {
            assert!(error.cancelled().is_some() && (cancelled || fast), "{error}");
        }
    }
    tally.assert_balanced();
}

pub(crate) fn actor(p: &mut Program) {
    let (callers, calls) = (p.rng.between(1, 6), p.rng.between(1, 20));
    let done = Arc::new(AtomicU64::new(0));
    let deadly = p.rng.one_in(6);
    let (actor, owner) = {
        let mut rng = p.rng.split();
        p.handle.block_on(move || {
            let (actor, body) = TaskActor::new(0u64);
            let owner = cygnet::spawn_unscoped(move || {
                drop(pause(&mut rng));
                body.run()
            });
            (actor, owner)
        })
    };
    let tasks = p.spawn_each(callers, |_, mut rng| {
        let (actor, done) = (actor.clone(), done.clone());
        move || {
            for _ in 0..calls {
                let (counted, mut own) = (done.clone(), rng.split());
                let mut message = move |sum: &mut u64| {
                    *sum += 1;
                    counted.fetch_add(1, Ordering::Relaxed);
                    drop(pause(&mut own));
                    if deadly && own.one_in(30) {
                        panic_as_planned();
                    }
                    *sum
                };
                if rng.one_in(3) {
                    // This fails if the actor has ended by a panic.
                    let _ = actor.send(move |sum: &mut u64| _ = message(sum));
                } else {
                    match actor.call(message) {
                        Ok(sum) => assert!(sum > 0),
                        Err(CallError::Ended) => assert!(deadly, "the actor ended too early"),
                        Err(error) => assert!(matches!(error, CallError::Cancelled(_))),
                    }
                }
                drop(pause(&mut rng));
            }
        }
    });
    if p.rng.one_in(4) {
        cancel(&tasks[0]);
    }
    tasks.into_iter().for_each(|task| _ = outcome(task.join()));
    stall(&mut p.rng);
    if p.rng.one_in(2) {
        actor.stop();
    }
    drop(actor);
    match outcome(owner.join()) {
        Some(sum) => assert_eq!(sum, done.load(Ordering::Relaxed), "each message must run once"),
        None => assert!(deadly, "the actor was not cancelled"),
    }
}

pub(crate) fn several(p: &mut Program) {
    let tally = Tally::default();
    let count = p.rng.count(1, 10);
    let mut rng = p.rng.split();
    let tally = &tally;
    p.handle.block_on(move || {
        let panics: Vec<bool> = (0..count).map(|_| rng.one_in(5)).collect();
        let squares = cygnet::all(panics.iter().enumerate().map(|(i, &panics)| {
            let mut own = rng.split();
            move || {
                let _present = tally.enter();
                drop(pause(&mut own));
                if panics { panic_as_planned() } else { i * i }
            }
        }));
        for (i, (square, &panics)) in squares.into_iter().zip(&panics).enumerate() {
            assert_eq!(outcome(square), (!panics).then_some(i * i));
        }
        tally.assert_balanced();

        let winner = rng.count(0, count - 1);
        let won = cygnet::any((0..count).map(|i| {
            let mut own = rng.split();
            move || {
                let _present = tally.enter();
                if i == winner {
                    drop(pause(&mut own));
                    return Ok(i);
                }
                match own.below(3) {
                    0 => Err(()),
                    1 => cygnet::sleep(LONG).map(|()| i).map_err(drop),
                    _ => cygnet::park().map(|()| i).map_err(drop),
                }
            }
        }));
        assert!(matches!(won, Ok(i) if i == winner), "the only winner must win");
        tally.assert_balanced();

        let loser = rng.count(0, count * 2);
        let all = cygnet::all_fail_fast((0..count).map(|i| {
            let mut own = rng.split();
            move || {
                let _present = tally.enter();
                let paused = pause(&mut own);
                if i == loser { Err(i) } else { paused.map(|()| i).map_err(|_| usize::MAX) }
            }
        }));
        match all {
            Ok(values) => assert!(loser >= count && values.into_iter().eq(0..count)),
            Err(TaskError::Failed(i)) => assert!(i == loser, "{i} failed instead of {loser}"),
            Err(_) => assert!(loser < count),
        }
        tally.assert_balanced();
        value(cygnet::spawn(|| ()).join());
    });
    thread::yield_now();
}
