//! What the integration tests share: a watchdog, numbers that shrink where the machine is slow, a test
//! in a process of its own, and a view of the process as the system sees it.

#![allow(dead_code, unused_imports)] // no file of tests uses all of it

pub(crate) mod calls;
pub(crate) mod choices;
pub(crate) mod corpus;
pub(crate) mod drops;
pub(crate) mod proc;
pub(crate) mod random;
pub(crate) mod rerun;
#[cfg(feature = "sim")]
pub(crate) mod simulated;
pub(crate) mod watchdog;

pub(crate) use calls::Calls;
pub(crate) use drops::Drops;
pub(crate) use random::Random;
pub(crate) use watchdog::{within, within_seconds};

use cygnet::Runtime;
#[cfg(feature = "sim")]
pub(crate) use cygnet::sim::{now, thread};
#[cfg(not(feature = "sim"))]
pub(crate) use std::thread;

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

/// `n`, or a part of it where each step takes many times as long.
pub(crate) fn scaled(n: usize) -> usize {
    #[cfg(feature = "sim")]
    if simulated::seeds().is_some() {
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

pub(crate) fn with(workers: &[usize], show: impl Fn(&Runtime) + Sync) {
    for &workers in workers {
        #[cfg(feature = "sim")]
        if let Some(seeds) = simulated::seeds() {
            simulated::check(seeds, || show(&runtime(workers)));
            continue;
        }
        within(|| {
            let rt = runtime(workers);
            show(&rt);
        });
    }
}

/// In a task: gives way to others until it is so.
pub(crate) fn give_way_until(mut so: impl FnMut() -> bool) {
    while !so() {
        cygnet::yield_now().unwrap();
        thread::yield_now();
    }
}

/// On a thread: waits until something that announces itself to nobody is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let start = now();
    let limit = watchdog::patience() / 2;
    while !so() {
        assert!(now() - start < limit, "it is still not so: {what}");
        thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// Waits that had to wait, so far, on all workers.
pub(crate) fn parks(rt: &Runtime) -> u64 {
    rt.metrics().workers.iter().map(|w| w.parks).sum()
}

/// What a panic carried, if there was one.
pub(crate) fn payload_of(f: impl FnOnce()) -> Option<Box<dyn std::any::Any + Send>> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).err()
}

/// What a panic said.
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

/// Uses some `micros` of a core, without a wait.
pub(crate) fn compute(micros: u64) {
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_micros(micros) {
        std::hint::spin_loop();
    }
}
