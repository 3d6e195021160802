//! Sequences, sequencers and rings beside models in plain numbers, which never wrap around. After
//! each random operation, the whole visible state is compared with the model.
//!
//! Nothing waits here: a wait is polled once, and must be pending if the model says so. The fuzz
//! target `sequence_arithmetic` runs the same.

mod multi;
mod range;
mod rings;
mod single;

use crate::choices::Choices;
use cygnet::ring::sequence::Sequence;
use cygnet::sync::WaitError;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A number that wraps around, and the plain one that it stands for.
pub(crate) trait Wrapping: Sequence {
    const BITS: u32;
    fn of(plain: i128) -> Self;
}

macro_rules! wrapping {
    ($($name:ident)*) => {$(
        impl Wrapping for $name {
            const BITS: u32 = $name::BITS;
            fn of(plain: i128) -> $name {
                plain as $name
            }
        }
    )*};
}

wrapping! { u8 u16 u32 u64 usize }

/// Runs the program that the bytes stand for.
pub(crate) fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    match choices.below(5) {
        0 => with::<u8>(&mut choices),
        1 => with::<u16>(&mut choices),
        2 => with::<u64>(&mut choices),
        3 => with::<usize>(&mut choices),
        _ => rings::run(&mut choices),
    }
}

fn with<S: Wrapping>(choices: &mut Choices<'_>) {
    match choices.below(3) {
        0 => range::run::<S>(choices),
        1 => single::run::<S>(choices),
        _ => multi::run::<S>(choices),
    }
}

/// Returns a number near an edge: zero, half of all numbers, or all of them.
fn near_an_edge<S: Wrapping>(choices: &mut Choices<'_>) -> i128 {
    let edge = [0, 1_i128 << (S::BITS - 1), 1 << S::BITS][choices.below(3)];
    edge + choices.below(256) as i128 - 128
}

/// Returns the size of a ring: 1, 2, 4, .. 64, the largest size for numbers of eight bits.
fn size(choices: &mut Choices<'_>) -> usize {
    1 << choices.below(7)
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns what a wait for `target` answers at its first poll when all numbers up to `last` are
/// published. No number follows these if the sequence has `ended`.
fn answer<S: Wrapping>(target: i128, last: i128, ended: bool) -> Poll<Result<S, WaitError>> {
    match target <= last {
        true => Poll::Ready(Ok(S::of(last))),
        false if ended => Poll::Ready(Err(WaitError::Closed)),
        false => Poll::Pending,
    }
}
