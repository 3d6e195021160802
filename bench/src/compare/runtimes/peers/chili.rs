//! chili, which has forks and nothing else.

use std::num::NonZero;

use anyhow::Context;
use chili::{Config, Scope, ThreadPool};

use crate::compare::prelude::*;

/// The cases that chili runs.
pub const TABLE: Table = with_forks!(Chili, inside;
    ("sum", |s| inside(s, forks::sum_of_numbers::<Chili>)),
    ("items", |s| inside(s, forks::items::<Chili>)),
);

/// Forks of jobs: [`Scope::join`].
pub struct Chili;

impl Fork for Chili {
    type Scope<'s> = Scope<'s>;

    #[inline(always)]
    fn join<A, B, RA, RB>(scope: &mut Scope<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut Scope<'_>) -> RA + Send,
        B: FnOnce(&mut Scope<'_>) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        scope.join(a, b)
    }
}

/// Measures on this thread, which is one of the workers.
fn inside(
    setting: &Setting,
    kernel: impl FnOnce(&Setting, &mut Scope<'_>) -> Measured,
) -> CaseResult {
    let thread_count = Some(NonZero::new(setting.workers).context("no workers")?);
    let pool = ThreadPool::with_config(Config { thread_count, ..Config::default() });
    Ok(kernel(setting, &mut pool.scope()))
}
