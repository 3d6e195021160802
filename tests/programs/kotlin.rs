//! Programs of the users of Kotlin's coroutines.

use super::{Outcome, fetch, run};
use cygnet::sync::bounded;
use cygnet::{Reason, park, scope, shield, spawn, timeout, try_scope};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Two values are computed at once, and added.
#[test]
fn two_values_are_awaited() -> Outcome {
    let sum = run(|| {
        try_scope(|s| {
            let one = s.spawn_try(|| Ok("13".parse::<u32>()?));
            let two = s.spawn_try(|| Ok("29".parse::<u32>()?));
            Ok(one.value()? + two.value()?)
        })
    })?;
    assert_eq!(sum, 42);
    Ok(())
}

/// The best value within a time, or none.
#[test]
fn a_value_comes_in_time_or_not_at_all() -> Outcome {
    let late = run(|| Ok(timeout(Duration::from_millis(2), park).ok()))?;
    assert!(late.is_none());
    let in_time = run(|| Ok(timeout(Duration::from_secs(60), || 7).ok()))?;
    assert_eq!(in_time, Some(7));
    Ok(())
}

/// A child that fails leaves its siblings alone.
#[test]
fn supervised_children_fail_alone() -> Outcome {
    let results = run(|| {
        Ok(scope(|s| {
            let tasks = ["http://a", "b", "http://c"].map(|at| s.spawn(move || fetch(at).is_ok()));
            tasks.map(|task| task.value())
        }))
    })?;
    assert_eq!(results.map(|result| result.ok()), [Some(true), Some(false), Some(true)]);
    Ok(())
}

/// A cancelled task tidies up, and may wait for that.
#[test]
fn a_cancelled_task_tidies_up() -> Outcome {
    static TIDY: AtomicBool = AtomicBool::new(false);
    run(|| {
        let (begun, begins) = bounded(1);
        let job = spawn(move || {
            begun.send(())?;
            let stopped = park();
            let tidied = shield(Duration::from_secs(60), || cygnet::yield_now())?;
            TIDY.store(tidied.is_ok(), Ordering::Relaxed);
            stopped.map_err(Into::into)
        });
        begins.recv()?;
        job.cancel("the screen was left");
        let ended: Outcome = job.value()?;
        let error = ended.expect_err("it was cancelled");
        assert!(error.to_string().contains("the screen was left"));
        Ok(())
    })?;
    assert!(TIDY.load(Ordering::Relaxed));
    Ok(())
}

/// A failure cancels the siblings, which are told why.
#[test]
fn a_failure_cancels_the_siblings() -> Outcome {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let failed = run(|| {
        try_scope(|s| {
            let (begun, begins) = bounded(1);
            s.spawn_try(move || {
                begun.send(())?;
                let told = park().err().map(|cancelled| cancelled.reason().clone());
                TOLD.store(told == Some(Reason::SiblingFailed), Ordering::Relaxed);
                Ok(())
            });
            begins.recv()?;
            let number = s.spawn_try(|| Ok("no number".parse::<u32>()?));
            Ok(number.value()?)
        })
    });
    assert_eq!(failed.expect_err("one is no number").to_string(), "invalid digit found in string");
    assert!(TOLD.load(Ordering::Relaxed));
    Ok(())
}

/// Primes by a chain of filters.
#[test]
fn a_chain_of_filters_finds_primes() -> Outcome {
    let primes = run(|| {
        Ok(scope(|s| {
            let (numbers, mut rest) = bounded(1);
            s.spawn(move || (2..).try_for_each(|n: u32| numbers.send(n)));
            let mut primes = Vec::new();
            while primes.len() < 10 {
                let prime = rest.recv()?;
                primes.push(prime);
                let (to, from) = bounded(1);
                let before = std::mem::replace(&mut rest, from);
                s.spawn(move || {
                    before.iter().filter(|n| n % prime != 0).try_for_each(|n| to.send(n))
                });
            }
            s.cancel("that will do");
            Ok::<_, cygnet::sync::WaitError>(primes)
        })?)
    })?;
    assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    Ok(())
}
