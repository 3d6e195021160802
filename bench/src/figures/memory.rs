//! Memory that tasks take: resident memory and page tables, as the kernel counts them.

use std::hint::black_box;

use cygnet::{Runtime, Task};

use super::ops::{self, release_many};
use crate::measure::harness::{BYTES, CaseResult, Measured};
use crate::measure::memory::{need, settled, used};

/// Number of tasks that are started before the next ones are spawned.
const CHUNK: usize = 1000;
/// Bytes of stack that a deep task uses.
const DEPTH: usize = 32 << 10;

/// Builds a runtime that has already run tasks, and returns it with the memory in use.
fn start() -> anyhow::Result<(Runtime, f64)> {
    let runtime = ops::runtime(1);
    runtime.block_on(|| release_many(park(CHUNK, || ())));
    let base = settled()?;
    Ok((runtime, base))
}

#[inline(never)]
fn go_deep() {
    black_box([1_u8; DEPTH - 512]);
}

/// Spawns `count` tasks that call `first`, all of which are parked when it returns.
fn park(count: usize, first: impl Fn() + Copy + Send + 'static) -> Vec<Task<()>> {
    let mut tasks = Vec::with_capacity(count);
    while tasks.len() < count {
        let chunk = CHUNK.min(count - tasks.len());
        tasks.append(&mut ops::park_many(chunk, first).1);
    }
    tasks
}

/// The memory in use while `count` tasks are parked that have called `first`.
fn while_parked(
    runtime: &Runtime,
    count: usize,
    first: impl Fn() + Copy + Send + 'static,
) -> anyhow::Result<f64> {
    runtime.block_on(move || {
        let tasks = park(count, first);
        let used = used();
        release_many(tasks);
        used
    })
}

/// Measures the bytes of a parked task, its handle included, and the bytes left when all have
/// ended.
///
/// # Errors
/// There is not enough memory, or the kernel does not report its use.
pub fn parked(count: usize) -> CaseResult {
    need(count * 4600)?;
    let (runtime, base) = start()?;
    let full = while_parked(&runtime, count, || ())?;
    let left = (settled()? - base).max(0.0);
    Ok(Measured::of([(BYTES, full - base)]).each(count).and("left", left))
}

/// Measures the bytes of a parked task with a deeply used stack. Then measures the bytes of a
/// task that parks after all deep tasks have ended and the pools have been trimmed.
///
/// # Errors
/// The same as for [`parked`].
pub fn deep(count: usize) -> CaseResult {
    need(count * (DEPTH + 4600))?;
    let (runtime, base) = start()?;
    let during = while_parked(&runtime, count, go_deep)?;
    settled()?;
    let after = while_parked(&runtime, count, || ())?;
    Ok(Measured::of([("deep", during - base), (BYTES, after - base)]).each(count))
}

/// Measures the bytes of a queued task that captures one word, its handle included.
///
/// # Errors
/// The same as for [`parked`].
pub fn queued(count: usize) -> CaseResult {
    need(count * 400)?;
    let (runtime, base) = start()?;
    let full = runtime.block_on(|| {
        let mut tasks = Vec::with_capacity(count);
        for word in 0..count {
            tasks.push(cygnet::spawn(move || black_box(word)));
        }
        let full = used();
        tasks.into_iter().for_each(|task| drop(task.join()));
        full
    })?;
    Ok(Measured::of([(BYTES, full - base)]).each(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_task_takes_a_page_and_little_more() {
        let bytes = parked(4000).unwrap().values[BYTES];
        assert!((4096.0..16_384.0).contains(&bytes), "{bytes}");
    }
}
