//! The retire queue: records are returned to it, or find it full or closed.

use super::record;
use crate::retire::queue::{BOUND, Custodian, RetireQueue};
use crate::retire::record_pool::RecordPool;
use crate::shim::check::{Baton, ORDERS, Stage, explore_to_the_end, models};
use crate::shim::thread::spawn;
use crate::task::cold::ColdData;
use crate::task::record::Record;
use std::ptr::NonNull;

/// The owner takes custody of records, which two other threads retire, `counts` each. Meanwhile the
/// owner drains the queue `drains` times, and closes it. loom reports a record that is freed twice
/// or not at all, and a use of the queue's atomics after its end.
fn retire_and_close(counts: [usize; 2], drains: usize) {
    let (queue, pool) = (RetireQueue::new(), RecordPool::default());
    // The uses of the records before they were freed.
    let used = Stage::new([(); 2].map(|()| Baton::new()));
    let threads = [0, 1].map(|thread| {
        let records: Vec<_> = (0..counts[thread]).map(|_| custody(queue)).collect();
        spawn(move || {
            used[thread].write();
            for record in records {
                // SAFETY: the record is in custody, and is retired once; no reference is left. The
                // cold data end by `ColdData::end`.
                unsafe { RetireQueue::retire(queue, Record::end(record, ColdData::end)) };
            }
        })
    });
    for _ in 0..drains {
        // SAFETY: this thread is the owner, and closes the queue below.
        let owned = unsafe { Custodian::of(queue) };
        owned.drain(&pool);
        if owned.counters().drained == (counts[0] + counts[1]) as u64 {
            // All records are in the pool, and may be used again.
            for baton in used.iter() {
                baton.write();
            }
        }
    }
    // SAFETY: this thread is the owner, and closes the queue once.
    unsafe { RetireQueue::close(queue, &pool) };
    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// Makes a record that the owner has taken into custody.
fn custody(queue: NonNull<RetireQueue>) -> NonNull<Record> {
    // SAFETY: the model's main thread is the owner.
    unsafe { Custodian::of(queue) }.take_custody();
    record(|| (), true)
}

models! {
    fn loom_records_are_returned_and_the_last_one_frees_the_queue() =
        explore_to_the_end(3, || retire_and_close([1, 1], 1));

    fn loom_a_full_queue_counts_what_it_does_not_keep() =
        explore_to_the_end(3, || retire_and_close([BOUND, 1], 0));

    fn loom_negative_a_retire_queue_without_order() =
        explore_to_the_end(3, || retire_and_close([1, 1], 1)),
        without ORDERS in "retire/queue.rs", fails: "Causality violation";
}
