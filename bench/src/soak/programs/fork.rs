//! Forks, loops and scopes, and panics in them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cygnet::par;

use super::prelude::*;

/// Computes the same tree twice: by forks and by plain calls.
pub(crate) fn joins(p: &mut Program) {
    let (seed, depth) = (p.rng.next(), p.rng.between(2, 9) as u32);
    let sum = p.handle.block_on(|| tree(seed, depth, true));
    assert_eq!(sum, tree(seed, depth, false), "the forks and the plain calls have different sums");
}

fn tree(seed: u64, depth: u32, forks: bool) -> u64 {
    let mut rng = Rng::new(seed);
    if depth == 0 || rng.one_in(9) {
        if forks {
            pause(&mut rng).expect(UNDISTURBED);
        }
        return seed >> 20;
    }
    let (a, b, alone) = (rng.next(), rng.next(), rng.one_in(16));
    let (a, b) = (|| tree(a, depth - 1, forks), move || tree(b, depth - 1, forks));
    let (x, y) = match (forks, alone) {
        (false, _) => (a(), b()),
        (true, false) => cygnet::join(a, b),
        (true, true) => cygnet::join_with(cygnet::Wait::DescendantsOnly, a, b),
    };
    x.wrapping_mul(3).wrapping_add(y).wrapping_add(1)
}

pub(crate) fn loops(p: &mut Program) {
    let count = p.rng.below(4000);
    let mut rng = p.rng.split();
    p.handle.block_on(move || {
        let square = |i: u64| i * i;
        let sum = par::map_reduce(0..count, || 0, square, |a, b| a + b).unwrap();
        assert_eq!(sum, (0..count).map(square).sum::<u64>());
        let squares = par::map_collect(0..count, square).unwrap();
        assert!(squares.iter().enumerate().all(|(i, &s)| s == square(i as u64)));
        let mut numbers: Vec<u64> = (0..count).map(|_| rng.below(1000)).collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        par::sort_unstable(&mut numbers).unwrap();
        assert_eq!(numbers, sorted);
        let wanted = rng.below(count + 10);
        let found = par::find_any(0..count, |&i| i == wanted).unwrap();
        assert_eq!(found, (wanted < count).then_some(wanted));
        let visited = AtomicU64::new(0);
        par::for_each(&mut numbers, |number| {
            *number += 1;
            visited.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(visited.into_inner(), count);
        assert!(numbers.iter().zip(&sorted).all(|(a, b)| *a == b + 1));
    });
}

pub(crate) fn scopes(p: &mut Program) {
    let (tally, seed, depth) = (Tally::default(), p.rng.next(), p.rng.between(1, 4));
    let counted = p.handle.block_on(|| nest(&tally, Rng::new(seed), depth));
    assert_eq!(tally.assert_balanced(), counted, "more or fewer tasks began than were counted");
}

/// Opens a scope with a few tasks that do the same. Returns the number of tasks in all.
fn nest(tally: &Tally, mut rng: Rng, depth: u64) -> u64 {
    let below = AtomicU64::new(0);
    let inside = Tally::default();
    let (counted, present) = (&below, &inside);
    let spawned = cygnet::scope(|s| {
        let children = rng.below(6);
        for _ in 0..children {
            let mut own = rng.split();
            let child = move || {
                let _present = (tally.enter(), present.enter());
                pause(&mut own).expect(UNDISTURBED);
                if depth > 0 && own.one_in(2) {
                    counted.fetch_add(nest(tally, own, depth - 1), Ordering::Relaxed);
                }
            };
            match rng.below(5) {
                0 => drop(cygnet::task().now().spawn_in(s, child)),
                1 => value(s.spawn(child).join()),
                2 => {
                    let size = 1 << rng.between(17, 20);
                    let task = cygnet::task().name("sized").stack_size(size).expect("in bounds");
                    drop(task.spawn_in(s, child));
                }
                3 => drop(cygnet::task().spawn_in(&s.lease(), move || ())),
                _ => drop(s.spawn(child)),
            }
            if rng.one_in(4) {
                pause(&mut rng).expect(UNDISTURBED);
            }
        }
        children
    });
    // Only the tasks with `present` are counted. Some of them were dropped, and may never have
    // begun.
    let own = inside.assert_balanced();
    assert!(own <= spawned, "{own} tasks began, but only {spawned} were spawned");
    own + below.into_inner()
}

pub(crate) fn panics(p: &mut Program) {
    let mut rng = p.rng.split();
    let (tally, leaving) = (Arc::new(Tally::default()), Leaving::new());
    let last = leaving.ticket();
    let count = rng.between(1, 12);
    let bad: Vec<bool> = (0..count).map(|_| rng.one_in(3)).collect();
    let body = |bad: bool, mut rng: Rng, tally: &Tally| {
        let _present = tally.enter();
        pause(&mut rng).expect(UNDISTURBED);
        if bad {
            panic_as_planned();
        }
    };
    p.handle.block_on(|| {
        // In a scope that joins some of the tasks. It panics if a task panicked that was not
        // joined.
        let joined = AtomicU64::new(0);
        let left = catch_unwind(AssertUnwindSafe(|| {
            cygnet::scope(|s| {
                for &bad in &bad {
                    let (own, tally) = (rng.split(), &tally);
                    let task = s.spawn(move || body(bad, own, tally));
                    if rng.one_in(2) {
                        assert_eq!(outcome(task.join()).is_none(), bad);
                        joined.fetch_add(bad.into(), Ordering::Relaxed);
                    }
                }
            });
        }));
        tally.assert_balanced();
        let unjoined = bad.iter().filter(|bad| **bad).count() as u64 - joined.into_inner();
        assert_eq!(left.is_err(), unjoined > 0, "{unjoined} panics were left to the scope");
        if let Err(payload) = left
            && !is_planned(&*payload)
        {
            resume_unwind(payload);
        }
        // As detached tasks, without a taker for their panics.
        for &bad in &bad {
            let (own, tally, ticket) = (rng.split(), Arc::clone(&tally), last.clone());
            let task = cygnet::spawn(move || {
                let _last = ticket;
                body(bad, own, &tally);
            });
            task.detach();
        }
    });
    drop(last);
    leaving.wait();
    assert_eq!(tally.assert_balanced(), 2 * count, "each task must begin and end twice");
}
