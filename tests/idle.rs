//! A runtime that has nothing to do does nothing: no processor time, no wake-ups.
//!
//! One test, since it measures the threads of its process by their names.

mod common;

use common::prelude::*;
use cygnet::ring::sequence::WaitStrategy;
use cygnet::ring::{self, Producer, Stage};

/// The processor time that each thread has used, and how often it gave the processor up.
fn used(threads: &[(libc::pid_t, String)]) -> Vec<(u64, u64)> {
    let of = |id| (proc::processor_time(id).unwrap_or(0), proc::voluntary_switches(id));
    threads.iter().map(|(id, _)| of(*id)).collect()
}

/// Starts tasks that wait for an item and for room in rings with unused other ends. They
/// count themselves when they are cut short.
fn wait_at_rings(rt: &Runtime, cut: Count) -> Vec<(Producer<u8>, Stage<u8>)> {
    let of = |strategy| {
        let mut builder = ring::single_producer_with(2, strategy, u8::default);
        (builder.stage(), builder.producer())
    };
    let strategies = [WaitStrategy::Park, WaitStrategy::SpinThenPark];
    strategies
        .map(|strategy| {
            let ((mut waits, writes), (reads, mut full)) = (of(strategy), of(strategy));
            rt.spawn(move || cut.add(usize::from(waits.recv().is_err()))).detach();
            rt.spawn(move || {
                let short = (0..3).any(|item| full.send(item).is_err());
                cut.add(usize::from(short));
            })
            .detach();
            (writes, reads)
        })
        .into()
}

#[test]
fn a_runtime_with_parked_tasks_uses_no_processor_and_is_never_woken() {
    if common::emulated() {
        return; // the emulator has threads and signals of its own
    }
    for workers in [1, 2, 3, 8, common::MANY] {
        common::within(|| {
            let rt = runtime(workers);
            // The runtime has been busy on all workers, and every task that is left waits.
            rt.block_on(|| {
                join_all((0..1_000).map(|_| spawn(|| yields(10))));
            });
            let cut = Count::new();
            let wait = move || cut.add(usize::from(park().is_err()));
            (0..100).for_each(|_| rt.spawn(wait).detach());
            let rings = wait_at_rings(&rt, cut);
            let waiting = 100 + 2 * rings.len();
            eventually("all are parked", || parks(&rt) >= waiting as u64);
            // A thread names itself, and on a busy machine begins late.
            eventually("all threads have begun", || {
                proc::threads_named("cygnet-").len() == workers
            });
            let threads = proc::threads_named("cygnet-");
            // Searches and naps end by themselves. Several looks in a row: on a loaded machine a
            // thread that is awake may not run for a while.
            let (mut before, mut quiet) = (used(&threads), 0);
            eventually("all workers are asleep", || {
                std::thread::sleep(Duration::from_millis(50));
                let now = used(&threads);
                quiet = if now == before { quiet + 1 } else { 0 };
                before = now;
                quiet >= 8
            });
            let watched = Duration::from_millis(if workers == 2 { 1_000 } else { 300 });
            let start = Instant::now();
            // The test shows that nothing happens, so there is nothing to wait for.
            std::thread::sleep(watched);
            let after = used(&threads);
            let elapsed = start.elapsed();
            let time: u64 = after.iter().zip(&before).map(|(a, b)| a.0 - b.0).sum();
            let wakes: u64 = after.iter().zip(&before).map(|(a, b)| a.1 - b.1).sum();
            println!(
                "{workers} workers: {time} ns of processor time, {wakes} wake-ups in {elapsed:?}"
            );
            assert_eq!(wakes, 0, "periodic wake-ups with {workers} workers");
            assert!(u128::from(time) * 1_000 < elapsed.as_nanos(), "{time} ns in {elapsed:?}");
            drop(rt);
            assert_eq!(cut.get(), waiting, "woken by the end, and by nothing else");
        });
    }
}
