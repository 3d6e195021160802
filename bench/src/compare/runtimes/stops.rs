//! Graceful shutdown by a library without workers: the cases, on plain threads. Each is a loop of
//! [`figures::stops`](crate::figures::stops), which cygnet runs inside a task.

use super::{Run, Table};
use crate::compare::cases;
use crate::compare::measure::{Measured, Setting, repeated, shared_out};
use crate::figures::cases::CPU;
use crate::figures::stops::{
    Guards, Interrupts, Number, TOGETHER, Tree, children, crowded, deep_guards, deep_guards_alone,
    guarded_children, guards, guards_of, guards_on_two_threads, interrupted_polls,
    interrupted_steps, line, outside, polls, steps, stop_of_a_root,
};
#[cfg(feature = "futures")]
use crate::figures::stops::{interrupted_stream_polls, stream_polls};
use std::time::Duration;

/// The table of a library that has all three traits.
#[must_use]
pub const fn table<S: Guards + Tree + Interrupts>() -> Table {
    const {
        &[
            ("guard", guard::<S>),
            ("guard-outside", guard::<S>),
            ("guard-outside-late", late_guard::<S>),
            ("guard-two", guards_of_two::<S>),
            ("guard-two-outside", guards_of_two::<S>),
            ("guard-two-child", |s| {
                let line: Vec<S> = line();
                Ok(made_together(s, |n| guards_on_two_threads(&line[1], n)))
            }),
            ("guard-deep", |s| Ok(looped(s, deep_guards::<S>))),
            ("guard-deep-alone", |s| Ok(looped(s, deep_guards_alone::<S>))),
            ("interrupt-future", |s| Ok(looped(s, interrupted_polls::<S>))),
            #[cfg(feature = "futures")]
            ("interrupt-stream", |s| Ok(looped(s, interrupted_stream_polls::<S>))),
            ("interrupt-iterator", |s| Ok(looped(s, interrupted_steps::<S>))),
            ("child", child::<S>),
            ("child-siblings", child_with_siblings::<S>),
            ("child-guard", |s| Ok(looped(s, guarded_children::<S>))),
            ("shut-down-10k", shut_down::<S>),
        ]
    }
}

/// The reference without a library: polls of the bare future.
pub const BARE_FUTURE: Run = |s| Ok(looped(s, |n| polls(Number::some(), n)));
/// See [`BARE_FUTURE`].
#[cfg(feature = "futures")]
pub const BARE_STREAM: Run = |s| Ok(looped(s, |n| stream_polls(Number::some(), n)));
/// See [`BARE_FUTURE`].
pub const BARE_ITERATOR: Run = |s| Ok(looped(s, |n| steps(Number::some(), n)));

/// Measures an operation of `bench` on a thread that is not a worker.
fn looped(setting: &Setting, operation: impl FnMut(u64) -> Duration + Send) -> Measured {
    outside(|| repeated(setting, operation))
}

/// See the case `guard-outside`.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn guard<S: Guards>(setting: &Setting) -> anyhow::Result<Measured> {
    Ok(looped(setting, guards::<S>))
}

/// See the case `guard-outside-late`.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn late_guard<S: Guards>(setting: &Setting) -> anyhow::Result<Measured> {
    let root: S = crowded();
    Ok(looped(setting, |n| guards_of(&root, n)))
}

/// See the case `guard-two-outside`.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn guards_of_two<S: Guards>(setting: &Setting) -> anyhow::Result<Measured> {
    Ok(made_together(setting, |n| guards_on_two_threads(&S::default(), n)))
}

/// Measures guards that two contenders make of one shutdown. Returns the cost of one guard of one
/// contender.
pub fn made_together(setting: &Setting, operation: impl FnMut(u64) -> Duration) -> Measured {
    shared_out(setting, TOGETHER as usize, operation)
}

/// See the case `child`.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn child<T: Tree>(setting: &Setting) -> anyhow::Result<Measured> {
    Ok(looped(setting, |n| children::<T>(n, 0)))
}

/// See the case `child-siblings`.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn child_with_siblings<T: Tree>(setting: &Setting) -> anyhow::Result<Measured> {
    let siblings = setting.size(cases::SIBLINGS);
    Ok(looped(setting, |n| children::<T>(n, siblings)))
}

/// See the case `shut-down-10k`.
///
/// # Errors
/// None. The signature is that of all cases.
pub fn shut_down<T: Tree>(setting: &Setting) -> anyhow::Result<Measured> {
    Ok(outside(|| stops::<T>(setting)))
}

/// Measures stops of roots with children. The children are made and dropped outside the measured
/// time.
pub fn stops<T: Tree>(setting: &Setting) -> Measured {
    let count = setting.size(cases::CHILDREN);
    let mut measured = repeated(setting, |n| (0..n).map(|_| stop_of_a_root::<T>(count)).sum());
    // Processor time is left out, as it would mostly be spent on making the children.
    measured.values.remove(CPU);
    measured
}
