//! The memory that tasks and runtimes take and give back. Each test measures a process of its own,
//! and prints its figures (`--nocapture`).

mod common;

use common::prelude::*;
use std::sync::mpsc::channel;

const MIB: u64 = 1 << 20;

/// Makes the allocator return freed memory to the system: records are small pieces of its heap.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Parks `count` tasks at once, wakes them, and looks at the memory of the process meanwhile.
fn park_many(workers: usize, count: usize) {
    within_seconds(500, || {
        let rt = runtime(workers);
        rt.block_on(|| spawn(|| yield_now().unwrap()).join().unwrap());
        let tables = || proc::status("VmPTE:") * 1024;
        let (before, tables_before) = (proc::resident(), tables());
        let start = Instant::now();
        let (tell, told) = channel();
        let ended = Count::new();
        rt.block_on(|| {
            for _ in 0..count {
                let tell = tell.clone();
                cygnet::spawn_unscoped(move || {
                    tell.send(unparker()).unwrap();
                    park().unwrap();
                    ended.up();
                })
                .detach();
            }
        });
        drop(tell);
        let unparkers: Vec<_> = told.iter().take(count).collect();
        eventually("all are parked", || parks(&rt) >= count as u64);
        let parked = start.elapsed();
        // The test itself holds an unparker for each task, and room for it in the channel.
        let own = (unparkers.capacity() * size_of::<cygnet::Unparker>()) as u64;
        let (peak, tables_peak) = (proc::resident(), tables());
        let each = (peak - before - own + tables_peak - tables_before) / count as u64;
        let start = Instant::now();
        unparkers.iter().for_each(cygnet::Unparker::unpark);
        eventually("all have ended", || ended.get() == count);
        let woken = start.elapsed();
        drop(unparkers);
        // A sleeping worker keeps a few warm stacks; a sanitizer keeps what was freed for a while.
        let cap = before + if common::SANITIZED { count as u64 * 8_192 } else { 24 * MIB };
        let mut after = 0;
        eventually("stacks and memory have been given back", || {
            give_back();
            after = proc::resident();
            after < cap && rt.metrics().stacks <= 64 * workers
        });
        println!(
            "{count} parked on {workers} workers: {each} B each with page tables (of these {} B of page \
             tables), parked in {parked:?}, woken and ended in {woken:?}, resident before {} KiB, at the \
             peak {} KiB, after {} KiB; {} stacks",
            (tables_peak - tables_before) / count as u64,
            before / 1024,
            peak / 1024,
            after / 1024,
            rt.metrics().stacks
        );
        drop(rt);
    });
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "the sanitizer uses much more memory itself")]
fn a_hundred_thousand_parked_coroutines_wake_end_and_give_their_memory_back() {
    in_own_process(|| park_many(2, scaled(100_000)));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes a minute in a debug build")]
fn a_million_parked_coroutines_wake_end_and_give_their_memory_back() {
    in_own_process(|| park_many(2, scaled(1_000_000)));
}

#[test]
#[cfg_attr(any(cygnet_asan, cygnet_tsan), ignore = "the sanitizer uses much more memory itself")]
fn runtimes_that_were_built_and_dropped_leave_nothing_behind() {
    if common::emulated() {
        return; // the emulator's own memory grows with the code that it translates
    }
    in_own_process(|| {
        within_seconds(300, || {
            let rounds = scaled_in_debug(10_000).max(200);
            let first = rounds / 10;
            let threads = proc::threads().len();
            // The system removes a thread from its list a moment after it has been joined.
            let all_gone = || {
                eventually("the workers' threads are gone", || proc::threads().len() == threads);
            };
            let (mut maps, mut resident) = (0, 0);
            for round in 0..=rounds {
                assert_eq!(runtime(2).block_on(|| spawn(|| 1).join().unwrap()), 1);
                if round == first {
                    all_gone();
                    (maps, resident) = (proc::maps(), proc::resident());
                }
            }
            all_gone();
            let grown = proc::resident().saturating_sub(resident);
            println!("from round {first} to {rounds}: {grown} B, {maps} to {} maps", proc::maps());
            assert!(proc::maps() <= maps + 2, "{} maps were {maps}", proc::maps());
            // A sanitizer keeps what was freed for a while.
            assert!(grown < 256 << 10 || common::SANITIZED, "{grown} B more than at round {first}");
        });
    });
}

#[test]
fn stacks_are_used_again() {
    in_own_process(|| {
        with_each(|rt| {
            for _ in 0..scaled(1_000) {
                rt.block_on(|| {
                    join_all((0..10).map(|_| spawn(|| yield_now().unwrap())));
                });
            }
            let (most, workers) = (rt.metrics().stacks_high_water, rt.workers());
            // All ten, the root, and a loop for each worker, each on a stack of another worker.
            assert!(most <= 16 * workers, "{most} stacks with {workers} workers");
        });
    });
}

#[test]
fn queued_tasks_have_no_stacks() {
    in_own_process(|| {
        with(&[1], |rt| {
            let count = scaled(200_000);
            rt.block_on(|| {
                let before = proc::resident();
                (0..count).for_each(|_| spawn(|| ()).detach());
                let each = (proc::resident() - before) / count as u64;
                println!("{each} B for each queued task");
                assert!(each < 400 || common::SANITIZED, "{each} B for each queued task");
                assert!(rt.metrics().stacks < 100);
            });
        });
    });
}
