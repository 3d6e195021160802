//! Sleeping, timeouts, deadlines and shields.

mod ignoring;
mod joins;
mod sleeping;
mod timeouts;

use crate::common::prelude::*;

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(3600);

/// In simulation a step takes ten nanoseconds: computing for three milliseconds takes some hundred
/// thousand steps.
fn short() -> Duration {
    Duration::from_micros(if in_simulation() { 300 } else { 3_000 })
}

fn reason<T>(result: Result<T, cygnet::Cancelled>) -> Reason {
    result.err().expect("it is cancelled").reason().clone()
}

/// Calls `test` with a short time, and with longer ones until it returns true. It returns false if
/// it was late, as other processes may have had the processor.
fn with_enough_time(mut test: impl FnMut(Duration) -> bool) {
    let mut time = short();
    while !test(time) {
        time *= 2;
        assert!(time < LONG, "no time is enough");
    }
}
