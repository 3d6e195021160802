//! No runtime: plain calls on one thread, the reference for one worker of the runtimes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Table, stops};
use crate::compare::cases;
use crate::compare::kernels::data::{item, numbers};
use crate::compare::kernels::forks::{item_size, with_forks};
use crate::compare::kernels::{Fork, Serial};
use crate::compare::measure::{ControlJob, Measured, Setting, control_loop, repeated, timed};
use crate::figures::tree;
use std::hint::black_box;

/// The cases that run without a runtime.
pub const TABLE: Table = with_forks!(Serial, plainly;
    ("sum", sum),
    ("items", items),
    ("ask", |s| Ok(repeated(s, tree::loads))),
    ("mutex", |s| Ok(repeated(s, locks))),
    ("interrupt-future", stops::BARE_FUTURE),
    #[cfg(feature = "futures")]
    ("interrupt-stream", stops::BARE_STREAM),
    ("interrupt-iterator", stops::BARE_ITERATOR),
    ("wait-once", computing),
    ("control-loop", |s| control_loop(s, ControlJob::run)),
);

fn plainly(
    setting: &Setting,
    kernel: impl FnOnce(&Setting, &mut <Serial as Fork>::Scope<'_>) -> Measured,
) -> anyhow::Result<Measured> {
    Ok(kernel(setting, &mut ()))
}

/// Locks a std mutex.
fn locks(n: u64) -> Duration {
    let mutex = Mutex::new(0);
    let began = Instant::now();
    for _ in 0..n {
        *black_box(&mutex).lock().expect("no holder panics") += 1;
    }
    began.elapsed()
}

/// A loop over all numbers, without divide and conquer.
fn sum(setting: &Setting) -> anyhow::Result<Measured> {
    let numbers = numbers(setting.size(cases::NUMBERS));
    Ok(timed(setting, || black_box(&numbers).iter().sum()))
}

fn items(setting: &Setting) -> anyhow::Result<Measured> {
    let (count, steps) = item_size(setting);
    Ok(timed(setting, || (0..black_box(count)).map(|at| item(at, steps)).sum()))
}

/// The computation alone.
fn computing(setting: &Setting) -> anyhow::Result<Measured> {
    let (tasks, work) = (setting.size(cases::WAITERS), setting.work(cases::WAITER_WORK));
    Ok(repeated(setting, |n| {
        let began = Instant::now();
        for _ in 0..n {
            for seed in 0..tasks as u64 {
                work.run(seed);
            }
        }
        began.elapsed()
    }))
}
