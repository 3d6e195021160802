//! Shared by the integration tests: a watchdog, tests in simulation, numbers that shrink where the
//! machine is slow, tests in processes of their own, and the process as the system sees it.
//!
//! A test starts threads, waits and reads the clock by `thread`, `mpsc`, `Barrier`, `Mutex` and
//! `now` of this module. They are the real ones, and in simulation the simulated ones.

#![allow(dead_code, unused_imports)] // no program of tests uses all of it

pub(crate) mod calls;
pub(crate) mod choices;
pub(crate) mod corpus;
pub(crate) mod drops;
pub(crate) mod foreign;
pub(crate) mod prelude;
pub(crate) mod proc;
pub(crate) mod random;
pub(crate) mod rerun;
pub(crate) mod shared;
#[cfg(feature = "sim")]
pub(crate) mod simulated;
pub(crate) mod waiters;
pub(crate) mod watchdog;

pub(crate) use calls::Calls;
pub(crate) use drops::Drops;
pub(crate) use foreign::{
    Bomb, OnDrop, calling, calling_at_drop, calling_once, poll_by, while_unwinding,
};
pub(crate) use random::{Random, orders};
pub(crate) use shared::{Count, Flag};
pub(crate) use waiters::{
    LONG, MOMENT, begun, begun_by, block_on, own, parked, parking, poll_once, queued, sleeper,
    until_waiting, waiting, waits,
};

#[cfg(feature = "sim")]
pub(crate) use cygnet::sim::{now, thread};
use cygnet::{Runtime, Scope, Task};
#[cfg(feature = "sim")]
pub(crate) use simulated::{Barrier, Mutex, mpsc};
use std::time::Duration;
#[cfg(not(feature = "sim"))]
pub(crate) use std::{
    sync::{Barrier, Mutex, mpsc},
    thread,
};

/// Leaves the test out of a simulation. The argument says why it cannot be simulated.
#[allow(unused_macros)]
macro_rules! real {
    ($reason:literal) => {
        if $crate::common::leaves_out($reason) {
            return;
        }
    };
}
pub(crate) use real;

/// See [`real!`].
#[cfg(feature = "sim")]
pub(crate) use simulated::leaves_out;

#[cfg(not(feature = "sim"))]
pub(crate) fn leaves_out(_reason: &str) -> bool {
    false
}

/// Whether tests are simulated.
pub(crate) fn in_simulation() -> bool {
    #[cfg(feature = "sim")]
    return simulated::wanted();
    #[cfg(not(feature = "sim"))]
    false
}

#[cfg(not(feature = "sim"))]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// The numbers of workers that every behaviour is shown with.
pub(crate) const WORKERS: [usize; 4] = [1, 2, 3, 8];
/// Many more than any machine of a test has cores.
pub(crate) const MANY: usize = 64;

/// Whether the code runs in an emulator.
pub(crate) fn emulated() -> bool {
    std::env::var_os("CYGNET_EMULATED").is_some()
}

/// Whether a sanitizer watches.
pub(crate) const SANITIZED: bool = cfg!(any(cygnet_asan, cygnet_tsan));

/// Returns `n`, or a part of it where each step takes many times as long.
pub(crate) fn scaled(n: usize) -> usize {
    if in_simulation() {
        return n.div_ceil(200);
    }
    match (cfg!(cygnet_tsan), SANITIZED || emulated()) {
        (true, _) => n.div_ceil(50),
        (_, true) => n.div_ceil(20),
        _ => n,
    }
}

/// A tenth of `n` in a debug build, besides what `scaled` does.
pub(crate) fn scaled_in_debug(n: usize) -> usize {
    scaled(if cfg!(debug_assertions) { n.div_ceil(10) } else { n })
}

pub(crate) fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Shows a behaviour with each of the usual numbers of workers, each within the watchdog's time.
pub(crate) fn with_each(show: impl Fn(&Runtime) + Sync) {
    with(&WORKERS, show);
}

/// As `with_each`, and with a great many workers.
pub(crate) fn with_each_and_many(show: impl Fn(&Runtime) + Sync) {
    with(&WORKERS, &show);
    with(&[MANY], show);
}

/// As `with_each`, with these numbers of workers.
pub(crate) fn with(workers: &[usize], show: impl Fn(&Runtime) + Sync) {
    with_all(workers, &show);
}

/// Shows a behaviour in a task, with each of the usual numbers of workers.
pub(crate) fn in_task(show: impl Fn(&Runtime) + Sync) {
    in_task_with(&WORKERS, show);
}

/// Like `in_task`, and with very many workers.
pub(crate) fn in_task_and_many(show: impl Fn(&Runtime) + Sync) {
    in_task_with(&WORKERS, &show);
    in_task_with(&[MANY], show);
}

/// Like `in_task`, with these numbers of workers.
pub(crate) fn in_task_with(workers: &[usize], show: impl Fn(&Runtime) + Sync) {
    with_all(workers, &|rt| rt.block_on(|| show(rt)));
}

/// Shows a behaviour of runtimes that the test itself ends, with each of the usual numbers of
/// workers.
pub(crate) fn with_own(show: impl Fn(Runtime) + Sync) {
    with_own_of(&WORKERS, show);
}

/// Like `with_own`, with these numbers of workers.
pub(crate) fn with_own_of(workers: &[usize], show: impl Fn(Runtime) + Sync) {
    workers.iter().for_each(|&workers| within(|| show(runtime(workers))));
}

/// Not generic: the test programs take long enough to compile.
fn with_all(workers: &[usize], show: &(dyn Fn(&Runtime) + Sync)) {
    #[cfg(feature = "sim")]
    if simulated::wanted() && !simulated::inside() {
        let all = workers.len();
        for (part, &workers) in workers.iter().enumerate() {
            simulated::check(part, all, &|| show(&runtime(workers)));
        }
        return;
    }
    for &workers in workers {
        within(|| {
            let rt = runtime(workers);
            show(&rt);
        });
    }
}

/// Runs the calling test's `body` in a process of its own. A simulation leaves the test out.
pub(crate) fn in_own_process(body: impl FnOnce()) {
    if !leaves_out("a process of its own") {
        rerun::alone(rerun::test_of(&body), body);
    }
}

/// As `in_own_process`, for a body that leaks on purpose.
pub(crate) fn in_own_process_leaking(body: impl FnOnce()) {
    if !leaves_out("a process of its own") {
        rerun::alone_and_leaking(rerun::test_of(&body), body);
    }
}

/// Runs the calling test's `body`, which ends its process, in a process of its own, and returns the
/// output. Returns `None` in that process, and in a simulation, which leaves the test out.
pub(crate) fn in_child(body: impl FnOnce()) -> Option<std::process::Output> {
    if leaves_out("a process of its own") {
        return None;
    }
    let name = rerun::test_of(&body);
    if rerun::role().is_some() {
        body();
        return None;
    }
    Some(rerun::rerun(name, "child"))
}

/// Runs `f`, which must end within the watchdog's patience; in simulation by each of the seeds.
pub(crate) fn within(f: impl Fn() + Sync) {
    within_seconds(60, f);
}

/// Runs `show` with each of the values, all of them within the watchdog's patience.
pub(crate) fn within_each<T>(
    values: impl IntoIterator<Item = T> + Clone + Sync,
    show: impl Fn(T) + Sync,
) {
    within(|| values.clone().into_iter().for_each(&show));
}

/// Runs `show` `n` times, or a part of that, each time with the number of the round.
pub(crate) fn rounds(n: usize, show: impl Fn(usize) + Sync) {
    within(|| (0..scaled_in_debug(n)).for_each(&show));
}

/// As `within`, and it must end within `seconds` (more where the machine is known to be slow).
pub(crate) fn within_seconds(seconds: u64, f: impl Fn() + Sync) {
    within_all(seconds, &f);
}

/// As `with_all`.
fn within_all(seconds: u64, f: &(dyn Fn() + Sync)) {
    #[cfg(feature = "sim")]
    if simulated::wanted() {
        return if simulated::inside() { f() } else { simulated::check(0, 1, f) };
    }
    watchdog::within_seconds(seconds, f);
}

/// Keeps its worker or thread until `so` returns `true`, and lets other threads run.
pub(crate) fn spin_until(mut so: impl FnMut() -> bool) {
    while !so() {
        thread::yield_now();
    }
}

/// In a task: lets other tasks run until `so` returns `true`.
pub(crate) fn give_way_until(mut so: impl FnMut() -> bool) {
    for turn in 1_u32.. {
        if so() {
            return;
        }
        cygnet::yield_now().unwrap();
        #[cfg(feature = "sim")]
        if simulated::inside() {
            thread::yield_now();
            continue;
        }
        // Other workers need the processor. Where programs compete for it, a yield of the thread
        // costs a turn of each of them, and a rest far less.
        if turn.is_multiple_of(16) {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// In a task: yields until a value comes.
pub(crate) fn received<T>(from: &mpsc::Receiver<T>) -> T {
    let mut value = None;
    give_way_until(|| {
        value = from.try_recv().ok();
        value.is_some()
    });
    value.expect("it has come")
}

/// Opens a scope in a task of the runtime.
pub(crate) fn scope_on<'env, R: Send>(
    rt: &Runtime,
    f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R + Send,
) -> R {
    rt.block_on(|| cygnet::scope(f))
}

/// In a task: runs `body` in `n` tasks, each with its number, and waits for their end.
pub(crate) fn crowd(n: usize, body: impl Fn(usize) + Sync) {
    let body = &body;
    cygnet::scope(|s| (0..n).for_each(|i| drop(s.spawn(move || body(i)))));
}

/// Runs `body` in `n` threads, each with its number, and waits for their end.
pub(crate) fn threads(n: usize, body: impl Fn(usize) + Sync) {
    let body = &body;
    thread::scope(|s| (0..n).for_each(|i| drop(s.spawn(move || body(i)))));
}

/// In a task: yields `n` times.
pub(crate) fn yields(n: usize) {
    (0..n).for_each(|_| cygnet::yield_now().unwrap());
}

/// On a thread: waits for a condition that is not announced.
#[track_caller]
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let start = now();
    let limit = watchdog::patience() / 2;
    while !so() {
        assert!(now() - start < limit, "it is still not so: {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Waits that have parked a task, so far, on all workers.
pub(crate) fn parks(rt: &Runtime) -> u64 {
    rt.metrics().workers.iter().map(|w| w.parks).sum()
}

/// Spawns all tasks, and then joins them in this order.
pub(crate) fn join_all<T: Send>(tasks: impl IntoIterator<Item = Task<T>>) -> Vec<T> {
    let tasks: Vec<_> = tasks.into_iter().collect();
    tasks.into_iter().map(|task| task.join().unwrap()).collect()
}

/// The payload of the panic of `f`, if it panics.
pub(crate) fn payload_of(f: impl FnOnce()) -> Option<Box<dyn std::any::Any + Send>> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).err()
}

/// The text of a panic.
pub(crate) fn text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

/// The panic of `f`, which must panic, as text.
#[track_caller]
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => panic!("it did not panic"),
        Err(payload) => text(&*payload).to_owned(),
    }
}

/// Calls `f`, which must panic with a text that contains `expected`.
#[track_caller]
pub(crate) fn panics_with<R>(expected: &str, f: impl FnOnce() -> R) {
    let said = panic_of(f);
    assert!(said.contains(expected), "{said}");
}

/// A turn of a loop that waits for another thread without yielding to it. In simulation other
/// threads run meanwhile, and time passes.
pub(crate) fn spin_loop() {
    #[cfg(feature = "sim")]
    if simulated::inside() {
        return thread::yield_now();
    }
    std::hint::spin_loop();
}

/// Uses a core for `micros`, without a wait.
pub(crate) fn compute(micros: u64) {
    let start = now();
    while now() - start < Duration::from_micros(micros) {
        spin_loop();
    }
}
