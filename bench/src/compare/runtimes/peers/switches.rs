//! Coroutines without a scheduler: corosensei, with an inlined switch, and generator, with a
//! switch by call, which may uses too.

use corosensei::{Coroutine, Yielder};
use generator::{Gn, Scope};

use crate::compare::prelude::*;

/// The case that corosensei runs.
pub const COROSENSEI: Table = &[("switch", corosensei)];
/// The case that generator runs.
pub const GENERATOR: Table = &[("switch", generator)];

fn corosensei(setting: &Setting) -> CaseResult {
    Ok(repeated(setting, |n| {
        let mut coroutine = Coroutine::new(|yielder: &Yielder<bool, ()>, mut stop: bool| {
            while !stop {
                stop = yielder.suspend(());
            }
        });
        // The first call of `resume` starts the coroutine.
        coroutine.resume(false);
        let time = half_each(n, || _ = black_box(coroutine.resume(false)));
        coroutine.resume(true);
        time
    }))
}

fn generator(setting: &Setting) -> CaseResult {
    Ok(repeated(setting, |n| {
        let mut generator = Gn::<bool>::new_scoped(
            |mut scope: Scope<'_, '_, bool, ()>| {
                while scope.yield_(()) == Some(false) {}
            },
        );
        generator.resume();
        let time = half_each(n, || generator.send(black_box(false)));
        generator.send(true);
        time
    }))
}

/// The time of `n` switches. A call of `pair` makes two.
fn half_each(n: u64, mut pair: impl FnMut()) -> Duration {
    let pairs = n.div_ceil(2);
    scale(time(pairs, |_| pair()), n, pairs * 2)
}
