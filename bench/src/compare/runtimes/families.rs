//! Tables of families of cases, which differ only by parameters, written once for all runtimes.
//!
//! Each macro in this file takes an expression that can be called with the setting and the
//! parameters in the case's name, and expands to a [`Table`](super::Table).

/// The cases of values that pass through computing stages.
macro_rules! pipelines {
    ($run:expr) => {
        &[
            ("pipeline-500", |s| $run(s, [500; 4])),
            ("pipeline-2000", |s| $run(s, [2_000; 4])),
            ("pipeline-10000", |s| $run(s, [10_000; 4])),
            ("uneven-stages", |s| $run(s, [500, 4_000, 1_000, 2_000])),
        ]
    };
}
pub(super) use pipelines;

/// The cases of a few jobs in a scope, again and again.
macro_rules! phases {
    ($run:expr) => {
        &[
            ("phases-1000", |s| $run(s, 1_000)),
            ("phases-5000", |s| $run(s, 5_000)),
            ("phases-20000", |s| $run(s, 20_000)),
            ("phases-100000", |s| $run(s, 100_000)),
        ]
    };
}
pub(super) use phases;

/// The cases of one task that spawns many.
macro_rules! floods {
    ($run:expr) => {
        &[
            ("flood-500", |s| $run(s, 500)),
            ("flood-1000", |s| $run(s, 1_000)),
            ("flood-2000", |s| $run(s, 2_000)),
            ("flood-4000", |s| $run(s, 4_000)),
            ("flood-10000", |s| $run(s, 10_000)),
        ]
    };
}
pub(super) use floods;

/// The cases of one task that spawns many in a scope.
macro_rules! scope_floods {
    ($run:expr) => {
        &[
            ("scope-flood-500", |s| $run(s, 500)),
            ("scope-flood-1000", |s| $run(s, 1_000)),
            ("scope-flood-2000", |s| $run(s, 2_000)),
            ("scope-flood-4000", |s| $run(s, 4_000)),
            ("scope-flood-10000", |s| $run(s, 10_000)),
        ]
    };
}
pub(super) use scope_floods;

/// The cases of tasks that lock one mutex and compute outside it.
macro_rules! contended_locks {
    ($run:expr) => {
        &[
            ("contended-0", |s| $run(s, 0)),
            ("contended-300", |s| $run(s, 300)),
            ("contended-1000", |s| $run(s, 1_000)),
            ("contended-5000", |s| $run(s, 5_000)),
        ]
    };
}
pub(super) use contended_locks;

/// The cases of messages through a ring.
macro_rules! ring_traffic {
    ($run:expr) => {{
        use $crate::compare::runtimes::rings::Traffic;
        &[
            ("ring-batch-1", |s| $run(s, Traffic::BATCHES_1)),
            ("ring-batch-4", |s| $run(s, Traffic::BATCHES_4)),
            ("ring-1", |s| $run(s, Traffic::SINGLE_1)),
            ("ring-4", |s| $run(s, Traffic::SINGLE_4)),
            ("ring-park-1", |s| $run(s, Traffic::PARKED_1)),
            ("ring-park-4", |s| $run(s, Traffic::PARKED_4)),
        ]
    }};
}
pub(super) use ring_traffic;
