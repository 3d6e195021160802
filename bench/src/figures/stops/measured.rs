//! The cases of a graceful shutdown by a library without workers, on plain threads. cygnet runs
//! the same loops inside a task.

use std::time::Duration;

#[cfg(feature = "futures")]
use super::interrupted_stream_polls;
use super::{
    Guards, Interrupts, TOGETHER, Tree, children, crowded, deep_guards, deep_guards_alone,
    guarded_children, guards, guards_of, guards_on_two_threads, guards_on_two_workers,
    interrupted_polls, interrupted_steps, line, outside, stop_of_a_root,
};
use crate::figures::ops::inside;
use crate::measure::harness::{
    CPU, CaseResult, Measured, Setting, Size, Table, repeated, shared_out,
};

/// Children of a stopped root.
pub const CHILDREN: Size = Size(10_000, 100);
/// Siblings of a scope, and of a child.
pub const SIBLINGS: Size = Size(1_000, 10);

/// The table of a library that has all three traits.
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
            ("guard-deep", |s| looped(s, deep_guards::<S>)),
            ("guard-deep-alone", |s| looped(s, deep_guards_alone::<S>)),
            ("interrupt-future", |s| looped(s, interrupted_polls::<S>)),
            #[cfg(feature = "futures")]
            ("interrupt-stream", |s| looped(s, interrupted_stream_polls::<S>)),
            ("interrupt-iterator", |s| looped(s, interrupted_steps::<S>)),
            ("child", child::<S>),
            ("child-siblings", child_with_siblings::<S>),
            ("child-guard", |s| looped(s, guarded_children::<S>)),
            ("shut-down-10k", shut_down::<S>),
        ]
    }
}

/// Measures an operation on a thread that is not a worker.
///
/// # Errors
/// None. The signature is that of all cases, here and in the rest of the file.
pub fn looped(setting: &Setting, operation: impl FnMut(u64) -> Duration + Send) -> CaseResult {
    Ok(outside(|| repeated(setting, operation)))
}

/// See the case `guard-outside`.
pub fn guard<S: Guards>(setting: &Setting) -> CaseResult {
    looped(setting, guards::<S>)
}

/// See the case `guard-outside-late`.
pub fn late_guard<S: Guards>(setting: &Setting) -> CaseResult {
    let root: S = crowded();
    looped(setting, |n| guards_of(&root, n))
}

/// See the case `guard-two-outside`.
pub fn guards_of_two<S: Guards>(setting: &Setting) -> CaseResult {
    Ok(made_together(setting, |n| guards_on_two_threads(&S::default(), n)))
}

/// See the case `guard-two`.
pub fn guards_of_two_workers<S: Guards>(setting: &Setting) -> CaseResult {
    inside(setting, |setting| made_together(setting, |n| guards_on_two_workers(&S::default(), n)))
}

/// See the case `guard-two-child`.
pub fn guards_of_a_child<S: Guards + Tree>(setting: &Setting) -> CaseResult {
    let line: Vec<S> = line();
    inside(setting, |setting| made_together(setting, |n| guards_on_two_workers(&line[1], n)))
}

/// Measures guards that two contenders make of one shutdown. Returns the cost of one guard of one
/// contender.
fn made_together(setting: &Setting, operation: impl FnMut(u64) -> Duration) -> Measured {
    shared_out(setting, TOGETHER as usize, operation)
}

/// See the case `child`.
pub fn child<T: Tree>(setting: &Setting) -> CaseResult {
    looped(setting, |n| children::<T>(n, 0))
}

/// See the case `child-siblings`.
pub fn child_with_siblings<T: Tree>(setting: &Setting) -> CaseResult {
    looped(setting, |n| children::<T>(n, setting.size(SIBLINGS)))
}

/// See the case `shut-down-10k`.
pub fn shut_down<T: Tree>(setting: &Setting) -> CaseResult {
    Ok(outside(|| stops::<T>(setting, setting.size(CHILDREN))))
}

/// Measures stops of roots with `count` children. The children are made and dropped outside the
/// measured time.
pub fn stops<T: Tree>(setting: &Setting, count: usize) -> Measured {
    let mut measured = repeated(setting, |n| (0..n).map(|_| stop_of_a_root::<T>(count)).sum());
    // Processor time is left out, as it would mostly be spent on making the children.
    measured.values.remove(CPU);
    measured
}
