//! Tasks: how they begin, where they run, what they borrow and inherit, and how they end. Each
//! module is about one of these.

#[path = "../common/mod.rs"]
mod common;

mod actor;
mod block_on;
mod builder;
mod called_in_place;
mod depth;
mod dropping;
mod early_ends;
mod fairness;
mod held;
mod join;
mod joining;
mod lifecycle;
mod on_workers;
mod own_stacks;
mod pinning;
mod scopes;
mod several;
mod shared;
mod spawn_now;
mod task_locals;
mod thread_scopes;
