//! Coroutines without a scheduler: corosensei, whose switch is inlined, and generator, whose switch,
//! which is also may's, is a call.

use std::hint::black_box;
use std::time::{Duration, Instant};

use corosensei::{Coroutine, Yielder};
use generator::{Gn, Scope};

use super::Table;
use crate::compare::measure::{Measured, Setting, repeated};

/// What corosensei runs.
pub const COROSENSEI: Table = &[("switch", corosensei)];
/// What generator runs.
pub const GENERATOR: Table = &[("switch", generator)];

fn corosensei(setting: &Setting) -> anyhow::Result<Measured> {
    Ok(repeated(setting, |n| {
        let mut coroutine = Coroutine::new(|yielder: &Yielder<bool, ()>, mut stop: bool| {
            while !stop {
                stop = yielder.suspend(());
            }
        });
        // The first resumption starts it.
        coroutine.resume(false);
        let time = half_each(n, || {
            black_box(coroutine.resume(false));
        });
        coroutine.resume(true);
        time
    }))
}

fn generator(setting: &Setting) -> anyhow::Result<Measured> {
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

/// The time of `n` switches, of which `pair` makes two.
fn half_each(n: u64, mut pair: impl FnMut()) -> Duration {
    let pairs = n.div_ceil(2);
    let began = Instant::now();
    for _ in 0..pairs {
        pair();
    }
    began.elapsed().mul_f64(n as f64 / (pairs * 2) as f64)
}
