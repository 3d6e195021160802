//! Ends: a cancel of many tasks, and the end of a runtime.

use super::{Bench, Size, UNDISTURBED, until};
use crate::world::{Clock, compute, now};
use cygnet::Runtime;
use cygnet::sync::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub fn cancel(on: Bench<'_>) {
    let (each, scopes) = (on.size.items(1_000), on.cores());
    let arrived = Arc::new(AtomicU64::new(0));
    let here = Arc::clone(&arrived);
    let tree = on.rt.spawn(move || {
        let (here, never) = (&here, &Event::new());
        let wait = move || {
            here.fetch_add(1, Ordering::Relaxed);
            never.wait().expect_err("the event is never set");
        };
        cygnet::scope(|s| {
            for _ in 0..scopes {
                s.spawn(move || cygnet::scope(|s| (0..each).for_each(|_| drop(s.spawn(wait)))));
            }
        });
    });
    let items = each * scopes;
    until(|| arrived.load(Ordering::Relaxed) == items);
    on.clock.measure(Duration::ZERO, items, || {
        tree.cancel("measured");
        let _ = tree.join();
    });
}

/// Tasks per core.
const EACH: u64 = 16;
/// No task needs this long.
const GRACE: Duration = Duration::from_secs(3_600);

pub fn stop(rt: Runtime, size: &Size, clock: &Clock) {
    let (items, work) = (size.items(EACH * size.cores as u64), size.work);
    let (swansong, arrived) = (rt.swansong(), Arc::new(AtomicU64::new(0)));
    for _ in 0..items {
        let (guard, stopped) = (swansong.guard(), swansong.shutting_down());
        let here = Arc::clone(&arrived);
        let task = rt.spawn(move || {
            let _guard = guard;
            here.fetch_add(1, Ordering::Relaxed);
            cygnet::wait(stopped).expect(UNDISTURBED);
            compute(work);
        });
        task.detach();
    }
    until(|| arrived.load(Ordering::Relaxed) == items);
    let before = now();
    let report = rt.shutdown(GRACE);
    assert!(report.is_in_time());
    clock.record(now() - before, size.ideal(items), items);
}
