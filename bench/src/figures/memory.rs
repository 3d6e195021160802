//! Memory that tasks take: resident memory and page tables, as the kernel counts them.

use std::fs;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use cygnet::{Runtime, Task};

use super::cases::Values;
use super::ops;
use std::sync::Arc;

/// Number of tasks that are started before the next ones are spawned.
const CHUNK: usize = 1000;
/// Bytes of stack that a deep task uses.
const DEPTH: usize = 32 << 10;

/// Resident memory and page tables of the process, in bytes.
pub(crate) fn used() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc")?;
    Ok((field(&status, "VmRSS:")? + field(&status, "VmPTE:")?) * 1024.0)
}

/// Finds the number after a name, in KiB, in a file of such lines.
fn field(text: &str, name: &str) -> anyhow::Result<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("the kernel does not report {name}"))
}

/// Fails if the machine does not have `bytes` of available memory, with a margin.
pub(crate) fn need(bytes: usize) -> anyhow::Result<()> {
    let info = fs::read_to_string("/proc/meminfo").context("cannot read /proc")?;
    let available = field(&info, "MemAvailable:")? * 1024.0;
    ensure!(
        (bytes as f64) < available * 0.9,
        "needs {:.1} GiB of memory",
        bytes as f64 / f64::from(1 << 30)
    );
    Ok(())
}

/// Returns the memory in use when it has stopped changing, after five seconds at most.
pub(crate) fn settled() -> anyhow::Result<f64> {
    let mut before = used()?;
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(50));
        let now = used()?;
        if now == before {
            break;
        }
        before = now;
    }
    Ok(before)
}

/// Builds a runtime that has already run tasks, and returns it with the memory in use.
fn start() -> anyhow::Result<(Runtime, f64)> {
    let runtime = ops::runtime(1);
    runtime.block_on(|| end(park(CHUNK, false)));
    let base = settled()?;
    Ok((runtime, base))
}

#[inline(never)]
fn go_deep() {
    black_box([1_u8; DEPTH - 512]);
}

/// Spawns `count` tasks, all of which are parked when it returns.
fn park(count: usize, deep: bool) -> Vec<Task<()>> {
    let mut tasks = Vec::with_capacity(count);
    while tasks.len() < count {
        let chunk = CHUNK.min(count - tasks.len());
        let gate = ops::Gate::new(chunk);
        for _ in 0..chunk {
            let gate = Arc::clone(&gate);
            tasks.push(cygnet::spawn(move || {
                if deep {
                    go_deep();
                }
                gate.pass();
                drop(gate);
                // The drop of the handle ends the task.
                let _ = cygnet::park();
            }));
        }
        gate.wait();
    }
    tasks
}

/// Ends parked tasks.
fn end(tasks: Vec<Task<()>>) {
    drop(tasks);
    let _ = cygnet::yield_now();
}

/// Measures the bytes of a parked task, its handle included, and the bytes left when all have
/// ended.
///
/// # Errors
/// There is not enough memory, or the kernel does not report its use.
pub fn parked(count: usize) -> anyhow::Result<Values> {
    need(count * 4600)?;
    let (runtime, base) = start()?;
    let full = runtime.block_on(|| {
        let tasks = park(count, false);
        let full = used();
        end(tasks);
        full
    })?;
    let after = settled()?;
    Ok(Values::from([
        ("bytes".to_owned(), (full - base) / count as f64),
        ("left".to_owned(), (after - base).max(0.0)),
    ]))
}

/// Measures the bytes of a parked task with a deeply used stack. Then measures the bytes of a
/// task that parks after all deep tasks have ended and the pools have been trimmed.
///
/// # Errors
/// The same as for [`parked`].
pub fn deep(count: usize) -> anyhow::Result<Values> {
    need(count * (DEPTH + 4600))?;
    let (runtime, base) = start()?;
    let during = runtime.block_on(|| {
        let tasks = park(count, true);
        let during = used();
        end(tasks);
        during
    })?;
    settled()?;
    let after = runtime.block_on(|| {
        let tasks = park(count, false);
        let after = used();
        end(tasks);
        after
    })?;
    Ok(Values::from([
        ("deep".to_owned(), (during - base) / count as f64),
        ("bytes".to_owned(), (after - base) / count as f64),
    ]))
}

/// Measures the bytes of a queued task that captures one word, its handle included.
///
/// # Errors
/// The same as for [`parked`].
pub fn queued(count: usize) -> anyhow::Result<Values> {
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
    Ok(Values::from([("bytes".to_owned(), (full - base) / count as f64)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "VmRSSx:\t1 kB\nVmRSS:\t  42 kB\n";
        assert_eq!(field(text, "VmRSS:").unwrap(), 42.0);
        assert!(field(text, "VmPTE:").is_err());
    }

    #[test]
    fn a_parked_task_takes_a_page_and_little_more() {
        let values = parked(4000).unwrap();
        let bytes = values["bytes"];
        assert!((4096.0..16_384.0).contains(&bytes), "{bytes}");
    }

    #[test]
    fn too_much_memory_is_refused_in_a_sentence() {
        assert!(need(1 << 60).unwrap_err().to_string().contains("GiB"));
    }
}
