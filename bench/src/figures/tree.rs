//! The cost of cancellation and timers. As in [`ops`](super::ops), each function performs its
//! operation `n` times inside a task and returns the time taken.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cygnet::{CancelHandle, TaskGroup};

use super::ops::Gate;
use crate::measure::harness::{Measured, Setting, Size, TIME, time};
use crate::measure::machine::cpu_time;
use crate::measure::stats::median;

/// A delay that does not pass during a measurement.
const FAR: Duration = Duration::from_secs(100_000);
/// Children of a node of a tree.
const FAN: usize = 10;

/// Loads of a word, one after the other: the reference for queries by a handle.
pub fn loads(n: u64) -> Duration {
    let word = AtomicU32::new(0);
    time(n, |_| black_box(black_box(&word).load(Ordering::Acquire)))
}

/// Queries by a handle whether a task is cancelled.
pub fn asks_of_a_handle(n: u64) -> Duration {
    let handle = cygnet::cancel_handle();
    time(n, |_| black_box(black_box(&handle).is_cancelled()))
}

/// Queries whether the calling task is cancelled.
pub fn asks(n: u64) -> Duration {
    time(n, |_| black_box(cygnet::is_cancelled()))
}

/// Scopes opened and closed while `siblings` siblings wait.
pub fn scopes(n: u64, siblings: usize) -> Duration {
    let open = |_| cygnet::scope(|s| _ = black_box(s));
    beside(siblings, |_| drop(cygnet::park()), || time(n, open))
}

/// Timeouts around a closure that does nothing.
pub fn timeouts(n: u64) -> Duration {
    time(n, |_| black_box(cygnet::timeout(FAR, || black_box(1)).ok()))
}

/// Timeouts within an earlier timeout of the same task, where they set no timer.
pub fn timeouts_without_a_timer(n: u64) -> Duration {
    cygnet::timeout(FAR / 2, || timeouts(n)).unwrap_or_else(cygnet::Late::into_inner)
}

/// Calls `measure` while `count` tasks sleep for a long time.
pub fn beside_sleepers<R>(count: usize, measure: impl FnOnce() -> R) -> R {
    // Spread over the timer wheel, as the deadlines of a program are.
    let sleep = |i| drop(cygnet::sleep(FAR + Duration::from_millis(i as u64)));
    beside(count, sleep, measure)
}

/// Calls `measure` while `count` tasks wait.
fn beside<R>(count: usize, wait: impl Fn(usize) + Sync, measure: impl FnOnce() -> R) -> R {
    let (gate, wait) = (&Gate::new(count), &wait);
    cygnet::scope(|s| {
        for i in 0..count {
            s.spawn(move || {
                gate.pass();
                wait(i);
            });
        }
        gate.wait();
        let result = measure();
        s.cancel("enough");
        result
    })
}

/// Processor time per task, in nanoseconds, of `count` tasks that are spawned, sleep for one to
/// two seconds, and are joined.
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

/// A tree of `count` nodes, with up to `FAN` children each.
pub fn tree<T>(count: usize, root: T, child: impl Fn(&T) -> T) -> Vec<T> {
    let mut nodes = vec![root];
    for below in 1..count {
        nodes.push(child(&nodes[(below - 1) / FAN]));
    }
    nodes
}

fn groups(count: usize) -> Vec<TaskGroup> {
    tree(count, TaskGroup::new(), TaskGroup::child)
}

/// Cancels a tree of `count` groups. Returns the time of the call, and the time of querying each
/// group afterwards.
///
/// # Panics
/// If a group is not cancelled.
pub fn cancelled_tree(count: usize) -> (Duration, Duration) {
    let groups = groups(count);
    let cancel = || groups[0].cancel("enough");
    in_two(cancel, || assert!(groups.iter().all(TaskGroup::is_cancelled)))
}

/// The same with a handle of every group, so that the cancellation has to visit each group.
///
/// # Panics
/// If a group is not cancelled.
pub fn cancelled_tree_with_handles(count: usize) -> (Duration, Duration) {
    let groups = groups(count);
    let handles: Vec<_> = groups.iter().map(TaskGroup::cancel_handle).collect();
    let cancel = || groups[0].cancel("enough");
    in_two(cancel, || assert!(handles.iter().all(CancelHandle::is_cancelled)))
}

/// Cancels a tree of `count` waiting tasks, with up to ten children each. Returns the time of the
/// call, and the time from its return until all tasks have ended. Needs a runtime of one worker:
/// there, a task that has passed the gate waits before another task runs.
pub fn cancelled_waiters(count: usize) -> (Duration, Duration) {
    let gate = Gate::new(count);
    let passed = Arc::clone(&gate);
    let root = cygnet::spawn(move || wait_with_kin(0, count, &passed));
    gate.wait();
    let handle = root.cancel_handle();
    in_two(|| handle.cancel("enough"), || drop(root.join()))
}

/// The body of task `index` in a tree of `count`: spawns the task's children, then waits.
fn wait_with_kin(index: usize, count: usize, gate: &Arc<Gate>) {
    let first = index * FAN + 1;
    for child in first..count.min(first + FAN) {
        let gate = Arc::clone(gate);
        cygnet::spawn(move || wait_with_kin(child, count, &gate)).detach();
    }
    gate.pass();
    let _ = cygnet::park();
}

/// Measures two calls, one after the other.
pub fn in_two(first: impl FnOnce(), second: impl FnOnce()) -> (Duration, Duration) {
    let began = Instant::now();
    first();
    let between = Instant::now();
    second();
    (between - began, between.elapsed())
}

/// Measures trees of `count` nodes that are cancelled: the time of the cancellation per node, and
/// the time of the step after it.
pub fn of_a_node(
    setting: &Setting,
    count: usize,
    afterwards: &str,
    mut cancelled: impl FnMut(usize) -> (Duration, Duration),
) -> Measured {
    let trees = setting.size(Size(11, 2));
    let (cancelling, after): (Vec<_>, Vec<_>) = (0..trees)
        .map(|_| cancelled(count))
        .map(|(cancelling, after)| (cancelling.as_nanos() as f64, after.as_nanos() as f64))
        .unzip();
    Measured::of([(TIME, median(&cancelling)), (afterwards, median(&after))]).each(count)
}
