//! An allocator that refuses memory for the records of tasks.

#[path = "common/mod.rs"]
mod common;

use common::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};

/// The captures of a task. Their size distinguishes its record.
type Load = [u64; 53];
const LOAD: usize = size_of::<Load>();

thread_local! {
    /// Blocks that are alive.
    static ALIVE: Cell<usize> = const { Cell::new(0) };
    /// How many times the thread is refused memory for a record.
    static REFUSALS: Cell<u32> = const { Cell::new(0) };
}

struct Refusing;

// SAFETY: the system's allocator, or a null pointer, which means that there is no memory.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let of_record = (LOAD..2 * LOAD).contains(&layout.size());
        let refusals = REFUSALS.try_with(Cell::get).unwrap_or(0);
        if of_record && refusals > 0 {
            REFUSALS.set(refusals - 1);
            return std::ptr::null_mut();
        }
        let _ = ALIVE.try_with(|alive| alive.set(alive.get().wrapping_add(1)));
        // SAFETY: the caller has promised a layout that is not empty.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _ = ALIVE.try_with(|alive| alive.set(alive.get().wrapping_sub(1)));
        // SAFETY: the caller has promised memory of this allocator, which is the system's, and its
        // layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Spawns a task, and has the allocator refuse its record `times` times.
fn refused(times: u32) -> u64 {
    Runtime::builder().workers(1).build().unwrap().block_on(move || {
        // Records that are kept for later.
        (0..100).for_each(|_| spawn(|| ()).join().unwrap());
        let load: Load = std::array::from_fn(|n| n as u64);
        REFUSALS.set(times);
        let task = spawn(move || load.iter().sum::<u64>());
        assert_eq!(REFUSALS.replace(0), 0, "it was not asked");
        task.join().unwrap()
    })
}

#[test]
fn a_refused_worker_gives_kept_memory_back_and_asks_once_more() {
    let sum = (0..53).sum::<u64>();
    assert_eq!(refused(0), sum);
    assert_eq!(refused(1), sum);
}

#[test]
fn a_worker_that_is_refused_twice_ends_the_process_and_says_how_much_it_asked_for() {
    let Some(output) = in_child(|| _ = refused(2)) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("memory allocation of "), "{said}");
}

#[cfg(feature = "sim")]
#[test]
fn a_simulation_starts_in_a_program_that_counts_its_allocations() {
    let before = ALIVE.get();
    let counted = Box::new(before);
    assert_eq!(ALIVE.get(), counted.wrapping_add(1));
    let run = cygnet::sim::run(1, || {
        let rt = Runtime::builder().workers(2).build().unwrap();
        assert_eq!(rt.block_on(|| spawn(|| 2).join().unwrap()), 2);
    });
    assert!(run.is_ok());
}
