//! `join`: both halves run once each and to their end, whichever worker runs the second, and
//! whatever either of them borrows, throws or waits for.

mod depth;
mod endings;
mod halves;
mod places;

use crate::common::prelude::*;

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}
