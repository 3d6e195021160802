//! No runtime: plain calls on one thread, the reference for one worker of the runtimes.

use crate::compare::prelude::*;
use crate::figures::stops::{self, Number, measured};
use crate::figures::{tree, waits};

/// The cases that run without a runtime.
pub const TABLE: Table = with_forks!(Serial, plainly;
    ("sum", sum),
    ("items", items),
    ("ask", |s| Ok(repeated(s, tree::loads))),
    ("mutex", |s| Ok(repeated(s, waits::locks_of_std))),
    ("interrupt-future", |s| measured::looped(s, |n| stops::polls(Number::some(), n))),
    #[cfg(feature = "futures")]
    ("interrupt-stream", |s| measured::looped(s, |n| stops::stream_polls(Number::some(), n))),
    ("interrupt-iterator", |s| measured::looped(s, |n| stops::steps(Number::some(), n))),
    ("wait-once", computing),
    ("control-loop", |s| control_loop(s, ControlJob::run)),
);

fn plainly(setting: &Setting, kernel: impl FnOnce(&Setting, &mut ()) -> Measured) -> CaseResult {
    Ok(kernel(setting, &mut ()))
}

/// A loop over all numbers, without divide and conquer.
fn sum(setting: &Setting) -> CaseResult {
    let numbers = numbers(setting.size(cases::NUMBERS));
    Ok(timed(setting, || black_box(&numbers).iter().sum()))
}

fn items(setting: &Setting) -> CaseResult {
    let (count, steps) = item_size(setting);
    Ok(timed(setting, || (0..black_box(count)).map(|at| item(at, steps)).sum()))
}

/// The computation alone.
fn computing(setting: &Setting) -> CaseResult {
    let (tasks, work) = (setting.size(cases::WAITERS), setting.work(cases::WAITER_WORK));
    let compute = |_| (0..tasks as u64).for_each(|seed| _ = work.run(seed));
    Ok(repeated(setting, |n| time(n, compute)))
}
