//! Cancellation and time: what the tree and the timers cost. As in [`ops`](super::ops), each performs its operation `n`
//! times inside a task, and returns how long that took.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cygnet::{CancelHandle, TaskGroup};

use super::harness::Plan;
use super::ops::Gate;
use super::stats::median;
use crate::clock::cpu_time;

/// Nobody's time comes while it is measured.
const FAR: Duration = Duration::from_secs(100_000);
/// Children of a node of a tree.
const FAN: usize = 10;

/// Loads of a word, one after the other: what a handle is judged by.
pub fn loads(n: u64) -> Duration {
    let word = AtomicU32::new(0);
    let began = Instant::now();
    for _ in 0..n {
        black_box(black_box(&word).load(Ordering::Acquire));
    }
    began.elapsed()
}

/// Whether a task is cancelled, by a handle.
pub fn asks_of_a_handle(n: u64) -> Duration {
    let handle = cygnet::cancel_handle();
    let began = Instant::now();
    for _ in 0..n {
        black_box(black_box(&handle).is_cancelled());
    }
    began.elapsed()
}

/// Whether the calling task is cancelled.
pub fn asks(n: u64) -> Duration {
    let began = Instant::now();
    for _ in 0..n {
        black_box(cygnet::is_cancelled());
    }
    began.elapsed()
}

/// Scopes that are opened and closed, while so many siblings wait.
pub fn scopes(n: u64, siblings: usize) -> Duration {
    let gate = Gate::new(siblings);
    cygnet::scope(|s| {
        for _ in 0..siblings {
            let gate = &gate;
            s.spawn(move || {
                gate.pass();
                let _ = cygnet::park();
            });
        }
        gate.wait();
        let began = Instant::now();
        for _ in 0..n {
            cygnet::scope(|s| {
                black_box(s);
            });
        }
        let time = began.elapsed();
        s.cancel("enough");
        time
    })
}

/// Timeouts around nothing.
pub fn timeouts(n: u64) -> Duration {
    let began = Instant::now();
    for _ in 0..n {
        black_box(cygnet::timeout(FAR, || black_box(1)).ok());
    }
    began.elapsed()
}

/// The same below an earlier one of the same task, where they set no timer.
pub fn timeouts_without_a_timer(n: u64) -> Duration {
    cygnet::timeout(FAR / 2, || timeouts(n)).unwrap_or_else(cygnet::Late::into_inner)
}

/// Calls `measure` while `count` tasks sleep for a long time.
pub fn beside_sleepers<R>(count: usize, measure: impl FnOnce() -> R) -> R {
    let gate = Gate::new(count);
    cygnet::scope(|s| {
        for i in 0..count {
            let gate = &gate;
            s.spawn(move || {
                gate.pass();
                // Spread over the wheel, as the times of a program are.
                let _ = cygnet::sleep(FAR + Duration::from_millis(i as u64));
            });
        }
        gate.wait();
        let result = measure();
        s.cancel("enough");
        result
    })
}

/// Processor time that `count` tasks take to be spawned, to sleep for one to two seconds, and to be joined: of each, in
/// nanoseconds.
#[must_use]
pub fn cpu_of_sleepers(count: usize) -> f64 {
    let before = cpu_time();
    cygnet::scope(|s| {
        for i in 0..count {
            let time = Duration::from_millis(1000 + i as u64 % 1000);
            s.spawn(move || cygnet::sleep(time).is_ok());
        }
    });
    cpu_time().saturating_sub(before).as_nanos() as f64 / count as f64
}

/// A tree of so many groups, [`FAN`] below each.
fn tree(count: usize) -> Vec<TaskGroup> {
    let mut groups = vec![TaskGroup::new()];
    for parent in 0.. {
        for _ in 0..FAN {
            if groups.len() == count {
                return groups;
            }
            groups.push(groups[parent].child());
        }
    }
    unreachable!("the loop returns")
}

/// Cancels a tree of so many groups: how long the call took, and how long it then took to ask each of them.
///
/// # Panics
/// If one of them is not cancelled.
#[must_use]
pub fn cancelled_tree(count: usize) -> (Duration, Duration) {
    let groups = tree(count);
    let cancel = || groups[0].cancel("enough");
    timed(cancel, || assert!(groups.iter().all(TaskGroup::is_cancelled)))
}

/// The same of a tree each of whose groups has a handle, so that the cancel has to go to each.
///
/// # Panics
/// If one of them is not cancelled.
#[must_use]
pub fn cancelled_tree_with_handles(count: usize) -> (Duration, Duration) {
    let groups = tree(count);
    let handles: Vec<_> = groups.iter().map(TaskGroup::cancel_handle).collect();
    let cancel = || groups[0].cancel("enough");
    timed(cancel, || assert!(handles.iter().all(CancelHandle::is_cancelled)))
}

/// Cancels a tree of so many tasks that all wait, ten below each: how long the call took, and how long it then
/// took until all had ended. For one worker: there a task that has passed the gate waits before another runs.
#[must_use]
pub fn cancelled_waiters(count: usize) -> (Duration, Duration) {
    let gate = Gate::new(count);
    let passed = Arc::clone(&gate);
    let root = cygnet::spawn(move || wait_with_kin(0, count, &passed));
    gate.wait();
    let handle = root.cancel_handle();
    timed(|| handle.cancel("enough"), || drop(root.join()))
}

/// The task `index` of a tree of so many: those below it are spawned, then it waits.
fn wait_with_kin(index: usize, count: usize, gate: &Arc<Gate>) {
    let first = index * FAN + 1;
    for child in first..count.min(first + FAN) {
        let gate = Arc::clone(gate);
        cygnet::spawn(move || wait_with_kin(child, count, &gate)).detach();
    }
    gate.pass();
    let _ = cygnet::park();
}

fn timed(first: impl FnOnce(), second: impl FnOnce()) -> (Duration, Duration) {
    let began = Instant::now();
    first();
    let between = Instant::now();
    second();
    (between - began, between.elapsed())
}

/// Medians over some trees of so many nodes: of a node, in nanoseconds.
pub fn of_a_node(
    plan: &Plan,
    count: usize,
    mut cancelled: impl FnMut(usize) -> (Duration, Duration),
) -> (f64, f64) {
    let trees = plan.size(11, 2);
    let (cancelling, asking): (Vec<_>, Vec<_>) = (0..trees)
        .map(|_| cancelled(count))
        .map(|(cancelling, asking)| (cancelling.as_nanos() as f64, asking.as_nanos() as f64))
        .unzip();
    (median(&cancelling) / count as f64, median(&asking) / count as f64)
}
