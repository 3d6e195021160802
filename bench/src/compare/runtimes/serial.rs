//! No runtime: plain calls on one thread, the reference for one worker of the runtimes.

use crate::compare::prelude::*;
use crate::figures::stops::measured as stops;
use crate::figures::{tree, waits};

/// The cases that run without a runtime.
pub const TABLE: Table = with_forks!(Serial, plainly;
    ("sum", sum),
    ("items", items),
    ("ask", |s| Ok(repeated(s, tree::loads))),
    ("mutex", |s| Ok(repeated(s, waits::locks_of_std))),
    ("interrupt-future", stops::BARE_FUTURE),
    #[cfg(feature = "futures")]
    ("interrupt-stream", stops::BARE_STREAM),
    ("interrupt-iterator", stops::BARE_ITERATOR),
    ("wait-once", computing),
    ("control-loop", |s| control_loop(s, ControlJob::run)),
);

fn plainly(
    setting: &Setting,
    kernel: impl FnOnce(&Setting, &mut ()) -> Measured,
) -> anyhow::Result<Measured> {
    Ok(kernel(setting, &mut ()))
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
    let compute = |_| {
        for seed in 0..tasks as u64 {
            work.run(seed);
        }
    };
    Ok(repeated(setting, |n| time(n, compute)))
}
