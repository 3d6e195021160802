//! The retire queue: records are returned to it, or find it full or closed.

use super::record;
use crate::retire::queue::{BOUND, RetireQueue};
use crate::retire::record_pool::RecordPool;
use crate::shim::atomic::live_atomics;
use crate::shim::check::{Baton, ORDERS, Stage, explore, plant};
use crate::shim::thread::spawn;
use crate::task::record::Record;
use std::ptr::NonNull;

/// The owner takes custody of records, which two other threads retire, `counts` each. Meanwhile the
/// owner drains the queue `drains` times, and closes it. loom reports a record that is freed twice
/// or not at all, and a use of the queue's atomics after its end.
fn retire_and_close(counts: [usize; 2], drains: usize) {
    let before = live_atomics();
    let (queue, pool) = (RetireQueue::new(), RecordPool::default());
    // The uses of the records before they were freed.
    let used = Stage::new([(); 2].map(|()| Baton::new()));
    let threads = [0, 1].map(|thread| {
        let records: Vec<_> = (0..counts[thread]).map(|_| custody(queue)).collect();
        spawn(move || {
            used[thread].write();
            for record in records {
                // SAFETY: the record is in custody, and is retired once; no reference is left.
                unsafe {
                    let layout = Record::end(record).layout;
                    RetireQueue::retire(queue, record.cast(), layout);
                }
            }
        })
    });
    for _ in 0..drains {
        // SAFETY: this thread is the owner.
        unsafe { queue.as_ref().drain(&pool) };
        // SAFETY: the queue is alive until it is closed below.
        if unsafe { queue.as_ref() }.counters().drained == (counts[0] + counts[1]) as u64 {
            // All records are in the pool, and may be used again.
            for baton in used.iter() {
                baton.write();
            }
        }
    }
    // SAFETY: this thread is the owner, and closes the queue once.
    unsafe { RetireQueue::close(queue, &pool) };
    threads.into_iter().for_each(|t| t.join().unwrap());
    // SAFETY: the threads have ended.
    unsafe { used.end() };
    assert_eq!(live_atomics(), before, "the queue is left over");
}

/// Makes a record that the owner has taken into custody.
fn custody(queue: NonNull<RetireQueue>) -> NonNull<Record> {
    // SAFETY: the model's main thread is the owner.
    unsafe { queue.as_ref().take_custody() };
    record(|| (), true)
}

#[test]
fn loom_records_are_returned_and_the_last_one_frees_the_queue() {
    explore(3, || retire_and_close([1, 1], 1));
}

#[test]
fn loom_a_full_queue_counts_what_it_does_not_keep() {
    explore(3, || retire_and_close([BOUND, 1], 0));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_negative_a_retire_queue_without_order() {
    plant("retire/queue.rs", ORDERS);
    explore(3, || retire_and_close([1, 1], 1));
}
